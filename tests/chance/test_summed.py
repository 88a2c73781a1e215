"""Discrete latents that are summed out: against sums over all of their values, by SciPy, and known marginals."""

from __future__ import annotations

import warnings
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, logsumexp

import axon
from axon.base.source import SourceFile
from axon.chance.sites import bound_in, inside
from axon.chance.supports import FIXED
from axon.checker.loader import stdlib_root
from axon.grammar import syntax as S
from axon.grammar.parse import parse

DRAW = np.random.default_rng(28)
Latents = dict[str, Any]


@cache
def loaded() -> axon.Module:
    """Not while tests are collected, which every worker does."""
    return axon.load(Path(__file__).with_name("summed.axon"))


def normal(x: Any, mu: Any, sigma: Any) -> float:
    return float(np.sum(-0.5 * ((x - mu) / sigma) ** 2 - np.log(sigma * np.sqrt(2 * np.pi) * np.ones_like(x - mu))))


def coin(z: Any, p: Any) -> float:
    return float(np.sum(np.log(np.where(z == 1, p, 1 - p))))


def clusters(y: Any, x: Latents) -> float:
    z, mu = x["z"], x["mu"]
    return float(stats.beta(2, 2).logpdf(x["p"])) + normal(mu, 0, 3) + coin(z, x["p"]) + normal(y, mu[z], 1.0 + z)


def groups(y: Any, x: Latents) -> float:
    k, c, z, mu = x["k"], x["c"], x["z"], x["mu"]
    weights = np.where(np.arange(3) == k, 2.0, 1.0)
    found = float(stats.dirichlet([1, 2, 3]).logpdf(x["w"])) + np.log(x["w"][k]) + np.log(weights[c] / weights.sum()).sum()
    found += normal(mu, c, 1.0) + coin(z, 0.2 + 0.2 * c[:, None])
    return float(found + normal(y, mu[:, None] + 2 * z, 1.0 + k))


def weather(rain: Any, y: Any, x: Latents) -> float:
    z, odd, stay = x["z"], x["odd"], x["stay"]
    before = np.concatenate([np.zeros((len(z), 1), int), z[:, :-1]], 1)
    found = coin(z, np.where(before == 0, 1 - stay[0], stay[1])) + coin(odd, 0.25)
    return found + coin(rain, np.where(z == odd, 0.75, 0.125)) + normal(y, 2 * z.T, 1.0)


CASES: dict[str, tuple[Any, tuple[Any, ...], Latents, dict[str, tuple[int, tuple[int, ...]]]]] = {
    "clusters": (clusters, (DRAW.normal(size=4),), {"p": 0.3, "mu": np.array([-0.5, 1.0])}, {"z": (2, (4,))}),
    "groups": (
        groups, (DRAW.normal(size=(2, 2)),), {"w": np.array([0.2, 0.5, 0.3]), "mu": np.array([-0.5, 1.5])},
        {"k": (3, ()), "c": (3, (2,)), "z": (2, (2, 2))},
    ),
    "weather": (
        weather, (DRAW.integers(0, 2, (1, 3)).astype(np.int32), DRAW.normal(1, 1, (3, 1))), {"stay": np.array([0.8, 0.6])},
        {"z": (2, (1, 3)), "odd": (2, (1, 3))},
    ),
}  # fmt: skip


def values(discrete: dict[str, tuple[int, tuple[int, ...]]]) -> list[Latents]:
    """All values of the discrete latents."""
    parts = [[np.reshape(v, shape) for v in product(range(k), repeat=int(np.prod(shape)))] for k, shape in discrete.values()]
    return [dict(zip(discrete, row, strict=True)) for row in product(*parts)]


@pytest.mark.parametrize("name", CASES)
def test_the_marginal_is_a_sum(name: str) -> None:
    density, data, rest, discrete = CASES[name]
    model = getattr(loaded(), name)
    every = values(discrete)
    terms = np.array([density(*data, rest | z) for z in every])
    whole = logsumexp(terms)
    assert model.log_density(*data, typed(rest | every[-2])) == pytest.approx(terms[-2], rel=1e-12)
    assert model.marginal(*data, rest) == pytest.approx(whole, rel=1e-12)
    u = model.free(*data, rest)
    assert u.keys() == rest.keys()
    back = model.constrain(*data, u)
    assert back.keys() == rest.keys()
    for n, x in rest.items():
        np.testing.assert_allclose(back[n], x, rtol=1e-12)


