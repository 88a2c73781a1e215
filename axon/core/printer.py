"""Core as text: what `axon emit --stage core` shows and what goldens hold.

    attention (q : f32[b, s, d]) (k : f32[b, t, d]) =
      s2 : f32[b, s, t] = for b2, i, j => sum c < d => q[b2, i, c] * k[b2, j, c]
      return s2

Tensors, dimensions and counters have one name in the whole program; axes, parameters of monoids and `let` names have one name in
their operation. A second symbol of one name gets a number, so the text is deterministic and no name means two things. Sizes and
operators are written as in the surface language; a literal shows its element type unless that is f32, i32 or bool; an index that
is not one name stands in parentheses; a `checked` read has a `!` before its subscripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import assert_never

from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import (
    Axis,
    Binary,
    Bind,
    Block,
    Check,
    Compress,
    Compute,
    Const,
    Convert,
    Index,
    Known,
    Leaf,
    Local,
    Loop,
    Monoid,
    Op,
    Program,
    Read,
    RecordOf,
    Scalar,
    Scan,
    Select,
    Sort,
    Structure,
    TupleOf,
    Unary,
    Value,
)
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render

WIDTH = 110


def print_program(program: Program) -> str:
    """The text of a program, ending in a line feed. Deterministic: symbols' ids do not show."""
    return _Printer(program).program(program)


def print_op(program: Program, op: Op, short: Callable[[Dim], Dim] = lambda dim: dim) -> str:
    """The text of one operation, named as in the text of its whole program. `short` says what is shown for a size."""
    return "\n".join(_Printer(program, short).op(op))


def names_in(program: Program) -> dict[Symbol, str]:
    """The names of what means one thing in the whole program: its tensors, dimensions and counters."""
    return dict(_Printer(program).names)


# How tightly each form binds; an operand of lower precedence than its place asks for stands in parentheses.
_OPEN, _OR, _AND, _NOT, _COMPARE, _ADD, _MUL, _NEG, _POW, _APPLY, _ATOM = range(11)

_INFIX = {
    "or": ("orelse", _OR, _OR, _AND),
    "and": ("andalso", _AND, _AND, _NOT),
    "eq": ("=", _COMPARE, _ADD, _ADD),
    "ne": ("<>", _COMPARE, _ADD, _ADD),
    "lt": ("<", _COMPARE, _ADD, _ADD),
    "le": ("<=", _COMPARE, _ADD, _ADD),
    "gt": (">", _COMPARE, _ADD, _ADD),
    "ge": (">=", _COMPARE, _ADD, _ADD),
    "add": ("+", _ADD, _ADD, _MUL),
    "sub": ("-", _ADD, _ADD, _MUL),
    "mul": ("*", _MUL, _MUL, _NEG),
    "div": ("/", _MUL, _MUL, _NEG),
    "mod": ("%", _MUL, _MUL, _NEG),
    "pow": ("**", _POW, _APPLY, _NEG),
}  # operator: its sign, its own precedence, what its left and its right operand need
_PREFIX = {"neg": ("-", _NEG), "not": ("not ", _NOT)}
_PLAIN = frozenset({Element.F32, Element.I32, Element.BOOL})


