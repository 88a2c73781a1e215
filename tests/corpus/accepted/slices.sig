sig middle : 'a[n] -> 'a[n - 2] where n >= 2
sig first_row : 'a[n, m] -> 'a[m] where n >= 1
sig column : 'a[n, j] -> 'a[j, n]
sig top : {k} -> 'a[n, ..s] -> 'a[k, ..s] where k <= n
sig evens : 'a[n] -> 'a[(n + 1) / 2]
sig even_odd : 'a[2 * n] -> ('a[n], 'a[n]) where n >= 1
sig corner : 'a[n, m] -> 'a[2, 2] where n >= 2, m >= 2
sig rotate_half : 'a[2 * n] -> 'a[2 * n]
sig last : 'a[n] -> 'a where n >= 1
sig drop : {k} -> 'a[n] -> 'a[n - k] where k <= n
