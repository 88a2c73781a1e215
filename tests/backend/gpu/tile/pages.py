"""Attention over caches in pages, drawn at random: how pages lie, who says where they are, what is read of them; and in float64."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import ml_dtypes
import numpy as np

SOURCE = """import nn
fun f{explicit} (q : {e}[b, {heads}, s, d]) (keys : {e}[{key_shape}]) (values : {e}[{value_shape}])
    (page : {index}[{table}]) (lengths : i32[b]) =
  let val k = for b < b, h < n, j < {extent}, c => {key}
      val v = for b < b, h < n, j < {extent}, c => {value}
      val x = for b h i j => (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, {of}, j, c]) * rsqrt (cast f32 d)
      val w = nn.softmax (for b h i j => if {mask} then x[b, h, i, j] else -inf)
  in for b h i e => cast {e} (sum j => w[b, h, i, j] * cast f32 v[b, {of}, j, e]) end
"""  # fmt: skip

TABLES = {"page[b, j / {rows}]": "b, m", "page[j / {rows}]": "m", "page[b, h, j / {rows}]": "b, n, m"}  # and their shapes


@dataclass(frozen=True)
class Paged:
    """How keys and values lie and are read. `kind` says what becomes of pages that are none: the program stops (`checked`), they
    are zeros (`padded`), or nothing is asked for behind the length (`guarded`). The last page has `behind` rows too many."""

    rows: int
    heads_first: bool = False
    kind: str = "checked"
    table: str = "page[b, j / {rows}]"
    index: str = "i32"
    element: str = "bf16"
    group: int = 1
    behind: int = 0
    masked: bool = True
    free: bool = False  # whether how many rows a page has is a size of the call

    @property
    def source(self) -> str:
        lies = "p, n, {rows}, {c}" if self.heads_first else "p, {rows}, n, {c}"
        at = "h, j % {rows}, c" if self.heads_first else "j % {rows}, h, c"
        rows, group = "r" if self.free else self.rows, self.group > 1

        def read(cache: str) -> str:
            found = f"{cache}[{self.table}, {at}{' | 0.0' if self.kind == 'padded' else ''}]".format(rows=rows)
            return f"if j < lengths[b] then {found} else 0.0" if self.kind == "guarded" else found

        return SOURCE.format(
            explicit=" {g}" if group else "", e=self.element, heads="n * g" if group else "n", index=self.index,
            key_shape=lies.format(rows=rows, c="d"), value_shape=lies.format(rows=rows, c="e"), table=TABLES[self.table],
            extent=f"{rows} * m - {self.behind}" if self.behind else f"{rows} * m", key=read("keys"), value=read("values"),
            of="h / g" if group else "h", mask="j < lengths[b]" if self.masked else "j >= 0",
        )  # fmt: skip

    def everywhere(self, page: Any, b: int, n: int) -> Any:
        """The pages of each batch and head."""
        page = {"b, m": lambda: page[:, None], "m": lambda: page[None, None], "b, n, m": lambda: page}[TABLES[self.table]]()
        return np.broadcast_to(page, (b, n, page.shape[-1]))


@dataclass(frozen=True)
class Call:
    """Arguments, and the result in float64. What no row may see is NaN."""

    arguments: list[Any]
    explicit: list[int]
    expected: Any


def call(form: Paged, chance: Random, b: int, n: int, s: int, m: int, d: int, e: int) -> Call:
    """Pages in any order, of which some may be shared, and some none or garbage where that is allowed."""
    rng = np.random.default_rng(chance.randrange(2**32))
    dtype = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}[form.element]
    extent, count = form.rows * m - form.behind, b * n * m + chance.randint(0, 3)
    shape = {"b, m": (b, m), "m": (m,), "b, n, m": (b, n, m)}[TABLES[form.table]]
    page = rng.integers(0, count, shape)
    if chance.random() < 0.7:
        page = rng.permutation(count)[: page.size].reshape(shape)
    lengths = np.array([chance.choice([0, 1, extent, *(chance.randint(0, extent) for _ in range(3))]) for _ in range(b)])
    if form.kind != "checked":
        bad = chance.choice([-1, count, 2**31 - 1, -(2**31), *([2**40, -(2**33), 2**32] if form.index == "i64" else [])])
        hidden = rng.random(shape) < 0.2
        if form.kind == "guarded":
            hidden = np.zeros(shape, bool)
            if len(shape) > 1:
                hidden |= np.arange(m) * form.rows >= lengths.reshape(b, *(1,) * (len(shape) - 1))
        page = np.where(hidden, bad, page)
    _, head, row = np.ogrid[:b, :n, :extent]
    of = form.everywhere(page, b, n)[..., np.arange(extent) // form.rows]
    read = (of >= 0) & (of < count)
    if form.kind == "guarded":
        read &= row < lengths[:, None, None]
    at = np.clip(of, 0, count - 1), row % form.rows, head
    at = (at[0], at[2], at[1]) if form.heads_first else at
    made = []
    for width in (d, e):
        cache = rng.standard_normal((count, n, form.rows, width) if form.heads_first else (count, form.rows, n, width)).astype(
            dtype
        )
        unread = np.ones(cache.shape[:3], bool)
        unread[tuple(np.broadcast_to(x, of.shape)[read] for x in at)] = False
        cache[unread] = np.nan  # what was left there
        made.append((cache, np.where(read[..., None], cache[at].astype(float), 0.0).repeat(form.group, 1)))
    (keys, k), (values, v) = made
    q = rng.standard_normal((b, n * form.group, s, d)).astype(dtype)
    with np.errstate(all="ignore"):
        scores = q.astype(float) @ k.swapaxes(-1, -2) / np.sqrt(d)
        if form.masked:
            scores = np.where((row < lengths[:, None, None])[:, :, None], scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        expected = weights / weights.sum(-1, keepdims=True) @ v
    given = [q, keys, values, page.astype(np.int64 if form.index == "i64" else np.int32), lengths.astype(np.int32)]
    return Call(given, [form.group] if form.group > 1 else [], expected)


def drawn(chance: Random, rows: int) -> Paged:
    kind = chance.choice(["checked", "padded", "guarded"])
    table = chance.choice(["page[b, j / {rows}]"] * 3 + list(TABLES))
    behind = chance.choice([0, 0, chance.randint(0, rows - 1)])
    return Paged(
        rows, chance.random() < 0.4, kind, table, chance.choice(["i32", "i64"]), chance.choice(["bf16", "f16"]),
        chance.choice([1, 1, 4]), behind, chance.random() < 0.8, not behind and chance.random() < 0.3,
    )  # fmt: skip
