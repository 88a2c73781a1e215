"""What a kernel's code takes for granted of how tensors lie in memory. Code that takes less for granted serves more.

Note [Three ways to store a tile]
    A bulk copy stores a panel of a tile at once, and clips it at the tensor's edges; for that all rows must start at multiples of
    16 bytes and end there, or have spare elements behind them (`boxed`), which 50,257 columns of 16 bits of a result do not. Where
    they do not, but columns are neighbours in memory (`dense`), each warp lays out its 16 rows in shared memory, and from there
    stores all of a row that begins and ends at multiples of 16 bytes so many bytes a thread, and the few elements at its ends one
    by one (`ptx_rows`). Anything else is stored element by element, each from the thread that holds it.
"""

from __future__ import annotations

from axon.base.data import dataclass
from axon.base.names import Symbol

NOTHING: frozenset[Symbol] = frozenset()


@dataclass(frozen=True, slots=True)
class Granted:
    """Results that bulk copies store; results whose last dimension is contiguous; tensors of which two neighbours can be loaded
    as one word; and tensors whose last dimension is contiguous of which a stream reads one value for each of its keys."""

    boxed: frozenset[Symbol] = NOTHING
    dense: frozenset[Symbol] = NOTHING
    paired: frozenset[Symbol] = NOTHING
    runs: frozenset[Symbol] = NOTHING

    def __le__(self, other: Granted) -> bool:
        return self.boxed <= other.boxed and self.dense <= other.dense and self.paired <= other.paired and self.runs <= other.runs
