sig unit : {s} -> unit[o, c, r] -> f32[n, c, h, w] -> f32[n, o, (h - r % 2) / s + 1, (w - r % 2) / s + 1] where s >= 1
sig bottleneck : {s} -> bottleneck[c, m] -> f32[n, c, h, w] -> f32[n, 4 * m, (h - 1) / s + 1, (w - 1) / s + 1] where s >= 1
sig stage : {s} -> stage[c, m, n] -> f32[k, c, h, w] -> f32[k, 4 * m, (h - 1) / s + 1, (w - 1) / s + 1] where s >= 1
sig logits : resnet[w, n1, n2, n3, n4, k] -> f32[n, 3, h, m] -> f32[n, k]
sig logits_50 : resnet[64, 2, 3, 5, 2, 1000] -> f32[b, 3, 224, 224] -> f32[b, 1000]
