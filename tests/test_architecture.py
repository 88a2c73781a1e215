"""Who may import whom: the layering of docs/architecture.md, read off the source."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import axon
from axon.explain.rules import ROWS
from axon.types.trouble import Rule
from tests import ROOT

PACKAGE = ROOT / "axon"
FILES = sorted(PACKAGE.rglob("*.py"))

# A folder, and the folders whose modules it may import besides its own. `axon` are the modules of the top level.
MAY_IMPORT: dict[str, set[str]] = {
    "axon": {"base", "checker", "host", "host.pytorch", "tools"},
    # what every phase of the pipeline is, and who puts them together
    "axon.compiler": {"base", "grammar", "checker", "lower", "core", "core.passes", "core.sharding", "interpret", "pass_table"}
    | {"backend", "backend.cpu", "backend.c"}
    | {f"backend.gpu.{folder}" for folder in ("layout", "tile", "runtime", "shipped", "report")},
    # the list of passes by target
    "axon.pass_table": {"base", "core", "core.passes", "core.sharding", "backend.cpu", "backend.kernel", "backend.plan"}
    | {f"backend.gpu.{folder}" for folder in ("layout", "tile", "roles", "proof", "runtime")},
    "axon.base": set(),
    "axon.grammar": {"base"},
    # sizes: data, then proofs, then stage two of inference, then what a call is asked
    "axon.shapes": {"base"},
    "axon.shapes.algebra": {"base", "shapes"},
    "axon.shapes.solving": {"base", "shapes", "shapes.algebra"},
    "axon.shapes.contracts": {"base", "shapes", "shapes.algebra", "shapes.solving"},
    # models as functions
    "axon.chance": {"base", "grammar"},
    # inference, and what is said and proposed where it fails
    "axon.types": {"base", "grammar", "chance", "shapes", "shapes.algebra", "shapes.solving", "shapes.contracts"},
    "axon.explain": {"base", "grammar", "chance", "shapes", "shapes.algebra", "shapes.solving", "shapes.contracts", "types"},
    "axon.suggest": {"base", "grammar", "shapes", "shapes.solving", "shapes.contracts", "types", "explain"},
    "axon.checker": {"base", "grammar", "chance", "shapes", "shapes.algebra", "shapes.solving", "types", "explain", "suggest"},
    # core
    "axon.core": {"base", "shapes", "shapes.contracts"},
    "axon.interpret": {"base", "shapes", "core"},
    "axon.core.passes": {"base", "shapes", "shapes.contracts", "core", "interpret"},
    "axon.core.gradients": {"base", "shapes", "shapes.algebra", "core", "core.passes"},
    "axon.core.sharding": {"base", "shapes", "shapes.algebra", "shapes.contracts", "core", "core.passes", "interpret"},
    "axon.lower": {"core.gradients", "core.passes"}
    | {"base", "shapes", "shapes.algebra", "shapes.solving", "shapes.contracts", "types", "explain", "checker", "core"},
    # backends
    "axon.backend": {"base", "backend.gpu.layout"},
    "axon.backend.plan": {"base", "shapes", "shapes.algebra", "core", "core.passes"},
    "axon.backend.kernel": {"base", "shapes", "core"},
    "axon.backend.cpu": {"base", "shapes", "shapes.contracts", "core", "core.passes", "interpret"}
    | {"backend", "backend.plan", "backend.kernel", "backend.tiles"},
    "axon.backend.tiles": {"base", "shapes", "core", "interpret", "backend.plan", "backend.kernel"},
    "axon.backend.c": {"base", "shapes", "shapes.contracts", "core", "core.passes"}
    | {"backend.plan", "backend.kernel", "backend.cpu", "backend.gpu.layout", "backend.gpu.shipped"},
    "axon.backend.gpu": set(),
    "axon.backend.gpu.layout": {"base", "shapes", "core"},
    "axon.backend.gpu.tile": {"base", "shapes", "core", "core.passes", "backend.plan", "backend.kernel", "backend.gpu.layout"},
    "axon.backend.gpu.roles": {"base", "shapes", "core", "backend.gpu.layout", "backend.gpu.tile"},
    "axon.backend.gpu.proof": {
        "base",
        "shapes",
        "core",
        "interpret",
        "backend.gpu.layout",
        "backend.gpu.tile",
        "backend.gpu.roles",
    },
    "axon.backend.gpu.emit": {
        "base",
        "shapes",
        "core",
        "backend.kernel",
        "backend.gpu.layout",
        "backend.gpu.tile",
        "backend.gpu.roles",
    },
    "axon.backend.gpu.simt": {"base", "shapes", "core", "backend.plan", "backend.kernel", "backend.gpu.layout", "backend.gpu.emit"},
    "axon.backend.gpu.intrinsics": {"backend.kernel", "backend.gpu.layout"},
    "axon.backend.gpu.build": {"base", "core", "backend", "backend.kernel"}
    | {f"backend.gpu.{folder}" for folder in ("layout", "tile", "roles", "proof", "emit", "intrinsics")},
    "axon.backend.gpu.sorting": {"base", "shapes", "backend.kernel"}
    | {f"backend.gpu.{folder}" for folder in ("layout", "emit", "build")},
    "axon.backend.gpu.runtime": {
        "base",
        "shapes",
        "shapes.contracts",
        "core",
        "core.passes",
        "interpret",
        "backend",
        "backend.plan",
        "backend.kernel",
    }
    | {f"backend.gpu.{folder}" for folder in ("layout", "tile", "proof", "emit", "simt", "build", "sorting")},
    "axon.backend.gpu.shipped": {"base", "shapes", "core", "backend.plan", "backend.kernel"}
    | {f"backend.gpu.{folder}" for folder in ("layout", "tile", "emit", "simt", "build", "runtime")},
    "axon.backend.gpu.report": {"base", "shapes", "core", "core.passes", "backend", "backend.plan"}
    | {f"backend.gpu.{folder}" for folder in ("layout", "tile", "roles", "proof", "simt", "build", "sorting", "runtime")},
    # faces
    "axon.host": {"base", "chance", "shapes", "shapes.algebra", "shapes.contracts", "types", "explain", "checker"}
    | {"core", "lower", "backend", "backend.c", "compiler", "host.pytorch", "host.devices"},
    "axon.host.devices": {"", "base", "core", "core.sharding", "checker", "backend", "compiler", "host"},
    "axon.host.inference": {"", "base", "backend", "compiler", "host"},
    "axon.host.pytorch": {"base", "shapes", "shapes.contracts", "types", "core", "backend", "compiler", "host"},
    "axon.tools": {"", "base", "checker", "host", "compiler"}
    | {f"tools.{folder}" for folder in ("commands", "onnx", "playground", "prompt", "lsp", "view")},
    "axon.tools.commands": {"", "base", "grammar", "chance", "types", "checker", "core", "host", "compiler", "tools.view"}
    | {"backend", "backend.cpu", "backend.gpu.layout"},
    "axon.tools.editor": {"base", "grammar", "chance", "shapes", "types", "suggest", "checker"},
    "axon.tools.lsp": {"", "base", "compiler", "tools.editor"},
    "axon.tools.onnx": {"base", "shapes", "shapes.algebra", "compiler"},
    "axon.tools.playground": {"", "base", "grammar", "checker", "compiler", "tools.commands"},
    "axon.tools.prompt": {"", "base", "grammar", "types", "checker", "core", "interpret", "host", "compiler"}
    | {"tools.commands", "tools.editor"},
    "axon.tools.view": {"base", "shapes", "core", "core.passes", "host", "compiler", "tools.editor", "tools.commands"}
    | {"backend.plan", "backend.cpu", *(f"backend.gpu.{folder}" for folder in ("layout", "tile", "build", "runtime", "report"))},
}
# Folders of tests that cut across those of `axon/`, and what each is about.
SUITES = {
    "attacks": "hostile texts, arrays and arguments",
    "corpus": "programs that are right and wrong, with what is printed of each",
    "determinism": "the same source gives the same texts, bits and machine code",
    "docs": "what the documentation shows is true",
    "editors": "of `editors/`",
    "fuzz": "any text at all",
    "gpu": "what needs the chip",
    "language": "what programs mean, through every phase and on every target",
    "library": "of `stdlib/` and `examples/`",
    "models": "of `examples/models/`",
    "numbers": "generated programs of all element types against Python's integers and intervals",
    "onnx": "the operators of ONNX",
    "oracle": "generated programs against their definition",
    "properties": "generated programs against NumPy",
    "suites": "what other projects state about sizes",
}
# Folders of `axon/` without tests of their own: who tests them.
TESTED_BY = {
    "explain": "tests/corpus/test_rejected.py",  # every error in words, each a golden
    "backend/gpu/roles": "tests/backend/gpu/proof/test_prove.py",  # and its texts: tests/backend/gpu/test_stages.py
}
FACES = ("axon", "axon.compiler", "axon.host", "axon.tools")  # which share the pipeline, and one another
MOST_FILES = 25  # of a folder, besides what says what it is
MOST_MODULES = 8  # directly in `axon`

# Heavy packages, and the only modules that may import them.
ONLY = {
    "sympy": ["axon.shapes.algebra.polynomials"],
    "lark": ["axon.grammar.*"],
    "rich": ["axon.base.render", "axon.base.progress", "axon.tools.cli", "axon.tools.commands.timings"],
    "numba": ["axon.backend.*"],
    "cuda": ["axon.backend.*"],
    "torch": ["axon.host.pytorch.*", "axon.host.devices.*"],
    "arviz": ["axon.host.inference.report"],
    "prompt_toolkit": ["axon.tools.prompt.terminal"],
    "IPython": ["axon.tools.notebook"],
    "pygments": ["axon.host.lexer", "axon.tools.prompt.terminal"],
    "argparse": ["axon.tools.cli", "axon.tools.usage", "axon.tools.commands.completion"],
    "argcomplete": ["axon.tools.commands.completion"],
    "onnx": ["axon.tools.onnx.read"],
    "google": ["axon.tools.onnx.read"],
    "dataclasses": ["axon.base.data", "axon.backend.gpu.intrinsics.ptx"],  # the second is of instructions alone
    "pygls": ["axon.tools.lsp.*"],
    "lsprotocol": ["axon.tools.lsp.*"],
}

# Text is never evaluated, except kernels, the guards of contracts and the `__init__` of dataclasses, which Axon has written, and
# which hold nothing of a user's.
FORBIDDEN = {"eval", "exec", "sympify", "parse_expr", "lambdify", "compile"}
EMITTED = {"axon.base.data", "axon.backend.gpu.build.link", "axon.shapes.contracts.guard"}


def name_of(file: Path) -> str:
    parts = list(file.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def imports(file: Path) -> frozenset[str]:
    """The modules that a file imports when it runs, also inside functions; those for type checking alone are left out."""
    tree = parsed(file)
    skipped = {
        child
        for node in (ast.walk(tree) if "TYPE_CHECKING" in file.read_text(encoding="utf-8") else ())
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for child in ast.walk(node)
    }
    out: set[str] = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            out |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file} imports relatively"
            for alias in node.names:
                path = PACKAGE.parent.joinpath(*(node.module or "").split("."), alias.name)
                inner = path.is_dir() or path.with_suffix(".py").is_file()
                out.add(f"{node.module}.{alias.name}" if inner else str(node.module))
    return frozenset(out)


def folder_of(module: str) -> str:
    """The row of MAY_IMPORT that a module belongs to; of an import that names a value of a folder, the folder."""
    if module in MAY_IMPORT:
        return module
    return module.rpartition(".")[0]


def test_layers() -> None:
    wrong = {}
    for file in FILES:
        name = name_of(file)
        own = folder_of(name)
        mine = {folder_of(module) for module in imports(file) if module == "axon" or module.startswith("axon.")}
        wrong[name] = {other for other in mine - {own} if other.removeprefix("axon").removeprefix(".") not in MAY_IMPORT[own]}
    assert not {name: others for name, others in wrong.items() if others}, "they may not import from these"


def test_every_row_is_needed() -> None:
    """What a row allows, some file of the folder does."""
    done: dict[str, set[str]] = {folder: set() for folder in MAY_IMPORT}
    for file in FILES:
        own = folder_of(name_of(file))
        done[own] |= {folder_of(m).removeprefix("axon").removeprefix(".") for m in imports(file) if m.split(".")[0] == "axon"}
    spare = {folder: allowed - done[folder] for folder, allowed in MAY_IMPORT.items()}
    assert not {folder: some for folder, some in spare.items() if some}


def test_folders_form_no_circle() -> None:
    """What one folder stands on does not stand on it in turn."""
    rows = {f: {f"axon.{o}" for o in allowed} for f, allowed in MAY_IMPORT.items() if not f.startswith(FACES[1:]) and f != "axon"}
    below: dict[str, set[str]] = {}
    for folder in rows:
        below[folder] = set()
        todo = [folder]
        while todo:
            more = (rows.get(todo.pop(), set()) & rows.keys()) - below[folder]
            below[folder] |= more
            todo += more
    assert not {frozenset(g for g in below[f] if f in below[g]) for f in rows if f in below[f]}


def test_tests_mirror_the_tree() -> None:
    """What tests `axon/X/y.py` is looked for in `tests/X`."""
    tests = {file.parent.relative_to(ROOT / "tests").as_posix() for file in (ROOT / "tests").rglob("test_*.py")} - {"."}
    folders = {file.parent.relative_to(PACKAGE).as_posix() for file in FILES if file.name != "__init__.py"} - {"."}
    suites = {folder for folder in tests if folder in SUITES}
    assert suites == SUITES.keys()
    strays = {folder for folder in tests - suites if not (PACKAGE / folder).is_dir()}
    assert not strays, "neither a folder of axon nor a suite"
    assert folders - tests == TESTED_BY.keys(), "a folder of axon has tests, or is tested elsewhere"
    assert all((ROOT / file).is_file() for file in TESTED_BY.values())


def test_no_module_takes_the_place_of_what_is_public() -> None:
    """`axon.check` is a function: a module of that name would stand there instead as soon as it is imported."""
    assert not {file.stem for file in PACKAGE.iterdir()} & {*axon.__all__}


def test_folders_can_be_taken_in_at_a_glance() -> None:
    for folder in {file.parent for file in FILES}:
        inside = [file for file in folder.glob("*.py") if file.name != "__init__.py" or folder == PACKAGE]
        assert len(inside) <= (MOST_MODULES if folder == PACKAGE else MOST_FILES), folder


def test_heavy_packages() -> None:
    for file, module in [(f, module) for f in FILES for module in imports(f)]:
        for heavy, importers in ONLY.items():
            if module == heavy or module.startswith(f"{heavy}."):
                assert any(fnmatch(name_of(file), pattern) for pattern in importers), f"{name_of(file)} imports {module}"


def test_types_are_blind_to_sizes() -> None:
    """The first stage of inference knows dimensions as data, and never asks the solver."""
    for file in FILES:
        if name_of(file).startswith("axon.types"):
            assert not imports(file) & {
                "axon.shapes.solving.equations",
                "axon.shapes.solving.simplify",
                "axon.shapes.algebra.prove",
                "axon.shapes.algebra.linear",
                "axon.shapes.algebra.polynomials",
            }


def test_inference_is_functions() -> None:
    """Its state is handed on, and nothing is mixed in: classes of `types` inherit from nothing but what typed nodes share."""
    for file in (f for f in FILES if name_of(f).startswith("axon.types")):
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base) for base in node.bases}
                assert bases <= {"Node", "Exception", "Enum", "Protocol"}, f"{name_of(file)}.{node.name}"


def test_inference_words_nothing() -> None:
    """What it finds wrong is data; its state only holds what others have said of that."""
    making = {"Diagnostic", "Label", "Suggestion", "Edit"}
    for file in (f for f in FILES if name_of(f).startswith("axon.types")):
        for node in ast.walk(parsed(file)):
            assert not isinstance(node, ast.Call) or ast.unparse(node.func) not in making, f"{name_of(file)}:{node.lineno}"


def test_edits_are_made_in_few_places() -> None:
    """Changes of a tree are written by `mutations`, of what is not read as it is meant by `headless`. Words make no edits."""
    making = {
        path.relative_to(PACKAGE).as_posix()
        for folder in ("explain", "suggest")
        for path in (PACKAGE / folder).rglob("*.py")
        if any(isinstance(n, ast.Call) and ast.unparse(n.func) == "Edit" for n in ast.walk(parsed(path)))
    }
    assert making == {"suggest/mutations.py", "suggest/headless.py"}


def test_every_rule_has_its_words() -> None:
    assert set(ROWS) == set(Rule)


def test_no_text_is_evaluated() -> None:
    named = [f for f in FILES if FORBIDDEN & set(re.findall(r"\w+", f.read_text(encoding="utf-8")))]
    for file in (f for f in named if name_of(f) not in EMITTED):
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.Call):
                called = node.func.id if isinstance(node.func, ast.Name) else ""
                assert called not in FORBIDDEN, f"{file}:{node.lineno} calls {called}"


def test_identity_is_never_an_integer() -> None:
    """One module alone asks for `id`: what has died leaves its number to another object, which a memo takes for it."""
    files = [*FILES, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "benchmarks").rglob("*.py"))]
    named = {
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in files
        if name_of(file) not in ("axon.base.identity", "tests.determinism.texts")  # which shows that an address would be seen
        if re.search(r"\bid\b", file.read_text(encoding="utf-8"))
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Name) and node.id == "id" and isinstance(node.ctx, ast.Load)
    }
    assert not named, "objects are looked up as themselves: axon.base.identity"


def test_files_can_be_read_in_one_sitting() -> None:
    assert not [file for file in FILES if len(file.read_text(encoding="utf-8").splitlines()) > 800]


def test_every_module_has_a_docstring() -> None:
    for file in FILES:
        assert ast.get_docstring(parsed(file)), file


def test_there_are_no_circles() -> None:
    """Of imports, those inside functions too."""
    names = {name_of(file) for file in FILES}
    graph = {name_of(file): imports(file) & names - {name_of(file)} for file in FILES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        raise AssertionError(" → ".join(error.args[1])) from None
