sig adjacency : {n} -> i32[m] -> i32[m] -> f32[n, n]
sig normalized : 'a[i, i] -> 'a[i, i]
sig logits : gcn[c, h, f] -> f32[i, i] -> f32[i, c] -> f32[i, f]
sig logits_cora : gcn[1433, 16, 7] -> f32[2708, 2708] -> f32[2708, 1433] -> f32[2708, 7]
