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
    "~": ("-", "negation is `-`"),  # but after a name or pattern, where a site follows
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

# Attributes and methods of NumPy's arrays; `{}` is the name of the array.
ATTRIBUTES = {
    "shape": "a size is a name in the annotation: `n` of `({} : f32[n])`",
    "size": "a size is a name in the annotation: `n` of `({} : f32[n])`",
    "ndim": "a rank is known from the annotation: `{} : f32[n, m]` has 2",
    "dtype": "an element type is known from the annotation: `{} : f32[n]`",
    "T": "a transposition is `for i j => {}[j, i]`, or `linalg.transpose {}`",
    "mT": "a transposition is `for ..b i j => {}[..b, j, i]`, or `linalg.transpose {}`",
    "t": "a transposition is `for i j => {}[j, i]`, or `linalg.transpose {}`",
    "transpose": "a transposition is `for i j => {}[j, i]`, or `linalg.transpose {}`",
    "permute": "dimensions are put in another order by their indices: `for j i => {}[i, j]`",
    "reshape": "a dimension is split by `{}[(i, j)]`, and several are made one by `for (i, j) => {}[i, j]`",
    "view": "a dimension is split by `{}[(i, j)]`, and several are made one by `for (i, j) => {}[i, j]`",
    "flatten": "several dimensions are made one by `for (i, j) => {}[i, j]`",
    "ravel": "several dimensions are made one by `for (i, j) => {}[i, j]`",
    "squeeze": "a dimension of size 1 is left out by its index: `for i => {}[i, 0]`",
    "unsqueeze": "a dimension of size 1 is put in by an index with a bound: `for i, j < 1 => {}[i]`",
    "sum": "a reduction is written over indices: `sum i => {}[i]`",
    "mean": "a mean is `(sum i => {}[i]) / cast f32 n`, for `({} : f32[n])`",
    "max": "a reduction is written over indices: `max i => {}[i]`",
    "min": "a reduction is written over indices: `min i => {}[i]`",
    "argmax": "a reduction is written over indices: `argmax i => {}[i]`",
    "dot": "a sum of products is `sum i => {}[i] * y[i]`; a matrix product is `{} @ y`",
    "astype": "to convert, write `cast f32 {}`",
    "float": "to convert, write `cast f32 {}`",
    "int": "to convert, write `cast i32 {}`",
    "to": "to convert, write `cast f32 {}`; where it runs is chosen at the call",
    "length": "a size is a name in the annotation: `n` of `({} : f32[n])`",
}

# Libraries of Python that people name out of habit.
LIBRARIES = ("np", "numpy", "jnp", "jax", "torch", "tf", "tensorflow", "F", "math", "cupy", "cp", "scipy", "xp")
PYTHON_LIBRARY = "`exp`, `sqrt` and their like are part of the language, and its library is `nn` and `linalg`"

# Functions of other languages and of NumPy that are written differently here; `{}` is the name of the array.
VALUES = {
    "mean": "a mean is `(sum i => {}[i]) / cast f32 n`, for `({} : f32[n])`",
    "len": "a size is a name in the annotation: `n` of `({} : f32[n])`",
    "shape": "a size is a name in the annotation: `n` of `({} : f32[n])`",
    "range": "the integers below n are `for i < n => i`",
    "arange": "the integers below n are `for i < n => i`",
    "zeros": "write `for i < n => 0.0`",
    "ones": "write `for i < n => 1.0`",
    "int": "to convert, write `cast i32 x`",
    "float": "to convert, write `cast f32 x`",
    "log10": "a logarithm to another base is a quotient: write `log x / log 10.0`",
    "log2": "a logarithm to another base is a quotient: write `log x / log 2.0`",
}
