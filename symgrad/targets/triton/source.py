"""The text of the Triton file beside a module: the formulas of its passes first, what runs them after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from symgrad.accuracy.machine import machine
from symgrad.accuracy.widening import WIDEN, as_before
from symgrad.ir.expr import ZERO, Expr, make
from symgrad.ir.traversal import topological
from symgrad.lower.code import Code, code, names_in, source
from symgrad.lower.naming import Names
from symgrad.lower.program import Assign, If, Program, Statement, reads, returned
from symgrad.lower.python import lines
from symgrad.resources import environment
from symgrad.targets.constants import definitions
from symgrad.targets.formatting import format_python
from symgrad.targets.fused.kernels import Kernel
from symgrad.targets.fused.picks import known_before
from symgrad.targets.fused.rows import Stage, compared, stages
from symgrad.targets.fused.terms import FIRST, PICKS, PLACE, ROW_OPS, is_count, is_total, is_whole
from symgrad.targets.fused.writing import name_values
from symgrad.targets.torch.docs import module_docstring
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.printer import Printer
from symgrad.targets.triton.pieces import Function, Reduction, Staged, Target, assigned, rescaling, run, tiles
from symgrad.targets.triton.printer import TritonPrinter
from symgrad.targets.triton.shared import reserved, shared_names

__all__ = ["Written", "render_source"]


@dataclass(frozen=True)
class Written:
    """One pass as programs: its functions, its numbers, and what runs them."""

    name: str
    functions: tuple[Function, ...]
    given: tuple[str, ...]
    numbers: tuple[str, ...]
    computed: tuple[Code, ...]
    parameters: tuple[str, ...]
    program: Program
    by_row: bool
    entry: str

    @property
    def lines(self) -> list[str]:
        """The lines of what runs the pass."""
        return lines(self.program)

    @property
    def values(self) -> list[str]:
        """The numbers as source."""
        return [source(value) for value in self.computed]

    @property
    def reads(self) -> frozenset[str]:
        """The names that the kernel and its functions read."""
        return reads([*self.program, *(s for f in self.functions for s in f.program)])


def render_source(layout: Layout, kernels: Sequence[Kernel]) -> str:
    """The Triton source of the passes of a module, formatted."""
    constants: dict[Expr, str] = {}
    written = [_Writer(layout, kernel, constants).write() for kernel in kernels]
    context: dict[str, Any] = {
        "docstring": module_docstring(layout),
        "constants": definitions(constants),
        "kernels": written,
        "any_rows": any(w.by_row for w in written),
    }
    read = frozenset().union(*(w.reads for w in written))
    context["imported"] = sorted({"Pass", "Plan", "TritonError"} | (read & shared_names()))
    context["libdevice"] = "libdevice" in read
    context["math"] = "math" in names_in(*(value for w in written for value in w.computed))
    return format_python(environment().get_template("triton/kernels.py.j2").render(**context))


class _HostPrinter(Printer):
    """Prints numbers that Python computes: of a constant, which is a `tl.constexpr` in the file, it reads the value."""

    def _constant(self, node: Expr) -> Code:
        value = super()._constant(node)
        named = self.constants.get(node) == source(value)  # and not math.pi
        return code("{0}.value", value) if named else value


class _Writer:
    """Writes one pass."""

    def __init__(self, layout: Layout, kernel: Kernel, constants: dict[Expr, str]) -> None:
        self.layout = layout
        self.kernel = kernel
        self.constants = constants
        self.names = Names(functions=reserved())
        self.operands: dict[str, str] = {}  # what a tile reads, and a template of how
        self.functions: list[Function] = []

    def write(self) -> Written:
        """The pass as source."""
        kernel = self.kernel
        roots = machine([r.value for r in kernel.results])
        found = list(enumerate(stages(roots, kernel.reductions, kernel.keeps), not kernel.known))
        for own in ("at", "numbers", "once", *(f"{part}_{k}" for k, _ in found for part in ("terms", "row"))):
            self.names.reserve(f"{kernel.name}_{own}")
        results = [self.names.reserve(r.name) for r in kernel.results]
        known: dict[Expr, str | Code] = {}
        sources = []
        for k, operand in enumerate(kernel.operands):
            local = self.names.fresh(operand.leaf.name.partition("[")[0])
            sources.append(self.names.fresh(f"{local}_in"))
            self.operands[local] = f"read({sources[-1]}, {{0}}, VARIES & {1 << k}, T)"
            known[operand.leaf] = code("{0} != 0", local) if operand.leaf.is_boolean else local
        if any(PLACE in root.symbols for root in roots):
            known[PLACE] = local = self.names.fresh("position")
            self.operands[local] = "column_of({0}, T)"
        of_rows = {n: self.names.fresh(_WORDS[n.op]) for n in kernel.reductions}
        whole = {o.leaf: self.names.fresh(o.leaf.name.partition("[")[0]) for o in kernel.whole}
        read = {name: self.names.fresh(f"{name}_in") for name in (*of_rows.values(), *whole.values())}
        known |= of_rows | whole
        given, numbers, wide, values = self._numbers([*roots, *kernel.keeps], known)
        targets = [
            Target(
                name,
                self.names.fresh(f"{name}_out"),
                self.names.fresh(f"{name}_how"),
                self._total(name, result),
                bool(result.row),
            )
            for name, result in zip(results, kernel.results, strict=True)
        ]
        once = [(t, root) for t, root, r in zip(targets, roots, kernel.results, strict=True) if r.row]
        each = [(t, root) for t, root, r in zip(targets, roots, kernel.results, strict=True) if not r.row]
        program = list[Statement]()
        program += (Assign(name, code("read({0}, place, 0, T)", read[name])) for name in of_rows.values())
        program += (Assign(name, code("read_number({0}, place, T)", read[name])) for name in whole.values())
        program += self._picks(roots, dict(zip([o.leaf for o in kernel.operands], sources, strict=True)), known)
        program += self._stages(found, known)
        pending = [(t.name, root) for t, root in once if root not in known or root.op == "sym"]  # which read tensors
        program += self._computed("once", "What a pass computes for each row.", pending, known, "place")
        known |= {root: name for name, root in pending}
        kept = {self._local(known[n]): self.names.fresh(f"{known[n]}_kept") for n in kernel.keeps}
        more = [Target(name, out, self.names.fresh(f"{out}_how"), once=True) for name, out in kept.items()]
        rows = [*(replace(t, name=self._local(known[root])) for t, root in once), *more]
        values_of_each = [(t.name, root) for t, root in each]
        computed = self._computed("at", "What a pass computes for each element.", values_of_each, known, self._place)
        of_each: Program = (*computed, *(t.stored(self._place) for t, _ in each))
        if kernel.by_row:
            program += [tiles(of_each)] if each else []
            program += (t.stored("place") for t in rows)  # before, it would have the row read once more
        else:
            program += of_each
        flags = ["WHOLE"] if kernel.by_row else []
        constexprs = [t.how for t in (*targets, *more)] + ["VARIES", "T", "INDEX", "RUN", "ROWS", "BLOCK", *flags]
        return Written(
            name=kernel.name,
            functions=tuple(self.functions),
            given=given,
            numbers=numbers,
            computed=values,
            parameters=(
                *sources,
                *read.values(),
                *(t.out for t in (*targets, *more)),
                *(f"{n}: tl.float64" for n in numbers),
                *("rows", "length", "sizes"),
                *(f"{c}: tl.constexpr" for c in constexprs),
            ),
            program=run(tuple(program), [n for n in numbers if n not in wide], [t for t in targets if t.total]),
            by_row=kernel.by_row,
            entry=self._entry(numbers),
        )

    def _local(self, known: str | Code) -> str:
        assert isinstance(known, str)
        return known

    def _total(self, name: str, result: Any) -> str:
        summed = result.place is not None or result.total or result.reduced
        return self.names.fresh(f"{name}_sum") if summed else ""

    def _entry(self, numbers: Sequence[str]) -> str:
        name = self.kernel.name
        parts = [name, *([f"{name}_numbers"] if numbers else [])]
        means = sum(1 << k for k, r in enumerate(self.kernel.results) if r.total == "mean")
        alike = bool(compared(machine([r.value for r in self.kernel.results])))
        own = self.kernel
        traits = {"means": means, "wide": own.wide, "by_row": own.by_row, "alike": alike, "placed": own.placed}
        parts += [f"{trait}={value}" for trait, value in traits.items() if value]
        return f"Pass({', '.join(parts)})"

    # ------------------------------------------------------------------------------------------ numbers
    def _numbers(
        self, roots: Sequence[Expr], known: dict[Expr, str | Code]
    ) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[Code, ...]]:
        """The arguments that Python gives, and the numbers it computes from them: names, those in float64, and how."""
        taken = Names(frozenset(self.layout.arguments.values()))
        arguments = {
            s: taken.fresh(s.name.partition(" ")[0]) if is_count(s) else self.layout.arguments[s.name]
            for s in self.kernel.numbers
        }
        order = topological(*roots)
        read = dict.fromkeys([*roots, *(a for n in order if not n.is_static for a in n.args)])
        names: list[str] = []
        wide: list[str] = []
        values: list[Code] = []
        for node in read:
            if node.is_static and node.symbols:
                names.append(self._number_name(node, arguments))
                values.append(_HostPrinter(arguments, self.constants)(as_before(node)))
                if any(n.op == WIDEN for n in topological(node)):
                    wide.append(names[-1])
                known[node] = code("{0} != 0", names[-1]) if node.is_boolean else names[-1]
        return tuple(arguments.values()), tuple(names), tuple(wide), tuple(values)

    def _number_name(self, node: Expr, arguments: Mapping[Expr, str]) -> str:
        word = _NUMBERS.get(node.op)
        if word is None or len(node.symbols) > 1:
            return self.names.for_value(as_before(node), arguments)
        return self.names.fresh(f"{word}_{arguments[next(iter(node.symbols))]}")

    # ------------------------------------------------------------------------------------------ rows
    def _stages(self, found: Sequence[tuple[int, Stage]], known: dict[Expr, str | Code]) -> Program:
        """The passes over a row; a row that is not held is read once for two of them, where they allow it."""
        program: list[Statement] = []
        waiting = list(found)
        while waiting:
            number, stage = waiting.pop(0)
            first = self._stage(number, stage, known)
            if waiting and _rescales(stage, waiting[0][1]):
                second = self._stage(*waiting.pop(0), known)
                apart = (*first.looped, *first.settled, *second.looped)
                program += [If(code("WHOLE"), apart, rescaling(first, second)), *second.settled]
            else:
                program += [*first.looped, *first.settled]
        return tuple(program)

    def _stage(self, number: int, stage: Stage, known: dict[Expr, str | Code]) -> Staged:
        """A pass over a row; what it reduces and settles is known from then on."""
        reductions = []
        for node in stage.reductions:
            name = self.names.fresh(_WORDS[node.op])
            reductions.append(Reduction(name, f"{name}_term", f"{name}_partial", node.op))
        terms = [(r.term, node.args[0]) for r, node in zip(reductions, stage.reductions, strict=True)]
        doc = "What each element adds to its row."
        collected = self._computed(f"terms_{number}", doc, terms, known, self._place)
        known |= {n: r.name for n, r in zip(stage.reductions, reductions, strict=True)}
        follows: Program = ()
        settled = {node: self.names.for_value(node, known) for node in stage.settled}
        if settled:
            named = [(name, node) for node, name in settled.items()]
            typed = self._local(next(own for n, own in known.items() if _of_row(n)))  # no operand is at hand there
            function = self._function(f"row_{number}", "What follows for the row.", named, known, typed)
            follows = (assigned([*settled.values()], function.call),)
            known |= settled
        return Staged(tuple(reductions), collected, follows)

    def _picks(self, roots: Sequence[Expr], sources: Mapping[Expr, str], known: dict[Expr, str | Code]) -> Program:
        """What whole numbers name in a row: the places, and what the operands have there; known from then on."""
        before = known_before(topological(*roots, leaves=self.kernel.reductions))
        places = {n: self.names.fresh("at") for n in before if n.op == PICKS[0]}
        picked = {n: self.names.fresh("picked") for n in before if n.op == PICKS[1]}
        firsts = {n: self.names.fresh("first") for n in before if n.op == FIRST}
        named = [(name, n.args[0]) for n, name in places.items()]
        program = self._computed("places", "The places that whole numbers name in a row.", named, known, "place")
        own = [o.leaf for o in self.kernel.operands]
        known |= places | picked | firsts
        found = [Assign(name, code("located({0}, place, length)", name)) for name in places.values()]
        for node, name in picked.items():
            source, at = node.args
            varies = f"VARIES & {1 << own.index(source)}"
            found.append(Assign(name, code(f"read_at({{0}}, place, {{1}}, {varies}, T)", sources[source], known[at])))
        for node, name in firsts.items():
            found.append(Assign(name, code("read_at({0}, place, 0, False, T)", sources[node.args[0]])))
        return (*program, *found)

    @property
    def _place(self) -> str:
        """The name of what the elements of a tile are read at."""
        return "tile" if self.kernel.by_row else "place"

    def _computed(
        self, suffix: str, doc: str, roots: Sequence[tuple[str, Expr]], known: Mapping[Expr, str | Code], place: str
    ) -> Program:
        """Statements that compute the named roots by a function of their own, from what they read at a place."""
        if not roots:
            return ()
        function = self._function(suffix, doc, roots, known)
        return (*self._reads(function, place), assigned([name for name, _ in roots], function.call))

    def _reads(self, function: Function, place: str) -> Program:
        """Statements that read the operands of a function."""
        own = (a for a in function.arguments if a in self.operands)
        return tuple(Assign(a, code(self.operands[a], place)) for a in own)

    # ------------------------------------------------------------------------------------------ formulas
    def _function(
        self,
        suffix: str,
        doc: str,
        roots: Sequence[tuple[str, Expr]],
        known: Mapping[Expr, str | Code],
        typed: str = "",
    ) -> Function:
        """A function that computes the named roots; values used more than once have names too.

        `typed` is a value that has the dtype of the arithmetic, by default the first operand.
        """
        names = dict(known)
        values = [root for _, root in roots]
        wishes = {root: name for name, root in roots if len(roots) > 1}
        there = list(dict.fromkeys(n for own in names.values() for n in _names_of(own)))
        printer = TritonPrinter(names, self.constants, typed or there[0])
        named = name_values(values, names, self.names.copy(), printer.block, wishes)
        program = (*(Assign(name, value) for name, value in named), returned(list(map(printer.block, values))))
        read = reads(program)
        made = Function(f"{self.kernel.name}_{suffix}", doc, tuple(n for n in there if n in read), program)
        self.functions.append(made)
        return made


def _rescales(stage: Stage, following: Stage) -> bool:
    """Whether what follows sums exponentials of what a stage finds the largest of, less that or 0 if it is infinite."""
    if [n.op for n in stage.reductions] != ["row_max"] or not following.reductions:
        return False
    (largest,) = stage.reductions
    shifts = stage.settled or (largest,)
    if len(shifts) > 1 or (
        shifts != (largest,) and not (shifts[0].op == "where" and shifts[0].args[1:] == (largest, ZERO))
    ):
        return False
    (below,) = machine([make("exp", largest.args[0] - shifts[0])])
    return all(n.op == "row_sum" and n.args[0] is below for n in following.reductions)


def _of_row(value: Expr) -> bool:
    """Whether a value is one that a row has and that is known in the type of the arithmetic."""
    return value.op in ROW_OPS or is_total(value) or is_whole(value)


def _names_of(known: str | Code) -> Sequence[str]:
    return [known] if isinstance(known, str) else sorted(names_in(known))


_NUMBERS = {
    "mul": "scaled",
    "add": "shifted",
    "pow": "power_of",
    "widen": "wide",
}  # what a number is to the only one it depends on
_WORDS = {"row_sum": "row_total", "row_max": "largest", "row_min": "smallest", "sym": "total"}
