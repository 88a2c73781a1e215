"""What is said of models: of sites that have no distribution, of data that do not fit one, and of latents outside."""

from __future__ import annotations

from axon.base.diagnostics import Diagnostic, Label, Suggestion
from axon.base.element import INT
from axon.base.nearest import meant
from axon.base.source import Span
from axon.chance.model import FUNCTIONS, OBSERVED, SUMMED, Model, Unsummed
from axon.explain.errors import sort_of
from axon.grammar import syntax as S
from axon.types.resolve import ModelName, Scope
from axon.types.show import Namer, show_type
from axon.types.trouble import NO_DISTRIBUTION, NO_VALUES, NotDrawn
from axon.types.type import Function, RecordType, Type
from axon.types.unify import State

_MEMBERS = ("sample", "log_density", "support")
_SUPPORT = ("constrain", "log_jacobian", "unconstrain")
_INTEGERS = frozenset({"integers", *(e.value for e in INT)})
_EXAMPLE = "a distribution is a record of functions, such as `dist.normal 0.0 1.0`"


def is_made(name: str, span: Span) -> bool:
    """Whether a field is one that a model takes of a distribution: nobody has written its name there."""
    return span.text != name


def no_distribution(state: State, t: Type, name: str, span: Span) -> Diagnostic:
    """A site, or its support, is of a type that lacks what is taken of it."""
    shown = span.excerpt
    t = state.prune(t)
    if isinstance(t, RecordType) and name == "values":
        return Diagnostic(NO_VALUES, f"`{shown}` cannot be summed over", (Label(span, "its support has no `values`"),))
    if isinstance(t, RecordType) and name in _SUPPORT:
        why = "its support has no transform to the reals, as that of a discrete distribution"
        return Diagnostic(NO_DISTRIBUTION, f"`{shown}` cannot be mapped to the reals", (Label(span, why),))
    if isinstance(t, RecordType):
        lacking = " and ".join(f"`{n}`" for n in _MEMBERS if t.get(n) is None)
        label = Label(span, f"this record lacks {lacking}")
        return Diagnostic(NO_DISTRIBUTION, f"`{shown}` is not a distribution", (label,), (), (Suggestion(_EXAMPLE),))
    result: Type = t
    more = 0
    while isinstance(result, Function):
        result, more = state.prune(result.result), more + 1
    if more and isinstance(result, RecordType) and result.get("sample") is not None:
        arguments = "an argument" if more == 1 else f"{more} arguments"
        text = f"this lacks {arguments}"
        return Diagnostic(NO_DISTRIBUTION, f"`{shown}` is not a distribution, but a function that gives one", (Label(span, text),))
    found = show_type(Namer(state, classes=True), t)
    label = Label(span, "this is drawn from")
    message = f"`{shown}` is not a distribution, but {sort_of(state, t)}"
    return Diagnostic(NO_DISTRIBUTION, message, (label,), (f"its type is {found}",), (Suggestion(_EXAMPLE),))


def not_drawn(wrong: NotDrawn) -> Diagnostic:
    """Data that are no numbers of the sort that the distribution gives."""
    data, site = wrong.reason.sides
    have, give = wrong.sorts
    labels = (Label(data.span, f"these are {have}"), Label(site.span, f"this gives {give}"))
    name = data.span.text
    help_ = f"counts are integers: `({name} : i32[n])`" if give in _INTEGERS else f"it gives floats: `({name} : f32[n])`"
    return Diagnostic("AX0804", f"`{name}` cannot be drawn from `{site.span.excerpt}`", labels, (), (Suggestion(help_),))


def of_model(name: str, scope: Scope) -> str:
    """The model in scope that has a latent of a name."""
    models = ((n, scope.value(n)) for n in scope.names() if "." not in n)
    return next((n for n, e in models if isinstance(e, ModelName) and any(s.name == name for s in e.model.latents)), "")


def latent_outside(name: str, model: str, span: Span) -> Diagnostic:
    message = f"`{name}` is a latent of `{model}`, which has a value in a draw alone"
    help_ = f"take it from a draw: `let val z = {model}.prior … in z.{name} end`"
    return Diagnostic("AX0806", message, (Label(span, "outside of the model"),), (), (Suggestion(help_),))


def not_of_model(model: Model, name: S.Name) -> Diagnostic:
    """A name after that of a model: of a latent, of a function that it lacks, or of nothing."""
    if any(site.name == name.text for site in model.latents):
        return latent_outside(name.text, model.name, name.span)
    has = ", ".join(f"`{f}`" for f in model.functions)
    if name.text in OBSERVED:
        why = f"`{model.name}` observes nothing, and so has no `{name.text}`"
    elif name.text in SUMMED and model.unsummed is not None:
        return not_summed(model.name, name.text, model.unsummed, name.span)
    elif name.text in SUMMED:
        why = f"all latents of `{model.name}` are continuous, and so it has no `{name.text}`"
    else:
        why = f"the model `{model.name}` has no `{name.text}`"
    help_ = () if name.text in FUNCTIONS else meant(name.text, model.functions, name.span)
    return Diagnostic("AX0805", why, (Label(name.span, "no function of the model"),), (f"it has {has}",), help_)


def not_summed(model: str, function: str, why: Unsummed, span: Span) -> Diagnostic:
    """A function of the latents that are not discrete, of a model whose discrete ones cannot be summed out."""
    message = f"`{model}` has no `{function}`: its latent `{why.names[0]}` cannot be summed out"
    about, help_ = reason(why)
    code = NO_VALUES if why.why == "infinite" else "AX0808"
    return Diagnostic(code, message, (Label(span, "asked for here"), Label(why.span, about)), (), (Suggestion(help_),))


def reason(why: Unsummed) -> tuple[str, str]:
    """Why a discrete latent cannot be summed out, and what to do."""
    latent, *others = why.names
    match why.why:
        case "infinite":
            about = "its support has no `values`, and no map from the reals"
            return about, "method `importance` needs no sum; a distribution with few values says them: `support.values`"
        case "look":
            about = f"`{others[0]}` looks at more of `{latent}` than the element with its own indices"
            return about, f"read `{latent}` at indices of the plate, as in `for i => dist.normal mu[{latent}[i]] 1.0`"
        case "meet":
            return f"elements of `{'` and `'.join(why.names)}` meet in one site", "method `importance` needs no sum"
        case "site":
            return f"`{latent}` is no draw, no plate, and no chain without plates in it", "write plates around a chain"
        case "support":
            about = f"which values `{others[0]}` may have could depend on `{latent}`"
            fixed = "the support of `dist.normal`, `dist.gamma` or `dist.beta` is the same for all parameters"
            return about, f"{fixed}; scale and shift such a latent in a `val` after it"
        case "inner":
            return f"`{latent}` is a latent of `{others[0]}`, which is called", "draw it in this model itself"
        case _:
            return others[-1], "what depends on it must have one type and the same sizes for all of its values"
