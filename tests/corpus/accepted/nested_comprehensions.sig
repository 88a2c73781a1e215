sig rows : 'a[i, j] -> 'a[i, j]
sig normalized : f32[n, m] -> f32[n, m]
sig polar : f32[n] -> f32[n] -> (f32[n], bool[n])
sig statistics : f32[n, m] -> { low : f32[n], high : f32[n], all : f32[n, m] }
sig constant_rows : {n} -> f32[m] -> f32[n, m]
