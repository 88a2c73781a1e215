sig flip_last : 'a[..i, k, j] -> 'a[..i, j, k]
sig sum_last : 'a[..i, j] -> 'a[..i]
sig total : 'a[..i] -> 'a
sig first_of_all : 'a[..i, n] -> 'a[..i] where n >= 1
sig weighted : 'a[j] -> 'a[..i, j] -> 'a[..i, j]
sig outer : 'a[..i] -> 'a[..j] -> 'a[..i, ..j]
sig head : 'a[n, ..s] -> 'a[..s] where n >= 1
sig around : 'a[..s] -> 'a[..s] -> ('a[..s], 'a[..s])
sig bounded : 'a[..s] -> f32[..s]
sig mean_all : f32[n, ..s] -> f32[..s]
