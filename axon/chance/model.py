"""What a model is to those who use it: its functions, and its sites by name."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto

from axon.base.data import dataclass
from axon.base.source import Span

# Every function that a model may have, in the order in which they are made. The first has all of the model's text.
FUNCTIONS = (
    "value", "log_density", "prior", "likelihood", "predict", "densities", "pointwise", "unconstrained", "constrain", "free",
    "marginal", "complete",
)  # fmt: skip
OBSERVED = ("likelihood", "predict", "pointwise")  # of models that observe something
CONTINUOUS = ("unconstrained", "constrain", "free")  # of models whose latents are continuous, or can be summed out
SUMMED = (*CONTINUOUS, "marginal", "complete")  # of models with discrete latents that can be summed out


@dataclass(frozen=True, slots=True)
class Site:
    """What stands before and after a `~`.

    `plates` are the bounds of its dimensions as they are written, "" where a bound is inferred. Of a model that is called, `sites`
    are its own.
    """

    name: str
    kind: str  # latent observed model
    plates: tuple[str, ...]
    sites: tuple[Site, ...] = ()

    def __str__(self) -> str:
        plates = f"[{', '.join(p or '_' for p in self.plates)}]" if self.plates else ""
        return f"{'observe ' if self.kind == 'observed' else ''}{self.name}{plates}"

    @property
    def observes(self) -> bool:
        return self.kind == "observed" or any(s.observes for s in self.sites)


@dataclass(frozen=True, slots=True)
class Unsummed:
    """Why a discrete latent cannot be summed out, and where that is seen: `why` is

    infinite  a support without `values`               names: the latent
    look      a site looks at many of its elements     the latent, the site
    meet      latents whose elements meet in a site    the latents
    site      draws that are not one plate or chain    the latent
    inner     it is a latent of a model that is called the latent, the model
    support   another latent may have its values by it the latent, the other
    typed     what sums it out has no type             the latents, and what is wrong
    """

    why: str
    names: tuple[str, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Model:
    """A function with `~` in it. `functions` are those that were made of it, each declared as `schools.log_density` is.

    `summed` are its discrete latents, if they can be summed out of the density of the others; `unsummed` says why not.
    """

    name: str
    functions: tuple[str, ...]
    sites: tuple[Site, ...]
    summed: tuple[str, ...] = ()
    unsummed: Unsummed | None = None

    @property
    def latents(self) -> Iterator[Site]:
        """Those of its record of latents, in their order."""
        return (s for s in self.sites if s.kind != "observed")

    @property
    def predicted(self) -> Iterator[Site]:
        """Those of which `predict` draws."""
        return (s for s in self.sites if s.observes)


class Mistake(Enum):
    """What is wrong with a model by its syntax alone. Each is a rule of the same name in `axon.types.trouble`."""

    SITE_UNDER_IF = auto()
    SITE_UNDER_LOOP = auto()
    SITE_UNDER_FOR = auto()
    SITE_IN_FUNCTION = auto()
    SITE_INSIDE = auto()
    SITE_TWICE = auto()
    SITE_PATTERN = auto()
    SITE_CHAIN = auto()
    CHAIN_OF_MODEL = auto()
    PLATE_OF_RUN = auto()
    SITE_OF_MODELS = auto()
    INDEX_BOUND_TWICE = auto()


@dataclass(frozen=True, slots=True)
class Mistaken:
    """A mistake at a place: the names that say how, and the other place that it is about, if there is one."""

    mistake: Mistake
    span: Span
    words: tuple[str, ...] = ()
    also: Span | None = None
