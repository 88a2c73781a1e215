"""A graph to steps: every value of the graph is a view of a step, or says what stands at each place."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

from axon.base.data import dataclass, replace
from axon.base.diagnostics import Diagnostic, counted
from axon.base.errors import AxonError
from axon.base.names import Symbol, fresh
from axon.shapes.dimension import Dim
from axon.tools.onnx import views
from axon.tools.onnx.graph import PART, TRANSPOSED, Constant, Graph, Node, Path, Port
from axon.tools.onnx.names import Sizes
from axon.tools.onnx.scalars import Compute, Number, Read, Scalar, Whole, compute, reads, renamed, substituted, variables, whole
from axon.tools.onnx.steps import Flow, Places, Refused, Shape, Step, Value
from axon.tools.onnx.views import Digit, Fixed, View

ONE = Dim.of(1)
FAR = 2**62  # the end of whatever it is, as exporters write it
LISTED = 64  # elements of a tensor of integers that may still say what a shape is
_ANONYMOUS = re.compile(r"(onnx::|val_|_?v?\d|const|initializer)")
CANONICAL = [fresh(f"axis{n}") for n in range(16)]  # the axes of all tensors that are written out: what is alike is equal


@dataclass(frozen=True, slots=True)
class Weight:
    """Where a weight of the program comes from: a constant of the graph, changed on the way."""

    source: str
    change: str  # a key of `weights.CHANGES`
    shape: tuple[int, ...]
    element: str


@dataclass(frozen=True, slots=True)
class Translated:
    flow: Flow
    inputs: tuple[tuple[Port, int], ...]
    outputs: tuple[tuple[Port, int], ...]
    weights: Mapping[Path, Weight]


Operator: TypeAlias = "Callable[[Translation, Node, Sequence[Value | None]], Sequence[Value]]"


def translated(graph: Graph, operators: Mapping[str, Operator]) -> Translated:
    """Raises AxonError with all nodes that have no translation."""
    _require_operators(graph, operators)
    work = Translation(graph)
    inputs = tuple((port, work.enter(port)) for port in graph.inputs)
    refused: list[tuple[Node, str]] = []
    for node in graph.nodes:
        if any(name in work.missing for name in node.inputs):
            work.missing.update(node.outputs)
            continue
        try:
            work.node = node
            work.values.update(zip(node.outputs, operators[node.op](work, node, _Inputs(work, node.inputs)), strict=False))
        except Refused as why:
            refused.append((node, str(why)))
            work.missing.update(node.outputs)
    if refused:
        raise AxonError(tuple(Diagnostic("AX0702", f"`{n.name}` ({n.op}) cannot be translated: {why}") for n, why in refused))
    work.node = Node("", "", (), (), {})
    if nowhere := [p.name for p in graph.outputs if p.name not in work.values and p.name not in graph.constants]:
        raise AxonError(tuple(Diagnostic("AX0701", f"the result `{name}` is made by no node") for name in nowhere))
    outputs = tuple((port, work.result(work.value(port.name))) for port in graph.outputs)
    return Translated(work.flow, inputs, outputs, work.weights)


def _require_operators(graph: Graph, operators: Mapping[str, Operator]) -> None:
    unknown = [node for node in graph.nodes if node.op not in operators]
    if not unknown:
        return
    notes = []
    for op, count in sorted(Counter(node.op for node in unknown).items()):
        first = next(node.name for node in unknown if node.op == op)
        notes.append(f"`{op}`: {counted(count, 'node')}, the first is `{first}`")
    message = f"{len(unknown)} of the graph's {counted(len(graph.nodes), 'node')} are of operators without a translation"
    notes.append(f"the graph is of operator set {graph.opset}")
    raise AxonError((Diagnostic("AX0702", message, notes=tuple(notes)),))


class _Inputs(Sequence["Value | None"]):
    """The values of a node's inputs, each looked up when it is asked for: weights that a layer takes up become no tensors."""

    def __init__(self, work: Translation, names: Sequence[str]) -> None:
        self.work, self.names = work, names

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, number: Any) -> Any:
        return self.work.value(self.names[number]) if self.names[number] else None


