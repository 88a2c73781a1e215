sig scale : f32 -> f32[n] -> f32[n]
sig identity : 'a[..s] -> 'a[..s]
sig matmul : 'a[i, k] -> 'a[k, j] -> 'a[i, j]
sig pick : {k} -> f32[n] -> f32[k] where k <= n
sig table : f64[2, 2]
sig renamed : {k} -> 'b[d] -> 'b[k] where k <= d
sig crossed : f32[n] -> f32[m] -> f32[m, n]
sig layered : pair['a, ..t, i] -> 'a[..t, i]
sig special : f32[3] -> f32
sig halved : f32[k] -> f32 where k % 2 = 0
sig shared : f32[n * m] -> f32[m] -> f32[n, m] where m >= 1
