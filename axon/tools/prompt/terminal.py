"""The terminal of the prompt: editing over several lines, history, colours, completion, and types while one types.

The only module that knows prompt_toolkit. While text is being typed, a thread checks it, and the bottom line shows its type or what
is wrong; nothing is run before Enter.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import Completer, ThreadedCompleter
from prompt_toolkit.completion import Completion as Completed
from prompt_toolkit.document import Document
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus, is_searching, to_filter
from prompt_toolkit.formatted_text import FormattedText, to_formatted_text
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import BufferControl, Window, walk
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.lexers import Lexer, PygmentsLexer, SimpleLexer
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.search import accept_search
from prompt_toolkit.styles import Style, merge_styles
from prompt_toolkit.styles.pygments import style_from_pygments_cls
from pygments import highlight
from pygments.formatters import TerminalFormatter
from pygments.styles import get_style_by_name

from axon import compiler
from axon.base.data import dataclass
from axon.base.errors import AxonError
from axon.base.render import visible
from axon.base.source import SourceFile
from axon.host.lexer import AxonLexer
from axon.tools.prompt import commands
from axon.tools.prompt.completion import Completer as Completions
from axon.tools.prompt.interactive import Interactive

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent

    from axon.host.call import Session

PROMPT, MORE = "axon> ", "  ... "
_OPENERS = ("=", "=>", "let", "in", "then", "else", "(", "[", "[|", "{", ",")
_PAUSE = 0.1  # seconds without a key before what is typed is checked
_STYLE = Style.from_dict({
    "prompt": "bold ansigreen",
    "more": "ansibrightblack",
    "bottom-toolbar": "noreverse ansibrightblack",
    "wrong": "ansired",
    "mistake": "underline ansired",
})  # fmt: skip


def coloured(text: str) -> str:
    """Text of Axon's with escape codes for colours."""
    return str(highlight(text, AxonLexer(stripnl=False, ensurenl=False), TerminalFormatter())).rstrip("\n")


class Terminal:
    """Reads entries; `module` gives the interactive module as it is now."""

    def __init__(self, module: Callable[[], Interactive]) -> None:
        self.live = Live(module)
        plain = bool(os.environ.get("NO_COLOR"))
        style = _STYLE if plain else merge_styles([style_from_pygments_cls(get_style_by_name("default")), _STYLE])
        self.session: PromptSession[str] = PromptSession(
            FormattedText([("class:prompt", PROMPT)]),
            multiline=True,
            prompt_continuation=lambda width, line, wrapped: FormattedText([("class:more", "" if wrapped else MORE)]),
            history=_history(),
            auto_suggest=AutoSuggestFromHistory(),
            lexer=_Colours(),
            style=style,
            include_default_pygments_style=False,
            color_depth=ColorDepth.DEPTH_1_BIT if plain else None,
            completer=ThreadedCompleter(_Names(module)),
            complete_while_typing=False,
            key_bindings=_keys(),
            input_processors=[_Mistakes(self.live)],
            bottom_toolbar=self._toolbar,
            enable_open_in_editor=True,
            enable_suspend=True,
            tempfile_suffix=".axon",
        )
        for window in walk(self.session.layout.container):  # the bottom line stands below the text, not below the screen
            if isinstance(window, Window) and isinstance(window.content, BufferControl):
                window.dont_extend_height = to_filter(True)

    def read(self) -> str:
        """What is entered next. Raises KeyboardInterrupt and EOFError."""
        return self.session.prompt()

    def _toolbar(self) -> Any:
        seen = self.live.about(self.session.default_buffer.text)
        return FormattedText([("class:wrong" if seen.wrong else "", visible(seen.text)[:2_000])])


def _history() -> History:
    """What was entered, also in former sessions where a file can be kept."""
    from platformdirs import user_state_path

    path = Path(os.environ.get("AXON_HISTORY") or user_state_path("axon") / "history")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab"):
            pass
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


class _Colours(Lexer):
    """Axon in colours; commands as they are."""

    def __init__(self) -> None:
        self._axon, self._plain = PygmentsLexer(AxonLexer, sync_from_start=True), SimpleLexer()

    def lex_document(self, document: Document) -> Callable[[int], Any]:
        return (self._plain if commands.is_command(document.text) else self._axon).lex_document(document)


class _Names(Completer):
    def __init__(self, module: Callable[[], Interactive]) -> None:
        self.module = module
        self._completions = Completions()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completed]:
        before = document.text_before_cursor
        for found in self._completions(self.module(), before):
            yield Completed(found.text, start_position=found.start - len(before), display_meta=found.about[:60])


