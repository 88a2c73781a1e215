"""What accesses, slices, computed sizes and called functions need and do not get, in words."""

from __future__ import annotations

from axon.base.diagnostics import Diagnostic, Label, Suggestion
from axon.base.names import Symbol
from axon.base.source import Span
from axon.explain.wording import Words, distinct, merged, numbers, origin_label, plainly
from axon.shapes.constraint import Problem, Reason, Side, Use
from axon.shapes.contracts.broken import Broken, as_taken, measure, nearest, refuted
from axon.shapes.dimension import Atom, Dim, Minimum, Quotient, rebuilt
from axon.shapes.pretty import render
from axon.shapes.relation import Relation
from axon.shapes.solving.trouble import Refuted, Unprovable


def unprovable(u: Unprovable, problem: Problem, words: Words) -> Diagnostic:
    """A need that depends on a size that only the data decide."""
    obligation, relation = u.obligation, u.relation
    divided = (q.divisor.symbol for side in (relation.left, relation.right) for q in side.quotients)
    divisors = sorted(words.name(s) for s in divided if s is not None and s in problem.data)
    if obligation.sized and divisors:
        note = f"it needs {divisors[0]} >= 1, which is known only when the program runs"
        label = Label(obligation.reason.span, f"this divides by {divisors[0]}, which could be 0")
        help_ = Suggestion(f"divide by a size that is at least 1: `max 1 {divisors[0]}`")
        message = "a size that depends on one that only the data decide cannot be proved to be a size"
        return Diagnostic("AX0307", message, (label,), (note,), (help_,))
    if obligation.sized:
        note = f"it needs {plainly(relation, words)}, which is known only when the program runs"
        label = Label(obligation.reason.span, "this size could be negative")
        help_ = Suggestion("make it a size that is never negative: `max 0 (…)`")
        message = "a size that depends on one that only the data decide cannot be proved to be a size"
        return Diagnostic("AX0307", message, (label,), (note,), (help_,))
    message = "a contract on a size that only the data decide cannot be proved"
    labels = [Label(obligation.reason.span, obligation.reason.text)]
    for _, variable in obligation.subject:  # what of the call has a size that only the data decide
        found = measure(variable, problem.equals)
        size = problem.resolve(found.raw) if found is not None else variable
        if found is not None and size.variables & problem.data:
            labels.append(origin_label(found.side, size, words.origin(found.side, found.raw), words))
    shown = plainly(relation, words)
    help_ = Suggestion(f"make it a fact where it is needed: `if {shown} then … else …`")
    return Diagnostic("AX0307", message, tuple(merged(labels)), (f"{shown} is known only when the program runs",), (help_,))


def _stated(problem: Problem) -> list[Relation]:
    """The facts of the declaration, by what is solved."""
    return [Relation(problem.resolve(r.left), r.op, problem.resolve(r.right)) for r, _ in problem.assumed]


def _fill(reason: Reason, shown: str) -> str:
    return reason.text.replace("{}", shown)


def not_met(r: Refuted, problem: Problem, words: Words) -> Diagnostic:
    """A need that cannot hold."""
    reason = r.obligation.reason
    if r.reach is not None and r.size is not None:
        return _outside(r, words)
    if r.obligation.subject:
        return contract_broken(refuted(r, problem), problem, words)
    shown, wanted = (plainly(relation, words) for relation in (r.relation, r.obligation.relation))
    indices = [s for s, _ in r.obligation.context.indices if s in r.obligation.relation.variables]
    if not indices and "slice" in reason.text:
        asked = Relation(problem.resolve(r.obligation.relation.left), r.relation.op, problem.resolve(r.obligation.relation.right))
        wanted = f"{render(asked.left, words.name)} {asked.op} {render(asked.right, words.name)}"
        notes = numbers(asked, words, wanted, _stated(problem)) if asked.slack.constant is None else ()
        found = [Label(reason.span, _fill(reason, wanted))]
        for side in reason.sides:  # what is sliced
            place = words.origin(side, r.obligation.relation.right)
            found.append(origin_label(side, asked.right, place, words))
        return Diagnostic("AX0303", "this access leaves its tensor", tuple(merged(distinct(found))), notes)
    labels = (Label(reason.span, _fill(reason, wanted)), *(Label(s.span, s.text) for s in reason.sides))
    if "index" not in reason.text and "slice" not in reason.text:
        ends = tuple(_where_broken(r.obligation.relation, s, shown) for s in indices[-1:] if shown != wanted)
        return Diagnostic("AX0305", "this cannot hold for the sizes here", labels, ends)
    notes = () if shown == wanted else (f"at the end of the ranges that is {shown}, which cannot be",)
    helps: tuple[Suggestion, ...] = ()
    if indices:
        text = f"state a smaller bound, `{indices[-1].name} < …`, guard it with `if`, or read zeros outside with `x[… | 0.0]`"
        helps = (Suggestion(text),)
    return Diagnostic("AX0303", "this access leaves its tensor", labels, notes, helps)


def _where_broken(relation: Relation, index: Symbol, shown: str) -> str:
    """For which index a need is not met: for the first, if numbers show it, else for the last."""
    first = relation.substitute({index: Dim.of(0)})
    if first.trivial is False and not first.variables:
        return f"for `{index.name}` = 0 that is {first.left} {first.op} {first.right}"
    return f"at the end of the range of `{index.name}` that is {shown}"


