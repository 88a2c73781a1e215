"""The table of diagnostic codes. Codes are stable; a code's long text is docs/errors/CODE.md, which `axon explain CODE` prints;
`tests/base/test_codes.py` says that each has one."""

from __future__ import annotations

from pathlib import Path

# Every code and its title, in the order of the codes.
CODES: dict[str, str] = {
    # of Axon itself
    "AX0001": "internal error",
    "AX0002": "the program is too deep or too large for this machine",
    "AX0003": "a package is not installed",
    # syntax
    "AX0101": "unexpected text",
    "AX0102": "never closed",
    "AX0103": "comment never closed",
    "AX0104": "character that means nothing",
    "AX0105": "letter that names may not have",
    "AX0106": "unreadable character",
    "AX0107": "character that changes the direction of text",
    "AX0108": "nested too deeply",
    "AX0109": "file too large",
    "AX0110": "lopsided minus",
    "AX0111": "number too large",
    "AX0112": "comparisons do not chain",
    "AX0113": "borrowed from another language",
    "AX0114": "`=>` after something that is not a reduction",
    "AX0115": "not an index",
    "AX0116": "bound for more than one index",
    "AX0117": "`if` without `then` or `else`",
    "AX0118": "looks like a definition, is a comparison",
    # types
    "AX0201": "element types differ",
    "AX0202": "this element type cannot be used here",
    "AX0203": "ranks differ",
    "AX0204": "types differ",
    "AX0205": "the fields of two records differ",
    "AX0206": "a type would contain itself",
    "AX0207": "there is no such field",
    "AX0208": "this is not a function",
    "AX0209": "the type of a record or tuple is not known here",
    "AX0210": "functions cannot be stored here",
    "AX0211": "a type variable is not as general as it says",
    "AX0212": "dimension parameters are missing or too many",
    "AX0213": "the type is too large",
    "AX0214": "a type is written with the wrong arguments",
    "AX0215": "a value cannot be indexed like this",
    "AX0216": "a condition must be a single bool",
    "AX0217": "a name is bound twice in one pattern",
    "AX0218": "a declaration and its sig disagree",
    "AX0219": "these cannot be multiplied with `@`",
    "AX0220": "there is no derivative",
    # sizes
    "AX0301": "these sizes cannot agree",
    "AX0302": "the range of an index is not known",
    "AX0303": "an access leaves its tensor",
    "AX0304": "a shape can be split in more than one way",
    "AX0305": "a size is not what its name promises",
    "AX0306": "a size cannot be found from the arguments",
    "AX0307": "a size that only the data decide is used where it cannot be",
    "AX0308": "this is not a dimension",
    "AX0309": "the sizes are too complicated",
    "AX0310": "a contract that no sizes can fulfil",
    "AX0311": "the uses of an index disagree about its range",
    "AX0312": "dimensions are known only by their product",
    "AX0313": "dimensions are equal only by broadcasting",
    # names and modules
    "AX0401": "unknown name",
    "AX0402": "module not found",
    "AX0403": "cyclic import",
    "AX0404": "defined twice",
    "AX0405": "the module has no such member",
    "AX0406": "reserved or misused name",
    "AX0407": "unknown type name",
    "AX0408": "file cannot be read",
    "AX0409": "no such code",
    "AX0410": "an imported module has errors",
    "AX0411": "too many errors",
    # calls
    "AX0501": "sizes break the contract",
    "AX0502": "an index computed from data is out of bounds",
    "AX0503": "arithmetic failed while running",
    "AX0504": "wrong element type",
    "AX0505": "wrong arguments",
    "AX0506": "wrong rank",
    "AX0507": "no such declaration",
    "AX0508": "an argument cannot be read",
    "AX0509": "a doctest failed",
    "AX0510": "a command of the prompt cannot be carried out",
    "AX0511": "an earlier call failed on a GPU",
    "AX0512": "weights do not fit a function",
    "AX0513": "what a bench compares with cannot be compared",
    # targets
    "AX0601": "no such target",
    "AX0602": "no such stage",
    "AX0603": "there is no GPU kernel for this",
    "AX0604": "the GPU path lacks something on this machine",
    "AX0605": "a schedule file is wrong",
    "AX0611": "a GPU kernel could not be built",
    "AX0612": "the GPU refused a call, or failed",
    "AX0613": "the GPU has no room",
    "AX0614": "a C library cannot be built",
    # models of other systems
    "AX0701": "a model cannot be imported",
    "AX0702": "a model computes what has no translation",
    "AX0703": "the program that was made of a model is not accepted",
    # models with chance
    "AX0801": "a `~` stands where it cannot",
    "AX0802": "two sites of a model have one name",
    "AX0803": "this is not a distribution",
    "AX0804": "a distribution does not fit what is observed",
    "AX0805": "a model is not a value",
    "AX0806": "a latent outside its model",
    "AX0807": "a plate is counted by single indices",
    "AX0808": "a discrete latent cannot be summed out",
    "AX0809": "a discrete latent has no values to sum over",
    # many devices
    "AX0901": "a program cannot be shared among the devices of a mesh",
    "AX0902": "the processes of a mesh would do different things",
    "AX0903": "a process of a mesh has ended, hangs or failed",
}


def page(code: str) -> str | None:
    """The long text of a code in Markdown, or None if there is none. Shipped inside the wheel; beside the package in a checkout."""
    package = Path(__file__).parents[1]
    for folder in (package / "_errors", package.parent / "docs" / "errors"):
        file = folder / f"{code}.md"
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return None
