"""What tests/language says of coercions in branches, on a real GPU: skipped where there is no Hopper GPU."""

from __future__ import annotations

import pytest

from tests.language import test_guarded_coercions as everywhere

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)


@pytest.mark.parametrize(("body", "taken", "value"), everywhere.BODIES)
def test_a_branch_that_is_not_taken(body: str, taken: dict[str, int], value: float) -> None:
    everywhere.test_a_branch_that_is_not_taken(body, taken, value, "cuda")


@pytest.mark.parametrize("body", everywhere.REFUSING)
def test_a_branch_that_is_taken(body: str) -> None:
    everywhere.test_a_branch_that_is_taken(body, "cuda")


def test_no_index_gets_there() -> None:
    everywhere.test_no_index_gets_there("cuda")
