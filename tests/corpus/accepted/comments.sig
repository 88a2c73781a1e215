sig inc : 'a[..s] -> 'a[..s]
sig one : i32
