"""A model as Python sees it: the functions that it was made into as attributes, and its sites as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from axon.base.nearest import hint
from axon.chance.model import FUNCTIONS, SUMMED, Site
from axon.chance.model import Model as Declared

if TYPE_CHECKING:
    from axon.host.module import Module


class Model:
    """A function with `~` in it. `m.schools.log_density`, `.prior` and the others are Functions; `axon sig` prints all of them.

    `sites` are the places of its `~`: their names, kinds ("latent", "observed", "model") and plates. Of these, `latents` are the
    fields of the record that its functions take and give, and `observed` those that `predict` gives.
    """

    def __init__(self, module: Module, declared: Declared) -> None:
        self._module = module
        self._declared = declared

    @property
    def __name__(self) -> str:
        return self._declared.name

    @property
    def sites(self) -> tuple[Site, ...]:
        return self._declared.sites

    @property
    def latents(self) -> tuple[str, ...]:
        return tuple(s.name for s in self._declared.latents)

    @property
    def observed(self) -> tuple[str, ...]:
        return tuple(s.name for s in self._declared.predicted)

    @property
    def summed(self) -> tuple[str, ...]:
        """The discrete latents that are summed out of `unconstrained` and `marginal`, and drawn by `complete`."""
        return self._declared.summed

    @property
    def unsummed(self) -> str:
        """Why a discrete latent cannot be summed out, if one cannot."""
        why = self._declared.unsummed
        if why is None:
            return ""
        from axon.explain.models import reason

        return f"its latent `{why.names[0]}` cannot be summed out: {reason(why)[0]}"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        functions = self._declared.functions
        if name in functions:
            value = self.__dict__[name] = self._module[f"{self._declared.name}.{name}"]
            return value
        why = f"{self!r} has no {name!r}{hint(name, functions)}"
        if name in FUNCTIONS:
            why = f"{self!r} has no {name!r}: it has {', '.join(functions)}"
            if name in SUMMED and self.unsummed:
                why += f"; {self.unsummed}"
        raise AttributeError(why, name=name, obj=None)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        name = self._declared.name
        raise TypeError(f"`{name}` is a model, not a function: call one of its functions, such as {name}.prior")

    def __dir__(self) -> list[str]:
        return ["latents", "observed", "sites", "summed", "unsummed", *self._declared.functions]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[object, str]:
        return self._module._session, self._declared.name

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._module, self._declared.name)

    def __repr__(self) -> str:
        return f"<axon model {self._declared.name}: {', '.join(map(str, self._declared.sites))}>"


def _again(module: Module, name: str) -> Any:
    return module[name]
