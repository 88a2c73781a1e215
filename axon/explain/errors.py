"""The wording of type errors. Each function makes one Diagnostic, of a trouble that inference has found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from axon.base.data import dataclass
from axon.base.diagnostics import Diagnostic, Label, Suggestion
from axon.base.element import ANY, FLOAT, INT, NUM, Element
from axon.base.names import Symbol
from axon.base.nearest import did_you_mean, nearest
from axon.base.source import Span
from axon.explain.parameter import operands, parameter, taken_from
from axon.grammar import syntax as S
from axon.grammar.mistakes import ATTRIBUTES
from axon.shapes.constraint import Reason
from axon.shapes.dimension import Dim
from axon.types import typed as T
from axon.types.show import Namer, show_element, show_shape, show_type, symbols_of
from axon.types.trouble import Argument, NoDerivativeOf, StructuresDiffer
from axon.types.type import ElementVar, Exists, Function, RecordType, Row, Shape, Tensor, TupleType, Type, TypeVar
from axon.types.typed import nodes
from axon.types.unify import Mismatch, State

_DECLARATION = re.compile(r"^(fun|val|sig|type|import)\b", re.MULTILINE)
_ATOM = re.compile(r"[A-Za-z_][\w.]*(\[[^\[\]]*\])?|\d+(\.\d+)?")  # what needs no parentheses as an argument
_CLASSES = (
    (FLOAT, "a float"),
    (INT, "an integer"),
    (NUM, "a number"),
    (frozenset({Element.BOOL}), "bool"),
    (ANY, "any element type"),
)


def class_name(allowed: frozenset[Element]) -> str:
    for members, name in _CLASSES:
        if allowed == members:
            return name
    if len(allowed) == 1:
        return next(iter(allowed)).value
    return "one of " + ", ".join(sorted(e.value for e in allowed))


def sort_of(state: State, t: Type) -> str:
    """What kind of thing a type is, for people."""
    match state.prune(t):
        case Tensor(_, shape):
            return "a tensor" if state.shape(shape) else "a scalar"
        case Function():
            return "a function"
        case TupleType(()):
            return "the unit `()`"
        case TupleType(items):
            return f"a tuple of {len(items)}"
        case RecordType():
            return "a record"
        case Exists():
            return "a value whose size only the data decide"
        case _:
            return "a value of any type"


def mismatch(state: State, m: Mismatch, left: Type, right: Type, reason: Reason) -> Diagnostic:
    """Two whole types that did not unify: left is what stands in the source, right what is needed there."""
    namer = Namer(state, classes=True)
    if image := _indexed_sizes(state):
        left, right = state.renamed(left, image), state.renamed(right, image)
    label = Label(reason.span, reason.text)
    sides = tuple(Label(s.span, s.text) for s in reason.sides if "{}" not in s.text)
    namer.plan([*symbols_of(state, left), *symbols_of(state, right)])  # the user's own names first, of both
    have, need = show_type(namer, left), show_type(namer, right)
    whole = (f"found  {have}", f"needed {need}")
    match m.kind, m.left, m.right:
        case "element", (Element() | ElementVar()) as a, (Element() | ElementVar()) as b:
            return _elements(state, namer, a, b, reason, whole)
        case "class", a, b:
            return _classes(state, a, b, reason)
        case "rank", tuple() as a, tuple() as b:
            a, b = (_substituted(state, s, image) for s in (a, b))
            first, second = _rank(state, namer, a), _rank(state, namer, b)
            shown = [f"[{text}]" if (text := show_shape(namer, s)) else "a scalar" for s in (a, b)]
            labels = _labels(reason, *shown) if isinstance(left, Tensor) else (label, *sides)
            if (pair := unequal_rows(state, a, b)) is not None:
                names = [f"..{namer.dim(symbol)}" for symbol in pair]
                message = f"nothing says that `{names[0]}` and `{names[1]}` stand for the same dimensions"
                return Diagnostic("AX0203", message, labels, whole)
            return Diagnostic("AX0203", f"the ranks differ: {first}, {second}", labels, whole)
        case "record", RecordType(f1), RecordType(f2):
            return _records({n for n, _ in f1}, {n for n, _ in f2}, label, sides, whole)
        case "infinite", _, _:
            return Diagnostic("AX0206", "this type would have to contain itself", (label, *sides), (f"between {have} and {need}",))
        case "tuple", TupleType(i1), TupleType(i2):
            return Diagnostic("AX0204", f"a tuple of {len(i1)} is not a tuple of {len(i2)}", (label, *sides), whole)
    a, b = (m.left, m.right) if _is_type(m.left) and _is_type(m.right) else (left, right)
    first, second = sort_of(state, a), sort_of(state, b)  # type: ignore[arg-type]
    rigid = next((t for t in (a, b) if isinstance(t, TypeVar)), None)
    if rigid is not None:
        return Diagnostic(
            "AX0211", f"`'{rigid.symbol.name}` stands for any type, but here it would have to be one", (label, *sides), whole
        )
    return Diagnostic("AX0204", f"{first} cannot be used as {second}", (label, *sides), whole)


def signature(state: State, a: Argument) -> str:
    """What a function takes that is given something of another sort, such as weights for the tensor that comes first."""
    return f"`{a.name}` : {show_type(Namer(state), a.function.type)}"


def scalars_alone(state: State, shape: Shape, arguments: tuple[Argument, ...]) -> Diagnostic:
    """Of scalars for all the parameters that could say how large the tensor is that they stand for."""
    given = [a.arguments[a.at] for a in arguments]
    known = [p.symbol.name for a in arguments for p in a.patterns[a.at : a.at + 1] if isinstance(p, T.PatternName)]
    these = " or ".join(f"`{name}`" for name in known) if len(known) == len(given) else "one of these"
    message = f"`{arguments[0].name}` needs a tensor for {these}"
    labels = tuple(Label(e.span, "a scalar") for e in given)
    text = show_shape(Namer(state), shape)
    return Diagnostic("AX0306", message, labels, (f"[{text}] is the shape of one of them, and scalars do not tell it",))


def unequal_rows(state: State, a: Shape, b: Shape) -> tuple[Symbol, Symbol] | None:
    """The first of the shape variables to which annotations give names by which two shapes differ."""
    pairs = zip(_rigid_rows(state, a), _rigid_rows(state, b), strict=False)
    return next(((x, y) for x, y in pairs if x != y), None)


def _rigid_rows(state: State, shape: Shape) -> list[Symbol]:
    """The shape variables of a shape to which annotations give names."""
    return [i.symbol for i in state.shape(shape) if isinstance(i, Row) and i.symbol in state.rigid]


def _substituted(state: State, shape: Shape, image: dict[Symbol, Dim]) -> Shape:
    return tuple(i if isinstance(i, Row) else state.dimension(i).substitute(image) for i in state.shape(shape))


def _indexed_sizes(state: State) -> dict[Symbol, Dim]:
    """How far indices run by what each indexes alone, as it will turn out if nothing else is wrong."""
    extents = {r.symbol: r.extent.symbol for r in state.ranges if not r.stated}
    image: dict[Symbol, Dim] = {}
    for use in state.uses:
        extent = extents.get(use.index.symbol) if use.index.symbol is not None else None
        target = state.dimension(use.target)
        if extent is not None and extent not in state.dims and target.variables <= state.rigid:
            image.setdefault(extent, target)
    return image


def _labels(reason: Reason, first: str, second: str) -> tuple[Label, ...]:
    """The place of a mismatch and its two sides, each with what it has; one label for one place."""
    out = [Label(reason.span, reason.text)]
    for side, has in zip(reason.sides, (first, second), strict=False):
        text = side.text.replace("{}", has) if "{}" in side.text else f"this is {has}"
        text = re.sub(r" has (?=an? )", " is ", text)
        same = next((n for n, label in enumerate(out) if label.span == side.span), None)
        if same is None:
            out.append(Label(side.span, text))
        else:
            out[same] = Label(side.span, f"{out[same].text}: {text}" if ": " not in out[same].text else f"{out[same].text}; {text}")
    return tuple(out)


def _is_type(t: object) -> bool:
    return isinstance(t, (Tensor, Function, TupleType, RecordType, Exists, TypeVar))


def _elements(
    state: State, namer: Namer, a: Element | ElementVar, b: Element | ElementVar, reason: Reason, whole: tuple[str, ...]
) -> Diagnostic:
    first, second = show_element(namer, a), show_element(namer, b)
    labels = _labels(reason, first, second)
    rigid = next((e for e in (a, b) if isinstance(e, ElementVar)), None)
    if rigid is not None:
        name = namer.variable(rigid.symbol, "a")
        other = second if a is rigid else first
        help_ = Suggestion(f"write `{other}` instead of `{name}`, or `cast` the value")
        message = f"`{name}` stands for any element type, but here it would have to be {other}"
        return Diagnostic("AX0211", message, labels, whole, (help_,))
    help_ = Suggestion(f"there is no silent conversion: write `cast {second} …` or `cast {first} …`")
    return Diagnostic("AX0201", f"the element types differ: {first} and {second}", labels, (), (help_,))


@dataclass(frozen=True, slots=True)
class Classes:
    """Two classes of element types without a common one, in words and as sets: what stands at a place, and what is needed."""

    first: str
    second: str
    one: frozenset[Element]
    other: frozenset[Element]
    at: Span
    beside: Span  # of two operands, the other one


def classes_of(state: State, a: object, b: object, reason: Reason) -> Classes:
    """The sides of a mismatch of classes; of two operands, neither of which is what is needed, first the one to cast."""
    (first, one), (second, other) = _class(state, a), _class(state, b)
    sides = [s.span for s in reason.sides] if len(reason.sides) == 2 else [reason.span, reason.span]
    operands = all(span != reason.span for span in sides)
    if operands and ((one <= FLOAT and other <= INT) or (isinstance(b, Element) and not (one <= INT and other <= FLOAT))):
        return Classes(second, first, other, one, sides[1], sides[0])
    return Classes(first, second, one, other, sides[0], sides[1])


def _class(state: State, x: object) -> tuple[str, frozenset[Element]]:
    match x:
        case frozenset():
            return class_name(x), x
        case Element():
            return x.value, state.allowed_of(x)
        case ElementVar():
            allowed = state.allowed_of(x)
            return class_name(allowed), allowed
        case _:
            return "something else", ANY


_CONVERSIONS = {  # of a class to another, in words
    (INT, FLOAT): "write `cast f32 …` to make a float of an integer, or a literal with a point: `1.0`",
    (FLOAT, INT): "write `cast i32 …` to truncate a float to an integer",
    (frozenset({Element.BOOL}), ANY): "write `cast i32 …` to count true as 1 and false as 0",
}


def _classes(state: State, a: object, b: object, reason: Reason) -> Diagnostic:
    first, second = _class(state, a)[0], _class(state, b)[0]
    labels = _labels(reason, first, second) if not isinstance(b, frozenset) else (Label(reason.span, reason.text),)
    found = classes_of(state, a, b, reason)
    helps = (Suggestion(text) for (have, need), text in _CONVERSIONS.items() if found.one <= have and found.other <= need)
    return Diagnostic("AX0202", f"{found.first} cannot be used where {found.second} is needed", labels, (), tuple(helps))


def _rank(state: State, namer: Namer, shape: Shape) -> str:
    shape = state.shape(shape)
    known = sum(not isinstance(i, Row) for i in shape)
    text = f"[{show_shape(namer, shape)}]"
    if not shape:
        return "a scalar has rank 0"
    return f"{text} has at least rank {known}" if known < len(shape) else f"{text} has rank {known}"


def _records(first: set[str], second: set[str], label: Label, sides: tuple[Label, ...], whole: tuple[str, ...]) -> Diagnostic:
    missing, extra = sorted(second - first), sorted(first - second)
    parts = []
    if missing:
        parts.append("lacks " + ", ".join(f"`{n}`" for n in missing))
    if extra:
        parts.append("has " + ", ".join(f"`{n}`" for n in extra) + ", which is not wanted")
    return Diagnostic("AX0205", "this record " + " and ".join(parts), (label, *sides), whole)


def no_field(state: State, record: Type, name: str, span: Span) -> Diagnostic:
    record = state.prune(record)
    if isinstance(record, RecordType):
        names = [n for n, _ in record.fields]
        longer = [n for n in names if n.startswith(name) or name.startswith(n)]  # `b` for `bias`
        near = nearest(name, names) or (longer[0] if len(longer) == 1 else None)
        helps = did_you_mean(near, span, ".{}")
        has = "it has " + ", ".join(f"`{n}`" for n in names)
        return Diagnostic("AX0207", f"this record has no field `{name}`", (Label(span, "no such field"),), (has,), helps)
    text = show_type(Namer(state, classes=True), record)
    message, label = f"{sort_of(state, record)} has no field `{name}`", Label(span, "not a record")
    return Diagnostic("AX0207", message, (label,), (f"its type is {text}",), attribute(name, span))


def attribute(name: str, span: Span) -> tuple[Suggestion, ...]:
    """What Axon has for an attribute or method of NumPy's arrays; `span` is that of its name."""
    found = re.search(r"([A-Za-z_]\w*)\.$", span.file.text[: span.start])
    return of_python(ATTRIBUTES.get(name), found[1] if found else "x", span)


