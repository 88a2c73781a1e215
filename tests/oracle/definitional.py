"""What a program means, read off its syntax: every comprehension is a nested loop, every value a Python value.

This is docs/reference.md written as a program, as naively as it goes, to be compared with what the compiler makes of a text. It
shares the parser with Axon, and nothing after it: no types, no shapes, no core. Where the language infers, we look:

* The type of a literal is that of what it meets (`arithmetic`), an array of literals alone is an array of Python numbers.
* Where there is no element to look at (a comprehension over nothing, the branch that is not taken), the body is evaluated as a
  *ghost*: indices are 0, reads give a zero of the array's type, nothing fails. A ghost has the right type and shape, not the value.
* A ghost of the body also tells what an index without a bound subscripts, and so its range (`ranges`).

A tensor is a NumPy array of rank 1 or more, a scalar a NumPy scalar or an open literal, and a function a Python function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, nan, pi
from typing import Any

import numpy as np

from axon.base.identity import IdentityMap
from axon.base.source import SourceFile
from axon.grammar import syntax as s
from axon.grammar.parse import parse
from tests.oracle.arithmetic import DTYPES, FUNCTIONS, NAMED, WHOLE_FUNCTIONS, Arithmetic, Stops, is_open, typed
from tests.oracle.ranges import Index, Uses, bound_names, dimension, fit
from tests.oracle.values import Value, closed, emptied, given, has_open, lifted, like, mapped, stacked, tensor

Env = dict[str, Any]

I32 = np.dtype(np.int32)
CONSTANTS = {"true": np.bool_(True), "false": np.bool_(False), "inf": inf, "nan": nan, "pi": pi}


def each(path: str, f: Value, *values: Value) -> tuple[Value, list[tuple[str, Value]]]:
    """A function at corresponding leaves: what it makes of them, and its results with their paths."""
    first = values[0]
    if not isinstance(first, (dict, tuple)):
        for value in values:
            f = f(value)
        return f, [(path, f)]
    names = first if isinstance(first, dict) else range(len(first))
    made = {n: each(f"{path}.{n}", f, *(v[n] for v in values)) for n in names}
    results = [r for _, inner in made.values() for r in inner]
    if isinstance(first, dict):
        return {n: m for n, (m, _) in made.items()}, results
    return tuple(m for m, _ in made.values()), results


@dataclass(frozen=True)
class Dimensioned:
    """A function that waits for its dimension parameters."""

    apply: Callable[[Sequence[int]], Value]


def run(
    text: str, name: str, arguments: Sequence[Any], explicit: Sequence[int] = (), arithmetic: Arithmetic | None = None
) -> Value:
    """What a function of a program gives for arrays (rank 0 included), tuples and dicts of them. Raises Stops."""
    program, errors = parse(SourceFile("oracle", text))
    assert not errors, errors
    machine = Machine(arithmetic or Arithmetic(), {d.name.text: d for d in program.decls if isinstance(d, s.TypeDecl)})
    env = machine.declare(tuple(d for d in program.decls if not isinstance(d, s.Sig)), {}, None)
    value = env[name]
    if isinstance(value, Dimensioned):
        value = value.apply(explicit)
    for argument in arguments:
        value = value(given(argument))
    return closed(value)


# ── the machine ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Machine:
    def __init__(self, arithmetic: Arithmetic, types: dict[str, s.TypeDecl]) -> None:
        self.arithmetic = arithmetic
        self.types = types
        self.uses = Uses()
        self._names: IdentityMap[Any, frozenset[str]] = IdentityMap()

    @property
    def ghost(self) -> bool:
        return self.uses.depth > 0

    # ── declarations ───────────────────────────────────────────────────────────────────────────────────────────────────

    def declare(self, decls: Sequence[s.Decl], env: Env, body: s.Expr | None) -> Env:
        """The environment after declarations. A value in a `let` that nothing uses is not evaluated, though it tells ranges."""
        for n, decl in enumerate(decls):
            match decl:
                case s.Val(pattern=pattern, value=value):
                    rest = [*decls[n + 1 :], *([] if body is None else [body])]
                    if body is None or self.ghost or any(bound_names(pattern) & self.names(later) for later in rest):
                        env = {**env, **self.match(pattern, self.eval(value, env), env)}
                case s.Fun():
                    env = {**env, decl.name.text: self.function(decl.params, decl.body, env, decl.result)}
                case s.TypeDecl():
                    pass
                case _:
                    raise NotImplementedError(decl)
        return env

    def names(self, node: Any) -> frozenset[str]:
        """Every name that is mentioned in a tree, which lives as long as the machine."""
        if node not in self._names:
            found: set[str] = set()
            work = [node]
            while work:
                match work.pop():
                    case tuple() as parts:
                        work += parts
                    case s.Var(name=name) | s.DimName(name=name):
                        found.add(name)
                    case s.Node() as inner:
                        work += [getattr(inner, f) for f in inner.__dataclass_fields__ if f != "span"]
            self._names[node] = frozenset(found)
        return self._names[node]

    def function(self, params: Sequence[s.Param], body: s.Expr, env: Env, result: s.Type | None = None) -> Value:
        if not params:
            value = self.eval(body, env)
            return value if result is None else self.ascribed(value, result, env)
        first, rest = params[0], params[1:]
        if isinstance(first, s.DimParams):
            names = [n.text for n in first.names]

            def dimensioned(sizes: Sequence[int]) -> Value:
                given = {name: np.int32(size) for name, size in zip(names, sizes, strict=True)}
                return self.function(rest, body, {**env, **given}, result)

            return Dimensioned(dimensioned)
        return lambda argument: self.function(rest, body, {**env, **self.match(first, argument, env)}, result)

    def match(self, pattern: s.Pattern, value: Value, env: Env) -> Env:
        match pattern:
            case s.PatternName(name=name):
                return {} if name == "_" else {name: value}
            case s.PatternTuple(items=items):
                return {k: v for p, part in zip(items, value, strict=True) for k, v in self.match(p, part, env).items()}
            case s.PatternRecord(fields=fields):
                return {k: v for name, p in fields for k, v in self.match(p, value[name.text], env).items()}
            case s.PatternTyped(pattern=inner, type=type_):
                names: Env = {}
                value = self.ascribed(value, type_, env, names)
                return {**names, **self.match(inner, value, env)}
        raise NotImplementedError(pattern)

    def ascribed(self, value: Value, type_: s.Type, env: Env, names: Env | None = None) -> Value:
        """The value at a type; dimensions that the type names and the environment does not are put into `names`."""
        return fit(type_, value, env, {} if names is None else names, self.types)

    # ── expressions ────────────────────────────────────────────────────────────────────────────────────────────────────

    def eval(self, e: s.Expr, env: Env) -> Value:
        return getattr(self, f"_{type(e).__name__.lower()}")(e, env)

    def _var(self, e: s.Var, env: Env) -> Value:
        if e.name in env:
            value = env[e.name]
            return np.int32(value.value) if isinstance(value, Index) else value
        if e.name in CONSTANTS:
            return CONSTANTS[e.name]
        if e.name in NAMED:
            return lambda x: lambda y: self.binary("**" if e.name == "pow" else e.name, x, y)
        if e.name in FUNCTIONS or e.name in WHOLE_FUNCTIONS:
            return lambda x: lifted(lambda v: self.arithmetic.unary(e.name, v), x)
        raise NotImplementedError(e.name)

    def _int(self, e: s.Int, env: Env) -> Value:
        return e.value

    def _float(self, e: s.Float, env: Env) -> Value:
        return e.value

    def _operator(self, e: s.Operator, env: Env) -> Value:
        return lambda x: lambda y: self.binary(e.op, x, y)

    def _apply(self, e: s.Apply, env: Env) -> Value:
        head, arguments = e.function, [e.argument]
        while isinstance(head, s.Apply):
            head, arguments = head.function, [head.argument, *arguments]
        if isinstance(head, s.Var) and head.name in ("each", "fold_leaves") and head.name not in env:
            given = [self.eval(a, env) for a in arguments]
            if head.name == "each":
                return each("", *given)[0]
            (op, whole), *given = given
            for _, result in sorted(each("", *given)[1], key=lambda r: r[0]):
                whole = op(whole)(result)
            return whole
        function = self.eval(e.function, env)
        return function(self.eval(e.argument, env))

    def _applydims(self, e: s.ApplyDims, env: Env) -> Value:
        return self.eval(e.function, env).apply([dimension(d, env) for d in e.dims])

    def _unary(self, e: s.Unary, env: Env) -> Value:
        if e.op == "not":
            return lifted(lambda v: np.bool_(not v), self.eval(e.operand, env))
        return lifted(lambda v: self.arithmetic.unary("-", v), self.eval(e.operand, env))

    def _binary(self, e: s.Binary, env: Env) -> Value:
        if e.op == "|>" and isinstance(e.right, s.Apply):
            return self.eval(s.Apply(e.right, e.left, span=e.span), env)
        left = self.eval(e.left, env)
        if e.op == "|>":
            return self.eval(e.right, env)(left)
        if e.op in ("andalso", "orelse"):
            if self.ghost or isinstance(left, np.ndarray):
                with self.uses.guarded():
                    right = self.eval(e.right, env)
                return lifted((lambda a, b: a & b) if e.op == "andalso" else (lambda a, b: a | b), left, right)
            return left if bool(left) == (e.op == "orelse") else self.eval(e.right, env)
        right = self.eval(e.right, env)
        if e.op == "@":
            return self.product(left, right)
        return self.binary(e.op, left, right)

    def binary(self, op: str, x: Value, y: Value) -> Value:
        def one(a: Any, b: Any) -> Any:
            if not self.ghost:
                return self.arithmetic.binary(op, a, b)
            try:
                return self.arithmetic.binary(op, a, b)
            except (Stops, OverflowError):
                return b if is_open(a) else a

        return lifted(one, x, y)

    def product(self, a: Value, b: Value) -> Value:
        def element(batch: tuple[int, ...], i: int, j: int) -> Value:
            right = b[batch] if b.ndim > 2 else b
            terms = [self.binary("*", a[(*batch, i, k)], right[k, j]) for k in range(a.shape[-1])]
            return self.total("sum", terms, a.dtype.type(0))

        rows = [
            element(batch, i, j)
            for batch in np.ndindex(a.shape[:-2]) for i in range(a.shape[-2]) for j in range(b.shape[-1])
        ]  # fmt: skip
        return tensor((*a.shape[:-1], b.shape[-1]), rows) if rows else np.zeros((*a.shape[:-1], b.shape[-1]), a.dtype)

    def _tuple(self, e: s.Tuple, env: Env) -> Value:
        return tuple(self.eval(item, env) for item in e.items)

    def _record(self, e: s.Record, env: Env) -> Value:
        return {name.text: self.eval(value, env) for name, value in e.fields}

    def _field(self, e: s.Field, env: Env) -> Value:
        return self.eval(e.record, env)[e.name.text]

    def _project(self, e: s.Project, env: Env) -> Value:
        return self.eval(e.value, env)[e.position - 1]

    def _ascribe(self, e: s.Ascribe, env: Env) -> Value:
        return self.ascribed(self.eval(e.value, env), e.type, env)

    def _cast(self, e: s.Cast, env: Env) -> Value:
        dtype = DTYPES[e.element.text]

        def cast(x: Value) -> Value:
            return lifted(lambda v: self.arithmetic.cast(dtype, v), x)

        return cast if e.value is None else cast(self.eval(e.value, env))

    def _let(self, e: s.Let, env: Env) -> Value:
        return self.eval(e.body, self.declare(e.decls, env, e.body))

    def _fn(self, e: s.Fn, env: Env) -> Value:
        return self.function(e.params, e.body, env)

    def _if(self, e: s.If, env: Env) -> Value:
        taken, other = (e.then, e.otherwise) if self.eval(e.condition, env) else (e.otherwise, e.then)
        if self.ghost:
            with self.uses.guarded():
                value = self.eval(taken, env)
                return like(value, self.eval(other, env))
        value = self.eval(taken, env)
        return like(value, self.as_ghost(other, env)) if has_open(value) else value

    def _array(self, e: s.Array, env: Env) -> Value:
        return stacked((len(e.items),), [self.eval(item, env) for item in e.items])

    def as_ghost(self, e: s.Expr, env: Env) -> Value:
        with self.uses.looking():
            return self.eval(e, env)

    # ── comprehensions, reductions, loops ──────────────────────────────────────────────────────────────────────────────

    def indices(
        self, groups: Sequence[s.BinderGroup], env: Env, where: s.Expr | None, bodies: Sequence[s.Expr]
    ) -> tuple[Any, Env, Value]:
        """The binders with their ranges, as (names, bound, found sizes); the environment and the value of the body's ghost."""
        binders: list[tuple[tuple[str, ...], s.Expr | None, tuple[Index, ...]]] = []
        inner = dict(env)
        for group in groups:
            for binder in group.binders:
                names = tuple(n.text for n in binder.names) if isinstance(binder, s.ProductBinder) else (binder.name or "_",)
                if isinstance(binder, s.RunBinder) or isinstance(group.bound, s.ShapeRun):
                    raise NotImplementedError("runs of indices")
                own = tuple(Index() for _ in names)
                binders.append((names, group.bound, own))
        with self.uses.looking():
            for names, bound, own in binders:
                if bound is not None:
                    own[0].size = max(0, int(self.eval(bound, inner)))
                inner.update({n: i for n, i in zip(names, own, strict=True) if n != "_"})
            with self.uses.guarded(where is not None):
                if where is not None:
                    self.eval(where, inner)
                ghosts = [self.eval(body, inner) for body in bodies]
            self.uses.settle([i for _, _, own in binders for i in own], self.eval)
        return binders, inner, ghosts

    def loops(self, binders: Any, env: Env, ghost: bool = False) -> Iterator[tuple[tuple[int, ...], Env]]:
        """The environments of every index in turn, the last one fastest; a bound may mention the indices before it."""
        if not binders:
            yield (), env
            return
        names, bound, own = binders[0]
        sizes = [max(0, int(self.eval(bound, env)))] if bound is not None else [i.size for i in own]
        for at in product(*map(range, sizes)):
            given = {n: Index(v, size) for n, v, size in zip(names, at, sizes, strict=True) if n != "_"}
            for rest, inner in self.loops(binders[1:], {**env, **given}):
                yield (*at, *rest), inner

    def _for(self, e: s.For, env: Env) -> Value:
        binders, _, (ghost,) = self.indices(e.groups, env, None, [e.body])
        shape = [int(np.prod([i.size for i in own], dtype=int)) for _, _, own in binders]
        if self.ghost or 0 in shape:
            return emptied(shape, ghost)
        return stacked(shape, [self.eval(e.body, inner) for _, inner in self.loops(binders, env)])

    def _reduce(self, e: s.Reduce, env: Env) -> Value:
        binders, _, (ghost,) = self.indices(e.groups, env, e.where, [e.body])
        kind = e.kind.text
        found = []
        if not self.ghost:
            for at, inner in self.loops(binders, env):
                if e.where is None or self.eval(e.where, inner):
                    found.append((at, self.eval(e.body, inner)))
        values = [value for _, value in found]
        if kind in ("reduce", "scan"):
            function, unit = self.eval(e.monoid, env)
            once = function(unit)(ghost) if self.ghost or not values else function(unit)(values[0])
            state = like(like(unit, ghost), once)
            if self.ghost and kind == "reduce":
                return like(once, ghost)
            states = []
            for value in values:
                state = function(state)(like(value, state))
                states.append(state)
            if kind == "reduce":
                return state
            ((_, bound, own),) = binders
            length = own[0].size if bound is None else max(0, int(self.eval(bound, env)))
            return stacked([length], states) if states else emptied([length], like(once, ghost))
        if kind in ("argmax", "argmin"):
            return self.best(kind, found, sum(len(own) for _, _, own in binders))
        return like(self.total(kind, values, ghost), ghost)

    def total(self, kind: str, values: Sequence[Any], ghost: Any) -> Value:
        if kind in ("any", "all"):
            return np.bool_((any if kind == "any" else all)(values))
        op = {"sum": "+", "prod": "*"}.get(kind, kind)
        if op in ("max", "min"):
            if not values and not is_open(ghost) and ghost.dtype.kind in "iu":
                if self.ghost:
                    return ghost
                raise Stops(f"{kind} of nothing")
            start: Any = -inf if op == "max" else inf
        else:
            start = 0 if op == "+" else 1
        if not values:
            return like(float(start) if isinstance(ghost, float) else start, ghost)
        narrow = (
            not isinstance(values[0], np.ndarray) and not is_open(values[0]) and values[0].dtype.name in ("bfloat16", "float16")
        )
        state = values[0] if not narrow else self.arithmetic.cast(DTYPES["f32"], values[0])
        for value in values[1:]:
            state = self.binary(op, state, self.arithmetic.cast(DTYPES["f32"], value) if narrow else value)
        return self.arithmetic.cast(values[0].dtype, state) if narrow else state

    def best(self, kind: str, found: Sequence[tuple[tuple[int, ...], Any]], count: int) -> Value:
        if self.ghost:
            return np.int32(0) if count == 1 else (np.int32(0),) * count
        if not found:
            raise Stops(f"{kind} of nothing")
        place, first = found[0]
        for at, value in found[1:]:
            if first == first and (value != value or (value > first if kind == "argmax" else value < first)):
                place, first = at, value
        return np.int32(place[0]) if count == 1 else tuple(np.int32(p) for p in place)

    def _loop(self, e: s.Loop, env: Env) -> Value:
        single = len(e.states) == 1
        state = tuple(self.eval(value, env) for _, value in e.states)

        def bind(inner: Env, state: tuple[Value, ...]) -> Env:
            return inner | {k: v for (p, _), x in zip(e.states, state, strict=True) for k, v in self.match(p, x, env).items()}

        def after(inner: Env, state: tuple[Value, ...]) -> tuple[Value, ...]:
            made = self.eval(e.body, bind(inner, state))
            return (made,) if single else made

        with self.uses.guarded():  # the initial state's types alone are wanted
            binders, _, (ghost,) = self.indices(e.groups, bind(env, state), None, [e.body])
        ghost = (ghost,) if single else ghost
        state = tuple(like(x, g) for x, g in zip(state, ghost, strict=True))
        states = []
        going = e.condition is None or self.eval(e.condition, bind(env, state))
        if not self.ghost:
            for _, inner in self.loops(binders, env):
                if not going:
                    break
                state = tuple(like(x, y) for x, y in zip(after(inner, state), state, strict=True))
                states.append(state)
                going = e.condition is None or self.eval(e.condition, bind(env, state))
        if e.kind == "unfold":
            length = binders[0][2][0].size
            state = stacked([length], states) if states else emptied([length], state)
        return state[0] if single else state

    # ── accesses ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _access(self, e: s.Access, env: Env) -> Value:
        base = self.eval(e.base, env)
        default = None if e.default is None else self.eval(e.default, env)
        if default is not None:
            return self.read(base, e, env, default)
        return mapped(lambda part: self.read(part, e, env, None), base)

    def read(self, base: np.ndarray, e: s.Access, env: Env, default: Any) -> Value:
        """An element, or where a subscript names several positions of a dimension, a tensor of them."""
        subscripts = list(e.subscripts)
        rest = next((n for n, x in enumerate(subscripts) if isinstance(x, s.IndexRest)), len(subscripts))
        subscripts[rest : rest + 1] = [s.IndexSlice(None, None, None, span=e.span)] * (
            base.ndim - len(subscripts) + (rest < len(subscripts))
        )
        wanted = [self.positions(x, size, env, default is not None) for x, size in zip(subscripts, base.shape, strict=True)]
        shape = [len(w) for w in wanted if isinstance(w, list)]
        if self.ghost:
            value = default if default is not None and base.dtype == object else 0 if base.dtype == object else base.dtype.type(0)
            return emptied(shape, value) if shape else value
        elements = []
        for at in product(*(w if isinstance(w, list) else [w] for w in wanted)):
            if all(0 <= p < size for p, size in zip(at, base.shape, strict=True)):
                elements.append(base[at])
            elif default is None:
                raise Stops("a read outside a tensor")
            else:
                elements.append(default if base.dtype == object else typed(default, base.dtype))
        if any(isinstance(w, list) for w in wanted):
            return tensor(shape, elements) if elements else np.zeros(shape, base.dtype)
        return elements[0]

    def positions(self, x: s.Subscript, size: int, env: Env, padded: bool) -> int | list[int]:
        """Where a subscript reads along a dimension."""
        match x:
            case s.IndexAt(value=value):
                self.uses.note(value, env, size, padded)
                return int(self.eval(value, env))
            case s.IndexSplit(items=items):
                own = [env[i.name] for i in items if isinstance(i, s.Var)]
                self.uses.split(own, size)
                position = 0
                for item, index in zip(items, own, strict=True):
                    position = position * (index.size or 0) + int(self.eval(item, env))
                return position
            case s.IndexSlice(start=start, stop=stop, step=step):
                a, b, by = (d if v is None else int(self.eval(v, env)) for v, d in ((start, 0), (stop, size), (step, 1)))
                return list(range(a, b, by))
        raise NotImplementedError(x)
