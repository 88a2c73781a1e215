sig differences : 'a[n] -> 'a[n - 1] where n >= 1
sig tail : 'a[n] -> 'a[n - 1] where n >= 1
sig every_other : 'a[n] -> 'a[(n + 1) / 2]
sig odd : 'a[n] -> 'a[n / 2]
sig reverse : 'a[n] -> 'a[n]
sig conv1d : 'a[n] -> 'a[r] -> 'a[n - r + 1] where r <= n + 1
sig conv2d : 'a[n, c, h, w] -> 'a[o, c, r, s] -> 'a[n, o, h - r + 1, w - s + 1] where r <= h + 1, s <= w + 1
sig strided : {s} -> 'a[n] -> 'a[r] -> 'a[(n - r) / s + 1] where s >= 1, r <= s + n
sig dilated : {d} -> 'a[n] -> 'a[r] -> 'a[d + n - d * r] where d * r <= d + n
sig moving_average : {w} -> 'a[n] -> 'a[n - w + 1] where w <= n + 1
sig windows : {w} -> 'a[n] -> 'a[n - w + 1, w] where w <= n + 1
sig pairs : 'a[2 * n] -> ('a[n], 'a[n])
sig hankel : {n} -> 'a[m] -> 'a[n, m - n + 1] where n <= m + 1
