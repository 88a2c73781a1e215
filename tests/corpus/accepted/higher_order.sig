sig map : ('a -> 'b[..s]) -> 'a[i] -> 'b[i, ..s]
sig zip_with : ('a -> 'b -> 'c[..s]) -> 'a[i] -> 'b[i] -> 'c[i, ..s]
sig matrix : {n, m} -> (i32 -> i32 -> 'a[..s]) -> 'a[n, m, ..s]
sig composed : 'a[..s] -> 'a[..s]
sig derivative : ('a[..s] -> 'b[..t]) -> 'a[..s] -> 'b[..t]
sig iterate : i32 -> ('A -> 'A) -> 'A -> 'A
sig church_two : ('A -> 'A) -> 'A -> 'A
sig attend : (f32 -> 'a) -> f32[..b, s, d] -> f32[..b, j, d] -> 'a[..b, j, c] -> 'a[..b, s, c]
sig scores : ('a -> i32 -> i32 -> 'b) -> 'a[..b, i, d] -> 'a[..b, j, d] -> 'b[..b, i] where j >= 1
sig added : ('a -> 'b[..s]) -> 'a[..i] -> 'b[..i, ..s] -> 'b[..i, ..s]
sig inside : f32[n, m] -> (f32[n, m], bool[n, m])
