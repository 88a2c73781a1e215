sig probabilities : 'a[..b, j] -> 'a[..b, j]
sig layer : { w : f32[d, k], b : f32[k] } -> f32[..s, n, d] -> f32[..s, n, k]
sig cosine : 'a[i] -> 'a[i] -> 'a