def typed(x: Latents) -> Latents:
    return {n: np.asarray(v, np.int32) if np.asarray(v).dtype.kind == "i" else v for n, v in x.items()}


@pytest.mark.parametrize("name", CASES)
def test_draws_are_from_the_posterior(name: str) -> None:
    """How often each assignment of values comes, against its share of the sum."""
    density, data, rest, discrete = CASES[name]
    every = values(discrete)
    terms = np.array([density(*data, rest | z) for z in every])
    count = 4000
    drawn = loaded()[f"{name}_drawn"][count](*data, rest, np.array([0, 42], np.uint32))
    assert drawn.keys() == rest.keys() | discrete.keys()
    places = np.zeros(count, int)
    for n, (k, shape) in discrete.items():
        for digit in drawn[n].reshape(count, int(np.prod(shape))).T:
            places = places * k + digit
    expected = count * np.exp(terms - logsumexp(terms))
    seen = np.bincount(places, minlength=len(every))
    many = expected > 10
    bins = np.array([[*x[many], x[~many].sum()] for x in (seen, expected)])[:, : many.sum() + (not many.all())]
    assert stats.chisquare(*bins).pvalue > 1e-4


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_that_of_differences(name: str) -> None:
    _, data, rest, _ = CASES[name]
    model = getattr(loaded(), name)
    u = model.free(*data, rest)
    slope = model.unconstrained.grad(wrt="u")(*data, u)
    way = {n: np.cos(np.arange(np.size(x)) + 1.0).reshape(np.shape(x)) for n, x in u.items()}
    ahead, back = (model.unconstrained(*data, {n: x + h * way[n] for n, x in u.items()}) for h in (1e-6, -1e-6))
    assert (ahead - back) / 2e-6 == pytest.approx(sum(np.sum(slope[n] * way[n]) for n in u), rel=1e-6)


def test_known_marginals() -> None:
    """A mixture is the library's; where data say what is counted, the posterior is the conjugate one, with its evidence."""
    y = DRAW.normal(size=5)
    rest = {"p": 0.3, "mu": np.array([-0.5, 1.0])}
    assert loaded().clusters.marginal(y, rest) == pytest.approx(loaded().mixture.log_density(y, rest), rel=1e-13)
    seen = np.array([1, 0, 1, 1], np.int32)
    for p in (0.1, 0.6):
        evidence = betaln(2 + 3, 3 + 1) - betaln(2, 3)
        assert loaded().coins.marginal(seen, {"p": p}) == pytest.approx(stats.beta(5, 4).logpdf(p) + evidence, rel=1e-12)
    drawn = loaded().coins.complete(seen, {"p": 0.4}, np.array([0, 42], np.uint32))
    np.testing.assert_array_equal(drawn["z"], seen)


REFUSED = [
    ("AX0809", "k", "val k ~ dist.poisson 3.0 observe y ~ dist.normal (cast f64 (k : i32)) 1.0 in k"),
    ("AX0808", "z", "val z ~ for i < n => dist.bernoulli 0.5 observe y ~ dist.normal (sum i => cast f64 z[i]) 1.0 in z"),
    ("AX0808", "a", "val a ~ for i < n => dist.bernoulli 0.5 val b ~ for j < n => dist.bernoulli 0.5 "
     "observe m ~ for i j => dist.normal (cast f64 (a[i] + b[j])) 1.0 in a"),
    ("AX0808", "z", "val z ~ for i < n => dist.bernoulli 0.5 fun f i = z[n - 1 - i] "
     "observe x ~ for i => dist.normal (cast f64 (f i)) 1.0 in z"),
    ("AX0808", "z", "val z ~ for i < n => dist.bernoulli 0.5 val i = 0 val c = z[i] "
     "observe x ~ for i => dist.normal (cast f64 c) 1.0 in z"),
    ("AX0808", "z", "val z ~ unfold (k = 0) for s < n => dist.bernoulli (if k = 0 then 0.1 else 0.8) "
     "observe x ~ for s => dist.normal (if s = 0 then 0.0 else cast f64 (z[s] - z[s - 1])) 1.0 in z"),
    ("AX0808", "a", "val a ~ unfold (k = 0) for s < n => dist.bernoulli (if k = 0 then 0.1 else 0.8) "
     "val b ~ unfold (k = 0) for s < n => dist.bernoulli (if k = 0 then 0.3 else 0.6) "
     "observe x ~ for s => dist.normal (cast f64 (a[s] + b[s])) 1.0 in a"),
    ("AX0808", "z", "val z ~ dist.bernoulli 0.5 val w ~ dist.uniform 0.0 (1.0 + cast f64 z) observe y ~ dist.normal w 1.0 in w"),
    ("AX0808", "z", "val z ~ dist.bernoulli 0.5 val w ~ if z = 1 then dist.normal 0.0 1.0 else dist.gamma 1.0 1.0 "
     "observe y ~ dist.normal w 1.0 in w"),
    ("AX0808", "z", "val z ~ dist.bernoulli 0.5 fun d k = dist.normal (cast f64 k) 1.0 val w ~ d z "
     "observe y ~ dist.normal w 1.0 in w"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "latent", "body"), REFUSED)
