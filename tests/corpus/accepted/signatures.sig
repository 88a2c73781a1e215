sig scale : f32 -> f32[n] -> f32[n]
sig identity : 'a[..s] -> 'a[..s]
sig matmul : 'a[i, k] -> 'a[k, j] -> 'a[i, j]
sig pick : {k} -> f32[n] -> f32[k] where k <= n
sig table : f64[2, 2]
