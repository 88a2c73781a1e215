sig halves : 'a[n] -> 'a[2, n / 2] where n % 2 = 0
sig pairs : 'a[n] -> 'a[2, n / 2] where n % 2 = 0
sig head : {k} -> 'a[n] -> 'a[k] where k <= n
sig square : 'a[n, m] -> 'a[n] where n = m
sig grouped : {g} -> f32[h, d] -> f32[l, d] -> f32[h] where g * l = h
