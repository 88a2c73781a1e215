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

from axon import __version__, compiler
from axon.base.diagnostics import Diagnostic, counted
from axon.base.errors import AxonError
from axon.base.output import save_arrays, write_text
from axon.checker.loader import SUFFIX, FileLoader, library_modules, stdlib_root
from axon.tools.commands import listing
from axon.tools.commands.batch import check_files, files_of
from axon.tools.commands.listing import STAGES, require_name, require_stage, the_function, types_in

if TYPE_CHECKING:
    from axon.checker.module import CheckedModule

# What writing to standard output meets on a device that is full or broken.
_CANNOT_WRITE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # rendered diagnostics are drawn with characters that ASCII lacks
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    parser = _parser()
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
    session = Session(_checked(path))
    callee = the_function(session, path, name)

    def parsed(*, look: bool) -> tuple[list[Any], dict[str, Any]]:
        given = parse_arguments(arguments.arguments, arguments.seed, look=look)
        return [given.pop(size) for size in callee.dimensions if size in given], given

    session.example(callee, *parsed(look=True))  # what does not fit is refused before files are read, and random numbers drawn
    sizes, given = parsed(look=False)
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
    if arguments.stage == "ast":
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

            session = Session(checked)
            text = listing.stage_of(session, the_function(session, path, name), arguments.stage, arguments.arguments)
    if text:
        print(text)
    return 0


def _passes(arguments: argparse.Namespace) -> str:
    """The passes that run for each target; with a path, what each makes of a function."""
    if arguments.path is None:
        return compiler.passes(None)
    from axon.host.call import Session

    path, name = _split(arguments.path)
    session = Session(_checked(path))
    return listing.passes_of(session, the_function(session, path, name), arguments.arguments)


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
    for file in files_of(arguments.paths):
        outcome = run_file(loader, file, arguments.target)
        passed, failed = passed + outcome.passed, failed + outcome.failed
        failures += outcome.failures
    status = _report(failures, arguments.format)
    if arguments.format == "text":
        _note(f"{counted(passed, 'test')} passed, {failed:,} failed")
    return status


def _explain_shapes(path: str, name: str | None) -> int:
    from axon.checker.derivation import derivation

    checked = _checked(path)
    if name is not None:
        require_name(checked, path, name)
    print("\n\n".join(derivation(checked, n) for n in ([name] if name is not None else checked.signatures)))
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    if ":" in arguments.code or arguments.code.endswith(SUFFIX):
        from axon.host.call import Session

        path, name = _split(arguments.code)
        if arguments.shapes:
            return _explain_shapes(path, name)
        session = Session(_checked(path))
        callee = the_function(session, path, name)
        phase = partial(compiler.explain, schedule=session.schedule(callee), measure=arguments.measure)
        print(listing.of_kernels(session, callee, arguments.arguments, phase))
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
    found = solve(session, the_function(session, path, name), arguments.arguments)
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
    )
    for file in made.files:
        _note(f"wrote {file}")
    if made.deciding and not asked.given:
        sizes = ", ".join(f"{symbol.name}=…" for symbol in made.deciding)
        _note(f"sums of products are multiplied in the order that is best in the mean: {sizes} chooses that for sizes of yours")
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
    from axon.tools.view.page import page

    path, name = _split(arguments.path)
    _refuse_program(arguments.out, path)
    session = Session(_checked(path))
    callee = the_function(session, path, name)
    text = page(session, callee, arguments.arguments, arguments.target)
    out = arguments.out or f"{callee.name}.html"
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
    text = stub(Session(_checked(arguments.path)), arguments.path)
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
    beside = imported(arguments.path, out.stem).save(out)
    _note(f"wrote {out} and {beside}")
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
    checked = compiler.check(FileLoader(), path)
    if not checked.ok:
        raise AxonError(checked.diagnostics)
    return checked


def _split(text: str) -> tuple[str, str | None]:
    """`PATH[:NAME]`; a file whose own name has a colon wins."""
    path, colon, name = text.rpartition(":")
    if not colon or os.path.exists(text) or not name.isidentifier():
        return text, None
    return path, name


def _of_library(path: str, name: str | None) -> tuple[str, str | None]:
    """A module of the standard library by its name, and with that of a declaration behind it: `tensor.top`."""
    module, _, member = path.partition(".")
    if os.path.exists(path) or module not in library_modules():
        return path, name
    return str(stdlib_root() / f"{module}.axon"), member or name


