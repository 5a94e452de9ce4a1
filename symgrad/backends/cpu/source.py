"""The text of the C++ file beside a module: the formulas of its passes first, what runs them after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from symgrad.backends.cpu.elements import ROW_OPS
from symgrad.backends.cpu.kernels import Kernel
from symgrad.backends.cpu.plumbing import plumbing, reserved
from symgrad.backends.cpu.printer import CppPrinter
from symgrad.backends.torch.docs import module_docstring, summary
from symgrad.backends.torch.layout import Layout
from symgrad.backends.torch.printer import constant_value
from symgrad.backends.torch.schedule import _choose_temporaries
from symgrad.expr import Expr, topological
from symgrad.formula import formula
from symgrad.machine import machine
from symgrad.naming import Names
from symgrad.resources import environment


@dataclass(frozen=True)
class Written:
    """One pass as source: lines of its function, and the arguments of its entry."""

    name: str
    title: str
    operands: int
    results: int
    lines: tuple[str, ...]
    stages: tuple[tuple[str, ...], ...]
    kinds: str
    stage_of: tuple[int, ...]
    means: int
    rows: int
    wide: bool
    by_row: bool
    subsets: tuple[int, ...]
    given: tuple[str, ...]
    written: tuple[str, ...]
    numbers: tuple[str, ...]
    entry: str

    @property
    def parameters(self) -> str:
        """The arguments of the entry."""
        parts = ["unsigned wanted"] if len(self.subsets) > 1 else []
        parts += [f"const void* {g}" for g in self.given]
        parts += [f"void* {r}" for r in self.written]
        parts += [f"double {n}" for n in self.numbers]
        return ", ".join([*parts, "const int64_t* geometry", "int threads"])

    @property
    def data(self) -> str:
        """The addresses of operands and results."""
        return ", ".join([*(f"const_cast<void*>({g})" for g in self.given), *self.written])


def render_source(layout: Layout, kernels: Sequence[Kernel]) -> str:
    """The C++ source of the passes of a module."""
    constants: dict[Expr, str] = {}
    written = [_Writer(layout, kernel, constants).write() for kernel in kernels]
    context: dict[str, Any] = {
        "title": summary(layout),
        "equations": _comment(module_docstring(layout)),
        "constants": [(name, repr(constant_value(node)), formula(node)) for node, name in constants.items()],
        "kernels": written,
        "any_rows": any(w.by_row for w in written),
    }
    template = environment().get_template("cpu/kernels.cpp.j2")
    draft = template.render(**context, plumbing="")
    return template.render(**context, plumbing=plumbing(draft))


def _comment(docstring: str) -> list[str]:
    return docstring.replace("\\\\", "\\").split("\n")


class _Writer:
    """Writes one pass."""

    def __init__(self, layout: Layout, kernel: Kernel, constants: dict[Expr, str]) -> None:
        self.layout = layout
        self.kernel = kernel
        self.constants = constants
        self.names = Names(reserved())

    def write(self) -> Written:
        kernel = self.kernel
        results = [self.names.reserve(r.name) for r in kernel.results]
        known: dict[Expr, str] = {}
        given: list[str] = []
        for operand in kernel.operands:
            tensor = operand.leaf.name.partition("[")[0]
            local = self.names.reserve(tensor if tensor not in given else f"{tensor}_view")
            given.append(local)
            known[operand.leaf] = f"({local} != 0)" if operand.leaf.is_boolean else local
        numbers = [self.names.reserve(n.name) for n in kernel.numbers]
        for symbol, local in zip(kernel.numbers, numbers, strict=True):
            known[symbol] = f"({local} != 0)" if symbol["kind"] == "bool" else local
        unpacked = [f"const V {', '.join(f'{g} = given[{k}]' for k, g in enumerate(given))};"]
        if numbers:
            unpacked.append(f"const double {', '.join(f'{n} = number[{k}]' for k, n in enumerate(numbers))};")
        roots = machine([r.value for r in kernel.results])
        stages, kinds, stage_of = self._stages(roots, known, unpacked)
        lines = self._statements(roots, [f"result[{k}] = {{}};" for k in range(len(results))], known, len(results) > 1)
        means = sum(1 << k for k, r in enumerate(kernel.results) if r.total == "mean")
        rows = sum(1 << k for k, r in enumerate(kernel.results) if r.row)
        return Written(
            "".join(part.capitalize() for part in kernel.name.split("_")),
            ", ".join(results),
            len(given),
            len(results),
            (*unpacked, *lines),
            stages,
            kinds,
            stage_of,
            means,
            rows,
            kernel.wide,
            kernel.by_row,
            kernel.subsets,
            tuple(given),
            tuple(results),
            tuple(numbers),
            kernel.name,
        )

    # ------------------------------------------------------------------------------------------ rows
    def _stages(
        self, roots: Sequence[Expr], known: dict[Expr, str], unpacked: Sequence[str]
    ) -> tuple[tuple[tuple[str, ...], ...], str, tuple[int, ...]]:
        """The passes over a row that reduce it, before the one that writes; and what each reduction is."""
        depth: dict[Expr, int] = {}
        reductions: list[Expr] = []
        for node in topological(*roots):
            depth[node] = max((depth[a] for a in node.args), default=0)
            if node.op in ROW_OPS:
                reductions.append(node)
                depth[node] += 1
        stages: list[tuple[str, ...]] = []
        own = dict(known)
        for stage in range(1, max((depth[n] for n in reductions), default=0) + 1):
            members = [n for n in reductions if depth[n] == stage]
            places = [reductions.index(n) for n in members]
            templates = [_ACCUMULATE[n.op].replace("#", str(k)) for n, k in zip(members, places, strict=True)]
            lines = self._statements([n.args[0] for n in members], templates, own, False)
            stages.append((*unpacked, *lines))
            own |= {n: f"row[{k}]" for n, k in zip(members, places, strict=True)}
        known |= own
        return tuple(stages), "".join(_KINDS[n.op] for n in reductions), tuple(depth[n] - 1 for n in reductions)

    # ------------------------------------------------------------------------------------------ statements
    def _statements(
        self, roots: Sequence[Expr], templates: Sequence[str], known: dict[Expr, str], chosen: bool
    ) -> list[str]:
        """Statements that compute the roots; values used more than once have names."""
        names = dict(known)
        local = Names(self.names._taken)
        leaves = frozenset(names)
        order = [n for n in topological(*roots, leaves=leaves) if n not in names]
        temporaries = _choose_temporaries(roots, order, names)
        lines = []
        for node in order:
            if node in temporaries:
                text = CppPrinter(names, self.constants)(node)
                names[node] = local.for_value(node, {**names, **{n: "row" for n in names if n.op in ROW_OPS}})
                lines.append(f"const auto {names[node]} = {text};")
        printer = CppPrinter(names, self.constants)
        for k, (root, template) in enumerate(zip(roots, templates, strict=True)):
            line = template.format(printer.lanes(root))
            lines.append(f"if constexpr (wanted >> {k} & 1) {line}" if chosen else line)
        return lines


_ACCUMULATE = {
    "row_sum": "partial[#] = partial[#] + {};",
    "row_max": "partial[#] = maximum(partial[#], {});",
    "row_min": "partial[#] = minimum(partial[#], {});",
}
_KINDS = {"row_sum": "+", "row_max": ">", "row_min": "<"}

__all__ = ["Written", "render_source"]
