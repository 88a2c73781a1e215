"""What is said where a program breaks a rule that needs no more than a place and a few words: a table."""

from __future__ import annotations

from axon.base.data import dataclass
from axon.base.diagnostics import Diagnostic, Label, Suggestion
from axon.shapes.dimension import MAX_DEGREE, MAX_TERMS
from axon.shapes.width import MOST
from axon.types.symbolic import MAX_STEPS
from axon.types.trouble import Rule as R
from axon.types.trouble import RuleBroken


@dataclass(frozen=True, slots=True)
class _Row:
    """Texts with `{0}`, `{1}` for the words of a trouble; `also` labels its other place."""

    code: str
    message: str
    label: str
    also: str = ""
    note: str = ""
    help: str = ""


def broken(wrong: RuleBroken) -> Diagnostic:
    row = ROWS[wrong.rule]

    def text(of: str) -> str:
        return of.format(*wrong.words)

    labels = [Label(wrong.span, text(row.label))]
    if wrong.also is not None:
        labels.append(Label(wrong.also, text(row.also)))
    helps = (Suggestion(text(row.help)),) if row.help else ()
    return Diagnostic(row.code, text(row.message), tuple(labels), (text(row.note),) if row.note else (), helps)


_TWICE = "here again", "first here"
_EACH = "this differs from one `{0}` to the next"
_LARGEST = "range over the largest size, and choose with `if` what lies inside"
_MADE_OF = "a dimension is made of names, integers, `+ - * / %`, `min a b`, `max a b` and functions of such"
TERMS = f"a size may have at most {MAX_TERMS:,} terms and {MAX_DEGREE} factors, and take {MAX_STEPS:,} steps to compute"

