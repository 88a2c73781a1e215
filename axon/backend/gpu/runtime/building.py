"""The kernels of a planned program, built: for each, as its tensors lie, the few machine codes of which its sizes take one.

Note [Variants], in `variants`, says which code serves which sizes. Nothing here needs a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from threading import RLock
from typing import Any

from axon.backend.gpu.build.cubin import Kernel, RegistersExhausted, build_all
from axon.backend.gpu.build.pipeline import Forms, stages
from axon.backend.gpu.layout.memory import Tensor
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

    kernel: Any  # of one of the families
    mapping: Any  # of its family
    stages: Any  # its forms
    built: Kernel
    blocks: int
    threads: int


@dataclass(frozen=True, slots=True)
class Built:
    """A kernel that is built: of which program, which of its kernels, how its tensors lie, its variant, its registers."""

    builder: Builder
    number: int
    key: Any
    variant: Any
    registers: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """A kernel that is still to be built, and what wants it."""

    builder: Builder
    number: int
    ready: Any
    variant: Any
    forms: Forms


class Builder:
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
        self._built: dict[tuple[int, Any, Any], tuple[Any, Kernel]] = {}

    @property
    def given(self) -> frozenset[int]:
        """The kernels of whose mappings the user says something."""
        return frozenset(n for n, fixed in enumerate(self.fixed) if fixed.values or self.mapping is not None)

    def obstacle(self, number: int, ready: Prepared) -> str | None:
        """Why no mapping is left for a kernel for the tensor cores, if none is."""
        with self._lock:
            choices = self._choices_of(number, ready)
            assert isinstance(choices, TileChoices)
            return choices.obstacle(ready)

    def plans(
        self,
        tensors: MappingOf[Symbol, Tensor],
        sizes: MappingOf[Symbol, int],
        numbers: Sequence[int] | None = None,
        *,
        exact: bool = False,
    ) -> dict[int, Ready] | None:
        """All kernels that have something to do, or those with these numbers, for tensors that lie like these. Those that are not
        built yet are built side by side. None where the compiler has refused every mapping of a kernel: see `ways`.

        Raises `Unsupported` for operands that bulk copies cannot read, `BuildError` where a kernel is not sound, and what a mapping
        of the user's asks for that cannot be.
        """
        numbers = self._todo(sizes) if numbers is None else numbers
        with self._lock:
            ready = {n: self._prepared(n, tensors, sizes) for n in numbers}
            picked: dict[int, Any] = {}
            while missing := [n for n in numbers if n not in picked]:
                for n in missing:
                    found = self._choices_of(n, ready[n]).pick(ready[n], sizes, exact=exact or self.exact)
                    if found is None:
                        return None
                    picked[n] = found
                for n, failure in self._build({n: (ready[n], picked[n]) for n in missing}).items():
                    # Only the compiler knows which mappings fit their registers, when an epilogue is long: the next best one then.
                    self._choices_of(n, ready[n]).refuse(picked.pop(n))
                    if self.mapping is not None:
                        raise failure
            return {n: self._ready(n, ready[n], picked[n], sizes) for n in numbers}

    def wanted(self, tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int], *, exact: bool = False) -> list[Wanted]:
        """What is still to be built for these tensors, so that several programs' kernels are built together. What is built of it is
        given to `keep`."""
        with self._lock:
            ready = {n: self._prepared(n, tensors, sizes) for n in self._todo(sizes)}
            picked = {n: (r, self._choices_of(n, r).pick(r, sizes, exact=exact or self.exact)) for n, r in ready.items()}
            return [Wanted(self, n, *picked[n], forms) for n, forms in self._forms(picked).items()]

    def keep(self, wanted: Wanted, kernel: Kernel | RegistersExhausted) -> None:
        """What was made of a kernel that was wanted."""
        with self._lock:
            if isinstance(kernel, Kernel):
                self._built[wanted.number, wanted.ready.key, wanted.variant] = wanted.forms, kernel
            else:
                self._choices_of(wanted.number, wanted.ready).refuse(wanted.variant)

    def made(self) -> list[Built]:
        """The kernels that are built."""
        with self._lock:
            return [Built(self, *key, kernel.registers) for key, (_, kernel) in self._built.items()]

    @property
    def ways(self) -> int:
        """Of how many kernels, as their tensors lie, calls make variants: as far as is known of what is built."""
        with self._lock:
            own = {(number, key) for number, key, _ in self._built}
            return len(own) + len(self.planned.kernels) - len({number for number, _ in own}) if own else 0

    def _todo(self, sizes: MappingOf[Symbol, int]) -> list[int]:
        return [n for n, kernel in enumerate(self.planned.kernels) if not is_empty(kernel, sizes)]

    def _prepared(self, number: int, tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int]) -> Any:
        kernel = self.planned.kernels[number]
        if isinstance(kernel, Nest):
            return nests.prepare(kernel, self.planned.known, tensors, sizes)
        return prepare(kernel, tensors, sizes)

    def _choices_of(self, number: int, ready: Any) -> Any:
        key = number, ready.key
        if key not in self._choices:
            tiled = isinstance(ready, Prepared)
            self._choices[key] = TileChoices(self.target, self.mapping, self.fixed[number]) if tiled else nests.NestChoices()
        return self._choices[key]

    def _build(self, wanted: MappingOf[int, tuple[Any, Any]]) -> dict[int, RegistersExhausted]:
        """Build what is not there yet; what does not fit its registers comes back."""
        made = self._forms(wanted)
        failures: dict[int, RegistersExhausted] = {}
        for (number, forms), kernel in zip(made.items(), build_all(list(made.values()), self.target), strict=True):
            ready, variant = wanted[number]
            if isinstance(kernel, RegistersExhausted):
                failures[number] = kernel
            else:
                self._built[number, ready.key, variant] = forms, kernel
        return failures

    def _forms(self, wanted: MappingOf[int, tuple[Any, Any]]) -> dict[int, Forms]:
        """The forms of what is not built yet."""
        made: dict[int, Forms] = {}
        for number, (ready, variant) in wanted.items():
            if (number, ready.key, variant) in self._built:
                continue
            if isinstance(ready, Prepared):
                made[number] = stages(ready.kernel, variant.mapping, self.target, self.planned.values, variant.granted)
            else:
                made[number] = nests.forms(ready, variant, self.planned.known)
        return made

    def _ready(self, number: int, ready: Any, variant: Any, sizes: MappingOf[Symbol, int]) -> Ready:
        forms, kernel = self._built[number, ready.key, variant]
        if isinstance(ready, Prepared):
            count = blocks(variant.mapping, ready.problem, self.target)
            return Ready(ready.kernel, variant.mapping, forms, kernel, count, forms.source.threads)
        grid = grid_of(variant.mapping, ready.kernel, sizes)
        return Ready(ready.kernel, variant.mapping, forms, kernel, grid.blocks, grid.threads)
