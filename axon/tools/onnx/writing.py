"""Functions and records as the text of a program."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from axon.base.data import dataclass
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.tools.onnx.expressions import PIPE, Surroundings, Text, atom, braced, expression, needs_rank
from axon.tools.onnx.families import Families, Family
from axon.tools.onnx.graph import Graph, Path, Port
from axon.tools.onnx.modules import Entry, Module
from axon.tools.onnx.names import free, identifier
from axon.tools.onnx.steps import Shape, Step
from axon.tools.onnx.translate import Weight

_INFIX = ("binary", "with_number", "scale", "slice", "product", "matmul", "product_transposed")
LONG = 72  # characters of an expression from which its operand gets a name
_IMPORTS = ("nn", "tensor", "linalg", "stats", "image")


def program(
    graph: Graph, inputs: Sequence[tuple[Port, int]], families: Families, weights: Mapping[Path, Weight], *, contracts: bool = False
) -> str:
    """The text of a graph, to be formatted; with `contracts` functions state what they ask of their parameters' sizes."""
    return _Program(graph, [port.name for port, _ in inputs], families, weights, contracts).text()


@dataclass(frozen=True, slots=True)
class _Signature:
    """What a function is given, in the order of its parameters: numbers of the module's operands, and their names."""

    order: tuple[int, ...]
    names: Mapping[int, str]


class _Program:
    def __init__(
        self, graph: Graph, inputs: Sequence[str], families: Families, weights: Mapping[Path, Weight], contracts: bool
    ) -> None:
        self.graph, self.inputs, self.families, self.weights, self.contracts = graph, inputs, families, weights, contracts
        self.helpers: dict[str, str] = {}  # a text by its pattern
        self.named: dict[str, str] = {}
        self.signatures: dict[Family, _Signature] = {}
        self.taken = {family.name for family in families} | {*_IMPORTS}
        steps = (step for family in families for module in family.modules for step in module.steps)
        resized = any(step.op == "resize" and not step.data[0] for step in steps)
        self.taken -= set() if resized else {"image"}  # which is a good name for what goes into a model
        self.sizes = {s.name for shape, _ in families.main.parameters for d in shape for s in d.variables}

    def text(self) -> str:
        for family in self.families:
            self.signatures[family] = self._signature(family)
        types = [self._type(family) for family in self.families if family.modules[0].entries]
        functions = [self._function(family) for family in self.families]
        body = "\n\n".join([*types, *self.helpers.values(), *functions])
        imports = "\n".join(f"import {name}" for name in _IMPORTS if f"{name}." in body)
        return f"{self._comment()}\n{imports}\n\n{body}\n"

    def _comment(self) -> str:
        weights = sum(_count(w.shape) for w in self.weights.values())
        name = self.graph.name
        return f"(* {name}, imported from ONNX: {weights:,} weights, in {name}.safetensors beside this file. *)"

    def helper(self, wanted: str, text: str) -> str:
        """A function that the program brings along, once."""
        if text not in self.named:
            inputs = self.signatures[self.families.of(self.families.main)].names.values()
            name = wanted if wanted not in {*self.taken, *inputs} else free(f"{wanted}_layer", self.taken)
            self.taken.add(name)
            self.named[text] = name
            self.helpers[name] = text.replace("NAME", name, 1)
        return self.named[text]

    # ── types ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _type(self, family: Family) -> str:
        stacked = self.families.is_stacked(family)
        parameters = [*(["..l"] if stacked else []), *(name for name, _ in family.sizes)]
        tree: dict[str, object] = {}
        for entry in family.modules[0].entries:
            node = tree
            *parent, last = family.fields[entry.path]
            for part in parent:
                inner = node.setdefault(part, {})
                assert isinstance(inner, dict)
                node = inner
            node[last] = self._field(family, entry, "..l" if stacked else "")
        head = f"type {family.name}" + (f"[{', '.join(parameters)}]" if parameters else "")
        return f"{head} = {_record(tree)}"

    def _field(self, family: Family, entry: Entry, run: str) -> str:
        names = {values: name for name, values in family.sizes}
        position = family.modules[0].entries.index(entry)
        same = [m.entries[position] for m in family.modules]

        def written(values: Sequence[int]) -> str:
            return names.get(tuple(values), str(values[0]))

        lead = [run] if run else []
        if entry.modules:
            inner = self.families.of(entry.modules[0])
            if entry.kind == "stack":
                lead.append(written([len(e.modules) for e in same]))
            for _, values in inner.sizes:
                lead.append(written([values[inner.place(e.modules[0])] for e in same]))
            return inner.name + (f"[{', '.join(lead)}]" if lead else "")
        dims = [written([e.dims[i] for e in same]) for i in range(len(entry.dims))]
        element = self._element(family.modules[0], entry)
        return _layer_type(entry.kind, lead, dims, element)

    def _element(self, module: Module, entry: Entry) -> str:
        whole = (*module.path, *entry.path)
        return next(w.element for p, w in self.weights.items() if p[: len(whole)] == whole)

    # ── functions ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _signature(self, family: Family) -> _Signature:
        module = family.modules[0]
        if module is self.families.main:
            names: dict[int, str] = {}
            for n, name in enumerate(self.inputs):
                names[n] = free(identifier(name), {"p", *self.taken, *self.sizes, *names.values()})
            return _Signature(tuple(names), names)
        given: dict[int, str] = {}
        roles = {n: self._role(module, n) for n in range(len(module.parameters))}
        plain = [n for n, role in roles.items() if not role]
        plain.sort(key=lambda n: -len(module.parameters[n][0]))  # what goes through the layers has the most dimensions
        for n, role in roles.items():
            if role:
                given[n] = free(role, {*given.values(), "p", "x", *self.sizes})
        for n, wanted in zip(plain, ("x", "y", "z", "u", "v", "w"), strict=False):
            given[n] = free(wanted, {*given.values(), "p", *self.sizes})
        return _Signature((*(n for n in roles if n not in plain), *reversed(plain)), given)

    def _role(self, module: Module, number: int) -> str:
        """What a parameter is for, where some step says so."""
        first = len(module.parameters)
        for n, step in enumerate(module.steps):
            for place, operand in enumerate(step.operands):
                if operand != number:
                    continue
                match step.op, place:
                    case "attention", 3:
                        return "mask"
                    case "masked", 1:
                        return "mask"
                    case "rope", 1:
                        return "angles"
                    case "embedding", 0:
                        return "table"
                    case "embedding", 1:
                        return "ids"
                    case "module" | "loop", _:
                        inner = self.signatures[self.families.of(module.inside[n][0])].names[place]
                        if inner not in ("x", "y", "z", "u", "v", "w"):
                            return inner
        assert number < first
        return ""

    def _function(self, family: Family) -> str:
        return _Function(self, family).text()


