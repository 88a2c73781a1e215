"""Functions of libdevice that are large: a part of the kernel where it calls them a few times, else one copy that is called.

sin, cos and pow of f32 are some 2,000 bytes of machine code each. A map of 80 sines, of four neighbours at a time, would be 600 KB,
which no instruction cache holds, and which takes the linker 13 s; with one copy it is 35 KB, and a quarter of a second.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.cuda import cgutils

from axon.backend.kernel import llvm
from axon.backend.kernel.llvm import Emit

OFTEN = 64  # calls, above which there is one copy of each
_OWN = "axon_"


def call(b: Any, name: str, arguments: list[Any]) -> Any:
    """A call of libdevice's `__nv_{name}`, through a function of the module's own, of which `settle` decides what becomes."""
    function = b.module.globals.get(_OWN + name)
    if function is None:
        kind = ir.FunctionType(arguments[0].type, [x.type for x in arguments])
        function = ir.Function(b.module, kind, _OWN + name)
        function.linkage = "internal"
        inside = ir.IRBuilder(function.append_basic_block())
        inside.ret(inside.call(cgutils.get_or_insert_function(b.module, kind, f"__nv_{name}"), function.args))
        function.calls = 0
    function.calls += 1
    return b.call(function, arguments)


def apart(b: Any, name: str, emit: Emit, x: Any) -> Any:
    """A call of a function of one float that is seldom called, and never inlined."""
    name = f"seldom_{name}_{llvm.suffix(x)}"
    function = b.module.globals.get(name)
    if function is None:
        function = ir.Function(b.module, ir.FunctionType(x.type, [x.type]), name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        inside = ir.IRBuilder(function.append_basic_block())
        inside.ret(emit(inside, *function.args))
    return b.call(function, [x])


def settle(module: Any) -> None:
    """Say of all such functions of a module that is complete whether they are inlined."""
    own = [function for function in module.functions if function.name.startswith(_OWN)]
    often = sum(function.calls for function in own) > OFTEN
    for function in own:
        function.attributes.add("noinline" if often else "alwaysinline")
