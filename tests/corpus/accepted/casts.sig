sig truncate : f32 -> i32
sig widen : bf16[..s] -> f32[..s]
sig to_bool : i32[n] -> bool[n]
sig mean : 'a[n] -> 'a
sig like : 'a -> 'b -> 'a
sig mixed : f16[i, k] -> f16[k, j] -> f32[i, j]
sig quantize : f32[n] -> i8[n]
sig cast_all : 'a[..s] -> f32[..s]
