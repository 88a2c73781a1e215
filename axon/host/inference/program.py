"""The functions of `infer` around one of a user's, in a module that has all of its declarations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from axon import compiler
from axon.base.data import dataclass
from axon.base.errors import AxonError
from axon.host.call import Callee, Origin, Session, wrong
from axon.host.inference.density import Density
from axon.host.inference.latents import Leaf, Tree, flat, leaves, text
from axon.host.module import Function

_USED = {  # of the library's modules
    "infer": (
        *("scattered", "climbed", "begun", "untuned", "sampled", "resample"),
        *("log_mean", "effective", "peak", "laplace", "tempered"),
    ),
    "random": ("split", "normal"),
}


@dataclass(frozen=True, slots=True)
class Program:
    """Where the functions stand; `prefix` is what the name of each begins with."""

    session: Session
    prefix: str

    def callee(self, function: str) -> Callee:
        return self.session.callee(f"{self.prefix}_{function}")

    def call(self, function: str, sizes: Sequence[int], *args: Any, target: str | None) -> Any:
        callee = self.callee(function)
        try:
            return Function(self.session, callee, tuple(sizes))(*args, target=target)
        except AxonError as error:
            raise self.session.told(error, callee.name) from None


def program(what: Density, method: str, dense: bool = False) -> Program:
    """What a method calls, functions of the data and of vectors of the latents' numbers:

        PREFIX_starts        data u key            places near u where the density is finite
        PREFIX_latents       data u key            what `constrain` makes of each vector, if there is one, and `complete` of that
    chees, hmc
        PREFIX_untuned       length                what chains begin with
        PREFIX_chains {n}    data target rate warmup first u tuning key      n steps of `infer.sampled`
    map, laplace
        PREFIX_peaks         data most u           where the density is highest, from each u on; its value and slope there
        PREFIX_laplace {n}   data u key            the normal density there, and n draws
    importance, smc
        PREFIX_weighted {n}  data key              n draws of the prior and the logarithms of their likelihoods
        PREFIX_weighed       w key                 places drawn by weights, their mean, how many draws they are worth
        PREFIX_particles {n} data key              n draws of the prior, unconstrained
        PREFIX_tempered      data moves stages u key   `infer.tempered` of particles u

    Made once for each form of latents. Raises AxonError in terms of what the user wrote.
    """
    session, tree = what.function._session, what.tree
    size = sum(leaf.size for leaf in leaves(tree))
    key = (what.callee.name, method, dense, what.model, what.element, size, text(tree, "u") if _parted(tree) else None)
    if key not in session.inferred:
        session.inferred[key] = _made(what, method, dense, size)
    found: Program = session.inferred[key]
    return found


def _made(what: Density, method: str, dense: bool, size: int) -> Program:
    density, session, tree, element = what.callee, what.function._session, what.tree, what.element
    source, taken = session.checked.source, session.checked.signatures
    p = f"infer_{density.name.replace('.', '_')}"
    while any(name.startswith(p) for name in taken):
        p += "_"
    count = len(density.parameters) - 1
    data = "".join(f" {p}_x{n}" for n in range(1, count + 1))
    u, made = f"{p}_u", text(tree, f"{p}_u") if _parted(tree) else f"{p}_u"
    vector, many = f"({u} : {element}[{size}])", f"({u} : {element}[{p}_c, {size}])"
    lines = []
    for module, used in _USED.items():
        imported = session.checked.imports.get(module)
        known = imported.exports.values if imported is not None and imported.exports is not None else ()
        if module in taken or (imported is not None and any(name not in known for name in used)):
            message = f"`axon.infer` needs the library's `{module}`, which is another thing where `{density.name}` stands"
            raise wrong(density, "AX0505", message)
        lines += [f"import {module}"] if imported is None else []
    if method == "importance":
        lines.append(
            f"fun {p}_weighted {{n}}{data} (key : u32[2]) = for i < n =>"
            f" let val row = {what.model}.prior{data} (random.split key i) in (row, {what.model}.likelihood{data} row) end"
        )
        lines.append(
            f"fun {p}_weighed (w : f64[{p}_n]) (key : u32[2]) = (infer.resample w key, infer.log_mean w, infer.effective w)"
        )
    else:
        lines += [
            f"fun {p}_density{data} {vector} = {density.name}{data} {made}",
            f"fun {p}_slopes{data} {vector} = {_slopes(f'{density.name}{data}', tree, u, made)}",
            f"fun {p}_starts{data} {many} key = let val s = infer.scattered ({p}_slopes{data}) {u} key"
            f" in infer.begun ({p}_slopes{data}) (for i => infer.climbed ({p}_slopes{data}) s.u[i, ..]) end",
        ]
        if what.constrain is not None:
            row = f"{what.model}.constrain{data} {text(tree, 'row')}"
            if what.summed:
                row = f"{what.model}.complete{data} ({row}) (random.split key i)"
            lines.append(f"fun {p}_latents{data} {many} (key : u32[2]) = for i => let val row = {u}[i, ..] in {row} end")
    if method in ("chees", "hmc"):
        lines += [
            f"fun {p}_untuned (length : {element}) = infer.untuned {{{size}, {size if dense else 0}}} length",
            f"fun {p}_chains {{steps}}{data} target rate warmup first {many}"
            f" (tuning : infer.tuning[{element}, {size}, {size if dense else 0}]) key ="
            f" infer.sampled {{steps}} ({p}_slopes{data}) target rate warmup first {u} tuning key",
        ]
    if method in ("map", "laplace"):
        height = f"{density.name}{data} {made}"
        if method == "map" and what.model:  # the peak of the latents themselves: without the Jacobian of what bounds them
            height = f"{what.model}.{'marginal' if what.summed else 'log_density'}{data} ({what.model}.constrain{data} {made})"
        lines += [
            f"fun {p}_height{data} {vector} = {height}",
            f"fun {p}_peaks{data} most {many} = for i => let val v = infer.peak ({p}_height{data}) most {u}[i, ..]"
            f" val (y, g) = value_and_grad ({p}_height{data}) v in (v, y, g) end",
        ]
    if method == "laplace":
        lines.append(
            f"fun {p}_laplace {{n}}{data} {vector} (key : u32[2]) = let val found = infer.laplace ({p}_density{data}) {u}"
            f" val z = for i < n, j < {size} => random.normal key (cast i64 i * {size} + cast i64 j)"
            f" in {{ found = found, draws = for i < n, j < {size} => {u}[j] + sum k => found.root[j, k] * z[i, k] }} end"
        )
    if method == "smc":
        likelihood = f"{what.model}.likelihood{data} ({what.model}.constrain{data} {made})"
        lines += [
            f"fun {p}_likelihood{data} {vector} = {likelihood}",
            f"fun {p}_prior{data} {vector} = {p}_density{data} {u} - {p}_likelihood{data} {u}",
            f"fun {p}_particles {{n}}{data} (key : u32[2]) = for i < n =>"
            f" {what.model}.free{data} ({what.model}.prior{data} (random.split key i))",
            f"fun {p}_tempered{data} moves stages {many} key ="
            f" infer.tempered ({p}_prior{data}) ({p}_likelihood{data}) moves stages {u} key",
        ]
    whole = f"{source.text}\n\n" + "\n\n".join(lines) + "\n"
    checked = compiler.check_text(whole, source.path)
    found = Session(checked, Origin(density, f", in `axon.infer` of `{density.name}`", source.path, len(source.text)), session.chip)
    errors = tuple(d for d in checked.diagnostics if d.severity == "error")[:1]  # the density's; its gradient has the same again
    if errors:
        raise found.told(AxonError(errors), f"{p}_density")
    return Program(found, p)


def _slopes(density: str, tree: Tree, u: str, made: str) -> str:
    """The density at a vector and its gradient, by the parts that latents have: by the vector, each would be padded with zeros."""
    if not _parted(tree):
        return f"value_and_grad ({density}) {u}"
    return f"let val (y, g) = value_and_grad ({density}) {made} in (y, {flat(tree, 'g')}) end"


def _parted(tree: Tree) -> bool:
    return not (isinstance(tree, Leaf) and len(tree.shape) == 1)
