"""A plan as C that runs it: kernels in order, memory for what they make, loops around them.

It is the walk of `plan.walk` and `cpu.run` written out. Every size is computed where it is needed, so one text serves all of them.
A loop is stepped here, since coming back between kernels costs nothing in C.

Note [Values]
    A `value` is memory and a count of who uses it; what a kernel has made never changes. So a loop's states are passed on without
    copies, and results that are an argument, a state or one another are copied once, at the end (`deliver`). What a kernel makes
    that is a result is made in the result's own memory, if it lies there as kernels write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import assert_never

from axon.backend.c.diagnosis import ROW, Diagnosis, NestFunctions
from axon.backend.c.failures import failures, found, place, worded
from axon.backend.c.identifiers import Identifiers
from axon.backend.c.sizes import quoted, rough, size, wide
from axon.backend.c.types import C_TYPES, Interface, Slot, item
from axon.backend.cpu.function import BufferParameter, Function, LanesParameter, WorkAmount
from axon.backend.kernel.parameters import ExtentParameter, PointerParameter
from axon.backend.plan.deaths import lives_of
from axon.backend.plan.ir import (
    Contraction,
    Factor,
    Kernel,
    Kernels,
    Nest,
    Plan,
    Repeat,
    Whole,
    as_program,
    operations,
    title,
    values_in,
)
from axon.base.data import dataclass
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.core.ir import Check, Compress, Sort, Value
from axon.core.printer import print_op
from axon.core.scalar_facts import divides
from axon.core.walk import trip_of
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation

_RELATIONS = {"=": "==", "<>": "!="}
_NO_MEMORY = 'ax_fail(AXON_MEMORY, "there is not enough memory")'
_DIVIDED = 'ax_fail(AXON_ARITHMETIC, "error[AX0503]: division of a dimension by zero")'


@dataclass(frozen=True, slots=True)
class Written:
    """The parts of a program's C: functions that call kernels, and the body of `run`; which parts of the runtime it needs."""

    kernels: tuple[str, ...]
    body: tuple[str, ...]
    products: frozenset[str]  # element types
    sorts: bool


