"""The plan by which the CPU backend runs a program."""

from __future__ import annotations

from axon.backend.plan.fuse import Policy, fuse
from axon.backend.plan.ir import Plan
from axon.backend.plan.totals import split_totals
from axon.core.ir import Compute, Program
from axon.core.passes.cse import deduplicated
from axon.core.passes.factor import HOST, choices, factored
from axon.core.passes.hoist import HOST as WORTH
from axon.core.passes.loop_order import in_memory_order
from axon.core.passes.narrow import narrowed
from axon.core.passes.orders import DEFAULT, Order, OrderChoice
from axon.core.passes.tables import without_tables

POLICY = Policy(epilogues=frozenset(), hoist=WORTH)


def planned(program: Program, order: Order = DEFAULT) -> tuple[Plan, tuple[Compute, ...]]:
    """The plan, whose last inputs are the program's tables, and the operations that make these. `order` is that of sums which have
    `choices`."""
    rest, tables = without_tables(in_memory_order(factored(_before_sums(program), HOST, order)))
    return split_totals(fuse(rest, POLICY)), tables


def choices_of(program: Program) -> tuple[OrderChoice, ...]:
    """The sums of products in whose order the sizes of a call decide."""
    return choices(_before_sums(program), HOST)


def _before_sums(program: Program) -> Program:
    """What the orders of sums are chosen in: what `factored` is given and what `choices` looks at are the same."""
    return deduplicated(narrowed(program))
