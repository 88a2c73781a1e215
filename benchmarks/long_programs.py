"""How long programs of many lines take to be checked, and how long their gradients take to be made.

python benchmarks/long_programs.py                          every kind at 250, 500, 1,000 and 2,000 lines
python benchmarks/long_programs.py windows loops --lines 250 1000
python benchmarks/long_programs.py --check                  without gradients

A program is one function whose body has so many lines, or as many functions, of which each uses the one before. Figures are seconds
of processor time of this process, one run each, warm: `check`, of f or of its gradient by the first parameter, and `gradient`, from
that to core. No kind goes on to a length that would take more than PATIENCE by what the last one took. `growth` is the exponent of
check and gradient together in length, between the last two lengths.
"""

from __future__ import annotations

import argparse
import gc
import platform
import re
import time
from collections.abc import Callable
from datetime import date
from math import log

from axon import compiler
from axon.base.errors import AxonError

LENGTHS = (250, 500, 1000, 2000)
PATIENCE = 20.0  # seconds


def _lets(parameters: str, line: Callable[[int], str], count: int, result: str = "sum ..i => {}[..i]") -> str:
    lines = "\n      ".join(f"val a{i} = {line(i)}" for i in range(1, count + 1))
    return f"fun f (a0 : {parameters} =\n  let {lines}\n  in {result.format(f'a{count}')} end\n"


def _weights(count: int, form: str) -> str:
    return "f32[n0, n1]) " + " ".join(form.format(i=i, j=i + 1) for i in range(1, count + 1))


def products(n: int) -> str:
    return _lets(_weights(n, "(w{i} : f32[n{i}, n{j}])"), lambda i: f"a{i - 1} @ w{i}", n)


def products_without_types(n: int) -> str:
    return _lets("f32[m, k]) " + " ".join(f"w{i}" for i in range(1, n + 1)), lambda i: f"a{i - 1} @ w{i}", n)


def sums_of_products(n: int) -> str:
    line = "for p q => sum r => a{j}[p, r] * w{i}[r, q]"
    return _lets(_weights(n, "(w{i} : f32[n{i}, n{j}])"), lambda i: line.format(i=i, j=i - 1), n)


def one_matrix(n: int) -> str:
    return _lets("f32[b, d]) (w : f32[d, d])", lambda i: f"a{i - 1} @ w", n)


def pointwise(n: int) -> str:
    return _lets("f32[d])", lambda i: f"sin a{i - 1} + {i % 7}.0 * a{max(i - 2, 0)}", n)


def comprehensions(n: int) -> str:
    return _lets("f32[d])", lambda i: f"for i => sin a{i - 1}[i] * {i % 7}.5", n)


def broadcasts(n: int) -> str:
    return _lets("f32[b, d]) " + " ".join(f"(v{i} : f32[d])" for i in range(1, n + 1)), lambda i: f"a{i - 1} * v{i}", n)


def broadcasts_without_types(n: int) -> str:
    parameters = " ".join(f"v{i}" for i in range(1, n + 1))
    return _lets(f"f32[..s]) {parameters}", lambda i: f"a{i - 1} * v{i}", n)


def reductions(n: int) -> str:
    line = "let val s = for p => sum q => a{0}[p, q] in for p q => a{0}[p, q] - s[p] end"
    return _lets("f32[b, d])", lambda i: line.format(i - 1), n)


def partial_sums(n: int) -> str:
    return _lets("f32[d])", lambda i: f"for p < d => sum for q < d where q <= p => a{i - 1}[q]", n)


def windows(n: int) -> str:
    return _lets("f32[d]) (k : f32[r])", lambda i: f"for p => sum q => a{i - 1}[p + q] * k[q]", n)


def padded_windows(n: int) -> str:
    return _lets("f32[d]) (k : f32[3])", lambda i: f"for p < d => sum q => a{i - 1}[p + q - 1 | 0.0] * k[q]", n)


def differences(n: int) -> str:
    return _lets("f32[d])", lambda i: f"for p => a{i - 1}[p + 2] - a{i - 1}[p + 1]", n)


def strides(n: int) -> str:
    line = "let val h = for p < d / 2 => a{0}[2 * p] + a0[2 * p + 1] in for p < d => h[p / 2 | 0.0] end"
    return _lets("f32[d])", lambda i: line.format(i - 1), n)


def conditions(n: int) -> str:
    return _lets("f32[d])", lambda i: f"for p => if p > {i % 3} then a{i - 1}[p - {i % 3}] else a{i - 1}[p]", n)


def loops(n: int) -> str:
    line = "loop (y = a{0}) for _ < 3 => tanh (for i => sum c => y[c] * w[c, i])"
    return _lets("f32[d]) (w : f32[d, d])", lambda i: line.format(i - 1), n)


def records(n: int) -> str:
    layer = "type layer[d, k] = { w : f32[d, k], b : f32[k] }\n"
    return layer + _lets(_weights(n, "(p{i} : layer[n{i}, n{j}])"), lambda i: f"tanh (a{i - 1} @ p{i}.w + p{i}.b)", n)


def library_functions(n: int) -> str:
    return "import nn\n" + _lets("f32[b, d]) (w : f32[d, d])", lambda i: f"nn.softmax (a{i - 1} @ w)", n)


def functions(n: int) -> str:
    line = "fun f{i} x = let val m = max x 0.0 in m * {c}.0 + {before} x end\n"
    each = "".join(line.format(i=i, c=i % 5, before=f"f{i - 1}" if i else "abs") for i in range(n))
    return f"{each}fun f (a0 : f32[d]) = sum i => (f{n - 1} a0)[i]\n"


def functions_of_functions(n: int) -> str:
    return "fun twice f x = f (f x)\n" + _lets("f32[d])", lambda i: f"twice (fn x => sin x * {i % 3}.5) a{i - 1}", n)


