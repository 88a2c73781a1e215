sig unflattened : f32[n, m] -> f32[n * m]
sig transposed : f32[n * m] -> f32[m, n] -> f32[n * m]
sig rolled : {k} -> f32[n] -> f32[n]
sig cycled : f32[n] -> f32[m] -> f32[n] where m >= 1
sig tiled : {k} -> f32[m] -> f32[k * m]
sig table : f32[n] -> f32[m] -> f32[n] where min 8 n <= m
sig previous : f32[n] -> f32[n]
sig next : f32[n] -> f32[n]
sig at_least_three : f32[n] -> f32[m] -> f32[n] where n <= m, m >= 4
sig recent : f32[n] -> f32[n]
sig mirrored : f32[n] -> f32[2 * n]
