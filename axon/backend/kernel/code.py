"""A kernel being written: statements one after the other, and names as they are needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from axon.backend.kernel.ir import (
    Assign,
    Body,
    Comment,
    Do,
    Expression,
    For,
    Function,
    If,
    Item,
    Kind,
    Like,
    Name,
    Return,
    Several,
    Statement,
    While,
    call,
    lift,
)
from axon.backend.kernel.tidy import tidied
from axon.backend.kernel.verify import verify
from axon.base.data import replace
from axon.base.passes import verifying


class Code:
    """Writes a function's statements. `names` are all that were made for it."""

    def __init__(self) -> None:
        self.names: list[Name] = []
        self._fixed: dict[str, Name] = {}
        self._open: list[list[Statement]] = [[]]

    @property
    def body(self) -> Body:
        """What is written of the block that is open."""
        return tuple(self._open[-1])

    # ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def made(self, name: Name) -> Name:
        self.names.append(name)
        return name

    def name(self, stem: str = "v") -> Name:
        """A new variable, called as its stem with a number."""
        return self.made(Name(stem, Kind.NUMBERED))

    def named(self, like: str, of: Name | None = None) -> Name:
        """A new variable or parameter, called like that."""
        return self.made(Name(like, of=of))

    def local(self, text: str) -> Name:
        """The one variable of the function that is called so, made where it is first asked for."""
        if text not in self._fixed:
            self._fixed[text] = self.made(Name(text, Kind.FIXED))
        return self._fixed[text]

    @property
    def bad(self) -> Name:
        """Whether the program must stop. See Note [Failures] in `writer`."""
        return self.local("bad")

    def function(self, name: str, parameters: Sequence[Name], note: str = "") -> Function:
        """What was written as a function, verified, and without what nothing needs. KernelInvalid for a defect of the writer."""
        made = Function(name, tuple(parameters), self.body, tuple(self.names), note=note)
        with verifying("emit"):
            verify(made)
        return tidied(made)

    # ── statements ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, statement: Statement) -> None:
        self._open[-1].append(statement)

    def extend(self, body: Iterable[Statement]) -> None:
        self._open[-1].extend(body)

    def assign(self, target: Name | Item | Several, value: Like, note: str = "") -> None:
        self.write(Assign(target, lift(value), note))

    def let(self, value: Like, stem: str = "v") -> Name:
        """A new variable with this value."""
        name = self.name(stem)
        self.assign(name, value)
        return name

    def call(self, function: str | Name, *arguments: Like, note: str = "") -> None:
        self.write(Do(call(function, *arguments), note))

    def comment(self, text: str) -> None:
        self.write(Comment(text))

    def give(self, value: Like) -> None:
        self.write(Return(lift(value)))

    # ── blocks ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def aside(self) -> Iterator[list[Statement]]:
        """What is written inside is held, to be put somewhere later."""
        held: list[Statement] = []
        self._open.append(held)
        yield held
        self._open.pop()

    @contextmanager
    def when(self, condition: Expression, note: str = "") -> Iterator[None]:
        with self.aside() as body:
            yield
        self.write(If(condition, tuple(body), (), note))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """What is done where the condition of the statement just written does not hold."""
        with self.aside() as body:
            yield
        before = self._open[-1].pop()
        assert isinstance(before, If)
        self.write(replace(before, otherwise=tuple(body)))

    @contextmanager
    def loop(self, name: Name, *bounds: Like) -> Iterator[None]:
        """A loop over `range(*bounds)`."""
        with self.aside() as body:
            yield
        self.write(For(name, tuple(map(lift, bounds)), tuple(body)))

    @contextmanager
    def repeat(self, condition: Expression, note: str = "") -> Iterator[None]:
        """A loop for as long as a condition holds."""
        with self.aside() as body:
            yield
        self.write(While(condition, tuple(body), note))