def test_what_cannot_be_summed_is_refused(code: str, latent: str, body: str) -> None:
    """By the name of the latent, where its function is asked for; the others of the model are there."""
    text = f"import dist\nfun m (y : f64) (x : f64[n]) (m : f64[n, n]) = let {body} end\n"
    model = axon.compile(text).m
    assert "unconstrained" not in dir(model)
    assert "log_density" in dir(model)
    with pytest.raises(AttributeError, match=f"its latent `{latent}` cannot be summed out: "):
        model.marginal  # noqa: B018
    with pytest.raises(axon.AxonError, match=rf"{code}.*its latent `{latent}` cannot be summed out"):
        axon.compile(text + "fun f y x n u = m.unconstrained y x n u\n")
    with pytest.raises(axon.AxonError, match=r"has a discrete latent, along which there is no gradient.*cannot be summed out"):
        axon.infer(model, (1.0, np.ones(2), np.ones((2, 2))))


def test_supports_that_are_the_same_for_all_parameters() -> None:
    """The list is what the library's text says: no parameter is mentioned by a support, nor by what it mentions."""
    source = SourceFile("dist.axon", (stdlib_root() / "dist.axon").read_text(encoding="utf-8"))
    found: set[str] = set()
    for decl in (d for d in parse(source)[0].decls if isinstance(d, S.Fun)):
        moving = {p.name for param in decl.params for p in bound_in(param)}
        body = decl.body
        while isinstance(body, S.Let):
            for inner in body.decls:
                if any(isinstance(n, S.Var) and n.name in moving for n in inside(inner)):
                    moving |= {inner.name.text} if isinstance(inner, S.Fun) else {p.name for p in bound_in(inner.pattern)}
            body = body.body
        support = next((v for n, v in body.fields if n.text == "support"), None) if isinstance(body, S.Record) else None
        if support is not None and not any(isinstance(n, S.Var) and n.name in moving for n in inside(support)):
            found.add(decl.name.text)
    assert found | {"chi_squared"} == FIXED  # that is one of gamma's


def test_names_between_sites_stay_theirs() -> None:
    """Values that hide a latent, or something that looks at one, after which the site says something else."""
    text = """import dist
fun m (y : f64[n]) =
  let val z ~ for i < n => dist.bernoulli 0.25
      val mu = for i => 2.0 * cast f64 z[i]
      val z = 3.0
      val mu ~ for i < n => dist.normal mu[i] z
      observe y ~ for i => dist.normal mu[i] z
  in mu end"""
    y, mu = np.array([0.5, -1.0]), np.array([1.0, 2.0])
    each = np.logaddexp(np.log(0.75) + stats.norm(0, 3).logpdf(mu), np.log(0.25) + stats.norm(2, 3).logpdf(mu))
    wanted = (each + stats.norm(mu, 3).logpdf(y)).sum()
    assert axon.compile(text).m.marginal(y, {"mu": mu}) == pytest.approx(wanted, rel=1e-12)


def test_inference_draws_what_it_has_summed_out() -> None:
    y = np.array([-3.0, -2.9, 4.0, 4.2])
    start = {"p": 0.5, "mu": np.array([-3.0, 4.0])}
    how: dict[str, Any] = {"start": start, "length": 0.5, "chains": 2, "draws": 2, "warmup": 0, "target": "interpret"}
    with warnings.catch_warnings(action="ignore"):
        found = axon.infer(loaded().clusters, (y,), method="hmc", **how)
    z = found.posterior["z"].values
    assert z.shape == (2, 2, 4)
    assert {*z.ravel()} <= {0, 1}
    with pytest.raises(axon.AxonError, match="method `smc` weighs by the data alone"):
        axon.infer(loaded().clusters, (y,), method="smc")
