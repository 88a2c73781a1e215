sig inside : 'a[..s]? -> 'a[..s]? -> 'a[..s]? -> bool[..s]
sig xor : bool[..s]? -> bool[..s]? -> bool[..s]
sig differs : 'a[..s]? -> 'a[..s]? -> bool[..s]
sig differs_too : 'a[..s]? -> 'a[..s]? -> bool[..s]
sig in_either : 'a[n] -> 'a -> 'a -> bool[n]
sig contains : 'a[i] -> 'a -> bool
sig sorted : 'a[n] -> bool
