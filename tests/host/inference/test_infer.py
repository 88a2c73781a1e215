"""`axon.infer`: what it gives, by name and shape; its errors; that its key, and not where it is cut, says what it draws.

Whether the draws are the posterior's is seen in tests/library/test_infer.py and by benchmarks.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm, poisson

import axon
from axon.host.inference import density, latents, program, report, weighted
from tests.sample import SOAK

arviz = pytest.importorskip("arviz")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning:arviz", "ignore::FutureWarning:arviz")  # of so few draws

PROGRAM = """
import dist
fun waits (y : f64[n]) =
  let val rate ~ dist.gamma 2.0 1.0
      observe y ~ for i < n => dist.gamma 2.0 rate
  in rate end
type latents = { scale : f64, w : { up : f64[2, 3], down : f64 } }
fun density (x : f64[n]) (spread : f64) (p : latents) =
  -0.5 * (p.scale ** 2.0 + p.w.down ** 2.0 + sum i j => (p.w.up[i, j] / spread) ** 2.0) - 0.0 * sum i => x[i]
fun plain (u : f64[k]) = -0.5 * sum i => u[i] ** 2.0
fun single (x : f32[n]) (m : f32) = -0.5 * sum i => (x[i] - m) ** 2.0
fun never (x : f64[n]) (p : { mu : f64, s : f64 }) = (sum i => log (x[i] - exp p.mu)) - p.s ** 2.0
fun kinked (p : { a : f64, b : f64[2] }) = -0.5 * p.a ** 2.0 - with_vjp (fn x => x) (fn _ dy => nan * dy) p.b[1]
fun line (x : f64[n]) (y : f64[n]) =
  let val slope ~ dist.normal 0.0 1.0
      val base ~ dist.normal 0.0 1.0
      observe y ~ for i => dist.normal (base + slope * x[i]) 0.5
  in slope end
fun events (y : f64) = let val k ~ dist.poisson 2.0 observe y ~ dist.normal (cast f64 k) 1.0 in k end
fun flips (y : f64[n]) =
  let val share ~ dist.beta 2.0 2.0
      val heads ~ for i < n => dist.bernoulli share
      observe y ~ for i => dist.normal (cast f64 heads[i]) 1.0
  in heads end
fun blind (x : f64) = let val slope ~ dist.normal x 1.0 in slope end
fun twice (low : f64) (y : f64[n]) (z : i32[k]) =
  let val a ~ dist.uniform low 1.0
      val rate ~ dist.gamma 2.0 1.0
      observe y ~ for i => dist.normal a 1.0
      observe z ~ for i => dist.poisson rate
  in a end
fun slope (u : f64[2]) = u[0] - u[1] ** 2.0
fun ridge (p : { a : f64, b : f64 }) = -(p.a ** 2.0) - 0.0 * p.b
fun narrow (x : f64[n, k]) (y : f64[n]) =
  let val beta ~ for j < k => dist.normal 0.0 10.0
      val sigma ~ dist.half_normal 10.0
      observe y ~ for i => dist.normal (sum j => x[i, j] * beta[j]) sigma
  in beta end
