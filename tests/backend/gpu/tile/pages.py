"""Attention over caches in pages, drawn at random: how pages lie, who says where they are, what is read of them; and in float64."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import ml_dtypes
import numpy as np

SOURCE = """import nn
fun f{explicit} (q : {e}[b, {heads}, s, d]) (keys : {e}[{key_shape}]) (values : {e}[{value_shape}]) (page : {index}[{table}]) (lengths : i32[b]) =
  let val k = for b < b, h < n, j < {extent}, c => {key}
      val v = for b < b, h < n, j < {extent}, c => {value}
      val x = for b h i j => (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, {of}, j, c]) * rsqrt (cast f32 d)
      val w = nn.softmax (for b h i j => if {mask} then x[b, h, i, j] else -inf)
  in for b h i e => cast {e} (sum j => w[b, h, i, j] * cast f32 v[b, {of}, j, e]) end
"""  # fmt: skip


@dataclass(frozen=True)
class Paged:
    """How keys and values lie and are read. `kind` says what becomes of pages that are none: the program stops (`checked`), they are
    zeros (`padded`), or nothing behind the length is asked for (`guarded`). Rows end `behind` rows before the last page does."""

    rows: int
    heads_first: bool = False
    kind: str = "checked"
    table: str = "page[b, j / {rows}]"
    index: str = "i32"
    element: str = "bf16"
    group: int = 1
    behind: int = 0
    masked: bool = True

    @property
    def source(self) -> str:
        lies = ("p, n, {rows}, {c}" if self.heads_first else "p, {rows}, n, {c}").format
        at = "{page}, h, j % {rows}, c" if self.heads_first else "{page}, j % {rows}, h, c"
        inside = at.format(page=self.table.format(rows=self.rows), rows=self.rows)
        read = f"{{of}}[{inside}{' | 0.0' if self.kind == 'padded' else ''}]"
        if self.kind == "guarded":
            read = f"if j < lengths[b] then {read} else 0.0"
        return SOURCE.format(
            explicit=" {g}" if self.group > 1 else "", e=self.element, heads="n * g" if self.group > 1 else "n",
            key_shape=lies(rows=self.rows, c="d"), value_shape=lies(rows=self.rows, c="e"), index=self.index,
            table={"page[b, ": "b, m", "page[j /": "m", "page[b, h": "b, n, m"}[max((s for s in ("page[b, ", "page[j /", "page[b, h") if self.table.startswith(s)), key=len)],
            extent=f"{self.rows} * m - {self.behind}" if self.behind else f"{self.rows} * m",
            key=read.format(of="keys"), value=read.format(of="values"), of="h / g" if self.group > 1 else "h",
            mask="j < lengths[b]" if self.masked else "j >= 0",
        )  # fmt: skip


@dataclass(frozen=True)
class Call:
    """Arguments, and the result in float64. What no row may see is NaN."""

    arguments: list[Any]
    explicit: list[int]
    expected: Any


def call(form: Paged, chance: Random, b: int, n: int, s: int, m: int, d: int, e: int) -> Call:
    rng = np.random.default_rng(chance.randrange(2**32))
    dtype = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}[form.element]
    extent = form.rows * m - form.behind
    count = b * m + chance.randint(0, 3)
    heads = n * form.group
    per_head = form.table.startswith("page[b, h")
    shape = (b, n, m) if per_head else (m,) if form.table.startswith("page[j /") else (b, m)
    page = rng.integers(0, count, shape)
    if chance.random() < 0.7 and page.size <= count:
        page = rng.permutation(count)[: page.size].reshape(shape)  # else some are shared
    lengths = np.array([chance.choice([0, 1, extent, chance.randint(0, extent)]) for _ in range(b)])
    if form.kind != "guarded" or not form.masked:
        lengths = np.maximum(lengths, 1)

    def cache(width: int) -> Any:
        lies = (count, n, form.rows, width) if form.heads_first else (count, form.rows, n, width)
        return rng.standard_normal(lies).astype(dtype)

    q = rng.standard_normal((b, heads, s, d)).astype(dtype)
    keys, values = cache(d), cache(e)
    used = np.zeros((count, n, form.rows), bool)  # by pages, heads and rows
    at = np.arange(extent)
    whole = np.broadcast_to(page[:, None] if page.ndim == 2 else page[None, None] if page.ndim == 1 else page, (b, n, m))
    if form.kind != "checked":  # pages that are none, or were used for something else
        bad = chance.choice([-1, count, 2**31 - 1, -(2**31)] + ([2**40, -(2**33), 2**32] if form.index == "i64" else []))
        if form.kind == "padded":
            page = np.where(rng.random(page.shape) < 0.2, bad, page)
        elif page.ndim == 2 or (page.ndim == 3):
            behind = np.arange(m) * form.rows >= lengths.reshape((b,) + (1,) * (page.ndim - 1))
            page = np.where(behind, bad, page)
        whole = np.broadcast_to(page[:, None] if page.ndim == 2 else page[None, None] if page.ndim == 1 else page, (b, n, m))
    k, v = np.zeros((b, n, extent, d)), np.zeros((b, n, extent, e))
    for batch in range(b):
        for head in range(n):
            for j in at:
                if form.kind == "guarded" and j >= lengths[batch]:
                    continue
                of = whole[batch, head, j // form.rows]
                if not 0 <= of < count:
                    continue
                place = (of, head, j % form.rows) if form.heads_first else (of, j % form.rows, head)
                used[of, head, j % form.rows] = True
                k[batch, head, j], v[batch, head, j] = keys[place], values[place]
    free = ~used if form.heads_first else ~used.swapaxes(1, 2)
    keys[free] = np.nan
    values[free] = np.nan
    k, v = (x.repeat(form.group, 1) for x in (k, v))
    with np.errstate(all="ignore"):
        scores = q.astype(float) @ k.swapaxes(-1, -2) / np.sqrt(d)
        seen = at[None] < lengths[:, None] if form.masked else np.ones((b, extent), bool)
        scores = np.where(seen[:, None, None], scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        expected = weights / weights.sum(-1, keepdims=True) @ v
    given = [q, keys, values, page.astype(np.int64 if form.index == "i64" else np.int32), lengths.astype(np.int32)]
    return Call(given, [form.group] if form.group > 1 else [], expected)


def drawn(chance: Random, rows: int) -> Paged:
    kind = chance.choice(["checked", "padded", "guarded"])
    table = chance.choice(["page[b, j / {rows}]"] * 3 + ["page[j / {rows}]", "page[b, h, j / {rows}]"])
    if kind == "guarded" and table.startswith("page[j"):
        table = "page[b, j / {rows}]"
    behind = chance.choice([0, 0, chance.randint(0, rows - 1)])
    return Paged(
        rows, chance.random() < 0.4, kind, table, chance.choice(["i32", "i64"]), chance.choice(["bf16", "f16"]),
        chance.choice([1, 1, 4]), behind, kind == "guarded" or chance.random() < 0.8,
    )  # fmt: skip
