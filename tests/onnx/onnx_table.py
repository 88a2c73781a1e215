"""docs/onnx.md: how many of ONNX's node tests there are for each operator, and what becomes of them. Run it to write the page."""

from __future__ import annotations

from collections import Counter, defaultdict

import onnx

from tests import ROOT
from tests.onnx.onnx_cases import CANCELLED, ROUNDED, Case, Outcome, cases, classify

PAGE = ROOT / "docs" / "onnx.md"
LEAST = 1155  # cases that ran when this was written; the count may only grow

INTRODUCTION = """# ONNX's node tests

ONNX comes with tests of each of its operators: a node, inputs, and the outputs that it must have. `tests/onnx` states in Axon, one
template for each, the operators that the language and its library offer, and runs every case of them in the interpreter and on
the CPU backend (under `make test`, one in sixteen there), at the case's own tolerance: a relative error of 0.001, as a rule.
`python -m tests.onnx.onnx_table` writes this page; `make test` fails if a case on it does not pass, or if the count shrinks.

A test of an operator that ONNX also defines by several others comes a second time, in those; they are not counted here.
"""

WHY = """Strings and what works on them (LabelEncoder, RegexFullMatch, StringConcat, StringNormalizer, StringSplit), sequences and
optionals have no types in Axon, and encoded images (ImageDecoder) neither. Bernoulli's numbers are random. If, Loop and Scan hold
graphs, which the templates do not translate; the language has `if`, `loop` and `unfold`. TfIdfVectorizer and TreeEnsemble can be
expressed, and have no template yet.
"""


def page() -> str:
    counts: dict[str, Counter[Outcome]] = defaultdict(Counter)
    reasons: dict[str, list[str]] = defaultdict(list)
    found: list[Case] = list(cases())
    for case in found:
        outcome, reason, _ = classify(case)
        counts[case.operator][outcome] += 1
        if outcome in ("form", "element") and reason not in reasons[case.operator]:
            reasons[case.operator].append(reason)
    total: Counter[Outcome] = sum(counts.values(), Counter())
    lines = [
        INTRODUCTION,
        f"Of the {len(found)} cases of ONNX {onnx.__version__}:",
        "",
        "| | cases |",
        "|---|---:|",
        f"| pass | {total['passed']} |",
        f"| have an element type that Axon has not (strings, numbers of 2 and 4 bits, sequences) | {total['element']} |",
        f"| use an operator in a form that Axon does not offer | {total['form']} |",
        f"| are of an operator without a template | {total['operator']} |",
        "",
        f"{len(ROUNDED)} of those that pass are compared at four roundings of their 16-bit type: ONNX's own tolerance for them is "
        f"less than one. {len(CANCELLED)} are compared at four roundings of their largest element, beside which terms cancel.",
        "",
        "## Operators with a template",
        "",
        "| operator | pass | other element types | other forms | which |",
        "|---|---:|---:|---:|---|",
    ]
    for operator, count in sorted(counts.items()):
        if not count["operator"]:
            which = "; ".join(sorted(reasons[operator]))
            lines.append(f"| {operator} | {count['passed']} | {count['element'] or ''} | {count['form'] or ''} | {which} |")
    missing = sorted((operator, count["operator"]) for operator, count in counts.items() if count["operator"])
    lines += ["", "## Operators without one", "", ", ".join(f"{operator} ({k})" for operator, k in missing) + ".", "", WHY]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
