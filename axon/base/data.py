"""Dataclasses that are made in a twentieth of the time: to make some hundreds was half of what a process did before it read a line
of anyone's program.

`dataclass` and its companions are those of the standard library as far as Axon uses them: type checkers see those, and `fields`,
`replace` and `match` treat the classes alike. The standard library compiles six functions for each class, and imports half of what
inspects Python. Here `__init__` is compiled when a class has its first instance, which most never have in a process; the others
are shared by all classes, and which fields they compare is known to a getter in C.

What is frozen is so to type checkers, which see every assignment in Axon. That a process refuses one too, as the standard library
has it, costs each instance two thirds of the time that making it takes, a tenth of compiling a program: it does where AXON_FROZEN
is set, as all tests have it.
"""

from __future__ import annotations

import os
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass", "field", "fields", "is_dataclass", "replace"]

MISSING: Any = object()  # no default
GUARDED = "AXON_FROZEN" in os.environ  # whether assignments to what is frozen are refused

if TYPE_CHECKING:
    from dataclasses import Field, dataclass, field, fields, is_dataclass, replace
    from inspect import Signature
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, kw_only=False):
        """A class with an `__init__` for its annotated attributes, and the other methods that the standard library gives it."""
        return _made(cls, frozen, slots, eq, kw_only) if cls is not None else lambda cls: _made(cls, frozen, slots, eq, kw_only)

    class Field:
        """An attribute of a dataclass, as far as the standard library's functions ask for it."""

        __slots__ = ("compare", "default", "default_factory", "init", "kw_only", "name", "repr", "type")

        def __init__(self, default, default_factory, init, repr, compare, kw_only):
            self.name = self.type = None
            self.default, self.default_factory = default, default_factory
            self.init, self.repr, self.compare, self.kw_only = init, repr, compare, kw_only

        @property
        def _field_type(self):
            from dataclasses import _FIELD  # who asks has imported it

            return _FIELD

    def field(*, default=MISSING, default_factory=MISSING, init=True, repr=True, compare=True, kw_only=MISSING):
        """What stands for an attribute in a class: its default, or what makes it, and where it counts."""
        return Field(default, default_factory, init, repr, compare, kw_only)

    def fields(of):
        """The fields of a dataclass or of an instance, in their order."""
        return tuple(of.__dataclass_fields__.values())

    def is_dataclass(of):
        return hasattr(of if isinstance(of, type) else type(of), "__dataclass_fields__")

    def replace(of, /, **changes):
        """The same but for some fields. Raises TypeError for a name that is no field, ValueError where `__init__` takes none."""
        cls = of.__class__
        made = _replacing.get(cls)
        if made is None:
            made = _replacing[cls] = _replace(cls)
        return made(of, **changes)


def _made(cls: Any, frozen: bool, slots: bool, eq: bool, kw_only: bool) -> Any:
    found = _fields(cls, kw_only)
    methods: dict[str, Any] = {
        "__dataclass_fields__": found, "__match_args__": tuple(f.name for f in found.values() if f.init and not f.kw_only),
        "__init__": _initial(frozen and GUARDED), "__repr__": _repr, "__signature__": _signature,
    }  # fmt: skip
    if frozen:
        methods |= {"__getstate__": _getstate, "__setstate__": _setstate}
    if frozen and GUARDED:
        methods |= {"__setattr__": _frozen, "__delattr__": _frozen}
    if eq:
        compared = tuple(f.name for f in found.values() if f.compare)
        methods |= {"__eq__": _eq(compared), "__hash__": _hash(compared) if frozen else None}
    methods = {name: method for name, method in methods.items() if name not in cls.__dict__}
    if not slots:
        for name, f in found.items():
            if f.default is MISSING and name in cls.__dict__:
                delattr(cls, name)
            elif name in cls.__dict__:
                setattr(cls, name, f.default)
        for name, method in methods.items():
            setattr(cls, name, method)
        return cls
    inherited = {slot for base in cls.__mro__[1:] for slot in base.__dict__.get("__slots__", ())}
    own = {name: value for name, value in cls.__dict__.items() if name not in found and name not in ("__dict__", "__weakref__")}
    made = type(cls)(cls.__name__, cls.__bases__, {**own, **methods, "__slots__": tuple(n for n in found if n not in inherited)})
    made.__qualname__ = cls.__qualname__
    return made


