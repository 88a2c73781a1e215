"""Generated well-typed programs: they check, run, and give the shapes, element types and values that they should."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from axon import compiler
from axon.base.element import Element
from axon.base.errors import AxonError, ShapeError
from axon.base.render import render
from axon.base.source import SourceFile
from axon.checker.module import CheckedModule
from axon.grammar import syntax
from axon.grammar.parse import parse
from axon.host.call import Session
from axon.types import builtins
from tests.properties.programs import Program, leaves, programs
from tests.properties.scalars import NARROW, Tensor
from tests.properties.signature import Disagrees, accepts, check_result, read

_TOKEN = re.compile(r"\w+|\S")
EXAMPLES = 2_000 if os.environ.get("AXON_SOAK") else 150


def check(text: str) -> CheckedModule:
    checked = compiler.check_text(text)
    errors = [d for d in checked.diagnostics if d.severity == "error"]
    assert not errors, f"rejected:\n{text}\n" + "\n".join(render(d) for d in errors)
    return checked


def compare(program: Program, expected: Any, actual: Any, path: str = "result") -> None:
    match expected:
        case tuple():
            for n, (a, b) in enumerate(zip(expected, actual, strict=True), 1):
                compare(program, a, b, f"{path}.{n}")
        case dict():
            for name, part in expected.items():
                compare(program, part, actual[name], f"{path}.{name}")
        case Tensor():
            said = f"{path} of\n{program.text}"
            assert np.shape(actual) == expected.array.shape, said
            assert np.asarray(actual).dtype == expected.element.dtype, said
            if expected.exact:
                a, b = (np.asarray(x).astype(np.float64) for x in (actual, expected.array))
                assert np.array_equal(a, b, equal_nan=True), f"{said}\n{actual}\ninstead of\n{expected.array}"
            elif expected.element not in NARROW and np.isfinite(expected.bound):
                tolerance = 1e-5 * max(expected.bound, 1.0)
                assert np.allclose(actual, expected.array, rtol=1e-4, atol=tolerance, equal_nan=True), (
                    f"{said}\n{actual}\ninstead of\n{expected.array}"
                )


def run(program: Program) -> str:
    """Check and run one program; what became of it."""
    checked = check(program.text)
    session = Session(checked)
    callee = session.callee("main")
    sig = read(callee.signature)
    call = accepts(sig, program.explicit, program.arguments)
    shown = f"\n{program.text}{callee.signature}\n" + "\n".join(f"{a.dtype}{a.shape}" for a in leaves(program.arguments))
    try:
        result = session.call(callee, program.explicit, program.arguments, numbers=False)
    except ShapeError as error:
        assert all(d.code.startswith("AX05") for d in error.diagnostics), f"{error}{shown}"
        assert "{}" not in str(error), f"{error}{shown}"
        assert not program.valid or program.outside, f"refused though all it needs holds: {error}{shown}"
        assert call is None or program.outside, f"refused though its signature accepts: {error}{shown}"
        return "refused"
    except AxonError as error:
        # An extreme of nothing that a guard or an empty comprehension protects is taken out of it, and evaluated all the same.
        if not program.valid and [d.code for d in error.diagnostics] == ["AX0503"]:
            return "refused"
        raise AssertionError(f"{error}{shown}") from None
    assert call is not None, f"ran though its signature refuses{shown}"
    assert not program.outside, f"ran though an access leaves its tensor{shown}"
    try:
        check_result(sig, call, result)
    except Disagrees as difference:
        raise AssertionError(f"the signature is wrong: {difference}{shown}") from None
    compare(program, program.expected, result)
    return "ran"


def paste(program: Program) -> None:
    """The printed signature, put in front of the program, is accepted and says the same, up to the order of factors."""
    checked = check(program.text)
    printed = f"sig main : {checked.signatures['main']}"
    again = check(f"{printed}\n{program.text}")
    said = f"sig main : {again.signatures['main']}"
    assert sorted(_TOKEN.findall(said)) == sorted(_TOKEN.findall(printed)), f"\n{program.text}{printed}\n{said}"


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=False)
@given(programs())
def test_generated_programs(program: Program) -> None:
    run(program)


@settings(max_examples=EXAMPLES // 3, deadline=None, suppress_health_check=list(HealthCheck), print_blob=False)
@given(programs())
def test_printed_signatures_can_be_pasted(program: Program) -> None:
    paste(program)


# Of each kind of node, the fields whose every value counts as a construct, and what there is.
_VALUES = {
    (syntax.Binary, "op"): {*builtins.OPERATORS, "@", "|>"},
    (syntax.Unary, "op"): {"-", "not"},
    (syntax.DimBinary, "op"): {"+", "-", "*", "/", "%"},
    (syntax.Reduce, "kind"): {*builtins.REDUCTIONS, "reduce", "scan"},
    (syntax.Loop, "kind"): {"loop", "unfold"},
    (syntax.Operator, "op"): {"+", "-", "*", "<", "<=", ">", ">=", "=", "<>"},
    (syntax.Cast, "element"): {*(e.value for e in Element), "_"},
    (syntax.Var, "name"): {*builtins.NAMES},
}
_OPTIONAL = (
    (syntax.Access, "default"),
    (syntax.Reduce, "where"),
    (syntax.IndexSlice, "step"),
    (syntax.Fun, "result"),
    (syntax.Fun, "where"),
)


@pytest.mark.skipif(EXAMPLES < 2_000, reason="rare constructs take some thousand programs: in the soak")
def test_every_construct_is_generated() -> None:
    """Every kind of node, with every operator, reduction, element type and function, and with what may be left out."""
    wanted = {n for n, k in vars(syntax).items() if isinstance(k, type) and issubclass(k, syntax.Node) and k is not syntax.Node}
    wanted |= {f"{kind.__name__} {value}" for (kind, _), values in _VALUES.items() for value in values}
    wanted |= {f"{kind.__name__} with {field}" for kind, field in _OPTIONAL}

    @settings(
        max_examples=2 * EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None, phases=[Phase.generate]
    )
    @given(programs())
    def collect(program: Program) -> None:
        wanted.difference_update(_constructs(program.text))

    for _ in range(8):
        if wanted:
            collect()
    assert not sorted(wanted)


def _constructs(text: str) -> Iterator[str]:
    work: list[Any] = [parse(SourceFile("generated", text))[0]]
    while work:
        match work.pop():
            case tuple() as parts:
                work += parts
            case syntax.Node() as node:
                kind = type(node)
                yield kind.__name__
                for field in (f for k, f in _VALUES if k is kind):
                    value = getattr(node, field)
                    yield f"{kind.__name__} {getattr(value, 'text', value)}"
                yield from (f"{k.__name__} with {f}" for k, f in _OPTIONAL if k is kind and getattr(node, f))
                work += [getattr(node, f.name) for f in fields(node) if f.name != "span"]
