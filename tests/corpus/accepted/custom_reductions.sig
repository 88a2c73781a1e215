sig product : 'a[i] -> 'a
sig cumulative : 'a[i] -> 'a[i]
sig cumulative_max : 'a[i] -> 'a[i]
sig join : ('a[..s], 'a[..s]) -> ('a[..s], 'a[..s]) -> ('a[..s], 'a[..s])
sig normalizer : f32[n] -> (f32, f32)
sig after : ('a[..s], 'a[..s]) -> ('a[..s], 'a[..s]) -> ('a[..s], 'a[..s])
sig recurrence : f32[n] -> f32[n] -> f32[n]
sig cumulative_rows : 'a[i, j] -> 'a[i, j]
