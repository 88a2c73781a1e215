"""The kernels of a planned program, built: for each, as its tensors lie, the few machine codes of which its sizes take one.

Note [Variants], in `variants`, says which code serves which sizes. Nothing here needs a GPU.

Note [Decided before]
    Which way a program takes (Note [Ways], in `ways`) and which variants its kernels have is decided of all kernels before one is
    built: by sizes, by how tensors lie, by estimates of registers, and by what the compiler has said of the same texts before,
    which the cache on disk knows (`cubin.known`). One thing is known only after: that a text which nobody has built does not fit
    its registers. Then it is decided again, which takes the next best mapping, or, where none is left, another way; what was
    built beside it is kept.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from threading import RLock
from typing import Any

from axon.backend.gpu.build.cubin import LinkedKernel, RegistersExhausted, build_all, known
from axon.backend.gpu.build.recipe import Forms, stages
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.runtime import plain_variants as nests
from axon.backend.gpu.runtime.prepare import Prepared, blocks, is_empty, prepare
from axon.backend.gpu.runtime.variants import TileChoices
from axon.backend.gpu.runtime.ways import Planned
from axon.backend.gpu.simt.mapping import grid as grid_of
from axon.backend.gpu.tile.schedule import TileMapping
from axon.backend.gpu.tile.schedule_file import FREE, Fixed
from axon.backend.plan.ir import Nest
from axon.base.data import dataclass
from axon.base.names import Symbol


@dataclass(frozen=True, slots=True)
class Ready:
    """One kernel at given sizes, ready to be bound: its mapping, all its forms, its machine code, and how many threads it takes."""

    kernel: Any  # of one of the families; a plain one over all of its axes
    mapping: Any  # of its family
    stages: Any  # its forms
    built: LinkedKernel
    blocks: int
    threads: int


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """A kernel that is built: of which program, which of its kernels, how its tensors lie, its variant, its registers, and what a
    schedule fixes of it. Of a program in parts, the number counts through all of them."""

    builder: KernelBuilder
    number: int
    key: Any
    variant: Any
    registers: int
    fixed: Fixed


@dataclass(frozen=True, slots=True)
class WantedKernel:
    """A kernel that is still to be built, and what wants it."""

    builder: KernelBuilder
    number: int
    ready: Any
    variant: Any
    forms: Forms


_Variants = dict[int, Any]  # by the numbers of kernels


class KernelBuilder:
    """What is built of a planned program on one target. Safe to use from several threads."""

    def __init__(
        self,
        planned: Planned,
        target: Target,
        mapping: TileMapping | None = None,
        fixed: Sequence[Fixed] = (),
        *,
        exact: bool = False,
    ) -> None:
        """A given mapping holds for every kernel, `fixed` for one each. With `exact`, every size gets its best mapping, and there
        is no limit to variants."""
        self.planned, self.target, self.mapping, self.exact = planned, target, mapping, exact
        self.fixed = tuple(fixed) or (FREE,) * len(planned.kernels)
        self._lock = RLock()
        self._choices: dict[tuple[int, Any], Any] = {}
        self._built: dict[tuple[int, Any, Any], tuple[Any, LinkedKernel]] = {}

    @property
    def given(self) -> frozenset[int]:
        """The kernels of whose mappings the user says something."""
        return frozenset(n for n, fixed in enumerate(self.fixed) if fixed.values or self.mapping is not None)

    def left(self, number: int, ready: Prepared) -> str | float:
        """The seconds that the best mapping left for a kernel for the tensor cores takes; why none is left, if so."""
        with self._lock:
            choices = self._choices_of(number, ready)
            assert isinstance(choices, TileChoices)
            return choices.left(ready)

    @property
    def refusals(self) -> int:
        """How often the compiler has refused what was chosen."""
        with self._lock:
            return sum(len(choices.refused) for choices in self._choices.values())

    def plans(
        self, tensors: MappingOf[Symbol, DeviceTensor], sizes: MappingOf[Symbol, int], *, exact: bool = False
    ) -> dict[int, Ready] | None:
        """All kernels that have something to do, for tensors that lie like these. Those that are not built yet are built side by
        side. None where the compiler has refused every mapping of a kernel: see `ways`.

        Raises `Unsupported` for operands that bulk copies cannot read, `BuildError` where a kernel is not sound, and what a mapping
        of the user's asks for that cannot be.
        """
        with self._lock:
            ready = self._all_prepared(tensors, sizes)
            decided = self._decided(ready, {}, sizes, exact=exact)
            while decided is not None:
                forms = self._forms(ready, decided)
                answers = build_all(list(forms.values()), self.target)
                refused = [n for n, made in zip(forms, answers, strict=True) if not self._took(n, ready, decided, forms[n], made)]
                if not refused:
                    return {n: self._ready(n, one, decided[n], sizes) for n, one in ready.items()}
                fitting = {n: variant for n, variant in decided.items() if n not in refused}
                decided = self._decided(ready, fitting, sizes, exact=exact)
            return None

    def wanted(
        self, tensors: MappingOf[Symbol, DeviceTensor], sizes: MappingOf[Symbol, int], *, exact: bool = False
    ) -> list[WantedKernel] | None:
        """What is still to be built for these tensors, so that several programs' kernels are built together. What is built of it is
        given to `keep`. None as of `plans`."""
        with self._lock:
            ready = self._all_prepared(tensors, sizes)
            decided = self._decided(ready, {}, sizes, exact=exact)
            if decided is None:
                return None
            return [WantedKernel(self, n, ready[n], decided[n], forms) for n, forms in self._forms(ready, decided).items()]

    def keep(self, wanted: WantedKernel, kernel: LinkedKernel | RegistersExhausted) -> None:
        """What was made of a kernel that was wanted."""
        with self._lock:
            if isinstance(kernel, LinkedKernel):
                self._built[wanted.number, wanted.ready.key, wanted.variant] = wanted.forms, kernel
            else:
                self._choices_of(wanted.number, wanted.ready).refuse(wanted.variant)

    def made(self) -> list[BuiltKernel]:
        """The kernels that are built."""
        with self._lock:
            return [BuiltKernel(self, *key, kernel.registers, self.fixed[key[0]]) for key, (_, kernel) in self._built.items()]

    @property
    def ways(self) -> int:
        """Of how many kernels, as their tensors lie, calls make variants: as far as is known of what is built."""
        with self._lock:
            own = {(number, key) for number, key, _ in self._built}
            return len(own) + len(self.planned.kernels) - len({number for number, _ in own}) if own else 0

    def _all_prepared(self, tensors: MappingOf[Symbol, DeviceTensor], sizes: MappingOf[Symbol, int]) -> dict[int, Any]:
        """The kernels that have something to do, by number."""
        todo = (n for n, kernel in enumerate(self.planned.kernels) if not is_empty(kernel, sizes))
        return {n: self._prepared(n, tensors, sizes) for n in todo}

    def _prepared(self, number: int, tensors: MappingOf[Symbol, DeviceTensor], sizes: MappingOf[Symbol, int]) -> Any:
        kernel = self.planned.kernels[number]
        if isinstance(kernel, Nest):
            return nests.prepare(kernel, self.planned.known, tensors, sizes, self.target)
        return prepare(kernel, tensors, sizes)

    def _choices_of(self, number: int, ready: Any) -> Any:
        key = number, ready.key
        if key not in self._choices:
            tiled = isinstance(ready, Prepared)
            self._choices[key] = TileChoices(self.target, self.mapping, self.fixed[number]) if tiled else nests.NestChoices()
        return self._choices[key]

    def _decided(
        self, ready: MappingOf[int, Any], decided: _Variants, sizes: MappingOf[Symbol, int], *, exact: bool
    ) -> _Variants | None:
        """The variant of each kernel, of which some are decided; None where nothing is left for one. Nothing is built: what the
        compiler is known to refuse is not chosen, and what it is known to make of the others is taken. See Note [Decided before].
        """
        decided = dict(decided)
        while todo := [n for n in ready if n not in decided]:
            for n in todo:
                variant = self._choices_of(n, ready[n]).pick(ready[n], sizes, exact=exact or self.exact)
                if variant is None:
                    return None
                decided[n] = variant
            forms = self._forms(ready, {n: decided[n] for n in todo})
            for n, made in zip(forms, known(list(forms.values()), self.target), strict=True):
                if made is not None and not self._took(n, ready, decided, forms[n], made):
                    del decided[n]
        return decided

    def _took(
        self, number: int, ready: MappingOf[int, Any], decided: _Variants, forms: Forms, made: LinkedKernel | RegistersExhausted
    ) -> bool:
        """Keep what was made of a kernel; False if it does not fit, so that its variant is none any more."""
        self.keep(WantedKernel(self, number, ready[number], decided[number], forms), made)
        if isinstance(made, RegistersExhausted) and self.mapping is not None:
            raise made
        return isinstance(made, LinkedKernel)

    def _forms(self, ready: MappingOf[int, Any], decided: _Variants) -> dict[int, Forms]:
        """The forms of what is not built yet."""
        made: dict[int, Forms] = {}
        for number, variant in decided.items():
            one = ready[number]
            if (number, one.key, variant) in self._built:
                continue
            if isinstance(one, Prepared):
                made[number] = stages(one.kernel, variant.mapping, self.target, self.planned.values, variant.granted)
            else:
                made[number] = nests.forms(one, variant)
        return made

    def _ready(self, number: int, ready: Any, variant: Any, sizes: MappingOf[Symbol, int]) -> Ready:
        forms, kernel = self._built[number, ready.key, variant]
        if isinstance(ready, Prepared):
            count = blocks(variant.mapping, ready.problem, self.target)
            return Ready(ready.kernel, variant.mapping, forms, kernel, count, forms.source.threads)
        grid = grid_of(variant.mapping, ready.kernel, sizes, self.target)
        return Ready(self.planned.kernels[number], variant.mapping, forms, kernel, grid.blocks, grid.threads)