def of_python(meant: str | None, name: str, at: Span) -> tuple[Suggestion, ...]:
    """What Axon has for something of Python's, in words about a name: where they speak of its annotation, they show it."""
    if meant is None:
        return ()
    return (Suggestion(meant.replace("{}", name), annotates=parameter(name, at) if "{} : " in meant else ()),)


def no_position(state: State, value: Type, position: int, span: Span) -> Diagnostic:
    value = state.prune(value)
    if isinstance(value, TupleType) and value.items:
        note = f"it has {len(value.items)} parts, counted from 1"
        return Diagnostic("AX0207", f"this tuple has no part {position}", (Label(span, "no such part"),), (note,))
    text = show_type(Namer(state), value)
    fields = " and ".join(f"`.{n}`" for n, _ in value.fields) if isinstance(value, RecordType) else ""
    notes, helps = (f"its type is {text}",), (Suggestion(f"a record's fields are taken by name: {fields}"),) if fields else ()
    return Diagnostic("AX0207", f"{sort_of(state, value)} has no parts", (Label(span, "not a tuple"),), notes, helps)


def unknown_record(state: State, what: str, span: Span, members: Mapping[str | int, Type]) -> Diagnostic:
    """`members`: all that are taken of it."""
    name = taken_from(span)
    places = parameter(name, span)
    fields = [n for n in members if isinstance(n, str)]
    if places and len(fields) == len(members):
        help_ = Suggestion(annotate_fields(name, record_of(state, members)), annotates=places)
    else:
        whom = f"`{name}`" if places else "the parameter"
        help_ = Suggestion(f"annotate {whom} with its record or tuple type", annotates=places)
    return Diagnostic(
        "AX0209",
        f"nothing in this declaration says what {what} is taken from",
        (Label(span, "its type is not known by the end of the declaration"),),
        suggestions=attribute(what.strip("`."), span) or (help_,),
    )


