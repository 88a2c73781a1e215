sig positions : bool[n] -> ?k <= n. i32[k]
sig select : bool[n] -> 'a[n] -> ?k <= n. 'a[k]
sig count : bool[n] -> i32
sig mean_positive : f32[n] -> f32
