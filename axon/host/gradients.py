"""Functions of the language around another, checked beside it: `m.f.grad(…)` is `grad (fn p => f p x) p`.

So sizes, contracts and errors are those of the language, and what a call costs is what the same text would. What libraries ask that
pass derivatives on (see `recorded`) takes and gives tensors alone: of records and tuples, their leaves, one parameter each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from axon import compiler
from axon.base.data import dataclass
from axon.base.errors import AxonError
from axon.base.nearest import hint
from axon.host.call import Callee, Origin, Session, wrong

Tree: TypeAlias = "int | tuple[Tree, ...] | dict[str, Tree]"  # a structure of leaves, which are numbers from 0


def derived(session: Session, callee: Callee, operator: str, by: str | Sequence[str] | None) -> tuple[Session, Callee]:
    """`grad` or `value_and_grad` of a function by one parameter, or by several as a tuple; by the first, if none is named.

    Raises AxonError for a parameter that there is not, and where there is no derivative.
    """
    names = [p.name for p in callee.parameters]
    if not names:
        raise wrong(callee, "AX0505", f"`{callee.name}` has no parameters to differentiate by")
    chosen = (names[0],) if by is None else (by,) if isinstance(by, str) else tuple(by)
    for name in chosen:
        if name not in names:
            raise wrong(callee, "AX0505", f"`{callee.name}` has no parameter `{name}`{hint(name, names)}")
    if not chosen or len({*chosen}) < len(chosen):
        raise wrong(callee, "AX0505", f"`{callee.name}` is differentiated by one parameter, or by several different ones")
    plain = {name: name if name.isidentifier() else f"argument{n}" for n, name in enumerate(names, 1)}
    alone = isinstance(by, str) or by is None
    given, first = " ".join(plain.values()), plain[chosen[0]]
    x = first if alone else f"({', '.join(plain[c] for c in chosen)})"
    return _beside(session, callee, operator, given, f"{operator} (fn {x} => {_CALL} {given}) {x}")


@dataclass(frozen=True, slots=True)
class Flat:
    """A function at one form of its arguments, as what takes their leaves and gives those of its result.

    `arguments` has a tree for each parameter; of its leaves, the element types and ranks are `leaves`. The text says their ranks,
    so that no scalar is taken to be as large as what it stands for. `result` are the paths of the result's leaves, `.y.1`, and
    `open` the element types and ranks of those whose sizes only the data decide.
    """

    session: Session
    callee: Callee
    arguments: tuple[Tree, ...]
    leaves: tuple[tuple[str, int], ...]
    result: tuple[str, ...]
    open: dict[int, tuple[str, int]]

    def pullback(self, by: Sequence[int], of: Sequence[int]) -> tuple[Session, Callee]:
        """The function of all leaves, and the adjoints of some of the result's, that gives the adjoints of some leaves."""
        return self._moved("vjp", by, of, of, {n: self._sized(n) for n in of if n in self.open})

    def pushforward(self, by: Sequence[int], of: Sequence[int]) -> tuple[Session, Callee]:
        """The function of all leaves, and the tangents of some, that gives the tangents of some of the result's."""
        return self._moved("jvp", by, of, by, {})

    def mapped(self, over: Iterable[int]) -> tuple[Session, Callee]:
        """The function of all leaves, some of which have a dimension before theirs, that gives the result's with one before."""
        i, over = f"{self._own}i", frozenset(over)
        rows = {n: f"{self._leaf(n)}[{i}, ..]" if self.leaves[n][1] else f"{self._leaf(n)}[{i}]" for n in over}
        body = f"for {i} => {self._called(rows, range(len(self.result)), {})}"
        suffix = f"mapped_{_numbers(sorted(over))}"
        return _beside(self.session, self.callee, suffix, self._parameters(over), body, words="in a batched call of")

    def _moved(
        self, operator: str, by: Sequence[int], of: Sequence[int], moved: Sequence[int], types: dict[int, str]
    ) -> tuple[Session, Callee]:
        """`vjp` or `jvp` by some leaves, of some of the result; `moved` are numbers of what else it takes, some of known types."""
        x, dx = _tuple(map(self._leaf, by)), {n: f"{self._own}d{n}" for n in moved}
        given = [self._parameters(()), *(f"({name} : {types[n]})" if n in types else name for n, name in dx.items())]
        call = f"{operator} (fn {x} => {self._called({}, of, types)}) {x} {_tuple(dx.values())}"
        body = f"let val (_, {self._own}found) = {call} in {self._own}found end"
        return _beside(self.session, self.callee, f"{operator}_{_numbers(by)}_of_{_numbers(of)}", " ".join(given), body)

    @property
    def _own(self) -> str:
        """How the names of this text begin: nothing that it mentions begins so."""
        own = "x"
        while self.callee.name.startswith(own):
            own += "_"
        return own

    def _sized(self, number: int) -> str:
        """The type of the adjoint of a result of open sizes: those of the adjoint, which the result is found to have."""
        element, rank = self.open[number]
        return f"{element}[{', '.join(f'{self._own}n{number}_{axis}' for axis in range(rank))}]"

    def _leaf(self, number: int) -> str:
        return f"{self._own}{number}"

    def _parameters(self, larger: Iterable[int]) -> str:
        scalars = {n for n, (_, rank) in enumerate(self.leaves) if not rank}.difference(larger)
        names = map(self._leaf, range(len(self.leaves)))
        return " ".join(f"({x} : {self.leaves[n][0]})" if n in scalars else x for n, x in enumerate(names))

    def _called(self, instead: dict[int, str], of: Sequence[int], types: dict[int, str]) -> str:
        """The function applied to its arguments, with something instead of some leaves; some leaves of the result, as types say."""
        z, ranks = f"{self._own}z", sorted({rank for _, rank in self.leaves if rank})
        same = [f"fun {z}{rank} ({z} : '{z}[{', '.join(f'{z}{n}' for n in range(rank))}]) = {z}" for rank in ranks]

        def text(tree: Tree) -> str:
            match tree:
                case int():
                    rank = self.leaves[tree][1]
                    return instead.get(tree, f"({z}{rank} {self._leaf(tree)})" if rank else self._leaf(tree))
                case tuple():
                    return f"({', '.join(map(text, tree))})"
                case dict():
                    return f"{{ {', '.join(f'{name} = {text(item)}' for name, item in tree.items())} }}"

        y = f"{self._own}y"
        bound = " ".join([*same, f"val {y} =", _CALL, *map(text, self.arguments)])
        results = {n: f"{y}{self.result[n]}" for n in of}
        return f"let {bound} in {_tuple(f'({x} as {types[n]})' if n in types else x for n, x in results.items())} end"