def contract_broken(b: Broken, problem: Problem, words: Words) -> Diagnostic:
    """A call that breaks a contract: the fact and the sizes, where each comes from, and the nearest that would do."""
    reason = b.obligation.reason
    subject = ((name, raw, size) for (name, raw), size in zip(b.obligation.subject, b.sizes, strict=True))
    sizes = [as_taken(*variable, problem.equals) for variable in subject]
    given = " and ".join(f"{n} is {render(d, words.name)}" for n, d in sizes if render(d, words.name) != n)
    labels = [Label(reason.span, reason.text + (f", and {given} here" if given else ""))]
    told: dict[Span, list[str]] = {}
    for _, variable in b.obligation.subject:
        found = measure(variable, problem.equals)
        if found is None:
            continue
        label = origin_label(found.side, problem.resolve(found.raw), words.origin(found.side, found.raw), words)
        told.setdefault(label.span, []).append(label.text)
    labels += [Label(span, " and ".join(dict.fromkeys(texts))) for span, texts in told.items()]
    name = reason.text.split("`")[1]  # without what the call gives it in braces
    for side in reason.sides:
        text = f"`{name}` states it here" if side.text == "stated here" else f"`{name}` needs it here: {side.text}"
        labels.append(Label(side.span, text))
    notes = list(nearest(b, problem))
    if b.relation.op == "=" and b.relation.slack.constant is None and b.relation.variables:
        shown = f"{render(b.relation.left, words.name)} = {render(b.relation.right, words.name)}"
        notes += numbers(b.relation, words, shown, _stated(problem))
    return Diagnostic("AX0305", "the sizes here break a contract", tuple(merged(labels)), tuple(notes))


def _outside(r: Refuted, words: Words) -> Diagnostic:
    """An access that leaves its tensor: which index it reaches, and what there is; likewise in other dimensions."""
    use = r.obligation.use
    assert use is not None
    low = r.obligation.relation.op != "<"
    padded = f"read a default outside: `{use.base}[… | 0.0]`"
    help_ = (
        f"guard it with `if`, or {padded}"
        if low
        else f"state a smaller bound for `{r.ends[-1][0].name}`, or {padded}"
        if r.ends
        else ""
    )
    labels, sizes, notes = [], [], []
    for part in (r, *r.also):
        size = _whose_size(part, words)
        label, what = _reached(part, words, bool(r.also), size is not None)
        labels.append(label)
        sizes += [size] if size is not None else []
        notes += what
    suggestions = (Suggestion(help_),) if help_ else ()
    shown = tuple(merged(distinct([*labels, *sizes])))
    return Diagnostic("AX0303", "this access leaves its tensor", shown, tuple(dict.fromkeys(notes)), suggestions)


def _whose_size(r: Refuted, words: Words) -> Label | None:
    """Where the size of a tensor that an access leaves at its end comes from."""
    use = r.obligation.use
    return None if use is None or r.size is None or r.obligation.relation.op != "<" else size_of(use, r.size, words)


def size_of(use: Use, size: Dim, words: Words) -> Label | None:
    """Where the size of what is accessed comes from."""
    side = Side(use.span, f"{use.axis} of `{use.base}` is {{}}", use.base)
    label = origin_label(side, size, words.origin(side, use.target), words)
    return None if label.span == use.span else label


def _reached(r: Refuted, words: Words, several: bool, sized: bool) -> tuple[Label, list[str]]:
    """One index of an access that leaves its tensor, and how far the indices in it run; `sized`: its size has its own label."""
    use = r.obligation.use
    assert use is not None
    assert r.reach is not None
    assert r.size is not None
    reached, extent = render(_without_nothing(r.reach), words.name), render(r.size, words.name)
    what = f"{use.axis} of `{use.base}`"
    whose = "" if sized else f", whose size is {extent}"
    low = r.obligation.relation.op != "<"
    if low:
        text = f"reaches index {reached} of {what}; indices start at 0"
    elif r.ends and _bounded(r.reach):
        text = f"can pass the end of {what}{whose}"
    else:
        text = f"reaches index {reached} of {what}{whose}"
    indices = {s for s, _ in use.context.indices}

    def name(s: Symbol) -> str:  # the bound of an index may speak of those around it
        return s.name if s in indices else words.name(s)

    same = {words.name(v) for _, e in r.ends for v in e.variables - indices}  # an index that is called like a size
    ends = [(f"{'the index ' * (s.name in same)}`{s.name}`", e) for s, e in r.ends]
    notes = [f"{i} runs from 0 to {render(e - 1, name)}" if e != Dim.of(1) else f"{i} is 0 at most" for i, e in ends]
    if use.index.constant is not None and not low and r.size.constant is not None and r.size.constant > 0:
        notes.append(f"the last index{f' of {what}' if several else ''} is {r.size.constant - 1}")
    return Label(use.span, text), notes


def _without_nothing(dim: Dim) -> Dim:
    """A size without 0 / p, which only says that p is not 0."""

    def image(atom: Atom) -> Dim:
        if isinstance(atom, Symbol):
            return Dim.of(atom)
        whole = rebuilt(atom, _without_nothing)
        return Dim.of(0) if isinstance(whole.atom, Quotient) and whole.atom.dividend.constant == 0 else whole

    return dim.rewrite(image)


def _bounded(dim: Dim) -> bool:
    """Whether a size mentions `min` or `max`, which make a sentence no clearer."""
    return any(isinstance(a, Minimum) for a in dim.atoms)
