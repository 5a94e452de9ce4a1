"""The check of declared shapes at a call: one condition over sizes, and an explanation where it does not hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from symgrad.spec.model import Dim
from symgrad.targets.literals import literal
from symgrad.targets.torch.layout import Layout


@dataclass(frozen=True)
class ShapeCheck:
    """The condition for shapes that fit, and what is said of others."""

    condition: str
    declared: tuple[str, ...]


@dataclass(frozen=True)
class Shaped:
    """A tensor by its argument's name, with its dimensions after any leading ones."""

    name: str
    dims: tuple[Dim, ...]
    leading: bool = False
    optional: bool = False

    def size(self, k: int) -> str:
        """The size of dimension ``k``."""
        return f"{self.name}.shape[{k - len(self.dims) if self.leading else k}]"

    def sizes(self, start: int, stop: int) -> str:
        """The sizes of the dimensions from ``start`` up to ``stop``."""
        from_end = len(self.dims) if self.leading else 0
        first = start - from_end or ""
        last = "" if stop == len(self.dims) else stop - from_end
        return f"{self.name}.shape[{first}:{last}]" if first or last else f"{self.name}.shape"


def shape_check(layout: Layout, names: Mapping[str, str]) -> ShapeCheck | None:
    """The check of an operation whose arguments are called `names`; None where no size is declared."""
    shaped, told = [], []
    for t in layout.spec.tensors:
        if t.shape is None:
            continue
        leading = t.shape[:1] == ("...",)
        shaped.append(Shaped(names[t.name], t.shape[leading:], leading, t.default is not None))
        told.append(f"{t.name}=({names[t.name]}, {literal(t.shape)})")
    tests = list(conditions(shaped))
    condition = f"({' and '.join(tests)})" if len(tests) > 1 else "".join(tests)
    return ShapeCheck(condition, tuple(told)) if condition else None


def conditions(tensors: Iterable[Shaped]) -> Iterator[str]:
    """What holds where all shapes fit: ranks, sizes given as numbers, and equal sizes where names are equal.

    A size is compared with that of the tensor that has the name first. Tensors that may be None come last.
    """
    known: dict[Dim, tuple[Shaped, int]] = {}
    present: list[Shaped] = []
    for t in sorted(tensors, key=lambda t: t.optional):
        tests: list[str] = []
        beside: dict[str, list[str]] = {}
        # A shape as it is costs less than a part of one.
        others = sorted(present, key=lambda other: (other.leading, len(other.dims)))
        run = next(filter(None, (_run(t, other) for other in others)), None)
        if run:
            tests.append(f"{t.sizes(0, len(t.dims))} == {run}")
        elif t.dims or not t.leading:
            rank = f"{t.name}.dim()" if t.dims else f"rt.rank({t.name})"
            tests.append(f"{rank} {'>=' if t.leading else '=='} {len(t.dims)}")
            for k, dim in enumerate(t.dims):
                first, at = known.setdefault(dim, (t, k))
                if isinstance(dim, int):
                    tests.append(f"{t.size(k)} == {dim}")
                elif first.optional and first is not t:
                    beside.setdefault(first.name, []).append(f"{t.size(k)} == {first.size(at)}")
                elif (first, at) != (t, k):
                    tests.append(f"{t.size(k)} == {first.size(at)}")
        if not t.optional:
            present.append(t)
            yield from tests
            continue
        if tests:
            yield f"({t.name} is None or {' and '.join(tests)})"
        for name, equal in beside.items():
            yield f"({t.name} is None or {name} is None or {' and '.join(equal)})"


def _run(t: Shaped, other: Shaped) -> str | None:
    """The sizes of ``other`` that are all of ``t``'s, as neighbours in the same order."""
    count = len(t.dims)
    for start in range(len(other.dims) - count + 1 if count else 0):
        if other.dims[start : start + count] == t.dims:
            return other.sizes(start, start + count)
    return None
