sig between : (f32[n] -> f32[k]) -> (f32[k] -> f32) -> f32[n] -> (f32, i32)
sig measured : (f32[n] -> f32) -> i32
sig ignored : f32[m] -> (f32[n] -> f32) -> f32[m]
sig compose : ('A -> 'B) -> ('B -> 'C) -> 'A -> 'C
sig total : 'a[i] -> 'a
sig halved : f32[m] -> (f32, i32)
sig known : f32[m] -> i32
sig unread : f32[m] -> f32[m]
sig applied : f32[m] -> (f32, i32)
sig never_applied : f32[m] -> f32[m]
sig twice_as_many : f32[m] -> i32
