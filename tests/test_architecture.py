"""Who may import whom: the layering of docs/architecture.md, read off the source."""

from __future__ import annotations

import ast
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "axon"
FILES = sorted(PACKAGE.rglob("*.py"))

VOCABULARY = {"source", "names", "identity", "element", "diagnostics", "codes", "nearest"}
DIMENSIONS = {"shapes.dimension", "shapes.relation", "shapes.constraint", "shapes.width"}  # data, and no solver
CORE = VOCABULARY | {"core", "core_print", "passes", "shapes.dimension", "shapes.contract", "shapes.relation", "shapes.width"}
FACES = {
    *(
        "cli",
        "module",
        "call",
        "doctest",
        "__init__",
        "__main__",
        "batch",
        "listing",
        "interactive",
        "units",
        "commands",
        "computing",
        "completion",
        "repl",
        "notebook",
        "importer",
    ),
    *("stub", "page", "terminal", "watch"),
    *("server", "features"),  # of axon.lsp
}

# A module (a pattern) and the modules of Axon that it may import besides its own package. The first row that fits counts.
MAY_IMPORT: list[tuple[str, set[str]]] = [
    ("axon.source", set()),
    ("axon.names", set()),
    ("axon.identity", set()),
    ("axon.nearest", set()),
    ("axon.element", set()),
    ("axon.diagnostics", {"source", "render"}),  # render: inside __str__
    ("axon.codes", {"grammar.codes", "types.codes"}),
    ("axon.render", VOCABULARY),
    ("axon.loader", VOCABULARY | {"syntax"}),
    ("axon.syntax", VOCABULARY),
    ("axon.dump", VOCABULARY | {"syntax"}),
    ("axon.grammar*", VOCABULARY | {"syntax"}),
    ("axon.shapes*", VOCABULARY | {"syntax"}),
    ("axon.core", VOCABULARY | {"shapes.dimension", "shapes.contract", "shapes.relation"}),
    ("axon.passes", set()),
    ("axon.core_*", CORE | {"core_walk", "core_verify"}),
    ("axon.interpret*", VOCABULARY | {"core", "core_*", "shapes.dimension", "shapes.contract", "shapes.relation"}),
    ("axon.libraries", {"element"}),
    ("axon.backend.arrays", VOCABULARY | {"core", "libraries"}),
    ("axon.backend.given", VOCABULARY | {"core", "libraries"}),
    ("axon.backend.stepped_call", VOCABULARY | {"core", "libraries"}),
    # What a kernel met, and a check that fails, is worded by the interpreter.
    ("axon.backend.failures", CORE | {"interpret"}),
    ("axon.backend.step*", CORE | {"core_walk", "interpret.frame"}),
    ("axon.backend.parts", CORE | {"core_walk", "core_verify"}),
    # The simulator's operators are the interpreter's, which also does what has no barrier program.
    ("axon.backend.values", CORE | {"interpret.arithmetic"}),
    ("axon.backend.tables", CORE | {"core_walk", "core_verify", "interpret.compute"}),
    ("axon.backend.simulated", CORE | {"interpret.frame", "interpret.program"}),
    # What stops a program is worded by the interpreter, and what is tiny is left to it.
    ("axon.backend.cpu*", CORE | {"core_walk", "interpret", "interpret.box", "interpret.compute", "interpret.strided"}),
    ("axon.backend.worker", {"interrupt"}),
    ("axon.backend*", CORE | {"core_walk", "core_cse", "core_verify"}),
    # Generalization is where the two stages of inference meet; the rest of `types` is blind to sizes.
    ("axon.types.generalize", VOCABULARY | {"syntax", "typed", "resolve", "shapes.*"}),
    ("axon.types.explanations", VOCABULARY | {"typed", "shapes.*"}),
    ("axon.types.elaborator", VOCABULARY | {"syntax", "typed", "resolve", "grammar.parse", "shapes.divisibility", *DIMENSIONS}),
    ("axon.types*", VOCABULARY | {"syntax", "typed", "resolve", "builtins", "grammar.parse", "grammar.mistakes", *DIMENSIONS}),
    ("axon.resolve", VOCABULARY | {"syntax", "types.type", *DIMENSIONS}),
    ("axon.typed", VOCABULARY | {"types.type", *DIMENSIONS}),
    (
        "axon.lower*",
        VOCABULARY
        | {"core", "core_walk", "typed", "builtins", "checker", "types.literals", "types.type", "types.unify", "shapes.*"},
    ),
    (
        "axon.editor*",
        VOCABULARY
        | {"syntax", "typed", "resolve", "builtins", "checker", "headless", "suggestions", "unchanged", "loader"}
        | {"grammar.*", "types.*", *DIMENSIONS},
    ),
    ("axon.weak", VOCABULARY | {"libraries"}),
    ("axon.values", VOCABULARY | {"core", "libraries", "types.type", "lower*", "weak", "conversions"}),
    ("axon.conversions", VOCABULARY | {"libraries"}),
    ("axon.room", VOCABULARY | {"core", "libraries", "values"}),
    ("axon.broken", VOCABULARY | {"shapes.contract", "shapes.dimension", "shapes.legal", "shapes.relation"}),
    ("axon.headless", VOCABULARY | {"syntax", "builtins", "grammar.*"}),
    ("axon.unchanged", VOCABULARY | {"syntax", "typed", "resolve", "types.declare", "types.unify"}),
    ("axon.suggestions", VOCABULARY),  # it is given what checks a file
    (
        "axon.derivation",
        VOCABULARY | {"typed", "checker", "shapes.dimension", "types.origin", "types.ranges", "types.show", "types.type"},
    ),
    ("axon.show_value", VOCABULARY),
    ("axon.arguments", VOCABULARY),
    # What faces share and nothing below them knows.
    ("axon.lexer", {"builtins", "element"}),
    ("axon.html", VOCABULARY | {"render", "lexer"}),
    ("axon.assembly", VOCABULARY),
    ("axon.output", VOCABULARY),
    ("axon.extras", VOCABULARY),
    ("axon.view.layout", set()),
    ("axon.view.sizes", {"names", "core", "shapes.dimension", "backend.cost"}),
    ("axon.view.source", {"editor.*", "html"}),
    ("axon.view.graph", VOCABULARY | {"core", "core_print", "core_walk", "shapes.dimension", "backend.*"}),
    ("axon.view.draw", {"core", "shapes.dimension", "backend.timeline"}),
]