class _Function:
    """One function being written."""

    def __init__(self, program: _Program, family: Family) -> None:
        self.program, self.family = program, family
        self.module = family.modules[0]
        self.first = len(self.module.parameters)
        self.signature = program.signatures[family]
        self.uses = Counter(o for s in self.module.steps for o in s.operands) + Counter(self.module.results)
        self.texts: dict[int, Text] = {n: atom(name) for n, name in self.signature.names.items()}
        self.holders: dict[str, int] = {name: n for n, name in self.signature.names.items()}
        self.last_use = {o: n for n, s in enumerate(self.module.steps) for o in s.operands}
        self.last_use.update(dict.fromkeys(self.module.results, len(self.module.steps)))
        self.vals: list[tuple[str, Text]] = []
        self.annotated = False
        self.braces = {tuple(map(Dim.of, values)): name for name, values in family.sizes}
        self.braces |= {values: name for name, values in family.braces}

    def text(self) -> str:
        for n, step in enumerate(self.module.steps):
            self._step(n, step)
        results = [str(self.texts[r]) for r in self.module.results]
        body = results[0] if len(results) == 1 else f"({', '.join(results)})"
        if self.vals:
            lines = "\n".join(f"val {name} = {text}" for name, text in self.vals)
            body = f"let {lines} in {body} end"
        sizes = {s.name for step in self.module.steps for d in step.shape for s in d.variables}
        self.annotated |= bool(sizes & {*re.findall(r"\w+", body)})
        contract = ", ".join(dict.fromkeys(self._contract())) if self.program.contracts else ""
        where = f" where {contract}" if contract else ""
        return f"fun {self.family.name} {' '.join(self._parameters())}{where} = {body}"

    def _contract(self) -> Iterator[str]:
        """What the groups of convolutions ask, where they or the channels of a group differ between the modules: it follows from
        their numbers, and from no types."""
        for n, step in enumerate(self.module.steps):
            if step.op != "conv" or len(step.sizes) < 4:
                continue
            entry = next(i for i, e in enumerate(self.module.entries) if (*self.module.path, *e.path) == step.layer)
            each = tuple(Dim.of(m.entries[entry].dims[1]) for m in self.family.modules)
            groups = tuple(m.steps[n].sizes[3] for m in self.family.modules)
            channels = tuple(a * b for a, b in zip(each, groups, strict=True))
            if len({*each}) == len({*groups}) == 1:
                continue
            c, g, all_ = (self.braces.get(v) or render(v[0]) for v in (each, groups, channels))
            if len({*channels}) == 1 or channels in self.braces:
                biased = step.data[-1]
                yield f"{g} * {c} = {all_}" if biased else f"{c} = {all_} / {g}"

    def _parameters(self) -> Iterator[str]:
        main = self.module is self.program.families.main
        names = [name for name, _ in self.family.braces]
        if names:
            yield f"{{{', '.join(names)}}}"
        if self.module.entries:
            sizes = [name for name, _ in self.family.sizes]
            yield f"(p : {self.family.name}" + (f"[{', '.join(sizes)}])" if sizes else ")")
        for n in self.signature.order:
            shape, element = self.module.parameters[n]
            name = self.signature.names[n]
            if main or self.annotated:
                yield f"({name} : {element}[{', '.join(self._dims(n, shape))}])"
            else:
                yield name

    def _dims(self, number: int, shape: Shape) -> list[str]:
        """The dimensions of a parameter; one that differs between the calls gets a letter."""
        out = []
        for i, extent in enumerate(shape):
            values = tuple(m.parameters[number][0][i] for m in self.family.modules)
            own = render(extent) if all(v == extent for v in values) else self.braces.get(values)
            out.append(own or f"s{number}{i}")
        return out

    def _step(self, n: int, step: Step) -> None:
        number = self.first + n
        operands = [self._operand(o, step, i) for i, o in enumerate(step.operands)]
        if needs_rank(step, [self._shape(o) for o in step.operands]):
            self.annotated = True
        around = Surroundings(
            self._record,
            lambda wanted, text: self.program.helper(wanted, _of_element(text, step.element)),
            self._braces_of(n, step),
            lambda s, o: self._call(n, s, o),
            [self._shape(o) for o in step.operands],
            self.program.sizes,
        )
        text = expression(step, operands, around)
        if step.op == "rearrange" and text.base.startswith("for ") and not (operands[0].atomic and not operands[0].through):
            self._name(step.operands[0], self.module.steps[step.operands[0] - self.first])
            text = expression(step, [self.texts[step.operands[0]]], around)
        self.texts[number] = text
        if self._deserves_name(number, step, text):
            self._name(number, step)

    def _operand(self, number: int, step: Step, place: int) -> Text:
        """An operand, which gets a name where the text would be too much otherwise."""
        text = self.texts[number]
        if number >= self.first and not (text.atomic and not text.through):
            wanted = _called(step, place)
            indexed = step.op in ("places", "reduce", "scores") or (step.op in _INFIX and len(text.through) >= PIPE)
            indexed |= text.base.startswith(("for ", "loop ")) and step.op != "places"
            indexed |= step.op == "loop" and place != step.data[0]  # what does not change is made before
            if indexed or step.op == "attention":
                self._name(number, self.module.steps[number - self.first], wanted)
                return self.texts[number]
        return text

    def _shape(self, number: int) -> Shape:
        return self.module.parameters[number][0] if number < self.first else self.module.steps[number - self.first].shape

    def _deserves_name(self, number: int, step: Step, text: Text) -> bool:
        if number in self.module.results and self.uses[number] == 1:
            return False
        if step.op == "weight" or (step.op == "part"):
            return False
        if self.uses[number] > 1:
            return True
        return len(str(text)) > LONG and len(text.through) < PIPE and step.op != "rearrange"

    def _name(self, number: int, step: Step, wanted: str = "") -> None:
        text = self.texts[number]
        if text.atomic and not text.through and text.base in self.holders:
            return
        wanted = wanted or self._wanted(number, step)
        name = wanted
        if not self._may_take(name, number):
            others = ("y", "z") if wanted == "x" else ()
            hidden = {*self.holders, "p", *self.program.taken, *self.program.sizes}
            name = next((o for o in others if self._may_take(o, number)), free(wanted, hidden))
        self.vals.append((name, text))
        self.holders[name] = number
        self.texts[number] = atom(name)

    def _may_take(self, name: str, number: int) -> bool:
        """Whether nothing that comes later asks for what has the name now."""
        if name == "p" or name in self.program.taken or name in self.program.sizes:
            return False
        at = self._position(number)
        later = (n for n, last in self.last_use.items() if last > at and n != number and n in self.texts)
        return not any(re.search(rf"\b{name}\b", str(self.texts[n])) for n in later)

    def _position(self, number: int) -> int:
        return number - self.first

    def _wanted(self, number: int, step: Step) -> str:
        main = self.signature.order[-1] if self.signature.order else -1
        for user in (s for s in self.module.steps if number in s.operands):
            if called := _called(user, user.operands.index(number)):
                return called
            if user.op in ("module", "loop"):
                inner = self.module.inside[self.module.steps.index(user)][0]
                name = self.program.signatures[self.program.families.of(inner)].names[user.operands.index(number)]
                if name not in ("x", "y", "z", "u", "v", "w"):
                    return name
        if step.op in ("dense", "product") and step.layer is not None:
            return identifier(step.layer[-1].removesuffix("_proj"))
        alike = main >= 0 and self._shape(main) == step.shape
        if step.op == "module" and step.layer is not None and not (alike and self._may_take("x", number)):
            return identifier(step.layer[-1]) if not step.layer[-1].isdigit() else "x"
        return "x"

    def _record(self, step: Step) -> str:
        assert step.layer is not None
        path = step.layer[len(self.module.path) :]
        return ".".join(("p", *self.family.fields[path]))

    def _braces_of(self, n: int, step: Step) -> list[str]:
        out = []
        for i, value in enumerate(step.sizes):
            values = tuple(m.steps[n].sizes[i] for m in self.family.modules)
            out.append(self.braces.get(values) or render(value))
        return out

    def _call(self, n: int, step: Step, operands: Sequence[Text]) -> Text:
        called = self.module.inside[n]
        inner = self.program.families.of(called[0])
        signature = self.program.signatures[inner]
        sizes = []
        for _, values in inner.braces:
            mine = tuple(values[inner.place(m.inside[n][0])] for m in self.family.modules)
            sizes.append(self.braces.get(mine) or render(mine[0]))
        head = f"{inner.name} {braced(sizes)}".rstrip()
        *others, last = signature.order
        if step.op == "loop":
            (carried,) = step.data
            assert isinstance(carried, int)
            entry = next(e for e in self.module.entries if e.kind == "stack" and e.modules[0] is called[0])
            record = ".".join(("p", *self.family.fields[entry.path]))
            beside = " ".join(str(o) for i, o in enumerate(operands) if i != carried)
            wanted = (signature.names[carried], "h", "state")
            state = atom(next(w for w in wanted if not re.search(rf"\b{w}\b", beside)))
            given = {i: state if i == carried else o for i, o in enumerate(operands)}
            index = next(c for c in "ijklmn" if c not in self.program.sizes and not re.search(rf"\b{c}\b", f"{beside} {state}"))
            function = " ".join([head, f"{record}[{index}]", *(given[i].closed for i in others)])
            return Text(f"loop ({state.base} = {operands[carried]}) for {index} => {given[last].then(function)}")
        own = [self._record(step)] if called[0].entries else []
        function = " ".join([head, *own, *(operands[i].closed for i in others)])
        return operands[last].then(function)


