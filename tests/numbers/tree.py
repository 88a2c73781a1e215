"""Programs as the generator makes them: typed trees, and their text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Size:
    """A dimension as it is written, and how large it is in this program."""

    text: str
    value: int


@dataclass(frozen=True)
class Tensor:
    element: str
    shape: tuple[Size, ...] = ()

    def __str__(self) -> str:
        return f"{self.element}[{', '.join(s.text for s in self.shape)}]" if self.shape else self.element


@dataclass(frozen=True)
class Record:
    """A record, or where the names are 1, 2, … a tuple."""

    parts: tuple[tuple[str, Type], ...]

    @property
    def tuple(self) -> bool:
        return self.parts[0][0] == "1"

    def __str__(self) -> str:
        if self.tuple:
            return f"({', '.join(str(kind) for _, kind in self.parts)})"
        return "{ " + ", ".join(f"{name} : {kind}" for name, kind in self.parts) + " }"


Type = Tensor | Record


@dataclass(frozen=True)
class Expr:
    type: Type


@dataclass(frozen=True)
class Literal(Expr):
    value: Any  # an int, a bool, or a Fraction
    text: str


@dataclass(frozen=True)
class Name(Expr):
    name: str


@dataclass(frozen=True)
class Apply(Expr):
    """An operator or built-in function of elements, lifted where arguments are tensors."""

    op: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True)
class If(Expr):
    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True)
class Cast(Expr):
    value: Expr
    shown: bool = True  # else `cast _`


@dataclass(frozen=True)
class Read(Expr):
    """An element; `default`: padded."""

    tensor: Expr
    subscripts: tuple[Expr, ...]
    default: Expr | None = None


@dataclass(frozen=True)
class Slice(Expr):
    """From a size up to another, of the first dimension."""

    tensor: Expr
    start: Size | None
    stop: Size | None
    step: int = 1


@dataclass(frozen=True)
class For(Expr):
    indices: tuple[tuple[str, Size], ...]
    body: Expr


@dataclass(frozen=True)
class Reduce(Expr):
    kind: str
    index: str
    bound: Size
    where: Expr | None
    body: Expr


@dataclass(frozen=True)
class Scan(Expr):
    op: str
    unit: Expr
    index: str
    bound: Size
    body: Expr
    whole: bool = True  # else `reduce`


@dataclass(frozen=True)
class Loop(Expr):
    """`unfold` if it is stacked."""

    states: tuple[tuple[str, Expr], ...]
    condition: Expr | None
    index: str
    bound: Size
    body: tuple[Expr, ...]
    stacked: bool = False


@dataclass(frozen=True)
class Part(Expr):
    value: Expr
    name: str


@dataclass(frozen=True)
class Build(Expr):
    parts: tuple[Expr, ...]


@dataclass(frozen=True)
class Let(Expr):
    name: str
    value: Expr
    body: Expr


@dataclass(frozen=True)
class Function:
    """What stands in parentheses is a parameter's annotation; "" for none."""

    name: str
    parameters: tuple[str, ...]
    annotations: tuple[str, ...]
    body: Expr
    dims: tuple[str, ...] = ()


@dataclass(frozen=True)
class Call(Expr):
    """A declared function of its arguments; where some are tensors and it is of scalars, at each element."""

    function: Function
    arguments: tuple[Expr, ...]
    dims: tuple[Size, ...] = ()


@dataclass(frozen=True)
class Each(Expr):
    """`each`, or with a unit `fold_leaves`, of a `fn` whose body is given for every leaf: its text is that of any of them."""

    parameters: tuple[str, ...]
    text: str
    arguments: tuple[Expr, ...]
    leaves: tuple[tuple[str, Expr], ...]
    op: str = ""
    unit: Expr | None = None


@dataclass(frozen=True)
class Sort(Expr):
    kind: str
    value: Expr


@dataclass(frozen=True)
class Program:
    seed: int
    functions: tuple[Function, ...]
    parameters: tuple[tuple[str, Type], ...]
    arguments: tuple[Any, ...]
    body: Expr

    @property
    def text(self) -> str:
        given = " ".join(f"({name} : {kind})" for name, kind in self.parameters)
        functions = "".join(declared(f) + "\n" for f in self.functions)
        return f"{functions}fun main {given} =\n  {show(self.body, '  ')}\n"

    def __str__(self) -> str:
        given = "\n".join(f"{name} = {_shown(x)}" for (name, _), x in zip(self.parameters, self.arguments, strict=True))
        return f"seed {self.seed}\n{self.text}{given}"


def _shown(x: Any) -> str:
    match x:
        case dict():
            return "{ " + ", ".join(f"{name} = {_shown(part)}" for name, part in x.items()) + " }"
        case tuple():
            return f"({', '.join(map(_shown, x))})"
    return f"{x.dtype}{list(x.shape)} {np.asarray(x).tolist()}"


