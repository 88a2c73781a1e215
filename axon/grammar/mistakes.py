"""Tables of what people write who come from other languages, and what Axon has instead."""

from __future__ import annotations

# Operators of other languages: what the parser reads instead ("" for nothing), and why.
OPERATORS: dict[str, tuple[str, str]] = {
    "==": ("=", "equality is a single `=`"),
    "!=": ("<>", "inequality is `<>`"),
    "/=": ("<>", "inequality is `<>`, and nothing is assigned to"),
    "=<": ("<=", "less than or equal is `<=`"),
    "&&": ("andalso", "the logical operators are words"),
    "||": ("orelse", "the logical operators are words"),
    "&": ("andalso", "the logical operators are words"),
    "!": ("not", "negation is the word `not`"),
    "~": ("-", "negation is `-`"),
    "^": ("**", "a power is `**`"),
    ":=": ("=", "a value is bound once, with `=`"),
    "+=": ("+", "nothing is assigned to; a sum over an index is `sum i => …`"),
    "-=": ("-", "nothing is assigned to"),
    "*=": ("*", "nothing is assigned to"),
    "\\": ("fn", "a function is `fn x => …`"),
    "...": ("..", "the dimensions that are left are `..`"),
    ";": ("", "declarations follow each other without one"),
}

# Symbols that look or mean alike: what the parser reads instead.
LOOKALIKES: dict[str, str] = {
    "−": "-", "–": "-", "—": "-", "×": "*", "·": "*", "÷": "/", "≤": "<=", "≥": ">=", "≠": "<>", "→": "->", "⇒": "=>",
    "…": "..", "∧": "andalso", "∨": "orelse", "¬": "not", "∑": "sum", "∏": "prod", "∞": "inf",
}  # fmt: skip

# Words that begin declarations elsewhere, and what begins them here.
DECLARING = {
    "def": "fun", "func": "fun", "function": "fun", "fn": "fun", "define": "fun", "proc": "fun", "rec": "fun",
    "let": "val", "const": "val", "var": "val", "auto": "val", "class": "type", "struct": "type", "data": "type",
    "typedef": "type", "datatype": "type", "record": "type", "from": "import", "open": "import", "use": "import",
    "include": "import", "using": "import", "module": "import", "entry": "fun",
}  # fmt: skip

# The logical operators of other languages that are names here.
LOGICAL = {"and": "andalso", "or": "orelse"}

# Words that mean something in expressions elsewhere. They are ordinary names here, so they are worth a word only when
# something else has already failed beside them.
IN_EXPRESSIONS = {
    "lambda": "a function is `fn x => …`",
    "return": "a function's body is its value, so there is no `return`",
    "elif": "another case is `else if`",
    "elsif": "another case is `else if`",
    "while": "there is no `while`: a `loop (s = init) for i < n => …` carries state",
    "case": "there is no `case`: tuples and records are taken apart by patterns",
    "match": "there is no `match`: tuples and records are taken apart by patterns",
    "and": "the logical operators are `andalso` and `orelse`",
    "or": "the logical operators are `andalso` and `orelse`",
    "mod": "the remainder is `%`",
    "div": "on integers `/` is floor division",
    "forall": "names in a type are quantified without being declared",
    "do": "a body follows `=>`",
    "begin": "an expression with declarations is `let … in … end`",
}

# Functions of other languages and of NumPy that are written differently here.
VALUES = {
    "mean": "a mean is `(sum i => x[i]) / cast f32 n`, for `(x : f32[n])`",
    "len": "a size is a name in the annotation: `n` of `(x : f32[n])`",
    "shape": "a size is a name in the annotation: `n` of `(x : f32[n])`",
    "range": "the integers below n are `for i < n => i`",
    "arange": "the integers below n are `for i < n => i`",
    "zeros": "write `for i < n => 0.0`",
    "ones": "write `for i < n => 1.0`",
    "int": "to convert, write `cast i32 x`",
    "float": "to convert, write `cast f32 x`",
}
