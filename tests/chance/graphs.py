"""Models drawn at random: sites in plates and chains whose distributions mention earlier ones, by elements and as wholes, through
values and functions. Each mention moves a density, so that what depends on what can be seen from outside."""

from __future__ import annotations

from random import Random

SIZES = {"n": 3, "k": 2, "t": 4}
PLATES = [(), (), (("i", "n"),), (("i", "n"),), (("j", "k"),), (("i", "n"), ("j", "k")), (("s", "t"),)]


class Writer:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.lines: list[str] = []
        self.known: dict[str, tuple[tuple[str, str], ...]] = {"a": (), "b": (("i", "n"),), "c": (("s", "t"),)}

    def text(self, sites: int) -> str:
        for number in range(sites):
            self.site(f"x{number}")
            if self.random.random() < 0.5:
                self.between(number)
        self.plate("observe y ~ ", (("i", "n"),), {"i"})
        body = "\n      ".join(self.lines)
        return f"""import dist

fun drawn (a : f64) (b : f64[n]) (c : f64[t]) (w : f64[k]) (y : f64[n]) =
  let {body}
  in w[0] end
"""

    def site(self, name: str) -> None:
        plates = self.random.choice(PLATES)
        if plates and self.random.random() < 0.3:
            outer = "".join(f"for {i} < {n} => " for i, n in plates[:-1])
            (i, n) = plates[-1]
            mean = self.terms({index for index, _ in plates})
            self.lines.append(f"val {name} ~ {outer}unfold (before = 0.3) for {i} < {n} => dist.normal (0.5 * before + {mean}) 1.0")
        else:
            self.plate(f"val {name} ~ ", plates, {index for index, _ in plates})
        self.known[name] = plates

    def plate(self, head: str, plates: tuple[tuple[str, str], ...], around: set[str]) -> None:
        binders = "for " + ", ".join(f"{i} < {n}" for i, n in plates) + " => " if plates else ""
        scale = f"(exp (0.1 * tanh ({self.terms(around)})))" if self.random.random() < 0.3 else "1.0"
        self.lines.append(f"{head}{binders}dist.normal ({self.terms(around)}) {scale}")

    def between(self, number: int) -> None:
        """A value, or a function of a number or of an index."""
        kind = self.random.choice(["scalar", "array", "function", "of an index", "pair"])
        name = f"v{number}"
        match kind:
            case "scalar":
                self.lines.append(f"val {name} = {self.terms(set())}")
                self.known[name] = ()
            case "array":
                self.lines.append(f"val {name} = for i < n => {self.terms({'i'})}")
                self.known[name] = (("i", "n"),)
            case "pair":
                self.lines.append(f"val ({name}, {name}b) = ({self.terms(set())}, for i < n => {self.terms({'i'})})")
                self.known |= {name: (), f"{name}b": (("i", "n"),)}
            case "function":
                self.lines.append(f"fun f{number} z = tanh z + {self.terms(set())}")
                self.lines.append(f"val {name} = f{number} ({self.terms(set())})")
                self.known[name] = ()
            case _:
                self.lines.append(f"fun f{number} i = {self.terms({'i'})}")
                self.lines.append(f"val {name} = for i < n => f{number} i")
                self.known[name] = (("i", "n"),)

    def terms(self, around: set[str]) -> str:
        chosen = self.random.sample(sorted(self.known), self.random.randint(1, 2))
        return " + ".join([f"{self.random.uniform(0.2, 0.7):.2f} * {self.mention(name, around)}" for name in chosen])

    def mention(self, name: str, around: set[str]) -> str:
        """An element where there is an index for it, or the sum of all; some are summed all the same."""
        plates = self.known[name]
        summed = [(i, n) for i, n in plates if i not in around or self.random.random() < 0.3]
        own = {i for i, _ in summed}
        at = ", ".join(f"{i}_" if i in own else i for i, _ in plates)
        element = f"{name}[{at}]" if plates else name
        return f"(sum {' '.join(f'{i}_' for i, _ in summed)} => {element})" if summed else element
