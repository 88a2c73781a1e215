"""The command line. Diagnostics and results go to standard output, progress to standard error.

Exit status: 0 if all is well, 1 if something is wrong with a program, a call or a file, 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from axon import __version__, compiler
from axon.diagnostics import AxonError, Diagnostic, Suggestion
from axon.loader import SUFFIX, FileLoader

if TYPE_CHECKING:
    from axon import core, syntax
    from axon.call import Callee, Session
    from axon.checker import CheckedModule
    from axon.names import Symbol

STAGES = ("ast", "types", "core", *compiler.KERNEL_STAGES)


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
    except KeyboardInterrupt:
        return 130


def _guarded(command: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    try:
        return command(arguments)
    except AxonError as error:
        return _report(error.diagnostics, getattr(arguments, "format", "text"))
    except (BrokenPipeError, KeyboardInterrupt):
        raise
    except Exception as error:
        if os.environ.get("AXON_DEBUG"):
            raise
        return _report([compiler.internal_error(error, f"running `axon {arguments.name}`")], getattr(arguments, "format", "text"))


def _report(diagnostics: Sequence[Diagnostic], format: str = "text") -> int:
    """Print diagnostics; the exit status they ask for."""
    from axon import render

    if format == "json":
        print(render.to_json(diagnostics))
    else:
        render.write(diagnostics, sys.stdout)
    return int(any(d.severity == "error" for d in diagnostics))


def _note(text: str) -> None:
    print(text, file=sys.stderr)


# ── commands ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check(arguments: argparse.Namespace) -> int:
    loader = FileLoader()
    found: dict[tuple[Any, ...], Diagnostic] = {}  # a module that several files import is reported once
    files = _files(arguments.paths)
    for file in files:
        try:
            diagnostics = compiler.check(loader, file).diagnostics
        except AxonError as error:
            diagnostics = error.diagnostics
        for diagnostic in diagnostics:
            span = diagnostic.span
            place = (span.file.path, span.start, span.end) if span else (file,)
            found.setdefault((diagnostic.code, diagnostic.message, *place), diagnostic)
    status = _report(list(found.values()), arguments.format)
    if arguments.format == "text":
        errors = sum(d.severity == "error" for d in found.values())
        warnings = len(found) - errors
        counts = [_count(n, noun) for n, noun in ((errors, "error"), (warnings, "warning")) if n] or ["no errors"]
        _note(f"checked {_count(len(files), 'file')}: {', '.join(counts)}")
    return status


def _sig(arguments: argparse.Namespace) -> int:
    path, name = _split(arguments.path)
    checked = _checked(path)
    names = [name] if name is not None else list(checked.signatures)
    for name in names:
        _require(checked, path, name)
        print(f"sig {name} : {checked.signatures[name]}")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from axon.arguments import parse_arguments
    from axon.call import Session

    if arguments.out and not arguments.out.endswith((".npy", ".npz")):
        note = "one array is written to a .npy file, several to a .npz file"
        raise AxonError((Diagnostic("AX0508", f"`--out {arguments.out}` ends in neither .npy nor .npz", notes=(note,)),))
    path, name = _split(arguments.path)
    session = Session(_checked(path))
    callee = _chosen(session, path, name)
    given = parse_arguments(arguments.arguments, arguments.seed)
    sizes = [given.pop(size) for size in callee.dimensions if size in given]
    result = session.call(callee, sizes, (), given, arguments.target, numbers=False)
    if arguments.out:
        _save(arguments.out, result)
        _note(f"wrote {arguments.out}")
    else:
        from axon.show_value import show

        print(show(result))
    return 0


def _emit(arguments: argparse.Namespace) -> int:
    if arguments.stage not in STAGES:
        from axon.nearest import nearest

        near = nearest(arguments.stage, STAGES)
        help = (Suggestion(f"did you mean `{near}`?"),) if near else ()
        note = f"the stages are {', '.join(STAGES)}"
        raise AxonError((Diagnostic("AX0602", f"there is no stage `{arguments.stage}`", notes=(note,), suggestions=help),))
    path, name = _split(arguments.path)
    if arguments.stage == "ast":
        from axon.dump import outline

        source = FileLoader().read(path)
        if isinstance(source, Diagnostic):
            raise AxonError((source,))
        program, diagnostics = compiler.parse(source)
        if any(d.severity == "error" for d in diagnostics):
            raise AxonError(diagnostics)
        for decl in program.decls:
            if name is None or name in _declared(decl):
                print(outline(decl))
        return 0
    checked = _checked(path)
    if arguments.stage == "types":
        if name is not None:
            _require(checked, path, name)
        _print_types(checked, name)
        return 0
    from axon.call import Session

    session = Session(checked)
    callee = _chosen(session, path, name)
    if arguments.stage == "core":
        from axon.arguments import parse_arguments
        from axon.core_print import print_program

        given = parse_arguments(arguments.arguments, seed=None)
        lowered = session.program(callee, (), given) if given else compiler.lower(checked, callee.name, None)
        print(print_program(lowered).rstrip())
    else:
        print(_of_kernels(session, callee, arguments, lambda *example: compiler.emit(example[0], arguments.stage, example[1])))
    return 0


def _of_kernels(
    session: Session,
    callee: Callee,
    arguments: argparse.Namespace,
    phase: Callable[[core.Program, dict[Symbol, int] | None], str],
) -> str:
    """What a phase says of a function's kernels, for the arguments given, else for general ones at typical sizes."""
    from axon.arguments import parse_arguments

    given = parse_arguments(arguments.arguments, seed=None)
    sizes = [given.pop(size) for size in callee.dimensions if size in given]
    if given or sizes:
        return phase(*session.example(callee, sizes, given)).rstrip()
    try:
        return phase(compiler.lower(session.checked, callee.name, None), None).rstrip()
    except AxonError as error:
        general = callee.scheme.elements or callee.scheme.rows
        if not general or {d.code for d in error.diagnostics} != {"AX0603"}:
            raise
        note = "without arguments, element types are `f32` where any would do, and tensors have no further dimensions"
        help = Suggestion(f"give arguments, as in `{callee.parameters[0].name}=randn(bf16[4096, 4096])`")
        notes = (note, callee.signature)
        asking = [replace(d, notes=(*d.notes, *notes), suggestions=(*d.suggestions, help)) for d in error.diagnostics]
        raise AxonError(tuple(asking)) from None


