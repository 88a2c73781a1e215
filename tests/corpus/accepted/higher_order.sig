sig map : ('a -> 'b[..s]) -> 'a[i] -> 'b[i, ..s]
sig zip_with : ('a -> 'b -> 'c[..s]) -> 'a[i] -> 'b[i] -> 'c[i, ..s]
sig matrix : {n, m} -> (i32 -> i32 -> 'a[..s]) -> 'a[n, m, ..s]
sig composed : 'a[..s] -> 'a[..s]
sig derivative : ('a[..s] -> 'b[..t]) -> 'a[..s] -> 'b[..t]
sig iterate : i32 -> ('A -> 'A) -> 'A -> 'A
sig church_two : ('A -> 'A) -> 'A -> 'A
