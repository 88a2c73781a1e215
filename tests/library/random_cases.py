"""`random` against Threefry in NumPy's integers, and what distributions are by their definitions (SciPy's quantiles)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special, stats

from tests.library.library_case import Array, Comparison, Drawn, case, of


def word(x: int) -> int:
    return x & 0xFFFFFFFF


def block(key: Array, counter: int) -> tuple[int, int]:
    """Threefry-2x32 in 20 rounds, as its paper defines it."""
    k = [int(key[0]), int(key[1])]
    k.append(k[0] ^ k[1] ^ 0x1BD11BDA)
    a, b = word((counter >> 32) + k[0]), word(counter + k[1])
    for group in range(5):
        for rotation in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            a = word(a + b)
            b = word(b << rotation | b >> (32 - rotation)) ^ a
        a, b = word(a + k[(group + 1) % 3]), word(b + k[(group + 2) % 3] + group + 1)
    return a, b


def bits64(key: Array, counter: int) -> int:
    a, b = block(key, counter)
    return a << 32 | b


def split(key: Array, counter: int) -> Array:
    return np.array(block(key, counter), np.uint32)


def uniform(key: Array, counter: int, element: type) -> float:
    a, b = block(key, counter)
    return float(bits64(key, counter) >> 12) / 2**52 if element == np.float64 else float((a ^ b) >> 9) / 2**23


def normal(key: Array, counter: int, element: type) -> float:
    nearest = 1 - float(np.finfo(element).eps) / 2
    return np.sqrt(2) * float(special.erfinv(max(-nearest, 2 * uniform(key, counter, element) - nearest)))


def gumbel(key: Array, counter: int) -> float:
    return float(-np.log(-np.log1p(-(bits64(key, counter) + 0.5) / 2**64)))


def gamma_parts(shape: float, key: Array, counter: int, element: type) -> tuple[float, float]:
    """Marsaglia and Tsang's method, as a loop over attempts."""
    k = split(key, counter)
    d = (shape if shape >= 1 else shape + 1) - 1 / 3
    t = 0
    while True:
        x, u = normal(k, 2 * t, element), uniform(k, 2 * t + 1, element)
        v = (1 + x / np.sqrt(9 * d)) ** 3
        if v > 0 and (u == 0 or np.log(u) < x * x / 2 + d - d * v + d * np.log(v)):
            return d * v, np.log1p(-uniform(k, -1, element)) / shape if shape < 1 else 0.0
        t += 1


def log_gamma(shape: float, key: Array, counter: int, element: type) -> float:
    y, boost = gamma_parts(shape, key, counter, element)
    return float(np.log(y) + boost)


def keyed(d: Drawn) -> Array:
    return d.rng.integers(0, 2**32, 2, np.uint32)


def counter(d: Drawn) -> int:
    """From all 64 bits, and often a small one."""
    return int(d.rng.integers(0, 9)) if d.rng.random() < 0.5 else int(d.rng.integers(-(2**63), 2**63))


def whole(name: str, call: str, wanted: Callable[[Array, int], object]) -> None:
    @case(f"random.{name}", f"fun f (key : u32[2]) (i : i64) = {call}")
    def _(d: Drawn) -> Comparison:
        key, i = keyed(d), counter(d)
        return of(key, np.int64(i), wanted=wanted(key, i))


whole("block", "let val (a, b) = random.block key i in [| a, b |] end", split)
whole("bits", "random.bits key i", lambda key, i: np.uint32(block(key, i)[0] ^ block(key, i)[1]))
whole("bits64", "random.bits64 key i", lambda key, i: np.uint64(bits64(key, i)))
whole("split", "random.split key i", split)
whole("fold_in", "random.fold_in key i", lambda key, i: split(key, word(i)))
whole("key", "random.key i", lambda key, i: np.array([word(i >> 32), word(i)], np.uint32))


@case("random.threefry", "fun f key a b = let val (c, d) = random.threefry key a b in [| c, d |] end")
def _(d: Drawn) -> Comparison:
    key, words = keyed(d), keyed(d)
    return of(key, words[0], words[1], wanted=split(key, int(words[0]) << 32 | int(words[1])))


