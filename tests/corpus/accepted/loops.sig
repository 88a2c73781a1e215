sig power : 'a -> i32 -> 'a
sig fibonacci : i32 -> i32
sig triangle : i32 -> i32
sig newton : 'a[..s] -> 'a[..s]
sig gradient_descent : f32 -> i32 -> f32[n, d] -> f32[n] -> f32[d] -> f32[d]
sig matrix_power : 'a[n, n] -> i32 -> 'a[n, n]
sig gcd : 'a -> 'a -> 'a
sig conjugate_gradient : f64[n, n] -> f64[n] -> f64 -> i32 -> (f64[n], f64[n], f64[n], i32)
sig lengths : i32[n] -> i32[n]
sig momentum : f32 -> (f32[n] -> f32[n]) -> i32 -> f32[n] -> f32[n]