def _fmt(arguments: argparse.Namespace) -> int:
    if arguments.paths == ["-"]:
        from axon.source import SourceFile

        text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
        formatted = compiler.format_text(SourceFile("<stdin>", text))
        if arguments.check:
            return int(formatted != text)
        sys.stdout.write(formatted)
        return 0
    status = 0
    loader = FileLoader()
    for file in _files(arguments.paths):
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
            _write_text(Path(file), formatted)
            _note(f"formatted {file}")
    return status


def _test(arguments: argparse.Namespace) -> int:
    from axon.doctest import run_file

    loader = FileLoader()
    passed, failures = 0, list[Diagnostic]()
    for file in _files(arguments.paths):
        outcome = run_file(loader, file)
        passed += outcome.passed
        failures += outcome.failures
    status = _report(failures, arguments.format)
    if arguments.format == "text":
        _note(f"{_count(passed, 'test')} passed, {len(failures)} failed")
    return status


def _explain(arguments: argparse.Namespace) -> int:
    from axon.codes import all_codes, page
    from axon.nearest import nearest

    if ":" in arguments.code or arguments.code.endswith(SUFFIX):
        from axon.call import Session

        path, name = _split(arguments.code)
        session = Session(_checked(path))
        print(_of_kernels(session, _chosen(session, path, name), arguments, compiler.explain))
        return 0
    code = arguments.code.upper()
    text = page(code) if code in all_codes() else None
    if text is None:
        near = nearest(code, all_codes())
        help = (Suggestion(f"did you mean `{near}`?"),) if near else ()
        raise AxonError((Diagnostic("AX0409", f"there is no code `{arguments.code}`", suggestions=help),))
    if sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        print(text.rstrip())
    return 0


# ── what the commands share ─────────────────────────────────────────────────────────────────────────────────────────────


def _checked(path: str) -> CheckedModule:
    checked = compiler.check(FileLoader(), path)
    if not checked.ok:
        raise AxonError(checked.diagnostics)
    return checked


def _files(paths: Sequence[str]) -> list[str]:
    """The files that the paths name; a directory stands for every .axon file in it, hidden directories left out."""
    out: list[str] = []
    for path in paths:
        if not os.path.isdir(path):
            out.append(path)
            continue
        found: list[str] = []
        for folder, inner, names in os.walk(path):
            inner[:] = sorted(name for name in inner if not name.startswith("."))
            found += [os.path.normpath(os.path.join(folder, name)) for name in sorted(names) if name.endswith(SUFFIX)]
        if not found:
            raise AxonError((Diagnostic("AX0408", f"there is no {SUFFIX} file in `{path}`"),))
        out += found
    return list(dict.fromkeys(out))


def _split(text: str) -> tuple[str, str | None]:
    """`PATH[:NAME]`; a file whose own name has a colon wins."""
    path, colon, name = text.rpartition(":")
    if not colon or os.path.exists(text) or not name.isidentifier():
        return text, None
    return path, name


def _require(checked: CheckedModule, path: str, name: str) -> None:
    from axon.nearest import nearest

    if name not in checked.signatures:
        near = nearest(name, checked.signatures)
        help = (Suggestion(f"did you mean `{near}`?"),) if near else ()
        note = "it has " + (", ".join(f"`{n}`" for n in checked.signatures) or "no declarations")
        raise AxonError((Diagnostic("AX0507", f"`{path}` declares no `{name}`", notes=(note,), suggestions=help),))


