sig flatten : 'a[i, j] -> 'a[i * j]
sig split_heads : {h} -> 'a[..b, j, h * c] -> 'a[..b, h, j, c] where h >= 1
sig merge_heads : 'a[..b, i, j, c] -> 'a[..b, j, i * c]
sig interleave : 'a[i] -> 'a[i] -> 'a[2 * i]
sig kron : 'a[i, j] -> 'a[k, l] -> 'a[i * k, j * l]
sig space_to_depth : {r} -> 'a[n, c, r * i, r * j] -> 'a[n, c, r, r, i, j] where r >= 1