class Translation:
    """What operators ask and add to while a graph is walked through."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.flow = graph, Flow()
        self.values: dict[str, Value] = {}
        self.missing: set[str] = set()
        self.weights: dict[Path, Weight] = {}
        self.paths: dict[Hashable, Path] = {}
        self.bounds: dict[Symbol, Dim] = {}
        self.sizes = Sizes(d for port in graph.inputs for d in port.dims or () if isinstance(d, str))
        self.node = Node("", "", (), (), {})
        self.written: dict[Hashable, int] = {}
        known = {node.scope for node in graph.nodes}
        known |= {owner(tuple(name.split("."))) for name in graph.constants if not _ANONYMOUS.match(name)}
        self.holding = {path[:n] for path in known for n in range(len(path))}  # modules with others inside

    # ── what comes in ───────────────────────────────────────────────────────────────────────────────────────────────────

    def enter(self, port: Port) -> int:
        if port.dims is None:
            raise AxonError((Diagnostic("AX0701", f"the graph does not say how many dimensions its input `{port.name}` has"),))
        shape = tuple(self.sizes.dim(d, f"{port.name}_{i}") for i, d in enumerate(port.dims))
        step = self.flow.add(Step("input", (), shape, port.element, (), data=(port.name,)))
        view = self.whole(step)  # of integers each element counts, as it may be a place
        self.values[port.name] = view if port.element.startswith(("f", "bf")) else self.as_places(view)
        return step

    def value(self, name: str) -> Value:
        if name not in self.values:
            if name not in self.graph.constants:
                raise Refused(f"`{name}` is made by no node")
            self.values[name] = self._of_constant(self.graph.constants[name])
        return self.values[name]

    def _of_constant(self, constant: Constant) -> Value:
        shape = tuple(Dim.of(extent) for extent in constant.shape)
        if constant.count == 1 or constant.element in ("i32", "bool"):
            folded = self._plain(constant, shape)
            if folded is not None:
                return folded
        path = self.path_of(constant.name)
        step = self.weight(path, constant)
        view = views.of(step, self.flow.shape(step))
        axes, kept = [], list(view.axes)
        for extent in constant.shape:
            axes.append(kept.pop(0) if extent != 1 else ())
        return replace(view, axes=tuple(axes))

    def _plain(self, constant: Constant, shape: Shape) -> Places | None:
        """Numbers that need no file: one for all places, the place itself, or a few."""
        import numpy as np

        array = constant.read()
        if constant.count == 0:
            return None
        if (array == array.flat[0]).all():
            return self.places(shape, lambda _: _scalar(array.flat[0]), constant.element)
        long = [i for i, extent in enumerate(constant.shape) if extent > 1]
        if len(long) == 1:
            steps = np.diff(array.ravel().astype(np.int64))
            if (steps == steps[0]).all():
                first, step = int(array.flat[0]), int(steps[0])
                return self.places(shape, lambda axes: whole(Dim.of(axes[long[0]]) * step + first), constant.element)
            if constant.count <= LISTED:
                return self.listed(shape, [_scalar(item) for item in array.ravel()], constant.element)
        return None

    # ── weights ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def constant(self, name: str) -> Constant | None:
        return self.graph.constants.get(name)

    def path_of(self, name: str) -> Path:
        """The module's path and name of a weight, from its own name, or where it has none from the node that reads it."""
        name = name.removesuffix(TRANSPOSED).partition(PART)[0]
        if not _ANONYMOUS.match(name):
            return tuple(part for part in re.split(r"[./]", name) if part)
        beside = next((n for n in self.node.inputs if n.endswith(("bias", "_bias")) and n in self.graph.constants), None)
        if beside is not None:
            *module, last = beside.split(".")
            last = last[: -len("bias")] + "weight"
            if tuple(module[: len(self.node.scope)]) == self.node.scope:
                return (*module, last)
            if last != "weight":  # exporters keep equal tensors once, so that the bias may be another module's
                return (*self.node.scope, last)
        if not self.node.scope:
            return (re.sub(r"\W+", "_", name),)
        inside = ("linear",) if self.node.scope in self.holding else ()
        return (*self.node.scope, *inside, "weight")

    def layer(self, path: Path, fields: Mapping[str, tuple[str, str]]) -> Path:
        """The record of a layer: its fields, each made of a constant by a change; `a.b` is a field of a record inside. Registered
        once, however often it is used."""
        key = (path, *fields.values())
        if key not in self.paths:
            path = self._free(path)
            for field, (source, change) in fields.items():
                constant = self.graph.constants[source]
                shape = changed_shape(change, constant.shape)
                self.weights[(*path, *field.split(".")) if field else path] = Weight(source, change, shape, constant.element)
            self.paths[key] = path
        return self.paths[key]

    def _free(self, path: Path) -> Path:
        """A path that is no weight's, nor leads to one, nor through one or a layer."""
        layers = [other for other in self.paths.values() if len(path) > len(other)]  # which have fields of their own
        for other in (*self.weights, *layers):
            shared = min(len(path), len(other))
            if path[:shared] == other[:shared]:
                stem, _, number = path[shared - 1].rpartition("_")
                last = f"{stem}_{int(number) + 1}" if stem and number.isdigit() else f"{path[shared - 1]}_2"
                return self._free((*path[: shared - 1], last, *path[shared:]))
        return path

    def weight(self, path: Path, constant: Constant, change: str = "squeeze") -> int:
        """A weight as a tensor of its own."""
        path = self.layer(owner(path), {"": (constant.name, change)})
        for number, step in enumerate(self.flow.steps):
            if step.op == "weight" and step.layer == path:
                return number
        weight = self.weights[path]
        shape = tuple(Dim.of(d) for d in weight.shape)
        return self.flow.add(Step("weight", (), shape, weight.element, path[:-1], layer=path))

    # ── places ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def places(self, shape: Sequence[Dim], value: Callable[[Sequence[Symbol]], Scalar], element: str) -> Places:
        axes = tuple(fresh(f"i{n}") for n in range(len(shape)))
        self.bounds.update(zip(axes, shape, strict=True))
        return Places(axes, tuple(shape), value(axes), element)

    def listed(self, shape: Sequence[Dim], items: Sequence[Scalar], element: str) -> Places:
        """A tensor of one long axis at most, by its elements."""
        long = [i for i, extent in enumerate(shape) if extent != ONE]

        def value(axes: Sequence[Symbol]) -> Scalar:
            chosen = items[-1]
            for number in reversed(range(len(items) - 1)):
                at = self.compute("=", whole(axes[long[0]]), whole(number))
                chosen = self.compute("if", at, items[number], chosen)
            return chosen

        return self.places(shape, value, element)

    def compute(self, op: str, *arguments: Scalar) -> Scalar:
        return compute(op, arguments, self.bounds)

    def at(self, places: Places, where: Sequence[Scalar]) -> Scalar:
        """The element at a place."""
        return substituted(places.value, dict(zip(places.axes, where, strict=True)), self.bounds)

    def as_places(self, value: Value) -> Places:
        """Any value by what stands at its places."""
        if isinstance(value, Places):
            return value
        if any(len(axis) > 1 for axis in value.axes) and not value.stretched and all(value.axes):
            value = self.whole(self.result(value))
        elif value.stretched and any(len(r) > 1 for r in value.reads):
            read = {d for r in value.reads for d in r}
            parts = tuple((d,) for axis in value.axes for d in axis if d in read)
            value = replace(value, step=self.result(replace(value, axes=parts, scale=1.0)), reads=parts)
        step = self.flow.steps[value.step]

        def element(axes: Sequence[Symbol]) -> Scalar:
            images: dict[Digit, Dim] = {}
            for axis, symbol in zip(value.axes, axes, strict=True):
                rest = Dim.of(symbol)
                for d in reversed(axis):
                    images[d] = rest if d is axis[0] else rest % d.extent
                    rest = rest if d is axis[0] else rest // d.extent
            place = []
            for digits in value.reads:
                total = Dim.of(0)
                for part in digits:
                    total = total * part.extent + (images[part] if isinstance(part, Digit) else part.place)
                place.append(Whole(total))
            read = self._read(value.step, place)
            return read if value.scale == 1.0 else Compute("*", (Number(value.scale), read))

        return self.places(value.shape, element, step.element)

    def _read(self, number: int, place: Sequence[Scalar]) -> Scalar:
        """An element of a step; of one that only says what stands where of the inputs, that."""
        step = self.flow.steps[number]
        if step.op != "places" or any(self.flow.steps[o].op != "input" for o in step.operands):
            return Read(number, tuple(place))
        (value,) = step.data
        bounds = dict(zip(CANONICAL, step.shape, strict=False)) | self.bounds
        whole_ = substituted(value, dict(zip(CANONICAL, place, strict=False)), bounds)  # type: ignore[arg-type]
        return renamed(whole_, dict(enumerate(step.operands)))

    def contents(self, value: Value | None, what: str) -> list[Scalar]:
        """All elements of a small tensor."""
        if value is None:
            raise Refused(f"{what} is missing")
        places = self.as_places(value)
        extents = [d.constant for d in places.shape]
        total = 1
        for extent in extents:
            if extent is None or total * extent > LISTED:
                raise Refused(f"how many numbers {what} has depends on sizes or data")
            total *= extent
        found: list[Scalar] = []
        for number in range(total):
            where = list[Scalar]()
            for extent in reversed([e or 1 for e in extents]):
                where.insert(0, whole(number % extent))
                number //= extent
            found.append(self.at(places, where))
        return found

    def dims(self, value: Value | None, what: str) -> list[Dim]:
        """The elements of a small tensor of sizes."""
        found = self.contents(value, what)
        if any(not isinstance(item, Whole) for item in found):
            raise Refused(f"{what} depends on data, and a size of a tensor may not")
        return [item.dim for item in found if isinstance(item, Whole)]

    def integers(self, value: Value | None, what: str) -> list[int]:
        found = [dim.constant for dim in self.dims(value, what)]
        if any(item is None for item in found):
            raise Refused(f"{what} depends on sizes, and must be a number")
        return [item for item in found if item is not None]

    def number(self, value: Value | None) -> float | None:
        """The one number that a tensor holds, wherever it is looked at."""
        if isinstance(value, Places):
            if isinstance(value.value, Number):
                return value.value.value
            if isinstance(value.value, Whole) and value.value.dim.constant is not None:
                return value.value.dim.constant
        return None

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(
        self,
        op: str,
        operands: Sequence[int],
        shape: Sequence[Dim],
        *,
        element: str = "",
        data: Sequence[Hashable] = (),
        sizes: Sequence[Dim | int] = (),
        layer: Path | None = None,
    ) -> View:
        """A step for the node that is looked at, whole."""
        home = self.node.scope if layer is None else layer[:-1]
        element = element or self.flow.steps[operands[0]].element
        given = tuple(Dim.of(s) for s in sizes)
        step = Step(op, tuple(operands), tuple(shape), element, home, tuple(data), given, layer, self.node.name)
        return self.whole(self.flow.add(step))

    def whole(self, step: int) -> View:
        return views.of(step, self.flow.shape(step))

    def view(self, value: Value | None) -> View:
        if value is None:
            raise Refused("an input is missing")
        return self._write(value) if isinstance(value, Places) else value

    def result(self, value: Value) -> int:
        """The step that gives exactly a value."""
        view = self.view(value)
        scale, view = view.scale, replace(view, scale=1.0)
        alone = self.flow.steps[view.step].op in ("places", "weight")  # nothing of a module: it is moved once for all
        key = (view.step, _form(view), () if alone else self.node.scope)
        if key not in self.written:
            self.written[key] = self._rearranged(view)
        step = self.written[key]
        if scale != 1.0:
            step = self.add("scale", [step], self.flow.shape(step), data=[scale]).step
        return step

    def _rearranged(self, view: View) -> int:
        """A view as a step: parts that are fixed are sliced, then axes are moved, split and merged."""
        view = self.cut(view)
        if view.whole:
            return view.step
        if view.stretched or not all(view.axes):
            return self._write(self.as_places(view), full=True).step
        split = {d for r in view.reads for d in r[:-1]}
        if any(len(axis) > 1 and split & {*axis} for axis in view.axes):  # an index of a product has no bound of its own
            apart = tuple((d,) for axis in view.axes for d in axis)
            return self._rearranged(View(self._rearranged(replace(view, axes=apart)), apart, view.axes))
        numbers: dict[Digit, int] = {}
        for axis in view.axes:
            for d in axis:
                numbers[d] = len(numbers)
        read = tuple(tuple(numbers[d] for d in r if isinstance(d, Digit)) for r in view.reads)
        axes = tuple(tuple(numbers[d] for d in axis) for axis in view.axes)
        extents = [d.extent for r in view.reads for d in r[:-1]]  # what is split needs the sizes of all its parts but one
        return self.add("rearrange", [view.step], view.shape, data=[read, axes], sizes=extents).step

    def cut(self, view: View) -> View:
        """Fixed digits as slices of what is read."""
        if not view.fixed:
            return view
        shape = self.flow.shape(view.step)
        bounds: list[tuple[Dim, Dim | None, Dim] | None] = []
        reads_: list[tuple[Digit | Fixed, ...]] = []
        for digits, extent in zip(view.reads, shape, strict=True):
            fixed = [d for d in digits if isinstance(d, Fixed)]
            if not fixed:
                bounds.append(None)
                reads_.append(digits)
                continue
            if not views.leading(digits):
                raise Refused("it takes elements with steps between them, which is not translated")
            rest = views.product(digits[len(fixed) :])
            start = Dim.of(0)
            for d in fixed:
                start = start * d.extent + d.place
            if len(fixed) == len(digits):
                bounds.append((start, None, extent))
            else:
                bounds.append((start * rest, start * rest + rest, extent))
                reads_.append(digits[len(fixed) :])
        step = self.add("slice", [view.step], [views.product(r) for r in reads_], data=[tuple(bounds)])
        return replace(view, step=step.step, reads=tuple(reads_))

    def _write(self, places: Places, *, full: bool = False) -> View:
        """A tensor that is written out place by place, unless `full` over no more axes than its elements differ along."""
        used = variables(places.value)
        kept = [i for i, axis in enumerate(places.axes) if full or axis in used]
        names = {places.axes[i]: whole(CANONICAL[n]) for n, i in enumerate(kept)}
        operands = reads(places.value)
        shape = [places.shape[i] for i in kept]
        bounds = dict(zip(CANONICAL, shape, strict=False))
        value = renamed(substituted(places.value, names, bounds), {step: n for n, step in enumerate(operands)})
        # A mask that is made of the inputs alone is made once, where they are, and not in the layer that asks first.
        home = () if operands and all(self.flow.steps[s].op in ("input", "places") for s in operands) else self.node.scope
        key = ("places", value, tuple(shape), operands, places.element, home)
        if key not in self.written:
            self.written[key] = self.flow.add(
                Step("places", operands, tuple(shape), places.element, home, data=(value,), source=self.node.name)
            )
        view = self.whole(self.written[key])
        axes = [view.axes[kept.index(i)] if i in kept else () for i in range(len(places.axes))]
        return views.expanded(replace(view, axes=tuple(axes)), places.shape)

    def last(self, value: Value | None, count: int = 1) -> View:
        """A value as a view whose last axes are the last ones of its step, so that what works along them can be done before."""
        view = self.view(value)
        if view.scale != 1.0:
            view = self.whole(self.result(view))
        tail = view.axes[len(view.axes) - count :]
        if view.reads[-count:] == tail and all(len(t) == 1 for t in tail) and not view.fixed and not view.stretched:
            return view
        if view.stretched:
            return self.whole(self.result(view))
        order = {d: n for n, d in enumerate(d for r in view.reads for d in r)}
        leading = sorted((d for axis in view.axes[: len(view.axes) - count] for d in axis), key=lambda d: order[d])
        step = self.result(replace(view, axes=(*((d,) for d in leading), *tail)))
        fresh_tail = tuple((views.digit(views.product(t)),) for t in tail)
        return View(step, (*((d,) for d in leading), *fresh_tail), (*view.axes[: len(view.axes) - count], *fresh_tail))

    def along_last(self, view: View, op: str, operands: Sequence[int] = (), *, width: Dim | None = None, **more: Any) -> View:
        """A step along the last axis of what a view reads; `width` is how long that becomes."""
        shape = self.flow.shape(view.step)
        made = self.add(op, [view.step, *operands], shape if width is None else (*shape[:-1], width), **more)
        if width is None:
            return replace(view, step=made.step)
        tail = ((views.digit(width),),)
        return View(made.step, view.reads[:-1] + tail, view.axes[:-1] + tail)