fun steep (u : f64[1]) = -1.0e9 * u[0] ** 2.0
"""
START = {"scale": 0.0, "w": {"up": np.zeros((2, 3)), "down": 0.0}}
FEW = {"chains": 2, "draws": 4, "warmup": 2, "target": "interpret"}


@pytest.fixture(scope="module")
def m() -> axon.Module:
    return axon.compile(PROGRAM)


def drawn(*args: Any, **kwargs: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # so few draws have not mixed
        return axon.infer(*args, **{**FEW, **kwargs})


def test_draws_have_the_names_of_latents_and_are_those_of_the_key(m: axon.Module) -> None:
    data = {"spread": np.float64(0.1), "x": np.ones(3)}
    one, again = drawn(m.density, data, start=START, key=3), drawn((m.density, START), (np.ones(3), np.float64(0.1)), key=3)
    shapes = {name: one.posterior[name].shape for name in one.posterior}
    assert shapes == {"scale": (2, 4), "w.up": (2, 4, 2, 3), "w.down": (2, 4)}
    assert set(one.sample_stats) == {"lp", "acceptance_rate", "energy", "diverging", "n_steps", "step_size"}
    for name in one.posterior:
        np.testing.assert_array_equal(one.posterior[name], again.posterior[name])
    other = drawn(m.density, data, start=START, key=4, method="hmc", length=1.0)
    assert (other.posterior["scale"] != one.posterior["scale"]).all()
    row = {"scale": one.posterior["scale"][1, 3], "w": {name: one.posterior[f"w.{name}"][1, 3] for name in ("up", "down")}}
    row = {"scale": np.asarray(row["scale"]), "w": {name: np.asarray(part) for name, part in row["w"].items()}}
    assert m.density(np.ones(3), 0.1, row, target="interpret") == pytest.approx(float(one.sample_stats["lp"][1, 3]))
    assert one.posterior.attrs["method"] == "chees"
    assert arviz.summary(one).shape[0] == 8


def test_the_program_of_a_density_is_made_once(m: axon.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """For each size of its latents: other draws of the same check and compile nothing."""
    drawn(m.plain, (), start=np.zeros(2))
    checked: list[str] = []
    check = program.compiler.check_text
    monkeypatch.setattr(program.compiler, "check_text", lambda text, path: checked.append(text) or check(text, path))
    drawn(m.plain, (), start=np.ones(2), key=5)
    assert not checked
    drawn(m.plain, (), start=np.zeros(3))
    assert len(checked) == 1


def test_a_model_gives_its_latents_as_it_declares_them(m: axon.Module) -> None:
    y = np.array([0.5, 1.5, 2.0])
    found = drawn(m.waits, {"y": y})
    assert (found.posterior["rate"] > 0).all()
    np.testing.assert_array_equal(found.observed_data["y"], y)
    last = {"rate": float(found.posterior["rate"][1, 3])}
    wanted = m.waits.log_density(y, last, target="interpret") + np.log(last["rate"])  # exp is what makes it positive
    assert float(found.sample_stats["lp"][1, 3]) == pytest.approx(wanted)


def test_vectors_and_narrow_floats(m: axon.Module) -> None:
    assert drawn(m.plain, start=np.zeros(2)).posterior["u"].shape == (2, 4, 2)
    assert drawn(m.single, (np.ones(3, np.float32),), start=np.float32(0)).posterior["u"].dtype == np.float32


def test_modules_and_models_of_all_kinds() -> None:
    """An import that is a comment, data of no elements, no data at all."""
    text = """(*
import infer
*)
import dist
fun none (y : f64[n]) =
  let val z ~ for i < n => dist.normal 0.0 1.0
      val s ~ dist.half_normal 1.0
      observe y ~ for i => dist.normal z[i] s
  in s end
