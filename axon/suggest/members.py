"""Functions of the modules that a declaration uses, where another one of them may have been meant: `conv2d_same` for `conv2d`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from axon.base.diagnostics import Change, Edit, Suggestion
from axon.base.names import Symbol
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.grammar.rewrite import call, quoted_dim, var
from axon.shapes.dimension import Dim, atom_key
from axon.suggest.mutations import expr, node, propose, proposing
from axon.types import typed as T
from axon.types.resolve import Module, ValueName
from axon.types.type import Function, Row, Tensor, Type
from axon.types.unify import State

Modules = Mapping[str, Module]


@proposing
def variants(function: Span, modules: Modules) -> Iterator[Suggestion]:
    """A function whose name goes on where that of the one called ends, and which takes as many arguments."""
    owner, _, called = function.text.partition(".")
    own = modules[owner].values.get(called) if owner in modules else None
    if not isinstance(own, ValueName):
        return
    for name, value in modules[owner].values.items():
        alike = isinstance(value, ValueName) and name.startswith(f"{called}_") and not value.scheme.explicit
        if alike and isinstance(value, ValueName) and _arity(value.scheme.type) == _arity(own.scheme.type):
            yield propose("use", new := var(f"{owner}.{name}"), (expr(function), new))


def together_elsewhere(ways: Sequence[Sequence[Suggestion]]) -> Iterator[Suggestion]:
    """The variants of several calls that a size passes, where each has the same one: `nn.conv2d_same` for both `nn.conv2d`."""
    edits: dict[str, list[Edit]] = {}
    for suggestion in (s for way in ways for s in way):
        edits.setdefault(suggestion.text, []).extend(suggestion.edits)
    for text, several in edits.items():
        if len(several) > 1 and len({e.span for e in several}) == len(several):
            yield Suggestion(f"{text} in each of the {len(several)} calls", tuple(several))


@proposing
def merged_again(e: T.Expr, modules: Modules, state: State) -> Iterator[Suggestion]:
    """A function that makes one dimension of two, around what was split: `nn.merge_heads (nn.attention q k v)`."""
    t = state.prune(e.type)
    rank = len(state.shape(t.shape)) if isinstance(t, Tensor) else 0
    for owner, module in modules.items():
        for name, value in module.values.items():
            if isinstance(value, ValueName) and not value.scheme.explicit and _merges(value.scheme.type, rank, state):
                new = call(var(f"{owner}.{name}"), expr(e))
                yield propose("merge the parts again:", new, (expr(e), new))


@proposing
def half_of_a_window(function: T.Expr, modules: Modules, state: State, show: Callable[[Dim], str]) -> Iterator[Suggestion]:
    """For a dimension argument p with which h becomes h + 2 * p - r, before any division: r / 2, which keeps h as it is."""
    owner, _, called = function.span.text.partition("{")[0].strip().partition(".")
    own = modules[owner].values.get(called) if owner in modules else None
    instance = function.instance if isinstance(function, T.Variable) else None
    given = node(function.span, S.ApplyDims)
    if not isinstance(own, ValueName) or instance is None or len(given.dims) != len(own.scheme.explicit):
        return
    t = own.scheme.type
    while isinstance(t, Function):
        t = t.result
    sizes = [i for i in state.shape(t.shape) if isinstance(i, Dim)] if isinstance(t, Tensor) else []
    found: dict[tuple[S.Dim, str], None] = {}
    for size in (part for s in sizes for part in (s, *(q.dividend for q in sorted(s.quotients, key=atom_key)))):
        for padding, written in zip(own.scheme.explicit, given.dims, strict=True):
            times = size.mapping.get((padding,), 0)
            windows = [m[0] for m, c in size.mapping.items() if len(m) == 1 and c == -1 and isinstance(m[0], Symbol)]
            for window in windows if times > 1 else ():
                wide = state.dimension(instance.dims.get(window, Dim.of(window)))
                half = Dim.of(wide.constant // times) if wide.constant is not None else wide // times
                if (text := show(half)) != written.span.text:
                    found.setdefault((written, text))
    for own_size, text in found:
        yield propose("make it", given, (own_size, quoted_dim(text)), change=Change.SIZE)


def _merges(t: Type, rank: int, state: State) -> bool:
    """Whether a function of one tensor of this rank gives one in which two of its dimensions are one."""
    if not isinstance(t, Function) or not isinstance(t.param, Tensor) or not isinstance(t.result, Tensor):
        return False
    own, made = ([*state.shape(s.shape)] for s in (t.param, t.result))
    parts = {i.symbol for i in own if isinstance(i, Dim)}
    rows = any(isinstance(i, Row) for i in own)
    fits = rank >= len(own) - 1 if rows else rank == len(own)
    return fits and len(made) == len(own) - 1 and any(isinstance(i, Dim) and _product_of(i, parts) for i in made)


def _product_of(size: Dim, parts: set[Symbol | None]) -> bool:
    """Whether a size is the product of two of some."""
    ((factors, number),) = size.mapping.items() if len(size.mapping) == 1 else [((), 0)]
    return number == 1 and len(factors) == 2 and all(f in parts for f in factors)


def _arity(t: Type) -> int:
    count = 0
    while isinstance(t, Function):
        t, count = t.result, count + 1
    return count
