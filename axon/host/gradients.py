"""`m.f.grad(…)` and `m.f.value_and_grad(…)`: functions of the language around another, `grad (fn p => f p x) p`, checked beside it.

So sizes, contracts and errors are those of the language, and what a call costs is what the same text would.
"""

from __future__ import annotations

from collections.abc import Sequence

from axon import compiler
from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError
from axon.base.nearest import hint
from axon.host.call import Callee, Session, wrong


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
    key = (operator, callee.name, chosen, isinstance(by, str) or by is None)
    if key not in session.derived:
        session.derived[key] = _made(session, callee, operator, chosen, alone=key[3])
    return session.derived[key]


def _made(session: Session, callee: Callee, operator: str, chosen: tuple[str, ...], *, alone: bool) -> tuple[Session, Callee]:
    source = session.checked.source
    plain = {p.name: p.name if p.name.isidentifier() else f"argument{n}" for n, p in enumerate(callee.parameters, 1)}
    name = f"{callee.name}_{operator}"
    while name in session.checked.signatures:
        name += "'"
    dims = f" {{{' '.join(callee.dimensions)}}}" if callee.dimensions else ""
    passed = f" {{{', '.join(callee.dimensions)}}}" if callee.dimensions else ""
    by = plain[chosen[0]] if alone else f"({', '.join(plain[c] for c in chosen)})"
    given = " ".join(plain.values())
    text = f"{source.text}\n\nfun {name}{dims} {given} = {operator} (fn {by} => {callee.name}{passed} {given}) {by}\n"
    checked = compiler.check_text(text, source.path)
    errors = [d for d in checked.diagnostics if d.severity == "error"]
    if errors:
        raise AxonError(tuple(_reworded(d, callee) for d in errors))
    made = Session(checked)
    return made, made.callee(name)


def _reworded(found: Diagnostic, callee: Callee) -> Diagnostic:
    """An error in a text that the user did not write, told of the function that they named."""
    return wrong(callee, found.code, f"{found.message}, in a derivative of `{callee.name}`", *found.notes).diagnostics[0]