# ── keys ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _keys() -> KeyBindings:
    keys = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)

    @keys.add("enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        elif _is_done(buffer.document):
            buffer.validate_and_handle()
        else:
            _new_line(event)

    @keys.add("enter", filter=is_searching)
    def _(event: KeyPressEvent) -> None:
        accept_search()
        event.current_buffer.cursor_position = len(event.current_buffer.text)  # so that Enter hands over what was found

    @keys.add("escape", "enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        _new_line(event)

    return keys


def _is_done(document: Document) -> bool:
    """Whether Enter hands the text over: it is complete, or its last line is empty; and it is one line, or the cursor is at its
    end."""
    text = document.text
    if "\n" in text.strip() and document.text_after_cursor.strip():
        return False
    if commands.is_command(text) or not text.strip():
        return True
    try:
        return not document.current_line.strip() or not compiler.entry(SourceFile("<input>", text)).begun
    except AxonError:
        return True


def _new_line(event: KeyPressEvent) -> None:
    buffer = event.current_buffer
    line = buffer.document.current_line_before_cursor
    deeper = line.split()[-1:] and line.split()[-1] in _OPENERS
    buffer.insert_text("\n" + line[: len(line) - len(line.lstrip())] + ("  " if deeper else ""))


# ── types while one types ───────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is to say of a text, and where in it something is wrong."""

    text: str
    wrong: tuple[int, int] | None = None


_NOTHING = Seen("")


class Live:
    """Checks the text being typed in a thread of its own, the newest alone."""

    def __init__(self, module: Callable[[], Interactive]) -> None:
        self.module = module
        self._changed = Condition()
        self._wanted: tuple[str, Any] | None = None
        self._known: tuple[str, Session | None, Seen] = ("", None, _NOTHING)
        self._thread: Thread | None = None

    def about(self, text: str) -> Seen:
        """What is known of a text; if nothing is yet, it will be, and the screen is drawn again."""
        known, session, seen = self._known
        if known == text and session is self.module().session:
            return seen
        if self._thread is None:
            self._thread = Thread(target=self._run, daemon=True, name="axon-live")
            self._thread.start()
        with self._changed:
            self._wanted = (text, get_app())
            self._changed.notify()
        return Seen(seen.text) if seen.wrong is None and text.startswith(known) and known else _NOTHING

    def known(self, text: str) -> Seen:
        """What is known of a text. Nothing is asked for: the text on the screen may be another, that a search has found."""
        known, _, seen = self._known
        return seen if known == text else _NOTHING

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._wanted is None:
                    self._changed.wait()
                while True:  # wait for a pause in the typing
                    wanted, self._wanted = self._wanted, None
                    if not self._changed.wait(_PAUSE) or self._wanted is None:
                        break
            text, app = wanted
            module = self.module().snapshot()
            self._known = (text, module.session, about(module, text))
            app.invalidate()


def about(module: Interactive, text: str) -> Seen:
    """The type of what is typed, or what is wrong with it; nothing while it is only begun."""
    try:
        if not text.strip():
            return _NOTHING
        if commands.is_command(text):
            return Seen(commands.command_of(text.split()[0].rstrip("!")).usage)
        source = SourceFile("<input>", text)
        if compiler.entry(source).begun:
            return _NOTHING
        parts = compiler.entries(source)
        return Seen(" · ".join(module.describe(part).replace("\n", " · ") for part in parts[:1]))
    except AxonError as error:
        first = error.diagnostics[0]
        span = first.span
        inside = span is not None and span.file.path == "<input>"
        place = (span.start, max(span.end, span.start + 1)) if span is not None and inside else (0, 0)
        return Seen(f"{first.message} [{first.code}]", place)
    except Exception:  # what is typed is checked again when it is entered, and a defect of Axon's is reported then
        return _NOTHING


class _Mistakes(Processor):
    """Underlines where something is wrong."""

    def __init__(self, live: Live) -> None:
        self.live = live

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        given = transformation_input
        seen = self.live.known(given.document.text)
        if seen.wrong is None:
            return Transformation(given.fragments)
        start = given.document.translate_row_col_to_index(given.lineno, 0)
        fragments = explode_text_fragments(to_formatted_text(given.fragments))
        low, high = (given.source_to_display(max(edge - start, 0)) for edge in seen.wrong)
        if seen.wrong[1] > start:
            for i in range(low, min(high, len(fragments))):
                fragments[i] = (f"{fragments[i][0]} class:mistake", fragments[i][1])
        return Transformation(fragments)
