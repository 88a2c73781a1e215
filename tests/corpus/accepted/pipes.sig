sig clean : 'a[..s] -> 'a[..s]
sig total : 'a[..i] -> 'a
sig scaled_total : 'a -> 'a[..i] -> 'a
sig after_sum : 'a[..s] -> 'a[..s]
