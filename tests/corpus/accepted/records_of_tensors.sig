sig example : batch[n, d] -> i32 -> { x : f32[d], y : i32 }
sig first : (f32[n, m], i32[n]) -> (f32[m], i32) where n >= 1
sig shuffle : batch[n, d] -> i32[n] -> { x : f32[n, d], y : i32[n] }
sig multiply : complex -> complex -> { re : f32, im : f32 }
sig pointwise : { re : f32[n], im : f32[n] } -> { re : f32[n], im : f32[n] } -> { re : f32[n], im : f32[n] }
