sig flatten : 'a[i, j] -> 'a[i * j]
sig split_heads : {h} -> 'a[..b, j, h * c] -> 'a[..b, h, j, c] where h >= 1
sig merge_heads : 'a[..b, i, j, c] -> 'a[..b, j, i * c]
sig interleave : 'a[i] -> 'a[i] -> 'a[2 * i]
sig kron : 'a[i, j] -> 'a[k, l] -> 'a[i * k, j * l]
sig column : 'a[n] -> 'a[n, 1]
sig columns : 'a[2 * n] -> 'a[2 * n, 1]
sig each_alone : i32[n] -> i32[n]
sig first_of_each : 'a[n] -> 'a[n]
sig between : 'a[h, d] -> 'a[h * d] -> 'a[h, 1, d]
sig of_the_shorter : 'a[min n m] -> 'a[n, m] -> 'a[min n m, 1]
sig rows : {h} -> 'a[h * j] -> 'a[h, j] where h >= 1
sig one_column : 'a[n] -> 'a[n, 1] where n >= 1
sig space_to_depth : {r} -> 'a[n, c, r * i, r * j] -> 'a[n, c, r, r, i, j] where r >= 1