def annotate_fields(name: str, record: str) -> str:
    return f"annotate `({name} : {record})`, or with a `type` of yours"


def record_of(state: State, members: Mapping[str | int, Type]) -> str:
    """The type of a record with some fields, as far as it is known."""
    return f"{{ {', '.join(f'{n} : {_field_type(state, t)}' for n, t in members.items())} }}"


def _field_type(state: State, t: Type) -> str:
    """What may be written for the type of a field, as far as it is known."""
    t = state.prune(t)
    if not isinstance(t, Tensor):
        return "…"
    element, shape = state.element(t.element), state.shape(t.shape)
    shown = element.value if isinstance(element, Element) else "f32" if Element.F32 in state.allowed_of(element) else "i32"
    unknown = any(isinstance(item, Row) for item in shape)
    sizes = ["…"] if unknown and len(shape) > 1 else [] if unknown else list("nmkpqrst"[: len(shape)])
    return f"{shown}[{', '.join(sizes)}]" if sizes else shown


def unknown_structure(name: str, value: S.Expr) -> Diagnostic:
    """A value whose leaves are not known."""
    what, wanted, places = "this", "what it is made of", tuple[Span, ...]()
    if isinstance(value, S.Var):
        places = parameter(value.name, value.span)
        what, wanted = f"`{value.name}`", f"`({value.name} : {{ w : f32[n, m], b : f32[m] }})`, or with a `type` of yours"
    message = f"`{name}` needs to know the fields of {what} where it is applied to them"
    notes = ("a function that uses it is made for one structure, of any sizes",)
    help_ = Suggestion(f"annotate {wanted}", annotates=places)
    return Diagnostic("AX0209", message, (Label(value.span, "nothing before says"),), notes, (help_,))


