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
_OWN = (
    *_BUILTINS,
    *_TYPING,
    "np",
    "Sequence",
    "Function",
    "Model",
    "NDArray",
    "DeviceArray",
    "Target",
    *_VARIABLES,
)  # what a stub says besides

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
    models: dict[str, list[str]] = {}
    for name in session.checked.signatures:
        model, dot, function = name.partition(".")
        if dot:
            models.setdefault(model, []).append(function)
    bodies += [writer.model(name, functions) for name, functions in models.items()]
    variables = "\n".join(f'{v} = TypeVar("{v}", bound=np.generic)' for v in _VARIABLES[: writer.most])
    targets = ", ".join(f'"{target}"' for target in TARGETS)
    head = HEAD.format(name=path.replace("\\", "/").rpartition("/")[2], imports=own.imports(bool(models)))
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

    def imports(self, models: bool) -> str:
        def line(module: str, *names: str) -> str:
            return f"from {module} import " + ", ".join(f"{n} as {self.renamed[n]}" if n in self.renamed else n for n in names)

        lost = [name for name in _BUILTINS if name in self.renamed]
        numpy = f"import numpy as {self('np')}"
        above = [line("builtins", *lost)] if lost else []
        own = [line("collections.abc", "Sequence"), line("typing", *_TYPING)]
        return "\n".join([*above, *own, "", numpy, line("axon", "Function", *["Model"] * models), line("numpy.typing", "NDArray")])


@dataclass
class _Writer:
    """Words types, and collects the records that they mention."""

    state: State
    own: _Own
    records: list[str] = field(default_factory=list)
    most: int = 0  # element variables of one signature
    _known: dict[object, str] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)
    owners: dict[str, str] = field(default_factory=dict)  # the class of each function

    def value(self, callee: Callee) -> str:
        return f"{callee.name}: {self.own(self._result(callee.scheme.type, callee.name))}"

    def function(self, callee: Callee) -> str:
        """A class with the function's calls, and the function as an instance of it; before it those of its derivatives."""
        owner = f"_{_plain(callee.name)}"
        while owner in self._names or f"{owner}_at" in self._names:
            owner += "_"
        self._names |= {owner, f"{owner}_at"}
        doc = f'    """{_quoted(callee.signature)}"""\n'
        before, methods = self._derivatives(callee, owner)
        body = "\n\n".join([*methods, self._calls(callee)])
        base = self.own("Function")
        if not callee.dimensions:
            return "\n\n".join([*before, f"class {owner}({base}):\n{doc}\n{body}{self._named(callee.name, owner)}"])
        sizes = "int" if len(callee.dimensions) == 1 else f"tuple[{', '.join('int' for _ in callee.dimensions)}]"
        at = f"    def __getitem__(self, sizes: {self.own(sizes)}) -> {owner}_at: ..."
        both = f"class {owner}_at({base}):\n{doc}\n{body}\n\nclass {owner}({base}):\n{doc}\n{at}{self._named(callee.name, owner)}"
        return "\n\n".join([*before, both])

    def _named(self, name: str, owner: str) -> str:
        """A function of a model is an attribute of that, which stands at the end."""
        self.owners[name] = owner
        return "" if "." in name else f"\n\n{name}: {owner}"

    def model(self, name: str, functions: list[str]) -> str:
        """A class with a model's functions, and the model as an instance of it."""
        owner = f"_{name}"
        while owner in self._names:
            owner += "_"
        self._names.add(owner)
        attributes = "\n".join(f"    {f}: {self.owners[f'{name}.{f}']}" for f in functions)
        return f"class {owner}({self.own('Model')}):\n{attributes}\n\n{name}: {owner}"

    def _derivatives(self, callee: Callee, owner: str) -> tuple[list[str], list[str]]:
        """Of a function that gives a number: a class for each parameter that holds floats, and the methods that give these."""
        result = self._pruned_result(callee)
        if not isinstance(result, t.Tensor) or self.state.shape(result.shape) or not self._holds_floats(callee, result):
            return [], []
        value, base = self._result(result, callee.name), self.own("Function")
        classes, choices = list[str](), dict[str, list[str]]()
        for n, parameter in enumerate(callee.parameters):
            if not self._holds_floats(callee, parameter.type):
                continue
            for operator, of in (("grad", ""), ("value_and_grad", value)):
                name = f"{owner}_{operator}_{n + 1}"
                while name in self._names:
                    name += "_"
                self._names.add(name)
                classes.append(f"class {name}({base}):\n{self._calls(callee, n, of)}")
                wanted = self.own(f'Literal["{parameter.name}"]') + (self.own(" | None = ...") if n == 0 else "")
                choices.setdefault(operator, []).append(f"    def {operator}(self, wrt: {wanted}) -> {name}: ...")
        methods = []
        for operator, found_by in choices.items():
            other = self.own("str | Sequence[str] | None = ...")
            calls = [*found_by, f"    def {operator}(self, wrt: {other}) -> {base}: ..."]
            over = self.own("@overload")
            methods.append("\n".join(f"    {over}\n{call}" for call in calls))
        return classes, methods

    def _pruned_result(self, callee: Callee) -> t.Type:
        result = self.state.prune(callee.scheme.type)
        for _ in callee.parameters:
            assert isinstance(result, t.Function)
            result = self.state.prune(result.result)
        return result

    def _holds_floats(self, callee: Callee, type: t.Type) -> bool:
        """Whether there is a derivative by a value of this type, as far as its type says."""
        type = self.state.prune(type)
        match type:
            case t.Tensor():
                element = self.state.element(type.element)
                allowed = {element} if isinstance(element, Element) else dict(callee.scheme.elements).get(element.symbol, ())
                return any(e.is_float for e in allowed)
            case t.TupleType(items=items):
                return any(self._holds_floats(callee, item) for item in items)
            case t.RecordType(fields=fields):
                return any(self._holds_floats(callee, item) for _, item in fields)
            case _:
                return False

    def _calls(self, callee: Callee, by: int | None = None, value: str = "") -> str:
        """`__call__` of a function, or of its derivative by a parameter; with a `value`, of what gives that beside it."""
        self._letters: dict[object, str] = {}
        marked = callee.scheme.or_scalar if by is None else frozenset()  # what could be a number is none of a derivative's
        types = [self._argument(p.type, f"{callee.name}_{p.name}", n in marked) for n, p in enumerate(callee.parameters)]
        type = self._pruned_result(callee) if by is None else callee.parameters[by].type
        given = self._result(type, f"{callee.name}_result" if by is None else f"{callee.name}_by_{callee.parameters[by].name}")
        given = f"tuple[{value}, {given}]" if value else given
        self.most = max(self.most, len(self._letters))
        devices = [self._on_device(p.type) for p in callee.parameters]
        calls = [_call(self.own, callee, types, given)]
        if any("DeviceArray" in device for device in devices):
            on_device = _call(self.own, callee, devices, "Any")
            over = self.own("@overload")
            return "\n".join(f"    {over}{ignore}\n{call}" for call, ignore in ((calls[0], _IGNORE), (on_device, "")))
        return calls[0] + _IGNORE

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
            name = "_" + "".join(part.capitalize() for part in _plain(path).replace(" ", "_").split("_"))
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


def _plain(name: str) -> str:
    """The name of a model's function as one that Python can write."""
    return name.replace(".", "_")


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
