sig embed : nn.conv[d, c, r, r] -> f32[b, c, r * i, r * j] -> f32[b, i * j, d] where r >= 1
sig layer_norm : nn.norm[d] -> f32[..b, d] -> f32[..b, d]
sig attention : {heads} -> attention[d] -> f32[b, i, d] -> f32[b, i, d] where d % heads = 0
sig mlp : mlp[d, m] -> f32[..b, d] -> f32[..b, d]
sig block : {heads} -> block[d, m] -> f32[b, i, d] -> f32[b, i, d] where d % heads = 0
sig logits : {heads} -> vit[c, h, w, r, n, d, m, k] -> f32[b, c, h, w] -> f32[b, k] where d % heads = 0, h % r = 0, w % r = 0
sig logits_b16 : vit[3, 224, 224, 16, 12, 768, 3072, 1000] -> f32[b, 3, 224, 224] -> f32[b, 1000]
