"""The text of the C++ file beside a module: the formulas of its passes first, what runs them after."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from typing import Any

from symgrad.accuracy.machine import machine
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.lower.clike import clike_lines
from symgrad.lower.code import Code, chained, code
from symgrad.lower.naming import Names
from symgrad.lower.program import Assign, Declare, If, Program, reads
from symgrad.resources import environment
from symgrad.targets.constants import definitions
from symgrad.targets.cpp.printer import CppPrinter
from symgrad.targets.cpp.shared import reserved
from symgrad.targets.fused import rows
from symgrad.targets.fused.model import Kernel, Part
from symgrad.targets.fused.picks import known_before
from symgrad.targets.fused.terms import FIRST, PICKS, PLACE
from symgrad.targets.fused.writing import name_values
from symgrad.targets.torch.docs import module_docstring, summary
from symgrad.targets.torch.layout import Layout

__all__ = ["Written", "render_source"]


@dataclass(frozen=True)
class Stage:
    """One pass over a row that reduces it: what each element adds, and what follows for the row."""

    reduce: tuple[str, ...]
    settle: tuple[str, ...]


@dataclass(frozen=True)
class Picks:
    """What is known of a row before it is read: how many whole numbers, places and elements that are picked there.

    `locate` computes the places from the numbers, `picked` are the operand and the place of each element, which is -1
    for an operand that has one for the row; `numbered`: formulas read the place of each element, after the operands.
    """

    whole: int
    places: int
    locate: tuple[str, ...]
    picked: tuple[tuple[int, int], ...]
    numbered: bool


@dataclass(frozen=True)
class Written:
    """One pass as source: lines of its function, and the arguments of its entry."""

    name: str
    operands: int
    results: int
    lines: tuple[str, ...]
    stages: tuple[Stage, ...]
    kinds: str
    stage_of: tuple[int, ...]
    slots: int
    known: int
    held: tuple[int, ...]
    keeps: int
    stored: int
    totals: int
    means: int
    sums: int
    rows: int
    wide: bool
    by_row: bool
    subsets: tuple[int, ...]
    given: tuple[str, ...]
    written: tuple[str, ...]
    numbers: tuple[str, ...]
    entry: str
    part: int
    picks: Picks | None
    read_in_pairs: int
    written_in_pairs: int

    @property
    def addresses(self) -> int:
        """How many operands and results its entry is given."""
        return len(self.given) + len(self.written)

    @property
    def arguments(self) -> str:
        """What its entry is given: operands, results and numbers."""
        return ", ".join([*self.given, *self.written, *self.numbers])


def render_source(layout: Layout, kernels: Sequence[Kernel]) -> str:
    """The C++ source of the passes of a module."""
    constants: dict[Expr, str] = {}
    written = [_Writer(layout, kernel, constants).write() for kernel in kernels]
    context: dict[str, Any] = {
        "title": summary(layout),
        "equations": _comment(module_docstring(layout)),
        "constants": definitions(constants),
        "kernels": written,
        "parts": sorted({w.part for w in written}),
        "any_rows": any(w.by_row for w in written),
    }
    template = environment().get_template("cpp/kernels.cpp.j2")
    return template.render(**context)


def _comment(docstring: str) -> list[str]:
    return docstring.replace("\\\\", "\\").split("\n")


def _bits(flags: Iterable[bool]) -> int:
    return sum(flag << k for k, flag in enumerate(flags))


def _begins_pair(part: Part | None) -> bool:
    return part is not None and part.pairs and part.index == 0


class _Writer:
    """Writes one pass."""

    def __init__(self, layout: Layout, kernel: Kernel, constants: dict[Expr, str]) -> None:
        self.layout = layout
        self.kernel = kernel
        self.constants = constants
        self.names = Names(functions=reserved())
        self.given: list[str] = []
        self.numbers: list[str] = []
        self.placed = ""  # the place of each element in its row

    def write(self) -> Written:
        """The pass as source."""
        kernel = self.kernel
        written = [self.names.reserve(r.label) for r in kernel.results]
        known: dict[Expr, str | Code] = {}
        for operand in kernel.operands:
            local = self.names.fresh(operand.leaf.name.partition("[")[0])
            self.given.append(local)
            known[operand.leaf] = code("{0} != 0", local) if operand.leaf.is_boolean else local
        if any(PLACE in r.value.symbols for r in kernel.results):
            self.placed = self.names.fresh("place")
            known[PLACE] = self.placed
        whole = [self.names.fresh(o.leaf.name.partition("[")[0]) for o in kernel.whole]
        statistics = [self.names.fresh(f"known{k}") for k, _ in enumerate(kernel.known)]
        keeps = [self.names.fresh(f"kept{k}") for k, _ in enumerate(kernel.keeps)]
        for symbol in kernel.numbers:
            self.numbers.append(self.names.fresh(symbol.name.partition(" ")[0]))
            known[symbol] = code("{0} != 0", self.numbers[-1]) if symbol["kind"] == "bool" else self.numbers[-1]
        roots = machine([r.value for r in kernel.results])
        found = rows.stages(roots, kernel.reductions, kernel.keeps)
        reductions = [n for stage in found for n in stage.reductions]
        slots = len(reductions) + sum(len(stage.settled) for stage in found)
        before = (*kernel.reductions, *self._before(roots))
        known |= {n: code("row[{0}]", k) for k, n in enumerate(before, slots)}
        held = [v for v in rows.compared(roots) if v not in known]  # an operand is what it is wherever it is read
        stages, kinds, stage_of, held_in = self._stages(found, known, held)
        places = [code("result[{0}]", k) for k in range(len(written))]
        program = self._statements(roots, places, known)
        if len(written) > 1:
            chosen = (If(code("wanted >> {0} & 1", k), (s,)) for k, s in enumerate(program[-len(written) :]))
            program = (*program[: -len(written)], *chosen)
        return Written(
            name="".join(part.capitalize() for part in kernel.name.split("_")),
            operands=len(self.given),
            results=len(written),
            lines=self._unpacked(program),
            stages=stages,
            kinds=kinds,
            stage_of=stage_of,
            slots=slots + len(before),
            known=len(kernel.known),
            held=held_in,
            keeps=_bits(n in kernel.keeps for n in reductions),
            stored=_bits(r.place is None and not (r.total or r.reduced or r.row) for r in kernel.results),
            totals=_bits(bool(r.total) for r in kernel.results),
            sums=_bits(r.leaf is not None for r in kernel.results),
            means=_bits(r.total == "mean" for r in kernel.results),
            rows=_bits(bool(r.row) for r in kernel.results),
            wide=kernel.wide,
            by_row=kernel.by_row,
            subsets=kernel.subsets,
            given=(*self.given, *statistics, *whole),
            written=(*written, *keeps),
            numbers=tuple(self.numbers),
            entry=kernel.name,
            part=kernel.part,
            picks=self._picks(roots, known) if kernel.placed or self._before(roots) else None,
            read_in_pairs=_bits(_begins_pair(o.part) for o in kernel.operands),
            written_in_pairs=_bits(_begins_pair(r.part) for r in kernel.results),
        )

    # ------------------------------------------------------------------------------------------ rows
    def _stages(
        self, found: Sequence[rows.Stage], known: dict[Expr, str | Code], held: Sequence[Expr]
    ) -> tuple[tuple[Stage, ...], str, tuple[int, ...], tuple[int, ...]]:
        """The passes over a row that reduce it, before the one that writes; what each reduction is, and its stage.

        After each of them, what follows from the reductions alone is computed once for the row. The last numbers are
        the stages that compute the values that are `held`: later ones read these, after the operands.
        """
        reductions = [n for stage in found for n in stage.reductions]
        slots = {n: k for k, n in enumerate([*reductions, *(n for stage in found for n in stage.settled)])}
        stages: list[Stage] = []
        held_in: dict[Expr, int] = {}
        for stage in found:
            members = stage.reductions
            collected = [code("partial[{0}]", slots[n]) for n in members]
            later = [v for n in members for v in n.args if v in held and v not in known]
            own = {v: code("given[{0}]", len(self.given) + bool(self.placed) + held.index(v)) for v in later}
            combined = [_COMBINED[n.op] for n in members]
            program = self._statements([n.args[0] for n in members], collected, known, combined, own)
            known |= own
            held_in |= dict.fromkeys(own, len(stages))
            known |= {n: code("row[{0}]", slots[n]) for n in members}
            follows = {n: code("row[{0}]", slots[n]) for n in stage.settled}
            settled = self._statements(stage.settled, list(follows.values()), known)
            known |= follows
            stages.append(Stage(self._unpacked(program), self._unpacked(settled)))
        return (
            tuple(stages),
            "".join(_KINDS[n.op] for n in reductions),
            tuple(k for k, stage in enumerate(found) for _ in stage.reductions),
            tuple(held_in[v] for v in held),
        )

    def _before(self, roots: Sequence[Expr]) -> tuple[Expr, ...]:
        """What is known of a row before it is read, in the order of its slots."""
        picked = known_before(topological(*roots, leaves=self.kernel.reductions))
        return (*(o.leaf for o in self.kernel.whole), *(n for n in picked if n.op in (*PICKS, FIRST)))

    def _picks(self, roots: Sequence[Expr], known: Mapping[Expr, str | Code]) -> Picks:
        before = self._before(roots)
        places = [n for n in before if n.op == "row_place"]
        elements = [n for n in before if n.op in ("row_at", FIRST)]
        operands = [o.leaf for o in self.kernel.operands]
        slots = [known[n] for n in places]
        located = self._statements([n.args[0] for n in places], [s for s in slots if not isinstance(s, str)], known)
        found = [places.index(n.args[1]) if n.op == "row_at" else -1 for n in elements]
        picked = tuple((operands.index(n.args[0]), place) for n, place in zip(elements, found, strict=True))
        return Picks(len(self.kernel.whole), len(places), self._unpacked(located), picked, bool(self.placed))

    def _unpacked(self, program: Program) -> tuple[str, ...]:
        """The lines of a program, after the declarations of the operands and numbers that it reads."""
        read = reads(program)
        given = [(g, code("given[{0}]", k)) for k, g in enumerate((*self.given, self.placed)) if g in read]
        numbers = [(n, code("number[{0}]", k)) for k, n in enumerate(self.numbers) if n in read]
        declared = [Declare(kind, tuple(own)) for kind, own in (("V", given), ("double", numbers)) if own]
        return tuple(clike_lines((*declared, *program)))

    # ------------------------------------------------------------------------------------------ statements
    def _statements(
        self,
        roots: Sequence[Expr],
        places: Sequence[Code],
        known: Mapping[Expr, str | Code],
        combined: Sequence[Callable[[Code, Code], Code]] = (),
        held: Mapping[Expr, Code] | None = None,
    ) -> Program:
        """Statements that put the roots in their places, where they may be combined with what stands there.

        Values used more than once have names, those that are `held` places.
        """
        names = dict(known)
        printer = CppPrinter(names, self.constants)
        named = name_values(roots, names, self.names.copy(), printer, held)
        values: Iterable[Code] = map(printer.lanes, roots)
        if combined:
            values = (combine(place, value) for combine, place, value in zip(combined, places, values, strict=True))
        return (*starmap(Assign, named), *map(Assign, places, values))


_COMBINED: Mapping[str, Callable[[Code, Code], Code]] = {
    "row_sum": partial(chained, "+"),
    "row_max": partial(code, "maximum({0}, {1})"),
    "row_min": partial(code, "minimum({0}, {1})"),
}
_KINDS = {"row_sum": "+", "row_max": ">", "row_min": "<"}
