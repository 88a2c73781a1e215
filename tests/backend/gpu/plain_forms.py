"""Random forms of plain kernels: a program, what PyTorch writes for the same, and the tensors of a call.

A form reads from 4 to 256 MB: one tensor of one to five axes of sizes from 1 on, in whatever order, of which any are reduced. Sizes
are powers of 2, multiples of 8, odd, or whatever came. `draw` makes one of a kind, the same for the same seed. A form takes its
library as an argument, since it is compared with PyTorch's where there is a GPU, and with NumPy's where there is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, log, prod
from random import Random
from typing import Any

from axon import compiler
from axon.backend.gpu.layout.roofline import LAUNCH, memory_rate
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.report.plain import PlainTime, times_of

LEAST, MOST = 4 << 20, 256 << 20  # bytes of a form's tensor
BITS = {"bf16": 16, "f16": 16, "f32": 32, "f64": 64, "i32": 32}
FLOATS = ("bf16", "f16", "f32", "f64")
AXES = "abcde"
FEW = HOPPER.multiprocessors  # rows, of which each would have one block
LAUNCHES = 3  # of a form, at most: parts, what joins them, and a map
SMALL = 1e-5  # beside a variance
Peer = Callable[..., Any]  # of a library, and a form's tensors


@dataclass(frozen=True)
class Given:
    """A tensor of a call: of an element type and a shape, or of indices `below` a size."""

    element: str
    shape: tuple[int, ...]
    below: int = 0

    @property
    def bytes(self) -> int:
        return prod(self.shape) * BITS[self.element] // 8


@dataclass(frozen=True)
class Form:
    """A program `f`, its tensors, the bytes that a call must move, and other ways to write it, the quickest of which is its peer.
    `best`: it gives places of greatest elements along an axis, and of equal ones not all libraries give the first."""

    kind: str
    text: str
    given: tuple[Given, ...]
    moved: int
    peers: tuple[Peer, ...]
    best: int | None = None

    def __str__(self) -> str:
        *_, body = self.text.split("= ", 1)
        shapes = ", ".join(f"{g.element}[{', '.join(map(str, g.shape))}]" for g in self.given)
        return f"{self.kind}: {body} of {shapes}"


class NumPy:
    """What the forms ask of a library, by NumPy."""

    @staticmethod
    def permuted(x: Any, order: Sequence[int]) -> Any:
        return x.transpose(order)

    @staticmethod
    def total(x: Any, axes: tuple[int, ...]) -> Any:
        return x.sum(axes, dtype=x.dtype)

    @staticmethod
    def greatest(x: Any, axes: tuple[int, ...]) -> Any:
        return x.max(axes)

    @staticmethod
    def first_best(x: Any, axis: int) -> Any:
        return x.argmax(axis)

    @staticmethod
    def squares(x: Any, axes: tuple[int, ...]) -> Any:
        return (wide(x) ** 2).sum(axes)

    @staticmethod
    def softmax(x: Any) -> Any:
        import numpy as np

        raised = np.exp(x - x.max(-1, keepdims=True))
        return raised / raised.sum(-1, keepdims=True)

    @staticmethod
    def log_sum(x: Any, axes: tuple[int, ...]) -> Any:
        import numpy as np

        peak = x.max(axes, keepdims=True)
        return np.log(np.exp(x - peak).sum(axes)) + peak.squeeze(axes)

    @staticmethod
    def normed(x: Any) -> Any:
        import numpy as np

        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + SMALL)

    @staticmethod
    def running(x: Any, axis: int) -> Any:
        return x.cumsum(axis, dtype=x.dtype)

    @staticmethod
    def selected(x: Any, axis: int, places: Any) -> Any:
        return x.take(places, axis)

    @staticmethod
    def whole(x: Any) -> Any:
        import numpy as np

        return np.asarray(x, order="C")


def wide(x: Any) -> Any:
    """Elements of 16 bits as f32."""
    return x.astype("float32") if x.dtype.itemsize < 4 else x


class Torch:
    """What the forms ask of a library, by PyTorch; each is one operation where there is one."""

    @staticmethod
    def permuted(x: Any, order: Sequence[int]) -> Any:
        return x.permute(tuple(order))

    @staticmethod
    def total(x: Any, axes: tuple[int, ...]) -> Any:
        return x.sum(axes, dtype=x.dtype)

    @staticmethod
    def greatest(x: Any, axes: tuple[int, ...]) -> Any:
        return x.amax(axes)

    @staticmethod
    def first_best(x: Any, axis: int) -> Any:
        return x.argmax(axis)

    @staticmethod
    def squares(x: Any, axes: tuple[int, ...]) -> Any:
        import torch

        kind = torch.float64 if x.dtype is torch.float64 else torch.float32
        return torch.linalg.vector_norm(x, dim=axes, dtype=kind).square()

    @staticmethod
    def softmax(x: Any) -> Any:
        return x.softmax(-1)

    @staticmethod
    def log_sum(x: Any, axes: tuple[int, ...]) -> Any:
        return x.logsumexp(axes)

    @staticmethod
    def normed(x: Any) -> Any:
        import torch

        return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=SMALL)

    @staticmethod
    def running(x: Any, axis: int) -> Any:
        return x.cumsum(axis, dtype=x.dtype)

    @staticmethod
    def selected(x: Any, axis: int, places: Any) -> Any:
        return x.index_select(axis, places)

    @staticmethod
    def whole(x: Any) -> Any:
        return x.contiguous()


# ── what is expected ────────────────────────────────────────────────────────────────────────────────────────────────────


def predicted(form: Form) -> tuple[PlainTime, ...]:
    """What `axon explain` predicts of each kernel of a form."""
    core = compiler.lower(compiler.check_text(form.text), "f", None)
    return tuple(times_of(core, core.contract.bind((), [given.shape for given in form.given])))


def least(form: Form, found: Sequence[PlainTime]) -> float:
    """Seconds that a form takes that moves what it must and no more, by as many kernels as it has, if these are few."""
    arithmetic = sum(time.work.arithmetic(HOPPER) for time in found if time.work.flops)
    return max(form.moved / memory_rate(HOPPER), arithmetic) + min(LAUNCHES, len(found)) * LAUNCH


# ── drawing ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Chance(Random):
    """By which forms are drawn; with `small`, tensors have about so many elements at most, and a hundredth of them at least."""

    small = 0


@dataclass(frozen=True)
class _Drawn:
    """A tensor's element type and sizes, and of which axes nothing is left in the order `taken`; `kept` in the result's order."""

    element: str
    sizes: tuple[int, ...]
    kept: tuple[int, ...]
    taken: tuple[int, ...]
    chance: Chance

    @property
    def x(self) -> Given:
        return Given(self.element, self.sizes)

    @property
    def parameter(self) -> str:
        return f"(x : {self.element}[{', '.join(AXES[: len(self.sizes)])}])"

    @property
    def at(self) -> str:
        """An element, at its own place."""
        return f"x[{', '.join(AXES[: len(self.sizes)])}]"

    @property
    def wide(self) -> str:
        """An element as what is exact enough to be summed squared."""
        return f"cast f32 {self.at}" if BITS[self.element] == 16 else self.at

    @property
    def reduced(self) -> str:
        return _named(self.taken)

    @property
    def rows(self) -> str:
        """`for a b =>`, of what is kept in order of memory; nothing where nothing is."""
        return f"for {_named(sorted(self.kept))} => " if self.kept else ""

    @property
    def of_row(self) -> str:
        """Behind what there is one of for each row."""
        return f"[{', '.join(AXES[n] for n in sorted(self.kept))}]" if self.kept else ""

    def result(self, order: Sequence[int]) -> str:
        return f"for {_named(order)} => " if order else ""

    @property
    def by_columns(self) -> bool:
        """Whether what lies side by side is kept."""
        return max((n for n, size in enumerate(self.sizes) if size > 1), default=-1) in self.kept

    @property
    def hidden(self) -> bool:
        """Whether what lies side by side is kept before a last axis of one index that is taken, or the other way around."""
        last = max((n for n, size in enumerate(self.sizes) if size > 1), default=-1)
        return any(n > last for n in (self.taken if last in self.kept else self.kept))

    @property
    def results(self) -> int:
        return prod(self.sizes[n] for n in self.kept)

    @property
    def terms(self) -> int:
        return prod(self.sizes[n] for n in self.taken)

    def form(self, kind: str, body: str, size: int, *peers: Peer, element: str | None = None, best: int | None = None) -> Form:
        """A form with so many results."""
        moved = self.x.bytes + size * BITS[element or self.element] // 8
        kind = "reduction beside a last axis of one index" if self.hidden and self.taken and "scan" not in kind else kind
        return Form(kind, f"fun f {self.parameter} = {body}", (self.x,), moved, peers, best)


def _named(axes: Sequence[int]) -> str:
    return " ".join(AXES[n] for n in axes)


def _size(chance: Chance, about: float) -> int:
    size = max(1, round(about))
    match chance.randrange(4):
        case 0:
            return 1 << round(log(size, 2))
        case 1 if size > 8:
            return size // 8 * 8
        case 2:
            return size | 1
    return size


def _sizes(chance: Chance, rank: int, element: str) -> tuple[int, ...]:
    """Sizes of a tensor that is neither too small nor too large: any axis may have most of it, or next to nothing."""
    each = BITS[element] // 8
    low, high = (chance.small / 100, chance.small) if chance.small else (LEAST / each, MOST / each)
    while True:
        elements = exp(chance.uniform(log(low), log(high)))
        weights = [chance.choice((0.0, 0.2, 1.0, 1.0, 3.0)) * chance.random() for _ in range(rank)]
        if not any(weights):
            continue
        sizes = tuple(_size(chance, elements ** (w / sum(weights))) for w in weights)
        if low <= prod(sizes) <= high:
            return sizes


def _drawn(chance: Chance, elements: Sequence[str], least: int = 1, taken: int | None = None) -> _Drawn:
    """A tensor of `least` axes or more, of which some, or as many as are wanted, are `taken`."""
    element, rank = chance.choice(list(elements)), chance.randint(least, len(AXES))
    order = chance.sample(range(rank), rank)
    count = chance.randint(1, rank) if taken is None else taken
    return _Drawn(element, _sizes(chance, rank, element), tuple(order[count:]), tuple(order[:count]), chance)


# ── kinds ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _left(drawn: _Drawn) -> tuple[int, ...]:
    """Of what is left when axes are gone, the order in which the result has it."""
    return tuple(sorted(drawn.kept).index(n) for n in drawn.kept)


def _sum(chance: Chance) -> Form:
    d = _drawn(chance, BITS)
    axes = tuple(sorted(d.taken))
    body = f"{d.result(d.kept)}sum {d.reduced} => {d.at}"
    return d.form("sum", body, d.results, lambda lib, x: lib.whole(lib.permuted(lib.total(x, axes), _left(d))))


def _max(chance: Chance) -> Form:
    d = _drawn(chance, BITS)
    axes = tuple(sorted(d.taken))
    body = f"{d.result(d.kept)}max {d.reduced} => {d.at}"
    kind = "max"
    return d.form(kind, body, d.results, lambda lib, x: lib.whole(lib.permuted(lib.greatest(x, axes), _left(d))))


def _argmax(chance: Chance) -> Form:
    d = _drawn(chance, BITS, taken=1)
    (axis,) = d.taken
    body = f"for {_named(sorted(d.kept))} => argmax {d.reduced} => {d.at}" if d.kept else f"argmax {d.reduced} => {d.at}"
    kind = "argmax of few rows" if d.results < FEW and not d.by_columns else "argmax"
    return d.form(kind, body, d.results, lambda lib, x: lib.first_best(x, axis), element="i32", best=axis)


def _mean_of_squares(chance: Chance) -> Form:
    d = _drawn(chance, FLOATS)
    axes, n = tuple(sorted(d.taken)), d.terms
    body = f"{d.result(d.kept)}(sum {d.reduced} => ({d.wide}) * ({d.wide})) / {n}.0"

    def peer(lib: Any, x: Any) -> Any:
        return lib.whole(lib.permuted(lib.squares(x, axes) / n, _left(d)))

    return d.form("mean of squares", body, d.results, peer, element="f64" if d.element == "f64" else "f32")


def _log_sum_exp(chance: Chance) -> Form:
    d = _drawn(chance, FLOATS)
    axes = tuple(sorted(d.taken))
    peak = f"max {d.reduced} => {d.at}"
    body = f"{d.result(d.kept)}let val m = {peak} in m + log (sum {d.reduced} => exp ({d.at} - m)) end"
    return d.form("log-sum-exp", body, d.results, lambda lib, x: lib.whole(lib.permuted(lib.log_sum(x, axes), _left(d))))


def _along_rows(d: _Drawn, order: tuple[int, ...], function: Callable[[Any, Any], Any]) -> Peer:
    """A function of rows that are taken together from several axes, and put back in the order of a result."""
    there = (*sorted(d.kept), *sorted(d.taken))
    back = tuple(there.index(n) for n in order)

    def peer(lib: Any, x: Any) -> Any:
        turned = lib.permuted(x, there)
        made = function(lib, turned.reshape(*[d.sizes[n] for n in sorted(d.kept)], d.terms)).reshape(turned.shape)
        return lib.whole(lib.permuted(made, back))

    return peer


def _softmax(chance: Chance) -> Form:
    d = _drawn(chance, FLOATS)
    order = tuple(chance.sample(range(len(d.sizes)), len(d.sizes))) if chance.random() < 0.3 else tuple(range(len(d.sizes)))
    peak, row = f"{d.rows}max {d.reduced} => {d.at}", d.of_row
    total = f"{d.rows}sum {d.reduced} => exp ({d.at} - m{row})"
    body = f"let val m = {peak} val z = {total} in for {_named(order)} => exp ({d.at} - m{row}) / z{row} end"
    kind = "softmax in another order" if order != tuple(range(len(order))) else f"softmax{' by columns' * d.by_columns}"
    return d.form(kind, body, prod(d.sizes), _along_rows(d, order, lambda lib, x: lib.softmax(x)))


def _layer_norm(chance: Chance) -> Form:
    d = _drawn(chance, FLOATS)
    order, row, n = tuple(range(len(d.sizes))), d.of_row, d.terms
    mean = f"{d.rows}(sum {d.reduced} => {d.wide}) / {n}.0"
    spread = f"{d.rows}(sum {d.reduced} => ({d.wide} - u{row}) * ({d.wide} - u{row})) / {n}.0"
    value = f"({d.wide} - u{row}) * rsqrt (v{row} + {SMALL:f})"
    value = f"cast {d.element} ({value})" if BITS[d.element] == 16 else value
    body = f"let val u = {mean} val v = {spread} in for {_named(order)} => {value} end"
    kind = f"layer norm{' by columns' * d.by_columns}"
    return d.form(kind, body, prod(d.sizes), _along_rows(d, order, lambda lib, x: lib.normed(x)))


def _scan(chance: Chance) -> Form:
    d = _drawn(chance, BITS, taken=1)
    (axis,), zero = d.taken, "0" if d.element == "i32" else "0.0"
    order = (*d.kept, axis)
    body = f"{d.result(d.kept)}scan (op +, {zero}) {d.reduced} => {d.at}"

    def first(lib: Any, x: Any) -> Any:
        return lib.whole(lib.permuted(lib.running(x, axis), order))

    def after(lib: Any, x: Any) -> Any:
        return lib.running(lib.whole(lib.permuted(x, order)), len(order) - 1)

    kind = "scan" if d.results >= FEW else "scan of few rows"
    return d.form(kind, body, prod(d.sizes), first, *([after] if order != tuple(range(len(order))) else []))


def _transposition(chance: Chance) -> Form:
    d = _drawn(chance, BITS, least=2, taken=0)
    body = f"for {_named(d.kept)} => {d.at}"
    return d.form("transposition", body, prod(d.sizes), lambda lib, x: lib.whole(lib.permuted(x, d.kept)))


def _merged(chance: Chance) -> Form:
    d = _drawn(chance, BITS, least=2, taken=0)
    first = chance.randrange(len(d.kept) - 1)
    names = [AXES[n] for n in d.kept]
    names[first : first + 2] = [f"({names[first]}, {names[first + 1]})"]
    sizes = [d.sizes[n] for n in d.kept]
    sizes[first : first + 2] = [sizes[first] * sizes[first + 1]]
    body = f"for {' '.join(names)} => {d.at}"
    return d.form("merged map", body, prod(d.sizes), lambda lib, x: lib.whole(lib.permuted(x, d.kept)).reshape(*sizes))


def _cut(chance: Chance) -> Form:
    """A map that splits an axis in two: the tensor has both as one."""
    d = _drawn(chance, BITS, least=2, taken=0)
    rank = len(d.sizes)
    first = chance.randrange(rank - 1)
    inside = [*AXES[:first], f"({AXES[first]}, {AXES[first + 1]})", *AXES[first + 2 : rank]]
    shape = (*d.sizes[:first], d.sizes[first] * d.sizes[first + 1], *d.sizes[first + 2 :])
    dims = [*AXES[:first], f"{AXES[first]} * {AXES[first + 1]}", *AXES[first + 2 : rank]]
    binders = [f"{AXES[n]}{f' < {d.sizes[n]}' if n == first else ''}" for n in d.kept]
    body = f"for {', '.join(binders)} => x[{', '.join(inside)}]"
    dims[first] = f"{d.sizes[first]} * {AXES[first + 1]}"
    given = Given(d.element, shape)
    text = f"fun f (x : {d.element}[{', '.join(dims)}]) = {body}"
    return Form("cut map", text, (given,), 2 * given.bytes, (lambda lib, x: lib.whole(lib.permuted(x.reshape(d.sizes), d.kept)),))


def _gather(chance: Chance) -> Form:
    d = _drawn(chance, BITS, taken=0)
    axis, rank = chance.randrange(len(d.sizes)), len(d.sizes)
    extent = d.sizes[axis]
    count = max(1, round(extent * chance.choice((0.25, 0.5, 1.0, 1.0))))
    inside = [f"t[{AXES[n]}]" if n == axis else AXES[n] for n in range(rank)]
    dims = ["v" if n == axis else AXES[n] for n in range(rank)]
    body = f"for {_named(d.kept)} => x[{', '.join(inside)}]"
    text = f"fun f (x : {d.element}[{', '.join(dims)}]) (t : i32[{AXES[axis]}]) = {body}"
    places, results = Given("i32", (count,), extent), d.x.bytes // extent * count

    def peer(lib: Any, x: Any, t: Any) -> Any:
        return lib.whole(lib.permuted(lib.selected(x, axis, t), d.kept))

    return Form("gather", text, (d.x, places), 2 * results + places.bytes, (peer,))


def _scaled(chance: Chance) -> Form:
    """A map of a tensor and one with some of its axes."""
    d = _drawn(chance, BITS, taken=0)
    rank = len(d.sizes)
    some = [n for n in range(rank) if chance.random() < 0.5]
    order = d.kept if chance.random() < 0.3 else tuple(range(rank))
    scale = Given(d.element, tuple(d.sizes[n] for n in some))
    at = f"y[{', '.join(AXES[n] for n in some)}]" if some else "y"
    kind = f"{d.element}[{', '.join(AXES[n] for n in some)}]" if some else d.element
    text = f"fun f {d.parameter} (y : {kind}) = for {_named(order)} => {d.at} * {at}"
    shape = tuple(d.sizes[n] if n in some else 1 for n in range(rank))

    def peer(lib: Any, x: Any, y: Any) -> Any:
        return lib.whole(lib.permuted(x * y.reshape(shape), order))

    return Form("scaled map", text, (d.x, scale), 2 * d.x.bytes + scale.bytes, (peer,))


KINDS: tuple[Callable[[Chance], Form], ...] = (
    _sum, _max, _argmax, _mean_of_squares, _log_sum_exp, _softmax, _layer_norm, _scan, _transposition, _merged, _cut, _gather,
    _scaled,
)  # fmt: skip


def draw(seed: int, number: int, small: int = 0) -> Form:
    """A form; each kind comes once in as many as there are kinds."""
    chance = Chance(f"{seed} {number}")
    chance.small = small
    return KINDS[number % len(KINDS)](chance)


def forms(seed: int, count: int, small: int = 0) -> Iterator[Form]:
    return (draw(seed, number, small) for number in range(count))


# ── few long rows ───────────────────────────────────────────────────────────────────────────────────────────────────────

RECURRENCE = "(fn (a, b) (c, d) => (a * c, b * c + d), (1.0, 0.0))"
# Of a row x[r, i], or of a vector x[i]: what is made of it, of which element types, whether it is as long as the row, and how many
# times as many bytes it stores.
OF_ROWS: dict[str, tuple[str, tuple[str, ...], float]] = {
    "running sum": ("{rows}scan (op +, {zero}) i => {x}", ("f32", "bf16", "f64", "i32"), 1.0),
    "running maximum": ("{rows}scan (fn a b => max a b, {zero}) i => {x}", ("f32", "i32"), 1.0),
    "recurrence": (f"let val (p, h) = {{rows}}scan {RECURRENCE} i => (0.5, {{x}}) in h end", ("f32", "f64"), 1.0),
    "last that is not 0": ("{rows}scan (fn a b => if b = 0 then a else b, 0) i => {x}", ("i32",), 1.0),
    "backwards": ("{rows}scan (op +, {zero}) for i < n => {back}", ("f32", "i32"), 1.0),
    "sum": ("{rows}sum i => {x}", ("f32", "bf16", "i32"), 0.0),
    "greatest": ("{rows}max i => {x}", ("f32", "i32"), 0.0),
    "greatest under a condition": ("{rows}max for i where i % 3 = 1 => {x}", ("i32", "f32"), 0.0),
    "place of the greatest": ("{rows}argmax i => {x}", ("f32", "i32", "bf16"), 0.0),
    "place of the least under a condition": ("{rows}argmin for i where i % 3 = 1 => {x}", ("f32", "i32"), 0.0),
    "product of maps": (f"let val (p, h) = {{rows}}reduce {RECURRENCE} i => (0.5, {{x}}) in h end", ("f32", "f64"), 0.0),
}  # fmt: skip


def of_few_rows(seed: int, number: int) -> Form:
    """A vector, or few rows, of 2^15 elements and more, whatever their number: scans and reductions. There are no peers."""
    chance = Random(f"few {seed} {number}")
    kind = list(OF_ROWS)[number % len(OF_ROWS)]
    body, elements, result = OF_ROWS[kind]
    element = chance.choice(elements)
    rows = chance.choice([0, 0, 1, 1, 2, 3, 4, 7, 8, 16, 33, 64, 100])
    most = min(26.0, log((MOST << 3) / BITS[element] / max(1, rows), 2))
    n = round(2 ** chance.uniform(15, most))
    n = chance.choice([n, n | 1, n // 64 * 64, 1 << round(log(n, 2)), n // 8 * 8 + 4])
    named = {
        "rows": "for r => " if rows else "",
        "x": "x[r, i]" if rows else "x[i]",
        "back": "x[r, n - 1 - i]" if rows else "x[n - 1 - i]",
        "zero": "0" if element == "i32" else "0.0",
    }
    given = Given(element, (rows, n) if rows else (n,))
    text = f"fun f (x : {element}[{'r, n' if rows else 'n'}]) = {body.format(**named)}"
    return Form(kind, text, (given,), round(given.bytes * (1 + result)), ())
