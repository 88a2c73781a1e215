"""The dataclasses of Axon against those of the standard library: nothing but the time to make them differs."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import pytest

from axon.base import data

OPTIONS = [
    {"frozen": frozen, "slots": slots, "eq": eq, "kw_only": kw_only}
    for frozen in (False, True)
    for slots in (False, True)
    for eq in (False, True)
    for kw_only in (False, True)
]


def family(make: Callable[..., Any], **options: bool) -> dict[str, Any]:
    """Classes of every kind that Axon has."""
    field = data.field if make is data.dataclass else dataclasses.field

    @make(**options)
    class Empty:
        pass

    @make(**options)
    class One:
        """A documented one."""

        x: int

    @make(**options)
    class Full:
        x: int
        y: str = "y"
        z: list[int] = field(default_factory=list)
        hidden: int = field(default=7, repr=False, compare=False)
        made: int = field(init=False, default=0)
        code: int = field(init=False, repr=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "code", self.x + 1)

        @property
        def double(self) -> int:
            return self.x * 2

    @make(**options)
    class Base:
        span: int = field(compare=False, repr=False, kw_only=True)

    @make(**options)
    class Child(Base):
        left: object
        right: object = None

    @make(**options)
    class Own:
        x: int
        y: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.x == other.x

        def __hash__(self) -> int:
            return self.x

        def __repr__(self) -> str:
            return f"<{self.x}>"

    return {cls.__name__: cls for cls in (Empty, One, Full, Base, Child, Own)}


MADE: dict[str, list[Callable[[dict[str, Any]], Any]]] = {
    "Empty": [lambda c: c["Empty"]()],
    "One": [lambda c: c["One"](x=1), lambda c: c["One"](x=1), lambda c: c["One"](x=[2])],
    "Full": [lambda c: c["Full"](x=1), lambda c: c["Full"](x=1, y="z", z=[3], hidden=9), lambda c: c["Full"](x=1, hidden=8)],
    "Child": [lambda c: c["Child"](left=1, span=3), lambda c: c["Child"](left=1, right=None, span=4)],
    "Own": [lambda c: c["Own"](x=1, y=2), lambda c: c["Own"](x=1, y=3)],
}


RAISED = object()


def outcome(work: Callable[[], object]) -> object:
    try:
        return work()
    except (AttributeError, TypeError, ValueError):  # FrozenInstanceError is the first
        return RAISED


def said(field: Any) -> list[object]:
    """What either kind of field says of an attribute; a list that is made anew is as good as another."""
    known = [None if value in (data.MISSING, dataclasses.MISSING) else value for value in (field.default, field.default_factory)]
    return [field.name, field.type, *known, field.init, field.repr, field.compare, field.kw_only]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_same_as_the_standard_library(options: dict[str, bool]) -> None:
    ours, theirs = family(data.dataclass, **options), family(dataclasses.dataclass, **options)
    for name, makers in MADE.items():
        a, b = ours[name], theirs[name]
        assert [said(f) for f in dataclasses.fields(a)] == [said(f) for f in dataclasses.fields(b)]
        assert data.fields(a) == dataclasses.fields(a)
        assert all(dataclasses.is_dataclass(c) and data.is_dataclass(c) for c in (a, b))
        assert a.__match_args__ == b.__match_args__
        assert a.__qualname__ == b.__qualname__
        assert getattr(a, "__slots__", None) == getattr(b, "__slots__", None)
        assert str(inspect.signature(a)).count(",") == str(inspect.signature(b)).count(",")
        values = [[make(classes) for make in makers] for classes in (ours, theirs)]
        for one, other in zip(*values, strict=True):
            if options["eq"] or name == "Own":
                assert repr(one) == repr(other)
            assert outcome(partial(hash, one)) == outcome(partial(hash, other)) or not options["eq"]
            assert [one == x for x in values[0]] == [other == x for x in values[1]]
            assert one != other
            for work in (
                lambda v: setattr(v, "x", 5) or v.x,
                lambda v: delattr(v, "x"),
                lambda v: repr(dataclasses.replace(v, x=3)),
                lambda v: repr(data.replace(v, x=3) if type(v) in ours.values() else dataclasses.replace(v, x=3)),
                lambda v: repr(data.replace(v, made=3) if type(v) in ours.values() else dataclasses.replace(v, made=3)),
                lambda v: repr(dataclasses.asdict(v)),
                lambda v: v.double,
                lambda v: repr(type(v)(1, 2, 3, 4, 5, 6, 7)),
                lambda v: repr(type(v)()),
                lambda v: repr(type(v)(nothing=1)),
            ):
                kinds = [outcome(partial(work, copy.copy(v))) for v in (one, other)]
                assert kinds[0] == kinds[1]


@data.dataclass(frozen=True, slots=True)
class Kept:
    x: int
    inner: Kept | None = None


@data.dataclass(frozen=True)
class Cached:
    x: int

    @cached_property
    def square(self) -> int:
        return self.x**2


def test_pickled_copied_matched() -> None:
    value = Kept(1, Kept(2))
    assert pickle.loads(pickle.dumps(value)) == value == copy.deepcopy(value)
    match value:
        case Kept(1, Kept(x=x)):
            assert x == 2
        case _:
            raise AssertionError(value)
    assert Cached(3).square == 9
    assert data.is_dataclass(value)
    loop: list[Any] = []
    loop.append(Kept(1, loop))  # type: ignore[arg-type]
    assert repr(loop[0]) == "Kept(x=1, inner=[...])" or "..." in repr(loop[0])


def test_who_has_not_asked_pays_for_no_guard() -> None:
    """Nothing refuses an assignment then; all else is the same, and what is not frozen has no hash."""
    program = """if True:
        from axon.base import data
        made = data.dataclass(frozen=True, slots=True)(type("Made", (), {"__annotations__": {"x": int}}))
        value = made(x=1)
        value.x = 2
        assert (hash(value), value, repr(value)) == (hash((2,)), made(2), "Made(x=2)")
    """
    environment = {name: value for name, value in os.environ.items() if name != "AXON_FROZEN"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_one_function_is_compiled_for_a_class_at_its_first_instance() -> None:
    events: list[object] = []
    running = True
    sys.addaudithook(lambda name, _: events.append(name) if running and name == "compile" else None)
    made = family(data.dataclass, frozen=True, slots=True)
    assert not events
    for name, makers in MADE.items():
        for make in makers:
            make(made)
        assert (name, len(events)) == (name, list(MADE).index(name) + 1)
    running = False


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_signatures_are_those_of_the_standard_library(options: dict[str, bool]) -> None:
    """Before the first instance, and after it."""
    ours, theirs = family(data.dataclass, **options), family(dataclasses.dataclass, **options)
    for name, makers in [*MADE.items(), *MADE.items()]:
        found = [inspect.signature(classes[name]).parameters.values() for classes in (ours, theirs)]
        shown = [[(p.name, p.kind, p.default is p.empty) for p in parameters] for parameters in found]
        assert shown[0] == shown[1]
        makers[0](ours)


def test_a_class_that_adds_no_field_is_made_by_its_base() -> None:
    class Inner(Cached):
        pass

    assert Inner(2).square == 4
    assert Cached(2).square == 4
