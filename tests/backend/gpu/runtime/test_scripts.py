"""Scripts of programs in parts: calls that are recorded and played give what a walk gives, bit for bit, and what the interpreter
gives, however states alternate, whatever decides how many steps there are, and wherever arrays lie."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import axon
from axon.backend.gpu.launching import playing
from axon.backend.gpu.launching.driver import OutOfDeviceMemory
from axon.backend.gpu.launching.playing import Player
from axon.backend.gpu.launching.scripts import Action, Place, Repeat
from axon.backend.gpu.runtime import recording, replaying
from axon.base.element import Element
from tests.backend.gpu.runtime.emulated import emulated
from tests.backend.gpu.runtime.fake import DeviceArray, FakeLibrary, aligned
from tests.backend.gpu.runtime.parted import PlayedDriver, played

SOAK = bool(os.environ.get("AXON_SOAK"))
PROGRAMS = 1_000 if SOAK else 60


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> PlayedDriver:
    return played(monkeypatch)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Player | str]:
    """What plays each call, or why none does."""
    seen: list[Player | str] = []
    original = replaying._player

    def noted(*given: Any) -> Player | str:
        seen.append(original(*given))
        return seen[-1]

    monkeypatch.setattr(replaying, "_player", noted)
    return seen


def on(x: Any, skew: int = 0) -> DeviceArray:
    """An array on the GPU, so many elements behind a multiple of 256 bytes."""
    element = {"f": Element.F32, "i": Element.I32}[x.dtype.kind]
    made = aligned((x.size + skew,), element)[skew:].reshape(x.shape)
    made[...] = x
    return DeviceArray(made)


def host(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(host, value))
    return np.asarray(value.array if isinstance(value, DeviceArray) else value)


def same(got: Any, want: Any, text: str = "") -> None:
    if isinstance(want, tuple):
        for a, b in zip(got, want, strict=True):
            same(a, b, text)
        return
    assert got.shape == want.shape, text
    assert got.tobytes() == want.tobytes(), text


# ── programs at random ──────────────────────────────────────────────────────────────────────────────────────────────────


class Loops:
    """A function of vectors and numbers, whose loops are of every kind."""

    def __init__(self, chance: Random) -> None:
        self.chance, self.names = chance, iter(range(10**6))

    def text(self) -> str:
        loops = [self.loop({"vector": ["x", "y"], "number": ["c", "d"]}, [], 0) for _ in range(self.chance.randint(1, 2))]
        body = loops[0][0] if len(loops) == 1 else f"({', '.join(text for text, _ in loops)})"
        of_data = "val (ix : i32[m]) = nonzero (for i => y[i] > 0.0) val d = c + 0.5 * sum i => x[ix[i]]"  # so that it is walked
        given = of_data if self.chance.random() < 0.3 else "val d = c - 0.5"
        return f"fun f (x : f32[n]) (y : f32[n]) (c : f32) (k : i32) = let {given} in {body} end"

    def name(self) -> str:
        return f"v{next(self.names)}"

    def loop(self, outer: dict[str, list[str]], counters: list[str], depth: int) -> tuple[str, list[str]]:
        """A loop, and what kinds its results have."""
        chance = self.chance
        kinds = [chance.choice(("vector", "vector", "number")) for _ in range(chance.randint(1, 3))]
        states = [(self.name(), kind) for kind in kinds]
        initial = ", ".join(f"{name} = {self.known(outer, kind)}" for name, kind in states)
        counter = self.name()
        unfold = depth == 0 and chance.random() < 0.35
        scope = {kind: list(names) for kind, names in outer.items()}
        for name, kind in states:
            scope[kind] += [name, name]
        steps = [self.value(scope, kind, [*counters, counter], depth) for _, kind in states]
        trips = [str(chance.randint(0, 7)), str(chance.randint(2, 9 if depth else 25))]
        trips += [] if unfold else ["k", "(cast i32 (abs c) + k) % 5"]
        trips += [f"{counters[-1]} + 1"] if counters and not unfold else []
        whole = steps[0] if len(steps) == 1 else f"({', '.join(steps)})"
        condition = ""
        if not unfold and "number" in kinds and chance.random() < 0.3:
            number = next(name for name, kind in states if kind == "number")
            condition = f"while {number} < {chance.choice((-1.0, 2.5, 6.0, 1000.0))} "
        word = "unfold" if unfold else "loop"
        return f"({word} ({initial}) {condition}for {counter} < {chance.choice(trips)} => {whole})", kinds

    def known(self, scope: dict[str, list[str]], kind: str) -> str:
        if self.chance.random() < 0.7:
            return self.chance.choice(scope[kind])
        return "(for i => x[i] - y[i])" if kind == "vector" else "1.5"

    def value(self, scope: dict[str, list[str]], kind: str, counters: list[str], depth: int) -> str:
        chance = self.chance
        v, w, s = chance.choice(scope["vector"]), chance.choice(scope["vector"]), chance.choice(scope["number"])
        t = chance.choice(counters)
        if chance.random() < 0.15:
            return v if kind == "vector" else s
        if depth < 2 and chance.random() < 0.35:
            text, kinds = self.loop(scope, counters, depth + 1)
            if kind in kinds:
                return text if len(kinds) == 1 else f"{text}.{kinds.index(kind) + 1}"
        if kind == "number":
            return chance.choice([f"({s} + 1.0)", f"(0.25 * (sum i => {v}[i]))", f"({s} * 0.5 + cast _ {t})"])
        return chance.choice(
            [
                f"(for i => {v}[i] * 0.5 + cast _ {t})",
                f"(for i => {v}[n - 1 - i] - 0.25 * {w}[i])",
                f"(for i => {v}[i] + 0.125 * {s})",
                f"(for i => 0.5 * {v}[i] + 0.125 * (sum j => {w}[j]))",
                f"(sort (for i => {v}[i] - cast _ {t}))",
            ]
        )


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_loops(
    seed: int, cuda: PlayedDriver, library: FakeLibrary, found: list[Player | str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(seed)
    monkeypatch.setattr(recording, "UNROLLED", chance.choice((0, 0, 6, 96)))
    monkeypatch.setattr(replaying, "WORTH", chance.choice((0, 16)))
    monkeypatch.setattr(recording, "SEVERAL", chance.choice((0, 2, 4, 32)))
    monkeypatch.setattr(playing, "ONE_BY_ONE", chance.choice((0, 1, 3)))
    monkeypatch.setattr(playing, "FEWEST", chance.choice((1, 3)))
    monkeypatch.setattr(playing, "KINDS", chance.choice((1, 2, 8)))
    monkeypatch.setattr(playing, "NEW_KINDS", chance.choice((1, 2)))
    text = Loops(chance).text()
    f = axon.compile(text).f
    n = chance.choice((1, 3, 4, 5, 8))
    numbers = np.random.default_rng(seed)
    room: Any = None
    for call in range(4):
        x, y = (numbers.standard_normal(n).astype(np.float32) for _ in range(2))
        c, k = np.float32(numbers.standard_normal() * 3), int(numbers.integers(0, 6))
        want = host(f(x, y, c, k, target="interpret"))
        skew = chance.choice((0, 0, 1))
        given = [on(x, skew), on(y), on(np.array(c)), on(np.array(k, np.int32)) if call % 2 else k]
        cuda.recording.add(77)
        try:
            walked = host(f(*given))
        except axon.AxonError:  # what waits cannot be part of a capture
            walked = None
        cuda.recording.clear()
        got = f(*given)
        if walked is not None:
            same(host(got), walked, text)
        near(host(got), want, text)
        if room is None or call == 2:
            room = like(got, chance)
        f(*given, out=room)
        same(host(room), host(got), text)
        near(host(f(x, y, c, k, target="cuda")), want, text)
    assert found, text


def like(made: Any, chance: Random) -> Any:
    """Room for results, somewhere."""
    if isinstance(made, tuple):
        return tuple(like(x, chance) for x in made)
    shape = made.array.shape
    if len(shape) == 2 and chance.random() < 0.3:
        return DeviceArray(on(np.zeros((shape[0], shape[1] + chance.choice((1, 4))), np.float32)).array[:, : shape[1]])
    return on(np.zeros(shape, np.float32), chance.choice((0, 0, 1)))


def near(got: Any, want: Any, text: str) -> None:
    if isinstance(want, tuple):
        for a, b in zip(got, want, strict=True):
            near(a, b, text)
        return
    assert got.shape == want.shape, text
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4, err_msg=text)


# ── what is played ──────────────────────────────────────────────────────────────────────────────────────────────────────

STEPS = """\
fun moves (x : f32[n]) steps =
  loop (q = x, p = for i => 0.5 * x[i], e = 0.0) for t < steps =>
    let val h = sort (for i => p[i] - 0.1 * q[i])
        val r = sort (for i => q[i] + 0.1 * h[n - 1 - i])
    in (r, for i => h[i] - 0.1 * r[n - 1 - i], e + cast _ t * sum i => h[i]) end
