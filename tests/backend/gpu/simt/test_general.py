"""Kernels for any size: right for every size and layout, and few."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.runtime.plain_variants import NestChoices, prepare
from axon.backend.gpu.runtime.variants import ANY, LIMIT
from axon.backend.gpu.simt.mapping import Mapping, plainest
from tests.backend.gpu.simt.emulate import Hazard
from tests.backend.gpu.simt.plain_cases import Case, admitted, case, compare, emulated, expected, form, threads
from tests.backend.gpu.simt.test_emit import LAYOUTS, SOURCE, executable

NAMES = ["gelu", "softmax", "colsum", "transpose", "cum", "rotary", "embed", "best", "lower", "variance", "crossed", "choose"]
SIZES = ((2, 16), (5, 37), (3, 64), (16, 8), (1, 1), (3, 0))


def general(given: Case) -> list[Mapping]:
    return [prepare(nest, given.made.planned.known, given.tensors, given.sizes, HOPPER).general() for nest in given.todo]


@pytest.mark.parametrize("name", NAMES)
def test_any_size(name: str) -> None:
    """One mapping for all of them."""
    made = executable(SOURCE, name, "bf16" if len(name) % 2 else "f32")
    seen: dict[int, set[Mapping]] = {}
    for size in SIZES:
        given = case(made, size)
        mappings = general(given)
        if not admitted(given) or threads(given, mappings) > 8192:
            continue
        compare(given, mappings, expected(given))
        for number, mapping in enumerate(mappings):
            if 0 not in size and 1 not in size:  # a dimension of one element does not say how a tensor lies
                seen.setdefault(number, set()).add(mapping)
    assert all(len(found) == 1 for found in seen.values())
    assert all(mapping.general for mapping in seen[0])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["gelu", "softmax", "transpose"])
def test_any_layout(name: str, layout: str) -> None:
    for size in ((3, 32), (5, 37)):
        given = case(executable(SOURCE, name, "f32"), size, layout=LAYOUTS[layout])
        compare(given, general(given), expected(given))


@pytest.mark.parametrize(
    ("name", "size", "layout"),
    [
        ("gelu", (3, 64), "unaligned"),  # an address
        ("gelu", (5, 64), "of odd rows"),  # a stride
        ("gelu", (5, 37), None),  # an extent
        ("rotary", (3, 20), None),  # where the other half begins
        ("softmax", (3, 37), None),
        ("transpose", (16, 20), None),
    ],
)
def test_it_looks_at_what_matters(name: str, size: tuple[int, int], layout: str | None) -> None:
    """A kernel that always takes the form for neighbours is caught."""
    given = case(executable(SOURCE, name, "bf16"), size, layout=LAYOUTS[layout] if layout else None)
    (nest,) = given.todo
    source, launched = form(given, nest, general(given)[0])
    text = re.sub(r"^    if v\d+:", "    if True:", source.text, count=1, flags=re.M)
    assert text != source.text
    with pytest.raises(Hazard):
        emulated(given, [(replace(source, text=text), launched)], random.Random(0))


@pytest.mark.parametrize("name", ["gelu", "softmax", "transpose"])
def test_it_moves_neighbours_where_it_can(name: str) -> None:
    given = case(executable(SOURCE, name, "bf16"), (16, 64))
    (nest,) = given.todo
    source, launched = form(given, nest, general(given)[0])
    text = re.sub(r"^    else:\n(?:        .*\n)*", "", source.text, flags=re.M)
    assert text != source.text
    assert emulated(given, [(replace(source, text=text), launched)], random.Random(0)) is not None


SWEEPS: dict[str, Callable[[random.Random], tuple[int, int]]] = {
    "any": lambda chance: (chance.randint(1, 5000), chance.randint(1, 5000)),
    "of 8": lambda chance: (8 * chance.randint(1, 600), 8 * chance.randint(1, 600)),
    "short rows": lambda chance: (chance.randint(10_000, 100_000), chance.randint(2, 70)),
}


@pytest.mark.parametrize("kind", SWEEPS)
@pytest.mark.parametrize("name", ["gelu", "softmax", "colsum", "transpose", "cum", "rotary"])
def test_a_sweep_makes_three(name: str, kind: str) -> None:
    """The first two that sizes want, and one for all others."""
    made, chance = executable(SOURCE, name, "bf16"), random.Random(name + kind)
    given = case(made, (2, 2))
    choices: dict[tuple[object, ...], NestChoices] = {}
    for _ in range(100):
        wanted = dict(zip(("n", "d"), SWEEPS[kind](chance), strict=True))
        sizes = {symbol: wanted[symbol.name] for symbol in given.sizes}
        lying = made.planned.lying(sizes)
        for number, nest in enumerate(made.kernels):
            ready = prepare(nest, made.planned.known, lying, sizes, HOPPER)  # type: ignore[arg-type]
            picked = choices.setdefault((number, ready.key), NestChoices()).pick(ready, sizes)
            assert picked.mapping == ready.wanted or picked.why == ANY or not picked.mapping.general
    for found in choices.values():
        assert len(found.variants) <= LIMIT
        assert [v.mapping.general for v in found.variants if v.why == ANY] in ([], [True])


def test_what_does_not_fit_is_no_choice() -> None:
    made = executable(SOURCE, "softmax", "bf16")
    chosen = NestChoices()
    for width in (64, 1024, 8192, 4096):
        sizes = {symbol: {"n": 64, "d": width}[symbol.name] for symbol in case(made, (2, 2)).sizes}
        ready = prepare(made.kernels[0], made.planned.known, made.planned.lying(sizes), sizes, HOPPER)  # type: ignore[arg-type]
        picked = chosen.pick(ready, sizes)
    assert picked.why == ANY
    assert picked.mapping.general
    chosen.refuse(picked)
    assert chosen.pick(ready, sizes).mapping == plainest(ready.kernel)
    assert len(chosen.variants) == LIMIT
