sig add : 'a[..s] -> 'a[..s] -> 'a[..s]
sig fold3 : ('A -> 'B -> 'A) -> 'A -> 'B -> 'B -> 'A
sig running : 'a[i] -> 'a[i]
sig all_of : bool -> bool -> bool
