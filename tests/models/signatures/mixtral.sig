sig attention : {h, g} -> attention[d, h, g, c] -> f32[b, s, d] -> f32[b, s, d] where h >= 1, c % 2 = 0, h % g = 0
sig gates : i32 -> 'a[..b, i] -> 'a[..b, i]
sig mixture : i32 -> mixture[d, f, e] -> f32[..s, n, d] -> f32[..s, n, d]
sig block : {h, g} -> i32 -> block[d, h, g, c, f, e] -> f32[b, s, d] -> f32[b, s, d] where h >= 1, c % 2 = 0, h % g = 0
sig logits : {h, g} -> i32 -> mixtral[v, n, d, h, g, c, f, e] -> i32[b, s] -> f32[b, s, v] where h >= 1, c % 2 = 0, h % g = 0
sig logits_8x7b : mixtral[32000, 32, 4096, 32, 8, 128, 14336, 8] -> i32[b, s] -> f32[b, s, 32000]
