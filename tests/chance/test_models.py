"""What the functions of a model give: against NumPyro's numbers, and against what must hold of every model."""

from __future__ import annotations

import json
import pickle
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import axon
from tests.chance import reference
from tests.sample import SOAK

TABLE: dict[str, dict[str, float]] = json.loads(reference.TABLE.read_text())
KEY = np.array([0, 42], np.uint32)
OTHERS: dict[str, tuple[Any, ...]] = {
    "pairs": (np.array([0.3, 1.2]),),
    "volatility": (np.array([0.3, 1.2, -0.4, 2.0]),),
    "waits": (np.array([[0.3, 1.2, 0.4], [2.0, 0.1, 0.2]]),),
    "track": (np.array([[0.3, 1.2], [-0.4, 2.0], [0.1, 0.2]]),),
}


@cache
def loaded() -> axon.Module:
    """Not while tests are collected, which every worker does."""
    return axon.load(Path(__file__).with_name("models.axon"))


def given(name: str) -> tuple[Any, ...]:
    return reference.data().get(name) or OTHERS[name]


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {path: np.asarray(value)}
    return {p: leaf for name, part in value.items() for p, leaf in leaves(part, f"{path}.{name}").items()}


def assert_equal(a: Any, b: Any, tolerance: float = 0.0) -> None:
    one, other = leaves(a), leaves(b)
    assert one.keys() == other.keys()
    for path, leaf in one.items():
        np.testing.assert_allclose(leaf, other[path], rtol=tolerance, err_msg=path)


@pytest.mark.parametrize(("name", "target"), [*((name, "interpret") for name in reference.data()), ("regression", "cpu")])
def test_densities_are_numpyros(name: str, target: str) -> None:
    model, data, u = getattr(loaded(), name), reference.data()[name], reference.unconstrained()[name]
    latents = reference.constrained(u)
    found = {
        "log_density": model.log_density(*data, latents, target=target),
        "likelihood": model.likelihood(*data, latents, target=target),
        "unconstrained": model.unconstrained(*data, u, target=target),
    }
    parts, points = model.densities(*data, latents, target=target), model.pointwise(*data, latents, target=target)
    assert parts.keys() == {site.name for site in model.sites}
    assert sum(parts.values()) == pytest.approx(TABLE[name]["log_density"], rel=1e-13)
    assert points.keys() == set(model.observed)
    assert sum(part.sum() for part in leaves(points).values()) == pytest.approx(TABLE[name]["likelihood"], rel=1e-13)
    assert found == pytest.approx(TABLE[name], rel=1e-13)
    assert_equal(model.constrain(*data, u), latents, 1e-15)
    assert_equal(model.free(*data, latents), u, 1e-15)


@pytest.mark.skipif(not SOAK or find_spec("numpyro") is None, reason="NumPyro's numbers are in a table, which the soak makes again")
def test_the_table_is_numpyros() -> None:
    for name, numbers in reference.table().items():
        assert numbers == pytest.approx(TABLE[name], rel=1e-13), name


@pytest.mark.parametrize("name", ["studies", *OTHERS])
def test_the_jacobian_is_that_of_constrain(name: str) -> None:
    """The log of the determinant of differences, taken by all numbers at once: transforms of one site may mix."""
    model, data = getattr(loaded(), name), given(name)
    u = reference.unconstrained().get(name) or model.free(*data, model.prior(*data, KEY))
    names = [(p, leaf.shape) for p, leaf in leaves(u).items()]
    flat = np.concatenate([leaf.ravel() for leaf in leaves(u).values()])

    def constrained(point: np.ndarray) -> np.ndarray:
        tree: dict[str, Any] = {}
        for (path, shape), part in zip(names, np.split(point, np.cumsum([int(np.prod(s)) for _, s in names])[:-1]), strict=True):
            *outer, last = path.split(".")[1:]
            here = tree
            for step in outer:
                here = here.setdefault(step, {})
            here[last] = part.reshape(shape)
        found = leaves(model.constrain(*data, tree))
        return np.concatenate([found[path].ravel() for path, _ in names])

    step = 1e-6
    jacobian = [(constrained(flat + step * e) - constrained(flat - step * e)) / (2 * step) for e in np.eye(len(flat))]
    change = model.unconstrained(*data, u) - model.log_density(*data, model.constrain(*data, u))
    assert change == pytest.approx(np.linalg.slogdet(np.array(jacobian))[1], abs=1e-7)