class Calls:
    """Writes how a plan runs. `functions` are those of its nests; `dims` are the fields of
    `sizes`, `names` those of C that are taken."""

    def __init__(
        self,
        plan: Plan,
        interface: Interface,
        functions: IdentityMap[Nest, NestFunctions],
        dims: Mapping[Symbol, str],
        tables: Mapping[Symbol, str],
        names: Identifiers,
    ) -> None:
        self.plan, self.interface, self.functions, self.dims = plan, interface, functions, dims
        self.tables, self.names = tables, names
        self.program = as_program(plan)
        self.values = values_in(plan)
        self.paths = {slot.value.symbol: slot.path for slot in interface.inputs}
        self.held: dict[Symbol, str] = {}
        self.lines: list[str] = []
        self.depth = 0
        self.kernels: list[str] = []
        self.products: set[str] = set()
        self.sorts = False
        self.direct: dict[Symbol, Slot] = {}
        self.noted: dict[Symbol, str] = {}  # what is no value: where a diagnosis notes what it meets

    # ── text ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def say(self, *lines: str) -> None:
        self.lines += [f"{'    ' * self.depth}{line}" if line else "" for line in lines]

    @contextmanager
    def braces(self, head: str = "") -> Iterator[None]:
        self.say(f"{head} {{".lstrip())
        self.depth += 1
        yield
        self.depth -= 1
        self.say("}")

    def size(self, dim: Dim) -> str:
        return size(dim, lambda symbol: f"sizes->{self.dims[symbol]}")

    def extent(self, dim: Dim) -> str:
        """A size that a tensor has, which is not negative."""
        return self.size(dim) if dim.constant is not None or dim.symbol is not None else f"ax_size_max(0, {self.size(dim)})"

    def wide(self, dim: Dim) -> str:
        return wide(dim, lambda symbol: f"(ax_wide)sizes->{self.dims[symbol]}")

    def divided(self, dims: Iterable[Dim]) -> None:
        """End where one of the sizes just computed divides by 0."""
        if any(map(divides, dims)):
            self.say("if (odd) {", f"    status = {_DIVIDED};", "    goto end;", "}")

    def must(self, call: str) -> None:
        self.say(f"AX_MUST({call});")

    def name(self, symbol: Symbol) -> str:
        if symbol not in self.held:
            self.held[symbol] = self.names.new(symbol.name)
        return self.held[symbol]

    def bytes(self, value: Value) -> str:
        if not value.shape:
            return str(item(value.element))
        extents = ", ".join(map(self.extent, value.shape))
        return f"ax_bytes_of({item(value.element)}, (const int64_t[]){{{extents}}}, {len(value.shape)})"

    # ── the whole ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, sized: Sequence[bool]) -> Written:
        """`sized` says of each result whether its shape is known before anything is computed."""
        body = self.plan.body
        written = {v.symbol for k in body.kernels if isinstance(k, Nest | Contraction) for v in _made(k)}
        for slot, known, symbol in zip(self.interface.results, sized, body.results, strict=True):
            if symbol in written and known and slot.value.shape:
                self.direct.setdefault(symbol, slot)
        self.inputs()
        self.block(body)
        self.results(sized)
        lines, self.lines = self.lines, []
        held = list(self.held.values())
        self.say("int status = AXON_OK, odd = 0;", "(void)odd;", *(f"ax_value {name} = {{NULL, NULL}};" for name in held))
        head, self.lines = self.lines, []
        self.say("end:", *(f"ax_release(&{name});" for name in held), "return status;")
        return Written(tuple(self.kernels), (*head, *lines, *self.lines), frozenset(self.products), self.sorts)

    def inputs(self) -> None:
        for slot in self.interface.inputs:
            own, value = self.name(slot.value.symbol), slot.value
            if not value.shape:
                self.say(f"{own}.data = (void *)&{slot.place};")
                continue
            self.must(f"ax_given(&{own}, {_tensor(slot)}, {len(value.shape)}, {item(value.element)}, {quoted(slot.path)})")
        for symbol, table in self.tables.items():
            self.say(f"{self.name(symbol)}.data = (void *){table};")

    def results(self, sized: Sequence[bool]) -> None:
        slots = list(zip(self.interface.results, self.plan.body.results, sized, strict=True))
        for slot, symbol, known in slots:
            if slot.value.shape:
                rank = len(slot.value.shape)
                if not known:
                    for d, dim in enumerate(slot.value.shape):
                        self.say(f"{slot.at(f'sizes[{d}]')} = {self.extent(dim)};")
                    self.say(f"ax_row_strides({slot.at('strides')}, {slot.at('sizes')}, {rank});")
                self.must(f"ax_deliver({self.name(symbol)}, (void **)&{_tensor(slot)}, {rank}, {item(slot.value.element)}, into)")
        for slot, symbol, _ in slots:
            if not slot.value.shape:
                self.say(f"{slot.place} = *(const {C_TYPES[slot.value.element]} *){self.name(symbol)}.data;")

    def block(self, kernels: Kernels) -> tuple[Symbol, ...]:
        """Kernels in order; what is made of the results, which the caller releases."""
        lives = lives_of(kernels)
        for kernel, dying in zip(lives.items, lives.dying, strict=True):
            self.kernel(kernel)
            self.say(*(f"ax_release(&{self.name(symbol)});" for symbol in sorted(dying, key=lambda s: s.id)))
        return lives.made

    def kernel(self, kernel: Kernel) -> None:
        match kernel:
            case Nest():
                self.nest(kernel)
            case Contraction():
                self.contraction(kernel)
            case Repeat():
                self.repeat(kernel)
            case Whole(op=op):
                self.say("", f"/* {title(kernel)} */")
                match op:
                    case Sort():
                        self.sort(op)
                    case Compress():
                        self.compress(op)
                    case Check():
                        self.check(op)
                    case _:
                        assert_never(op)
            case _:
                assert_never(kernel)

    def comment(self, kernel: Nest | Contraction) -> None:
        lines = [line for op in operations(kernel) for line in print_op(self.program, op).splitlines()]
        shown = [line.replace("*/", "* /").replace("/*", "/ *") for line in (title(kernel), *lines)]
        self.say("", f"/* {shown[0]}", *(f"     {line}" for line in shown[1:]))
        self.lines[-1] += " */"

    def room(self, value: Value) -> None:
        own, slot = self.name(value.symbol), self.direct.get(value.symbol)
        if slot is None:
            self.must(f"ax_make(&{own}, {self.bytes(value)})")
        else:
            number = self.interface.results.index(slot)
            self.must(
                f"ax_room_for_result(&{own}, (void **)&{slot.at('data')}, {self.bytes(value)}, into, into && direct[{number}])"
            )
        self.divided(value.shape)

    # ── kernels ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def nest(self, nest: Nest) -> None:
        own = self.functions[nest]
        self.comment(nest)
        for value in _made(nest):
            self.room(value)
        with self.braces():
            self.launch(own.function, own.symbol, self.work(own.function.cost))
            with self.braces("if (stopped < 0)"):
                self.say(f"status = {_NO_MEMORY};", "goto end;")
            if own.diagnosis is not None:
                with self.braces("if (stopped > 0)"):
                    self.diagnose(own.diagnosis, failures(nest, self.said))
            elif possible := failures(nest, self.said):
                code, text = worded(possible)
                with self.braces("if (stopped > 0)"):
                    self.say(f'status = ax_fail({code}, "%s", {quoted(text)});', "goto end;")

    def launch(self, function: Function, symbol: str, cost: str) -> None:
        """Call a function on all of its items: `stopped` says how that ended."""
        tensors, numbers, dims, each = self.arguments(function, symbol)
        self.say(f"const double cost = {cost};", f"int64_t items = {self.size(function.rows)}, lanes = 0;", "(void)lanes;")
        if function.lane is not None:
            points = self.work(function.points)
            self.say(f"ax_cut(&items, &lanes, {self.size(function.lane)}, {function.most}, cost, {points});")
        each_bytes = "0"
        for own, bytes in each:
            self.say(f"const int64_t {own} = {each_bytes};")
            each_bytes = f"{own} + ax_in_lines({bytes})"
        self.say(f"void *const tensors[] = {{{', '.join(tensors) or 'NULL'}}};")
        self.say(f"const int64_t numbers[] = {{{', '.join(numbers) or '0'}}};")
        self.divided([*dims, function.rows, *([function.lane] if function.lane is not None else [])])
        self.say(f"const int stopped = ax_launch(ax_call_{symbol}, tensors, numbers, items, cost, {each_bytes});")

    def diagnose(self, why: Diagnosis, possible: list[tuple[str, str]]) -> None:
        """Run a kernel's second function, and say what it has met first."""
        self.noted[why.notes.symbol] = "notes"
        self.say(f"int64_t notes[{ROW * len(why.failures)}] = {{0}};")
        with self.braces("static const ax_failure failures[] ="):
            for failure in why.failures:
                code, text = found(failure, possible, self.said)
                self.say(f"{{{code}, {quoted(text)}}},")
        self.lines[-1] += ";"
        with self.braces():
            self.launch(why.function, why.function.name, "0.0")
            self.say("(void)stopped;")
        self.say(f"status = ax_diagnosed(notes, failures, {len(why.failures)});", "goto end;")

    def said(self, symbol: Symbol) -> str:
        return self.paths.get(symbol, symbol.name)

    def work(self, amount: WorkAmount) -> str:
        def text(dim: Dim) -> str:
            return rough(dim, lambda symbol: f"sizes->{self.dims[symbol]}")

        products = (" * ".join(f"({text(dim)})" for dim in factors) for factors in amount.products)
        return " + ".join([text(amount.whole), *products])

    def arguments(self, function: Function, symbol: str) -> tuple[list[str], list[str], list[Dim], list[tuple[str, str]]]:
        """What a kernel is given, and the function of C that passes it on: tensors, numbers, and buffers with their bytes."""
        tensors: list[str] = []
        numbers: list[str] = []
        dims: list[Dim] = []
        each: list[tuple[str, str]] = []
        types, passed = ["int64_t *", "void **"], ["&answer", "&error"]
        for parameter in function.parameters:
            match parameter:
                case PointerParameter(tensor=tensor):
                    passed.append(f"own->tensors[{len(tensors)}]")
                    types.append("void *")
                    tensors.append(self.noted.get(tensor) or f"{self.name(tensor)}.data")
                case BufferParameter(element=element, size=elements):
                    passed.append(f"memory + own->numbers[{len(numbers)}]")
                    types.append("void *")
                    each.append((f"buffer_{len(each)}", f"({self.size(elements)}) * {item(element)}"))
                    numbers.append(each[-1][0])
                    dims.append(elements)
                case ExtentParameter(size=dim):
                    passed.append(f"own->numbers[{len(numbers)}]")
                    types.append("int64_t")
                    numbers.append(self.size(dim))
                    dims.append(dim)
                case LanesParameter():
                    passed.append(f"own->numbers[{len(numbers)}]")
                    types.append("int64_t")
                    numbers.append("lanes")
                case _:
                    assert_never(parameter)
        self.kernels.append(
            f"int32_t {symbol}({', '.join([*types, 'int64_t', 'int64_t'])});\n\n"
            f"static int ax_call_{symbol}(const void *context, int thread, int64_t first, int64_t last)\n{{\n"
            "    const ax_arguments *own = context;\n"
            "    int64_t answer = 0;\n    void *error = NULL;\n"
            + ("    char *memory = own->memory + thread * own->each;\n" if each else "    (void)thread;\n    (void)own;\n")
            + f"    return {symbol}({', '.join([*passed, 'first', 'last'])}) != 0 || answer != 0;\n}}"
        )
        return tensors, numbers, dims, each

    def contraction(self, kernel: Contraction) -> None:
        self.comment(kernel)
        (out,) = kernel.op.outs
        self.room(out)
        axes = (*kernel.batch, *kernel.rows, *kernel.columns, *kernel.depth)
        element = out.element.value
        self.products.add(element)
        with self.braces():
            self.say(f"const int64_t extents[] = {{{', '.join(self.size(axis.extent) for axis in axes)}}};")
            starts = []
            for like, factor in (("left", kernel.left), ("right", kernel.right)):
                starts.append(self.steps(like, factor, [axis.symbol for axis in axes]))
            own = {axis.symbol: Dim.of(axis.symbol) for axis in kernel.op.axes}
            self.steps("out", list(own.values()), [axis.symbol for axis in axes], out)
            conditions = [f"{self.size(dim)} <= 0" for dim in (*(axis.extent for axis in kernel.depth), *kernel.given)]
            self.divided([*(axis.extent for axis in axes), *kernel.given])
            with self.braces(f"if ({' || '.join(conditions)})"):
                self.say(f"memset({self.name(out.symbol)}.data, 0, (size_t){self.bytes(out)});")
            self.lines[-1] += " else {"
            self.depth += 1
            memory = [
                f"(const {C_TYPES[out.element]} *){self.name(factor.read.tensor)}.data + {start}"
                for factor, start in zip((kernel.left, kernel.right), starts, strict=True)
            ]
            counts = ", ".join(str(len(kind)) for kind in (kernel.batch, kernel.rows, kernel.columns, kernel.depth))
            self.say(
                "const ax_product own = {",
                f"    .left = {memory[0]}, .right = {memory[1]}, .out = {self.name(out.symbol)}.data, .axes = {{{counts}}},",
                "    .sizes = extents, .left_steps = left, .right_steps = right, .out_steps = out_steps,",
                "};",
                f"const int stopped = ax_multiply_{element}(own);",
            )
            with self.braces("if (stopped != 0)"):
                self.say(f"status = {_NO_MEMORY};", "goto end;")
            self.depth -= 1
            self.say("}")

    def steps(self, like: str, what: Factor | list[Dim], axes: Sequence[Symbol], of: Value | None = None) -> str:
        """The steps of a tensor along axes, in elements, and where its first element is."""
        if isinstance(what, Factor):
            tensor = self.values[what.read.tensor]
            subscripts = [dim for dim in what.read.subscripts if isinstance(dim, Dim)]
        else:
            assert of is not None
            tensor, subscripts = of, what
        strides = ["1"]
        for dim in reversed(tensor.shape[1:]):
            strides.insert(0, f"{like}_{len(tensor.shape) - len(strides) - 1}")
            self.say(f"const int64_t {strides[0]} = {strides[1]} * {self.extent(dim)};")
        steps: dict[Symbol, list[str]] = {axis: [] for axis in axes}
        start: list[str] = []
        for subscript, stride in zip(subscripts, strides, strict=False):
            for axis in axes:
                split = subscript.linear_in(axis) if axis in subscript.variables else None
                if split is not None:
                    coefficient, subscript = split
                    steps[axis].append(stride if coefficient.constant == 1 else f"({self.size(coefficient)}) * {stride}")
            if subscript.mapping:
                start.append(f"({self.size(subscript)}) * {stride}")
        name = "out_steps" if like == "out" else like
        self.say(f"const int64_t {name}[] = {{{', '.join(' + '.join(parts) or '0' for parts in steps.values())}}};")
        return " + ".join(start) or "0"

    # ── what is not a kernel ────────────────────────────────────────────────────────────────────────────────────────────

    def sort(self, op: Sort) -> None:
        self.sorts = True
        self.room(op.values)
        self.room(op.indices)
        *lead, last = map(self.extent, op.values.shape)
        own = [f"{self.name(symbol)}.data" for symbol in (op.input, op.values.symbol, op.indices.symbol)]
        element = op.values.element
        rows = " * ".join(lead) or "1"
        self.say(f"if (ax_sort({', '.join(own)}, {rows}, {last}, {item(element)}, ax_key_{element.value}) != 0) {{")
        self.say(f"    status = {_NO_MEMORY};", "    goto end;", "}")

    def compress(self, op: Compress) -> None:
        (extent,) = self.values[op.mask].shape
        own, dim = self.name(op.out.symbol), f"sizes->{self.dims[op.size]}"
        with self.braces():
            self.say(
                f"const bool *mask = {self.name(op.mask)}.data;", f"const int64_t length = {self.extent(extent)};", f"{dim} = 0;"
            )
            self.say("for (int64_t i = 0; i < length; i++) {", f"    {dim} += mask[i];", "}")
            self.room(op.out)
            self.say(f"int32_t *places = {own}.data;", "for (int64_t i = 0; i < length; i++) {", "    if (mask[i]) {")
            self.say("        *places++ = (int32_t)i;", "    }", "}")

    def check(self, op: Check) -> None:
        def holds(relation: Relation) -> str:
            return f"{self.wide(relation.left)} {_RELATIONS.get(relation.op, relation.op)} {self.wide(relation.right)}"

        asked = Relation(op.left, op.relation, op.right)
        conditions = " && ".join([*(f"({holds(relation)})" for relation in op.given), f"!({holds(asked)})"])
        self.say(f"if ({conditions}) {{")
        sides = [f"(long long)({self.wide(dim)})" for dim in (op.left, op.right)]
        text = f"error[AX0501]: {op.message}: %lld {op.relation} %lld does not hold{place(op.span)}".replace("%", "%%")
        text = quoted(text.replace("%%lld", "%lld"))
        self.say(f"    status = ax_fail(AXON_SIZES, {text}, {', '.join(sides)});", "    goto end;", "}")
        self.divided([d for r in (asked, *op.given) for d in (r.left, r.right)])

    def repeat(self, kernel: Repeat) -> None:
        op = kernel.op
        self.say("", f"/* {title(kernel)} */")
        states, counter = [self.name(state.symbol) for state in op.states], self.name(op.counter)
        with self.braces():
            trip = trip_of(op)
            if isinstance(trip, Dim):
                self.say(f"const int64_t steps = (int32_t)({self.size(trip)});")
                self.divided([trip])
            else:
                self.say(f"const int64_t steps = *(const int32_t *){self.name(trip)}.data;")
            for state, first in zip(states, op.initial, strict=True):
                self.say(f"ax_share_value(&{state}, {self.name(first)});")
            if op.stacked:
                for out in op.outs:
                    self.room(out)
            self.say("int32_t step_number = 0;", f"{counter}.data = &step_number;")
            with self.braces("for (int64_t step = 0; step < steps; step++)"):
                if op.conditional:
                    self.say(f"if (!*(const bool *){states[-1]}.data) {{", "    break;", "}")
                self.say("step_number = (int32_t)step;", f"sizes->{self.dims[op.counter]} = step;")
                made = self.block(kernel.body)
                results = [self.name(symbol) for symbol in kernel.body.results]
                if op.stacked:
                    for out, each, result in zip(op.outs, op.states, results, strict=False):
                        with self.braces():
                            self.say(f"const int64_t bytes = {self.bytes(each)};")
                            self.say(f"memcpy((char *){self.name(out.symbol)}.data + step * bytes, {result}.data, (size_t)bytes);")
                self.say(f"ax_value next[{len(states)}] = {{{', '.join(['{NULL, NULL}'] * len(states))}}};")
                self.say(*(f"ax_share_value(&next[{n}], {result});" for n, result in enumerate(results)))
                for n, state in enumerate(states):
                    self.say(f"ax_release(&{state});", f"{state} = next[{n}];")
                self.say(*(f"ax_release(&{self.name(symbol)});" for symbol in made))
            self.say(f"{counter}.data = NULL;")
            if not op.stacked:
                for out, state in zip(op.outs, states, strict=True):
                    self.say(f"ax_share_value(&{self.name(out.symbol)}, {state});")
            self.say(*(f"ax_release(&{state});" for state in states))


def _tensor(slot: Slot) -> str:
    return ", ".join(slot.at(member) for member in ("data", "sizes", "strides"))


def _made(kernel: Nest | Contraction) -> tuple[Value, ...]:
    """What a kernel stores, in order."""
    steps = kernel.steps if isinstance(kernel, Nest) else (kernel.op, *kernel.epilogue)
    return tuple(out for step in steps for out in step.outs if out.symbol in kernel.stored)
