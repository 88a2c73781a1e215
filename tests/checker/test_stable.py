"""Signatures do not depend on what names are called, nor on the order of declarations that know nothing of one another."""

from __future__ import annotations

import random
import re
from itertools import pairwise
from pathlib import Path

import pytest

from axon import compiler
from axon.checker.loader import FileLoader
from tests import ROOT

CORPUS = sorted((ROOT / "tests" / "corpus" / "accepted").glob("*.axon"))
MODELS = [ROOT / "examples" / "models" / f"{name}.axon" for name in ("gpt2", "unet", "vit")]
LETTER = re.compile(r"(?<![\w'])[a-z](?![\w'])")  # a name of one letter that is no type variable
FIELDS = re.compile(r"\{ *\w+ *[:=]")


def signatures(path: Path, text: str) -> dict[str, str]:
    """The signature of each declaration of a text that stands where a file does."""
    checked = compiler.check(FileLoader({str(path): text}), str(path))
    assert not [d for d in checked.diagnostics if d.severity == "error"], text
    return dict(checked.signatures)


def turned(text: str, fields: bool) -> str:
    """The text with other names for its letters, which sort the other way round, unless fields are shown in the order of theirs."""
    return LETTER.sub(lambda m: f"{m.group() if fields else chr(ord('a') + ord('z') - ord(m.group()))}_{m.group()}", text)


def by_appearance(signature: str) -> str:
    """A signature with each of its names called by when it first appears, so that only the structure counts."""
    seen: dict[str, str] = {}
    names = re.compile(r"(?<!')\b(?!(?:where|min|max|bool)\b|[fiu]\d+\b|bf16|f8e)[A-Za-z_]\w*")
    return names.sub(lambda m: seen.setdefault(m.group(), f"v{len(seen)}"), signature)


@pytest.mark.parametrize("path", [p for p in CORPUS if "import" not in p.read_text(encoding="utf-8")], ids=lambda path: path.stem)
def test_names_do_not_matter(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    fields = bool(FIELDS.search(text))
    after = signatures(path, turned(text, fields))
    renamed = {turned(name, fields): by_appearance(turned(s, fields)) for name, s in signatures(path, text).items()}
    assert {name: by_appearance(s) for name, s in after.items()} == renamed


def blocks(text: str) -> list[tuple[str, str]]:
    """The declarations of a file as (keyword and name, text), with the comments before them."""
    starts = [m.start() for m in re.finditer(r"^(?:fun|val|type|sig|import) ", text, re.MULTILINE)]
    cuts = [0, *starts[1:], len(text)]
    found = []
    for a, b in pairwise(cuts):
        head = re.search(r"^(fun|val|type|sig|import) +(\(?\w+)", text[a:b], re.MULTILINE)
        assert head is not None
        found.append((f"{head.group(1)} {head.group(2)}", text[a:b] + "\n"))
    return found


@pytest.mark.parametrize("path", [*(p for p in CORPUS if p.stem != "comments"), *MODELS], ids=lambda path: path.stem)
def test_order_does_not_matter(path: Path) -> None:
    """Neighbours that do not mention one another change places, at random."""
    text = path.read_text(encoding="utf-8")
    rng = random.Random(path.stem)
    order = blocks(re.sub(r"\(\*.*?\*\)", "", text, flags=re.DOTALL))
    for _ in range(len(order) ** 2):
        i = rng.randrange(max(len(order) - 1, 1))
        if i + 1 < len(order):
            (a, first), (b, second) = order[i], order[i + 1]
            (kind_a, name_a), (kind_b, name_b) = a.split(), b.split()
            opened = "(" in name_a + name_b or "import" in (kind_a, kind_b)  # patterns bind more than one name
            if not opened and not re.search(rf"\b{name_a}\b", second) and not re.search(rf"\b{name_b}\b", first):
                order[i], order[i + 1] = order[i + 1], order[i]
    assert signatures(path, "".join(part for _, part in order)) == signatures(path, text)
