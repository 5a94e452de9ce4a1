"""What a fused pass reads and writes: the description that every backend writes in its own language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from symgrad.ir.expr import Expr
from symgrad.targets.fused.terms import View

__all__ = ["Kernel", "Kernels", "Operand", "Part", "Result", "Second"]

_MOST_SPECIAL = 2  # results up to which a pass is compiled for every choice of them


@dataclass(frozen=True)
class Part:
    """One of several equal parts of a dimension, which is counted from the end.

    `pairs`: it is one of each two neighbours.
    """

    dim: int
    index: int
    count: int
    pairs: bool = False


@dataclass(frozen=True)
class Operand:
    """A tensor that a pass reads, or a part of one: the leaf for it, its place among those given, and its view."""

    leaf: Expr
    place: int
    dims: tuple[int, ...]
    part: Part | None = None


@dataclass(frozen=True)
class Result:
    """What a pass writes: `value` for each element, in the shape of the pass; or summed.

    It is summed to the shape of the tensor at `place` among the inputs, viewed by `dims`; over everything if `total`
    ("sum" or "mean"). `row`: it has one element for each row, and the last dimension is gone ("row") or 1 ("kept");
    a total is then one over rows.
    `reduced`: the dimensions of the pass that it is summed over, which are gone, or 1 if `kept`. `leaf`: it is not an
    output but a sum, for which this symbol stands in what follows from it, stored in the type of the arithmetic.
    `part`: it is one of the parts that the output has, which stand side by side among the results.
    """

    name: str
    value: Expr
    place: int | None = None
    dims: tuple[int, ...] = ()
    total: str = ""
    row: str = ""
    reduced: tuple[int, ...] = ()
    kept: bool = False
    leaf: Expr | None = None
    part: Part | None = None

    @property
    def label(self) -> str:
        """A name that no other result has."""
        return self.name if self.part is None else f"{self.name}_{self.part.index}"


@dataclass(frozen=True)
class Kernel:
    """One pass. Where outputs follow from sums over everything, `finish` are their formulas in these and other results;
    forward stores the sums that are `given` to backward.

    `shape` are the views that broadcast to its shape; `numbers` the hyperparameters it reads.

    `wide`: it computes in float64 whatever the tensors hold. `by_row`: it has reductions along the last dimension,
    or sums over everything are given to each row; `any_rows`: only these, so that rows may be of any length.
    `keeps` are those of them, and of backward's, that forward stores beside its results, as one number for each row in
    the type of its arithmetic; `known` those that backward reads in place of computing them again. `whole` are the
    operands of whole numbers, of which each row has one; `placed`: places in a row are read, which have to be in it. Of
    the operands at each of `spans` one has to have as many elements in a row as the pass: what is reduced there has no
    other. The tensors of forward at `alike` have to have the shape of the pass. `late` are the tensors without
    dimensions that `finish` reads.
    """

    name: str
    operands: tuple[Operand, ...]
    numbers: tuple[Expr, ...]
    results: tuple[Result, ...]
    shape: tuple[View, ...]
    wide: bool
    by_row: bool
    keeps: tuple[Expr, ...] = ()
    known: tuple[Operand, ...] = ()
    whole: tuple[Operand, ...] = ()
    placed: bool = False
    finish: tuple[Expr, ...] = ()
    late: tuple[Operand, ...] = ()
    outputs: tuple[Result, ...] = ()
    given: tuple[Expr, ...] = ()
    spans: tuple[tuple[int, ...], ...] = ()
    alike: tuple[int, ...] = ()
    any_rows: bool = False

    @property
    def returned(self) -> tuple[Result, ...]:
        """What its outputs are, also where they follow from what it computes; of several parts the first."""
        return tuple(r for r in self.outputs or self.results if r.part is None or r.part.index == 0)

    @property
    def sums(self) -> tuple[Expr, ...]:
        """The symbols of the sums over everything that are the last of its results."""
        return tuple(r.leaf for r in self.results if r.leaf is not None)

    @property
    def reductions(self) -> tuple[Expr, ...]:
        """The reductions that are known."""
        return tuple(o.leaf for o in self.known)

    @property
    def has_parts(self) -> bool:
        """Whether it reads or writes tensors part by part."""
        return any(o.part is not None for o in self.operands) or any(r.part is not None for r in self.results)

    @property
    def part(self) -> int:
        """0 for what plain calls run, 1 for forward mode and second derivatives, which are compiled by themselves."""
        return 0 if self.name.startswith(("forward", "backward")) else 1

    @property
    def subsets(self) -> tuple[int, ...]:
        """The choices of results, as bits, that it is compiled for: every one, or with many results single ones."""
        tensors: list[int] = []  # the bits of each, which may have several parts
        for k, result in enumerate(self.results):
            if result.part is not None and result.part.index:
                tensors[-1] |= 1 << k
            else:
                tensors.append(1 << k)
        count, every = len(tensors), sum(tensors)
        if not self.name.startswith("backward"):
            return (every,)
        if count <= _MOST_SPECIAL:
            return tuple(sum(t for k, t in enumerate(tensors) if bits >> k & 1) for bits in range(1, 1 << count))
        return (*tensors, every)


@dataclass(frozen=True)
class Second:
    """A pass of second derivatives; `places` are those of its results among the saved values and the cotangents."""

    kernel: Kernel
    places: tuple[int, ...]


@dataclass(frozen=True)
class Kernels:
    """The passes of one variant; `missing` says what has none, and why.

    `tangents` and `second` are the passes of forward mode and of second derivatives, each for one choice of tangents,
    or of cotangents of gradients, that are defined: the bits of its key are places among the tensors of the operation.
    Forward mode reads the saved values and those tangents. A second derivative reads the saved values, the cotangents
    of the outputs and those of the gradients.
    """

    forward: Kernel | None
    backward: Kernel | None
    missing: tuple[tuple[str, str], ...] = ()
    tangents: Mapping[int, Kernel] = field(default_factory=dict)
    second: Mapping[int, Second] = field(default_factory=dict)

    @property
    def served(self) -> tuple[bool, ...]:
        """Whether there are passes for forward, backward, forward mode and second derivatives."""
        return self.forward is not None, self.backward is not None, bool(self.tangents), bool(self.second)

    @property
    def all(self) -> list[Kernel]:
        """All passes, those of plain calls first."""
        plain = [k for k in (self.forward, self.backward) if k is not None]
        return [*plain, *self.tangents.values(), *(s.kernel for s in self.second.values())]
