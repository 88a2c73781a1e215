"""A model as functions: `~` means another thing in each of them, and all else stays as it is written.

    fun schools (sigma : f32[n]) (y : f32[n]) =
      let val mu ~ dist.normal 0.0 5.0
          val theta ~ for i < n => dist.normal mu 1.0
          observe y ~ for i => dist.normal theta[i] sigma[i]
      in theta end

    fun schools.log_density (sigma : f32[n]) (y : f32[n]) latents =
      let val { mu = mu.given, theta = theta.given } = latents
      in let val mu.latents = (mu.given like (dist.normal 0.0 5.0).sample [| 0, 0 |] 0)
             val mu.density = (dist.normal 0.0 5.0).log_density mu.latents
             val mu = mu.latents
             val theta.latents = (theta.given like for i < n => (dist.normal mu 1.0).sample [| 0, 0 |] i)
             val theta.density = sum for i < n => (dist.normal mu 1.0).log_density theta.latents[i, ..]
             val theta = theta.latents
             …
         in mu.density + theta.density + y.density end end

`axon emit PATH:schools.log_density --stage ast` shows all of it.

Note [All functions of a model have one type]
    Each has the same declarations, whether it needs them or not, and only its latents come from elsewhere. So all agree on the
    types and sizes of data and latents, and what one of them asks of a call, all do. `_.density`, the sum over all sites, is among
    them for its float type alone. What nothing uses is not evaluated.

Note [Chains]
    `unfold (x = start) for t => dist.normal x 1.0` draws each step from what the last has drawn. To draw, and to make latents of
    real numbers, it is an `unfold`. Where all that was drawn is known, as for a density, it is a plate: the state before step t is
    the element t - 1, or `start`. So the steps of a density, and of its gradient, do not wait for each other.

Note [Names with a dot]
    No name that a user writes has a dot in it. Names that are made here have one, and so hide nothing. What a site draws gets its
    own name last: the site may mention another value of that name, as `mu` in `val mu ~ dist.normal mu 1.0`, an index or a state.
    Parameters have names that a caller knows, `latents`, `u` and `key`, with a `_` where the model means something else by them.

Note [Keys]
    A site draws from the key of the model with a digest of its name folded in, so that one that joins changes no other. In a plate,
    the last index is the counter, and those before it are folded in: so a plate that grows keeps what it has drawn.
"""

from __future__ import annotations

from axon.base.data import dataclass
from axon.chance.functions import function_of
from axon.chance.model import CONTINUOUS, FUNCTIONS, OBSERVED, SUMMED, Mistaken, Model, Unsummed
from axon.chance.sites import Called, Sites, bindings, head_of, leaf_of
from axon.chance.summed import Plan, planned
from axon.chance.supports import InLibrary
from axon.grammar import syntax as S


@dataclass(frozen=True, slots=True)
class Made:
    """A model, the functions that it is made into, and what is wrong with it, which leaves it without any."""

    model: Model
    functions: tuple[S.Fun, ...]
    mistakes: tuple[Mistaken, ...] = ()


def function_names(decl: S.Fun) -> list[str]:
    """What the functions of a model may be called."""
    return [f"{decl.name.text}.{function}" for function in FUNCTIONS]


def desugared(decl: S.Fun, outside: Called, in_library: InLibrary, discrete: frozenset[str] = frozenset()) -> Made:
    """The functions of a model. `outside` says which expressions name models, and `in_library` which name functions of `dist`,
    where the model itself means nothing else by them; `discrete` are those of its latents that have no transform to the reals, and
    are to be summed out."""
    places: dict[str, int] = {}
    for own, place in bindings(decl):
        places.setdefault(own, place)

    def hidden(e: S.Expr) -> bool:
        owner = e.record if isinstance(e, S.Field) else e
        return isinstance(owner, S.Var) and places.get(owner.name, e.span.start) < e.span.start

    def called(e: S.Expr) -> Model | None:
        return None if hidden(e) else outside(e)

    found = Sites(called)
    found.spine(decl.body)
    name, sites = decl.name.text, tuple(found.sites)
    if found.mistakes:
        return Made(Model(name, (), sites), (), tuple(found.mistakes))
    summing = planned(decl, discrete, called, lambda e: None if hidden(e) else in_library(e)) if discrete else None
    plan = summing if isinstance(summing, Plan) else None
    unsummed = summing if isinstance(summing, Unsummed) else None
    without = {*SUMMED} - {*CONTINUOUS} if plan is None else set[str]()
    without |= {*SUMMED} if unsummed is not None else set()
    for inner in (called(head_of(leaf_of(site))) for site in found.written):
        if inner is not None and (inner.summed or any(f not in inner.functions for f in CONTINUOUS)):
            without |= {*SUMMED}
            latent = inner.unsummed.names[0] if inner.unsummed is not None else (*inner.summed, name)[0]
            unsummed = unsummed or Unsummed("inner", (latent, inner.name), decl.name.span)
    if not any(s.observes for s in found.sites):
        without |= {*OBSERVED}
    functions = tuple(f for f in FUNCTIONS if f not in without)
    model = Model(name, functions, sites, tuple(plan.latents) if plan is not None else (), unsummed)
    return Made(model, tuple(function_of(decl, model, f, called, plan) for f in functions))
