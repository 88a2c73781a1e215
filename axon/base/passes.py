"""Passes: what makes one form of a program from another. What a pass makes is verified before anyone sees it, in every run.

A form that breaks a rule of its own is a defect of the pass that made it, and would become wrong numbers somewhere behind it. So a
pass is a function together with the verifier of its form: who calls the one has called the other. `PASSES` are those that the
modules read so far define; `axon.pass_table` lists which run for which target, and in what order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class FormInvalid(Exception):
    """A form breaks a rule of its own: a defect of the compiler, never of the user's source. `after` is the pass that made it."""

    after: str = ""

    def __str__(self) -> str:
        said = super().__str__()
        return f"after `{self.after}`: {said}" if self.after else said


def require(holds: bool, rule: str) -> None:
    """For verifiers: what is wrong where it does not hold. Unlike `assert` it is there in every run, also under `python -O`."""
    if not holds:
        raise FormInvalid(rule)


@contextmanager
def verifying(name: str) -> Iterator[None]:
    """While a form is verified that this pass has made."""
    try:
        yield
    except FormInvalid as error:
        error.after = error.after or name
        raise
    except (RecursionError, MemoryError):
        raise
    except Exception as error:  # a form that is so broken that it cannot even be walked
        broken = FormInvalid(f"{type(error).__name__}: {error}")
        broken.after = name
        raise broken from error


class Pass(Generic[P, R]):
    """A pass by the name that an error gives it, between two forms. `verify` takes what `run` made, and then what `run` took."""

    def __init__(self, name: str, run: Callable[P, R], verify: Callable[..., None], takes: str, gives: str) -> None:
        self.name, self.run, self.verify, self.takes, self.gives = name, run, verify, takes, gives
        update_wrapper(self, run)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        made = self.run(*args, **kwargs)
        with verifying(self.name):
            self.verify(made, *args, **kwargs)
        watcher = _watcher.get()
        if watcher is not None:
            watcher.append((self.name, made))
        return made

    def __repr__(self) -> str:
        return f"<pass {self.name}>"


PASSES: dict[str, Pass[Any, Any]] = {}


def verified(
    name: str, verify: Callable[..., None], takes: str = "core", gives: str = "core"
) -> Callable[[Callable[P, R]], Pass[P, R]]:
    """Makes a function a pass of that name."""

    def made(run: Callable[P, R]) -> Pass[P, R]:
        PASSES[name] = found = Pass(name, run, verify, takes, gives)
        return found

    return made


_watcher: ContextVar[list[tuple[str, Any]] | None] = ContextVar("watcher", default=None)


@contextmanager
def watched() -> Iterator[list[tuple[str, Any]]]:
    """The passes that run meanwhile, each with what it made, in the order in which they end."""
    seen: list[tuple[str, Any]] = []
    token = _watcher.set(seen)
    try:
        yield seen
    finally:
        _watcher.reset(token)
