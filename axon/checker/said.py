"""What is said of what inference finds wrong: the one place where its troubles become diagnostics, with the changes to try."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from axon.base.data import replace
from axon.base.diagnostics import Diagnostic, Label, Suggestion
from axon.explain import errors, models, names, numbers
from axon.explain.rules import broken
from axon.explain.unknown import unknown_value
from axon.suggest.bounds import ungrouped
from axon.suggest.changes import not_square, unsettled
from axon.suggest.conversions import converted
from axon.suggest.meant import (
    as_parameter,
    by_position,
    each_named,
    every_dimension,
    fields_stated,
    indexed_too,
    likely,
    misread,
    no_product,
    of_integers,
    operands_exchanged,
    part_chosen,
    read_otherwise,
    rest_kept,
    runs_moved,
)  # fmt: skip
from axon.suggest.mutations import imported
from axon.suggest.renamed import known_elsewhere, own_element, own_type
from axon.suggest.undetermined import unanchored, undetermined
from axon.types import trouble as X
from axon.types import typed as T
from axon.types.inference import Inference
from axon.types.resolve import OF_NAMES
from axon.types.type import Tensor
from axon.types.unify import Mismatch


def said(by: Inference, trouble: X.Trouble) -> Iterable[Diagnostic]:
    """The diagnostics of a trouble, in terms of what is known of its types now."""
    match trouble:
        case X.Unsettled() if by.explains:
            return unsettled(by, trouble)
        case X.Unsettled(body=body):  # who counts errors asks no more
            return (Diagnostic("AX0301", "sizes do not fit", (Label(body.span),)),)
        case _:
            found = _of_types(by, trouble)
            if not by.leaf or found.code in OF_NAMES:
                return (found,)
            found = replace(found, notes=(*found.notes, f"at the leaf `{by.leaf}`"))
            match trouble:
                case X.Mismatched(Mismatch(kind="rank"), meant=X.Argument(T.Variable(instance=None), name=name)):
                    return (replace(found, suggestions=(*found.suggestions, _captures(name))),)
            return (found,)


def _captures(name: str) -> Suggestion:
    """Of a local function that is not polymorphic."""
    text = f"`{name}` takes leaves of one shape, since it uses something from around it that has no type: annotate that,"
    return Suggestion(f"{text} as in `(rate : f32)`, or write `each (fn … => …)`")


def _of_one_argument(name: str) -> Suggestion:
    return Suggestion(f"`{name}` differentiates a function of one argument that gives a number: `{name} (fn w => loss w x) w`")


_OF_A_NUMBER = Suggestion("a gradient is that of one number: reduce the result, `sum i => …`, or use `vjp`, which takes any result")


def _of_types(by: Inference, trouble: X.Trouble) -> Diagnostic:
    state = by.state
    match trouble:
        case X.Mismatched(mismatch, left, right, reason, meant):
            found = errors.mismatch(state, mismatch, left, right, reason)
            match mismatch.kind, meant:
                case "rank", X.Argument(function=T.Builtin(name="grad" | "value_and_grad")):
                    return replace(found, suggestions=(_OF_A_NUMBER, *found.suggestions))
                case _, X.Argument(function=T.Builtin(name="grad" | "value_and_grad" as name), at=0) if mismatch.kind != "class":
                    return replace(found, suggestions=(_of_one_argument(name), *found.suggestions))
            places = [reason.span, *(side.span for side in reason.sides)] if mismatch.kind == "rank" else []
            apart = tuple(s for place in dict.fromkeys(places) for s in ungrouped(place))
            likelier = likely(meant, state) if meant is not None else ()
            if isinstance(meant, X.Argument) and found.code == "AX0204" and "." in meant.name:
                found = replace(found, notes=(*found.notes, errors.signature(state, meant)))
            access = misread(reason.span) if mismatch.kind == "rank" else None
            if access is not None:
                count = len(access.subscripts)
                read = isinstance(right, Tensor) and len(state.shape(right.shape)) == count
                if access.span != reason.span and isinstance(left, Tensor) and read:  # what an operator made has another rank
                    found = errors.subscript_count(state, state.shape(left.shape), count, access.span, access.base.span.excerpt)
                rank = len(state.shape(left.shape)) if access.span != reason.span and isinstance(left, Tensor) else 0
                apart = (*apart, *read_otherwise(access, rank))
            return _first((*likelier, *apart, *converted(by, trouble)), found)
        case X.NotBool(t, span, where, choice):
            found = errors.condition(state, t, span, where)
            helps = tuple(likely(choice, state)) if choice is not None else ()
            return replace(found, suggestions=helps or found.suggestions)
        case X.NotAFunction(t, span, argument, given):
            return errors.not_a_function(state, t, span, argument, given)
        case X.NoField(record, name, span) if models.is_made(name, span):
            return models.no_distribution(state, record, name, span)
        case X.NoField(record, name, span):
            return errors.no_field(state, record, name, span)
        case X.NoPosition(value, position, span):
            return errors.no_position(state, value, position, span)
        case X.UnknownRecord(member, span, members):
            return _first(fields_stated(state, trouble), errors.unknown_record(state, f"`.{member}`", span, members))
        case X.StoredFunction(what, span):
            return errors.stored_function(what, span)
        case X.StatesLacking(loop, given):
            return errors.states_lacking(loop, given)
        case X.UnknownStructure(name, value):
            return errors.unknown_structure(name, value)
        case X.StructuresDiffer():
            return errors.structures_differ(state, trouble)
        case X.NoDerivativeOf():
            return errors.no_derivative(state, trouble)
        case X.TypeTooLarge(span):
            return errors.too_large(span)
        case X.RuleBroken():
            return broken(trouble)
        case X.UnknownName():
            return _first(own_type(trouble), names.unknown_name(trouble))
        case X.UnknownElement():
            found = names.unknown_element(trouble)
            return replace(found, suggestions=tuple(own_element(trouble)) or found.suggestions)
        case X.RunAsValue():
            return names.run_as_value(trouble)
        case X.NotOfModel(model, function):
            return models.not_of_model(model, function)
        case X.NotDrawn():
            return models.not_drawn(trouble)
        case X.UnknownMember(module, member_name):
            return names.unknown_member(module, member_name)
        case X.MissingImport(name, span):
            put = imported(f"write `import {name}` at the top of the file", name, span.file)
            return _first((put,), names.missing_import(name, span))
        case X.AliasArguments():
            return names.alias_arguments(trouble)
        case X.NegativePosition():
            return numbers.negative_position(state, trouble)
        case X.LengthByIndex():
            return numbers.length_by_index(state, trouble)
        case X.ImpossibleCoercion():
            return numbers.impossible_coercion(state, trouble)
        case X.UnknownSize():
            return numbers.unknown_size(trouble)
        case X.LiteralTooLarge(literal, element):
            return numbers.literal_too_large(literal, element)
        case X.UnknownValue():
            return unknown_value(trouble, tuple(known_elsewhere(trouble)))
        case X.DimsMissing(name, explicit, span):
            return errors.dims_missing(name, explicit, span)
        case X.DimsWrong(name, explicit, given, span):
            return errors.dims_wrong(name, explicit, given, span)
        case X.NotADimension(what, span, value=value):
            return errors.not_a_dimension(what, span, tuple(as_parameter(trouble)), value)
        case X.CannotIndex(t, span):
            return errors.cannot_index(state, t, span)
        case X.PartByIndex(access, items, base):
            changes = (*part_chosen(state, base), *by_position(state, trouble))
            return _first(changes, errors.part_by_index(access, items))
        case X.TwoRests(access_span, places):
            return _first(every_dimension(access_span, places), errors.rests(list(places)))
        case X.BadSubscript(t, span):
            return _first(of_integers(trouble), errors.bad_subscript(state, t, span))
        case X.SubscriptCount(access, name, shape, count):
            changes = (*indexed_too(trouble), *(rest_kept(access.span) if count < len(shape) else ()))
            found = errors.subscript_count(state, shape, count, access.span, name)
            return _first((*ungrouped(access.base.span), *changes), found)
        case X.MatmulRank(shape, side, other, spans):
            at = spans[side == "right"]
            return _first((*ungrouped(at), *no_product(state, trouble)), errors.matmul_rank(state, shape, at, side, other))
        case X.BatchOfOneSide(batch, span, spans):
            return _first(operands_exchanged(spans), errors.batch_of_one_side(state, batch, span, spans))
        case X.ManySplits(left_shape, right_shape, reason):
            return _first(runs_moved(reason.span), errors.splits(state, left_shape, right_shape, reason))
        case X.UndeterminedSplit(shape, rows, place):
            return errors.undetermined_split(state, shape, set(rows), place)
        case X.Undetermined():
            return undetermined(by, trouble)
        case X.Unanchored():
            return unanchored(state, trouble)
        case X.ScalarsAlone(shape, arguments):
            return errors.scalars_alone(state, shape, arguments)
        case X.KnownByProduct():
            return _first(each_named(state, trouble), numbers.by_product_alone(state, trouble))
        case X.SquareByBroadcast():
            return _first(not_square(by, trouble), numbers.square_by_broadcast(state, trouble))
        case X.Unsettled():
            raise AssertionError(trouble)
        case _:
            assert_never(trouble)


def _first(changes: Iterable[Suggestion], found: Diagnostic) -> Diagnostic:
    """What is said, with the changes that are likelier than its own before those."""
    return replace(found, suggestions=(*changes, *found.suggestions))