fun turned (x : f32[n]) steps = loop (s = x, r = x) for t < steps =>
  (sort (for i => s[n - 1 - i] - 0.5 * r[i]), for i => 0.5 * r[i] - 0.25 * s[i])
fun trace (x : f32[n]) = unfold (s = x) for t < 40 => let val r = sort (sort s) in for i => 0.5 * r[n - 1 - i] + cast _ t end
fun pairs (x : f32[n]) most = loop (s = x, c = 0) while (sum i => s[i]) > 1.0 for t < most => (sort (for i => s[i] * 0.5), c + 1)
fun triangle (x : f32[n]) = loop (s = x) for t < n => for i => s[i] + sum for j < t => x[j]
fun swap (x : f32[n]) (y : f32[n]) steps = loop (a = x, b = y) for t < steps => (b, a)
fun picked (x : f32[n]) = let val (ix : i32[k]) = nonzero (for i => x[i] > 0.0) in for i => exp x[ix[i]] end
fun chosen (x : f32[n]) =
  let val (ix : i32[k]) = nonzero (for i => x[i] > -0.5)
      val c = sum i => 1.0 * x[ix[i]]
  in loop (s = for i => x[ix[i]], r = for i => 2.0 * x[ix[i]], q = c) for t < 70 =>
    (sort (for i => s[k - 1 - i] - 0.5 * r[i]), sort (for i => 0.5 * r[i] - 0.001 * cast _ t), q * 0.5 + s[0]) end
