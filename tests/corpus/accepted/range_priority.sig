sig stated : 'a[n + 1] -> 'a[n]
sig agree : 'a[i] -> 'a[i] -> 'a[i]
sig declared : f32[n] -> f32[n]
sig affine : 'a[n] -> 'a[(n + 1) / 3]
sig smallest : 'a[n] -> 'a[n - 2] where n >= 2
sig guarded : bool -> 'a[i] -> 'a[i] -> 'a[i]
