sig inside : f32[n] -> f32[m] -> f32[k] -> f32[n] where n < k
sig outside : f32[n] -> f32[m] -> f32[k] -> f32 where n >= 1, n < k
sig bound : f32[n] -> f32[m] -> f32[n]
