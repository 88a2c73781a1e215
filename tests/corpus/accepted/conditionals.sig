sig clamp : 'a -> 'a -> 'a[i] -> 'a[i]
sig choose : bool -> f32[n] -> f32[n] -> f32[n]
sig leaky : 'a[..s] -> 'a[..s]
sig either : bool -> (i32, f32)
sig both : bool -> 'a[..s] -> { a : 'a[..s], b : bool }
