"""What conditions say about sizes: written out, by the names that a `val` gives them, and through the functions that they call.

Note [Conditions of functions]
    `if inside n i then x[i]` says what the body of `inside` says of its arguments. Sizes are whole numbers without an end; but a
    parameter is an i32, whose sums and products may wrap. So a comparison in a function says something only where its sides are
    parameters, sizes and numbers as they are; `i + 1` as an argument is a size, and may be one of those. What a function compares
    otherwise is like an alternative: it says nothing by itself, and what is read is looked at while running.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from axon.base.names import Symbol
from axon.shapes.dimension import Dim, DimensionTooLarge
from axon.shapes.relation import Relation
from axon.types import typed as T
from axon.types.inference import Inference
from axon.types.symbolic import Says, has_size, symbolic

_RELATIONS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_MAX_CALLS = 8  # functions within functions

_NOTHING = Says()
_ALTERNATIVE = Says((), False)


def says(inf: Inference, e: T.Expr, holds: bool) -> Says:
    """What a condition says if it holds, or if it does not. Names never change: what one stands for holds where it is in scope."""
    return _Reading(inf.named, inf).says(e, holds)


@dataclass(frozen=True, slots=True)
class _Reading:
    """How a condition is read: in a function, only what cannot wrap is. See Note [Conditions of functions]."""

    named: Mapping[Symbol, tuple[Says, Says]]  # what names that a `val` binds say if they are false, and if they are true
    inf: Inference
    calls: int = 0

    def says(self, e: T.Expr, holds: bool) -> Says:
        match e:
            case T.Binary(op=op, left=left, right=right) if op in _RELATIONS:
                for side, other in ((left, right), (right, left)):
                    if isinstance(side, T.Literal) and isinstance(side.value, bool) and op in ("eq", "ne"):
                        return self.says(other, (side.value == (op == "eq")) == holds)
                relation = self._relation(op, left, right)
                if relation is not None:
                    return Says((relation if holds else relation.negated,))
            case T.Binary(op="and" | "or" as op, left=left, right=right) if (op == "and") == holds:
                return _both(self.says(left, holds), self.says(right, holds))
            case T.Unary(op="not", operand=operand):
                return self.says(operand, not holds)
            case T.If(condition=condition, then=then, otherwise=otherwise):
                for taken, never in ((True, otherwise), (False, then)):
                    if isinstance(never, T.Literal) and never.value is (not holds):  # else it would be that
                        return _both(self.says(condition, taken), self.says(then if taken else otherwise, holds))
            case T.Let(body=body):
                return self.says(body, holds)
            case T.Variable(symbol=symbol):
                if symbol in self.named and not self.calls:
                    return self.named[symbol][holds]
            case T.Call():
                inside = self._inside(e)
                if inside is not None:
                    return replace(self, calls=self.calls + 1).says(inside, holds)
        return _ALTERNATIVE if self._about_sizes(e) else _NOTHING

    def _relation(self, op: str, left: T.Expr, right: T.Expr) -> Relation | None:
        """A comparison of sizes."""
        if self.calls and not all(isinstance(side, T.Dimension | T.Literal) for side in (left, right)):
            return None
        whole = has_size(left) or has_size(right)  # what a size is compared with is a whole number, too
        a, b = symbolic(left, whole), symbolic(right, whole)
        return None if a is None or b is None else Relation(a, _RELATIONS[op], b)

    def _inside(self, call: T.Call) -> T.Expr | None:
        """The body of a function that is called with all its arguments, with those put in."""
        function = call.function
        body = self.inf.used.get(function.symbol) if isinstance(function, T.Variable) else None
        if body is None or self.calls == _MAX_CALLS or len(body.params) != len(call.arguments):
            return None
        names = [p.symbol for p in body.params if isinstance(p, T.PatternName)]
        if len(names) < len(body.params):
            return None
        assert isinstance(function, T.Variable)
        dims = function.instance.dims if function.instance is not None else {}
        try:
            found: T.Expr = _put_in(body.expr, dict(zip(names, call.arguments, strict=True)), dims)
            return found
        except DimensionTooLarge:
            return None

    def _about_sizes(self, e: T.Expr) -> bool:
        match e:
            case T.Binary(op=op, left=left, right=right) if op in ("and", "or") or op in _RELATIONS:
                known = op in _RELATIONS and (self._relation(op, left, right) is not None or (self.calls > 0 and _sized(e)))
                return known or self._about_sizes(left) or self._about_sizes(right)
            case T.Unary(op="not", operand=operand):
                return self._about_sizes(operand)
            case T.If(condition=condition, then=then, otherwise=otherwise):
                return any(map(self._about_sizes, (condition, then, otherwise)))
            case T.Let(body=body):
                return self._about_sizes(body)
            case T.Variable(symbol=symbol):
                return symbol in self.named or self.calls > 0
            case T.Call(arguments=arguments):
                return any(map(_sized, arguments))
        return False


def _both(a: Says, b: Says) -> Says:
    return Says(tuple(dict.fromkeys((*a.facts, *b.facts))), a.exact and b.exact)


def _sized(e: T.Expr) -> bool:
    """Whether a size stands in an expression."""
    return any(isinstance(node, T.Dimension) for node in T.nodes(e))


def _put_in(e: Any, values: dict[Symbol, T.Expr], dims: Mapping[Symbol, Dim]) -> Any:
    """An expression with values in place of names, those of its `let`s too, and with sizes in place of sizes."""
    match e:
        case tuple():
            return tuple(_put_in(part, values, dims) for part in e)
        case T.Variable(symbol=symbol) if symbol in values:
            return values[symbol]
        case T.Dimension(dim=dim):
            return replace(e, dim=dim.substitute(dims))
        case T.Let(decls=decls, body=body):
            for d in decls:
                if isinstance(d, T.Val) and isinstance(d.pattern, T.PatternName):
                    values[d.pattern.symbol] = _put_in(d.value, values, dims)
            return _put_in(body, values, dims)
        case T.Binary() | T.Unary() | T.If() | T.Call():
            changed = {f.name: _put_in(getattr(e, f.name), values, dims) for f in fields(e) if f.name in T.CHILDREN}
            return replace(e, **changed)
    return e
