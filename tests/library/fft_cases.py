"""`fft` against NumPy and SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.signal import get_window

from tests.library.library_case import Array, Comparison, Drawn, case, of


def split(z: Array) -> dict[str, Array]:
    return {"re": np.real(z), "im": np.imag(z)}


def spectrum(d: Drawn, *shape: int) -> tuple[dict[str, Array], Array]:
    """Complex numbers, for Axon and for NumPy."""
    x = {"re": d.real(*shape), "im": d.real(*shape)}
    return x, x["re"] + 1j * x["im"].astype(np.float64)


def whole(name: str, wanted: Any, axes: int = 1, least: int = 0) -> None:
    @case(f"fft.{name}")
    def _(d: Drawn) -> Comparison:
        sizes = [d.size(least, 30 if axes == 1 else 6) for _ in range(axes)]
        x, z = spectrum(d, *d.shape(2), *sizes)
        return of(x, wanted=split(wanted(z) if z.size else z), slack=10)


whole("dft", np.fft.fft)
whole("fft", np.fft.fft)
whole("idft", np.fft.ifft)
whole("ifft", np.fft.ifft)
whole("fft2", np.fft.fft2, axes=2)
whole("ifft2", np.fft.ifft2, axes=2)


@case("fft.rfft")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape(2), d.size(1, 30))
    return of(x, wanted=split(np.fft.rfft(x.astype(np.float64))), slack=10)


@case("fft.irfft")
def _(d: Drawn) -> Comparison:
    n = d.size(1, 30)
    x, z = spectrum(d, *d.shape(2), n // 2 + 1)
    return of(x, wanted=np.fft.irfft(z, n), sizes=(n,), slack=10)


@case("fft.turns")
def _(d: Drawn) -> Comparison:
    n = d.size(0, 40)
    return of(wanted=split(np.exp(-2j * np.pi * np.arange(n) / max(n, 1))), sizes=(n,), single=True)


@case("fft.multiply")
def _(d: Drawn) -> Comparison:
    shape = d.shape()
    (a, y), (b, z) = spectrum(d, *shape), spectrum(d, *shape)
    return of(a, b, wanted=split(np.asarray(y * z)), slack=10)


@case("fft.magnitude")
def _(d: Drawn) -> Comparison:
    x, z = spectrum(d, *d.shape())
    return of(x, wanted=np.abs(z))


def frequencies(name: str, wanted: Any) -> None:
    @case(f"fft.{name}")
    def _(d: Drawn) -> Comparison:
        n, spacing = d.size(1, 12), d.uniform(low=0.1)
        return of(spacing, wanted=wanted(n, float(spacing)), sizes=(n,))


frequencies("fftfreq", np.fft.fftfreq)
frequencies("rfftfreq", np.fft.rfftfreq)


def shifted(name: str, wanted: Any) -> None:
    @case(f"fft.{name}")
    def _(d: Drawn) -> Comparison:
        x = d.real(*d.shape(2), d.size(0, 9))
        return of(x, wanted=wanted(x, -1), slack=0)


shifted("fftshift", np.fft.fftshift)
shifted("ifftshift", np.fft.ifftshift)


def window(name: str) -> None:
    @case(f"fft.{name}")
    def _(d: Drawn) -> Comparison:
        n = d.size(1, 12)
        return of(wanted=get_window(name, n), sizes=(n,), single=True)


for _name in ("hann", "hamming", "blackman"):
    window(_name)


@case("fft.stft")
def _(d: Drawn) -> Comparison:
    size, hop = d.size(1, 6), d.size(1, 3)
    x, w = d.real(*d.shape(1), d.size(size, 12)), d.real(size)
    frames = np.lib.stride_tricks.sliding_window_view(x, size, -1)[..., ::hop, :]
    return of(w, x, wanted=split(np.fft.rfft(frames * w.astype(np.float64))), sizes=(hop,), slack=10)
