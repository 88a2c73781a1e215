sig attend : {h} -> { q : f32[d, d], k : f32[d, d], v : f32[d, d], o : f32[d, d] } -> f32[..s, j, d] -> f32[..s, j, d] where d % h = 0
sig block : {h} -> { attend : { q : f32[d, d], k : f32[d, d], v : f32[d, d], o : f32[d, d] }, norm : { scale : f32[d], shift : f32[d] }, up : { w : f32[d, 4 * d], b : f32[4 * d] }, down : { w : f32[4 * d, d], b : f32[d] } } -> f32[..s, j, d] -> f32[..s, j, d] where d % h = 0
sig grouped_attention : 'a[b, h, i, c] -> 'a[b, h, j, c] -> 'a[b, h, j, e] -> 'a[b, h, i, e]
