sig three : i32
sig tau : f32
sig tiny : f32
sig increment : 'a[..s] -> 'a[..s]
sig half : 'a[..s] -> 'a[..s]
sig zeros : {n} -> i32[n]
sig ones : {n} -> f32[n]
sig precise : f64 -> f64
sig unbounded : 'a[..s] -> 'a[..s]
