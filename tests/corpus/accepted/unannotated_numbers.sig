sig sgd : f32 -> layer[d, h] -> layer[d, h] -> layer[d, h]
sig decayed : f32 -> f32 -> layer[d, h] -> layer[d, h] -> layer[d, h]
sig averaged : f32 -> layer[d, h] -> layer[d, h] -> layer[d, h]
sig norm : layer[d, h] -> f32
sig clipped : f32 -> layer[d, h] -> layer[d, h]
sig update : 'a[..s]? -> 'a[..s]? -> 'a[..s]? -> 'a[..s]
sig updated : f32 -> layer[d, h] -> layer[d, h] -> layer[d, h]
sig single : f32 -> f32 -> f32 -> f32
sig lifted : f32 -> layer[d, h] -> layer[d, h] -> layer[d, h]
sig locally : f32 -> layer[d, h] -> layer[d, h] -> layer[d, h]
sig trained : f32 -> f32 -> i32 -> layer[d, h] -> layer[d, h] -> layer[d, h]
sig scaled : 'a -> 'a[i] -> 'a[i]
sig nested : 'a -> 'a[i, j] -> 'a[i]
sig sums : 'a -> 'a -> 'a[i] -> 'a[i]
sig both : 'a -> 'a[..s] -> 'a[i] -> ('a[..s], 'a[i])
sig rotary : f32 -> f32[..b, s, 2 * d] -> f32[..b, s, 2 * d]
sig rows : 'a[..s]? -> 'a[i, ..s] -> 'a[i, ..s]
sig mapped : ('a -> 'b[..s]) -> 'a[..i] -> 'b[..i, ..s]
sig copies : {n} -> 'a[..s] -> 'a[n, ..s]
sig midpoint : ('a[..s] -> 'a[..t] -> 'a[..t]) -> 'a -> 'a[..s] -> 'a[..t] -> 'a[..t]
sig rk4 : ('a -> 'a[..s] -> 'a[..s]) -> 'a -> i32 -> 'a[..s] -> 'a[..s]
sig heun : ('a[..s] -> 'a[..t] -> 'a[..t]) -> 'a -> ('a[..s], 'a[..t]) -> ('a[..s], 'a[..t])
sig known : ('a[..s] -> 'a[n] -> 'a[n]) -> 'a -> 'a[..s] -> 'a[n] -> 'a[n]
sig pendulum : f64 -> f64[2] -> f64[2]
sig swing : i32 -> f64[2] -> f64[2]
sig decay : 'a[..s]? -> 'a[..s]? -> 'a[..s]? -> 'a[..s]
sig euler : ('a -> 'a[..s] -> 'a[..s]) -> 'a -> i32 -> 'a[..s] -> 'a[..s]
sig decays : i32 -> f64[n, m] -> f64[n, m]
sig apply : ('a -> 'A -> 'B) -> 'A -> 'B
sig stepped : f32[n] -> f32[n]
sig step : 'a[..s]? -> 'a[..s]? -> 'a[..s]
sig handed : f32[n] -> f32[n]
sig lerp : 'a[..s]? -> 'a[..s]? -> 'a[..s]? -> 'a[..s]
sig turned : 'a[..s]? -> 'a[..s]? -> 'a[..s]? -> 'a[..s]? -> ('a[..s], 'a[..s])
sig both_scaled : 'a[..s]? -> ('a[..s], 'a[..s]) -> ('a[..s], 'a[..s])
sig relaxed : ('a[..s] -> 'a[..s]) -> 'a[..s]? -> 'a[..s] -> 'a[..s]
sig combined : ('a[..s] -> 'a[..s] -> 'A) -> 'a[..s]? -> 'a[..s]? -> 'a[..s]? -> 'A
sig shifted : ('a[..s] -> 'a[..s] -> 'a[..s]) -> 'a[..s]? -> 'a[..s]? -> 'a[..s]? -> 'a[..s]
sig apart : ('a[..s] -> 'a[..s] -> 'A) -> 'a[..s]? -> 'a[..s] -> 'a[..s] -> ('A, 'a[..s], 'a[..s])
sig newton : (f32[n] -> f32[n] -> f32[n]) -> f32[n] -> f32[n] -> f32[n]
sig dot : 'a[i] -> 'a[i] -> 'a
sig searched : ('a[i] -> 'a) -> ('a[i] -> 'a[i]) -> 'a -> 'a -> i32 -> 'a[i] -> 'a[i]
sig bowl : f64[2] -> f64
sig minimum : f64[2] -> f64[2]