class _Printer:
    def __init__(self, program: Program, short: Callable[[Dim], Dim] = lambda dim: dim) -> None:
        self.short = short
        self.names: dict[Symbol, str] = {}
        self.taken: set[str] = set()
        for symbol in _program_symbols(program):
            self.name(symbol)

    # ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def name(self, symbol: Symbol) -> str:
        """The symbol's name, given when it is first met."""
        known = self.names.get(symbol)
        if known is not None:
            return known
        name, number = symbol.name or "_", 1
        stem = f"{name}_" if name[-1].isdigit() else name
        while name in self.taken:
            number += 1
            name = f"{stem}{number}"
        self.taken.add(name)
        self.names[symbol] = name
        return name

    def forget(self, known: int) -> None:
        """Drop the names given after the first `known`: those of an operation that has been printed."""
        for symbol in list(self.names)[known:]:
            self.taken.discard(self.names.pop(symbol))

    def dim(self, dim: Dim) -> str:
        return render(self.short(dim), self.name)

    def dims(self, dims: Iterable[Dim]) -> str:
        return ", ".join(map(self.dim, dims))

    def typed(self, value: Value) -> str:
        shape = f"[{self.dims(value.shape)}]" if value.shape else ""
        return f"{self.name(value.symbol)} : {value.element.value}{shape}"

    def group(self, items: Iterable[str]) -> str:
        parts = list(items)
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    # ── scalar expressions ──────────────────────────────────────────────────────────────────────────────────────────────

    def scalar(self, scalar: Scalar, needs: int = _OPEN) -> str:
        text, precedence = self._scalar(scalar)
        return text if precedence >= needs else f"({text})"

    def _scalar(self, scalar: Scalar) -> tuple[str, int]:
        match scalar:
            case Const():
                return _literal(scalar)
            case Index(dim=dim, element=element):
                text = self.dim(dim)
                if element is not Element.I32:
                    return f"({text} : {element.value})", _ATOM
                return (text, _ATOM) if text.isidentifier() or text.isdecimal() else (f"({text})", _ATOM)
            case Local(symbol=symbol):
                return self.name(symbol), _ATOM
            case Read():
                return self._read(scalar), _ATOM
            case Unary(op=op, operand=operand) if op in _PREFIX:
                sign, precedence = _PREFIX[op]
                return sign + self.scalar(operand, precedence), precedence
            case Unary(op=op, operand=operand):
                return f"{op} {self.scalar(operand, _ATOM)}", _APPLY
            case Binary(op=op, left=left, right=right) if op in _INFIX:
                sign, precedence, needs_left, needs_right = _INFIX[op]
                return f"{self.scalar(left, needs_left)} {sign} {self.scalar(right, needs_right)}", precedence
            case Binary(op=op, left=left, right=right):
                return f"{op} {self.scalar(left, _ATOM)} {self.scalar(right, _ATOM)}", _APPLY
            case Select(condition=condition, then=then, otherwise=otherwise):
                parts = (self.scalar(condition), self.scalar(then), self.scalar(otherwise))
                return "if {} then {} else {}".format(*parts), _OPEN
            case Convert(operand=operand, element=element):
                return f"cast {element.value} {self.scalar(operand, _ATOM)}", _APPLY
            case Bind(bindings=bindings, body=body):
                lets = "; ".join([f"{self.name(symbol)} = {self.scalar(value)}" for symbol, value in bindings])
                return f"let {lets} in {self.scalar(body)}", _OPEN
            case _:
                assert_never(scalar)

    def _read(self, read: Read) -> str:
        subscripts = ", ".join(
            self.dim(subscript) if isinstance(subscript, Dim) else self.scalar(subscript, _OR) for subscript in read.subscripts
        )
        padding = "" if read.padding is None else f" | {self.scalar(read.padding, _OR)}"
        return f"{self.name(read.tensor)}{'!' if read.checked else ''}[{subscripts}{padding}]"

    def body(self, head: str, bodies: tuple[Scalar, ...]) -> list[str]:
        """The lines of an operation: its head and its bodies, on one line if that is short, else with the `let` names below."""
        if len(bodies) != 1 or not isinstance(bodies[0], Bind):
            return [head + self.group(map(self.scalar, bodies))]
        lets: list[str] = []
        body: Scalar = bodies[0]
        while isinstance(body, Bind):
            lets += [f"{self.name(symbol)} = {self.scalar(value)}" for symbol, value in body.bindings]
            body = body.body
        line = f"{head}let {'; '.join(lets)} in {self.scalar(body)}"
        if len(line) <= WIDTH:
            return [line]
        rows = [f"  {'    ' if i else 'let '}{row}" for i, row in enumerate(lets)]
        return [head.rstrip(), *rows, f"  in {self.scalar(body)}"]

    # ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def op(self, op: Op) -> list[str]:
        known = len(self.names)
        lines = self._op(op)
        if not isinstance(op, Loop):
            self.forget(known)
        return lines

    def _op(self, op: Op) -> list[str]:
        match op:
            case Compute(outs=outs, axes=axes, reduction=reduction, body=body):
                head = f"{self.outs(outs)} = {self.domain(axes)}"
                if reduction is not None:
                    over = ", ".join([f"{self.name(axis.symbol)} < {self.dim(axis.extent)}" for axis in reduction.axes])
                    where = "" if reduction.where is None else f" where {self.scalar(reduction.where, _OR)}"
                    where += "" if reduction.asked is None else f" asked {self.scalar(reduction.asked, _OR)}"
                    head += f"{self.monoid(reduction.monoid)} {over}{where} => "
                return self.body(head, body)
            case Scan(outs=outs, axes=axes, monoid=monoid, body=body):
                domain = self.domain(axes[:-1])
                running = self.name(axes[-1].symbol) if axes else "?"
                scan = self.monoid(monoid) if monoid.kind == "custom" else f"({monoid.kind})"
                head = f"{self.outs(outs)} = {domain}scan {scan.removeprefix('reduce ')} {running} => "
                return self.body(head, body)
            case Loop():
                return self.loop(op)
            case Sort(values=values, indices=indices, input=input):
                return [f"{self.outs((values, indices))} = sort {self.name(input)}"]
            case Compress(out=out, size=size, mask=mask):
                return [f"{self.name(out.symbol)} : {out.element.value}[?{self.name(size)}] = compress {self.name(mask)}"]
            case Check(left=left, relation=relation, right=right, message=message, given=given):
                where = f" where {', '.join(fact.render(self.name) for fact in given)}" if given else ""
                return [f'check {self.dim(left)} {relation} {self.dim(right)}{where} else "{_escape(message)}"']
            case _:
                assert_never(op)

    def outs(self, outs: tuple[Value, ...]) -> str:
        return self.group(map(self.typed, outs))

    def domain(self, axes: tuple[Axis, ...]) -> str:
        return f"for {', '.join([self.name(axis.symbol) for axis in axes])} => " if axes else ""

    def monoid(self, monoid: Monoid) -> str:
        if monoid.kind != "custom":
            return monoid.kind
        left, right = self.group(map(self.name, monoid.left)), self.group(map(self.name, monoid.right))
        combine, units = self.group(map(self.scalar, monoid.combine)), self.group(map(self.scalar, monoid.units))
        return f"reduce (fn {left} {right} => {combine}, {units})"

    def loop(self, loop: Loop) -> list[str]:
        pairs = zip(loop.states, loop.initial, strict=False)  # the verifier prints loops that do not match
        states = ", ".join([f"{self.typed(state)} = {self.name(initial)}" for state, initial in pairs])
        kind = "unfold" if loop.stacked else "loop"
        counter, trip = self.name(loop.counter), self.scalar(loop.trip)
        test = f" while {self.name(loop.states[-1].symbol)}" if loop.conditional and loop.states else ""
        head = f"{self.outs(loop.outs)} = {kind} ({states}){test} for {counter} < {trip} =>"
        return [head, *self.block(loop.body, "in")]

    def block(self, block: Block, word: str) -> list[str]:
        lines = [line for op in block.ops for line in self.op(op)]
        results = f"({', '.join([self.name(symbol) for symbol in block.results])})"
        return ["  " + line for line in (*lines, f"{word} {results if len(block.results) != 1 else results[1:-1]}")]

    # ── programs ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def program(self, program: Program) -> str:
        explicit = f" {{{', '.join([self.name(symbol) for symbol in program.explicit])}}}" if program.explicit else ""
        params = [f"({param.name} {self._param(param.name, param.structure, program)})" for param in program.params]
        facts = [fact.relation.render(self.name) for fact in program.contract.facts]
        head = f"{program.name}{explicit}{''.join([f' {param}' for param in params])} ="
        if facts or len(head) > WIDTH:
            where = [f"where {', '.join(facts)} ="] if facts else ["="]
            head = "\n    ".join([program.name + explicit, *params, *where])
        lines = [self.known(known) for known in program.known]
        lines += [line for op in program.block.ops for line in self.op(op)]
        results = [self.name(symbol) for symbol in program.block.results]
        lines.append(f"return {self.structure(program.result, results)}")
        return head + "\n" + "".join([f"  {line}\n" for line in lines])

    def known(self, known: Known) -> str:
        places = f"[{', '.join([render(place, self.name) for place in known.places])}]" if known.places else ""
        axes = f"for {', '.join(map(self.name, known.axes))} => " if known.axes else ""
        return f"known {self.name(known.made)} is {axes}{self.name(known.holds)}{places}"

    def _param(self, name: str, structure: Structure, program: Program) -> str:
        inputs = [self.typed(value) for value in program.inputs]
        text = self.structure(structure, inputs)
        return text.removeprefix(f"{name} ") if text.startswith(f"{name} : ") else f"= {text}"

    def structure(self, structure: Structure, leaves: list[str]) -> str:
        match structure:
            case Leaf(position=position):
                return leaves[position] if position < len(leaves) else f"?{position}"
            case TupleOf(items=items):
                return f"({', '.join([self.structure(item, leaves) for item in items])})"
            case RecordOf(fields=fields):
                return f"{{{', '.join([f'{name} = {self.structure(item, leaves)}' for name, item in fields])}}}"
            case _:
                assert_never(structure)