fun alone () = let val z ~ dist.normal 0.0 1.0 in z end"""
    m = axon.compile(text)
    found = drawn(m.none, (np.zeros(0),))
    assert (found.posterior["z"].shape, found.posterior["s"].shape) == ((2, 4, 0), (2, 4))
    assert drawn(m.alone).posterior["z"].shape == (2, 4)
    with pytest.raises(axon.AxonError, match="needs the library's `infer`"):
        drawn(axon.compile("fun infer x = x + 1.0\nfun plain (u : f64[k]) = -0.5 * sum i => u[i] ** 2.0").plain, start=np.zeros(2))


def test_ctrl_c_keeps_what_was_drawn(m: axon.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = drawn(m.plain, start=np.zeros(2), key=5)
    call, calls = program.Program.call, []

    def interrupted(made: Any, function: str, *args: Any, **kwargs: Any) -> Any:
        calls.append(function)
        if calls.count("chains") > last:
            raise KeyboardInterrupt
        return call(made, function, *args, **kwargs)

    monkeypatch.setattr(program.Program, "call", interrupted)
    last = 5  # of six steps, two of which are warm-up
    with pytest.warns(RuntimeWarning, match="interrupted: 3 of 4 draws"):
        part = drawn_aloud(m)
    np.testing.assert_array_equal(part.posterior["u"], whole.posterior["u"][:, :3])
    calls.clear()
    last = 2
    with pytest.raises(KeyboardInterrupt):
        drawn_aloud(m)


def drawn_aloud(m: axon.Module) -> Any:
    return axon.infer(m.plain, start=np.zeros(2), key=5, **FEW)


X = np.linspace(-1, 1, 6)
Y = 1 + 2 * X + np.array([0.3, -0.4, 0.2, 0.1, -0.5, 0.2])


def conjugate() -> tuple[float, np.ndarray, np.ndarray]:
    """The evidence of `line`, and the mean and the covariance of its slope and base."""
    a = np.stack([X, np.ones(6)], 1)
    covariance = np.linalg.inv(a.T @ a / 0.25 + np.eye(2))
    return float(multivariate_normal(np.zeros(6), a @ a.T + 0.25 * np.eye(6)).logpdf(Y)), covariance @ a.T @ Y / 0.25, covariance


@pytest.mark.parametrize("method", ["smc", "importance", "map", "laplace"])
def test_methods_beside_chains(m: axon.Module, method: str) -> None:
    """A regression whose posterior is normal; the same key gives the same draws."""
    evidence, mean, covariance = conjugate()
    draws = {"importance": 6000, "smc": 100}.get(method, 300)
    few: dict[str, Any] = {"draws": draws, "chains": 2, "key": 3, "method": method, "target": "interpret"}
    found, again = axon.infer(m.line, (X, Y), **few), axon.infer(m.line, {"y": Y, "x": X}, **few)
    u = np.stack([found.posterior["slope"], found.posterior["base"]], -1)
    assert u.shape == ((1, 1, 2) if method == "map" else (2, draws, 2))
    np.testing.assert_array_equal(u[..., 0], again.posterior["slope"])
    np.testing.assert_array_equal(found.observed_data["y"], Y)
    np.testing.assert_allclose(u.mean((0, 1)), mean, atol=1e-5 if method == "map" else 0.1)
    if method != "map":
        assert found.posterior.attrs["evidence"] == pytest.approx(evidence, abs=1e-6 if method == "laplace" else 0.4)
        np.testing.assert_allclose(u.std((0, 1)), np.sqrt(np.diag(covariance)), rtol=0.2)


def test_the_peak_is_that_of_the_latents(m: axon.Module) -> None:
    """Without the Jacobian of what makes them positive: a gamma's mode."""
    found = axon.infer(m.waits, (np.array([0.5, 1.5, 2.0]),), method="map", target="interpret")
    assert float(found.posterior["rate"][0, 0]) == pytest.approx((2 + 3 * 2 - 1) / (1 + 4))


def test_what_is_advised_can_be_done(m: axon.Module) -> None:
    """Where draws of the prior are worth little: `smc` is not for models with discrete latents."""
    for name, data, words in (
        ("waits", (np.ones(3),), "method `smc` goes there"),
        ("flips", (np.ones(3),), "method `chees` sums `heads` out"),
        ("events", (3.0,), "more draws"),
    ):
        assert words in weighted.instead(density.density_of(m[name], data, None, "importance", slopes=False))


def test_importance_needs_no_gradient(m: axon.Module) -> None:
    found = axon.infer(m.events, (3.0,), method="importance", draws=4000, target="interpret")
    k = np.arange(30)
    weight = poisson.pmf(k, 2) * norm.pdf(3, k, 1)
    assert found.posterior["k"].dtype.kind == "i"
    assert float(found.posterior["k"].mean()) == pytest.approx((k * weight).sum() / weight.sum(), abs=0.15)
    assert found.posterior.attrs["evidence"] == pytest.approx(np.log(weight.sum()), abs=0.1)
    with pytest.warns(RuntimeWarning, match="4 draws of the prior are worth .* more draws, or a prior nearer to it, may help"):
        axon.infer(m.events, (3.0,), method="importance", draws=4, target="interpret")


