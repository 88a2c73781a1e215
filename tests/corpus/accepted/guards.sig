sig join : 'a[n] -> 'a[m] -> 'a[n + m]
sig previous : 'a[n] -> 'a[n]
sig causal : 'a[..b, i, j] -> 'a[..b, i, j]
sig local_maxima : 'a[n] -> bool[n]
sig increasing : 'a[n] -> bool
sig set_row : 'a[n, m] -> i32 -> 'a[m] -> 'a[n, m]
sig bidiagonal : 'a[n] -> 'a[n - 1] -> 'a[n, n]
sig small_at : f32[n] -> i32 -> bool