@pytest.mark.parametrize("name", ["studies", "pairs"])
def test_the_gradient_is_that_of_differences(name: str) -> None:
    model, data = getattr(loaded(), name), given(name)
    u = model.free(*data, model.prior(*data, KEY))
    gradient = model.unconstrained.grad(wrt="u")(*data, u)
    direction = {p: np.random.default_rng(len(p)).normal(size=x.shape) for p, x in leaves(u).items()}

    def moved(tree: Any, by: float, path: str = "") -> Any:
        if isinstance(tree, dict):
            return {n: moved(x, by, f"{path}.{n}") for n, x in tree.items()}
        return tree + by * direction[path]

    step = 1e-6
    slope = (model.unconstrained(*data, moved(u, step)) - model.unconstrained(*data, moved(u, -step))) / (2 * step)
    assert slope == pytest.approx(sum((g * direction[p]).sum() for p, g in leaves(gradient).items()), rel=1e-5)


def test_a_chain_is_drawn_step_by_step() -> None:
    """The densities of the steps are those of their states, whatever has the chain for its parts; draws follow the chain."""
    (y,) = given("volatility")
    at = {"phi": 0.7, "sigma": 0.3, "h": np.array([0.2, -0.1, 0.4, 0.9])}
    states = np.array([0.5, *at["h"][:-1]])
    steps = stats.norm(0.7 * states, 0.3).logpdf(at["h"])
    found = loaded().volatility.densities(y, at)
    assert found["h"] == pytest.approx(steps.sum(), rel=1e-13)
    assert found["y"] == pytest.approx(stats.norm(0, np.exp(at["h"] / 2)).logpdf(y).sum(), rel=1e-13)
    terms = loaded().series.pointwise(y, 2.0, {"phi": 0.5})["y"]
    np.testing.assert_allclose(terms, stats.norm(0.5 * np.array([2.0, *y[:-1]]), 1).logpdf(y), rtol=1e-13)
    (z,) = given("waits")
    before = np.concatenate([np.zeros((2, 1)), z[:, :-1]], 1)
    assert loaded().waits.densities(z, {"z": z})["z"] == pytest.approx(
        stats.expon(scale=1 / (1 + before)).logpdf(z).sum(), rel=1e-13
    )
    (w,) = given("track")
    moved = stats.norm(np.concatenate([np.zeros((1, 2)), w[:-1]]), 0.5).logpdf(w).sum()
    assert loaded().track.densities(w, {"z": w})["z"] == pytest.approx(moved, rel=1e-13)
    long = np.zeros(300)
    draw = loaded().volatility.prior(long, KEY)
    noise = (draw["h"] - draw["phi"] * np.array([0.5, *draw["h"][:-1]])) / draw["sigma"]
    assert stats.kstest(noise, "norm").pvalue > 1e-4
    new = loaded().series.predict(long, 0.0, {"phi": 0.9}, KEY)["y"]
    assert stats.kstest(new - 0.9 * np.array([0.0, *new[:-1]]), "norm").pvalue > 1e-4


def test_draws() -> None:
    """What is drawn is in the support, is the same for the same key, and has the spread of its distribution."""
    sigma, y = np.full(20_000, 3.0), np.zeros(20_000)
    draw = loaded().schools.prior(sigma, y, KEY)
    assert_equal(draw, loaded().schools.prior(sigma, y, KEY))
    z = (draw["theta"] - draw["mu"]) / draw["tau"]
    assert abs(z.mean()) < 4 / 20_000**0.5
    assert z.std() == pytest.approx(1, abs=0.02)
    new = loaded().schools.predict(sigma, y, draw, KEY)["y"]
    noise = (new - draw["theta"]) / 3.0
    assert noise.std() == pytest.approx(1, abs=0.02)
    assert abs(np.corrcoef(noise, z)[0, 1]) < 4 / 20_000**0.5  # each site has a key of its own
    other = loaded().schools.prior(sigma, y, np.array([0, 43], np.uint32))
    assert other["mu"] != draw["mu"]