def no_derivative(state: State, t: NoDerivativeOf) -> Diagnostic:
    """A derivative by, or of, integers, bool or functions."""
    function, path = t.derivative.function, f"`{t.path}` of " if t.path else ""
    shown = "a function" if isinstance(t.type, Function) else show_type(Namer(state), t.type)
    if t.derivative.of:
        message, label = f"`{function}` takes the derivative of floats", f"{path}what the function gives is {shown}, which has none"
        return Diagnostic("AX0220", message, (Label(t.derivative.span, label),))
    message = f"`{function}` takes derivatives by floats"
    label = f"{path}what it differentiates by is {shown}"
    help_ = f"what needs no derivative is captured: `{function} (fn w => … w n) w`"
    return Diagnostic("AX0220", message, (Label(t.derivative.span, label),), suggestions=(Suggestion(help_),))


def structures_differ(state: State, t: StructuresDiffer) -> Diagnostic:
    """Values of `each` that do not correspond."""
    namer = Namer(state)
    shown = [f"`{_flat(place)}{t.path}`" for place in t.places]
    labels = tuple(Label(p, f"{s} is {show_type(namer, x)}") for p, s, x in zip(t.places, shown, (t.first, t.other), strict=True))
    message = f"{shown[1]} has another structure than {shown[0]}"
    return Diagnostic("AX0205", message, labels, tuple(_fields_alone(t, shown)))


