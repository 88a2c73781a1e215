"""What Axon does, in three steps: infer, run, explain. `make demo` runs this."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "digits"))

MISTAKE = """\
import nn

fun mlp (x : f32[b, d]) (w1 : f32[d, 4 * d]) (w2 : f32[3 * d, d]) =
  nn.relu (x @ w1) @ w2
"""


def shaded(row: Iterable[float]) -> str:
    """A row of pixels, from 0 to 1, as characters."""
    return "".join(" .:oO@"[min(5, int(ink * 6))] * 2 for ink in row)


def main() -> None:
    from data import load
    from evaluate import weights

    import axon

    print("1. Axon infers every shape. Of a layer of convolutions, and of attention with several heads:\n")
    digits = axon.load(HERE / "digits" / "digits.axon")
    attention = axon.load(HERE / "attention.axon")
    for function in (digits.stage, attention.attention, attention.self_attention):
        print(f"   {function.signature}")

    print("\n2. It runs on NumPy arrays. Handwritten digits that training never saw, with the trained weights:\n")
    _, held_out = load()
    predicted = digits.classify(weights(), held_out.images)
    shown = [int((held_out.labels == digit).argmax()) for digit in (3, 5, 8)]
    for row in range(8):
        print("   " + "   ".join(shaded(held_out.images[n][row]) for n in shown))
    print("   " + "   ".join(f"is a {predicted[n]}".ljust(16) for n in shown) + "\n")
    right = (predicted == held_out.labels).sum()
    print(f"   {right} of {len(predicted)} are classified correctly: {right / len(predicted):.2%}")

    print("\n3. It says what cannot fit, before anything runs:\n")
    for diagnostic in axon.check(MISTAKE):
        print(axon.AxonError((diagnostic,)))


if __name__ == "__main__":
    main()
