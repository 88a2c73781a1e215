sig first : 'a[n, ..s] -> 'a[..s] where n >= 1
sig gather_rows : 'a[n, ..s] -> i32[i] -> 'a[i, ..s]
sig last_axis_first : 'a[..s, n] -> 'a[n, ..s]
sig reversed : 'a[n, ..s] -> 'a[n, ..s]
