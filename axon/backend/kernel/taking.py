"""Machine code by which threads share a kernel: each takes the next piece of its items, and goes on when there are none.

Between two pieces, and between two kernels that follow each other, nothing is asked of Python: a thread that did would wait for the
lock that another one holds, and be woken by the system, which takes longer than most pieces.

    Taking    what the threads of one call share: which piece is the next, how many are at work, whether the program is to stop
    Offer     a kernel, the arguments with which one thread calls it, and the call's `Taking`
    work      how many arguments a kernel has -> a module: takes pieces of a kernel
    begin     a module: offers a kernel to helpers, takes pieces, and waits for those that do
    serve     a module: a helper's, which takes pieces of a kernel, and of those that it is then offered for a while
    dismiss   a module: lets a helper come back that waits for offers
    alone     how many arguments a kernel has -> a module: what Python calls with arrays, and a kernel is called on one thread
    alike     how many arrays -> a module: whether they are of the element types and shapes that they had before

Note [Alone]
    A small kernel takes less time than Python takes to ask NumPy where an array lies, and than ctypes takes to call it. So these
    are functions as Python has them in C (METH_FASTCALL): of an object, which is an array of words, of where objects are, and of
    how many they are. They read off an array what its fields say, in their order after the head of every object (NumPy's C API has
    `PyArrayObject_fields` so since there is one; `cpu.launch` looks). What buffers a kernel wants are on the stack, and Python's
    lock is held: a kernel that is called alone is brief.

Note [Boxes]
    A helper that waits for an offer has LISTENING in its box, a word of memory of its own. Who has a kernel puts the address of an
    offer there, and counts the helper as at work; the helper takes it out, and counts itself off when it is done. What it has not
    taken out when there are no more pieces is taken back. All of these are exchanges of one word that nobody else can come between.

Note [Late threads]
    Who begins a kernel waits for those that are at work on it, and for nobody else. A helper that Python calls says that it is at
    work before it asks for a piece. So when there are no more pieces and nobody is at work, who comes later finds none, and touches
    no memory but that of its offer and its `Taking`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

NAME = "axon.take"
NEXT, WORKING, ANSWER, PIECES, ITEMS = 0, 8, 16, 17, 18  # words of a Taking: the first two in cache lines of their own
WORDS = 19
WORK, KERNEL, ARGUMENTS, TAKING = 0, 1, 2, 3  # words of an offer
AWAY, LISTENING, DISMISSED = 0, 1, 2  # in a box, where addresses are greater
NUMBER, OF_ARRAY, BUFFER = 0, 1, 2  # kinds of arguments of a kernel that is called alone, of which each is two words: a number is
# itself, of an array there is the number, and of a buffer where it begins
INTEGER, CALLED, SCRATCH, COUNT, GIVEN = 0, 1, 2, 3, 4  # words of it: what makes an integer of Python's, the kernel, the bytes of
# its buffers, how many its items are, and its arguments
KIND, SHAPES, RANK = 1, 2, 8  # words of what arrays are like: after INTEGER their Python type, and for each its element type, its
# rank, and so many sizes
IN_ONE_PIECE = 0x101  # of an array's flags: contiguous as in C, and aligned
DATA, DIMENSIONS, SHAPE, DTYPE, FLAGS = 0, 8, 16, 40, 48  # fields of an array, after the head of an object
# How long a thread looks for what it waits for before it leaves that to the system, some 0.4 ms: in turns of a
# processor's clock that all of its kind have, else in looks.
CYCLES, LOOKS = 1_000_000, 200_000


class Taking:
    """The state of a kernel that is shared."""

    __slots__ = ("words",)

    def __init__(self, items: int, pieces: int) -> None:
        self.words = (ctypes.c_int64 * WORDS)()
        self.words[PIECES], self.words[ITEMS] = pieces, items

    @property
    def left(self) -> bool:
        return bool(self.words[NEXT] < self.words[PIECES])

    @property
    def at_work(self) -> bool:
        return bool(self.words[WORKING])

    @property
    def answer(self) -> int:
        return int(self.words[ANSWER])

    def stop(self) -> None:
        """Nobody begins another piece."""
        self.words[NEXT] = self.words[PIECES]


class Offer:
    """`work` and `kernel` are addresses of functions."""

    __slots__ = ("_kept", "address")

    def __init__(self, work: int, kernel: int, arguments: Sequence[int], taking: Taking) -> None:
        given = (ctypes.c_int64 * len(arguments))(*arguments)
        words = (ctypes.c_int64 * 4)(work, kernel, ctypes.addressof(given), ctypes.addressof(taking.words))
        self._kept = given, taking, words
        self.address = ctypes.addressof(words)


# ── the machine code ────────────────────────────────────────────────────────────────────────────────────────────────────


class _Body:
    """A function that is being written: of so many words, for a kind of machine."""

    def __init__(self, triple: str, arguments: int, *blocks: str, result: bool = False) -> None:
        from llvmlite import ir  # late: what is found on disk needs none of it

        self.ir, self.i64 = ir, ir.IntType(64)
        self.module: Any = ir.Module("taking")
        self.module.triple = triple
        type = ir.FunctionType(self.i64, [self.i64] * arguments) if result else self.type(arguments)
        self.function: Any = ir.Function(self.module, type, NAME)
        self.b: Any = ir.IRBuilder(self.function.append_basic_block("start"))
        self.blocks = [self.function.append_basic_block(name) for name in blocks]

    def integer(self, table: Any, value: Any) -> Any:
        """An integer of Python's."""
        function = self.b.inttoptr(self.load(table, INTEGER), self.ir.FunctionType(self.i64, [self.i64]).as_pointer())
        return self.b.call(function, [value])

    def type(self, arguments: int) -> Any:
        return self.ir.FunctionType(self.ir.VoidType(), [self.i64] * arguments)

    def number(self, n: int) -> Any:
        return self.ir.Constant(self.i64, n)

    def place(self, base: Any, n: Any) -> Any:
        """The n-th word from an address on."""
        offset = self.number(8 * n) if isinstance(n, int) else self.b.mul(n, self.number(8))
        return self.b.inttoptr(self.b.add(base, offset), self.i64.as_pointer())

    def load(self, base: Any, n: Any) -> Any:
        return self.b.load(self.place(base, n))

    def look(self, base: Any, n: int) -> Any:
        return self.b.load_atomic(self.place(base, n), "seq_cst", 8)

    def put(self, base: Any, n: int, value: Any) -> None:
        self.b.store_atomic(value, self.place(base, n), "seq_cst", 8)

    def add(self, base: Any, n: int, by: int) -> Any:
        return self.b.atomic_rmw("add", self.place(base, n), self.number(by), "seq_cst")

    def exchanged(self, box: Any, old: Any, new: Any) -> Any:
        """Whether a box held the old value, and has the new one now."""
        return self.b.extract_value(self.b.cmpxchg(self.place(box, 0), old, new, "seq_cst", "seq_cst"), 1)

    def work(self, offer: Any) -> None:
        """Takes pieces of what is offered."""
        function = self.b.inttoptr(self.load(offer, WORK), self.type(3).as_pointer())
        self.b.call(function, [self.load(offer, n) for n in (KERNEL, ARGUMENTS, TAKING)])

    def counted(self, block: Any, before: Any) -> Any:
        """How often a block was entered, where what follows is written."""
        self.b.position_at_end(block)
        count = self.b.phi(self.i64)
        count.add_incoming(self.number(0), before)
        return count

    def clock(self) -> Any:
        """What `patient` is asked about: when one began to wait. None where a clock cannot be read."""
        if "x86" not in self.module.triple:
            return None
        return self.b.call(self.module.declare_intrinsic("llvm.readcyclecounter", (), self.ir.FunctionType(self.i64, [])), [])

    def patient(self, since: Any, looked: Any) -> Any:
        """Whether to go on waiting, after a look."""
        if since is None:
            return self.b.icmp_signed("<", looked, self.number(LOOKS))
        nothing = self.ir.FunctionType(self.ir.VoidType(), [])
        self.b.call(self.module.declare_intrinsic("llvm.x86.sse2.pause", (), nothing), [])
        return self.b.icmp_signed("<", self.b.sub(self.clock(), since), self.number(CYCLES))


