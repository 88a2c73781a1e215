"""The command line. Diagnostics and results go to standard output, progress to standard error.

Exit status: 0 if all is well, 1 if something is wrong with a program, a call or a file, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from axon import compiler
from axon.base.diagnostics import Diagnostic, counted
from axon.base.errors import AxonError
from axon.base.output import save_arrays, write_text
from axon.base.progress import progress
from axon.checker.loader import SUFFIX, FileLoader, library_modules, stdlib_root
from axon.tools import usage
from axon.tools.commands import listing
from axon.tools.commands.batch import check_files, files_of
from axon.tools.commands.listing import require_name, require_stage, the_function, types_in

if TYPE_CHECKING:
    from axon.checker.module import CheckedModule
    from axon.tools.usage import Command

# What writing to standard output meets on a device that is full or broken.
_CANNOT_WRITE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # rendered diagnostics are drawn with characters that ASCII lacks
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    parser = usage.parser(_COMMANDS)
    if "_ARGCOMPLETE" in os.environ:  # a shell asks, and goes on without us
        from axon.tools.commands.completion import answer

        answer(parser)
    arguments, rest = parser.parse_known_args(argv)
    if rest:  # argparse takes no positional arguments after an option that follows some; `axon run f.axon --seed 1 x=2` has them
        if not hasattr(arguments, "arguments") or any(text.startswith("-") for text in rest):
            parser.error("unrecognized arguments: " + " ".join(rest))
        arguments.arguments += rest
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        status = _guarded(command, arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.errno not in _CANNOT_WRITE:
            raise
        with suppress(OSError):
            print(f"axon: cannot write: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in its buffer goes nowhere
        return 1
    except KeyboardInterrupt:
        return 130


def _guarded(command: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    try:
        return command(arguments)
    except AxonError as error:
        return _report(error.diagnostics, getattr(arguments, "format", "text"))
    except (BrokenPipeError, KeyboardInterrupt, Warning):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _CANNOT_WRITE and error.filename is None:  # of no file that has a name
            raise
        if os.environ.get("AXON_DEBUG"):
            raise
        return _report([compiler.internal_error(error, f"running `axon {arguments.name}`")], getattr(arguments, "format", "text"))


def _report(diagnostics: Sequence[Diagnostic], format: str = "text") -> int:
    """Print diagnostics; the exit status they ask for."""
    if diagnostics or format == "json":
        from axon.base import render

        if format == "json":
            print(render.to_json(diagnostics))
        else:
            render.write(diagnostics, sys.stdout)
    return int(any(d.severity == "error" for d in diagnostics))


def _note(text: str) -> None:
    print(text, file=sys.stderr)


# ── commands ────────────────────────────────────────────────────────────────────────────────────────────────────────────


_STDIN = "<stdin>"  # what messages call it
_MANY = 500  # files take a while


def _standard_input() -> str:
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")


def _check(arguments: argparse.Namespace) -> int:
    paths = [_STDIN if path in ("-", "/dev/stdin") else path for path in arguments.paths]
    files = files_of(paths, lambda path: _note(f"looking for {SUFFIX} files in `{path}`"))
    if len(files) > _MANY and arguments.format == "text":
        _note(f"checking {counted(len(files), 'file')}")
    report = check_files(files, {_STDIN: _standard_input()} if _STDIN in paths else None)
    status = _report(report.diagnostics, arguments.format)
    if arguments.format == "text":
        _note(report.summary)
    return status


def _sig(arguments: argparse.Namespace) -> int:
    given = _split(arguments.path)
    path, name = _of_library(*given)
    checked = _checked(path)
    types = types_in(checked.source)
    if name is None and path != given[0]:  # of the library: who asks has not written them
        print("".join(f"{text}\n" for text in types.values()), end="")
    for wanted in [name] if name is not None else list(checked.signatures):
        if wanted in types and wanted not in checked.signatures:
            print(types[wanted])
            continue
        require_name(checked, path, wanted)
        print(f"sig {wanted} : {checked.signatures[wanted]}")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from axon.host.call import Session
    from axon.host.command_arguments import parse_arguments

    if arguments.out and not arguments.out.endswith((".npy", ".npz")):
        note = "one array is written to a .npy file, several to a .npz file"
        raise AxonError((Diagnostic("AX0508", f"`--out {arguments.out}` ends in neither .npy nor .npz", notes=(note,)),))
    path, name = _split(arguments.path)
    if arguments.chip is not None:
        compiler.chip(arguments.chip)
    session = Session(_checked(path), chip=arguments.chip)
    callee = the_function(session, path, name)

    def parsed(*, look: bool) -> tuple[list[Any], dict[str, Any]]:
        given = parse_arguments(arguments.arguments, arguments.seed, look=look)
        return [given.pop(size) for size in callee.dimensions if size in given], given

    session.example(callee, *parsed(look=True))  # what does not fit is refused before files are read, and random numbers drawn
    sizes, given = parsed(look=False)
    with progress(f"computing {callee.name}"):
        result = session.call(callee, sizes, (), given, arguments.target, numbers=False)
    if arguments.out:
        save_arrays(arguments.out, result)
        _note(f"wrote {arguments.out}")
    else:
        from axon.host.show_value import show

        print(show(result))
    return 0


def _emit(arguments: argparse.Namespace) -> int:
    if arguments.stages:
        print(_passes(arguments), end="")
        return 0
    require_stage(arguments.stage)
    if arguments.path is None:
        arguments.refuse("the following arguments are required: PATH[:NAME]")
    path, name = _split(arguments.path)
    if arguments.stage == "ast" and name is not None and "." in name:
        checked = _checked(path)
        require_name(checked, path, name)
        text = listing.made_of(checked, name)
    elif arguments.stage == "ast":
        source = FileLoader().read(path)
        if isinstance(source, Diagnostic):
            raise AxonError((source,))
        text = listing.syntax_of(source, name)
    else:
        checked = _checked(path)
        if arguments.stage == "types":
            if name is not None:
                require_name(checked, path, name)
            text = listing.types_of(checked, name)
        else:
            from axon.host.call import Session

            session = Session(checked, chip=arguments.chip)
            callee = the_function(session, path, name)
            with progress(f"making the {arguments.stage} of {callee.name}"):
                text = listing.stage_of(session, callee, arguments.stage, arguments.arguments)
    if text:
        print(text)
    return 0


def _passes(arguments: argparse.Namespace) -> str:
    """The passes that run for each target; with a path, what each makes of a function."""
    if arguments.path is None:
        return compiler.passes(None)
    from axon.host.call import Session

    path, name = _split(arguments.path)
    session = Session(_checked(path), chip=arguments.chip)
    callee = the_function(session, path, name)
    with progress(f"running the passes of {callee.name}"):
        return listing.passes_of(session, callee, arguments.arguments)


def _fmt(arguments: argparse.Namespace) -> int:
    if arguments.paths == ["-"]:
        from axon.base.source import SourceFile

        text = _standard_input()
        formatted = compiler.format_text(SourceFile(_STDIN, text))
        if arguments.check:
            return int(formatted != text)
        sys.stdout.write(formatted)
        return 0
    status = 0
    loader = FileLoader()
    for file in files_of(arguments.paths):
        source = loader.read(file)
        if isinstance(source, Diagnostic):
            status |= _report([source])
            continue
        try:
            formatted = compiler.format_text(source)
        except AxonError as error:
            status |= _report(error.diagnostics)
            continue
        if formatted == source.text:
            continue
        if arguments.check:
            print(f"{file} is not formatted")
            status = 1
        else:
            write_text(Path(file), formatted)
            _note(f"formatted {file}")
    return status


def _test(arguments: argparse.Namespace) -> int:
    from axon.tools.commands.doctest import run_file

    loader = FileLoader()
    passed, failed, failures = 0, 0, list[Diagnostic]()
    files = files_of(arguments.paths)
    with progress("testing", len(files)) as step:
        for file in files:
            outcome = run_file(loader, file, arguments.target)
            passed, failed = passed + outcome.passed, failed + outcome.failed
            failures += outcome.failures
            step()
    status = _report(failures, arguments.format)
    if arguments.format == "text":
        _note(f"{counted(passed, 'test')} passed, {failed:,} failed")
    return status


def _explain_shapes(path: str, name: str | None) -> int:
    from axon.checker.derivation import derivation

    checked = _checked(path)
    if name is not None:
        require_name(checked, path, name)
    with progress("deriving sizes"):
        text = "\n\n".join(derivation(checked, n) for n in ([name] if name is not None else checked.signatures))
    print(text)
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    if ":" in arguments.code or arguments.code.endswith(SUFFIX):
        from axon.host.call import Session

        path, name = _split(arguments.code)
        if arguments.shapes:
            return _explain_shapes(path, name)
        session = Session(_checked(path), chip=arguments.chip)
        callee = the_function(session, path, name)
        if arguments.mesh is not None or arguments.shard is not None:
            from axon.tools.commands.meshes import on_mesh

            with progress(f"sharing {callee.name}"):
                link, wide = arguments.link, arguments.wide_sums
                told = on_mesh(session, callee, arguments.mesh, arguments.shard, arguments.arguments, link, wide)
            print(told)
            return 0
        phase = partial(compiler.explain, schedule=session.schedule(callee), measure=arguments.measure, name=session.chip)
        with progress(f"explaining {callee.name}"):
            told = listing.of_kernels(session, callee, arguments.arguments, phase)
        print(told)
        return 0
    text = "\n\n".join(listing.code_page(code).rstrip() for code in (arguments.code, *arguments.arguments))
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        print(text.rstrip())
    return 0


def _solve(arguments: argparse.Namespace) -> int:
    from axon.host.call import Session
    from axon.tools.commands.solve import solve

    path, name = _split(arguments.path)
    session = Session(_checked(path))
    callee = the_function(session, path, name)
    with progress(f"solving for {callee.name}"):
        found = solve(session, callee, arguments.arguments)
    if found.why is not None:
        return _report(found.why.diagnostics)
    print(found)
    return int(not found)


def _build(arguments: argparse.Namespace) -> int:
    from axon.host.build import build
    from axon.host.call import Session
    from axon.tools.commands.solve import elements_of, question

    path, name = _split(arguments.path)
    session = Session(_checked(path))
    callee = the_function(session, path, name)
    asked = question(session, callee, arguments.arguments)
    with progress(f"building {callee.name}"):
        made = build(
            session,
            callee,
            arguments.out or arguments.name or callee.name,
            asked.given,
            asked.ranks,
            asked.shapes,
            elements_of(arguments.elements),
            name=arguments.name,
            cpu=arguments.cpu,
            target=arguments.target,
            torch=arguments.torch,
            at=[question(session, callee, text.split(",")).given for text in arguments.sizes],
        )
    for file in made.files:
        _note(f"wrote {file}")
    if arguments.target == "cuda" and not arguments.sizes:
        _note("its kernels are for all sizes, without tensor cores: --sizes adds the fastest ones for sizes of yours")
    if made.deciding and not asked.given:
        sizes = ", ".join(f"{symbol.name}=…" for symbol in made.deciding)
        _note(f"sums of products are multiplied in the order that is best in the mean: {sizes} chooses that for sizes of yours")
    return 0


def _bench(arguments: argparse.Namespace) -> int:
    from axon.host.call import Session
    from axon.tools.commands import peer, timings
    from axon.tools.commands.bench import How, bench

    if arguments.plot is not None and not arguments.plot.endswith(".svg"):
        raise AxonError((Diagnostic("AX0508", f"`--plot {arguments.plot}` does not end in .svg"),))
    path, name = _split(arguments.path)
    session = Session(_checked(path))
    callee = the_function(session, path, name)
    against = peer.load(arguments.against, callee.name) if arguments.against is not None else None
    how = How(arguments.seed, arguments.target, arguments.arrays, against, arguments.seconds)
    rows = bench(session, callee, arguments.arguments, how)
    if arguments.format == "json":
        print(timings.as_json(rows))
    else:
        timings.show(rows)
    if arguments.plot is not None:
        write_text(Path(arguments.plot), timings.plot(rows, arguments.path))
        _note(f"wrote {arguments.plot}")
    return 0


def _new(arguments: argparse.Namespace) -> int:
    from axon.tools.commands.new import create

    for file in create(Path(arguments.path)):
        _note(f"wrote {file}")
    return 0


def _playground(arguments: argparse.Namespace) -> int:
    from axon.tools.playground.building import build

    with progress("writing the playground"):
        build(Path(arguments.path), Path(arguments.packages) if arguments.packages else None)
    _note(f"wrote {arguments.path}; python -m http.server -d {arguments.path} serves it at http://localhost:8000")
    return 0


def _completion(arguments: argparse.Namespace) -> int:
    from axon.tools.commands.completion import script

    print(script(arguments.shell), end="")
    return 0


def _refuse_program(out: str | None, source: str) -> None:
    """Raises AxonError where the place to write to is that of a program: sources are not overwritten."""
    if out is None or out == "-":
        return
    if os.path.splitext(out)[1].lower() == SUFFIX or os.path.realpath(out) == os.path.realpath(source):
        note = "give the file to write another name: a program is not overwritten"
        raise AxonError((Diagnostic("AX0408", f"`--out {out}` names a program", notes=(note,)),))


def _view(arguments: argparse.Namespace) -> int:
    from axon.host.call import Session
    from axon.tools.view.model import model_page, the_graph, the_model
    from axon.tools.view.page import page

    path, name = _split(arguments.path)
    _refuse_program(arguments.out, path)
    checked = _checked(path)
    model = the_model(checked, name)
    if model is not None:
        called = [*arguments.arguments, *["--measure"] * arguments.measure]
        shown, analysis = the_graph(checked, model, called)
        if arguments.text:
            print(shown)
            return 0
        text = model_page(checked, shown, analysis)
    else:
        session = Session(checked, chip=arguments.chip)
        callee = the_function(session, path, name)
        model = callee.name
        if arguments.text:
            note = "`axon emit --stage core` prints the operations of a function"
            raise AxonError((Diagnostic("AX0507", f"`{model}` is no model, and `--text` prints the graph of one", notes=(note,)),))
        with progress(f"drawing {model}"):
            seed = arguments.seed if arguments.measure else None
            text = page(session, callee, arguments.arguments, arguments.target, seed)
    out = arguments.out or f"{model}.html"
    write_text(Path(out), text)
    _note(f"wrote {out}")
    if arguments.open:
        import webbrowser

        webbrowser.open(Path(out).resolve().as_uri())
    return 0


def _stub(arguments: argparse.Namespace) -> int:
    from axon.host.call import Session
    from axon.tools.commands.stub import stub

    _refuse_program(arguments.out, arguments.path)
    session = Session(_checked(arguments.path))
    with progress("writing types"):
        text = stub(session, arguments.path)
    if arguments.out == "-":
        sys.stdout.write(text)
        return 0
    out = arguments.out or str(Path(arguments.path).with_suffix(".pyi"))
    write_text(Path(out), text)
    _note(f"wrote {out}")
    return 0


def _import(arguments: argparse.Namespace) -> int:
    from axon.tools.onnx.importing import imported

    out = Path(arguments.out or Path(arguments.path).with_suffix(SUFFIX).name)
    if out.suffix != SUFFIX:
        raise AxonError((Diagnostic("AX0408", f"`{out}` does not end in {SUFFIX}, as programs do"),))
    for file in (out, out.with_suffix(".safetensors")):
        if file.exists():  # it may have been edited since
            note = "remove it first, or give another name with -o"
            raise AxonError((Diagnostic("AX0408", f"`{file}` is there already", notes=(note,)),))
    with progress(f"importing {arguments.path}"):
        beside = imported(arguments.path, out.stem).save(out)
    _note(f"wrote {out} and {beside}")
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from axon.tools.commands import doctor

    found = doctor.examine()
    print(doctor.as_json(found) if arguments.format == "json" else doctor.page(found))
    return 0


def _watch(arguments: argparse.Namespace) -> int:
    from axon.tools.commands.watch import watch

    watch(arguments.paths)
    return 0


def _repl(arguments: argparse.Namespace) -> int:
    from axon.tools.prompt import repl

    return repl.main(arguments.paths)


def _lsp(arguments: argparse.Namespace) -> int:
    from axon.base import extras

    extras.require("pygls", "lsp", "`axon lsp`")
    from axon.tools.lsp import process

    return process.run()


# ── what the commands share ─────────────────────────────────────────────────────────────────────────────────────────────


def _checked(path: str) -> CheckedModule:
    with progress(f"checking {path}"):
        checked = compiler.check(FileLoader(), path)
    if not checked.ok:
        raise AxonError(checked.diagnostics)
    return checked


def _split(text: str) -> tuple[str, str | None]:
    """`PATH[:NAME]`; a file whose own name has a colon wins."""
    path, colon, name = text.rpartition(":")
    if not colon or os.path.exists(text) or not all(map(str.isidentifier, name.split("."))):
        return text, None
    return path, name


def _of_library(path: str, name: str | None) -> tuple[str, str | None]:
    """A module of the standard library by its name, and with that of a declaration behind it: `tensor.top`."""
    module, _, member = path.partition(".")
    if os.path.exists(path) or module not in library_modules():
        return path, name
    return str(stdlib_root() / f"{module}.axon"), member or name


_COMMANDS: dict[str, Command] = {
    "check": _check,
    "sig": _sig,
    "run": _run,
    "emit": _emit,
    "fmt": _fmt,
    "test": _test,
    "explain": _explain,
    "solve": _solve,
    "build": _build,
    "bench": _bench,
    "doctor": _doctor,
    "view": _view,
    "repl": _repl,
    "watch": _watch,
    "import": _import,
    "stub": _stub,
    "new": _new,
    "playground": _playground,
    "completion": _completion,
    "lsp": _lsp,
}
