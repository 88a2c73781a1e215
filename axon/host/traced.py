"""Calls inside JAX's transformations: an Axon function as a primitive of JAX's, under `jit`, `grad`, `jvp`, `vmap` and `export`.

What JAX asks of a primitive are its results' shapes, its tangents, their transposition, a batch, and code. Shapes are the
signature's; the next three are calls of functions of the language, which `gradients` makes beside this one, so that they are
primitives of the same kind again; code is, for processors, a call of the library of `backend.c`, which XLA makes without Python,
and for GPUs one of Python's, which launches kernels on XLA's stream.

    axon          results of arguments
    axon_tangent  tangents of results from arguments and their tangents: linear in these, so that JAX can transpose it

Nothing of JAX is imported before a tracer is met: then it is there.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Hashable, Sequence
from functools import cache, cached_property
from importlib import import_module
from threading import Lock
from typing import Any

import numpy as np

from axon import compiler
from axon.backend import libraries
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.core.walk import results_of
from axon.host import values
from axon.host.call import Callee, Session, wrong
from axon.host.recorded import Form, built, form_of, tree_of
from axon.host.symbolic_sizes import extent, is_symbolic, sizes_of

_registering = Lock()


def traced(session: Session, callee: Callee, sizes: Sequence[int], given: Sequence[Any]) -> Any:
    """The result of a call, as tracers. Raises AxonError for arguments that do not fit, as any call does."""
    leaves: list[Any] = []
    key: list[Hashable] = [callee.name, *sizes]
    trees = tuple(tree_of(value, leaves, key) for value in given)
    leaves = [x if _is_jax(x) else libraries.hosted(x) for x in leaves]
    stand_ins = [_stand_in(x) if _is_jax(x) else x for x in leaves]
    key += [_is_weak(x) for x in leaves]
    arguments = [built(tree, stand_ins) for tree in trees]
    call = session.traced.get(tuple(key))
    if call is None:
        form = form_of(session, callee, trees, arguments, given)
        call = session.traced.setdefault(tuple(key), Traced(session, callee, tuple(sizes), form, arguments))
    call.shapes([x.shape if _is_jax(x) else np.shape(x) for x in leaves])  # else a batch's own names would be said
    matched, _ = session.specialize(callee, arguments, given)
    arrays = {call.order[n]: array for n, (_, array) in values.flatten(call.program.params, matched).items()}
    results = _primitives().call.bind(*(call.operand(x, arrays[n]) for n, x in enumerate(leaves)), call=call)
    return values.assemble(call.form.structure, results)


class Traced:
    """A function at one form of its arguments, as a primitive's parameter; the same object for each call of that form.

    `order` has for each input of the program which leaf of the arguments it is.
    """

    def __init__(self, session: Session, callee: Callee, sizes: tuple[int, ...], form: Form, arguments: list[Any]) -> None:
        self.session, self.callee, self.sizes, self.form = session, callee, sizes, form
        self.arguments = arguments  # that stand for any of this form
        _, self.program = session.specialize(callee, arguments)
        numbers: dict[int, tuple[str, Any]] = values.flatten(self.program.params, form.flat.arguments)
        self.order: list[int] = [numbers[position][1] for position in range(len(numbers))]
        self.results = results_of(self.program)
        self.made: dict[Hashable, Traced] = {}
        self.target: str | None = None
        if form.flat.open:
            message = (
                f"a result of `{callee.name}` has a size that only the data decide, and JAX's transformations want it beforehand"
            )
            raise wrong(callee, "AX0307", message, "call it outside of `jit`, `grad` and `vmap`")
        for value in self.results:
            self._held(value.element.dtype, "the result")

    def __repr__(self) -> str:
        return f"{self.callee.name}{list(self.sizes) if self.sizes else ''}"

    def _held(self, dtype: Any, what: str) -> None:
        if _jax().dtypes.canonicalize_dtype(dtype) != dtype:
            how = 'jax.config.update("jax_enable_x64", True) gives it'
            raise wrong(self.callee, "AX0505", f"{what} of `{self.callee.name}` cannot be given: JAX has no {dtype} here; {how}")

    def operand(self, x: Any, array: Any) -> Any:
        """An argument's leaf as JAX's; `array` is what was matched."""
        if not _is_jax(x):
            self._held(array.dtype, "an argument")
            return _jax().numpy.asarray(array)
        return _jax().lax.convert_element_type(x, array.dtype) if _is_weak(x) else x

    # ── shapes ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def shapes(self, shapes: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Of the results, from those of the leaves. Raises ShapeError."""
        try:
            if any(is_symbolic(size) for shape in shapes for size in shape):
                known = [shapes[n] for n in self.order]
                from axon.types.show import dimension_names

                names = dimension_names(self.session.checked.state, self.callee.scheme)
                sizes = sizes_of(self.callee, self.program.contract, names, self.sizes, known)
            else:
                leaves = [_array(dtype, shape) for (dtype, _), shape in zip(self._leaves, shapes, strict=True)]
                given = [built(tree, leaves) for tree in self.form.flat.arguments]
                _, _, sizes = self.session.bound(self.callee, list(self.sizes), given)
        except AxonError as error:
            raise self.session.told(error, self.callee.name) from None
        return [tuple(extent(dim, sizes) for dim in value.shape) for value in self.results]

    @cached_property
    def _leaves(self) -> list[tuple[Any, int]]:
        """The element types and ranks of the leaves."""
        found = dict(zip(self.order, self.program.inputs, strict=True))
        return [(found[n].element.dtype, len(found[n].shape)) for n in range(len(found))]

    @cached_property
    def _elements(self) -> list[Element]:
        found = dict(zip(self.order, self.program.inputs, strict=True))
        return [found[n].element for n in range(len(found))]

    # ── functions beside it ─────────────────────────────────────────────────────────────────────────────────────────────

    def pushforward(self, by: tuple[int, ...]) -> Traced:
        """From the leaves and the tangents of some, those of the results that are floats."""
        moved = [self._leaves[n] for n in by]
        return self._beside(("tangents", by), lambda: self.form.flat.pushforward(by, self.form.floats), moved)

    def pullback(self, by: tuple[int, ...], of: tuple[int, ...]) -> Traced:
        """From the leaves and the adjoints of some results, those of some leaves."""
        moved = [(self.results[n].element.dtype, len(self.results[n].shape)) for n in of]
        return self._beside(("backward", by, of), lambda: self.form.flat.pullback(by, of), moved)

    def mapped(self, over: tuple[int, ...]) -> Traced:
        """From the leaves, some of which have a dimension more in front, the results with one."""
        return self._beside(("batch", over), lambda: self.form.flat.mapped(over), [], over)

    def _beside(
        self,
        key: Hashable,
        make: Callable[[], tuple[Session, Callee]],
        moved: Sequence[tuple[Any, int]],
        larger: Sequence[int] = (),
    ) -> Traced:
        if key not in self.made:
            session, callee = make()
            own = [(dtype, rank + (n in larger)) for n, (dtype, rank) in enumerate(self._leaves)]
            arguments: list[Any] = [_array(dtype, (1,) * rank) for dtype, rank in (*own, *moved)]
            try:
                form = form_of(session, callee, tuple(range(len(arguments))), arguments, arguments)
                self.made[key] = Traced(session, callee, self.sizes, form, arguments)
            except AxonError as error:
                raise session.told(error, callee.name) from None
        return self.made[key]

    # ── code ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def registered(self) -> str:
        """What XLA calls the function, which is built and loaded the first time."""
        from axon.backend.c.header import Described
        from axon.backend.c.identifiers import own_name
        from axon.types.show import dimension_names

        with _registering:
            if self.target is None:
                name, checked = self.callee.name, self.session.checked
                names = dimension_names(checked.state, self.callee.scheme)
                source = os.path.basename(checked.source.path)
                about = Described(own_name(name), name, source, self.callee.signature, lambda s: names.get(s, s.name), "native")
                compiler_ = shlex.split(os.environ.get("CC", "cc"))
                self.target, code = compiler.handler(self.program, about, _jax().ffi.include_dir(), compiler_)
                _register(self.target, f"{about.symbol}_xla", code)
        return self.target

    def lowered(self, *operands: Any, results: Sequence[Any]) -> Any:
        """The call in a program of XLA's."""
        from axon.backend.c.xla import number_name

        numbers = {number_name(n): np.int64(size) for n, size in enumerate(self.sizes)}
        return _jax().ffi.ffi_call(self.registered(), results)(*(operands[n] for n in self.order), **numbers)

    def launched(self, *operands: Any, results: Sequence[Any]) -> Any:
        """The call in a program that XLA runs on a GPU: it lends its buffers to a call, which puts kernels on its stream. They are
        built now, so that what has none is said now."""
        if any(is_symbolic(size) for x in operands for size in x.shape):
            message = f"`{self.callee.name}` is exported for GPUs, where a call of it is Python's"
            raise wrong(self.callee, "AX0505", message, "export it for processors: `jax.export.export(f, platforms=['cpu'])`")
        stand_ins = [_array(dtype, x.shape) for (dtype, _), x in zip(self._leaves, operands, strict=True)]
        try:
            self.session.warmup(self.callee, self.sizes, [built(tree, stand_ins) for tree in self.form.flat.arguments], {})
        except AxonError as error:
            raise self.session.told(error, self.callee.name) from None
        called = import_module("jax.experimental.buffer_callback").buffer_callback
        return called(self._called, list(results))(*operands)

    def _called(self, context: Any, outs: Sequence[Any], *operands: Any) -> None:
        """A call with buffers, on XLA's stream."""
        lent = compiler.lent()
        with lent.on_stream(_stream_of(context)):
            leaves = [lent.borrowed(x, element) for x, element in zip(operands, self._elements, strict=True)]
            room = [lent.borrowed(x, value.element) for x, value in zip(outs, self.results, strict=True)]
            given = [built(tree, leaves) for tree in self.form.flat.arguments]
            out = values.assemble(self.program.result, room)
            try:
                self.session.seen_or_called(self.callee, self.sizes, given, {}, "cuda", out)
            except AxonError as error:
                raise self.session.told(error, self.callee.name) from None

    @cached_property
    def jitted(self) -> Any:
        return _jax().jit(lambda *operands: _primitives().call.bind(*operands, call=self))


