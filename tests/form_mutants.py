"""Ways to break forms: what a defective pass could make of a program, a plan, or kernels. Each keeps what is around as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.plan.ir import Contraction, Kernel, Kernels, Nest, Plan, Repeat, reads_of, writes_of
from axon.base.element import Element
from axon.base.names import fresh
from axon.core.ir import Binary, Bind, Block, Compute, Index, Local, Loop, Op, Program, Read, Scalar, Scan, Value
from axon.core.walk import nodes, outs_of, rewrite, tensors_of
from axon.shapes.dimension import Dim

Mutant = tuple[str, Any]  # what was done, and what came of it


def other(element: Element) -> Element:
    return Element.I8 if element is not Element.I8 else Element.F64


# ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def first(op: Compute | Scan, wanted: Callable[[Scalar], bool], change: Callable[[Any], Scalar]) -> Compute | Scan | None:
    """The operation with the first such node of its bodies changed."""
    found = next((n for body in op.body for n in nodes(body) if wanted(n)), None)
    if found is None:
        return None
    return replace(op, body=tuple(rewrite(body, lambda n: change(n) if n is found else None) for body in op.body))


def operations(op: Op) -> Iterator[tuple[str, Op]]:
    """Every change of an operation that breaks it, whatever stands around it."""
    if isinstance(op, Loop):
        yield (
            "a state of another element type",
            replace(op, states=(replace(op.states[0], element=other(op.states[0].element)), *op.states[1:])),
        )
        yield "a state of another rank", replace(op, states=(longer(op.states[0]), *op.states[1:]))
    if not isinstance(op, Compute | Scan):
        return
    yield (
        "a result of another element type",
        replace(op, outs=(mistyped(op.outs[0]), *op.outs[1:])),
    )
    yield "a result of another rank", replace(op, outs=(longer(op.outs[0]), *op.outs[1:]))
    yield "a result twice", replace(op, outs=(op.outs[0], *op.outs))
    yield "an expression too many", replace(op, body=(*op.body, *op.body))
    elsewhere, stray = Dim.of(fresh("elsewhere")), Local(fresh("stray"), Element.F32)
    wide = Index(Dim.of(0), Element.F64)

    def is_read(n: Scalar) -> bool:
        return isinstance(n, Read)

    def is_placed(n: Scalar) -> bool:
        return isinstance(n, Read) and n.subscripts != ()

    def is_binary(n: Scalar) -> bool:
        return isinstance(n, Binary)

    changes: list[tuple[str, Callable[[Scalar], bool], Callable[[Any], Scalar]]] = [
        ("a subscript too few", is_placed, lambda n: replace(n, subscripts=n.subscripts[1:])),
        ("a subscript too many", is_read, lambda n: replace(n, subscripts=(*n.subscripts, Dim.of(0)))),
        ("a read of another element type", is_read, lambda n: replace(n, element=other(n.element))),
        ("a read of what nobody makes", is_read, lambda n: replace(n, tensor=fresh("nobody"))),
        ("an axis of another operation", is_placed, lambda n: replace(n, subscripts=(elsewhere, *n.subscripts[1:]))),
        ("an index of another operation", lambda n: isinstance(n, Index), lambda n: replace(n, dim=n.dim + elsewhere)),
        ("a local out of its `let`", lambda n: isinstance(n, Bind), lambda n: n.body),
        ("a local that nobody binds", is_binary, lambda n: replace(n, left=stray)),
        ("an operand of another element type", is_binary, lambda n: replace(n, right=wide)),
    ]
    for what, wanted, change in changes:
        made = first(op, wanted, change)
        if made is not None:
            yield what, made


def mistyped(value: Value) -> Value:
    return replace(value, element=other(value.element))


def longer(value: Value) -> Value:
    return replace(value, shape=(*value.shape, Dim.of(1)))


# ── blocks and programs ─────────────────────────────────────────────────────────────────────────────────────────────────


def blocks(block: Block) -> Iterator[tuple[str, Block]]:
    ops = block.ops
    for n, op in enumerate(ops):
        made = {value.symbol for value in outs_of(op)}
        if made.intersection(block.results) or any(made & tensors_of(later) for later in ops[n + 1 :]):
            yield "an operation dropped", replace(block, ops=(*ops[:n], *ops[n + 1 :]))
        if made:
            yield "an operation twice", replace(block, ops=(*ops[: n + 1], *ops[n:]))
        reader = next((m for m in range(n + 1, len(ops)) if made & tensors_of(ops[m])), None)
        if reader is not None:
            yield "an operation after its reader", replace(block, ops=(*ops[:n], *ops[n + 1 : reader + 1], op, *ops[reader + 1 :]))
        for what, changed in operations(op):
            yield what, replace(block, ops=(*ops[:n], changed, *ops[n + 1 :]))
        if isinstance(op, Loop):
            for what, body in blocks(op.body):
                yield f"{what}, in a loop", replace(block, ops=(*ops[:n], replace(op, body=body), *ops[n + 1 :]))
    if block.results:
        yield "a result that nobody makes", replace(block, results=(fresh("nobody"), *block.results[1:]))
        yield "a result too many", replace(block, results=(*block.results, block.results[0]))


def programs(program: Program) -> Iterator[Mutant]:
    for what, block in blocks(program.block):
        if what != "a result too many":  # of a program whose structure of results does not name it: nothing says it is wrong
            yield what, replace(program, block=block)


def rewritten(program: Program) -> Iterator[Mutant]:
    """What no pass may make of a program, although some of it would be one."""
    for what, block in blocks(program.block):
        yield what, replace(program, block=block)
    if program.inputs:
        yield "an input less", replace(program, inputs=program.inputs[1:])


# ── plans ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def plans(plan: Plan) -> Iterator[Mutant]:
    for what, body in bodies(plan.body):
        yield what, replace(plan, body=body)


def bodies(body: Kernels) -> Iterator[tuple[str, Kernels]]:
    for what, kernels in sequences(body.kernels, body.results):
        yield what, replace(body, kernels=kernels)
    for n, kernel in enumerate(body.kernels):
        if isinstance(kernel, Repeat):
            for what, inner in bodies(kernel.body):
                yield (
                    f"{what}, in a loop",
                    replace(body, kernels=(*body.kernels[:n], replace(kernel, body=inner), *body.kernels[n + 1 :])),
                )
    if body.results:
        yield "a result that nobody stores", replace(body, results=(fresh("nobody"), *body.results[1:]))


def sequences(kernels: Sequence[Kernel], results: Sequence[Any]) -> Iterator[tuple[str, tuple[Kernel, ...]]]:
    """Every broken sequence of plain kernels."""
    kernels = tuple(kernels)
    for n, kernel in enumerate(kernels):
        made = set(writes_of(kernel))
        if made.intersection(results) or any(made & reads_of(later) for later in kernels[n + 1 :]):
            yield "a kernel dropped", (*kernels[:n], *kernels[n + 1 :])
        if made:
            yield "a kernel twice", (*kernels[: n + 1], *kernels[n:])
        reader = next((m for m in range(n + 1, len(kernels)) if made & reads_of(kernels[m])), None)
        if reader is not None:
            yield "a kernel after its reader", (*kernels[:n], *kernels[n + 1 : reader + 1], kernel, *kernels[reader + 1 :])
        for what, changed in changed_kernels(kernel):
            yield what, (*kernels[:n], changed, *kernels[n + 1 :])


def changed_kernels(kernel: Kernel) -> Iterator[tuple[str, Kernel]]:
    match kernel:
        case Nest(steps=steps):
            yield "nothing stored", replace(kernel, stored=())
            yield "what nobody makes stored", replace(kernel, stored=(*kernel.stored, fresh("nobody")))
            for n, step in enumerate(steps):
                for what, changed in operations(step):
                    assert isinstance(changed, Compute | Scan)
                    yield what, replace(kernel, steps=(*steps[:n], changed, *steps[n + 1 :]))
        case Contraction(op=op):
            yield "nothing stored", replace(kernel, stored=())
            yield "a product over nothing", replace(kernel, depth=())
            if kernel.rows or kernel.batch:
                yield "a product without rows", replace(kernel, rows=(), batch=())
            nobody = replace(kernel.left.read, tensor=fresh("nobody"))
            yield "a factor that nobody makes", replace(kernel, left=replace(kernel.left, read=nobody))
            for what, changed in operations(op):
                assert isinstance(changed, Compute)
                yield what, replace(kernel, op=changed)
        case Repeat(op=loop):
            for what, changed in operations(loop):
                assert isinstance(changed, Loop)
                yield what, replace(kernel, op=changed)


def on_tensor_cores(kernel: MatrixProduct) -> Iterator[tuple[str, MatrixProduct]]:
    left, value = kernel.left, kernel.left.value
    wrong = (
        ("a factor of another element type", replace(left, value=replace(value, element=Element.F64))),
        ("a factor that nobody makes", replace(left, value=replace(value, symbol=fresh("nobody")))),
        ("a factor of another rank", replace(left, axes=left.axes[1:])),
    )
    yield from ((what, replace(kernel, lefts=(other, *kernel.lefts[1:]))) for what, other in wrong)
    result = kernel.results[0]
    yield "a result at an axis too few", replace(kernel, results=(replace(result, axes=result.axes[1:]), *kernel.results[1:]))
    stray = replace(result, expression=Local(fresh("stray"), result.value.element))
    yield "a local that nobody makes", replace(kernel, results=(stray, *kernel.results[1:]))
    mistyped = replace(result, value=replace(result.value, element=Element.F64))
    yield "a result of another element type", replace(kernel, results=(mistyped, *kernel.results[1:]))


def picked(mutants: Iterator[Mutant], random: Random, count: int) -> list[Mutant]:
    """Some of them: one of each kind first."""
    every = list(mutants)
    random.shuffle(every)
    kinds: dict[str, Mutant] = {}
    for mutant in every:
        kinds.setdefault(mutant[0], mutant)
    return [*kinds.values()][:count]