def _fields_alone(t: StructuresDiffer, shown: list[str]) -> Iterator[str]:
    """Which fields one of two records has and the other has not."""
    if isinstance(t.first, RecordType) and isinstance(t.other, RecordType):
        names = [[n for n, _ in x.fields] for x in (t.first, t.other)]
        for mine, others, whose in zip(names, names[::-1], shown, strict=True):
            alone = [f"`.{n}`" for n in mine if n not in others]
            if alone:
                yield f"{whose} alone has {', '.join(alone)}"


def _flat(span: Span) -> str:
    text = " ".join(span.text.split())
    return text if _ATOM.fullmatch(text) else f"({text})"


def not_a_function(state: State, t: Type, span: Span, argument: Span, given: int) -> Diagnostic:
    text = show_type(Namer(state), t)
    if given:
        message = f"too many arguments: this function takes {given}"
        return Diagnostic("AX0208", message, (Label(argument, "one argument too many"),), (f"its result has type {text}",))
    return Diagnostic(
        "AX0208",
        f"{sort_of(state, t)} cannot be applied to an argument",
        (Label(span, f"this has type {text}"), Label(argument, "and this is its argument")),
    )


def stored_function(what: str, span: Span) -> Diagnostic:
    return Diagnostic(
        "AX0210",
        f"{what} cannot hold a function",
        (Label(span, "this is a function"),),
        ("functions exist only while compiling; arrays, loop states and the results of a run-time `if` hold data",),
        (Suggestion("apply it to its arguments here"),),
    )


