"""Syntax to documents, with the parentheses that are needed and no others. Printed and parsed again it is the same syntax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from axon.grammar import syntax as s
from axon.grammar.doc import LINE, Doc, Fresh, Group, Headed, Hug, Line, Nest, Placed, join

# How tightly expressions bind, as in axon.lark. An expression is put in parentheses where something tighter is needed.
ANY, PIPE, COMPARE, ADD, MULTIPLY, NEGATE, POWER, APPLY, CALL, POSTFIX = 0, 1, 6, 7, 8, 9, 10, 11, 12, 13
_LEFT = {"|>": 1, "orelse": 3, "andalso": 4, "+": 7, "-": 7, "*": 8, "/": 8, "%": 8, "@": 8}
_AS, _NOT = 2, 5
_DIM = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}
_OPEN = (s.Fn, s.If, s.For, s.Reduce, s.Loop)  # they extend as far right as they can


def brackets(left: str, items: Sequence[Doc], right: str, pad: str = "") -> Doc:
    """Items between brackets: on one line, or each on its own."""
    if not items:
        return (left, right)
    return Group((left, Nest(2, (Line(pad), join((",", LINE), list(items)))), Line(pad), right))


# ── declarations ───────────────────────────────────────────────────────────────────────────────────────────────────────


def program(node: s.Program) -> Doc:
    return tuple((Fresh(), declaration(d)) for d in node.decls)


def declaration(node: s.Decl) -> Doc:
    match node:
        case s.Val():
            return Headed(("val ", pattern(node.pattern), " ="), _body(node.value))
        case s.Fun():
            head: list[Doc] = [LINE, join(LINE, [param(p) for p in node.params])]
            if node.result is not None:
                head.append((" : ", type_(node.result)))
            return Headed(("fun ", node.name.text, Nest(4, (*head, _facts(node.where))), " ="), _body(node.body))
        case s.TypeDecl():
            params = brackets("[", [type_arg(p) for p in node.params], "]") if node.params else ()
            return (Group(("type ", node.name.text, params, " =")), Hug(type_(node.type)))
        case s.Sig():
            return Group(("sig ", node.name.text, " :", Nest(2, (LINE, type_(node.type), _facts(node.where)))))
        case s.Import():
            return ("import ", node.name.text)
        case s.Draw():
            return Headed(("val ", pattern(node.pattern), " ~"), _body(node.site))
        case s.Observe():
            return Headed(("observe ", node.name.text, " ~"), _body(node.site))
        case _:
            assert_never(node)


def _facts(facts: tuple[s.Fact, ...]) -> Doc:
    if not facts:
        return ()
    listed: list[Doc] = [(dim(f.left), " ", f.relation, " ", dim(f.right)) for f in facts]
    return (LINE, Group(("where ", Nest(2, join((",", LINE), listed)))))


def _body(body: s.Expr) -> Doc:
    """What follows `=` or `=>`. A `for` or a record may begin on the same line, and go on below."""
    if isinstance(body, (s.For, s.Reduce, s.Fn, s.Loop, s.Record, s.Tuple, s.Array)):
        return Hug(expr(body))
    return Group(Nest(2, (LINE, expr(body))))


def param(node: s.Param) -> Doc:
    if isinstance(node, s.DimParams):
        return Placed(node, ("{", join(", ", [n.text for n in node.names]), "}"))
    return _atomic_pattern(node)


# ── patterns ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def pattern(node: s.Pattern) -> Doc:
    match node:
        case s.PatternName():
            return node.name
        case s.PatternTuple():
            return brackets("(", [pattern(i) for i in node.items], ")")
        case s.PatternRecord():
            return brackets("{", [(name.text, " = ", pattern(p)) for name, p in node.fields], "}", " ")
        case s.PatternTyped():
            return (_atomic_pattern(node.pattern), " : ", Placed(node.type, type_(node.type)))
        case _:
            assert_never(node)


def _atomic_pattern(node: s.Pattern) -> Doc:
    typed = isinstance(node, s.PatternTyped)
    return Placed(node, ("(", pattern(node), ")") if typed else pattern(node), typed)


# ── types and dimensions ───────────────────────────────────────────────────────────────────────────────────────────────


def type_(node: s.Type) -> Doc:
    arrows: list[Doc] = []
    while True:  # to the right of an arrow there may be many more
        match node:
            case s.TypeFun():
                arrows.append((_atomic_type(node.param), " ->"))
                node = node.result
            case s.TypeDimFun():
                arrows.append(("{", join(", ", [n.text for n in node.names]), "} ", "->"))
                node = node.result
            case s.TypeExists():
                bound: Doc = (" <= ", dim(node.bound)) if node.bound is not None else ()
                arrows.append(("?", node.name.text, bound, "."))
                node = node.body
            case _:
                return Group(join(LINE, [*arrows, _atomic_type(node)])) if arrows else _atomic_type(node)


def _atomic_type(node: s.Type) -> Doc:
    match node:
        case s.TypeName():
            return (join(".", [n.text for n in node.name]), _type_args(node.args))
        case s.TypeVar():
            return (node.name, _type_args(node.args))
        case s.TypeTuple():
            return brackets("(", [type_(i) for i in node.items], ")")
        case s.TypeRecord():
            return brackets("{", [(name.text, " : ", type_(t)) for name, t in node.fields], "}", " ")
        case s.TypeOrScalar(whole):
            return (("(", type_(whole), ")") if isinstance(whole, s.TypeOrScalar) else _atomic_type(whole), "?")
        case s.TypeFun() | s.TypeDimFun() | s.TypeExists():
            return ("(", type_(node), ")")
        case _:
            assert_never(node)


def _type_args(args: tuple[s.TypeArg, ...] | None) -> Doc:
    return () if args is None else brackets("[", [type_arg(a) for a in args], "]")


def type_arg(node: s.TypeArg) -> Doc:
    match node:
        case s.ShapeRun():
            return f"..{node.name}"
        case s.TypeVar():
            return _atomic_type(node)
        case _:
            return dim(node)


def dim(node: s.Dim, level: int = 0) -> Doc:
    doc: Doc
    match node:
        case s.DimName():
            own, doc = 5, node.name
        case s.DimInt():
            own, doc = 5, str(node.value)
        case s.DimNegate():
            own, doc = 3, ("-", dim(node.operand, 3))
        case s.DimBinary():
            own = _DIM[node.op]
            doc = (dim(node.left, own), f" {node.op} ", dim(node.right, own + 1))
        case s.DimCall():
            own, doc = 4, (node.function.text, *((" ", dim(a, 5)) for a in node.args))
        case _:
            assert_never(node)
    return Placed(node, ("(", doc, ")") if own < level else doc, own < level)


# ── binders and subscripts ─────────────────────────────────────────────────────────────────────────────────────────────


def _form(head: Doc, body: s.Expr) -> Doc:
    """An open form. A head too long for a line is indented deeper than the body is."""
    return Headed((Nest(4, head), " =>"), _body(body))


def _groups(groups: tuple[s.BinderGroup, ...]) -> Doc:
    """Broken between the groups, each of which stays on one line as long as it can."""
    return join((",", LINE), [Placed(g, Group(group(g))) for g in groups])


def group(node: s.BinderGroup) -> Doc:
    binders = Nest(2, join(LINE, [Placed(b, _binder(b)) for b in node.binders]))
    match node.bound:
        case None:
            return binders
        case s.ShapeRun(name=name):
            return (binders, " < ", f"..{name}")
        case bound:
            return (binders, " < ", expr(bound, ADD, last=False))


def _binder(node: s.Binder) -> Doc:
    match node:
        case s.IndexBinder():
            return node.name
        case s.RunBinder():
            return f"..{node.name or ''}"
        case s.ProductBinder():
            return ("(", join(", ", [n.text for n in node.names]), ")")
        case _:
            assert_never(node)


def subscript(node: s.Subscript) -> Doc:
    match node:
        case s.IndexAt():
            return expr(node.value)
        case s.IndexSplit():
            return brackets("(", [expr(i) for i in node.items], ")")
        case s.IndexRun():
            return f"..{node.name}"
        case s.IndexRest():
            return ".."
        case s.IndexSlice():
            start = (expr(node.start), " ") if node.start is not None else ()
            stop = (" ", expr(node.stop)) if node.stop is not None else ()
            step = (" : ", expr(node.step)) if node.step is not None else ()
            return (start, ":", stop, step)
        case _:
            assert_never(node)


# ── expressions ────────────────────────────────────────────────────────────────────────────────────────────────────────


def expr(node: s.Expr, level: int = ANY, last: bool = True) -> Doc:
    """A document for an expression where one that binds at least as tightly as `level` may stand.

    `last` says that nothing of the same expression follows, so that an open form needs no parentheses.
    """
    if isinstance(node, _OPEN):
        parenthesize = not last or level > POWER
        return Placed(node, ("(", _open(node), ")") if parenthesize else _open(node), parenthesize)
    own = _level(node)
    if own < level:
        return Placed(node, Group(("(", Nest(1, _closed(node, own, True)), ")")), True)
    return Placed(node, _closed(node, own, last))


def _level(node: s.Expr) -> int:
    match node:
        case s.Binary(op="**"):
            return POWER
        case s.Binary():
            return _LEFT.get(node.op, COMPARE)
        case s.Unary():
            return _NOT if node.op == "not" else NEGATE
        case s.Coerce():
            return _AS
        case s.Cast(value=None):
            return APPLY
        case s.Apply() | s.ApplyDims() | s.Cast():
            return CALL
        case _:
            return POSTFIX


def _closed(node: s.Expr, own: int, last: bool) -> Doc:
    match node:
        case s.Var():
            return node.name
        case s.Int():
            return str(node.value)
        case s.Float():
            return repr(node.value)
        case s.Operator():
            return ("(", _operator(node), ")")
        case s.Binary(op="**"):
            return (expr(node.left, APPLY, last=False), " ** ", expr(node.right, NEGATE, last))
        case s.Binary():
            return _chain(node, own, last)
        case s.Unary(op="not"):
            return ("not ", expr(node.operand, own, last))
        case s.Unary():
            return ("-", expr(node.operand, own, last))
        case s.Coerce():
            return (expr(node.value, own, last=False), " as ", Placed(node.type, type_(node.type)))
        case s.Cast():
            argument: Doc = (" ", expr(node.value, POSTFIX)) if node.value is not None else ()
            return ("cast ", node.element.text, argument)
        case s.Apply() | s.ApplyDims():
            return _application(node)
        case s.Tuple():
            return brackets("(", [_operator(i) if isinstance(i, s.Operator) else expr(i) for i in node.items], ")")
        case s.Record():
            return brackets("{", [(name.text, " = ", expr(e)) for name, e in node.fields], "}", " ")
        case s.Field():
            return (_base(node.record), ".", node.name.text)
        case s.Project():
            return (_base(node.value), f".{node.position}")
        case s.Access():
            subscripts: list[Doc] = [Placed(i, subscript(i)) for i in node.subscripts]
            if node.default is not None:
                subscripts[-1] = (subscripts[-1], " | ", expr(node.default))
            return (_base(node.base), brackets("[", subscripts, "]"))
        case s.Ascribe():
            return Group(("(", Nest(1, (expr(node.value), " :", LINE, type_(node.type))), ")"))
        case s.Array():
            return brackets("[|", [expr(i) for i in node.items], "|]", " ")
        case s.Let():
            return _let(node)
        case s.Like():
            return Group(("(", Nest(1, (expr(node.value), LINE, "like ", expr(node.drawn))), ")"))
        case s.Fn() | s.If() | s.For() | s.Reduce() | s.Loop():
            return _open(node)
        case _:
            assert_never(node)


def _operator(node: s.Operator) -> Doc:
    return ("op ", node.op)


def _base(node: s.Expr) -> Doc:
    """What `.w`, `.1` and `[…]` may follow: `1.2` would be a number, so numbers get parentheses."""
    return ("(", expr(node), ")") if isinstance(node, (s.Int, s.Float)) else expr(node, POSTFIX)


def _chain(node: s.Binary, own: int, last: bool) -> Doc:
    """Operators of one level, `a + b - c`, broken before each or not at all. Comparisons do not chain."""
    operations: list[Doc] = []
    left: s.Expr = node
    level = own + (own == COMPARE)
    while isinstance(left, s.Binary) and _level(left) == own and (own != COMPARE or left is node):
        operations.append((LINE, f"{left.op} ", expr(left.right, own + 1, last and left is node)))
        left = left.left
    indent = 0 if own == PIPE else 2
    *before, final = reversed(operations)
    first: Doc = expr(left, level, last=False)
    if before:
        first = Placed(node.left, (first, Nest(indent, tuple(before))))
    return Group((first, Nest(indent, final)))


def _application(node: s.Apply | s.ApplyDims) -> Doc:
    arguments: list[Doc] = []
    function: s.Expr = node
    while isinstance(function, (s.Apply, s.ApplyDims)):
        if isinstance(function, s.Apply):
            arguments.append((LINE, expr(function.argument, POSTFIX)))
        else:
            arguments.append((LINE, brackets("{", [dim(d) for d in function.dims], "}")))
        function = function.function
    return Group((expr(function, CALL, last=False), Nest(2, tuple(reversed(arguments)))))


def _let(node: s.Let) -> Doc:
    declarations = join(Fresh() if len(node.decls) > 1 else LINE, [declaration(d) for d in node.decls])
    body = Group(("in", Nest(2, (LINE, expr(node.body))), LINE, "end"))
    return Group(("let ", Nest(4, declarations), LINE, body))


def _open(node: s.Fn | s.If | s.For | s.Reduce | s.Loop) -> Doc:
    match node:
        case s.Fn():
            return _form(("fn ", join(LINE, [_atomic_pattern(p) for p in node.params])), node.body)
        case s.For():
            return _form(("for ", _groups(node.groups)), node.body)
        case s.Reduce():
            return _reduction(node)
        case s.Loop():
            states = brackets("(", [(pattern(p), " = ", expr(e)) for p, e in node.states], ")")
            test: list[Doc] = [] if node.condition is None else [LINE, "while ", expr(node.condition, PIPE, last=False)]
            return _form((f"{node.kind} ", states, *test, LINE, "for ", _groups(node.groups)), node.body)
        case s.If():
            return _choice(node)
        case _:
            assert_never(node)


def _reduction(node: s.Reduce) -> Doc:
    head: list[Doc] = [node.kind.text, " "]
    if node.monoid is not None:
        head += [expr(node.monoid, POSTFIX), " "]
    if len(node.groups) > 1 or node.groups[0].bound is not None or node.where is not None:
        head.append("for ")
    head.append(_groups(node.groups))
    if node.where is not None:
        head += [LINE, "where ", expr(node.where, PIPE, last=False)]
    return _form(tuple(head), node.body)


def _choice(node: s.If) -> Doc:
    parts: list[Doc] = []
    rest: s.Expr = node
    while isinstance(rest, s.If):
        parts += ["if ", Nest(3, expr(rest.condition)), " then", Nest(2, (LINE, expr(rest.then))), LINE, "else"]
        rest = rest.otherwise
        if isinstance(rest, s.If):
            parts.append(" ")
    return Group((*parts, Nest(2, (LINE, expr(rest)))))