def nodes(tree: Any) -> Iterator[Expr]:
    """Every expression of a tree."""
    work = [tree]
    while work:
        match work.pop():
            case tuple() as parts:
                work += parts
            case Expr() | Function() as node:
                if isinstance(node, Expr):
                    yield node
                work += [getattr(node, f.name) for f in fields(node) if f.name != "type"]


# ── text ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


INFIX = {"+", "-", "*", "/", "%", "**", "@", "=", "<>", "<", "<=", ">", ">=", "andalso", "orelse"}


def declared(f: Function) -> str:
    dims = " {" + ", ".join(f.dims) + "}" if f.dims else ""
    given = " ".join(f"({p} : {a})" if a else p for p, a in zip(f.parameters, f.annotations, strict=True))
    return f"fun {f.name}{dims} {given} = {show(f.body, '')}"


def bare(text: str) -> str:
    """Without parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for n, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if (depth == 0 and n < len(text) - 1) or (depth == 1 and (c == "," or text.startswith(" : ", n))):
            return text
    return text[1:-1]


def show(e: Expr, margin: str) -> str:
    return bare(_text(e, margin))


def _text(e: Expr, margin: str = "") -> str:
    """An expression that can stand as an argument."""
    inner = lambda x: show(x, margin)
    match e:
        case Literal(text=text) | Name(name=text):
            return text
        case Apply(op="-", arguments=(x,)):
            return f"(-{_text(x, margin)})"
        case Apply(op=op, arguments=(x, y)) if op in INFIX:
            return f"({_text(x, margin)} {op} {_text(y, margin)})"
        case Apply(op=op, arguments=arguments):
            return f"({op} {' '.join(_text(x, margin) for x in arguments)})"
        case If(condition=c, then=a, otherwise=b):
            return f"(if {inner(c)} then {inner(a)} else {inner(b)})"
        case Cast(type=Tensor(element=element), value=x, shown=shown):
            return f"(cast {element if shown else '_'} {_text(x, margin)})"
        case Read(tensor=t, subscripts=subscripts, default=default):
            padding = f" | {inner(default)}" if default else ""
            return f"{_text(t, margin)}[{', '.join(map(inner, subscripts))}{padding}]"
        case Slice(tensor=t, start=start, stop=stop, step=step):
            ends = f"{start.text if start else ''} : {stop.text if stop else ''}".strip()
            return f"{_text(t, margin)}[{ends}{f' : {step}' if step > 1 else ''}]"
        case For(indices=indices, body=body):
            return f"(for {', '.join(f'{i} < {n.text}' for i, n in indices)} => {inner(body)})"
        case Reduce(kind=kind, index=i, bound=n, where=where, body=body):
            return f"({kind} for {i} < {n.text}{f' where {_text(where, margin)}' if where else ''} => {inner(body)})"
        case Scan(op=op, unit=unit, index=i, bound=n, body=body, whole=whole):
            name = f"op {op}" if op in INFIX else op
            return f"({'scan' if whole else 'reduce'} ({name}, {inner(unit)}) for {i} < {n.text} => {inner(body)})"
        case Loop(states=states, condition=condition, index=i, bound=n, body=body, stacked=stacked):
            first = ", ".join(f"{name} = {inner(x)}" for name, x in states)
            going = f" while {_text(condition, margin)}" if condition else ""
            next_ = inner(body[0]) if len(body) == 1 else f"({', '.join(map(inner, body))})"
            return f"({'unfold' if stacked else 'loop'} ({first}){going} for {i} < {n.text} => {next_})"
        case Part(value=x, name=name):
            return f"{_text(x, margin)}.{name}"
        case Build(type=Record() as kind, parts=parts) if kind.tuple:
            return f"({', '.join(map(inner, parts))})"
        case Build(type=Record(parts=named), parts=parts):
            return "{ " + ", ".join(f"{name} = {inner(x)}" for (name, _), x in zip(named, parts, strict=True)) + " }"
        case Let():
            return _let(e, margin)
        case Call(function=f, arguments=arguments, dims=dims):
            sizes = " {" + ", ".join(d.text for d in dims) + "}" if dims else ""
            return f"({f.name}{sizes} {' '.join(_text(x, margin) for x in arguments)})"
        case Each(parameters=parameters, text=text, arguments=arguments, op=op, unit=unit):
            f = f"(fn {' '.join(parameters)} => {text})"
            given = " ".join(_text(x, margin) for x in arguments)
            if unit is None:
                return f"(each {f} {given})"
            return f"(fold_leaves ({f'op {op}' if op in INFIX else op}, {inner(unit)}) {f} {given})"
        case Sort(kind=kind, value=x):
            return f"({kind} {_text(x, margin)})"
    raise NotImplementedError(e)


def _let(e: Expr, margin: str) -> str:
    values = []
    while isinstance(e, Let):
        values.append(f"val {e.name} = {show(e.value, margin + '    ')}")
        e = e.body
    lines = f"\n{margin}    ".join(values)
    return f"(let {lines}\n{margin}in {show(e, margin)} end)"
