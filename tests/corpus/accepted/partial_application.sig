sig affine : 'a[..s]? -> 'a[..s]? -> 'a[..s]? -> 'a[..s]
sig shift : f32[..s] -> f32[..s] -> f32[..s]
sig twice : ('A -> 'A) -> 'A -> 'A
sig compose : ('A -> 'B) -> ('C -> 'A) -> 'C -> 'B
sig flip : ('A -> 'B -> 'C) -> 'B -> 'A -> 'C
sig constant : 'A -> 'B -> 'A
sig activate : ('a -> 'b[..t]) -> 'a[..s, n] -> 'b[..s, n, ..t]
