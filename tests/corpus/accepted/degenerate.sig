sig empty_sum : f32[0] -> f32
sig nothing : () -> i32
sig empty_max : f32[0] -> f32
sig int_max : i32[n] -> i32 where n >= 1
sig int_argmin : 'a[i] -> i32 where i >= 1
sig singleton : 'a[..s] -> 'a[1, ..s]
sig squeeze : 'a[n, 1] -> 'a[n]
sig unsqueeze : 'a[..i] -> 'a[..i, 1]