def drawn(name: str, call: str, wanted: Callable[[Array, int, type], float], slack: float = 1.0) -> None:
    """As many numbers as an argument has: it tells their type too."""

    @case(f"random.{name}", f"fun f (key : u32[2]) (x : 'a[n]) : 'a[n] = for i < n => {call}")
    def _(d: Drawn) -> Comparison:
        key, n = keyed(d), d.size(0, 9)
        return of(key, d.real(n), wanted=np.array([wanted(key, i, d.element) for i in range(n)], np.float64), slack=slack)


drawn("uniform", "random.uniform key i", uniform, slack=0)
drawn("uniform_between", "random.uniform_between (-3.0) 5.0 key i", lambda key, i, e: 8 * uniform(key, i, e) - 3)
drawn("normal", "random.normal key i", normal)
drawn("exponential", "random.exponential key i", lambda key, i, e: float(-np.log1p(-uniform(key, i, e))))
drawn("gumbel", "random.gumbel key i", lambda key, i, e: gumbel(key, i))


@case("random.spacing")
def _(d: Drawn) -> Comparison:
    return of(d.real(), wanted=np.finfo(d.element).eps, slack=0)


@case("random.truncated_normal", "fun f key low high (x : 'a[n]) = for i < n => random.truncated_normal low (high : 'a) key i")
def _(d: Drawn) -> Comparison:
    """In the middle, where it is a quantile; test_random.py has the tails."""
    key, n, (low, high) = keyed(d), d.size(0, 9), np.sort(d.uniform(2, low=-3, high=1))
    low, high = (low, high) if high > -0.9 else (low, d.element(-0.9))
    a, b = special.erf(low / np.sqrt(2)), special.erf(high / np.sqrt(2))
    wanted = [np.sqrt(2) * special.erfinv(a + (b - a) * uniform(key, i, d.element)) for i in range(n)]
    return of(key, low, high, d.real(n), wanted=np.array(wanted), slack=10)


def of_shape(name: str, call: str, result: str, wanted: Callable[[float, Array, type], object]) -> None:
    @case(f"random.{name}", f"fun f key (shape : 'a[]) (x : 'a[n]) : {result} = {call}")
    def _(d: Drawn) -> Comparison:
        key, shape = keyed(d), d.element(d.rng.choice([0.03, 0.5, 1, 2, 50]) * d.rng.uniform(0.9, 1.1))
        return of(key, shape, d.real(1), wanted=wanted(float(shape), key, d.element), slack=30)


of_shape(
    "gamma_parts",
    "let val (y, boost) = random.gamma_parts shape key 3 in [| y, boost |] end",
    "'a[2]",
    lambda a, key, e: np.array(gamma_parts(a, key, 3, e)),
)
of_shape("gamma", "[| random.gamma shape key 3 |]", "'a[1]", lambda a, key, e: np.exp([log_gamma(a, key, 3, e)]))
of_shape("log_gamma", "[| random.log_gamma shape key 3 |]", "'a[1]", lambda a, key, e: np.array([log_gamma(a, key, 3, e)]))


def shares(shapes: Array, key: Array, i: int, element: type) -> Array:
    k = split(key, i)
    logs = [log_gamma(float(a), k, j, element) for j, a in enumerate(shapes)]
    return np.asarray(special.softmax(logs)) if logs else np.zeros(0)


@case("random.beta", "fun f key (a : 'a[2]) (i : i64) : 'a[1] = [| random.beta a[0] a[1] key i |]")
def _(d: Drawn) -> Comparison:
    key, i, shapes = keyed(d), counter(d), d.uniform(2, low=0.05, high=4)
    return of(key, shapes, np.int64(i), wanted=shares(shapes, key, i, d.element)[:1], slack=30)


@case("random.dirichlet", "fun f key (a : 'a[n]) (i : i64) = random.dirichlet a key i")
def _(d: Drawn) -> Comparison:
    key, i, shapes = keyed(d), counter(d), d.uniform(d.size(), low=0.05, high=4)
    return of(key, shapes, np.int64(i), wanted=shares(shapes, key, i, d.element), slack=30)


