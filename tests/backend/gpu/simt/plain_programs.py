"""Small programs whose kernels are plain: every family of nests, by lanes and by rows."""

SOURCE = """
import nn
fun gelu (x : T[n, d]) = for i j => 0.5 * x[i, j] * (1.0 + erf (x[i, j] * 0.7071))
fun softmax (x : T[n, d]) = for i j =>
  let val m = max k => x[i, k]
      val z = sum k => exp (x[i, k] - m)
  in exp (x[i, j] - m) / z end
fun layer_norm (x : T[n, d]) (g : T[d]) (c : T[d]) = nn.layer_norm {scale = g, shift = c} x
fun rowsum (x : T[n, d]) = for i => sum j => x[i, j]
fun colsum (x : T[n, d]) = for j => sum i => x[i, j]
fun total (x : T[n, d]) = sum i j => x[i, j]
fun totals (x : T[n, d]) = (sum i j => x[i, j], max i j => x[i, j], (sum i j => x[i, j] ** 2.0) / 3.0, any i j => x[i, j] > 1.0)
fun shift (x : T[n, d]) = for i j => x[i, j - 1 | 0.0] + x[i, j]
fun cum (x : T[n, d]) = for i => scan (op +, 0.0) j => x[i, j]
fun cumcol (x : T[n, d]) = for i j => let val c = for j => scan (op +, 0.0) i => x[i, j] in c[j, i] end
fun best (x : T[n, d]) = for i => argmax j => x[i, j]
fun worst (x : T[n, d]) = for i => argmin for j where j % 3 <> 0 => x[i, j]
fun embed (x : T[n, d]) = for i < n, j => x[(i * 7) % n, j]
fun transpose (x : T[n, d]) = for j i => x[i, j]
fun symmetric (x : T[d, d]) = for i j => x[i, j] + x[j, i]
fun batched (x : T[n, d]) = for k < 3, j i => x[i, j] * cast _ (k + 1)
fun crossed (x : T[n, d]) = for j i => if i + j > 3 then exp x[i, j] else x[i, j] - x[i, 0]
fun mask (x : T[n, d]) = for i j => if j <= i then x[i, j] else -1.0
fun lower (x : T[n, d]) = for i => sum for j where j <= i => x[i, j]
fun ragged (x : T[n, d]) = for i => sum for j where j < cast i32 (3.0 * x[i, 0] + 2.0) => x[i, j]
fun uneven (x : T[n, d]) = for j => max for i where i <= cast i32 (3.0 * x[0, j]) andalso x[i, j] < 2.0 => x[i, j]
fun within (x : T[n, d]) = for i => sum for j k where cast i32 (2.0 * x[i, j]) > k - 2 => x[k, j]
fun outer (x : T[n, d]) = for i j, k < 3 => x[i, j] * cast _ k
fun rounded (x : T[n, d]) = let val y = for i j => cast bf16 x[i, j] in (y, for i => sum j => cast f32 y[i, j]) end
fun variance (x : T[n, d]) = for i => let val m = (sum j => x[i, j]) / cast _ d in sum j => (x[i, j] - m) ** 2.0 end
fun twice (x : T[n, d]) = (for i => max j => x[i, j], for i => min j => x[i, j])
fun wide (x : T[n, d]) = nn.softmax x
fun averages (x : T[n, d]) = for i => scan (fn a b => a * 0.0 + b, 0.0) j => x[i, j]
fun turned (x : T[n, d]) = for i, j < 2 * (d / 2) => if j < d / 2 then -x[i, j + d / 2] else x[i, j - d / 2]
fun rotary (x : T[n, 2 * d]) = for i, j < 2 * d =>
  if j < d then x[i, j] * x[0, j] - x[i, j + d] else x[i, j] + x[i, j - d] * x[0, j - d]
fun doubled (x : T[n, d]) = for i, j < 2 * d => if not (j >= d) andalso 0 <= j then x[i, j] * 2.0 else x[i, j - d] + cast _ (j / 3)
fun copies (x : T[n, d]) = for i, j < 2 * d => x[i, j % d]
fun halfway (x : T[n, d]) =
  let val y = for i, j < 2 * d =>
        let val low = j < d in if j < d then exp x[i, j] * (if low then 1.0 else 2.0) else x[i, j - d] end
  in (y, for i, j < 2 * d => if x[i, 0] > 0.0 then y[i, j] * 2.0 else if d <= j then -y[i, j] else y[i, j]) end
fun beyond (x : T[n, d]) = for i, j < 2 * d => if j + 1 > d then x[i, j - d] else if j + 1 = d then 0.0 else x[i, j] - x[i, j + 1]
fun apart (x : T[n, d]) = for i j => sqrt (sum k => (x[i, k] - x[j, k]) * (x[i, k] - x[j, k])) + x[j, 0]
fun farthest (x : T[n, d]) = for i j => max k => x[i, k] - x[j, k]
fun windows (x : T[n, d]) = for o < 5, p < n, q < d => sum for r < 2, s < 3 => x[p + r, q + s | 0.0] * x[o - r, s | 0.5]
fun pairs (x : T[n, d]) = for b < 2, i < n, j < n => sum k => x[i + b, k | 0.25] * x[j - 2 * b, k | 0.5]
fun last (x : T[n, d]) = for i < n, j < n, e < d => sum for r < 3 => x[i + r, e | 0.0] * x[j - r, e | 0.5]
fun columns (x : T[n, d]) = for i < 5, j => sum k => x[k, i | 0.5] * x[k, j]
fun product (x : T[n, d]) = for i j => sum k => x[i, k] * x[j, k]
fun neighbours (x : T[n, d]) = for i => let val e = for j => exp x[i, j] in sum for j where j >= 1 => e[j] * e[j - 1] end
fun anyall (x : T[n, d]) = (for i => any j => x[i, j] > 1.0, for i => all j => x[i, j] < 3.0)
fun counts (x : T[n, d]) = for i => sum j => if x[i, j] > 0.0 then 1 else 0
fun halves (x : T[n, d]) = for i, j < d / 2 => x[i, j] * x[i, j + d / 2] - x[i, 2 * j]
fun custom (x : T[n, d]) = for i => reduce (fn a b => max a b, -inf) j => x[i, j]
fun peaks (x : T[n, d]) = for j => argmax i => x[i, j]
fun first (x : T[n, d]) = for j => reduce (fn a b => if a <> 0.0 then a else b, 0.0) i => x[i, j]
fun until (x : T[n, d]) = for i < n => argmax for j < i + 1 => x[i, j | 0.0]
fun running (x : T[n, d]) = for i < n => sum for k < i + 1 => max j => x[k, j]
fun below (x : T[n, d]) = for j < d => sum for i < j + 1 => x[i, j | 0.0]
fun special (x : T[n, d]) = for i j =>
  let val y = abs x[i, j] + 1.0 in asinh y * digamma y - atan2 x[i, j] y + erfinv (0.2 * tanh y) end
fun ratios (x : T[n, d]) = for i j => x[i, j] / x[i, 0]
fun choose (x : T[n, d]) = for i < n, j => if i > 0 andalso x[i - 1, j] > 0.0 then x[i - 1, j] else 0.0
fun larger (x : T[n, d]) = for j < d + 3, i < n + 5 => if i < n andalso j < d then x[i, j] else 0.5
fun moved (x : T[n, d]) = for j < d + 3, i => x[i, j - 1 | 0.0]
fun sliced (x : T[n, d]) = for j < d - 3, i => x[i, j + 3]
fun boxes (x : T[n, d]) = for k < 3 => sum for i, j < d - 2 => x[i, j + k]
fun deviations (x : T[n, d]) = for k < 2 =>
  let val m = max for i, j < d - 1 => x[i, j + k] in sum for i, j < d - 1 => abs (x[i, j + k] - m) end
fun heads (x : T[n, d]) = let val y = for h < 3, i j => x[i, j] * cast _ (h + 1) in for i (h, j) => y[h, i, j] end
fun grouped (x : T[n, d]) =
  let val y = for g < 3, h < 2, i j => if g = 1 then x[i, j] else x[i, j] * cast _ (h + 1) in for i (g, h, j) => y[g, h, i, j] end
fun interleaved (x : T[n, 2 * d]) =
  let val y = for i, j < d, p < 2 =>
        if p = 0 then x[i, 2 * j] * x[0, j] - x[i, 2 * j + 1] else x[i, 2 * j + 1] * x[0, j] + x[i, 2 * j]
  in for i (j, p) => y[i, j, p] end
fun repeated (x : T[n, d]) = for i, j < 4 * d => x[i, j / 4] + cast _ (j % 4)
fun thirds (x : T[n, d]) = for i, j < 3 * d => x[i, j / 3] - cast _ (j % 3)
fun offbeat (x : T[n, d]) = for i, j < 2 * d => x[i, (j + 1) / 2 | 0.0] + x[i, j / 2 + 1 | 1.0] * cast _ (j - j / 2)
fun backwards (x : T[n, d]) = for i, j < d => x[i, 4 * (j / 4) + 3 - j % 4 | 0.5] + x[i, j % 4 | 0.0]
"""
INTEGERS = """
fun add (x : T[n, d]) = for i j => x[i, j] * 3 - x[i, d - 1 - j]
fun sums (x : T[n, d]) = (for i => sum j => x[i, j], for j => max i => x[i, j])
fun quotients (x : T[n, d]) = for i j => x[i, j] / 3 + x[i, j] % 5
fun floats (x : T[n, d]) = for i j => cast f32 x[i, j] * 0.5
fun powers (x : T[n, d]) = for i j => x[i, j] ** 3
fun bits (x : T[n, d]) = for i j =>
  bit_xor (shift_left x[i, j] 3) (bit_or (shift_right x[i, j] 2) (bit_and (bit_not x[i, j]) (shift_left x[i, 0] x[i, j])))
fun shares (x : T[n, d]) = for i => sum for j where j % 2 = 1 => x[i, x[i, j] % 7 / cast _ (j % 2) | 0]
fun farthest (x : T[n, d]) = for i j => max k => x[i, k] - x[j, k]
fun product (x : T[n, d]) = for i j => sum k => x[i, k] * x[j, k]
fun near (x : T[n, d]) = for i j => any k => x[i, k] = x[j, k]
"""
NAMES = tuple(line.split()[1] for line in SOURCE.splitlines() if line.startswith("fun "))
WHOLE = tuple(line.split()[1] for line in INTEGERS.splitlines() if line.startswith("fun "))
