"""`axon stub model.axon` writes `model.pyi`: what type checkers and editors know of a module that `axon.importer` imports.

NumPy arrays are checked by their element types; shapes and contracts stand in the docstrings. Arrays on a GPU (of PyTorch, CuPy,
JAX) are told apart by the protocol `DeviceArray`, and calls with them give `Any`.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never

from axon.base.data import dataclass, field
from axon.base.element import Element
from axon.host.call import TARGETS
from axon.types import type as t

if TYPE_CHECKING:
    from axon.host.call import Callee, Session
    from axon.types.unify import State

_NUMPY = {
    Element.F64: "np.float64", Element.F32: "np.float32", Element.F16: "np.float16", Element.I64: "np.int64",
    Element.I32: "np.int32", Element.I16: "np.int16", Element.I8: "np.int8", Element.U64: "np.uint64", Element.U32: "np.uint32",
    Element.U16: "np.uint16", Element.U8: "np.uint8", Element.BOOL: "np.bool_",
}  # fmt: skip  # the others are of ml_dtypes, which has no types
_VARIABLES = tuple(f"_{letter}" for letter in "ABCDEFGH")  # of element types; a signature with more of them says Any for the rest
_TAKEN = {"self", "target", "out"}
_IGNORE = "  # type: ignore[override]"
_BUILTINS = ("bool", "dict", "float", "int", "list", "property", "str", "tuple")
_TYPING = ("Any", "Literal", "Never", "Protocol", "TypedDict", "TypeVar", "overload")
_OWN = (*_BUILTINS, *_TYPING, "np", "Function", "NDArray", "DeviceArray", "Target", *_VARIABLES)  # what a stub says besides

HEAD = '''\
"""What {name} declares, for type checkers. Written by `axon stub {name}`: edit that file, and write this one again."""

{imports}

'''
HELPERS = '''\
class DeviceArray(Protocol):
    """An array on a GPU: of PyTorch, CuPy, JAX or Numba."""

    @property
    def __cuda_array_interface__(self) -> Any: ...

Target = Literal[{targets}]
{variables}
'''


def stub(session: Session, path: str) -> str:
    """The stub of a checked module that messages call `path`."""
    declared = set(session.checked.signatures)
    own = _Own(declared)
    writer = _Writer(session.checked.state, own, _names={*declared, *_OWN, *own.renamed.values()})
    bodies = []
    for name in session.checked.signatures:
        if keyword.iskeyword(name):
            continue  # only getattr gets at it
        callee = session.callee(name)
        bodies.append(writer.function(callee) if callee.is_function else writer.value(callee))
    variables = "\n".join(f'{v} = TypeVar("{v}", bound=np.generic)' for v in _VARIABLES[: writer.most])
    targets = ", ".join(f'"{target}"' for target in TARGETS)
    head = HEAD.format(name=path.replace("\\", "/").rpartition("/")[2], imports=own.imports())
    helpers = own(HELPERS.format(targets=targets, variables=variables)).rstrip()
    return "\n\n".join([head + helpers, *writer.records, *bodies]) + "\n"


class _Own:
    """What a stub says besides the module's names, under other names where the module declares them itself."""

    def __init__(self, declared: set[str]) -> None:
        self.renamed: dict[str, str] = {}
        for name in _OWN:
            new = name
            while new in declared or new in self.renamed.values():
                new = f"_{new.lstrip('_')}_" if new == name else f"{new}_"
            if new != name:
                self.renamed[name] = new

    def __call__(self, text: str) -> str:
        """A type, or other text of the stub's, in these names."""
        return re.sub(r"[^\W\d]\w*", lambda match: self.renamed.get(match[0], match[0]), text) if self.renamed else text

    def imports(self) -> str:
        def line(module: str, *names: str) -> str:
            return f"from {module} import " + ", ".join(f"{n} as {self.renamed[n]}" if n in self.renamed else n for n in names)

        lost = [name for name in _BUILTINS if name in self.renamed]
        numpy = f"import numpy as {self('np')}"
        above = [line("builtins", *lost)] if lost else []
        return "\n".join([*above, line("typing", *_TYPING), "", numpy, line("axon", "Function"), line("numpy.typing", "NDArray")])


