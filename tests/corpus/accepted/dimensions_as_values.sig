sig size : 'a[n] -> i32
sig area : 'a[h, w] -> i32
sig positions : f32[n, d] -> f32[n, d]
sig shadowed : 'a[n] -> f32
sig biggest : 'a[n] -> 'a[m] -> i32
sig average_index : f32[n] -> f32