_ROLES = {
    "attention": ("q", "k", "v", "mask"),
    "scores": ("q", "k"),
    "masked": ("scores", "mask"),
    "rope": ("", "angles"),
}


def _called(step: Step, place: int) -> str:
    """What an operand is called where it stands."""
    names = _ROLES.get(step.op, ())
    return names[place] if place < len(names) else ""


def _record(tree: Mapping[str, object]) -> str:
    fields = [f"{name} : {_record(node) if isinstance(node, dict) else node}" for name, node in tree.items()]
    return f"{{ {', '.join(fields)} }}"


def _of_element(text: str, element: str) -> str:
    """A helper for weights of another element type than f32."""
    if element == "f32":
        return text
    text = re.sub(r"\bnn\.(conv|norm|batch_norm|lstm|gru)\[", rf"nn.\1_of[{element}, ", text)
    return text.replace("f32[", f"{element}[")


_TYPES = {
    "dense": "nn.linear", "conv2": "nn.conv", "layer_norm": "nn.norm", "instance_norm": "nn.norm", "group_norm": "nn.norm",
    "batch_norm": "nn.batch_norm",
    "lstm": "nn.lstm", "gru": "nn.gru",
}  # fmt: skip


def _layer_type(kind: str, lead: list[str], dims: list[str], element: str) -> str:
    plain = _TYPES.get(kind)
    own = [*lead, *dims]
    if plain is not None:
        return f"{plain}[{', '.join(own)}]" if element == "f32" else f"{plain}_of[{', '.join([element, *own])}]"
    if kind.startswith("conv"):
        return f"{{ k : {element}[{', '.join(own)}], b : {element}[{', '.join([*lead, dims[0]])}] }}"
    if kind.startswith("transposed"):  # the last of its sizes is that of the bias
        return f"{{ k : {element}[{', '.join(own[:-1])}], b : {element}[{', '.join([*lead, dims[-1]])}] }}"
    return f"{element}[{', '.join(own)}]"


def _count(shape: Sequence[int]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total