def _chosen(session: Session, path: str, name: str | None) -> Callee:
    """The declaration to run: the named one, or the only function."""
    if name is not None:
        _require(session.checked, path, name)
        return session.callee(name)
    functions = [callee for callee in map(session.callee, session.checked.signatures) if callee.is_function]
    if len(functions) != 1:
        note = "it has " + (", ".join(f"`{f.name}`" for f in functions) or "no functions")
        help = (Suggestion(f"write `{path}:{functions[0].name}`"),) if functions else ()
        raise AxonError((Diagnostic("AX0507", f"`{path}` does not have exactly one function", notes=(note,), suggestions=help),))
    return functions[0]


def _declared(decl: syntax.Decl) -> list[str]:
    """The names that a declaration introduces."""
    from axon import syntax

    def names(pattern: syntax.Pattern) -> list[str]:
        match pattern:
            case syntax.PatternName(name=name):
                return [name]
            case syntax.PatternTyped(pattern=inner):
                return names(inner)
            case syntax.PatternTuple(items=items):
                return [name for item in items for name in names(item)]
            case syntax.PatternRecord(fields=fields):
                return [name for _, item in fields for name in names(item)]

    return names(decl.pattern) if isinstance(decl, syntax.Val) else [decl.name.text]


def _print_types(checked: CheckedModule, only: str | None) -> None:
    """Signatures, and below each the types of the names inside the declaration, with their lines."""
    for decl in compiler.parse(checked.source)[0].decls:
        names = [name for name in _declared(decl) if name in checked.signatures]
        if not names or (only is not None and only not in names):
            continue
        for name in names:
            print(f"sig {name} : {checked.signatures[name]}")
        for name, span, text in sorted(checked.inner, key=lambda entry: entry[1].start):
            if span.file is checked.source and decl.span.start <= span.start < decl.span.end and name not in names:
                print(f"  {checked.source.position(span.start)[0]}: {name} : {text}")


def _save(path: str, result: Any) -> None:
    """One array as .npy; several as .npz, named as in the result: `w`, `1`, `up.w`. The file appears whole or not at all."""
    import numpy as np

    arrays: dict[str, Any] = {}

    def collect(name: str, value: Any) -> None:
        if isinstance(value, tuple | dict):
            items = value.items() if isinstance(value, dict) else ((str(i), item) for i, item in enumerate(value, 1))
            for key, item in items:
                collect(f"{name}.{key}" if name else key, item)
        else:
            array = np.asarray(value)
            # NumPy's format has no names for bf16 and the 8-bit floats: it keeps bytes, and `values` gives them their type back.
            arrays[name] = array if array.dtype.isbuiltin == 1 else array.view(f"V{array.itemsize}")

    collect("", result)
    single = list(arrays) == [""]
    if single == path.endswith(".npz"):
        want = "one array: write it to a .npy file" if single else f"{len(arrays)} arrays: write them to a .npz file"
        raise AxonError((Diagnostic("AX0508", f"the result is {want}", notes=(f"`--out {path}`",)),))
    _write(Path(path), lambda stream: np.save(stream, arrays[""]) if single else np.savez(stream, **arrays))


def _write_text(path: Path, text: str) -> None:
    _write(path, lambda stream: stream.write(text.encode("utf-8", "surrogatepass")))


def _write(path: Path, fill: Callable[[Any], Any]) -> None:
    """Write a file beside its place and move it there, keeping the mode of the one it replaces."""
    import shutil
    import tempfile

    real = path.resolve()
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
        with os.fdopen(handle, "wb") as stream:
            fill(stream)
        if real.exists():
            shutil.copymode(real, temporary)
        else:
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, real)
    except OSError as error:
        raise AxonError((Diagnostic("AX0408", f"cannot write `{path}`", notes=(error.strerror or str(error),)),)) from None
    finally:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


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
    emit.add_argument("path", metavar="PATH[:NAME]")
    emit.add_argument("--stage", metavar="STAGE", required=True, help=", ".join(STAGES))
    add_call(emit)

    fmt = add("fmt", _fmt, "lay programs out in the standard way, in place")
    fmt.add_argument("paths", nargs="+", metavar="PATH", help="files or directories; - formats standard input")
    fmt.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a file would change")

    test = add("test", _test, "run the tests in comments (lines that begin with >>>)")
    test.add_argument("paths", nargs="+", metavar="PATH", help="files, or directories of .axon files")
    test.add_argument("--format", choices=formats, default="text")

    explain = add("explain", _explain, "explain a code such as AX0301, or how a function becomes GPU kernels")
    explain.add_argument("code", metavar="CODE|PATH[:NAME]")
    add_call(explain)
    return parser


def _seed(text: str) -> int:
    if not text.isdigit() or len(text) > 30:
        raise argparse.ArgumentTypeError("a seed is an integer from 0")
    return int(text)
