sig two_types : 'A -> 'B -> ('A, 'B)
sig two_ranks : f32[n] -> f32[n, k] -> (f32[n], f32[n, k])
sig two_sizes : f32[n] -> f32[m] -> f32
sig captured : f32 -> f32[n] -> (f32, f32[n])
