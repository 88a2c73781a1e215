sig total : 'a[i, j] -> 'a
sig product : 'a[i] -> 'a
sig largest : f32[n] -> f32
sig smallest : f32[n] -> f32
sig some : 'a[i] -> bool
sig every : 'a[..i] -> bool
sig top : f32[n] -> i32 where n >= 1
sig bottom : f32[n] -> i32 where n >= 1
sig where_max : f32[n, m] -> (i32, i32) where n >= 1, m >= 1
sig variance : f32[n] -> f32
sig log_sum_exp : 'a[..i, j] -> 'a[..i]
