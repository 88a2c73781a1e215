"""Results on a real GPU after calls of other sizes, as in tests/backend/gpu/runtime/test_histories.py, which emulates one."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import axon
from tests.backend.gpu.runtime.histories import SUBJECTS, TEXT, compare, history, leaves

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)


def call(function: Any, arguments: list[Any], element: str) -> list[Any]:
    given = [torch.from_numpy(a).to("cuda", getattr(torch, element)) for a in arguments]
    return leaves(function(*given), lambda part: (part.float() if part.dtype == torch.bfloat16 else part).cpu().numpy())


@pytest.mark.parametrize("name", SUBJECTS)
def test_results_do_not_depend_on_earlier_sizes(name: str) -> None:
    subject, chance = SUBJECTS[name], Random(name)
    given = history(chance, subject, 10, 2_000_000, 4_000)
    first = [call(axon.compile(TEXT)[name], arguments, subject.element) for arguments in given]
    for _ in range(4):
        order = chance.sample(range(len(given)), len(given))
        function = axon.compile(TEXT)[name]
        for which in order:
            got = call(function, given[which], subject.element)
            shapes = [given[n][0].shape for n in order[: order.index(which) + 1]]
            assert not (why := compare(subject, given[which], got, first[which])), f"{why} after {shapes}"
