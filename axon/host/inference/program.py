"""The functions of `infer` around one of a user's, in a module that has all of its declarations."""

from __future__ import annotations

from axon import compiler
from axon.base.data import dataclass
from axon.base.errors import AxonError
from axon.host.call import Callee, Origin, Session, wrong
from axon.host.inference.latents import Leaf, Tree, leaves, text

_USED = ("scattered", "untuned", "sampled")  # of the library's module


@dataclass(frozen=True, slots=True)
class Program:
    """Where the functions stand; `name` is what a function of it is called."""

    session: Session
    prefix: str

    def callee(self, function: str) -> Callee:
        return self.session.callee(f"{self.prefix}_{function}")


def program(session: Session, density: Callee, constrain: Callee | None, tree: Tree, element: str) -> Program:
    """Functions of the data, and of vectors of the latents' numbers, for a log density that takes the latents last:

        PREFIX_starts        data u key            places near u where the density is finite
        PREFIX_untuned       length                what chains begin with
        PREFIX_chains {n}    data target rate warmup first u tuning key      n steps of `infer.sampled`
        PREFIX_latents       data u                what `constrain` makes of each vector, if there is one

    Raises AxonError in terms of what the user wrote.
    """
    source, taken = session.checked.source, session.checked.signatures
    prefix = f"infer_{density.name.replace('.', '_')}"
    while any(name.startswith(prefix) for name in taken):
        prefix += "_"
    count = len(density.parameters) - 1
    data = "".join(f" {prefix}_x{n}" for n in range(1, count + 1))
    size = sum(leaf.size for leaf in leaves(tree))
    u, made = f"{prefix}_u", text(tree, f"{prefix}_u")
    many = f"({u} : {element}[{prefix}_c, {size}])"
    imported = session.checked.imports.get("infer")
    known = imported.exports.values if imported is not None and imported.exports is not None else ()
    if "infer" in taken or (imported is not None and any(name not in known for name in _USED)):
        message = f"`axon.infer` needs the library's `infer`, which is another thing where `{density.name}` stands"
        raise wrong(density, "AX0505", message)
    lines = [
        *(["import infer"] if imported is None else []),
        f"fun {prefix}_density{data} ({u} : {element}[{size}]) = {density.name}{data} {made if _parted(tree) else u}",
        f"fun {prefix}_starts{data} {many} key = infer.scattered ({prefix}_density{data}) {u} key",
        f"fun {prefix}_untuned (length : {element}) = infer.untuned {{{size}}} length",
        f"fun {prefix}_chains {{steps}}{data} target rate warmup first {many} tuning key ="
        f" infer.sampled {{steps}} ({prefix}_density{data}) target rate warmup first {u} tuning key",
    ]
    if constrain is not None:
        row = f"{constrain.name}{data} {text(tree, 'row')}"
        lines.append(f"fun {prefix}_latents{data} {many} = for i => let val row = {u}[i, ..] in {row} end")
    whole = f"{source.text}\n\n" + "\n\n".join(lines) + "\n"
    checked = compiler.check_text(whole, source.path)
    made_session = Session(
        checked, Origin(density, f", in `axon.infer` of `{density.name}`", source.path, len(source.text)), session.chip
    )
    errors = tuple(d for d in checked.diagnostics if d.severity == "error")
    if errors:
        raise made_session.told(AxonError(errors), f"{prefix}_density")
    return Program(made_session, prefix)


def _parted(tree: Tree) -> bool:
    return not (isinstance(tree, Leaf) and len(tree.shape) == 1)