def work(triple: str, arguments: int) -> Any:
    """Of a kernel's address, its arguments' and a Taking's. See Note [Convention] in `cpu.lowering`."""
    f = _Body(triple, 3, "ask", "compute", "stop", "end")
    b, ir = f.b, f.ir
    ask, compute, stop, end = f.blocks
    kernel, values, taking = f.function.args
    word = f.i64.as_pointer()
    type = ir.FunctionType(ir.IntType(32), [word, word, *[f.i64] * (arguments + 2)])  # a pointer is passed as an integer is
    called = b.inttoptr(kernel, type.as_pointer())
    result, exception = b.alloca(f.i64), b.alloca(f.i64)
    given = [f.load(values, n) for n in range(arguments)]
    items, pieces = f.load(taking, ITEMS), f.load(taking, PIECES)
    b.branch(ask)
    b.position_at_end(ask)
    piece = f.add(taking, NEXT, 1)
    b.cbranch(b.icmp_signed("<", piece, pieces), compute, end)
    b.position_at_end(compute)
    first, last = (b.udiv(b.mul(items, n), pieces) for n in (piece, b.add(piece, f.number(1))))
    status = b.call(called, [result, exception, *given, first, last])
    answer = b.or_(b.sext(status, f.i64), b.load(result))
    b.cbranch(b.icmp_signed("==", answer, f.number(0)), ask, stop)
    b.position_at_end(stop)
    f.put(taking, ANSWER, answer)
    f.put(taking, NEXT, pieces)
    b.branch(end)
    b.position_at_end(end)
    b.ret_void()
    return f.module


