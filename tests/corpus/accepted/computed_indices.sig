sig gather : 'a[n] -> i32[i] -> 'a[i]
sig embedding : 'a[n, j] -> i32[..i] -> 'a[..i, j]
sig take_along : 'a[i, n] -> i32[i] -> 'a[i]
sig best : 'a[n] -> 'b[i] -> 'a where i >= 1
sig wrap : 'a[n] -> i32[m] -> 'a[m]
sig clamped : 'a[n] -> i32[m] -> 'a[m]
sig rotate : 'a[n] -> i32 -> 'a[n]
sig permute : 'a[n] -> i32[i] -> 'a[i]
sig pick : 'a[n, m] -> i32[2] -> 'a
