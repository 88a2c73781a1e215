sig lower_sums : 'a[n, n] -> 'a[n]
sig count_positive : 'a[i] -> i32
sig histogram : {bins} -> i32[i] -> i32[bins]
sig masked_max : bool[n] -> f32[n] -> f32
sig segment_sum : {k} -> i32[n] -> f32[n, d] -> f32[k, d]
sig inversions : 'a[n] -> i32
sig first_true : bool[n] -> f32
sig without_self : f32[n] -> f32[n]
