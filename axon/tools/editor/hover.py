"""What to show where somebody points: type, shape, contract, documentation, and where sizes come from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from axon.base.data import dataclass
from axon.base.element import FLOAT, INT, NUM, Element
from axon.base.source import Span
from axon.chance.model import Model
from axon.grammar import syntax as S
from axon.grammar.comments import words
from axon.grammar.format import print_declaration
from axon.tools.editor.analysis import Analysis, Checked
from axon.tools.editor.chunks import Chunk
from axon.tools.editor.facts import Facts, listed
from axon.tools.editor.graphical import graph
from axon.tools.editor.names import Binding, Kind, Occurrence
from axon.tools.editor.places import Definition, Spot, resolve, spot, whole
from axon.types import builtins
from axon.types import typed as T
from axon.types.resolve import ModelName
from axon.types.show import show_shape, signature
from axon.types.type import Function, Type

ELEMENT_WORDS = {
    Element.F64: "a float of 64 bits", Element.F32: "a float of 32 bits", Element.F16: "a float of 16 bits, 5 of exponent",
    Element.BF16: "a float of 16 bits with the range of f32, 8 of exponent", Element.F8E4M3: "a float of 8 bits, 4 of exponent",
    Element.F8E5M2: "a float of 8 bits, 5 of exponent", Element.I64: "an integer of 64 bits", Element.I32: "an integer of 32 bits",
    Element.I16: "an integer of 16 bits", Element.I8: "an integer of 8 bits", Element.U64: "an integer of 64 bits from 0",
    Element.U32: "an integer of 32 bits from 0", Element.U16: "an integer of 16 bits from 0 to 65,535",
    Element.U8: "an integer of 8 bits from 0 to 255", Element.BOOL: "true or false",
}  # fmt: skip

REDUCTION_WORDS = {
    "sum": "the sum", "prod": "the product", "max": "the largest value", "min": "the smallest value", "any": "whether any holds",
    "all": "whether all hold", "argmax": "the index of the first largest value", "argmin": "the index of the first smallest value",
    "reduce": "any associative function: `reduce (f, unit) k => …`", "scan": "running results, inclusive: `scan (f, unit) k => …`",
}  # fmt: skip

FUNCTION_WORDS = {
    "rsqrt": "1 / sqrt x", "sign": "-1, 0 or 1", "erf": "the error function", "floor": "the largest integer that is not above x",
    "ceil": "the smallest integer that is not below x", "round": "the nearest integer; halves go to the even one",
    "pow": "x to the power of y", "nonzero": "the indices at which a vector is true, ascending",
    "filter": "the elements whose condition is true, in order", "sort": "ascending along the last dimension, NaN last",
    "argsort": "the indices that sort the last dimension", "expm1": "exp x - 1, exact near 0", "log1p": "log (1 + x), exact near 0",
    "cbrt": "the cube root", "asin": "the angle whose sine is x", "acos": "the angle whose cosine is x",
    "atan": "the angle whose tangent is x", "atan2": "atan2 y x: the angle of the point (x, y)", "erfc": "1 - erf x",
    "erfinv": "the number whose error function is x", "lgamma": "the logarithm of the absolute value of the gamma function",
    "digamma": "the derivative of lgamma", "bit_not": "every bit turned", "bit_and": "the bits that both have",
    "bit_or": "the bits that either has", "bit_xor": "the bits that one of both has",
    "shift_left": "shift_left x k: x times 2 ** k; 0 unless k is at least 0 and below the width",
    "shift_right": "shift_right x k: x / 2 ** k; 0 or -1 unless k is at least 0 and below the width",
    "each": "a function of tensors at corresponding leaves of records and tuples of one structure",
    "fold_leaves": "what a function gives for each leaf, combined in the order of the fields' names",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hover:
    """`code` is Axon, one item a line; `text` is Markdown. `span` is what they are about."""

    code: tuple[str, ...]
    text: tuple[str, ...]
    span: Span

    @property
    def markdown(self) -> str:
        shown = "\n".join(self.code)
        return "\n\n".join([f"```axon\n{shown}\n```" if shown else "", *self.text]).strip()


def hover(analysis: Analysis, offset: int) -> Hover | None:
    """What is known about the name or expression at an offset; None if nothing is."""
    at = spot(analysis, offset)
    if at is None or at.part is None:
        return None
    if at.occurrence is not None:
        found = resolve(at.analysis, at.part, at.occurrence.target)
        if found is not None:
            return describe(found, at.occurrence, at.part.facts, at.analysis)
    return _expression(at)


def describe(found: Definition, o: Occurrence, facts: Facts | None, seen: Analysis) -> Hover | None:
    """What a name stands for, as seen from one of its places, in the module `seen`."""
    here = None if facts is None else _type_here(facts, o)
    match found.kind:
        case Kind.FUNCTION | Kind.VALUE if found.checked is not None:
            return _global(found, o, facts, here, seen)
        case Kind.FUNCTION | Kind.VALUE | Kind.PARAMETER:
            if here is None or facts is None:
                return Hover((found.name,), (found.kind.value,), o.span)
            return Hover((f"{found.name} : {facts.show(here)}",), (found.kind.value, *origins(facts, here, seen)), o.span)
        case Kind.INDEX | Kind.RUN:
            return _index(found, o, facts)
        case Kind.DIMENSION | Kind.SHAPE:
            return _dimension(found, o, facts)
        case Kind.FIELD:
            made = _field(facts, o) if facts is not None and here is None else here
            if isinstance(made, str):
                return Hover((f"{found.name} : {made}",), ("field",), o.span)
            shown = f"{found.name} : {facts.show(made)}" if facts is not None and made is not None else found.name
            more = origins(facts, made, seen) if facts is not None and made is not None else ()
            return Hover((shown,), ("field", *more), o.span)
        case Kind.TYPE_VARIABLE:
            return Hover((f"'{found.name}",), (_element_words(found, facts),), o.span)
        case Kind.TYPE:
            return _type(found, o)
        case Kind.MODULE:
            assert found.analysis is not None
            doc = _module_doc(found)
            return Hover((f"import {found.name}",), (*doc, f"`{found.analysis.path}`"), o.span)
        case Kind.ELEMENT:
            return Hover((found.name,), (f"element type: {ELEMENT_WORDS[Element(found.name)]}",), o.span)
        case Kind.BUILTIN:
            used = () if facts is None or here is None else (f"here {facts.show(here)}",)
            return Hover((builtin_signature(found.name), *used), builtin_words(found.name), o.span)


def _type_here(facts: Facts, o: Occurrence) -> Type | None:
    """The type of a name where it stands, if the checker came so far."""
    exact = facts.type_at(o.span)
    if exact is not None:
        return exact if facts.known(exact) else None
    nodes = [n for n in facts.nodes.values() if n.span.file is o.span.file]
    ends = [n for n in nodes if n.span.end == o.span.end and n.span.start < o.span.start]  # a member: `nn.gelu`, `p.w`
    begins = [n for n in nodes if n.span.start == o.span.start]  # `f {8}`, `sum k => …`, `exp x`
    for found in (ends, begins):
        node = min(found, key=lambda n: n.span.end - n.span.start, default=None)
        if node is not None and facts.known(node.type):
            return node.type
    return None


def _field(facts: Facts, o: Occurrence) -> Type | str | None:
    """The type of a field where a record is made or a type declared: of its value, or as it is written."""
    stack: list[object] = [facts.checked.decl, *facts.checked.sigs]
    while stack:
        match stack.pop():
            case S.Record(fields) | S.PatternRecord(fields) | S.TypeRecord(fields) as node:
                for name, value in fields:
                    if name.span == o.span:
                        if isinstance(node, S.TypeRecord):
                            return value.span.text
                        t = facts.type_at(value.span)
                        return t if t is not None and facts.known(t) else None
                    stack.append(value)
            case S.Node() as node:
                stack += [getattr(node, name) for name in node.__dataclass_fields__ if name not in ("span", "op_span")]
            case tuple() as items:
                stack += items
    return None


def _global(found: Definition, o: Occurrence, facts: Facts | None, here: Type | None, seen: Analysis) -> Hover:
    """A declaration of a module: its signature, what it is where it is used, what its comment says."""
    assert found.checked is not None
    checked = found.checked
    scheme = checked.facts.scheme(found.name)
    word = "fun" if isinstance(checked.decl, S.Fun) else "val"
    doc = documentation(checked.chunk, checked.decl)
    model = checked.entities.get(found.name)
    if isinstance(model, ModelName):
        drawn = graph(found.analysis, found.name) if found.analysis is not None else None
        shown = (f"```text\n{drawn}\n```",) if drawn is not None else ()
        return Hover(tuple(_model(checked, model.model)), ("model", *doc, *shown), o.span)
    if scheme is None:
        return Hover((f"{word} {found.name}",), ("its declaration has errors", *doc), o.span)
    code = [f"{word} {found.name} : {signature(checked.state, scheme)}"]
    own = facts is checked.facts
    if here is not None and facts is not None and scheme.quantified and not own:
        code.append(f"here {facts.show(here)}")
    return Hover(tuple(code), (*doc, *(origins(checked.facts, scheme.type, seen) if own else ())), o.span)


def _model(checked: Checked, model: Model) -> Iterator[str]:
    """The latents of a model, what it observes, and its functions."""
    yield f"fun {model.name}"
    for function, what in (("prior", "latents"), ("predict", "observes")):
        scheme = checked.facts.scheme(f"{model.name}.{function}") if function in model.functions else None
        t = scheme.type if scheme is not None else None
        while isinstance(t, Function):
            t = checked.state.prune(t.result)
        if t is not None:
            yield f"{what} : {checked.facts.show(t)}"
    yield "functions : " + " ".join(model.functions)


def _index(found: Definition, o: Occurrence, facts: Facts | None) -> Hover:
    dots = ".." if found.kind is Kind.RUN and found.name != ".." else ""
    range_ = facts.ranges.get(found.target) if facts is not None and isinstance(found.target, Binding) else None
    if facts is None or range_ is None:
        return Hover((f"{dots}{found.name}",), (found.kind.value,), o.span)
    symbol, extent = range_
    over = facts.uses_of(symbol)
    words = f"{found.kind.value} over {listed(over)}" if over else found.kind.value
    shown = facts.show_extent(extent)
    if shown.removeprefix("..") == found.name:
        alike = f"{words}, whose {'sizes are' if dots else 'size is'} named `{shown}` after it"
        return Hover((f"{dots}{found.name}" if dots else f"{found.name} : i32",), (alike,), o.span)
    return Hover((f"{dots}{found.name} < {shown}",), (words,), o.span)


def _dimension(found: Definition, o: Occurrence, facts: Facts | None) -> Hover:
    dots = ".." if found.kind is Kind.SHAPE else ""
    text = [found.kind.value]
    if facts is not None:
        symbol = next((s for s, n in facts.namer.names.items() if n == found.name and s.name == found.name), None)
        if symbol is None and (size := facts.of_sig(found.name)) is not None:
            text.append(f"`{show_shape(facts.namer, (size,))}` of the `sig`")
            symbol = size.symbol
        where = facts.positions(symbol) if symbol is not None else []
        text[0] += f": {listed(where)}" if where else ""
        about = [f"`{fact}`" for fact in facts.contract() if re.search(rf"\b{found.name}\b", fact)]
        if about:
            text.append(f"where {', '.join(about)}")
    return Hover((f"{dots}{found.name}",), tuple(text), o.span)


def _element_words(found: Definition, facts: Facts | None) -> str:
    allowed = None
    if facts is not None:
        allowed = next((a for s, a in facts.state.allowed.items() if s.name == found.name and s in facts.state.rigid), None)
    what = {FLOAT: "any float", NUM: "any number", INT: "any integer"}.get(allowed or frozenset(), "any element type")
    return f"type variable: {what}"


def _type(found: Definition, o: Occurrence) -> Hover:
    if found.checked is None:
        return Hover((f"type {found.name}",), (), o.span)
    doc = documentation(found.checked.chunk, found.checked.decl)
    return Hover(tuple(print_declaration(found.checked.decl).splitlines()), tuple(doc), o.span)


def _module_doc(found: Definition) -> list[str]:
    """The comment that a module begins with, if it is not that of its first declaration."""
    assert found.analysis is not None
    text = found.analysis.text.lstrip()
    end = text.find("*)")
    return _words(text[: end + 2]) if text.startswith("(*") and text[end + 2 :].startswith("\n\n") else []


def _expression(at: Spot) -> Hover | None:
    """The type of the smallest expression around a place that is no name: an operator, a keyword, a number."""
    facts = at.part.facts if at.part is not None else None
    here = Span(at.file, at.offset, min(at.offset + 1, len(at.file.text)))
    if facts is None or at.file.text[at.offset : at.offset + 1].strip() == "":
        return None
    if any(c.start <= at.offset < c.end for c in whole(at.chunk).lexed.comments):
        return None
    node = facts.around(here)
    if node is None or isinstance(node, T.PatternName | T.PatternTuple | T.PatternRecord) or not facts.known(node.type):
        return None
    words = " ".join(node.span.text.split())
    excerpt = words if len(words) <= 60 else words[:59] + "…"
    return Hover((f"{excerpt} : {facts.show(node.type)}",), origins(facts, node.type, at.analysis), node.span)


def origins(facts: Facts, t: Type, seen: Analysis) -> tuple[str, ...]:
    """A line for each size that a type names: where it comes from."""
    lines = []
    for symbol in facts.symbols(t)[:6]:
        found = facts.origin(symbol)
        if found.text == "inferred":
            continue
        place = seen.place(found.span) if found.span is not None else None
        line = "" if place is None else f", line {seen.line(place[0])}"
        lines.append(f"* `{facts.namer.dim(symbol)}` {found.text}{line}")
    return ("\n".join(lines),) if lines else ()


# ── documentation ───────────────────────────────────────────────────────────────────────────────────────────────────────


def documentation(chunk: Chunk, decl: S.Decl) -> list[str]:
    """The comment that ends right before a declaration, as Markdown."""
    before = whole(chunk).source.text[: decl.span.start].rstrip()
    comment = next((c for c in whole(chunk).lexed.comments if c.end == len(before)), None)
    return _words(comment.text) if comment is not None else []


def _words(comment: str) -> list[str]:
    out: list[str] = []
    code = False
    for line in words(comment).splitlines():
        begins = line.lstrip().startswith(">>>")
        if begins and not code:
            out.append("```axon")
        elif code and not line.strip():
            out.append("```")
        code = begins or (code and bool(line.strip()))
        out.append(line)
    if code:
        out.append("```")
    return ["\n".join(out).strip()]


def builtin_signature(name: str) -> str:
    """The type of a function or constant of the language, as text."""
    if name in builtins.UNARY:
        return f"{name} : 'a[..s] -> 'a[..s]"
    if name in ("max", "min"):
        return f"{name} : 'a[..s] -> 'a[..s] -> 'a[..s], or {name} k => …"
    if name in builtins.BINARY:
        return f"{name} : 'a[..s] -> 'a[..s] -> 'a[..s]"
    if name in builtins.CONSTANTS:
        return f"{name} : {'bool' if isinstance(builtins.CONSTANTS[name], bool) else 'any float'}"
    if name in builtins.FUNCTIONS:
        return f"{name} : {builtins.FUNCTIONS[name]}"
    return builtins.OVER_LEAVES.get(name, f"{name} k => …")


def builtin_words(name: str) -> tuple[str, ...]:
    words = [w for w in (FUNCTION_WORDS.get(name), REDUCTION_WORDS.get(name)) if w]
    allowed = builtins.UNARY.get(name) or builtins.BINARY.get(name) or builtins.REDUCTIONS.get(name)
    takes = {FLOAT: "of floats", NUM: "of numbers", INT: "of integers"}.get(allowed or frozenset(), "")
    return (f"of the language: {'; '.join(words)}" if words else "of the language", *([takes] if takes else []))
