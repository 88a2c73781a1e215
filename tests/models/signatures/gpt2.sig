sig attention : {h} -> attention[d] -> f32[..b, i, d] -> f32[..b, i, d] where d % h = 0
sig mlp : mlp[d] -> f32[..b, d] -> f32[..b, d]
sig block : {h} -> block[d] -> f32[..b, i, d] -> f32[..b, i, d] where d % h = 0
sig logits : {h} -> gpt2[v, t, n, d] -> i32[b, s] -> f32[b, s, v] where s <= t, d % h = 0
sig logits_small : gpt2[50257, 1024, 12, 768] -> i32[b, s] -> f32[b, s, 50257] where s <= 1024
