sig half : {k} -> f32[n] -> f32[m] -> f32[n + m / 2 - k] where n <= k, 2 * k <= 2 * n + m, m <= 2 * n + 1
sig third : {k} -> f32[n] -> f32[m] -> f32[n + m / 3 - k] where n <= k, 3 * k <= 3 * n + m, m <= 3 * n + 2
sig quarter : {k} -> f32[n] -> f32[m] -> f32[n + (n + m) / 4 - k] where n <= k, 4 * k <= 5 * n + m, m <= 3 * n + 3
sig sixth : {k} -> f32[n] -> f32[n + n / 6 - k] where 6 * k <= 7 * n, n <= k
