sig mean : 'a[n] -> 'a
sig narrow : f32[3] -> f32[3]
sig ones_like : f32[n] -> f32[n]
sig same : 'a[n] -> 'a[n]? -> 'a[n]
sig table : i64[3]
sig result : f32[n, 2] -> f32[n, 2]
