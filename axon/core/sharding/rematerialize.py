"""What is made again where it is read, and not kept from an earlier program: the scores of an attention, for its gradient.

    program 1   s[i, j] = sum c => q[i, c] * k[j, c]     o[i, e] = sum j => … exp s[i, j] … v[j, e]
    exchange    all_reduce …
    program 2   … sum j => exp (s[i, j] - m[i]) …        with an s of its own, of q and k, which are small

Exchanges cut what a device computes into programs, and a value that two of them read is a tensor in memory between these. Within
one program a backend need not have it there at all: it makes blocks of scores as it goes over them. So a value that is many times
as large as what it is made of is made again in the later program. No data can stop that, and it takes at most twice as long as
writing and reading the value. What something else keeps in memory anyway, a result or what is exchanged, is read.

What an earlier program has made of such a value and the later one reads, statistics of rows and means, is stated there, too: the
operations stand in the program, with the inputs that hold what they make (`Program.known`). So a backend that looks for attention
sees all of it. Statistics of 16 bits are kept in f32, and rounded where they are read: `exp (s - m)` is at most 1 for scores that
are not rounded either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.core.ir import Compute, Known, Loop, Scan, Value
from axon.core.operands import in_f32, with_tensors
from axon.core.operation_count import flops
from axon.core.scalar_facts import data_may_stop, freshened, mapped, renamed
from axon.core.sharding.emit import Raw, each_row, read_of_raw
from axon.core.sharding.layouts import Rates, elements, guessed
from axon.core.walk import all_axes, outs_of, tensors_of

SMALLER = 2  # so many times smaller is what a value is made of
LONGER = 2  # so many times as long as writing and reading it may it take to make it again


def rematerialized(
    raw: Sequence[Raw], results: Sequence[Symbol], values: Mapping[Symbol, Value], rates: Rates, sizes: Mapping[Symbol, int]
) -> list[Raw]:
    """The items with values made again at these sizes. `values` are those that a device has from before."""

    def row(raw: Sequence[Raw], results: Sequence[Symbol]) -> list[Raw]:
        return _Row(raw, results, values, rates, sizes).run()

    return each_row(raw, results, row)


@dataclass(frozen=True, slots=True)
class _Again:
    """How a value comes about from what stays in memory: those tensors, and the operations that are done once more."""

    read: frozenset[Symbol]
    ops: frozenset[Symbol]  # by their first results


class _Row:
    """Items in a row. Operations between two exchanges are one program; programs are numbered."""

    def __init__(
        self,
        raw: Sequence[Raw],
        results: Sequence[Symbol],
        values: Mapping[Symbol, Value],
        rates: Rates,
        sizes: Mapping[Symbol, int],
    ) -> None:
        self.raw, self.rates, self.sizes = raw, rates, sizes
        self.values = dict(values)
        self.makers: dict[Symbol, Compute] = {}
        self.program: dict[Symbol, int] = {}  # which makes a value
        self.held = set(results)  # in memory whatever becomes of the operations that read it
        number = 0
        for item in raw:
            if isinstance(item, Compute | Scan | Loop):
                self.values |= {out.symbol: out for out in outs_of(item)}
            else:
                number += 1
            if not isinstance(item, Compute):
                self.held |= set(read_of_raw(item))
            elif not data_may_stop(item):
                self.makers |= {out.symbol: item for out in item.outs}
                self.program |= {out.symbol: number for out in item.outs}
        self.known: dict[Symbol, _Again] = {}
        self.wide: set[Symbol] = set()

    def run(self) -> list[Raw]:
        made: list[Raw] = []
        number, program = 0, list[Raw]()
        for item in self.raw:
            if isinstance(item, Compute | Scan | Loop):
                program.append(item)
            else:
                made += [*_Later(self, number, program).run(), item]
                number, program = number + 1, []
        made += _Later(self, number, program).run()
        return [in_f32(item, self.wide) if isinstance(item, Compute) else item for item in made]

    def of(self, symbol: Symbol) -> _Again:
        """How a value of an earlier program comes about: from itself, or, where that is better, from what it is made of."""
        if symbol not in self.known:
            self.known[symbol] = _Again(frozenset({symbol}), frozenset())
            maker = self.makers.get(symbol)
            if maker is not None and symbol not in self.held and tensors_of(maker) <= self.values.keys():
                parts = [self.of(s) for s in tensors_of(maker)]
                read = frozenset[Symbol]().union(*(part.read for part in parts))
                ops = frozenset({maker.outs[0].symbol}).union(*(part.ops for part in parts))
                if self.pays(symbol, read, ops):
                    self.known[symbol] = _Again(read, ops)
        return self.known[symbol]

    def pays(self, symbol: Symbol, read: Set[Symbol], ops: Set[Symbol]) -> bool:
        stored = self.bytes({symbol})
        computed = sum(guessed(flops(self.makers[first]), self.sizes) for first in ops) / self.rates.flops
        return stored >= SMALLER * self.bytes(read) and computed <= LONGER * 2 * stored / self.rates.memory

    def bytes(self, symbols: Set[Symbol]) -> int:
        known = (self.values[s] for s in symbols)
        return sum(guessed(elements(v.shape), self.sizes) * max(1, v.element.bits // 8) for v in known)


class _Later:
    """The operations of one program: with what they make again, and what is known of what they read."""

    def __init__(self, row: _Row, number: int, program: Sequence[Raw]) -> None:
        self.row, self.number, self.program = row, number, program
        self.names: dict[Symbol, Symbol] = {}  # of what is made again, or stated, in this program
        self.read = {s for item in program for s in read_of_raw(item)}
        self.other: set[Symbol] = set()  # what was made of other values
        self.made: list[Raw] = []

    def run(self) -> list[Raw]:
        for symbol in self.earlier(self.read):
            self.again(symbol)
        self.other.clear()
        for symbol in self.earlier(self.read) if self.names else ():
            self.state(symbol)
        ops = [with_tensors(item, self.names) if isinstance(item, Compute) else item for item in self.program]
        return [*self.made, *ops]

    def earlier(self, symbols: Set[Symbol]) -> list[Symbol]:
        """Those that an operation of an earlier program makes."""
        found = (s for s in symbols if self.row.program.get(s, self.number) < self.number)
        return sorted(found, key=lambda s: s.id)

    def again(self, symbol: Symbol) -> None:
        """Make a value again, if that is better."""
        if symbol not in self.names and self.row.of(symbol).ops:
            maker = self.row.makers[symbol]
            for s in self.earlier(tensors_of(maker)):
                self.again(s)
            for s in self.earlier(tensors_of(maker)):
                self.state(s)
            self.copy(maker)

    def state(self, symbol: Symbol) -> bool:
        """State how a value was made that is read, if it was of what is made again. Whether it was."""
        if symbol in self.names or symbol in self.other:
            return symbol in self.names
        self.other.add(symbol)
        maker = self.row.makers.get(symbol)
        if maker is None or symbol not in self.earlier({symbol}) or len(maker.outs) > 1:
            return False
        reads = tensors_of(maker)
        close = self.names.keys() & reads
        if close or maker.reduction is None:
            close |= {s for s in sorted(reads, key=lambda s: s.id) if self.state(s)}
        if not close or not reads - close <= self.read:  # nothing more is kept for it
            return False
        (out,) = maker.outs
        statistic = maker.reduction is not None and close == reads
        if statistic and out.element.is_float and out.element.bits < 32 and symbol not in self.row.held:
            self.row.wide.add(symbol)
            self.row.wide.add(self.copy(maker))
        else:
            self.copy(maker)
        self.made.append(Known(self.names[symbol], symbol))
        return True

    def copy(self, maker: Compute) -> Symbol:
        """An operation once more, of what is made again where it reads that; the first that it makes."""
        op = with_tensors(maker, self.names)
        assert isinstance(op, Compute)
        op = mapped(renamed(op, {a.symbol: fresh(a.symbol.name) for a in all_axes(op)}), freshened)
        assert isinstance(op, Compute)
        op = replace(op, outs=tuple(replace(out, symbol=fresh(out.symbol.name)) for out in op.outs))
        self.names |= {old.symbol: new.symbol for old, new in zip(maker.outs, op.outs, strict=True)}
        self.made.append(op)
        return op.outs[0].symbol