@case("random.bernoulli", "fun f key (p : 'a[n]) = for i => random.bernoulli p[i] key i")
def _(d: Drawn) -> Comparison:
    key, p = keyed(d), d.uniform(d.size(0, 9))
    return of(key, p, wanted=np.array([uniform(key, i, d.element) < p[i] for i in range(len(p))], bool))


@case("random.categorical", "fun f key (logits : 'a[m, n]) where n >= 1 = for i => random.categorical logits[i, :] key i")
def _(d: Drawn) -> Comparison:
    key, logits = keyed(d), d.real(d.size(), d.size(1, 6))
    logits[d.rng.random(logits.shape) < 0.2] = -np.inf
    m, n = logits.shape
    noise = np.array([gumbel(key, i) for i in range(m * n)]).reshape(m, n)
    return of(key, logits, wanted=np.argmax(logits + noise, -1).astype(np.int32))


@case("random.randint", "fun f key (low : i64) (high : i64) (i : i64) = random.randint low high key i")
def _(d: Drawn) -> Comparison:
    key, i = keyed(d), counter(d)
    low, high = (int(x) for x in np.sort(d.rng.integers(-(2**63), 2**63, 2) >> d.rng.integers(0, 60)))
    high += low == high
    span, n, t = high - low, bits64(key, i), 0
    while n < 2**64 % span:
        n, t = bits64(split(key, i), t), t + 1
    return of(key, np.int64(low), np.int64(high), np.int64(i), wanted=np.int64(low + n % span))


@case("random.poisson", "fun f key (rate : 'a[n]) : i32[n] = for i => random.poisson rate[i] key i")
def _(d: Drawn) -> Comparison:
    """Where it is a quantile; test_random.py has large rates."""
    key, rate = keyed(d), d.uniform(d.size(0, 9), high=9.9)
    u = np.array([uniform(key, i, np.float64) for i in range(len(rate))])
    return of(key, rate, wanted=stats.poisson.ppf(u, rate.astype(np.float64)).astype(np.int32))


@case("random.binomial", "fun f key (trials : i32[n]) (p : 'a[n]) = for i => random.binomial trials[i] p[i] key i")
def _(d: Drawn) -> Comparison:
    """Where it is a quantile of the rarer outcome; test_random.py has many trials."""
    key, p = keyed(d), d.uniform(d.size(0, 9))
    trials = d.integers(len(p), high=20)
    u = np.array([uniform(key, i, np.float64) for i in range(len(p))])
    wide = p.astype(np.float64)
    rarer = stats.binom.ppf(u, trials, np.minimum(wide, 1 - wide))
    return of(key, trials, p, wanted=np.where(wide > 0.5, trials - rarer, rarer).astype(np.int32))


def order(key: Array, i: int, n: int) -> Array:
    k = split(key, i)
    return np.argsort(np.array([bits64(k, j) for j in range(n)], np.uint64), kind="stable").astype(np.int32)


@case("random.permutation", "fun f {n} (key : u32[2]) (i : i64) = random.permutation {n} key i")
def _(d: Drawn) -> Comparison:
    key, i, n = keyed(d), counter(d), d.size(0, 9)
    return of(key, np.int64(i), wanted=order(key, i, n), sizes=(n,))


@case("random.shuffle", "fun f (x : 'a[n, ..s]) key (i : i64) = random.shuffle x key i")
def _(d: Drawn) -> Comparison:
    key, i, x = keyed(d), counter(d), d.real(d.size(0, 9), *d.shape(1))
    return of(x, key, np.int64(i), wanted=x[order(key, i, len(x))])


@case("random.dropout")
def _(d: Drawn) -> Comparison:
    key, x = keyed(d), d.real(d.size(), d.size())
    drawn = np.array([uniform(key, i, d.element) for i in range(x.size)]).reshape(x.shape)
    return of(0.3, x, key, wanted=np.where(drawn < d.element(0.3), 0, x.astype(np.float64) / 0.7))
