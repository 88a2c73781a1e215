"""Source texts that try to break the checker, each with the codes of the errors it ends in; none for those that are right."""

from __future__ import annotations

MANY = 100_000


def _each(pattern: str, count: int, between: str = "") -> str:
    """The pattern with {0} and {1} as 0 and 1, 1 and 2, and so on."""
    return between.join(pattern.format(n, n + 1) for n in range(count))


def _lets(first: str, step: str, count: int, result: str) -> str:
    """A chain of vals v0, v1, … in one `let`."""
    vals = [f"val v0 = {first}", *(f"val v{n} = {step.format(f'v{n - 1}')}" for n in range(1, count))]
    return f"fun f x = let {' '.join(vals)} in {result.format(f'v{count - 1}')} end\n"


def _doubling_functions(count: int, step: str) -> str:
    """f1, f2, … where each uses the one before twice: types that double, by let-polymorphism."""
    return "fun f0 x = (x, x)\n" + "".join(f"fun f{n} x = {step.format(f'f{n - 1}')}\n" for n in range(1, count))


ODD_NAMES = (
    "lambda None True class self def E I S N O Q pi oo zoo Symbol Integer Add sympy eval exec import_ print __class__ __init__ "
    "__dict__ numpy np Dim Poly beta gamma zeta re im"
)
_USE = "fun NAME (x : f32[NAME, k]) = { NAME = NAME, y = x }\nval r_NAME = (NAME [| [| 1.0 |] |]).NAME\n"
_names = [n for n in ODD_NAMES.split() if n != "pi"]