@dataclass
class _Writer:
    """Words types, and collects the records that they mention."""

    state: State
    own: _Own
    records: list[str] = field(default_factory=list)
    most: int = 0  # element variables of one signature
    _known: dict[object, str] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def value(self, callee: Callee) -> str:
        return f"{callee.name}: {self.own(self._result(callee.scheme.type, callee.name))}"

    def function(self, callee: Callee) -> str:
        """A class with the function's calls, and the function as an instance of it."""
        result = self.state.prune(callee.scheme.type)
        for _ in callee.parameters:
            assert isinstance(result, t.Function)
            result = self.state.prune(result.result)
        self._letters: dict[object, str] = {}
        owner = f"_{callee.name}"
        while owner in self._names or f"{owner}_at" in self._names:
            owner += "_"
        self._names |= {owner, f"{owner}_at"}
        marked = callee.scheme.or_scalar
        types = [self._argument(p.type, f"{callee.name}_{p.name}", n in marked) for n, p in enumerate(callee.parameters)]
        given = self._result(result, f"{callee.name}_result")
        self.most = max(self.most, len(self._letters))
        devices = [self._on_device(p.type) for p in callee.parameters]
        doc = f'    """{_quoted(callee.signature)}"""\n'
        calls = [_call(self.own, callee, types, given)]
        if any("DeviceArray" in device for device in devices):
            on_device = _call(self.own, callee, devices, "Any")
            over = self.own("@overload")
            body = "\n".join(f"    {over}{ignore}\n{call}" for call, ignore in ((calls[0], _IGNORE), (on_device, "")))
        else:
            body = calls[0] + _IGNORE
        base = self.own("Function")
        if not callee.dimensions:
            return f"class {owner}({base}):\n{doc}\n{body}\n\n{callee.name}: {owner}"
        sizes = "int" if len(callee.dimensions) == 1 else f"tuple[{', '.join('int' for _ in callee.dimensions)}]"
        at = f"    def __getitem__(self, sizes: {self.own(sizes)}) -> {owner}_at: ..."
        return f"class {owner}_at({base}):\n{doc}\n{body}\n\nclass {owner}({base}):\n{doc}\n{at}\n\n{callee.name}: {owner}"

    # ── types ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _argument(self, type: t.Type, path: str, or_scalar: bool) -> str:
        """What a caller may pass."""

        def tensor(of: t.Tensor) -> str:
            element = self._element(of.element)
            number = {"f": "float", "i": "int", "b": "bool"}[_kind(of.element)]
            array = f"NDArray[{element}]"
            if not of.shape:
                return f"{number} | {element if element != 'Any' else 'np.generic'} | {array}"
            maybe = f"{number} | " if or_scalar or _may_be_scalar(of) else ""
            return f"{array} | {maybe}list[Any]"

        return self._word(type, path, tensor, "Never")

    def _result(self, type: t.Type, path: str) -> str:
        """What a call gives back."""

        def tensor(of: t.Tensor) -> str:
            if not of.shape:
                return {"f": "float", "i": "int", "b": "bool"}[_kind(of.element)] if isinstance(of.element, Element) else "Any"
            return "Any" if _may_be_scalar(of) else f"NDArray[{self._element(of.element)}]"

        return self._word(type, path, tensor, "Any")

    def _on_device(self, type: t.Type) -> str:
        """What a caller may pass where arrays lie on a GPU."""
        type = self.state.prune(type)
        match type:
            case t.Tensor(shape=shape):
                return "DeviceArray" if shape else "DeviceArray | float"
            case t.TupleType(items=()):
                return "tuple[()]"
            case t.TupleType() | t.RecordType():
                return "Any"
            case _:
                return "Any"

    def _word(self, type: t.Type, path: str, tensor: Callable[[t.Tensor], str], function: str) -> str:
        type = self.state.prune(type)
        match type:
            case t.Tensor():
                return tensor(t.Tensor(type.element, tuple(self.state.shape(type.shape))))
            case t.TupleType(items=items):
                words = [self._word(item, f"{path}_{i}", tensor, function) for i, item in enumerate(items, 1)]
                return f"tuple[{', '.join(words) or '()'}]"
            case t.RecordType(fields=fields):
                return self._record(path, [(name, self._word(item, f"{path}_{name}", tensor, function)) for name, item in fields])
            case t.Exists(body=body):
                return self._word(body, path, tensor, function)
            case t.Function():
                return function
            case t.TypeVar() | t.Poison():
                return "Any"
            case _:
                assert_never(type)

    def _record(self, path: str, fields: list[tuple[str, str]]) -> str:
        """A TypedDict; those with the same fields are one."""
        key = tuple(fields)
        if any(f"{v}]" in word for _, word in fields for v in _VARIABLES):
            return "dict[str, Any]"  # a TypedDict of a variable would have to be generic
        if key not in self._known:
            name = "_" + "".join(part.capitalize() for part in path.replace(" ", "_").split("_"))
            while name in self._names:
                name += "_"
            self._names.add(name)
            self._known[key] = name
            plain = all(not keyword.iskeyword(field) and field not in _OWN for field, _ in fields)
            inner = ", ".join(f'"{field}": {self.own(word)}' for field, word in fields)
            lines = "\n".join(f"    {field}: {self.own(word)}" for field, word in fields) or "    pass"
            base = self.own("TypedDict")
            functional = f'{name} = {base}("{name}", {{{inner}}})'
            self.records.append(f"class {name}({base}):\n{lines}" if plain else functional)
        return self._known[key]

    def _element(self, element: t.ElementType) -> str:
        element = self.state.element(element)
        if isinstance(element, Element):
            return _NUMPY.get(element, "Any")
        if element.symbol not in self._letters:
            if len(self._letters) == len(_VARIABLES):
                return "Any"
            self._letters[element.symbol] = _VARIABLES[len(self._letters)]
        return self._letters[element.symbol]


def _call(own: _Own, callee: Callee, types: list[str], result: str) -> str:
    """`__call__`. Parameters whose names Python cannot write, or that a call uses itself, go by position, as do those before."""
    names = [p.name for p in callee.parameters]
    odd = [i for i, name in enumerate(names) if not name.isidentifier() or keyword.iskeyword(name) or name in _TAKEN]
    last = max(odd, default=-1)
    parameters = ["self"]
    for i, (name, type) in enumerate(zip(names, types, strict=True)):
        default = " = ..." if type == "tuple[()]" else ""
        parameters.append(f"{f'_{i + 1}' if i in odd else name}: {own(type)}{default}")
        if i == last:
            parameters.append("/")
    parameters += ["*", own("target: Target | None = ..."), own("out: Any = ...")]
    return f"    def __call__({', '.join(parameters)}) -> {own(result)}: ..."


def _kind(element: t.ElementType) -> str:
    if not isinstance(element, Element):
        return "f"
    return "f" if element.is_float else "i" if element.is_integer else "b"


def _may_be_scalar(tensor: t.Tensor) -> bool:
    return all(isinstance(item, t.Row) for item in tensor.shape)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
