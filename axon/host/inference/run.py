"""Inference from Python: starts, chunks of steps, and what was wrong with them, in words."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, Literal

import numpy as np

from axon.backend.libraries import untraced
from axon.base.data import dataclass
from axon.base.errors import AxonError
from axon.base.extras import require
from axon.base.nearest import hint
from axon.base.progress import progress
from axon.host.call import Callee, is_unit, wrong
from axon.host.described import brief
from axon.host.inference import latents
from axon.host.inference.latents import Array, Tree, leaves
from axon.host.inference.program import Program, program
from axon.host.inference.report import reported
from axon.host.module import Function

PIECES = 20  # that the steps are cut into, whatever they cost: draws are the same wherever they are made
METHODS = {"chees": (1.0, 0.651, 0.025, 16), "hmc": (2.0, 0.8, 0.0, 4)}  # length, target, rate, chains
_OTHERS = np.array([0x9E3779B9, 0x7F4A7C15], np.uint32)  # makes the key of the steps from that of the starts


@dataclass(frozen=True, slots=True)
class Density:
    """What is inferred: a log density of data and latents, and what else a model has."""

    function: Function
    callee: Callee
    data: tuple[Any, ...]
    tree: Tree
    start: Array
    element: str
    constrain: Function | None = None
    likelihood: Function | None = None
    observed: tuple[str, ...] = ()


@untraced
@brief
def infer(
    what: Any,
    data: Any = (),
    *,
    start: Any = None,
    method: Literal["chees", "hmc"] = "chees",
    chains: int | None = None,
    draws: int = 1000,
    warmup: int = 500,
    length: float | None = None,
    key: Any = 0,
    target: str | None = None,
) -> Any:
    """Draws from the posterior of a model, as ArviZ's InferenceData, which `arviz.summary` and its plots take.

    `what` is a model, or a function that gives the logarithm of a density of data and, last, of latents, which are unconstrained: a
    tensor, or a record or tuple of them, as `start` is, around which chains begin at random. `data` are a tuple, or a dict by the
    names of parameters. Method "chees" has many chains (16), which learn how long their trajectories should be; those of "hmc" (4
    chains) have the mean `length`, in units of the posterior's scale. The same `key`, a seed or a u32[2], gives the same draws.
    Ctrl-C after the warm-up gives what was drawn so far. Needs ArviZ, `pip install '.[infer]'`. Raises AxonError where the density
    or its gradient is not finite wherever chains could begin; warns of divergences and of chains that have not mixed.
    """
    require("arviz", "infer", "axon.infer")
    density = _density(what, data, start)
    if method not in METHODS:
        raise wrong(
            density.callee, "AX0505", f"there is no method `{method}`{hint(str(method), METHODS)}", f"methods: {', '.join(METHODS)}"
        )
    usual, goal, rate, count = METHODS[method]
    count = count if chains is None else chains
    for name, value, least in (("chains", count, 2 if rate else 1), ("draws", draws, 1), ("warmup", warmup, 0)):
        if not isinstance(value, int) or value < least:
            raise wrong(
                density.callee, "AX0505", f"`{name}` must be an integer of {least} or more for method `{method}`, not {value!r}"
            )
    seed = _key(density.callee, key)
    constrain = None if density.constrain is None else density.constrain._callee
    made = program(density.function._session, density.callee, constrain, density.tree, density.element)
    began = perf_counter()
    u = _starts(density, made, count, seed, target)
    kind = latents.DTYPES[density.element]
    settings = (kind(goal), kind(rate), np.int32(warmup))
    tuning = _call(made, "untuned", (), kind(usual if length is None else length), target=target)
    pieces: list[dict[str, Any]] = []
    total, size = warmup + draws, -(-(warmup + draws) // PIECES)
    with progress(f"drawing from {density.callee.name}", -(-total // size)) as step:
        try:
            for first in range(0, total, size):
                steps = min(size, total - first)
                piece = _call(
                    made, "chains", (steps,), *density.data, *settings, np.int32(first), u, tuning, seed ^ _OTHERS, target=target
                )
                u, tuning = piece["draws"][-1], piece["tuning"]
                pieces.append(piece)
                step()
        except KeyboardInterrupt:
            done = sum(len(piece["draws"]) for piece in pieces) - warmup
            if done < 1:
                raise
            warnings.warn(f"interrupted: {done} of {draws} draws were made", RuntimeWarning, stacklevel=3)
    names = ("draws", "density", "chance", "energy", "diverging", "steps")
    joined = {name: np.concatenate([np.asarray(piece[name]) for piece in pieces])[warmup:] for name in names}
    found = _posterior(density, made, joined["draws"], target)
    attributes = {"method": method, "tuning_steps": warmup, "sampling_time": perf_counter() - began, "key": seed.tolist()}
    return reported(density.callee.name, found, joined, float(np.exp(tuning["mean_step"])), _observed(density), attributes)


def _call(made: Program, function: str, sizes: Sequence[int], *args: Any, target: str | None) -> Any:
    callee = made.callee(function)
    try:
        return Function(made.session, callee, tuple(sizes))(*args, target=target)
    except AxonError as error:
        raise made.session.told(error, callee.name) from None


def _key(callee: Callee, key: Any) -> Array:
    """A key of a seed, as `random.key` makes it, or as it is."""
    if isinstance(key, int | np.integer) and 0 <= key < 2**63:
        return np.array([int(key) >> 32, int(key) & 0xFFFFFFFF], np.uint32)
    found = np.asarray(key)
    if found.shape != (2,) or found.dtype != np.uint32:
        raise wrong(callee, "AX0505", f"`key` is a seed, an integer of 0 or more, or a u32[2], not {key!r}")
    return found


# ── what is inferred ────────────────────────────────────────────────────────────────────────────────────────────────────


def _density(what: Any, data: Any, start: Any) -> Density:
    """A model, or a function of data and latents with a place to begin."""
    model = hasattr(what, "sites")
    if isinstance(what, tuple) and len(what) == 2 and start is None:
        what, start = what
    if model and not hasattr(what, "unconstrained"):
        raise wrong(
            what.log_density._callee, "AX0505", f"`{what.__name__}` has a discrete latent, along which there is no gradient"
        )
    function = what.unconstrained if model else what
    if not isinstance(function, Function):
        raise TypeError(f"axon.infer takes a model, or a function and where it begins, not {type(function).__name__}")
    callee = function._callee
    if not callee.parameters or callee.dimensions:
        raise wrong(callee, "AX0505", f"`{callee.name}` must take latents as its last parameter, and no dimension parameters")
    given = _data(callee, data)
    if start is None and not model:
        raise wrong(
            callee, "AX0505", f"`{callee.name}` needs a place to begin: `start=`, in the form of `{callee.parameters[-1].name}`"
        )
    narrow = any(np.asarray(x).dtype == np.float32 for part in (*given, start) for x in latents.values(part))
    element = "f32" if narrow else "f64"
    constrain = what.constrain if model else None
    if model:
        prior = what.prior(*given, np.zeros(2, np.uint32), target="interpret")
        shape = what.free(*given, prior, target="interpret")
        tree = latents.tree_of(shape)
        begin = latents.vector(shape if start is None else what.free(*given, start, target="interpret"), element)
        begin = np.zeros_like(begin) if start is None else begin
    else:
        tree, begin = latents.tree_of(start), latents.vector(start, element)
    if not begin.size:
        raise wrong(callee, "AX0505", f"`{callee.name}` has no latents")
    likelihood = getattr(what, "likelihood", None) if model else None
    return Density(function, callee, given, tree, begin, element, constrain, likelihood, tuple(what.observed) if model else ())


def _data(callee: Callee, data: Any) -> tuple[Any, ...]:
    names = [p.name for p in callee.parameters[:-1]]
    if isinstance(data, Mapping):
        for name in data:
            if name not in names:
                raise wrong(callee, "AX0505", f"`{callee.name}` has no data `{name}`{hint(str(name), names)}")
        missing = [name for name in names if name not in data]
        if missing:
            raise wrong(callee, "AX0505", f"`{callee.name}` needs data for `{missing[0]}`")
        return tuple(data[name] for name in names)
    given = tuple(data) if isinstance(data, tuple | list) else (data,)
    if not given:
        given = tuple(() for p in callee.parameters[:-1] if is_unit(p.type))
    if len(given) != len(names):
        raise wrong(
            callee, "AX0505", f"`{callee.name}` takes {len(names)} data, {', '.join(names) or 'none'}, and {len(given)} are given"
        )
    return given


def _observed(density: Density) -> dict[str, Array]:
    names = [p.name for p in density.callee.parameters[:-1]]
    return {name: np.asarray(value) for name, value in zip(names, density.data, strict=True) if name in density.observed}


def _posterior(density: Density, made: Program, u: Array, target: str | None) -> dict[str, Array]:
    """Draws by name, [draws, chains, …]: constrained, if there is a way."""
    if density.constrain is None:
        return {leaf.path: leaf.of(u) for leaf in leaves(density.tree)}
    flat = np.ascontiguousarray(u.reshape(-1, u.shape[-1]))
    found = _call(made, "latents", (), *density.data, flat, target=target)
    return {path: part.reshape(*u.shape[:2], *part.shape[1:]) for path, part in _paths(found)}


def _paths(value: Any, path: str = "") -> Iterator[tuple[str, Array]]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _paths(part, f"{path}.{name}" if path else name)
    elif isinstance(value, tuple):
        for n, part in enumerate(value, 1):
            yield from _paths(part, f"{path}.{n}" if path else str(n))
    else:
        yield path, np.asarray(value)


# ── starts ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _starts(density: Density, made: Program, count: int, seed: Array, target: str | None) -> Array:
    """Where the chains begin. Raises AxonError that names what is not finite there."""
    near = np.tile(density.start, (count, 1))
    found = _call(made, "starts", (), *density.data, near, seed, target=target)
    values, slopes = np.asarray(found["density"]), np.asarray(found["slope"])
    failed = ~(np.isfinite(values) & np.isfinite(slopes).all(1))
    if not failed.any():
        return np.asarray(found["u"])
    chain = int(np.argmax(failed))
    tried = f"100 places between -2 and 2 away from {'the start' if density.constrain is None else '0'} were tried"
    if np.isfinite(values[chain]):
        where = [leaf.path for leaf in leaves(density.tree) if not np.isfinite(leaf.of(slopes[chain])).all()]
        kind = "NaN" if np.isnan(slopes[chain]).any() else "infinite"
        message = f"the gradient of `{density.callee.name}` by {_named(where)} is {kind} wherever chain {chain + 1} could begin"
    else:
        message = f"`{density.callee.name}` is {_value(values[chain])} wherever chain {chain + 1} could begin"
        message += _blamed(density, made, np.asarray(found["u"])[chain], target)
    raise wrong(density.callee, "AX0503", message, tried, *_suspects(density))


def _blamed(density: Density, made: Program, u: Array, target: str | None) -> str:
    """Whether it is what was observed that cannot be, or the latents."""
    if density.likelihood is None or density.constrain is None:
        return ""
    row = _call(made, "latents", (), *density.data, u[None], target=target)
    value = float(density.likelihood(*density.data, _first(row), target=target))
    if np.isfinite(value):
        return ": the prior of " + _named([leaf.path for leaf in leaves(density.tree)])
    return f": what is observed of {_named(density.observed)} has the log density {_value(value)}"


def _first(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _first(part) for name, part in value.items()}
    return tuple(map(_first, value)) if isinstance(value, tuple) else value[0]


def _suspects(density: Density) -> list[str]:
    """Data that are no numbers."""
    names = [p.name for p in density.callee.parameters[:-1]]
    pairs = [(name, np.asarray(x)) for name, part in zip(names, density.data, strict=True) for x in latents.values(part)]
    return [f"`{name}` holds NaN or infinities" for name, x in pairs if x.dtype.kind == "f" and not np.isfinite(x).all()]


def _named(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _value(x: float) -> str:
    return "NaN" if np.isnan(x) else "-inf" if x < 0 else "inf"
