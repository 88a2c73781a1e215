sig step : 'a[..s]? -> 'a[..s]? -> 'a[..s]? -> 'a[..s]
sig steps : 'a[..s]? -> 'a[..s]? -> 'a[..s]? -> 'a[..s]
sig stepped : f32[n] -> f32[n, m] -> (f32[n], f32[n], f32, f32[n, m])
sig simulate : i32 -> 'a[..s]? -> 'a[..s] -> 'a[..s] -> ('a[..s], 'a[..s])
sig adam : 'a[..s]? -> 'a[..s]? -> 'a[..s]? -> 'a[..s]? -> 'a[..s]? -> 'a[..s]? -> ('a[..s], 'a[..s], 'a[..s])
sig pagerank : {n} -> f32[n]? -> f32[n, n] -> i32 -> f32[n]
sig update : 'a[..s]? -> ('a[..s], 'a[..s]) -> 'a[..s]
sig updated : f32[n, m] -> f32[n, m] -> f32[n, m]
sig fit : f32[d, d]? -> f32[n, d] -> f32[d, d]
sig fitted : f32[1, 1]
sig scale : 'a[..s]? -> 'a[..s]? -> 'a[..s]
sig scaled : f32[2]
sig softmax : 'a[i]? -> 'a[i]? -> 'a[i]
sig cooler : f32[n] -> f32[n]
sig relu : 'a[..s] -> 'a[..s]
sig total : 'a[..s] -> 'a[..s]? -> 'a
sig derivative : ('a[..s] -> 'b[..t]) -> 'a[..s] -> 'b[..t]
sig apart : 'a[..s] -> 'a[..s] -> 'a[..s] -> 'a[..s]
sig partial : 'a[..s]? -> 'a[..s] -> 'a[..s] -> 'a[..s]
sig axpy : 'a[..s]? -> 'a[..s] -> 'a[..s]? -> 'a[..s]
sig shift : f32[n] -> f32[n]? -> f32[n]
sig shifted : f32[n] -> f32[n]
sig lerp : 'a[..s]? -> 'a[..s] -> 'a[..s] -> 'a[..s]
sig blend : 'a[..s]? -> 'a[..s]? -> 'a[..s]? -> 'a[..s]
sig inner : f32[n] -> f32[n]
sig closed : f32[n] -> (f32[n], f32[n])
