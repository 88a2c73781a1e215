sig none : f32[m] -> f32[0]
sig one : f32[m] -> f32[1] where m >= 1
sig second : f32[n] -> f32 where n >= 2
sig third : f32[n] -> f32 where n >= 3
sig part : f32[n] -> f32[2] where n >= 3
sig first_three : f32[n] -> f32 where n >= 3
sig k : i32
sig fourth : f32[n] -> f32 where n >= 4
