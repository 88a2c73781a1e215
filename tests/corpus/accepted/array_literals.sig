sig primes : i32[4]
sig sobel : f32[3, 3]
sig rotation : 'a[..s] -> 'a[2, 2, ..s]
sig stack : 'a[..s] -> 'a[..s] -> 'a[2, ..s]
sig edges : f32[n, m] -> f32[n - 2, m - 2] where n >= 2, m >= 2
sig third : 'a[n] -> i32
sig mixed : f32[2]
