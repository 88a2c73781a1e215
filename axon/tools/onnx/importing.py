"""A file of ONNX to a program and its weights."""

from __future__ import annotations

from pathlib import Path

from axon import compiler
from axon.base.data import dataclass, replace
from axon.base.diagnostics import Diagnostic, counted
from axon.base.errors import AxonError
from axon.base.output import write_text
from axon.base.source import SourceFile
from axon.tools.onnx import layers, moving, pointwise, recurrences, weights
from axon.tools.onnx.families import Families, Field, fields_of
from axon.tools.onnx.graph import Graph
from axon.tools.onnx.idioms import fused
from axon.tools.onnx.modules import modules
from axon.tools.onnx.names import identifier
from axon.tools.onnx.read import fault, read
from axon.tools.onnx.translate import Operator, translated
from axon.tools.onnx.writing import program

OPERATORS: dict[str, Operator] = {**moving.OPERATORS, **pointwise.OPERATORS, **layers.OPERATORS, **recurrences.OPERATORS}


@dataclass(frozen=True, slots=True)
class Imported:
    """A program, checked, and what its record is filled with."""

    graph: Graph
    text: str
    fields: tuple[Field, ...]

    def save(self, path: Path) -> Path:
        """Write the program, and the weights beside it under the same name; where those are."""
        beside = path.with_suffix(".safetensors")
        weights.write(beside, self.fields, self.graph.constants)
        write_text(path, self.text)
        return beside


def imported(path: str, name: str | None = None) -> Imported:
    """What a file holds. Raises AxonError where it cannot be read or translated, or the program is not accepted."""
    graph = read(path)
    graph = replace(graph, name=identifier(name or graph.name))
    try:
        return _imported(graph)
    except Exception as error:  # an operator may stumble over what ONNX itself forbids
        if not isinstance(error, AxonError) or error.diagnostics[0].code == "AX0703":
            _blame_the_graph(path)
        raise


def _imported(graph: Graph) -> Imported:
    steps = translated(fused(graph), OPERATORS)
    main, held = modules(steps, graph.classes)
    refused: list[Diagnostic] = []
    for apart, contracts in ((False, False), (False, True), (True, False)):  # modules of other sizes share a function, if they can
        families = Families(main, graph.name, graph.classes, apart=apart)
        raw = program(graph, steps.inputs, families, held, contracts=contracts)
        text = compiler.format_text(SourceFile(f"{graph.name}.axon", raw))
        errors = _errors(text, graph.name)
        if not errors:
            return Imported(graph, text, fields_of(families, held))
        refused = refused or errors
    message = "the program that was made of the graph is not accepted: a mistake of the import, or sizes that nothing proves"
    note = f"{counted(len(refused), 'error')} in it; its functions are named after the modules of the graph"
    raise AxonError((Diagnostic("AX0703", message, notes=(note,)), *refused))


def _errors(text: str, name: str) -> list[Diagnostic]:
    """The program is what a person would have to trust: what the checker does not accept is not written."""
    return [d for d in compiler.check_text(text, f"{name}.axon").diagnostics if d.severity == "error"]


def _blame_the_graph(path: str) -> None:
    """Raises AxonError where ONNX's own rules are broken: then nothing else is worth saying."""
    found = fault(path)
    if found is not None:
        notes = tuple(line.strip() for line in found.splitlines() if line.strip())
        raise AxonError(
            (Diagnostic("AX0701", f"`{path}` cannot be imported: ONNX does not accept the graph", notes=notes),)
        ) from None
