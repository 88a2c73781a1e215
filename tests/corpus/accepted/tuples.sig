sig swap : ('A, 'B) -> ('B, 'A)
sig second : (i32, i32, i32) -> i32
sig nested : (('a[..s], 'b[..t]), ('a[..s], 'b[..t])) -> ('a[..s], 'b[..t])
sig min_max : 'a[n] -> ('a, 'a) where n >= 1
sig unit : () -> i32
sig pair : 'A -> ('A, 'A)
sig ignore : ('A, 'B) -> 'B
