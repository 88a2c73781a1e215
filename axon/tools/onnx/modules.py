"""Steps to functions: what stands in one module becomes one, equal modules share it, and layers that follow each other a loop.

The tree of modules is read off the paths of weights. A module is a function of what it takes from outside; one of a single step is
written out where it is used. Modules are equal if their steps are, but for numbers, which become parameters where they differ:
a convolution's stride, the sizes of weights. Layers whose numbers are equal too, one after the other, are a stack and a loop.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeAlias

from axon.base.data import dataclass, field, replace
from axon.shapes.dimension import Dim
from axon.tools.onnx.graph import Path
from axon.tools.onnx.steps import Shape, Step
from axon.tools.onnx.translate import Translated, Weight

Numbers: TypeAlias = "tuple[Dim, ...]"


@dataclass(frozen=True, slots=True)
class Entry:
    """A field of a module's record: a layer, a weight, a module inside it, or a stack of modules."""

    path: Path  # from the module's own
    kind: str  # of a layer, the operator of its step; "module", "stack"
    modules: tuple[Module, ...] = ()
    dims: tuple[int, ...] = ()  # of a layer, those that its type names


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A module as it occurs. Operands below `parameters` are what it is given; the others are its own steps, counted on."""

    path: Path
    parameters: tuple[tuple[Shape, str], ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    inside: Mapping[int, tuple[Module, ...]] = field(default_factory=dict)  # by number of the step that calls them
    entries: tuple[Entry, ...] = ()

    @property
    def key(self) -> Hashable:
        """What two modules have in common that share a function."""
        steps = tuple(
            (s.op, s.operands, s.data, len(s.sizes), s.element, relative(s, self.path), self._called(n))
            for n, s in enumerate(self.steps)
        )
        entries = tuple((e.path, e.kind, len(e.dims)) for e in self.entries)
        return len(self.parameters), tuple(len(s) for s, _ in self.parameters), steps, self.results, entries

    def _called(self, number: int) -> Hashable:
        return tuple(m.key for m in self.inside.get(number, ())[:1])

    @property
    def numbers(self) -> Hashable:
        """What besides makes them the same layer over again."""
        return (
            tuple(s.sizes for s in self.steps),
            tuple(e.dims for e in self.entries),
            tuple(tuple(m.numbers for m in e.modules) for e in self.entries),
            tuple(shape for shape, _ in self.parameters),
        )


def relative(step: Step, path: Path) -> Path | None:
    """The record that a step reads, from the record of its module."""
    return None if step.layer is None else step.layer[len(path) :]


def modules(translated: Translated, classes: Mapping[Path, str]) -> tuple[Module, Mapping[Path, Weight]]:
    """The graph as a module, with those inside it; and its weights, some of which stand further out than before."""
    work = _Outline(translated, classes)
    return work.run(), work.weights


# What may be computed of weights and inputs alone, such as a bias by the distance of two positions.
_LIFTED = ("weight", "places", "slice", "rearrange", "scale", "call", "binary", "with_number")


_FOLLOWING = frozenset(
    (
        *("call", "binary", "with_number", "scale", "rearrange", "slice", "softmax", "scores", "scaled_scores", "masked", "causal"),
        *("matmul", "attention", "rope"),
    )
)


class _Outline:
    def __init__(self, translated: Translated, classes: Mapping[Path, str]) -> None:
        self.weights = dict(translated.weights)
        self.classes = classes
        self.results = [number for _, number in translated.outputs]
        self.inputs = [number for _, number in translated.inputs]
        self.steps: dict[int, Step] = dict(enumerate(translated.flow.steps))
        self.inside: dict[int, tuple[Module, ...]] = {}
        self.next = len(self.steps)
        self.ages = {number: float(number) for number in self.steps}  # a call is as old as the last of its steps

    def run(self) -> Module:
        self._drop_unused()
        paths = {step.layer for step in self.steps.values() if step.layer is not None}
        inner = {(), *(path[:n] for path in paths for n in range(len(path)))}
        if not any(step.home for step in self.steps.values() if step.layer is None):
            self._follow()
        for number, step in self.steps.items():
            self.steps[number] = replace(step, home=self._home(step, inner))
        self._lift()
        paths = {step.layer for step in self.steps.values() if step.layer is not None}
        inner = {path[:n] for path in paths for n in range(len(path))}
        for path in sorted(inner - {()}, key=lambda p: (-len(p), p)):
            self._outline(path)
        return self._module((), {*self.steps} - {*self.inputs}, self.inputs, self.results)

    def _drop_unused(self) -> None:
        wanted = {*self.results, *self.inputs}
        for number in sorted(self.steps, reverse=True):
            if number in wanted:
                wanted.update(self.steps[number].operands)
            else:
                del self.steps[number]

    def _follow(self) -> None:
        """Where the graph says of no node in which module it stands, it stands where the last of what it uses was made."""
        for number, step in self.steps.items():
            if step.op in _FOLLOWING and step.operands and len(step.shape) >= len(self.steps[step.operands[0]].shape):
                made = [o for o in step.operands if not self._loose(o)]
                if made:
                    self.steps[number] = replace(step, home=self.steps[max(made)].home)

    def _lift(self) -> None:
        """What several modules use, and no layer makes, is made where all of them are, and so is the weight that it is made of."""
        for number in sorted(self.steps, reverse=True):
            step = self.steps[number]
            users = [s for s in self.steps.values() if number in s.operands]
            homes = {s.home for s in users}
            if step.op not in _LIFTED or not self._loose(number) or not homes or homes == {step.home}:
                continue
            home = _shared(homes)
            while home and (self._listed(home) or home[-1].isdigit()):
                home = home[:-1]
            only = all(self._loose(n) for n, s in self.steps.items() if number in s.operands)  # for what is lifted itself
            if step.home == home or step.home[: len(home)] != home:
                continue
            if step.op == "weight" and only:
                self._move(number, home)
            elif step.op != "weight" and (only or len(homes) > 1):
                self.steps[number] = replace(step, home=home)

    def _loose(self, number: int) -> bool:
        step = self.steps[number]
        return step.op == "input" or (step.op in _LIFTED and all(map(self._loose, step.operands)))

    def _move(self, number: int, home: Path) -> None:
        step = self.steps[number]
        assert step.layer is not None
        path = (*home, step.layer[-1])
        if not any(p[: len(path)] == path or path[: len(p)] == p for p in self.weights):
            self.weights[path] = self.weights.pop(step.layer)
            self.steps[number] = replace(step, layer=path, home=home)

    def _listed(self, path: Path) -> bool:
        """Whether a path is that of a list of modules, which is none itself."""
        inside = {layer[len(path)] for layer in self.weights if layer[: len(path)] == path and len(layer) > len(path)}
        return bool(inside) and all(name.isdigit() for name in inside) and bool(self.classes) and path not in self.classes

    def _home(self, step: Step, inner: set[Path]) -> Path:
        """The module in which a step is written: where heads are merged is a matter of the attention that made them."""
        if step.op == "rearrange" and self.steps[step.operands[0]].op in ("attention", "matmul"):
            return self._home(self.steps[step.operands[0]], inner)
        home = step.home
        while home not in inner:
            home = home[:-1]
        return home

    # ── outlining ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _outline(self, path: Path) -> None:
        group = {number for number, step in self.steps.items() if step.home == path}
        work = [n for n in group if self.steps[n].op != "weight"]
        inputs, results = self._borders(group)
        apart = len(results) > 1 and {*results} == {*work}  # a list of layers for several inputs, and no layer itself
        whole = len(work) < 2 or apart or self._thin(path) or self._listed(path) or not inputs or not results
        whole = whole or not self._convex(group)
        module = None if whole else self._module(path, group, inputs, results)
        if module is None or len([s for s in module.steps if s.op != "weight"]) < 2:
            for number in group:
                self.steps[number] = replace(self.steps[number], home=path[:-1])
            return
        first = replace(self.steps[results[0]], op="module", operands=tuple(inputs), data=(), sizes=(), home=path[:-1], layer=path)
        call = self._new(first, group)
        self.inside[call] = (module,)
        images = {results[0]: call}
        if len(results) > 1:
            for place, number in enumerate(results):
                part = replace(self.steps[number], op="part", operands=(call,), data=(place,), sizes=(), home=path[:-1], layer=None)
                images[number] = self._new(part, group)
        self._redirect(images, {*group, *images.values()})
        for number in group:
            del self.steps[number]

    def _thin(self, path: Path) -> bool:
        """Whether the graph would do little but call this one."""
        outside = [s for s in self.steps.values() if s.home[:1] != path and s.op not in ("input", "weight", "places")]
        return len(path) == 1 and len(outside) <= 3 and all(s.op != "module" for s in outside)

    def _new(self, step: Step, group: Iterable[int]) -> int:
        self.steps[self.next] = step
        self.ages[self.next] = max(self.ages[n] for n in group)
        self.next += 1
        return self.next - 1

    def _redirect(self, images: Mapping[int, int], but: Iterable[int]) -> None:
        skipped = {*but}
        for number, step in self.steps.items():
            if number not in skipped and any(o in images for o in step.operands):
                self.steps[number] = replace(step, operands=tuple(images.get(o, o) for o in step.operands))
        self.results = [images.get(n, n) for n in self.results]

    def _borders(self, group: set[int]) -> tuple[list[int], list[int]]:
        order = self._sorted(group)
        inputs = list(dict.fromkeys(o for n in order for o in self.steps[n].operands if o not in group))
        used = {o for n, step in self.steps.items() if n not in group for o in step.operands} | {*self.results}
        return inputs, [n for n in order if n in used]

    def _convex(self, group: set[int]) -> bool:
        """Nothing outside that needs something inside is needed inside."""
        after: set[int] = set()
        for number in self._sorted({*self.steps}):
            if any(o in after or o in group for o in self.steps[number].operands):
                if number in group:
                    if any(o in after for o in self.steps[number].operands):
                        return False
                else:
                    after.add(number)
        return True

    def _sorted(self, group: set[int]) -> list[int]:
        """Steps after their operands; otherwise in the order of the graph."""
        done: dict[int, None] = {}
        for number in sorted(group, key=self.ages.__getitem__):
            work = [number]
            while work:
                top = work[-1]
                open_ = [o for o in self.steps[top].operands if o in group and o not in done]
                if open_:
                    work.append(min(open_, key=self.ages.__getitem__))
                else:
                    done.setdefault(work.pop())
        return list(done)

    def _module(self, path: Path, group: set[int], inputs: Sequence[int], results: Sequence[int]) -> Module:
        order = self._canonical(group, results)
        place = {number: n for n, number in enumerate([*inputs, *order])}
        steps = tuple(replace(self.steps[n], operands=tuple(place[o] for o in self.steps[n].operands)) for n in order)
        inside = {n: self.inside[number] for n, number in enumerate(order) if number in self.inside}
        given = tuple((self.steps[n].shape, self.steps[n].element) for n in inputs)
        module = Module(path, given, steps, tuple(place[r] for r in results), inside)
        module = _looped(module)
        return replace(module, entries=_entries(module, self.weights))

    def _canonical(self, group: set[int], results: Sequence[int]) -> list[int]:
        """An order that depends on what the steps are alone: after their operands, from the results back."""
        done: dict[int, None] = {}
        for result in (r for r in results if r in group):
            work = [result]
            while work:
                top = work[-1]
                open_ = [o for o in self.steps[top].operands if o in group and o not in done]
                if open_:
                    work.append(open_[0])
                else:
                    done.setdefault(work.pop())
        return list(done)


def _shared(paths: Iterable[Path]) -> Path:
    """The path that all paths begin with."""
    first, *others = paths
    for other in others:
        count = next((n for n, (a, b) in enumerate(zip(first, other, strict=False)) if a != b), min(len(first), len(other)))
        first = first[:count]
    return first


# ── loops ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def numbered(name: str) -> tuple[str, int] | None:
    """`3` and `layer_3` are the third of several."""
    match = re.fullmatch(r"(|.*?_)(\d+)", name)
    return (match[1].rstrip("_"), int(match[2])) if match else None


def _looped(module: Module) -> Module:
    """Calls one after the other of modules that are alike, and numbered one after the other, as one step each."""
    first = len(module.parameters)
    steps, inside = list(module.steps), dict(module.inside)
    at = 0
    while at < len(steps):
        run = _run(steps, inside, at, first, module.results)
        if len(run) > 1:
            last = run[-1]
            called = tuple(inside[n][0] for n in run)
            begin = steps[run[0]]
            steps[last] = replace(begin, op="loop", data=(_carried(steps, run, first),), shape=steps[last].shape)
            inside[last] = called
            gone = {*run[:-1]}
            kept = [n for n in range(len(steps)) if n not in gone]
            place = {**{n: n for n in range(first)}, **{first + n: first + k for k, n in enumerate(kept)}}
            steps = [replace(steps[n], operands=tuple(place[o] for o in steps[n].operands)) for n in kept]
            inside = {place[first + n] - first: m for n, m in inside.items() if n not in gone}
            module = replace(module, results=tuple(place[r] for r in module.results))
            at = kept.index(last)
        at += 1
    return replace(module, steps=tuple(steps), inside=inside)


def _carried(steps: Sequence[Step], run: Sequence[int], first: int) -> int:
    return steps[run[1]].operands.index(first + run[0])


def _run(steps: Sequence[Step], inside: Mapping[int, tuple[Module, ...]], at: int, first: int, results: Sequence[int]) -> list[int]:
    if steps[at].op != "module":
        return [at]
    run = [at]
    while True:
        number = run[-1]
        users = [n for n, s in enumerate(steps) if first + number in s.operands]
        if len(users) != 1 or first + number in results or steps[users[0]].op != "module":
            return run
        next_ = users[0]
        mine, its = inside[number][0], inside[next_][0]
        one, two = numbered(mine.path[-1]), numbered(its.path[-1])
        if mine.path[:-1] != its.path[:-1] or one is None or two is None or two != (one[0], one[1] + 1):
            return run
        if mine.key != its.key or mine.numbers != its.numbers:
            return run
        before, after = steps[number].operands, steps[next_].operands
        carried = after.index(first + number)
        if after.count(first + number) != 1 or any(
            a != b for i, (a, b) in enumerate(zip(before, after, strict=True)) if i != carried
        ):
            return run
        if len(run) > 1 and carried != _carried(steps, run, first):
            return run
        run.append(next_)


# ── records ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _entries(module: Module, weights: Mapping[Path, Weight]) -> tuple[Entry, ...]:
    found: dict[Path, Entry] = {}
    for number, step in enumerate(module.steps):
        if step.layer is None:
            continue
        if step.op == "loop":
            found.setdefault(path := _stack_path(module, number), Entry(path, "stack", module.inside[number]))
        elif step.op == "module":
            path = step.layer[len(module.path) :]
            found.setdefault(path, Entry(path, "module", module.inside[number]))
        else:
            path = step.layer[len(module.path) :]
            found.setdefault(path, Entry(path, layer_kind(step), dims=_dims(step, weights)))
    return tuple(found.values())


def layer_kind(step: Step) -> str:
    """What kind of record a layer reads."""
    if step.op in ("conv", "conv_transpose"):
        rank, biased = step.data[0], step.data[-1]
        return (f"conv{rank}" if step.op == "conv" else f"transposed{rank}") if biased else f"kernel{rank}"
    return {"rms_norm": "weight", "lstm_last": "lstm", "gru_last": "gru"}.get(step.op, step.op)


def _dims(step: Step, weights: Mapping[Path, Weight]) -> tuple[int, ...]:
    assert step.layer is not None
    match layer_kind(step):
        case "dense":
            return weights[(*step.layer, "w")].shape
        case "conv1" | "conv2" | "conv3":
            return weights[(*step.layer, "k")].shape
        case "transposed1" | "transposed2" | "transposed3":
            return (*weights[(*step.layer, "k")].shape, *weights[(*step.layer, "b")].shape)
        case "layer_norm" | "batch_norm" | "instance_norm" | "group_norm":
            return weights[(*step.layer, "scale")].shape
        case "lstm" | "gru":
            shape = weights[(*step.layer, "input")].shape
            return shape[0], shape[2]
        case _:
            return weights[step.layer].shape


def _stack_path(module: Module, number: int) -> Path:
    """Where a stack stands: in place of the list, if that is all of it, else beside the others."""
    run = module.inside[number]
    path = run[0].path[len(module.path) :]
    *parent, last = path
    stem, index = numbered(last) or ("", 0)
    alone = not any(
        s.layer is not None
        and len(s.layer) >= len(module.path) + len(path)
        and s.layer[: len(module.path) + len(parent)] == (*module.path, *parent)
        for n, s in enumerate(module.steps)
        if n != number and s.op != "loop"
    )
    if stem:
        return (*parent, stem)
    if parent and alone:
        return tuple(parent)
    return (*parent, "rest" if index == 1 else "layers" if index == 0 else f"from{index}")
