"""Scalar expressions of generated programs: text, and its meaning in NumPy scalars, computed element by element.

A meaning is a function of the indices' and local names' values. Numbers are kept small and whole where their values decide anything
(`exact`), so that a comparison cannot come out differently for a rounding; `bound` limits their magnitude, and gives tolerances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np
from hypothesis import strategies as st

from axon.base.element import Element
from tests.properties.sizes import Size, number

Draw = Callable[[st.SearchStrategy[Any]], Any]
Values = Mapping[str, Any]
Index = tuple[str, Size]

WIDE = (Element.F32, Element.I32, Element.F64, Element.I64, Element.U32, Element.U64)
NARROW = (
    Element.F16, Element.BF16, Element.I16, Element.I8, Element.U16, Element.U8, Element.F8E4M3, Element.F8E5M2,
)  # fmt: skip
# Up to which magnitude whole numbers are exact (floats) or do not wrap (integers).
EXACT = {
    Element.F64: 2**50, Element.F32: 2**22, Element.F16: 2**11, Element.BF16: 2**8, Element.F8E4M3: 2**4, Element.F8E5M2: 2**3,
    Element.I64: 2**40, Element.I32: 2**28, Element.I16: 2**14, Element.I8: 100, Element.U64: 2**40, Element.U32: 2**28,
    Element.U16: 2**15, Element.U8: 200, Element.BOOL: 2,
}  # fmt: skip
LARGEST = 5_000.0
NO_BOUND = 1e30


class Outside(Exception):
    """An access outside of its tensor, or an extreme of nothing: the sizes break the contract."""


@dataclass(frozen=True)
class Tensor:
    """A name in scope, or a part of one (`r.w`, `t.1`). `ranked`: its rank is known before its uses."""

    text: str
    element: Element
    shape: tuple[Size, ...]
    array: Any
    bound: float
    exact: bool
    ranked: bool = True
    used: list[str] = field(default_factory=list, compare=False)

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True)
class Scalar:
    text: str
    element: Element
    value: Callable[[Values], Any]
    bound: float
    exact: bool = True
    bare: frozenset[str] = frozenset()  # indices with a bare use outside of guards
    guarded: frozenset[str] = frozenset()  # with a bare use inside of one
    affine: frozenset[str] = frozenset()  # with another use
    loose: bool = False  # made of literals alone: its element type is a default if nothing else decides it

    def merged(self, *others: Scalar, **changes: Any) -> Scalar:
        parts = (self, *others)
        sets = {n: frozenset().union(*(getattr(p, n) for p in parts)) for n in ("bare", "guarded", "affine")}
        return replace(
            self,
            **{
                "exact": all(p.exact for p in parts),
                "loose": all(p.loose for p in parts),
                "bound": max(p.bound for p in parts),
                **sets,
                **changes,
            },
        )

    def behind_guard(self) -> Scalar:
        return replace(self, bare=frozenset(), guarded=self.guarded | self.bare)

    def infers(self, index: str) -> bool:
        """Whether the uses of an index give its range."""
        return index in self.bare or (index in self.guarded and index not in self.affine)


def constant(value: float | bool, element: Element) -> Scalar:
    if element is Element.BOOL:
        return Scalar("true" if value else "false", element, lambda _: np.bool_(value), 1)
    typed = element.dtype.type(value)
    text = repr(float(value)) if element.is_float else str(int(value))
    return Scalar(text if value >= 0 else f"({text})", element, lambda _: typed, abs(value), loose=True)


@dataclass
class Scope:
    """What the whole program has come to so far."""

    draw: Draw
    tensors: list[Tensor] = field(default_factory=list)
    nameable: dict[str, int] = field(default_factory=dict)  # dimensions that an annotation names
    facts: list[bool] = field(default_factory=list)  # what the contract must ask for
    divided: set[str] = field(default_factory=set)  # names in sizes that must be multiples: no other size is theirs
    taken: set[str] = field(default_factory=set)  # names given so far
    count: int = 0

    def fresh(self, names: str) -> str:
        """A name that is not in use; the first ones are odd on purpose."""
        pool = names.split()
        self.count += 1
        taken = {t.text.split(".")[0] for t in self.tensors}
        return next((n for n in pool if n not in taken and n not in self.taken), f"{pool[0]}{self.count}")

    def pick(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def chance(self, percent: int) -> bool:
        return bool(self.draw(st.integers(0, 99)) >= 100 - percent)

    def can_name(self, size: Size) -> bool:
        return size.names <= self.nameable.keys()

    def index_name(self) -> str:
        name = self.fresh("i j p q r t u v")
        self.taken.add(name)
        return name

    def sizes(self) -> list[Size]:
        """Sizes that an index can range over by a bare use."""
        found = {s.key: s for t in self.tensors for s in t.shape if t.array.size <= 400}
        return list(found.values())


def firm(s: Scalar) -> str:
    """Its text, with its type where that would be a default."""
    return f"({s.text} : {s.element.value})" if s.loose and s.element not in (Element.F32, Element.I32, Element.BOOL) else s.text


def fits(s: Scalar) -> bool:
    return s.bound <= EXACT[s.element]


def scalar(scope: Scope, element: Element, indices: Sequence[Index], locals_: Sequence[Scalar], depth: int) -> Scalar:
    """A random scalar expression of an element type."""
    for _ in range(3):
        made = _scalar(scope, element, indices, locals_, depth)
        if made is not None and (not made.exact or made.bound == np.inf or (made.bound <= LARGEST and fits(made))):
            return made
    return _leaf(scope, element, indices, locals_)


def _leaf(scope: Scope, element: Element, indices: Sequence[Index], locals_: Sequence[Scalar]) -> Scalar:
    accesses = readable(scope, element, indices)
    own = [s for s in locals_ if s.element is element]
    if own and scope.chance(50):
        return scope.pick(own)
    if accesses and scope.chance(85):
        return access(scope, scope.pick(accesses), indices)
    if element is Element.BOOL:
        return constant(scope.chance(50), element)
    if element is Element.I32 and indices and scope.chance(50):
        name, size = scope.pick(list(indices))
        return Scalar(name, element, lambda v: np.int32(v[name]), max(size.value, 1))
    if element in (Element.F32, Element.F64) and scope.chance(10):
        name, value = scope.pick((("pi", np.pi), ("nan", np.nan)))
        return Scalar(name, element, lambda _: element.dtype.type(value), 4, exact=False, loose=True)
    return constant(scope.pick((1, 2, 0, 3) if element in NARROW or element.is_unsigned else (1, 2, 0, 3, -1, -2)), element)


def _scalar(scope: Scope, element: Element, indices: Sequence[Index], locals_: Sequence[Scalar], depth: int) -> Scalar | None:
    if depth <= 0:
        return _leaf(scope, element, indices, locals_)
    if element is Element.BOOL:
        kind = scope.pick(("leaf", "compare", "logic", "not", "if", "reduce", "let", "cast"))
    else:
        kind = scope.pick(
            (
                "leaf",
                "binary",
                "reduce",
                "unary",
                "if",
                "cast",
                "let",
                "divide",
                "position",
                "apply",
                "dimension",
                "binary",
                "reduce",
            )
        )
    return _KINDS[kind](scope, element, indices, locals_, depth)


# ── accesses ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def readable(scope: Scope, element: Element, indices: Sequence[Index]) -> list[Tensor]:
    """Tensors of which each dimension can be indexed."""
    keys = {size.key for _, size in indices}
    return [
        t for t in scope.tensors
        if t.element is element and (t.ranked or t.rank > 0 or not t.shape)
        and all(s.key in keys or (s.number is None and scope.can_name(s)) or (s.number or 0) > 0 for s in t.shape)
    ]  # fmt: skip


def access(scope: Scope, t: Tensor, indices: Sequence[Index]) -> Scalar:
    """A bare, constant, reversed, wrapped or padded access to one element."""
    if not t.shape:
        return Scalar(t.text, t.element, lambda _: t.array[()], t.bound, t.exact)
    texts: list[str] = []
    values: list[Callable[[Values], int]] = []
    bare: set[str] = set()
    affine: set[str] = set()
    padded = t.element is not Element.BOOL and scope.chance(15)
    for size in t.shape:
        matching = [name for name, extent in indices if extent.key == size.key]
        ways = ["bare"] * 4 if matching else []
        if matching and scope.can_name(size):
            ways += ["reversed", "wrapped"]
        if padded and indices:
            ways += ["shifted", "shifted"]
        if not matching and scope.can_name(size) and indices:
            ways += ["wrapped"]
        if not ways or (scope.chance(10) and (size.number is None or size.number > 0)):
            ways = ["constant"]
        way = scope.pick(ways)
        name = scope.pick(matching) if matching else scope.pick([n for n, _ in indices]) if indices else ""
        extent = size.value
        match way:
            case "bare":
                texts.append(name)
                values.append(lambda v, name=name: v[name])
                bare.add(name)
            case "reversed":
                texts.append(f"{size.text} - 1 - {name}")
                values.append(lambda v, name=name, extent=extent: extent - 1 - v[name])
                affine.add(name)
            case "wrapped":
                shift = scope.pick((1, 0, 2))
                divisor = size.text if size.text.isidentifier() or size.text.isdigit() else f"({size.text})"
                texts.append(f"({name} + {shift}) % {divisor}")
                values.append(lambda v, name=name, extent=extent, shift=shift: _wrapped(v[name] + shift, extent))
                if size.number is None:
                    scope.facts.append(extent >= 1)
                elif extent == 0:
                    texts[-1] = name
                    scope.facts.append(False)
                affine.add(name)
            case "shifted":
                factor, shift = scope.pick((1, 1, 2)), scope.pick((-1, 1, 2, -2))
                head = name if factor == 1 else f"{factor} * {name}"
                texts.append(f"{head} {'+' if shift > 0 else '-'} {abs(shift)}")
                values.append(lambda v, name=name, factor=factor, shift=shift: factor * v[name] + shift)
                affine.add(name)
            case "constant":
                at = scope.pick((0, 1)) if size.number is None or size.number > 1 else 0
                if not padded:
                    scope.facts.append(extent > at)
                texts.append(str(at))
                values.append(lambda v, at=at: at)
    default = constant(scope.pick((0, 1, 2)), t.element) if padded else None
    t.used.append("access")

    def read(v: Values) -> Any:
        at = tuple(f(v) for f in values)
        if all(0 <= i < e for i, e in zip(at, t.array.shape, strict=True)):
            return t.array[at]
        if default is None:
            raise Outside
        return default.value(v)

    text = f"{t.text}[{', '.join(texts)}{f' | {default.text}' if default else ''}]"
    return Scalar(
        text,
        t.element,
        read,
        max(t.bound, default.bound if default else 0),
        t.exact,
        frozenset(bare),
        frozenset(),
        frozenset(affine),
    )


def _wrapped(i: int, extent: int) -> int:
    if extent < 1:
        raise Outside
    return i % extent


# ── kinds of expressions ────────────────────────────────────────────────────────────────────────────────────────────────


def quiet(f: Callable[..., Any], *args: Any) -> Any:
    with np.errstate(all="ignore"):
        return f(*args)


_ARITHMETIC: dict[str, tuple[Callable[[Any, Any], Any], Callable[[float, float], float]]] = {
    "+": (lambda a, b: a + b, lambda a, b: a + b),
    "-": (lambda a, b: a - b, lambda a, b: a + b),
    "*": (lambda a, b: a * b, lambda a, b: a * b),
    "max": (np.maximum, max),
    "min": (np.minimum, max),
}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "=": lambda a, b: a == b, "<>": lambda a, b: a != b,
}  # fmt: skip
# Functions of floats as they are applied: what they mean, a bound of the result for whole arguments of at most b, and whether it is
# a whole number.
_FLOAT_FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[float], float], bool]] = {
    "tanh {}": (np.tanh, lambda b: 1.0, False),
    "sin {}": (np.sin, lambda b: 1.0, False),
    "cos {}": (np.cos, lambda b: 1.0, False),
    "erf {}": (lambda x: type(x)(math.erf(x)), lambda b: 1.0, False),
    "exp (-(abs {}))": (lambda x: np.exp(-abs(x)), lambda b: 1.0, False),
    "log (abs {} + 1.0)": (lambda x: np.log(abs(x) + 1), lambda b: 5.0, False),
    "sqrt (abs {})": (lambda x: np.sqrt(abs(x)), lambda b: 10.0, False),
    "rsqrt (abs {} + 1.0)": (lambda x: 1 / np.sqrt(abs(x) + 1), lambda b: 1.0, False),
    "pow {} 2.0": (lambda x: x * x, lambda b: b * b, True),
    "floor {}": (np.floor, lambda b: b, True),
    "ceil {}": (np.ceil, lambda b: b, True),
    "round {}": (np.rint, lambda b: b, True),
}


def _binary(scope: Scope, element: Element, indices: Sequence[Index], locals_: Sequence[Scalar], depth: int) -> Scalar | None:
    a = scalar(scope, element, indices, locals_, depth - 1)
    b = scalar(scope, element, indices, locals_, depth - 1)
    op = scope.pick(("+", "*", "-", "max", "min"))
    if element.is_unsigned and op == "-":
        op = "+"
    meaning, limit = _ARITHMETIC[op]
    bound = limit(a.bound, b.bound) if np.inf not in (a.bound, b.bound) else np.inf
    text = f"({a.text} {op} {b.text})" if len(op) == 1 else f"({op} {a.text} {b.text})"
    if len(op) == 1 and scope.chance(10):
        text = f"((op {op}) {_argument(a)} {_argument(b)})"
    exact = a.exact and b.exact and (bound <= EXACT[element] or bound == np.inf)
    if element in NARROW and not exact:
        return None
    return a.merged(b, text=text, value=lambda v: quiet(meaning, a.value(v), b.value(v)), bound=bound, exact=exact)


def _divide(scope: Scope, element: Element, indices: Sequence[Index], locals_: Sequence[Scalar], depth: int) -> Scalar | None:
    a = scalar(scope, element, indices, locals_, depth - 1)
    if element.is_unsigned or element in NARROW:
        return a
    b = constant(scope.pick((2, 3, 1)), element)
    if element.is_float:
        return replace(a, text=f"({a.text} / {b.text})", value=lambda v: quiet(np.divide, a.value(v), b.value(v)), exact=False)
    if scope.chance(50):
        return replace(
            a, text=f"({a.text} / {b.text})", value=lambda v: quiet(np.floor_divide, a.value(v), b.value(v)), bound=a.bound + 1
        )
    return replace(a, text=f"({a.text} % {b.text})", value=lambda v: quiet(np.mod, a.value(v), b.value(v)), bound=3.0)


def _unary(scope: Scope, element: Element, indices: Sequence[Index], locals_: Sequence[Scalar], depth: int) -> Scalar | None:
    a = scalar(scope, element, indices, locals_, depth - 1)
    ways = ["abs", "neg", "square", "sign"]
    if element.is_unsigned:
        ways = ["abs", "square"]
    if element in (Element.F32, Element.F64) and a.exact and a.bound < 100:
        ways += list(_FLOAT_FUNCTIONS)
    way = scope.pick(ways)
    match way:
        case "abs":
            return replace(a, text=f"(abs {_argument(a)})", value=lambda v: np.abs(a.value(v)))
        case "neg":
            return replace(a, text=f"(-{_argument(a)})", value=lambda v: quiet(np.negative, a.value(v)))
        case "sign":
            return replace(a, text=f"(sign {_argument(a)})", value=lambda v: np.sign(a.value(v)), bound=1.0) if a.exact else None
        case "square":
            two = "2.0" if element.is_float else "2"
            bound = a.bound * a.bound
            if element in NARROW and bound > EXACT[element]:
                return None
            return replace(a, text=f"({_argument(a)} ** {two})", value=lambda v: quiet(lambda x: x * x, a.value(v)), bound=bound)
        case _:
            meaning, limit, whole = _FLOAT_FUNCTIONS[way]
            return replace(
                a,
                text=f"({way.format(_argument(a))})",
                value=lambda v: quiet(meaning, element.dtype.type(a.value(v))),
                bound=limit(a.bound),
                exact=whole,
            )


def _argument(a: Scalar) -> str:
    return a.text if a.text.startswith("(") or a.text.replace("_", "").replace(".", "").isalnum() else f"({a.text})"


def _cast(scope: Scope, element: Element, indices: Sequence[Index], locals_: Sequence[Scalar], depth: int) -> Scalar | None:
    source = scope.pick([e for e in (Element.I32, Element.F32, Element.BOOL, *WIDE) if e is not element])
    a = scalar(scope, source, indices, locals_, depth - 1)
    if element is Element.BOOL and a.exact:
        return replace(
            a, text=f"(cast bool {_argument(a)})", element=element, value=lambda v: np.bool_(a.value(v)), bound=1, loose=False
        )
    if not a.exact or not fits(a) or a.bound > EXACT[element]:
        return None
    if element.is_unsigned:  # which has no negative numbers
        if source is Element.BOOL:
            return None
        signed = a
        a = replace(a, text=f"(abs {_argument(a)})", value=lambda v: np.abs(signed.value(v)))
    return replace(
        a,
        text=f"(cast {element.value} {_argument(a)})",
        element=element,
        value=lambda v: element.dtype.type(a.value(v)),
        loose=False,
    )


def _if(scope: Scope, element: Element, indices: Sequence[Index], locals_: Sequence[Scalar], depth: int) -> Scalar | None:
    c = scalar(scope, Element.BOOL, indices, locals_, depth - 1)
    a = scalar(scope, element, indices, locals_, depth - 1).behind_guard()
    b = scalar(scope, element, indices, locals_, depth - 1).behind_guard()
    text = f"(if {c.text} then {a.text} else {b.text})"
    return a.merged(
        b,
        c,
        text=text,
        value=lambda v: a.value(v) if c.value(v) else b.value(v),
        bound=max(a.bound, b.bound),
        loose=a.loose and b.loose,
    )


def _compare(scope: Scope, element: Element, indices: Sequence[Index], locals_: Sequence[Scalar], depth: int) -> Scalar | None:
    kinds = [t.element for t in scope.tensors] + [Element.I32]
    of = scope.pick(list(dict.fromkeys(kinds)))
    a = scalar(scope, of, indices, locals_, depth - 1)
    b = scalar(scope, of, indices, locals_, depth - 1)
    if not (a.exact and b.exact):
        return None
    op = scope.pick(("<", "=", "<=", ">", ">=", "<>") if of is not Element.BOOL else ("=", "<>"))
    text = f"((op {op}) {_argument(a)} {_argument(b)})" if scope.chance(30) else f"({a.text} {op} {b.text})"
    return a.merged(
        b,
        text=text,
        element=element,
        value=lambda v: np.bool_(_COMPARE[op](a.value(v), b.value(v))),
        bound=1,
        loose=False,
    )


def _logic(scope: Scope, element: Element, indices: Sequence[Index], locals_: Sequence[Scalar], depth: int) -> Scalar | None:
    a = scalar(scope, element, indices, locals_, depth - 1)
    b = scalar(scope, element, indices, locals_, depth - 1).behind_guard()
    if scope.chance(50):
        return a.merged(b, text=f"({a.text} andalso {b.text})", value=lambda v: np.bool_(a.value(v) and b.value(v)))
    return a.merged(b, text=f"({a.text} orelse {b.text})", value=lambda v: np.bool_(a.value(v) or b.value(v)))


def _not(scope: Scope, element: Element, indices: Sequence[Index], locals_: Sequence[Scalar], depth: int) -> Scalar | None:
    a = scalar(scope, element, indices, locals_, depth - 1)
    return replace(a, text=f"(not {_argument(a)})", value=lambda v: np.bool_(not a.value(v)))


def _let(scope: Scope, element: Element, indices: Sequence[Index], locals_: Sequence[Scalar], depth: int) -> Scalar | None:
    of = scope.pick((element, Element.I32, Element.BOOL))
    a = scalar(scope, of, indices, locals_, depth - 1)
    name = scope.index_name() + "_val"
    own = Scalar(name, of, lambda v: v[name], a.bound, a.exact)
    b = scalar(scope, element, indices, [*locals_, own], depth - 1)
    # A name that only the body's result mentions may default: its literal must not.
    text = f"(let val {name} = ({a.text} : {of.value}) in {b.text} end)"
    return b.merged(a, text=text, value=lambda v: b.value({**v, name: a.value(v)}), bound=b.bound, exact=b.exact, loose=b.loose)


def _apply(scope: Scope, element: Element, indices: Sequence[Index], locals_: Sequence[Scalar], depth: int) -> Scalar | None:
    """A function written where it is used, or one that takes a function."""
    a = scalar(scope, element, indices, locals_, depth - 1)
    name = scope.index_name() + "_arg"
    own = Scalar(name, element, lambda v: v[name], a.bound, a.exact, loose=a.loose)
    b = scalar(scope, element, (), [own], min(depth - 1, 1))
    text = scope.pick((f"((fn {name} => {b.text}) {_argument(a)})", f"({a.text} |> (fn {name} => {b.text}))"))
    return b.merged(
        a, text=text, value=lambda v: b.value({**v, name: a.value(v)}), bound=b.bound, exact=b.exact and a.exact, loose=b.loose
    )


def _dimension(scope: Scope, element: Element, indices: Sequence[Index], locals_: Sequence[Scalar], depth: int) -> Scalar | None:
    if not scope.nameable or element.is_unsigned or element in NARROW:
        return None
    name = scope.pick(sorted(scope.nameable))
    value = scope.nameable[name]
    text = name if element is Element.I32 else f"(cast {element.value} {name})"
    return Scalar(text, element, lambda _: element.dtype.type(value), max(value, 1))


# ── reductions ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def binders(scope: Scope, new: Sequence[Index], body: Scalar, comma: bool = False) -> str | None:
    """The binders of new indices: bare where uses give their ranges, bounded elsewhere. None if a bound cannot be written."""
    groups: list[str] = []
    for name, size in new:
        if body.infers(name) and (not scope.can_name(size) or not scope.chance(25)):
            groups.append(name)
        elif scope.can_name(size):
            groups.append(f"{name} < {size.text}")
        else:
            return None
    bounded = any("<" in g for g in groups)
    return ("for " if bounded or comma else "") + (", " if bounded else " ").join(groups)


def _reduce(scope: Scope, element: Element, indices: Sequence[Index], locals_: Sequence[Scalar], depth: int) -> Scalar | None:
    available = [s for s in scope.sizes() if s.value <= 12]
    if not available or len(indices) > 4:
        return None
    new = [(scope.index_name(), scope.pick(available)) for _ in range(scope.pick((1, 1, 2)))]
    count = int(np.prod([s.value for _, s in new]))
    if element is Element.BOOL:
        kind = scope.pick(("any", "all"))
    else:
        kind = scope.pick(("sum", "max", "min", "sum", "prod", "reduce"))
    body = scalar(scope, element, [*indices, *new], locals_, depth - 1)
    where = None
    if kind in ("sum", "any", "all", "prod") and scope.chance(25):
        where = scalar(scope, Element.BOOL, [*indices, *new], locals_, depth - 2)
        body = body.behind_guard().merged(
            where, text=body.text, element=element, value=body.value, bound=body.bound, loose=body.loose
        )
        if not where.exact:
            return None
    text = binders(scope, new, body, comma=where is not None)
    if text is None:
        return None
    bound, exact = body.bound, body.exact
    match kind:
        case "sum":
            bound *= max(count, 1)
        case "prod":
            bound = max(1.0, bound ** max(count, 1)) if bound < 10 and count <= 9 else NO_BOUND
        case "max" | "min" if element.is_float:
            bound = np.inf if count == 0 else bound
        case "reduce":
            bound *= max(count, 1)
    if bound > EXACT[element] and bound != np.inf:
        return None
    if kind in ("max", "min") and not element.is_float:
        for _, size in new:
            if size.number == 0:
                return None
            if size.number is None:
                scope.facts.append(size.value >= 1)
    if where is not None:
        text += f" where {where.text}"
    heads = {
        "reduce": scope.pick(("reduce ((op +), ZERO)", "reduce (fn a b => a + b, ZERO)")).replace("ZERO", constant(0, element).text)
    }
    inside = body.text
    if kind in ("max", "min") and count == 0 and element.is_float:  # of numbers of any type the contract would ask for one
        inside = f"({inside} : {element.value})"
    whole = f"({heads.get(kind, kind)} {text} => {inside})"
    own = {name for name, _ in new}

    def value(v: Values) -> Any:
        found = []
        for at in product(*(range(s.value) for _, s in new)):
            inner = {**v, **dict(zip((n for n, _ in new), at, strict=True))}
            if where is None or where.value(inner):
                found.append(body.value(inner))
        return reduced(kind, found, element)

    sets = {n: getattr(body, n) - own for n in ("bare", "guarded", "affine")}
    return Scalar(whole, element, value, bound, exact, loose=body.loose, **sets)


def reduced(kind: str, values: Sequence[Any], element: Element) -> Any:
    dtype = element.dtype
    if kind in ("any", "all"):
        return np.bool_((any if kind == "any" else all)(bool(x) for x in values))
    if kind in ("max", "min"):
        if not values:
            if not element.is_float:
                raise Outside
            most = 448.0 if element is Element.F8E4M3 else np.inf
            return dtype.type(-most if kind == "max" else most)
        wide = np.array(values).astype(np.float64 if element.is_float else np.int64)  # NaN wins
        return dtype.type(wide.max() if kind == "max" else wide.min())
    wide = element.accumulator.dtype.type
    total = wide(1 if kind == "prod" else 0)
    with np.errstate(all="ignore"):
        for x in values:
            total = total * wide(x) if kind == "prod" else total + wide(x)
    return dtype.type(total)


def _position(scope: Scope, element: Element, indices: Sequence[Index], locals_: Sequence[Scalar], depth: int) -> Scalar | None:
    """argmax or argmin."""
    sizes = [s for s in scope.sizes() if s.number != 0]
    if element is not Element.I32 or not sizes:
        return None
    name, size = new = (scope.index_name(), scope.pick(sizes))
    of = scope.pick((Element.F32, Element.I32))
    body = scalar(scope, of, [*indices, new], locals_, depth - 1)
    text = binders(scope, [new], body)
    if text is None or not body.exact:
        return None
    if size.number is None:
        scope.facts.append(size.value >= 1)
    kind = scope.pick(("argmax", "argmin"))

    def value(v: Values) -> Any:
        found = [body.value({**v, name: i}) for i in range(size.value)]
        if not found:
            raise Outside
        best = (max if kind == "argmax" else min)(found)
        return np.int32(found.index(best))

    sets = {n: getattr(body, n) - {name} for n in ("bare", "guarded", "affine")}
    return Scalar(f"({kind} {text} => {body.text})", element, value, max(size.value, 1), **sets)


def _leaf_kind(scope: Scope, element: Element, indices: Sequence[Index], locals_: Sequence[Scalar], depth: int) -> Scalar | None:
    return _leaf(scope, element, indices, locals_)


_KINDS: dict[str, Callable[[Scope, Element, Sequence[Index], Sequence[Scalar], int], Scalar | None]] = {
    "leaf": _leaf_kind, "binary": _binary, "divide": _divide, "unary": _unary, "cast": _cast, "if": _if, "compare": _compare,
    "logic": _logic, "not": _not, "let": _let, "apply": _apply, "dimension": _dimension, "reduce": _reduce, "position": _position,
}  # fmt: skip

__all__ = ["Scalar", "Scope", "Tensor", "access", "binders", "constant", "number", "reduced", "scalar"]
