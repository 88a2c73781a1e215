"""The plan by which the CPU backend runs a program."""

from __future__ import annotations

from axon.backend.cpu.totals import split_totals
from axon.backend.plan.fuse import Policy, fuse
from axon.backend.plan.ir import Plan
from axon.core.ir import Compute, Program
from axon.core.passes.cse import deduplicated
from axon.core.passes.hoist import HOST
from axon.core.passes.tables import without_tables

POLICY = Policy(epilogues=False, hoist=HOST)


def planned(program: Program) -> tuple[Plan, tuple[Compute, ...]]:
    """The plan, whose last inputs are the program's tables, and the operations that make these."""
    rest, tables = without_tables(deduplicated(program))
    return split_totals(fuse(rest, POLICY)), tables