_loaded: dict[str, Any] = {}


def _register(name: str, symbol: str, code: bytes) -> None:
    """Make a library's function known to XLA; the file is gone once it is loaded."""
    if name in _loaded:
        return
    with tempfile.NamedTemporaryFile(prefix="axon-", suffix=".so") as file:
        file.write(code)
        file.flush()
        _loaded[name] = ctypes.CDLL(file.name)
    ffi = _jax().ffi
    ffi.register_ffi_target(name, ffi.pycapsule(_loaded[name][symbol]), platform="cpu")


def jax_targets(function: Any, /, *args: Any, **kwargs: Any) -> list[str]:
    """What XLA calls of Axon in a function of JAX's at these arguments (arrays, or `jax.ShapeDtypeStruct`s), by the names that
    `jax.export` wants of what it cannot know to be stable. They are ready to be called then: in the process that exports a
    program, and in one that loads it. Names are decided by what functions compute, and stay while Axon's version does.
    """
    text = import_module("jax").jit(function).lower(*args, **kwargs).as_text()
    return [name for name in _loaded if f"@{name}(" in text]


# ── leaves ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _jax() -> Any:
    return sys.modules["jax"]


def _array(dtype: Any, shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(np.zeros((), dtype), shape)


def _is_jax(x: Any) -> bool:
    return isinstance(libraries.of(x), libraries.Jax)


def _stream_of(context: Any) -> int:
    """The stream of XLA's on which a callback is to work."""
    return int(context.stream)


def _is_weak(x: Any) -> bool:
    """Whether it is one of Python's numbers, which JAX holds as an array."""
    return _is_jax(x) and x.ndim == 0 and bool(getattr(getattr(x, "aval", x), "weak_type", False))


def _stand_in(x: Any) -> Any:
    """What an array of JAX's is matched as: a number where it was one, else an array of its element type and rank."""
    library = libraries.of(x)
    assert library is not None
    if library.element(x) is None:
        return x  # matching names it
    if _is_weak(x):
        return x.dtype.type(0).item()
    return _array(x.dtype, tuple(1 if is_symbolic(size) else size for size in x.shape))


# ── the primitives ──────────────────────────────────────────────────────────────────────────────────────────────────────


class _Primitives:
    """JAX's, with the rules of its transformations."""

    def __init__(self) -> None:
        ad, batching, mlir = (import_module(f"jax.interpreters.{name}") for name in ("ad", "batching", "mlir"))
        self.ad: Any = ad
        primitive_of: Any = import_module("jax.extend.core").Primitive
        self.call, self.tangent = primitive_of("axon"), primitive_of("axon_tangent")
        for primitive, of in ((self.call, _itself), (self.tangent, _of_tangents)):
            primitive.multiple_results = True
            primitive.def_impl(lambda *operands, of=of, **parameters: of(**parameters).jitted(*operands))
            primitive.def_abstract_eval(lambda *avals, of=of, **parameters: _abstract(of(**parameters), avals))
            mlir.register_lowering(primitive, self._lowering(mlir, of, Traced.lowered), platform="cpu")
            mlir.register_lowering(primitive, self._lowering(mlir, of, Traced.launched), platform="cuda")
            mlir.register_lowering(primitive, lambda *_, of=of, **parameters: _nowhere(of(**parameters)))
            batching.primitive_batchers[primitive] = lambda xs, dims, of=of, **parameters: self._batch(of(**parameters), xs, dims)
        ad.primitive_jvps[self.call] = self._tangents
        ad.primitive_jvps[self.tangent] = self._tangents_of_tangents
        ad.primitive_transposes[self.tangent] = self._transposed
        ad.primitive_transposes[self.call] = lambda adjoints, *operands, call: _not_linear(call)

    @staticmethod
    def _lowering(mlir: Any, of: Callable[..., Traced], how: Callable[..., Any]) -> Any:
        def lower(context: Any, *operands: Any, **parameters: Any) -> Any:
            results = [_jax().ShapeDtypeStruct(aval.shape, aval.dtype) for aval in context.avals_out]
            function = mlir.lower_fun(lambda *xs: how(of(**parameters), *xs, results=results), multiple_results=True)
            return function(context, *operands)

        return lower

    def _batch(self, call: Traced, operands: Sequence[Any], dims: Sequence[int | None]) -> Any:
        over = tuple(n for n, d in enumerate(dims) if d is not None)
        moved = [x if d is None else _jax().numpy.moveaxis(x, d, 0) for x, d in zip(operands, dims, strict=True)]
        results = self.call.bind(*moved, call=call.mapped(over))
        return results, [0] * len(results)

    def _tangents(self, primals: Sequence[Any], tangents: Sequence[Any], *, call: Traced) -> Any:
        return self._moved(self.call.bind(*primals, call=call), primals, tangents, call)

    def _tangents_of_tangents(self, primals: Sequence[Any], tangents: Sequence[Any], *, call: Traced, by: tuple[int, ...]) -> Any:
        return self._moved(self.tangent.bind(*primals, call=call, by=by), primals, tangents, call.pushforward(by))

    def _moved(self, results: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any], call: Traced) -> Any:
        """The results, and their tangents."""
        found = [self.ad.Zero(_jax().typeof(result).to_tangent_aval()) for result in results]
        by = tuple(n for n, tangent in enumerate(tangents) if type(tangent) is not self.ad.Zero)
        if by and call.form.floats:
            made = self.tangent.bind(*primals, *(tangents[n] for n in by), call=call, by=by)
            for n, tangent in zip(call.form.floats, made, strict=True):
                found[n] = tangent
        return results, found

    def _transposed(self, adjoints: Sequence[Any], *operands: Any, call: Traced, by: tuple[int, ...]) -> Any:
        """The adjoints of tangents, from those of the results' tangents; arguments have none."""
        leaves, tangents = operands[: -len(by)], operands[-len(by) :]
        wanted = [self.ad.is_undefined_primal(x) for x in tangents]
        own = [(n, x) for n, x in zip(call.form.floats, adjoints, strict=True) if type(x) is not self.ad.Zero]
        if not own:
            return [None for _ in operands]
        pullback = call.pullback(tuple(n for n, w in zip(by, wanted, strict=True) if w), tuple(n for n, _ in own))
        found = iter(self.call.bind(*leaves, *(x for _, x in own), call=pullback))
        return [*(None for _ in leaves), *(next(found) if w else None for w in wanted)]


@cache
def _primitives() -> _Primitives:
    return _Primitives()


def _itself(*, call: Traced) -> Traced:
    return call


def _of_tangents(*, call: Traced, by: tuple[int, ...]) -> Traced:
    return call.pushforward(by)


def _abstract(call: Traced, avals: Sequence[Any]) -> list[Any]:
    shapes = call.shapes([tuple(aval.shape) for aval in avals])
    array = _jax().core.ShapedArray
    return [array(shape, value.element.dtype) for shape, value in zip(shapes, call.results, strict=True)]


def _not_linear(call: Traced) -> Any:
    message = f"JAX asks to transpose `{call.callee.name}`, which is a batch of tangents or no linear function"
    raise wrong(call.callee, "AX0505", message, "transpose first (`jax.vjp`, `jax.linear_transpose`), then `jax.vmap`")


def _nowhere(call: Traced) -> Any:
    message = f"`{call.callee.name}` is compiled by JAX for a device that is neither a processor nor an NVIDIA GPU"
    note = "functions run on processors and on NVIDIA's GPUs"
    raise wrong(call.callee, "AX0604", message, note)