def test_a_site_more_changes_no_draw() -> None:
    text = "import dist\nfun m (x : f32[n]) = let {} val b ~ for i < n, j < n + k => dist.normal x[i] 1.0 in b end"
    before, more, wider = (
        axon.compile(text.format(first).replace("n + k", end)).m.prior(np.arange(3, dtype=np.float32), KEY)["b"]
        for first, end in (("", "n"), ("val a ~ dist.half_cauchy 1.0", "n"), ("", "n + 2"))
    )
    np.testing.assert_array_equal(before, more)
    np.testing.assert_array_equal(before, wider[:, :3])  # nor do more indices


def test_two_sites_with_the_same_distribution_differ() -> None:
    m = axon.compile("import dist\nfun m (s : f32) = let val a ~ dist.normal 0.0 s val b ~ dist.normal 0.0 s in (a, b) end").m
    draw = m.prior(1.0, KEY)
    assert draw["a"] != draw["b"]
    assert m.value(1.0, draw) == (draw["a"], draw["b"])


def test_sites() -> None:
    """What Python knows of a model, and inference asks."""
    model = loaded().studies
    assert isinstance(model, axon.Model)
    assert (model.latents, model.observed) == (("group", "first", "scale"), ("group", "first", "z"))
    assert [(s.name, s.kind, s.plates) for s in model.sites] == [
        ("group", "model", ("g",)), ("first", "model", ()), ("scale", "latent", ()), ("z", "observed", ()),
    ]  # fmt: skip
    assert [(s.name, s.plates) for s in model.sites[0].sites] == [("mu", ()), ("tau", ()), ("theta", ("n",)), ("y", ("",))]
    assert pickle.loads(pickle.dumps(model)).sites == model.sites
    assert loaded()["studies"] == model
    assert "studies" in dir(loaded())
    assert set(model._declared.functions) <= set(dir(model))
    with pytest.raises(TypeError, match="call one of its functions"):
        model(1.0)
    with pytest.raises(AttributeError, match=r"did you mean .prior"):
        model.priors  # noqa: B018


def test_a_discrete_latent_leaves_a_model_without_transforms() -> None:
    text = """import dist
fun coin (p : 'a) =
  { sample = fn (key : u32[2]) (i : 'i) => 1, log_density = fn (k : i32) => if k = 1 then log p else log1p (-p),
    support = { contains = fn (k : i32) => k = 0 orelse k = 1 } }
fun m (y : f32) = let val k ~ coin 0.25 observe y ~ dist.normal (cast f32 k) 1.0 in k end
fun outer (y : f32) = let val inner ~ m y in inner end"""
    module = axon.compile(text)
    for model in (module.m, module.outer):
        assert model._declared.functions == ("value", "log_density", "prior", "likelihood", "predict", "densities", "pointwise")
    density = module.outer.log_density(2.0, {"inner": {"k": 0}})
    assert density == pytest.approx(np.log(0.75) - 2.0 - 0.5 * np.log(2 * np.pi), rel=1e-6)
    with pytest.raises(AttributeError, match="has no 'unconstrained': it has value"):
        module.m.unconstrained  # noqa: B018


def test_a_model_of_data_alone() -> None:
    """No latents: the record of them is the unit."""
    m = axon.compile("import dist\nfun m (y : f64[n]) = let observe y ~ for i => dist.normal 0.0 2.0 in () end").m
    y = np.array([1.0, -2.0])
    assert m.log_density(y, ()) == pytest.approx(-0.5 * (0.25 + 1.0) - 2 * np.log(2 * (2 * np.pi) ** 0.5), rel=1e-14)
    assert m.prior(y, KEY) == ()
    assert m.predict(y, (), KEY)["y"].shape == (2,)


def test_names_of_the_users_stay_theirs() -> None:
    """Parameters and values called `latents`, `u` and `key`, shadowed latents, and names of models in imports."""
    text = """import dist
fun m (key : f64) (latents : f64) u =
  let val mu ~ dist.normal latents key
      val mu_again = mu + u
      val x ~ dist.normal mu_again 1.0
      val mu = 2.0 * mu
      observe u ~ dist.normal (x + mu) 1.0
  in mu end"""
    m = axon.compile(text).m

    def normal(x: float, mu: float, sigma: float) -> float:
        return float(-0.5 * ((x - mu) / sigma) ** 2 - np.log(sigma * np.sqrt(2 * np.pi)))

    found = m.log_density(2.0, 0.5, 1.5, {"mu": 0.25, "x": -0.5})
    assert found == pytest.approx(normal(0.25, 0.5, 2.0) + normal(-0.5, 1.75, 1.0) + normal(1.5, 0.0, 1.0), rel=1e-14)
    assert m.value(2.0, 0.5, 1.5, {"mu": 0.25, "x": -0.5}) == 0.5
    assert set(m.prior(2.0, 0.5, 1.5, key_=KEY)) == {"mu", "x"}


