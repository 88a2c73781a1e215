"""Axon in IPython and Jupyter: `%load_ext axon`.

    %%axon                    cells of declarations; Python calls their functions in the next cell
    fun f x = x + 1.0

    %%axon NAME               a cell that is a module of its own, bound to NAME
    %axon f x + 1.0           the value of an expression, which may use Python's arrays and numbers
    %axon :type f             the prompt's commands

Tab completes both. Cells share one interactive module, as the prompt's inputs do: a new declaration of a name replaces the old
one, also for those that use it. What is wrong is shown as HTML, or as text where there is no HTML, and ends the run of the
notebook there.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.display import display

from axon import compiler
from axon.base import render
from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError
from axon.base.source import SourceFile
from axon.checker.loader import FileLoader
from axon.host import html
from axon.host.module import Function, Module
from axon.tools.prompt import commands
from axon.tools.prompt.completion import Completer
from axon.tools.prompt.interactive import Defined, Evaluated, Interactive

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_PACKAGE = str(Path(__file__).parents[1])


class CellFailed(Exception):
    """A cell's mistakes, which have been shown; its traceback is their headlines."""

    def __init__(self, found: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(found)
        super().__init__(render.render_all(self.diagnostics))

    def _render_traceback_(self) -> list[str]:
        return _headlines(self.diagnostics)


def load_ipython_extension(shell: InteractiveShell) -> None:
    """What `%load_ext axon` calls."""
    magics = AxonMagics(shell)
    shell.register_magics(magics)
    if shell.Completer is not None:
        shell.Completer.custom_matchers.append(magics.names)
    shell.set_custom_exc((AxonError,), _show_error)  # type: ignore[no-untyped-call]


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """What `%unload_ext axon` calls."""
    shell.set_custom_exc((), None)  # type: ignore[no-untyped-call]
    if shell.Completer is not None:
        matchers = shell.Completer.custom_matchers
        matchers[:] = [m for m in matchers if not isinstance(getattr(m, "__self__", None), AxonMagics)]
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("axon", None)


@magics_class
class AxonMagics(Magics):
    """`%axon` and `%%axon`."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._shell = shell
        self.module = Interactive()
        self._completions = Completer()
        self._given: dict[str, Any] = {}  # what was put into Python's name space
        self._away: set[str] = set()  # names that were taken from there, until what they stand for fits again
        self._footprints: dict[str, frozenset[str]] = {}  # of the values among them

    @line_cell_magic
    def axon(self, line: str, cell: str | None = None) -> Any:
        """See the docstring of axon.tools.notebook."""
        try:
            if cell is None:
                return self._line(line.strip())
            if line.strip():
                return self._separate(line.strip(), cell)
            return self._cell(cell)
        except AxonError as error:
            _show(error.diagnostics)
            raise CellFailed(error.diagnostics) from None

    @context_matcher()  # type: ignore[untyped-decorator]
    def names(self, context: CompletionContext) -> SimpleMatcherResult:
        """What can stand where someone is typing Axon; in cells and commands nothing else is offered."""
        before = _typed(context)
        found = self._completions(self.module, before) if before is not None else []
        fragment = before[found[0].start :] if before is not None and found else ""
        items = [SimpleCompletion(text=c.text, type=c.about) for c in found]
        alone = before is not None and (context.full_text.startswith("%%") or commands.is_command(before))
        return SimpleMatcherResult(completions=items, matched_fragment=fragment, suppress=alone, ordered=True)

    def _source(self, text: str) -> SourceFile:
        number = len(self._shell.user_ns.get("In", ())) - 1  # the cell that runs; `execution_count` may be the next one
        return SourceFile(f"<cell {number}>", text)

    def _line(self, text: str) -> Any:
        if not text:
            raise AxonError((Diagnostic("AX0510", "`%axon` is followed by an expression or a command, such as `:help`"),))
        source = self._source(text)
        if commands.is_command(text):
            try:
                said = commands.run(self.module, source)
            except commands.Leave:
                return None
            if isinstance(said, Defined):
                self._defined(said)
            else:
                _publish(said, html.block(html.source(said)))
            return None
        answer = self._enter(source)
        if isinstance(answer, Defined):
            self._defined(answer)
            return None
        _show(answer.warnings)
        return _python(answer.value) if answer.is_value else _publish(*_shown(answer))

    def _cell(self, text: str) -> None:
        for part in compiler.entries(self._source("\n" + text)):  # lines are counted as the cell shows them: `%%axon` is the first
            answer = self._enter(part)
            if isinstance(answer, Defined):
                self._defined(answer)
            else:
                _show(answer.warnings)
                _publish(*_shown(answer))

    def _separate(self, name: str, text: str) -> None:
        """A cell that is a module of its own."""
        if not name.isidentifier():
            raise AxonError((Diagnostic("AX0510", f"`%%axon {name}`: `{name}` is not a name for a module"),))
        checked = compiler.check(FileLoader({name: "\n" + text}), name)
        _show([d for d in checked.diagnostics if d.severity == "warning"])
        if not checked.ok:
            raise AxonError(tuple(d for d in checked.diagnostics if d.severity == "error"))
        module = Module(checked, name)
        self._shell.user_ns[name] = module
        _publish(repr(module), html.signatures(checked.signatures, f"module {name}"))

    def _enter(self, source: SourceFile) -> Defined | Evaluated:
        """Declarations, or an expression, which may name Python's values."""
        refused = self._take(source) if compiler.entry(source).kind == "expression" else {}
        try:
            return self.module.enter(source)
        except AxonError as error:
            unknown = [d.span.text for d in error.diagnostics if d.code == "AX0401" and d.span is not None]
            raise next((refused[name] for name in unknown if name in refused), error) from None

    def _take(self, source: SourceFile) -> dict[str, AxonError]:
        """Bind the Python values that an expression names; a declaration of the name wins. What is wrong with the others."""
        refused: dict[str, AxonError] = {}
        for name in self.module.mentioned(source):
            value = self._shell.user_ns.get(name)
            if name in self.module.signatures or name in self.module.modules or value is None or callable(value):
                continue
            if isinstance(value, Module):
                continue
            try:
                self.module.bind(name, value)
            except AxonError as error:
                refused[name] = error
        return refused

    def _defined(self, answer: Defined) -> None:
        """Show what became of declarations, and put it into Python's name space."""
        _show(answer.warnings)
        names = dict(line.split(" : ", 1) for line in answer.lines if " : " in line)
        if answer.lines:
            _publish("\n".join(answer.lines), html.block("\n".join(map(html.line, answer.lines))))
        for note in answer.notes:
            _publish(note, html.paragraph(note))
        if answer.broken:
            text = "What was declared before no longer fits, and cannot be used until it does:"
            _publish(text, html.paragraph(text))
            _show(answer.broken)
        self._give(set(names))

    def _give(self, new: set[str]) -> None:
        """Functions as Functions, values as Python values; also those of former cells, unless Python has rebound their names."""
        space, session = self._shell.user_ns, self.module.session
        for name in {*self._given} - {*self.module.signatures}:
            given = self._given.pop(name)
            if space.get(name) is given:
                del space[name]
                self._away.add(name)
        self._away -= space.keys()  # which Python has bound since
        for name in self.module.signatures:
            mine = name in self._away or (name in self._given and space.get(name) is self._given[name])
            if name not in new and not mine:
                continue
            self._away.discard(name)
            callee = session.callee(name)
            if callee.is_function:
                space[name] = self._given[name] = Function(session, callee)
            elif name in new or self._footprints.get(name) != self.module.footprint(name):
                space[name] = self._given[name] = session.call(callee, ())
                self._footprints[name] = self.module.footprint(name)


def _typed(context: CompletionContext) -> str | None:
    """The Axon before the cursor; None where something else is being typed."""
    *above, _ = context.full_text.split("\n")[: context.cursor_line + 1]
    before = context.line_with_cursor[: context.cursor_position]
    if above and above[0].split()[:1] == ["%%axon"]:
        return "\n".join([*above[1:], before])
    head, magic, rest = before.partition("%axon ")
    return rest.lstrip() if magic and not head.strip() else None


def _python(value: Any) -> Any:
    """A value as a call from Python gives it: scalars as numbers."""
    from axon.host.values import number

    if isinstance(value, tuple):
        return tuple(map(_python, value))
    if isinstance(value, dict):
        return {name: _python(item) for name, item in value.items()}
    return number(value)


def _shown(answer: Evaluated) -> tuple[str, str]:
    from axon.host.show_value import show

    text = show(answer.value) if answer.is_value else f"fn : {answer.type}"
    return text, html.block(html.source(text))


# ── showing ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _publish(text: str, as_html: str) -> None:
    display({"text/plain": text, "text/html": as_html}, raw=True)  # type: ignore[no-untyped-call]


def _show(found: Iterable[Diagnostic]) -> None:
    known = tuple(found)
    if known:
        _publish(render.render_all(known), html.diagnostics(known))


def _headlines(found: Iterable[Diagnostic]) -> list[str]:
    return [f"{d.severity}[{d.code}]: {d.message}" + (f" ({d.span})" if d.span is not None else "") for d in found]


def _show_error(
    shell: InteractiveShell, kind: type[BaseException], error: AxonError, trace: TracebackType | None, tb_offset: int | None = None
) -> None:
    """An error of a call from Python: Python's own frames, without Axon's, and the diagnostics as they are shown elsewhere."""
    _show(error.diagnostics)
    short = type(kind.__name__, (Exception,), {})("\n".join(_headlines(error.diagnostics)))
    lines = shell.InteractiveTB.structured_traceback(type(short), short, _without_axon(trace), tb_offset=tb_offset)
    shell._showtraceback(type(short), short, lines)


def _without_axon(trace: TracebackType | None) -> TracebackType | None:
    """A traceback up to the frame that called Axon."""
    frame, last = trace, trace
    while frame is not None:
        if not frame.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            last = frame
        elif last is not None and last is not frame:
            break
        frame = frame.tb_next
    if last is not None:
        last.tb_next = None
    return trace