def owner(path: Path) -> Path:
    """The record of a weight: `query.weight` belongs to `query`, `in_proj_weight` to `in_proj`."""
    *rest, last = path
    if last in ("weight", "kernel") and rest:
        return tuple(rest)
    return (*rest, last.removesuffix("_weight")) if last != "_weight" else tuple(rest)


def _scalar(item: Any) -> Scalar:
    import numpy as np

    if isinstance(item, np.bool_):
        return Number(bool(item))
    if isinstance(item, np.integer):
        return whole(max(-FAR, min(int(item), FAR)))
    return Number(float(item))


def _form(view: View) -> Hashable:
    """A view but for the identity of its digits."""
    numbers: dict[Digit, int] = {}

    def form(d: Digit | Fixed) -> Hashable:
        return (numbers.setdefault(d, len(numbers)), d.extent) if isinstance(d, Digit) else d

    return tuple(tuple(map(form, r)) for r in view.reads), tuple(tuple(map(form, a)) for a in view.axes)


def changed_shape(change: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what a change gives."""
    name = change.partition(" ")[0]  # after which stands a direction
    gates = 4 if name.startswith("lstm") else 3
    match name:
        case "same":
            return shape
        case "transpose":
            return shape[::-1]
        case "squeeze":
            return tuple(extent for extent in shape if extent != 1)
        case "flat":
            return (prod(shape),)
        case "lstm_input" | "gru_input":
            return (shape[2], gates, shape[1] // gates)
        case "lstm_zeros" | "gru_zeros":
            return (gates, shape[1] // gates)
        case "lstm_b" | "gru_b" | "gru_c":
            return (gates, shape[1] // gates // 2)
        case _:
            raise AssertionError(change)