def dims_missing(name: str, explicit: tuple[str, ...], span: Span) -> Diagnostic:
    listed = ", ".join(explicit)
    return Diagnostic(
        "AX0212",
        f"`{name}` needs its dimension parameters here",
        (Label(span, f"write `{name} {{{listed}}}`, with a size for each"),),
        ("a function with dimension parameters is called, not passed",),
    )


def dims_wrong(name: str, explicit: tuple[str, ...], given: int, span: Span) -> Diagnostic:
    takes = (
        f"takes {len(explicit)} dimension parameter{'s' * (len(explicit) != 1)}" if explicit else "takes no dimension parameters"
    )
    listed = f": {{{', '.join(explicit)}}}" if explicit else ""
    return Diagnostic("AX0212", f"`{name}` {takes}{listed}", (Label(span, f"{given} given here"),))


def too_large(span: Span) -> Diagnostic:
    return Diagnostic(
        "AX0213",
        "the type of this is too large",
        (Label(span, "more than 100,000 parts, when everything shared is written out"),),
        ("pairs of pairs of pairs double at every step",),
    )


def condition(state: State, t: Type, span: Span, where: str) -> Diagnostic:
    text = show_type(Namer(state), t)
    t = state.prune(t)
    helps: tuple[Suggestion, ...] = ()
    if isinstance(t, Tensor) and state.shape(t.shape):
        per_element = "choose per element inside a comprehension: `for i => if c[i] then a[i] else b[i]`"
        one = "of many, say whether all or any of them go on: `all i => s[i] > 0.0`, `any i => s[i] > 0.0`"
        helps = (Suggestion(one if where.endswith("`while`") else per_element),)
    return Diagnostic("AX0216", f"{where} must be a single bool", (Label(span, f"this has type {text}"),), (), helps)


def cannot_index(state: State, t: Type, span: Span) -> Diagnostic:
    text = show_type(Namer(state), t)
    return Diagnostic("AX0215", f"{sort_of(state, t)} cannot be indexed", (Label(span, f"this has type {text}"),))


def per_field(record: RecordType) -> Suggestion:
    """Arithmetic on records."""
    listed = ", ".join(f"{n} = …" for n, _ in record.fields[:3]) + ", …" * (len(record.fields) > 3)
    return Suggestion(f"operators work on tensors: write the record field by field, `{{ {listed} }}`")


def part_by_index(e: S.Access, items: tuple[Type, ...]) -> Diagnostic:
    """`t[0]` of a tuple, or `t[i]`."""
    name, brackets = " ".join(e.base.span.text.split()), Span(e.span.file, e.base.span.end, e.span.end)
    number = re.fullmatch(r"\[\s*(\d+)\s*\]", brackets.text)
    note = f"it has {len(items)} parts, counted from 1"
    if number is not None and int(number[1]) < len(items) and _ATOM.fullmatch(name):
        note += f": for `{name}[{number[1]}]` write `{name}.{int(number[1]) + 1}`"
    message = "a part of a tuple is taken by its position, after a point"
    return Diagnostic("AX0215", message, (Label(e.base.span, "this is a tuple"),), (note,))


def states_lacking(e: S.Loop, given: int) -> Diagnostic:
    """A step of a loop that does not give as many values as there are states."""
    names = [" ".join((p.pattern if isinstance(p, S.PatternTyped) else p).span.text.split()) for p, _ in e.states]
    count = f"{given} values" if given > 1 else "one value"
    body = e.body.body if isinstance(e.body, S.Let) else e.body
    labels = (Label(body.span, f"this is {count}"), *(Label(p.span, "a state") for p, _ in e.states))
    help_ = Suggestion(f"give the new value of each, in their order: `({', '.join(f'new_{n}' for n in names)})`")
    message = f"a step of this loop gives {count}, and there are {len(names)} states"
    return Diagnostic("AX0204", message, labels, (), (help_,))


