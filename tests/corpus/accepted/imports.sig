sig probabilities : 'a[..b, j] -> 'a[..b, j]
sig layer : { w : f32[d, k], b : f32[k] } -> f32[..b, d] -> f32[..b, k]
sig cosine : 'a[i] -> 'a[i] -> 'a
