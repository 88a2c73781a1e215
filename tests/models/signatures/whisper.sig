sig conv1d : {s} -> conv[o, c, 3] -> f32[b, c, t] -> f32[b, o, (t - 1) / s + 1] where s >= 1
sig sinusoids : {t, d} -> f32[t, 2 * (d / 2)]
sig attention : {h} -> attention[d] -> f32[..b, j, d] -> f32[..b, j, d] where d % h = 0
sig mlp : mlp[d] -> f32[..b, d] -> f32[..b, d]
sig block : {h} -> block[d] -> f32[..b, j, d] -> f32[..b, j, d] where d % h = 0
sig encode : {h} -> encoder[m, n, d] -> f32[b, m, t] -> f32[b, (t + 1) / 2, d] where d % 2 = 0, d % h = 0
sig encode_base : encoder[80, 6, 512] -> f32[b, 80, 3000] -> f32[b, 1500, 512]
