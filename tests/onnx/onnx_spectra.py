"""Templates of Fourier transforms and their windows."""

from __future__ import annotations

from tests.onnx.onnx_node import Node, at, names, number, over, template


@template("DFT")
def dft(n: Node) -> str:
    """In f64: ONNX allows an error of 1e-7 beside terms of 100."""
    rank = n.rank()
    axis = (n.whole(2)[0] if n.has(2) else n.a("axis", -2)) % rank
    onesided, inverse = bool(n.a("onesided")), bool(n.a("inverse"))
    old = n.shape()[axis]
    size = n.whole(1)[0] if n.has(1) else 2 * (old - 1) if onesided and inverse else old
    given = size // 2 + 1 if onesided and inverse else size
    i = [index for k, index in enumerate(names(rank - 1)) if k != axis]
    outer = [s for k, s in enumerate(n.shape()[:-1]) if k != axis]

    def part(k: int) -> str:
        if k >= n.shape()[-1]:
            return over([*i, "k"], [*outer, given], "(0.0 : f64)")
        place = [*i[:axis], "k", *i[axis:], str(k)]
        return over([*i, "k"], [*outer, given], f"cast f64 {at(n.x(), place, '0.0' if given != old else None)}")

    x = n.val(f"{{ re = {part(0)}, im = {part(1)} }}")
    if onesided and inverse:
        y = n.val(f"{n.library('fft.irfft')} {{{size}}} {x}")
    else:
        y = n.val(f"{n.library('fft.ifft' if inverse else 'fft.fft')} {x}")
    kept = size // 2 + 1 if onesided and not inverse else size
    place = ", ".join([*i, names(rank)[axis]])
    shape = [*n.shape()[:axis], kept, *n.shape()[axis + 1 : -1]]
    if onesided and inverse:
        return over(names(rank), [*shape, 1], f"cast {n.element().value} {y}[{place}]")
    value = f"if {names(rank)[-1]} = 0 then {y}.re[{place}] else {y}.im[{place}]"
    return over(names(rank), [*shape, 2], f"cast {n.element().value} ({value})")


@template("STFT")
def stft(n: Node) -> str:
    step, size = n.whole(1)[0], n.whole(3)[0] if n.has(3) else n.shape(2)[0]
    window = n.x(2) if n.has(2) else n.val(f"for i < {size} => (1.0 : {n.element().value})")
    y = n.val(f"{n.library('fft.stft')} {{{step}}} {window} {n.x()}[:, :, 0]")
    return f"for b t f, c < 2 => if c = 0 then {y}.re[b, t, f] else {y}.im[b, t, f]"


@template("HannWindow", "HammingWindow", "BlackmanWindow")
def window(n: Node) -> str:
    size = n.whole(0)[0]
    parts = size if n.a("periodic") else size - 1
    angle = f"2.0 * pi * cast f64 (i % {parts}) / {parts}.0"
    a = {"HannWindow": (0.5, 0.5, 0.0), "HammingWindow": (25 / 46, 21 / 46, 0.0), "BlackmanWindow": (0.42, 0.5, 0.08)}[n.operator]
    return f"for i < {size} => cast {n.result().value} ({a[0]} - {a[1]} * cos ({angle}) + {a[2]} * cos (2.0 * ({angle})))"


@template("MelWeightMatrix")
def mel_weight_matrix(n: Node) -> str:
    """Triangles between places that are equally far apart on the mel scale, rounded down to frequencies of the transform."""
    bins, length, rate = (n.whole(k)[0] for k in range(3))
    low, high = (number(float(n.inputs[k]), n.element(3)) for k in (3, 4))
    n.fun("mel", "(f : f64) = 2595.0 * log (1.0 + f / 700.0) / log 10.0")
    n.fun("place", f"k = cast i32 (floor ({length + 1}.0 * (700.0 * (10.0 ** (at k / 2595.0) - 1.0)) / {rate}.0))")
    n.vals.insert(1, f"fun at k = mel {low} + cast f64 k * ((mel {high} - mel {low}) / {bins + 2}.0)")
    rising = "cast f32 (i - place j) / cast f32 (place (j + 1) - place j)"
    falling = "cast f32 (place (j + 2) - i) / cast f32 (place (j + 2) - place (j + 1))"
    middle = "if place (j + 1) = place j andalso i = place (j + 1) then 1.0"
    body = f"{middle} else if i >= place j andalso i <= place (j + 1) then {rising} "
    body += f"else if i >= place (j + 1) andalso i < place (j + 2) then {falling} else 0.0"
    return over(["i", "j"], [length // 2 + 1, bins], body)
