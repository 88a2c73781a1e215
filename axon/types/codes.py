"""The titles of the codes of types and sizes; the long texts are docs/errors/CODE.md."""

TYPE_CODES = {
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
}

SHAPE_CODES = {
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
}