def begin(triple: str) -> Any:
    """Of the own offer, and the addresses of arrays of helpers' boxes and of offers to them, and how many there are."""
    f = _Body(triple, 4, "each", "call", "refused", "next", "own", "back", "revoke", "revoked", "following", "wait", "end")
    b = f.b
    each, call, refused, following, own, back, revoke, revoked, after, wait, end = f.blocks
    mine, boxes, offers, count = f.function.args
    taking = f.load(mine, TAKING)
    start = b.block
    b.branch(each)

    n = f.counted(each, start)
    b.cbranch(b.icmp_signed("<", n, count), call, own)
    b.position_at_end(call)
    f.add(taking, WORKING, 1)
    b.cbranch(f.exchanged(f.load(boxes, n), f.number(LISTENING), f.load(offers, n)), following, refused)
    b.position_at_end(refused)
    f.add(taking, WORKING, -1)
    b.branch(following)
    b.position_at_end(following)
    n.add_incoming(b.add(n, f.number(1)), following)
    b.branch(each)

    b.position_at_end(own)
    f.work(mine)
    b.branch(back)
    n = f.counted(back, own)
    since = f.clock()
    b.cbranch(b.icmp_signed("<", n, count), revoke, wait)
    b.position_at_end(revoke)
    b.cbranch(f.exchanged(f.load(boxes, n), f.load(offers, n), f.number(LISTENING)), revoked, after)
    b.position_at_end(revoked)
    f.add(taking, WORKING, -1)
    b.branch(after)
    b.position_at_end(after)
    n.add_incoming(b.add(n, f.number(1)), after)
    b.branch(back)

    looked = f.counted(wait, back)
    again = b.and_(f.patient(since, looked), b.icmp_signed(">", f.look(taking, WORKING), f.number(0)))
    looked.add_incoming(b.add(looked, f.number(1)), wait)
    b.cbranch(again, wait, end)
    b.position_at_end(end)
    b.ret_void()
    return f.module


def serve(triple: str) -> Any:
    """Of an offer, and of the helper's own box."""
    f = _Body(triple, 2, "compute", "listen", "heard", "offered", "nothing", "end")
    b = f.b
    compute, listen, heard, offered, nothing, end = f.blocks
    given, box = f.function.args
    f.add(f.load(given, TAKING), WORKING, 1)
    start = b.block
    b.branch(compute)

    b.position_at_end(compute)
    offer = b.phi(f.i64)
    offer.add_incoming(given, start)
    taking = f.load(offer, TAKING)
    f.work(offer)
    f.add(taking, WORKING, -1)
    f.put(box, 0, f.number(LISTENING))
    since = f.clock()
    b.branch(listen)

    looked = f.counted(listen, compute)
    patient = f.patient(since, looked)
    said = f.look(box, 0)
    more = b.add(looked, f.number(1))
    looked.add_incoming(more, heard)
    waits = b.icmp_signed("==", said, f.number(LISTENING))
    b.cbranch(b.and_(waits, b.not_(patient)), nothing, heard)
    b.position_at_end(heard)
    b.cbranch(waits, listen, offered)
    b.position_at_end(offered)
    dismissed = b.icmp_signed("==", said, f.number(DISMISSED))
    taken = f.exchanged(box, said, f.number(AWAY))
    offer.add_incoming(said, offered)
    leave = b.append_basic_block("leave")
    b.cbranch(b.and_(taken, b.not_(dismissed)), compute, leave)
    b.position_at_end(leave)
    looked.add_incoming(more, leave)
    b.cbranch(b.and_(taken, dismissed), end, listen)
    b.position_at_end(nothing)
    looked.add_incoming(more, nothing)
    b.cbranch(f.exchanged(box, f.number(LISTENING), f.number(AWAY)), end, listen)
    b.position_at_end(end)
    b.ret_void()
    return f.module


