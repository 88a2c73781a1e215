"""Machine code by which threads share a kernel: each takes the next piece of its items, and comes back when there are none.

Between two pieces nothing is asked of Python: a thread that did would wait for the lock that another one holds, and take longer for
that than for most pieces.

    Taking    what the threads of one call share: which piece is the next, who is at work, whether the program is to stop
    taker     how many arguments a kernel has -> a module with a function of the kernel's address, its arguments as words, the state
              that threads share, and whether the caller is who began

Note [Late threads]
    Who begins a kernel waits for those that are at work on it, and for nobody else. A thread says that it is at work before it asks
    for a piece. So when there are no more pieces and nobody is at work, who comes later finds none, and touches no memory but that
    of its `Taking`.

Note [Who comes back first]
    A helper that was done would ask for Python's lock when who began the kernel does, and the one that waits would be woken by the
    system, which takes as long as some pieces. So a helper looks a while whether the other is gone, and then a few times more.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

NAME = "axon.take"
NEXT, WORKING, GONE, ANSWER, PIECES, ITEMS = 0, 8, 16, 17, 24, 25  # words; those that threads write are in cache lines of their own
WORDS = 26
PATIENCE = 1000  # times that a thread looks whether another is done, of some 50 ns each, before it leaves that to the system
BEHIND = 200  # of these, from when who began a kernel is gone


class Taking:
    """The state of a kernel that is shared. `call` is the taker's function, `function` the kernel's address."""

    __slots__ = ("_call", "_function", "state")

    def __init__(self, call: Callable[..., None], function: int, items: int, pieces: int) -> None:
        self._call, self._function = call, function
        self.state = (ctypes.c_int64 * WORDS)()
        self.state[PIECES], self.state[ITEMS] = pieces, items

    @property
    def left(self) -> bool:
        return bool(self.state[NEXT] < self.state[PIECES])

    @property
    def at_work(self) -> bool:
        return bool(self.state[WORKING])

    @property
    def answer(self) -> int:
        return int(self.state[ANSWER])

    def take(self, arguments: Sequence[int], began: bool) -> None:
        """Compute pieces until there are none, and wait a while: who began the kernel for the others, those for it."""
        self._call(self._function, (ctypes.c_int64 * len(arguments))(*arguments), self.state, began)

    def stop(self) -> None:
        """Nobody begins another piece."""
        self.state[NEXT] = self.state[PIECES]


def taker(arguments: int, triple: str) -> Any:
    """A module with the function, for a kind of machine."""
    from llvmlite import ir  # late: what is found on disk needs none of it

    from axon.backend.kernel.llvm import Builder, Value, whole

    i64, nothing = ir.IntType(64), ir.VoidType()
    word = i64.as_pointer()
    kernel = ir.FunctionType(ir.IntType(32), [word, word, *[i64] * (arguments + 2)])  # a pointer is passed as an integer is
    module: Any = ir.Module("pieces")
    module.triple = triple
    function: Any = ir.Function(module, ir.FunctionType(nothing, [kernel.as_pointer(), word, word, i64]), NAME)
    called, values, state, began = function.args
    b: Builder = ir.IRBuilder(function.append_basic_block("start"))

    def number(n: int) -> Value:
        return whole(i64, n)

    def place(base: Value, n: int) -> Value:
        return b.gep(base, [number(n)], inbounds=True)

    def add(n: int, by: int) -> Value:
        return b.atomic_rmw("add", place(state, n), number(by), "seq_cst")

    def put(n: int, value: Value) -> None:
        b.store_atomic(value, place(state, n), "seq_cst", 8)

    result, exception = b.alloca(i64), b.alloca(i64)
    given = [b.load(place(values, n)) for n in range(arguments)]
    items, pieces = b.load(place(state, ITEMS)), b.load(place(state, PIECES))
    add(WORKING, 1)
    names = ("ask", "compute", "stop", "done", "others", "gone", "helper", "behind", "end")
    ask, compute, stop, done, others, gone, helper, behind, end = (b.append_basic_block(name) for name in names)
    b.branch(ask)

    b.position_at_end(ask)
    piece = add(NEXT, 1)
    b.cbranch(b.icmp_signed("<", piece, pieces), compute, done)
    b.position_at_end(compute)
    first, last = (b.udiv(b.mul(items, n), pieces) for n in (piece, b.add(piece, number(1))))
    status = b.call(called, [result, exception, *given, first, last])
    answer = b.or_(b.sext(status, i64), b.load(result))
    b.cbranch(b.icmp_signed("==", answer, number(0)), ask, stop)
    b.position_at_end(stop)
    put(ANSWER, answer)
    put(NEXT, pieces)
    b.branch(done)
    b.position_at_end(done)
    add(WORKING, -1)
    b.cbranch(b.icmp_signed("!=", began, number(0)), others, helper)

    def waiting(before: Any, block: Any, most: int, word: int, wanted: Value | None, after: Any) -> None:
        """Looks at a word of the state until it is as wanted."""
        b.position_at_end(block)
        looked = b.phi(i64)
        looked.add_incoming(number(0), before)
        if "x86" in module.triple:
            b.call(module.declare_intrinsic("llvm.x86.sse2.pause", (), ir.FunctionType(nothing, [])), [])
        again = b.icmp_signed("<", looked, number(most))
        if wanted is not None:
            again = b.and_(again, b.icmp_signed("!=", b.load_atomic(place(state, word), "seq_cst", 8), wanted))
        looked.add_incoming(b.add(looked, number(1)), block)
        b.cbranch(again, block, after)

    waiting(done, others, PATIENCE, WORKING, number(0), gone)
    b.position_at_end(gone)
    put(GONE, number(1))
    b.branch(end)
    waiting(done, helper, PATIENCE, GONE, number(1), behind)
    waiting(helper, behind, BEHIND, GONE, None, end)
    b.position_at_end(end)
    b.ret_void()
    return module
