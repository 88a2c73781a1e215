sig fixed : f32[n] -> f32[16]
sig same_size : f32[n] -> f32[m] -> f32[n]
sig rows : f32[n, m] -> f32[n, 4]