fun stairs (x : f32[n]) = loop (s = x) for t < n =>
  let val a = for i => s[i] + 0.1 * sum for j < t => x[j]
  in loop (r = a) for u < 20 + t / 9 => sort (for i => 0.5 * (sort r)[n - 1 - i] + 0.25 * s[i]) end
fun divided (x : i32[n]) steps = loop (s = x) for t < steps => for i => s[i] / (s[(i + 1) % n] - 7)
"""


@pytest.fixture
def m() -> Any:
    return axon.compile(STEPS)


def random(n: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


def loops(actions: tuple[Action, ...]) -> list[Repeat]:
    return [one for action in actions if isinstance(action, Repeat) for one in (action, *loops(action.body))]


def test_steps_are_graphs(m: Any, cuda: PlayedDriver, library: FakeLibrary, found: list[Player | str]) -> None:
    """Of 200 steps a few are launched one by one, and of the others each is one graph: there are two, and the one of the
    first step; what a counter changes is told to the nodes that mention it."""
    x = random(6)
    made = host(m.moves(on(x), 200))
    (player,) = found
    assert isinstance(player, Player)
    (loop,) = loops(player.script.actions)
    (together,) = loop.body
    kernels, changing = len(together.launches), sum(bool(launch.sized) for launch in together.launches)
    assert kernels > 3 > changing > 0
    assert len(cuda.replayed) >= 190
    assert len(cuda.launched) <= 8 * kernels
    assert len(cuda.graphs) == 2
    assert cuda.pointed <= 200 * changing
    assert cuda.waited == 0
    near(made, host(m.moves(x, 200, target="interpret")), "")


def test_steps_without_a_counter_are_launched_together(
    m: Any, cuda: PlayedDriver, library: FakeLibrary, found: list[Player | str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the first and the last few."""
    x = random(6)
    for steps in (1, 2, 9, 10, 63, 64, 65, 150):
        cuda.replayed.clear()
        near(host(m.turned(on(x), steps)), host(m.turned(x, steps, target="interpret")), "")
        assert len(cuda.replayed) < 25
    player = found[-1]
    assert isinstance(player, Player)
    (loop,) = loops(player.script.actions)
    assert loop.several is not None
    together, count = loop.several
    (step,) = loop.body
    assert len(together.launches) == count * len(step.launches) <= recording.SEVERAL
    assert count % 2 == 0