# name: (source, codes of the errors)
ATTACKS: dict[str, tuple[str | bytes, tuple[str, ...]]] = {
    # What a file may hold.
    "empty": ("", ()),
    "blank": (" \n\t\n", ()),
    "comments alone": ("(* nothing (* to *) see *)\n", ()),
    "a NUL": ("val a = \0 1\n", ("AX0106",)),
    "many NULs": ("\0" * MANY, ("AX0106",)),
    "a byte order mark": ("\ufeffval a = 1\n", ()),
    "carriage returns": ("val a = 1\r\nval b = a\r\n", ()),
    "tabs": ("val\ta\t=\t1\n", ()),
    "a lone surrogate": (b"val a = 1 (* \xed\xa0\x80 *)\n", ("AX0106",)),
    "not UTF-8": (b"val a = \xff\xfe\n", ("AX0408",)),
    "letters beyond ASCII": ("val α = 1\n", ("AX0105",)),
    "a bidirectional control": ("val a = 1 (* \u202e *)\n", ("AX0107",)),
    "a long line": ("val a = 1 " + " " * 900_000 + "\n", ()),
    "a large file": (" " * 11_000_000, ("AX0408",)),
    "a long name": ("val " + "a" * MANY + " = 1\n", ()),
    # Depth.
    "parentheses": ("val x = " + "(" * MANY + "1" + ")" * MANY + "\n", ("AX0108",)),
    "minuses": ("val x = " + "-" * MANY + "1\n", ("AX0108",)),
    "minuses with spaces": ("val x = " + "- " * MANY + "1\n", ("AX0108",)),
    "a long sum": ("fun f a = " + " + ".join(["a"] * MANY) + "\n", ("AX0108",)),
    "nested ifs": ("fun f x = " + "if x > 0 then x else " * 5000 + "x\n", ("AX0108",)),
    "nested lets": ("fun f x = " + "let val x = x in " * 5000 + "x" + " end" * 5000 + "\n", ("AX0108",)),
    "as deep as may be": ("fun f x = " + "(" * 300 + "x + 1" + ")" * 300 + "\n", ()),
    "a deep type": ("fun f (x : " + "(" * 5000 + "f32" + ")" * 5000 + ") = x\n", ("AX0108",)),
    "a deep dimension": ("fun f (x : f32[" + "(" * 5000 + "n" + ")" * 5000 + "]) = x\n", ("AX0108",)),
    "open comments": ("(*" * MANY, ("AX0103",)),
    "comments in comments": ("(*" * MANY + "*)" * MANY + "\n", ()),
    # Numbers.
    "5,000 digits": ("val x = " + "9" * 5000 + "\n", ("AX0111",)),
    "5,000 decimals": ("val x = 1." + "9" * 5000 + "\n", ()),
    "a huge exponent": ("val x = 1e99999999\n", ("AX0111",)),
    "a huge dimension": ("fun f (x : f32[" + "1" + "0" * 30 + "]) = x\n", ("AX0111",)),
    "a literal that its type lacks": ("val x = (300 : i8)\n", ("AX0202",)),
    "division by zero in a dimension": ("fun f (x : f32[n / 0]) = x\n", ("AX0305",)),
    "remainder by zero in a dimension": ("fun f (x : f32[n]) where n % 0 = 0 = x\n", ("AX0305",)),
    "division by a size that is zero": ("fun f (x : f32[n / (m - m)]) (y : f32[n, m]) = x\n", ("AX0305",)),
    # Growth of types.
    "pairs of pairs": (_doubling_functions(8, "{0} ({0} x)"), ("AX0213",)),
    "pairs of pairs, six": (_doubling_functions(4, "{0} ({0} x)"), ()),
    "functions of functions": ("fun d f x = f (f x)\nval a = " + "d (" * 7 + "fn x => x + 1" + ")" * 7 + "\n", ()),
    "64 doublings": (_lets("(x, x)", "({0}, {0})", 64, "{}"), ("AX0213",)),
    "64 doublings, one part": (_lets("(x, x)", "({0}, {0})", 64, "{}.1.2.1"), ("AX0213",)),
    "64 doublings of functions": (_doubling_functions(64, "({0} x, {0} x)"), ("AX0213",)),
    "64 aliases": ("type a0 = f32\n" + _each("type a{1} = (a{0}, a{0})\n", 64) + "fun f (x : a64) = x\n", ("AX0213",)),
    "an alias of itself": ("type t = (t, t)\nfun f (x : t) = x\n", ("AX0206",)),
    "a function of itself": ("fun f x = x x\n", ("AX0206",)),
    # Many of a kind.
    "2,000 vals in a chain": (_lets("x", "{} + 1.0", 2000, "{}"), ()),
    "2,000 vals, each used": ("fun f x = let val v0 = x " + _each("val v{1} = v{0} * v{0}", 1999, " ") + " in v1999 end\n", ()),
    "2,000 fields": ("fun f r = r\nval x = f { " + _each("a{0} = {0}", 2000, ", ") + " }\nval y = x.a1999\n", ()),
    "2,000 declarations": ("val a0 = 1\n" + _each("val a{1} = a{0} + 1\n", 1999), ()),
    "3,000 parameters": ("fun f " + _each("(x{0} : f32[n{0}])", 3000, " ") + " = x0\n", ()),
    "3,000 dimensions of one tensor": ("fun f (x : f32[" + _each("n{0}", 3000, ", ") + "]) = x\n", ()),
    "200 unequal sizes": (
        "fun f " + _each("(x{0} : f32[n{0}])", 300, " ") + " = " + _each("x{0}", 200, " + ") + "\n",
        ("AX0301",),
    ),
    "10,000 elements": ("val x = [| " + ", ".join(["1.5"] * 10_000) + " |]\nval y = sum i => x[i]\n", ()),
    "10,000 parts": ("val x = (" + ", ".join(["1"] * 10_000) + ")\nval y = x.9999\n", ()),
    "10,000 unknown names": (_each("fun f{0} x = y{0}\n", 10_000), ("AX0401",)),
    "10,000 syntax errors": (_each("fun f{0} x = )\n", 10_000), ("AX0101",)),
    "1,000 size errors": (_each("fun f{0} (x : f32[n]) (y : f32[m]) = x + y\n", 1000), ("AX0301",)),
    # Ranks.
    "21 nested comprehensions": ("fun f x = " + _each("for i{0} => ", 21) + "x[" + _each("i{0}", 21, ", ") + "]\n", ()),
    "21 nested comprehensions of a number": ("val x = " + _each("for i{0} < 2 => ", 21) + "1\n", ()),
    "rank 64": ("val x = for " + _each("i{0} < 1", 64, ", ") + " => 1\n", ()),
    "rank 65": ("val x = for " + _each("i{0} < 1", 65, ", ") + " => 1\n", ()),
    # Arithmetic of dimensions.
    "a power as a dimension": ("fun f (x : f32[n ** n]) = x\n", ("AX0101",)),
    "a product of sums": ("fun f (x : f32[" + " * ".join(["(a + b + c + d)"] * 60) + "]) = x\n", ("AX0309",)),
    "a product of sums in values": ("fun f (x : f32[a, b, c, d]) = " + " * ".join(["(a + b + c + d)"] * 60) + "\n", ()),
    "squares of squares": (_lets("x", "for (i, j) => {0}[i] * {0}[j]", 40, "{}"), ("AX0309",)),
    "nested minima": ("fun f (x : f32[" + "min n (1 + " * 60 + "n" + ")" * 60 + "]) = x\n", ()),
    "nested quotients": ("fun f (x : f32[n]) (y : f32[" + "(" * 90 + "n" + " / 2 + 1)" * 90 + "]) = x\n", ("AX0309",)),
    "slices of slices": (_lets("x", "{}[1 :]", 200, "{}"), ()),
    "halves of halves": (_lets("x", "for i => {}[2 * i]", 25, "{}"), ()),
    "many equations": ("fun f " + _each("(x{0} : f32[a{0}, a{1}])", 60, " ") + " = " + _each("x{0}", 60, " @ ") + "\n", ()),
    "products to solve": ("fun f " + _each("(x{0} : f32[a{0} * a{1}])", 30, " ") + " = x0\n", ("AX0306",)),
    # Names.
    "odd names": ("".join(_USE.replace("NAME", n) for n in _names), ()),
    "odd parameters": ("fun f " + " ".join(f"({n} : f32[{n}_])" for n in _names) + " = lambda\n", ()),
    "code as a name": ('val x = __import__("os").system("true")\n', ("AX0113",)),
}  # fmt: skip

# Those that hold many mistakes; every other one is one mistake, and one error.
SEVERAL = (
    "200 unequal sizes",
    "10,000 unknown names",
    "10,000 syntax errors",
    "1,000 size errors",
    "nested lets",
    "code as a name",
)
