"""Attention in a few lines of Axon, by what is done to the scores: what benchmarks of attention run."""

from __future__ import annotations

HEAD = """
fun softmax x = for ..i j =>
  let val m = max k => x[..i, k]
      val z = sum k => exp (x[..i, k] - m)
  in exp (x[..i, j] - m) / z end

fun scores (q : bf16[b, h, s, d]) (k : bf16[b, h, s, d]) =
  for b h i j => (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h, j, c]) * rsqrt (cast f32 d)

fun apply (x : f32[b, h, s, s]) (v : bf16[b, h, s, e]) =
  let val p = softmax x in for b h i e => cast bf16 (sum j => p[b, h, i, j] * cast f32 v[b, h, j, e]) end

"""
QKV = "(q : bf16[b, h, s, d]) (k : bf16[b, h, s, d]) (v : bf16[b, h, s, e])"


def changed(body: str, first: str = "") -> str:
    return f"{HEAD}fun f {first}{QKV} = let val x = scores q k in apply (for b h i j => {body}) v end"


SOURCES = {
    "full": changed("x[b, h, i, j]"),
    "causal": changed("if j <= i then x[b, h, i, j] else -inf"),
    "soft cap": changed("30.0 * tanh (x[b, h, i, j] / 30.0)"),
    "ALiBi": changed("if j <= i then x[b, h, i, j] + slope[h] * cast f32 (j - i) else -inf", "(slope : f32[h]) "),
    "window 1024": changed("if j <= i andalso i - j < 1024 then x[b, h, i, j] else -inf"),
    "64 over 8 heads": HEAD
    + """fun f {g} (q : bf16[b, n * g, s, d]) (k : bf16[b, n, s, d]) (v : bf16[b, n, s, e]) =
  let val x = for b h i j => (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h / g, j, c]) * rsqrt (cast f32 d)
      val p = softmax (for b h i j => if j <= i then x[b, h, i, j] else -inf)
  in for b h i e => cast bf16 (sum j => p[b, h, i, j] * cast f32 v[b, h / g, j, e]) end
""",
}
