sig dense : { w : f32[d, k], b : f32[k] } -> f32[..s, n, d] -> f32[..s, n, k]
sig block : { up : { w : f32[d, 4 * d], b : f32[4 * d] }, down : { w : f32[4 * d, d], b : f32[d] }, scale : f32[d] } -> f32[..s, n, d] -> f32[..s, n, d]
sig ones : { up : { w : f32[2, 1, 4], b : f32[2, 4] }, down : { w : f32[2, 4, 1], b : f32[2, 1] }, scale : f32[2, 1] }
sig network : { up : { w : f32[n, d, 4 * d], b : f32[n, 4 * d] }, down : { w : f32[n, 4 * d, d], b : f32[n, d] }, scale : f32[n, d] } -> f32[..s, m, d] -> f32[..s, m, d]
sig deep : { up : { w : f32[n, m, d, 4 * d], b : f32[n, m, 4 * d] }, down : { w : f32[n, m, 4 * d, d], b : f32[n, m, d] }, scale : f32[n, m, d] } -> f32[..s, k, d] -> f32[..s, k, d]
sig rows : { w : f32[..s, n, d, k], b : f32[..s, n, k] } -> f32[..s, n]
sig scalar : f32 -> f32[n, m] -> f32[n, m]
sig both : (f32[..s], f32[..t]) -> f32[..s]
sig explicit : { w : f32[..s, d, k], b : f32[..s, k] } -> f32[..s, k]
