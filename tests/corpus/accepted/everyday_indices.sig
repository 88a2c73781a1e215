sig pool : f32[b, c, h, w] -> f32[b, c, h / 2, w / 2]
sig window : {w} -> f32[h, v, c] -> f32[h / w, v / w, w, w, c] where h % w = 0, v % w = 0
sig reverse : {w} -> f32[a, b, w, w, c] -> f32[w * a, w * b, c] where w >= 1
sig shuffle : {r} -> f32[r * r * c, h, w] -> f32[c, r * h, r * w] where r >= 1
sig unshuffle : {r} -> f32[c, h, w] -> f32[r * r * c, h / r, w / r] where h % r = 0, w % r = 0
sig gqa : {g} -> f32[b, h, s, d] -> f32[b, g, t, d] -> f32[b, h, s, t] where g <= h, h % g = 0
sig local : {w} -> f32[s, d] -> f32[s, d] -> f32[s, 2 * w + 1]
sig rel : f32[s, d] -> f32[2 * s - 1, d] -> f32[s, s]
sig up : f32[c, h, w] -> f32[c, 2 * h, 2 * w]
sig frames : {hop, win} -> f32[n] -> f32[(n - win) / hop + 1, win] where hop >= 1, win <= n, win >= 1
sig interleave : f32[n] -> f32[n] -> f32[2 * n]
sig bandpart : {l, u} -> f32[n, m] -> f32[n, m]
sig blockdiag : f32[n, m] -> f32[k, l] -> f32[n + k, m + l]
sig segment : {g} -> f32[n, d] -> i32[n] -> f32[g, d]
sig prefix : f32[n, d] -> f32[m, d] -> f32[n, d] where n <= m
sig masked : f32[b, s, d] -> f32[b, t, d] -> bool[b, t] -> f32[b, s, t]
sig strided : {s} -> f32[n] -> f32[(n - 1) / s + 1] where s >= 1
sig halves : f32[s, 2 * d] -> f32[s, d]
sig mixed : f32[n, d] -> f32[e, d, k] -> i32[n] -> f32[n, k]
sig dist : f32[n, d] -> f32[n, d] -> f32[n, n]
sig crop : {a, b} -> f32[h, w] -> f32[a, b] where a <= h, b <= w
sig cropto : f32[h, w] -> f32[a, b] -> f32[a, b] where a <= h, b <= w
sig skew : f32[n, m] -> f32[n, n + m - 1] where n + m >= 1
sig toeplitz : f32[n] -> f32[m] -> f32[n, m] where n >= 1, m >= 1
sig bilinear : f32[h, w] -> f32[2 * h, 2 * w] where h >= 1, w >= 1
sig squeeze : f32[n, m] -> f32[n, 1]
sig batches : {k} -> f32[n, d] -> f32[32 * k, d]
sig halfband : f32[n] -> f32[m] -> f32[m] where n = 2 * m
sig tri : f32[n] -> f32[n]
sig conv1 : f32[c, n] -> f32[o, c, r] -> f32[o, n] where r % 2 = 1
sig shift : i32[b, t] -> i32 -> i32[b, t]
sig teacher : f32[t, d] -> bool[t] -> f32[t, d]
sig tail : {k} -> f32[n] -> f32[k] where k <= n
sig ring : {k} -> f32[n] -> f32[n, k] where k >= 1
sig gather : f32[n, m] -> i32[n, k] -> f32[n, k]
sig diff2 : f32[n] -> f32[n - 2] where n >= 2
sig upsampled : {s, w} -> f32[w * h] -> f32[s * h, s * w] where w >= 1
sig unpatched : {r} -> f32[r * q, p * p] -> f32[q * p, r * p] where r >= 1
sig unwindowed : {w, h, k} -> f32[h / w * (k / w), w * w, c] -> f32[h, k, c] where h % w = 0, k % w = 0
sig gridded : {p} -> f32[h, w] -> f32[h / p * (w / p), p * p] where h % p = 0, w % p = 0
sig neighbours : f32[h * w] -> f32[h] -> f32[h * w] where h >= 1
sig butterfly : {h} -> f32[2 * h * m] -> f32[2 * h * m] where h >= 1
sig backwards : {k} -> f32[n] -> f32[n] where n % k = 0
sig turned : {k} -> f32[n] -> f32[n] where n % k = 0
sig exchanged : f32[2 * n] -> f32[2 * n]
sig triples : f32[n] -> f32[n] where n % 3 = 0
sig ringed : {k} -> f32[n] -> f32[n] where k <= n, k >= 1