def bad_subscript(state: State, t: Type, span: Span) -> Diagnostic:
    text = show_type(Namer(state, classes=True), t)
    t = state.prune(t)
    helps: tuple[Suggestion, ...] = ()
    if isinstance(t, TupleType):
        names = ", ".join("ijkl"[: len(t.items)])
        helps = (Suggestion(f"take the tuple apart: `let val ({names}) = … in x[{names}] end`"),)
    elif isinstance(t, Tensor) and state.allowed_of(t.element) == frozenset({Element.BOOL}):
        mask = " ".join(span.text.split())
        helps = (Suggestion(f"to keep the rows at which it is true, write `filter ({mask if len(mask) <= 40 else '…'}) x`"),)
    elif isinstance(t, Tensor) and state.shape(t.shape):
        helps = (Suggestion("to gather with a tensor of indices, name its index: `for i => x[ids[i]]`"),)
    elif isinstance(t, Tensor):
        helps = (Suggestion("write `cast i32 …` if it is meant to be an index"),)
    return Diagnostic("AX0215", "an index must be an integer", (Label(span, f"this has type {text}"),), (), helps)


def subscript_count(state: State, shape: Shape, count: int, span: Span, name: str) -> Diagnostic:
    rank = len(shape)
    if not rank:
        return Diagnostic("AX0203", f"`{name}` is a scalar: it has no dimension to index", (Label(span, "indexed here"),))
    given = f"{count} subscript{'s' * (count != 1)}"
    shown = show_shape(Namer(state), shape)
    label = Label(span, f"read here with {given}")
    return Diagnostic(
        "AX0203",
        f"`{name}` has rank {rank}, and takes {rank} subscript{'s' * (rank != 1)}",
        (label,),
        (f"its shape is [{shown}]",),
    )


def matmul_rank(state: State, shape: Shape, span: Span, side: str, other: Shape) -> Diagnostic:
    text = show_shape(Namer(state), shape)
    helps: tuple[Suggestion, ...] = ()
    if len(state.shape(shape)) == 1 and len(state.shape(other)) > 2:
        helps = (Suggestion("for a vector, write the sum: `for i => sum k => a[i, k] * v[k]`"),)
    found = f"its shape is [{text}]" if text else "it is a scalar"
    return Diagnostic("AX0219", "both sides of `@` need rank 2 or more", (Label(span, f"the {side} side: {found}"),), (), helps)


def batch_of_one_side(state: State, batch: Shape, at: Span, spans: tuple[Span, Span]) -> Diagnostic:
    """A matrix times a batch of matrices."""
    shown = show_shape(Namer(state), batch)
    needs = "`@` needs the same batch dimensions on both sides, or a matrix on its right"
    labels = (Label(at, needs), Label(spans[0], "a matrix"), Label(spans[1], f"a batch of matrices, [{shown}]"))
    message = f"the right side of `@` has batch dimensions [{shown}], the left side has none"
    help_ = Suggestion("name the indices: `for b i j => sum k => x[i, k] * w[b, k, j]`")
    return Diagnostic("AX0203", message, labels, (), (help_,))


def _with_its_rank(span: Span) -> Suggestion:
    """What stands at a place is to be annotated: `x`, or the `x` of `x[i, ..]`."""
    found = re.match(r"[A-Za-z_]\w*", span.text)
    names = (found[0],) if found is not None else operands(span)
    places = tuple(at for name in names for at in parameter(name, span))
    what = " and ".join(f"`{name}`" for name in names) or "the parameter"
    return Suggestion(f"annotate {what} with {'its rank' if len(names) < 2 else 'their ranks'}", annotates=places)


