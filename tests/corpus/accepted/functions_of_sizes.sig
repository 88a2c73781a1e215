sig half : 'a[..s] -> 'a[..s]
sig length : 'a[n] -> i32
sig padded : 'a[..s]? -> 'a[..s] -> 'a[..s]
sig smaller : 'a -> 'a -> 'a
sig iota : {n} -> i32[n]
sig first : f32[n] -> f32[n / 2]
sig every : f32[n] -> f32[n / 2]
sig halves : f32[n] -> f32[n / 2]
sig named : f32[n] -> f32[n / 2]
sig grown : f32[n] -> f32[n + 2]
sig common : f32[n] -> f32[m] -> f32[min n m]
sig lengths : f32[n] -> f32[n]
sig sizes : { w : f32[n] } -> i32[n]
sig at : f32[n] -> f32 where n >= 1
sig stepped : f32[n] -> f32
sig unfolded : f32[n] -> f32[n / 2]
sig data : f32[n] -> i32 -> f32[n]
sig counted : f32[n] -> i32[n]
sig both : f32[n] -> f32[m] -> i32[2 * ((n + m) / 2)]
sig local : f32[n] -> i32[(n + 1) / 3]
