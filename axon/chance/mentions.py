"""What each site of a model depends on: the latents, data and values that its distribution mentions, and at which indices.

An abstract interpretation of the model's text. A value is known by what it mentions: of `for i < n => theta[i] * x[i, 0]` element i
mentions theta at (i) and x at (i, _). Functions that stand in the model, and models that it calls, are followed into; of others
each argument counts. So a mention is what the text has, whatever becomes of it: `0.0 * mu` mentions mu.

Note [Holes]
    A function is read once, with a hole for each name that its parameters bind: its result mentions holes, also as indices. To
    apply it is to fill them. So what takes the time is the text, and not how often its functions call each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeAlias

from axon.base.data import dataclass, field, replace
from axon.chance.sites import head_of, leaf_of, name_of
from axon.grammar import syntax as S


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """An index of a plate: each place that binds one has its own. `bound` is the text of its bound, "" where that is inferred."""

    name: str
    bound: str
    chain: bool = False  # of an `unfold`


@dataclass(frozen=True, slots=True, eq=False)
class Hole:
    """What a parameter of a function will be. See Note [Holes]."""


At: TypeAlias = "Index | Hole | None"  # None: another index than a plate's, or all of them


@dataclass(frozen=True, slots=True)
class Mention:
    """A node's value, or a field of it, as far as subscripts say at which indices. While it is `open`, what is taken of it is
    taken of the node."""

    node: str | Hole
    at: tuple[At, ...] = ()
    open: bool = True
    before: bool = False  # in the step before, of a chain
    fields: tuple[str, ...] = ()


Mentions: TypeAlias = frozenset[Mention]
NONE: Mentions = frozenset()


@dataclass(frozen=True, slots=True)
class Whole:
    """A value that is known as a whole, or, by its first dimensions, element for element."""

    mentions: Mentions = NONE
    dims: tuple[Index, ...] = ()


@dataclass(frozen=True, slots=True)
class Parts:
    """A tuple or a record."""

    parts: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Place:
    """What an index stands for: one of `index`, or the part-th of several whose product it is."""

    index: Index | None
    part: int | None = None


@dataclass(frozen=True, slots=True)
class Closure:
    """A function: its parameters, with a hole for each name, and its result."""

    params: tuple[tuple[S.Pattern, Mapping[str, Hole]], ...]
    result: Value


Value: TypeAlias = "Whole | Parts | Place | Closure"
Env: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Node:
    """A site, or a value between sites: the plates that it stands in, from the outside in, and what it mentions."""

    name: str
    kind: str  # latent observed value
    plates: tuple[Index, ...]
    mentions: Mentions
    text: str  # of its distribution, or what it is
    place: S.Node


class Around(Protocol):
    """What is declared around a model."""

    def model(self, e: S.Expr) -> tuple[S.Fun, Around] | None:
        """The model that an expression names, if it names one, and what is around that."""


def nodes_of(decl: S.Fun, around: Around) -> tuple[Node, ...]:
    """The sites of a model without mistakes, and the values that latents and data have a part in, in their order."""
    env: dict[str, Value] = {name: Whole(frozenset({Mention(name)})) for param in decl.params for name in _names(param)}
    reading = _Reading(taken={*env})
    reading.model(decl, around, env, "", ())
    return tuple(reading.nodes)


@dataclass(slots=True)
class _Reading:
    nodes: list[Node] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    def model(self, decl: S.Fun, around: Around, env: dict[str, Value], prefix: str, outer: tuple[Index, ...]) -> Value:
        """Read a model whose parameters the environment has; it stands in the plates `outer`. What its body is."""
        body = decl.body
        while isinstance(body, S.Let):
            for d in body.decls:
                match d:
                    case S.Draw(pattern, site):
                        bound = name_of(pattern)
                        assert bound is not None
                        env[bound.name] = self.draw(bound.name, pattern, site, around, env, prefix, outer)
                    case S.Observe(name, site):
                        env[name.text] = self.observe(name.text, d, site, around, env, prefix, outer)
                    case S.Val(pattern, e):
                        value = _eval(e, env)
                        own = name_of(pattern)
                        if own is not None and isinstance(value, Whole) and value.mentions:
                            value = self.value(own.name, d, e, value, prefix, outer)
                        _bind(pattern, value, env)
                    case S.Fun():
                        env[d.name.text] = _closure(d.params, d.body, env)
            body = body.body
        return _eval(body, env)

    def value(self, name: str, place: S.Node, e: S.Expr, value: Whole, prefix: str, outer: tuple[Index, ...]) -> Whole:
        drawn = {node.name for node in self.nodes}
        if isinstance(e, S.Var) or not any(m.node in drawn for m in value.mentions):
            return value  # another name, or of arguments alone
        return self.add(name, "value", prefix, outer, value.dims, value.mentions, _line(e), place)

    def draw(
        self, name: str, pattern: S.Node, site: S.Expr, around: Around, env: Env, prefix: str, outer: tuple[Index, ...]
    ) -> Value:
        called = around.model(head_of(leaf_of(site))) if not _is_own(head_of(leaf_of(site)), env) else None
        if called is None:
            dims, mentions, leaf = self.site(site, env, prefix + name, outer)
            return self.add(name, "latent", prefix, outer, dims, mentions, _line(leaf), pattern)
        return self.called(name, site, env, prefix, outer, *called)

    def called(
        self, name: str, site: S.Expr, env: Env, prefix: str, outer: tuple[Index, ...], decl: S.Fun, around: Around
    ) -> Value:
        """A model in the place of a distribution, of whose branches the first is read."""
        inner: dict[str, Value] = dict(env)
        dims: list[Index] = []
        while isinstance(site, S.For | S.If):
            if isinstance(site, S.For):
                dims += _bind_indices(site.groups, inner)
                site = site.body
            else:
                site = site.then
        arguments: list[S.Expr] = []
        leaf: S.Expr = site
        while isinstance(leaf, S.Apply | S.ApplyDims):
            if isinstance(leaf, S.Apply):
                arguments.insert(0, leaf.argument)
            leaf = leaf.function
        own: dict[str, Value] = {}
        params = (p for p in decl.params if not isinstance(p, S.DimParams))
        for param, argument in zip(params, arguments, strict=False):
            _bind(param, _eval(argument, inner), own)
        value = self.model(decl, around, own, f"{prefix}{name}.", (*outer, *dims))
        return _over(tuple(dims), value)

    def observe(
        self, name: str, place: S.Node, site: S.Expr, around: Around, env: Env, prefix: str, outer: tuple[Index, ...]
    ) -> Value:
        dims, mentions, leaf = self.site(site, env, prefix + name, outer)
        data = env.get(name, Whole())
        given = _flat(_taken(data, dims))
        if not prefix and data == Whole(frozenset({Mention(name)})):  # the parameter itself: it is the node
            given = NONE
            self.taken.discard(name)
        own = self.add(name, "observed", prefix, outer, dims, mentions | given, _line(leaf), place)
        return data if prefix else own

    def add(
        self,
        name: str,
        kind: str,
        prefix: str,
        outer: tuple[Index, ...],
        dims: tuple[Index, ...],
        mentions: Mentions,
        text: str,
        place: S.Node,
    ) -> Whole:
        """A new node. What it is to those who mention it."""
        path = prefix + name
        while path in self.taken:  # another value has that name as well
            path += "'"
        self.taken.add(path)
        self.nodes.append(Node(path, kind, (*outer, *dims), frozenset(replace(m, open=False) for m in mentions), text, place))
        mine = tuple(Index(i.name, i.bound, i.chain) for i in dims)  # as of any array: those of the node are its plates
        return Whole(frozenset({Mention(path, (*outer, *mine))}), mine)

    def site(self, site: S.Expr, env: Env, path: str, outer: tuple[Index, ...]) -> tuple[tuple[Index, ...], Mentions, S.Expr]:
        """The plates of a site, what it mentions, and its first distribution."""
        match site:
            case S.If(condition, then, otherwise):
                dims, mentions, leaf = self.site(then, env, path, outer)
                others, more, _ = self.site(otherwise, env, path, outer)
                return dims, mentions | _renamed(more, dict(zip(others, dims, strict=False))) | _flat(_eval(condition, env)), leaf
            case S.For(groups, body):
                inner = dict(env)
                own = _bind_indices(groups, inner)
                dims, mentions, leaf = self.site(body, inner, path, (*outer, *own))
                return (*own, *dims), mentions, leaf
            case S.Loop(_, states, _, groups, body):
                inner = dict(env)
                own = _bind_indices(groups, inner, chain=True)
                for pattern, start in states:
                    before = Mention(path, (*outer, *own), before=True)
                    state = Whole(_flat(_eval(start, env)) | {replace(before, open=False)})
                    for name in _names(pattern):
                        inner[name] = state
                dims, mentions, leaf = self.site(body, inner, path, (*outer, *own))
                return (*own, *dims), mentions, leaf
            case _:
                return (), _flat(_eval(site, env)), site


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _eval(e: S.Expr, env: Env) -> Value:
    match e:
        case S.Var(name):
            return env.get(name, Whole())
        case S.Access(base, subscripts, default):
            return _access(_eval(base, env), subscripts, default, env)
        case S.For(groups, body):
            inner = dict(env)
            own = _bind_indices(groups, inner)
            return _over(own, _eval(body, inner))
        case S.Tuple(items):
            return Parts({str(n): _eval(item, env) for n, item in enumerate(items, 1)})
        case S.Record(fields):
            return Parts({name.text: _eval(value, env) for name, value in fields})
        case S.Field(record, name):
            return _part(_eval(record, env), name.text)
        case S.Project(value, position):
            return _part(_eval(value, env), str(position))
        case S.Ascribe(value) | S.Coerce(value) | S.Cast(_, S.Node() as value):
            return _eval(value, env)
        case S.ApplyDims(function):
            return _eval(function, env)
        case S.Apply(function, argument):
            return _applied(_eval(function, env), _eval(argument, env))
        case S.Binary("|>", left, right):
            return _applied(_eval(right, env), _eval(left, env))
        case S.Fn(params, body):
            return _closure(params, body, env)
        case S.Let(decls, body):
            inner = dict(env)
            for d in decls:
                match d:
                    case S.Val(pattern, value):
                        _bind(pattern, _eval(value, inner), inner)
                    case S.Fun():
                        inner[d.name.text] = _closure(d.params, d.body, inner)
            return _eval(body, inner)
        case S.If(condition, then, otherwise):
            return _either(_flat(_eval(condition, env)), _eval(then, env), _eval(otherwise, env))
        case S.Reduce(_, monoid, groups, where, body):
            inner = dict(env)
            own = _bind_indices(groups, inner)
            inside = (part for part in (monoid, where, body) if part is not None)
            return Whole(_without(own, frozenset(m for part in inside for m in _flat(_eval(part, inner)))))
        case S.Loop(_, states, condition, groups, body):
            return Whole(_repeated(states, condition, groups, body, env))
        case _:
            return Whole(frozenset(m for part in _parts(e) for m in _flat(_eval(part, env))))


def _parts(e: S.Expr) -> Iterable[S.Expr]:
    match e:
        case S.Unary(_, operand):
            return (operand,)
        case S.Binary(_, left, right):
            return (left, right)
        case S.Array(items):
            return items
        case _:
            return ()


def _access(value: Value, subscripts: tuple[S.Subscript, ...], default: S.Expr | None, env: Env) -> Value:
    more: set[Mention] = set() if default is None else {*_flat(_eval(default, env))}
    for subscript in subscripts:
        match subscript:
            case S.IndexAt(e):
                at = _eval(e, env)
                value = _take(value, _as_index(at))
                more |= _flat(at)
            case S.IndexSplit(items):
                found = [_eval(item, env) for item in items]
                whole = {f.index for f in found if isinstance(f, Place) and f.part is not None}
                parts = [f.part for f in found if isinstance(f, Place)]
                is_one = len(whole) == 1 and parts == [*range(len(found))]
                value = _take(value, whole.pop() if is_one else None)
                more |= {m for f in found for m in _flat(f)}
            case S.IndexSlice(start, stop, step):
                more |= {m for part in (start, stop, step) if part is not None for m in _flat(_eval(part, env))}
                value = Whole(_flat(value))
            case _ if subscript is not subscripts[-1] or isinstance(subscript, S.IndexRun):
                value = Whole(_flat(value))
    return value if not more else Whole(_flat(value) | more)


def _take(value: Value, index: At) -> Value:
    """An element of a value, in its first dimension."""
    match value:
        case Whole(mentions, (first, *rest)):
            return Whole(_renamed(mentions, {first: index}), tuple(rest))
        case Whole(mentions):
            return Whole(frozenset(replace(m, at=(*m.at, index)) if m.open else m for m in mentions))
        case Parts(parts):
            return Parts({name: _take(part, index) for name, part in parts.items()})
        case _:
            return Whole(_flat(value))


def _taken(value: Value, indices: tuple[Index, ...]) -> Value:
    for index in indices:
        value = _take(value, index)
    return value


def _over(dims: tuple[Index, ...], value: Value) -> Value:
    """An array whose elements are such values, over new dimensions."""
    match value:
        case Whole(mentions, inner):
            return Whole(mentions, (*dims, *inner))
        case Parts(parts):
            return Parts({name: _over(dims, part) for name, part in parts.items()})
        case _:
            return Whole(_flat(value), dims)


def _flat(value: Value) -> Mentions:
    """All that a value mentions, whatever is taken of it."""
    match value:
        case Whole(mentions, dims):
            return frozenset(replace(m, open=False) for m in _without(dims, mentions))
        case Parts(parts):
            return frozenset(m for part in parts.values() for m in _flat(part))
        case Place():
            return NONE
        case Closure(params, result):
            return _flat(_filled(result, {hole: Whole() for _, holes in params for hole in holes.values()}))


def _part(value: Value, name: str) -> Value:
    match value:
        case Parts(parts):
            return parts.get(name, Whole())
        case Whole(mentions, ()):  # of a record that is given
            return Whole(frozenset(replace(m, fields=(*m.fields, name)) if m.open and not m.at else m for m in mentions))
        case _:
            return value


def _applied(function: Value, argument: Value) -> Value:
    if not isinstance(function, Closure):
        return Whole(_flat(function) | _flat(argument))
    (pattern, holes), *rest = function.params
    bound: dict[str, Value] = {}
    _bind(pattern, argument, bound)
    result = _filled(function.result, {hole: bound[name] for name, hole in holes.items()})
    return Closure(tuple(rest), result) if rest else result


def _filled(value: Value, holes: Mapping[Hole, Value]) -> Value:
    """What a value is with values in the place of holes."""
    match value:
        case Whole(mentions, dims):
            found = [_fill(m, holes) for m in mentions]
            if len(found) == 1 and not dims:
                return found[0]
            inside = (f.mentions if isinstance(f, Whole) and not f.dims else _flat(f) for f in found)
            return Whole(frozenset(m for more in inside for m in more), dims)
        case Parts(parts):
            return Parts({name: _filled(part, holes) for name, part in parts.items()})
        case Closure(params, result):
            return Closure(params, _filled(result, holes))
        case Place():
            return value


def _fill(mention: Mention, holes: Mapping[Hole, Value]) -> Value:
    at = tuple(_as_index(holes[i]) if isinstance(i, Hole) and i in holes else i for i in mention.at)
    if not isinstance(mention.node, Hole) or mention.node not in holes:
        return Whole(frozenset({replace(mention, at=at)}))
    value = holes[mention.node]
    for name in mention.fields:
        value = _part(value, name)
    for index in at:
        value = _take(value, index)
    return value if mention.open else Whole(_flat(value))


def _as_index(value: Value) -> At:
    """What a value is as a subscript."""
    match value:
        case Place(index, None):
            return index
        case Whole(mentions, ()) if len(mentions) == 1:
            (m,) = mentions
            return m.node if isinstance(m.node, Hole) and m == Mention(m.node) else None
        case _:
            return None


def _either(condition: Mentions, then: Value, otherwise: Value) -> Value:
    if isinstance(then, Parts) and isinstance(otherwise, Parts) and then.parts.keys() == otherwise.parts.keys():
        return Parts({name: _either(condition, part, otherwise.parts[name]) for name, part in then.parts.items()})
    return Whole(condition | _flat(then) | _flat(otherwise))


def _repeated(
    states: tuple[tuple[S.Pattern, S.Expr], ...],
    condition: S.Expr | None,
    groups: tuple[S.BinderGroup, ...],
    body: S.Expr,
    env: Env,
) -> Mentions:
    """What the states of a loop mention at last: what they began with, and what any step adds."""
    inner = dict(env)
    own = _bind_indices(groups, inner)
    found = frozenset(m for _, start in states for m in _flat(_eval(start, env)))
    while True:
        for name in (n for pattern, _ in states for n in _names(pattern)):
            inner[name] = Whole(found)
        step = _flat(_eval(body, inner)) | (_flat(_eval(condition, inner)) if condition is not None else NONE)
        if (more := found | _without(own, step)) == found:
            return found
        found = more


def _renamed(mentions: Mentions, indices: Mapping[Index, At]) -> Mentions:
    return frozenset(replace(m, at=tuple(indices.get(i, i) if isinstance(i, Index) else i for i in m.at)) for m in mentions)


def _without(indices: Iterable[Index], mentions: Mentions) -> Mentions:
    return _renamed(mentions, dict.fromkeys(indices))


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _closure(params: Iterable[S.Param], body: S.Expr, env: Env) -> Value:
    inner = dict(env)
    found: list[tuple[S.Pattern, Mapping[str, Hole]]] = []
    for param in params:
        if not isinstance(param, S.DimParams):
            found.append((param, {name: Hole() for name in _names(param)}))
            inner |= {name: Whole(frozenset({Mention(hole)})) for name, hole in found[-1][1].items()}
    result = _eval(body, inner)
    return Closure(tuple(found), result) if found else result


def _is_own(e: S.Expr, env: Env) -> bool:
    owner = e.record if isinstance(e, S.Field) else e
    return isinstance(owner, S.Var) and owner.name in env


def _names(pattern: S.Node) -> Iterator[str]:
    match pattern:
        case S.PatternName(name) if name != "_":
            yield name
        case S.PatternTuple(items):
            for item in items:
                yield from _names(item)
        case S.PatternRecord(fields):
            for _, item in fields:
                yield from _names(item)
        case S.PatternTyped(inner):
            yield from _names(inner)


def _bind(pattern: S.Pattern, value: Value, env: dict[str, Value]) -> None:
    match pattern:
        case S.PatternName(name):
            env[name] = value
        case S.PatternTuple(items):
            for n, item in enumerate(items, 1):
                _bind(item, _part(value, str(n)), env)
        case S.PatternRecord(fields):
            for field_name, item in fields:
                _bind(item, _part(value, field_name.text), env)
        case S.PatternTyped(inner):
            _bind(inner, value, env)


def _bind_indices(groups: tuple[S.BinderGroup, ...], env: dict[str, Value], chain: bool = False) -> tuple[Index, ...]:
    found: list[Index] = []
    for group in groups:
        bound = group.bound.span.text if group.bound is not None else ""
        for binder in group.binders:
            match binder:
                case S.ProductBinder(names):
                    index = Index(f"({', '.join(n.text for n in names)})", bound, chain)
                    for part, name in enumerate(names):
                        env[name.text] = Place(index, part)
                case S.IndexBinder(name):
                    index = Index("" if name == "_" else name, bound, chain)
                    env[name] = Place(index)
                case S.RunBinder(run):
                    index = Index(f"..{run or ''}", bound, chain)
            found.append(index)
    return tuple(found)


def _line(e: S.Expr) -> str:
    return " ".join(e.span.text.split())
