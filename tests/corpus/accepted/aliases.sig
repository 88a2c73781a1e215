sig apply : layer[d, k] -> f32[d] -> f32[k]
sig total : 'a[..s, n] -> 'a[..s]
sig both : (layer[d, 4 * d], layer[4 * d, d]) -> f32[d] -> f32[d]