SHADOWS = """import dist
val u = (3.0 : f64)
val latents = (4.0 : f64)
fun key () = (5.0 : f64)
fun parameter (mu : f64[n]) = let val mu ~ for i => dist.normal mu[i] 2.0 in mu end
fun index (y : f64[n]) = let val i ~ for i < n => dist.normal y[i] 1.0 observe y ~ for y => dist.normal i[y] 2.0 in i end
fun chain (s : f64) (x : f64) = let val x ~ unfold (x = s * x) for s < 3 => dist.normal x 1.0 in x end
fun around (y : f64[n]) =
  let val mu ~ dist.normal (u + latents + key ()) (cast f64 n)
      val u ~ dist.normal mu 1.0
  in u end
fun size (y : f64[u]) = let val mu ~ dist.normal (cast f64 u) 1.0 in mu end
"""


def test_what_a_site_says_is_of_the_names_before_it() -> None:
    """A latent may be called as something that its own site mentions, as an index and as a state; parameters that a function of a
    model takes hide nothing that the model mentions."""
    m, normal = axon.compile(SHADOWS), stats.norm.logpdf
    y, z = np.array([0.5, -1.0, 2.0]), np.array([1.0, 3.0, -0.5])
    cases: list[tuple[Any, tuple[Any, ...], dict[str, Any], float]] = [
        (m.parameter, (y,), {"mu": z}, normal(z, y, 2).sum()),
        (m.index, (y,), {"i": z}, normal(z, y, 1).sum() + normal(y, z, 2).sum()),
        (m.chain, (2.0, 3.0), {"x": z}, normal(z, [6.0, *z[:-1]], 1).sum()),
        (m.around, (y,), {"mu": 1.0, "u": 0.5}, normal(1, 12, 3) + normal(0.5, 1, 1)),
        (m.size, (y,), {"mu": 1.0}, normal(1, 3, 1)),
    ]
    for model, data, latents, density in cases:
        assert model.log_density(*data, latents) == pytest.approx(density, rel=1e-13), model
        assert model.unconstrained(*data, model.free(*data, latents)) == pytest.approx(density, rel=1e-13), model
        assert model.prior(*data, KEY).keys() == latents.keys()
    assert abs(m.chain.prior(1.0, 1e6, KEY)["x"] - 1e6).max() < 20


def test_a_name_that_hides_a_model_is_no_model() -> None:
    text = """import dist
fun line (y : f64) = let val q ~ dist.normal y 1.0 in q end
fun m (y : f64) =
  let val line ~ line y
      val z ~ dist.normal line 1.0
  in z end
fun own (y : f64) = let fun line x = dist.normal x 1.0 val z ~ line y in z end"""
    m, normal = axon.compile(text), stats.norm.logpdf
    assert m.m.log_density(0.5, {"line": {"q": 1.0}, "z": -1.0}) == pytest.approx(normal(1, 0.5) + normal(-1, 1), rel=1e-13)
    assert m.own.log_density(0.5, {"z": 1.0}) == pytest.approx(normal(1, 0.5), rel=1e-13)


def test_what_a_model_draws_has_the_floats_of_its_density() -> None:
    """A latent that nothing else says the type of has that of the others, whichever function is asked."""
    text = """import dist
fun m (y : f64[n]) = let val z ~ for _ < 2 => dist.normal 0.0 1.0 observe y ~ for i => dist.normal 0.0 1.0 in z end"""
    m = axon.compile(text).m
    draw = m.prior(np.zeros(3), KEY)
    assert draw["z"].dtype == np.float64
    assert np.isfinite(m.log_density(np.zeros(3), draw))


def test_sizes_are_those_of_the_plates() -> None:
    sigma = np.ones(3)
    latents = {"mu": 0.0, "tau": 1.0, "theta": np.zeros(4)}
    with pytest.raises(axon.ShapeError, match=r"theta"):
        loaded().schools.log_density(sigma, sigma, latents)
    with pytest.raises(axon.ShapeError):
        loaded().schools.prior(sigma, np.ones(4), KEY)  # of the data, the sizes count
