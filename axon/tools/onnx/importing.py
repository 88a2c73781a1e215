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
from axon.tools.onnx.read import read
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
    idiomatic = fused(graph)
    steps = translated(idiomatic, OPERATORS)
    main, held = modules(steps, graph.classes)
    families = Families(main, graph.name, graph.classes)
    text = compiler.format_text(SourceFile(f"{graph.name}.axon", program(graph, steps.inputs, families, held)))
    _check(text, graph.name)
    return Imported(graph, text, fields_of(families, held))


def _check(text: str, name: str) -> None:
    """The program is what a person would have to trust: what the checker does not accept is not written."""
    errors = [d for d in compiler.check_text(text, f"{name}.axon").diagnostics if d.severity == "error"]
    if not errors:
        return
    message = "the program that was made of the graph is not accepted: a mistake of the import, or sizes that nothing proves"
    note = f"{counted(len(errors), 'error')} in it; its functions are named after the modules of the graph"
    raise AxonError((Diagnostic("AX0703", message, notes=(note,)), *errors))
