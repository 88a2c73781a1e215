sig masked : 'a[i, j] -> bool[j] -> 'a[i, j]
sig total : 'a[i, j] -> bool[i] -> 'a
sig padded : f32[n] -> f32[m] -> f32[m]
sig prefix : f32[n] -> f32[m] -> f32[m]
sig first : f32[n] -> f32[m] -> bool -> f32[m]
sig stated : f32[n] -> bool[k] -> f32[k] where k <= n