def local_functions(n: int) -> str:
    each = "\n      ".join(f"fun g{i} x = sin x + {f'g{i - 1} x' if i else 'x'}" for i in range(n))
    return f"fun f (a0 : f32[d]) =\n  let {each}\n  in sum i => (g{n - 1} a0)[i] end\n"


def small_functions(n: int) -> str:
    line = "fun g{i} (x : f32[m, k]) (w : f32[k, q]) = for a b => sum c => x[a, c] * w[c, b] * {i}.0\n"
    each = "".join(line.format(i=i) for i in range(1, n + 1))
    return each + _lets("f32[b, d]) (w : f32[d, d])", lambda i: f"g{i} a{i - 1} w", n)


def many_fields(n: int) -> str:
    fields = ", ".join(f"x{i} : f32" for i in range(n + 1))
    lines = "\n      ".join(f"val b{i} = a0.x{i} * {i}.0 + {f'b{i - 1}' if i > 1 else 'a0.x0'}" for i in range(1, n + 1))
    return f"type point = {{ {fields} }}\nfun f (a0 : point) =\n  let {lines}\n  in b{n} end\n"


def nested_loops(n: int) -> str:
    line = "loop (y = a{0}) for _ < 2 => loop (z = y) for _ < 3 => tanh (for i => sum c => z[c] * w[c, i])"
    return _lets("f32[d]) (w : f32[d, d])", lambda i: line.format(i - 1), n)


def attention(n: int) -> str:
    line = "nn.softmax ((a{0} @ w) @ (for i j => a{0}[j, i])) @ a{0}"
    return "import nn\n" + _lets("f32[s, d]) (w : f32[d, d])", lambda i: line.format(i - 1), n)


def softmax_lines(n: int) -> str:
    line = "sum j => (nn.softmax a{0})[i] * w[i, j] * a{0}[j]"
    return "import nn\n" + _lets("f32[d]) (w : f32[d, d])", lambda i: f"for i => {line.format(i - 1)}", n)


def while_loops(n: int) -> str:
    line = "loop (y = a{0}) while (sum i => y[i]) < 2.0 for _ < 4 => for i => y[i] * 1.1 + 0.1"
    return _lets("f32[d])", lambda i: f"({line.format(i - 1)})", n)


def layer_norms(n: int) -> str:
    line = "nn.layer_norm {{ scale = s, shift = t }} a{0}"
    return "import nn\n" + _lets("f32[b, d]) (s : f32[d]) (t : f32[d])", lambda i: line.format(i - 1), n)


def two_states(n: int) -> str:
    step = "((for i => y[i] * 0.5 + z[i] * cast f32 k), for i => sin y[i])"
    line = "(loop (y = a{0}, z = a{1}) for k < 3 => {2}).1"
    return _lets("f32[d])", lambda i: line.format(i - 1, max(i - 2, 0), step), n)


KINDS: tuple[Callable[[int], str], ...] = (
    products, products_without_types, sums_of_products, one_matrix, pointwise, comprehensions, broadcasts, broadcasts_without_types,
    reductions, partial_sums, windows, padded_windows, differences, strides, conditions, loops, records, library_functions,
    functions, functions_of_functions, local_functions, small_functions, many_fields, nested_loops, attention,
    softmax_lines, while_loops, layer_norms, two_states,
)  # fmt: skip


def _gradient(text: str) -> str:
    """The program with the gradient of f by its first parameter in place of f."""
    before, f = re.split(r"^fun f ", text, flags=re.MULTILINE)
    head, body = f.split(" =", 1)
    first = head[: head.index(")") + 1]
    return f"{before}fun slope {head} = grad (fn {first} =>{body}) a0\n"


def _timed(text: str, gradient: bool) -> tuple[float, float]:
    """Seconds of the check, and of the gradient. Raises AxonError."""
    gc.collect()
    begin = time.process_time()
    checked = compiler.check_text(_gradient(text) if gradient else text)
    between = time.process_time()
    if wrong := [d for d in checked.diagnostics if d.severity == "error"]:
        raise AxonError(tuple(wrong[:1]))
    if gradient:
        compiler.lower(checked, "slope", None)
    return between - begin, time.process_time() - between


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", help="names of kinds")
    parser.add_argument("--lines", nargs="+", type=int, default=LENGTHS)
    parser.add_argument("--check", action="store_true", help="check the programs alone")
    given = parser.parse_args()
    _timed(pointwise(10), gradient=True)
    print(f"{date.today()}, Python {platform.python_version()}, {platform.machine()}, seconds of processor time\n")
    print("| kind | " + " | ".join(f"{n:,} lines: check, gradient" for n in given.lines) + " | growth |")
    print("|---|" + "--:|" * (len(given.lines) + 1))
    for kind in KINDS:
        if given.kinds and kind.__name__ not in given.kinds:
            continue
        cells: list[str] = []
        took: list[tuple[int, float]] = []
        for n in given.lines:
            if took and took[-1][1] * (n / took[-1][0]) ** 1.5 > PATIENCE:
                break
            try:
                check, gradient = _timed(kind(n), not given.check)
            except AxonError as error:
                cells.append(error.diagnostics[0].message)
                break
            took.append((n, check + gradient))
            cells.append(f"{check:.2f}" if given.check else f"{check:.2f}, {gradient:.2f}")
        growth = log(took[-1][1] / took[-2][1]) / log(took[-1][0] / took[-2][0]) if len(took) > 1 else 0.0
        cells += [""] * (len(given.lines) - len(cells))
        print(f"| {kind.__name__.replace('_', ' ')} | {' | '.join(cells)} | {growth:.2f} |", flush=True)


if __name__ == "__main__":
    main()
