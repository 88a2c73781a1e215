"""The commands and their options, as argparse and shells that complete see them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from axon import __version__
from axon.tools.commands.listing import STAGES

TARGETS = ("cpu", "cuda", "simulate", "interpret")
LINKS = ("nvlink", "infiniband")
Command = Callable[[argparse.Namespace], int]


def parser(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """The parser of the command line; `commands` carry out what it reads."""
    whole = argparse.ArgumentParser(prog="axon", description="Axon, a functional tensor language.")
    whole.add_argument("--version", action="version", version=f"axon {__version__}")
    kinds = whole.add_subparsers(dest="name", metavar="COMMAND", required=True)

    def add(name: str, help: str) -> argparse.ArgumentParser:
        command = kinds.add_parser(name, help=help, description=help[0].upper() + help[1:] + ".")
        command.set_defaults(command=commands[name])
        return command

    forms_of_values = "x=3.5 | x=file.npy | x=randn(f32[32, 784]) | p={w = …} | 1=… for a parameter without a name"

    def add_call(command: argparse.ArgumentParser, forms: str = forms_of_values) -> None:
        command.add_argument("arguments", nargs="*", metavar="NAME=VALUE", help=forms)
        command.add_argument("--seed", type=_seed, default=0, help="of randn, uniform and randint (default 0)")

    a_function = "a program, and what it declares; NAME may be left out where that is one function"

    def add_chip(command: argparse.ArgumentParser) -> None:
        command.add_argument(
            "--chip", metavar="CHIP", help="whose GPU kernels: sm_75 to sm_120 (default: this machine's, or sm_90)"
        )

    formats = ("text", "json")
    check = add("check", "say what is wrong with programs")
    check.add_argument("paths", nargs="+", metavar="PATH", help="files, or directories of .axon files")
    check.add_argument("--format", choices=formats, default="text")

    sig = add("sig", "print inferred signatures, with contracts")
    sig.add_argument("path", metavar="PATH[:NAME]", help=a_function)

    run = add("run", "call a function and print or save its result")
    run.add_argument("path", metavar="PATH[:NAME]", help=a_function)
    add_call(run)
    run.add_argument("--target", metavar="TARGET", help="where to run: cpu (default), or simulate: its GPU kernels, on the CPU")
    add_chip(run)
    run.add_argument("--out", metavar="FILE", help="save the result: .npy, or .npz for several arrays")

    emit = add("emit", "print what a phase of the compiler makes")
    emit.add_argument("path", metavar="PATH[:NAME]", nargs="?", help=a_function)
    emit.set_defaults(refuse=emit.error)
    which = emit.add_mutually_exclusive_group(required=True)
    which.add_argument("--stage", metavar="STAGE", help=", ".join(STAGES))
    which.add_argument("--stages", action="store_true", help="the passes that lead from one to the next, for every target")
    add_call(emit)
    add_chip(emit)

    fmt = add("fmt", "lay programs out in the standard way, in place")
    fmt.add_argument("paths", nargs="+", metavar="PATH", help="files or directories; - formats standard input")
    fmt.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a file would change")

    test = add("test", "run the tests in comments (lines that begin with >>>)")
    test.add_argument("paths", nargs="+", metavar="PATH", help="files, or directories of .axon files")
    test.add_argument("--format", choices=formats, default="text")
    test.add_argument("--target", choices=TARGETS, help="where to run them (default: cpu)")

    explain = add("explain", "explain a code such as AX0301, or how a function becomes GPU kernels")
    explain.add_argument("code", metavar="CODE|PATH[:NAME]", help="an error, or a program and a function of it")
    explain.add_argument("--shapes", action="store_true", help="how each dimension of a declaration was derived, and from where")
    explain.add_argument("--mesh", metavar="AXIS=DEVICES,…", help="what devices exchange: data=2,model=4")
    explain.add_argument("--shard", metavar="SIZE=AXIS,…", help="with --mesh: sizes, and over which axis each is split")
    explain.add_argument("--wide-sums", action="store_true", help="with --mesh: sums of 16-bit floats go over the link in f32")
    explain.add_argument("--link", choices=LINKS, default=LINKS[0], help="between the devices of a mesh (default: nvlink)")
    explain.add_argument("--measure", action="store_true", help="run the kernels on this machine's GPU too, and time them")
    add_call(explain)
    add_chip(explain)

    solve = add("solve", "find the sizes of arguments with which a result has a shape")
    solve.add_argument("path", metavar="PATH[:NAME]", help=a_function)
    forms = "b=8 for a size, out=8,_,7 or x=_,3 for a shape (_ is open), x[0]=8 for one dimension, ..s=2 for the rank of ..s"
    solve.add_argument("arguments", nargs="*", metavar="NAME=SIZES", help=forms)

    build = add("build", "build a function as a C library: a header, an object file and a shared library, without Python")
    build.add_argument("path", metavar="PATH[:NAME]", help=a_function)
    forms = "x=_,_ or ..s=2 for a rank that is open, n=1024 for a size to choose the order of sums for (all sizes work)"
    build.add_argument("arguments", nargs="*", metavar="NAME=SIZES", help=forms)
    build.add_argument("-o", "--out", metavar="DIR", help="where to write it (default: NAME)")
    build.add_argument("--name", metavar="NAME", help="call it axon_NAME in C (default: NAME is the function's)")
    build.add_argument("--torch", action="store_true", help="an operator of PyTorch as well, which needs no Python when it runs")
    build.add_argument("--cpu", metavar="CPU", default="native", help="native (default: this processor), or x86-64-v3, znver4 …")
    build.add_argument("--elements", metavar="NAME=TYPE", nargs="+", default=[], help="x=bf16 for an element type that is open")
    build.add_argument("--target", choices=("cpu", "cuda"), default="cpu", help="cuda: for Hopper GPUs")
    fastest = "with --target cuda: the fastest kernels for these sizes too; again for each other set of them"
    build.add_argument("--sizes", metavar="NAME=SIZE,…", action="append", default=[], help=fastest)

    bench = add("bench", "time a function, for several sizes and beside a function of Python's")
    bench.add_argument("path", metavar="PATH[:NAME]", help=a_function)
    add_call(bench, "n=64,128,256 for sizes that shapes are written with, as in x=randn(f32[n, n]); the rest as in axon run")
    bench.add_argument("--against", metavar="PEER.py[:NAME]", help="a function of Python's to run beside it, on the same arguments")
    bench.add_argument("--target", choices=TARGETS, help="where to run (default: cpu); cuda: on PyTorch's tensors on the first GPU")
    bench.add_argument("--arrays", choices=("numpy", "torch", "jax"), help="whose arrays both get (default: numpy, of cuda torch)")
    bench.add_argument("--seconds", type=_seconds, default=1.0, metavar="S", help="how long to time at each size (default 1)")
    bench.add_argument("--plot", metavar="FILE.svg", help="draw the times")
    bench.add_argument("--format", choices=formats, default="text")

    view = add("view", "draw a function or a model as one page of HTML: operations, kernels and roles; sites, arrows and plates")
    view.add_argument("path", metavar="PATH[:NAME]", help=a_function)
    add_call(view)
    view.add_argument("--target", choices=("cpu", "cuda"), help="whose kernels (default: the GPU's, if the function has such)")
    add_chip(view)
    view.add_argument("--measure", action="store_true", help="time the call on this machine's processor too: a roofline")
    view.add_argument("--out", metavar="FILE", help="where to write it (default: NAME.html)")
    view.add_argument("--text", action="store_true", help="print the graph of a model, and write no page")
    view.add_argument("--open", action="store_true", help="open it in a browser")

    repl = add("repl", "open a prompt that evaluates what is typed")
    repl.add_argument("paths", nargs="*", metavar="FILE", help="files to load first")

    watch = add("watch", "check programs now and whenever they are saved")
    watch.add_argument("paths", nargs="+", metavar="PATH", help="files, or directories of .axon files")

    doctor = add("doctor", "say what this machine has, what it lacks and what that costs, and which kernels its GPU gets")
    doctor.add_argument("--format", choices=formats, default="text")

    importing = add("import", "write a program for a model in ONNX, and its weights as safetensors")
    importing.add_argument("path", metavar="MODEL.onnx", help="a model")
    importing.add_argument("-o", "--out", metavar="FILE.axon", help="where to write it (default: here, under the model's name)")

    stub = add("stub", "write a .pyi file, for type checkers of Python that imports the module")
    stub.add_argument("path", metavar="FILE", help="a program")
    stub.add_argument("--out", metavar="FILE", help="where to write it (default: beside the module); - for standard output")

    new = add("new", "make a project: a module, its tests, and what Python needs to know")
    new.add_argument("path", metavar="NAME", help="the folder to make, which is named like the project")

    completion = add("completion", "print what makes a shell complete axon's commands, files, functions and arguments")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="whose")

    playground = add("playground", "write a page on which programs are checked in the browser, with all that it needs")
    playground.add_argument("path", metavar="DIR", help="the folder to write, which any file server serves")
    playground.add_argument("--packages", metavar="node_modules", help="npm's packages, where they are there already")

    server = add("lsp", "serve an editor on standard input and output (Language Server Protocol)")
    server.add_argument("--stdio", action="store_true", help="what many editors say; there is no other way")
    return whole


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds <= 3600.0:
        raise argparse.ArgumentTypeError("a number of seconds, at most 3600")
    return seconds


def _seed(text: str) -> int:
    if not text.isdigit() or len(text) > 30:
        raise argparse.ArgumentTypeError("a seed is an integer from 0")
    return int(text)