# ── usage ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="axon", description="Axon, a functional tensor language.")
    parser.add_argument("--version", action="version", version=f"axon {__version__}")
    commands = parser.add_subparsers(dest="name", metavar="COMMAND", required=True)

    def add(name: str, run: Callable[[argparse.Namespace], int], help: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
        command.set_defaults(command=run)
        return command

    def add_call(command: argparse.ArgumentParser) -> None:
        forms = "x=3.5 | x=file.npy | x=randn(f32[32, 784]) | p={w = …} | 1=… for a parameter without a name"
        command.add_argument("arguments", nargs="*", metavar="NAME=VALUE", help=forms)
        command.add_argument("--seed", type=_seed, default=0, help="of randn, uniform and randint (default 0)")

    formats = ("text", "json")
    check = add("check", _check, "say what is wrong with programs")
    check.add_argument("paths", nargs="+", metavar="PATH", help="files, or directories of .axon files")
    check.add_argument("--format", choices=formats, default="text")

    sig = add("sig", _sig, "print inferred signatures, with contracts")
    sig.add_argument("path", metavar="PATH[:NAME]")

    run = add("run", _run, "call a function and print or save its result")
    run.add_argument("path", metavar="PATH[:NAME]")
    add_call(run)
    run.add_argument("--target", metavar="TARGET", help="where to run: cpu (default), or simulate: its GPU kernels, on the CPU")
    run.add_argument("--out", metavar="FILE", help="save the result: .npy, or .npz for several arrays")

    emit = add("emit", _emit, "print what a phase of the compiler makes")
    emit.add_argument("path", metavar="PATH[:NAME]", nargs="?")
    emit.set_defaults(refuse=emit.error)
    which = emit.add_mutually_exclusive_group(required=True)
    which.add_argument("--stage", metavar="STAGE", help=", ".join(STAGES))
    which.add_argument("--stages", action="store_true", help="the passes that lead from one to the next, for every target")
    add_call(emit)

    fmt = add("fmt", _fmt, "lay programs out in the standard way, in place")
    fmt.add_argument("paths", nargs="+", metavar="PATH", help="files or directories; - formats standard input")
    fmt.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a file would change")

    test = add("test", _test, "run the tests in comments (lines that begin with >>>)")
    test.add_argument("paths", nargs="+", metavar="PATH", help="files, or directories of .axon files")
    test.add_argument("--format", choices=formats, default="text")
    test.add_argument("--target", choices=("cpu", "cuda", "simulate", "interpret"), help="where to run them (default: cpu)")

    explain = add("explain", _explain, "explain a code such as AX0301, or how a function becomes GPU kernels")
    explain.add_argument("code", metavar="CODE|PATH[:NAME]")
    explain.add_argument("--shapes", action="store_true", help="how each dimension of a declaration was derived, and from where")
    explain.add_argument("--measure", action="store_true", help="run the kernels on this machine's GPU too, and time them")
    add_call(explain)

    solve = add("solve", _solve, "find the sizes of arguments with which a result has a shape")
    solve.add_argument("path", metavar="PATH[:NAME]")
    forms = "b=8 for a size, out=8,_,7 or x=_,3 for a shape (_ is open), x[0]=8 for one dimension, ..s=2 for the rank of ..s"
    solve.add_argument("arguments", nargs="*", metavar="NAME=SIZES", help=forms)

    build = add("build", _build, "build a function as a C library: a header, an object file and a shared library, without Python")
    build.add_argument("path", metavar="PATH[:NAME]")
    forms = "x=_,_ or ..s=2 for a rank that is open, n=1024 for a size to choose the order of sums for (all sizes work)"
    build.add_argument("arguments", nargs="*", metavar="NAME=SIZES", help=forms)
    build.add_argument("-o", "--out", metavar="DIR", help="where to write it (default: NAME)")
    build.add_argument("--name", metavar="NAME", help="call it axon_NAME in C (default: NAME is the function's)")
    build.add_argument("--cpu", metavar="CPU", default="native", help="native (default: this processor), or x86-64-v3, znver4 …")
    build.add_argument("--elements", metavar="NAME=TYPE", nargs="+", default=[], help="x=bf16 for an element type that is open")
    build.add_argument("--target", choices=("cpu", "cuda"), default="cpu", help="cuda is not there yet")

    view = add("view", _view, "draw a function as one page of HTML: its source, operations, kernels and roles")
    view.add_argument("path", metavar="PATH[:NAME]")
    add_call(view)
    view.add_argument("--target", choices=("cpu", "cuda"), help="whose kernels (default: the GPU's, if the function has such)")
    view.add_argument("--out", metavar="FILE", help="where to write it (default: NAME.html)")
    view.add_argument("--open", action="store_true", help="open it in a browser")

    repl = add("repl", _repl, "open a prompt that evaluates what is typed")
    repl.add_argument("paths", nargs="*", metavar="FILE", help="files to load first")

    watch = add("watch", _watch, "check programs now and whenever they are saved")
    watch.add_argument("paths", nargs="+", metavar="PATH", help="files, or directories of .axon files")

    importing = add("import", _import, "write a program for a model in ONNX, and its weights as safetensors")
    importing.add_argument("path", metavar="MODEL.onnx")
    importing.add_argument("-o", "--out", metavar="FILE.axon", help="where to write it (default: here, under the model's name)")

    stub = add("stub", _stub, "write a .pyi file, for type checkers of Python that imports the module")
    stub.add_argument("path", metavar="FILE")
    stub.add_argument("--out", metavar="FILE", help="where to write it (default: beside the module); - for standard output")

    server = add("lsp", _lsp, "serve an editor on standard input and output (Language Server Protocol)")
    server.add_argument("--stdio", action="store_true", help="what many editors say; there is no other way")
    return parser


def _seed(text: str) -> int:
    if not text.isdigit() or len(text) > 30:
        raise argparse.ArgumentTypeError("a seed is an integer from 0")
    return int(text)