def dismiss(triple: str) -> Any:
    """Of a helper's box."""
    f = _Body(triple, 1)
    f.exchanged(f.function.args[0], f.number(LISTENING), f.number(DISMISSED))
    f.b.ret_void()
    return f.module


def alone(triple: str, arguments: int, head: int) -> Any:
    """Gives what stopped a kernel, or 0. See Note [Alone]."""
    f = _Body(triple, 3, result=True)
    b, ir = f.b, f.ir
    itself, objects, _ = f.function.args
    word, byte = f.i64.as_pointer(), ir.IntType(8)
    table = f.load(b.add(itself, f.number(head)), 0)
    result, exception = b.alloca(f.i64), b.alloca(f.i64)
    b.store(f.number(0), result)
    places = [b.alloca(f.i64) for _ in range(arguments)]
    own = b.ptrtoint(b.alloca(byte, b.add(f.load(table, SCRATCH), f.number(64))), f.i64)
    own = b.and_(b.add(own, f.number(63)), f.number(-64))
    for n, place in enumerate(places):
        kind, value = f.load(table, GIVEN + 2 * n), f.load(table, GIVEN + 2 * n + 1)
        b.store(b.add(value, b.select(b.icmp_signed("==", kind, f.number(BUFFER)), own, f.number(0))), place)
        with b.if_then(b.icmp_signed("==", kind, f.number(OF_ARRAY))):
            b.store(f.load(b.add(f.load(objects, value), f.number(head + DATA)), 0), place)
    type = ir.FunctionType(ir.IntType(32), [word, word, *[f.i64] * (arguments + 2)])
    called = b.inttoptr(f.load(table, CALLED), type.as_pointer())
    status = b.call(called, [result, exception, *map(b.load, places), f.number(0), f.load(table, COUNT)])
    b.ret(f.integer(table, b.or_(b.sext(status, f.i64), b.load(result))))
    return f.module


def alike(triple: str, arrays: int, head: int) -> Any:
    """1, or 0 where an array is another one. See Note [Alone]."""
    f = _Body(triple, 3, "differ", result=True)
    b, ir = f.b, f.ir
    (differ,) = f.blocks
    itself, objects, count = f.function.args
    table = f.load(b.add(itself, f.number(head)), 0)

    def need(holds: Any) -> None:
        following = f.function.append_basic_block("following")
        b.cbranch(holds, following, differ)
        b.position_at_end(following)

    def field(array: Any, at: int, bits: int) -> Any:
        kind = ir.IntType(bits)
        found = b.load(b.inttoptr(b.add(array, f.number(head + at)), kind.as_pointer()))
        return found if bits == 64 else b.zext(found, f.i64)

    need(b.icmp_signed("==", count, f.number(arrays)))
    for n in range(arrays):
        array, known = f.load(objects, n), SHAPES + n * (2 + RANK)
        need(b.icmp_signed("==", f.load(array, head // 8 - 1), f.load(table, KIND)))
        need(b.icmp_signed("==", field(array, DTYPE, 64), f.load(table, known)))
        rank = f.load(table, known + 1)
        need(b.icmp_signed("==", field(array, DIMENSIONS, 32), rank))
        whole = f.number(IN_ONE_PIECE)
        need(b.icmp_signed("==", b.and_(field(array, FLAGS, 32), whole), whole))
        shape, before = field(array, SHAPE, 64), b.block
        each, same, after = (f.function.append_basic_block(name) for name in ("each", "same", "after"))
        b.branch(each)
        at = f.counted(each, before)
        b.cbranch(b.icmp_signed("<", at, rank), same, after)
        b.position_at_end(same)
        need(b.icmp_signed("==", f.load(shape, at), f.load(table, b.add(at, f.number(known + 2)))))
        at.add_incoming(b.add(at, f.number(1)), b.block)
        b.branch(each)
        b.position_at_end(after)
    b.ret(f.integer(table, f.number(1)))
    b.position_at_end(differ)
    b.ret(f.integer(table, f.number(0)))
    return f.module
