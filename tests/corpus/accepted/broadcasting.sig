sig scaled : f32[..s] -> f32 -> f32[..s]
sig add_row : 'a[n, k] -> 'a[k] -> 'a[n, k]
sig add_column : 'a[n, k] -> 'a[n, 1] -> 'a[n, k]
sig table : 'a[n, 1] -> 'a[1, m] -> 'a[n, m]
sig plain : 'a[..s]? -> 'a[..s]? -> 'a[..s]
sig compare : f32[n, m] -> f32[m] -> bool[n, m]
sig scalars_lift : f32[n] -> f32[n]
sig line : f32 -> f32
sig lifted : f32[n] -> f32[n]
