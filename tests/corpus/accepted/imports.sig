sig probabilities : 'a[..b, j] -> 'a[..b, j]
sig layer : nn.linear[d, k] -> f32[..b, d] -> f32[..b, k]
sig cosine : 'a[i] -> 'a[i] -> 'a
