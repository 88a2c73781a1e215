sig rotated : u32 -> u32[..s] -> u32[..s]
sig mixed : u32[i] -> u32[i] -> u32[i]
sig ones : u8[n] -> u8[n]
sig nibbles : u8[n, k] -> i8[n, k, 2]
sig turned : 'a[..s] -> 'a[..s]
sig parity : 'a[i] -> 'a
sig taken : 'a[n] -> u32[m] -> 'a[m]
