"""A barrier program reduced to what decides the order of its operations: kernels that differ in nothing else share one proof.

What its elements are computed by, how far its axes go and what its symbols are called makes no difference to who waits for whom.
The proof is about what is left here and sees nothing else, so that whatever has the same skeleton is proved with it.
"""

from __future__ import annotations

from typing import Any

from axon.backend.gpu.roles.barriers import BarrierProgram
from axon.base.data import fields, is_dataclass, replace
from axon.base.element import Element
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.base.source import Span
from axon.core.ir import Binary, Bind, Const, Convert, Index, Local, Read, Select, Unary
from axon.shapes.dimension import Dim

_ZERO = Const(0.0, Element.F32)
_NOTHING = Dim.of(0)


def skeleton(program: BarrierProgram) -> BarrierProgram:
    """Scalars, extents and places in a text are replaced, symbols named by their order. Equal ones have equal proofs."""
    names: dict[Symbol, Symbol] = {}
    done: IdentityMap[object, Any] = IdentityMap()  # rings and tiles stand in many operations

    def bare(part: Any) -> Any:
        match part:
            case Symbol():
                return names.setdefault(part, Symbol("", -1 - len(names)))  # equal to none that a program has
            case Const() | Index() | Local() | Read() | Unary() | Binary() | Select() | Convert() | Bind():
                return _ZERO
            case Dim():
                return _NOTHING
            case Span():
                return None
            case tuple():
                return tuple(map(bare, part))
            case frozenset():
                return frozenset(map(bare, part))
            case _ if is_dataclass(part):
                if part not in done:
                    kind: Any = type(part)
                    done[part] = kind(**{f.name: bare(getattr(part, f.name)) for f in fields(part) if f.init})
                return done[part]
            case _:
                return part

    own = replace(program, tensors=(), derived=(), whole=(), bounds=None, stores=(), views=(), promoted=(), segments=None, pages=())
    made: BarrierProgram = bare(own)
    return made
