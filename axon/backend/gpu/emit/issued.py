"""Which operations of a role are written as one: products that one instruction makes, copies of a loop over pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from axon.backend.gpu.layout.pages import Pages
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import Op
from axon.base.data import replace


def issued(body: tuple[Op, ...], most: int) -> Iterator[list[Op]]:
    """The operations one by one, but products together of which one instruction, of so many columns at most, makes all, and the
    copies from pages into a tile."""
    group: list[Op] = []
    for op in body:
        if group and not _continues(group, op, most):
            yield group
            group = []
        group.append(op)
    if group:
        yield group


def _continues(group: Sequence[Op], op: Op, most: int) -> bool:
    """Whether a product is of the same left factor as those before it, and its right factor lies behind theirs in the same way: so
    that their columns are those of one factor. See Note [Matrix descriptors]."""
    first = group[0]
    if isinstance(op, b.Copy) and isinstance(first, b.Copy):
        return pages_of(op) is not None and (op.ring, op.field) == (first.ring, first.field)
    if not isinstance(first, b.Product) or not isinstance(op, b.Product) or not isinstance(op.left, b.StageField):
        return False
    if replace(op, accumulator=first.accumulator, right=first.right) != first or op.right.ring != first.right.ring:
        return False
    tile, field, start = op.right.tile, op.right.ring.fields[op.right.field], first.right.ring.fields[first.right.field]
    alike = (tile.axes, tile.shape, tile.element) == (start.tile.axes, start.tile.shape, start.tile.element)
    follows = alike and field.offset == start.offset + len(group) * tile.bytes
    one_panel = tile.axes[-1] != op.over or tile.bytes == field.panel  # along what is summed, panels of one lie between
    return follows and one_panel and (len(group) + 1) * op.accumulator.shape[1] <= most


def pages_of(op: Op) -> Pages | None:
    """From which pages an operation copies, if it does."""
    return op.ring.fields[op.field].load.pages if isinstance(op, b.Copy) else None
