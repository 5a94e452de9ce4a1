"""The text of the Triton file beside a module: the formulas of its passes first, what runs them after."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from symgrad.accuracy.machine import machine
from symgrad.accuracy.widening import WIDEN, as_before
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.lower.code import Code, code
from symgrad.parse.formula import formula
from symgrad.resources import environment
from symgrad.targets.constants import constant_value
from symgrad.targets.formatting import format_python
from symgrad.targets.free_names import free_names
from symgrad.targets.fused.elements import ROW_OPS
from symgrad.targets.fused.kernels import Kernel
from symgrad.targets.fused.rows import Stage, compared, stages
from symgrad.targets.fused.writing import name_values
from symgrad.targets.naming import Names
from symgrad.targets.torch.docs import module_docstring
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.printer import Printer
from symgrad.targets.triton.printer import TritonPrinter
from symgrad.targets.triton.shared import reserved, shared_names

__all__ = ["Written", "render_source"]


@dataclass(frozen=True)
class Function:
    """One formula, or several that share parts, as a function of blocks."""

    name: str
    doc: str
    arguments: tuple[str, ...]
    lines: tuple[str, ...]
    returned: str

    @property
    def call(self) -> str:
        """A call with arguments of the same names."""
        return f"{self.name}({', '.join(self.arguments)})"


@dataclass(frozen=True)
class Reduction:
    """One reduction of a row: its result, its terms, and what they are collected in."""

    name: str
    term: str
    partial: str
    op: str

    @property
    def neutral(self) -> str:
        """What it starts with."""
        return _NEUTRAL[self.op]

    @property
    def combined(self) -> str:
        """The collected terms and those of one more tile."""
        return _COMBINED[self.op].format(self.partial, f"kept({self.term}, tile, {self.neutral})")


@dataclass(frozen=True)
class RowStage:
    """One pass over a row that reduces it, and what is computed once for the row then."""

    reads: tuple[str, ...]
    call: str
    reductions: tuple[Reduction, ...]
    settled: tuple[str, ...]
    settling: str


@dataclass(frozen=True)
class Target:
    """One result: its value, the argument that it is stored to, and how; `total` collects what a program sums."""

    name: str
    out: str
    how: str
    total: str = ""


@dataclass(frozen=True)
class Written:
    """One pass as source."""

    name: str
    functions: tuple[Function, ...]
    given: tuple[str, ...]
    numbers: tuple[str, ...]
    wide_numbers: tuple[str, ...]
    values: tuple[str, ...]
    parameters: tuple[str, ...]
    stages: tuple[RowStage, ...]
    row_lines: tuple[str, ...]
    lines: tuple[str, ...]
    results: tuple[Target, ...]
    known: tuple[str, ...]
    once: tuple[Target, ...]
    sums: tuple[Target, ...]
    by_row: bool
    entry: str


def render_source(layout: Layout, kernels: Sequence[Kernel]) -> str:
    """The Triton source of the passes of a module, formatted."""
    constants: dict[Expr, str] = {}
    written = [_Writer(layout, kernel, constants).write() for kernel in kernels]
    context: dict[str, Any] = {
        "docstring": module_docstring(layout),
        "constants": [(name, repr(constant_value(node)), formula(node)) for node, name in constants.items()],
        "kernels": written,
        "any_rows": any(w.by_row for w in written),
    }
    template = environment().get_template("triton/kernels.py.j2")
    draft = template.render(**context, imported=[], libdevice=False, math=False)
    imported = sorted({"Pass", "Plan", "TritonError"} | shared_names(draft))
    libdevice = "libdevice." in draft
    math = "math" in free_names(template.render(**context, imported=imported, libdevice=libdevice, math=False))
    return format_python(template.render(**context, imported=imported, libdevice=libdevice, math=math))


class _HostPrinter(Printer):
    """Prints numbers that Python computes: of a constant, which is a `tl.constexpr` in the file, it reads the value."""

    def _constant(self, node: Expr) -> Code:
        value = super()._constant(node)
        return code("{0}.value", value) if node in self.constants else value


class _Writer:
    """Writes one pass."""

    def __init__(self, layout: Layout, kernel: Kernel, constants: dict[Expr, str]) -> None:
        self.layout = layout
        self.kernel = kernel
        self.constants = constants
        self.names = Names(reserved())
        self.operands: dict[str, str] = {}  # what a tile reads, and how
        self.functions: list[Function] = []

    def write(self) -> Written:
        """The pass as source."""
        kernel = self.kernel
        roots = machine([r.value for r in kernel.results])
        found = list(enumerate(stages(roots, kernel.reductions), not kernel.known))
        for own in ("at", "numbers", "once", *(f"{part}_{k}" for k, _ in found for part in ("terms", "row"))):
            self.names.reserve(f"{kernel.name}_{own}")
        results = [self.names.reserve(r.name) for r in kernel.results]
        known: dict[Expr, str] = {}
        sources = []
        for k, operand in enumerate(kernel.operands):
            local = self.names.fresh(operand.leaf.name.partition("[")[0])
            sources.append(self.names.fresh(f"{local}_in"))
            self.operands[local] = f"{local} = read({sources[-1]}, #, VARIES & {1 << k}, T)"
            known[operand.leaf] = f"({local} != 0)" if operand.leaf.is_boolean else local
        statistics = {n: self.names.fresh(_WORDS[n.op]) for n in kernel.reductions}
        read = {name: self.names.fresh(f"{name}_in") for name in statistics.values()}
        sources += read.values()
        known |= statistics
        given, numbers, wide, values = self._numbers(roots, known)
        targets = [
            Target(name, self.names.fresh(f"{name}_out"), self.names.fresh(f"{name}_how"), self._total(name, result))
            for name, result in zip(results, kernel.results, strict=True)
        ]
        row_stages = tuple(self._stage(number, s, known) for number, s in found)
        once = [(t, root) for t, root, r in zip(targets, roots, kernel.results, strict=True) if r.row]
        each = [(t, root) for t, root, r in zip(targets, roots, kernel.results, strict=True) if not r.row]
        pending = [(t.name, root) for t, root in once if root not in known or root.op == "sym"]  # which read tensors
        row_lines = self._lines("once", "What a pass computes for each row.", pending, known, "place")
        known |= {root: name for name, root in pending}
        kept = {known[n]: self.names.fresh(f"{known[n]}_kept") for n in kernel.keeps}
        stored = [Target(name, out, self.names.fresh(f"{out}_how")) for name, out in kept.items()]
        values_of_each = [(t.name, root) for t, root in each]
        lines = self._lines("at", "What a pass computes for each element.", values_of_each, known, self._place)
        flags = ["WHOLE"] if kernel.by_row else []
        constexprs = [t.how for t in (*targets, *stored)] + ["VARIES", "T", "INDEX", "RUN", "ROWS", "BLOCK", *flags]
        return Written(
            name=kernel.name,
            functions=tuple(self.functions),
            given=given,
            numbers=numbers,
            wide_numbers=wide,
            values=values,
            parameters=(
                *sources,
                *(t.out for t in (*targets, *stored)),
                *(f"{n}: tl.float64" for n in numbers),
                *("rows", "length", "sizes"),
                *(f"{c}: tl.constexpr" for c in constexprs),
            ),
            stages=row_stages,
            row_lines=row_lines,
            lines=lines,
            results=tuple(t for t, _ in each),
            known=tuple(f"{name} = read({source}, place, 0, T)" for name, source in read.items()),
            once=(*(replace(t, name=known[root]) for t, root in once), *stored),
            sums=tuple(t for t in targets if t.total),
            by_row=kernel.by_row,
            entry=self._entry(numbers),
        )

    def _total(self, name: str, result: Any) -> str:
        return self.names.fresh(f"{name}_sum") if result.place is not None or result.total else ""

    def _entry(self, numbers: Sequence[str]) -> str:
        name = self.kernel.name
        parts = [name, *([f"{name}_numbers"] if numbers else [])]
        means = sum(1 << k for k, r in enumerate(self.kernel.results) if r.total == "mean")
        alike = bool(compared(machine([r.value for r in self.kernel.results])))
        traits = {"means": means, "wide": self.kernel.wide, "by_row": self.kernel.by_row, "alike": alike}
        parts += [f"{trait}={value}" for trait, value in traits.items() if value]
        return f"Pass({', '.join(parts)})"

    # ------------------------------------------------------------------------------------------ numbers
    def _numbers(
        self, roots: Sequence[Expr], known: dict[Expr, str]
    ) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """The arguments that Python gives, and the numbers it computes from them: names, those in float64, and how."""
        arguments = {s: self.layout.arguments.get(s.name, s.name) for s in self.kernel.numbers}
        order = topological(*roots)
        read = dict.fromkeys([*roots, *(a for n in order if not n.is_static for a in n.args)])
        names: list[str] = []
        wide: list[str] = []
        values: list[str] = []
        for node in read:
            if node.is_static and node.symbols:
                names.append(self._number_name(node))
                values.append(_HostPrinter(arguments, self.constants).text(as_before(node)))
                if any(n.op == WIDEN for n in topological(node)):
                    wide.append(names[-1])
                known[node] = f"({names[-1]} != 0)" if node.is_boolean else names[-1]
        return tuple(arguments.values()), tuple(names), tuple(wide), tuple(values)

    def _number_name(self, node: Expr) -> str:
        word = _NUMBERS.get(node.op)
        if word is None or len(node.symbols) > 1:
            return self.names.for_value(as_before(node), {})
        return self.names.fresh(f"{word}_{next(iter(node.symbols)).name}")

    # ------------------------------------------------------------------------------------------ rows
    def _stage(self, number: int, stage: Stage, known: dict[Expr, str]) -> RowStage:
        """A pass over a row as source; what it reduces and settles is known from then on."""
        reductions = []
        for node in stage.reductions:
            name = self.names.fresh(_WORDS[node.op])
            reductions.append(Reduction(name, f"{name}_term", f"{name}_partial", node.op))
        terms = [(r.term, node.args[0]) for r, node in zip(reductions, stage.reductions, strict=True)]
        doc = "What each element adds to its row."
        collected = self._function(f"terms_{number}", doc, terms, known) if terms else None
        known |= {n: r.name for n, r in zip(stage.reductions, reductions, strict=True)}
        settling = ""
        described = {n: t for n, t in known.items() if t.isidentifier()}
        settled = {node: self.names.for_value(node, described) for node in stage.settled}
        if settled:
            named = [(name, node) for node, name in settled.items()]
            typed = next(known[n] for n in known if n.op in ROW_OPS)  # no operand is at hand there
            settling = self._function(f"row_{number}", "What follows for the row.", named, known, typed).call
            known |= settled
        reads, call = (self._reads(collected, self._place), collected.call) if collected is not None else ((), "")
        return RowStage(reads, call, tuple(reductions), tuple(settled.values()), settling)

    @property
    def _place(self) -> str:
        """The name of what the elements of a tile are read at."""
        return "tile" if self.kernel.by_row else "place"

    def _lines(
        self, suffix: str, doc: str, roots: Sequence[tuple[str, Expr]], known: Mapping[Expr, str], place: str
    ) -> tuple[str, ...]:
        """Lines that compute the named roots by a function of their own, from what they read at a place."""
        if not roots:
            return ()
        function = self._function(suffix, doc, roots, known)
        return *self._reads(function, place), f"{', '.join(name for name, _ in roots)} = {function.call}"

    def _reads(self, function: Function, place: str) -> tuple[str, ...]:
        """Lines that read the operands of a function."""
        return tuple(self.operands[a].replace("#", place) for a in function.arguments if a in self.operands)

    # ------------------------------------------------------------------------------------------ formulas
    def _function(
        self, suffix: str, doc: str, roots: Sequence[tuple[str, Expr]], known: Mapping[Expr, str], typed: str = ""
    ) -> Function:
        """A function that computes the named roots; values used more than once have names too.

        `typed` is a value that has the dtype of the arithmetic, by default the first operand.
        """
        names = dict(known)
        values = [root for _, root in roots]
        wishes = {root: name for name, root in roots if len(roots) > 1}
        texts = [n.strip("()").partition(" ")[0] for n in names.values()]
        printer = TritonPrinter(names, self.constants, typed or texts[0])
        named = name_values(values, names, self.names.copy(), printer.block, wishes)
        lines = [f"{name} = {text}" for name, text in named]
        returned = ", ".join(map(printer.block, values))
        words = frozenset(re.findall(r"\w+", "\n".join([*lines, returned])))
        arguments = tuple(dict.fromkeys(t for t in texts if t in words))
        made = Function(f"{self.kernel.name}_{suffix}", doc, arguments, tuple(lines), returned)
        self.functions.append(made)
        return made


_NUMBERS = {
    "mul": "scaled",
    "add": "shifted",
    "pow": "power_of",
    "widen": "wide",
}  # what a number is to the only one it depends on
_WORDS = {"row_sum": "row_total", "row_max": "largest", "row_min": "smallest"}
_NEUTRAL = {"row_sum": "0.0", "row_max": 'float("-inf")', "row_min": 'float("inf")'}
_COMBINED = {"row_sum": "{} + {}", "row_max": "maximum({}, {})", "row_min": "minimum({}, {})"}
assert set(ROW_OPS) == set(_WORDS)
