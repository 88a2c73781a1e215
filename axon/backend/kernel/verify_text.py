"""The names in emitted Python, checked before it is compiled: numba takes a local that no path has assigned for a zero.

In a module's functions every name that is read is a parameter, a name of the module or of its surroundings, or has been assigned on
every way that leads there; and no parameter is assigned, so that it means one thing throughout.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterable, Iterator

from axon.base.passes import FormInvalid

_BUILTINS = frozenset(dir(builtins))


class TextInvalid(FormInvalid):
    """Emitted text uses a name in a way that it must not: a defect of the writer."""


def verify_text(text: str, around: Collection[str] = ()) -> None:
    """Check the module's text; `around` are the globals that it finds when it runs. TextInvalid names the function and the name."""
    try:
        module = ast.parse(text)
    except SyntaxError as error:
        raise TextInvalid(f"the emitted text is no Python: {error}") from None
    known = set(around) | _BUILTINS
    for statement in module.body:
        known |= _bound(statement)
    for statement in module.body:
        if isinstance(statement, ast.FunctionDef):
            _Function(statement, frozenset(known)).check()


def _bound(statement: ast.stmt) -> set[str]:
    """What a statement of a module defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    return set(_stored(statement))


def _stored(node: ast.AST) -> Iterator[str]:
    return (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


class _Function:
    def __init__(self, function: ast.FunctionDef, outside: frozenset[str]) -> None:
        self.function, self.outside = function, outside
        self.parameters = frozenset(a.arg for a in function.args.args)

    def check(self) -> None:
        own = set(_stored(self.function))
        twice = own & self.parameters
        if twice:
            self.fail(f"the parameter {min(twice)!r} is assigned")
        self.own = own
        self.body(self.function.body, set(self.parameters))

    def fail(self, what: str) -> None:
        raise TextInvalid(f"{what}, in the emitted function `{self.function.name}`")

    def body(self, statements: Iterable[ast.stmt], known: set[str]) -> set[str] | None:
        """What is assigned after the statements where it was `known` before; None if nothing comes after them."""
        for statement in statements:
            after = self.statement(statement, known)
            if after is None:
                return None
            known = after
        return known

    def statement(self, statement: ast.stmt, known: set[str]) -> set[str] | None:
        match statement:
            case ast.If(test=test, body=body, orelse=orelse):
                self.reads(test, known)
                ways = [way for part in (body, orelse) if (way := self.body(part, set(known))) is not None]
                return set.intersection(*ways) if ways else None
            case ast.For(target=target, iter=items, body=body):
                self.reads(items, known)
                self.body(body, known | set(_stored(target)))
                return known
            case ast.While(test=test, body=body):
                self.reads(test, known)
                self.body(body, set(known))
                return known
            case ast.FunctionDef(name=name):
                _Function(statement, frozenset(known | self.outside | {name})).check()
                return known | {name}
            case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
                self.reads(statement, known)
                return None
            case ast.AugAssign(target=target):
                if isinstance(target, ast.Name) and target.id not in known:
                    self.fail(f"{target.id!r} is read before it is assigned")
                self.reads(statement, known)
                return known
            case _:
                self.reads(statement, known)
                return known.union(_stored(statement))

    def reads(self, node: ast.AST, known: set[str]) -> None:
        for n in ast.walk(node):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id not in known:
                if n.id in self.own:
                    self.fail(f"{n.id!r} is read before it is assigned")
                if n.id not in self.outside:
                    self.fail(f"{n.id!r} is not defined")
