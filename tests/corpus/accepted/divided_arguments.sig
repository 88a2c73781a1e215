sig tops : {g} -> 'a[g * o] -> 'a[o] where g >= 1
sig grouped : f32[g * h, d] -> f32[h, d] -> f32[g, h] where h >= 1
sig chunks : {g} -> 'a[g * j] -> 'a[g, j] where g >= 1
sig each_first : 'a[c] -> 'a[1] where c >= 1
sig some_first : 'a[c] -> 'a[1] where c >= 1
sig parts_of : {g} -> 'a[c] -> 'a[c / g] where c % g = 0
sig as_many : f32[h, d] -> f32[h, d] -> f32[1, h] where h >= 1
sig columns : 'a[n] -> 'a[n, 1] where n >= 1
sig depthwise : 'a[b, c, h, w] -> 'a[c * o, 1, r, s] -> 'a[b, c * o, h - r + 1, w - s + 1] where c >= 1, r <= h + 1, s <= w + 1
sig depthwise_of_3 : f32[b, c, h, w] -> f32[c, 1, 3, 3] -> f32[b, c, h, w] where c >= 1, h >= 2, w >= 2
sig merged : f32[n, h, d / h] -> f32[d, k] -> f32[n, k] where d % h = 0
