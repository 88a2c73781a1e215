sig conv : { k : f32[e, w], b : f32[e] } -> f32[b, s, e] -> f32[b, s, e]
sig after : ('a[..s], 'a[..s]) -> ('a[..s], 'a[..s]) -> ('a[..s], 'a[..s])
sig ssm : ssm[e, n, r] -> f32[i, t, e] -> f32[i, t, e]
sig block : block[d, e, n, r, w] -> f32[i, t, d] -> f32[i, t, d]
sig logits : mamba[v, m, d, e, n, r, w] -> i32[b, s] -> f32[b, s, v]
sig logits_130m : mamba[50280, 24, 768, 1536, 16, 48, 4] -> i32[b, s] -> f32[b, s, 50280]
