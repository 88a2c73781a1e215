sig attend : {h} -> attention[d] -> f32[..s, j, d] -> f32[..s, j, d] where d % h = 0
sig block : {h} -> block[d] -> f32[..s, j, d] -> f32[..s, j, d] where d % h = 0
sig grouped_attention : 'a[b, h, i, c] -> 'a[b, h, j, c] -> 'a[b, h, j, e] -> 'a[b, h, i, e]