def _numbers(found: Iterable[int]) -> str:
    return "_".join(map(str, found))


def _tuple(items: Iterable[str]) -> str:
    first, *rest = items
    return f"({', '.join([first, *rest])})" if rest else first


_CALL = "\0"  # where a text applies the function that it is made of, and gives it its dimension parameters


def _beside(
    session: Session, callee: Callee, suffix: str, given: str, body: str, words: str = "in a derivative of"
) -> tuple[Session, Callee]:
    """A function in a module that has all the declarations of another, as a session of its own; made once."""
    key = (callee.name, suffix, given, body)
    if key not in session.derived:
        session.derived[key] = _made(session, callee, suffix, given, body, words)
    return session.derived[key]


def _made(session: Session, callee: Callee, suffix: str, given: str, body: str, words: str) -> tuple[Session, Callee]:
    source, taken = session.checked.source, session.checked.signatures

    def own(name: str) -> str:
        while name in taken:
            name += "_"
        return name

    dims = f" {{{', '.join(callee.dimensions)}}}" if callee.dimensions else ""
    plain = callee.name.replace(".", "_")
    called, name, text = callee.name, own(f"{plain}_{suffix}"), source.text
    if called in given.split():  # a parameter that is called as the function is
        xs = " ".join(f"x_{n}" for n in range(len(callee.parameters)))
        called = own(f"{plain}_itself")
        text += f"\n\nfun {called}{dims} {xs} = {callee.name}{dims} {xs}\n"
    text += f"\n\nfun {name}{dims} {given} = {body.replace(_CALL, called + dims)}\n"
    checked = compiler.check_text(text, source.path)
    errors = [d for d in checked.diagnostics if d.severity == "error"]
    whose, end = (session.origin.callee, session.origin.end) if session.origin else (callee, len(source.text))
    made = Session(checked, Origin(whose, f", {words} `{whose.name}`", source.path, end), session.chip)
    if errors:
        raise made.told(AxonError(tuple(errors)), name)
    return made, made.callee(name)
