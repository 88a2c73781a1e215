sig conv : nn.conv[o, c, r, s] -> f32[n, c, h, w] -> f32[n, o, h - r + 1, w - s + 1] where r <= h + 1, s <= w + 1
sig double : double[o, c] -> f32[n, c, h, w] -> f32[n, o, h - 4, w - 4] where h >= 4, w >= 4
sig halve : 'a[b, c, 2 * i, 2 * j] -> 'a[b, c, i, j]
sig widen : { k : f32[c, o, 2, 2], b : f32[o] } -> f32[b, c, i, j] -> f32[b, o, 2 * i, 2 * j]
sig beside : f32[b, c, h, w] -> f32[b, d, i, j] -> f32[b, c + d, i, j] where i <= h, j <= w
sig up : up[o] -> f32[n, o, h, w] -> f32[n, 2 * o, i, j] -> f32[n, o, 2 * i - 4, 2 * j - 4] where 2 * i <= h, 2 * j <= w, i >= 2, j >= 2
sig logits : unet[c, w, k] -> f32[n, c, 16 * i + 124, 16 * j + 124] -> f32[n, k, 16 * i - 60, 16 * j - 60] where i >= 4, j >= 4
sig logits_2015 : unet[1, 64, 2] -> f32[b, 1, 572, 572] -> f32[b, 2, 388, 388]