def _fields(cls: Any, kw_only: bool) -> dict[str, Field[Any]]:
    """The fields of a class, those of what it inherits from first."""
    found: dict[str, Field[Any]] = {}
    for base in reversed(cls.__mro__[1:]):
        found |= base.__dict__.get("__dataclass_fields__", {})
    for name, annotation in cls.__dict__.get("__annotations__", {}).items():  # noqa: RUF063 — `inspect` is large
        given = cls.__dict__.get(name, MISSING)
        f: Any = given if isinstance(given, Field) else field(default=given)
        f.name, f.type = name, annotation
        f.kw_only = kw_only if f.kw_only is MISSING else f.kw_only
        found[name] = f
    return found


def _initial(guarded: bool) -> Any:
    """What stands for the `__init__` of a class until it is first called."""

    def __init__(self: Any, *values: Any, **named: Any) -> None:
        cls = next(c for c in type(self).__mro__ if c.__dict__.get("__init__") is __init__)
        made = _init(cls, cls.__dict__["__dataclass_fields__"], guarded)
        type.__setattr__(cls, "__init__", made)
        made(self, *values, **named)

    return __init__


class _Signature:
    """Of a class, what `help` shows: the parameters of its `__init__`."""

    def __get__(self, _: object, cls: Any) -> Signature:
        from inspect import signature

        init = signature(_init(cls, cls.__dataclass_fields__, guarded=False))
        return init.replace(parameters=list(init.parameters.values())[1:])


_signature = _Signature()


def _init(cls: Any, found: dict[str, Field[Any]], guarded: bool) -> Any:
    """`__init__`, from text: of what is in it, names of fields alone are not written here."""
    space: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    lines = []
    positional: list[str] = ["self"]
    keywords: list[str] = []
    for n, f in enumerate(found.values()):
        value = f.name
        if f.default is not MISSING:
            space[f"_default{n}"] = f.default
        if f.default_factory is not MISSING:
            space[f"_make{n}"] = f.default_factory
            value = f"_make{n}() if {f.name} is _missing else {f.name}" if f.init else f"_make{n}()"
        elif not f.init:
            if f.default is MISSING:
                continue
            value = f"_default{n}"
        if f.init:
            default = f" = _default{n}" if f.default is not MISSING else " = _missing" if f.default_factory is not MISSING else ""
            (keywords if f.kw_only else positional).append(f.name + default)
        slot = getattr(getattr(cls, f.name, None), "__set__", None)
        if guarded and slot is not None:
            space[f"_slot{n}"] = slot
            lines.append(f" _slot{n}(self, {value})")
        else:
            lines.append(f" _set(self, {f.name!r}, {value})" if guarded else f" self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append(" self.__post_init__()")
    parameters = ", ".join([*positional, *(["*", *keywords] if keywords else [])])
    exec(f"def __init__({parameters}):\n" + ("\n".join(lines) or " pass"), space)
    made = space["__init__"]
    made.__qualname__, made.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return made


_replacing: dict[Any, Any] = {}  # of each class, what `replace` does with its instances


def _replace(cls: Any) -> Any:
    """A function of an instance and new values for some fields, from text, as `__init__` is."""
    space: dict[str, Any] = {"_cls": cls, "_missing": MISSING}
    # As in `__init__`, those that are given by name alone come last.
    given = sorted((f for f in cls.__dataclass_fields__.values() if f.init), key=lambda f: f.kw_only)
    parameters = ", ".join(["_of", "/", *(["*"] if given else []), *(f"{f.name}=_missing" for f in given)])
    kept = (f"_of.{f.name} if {f.name} is _missing else {f.name}" for f in given)
    passed = ", ".join(f"{f.name}={value}" if f.kw_only else value for f, value in zip(given, kept, strict=True))
    exec(f"def replace({parameters}):\n return _cls({passed})", space)
    made = space["replace"]
    fixed = {name for name, f in cls.__dataclass_fields__.items() if not f.init}
    if not fixed:
        return made

    def checked(of: Any, /, **changes: Any) -> Any:
        if wrong := sorted(fixed & changes.keys()):
            raise ValueError(f"`{wrong[0]}` is no parameter of {cls.__qualname__}")
        return made(of, **changes)

    return checked


def _key(names: tuple[str, ...]) -> Any:
    """What gets the values of some attributes, as a tuple."""
    match names:
        case ():
            return lambda _: ()
        case (name,):
            get = attrgetter(name)
            return lambda value: (get(value),)
        case _:
            return attrgetter(*names)


def _eq(compared: tuple[str, ...]) -> Any:
    key = _key(compared)

    def __eq__(self: Any, other: Any) -> Any:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(compared: tuple[str, ...]) -> Any:
    key = _key(compared)

    def __hash__(self: Any) -> int:
        return hash(key(self))

    return __hash__


@recursive_repr("...")
def _repr(self: Any) -> str:
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({shown})"


def _frozen(self: Any, name: str, *value: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for f, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)
