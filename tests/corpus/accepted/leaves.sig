sig halves : net[d, h] -> { up : { w : f32[d, h], b : f32[h] }, down : { w : f32[h, d], b : f32[d] }, scale : f32 }
sig sums : net[d, h] -> { up : { w : f32[d, h], b : f32[h] }, down : { w : f32[h, d], b : f32[d] }, scale : f32[..s] } -> { up : { w : f32[d, h], b : f32[h] }, down : { w : f32[h, d], b : f32[d] }, scale : f32[..s] }
sig descended : f32 -> 'a[..s] -> 'a[..s] -> 'a[..s]
sig sgd : f32 -> net[d, h] -> net[d, h] -> net[d, h]
sig norm : net[d, h] -> f32
sig scaled : f32 -> 'a[..s] -> 'a[..s]
sig clipped : f32 -> net[d, h] -> net[d, h]
sig adam_leaf : f32 -> i32 -> 'a[..s] -> f32[..s] -> f32[..s] -> 'a[..s] -> { w : 'a[..s], m : f32[..s], v : f32[..s] }
sig adam : f32 -> i32 -> net[d, h] -> moments[d, h] -> moments[d, h] -> net[d, h] -> (net[d, h], { up : { w : f32[d, h], b : f32[h] }, down : { w : f32[h, d], b : f32[d] }, scale : f32 }, { up : { w : f32[d, h], b : f32[h] }, down : { w : f32[h, d], b : f32[d] }, scale : f32 })
sig momentum : i32 -> net[d, h] -> moments[d, h] -> net[d, h] -> (net[d, h], moments[d, h])
sig exchanged : (f32[n], (f32, f32[m])) -> (f32[n], (f32, f32[m]))
sig alone : f32[n] -> f32[n]
sig largest : (f32[n], f32[m]) -> f32
sig totals : { w : f32[n, d], b : f32[n] } -> f32[n]
sig doubled : { w : f32[n, d], b : f32[n] } -> { w : f32[n, d], b : f32[n] }
