sig written : pair['b, ..t, n] -> pair['b, ..t, n]
sig scalars : pair['b, n] -> 'b[n]
sig outermost : wide[n] -> f32[3, 2 * n]
sig shaped : pair[i32, ..s, 2 * n + 1] -> i32
sig without_arguments : nothing -> f32
sig kept : pair['b, 2, n] -> (pair['b, 2, n], pair['b, 2, n])
sig rebuilt : pair['b, 2, n] -> { first : 'b[2, n], second : 'b[n] }
sig halved : {h} -> nn.norm[h] -> f32[2 * h]
sig local : f32[n] -> f32[n]
sig inferred : 'a[m, n] -> 'a[m, n] where m >= 1