# Heavy packages, and the only modules that may import them.
ONLY = {
    "sympy": [],
    "lark": ["axon.grammar.*"],
    "rich": ["axon.render", "axon.cli", "axon.backend.progress"],
    "numba": ["axon.backend.*"],
    "cuda": ["axon.backend.*", "axon.libraries"],
    "torch": [],
    "prompt_toolkit": ["axon.terminal"],
    "IPython": ["axon.notebook"],
    "pygments": ["axon.lexer", "axon.terminal"],
    "argparse": ["axon.cli"],
    "pygls": ["axon.lsp.*"],
    "lsprotocol": ["axon.lsp.*"],
}

# Text is never evaluated, except kernels and the guards of contracts, which Axon has written and which hold nothing of a user's.
FORBIDDEN = {"eval", "exec", "sympify", "parse_expr", "lambdify", "compile"}
EMITTED = {"axon.backend.build", "axon.backend.cpu.build", "axon.shapes.guard"}


def name_of(file: Path) -> str:
    parts = list(file.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(file: Path) -> set[str]:
    """The modules that a file imports when it runs, also inside functions; those for type checking alone are left out."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    skipped = {
        child
        for node in ast.walk(tree)
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
    return out


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_layers(file: Path) -> None:
    name = name_of(file)
    allowed = next((allowed for pattern, allowed in MAY_IMPORT if fnmatch(name, pattern)), None)
    mine = {module for module in imports(file) if module.startswith("axon.")}
    if allowed is not None:
        own = name if file.name == "__init__.py" else ".".join(name.split(".")[:2]) if name.count(".") > 1 else name
        wrong = {m for m in mine if not m.startswith(f"{own}.") and m != own and not _fits(m, allowed)}
        assert not wrong, f"{name} may not import {wrong}"
    if name.split(".")[-1] not in FACES and name not in ("axon", "axon.compiler"):
        assert "axon.compiler" not in mine, "only the faces see the pipeline"


def _fits(module: str, allowed: set[str]) -> bool:
    return any(fnmatch(module, f"axon.{pattern}") for pattern in allowed)


def test_processors_and_gpus_share_one_level_up() -> None:
    """What serves both stands in `backend`; neither is built on the other."""
    for file in FILES:
        if name_of(file).startswith("axon.backend."):
            own = fnmatch(name_of(file), "axon.backend.cpu*")
            assert own or not any(fnmatch(module, "axon.backend.cpu*") for module in imports(file)), file
            assert not own or not any(fnmatch(module, "axon.backend.simt*") for module in imports(file)), file


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_heavy_packages(file: Path) -> None:
    for module in imports(file):
        for heavy, importers in ONLY.items():
            if module == heavy or module.startswith(f"{heavy}."):
                assert any(fnmatch(name_of(file), pattern) for pattern in importers), f"{name_of(file)} imports {module}"


def test_types_are_blind_to_sizes() -> None:
    """The first stage of inference knows dimensions as data, and never asks the solver."""
    for file in FILES:
        if name_of(file).startswith("axon.types"):
            assert not imports(file) & {
                "axon.shapes.solve",
                "axon.shapes.simplify",
                "axon.shapes.prove",
                "axon.shapes.linear",
                "axon.shapes.groebner",
            }


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_no_text_is_evaluated(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = node.func.id if isinstance(node.func, ast.Name) else ""
            assert called not in FORBIDDEN or name_of(file) in EMITTED, f"{file.name}:{node.lineno} calls {called}"


def test_identity_is_never_an_integer() -> None:
    """One module alone asks for `id`: what has died leaves its number to another object, which a memo takes for it."""
    files = [*FILES, *sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "benchmarks").rglob("*.py"))]
    named = {
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in files
        if name_of(file) not in ("axon.identity", "tests.determinism.texts")  # which shows that an address would be seen
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name) and node.id == "id" and isinstance(node.ctx, ast.Load)
    }
    assert not named, "objects are looked up as themselves: axon.identity"


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_files_can_be_read_in_one_sitting(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 800


def test_every_module_has_a_docstring() -> None:
    for file in FILES:
        assert ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))), file


def test_there_are_no_cycles() -> None:
    """Imports at the top of modules form no cycle, those inside functions and for type checking aside."""
    graph: dict[str, set[str]] = {}
    for file in FILES:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        tops = {n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)}
        found: set[str] = set()
        for node in tops:
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {f"{node.module}.{a.name}" for a in node.names} | {node.module}
        graph[name_of(file)] = found
    graph = {name: {m for m in found if m in graph and m != name} for name, found in graph.items()}
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join((*path, name))
        if name not in done:
            for inner in graph[name]:
                if inner != "axon":
                    visit(inner, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())
