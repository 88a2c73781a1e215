sig sliced : {k, m} -> f32[n] -> f32 where max (-k) (n - m) >= 0
sig both : {k, m} -> f32[n] -> f32 where max (-k) (max (1 - m) (n - m)) >= 0
sig equal : {k, m} -> f32[n] -> f32 where max (-k) (max (k - 2) (n - m)) >= 0
sig other : {k, m} -> f32[n] -> f32 where max (k - 1) (n - m) >= 0, max (1 - k) (n - m) >= 0
sig within : {k, m} -> f32[n] -> f32[k] where m <= n
sig remainder : {k, m} -> f32[n] -> f32 where max (-k) (n - 1) >= 0
sig quotient : {k, m} -> f32[n] -> f32 where max (-k) (n - 1) >= 0, max (-k) (n - m / max 1 n - 1) >= 0
sig number : {k, m} -> f32[n] -> i32 where max (-k) (n - 1) >= 0
sig divided : {m} -> f32[n] -> f32 where max (-n) (n * n + n - m - 1) >= 0
sig gap : {m, k} -> f32[n] -> f32 where max (k - n) (n * n + n - k * n - m - k - 1) >= 0
sig nested : {k, m} -> f32[n] -> f32 where max (-k) (n - 1) >= 0, max (-k) (max (n * (m / max 1 n) - m) (n * (m / max 1 n) + n - m - m / max 1 n)) >= 0