def splits(state: State, left: Shape, right: Shape, reason: Reason) -> Diagnostic:
    """An equation between shapes with more than one undetermined shape variable: list the ways."""
    namer = Namer(state)
    a, b = show_shape(namer, left), show_shape(namer, right)
    notes = [f"[{a}] and [{b}] must be the same shape"]
    for flexible, other in ((left, right), (right, left)):
        rows = [i for i in state.shape(flexible) if isinstance(i, Row)]
        dims: list[Dim | Row] = list(state.shape(other))
        if len(rows) == 2 and 0 < len(dims) <= 4 and not any(isinstance(i, Row) for i in dims):
            ways = [
                f"..{namer.dim(rows[0].symbol)} = [{show_shape(namer, tuple(dims[:k]))}], "
                f"..{namer.dim(rows[1].symbol)} = [{show_shape(namer, tuple(dims[k:]))}]"
                for k in range(len(dims) + 1)
            ]
            notes += [f"either {ways[0]}", *(f"or {w}" for w in ways[1:])]
            break
    return Diagnostic(
        "AX0304",
        "this shape can be split in more than one way",
        (Label(reason.span, reason.text or "here"),),
        tuple(notes),
        (_with_its_rank(reason.span),),
    )


def rests(places: list[Span]) -> Diagnostic:
    """`x[.., i, ..]`, where no run of indices is bound."""
    labels = (Label(places[1], "nothing says which dimensions each `..` keeps"), Label(places[0], "the first"))
    helps = (Suggestion("keep one `..`, and write `:` for each dimension"),)
    return Diagnostic("AX0304", "`..` stands twice in these brackets", labels, (), helps)


def undetermined_split(state: State, shape: Shape, rows: set[Symbol], place: Span) -> Diagnostic:
    """A parameter whose shape has several shape variables of which no argument tells how many dimensions they stand for."""
    namer = Namer(state)
    names = {i.symbol: f"..{namer.dim(i.symbol)}" for i in shape if isinstance(i, Row) and i.symbol in rows}
    letters = ["i", "j", "k", *(f"i{n}" for n in range(1, len(shape)))][: sum(not isinstance(i, Row) for i in shape) + 1]
    ways = []
    for owner in names:  # an argument with one dimension more than the shape has by itself
        rest = iter(letters)
        parts: dict[Symbol, list[str]] = {symbol: [] for symbol in names}
        for item in shape:
            if not isinstance(item, Row):
                next(rest)
            elif item.symbol == owner and not parts[owner]:
                parts[owner].append(next(rest))
        ways.append(", ".join(f"{names[s]} = [{', '.join(found)}]" for s, found in parts.items()))
    notes = (
        f"of [{', '.join(letters)}], either {' or '.join(ways)}",
        "an argument that has one of them alone would tell, or named dimensions in place of one",
    )
    first = next(iter(names.values()))
    label = Label(place, f"this has the shape [{show_shape(namer, shape)}], and nothing tells where {first} ends")
    return Diagnostic("AX0304", "this shape can be split in more than one way", (label,), notes)


def not_a_dimension(what: str, span: Span, likely: tuple[Suggestion, ...] = (), value: T.Expr | None = None) -> Diagnostic:
    """What stands where a size belongs. `likely` makes a parameter a dimension.

    Only of a parameter, and of what reads tensors, is it known that it is computed; others may be made of sizes alone, in a way
    that nobody looks through.
    """
    reads = value is not None and any(isinstance(node, T.Access | T.Reduce) for node in nodes(value))
    why = "its value is known only when the program runs"
    if not likely and not reads:
        why = "a size is made of dimensions and numbers, by + - * / %, min and max alone"
    made = likely[0].text if likely else "make it a dimension parameter: `fun f {n} …`"
    given = f"{made}, which calls give in braces"
    return Diagnostic(
        "AX0308",
        f"{what} is not a dimension",
        (Label(span, why),),
        suggestions=(
            *likely,
            Suggestion(f"{given}, or take the size of a parameter's dimension"),
            Suggestion("or range over the largest size, and choose with `if` what lies inside"),
        ),
    )
