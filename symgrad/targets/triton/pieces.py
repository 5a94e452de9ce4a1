"""What the passes of a Triton file are made of: functions of formulas, reductions, results, and loops around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from symgrad.lower.code import Code, code, constant
from symgrad.lower.program import Assign, Do, For, If, Program, Statement
from symgrad.lower.python import lines
from symgrad.targets.fused.terms import REDUCTIONS

__all__ = ["Function", "Reduction", "Staged", "Target", "assigned", "rescaling", "run", "tiles"]


@dataclass(frozen=True)
class Function:
    """One formula, or several that share parts, as a function of blocks."""

    name: str
    doc: str
    arguments: tuple[str, ...]
    program: Program

    @property
    def lines(self) -> list[str]:
        """Its lines."""
        return lines(self.program)

    @property
    def call(self) -> Code:
        """A call with arguments of the same names."""
        return code("{0}({1})", self.name, self.arguments)


@dataclass(frozen=True)
class Reduction:
    """One reduction of a row: its result, its terms, and what they are collected in."""

    name: str
    term: str
    partial: str
    op: str

    @property
    def start(self) -> Statement:
        """What the terms are collected in, before there are any."""
        return Assign(self.partial, code(f"tl.full((ROWS, BLOCK), {_NEUTRAL[self.op]}, T)"))

    @property
    def collect(self) -> Statement:
        """The collected terms and those of one more tile."""
        kept = code(f"kept({{0}}, tile, {_NEUTRAL[self.op]})", self.term)
        return Assign(self.partial, code(_COMBINED[self.op], self.partial, kept))

    @property
    def end(self) -> Statement:
        """The reduction of what was collected."""
        return Assign(self.name, code("{0}({1})", self.op, self.partial))


@dataclass(frozen=True)
class Target:
    """One result: its value, the argument that it is stored to, and how; `total` collects what a program sums.

    What stands for a whole row is there `once`.
    """

    name: str
    out: str
    how: str
    total: str = ""
    once: bool = False

    @property
    def start(self) -> Statement:
        """What is summed, before there is anything."""
        return Assign(self.total, code(f"tl.full((ROWS, {'1' if self.once else 'BLOCK'}), 0, T)"))

    def stored(self, place: str) -> Statement:
        """The statement that adds the result to a sum or writes it."""
        each = constant(not self.once)
        if not self.total:
            write = Do(code("write({0}, {1}, {2}, {3})", self.out, place, self.name, each))
            return If(code('{0} == "each"', self.how), (write,))
        parts = self.total, self.out, place, self.name, self.how, each
        return Assign(self.total, code("add({0}, {1}, {2}, {3}, {4}, {5})", *parts))


@dataclass(frozen=True)
class Staged:
    """A pass over a row: what it reduces, how that is computed for a tile, and what follows for the row."""

    reductions: tuple[Reduction, ...]
    collected: Program
    settled: Program

    @property
    def looped(self) -> Program:
        """The loop over the tiles of a row, if anything is reduced."""
        if not self.reductions:
            return ()
        loop = tiles((*self.collected, *(r.collect for r in self.reductions)))
        return (*(r.start for r in self.reductions), loop, *(r.end for r in self.reductions))


def rescaling(first: Staged, second: Staged) -> Program:
    """Two passes in one: sums of exponentials below the largest value so far are those below a larger one, rescaled."""
    (largest,) = first.reductions
    before = f"{largest.name}_before"
    body = (
        *first.collected,
        Assign(before, code("{0}", largest.name)),
        Assign(
            largest.name,
            code(f"maximum({{0}}, row_max(kept({{1}}, tile, {_NEUTRAL['row_max']})))", before, largest.term),
        ),
        *first.settled,
        *second.collected,
        *(
            Assign(r.partial, code("rescaled({0}, {1}, {2})", r.partial, before, largest.name))
            for r in second.reductions
        ),
        *(r.collect for r in second.reductions),
    )
    return (
        Assign(largest.name, code(f"tl.full((ROWS, 1), {_NEUTRAL['row_max']}, T)")),
        *(r.start for r in second.reductions),
        tiles(body),
        *first.settled,
        *(r.end for r in second.reductions),
    )


def assigned(names: Sequence[str], value: Code) -> Statement:
    return Assign(tuple(names) if len(names) > 1 else names[0], value)


def tiles(body: Program) -> Statement:
    """What is done with each tile of a row."""
    tile = Assign("tile", code("(outer, sizes, row, begin + column, row < left, begin + column < length)"))
    return For("begin", code("range(0, BLOCK if WHOLE else length, BLOCK)"), (tile, *body))


def run(body: Program, numbers: Sequence[str], sums: Sequence[Target]) -> Program:
    """What a program does: `body` for the rows of each step, and sums over them."""
    ends = [Assign(t.total, code("end_rows({0}, {1}, place, {2})", t.total, t.out, t.how)) for t in sums]
    last = Assign("place", code("(outer, sizes, 0, column, True, within)"))
    return (
        Assign("outer", code("tl.program_id(0).to(INDEX)")),
        Assign("column", code("tl.arange(0, BLOCK)[None, :]")),
        Assign("within", code("column < length - outer % sizes[0] * BLOCK")),
        Assign("left", code("rows - outer // sizes[0] % sizes[1] * RUN")),
        *(Assign(n, code("tl.full((), {0}, T)", n)) for n in numbers),
        *(t.start for t in sums),
        For(
            "step",
            code("range(0, RUN, ROWS)"),
            (
                Assign("row", code("rows_from(step, ROWS, INDEX)")),
                Assign("place", code("(outer, sizes, row, column, row < left, within)")),
                *body,
                *ends,
            ),
        ),
        *([last] if sums else []),
        *(Do(code("end_run({0}, {1}, place, {2})", t.total, t.out, t.how)) for t in sums),
    )


_NEUTRAL = {"row_sum": "0.0", "row_max": 'float("-inf")', "row_min": 'float("inf")'}
_COMBINED = {"row_sum": "{0} + {1}", "row_max": "maximum({0}, {1})", "row_min": "minimum({0}, {1})"}
assert set(REDUCTIONS) == set(_NEUTRAL) == set(_COMBINED)
