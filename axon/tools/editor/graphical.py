"""The graph of a model as the analysis of a file knows it: models that it calls are found where they are declared, and plates have
the sizes that were inferred."""

from __future__ import annotations

from collections.abc import Iterator

from axon.base.data import dataclass
from axon.chance.graph import Graph, graph_of
from axon.grammar import syntax as S
from axon.tools.editor.analysis import Analysis, Checked
from axon.types.resolve import ModelName
from axon.types.show import show_dim
from axon.types.type import Function, RecordType, Row, Tensor, Type


def graph(analysis: Analysis, name: str) -> Graph | None:
    """The graph of a model of a module; None of what is no model, or of one with errors."""
    found = _model(analysis, name)
    return graph_of(found[0], found[1], dict(_extents(found[2], name))) if found is not None else None


def _model(analysis: Analysis, name: str) -> tuple[S.Fun, _Around, Checked] | None:
    checked = analysis.table.get((False, name))
    if checked is None or not isinstance(checked.decl, S.Fun):
        return None
    entity = checked.entities.get(name)
    if not isinstance(entity, ModelName) or not entity.model.functions:
        return None
    return checked.decl, _Around(analysis), checked


@dataclass(frozen=True, slots=True)
class _Around:
    analysis: Analysis

    def model(self, e: S.Expr) -> tuple[S.Fun, _Around] | None:
        match e:
            case S.Var(name):
                found = _model(self.analysis, name)
            case S.Field(S.Var(owner), member) if owner in self.analysis.imports:
                found = _model(self.analysis.imports[owner], member.text)
            case _:
                return None
        return found[:2] if found is not None else None


def _extents(checked: Checked, model: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The sizes of what each site draws, as the types of the model's functions have them."""
    for function in ("prior", "predict"):
        scheme = checked.facts.scheme(f"{model}.{function}")
        t: Type | None = checked.state.prune(scheme.type) if scheme is not None else None
        while isinstance(t, Function):
            t = checked.state.prune(t.result)
        if t is not None:
            yield from _sizes(checked, t, "")


def _sizes(checked: Checked, t: Type, path: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    state = checked.state
    match state.prune(t):
        case RecordType(fields):
            for name, part in fields:
                yield from _sizes(checked, part, f"{path}.{name}" if path else name)
        case Tensor(_, shape):
            sizes: list[str] = []
            for item in state.shape(shape):
                if isinstance(item, Row):
                    break
                sizes.append(show_dim(checked.facts.namer, item))
            yield path, tuple(sizes)