def test_graphs_serve_later_calls(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    """Where addresses are the same; elsewhere the graphs there are are told."""
    x = random(6)
    arrays, outs = [on(x), on(x)], m.moves(on(x), 50)
    for given in arrays * 3:
        m.moves(given, 50, out=outs)
    graphs = len(cuda.graphs)
    for given in arrays * 3:
        m.moves(given, 50, out=outs)
        near(host(outs), host(m.moves(x, 50, target="interpret")), "")
    assert len(cuda.graphs) <= graphs + 2


def test_where_an_unfold_lies_is_told(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    x = random(8)
    got = m.trace(on(x))
    assert len(cuda.replayed) > 20
    assert cuda.pointed > 0
    near(host(got), host(m.trace(x, target="interpret")), "")


def test_a_condition_is_read_once_a_step(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    for scale in (0.0, 1.0, 1e3, 1e9):
        for most in (0, 1, 5, 100):
            cuda.waited = 0
            x = abs(random(5)) * np.float32(scale)
            got = host(m.pairs(on(x), most))
            near(got, host(m.pairs(x, most, target="interpret")), "")
            assert cuda.waited == min(int(got[1]) + 1, most)


def test_what_is_not_recorded_says_why(m: Any, cuda: PlayedDriver, library: FakeLibrary, found: list[Player | str]) -> None:
    m.triangle(on(random(200)))
    m.swap(on(random(4)), on(random(4)), 5)
    assert isinstance(found[-1], Player)
    m.swap(on(random(1 << 20)), on(random(1 << 20)), 5)
    why = [one for one in found if isinstance(one, str)]
    assert list(dict.fromkeys(why)) == [
        "the extent of a sum or of an axis depends on the counter of a loop",
        "a step passes large states on as they are",
    ]
    before = len(found)
    m.picked(on(random(6)))  # data decide the shape of its result
    assert len(found) == before


def test_loops_of_a_call_that_is_walked(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    """After a size that data decide, and in steps whose extents change; each as a walk has it, also with sizes that change."""
    for n in (1, 6, 7):
        for seed in range(3):
            x = random(n, seed)
            want = host(m.chosen(x, target="interpret"))
            for given in (on(x), on(x, 1)):
                near(host(m.chosen(given)), want, "")
            near(host(m.chosen(x, target="cuda")), want, "")
    assert cuda.replayed
    cuda.replayed.clear()
    for n in (3, 17, 18):
        x = random(n)
        out = on(np.zeros(n, np.float32), 1)
        m.stairs(on(x), out=out)
        near(host(out), host(m.stairs(x, target="interpret")), "")
    assert cuda.replayed


def test_memory_that_is_not_there_in_one_piece(m: Any, cuda: PlayedDriver, library: FakeLibrary, found: list[Player | str]) -> None:
    x = random(6)
    want = host(m.moves(on(x), 20))
    (player,) = found
    assert isinstance(player, Player)
    library.room = player.script.size - 1  # bytes at once
    same(host(m.moves(on(x), 20)), want)


def test_memory_that_is_not_there_for_a_graph(
    m: Any, cuda: PlayedDriver, library: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(nodes: Any) -> Any:
        raise OutOfDeviceMemory("cuGraphInstantiate")

    monkeypatch.setattr(cuda, "graph", full)
    x = random(6)
    near(host(m.moves(on(x), 40)), host(m.moves(x, 40, target="interpret")), "")
    near(host(m.trace(on(x))), host(m.trace(x, target="interpret")), "")
    assert not cuda.replayed


def test_while_someone_records_kernels_are_launched_one_by_one(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    x = random(6)
    want = host(m.moves(on(x), 60))
    cuda.recording.add(77)
    cuda.replayed.clear()
    same(host(m.moves(on(x), 60)), want)
    assert not cuda.replayed


def test_a_failure_is_worded_as_on_the_cpu(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    """Also when a graph's kernel meets it; later calls are right."""
    good, bad = np.array([1, 2, 3, 50], np.int32), np.array([1, 2, 7, 50], np.int32)
    for _ in range(2):
        same(host(m.divided(good, 30, target="cuda")), host(m.divided(good, 30, target="cpu")))
        with pytest.raises(axon.AxonError) as wanted:
            m.divided(bad, 30, target="cpu")
        with pytest.raises(axon.AxonError) as raised:
            m.divided(bad, 30, target="cuda")
        assert str(raised.value) == str(wanted.value)


@pytest.mark.parametrize("what", ["launch", "launch_graph", "set_node", "graph", "move"])
def test_an_interrupt_leaves_nothing_half_written(
    what: str, m: Any, cuda: PlayedDriver, library: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C anywhere among the driver's calls: the next call is right."""
    x, y = random(8), random(8, 1)
    want = [host(m.trace(y, target="interpret")), host(m.moves(y, 30, target="interpret"))]
    original: Callable[..., Any] = getattr(cuda, what)
    for after in (0, 1, 5, 17):
        left = after

        def interrupted(*given: Any) -> Any:
            nonlocal left
            left -= 1
            if left == -1:
                raise KeyboardInterrupt
            return original(*given)

        monkeypatch.setattr(cuda, what, interrupted)
        for call in (lambda: m.trace(on(x)), lambda: m.moves(on(x), 30)):
            try:
                call()
            except KeyboardInterrupt:
                break
        monkeypatch.setattr(cuda, what, original)
        near(host(m.trace(on(y))), want[0], "")
        near(host(m.moves(on(y), 30)), want[1], "")


def test_two_calls_at_once(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    """While one plays a script, another of the same kind is walked; both are right."""
    inputs = [random(5, seed) for seed in range(6)]
    want = [host(m.moves(x, 40, target="interpret")) for x in inputs]
    got: list[Any] = [None] * len(inputs)

    def call(number: int) -> None:
        for _ in range(3):
            got[number] = host(m.moves(on(inputs[number]), 40))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for a, b in zip(got, want, strict=True):
        near(a, b, "")


def test_graphs_go_when_memory_runs_out(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    from axon.backend.gpu.runtime import kept_graphs

    x = random(6)
    m.moves(on(x), 3)
    assert not kept_graphs._graphs  # what has none takes no place of others
    m.moves(on(x), 50)
    assert kept_graphs._graphs
    before = cuda.dropped
    while kept_graphs._graphs:
        kept_graphs._forget_oldest()
    assert cuda.dropped > before
    near(host(m.moves(on(x), 50)), host(m.moves(x, 50, target="interpret")), "")


# ── kernels as they are emitted ─────────────────────────────────────────────────────────────────────────────────────────

EMITTED = """\
fun power (a : bf16[n, n]) (b : bf16[n, n]) steps = loop (p = a) for t < steps => p @ b
fun layers {k} (x : f32[n, d]) (w : f32[d, d]) =
  unfold (h = x, c = 0.0) for t < k =>
    let val y = for i j => (sum l => h[i, l] * w[l, j]) + cast _ t
        val s = for i => sum j => y[i, j]
    in (for i j => y[i, j] / (1.0 + abs s[i]), c + sum i => s[i]) end
fun ordered (x : f32[n]) most = loop (s = x, c = 0) while (sum i => s[i]) > 1.0 for t < most =>
  (sort (for i => 0.5 * s[n - 1 - i]), c + 1)
"""


def test_emitted_kernels_in_graphs(library: FakeLibrary, found: list[Player | str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of the tensor cores, whose descriptors are told where a state lies."""
    gpu = emulated(monkeypatch)
    monkeypatch.setattr(recording, "UNROLLED", 0)
    monkeypatch.setattr(playing, "ONE_BY_ONE", 0)
    monkeypatch.setattr(playing, "FEWEST", 1)
    m = axon.compile(EMITTED)
    numbers = np.random.default_rng(0)
    a, b = ((numbers.standard_normal((64, 64)) / 8).astype(Element.BF16.dtype) for _ in range(2))
    for steps in (1, 2, 5):
        got, want = (
            np.asarray(x, np.float32) for x in (m.power(a, b, steps, target="cuda"), m.power(a, b, steps, target="interpret"))
        )
        np.testing.assert_allclose(got, want, rtol=0.1, atol=0.02)
    x, w = numbers.standard_normal((5, 8)).astype(np.float32), numbers.standard_normal((8, 8)).astype(np.float32)
    for k in (2, 5):
        near(host(m.layers[k](x, w, target="cuda")), host(m.layers[k](x, w, target="interpret")), "")
        near(host(m.layers[k](on(x), on(w))), host(m.layers[k](x, w, target="interpret")), "")
    y = abs(numbers.standard_normal(9)).astype(np.float32)
    for most in (0, 1, 20):
        near(host(m.ordered(on(y), most)), host(m.ordered(y, most, target="interpret")), "")
    assert all(isinstance(one, Player) for one in found)
    assert gpu.replayed
    assert gpu.ran.keys() == {"plain", "sort", "roles"}


@pytest.mark.parametrize("offset", [0, 4096, -65536, 1 << 36, -(1 << 20)])
def test_an_address_is_of_the_nearest_base(offset: int) -> None:
    """Pages under a guard are seen through a view that begins before their tensor."""
    for base in (-1, 0, 7):
        assert recording._placed(recording._begin(base) + offset) == Place(base, offset)
