sig scaled : line[d] -> f64 -> line[d]
sig descended : f64 -> line[d] -> line[d] -> line[d]
sig of_one_shape : 'a[..s] -> 'a -> { a : 'a[..s], b : 'a[..s] }
sig doubled : 'a[..s] -> { a : 'a[..s], b : 'a[..s] }
