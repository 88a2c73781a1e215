sig iota : {n} -> i32[n]
sig repeat : {n} -> 'a[..s] -> 'a[n, ..s]
sig one_hot : {classes} -> i32 -> i32[classes]
sig grid : {h, w} -> i32[h, w]
sig use_them : f32[n] -> f32[n]
sig chunks : {k} -> 'a[k * j] -> 'a[k, j] where k >= 1
sig linspace : {n} -> 'a -> 'a -> 'a[n]
