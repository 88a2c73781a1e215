"""What Axon does, in three steps: infer, run, explain. `make demo` runs this."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "digits"))

MISTAKE = """\
import nn

fun mlp (x : f32[b, d]) (w1 : f32[d, 4 * d]) (w2 : f32[3 * d, d]) =
  nn.relu (x @ w1) @ w2
"""


def main() -> None:
    from data import load
    from evaluate import weights

    import axon

    print("1. Axon infers every shape. The convolutions and layers of examples/digits/digits.axon have these signatures:\n")
    digits = axon.load(HERE / "digits" / "digits.axon")
    for name in ("stage", "logits", "classify"):
        print(digits[name].signature)

    print("\n2. It runs on NumPy arrays. Handwritten digits that training never saw, with the trained weights:\n")
    _, held_out = load()
    predicted = digits.classify(weights(), held_out.images)
    for image, digit in zip(held_out.images[:3], predicted[:3], strict=True):
        for row in image[::2]:
            print("   " + "".join(" .:oO@"[min(5, int(ink * 6))] * 2 for ink in row))
        print(f"   is a {digit}\n")
    right = (predicted == held_out.labels).sum()
    print(f"   {right} of {len(predicted)} are classified correctly: {right / len(predicted):.2%}")

    print("\n3. It says what cannot fit, before anything runs:\n")
    for diagnostic in axon.check(MISTAKE):
        print(axon.AxonError((diagnostic,)))


if __name__ == "__main__":
    main()