WRONG = {
    "never": (("never", (-np.ones(3),)), {"start": {"mu": 0.0, "s": 0.0}}, "`never` is NaN wherever chain 1 could begin"),
    "impossible": (("waits", {"y": -np.ones(3)}), {}, "what is observed of `y` has the log density -inf"),
    "one of them": (
        ("twice", (0.0, np.zeros(2), np.array([1, -2, 3], np.int32))),
        {},
        "wherever chain 1 could begin: what is observed of `z[1]` has the log density -inf",
    ),
    "a draw of one of them": (
        ("twice", (0.0, np.zeros(2), np.array([1, -2, 3], np.int32))),
        {"method": "smc"},
        "none of 4 draws of the prior of `twice` is possible: at the first, what is observed of `z[1]` has the log density -inf",
    ),
    "a prior": (("twice", (2.0, np.zeros(2), np.ones(3, np.int32))), {}, "the prior of `a` has the log density NaN"),
    "nan": (("never", (np.array([9.0, np.nan]),)), {"start": {"mu": 0.0, "s": 0.0}}, "`x` holds NaN or infinities"),
    "slope": (("kinked",), {"start": {"a": 0.0, "b": np.zeros(2)}}, "the gradient of `kinked` by `b` is NaN wherever chain 1"),
    "no data": (("never", {"z": 1.0}), {"start": 0.0}, "`never` has no data `z`"),
    "little data": (("density", {"x": np.ones(3)}), {"start": START}, "`density` needs data for `spread`"),
    "much data": (("plain", (1.0, 2.0)), {"start": 0.0}, "takes 0 data, none, and 2 are given"),
    "no start": (("plain",), {}, "`plain` needs a place to begin"),
    "a field": (("kinked",), {"start": {"a": 0.0}}, "this record lacks `b`, in `axon.infer` of `kinked`"),
    "method": (("plain",), {"start": np.zeros(2), "method": "chess"}, "there is no method `chess`; did you mean 'chees'?"),
    "no method": (("plain",), {"start": np.zeros(2), "method": ["hmc"]}, "there is no method `['hmc']`"),
    "one chain": (("plain",), {"start": np.zeros(2), "chains": 1}, "`chains` must be an integer of 2 or more"),
    "metric": (("plain",), {"start": np.zeros(2), "metric": "diagnal"}, "there is no metric `diagnal`; did you mean 'diagonal'?"),
    "no metric": (("plain",), {"start": np.zeros(2), "method": "map", "metric": "dense"}, "no trajectories with a `metric`"),
    "length": (("plain",), {"start": np.zeros(2), "method": "map", "length": 1.0}, "method `map` has no trajectories"),
    "no length": (("plain",), {"start": np.zeros(2), "length": -1.0}, "`length` must be a number above 0, not -1.0"),
    "a function": (("plain",), {"start": np.zeros(2), "method": "smc"}, "begins with draws of a model's prior, and `plain` is a"),
    "nothing seen": (("blind", (1.0,)), {"method": "importance"}, "`blind` observes nothing"),
    "discrete": (("events", (3.0,)), {"method": "smc"}, "`events` has a discrete latent, along which there is no gradient"),
    "impossible draws": (
        ("waits", {"y": -np.ones(3)}),
        {"method": "importance"},
        "of `waits` is possible: at the first, what is observed of `y` has the log density -inf",
    ),
    "impossible particles": (
        ("waits", {"y": -np.ones(3)}),
        {"method": "smc"},
        "of `waits` is possible: at the first, what is observed of `y` has the log density -inf",
    ),
    "no peak": (("slope",), {"start": np.zeros(2), "method": "map"}, "`slope` has no peak that 1000 steps reach from 2 starts"),
    "a ridge": (("ridge",), {"start": {"a": 0.0, "b": 0.0}, "method": "laplace"}, "`ridge` does not bend down on every side"),
    "key": (("plain",), {"start": np.zeros(2), "key": -1}, "`key` is a seed"),
    "a key that is none": (("plain",), {"start": np.zeros(2), "key": True}, "`key` is a seed"),
    "chains that are none": (
        ("plain",),
        {"start": np.zeros(2), "chains": True, "method": "hmc"},
        "`chains` must be an integer of 1",
    ),
    "start of nan": (("kinked",), {"start": {"a": np.nan, "b": np.zeros(2)}}, "the start of `a` is NaN"),
    "start in part": (("kinked",), {"start": {"a": 0.0, "b": np.array([0, np.inf])}}, "the start of `b` has infinities"),
    "start outside": (
        ("waits", {"y": np.ones(3)}),
        {"start": {"rate": -1.0}},
        "the start of `rate` is not one that `waits` can draw",
    ),
    "start of a model": (
        ("twice", (0.0, np.zeros(2), np.array([1, -2, 3], np.int32))),
        {"start": {"a": 0.5, "rate": 1.0}},
        "places between -2 and 2 away from the start were tried",
    ),
    "names of a model": (("waits", {"z": np.ones(3)}), {}, "`waits` has no data `z`"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_error(m: axon.Module, name: str) -> None:
    (function, *data), keywords, words = WRONG[name]
    with pytest.raises(axon.AxonError) as caught:
        drawn(m[function], *data, **keywords)
    assert words in str(caught.value)
    assert len(caught.value.diagnostics) == 1


def test_chains_come_from_far_away(m: axon.Module) -> None:
    """A regression whose coefficients are known to 0.001 and less: all chains begin near to that, though they are scattered up to 2
    away. In the soak they mix."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 3)) * np.array([1, 10, 100])
    y = x @ np.array([1.0, -0.5, 0.1]) + 0.01 * rng.normal(size=100)
    best = np.linalg.lstsq(x, y)[0]
    found = drawn(m.narrow, (x, y), chains=4, draws=1, warmup=0)
    peak = m.narrow.unconstrained(x, y, m.narrow.free(x, y, {"beta": best, "sigma": 0.01}), target="interpret")
    assert (found.sample_stats["lp"] > peak - 1000).all()  # of what is scattered 1e4 and more below
    if SOAK:
        found = axon.infer(m.narrow, (x, y), chains=8, draws=200, warmup=200, key=1)
        assert found.posterior.attrs["r_hat"] < 1.05
        np.testing.assert_allclose(found.posterior["beta"].mean(("chain", "draw")), best, atol=3e-4)


def test_what_is_warned_of_is_said_once(m: axon.Module) -> None:
    """By the model's name, with as many digits as tell an R-hat from its bound, and nothing of NumPy's own."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        axon.infer(m.waits, (np.ones(3),), **{**FEW, "draws": np.int64(8), "warmup": 0})
        stuck = axon.infer(m.steep, start=np.ones(1), **{**FEW, "draws": 8, "warmup": 0})
    said = [str(w.message) for w in caught if w.category is RuntimeWarning]
    assert np.isnan(stuck.posterior.attrs["r_hat"])
    assert any("R-hat of `u` is NaN, as of chains that never moved" in line for line in said)
    assert all(line.startswith(("waits: ", "steep: ")) for line in said), said


def test_an_r_hat_is_told_from_its_bound() -> None:
    """1.012 is above 1.01, and is not shown as 1.01."""
    assert [report.shown(x) for x in (1.0101, 1.012, 1.4567, 24534383.96, np.inf, np.nan)] == [
        "1.0101", "1.012", "1.46", "2.45e+07", "inf", "NaN"
    ]  # fmt: skip


def test_divergences_are_told(m: axon.Module) -> None:
    """Without a warm-up the step is 1, a thousand times too long."""
    with pytest.warns(RuntimeWarning, match="transitions diverged"):
        found = axon.infer(m.steep, start=np.ones(1), **{**FEW, "warmup": 0})
    assert found.sample_stats["diverging"].sum() == found.posterior.attrs["divergences"] == 8


def test_latents_as_a_vector() -> None:
    """Leaves stand one after the other; the text reads them back."""
    value = {"a": 1.0, "b": (np.arange(6.0).reshape(2, 3), np.float64(9))}
    tree = latents.tree_of(value)
    u = latents.vector(value, "f64")
    np.testing.assert_array_equal(u, [1, 0, 1, 2, 3, 4, 5, 9])
    assert [leaf.path for leaf in latents.leaves(tree)] == ["a", "b.1", "b.2"]
    back = axon.compile(f"fun f (u : f64[8]) = {latents.text(tree, 'u')}").f(u, target="interpret")
    np.testing.assert_array_equal(back["b"][0], value["b"][0])
    assert (back["a"], back["b"][1]) == (1, 9)
