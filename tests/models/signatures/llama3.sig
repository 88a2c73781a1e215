sig rope : f32 -> f32[..b, s, c] -> f32[..b, s, c] where c % 2 = 0
sig attention : {h, g} -> attention[d, h, g, c] -> f32[b, i, d] -> f32[b, i, d] where h >= 1, c % 2 = 0, h % g = 0
sig block : {h, g} -> block[d, h, g, c, f] -> f32[b, i, d] -> f32[b, i, d] where h >= 1, c % 2 = 0, h % g = 0
sig logits : {h, g} -> llama3[v, n, d, h, g, c, f] -> i32[b, s] -> f32[b, s, v] where h >= 1, c % 2 = 0, h % g = 0
sig logits_8b : llama3[128256, 32, 4096, 32, 8, 128, 14336] -> i32[b, s] -> f32[b, s, 128256]
