"""The function that is being applied at a place, and which of its parameters is being written."""

from __future__ import annotations

from axon.base.data import dataclass
from axon.grammar import syntax as S
from axon.tools.editor.analysis import Analysis, Checked
from axon.tools.editor.complete import facts_of, nodes
from axon.tools.editor.facts import Facts
from axon.tools.editor.hover import builtin_signature, documentation
from axon.tools.editor.names import Free, names_of
from axon.tools.editor.places import of_module
from axon.tools.editor.repair import HOLE, Mended, mend
from axon.types import typed as T
from axon.types.type import Function, Type


@dataclass(frozen=True, slots=True)
class SignatureHelp:
    """`parameters` are pieces of the label, from one offset to another; `active` is one of them, if any is."""

    label: str
    parameters: tuple[tuple[int, int], ...]
    active: int | None
    text: tuple[str, ...] = ()


def signature_help(analysis: Analysis, offset: int) -> SignatureHelp | None:
    """The innermost application around an offset; None if there is none."""
    _, local = analysis.chunk_at(offset)
    mended = mend(analysis.path, analysis.text[offset - local : offset])
    if mended is None:
        return None
    found = _application(mended)
    if found is None:
        return None
    head, number, in_dims = found
    return _of(analysis, mended, head, number, in_dims)


def _application(mended: Mended) -> tuple[S.Expr, int, bool] | None:
    """The head of the innermost application that the hole is an argument of, the argument's number, and if it is a dimension."""
    best: tuple[S.Expr, int, bool] | None = None
    smallest = 1 << 60
    for node in nodes(mended.decl):
        if isinstance(node, S.ApplyDims) and any(d.span.start <= mended.hole <= d.span.end for d in node.dims):
            number = sum(d.span.end < mended.hole for d in node.dims)
            size, candidate = node.span.end - node.span.start, (node.function, number, True)
        elif isinstance(node, S.Apply) and node.argument.span.start <= mended.hole <= node.argument.span.end:
            head, number = node.function, 0
            while isinstance(head, S.Apply):
                head, number = head.function, number + 1
            size, candidate = node.argument.span.end - node.argument.span.start, (head, number, False)
        else:
            continue
        if size < smallest:
            best, smallest = candidate, size
    return best


def _of(analysis: Analysis, mended: Mended, head: S.Expr, number: int, in_dims: bool) -> SignatureHelp | None:
    sized = isinstance(head, S.ApplyDims) or in_dims
    if isinstance(head, S.ApplyDims):
        head = head.function
    local = names_of(mended.decl).visible(mended.source, mended.hole)
    match head:
        case S.Var(name) if (False, name) not in local:
            found = of_module(analysis, Free(name))
            if found is None or found.checked is None:
                return _builtin(name, number) if _is_builtin(name) else None
            return _declared(found.checked, name, name, number, in_dims, sized)
        case S.Field(S.Var(owner), member) if owner in analysis.imports and (False, owner) not in local:
            found = of_module(analysis.imports[owner], Free(member.text))
            if found is None or found.checked is None or member.text == HOLE:
                return None
            return _declared(found.checked, member.text, f"{owner}.{member.text}", number, in_dims, sized)
    if not isinstance(head, S.Var | S.Field):
        return None
    facts = facts_of(analysis, mended)
    t = facts.type_at(head.span) if facts is not None else None
    if facts is None or t is None or not facts.known(t):
        return None
    return _typed(facts, " ".join(head.span.text.split()), [], (), t, number, False)


def _builtin(name: str, number: int) -> SignatureHelp:
    from axon.types import builtins

    label = builtin_signature(name)
    if name in builtins.OVER_LEAVES:
        return SignatureHelp(label, (), None)
    places: list[tuple[int, int]] = []
    begin = len(f"{name} : ")
    while (arrow := label.find(" -> ", begin)) >= 0:
        places.append((begin, arrow))
        begin = arrow + len(" -> ")
    return SignatureHelp(label, tuple(places), number if number < len(places) else None)


def _is_builtin(name: str) -> bool:
    from axon.types import builtins

    return name in builtins.NAMES and name not in builtins.CONSTANTS


def _declared(checked: Checked, name: str, shown: str, number: int, in_dims: bool, sized: bool) -> SignatureHelp | None:
    """`sized`: the function's own dimensions are written, which come first."""
    scheme = checked.facts.scheme(name)
    if scheme is None:
        return None
    params: tuple[T.Pattern, ...] = ()
    for decl in checked.typed:
        if isinstance(decl, T.Fun):
            params = decl.params
        elif isinstance(decl.value, T.Fn):
            params = decl.value.params
    names = [p.symbol.name if isinstance(p, T.PatternName) else "_" for p in params]
    dims = tuple(s.name for s in scheme.explicit)
    missing = bool(dims) and not sized
    active = 0 if missing else number
    found = _typed(checked.facts, shown, names, dims, scheme.type, active, in_dims or missing, scheme.or_scalar)
    if found is None:
        return None
    facts = ", ".join(checked.facts.contract())
    label = f"{found.label}   where {facts}" if facts else found.label
    return SignatureHelp(label, found.parameters, found.active, tuple(documentation(checked.chunk, checked.decl)))


def _typed(
    facts: Facts, shown: str, names: list[str], dims: tuple[str, ...], t: Type, number: int, in_dims: bool,
    scalars: frozenset[int] = frozenset(),
) -> SignatureHelp | None:  # fmt: skip
    """`name {h} (x : f32[n]) : f32`, with the places of its parameters; None if it has none."""
    label = shown
    places: list[tuple[int, int]] = []
    if dims:
        label += " {"
        for n, dim in enumerate(dims):
            label += ", " if n else ""
            places.append((len(label), len(label) + len(dim)))
            label += dim
        label += "}"
    own = 0
    t = facts.state.prune(t)
    while isinstance(t, Function):
        name = names[own] if own < len(names) else "_"
        piece = f"({name} : {facts.show(t.param)}{'?' * (own in scalars)})"
        label += " "
        places.append((len(label), len(label) + len(piece)))
        label += piece
        own += 1
        t = facts.state.prune(t.result)
    if not places:
        return None
    label += f" : {facts.show(t)}"
    active = number if in_dims else len(dims) + number
    return SignatureHelp(label, tuple(places), active if active < len(places) else None)