ROWS: dict[R, _Row] = {
    # twice
    R.NAME_BOUND_TWICE: _Row("AX0217", "`{0}` is bound twice in one pattern", *_TWICE),
    R.INDEX_BOUND_TWICE: _Row("AX0217", "the index `{0}` is bound twice", *_TWICE),
    R.FIELD_GIVEN_TWICE: _Row("AX0217", "the field `{0}` is given twice", *_TWICE),
    R.TYPE_PARAMETER_TWICE: _Row("AX0217", "`{0}` is given twice", *_TWICE),
    R.DIMENSION_PARAMETER_TWICE: _Row("AX0217", "the dimension parameter `{0}` is given twice", "here again"),
    R.DEFINED_TWICE: _Row(
        "AX0404", "`{0}` is defined twice in this file", "the second definition", "the first", help="give one of them another name"
    ),
    # declarations
    R.LONELY_SIG: _Row("AX0218", "there is no definition for the `sig` of `{0}`", "declared here, defined nowhere{1}"),
    R.PARAMETERS_OF_SIG: _Row(
        "AX0218", "`{0}` has more parameters than its `sig`", "one parameter more than its `sig` has", "the `sig`"
    ),
    R.DIMENSIONS_FIRST: _Row(
        "AX0212", "dimension parameters stand before the others", "after another parameter", help="write `fun {0} {{{1}}} …`"
    ),
    R.DIMENSIONS_TOGETHER: _Row("AX0212", "dimension parameters stand in one group: `{{a, b}}`", "a second group"),
    R.IMPORT_INSIDE: _Row("AX0406", "an `import` cannot stand inside a `let`", "imports stand at the top of a file"),
    R.MODULE_AS_VALUE: _Row(
        "AX0406", "`{0}` is a module, not a value", "used as a value", help="name something in it: `{0}.…`"
    ),
    # names that are known, but not here
    R.USES_ITSELF: _Row(
        "AX0401", "`{0}` cannot use itself", "inside its own definition", note="there is no recursion: a program is a finite graph",
        help="to repeat something, write `loop (state = start) for _ < steps => …`",
    ),
    R.DEFINED_BELOW: _Row(
        "AX0401", "`{0}` is used before it is defined", "not defined here", "defined here, below",
        help="move its declaration above this one",
    ),
    R.INDEX_ENDED: _Row("AX0401", "the index `{0}` has ended here", "not defined here", "an index of this comprehension alone"),
    R.SIZE_OF_ANOTHER: _Row(
        "AX0401", "`{0}` belongs to `{1}`", "not defined here", "a size of `{1}` alone: each use of it has another",
        help="write the size of what `{1}` is applied to",
    ),
    # types
    R.TYPE_IN_ITSELF: _Row("AX0206", "the type `{0}` contains itself", "mentioned here"),
    R.FIELD_LISTED_TWICE: _Row("AX0214", "the field `{0}` is listed twice", "here"),
    R.NO_BRACKETS: _Row("AX0214", "`{0}` stands for any type and takes no brackets", "here"),
    R.DIMENSIONS_INSIDE: _Row("AX0214", "dimension parameters stand at the beginning of a `sig` alone", "here"),
    R.SCALAR_INSIDE: _Row(
        "AX0214", "`?` marks a parameter, and stands after its type", "this is no parameter of a function that is declared"
    ),
    R.SCALAR_UNTOLD: _Row(
        "AX0214", "`{0}` cannot be marked with `?`", "a scalar here would leave open what shape it stands for",
        note="another parameter must tell the shape, or be of the same one",
    ),
    R.FOR_A_DIMENSION: _Row("AX0214", "`{0}` stands for a dimension", "here"),
    R.ELEMENT_NEEDED: _Row("AX0214", "an element type is needed here", "here"),
    R.DIMENSION_NEEDED: _Row("AX0214", "a dimension is needed here", "here"),
    R.ELEMENT_FOR_DIMENSION: _Row("AX0214", "`{0}` is an element type, where a dimension is needed", "here"),
    # sizes
    R.NEGATIVE_SIZE: _Row("AX0305", "a size cannot be negative", "this is {0:,}"),
    R.LARGE_SIZE: _Row("AX0305", f"sizes end at {MOST:,}", "this is {0:,}"),
    R.DIVISOR: _Row("AX0305", "a size is divided by {0}: a divisor must be at least 1", "this is {0}"),
    R.DIVISOR_OF_FUNCTION: _Row("AX0305", "a size is divided by {0}: a divisor must be at least 1", "this divides by {0}"),
    R.MADE_OF: _Row("AX0308", _MADE_OF, "not one of these"),
    R.TOO_COMPLEX: _Row(
        "AX0309", "the sizes in this expression are too complicated", "grows beyond what can be reasoned about", note=TERMS
    ),
    R.OPENED_REPEATEDLY: _Row(
        "AX0307", "a size that only the data decide cannot be opened inside a comprehension or loop",
        "each index would give another size",
        help="bind it with `val` outside, or keep all elements and mark those that count",
    ),
    R.OPENED_LEAVES: _Row(
        "AX0307", "a size that only the data decide leaves the function that opens it",
        "a function's type cannot mention it: each call gives another size",
    ),
    # indices
    R.SIZE_BY_INDEX: _Row("AX0308", "the size of a dimension cannot depend on the index `{0}`", _EACH, help=_LARGEST),
    R.DIMENSION_BY_INDEX: _Row("AX0308", "a dimension cannot depend on the index `{0}`", _EACH),
    R.BOUND_OF_SEVERAL: _Row(
        "AX0308", "a bound stands with one index alone", "here", help="separate the others with a comma: `i, j < n`"
    ),
    R.BOUND_OF_PRODUCT: _Row(
        "AX0308", "the indices of a product take no bound together", "here", help="bound what they index"
    ),
    R.BOUND_OF_RUN: _Row("AX0308", "a run of indices is bounded by a shape variable", "here", help="write `..i < ..s`"),
    R.RUN_AS_BOUND: _Row(
        "AX0308", "an index is bounded by a dimension, not by a shape variable", "here", help="write `..i < ..s` for a run"
    ),
    R.POSITION_OF_RUN: _Row("AX0308", "`{0}` cannot give a run of indices", "here", help="name each index"),
    R.SCAN_ONE_INDEX: _Row(
        "AX0308", "`scan` runs along one index", "here", help="put the other indices in a `for` around it"
    ),
    R.SCAN_WHERE: _Row(
        "AX0308", "`scan` takes no `where`", "here", help="use the unit where the condition fails: `if p then e else unit`"
    ),
    R.ONE_COUNTER: _Row("AX0308", "`{0}` counts with one index", "here", help="write it as `for i < n`"),
    R.COUNTER_IN_CONDITION: _Row(
        "AX0401", "the condition of a loop does not see its index `{0}`", "it sees the states", "the index of its steps",
        help="the range ends the loop too; what the condition needs of the count is a state: `loop (…, steps = 0) while …`",
    ),
    R.UNFOLD_WHILE: _Row(
        "AX0308", "an `unfold` makes as many steps as its range says", "this would end it before",
        help="keep the last state with `loop … while`, or choose in the step: `if going then next else state`",
    ),
    R.LEAVES_OF_NOTHING: _Row(
        "AX0209", "`{0}` needs a function and what it is to be applied to", "this is no value by itself", help="write `{1}`"
    ),
    R.FOLD_OF: _Row(
        "AX0209", "`fold_leaves` needs an operation and its neutral element first", "here",
        help="as in `fold_leaves (op +, 0.0) (fn w => sum ..i => w[..i] ** 2) weights`",
    ),
    # models
    R.MODEL_AS_VALUE: _Row(
        "AX0805", "`{0}` is a model, not a value", "used as a value",
        help="name a function of it: `{0}.prior`, `{0}.log_density`, or draw from it in another model, `val z ~ {0} …`",
    ),
    R.SIG_OF_MODEL: _Row(
        "AX0805", "`{0}` is a model, which has no `sig`", "several functions are made of it", "the model",
        help="annotate its parameters",
    ),
    R.SITE_OUTSIDE: _Row(
        "AX0801", "`~` stands in the `let` that is the body of a `fun`, outside of others", "this belongs to no model",
        help="write `fun {1} … = let … in {0} end`",
    ),
    R.SITE_UNDER_IF: _Row(
        "AX0801", "a `~` cannot stand under an `if`", "whether this is drawn would depend on a condition", "this `if`",
        note="a model has the same sites in every run",
        help="draw it outside, and choose its distribution: `val z ~ if … then … else …`",
    ),
    R.SITE_UNDER_LOOP: _Row(
        "AX0801", "a `~` cannot stand in a `{0}`", "how often this is drawn would depend on the steps", "this `{0}`",
        help="draw what the steps need outside: in a plate, `val z ~ for t < n => …`, or a chain, `val z ~ unfold (x = a) for …`",
    ),
    R.SITE_UNDER_FOR: _Row(
        "AX0801", "a `~` cannot stand under a `for`", "this would be drawn for each index", "these indices",
        help="write a plate outside: `val z ~ for i < n => …`",
    ),
    R.SITE_IN_FUNCTION: _Row(
        "AX0801", "a `~` cannot stand in a function inside another", "how often this is drawn would depend on the calls",
        "this function", help="make it a model of its own, a `fun` outside of others, and draw from that: `val z ~ model …`",
    ),
    R.SITE_INSIDE: _Row(
        "AX0801", "a `~` stands in the `let` that is the body of a model", "this is inside an expression", "of this",
        help="move it out, to the declarations of the model",
    ),
    R.SITE_TWICE: _Row(
        "AX0802", "two sites of this model are called `{0}`", *_TWICE,
        help="give one of them another name: it is what its draws are known by",
    ),
    R.SITE_PATTERN: _Row(
        "AX0801", "what is drawn has one name", "this is not a name",
        help="draw it as `val z ~ …`, and take that apart: `val (a, b) = z`",
    ),
    R.SITE_CHAIN: _Row(
        "AX0801", "a chain of draws is an `unfold` of one state, without `while`", "this `{0}` is none",
        note="its states are what is drawn, each from the one before",
        help="write `val z ~ unfold (x = start) for t < n => …`",
    ),
    R.CHAIN_OF_MODEL: _Row(
        "AX0801", "each step of a chain is drawn from a distribution", "this is a model",
        help="draw what its steps need in a plate, `val z ~ for t < n => …`, and `unfold` over that",
    ),
    R.PLATE_OF_RUN: _Row(
        "AX0807", "a plate is counted by single indices, and `{0}` is a run of them", "here", help="name each index: `for i j => …`"
    ),
    R.SITE_OF_MODELS: _Row(
        "AX0801", "the branches of a site draw from distributions, or all from one model", "this is another thing to draw from",
        "than this", note="what a model draws and observes are sites, which are the same in every run",
        help="draw from both, and choose what they give: `val z = if … then a else b`",
    ),
    R.STEP: _Row(
        "AX0303", "the step of a slice is at least 1", "this step is {0}", help="to reverse, write `for i < n => {1}[n - 1 - i]`"
    ),
}  # fmt: skip
