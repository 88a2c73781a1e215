sig apply : { w : f32[d, k], b : f32[k] } -> f32[d] -> f32[k]
sig total : 'a[..s, n] -> 'a[..s]
sig both : ({ w : f32[d, 4 * d], b : f32[4 * d] }, { w : f32[4 * d, d], b : f32[d] }) -> f32[d] -> f32[d]
