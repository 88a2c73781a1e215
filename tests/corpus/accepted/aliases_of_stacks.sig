sig dense : linear[d, k] -> f32[..s, n, d] -> f32[..s, n, k]
sig block : block[f32, d] -> f32[..s, n, d] -> f32[..s, n, d]
sig ones : { up : { w : f32[2, 1, 4], b : f32[2, 4] }, down : { w : f32[2, 4, 1], b : f32[2, 1] }, scale : f32[2, 1] }
sig network : block[f32, n, d] -> f32[..s, m, d] -> f32[..s, m, d]
sig deep : block[f32, n, m, d] -> f32[..s, k, d] -> f32[..s, k, d]
sig rows : linear[..s, n, d, k] -> f32[..s, n]
sig scalar : f32 -> f32[n, m] -> f32[n, m]
sig both : (f32[..s], f32[..t]) -> f32[..s]
sig explicit : linear[..s, d, k] -> f32[..s, k]