def _literal(const: Const) -> tuple[str, int]:
    match const.value:
        case bool(value):
            text = "true" if value else "false"
        case int(value) if const.element.is_float:
            text = repr(float(value))
        case value:
            text = repr(value)
    if const.element not in _PLAIN:
        return f"({text} : {const.element.value})", _ATOM
    return text, _NEG if text.startswith("-") else _ATOM


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _program_symbols(program: Program) -> Iterator[Symbol]:
    """The symbols that mean one thing in the whole program, in the order of their definitions."""
    yield from program.explicit
    for value in program.inputs:
        for dim in value.shape:
            yield from sorted(dim.variables, key=lambda symbol: (symbol.name, symbol.id))
        yield value.symbol
    yield from _block_symbols(program.block)


def _block_symbols(block: Block) -> Iterator[Symbol]:
    for op in block.ops:
        match op:
            case Compute(outs=outs) | Scan(outs=outs):
                yield from (out.symbol for out in outs)
            case Loop(outs=outs, states=states, counter=counter, body=body):
                yield from (out.symbol for out in outs)
                yield from (state.symbol for state in states)
                yield counter
                yield from _block_symbols(body)
            case Sort(values=values, indices=indices):
                yield from (values.symbol, indices.symbol)
            case Compress(out=out, size=size):
                yield from (size, out.symbol)
            case Check():
                pass
            case _:
                assert_never(op)
