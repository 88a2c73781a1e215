"""Patterns: the names that they bind, with the parts of a type."""

from __future__ import annotations

from axon.base.names import fresh
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.shapes.constraint import Reason, Side
from axon.shapes.dimension import Dim
from axon.types import typed as T
from axon.types.annotate import agree, to_type
from axon.types.inference import Inference, clash, unify, wrong
from axon.types.resolve import Scope, ValueName
from axon.types.trouble import Mismatched, NoField, Rule, RuleBroken, TakenApart
from axon.types.type import POISON, RecordType, Scheme, TupleType, Type


def bind_pattern(
    inf: Inference, scope: Scope, pattern: S.Pattern, t: Type, seen: dict[str, Span], dim: Dim | None = None
) -> T.Pattern:
    """Put a pattern's names in scope with the parts of a type, which the pattern may refine."""
    match pattern:
        case S.PatternName(name):
            symbol = fresh(name)
            if name != "_":
                if name in seen:
                    wrong(inf, RuleBroken(Rule.NAME_BOUND_TWICE, pattern.span, (name,), seen[name]))
                seen[name] = pattern.span
                scope.values[name] = ValueName(symbol, Scheme(t), pattern.span, dim)
                inf.inner.append((name, pattern.span, t))
            return T.PatternName(symbol, type=t, span=pattern.span)
        case S.PatternTyped(inner, written):
            inf.annotations.append(pattern.span)
            declared = to_type(inf, scope, written)
            if pattern.span in inf.signed:
                agree(inf, t, declared, inf.signed[pattern.span], written.span)
            else:
                sides = (Side(pattern.span, "this has {}"), Side(written.span, "its type says {}"))
                unify(inf, t, declared, Reason(written.span, "what is bound must have this type", sides))
            return bind_pattern(inf, scope, inner, declared, seen, dim)
        case S.PatternTuple(items):
            parts = [inf.state.type_var() for _ in items]
            whole, reason = TupleType(tuple(parts)), Reason(pattern.span, f"a pattern for a tuple of {len(items)}")
            if (clashing := clash(inf, t, whole, reason)) is not None:
                wrong(inf, Mismatched(clashing, t, whole, reason, TakenApart(pattern, t)))
            bound = tuple(bind_pattern(inf, scope, p, part, seen) for p, part in zip(items, parts, strict=True))
            return T.PatternTuple(bound, type=t, span=pattern.span)
        case S.PatternRecord(fields):
            known = inf.state.prune(t)
            fields_types: list[tuple[str, Type]] = []
            for member, _ in fields:
                found = known.get(member.text) if isinstance(known, RecordType) else None
                if isinstance(known, RecordType) and found is None:
                    wrong(inf, NoField(known, member.text, member.span))
                    found = POISON
                fields_types.append((member.text, found or inf.state.type_var()))
            if not isinstance(known, RecordType):
                unify(inf, t, RecordType(tuple(fields_types)), Reason(pattern.span, "a pattern for a record with these fields"))
            bound_fields = tuple(
                (n.text, bind_pattern(inf, scope, p, ft, seen)) for (n, p), (_, ft) in zip(fields, fields_types, strict=True)
            )
            return T.PatternRecord(bound_fields, type=t, span=pattern.span)
    raise AssertionError(pattern)
