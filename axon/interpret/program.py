"""Programs: blocks of operations on tensors, in order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import assert_never

import numpy as np

from axon.base.data import replace
from axon.base.element import Element
from axon.base.errors import ShapeError
from axon.base.names import Symbol
from axon.core.ir import Block, Check, Compress, Compute, Loop, Program, Scalar, Scan, Sort
from axon.interpret.arithmetic import Array, widen
from axon.interpret.compute import compute, scan
from axon.interpret.frame import Frame, diagnostic, size_of
from axon.interpret.scalar import evaluate
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation


def bound(program: Program, inputs: Sequence[Array], explicit: Sequence[int]) -> dict[Symbol, int]:
    """The dimensions of a call. ContractBroken and TypeError as `run` says."""
    if len(inputs) != len(program.inputs):
        raise TypeError(f"{program.name} takes {len(program.inputs)} tensors, not {len(inputs)}")
    for value, array in zip(program.inputs, inputs, strict=True):
        if array.dtype != value.element.dtype:
            raise TypeError(f"{value.symbol.name} of {program.name} holds {value.element.value}, not {array.dtype}")
    return program.contract.bind(explicit, [array.shape for array in inputs])


def run(program: Program, inputs: Sequence[Array], explicit: Sequence[int] = ()) -> list[Array]:
    """The flat results of a program for its flat inputs, as fresh arrays; the caller structures them.

    ContractBroken if the inputs do not satisfy the contract; TypeError if one has another element type. ShapeError AX0501 where a
    `Check` fails and AX0502 where a checked index is out of bounds; AxonError AX0503 where integer arithmetic fails.
    """
    dims = bound(program, inputs, explicit)
    tensors = {value.symbol: np.asarray(array, order="C") for value, array in zip(program.inputs, inputs, strict=True)}
    given = [*inputs, *tensors.values()]
    with np.errstate(all="ignore"):
        try:
            results = _block(program.block, dims, tensors)
        except ShapeError as error:
            raise _in_words_of_the_caller(error, program) from None
    fresh: list[Array] = []
    for result in results:
        shared = any(result is other for other in fresh) or any(np.may_share_memory(result, array) for array in given)
        fresh.append(result.copy() if shared else result)
    return fresh


def _in_words_of_the_caller(error: ShapeError, program: Program) -> ShapeError:
    """Inputs by what they are called outside: the field `p.tokens` is `p_tokens` in core."""
    paths = {value.symbol.name: shape.path for value, shape in zip(program.inputs, program.contract.shapes, strict=True)}

    def path(name: re.Match[str]) -> str:
        return f"`{paths.get(name[1], name[1])}`"

    return ShapeError(tuple(replace(d, message=re.sub(r"`(\w+)`", path, d.message)) for d in error.diagnostics))


def _block(block: Block, dims: dict[Symbol, int], tensors: dict[Symbol, Array]) -> list[Array]:
    """Run a block's operations, which add to `dims` and `tensors`; its results."""
    for op in block.ops:
        match op:
            case Compute(outs=outs):
                tensors.update(zip((out.symbol for out in outs), compute(op, dims, tensors), strict=True))
            case Scan(outs=outs):
                tensors.update(zip((out.symbol for out in outs), scan(op, dims, tensors), strict=True))
            case Loop(outs=outs):
                tensors.update(zip((out.symbol for out in outs), _loop(op, dims, tensors), strict=True))
            case Sort(values=values, indices=indices, input=input):
                source = tensors[input]
                order = np.argsort(widen(source, values.element), axis=-1, kind="stable")
                tensors[values.symbol] = np.take_along_axis(source, order, axis=-1)
                tensors[indices.symbol] = order.astype(np.int32)
            case Compress(out=out, size=size, mask=mask):
                tensors[out.symbol] = np.flatnonzero(tensors[mask]).astype(np.int32)
                dims[size] = len(tensors[out.symbol])
            case Check():
                _check(op, dims)
            case _:
                assert_never(op)
    return [tensors[symbol] for symbol in block.results]


def _loop(op: Loop, dims: dict[Symbol, int], tensors: dict[Symbol, Array]) -> list[Array]:
    trip = max(0, _number(op.trip, dims, tensors, op))
    states = [tensors[symbol] for symbol in op.initial]
    stacks = [np.empty((trip, *s.shape), s.dtype) for s in states] if op.stacked else []
    for i in range(trip):  # a step redefines what the one before it defined
        if op.conditional and not states[-1]:
            break
        dims[op.counter] = i
        tensors[op.counter] = np.array(i, Element.I32.dtype)
        tensors.update(zip((state.symbol for state in op.states), states, strict=True))
        states = _block(op.body, dims, tensors)
        for stack, state in zip(stacks, states, strict=False):
            stack[i] = state
    return stacks if op.stacked else states


def _number(scalar: Scalar, dims: dict[Symbol, int], tensors: dict[Symbol, Array], op: Loop) -> int:
    """The value of an integer expression that stands under no axes."""
    return int(evaluate(scalar, Frame(dims, tensors, {}, 1, op.span)).item())


def _check(op: Check, dims: dict[Symbol, int]) -> None:
    relation = Relation(op.left, op.relation, op.right)
    for asked in (*op.given, relation):
        left, right = (size_of(side, dims, op.span) for side in (asked.left, asked.right))
        if Relation(Dim.of(left), asked.op, Dim.of(right)).holds(dims) is (asked is relation):
            return  # not asked for, or as it should be
    raise ShapeError((diagnostic("AX0501", op.message, f"{left} {op.relation} {right} does not hold", op.span),))
