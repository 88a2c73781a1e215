"""The models of models.axon in NumPyro: the same latents, priors and parametrizations, vectorized."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro import sample


def schools(sigma: Any, y: Any) -> None:
    mu = sample("mu", dist.Normal(0.0, 5.0))
    tau = sample("tau", dist.HalfCauchy(5.0))
    z = sample("z", dist.Normal(0.0, 1.0).expand(sigma.shape))
    sample("obs", dist.Normal(mu + tau * z, sigma), obs=y)


def linear(x: Any, y: Any) -> None:
    a = sample("a", dist.Normal(0.0, 10.0))
    b = sample("b", dist.Normal(0.0, 10.0).expand(x.shape[1:]))
    sigma = sample("sigma", dist.HalfNormal(5.0))
    sample("obs", dist.Normal(a + x @ b, sigma), obs=y)


def logistic(x: Any, y: Any) -> None:
    a = sample("a", dist.Normal(0.0, 5.0))
    b = sample("b", dist.Normal(0.0, 2.5).expand(x.shape[1:]))
    sample("obs", dist.BernoulliLogits(a + x @ b), obs=y)


def grouped(w: Any, x: Any, group: Any, y: Any) -> None:
    mu = sample("mu", dist.Normal(0.0, 2.0))
    slope = sample("slope", dist.Normal(0.0, 2.0))
    tau = sample("tau", dist.HalfNormal(1.0))
    z = sample("z", dist.Normal(0.0, 1.0).expand(w.shape))
    b = sample("b", dist.Normal(0.0, 2.5).expand(x.shape[1:]))
    sample("obs", dist.BernoulliLogits((mu + slope * w + tau * z)[group] + x @ b), obs=y)


def counts(x: Any, y: Any) -> None:
    a = sample("a", dist.Normal(0.0, 5.0))
    b = sample("b", dist.Normal(0.0, 1.0).expand(x.shape[1:]))
    phi = sample("phi", dist.Gamma(2.0, 0.5))
    sample("obs", dist.NegativeBinomial2(jnp.exp(a + x @ b), phi), obs=y)


def autoregression(lags: Any, y: Any) -> None:
    a = sample("a", dist.Normal(0.0, 10.0))
    b = sample("b", dist.Normal(0.0, 1.0).expand(lags.shape[1:]))
    sigma = sample("sigma", dist.HalfCauchy(2.5))
    sample("obs", dist.Normal(a + lags @ b, sigma), obs=y)


def volatility(y: Any) -> None:
    mu = sample("mu", dist.Normal(0.0, 2.0))
    stays = sample("stays", dist.Uniform(-1.0, 1.0))
    sigma = sample("sigma", dist.HalfNormal(1.0))
    h = sample("h", dist.ImproperUniform(dist.constraints.real, (), y.shape))
    before = jnp.concatenate([mu[None], h[:-1]])
    numpyro.factor("chain", dist.Normal(mu + stays * (before - mu), sigma).log_prob(h).sum())
    sample("obs", dist.Normal(0.0, jnp.exp(0.5 * h)), obs=y)


def mixture(y: Any) -> None:
    low = sample("low", dist.Normal(0.0, 3.0))
    gap = sample("gap", dist.HalfNormal(5.0))
    share = sample("share", dist.Beta(2.0, 2.0))
    sigma = sample("sigma", dist.HalfNormal(2.0).expand((2,)))
    parts = dist.Normal(jnp.stack([low, low + gap]), sigma)
    sample("obs", dist.MixtureSameFamily(dist.Categorical(probs=jnp.stack([share, 1 - share])), parts), obs=y)


def process(x: Any, y: Any) -> None:
    rho = sample("rho", dist.InverseGamma(5.0, 5.0))
    alpha = sample("alpha", dist.HalfNormal(2.0))
    sigma = sample("sigma", dist.HalfNormal(1.0))
    near = alpha**2 * jnp.exp(-0.5 * ((x[:, None] - x[None]) / rho) ** 2)
    sample("obs", dist.MultivariateNormal(0.0, covariance_matrix=near + (sigma**2 + 1e-8) * jnp.eye(len(x))), obs=y)


def sparse(x: Any, y: Any) -> None:
    tau = sample("tau", dist.HalfCauchy(0.2))
    local = sample("local", dist.Exponential(1.0).expand(x.shape[1:]))
    z = sample("z", dist.Normal(0.0, 1.0).expand(x.shape[1:]))
    sigma = sample("sigma", dist.HalfNormal(1.0))
    sample("obs", dist.Normal(x @ (tau * local * z), sigma), obs=y)
