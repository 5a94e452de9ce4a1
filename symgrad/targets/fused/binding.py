"""What a module knows of its fused passes: their entries, and the Function that runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from symgrad.accuracy.cost import cost
from symgrad.accuracy.machine import machine
from symgrad.accuracy.widening import DOUBLE, without_float64
from symgrad.compiler.operation import Variant
from symgrad.compiler.second import NOT_ASKED
from symgrad.ir.expr import Expr, symbol
from symgrad.ir.traversal import topological
from symgrad.lower.code import constant, source
from symgrad.lower.conditionals import branches
from symgrad.lower.naming import Names
from symgrad.lower.program import Program, Return
from symgrad.targets.fused.kernels import kernels
from symgrad.targets.fused.language import Language
from symgrad.targets.fused.model import Kernel, Kernels, Operand, Part, Result
from symgrad.targets.fused.terms import ROW_OPS, is_count
from symgrad.targets.fused.totals import is_late
from symgrad.targets.literals import tuple_of
from symgrad.targets.torch.dtypes import has_places
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.printer import Printer

__all__ = ["Fused", "fused"]


@dataclass(frozen=True)
class Fused:
    """The fused passes of a module: the texts of their files by name, and what the module says of them.

    `definitions` are its lines that bind the files, `choose` the program of the function that tells which passes serve
    a call, empty where there is no choice; `note` is for its docstring. `kept` is the most tensors that forward keeps
    beside what the plan saves; `shared` are files that those of a folder share. `kernels` are the passes.
    """

    files: dict[str, str]
    definitions: tuple[str, ...]
    choose: Program
    note: str
    kept: int = 0
    shared: dict[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    kernels: tuple[Kernel, ...] = ()


def fused(layout: Layout, languages: Sequence[Language], unasked: Sequence[Language] = ()) -> Fused:
    """The fused passes of an operation, and why others are `missing`. The first of the languages has all that are; of
    those `unasked` for the docstring alone speaks."""
    by_variant: dict[int, Kernels] = {}
    found: list[Kernel] = []
    for number, variant in enumerate(layout.variants, 1):
        suffix = "" if number == 1 else f"_{number}"
        own = kernels(layout, variant, suffix, languages[0].can_spell)
        why = _idle(own) if layout.spec.options.kernels == "auto" and own.forward else ""
        if why:
            own = Kernels(None, None, tuple((method, why) for method in ("forward", "backward")))
        by_variant[id(variant)] = own
        found += own.all
    files = {}
    runners = []
    shared: dict[str, str] = {}
    for language in languages:
        own_passes = [_for(language, k) for k in found if _is_written(k, language)]
        if own_passes:
            name, text = f"{layout.spec.op}{language.suffix}", language.render(layout, own_passes)
            files[name] = text
            shared |= language.shared()
            body = text[text.index(language.start) :]
            runners.append((language.runner, name, sha256(body.encode()).hexdigest()))
    missing = _missing(list(by_variant.values()), found, languages)
    binding = _Binding(layout, by_variant, found)
    if not files:
        return Fused({}, (), (), "", missing=missing)
    definitions = (binding.library(runners), binding.table())
    elsewhere = {own.device: all(_is_written(k, own) for k in found) for own in unasked}
    note = binding.note([name for _, name, _ in runners], elsewhere)
    return Fused(files, definitions, binding.choose(), note, binding.kept, shared, missing, tuple(found))


def _idle(passes: Kernels) -> str:
    """Why passes that nobody asked for would not be faster than eager operations; nothing if they would.

    A pass reads and writes what one eager operation does: there must be more of these than results.
    """
    results = [r for k in (passes.forward, passes.backward) if k is not None for r in k.results]
    if passes.backward is None:
        return f"backward has none: {dict(passes.missing)['backward']}"
    nodes = topological(*machine([r.value for r in results]))
    if any((r.total and r.value.tensors) or r.reduced for r in results) or any(n.op in ROW_OPS for n in nodes):
        return ""
    operations = sum(cost(*(r.value for r in k.results)) for k in (passes.forward, passes.backward) if k is not None)
    return "torch has one operation for each result" if operations <= len(results) else ""


def _missing(by_variant: Sequence[Kernels], found: Sequence[Kernel], languages: Sequence[Language]) -> tuple[str, ...]:
    """A line for each reason why a part of the operation is left to eager operations."""
    reasons: dict[str, dict[str, None]] = {}
    for passes in by_variant:
        for method, why in passes.missing:
            if why != NOT_ASKED:
                reasons.setdefault(why, {})[method] = None
    lines = [f"no kernel for {_listed(list(methods))}: {why}" for why, methods in reasons.items()]
    for language in languages[1:]:
        lacking = [k for k in found if not _is_written(k, language)]
        if lacking:
            nodes = topological(*machine([r.value for k in lacking for r in k.results]))
            ops = list(dict.fromkeys(n.op for n in nodes if not language.can_spell(n)))
            ops += ["parts of a dimension"] if not language.has_parts and any(k.has_parts for k in lacking) else []
            which = _listed(list(dict.fromkeys(_KINDS[k.name.partition("_")[0]] for k in lacking)))
            lines.append(f"no {language.name} for {which}: {_listed(ops)}")
    return tuple(lines)


_KINDS = {
    "forward": "forward",
    "backward": "backward",
    "jvp": "forward mode",
    "second": "second derivatives",
}


def _is_written(kernel: Kernel, language: Language) -> bool:
    """Whether a language has a pass and all of its functions."""
    lowered = machine([r.value for r in _for(language, kernel).results])
    return (language.has_parts or not kernel.has_parts) and all(map(language.can_spell, topological(*lowered)))


def _for(language: Language, kernel: Kernel) -> Kernel:
    """A pass for a language: all of it in float64 where some of it is to be, and the language has only one type."""
    doubles = [n for n in topological(*(r.value for r in kernel.results)) if n.op == DOUBLE]
    if all(map(language.can_spell, doubles)):
        return kernel
    return replace(kernel, results=tuple(replace(r, value=without_float64(r.value)) for r in kernel.results), wide=True)


class _Binding:
    """The Python side of the passes of one module."""

    def __init__(self, layout: Layout, by_variant: dict[int, Kernels], found: Sequence[Kernel]) -> None:
        self.layout = layout
        self.by_variant = by_variant
        self.found = found

    @property
    def kept(self) -> int:
        """The most tensors that a pass keeps: of numbers for each row, and of sums over everything."""
        return max((len(k.keeps) + len(k.given) for k in self.found), default=0)

    def library(self, runners: Sequence[tuple[str, str, str]]) -> str:
        """The definition of what compiles and calls the passes."""
        (runner, file, digest), *others = runners
        parts = 1 + max(k.part for k in self.found)
        elsewhere = "".join(f', rtk.{r}(__file__, "{f}", "{d}")' for r, f, d in others)
        least = f", least={_LEAST}" if self.layout.spec.options.kernels == "auto" else ""
        floats = (
            ", floats=True" if any(has_places(f) for v in self.layout.variants for f in v.formulas.values()) else ""
        )
        return f'_kernels = rtk.{runner}(__file__, "{file}", "{digest}", {parts}{elsewhere}{least}{floats})'

    def table(self) -> str:
        """The definition of the table of passes."""
        spec = self.layout.spec
        passes = tuple_of([self._passes(v) for v in self.layout.variants])
        parts = ["_kernels", str(len(spec.tensors)), passes]
        cotangents = tuple(k for k, o in enumerate(spec.outputs) if o.grad)
        if cotangents != (0,):
            parts.append(f"cotangents={cotangents!r}")
        if len(self.layout.variants) > 1:
            parts.append(f"choose={self.layout.class_name}Function.kernels")
        return f"_passes = rtk.Kernels({', '.join(parts)})"

    def choose(self) -> Program:
        """The program of the function that tells which passes serve a call."""
        layout = self.layout
        if len(layout.variants) == 1:
            return ()
        places = {id(v): k for k, v in enumerate(layout.variants)}
        printer = Printer(layout.symbols(), layout.constants)
        return branches(layout.operation.body, lambda v: (Return(constant(places[id(v)])),), printer)

    def _passes(self, variant: Variant) -> str:
        own = self.by_variant[id(variant)]
        parts = []
        if own.forward is not None:
            parts.append(f"forward={self._entry(own.forward)}")
        if own.backward is not None:
            places = [r.place or 0 for r in own.backward.returned]
            parts.append(f"backward={self._entry(own.backward, places)}")
        if own.tangents:
            parts.append(f"tangents={{{', '.join(f'{b}: {self._entry(k)}' for b, k in own.tangents.items())}}}")
        if own.second:
            rows = (f"{bits}: {self._entry(s.kernel, s.places)}" for bits, s in own.second.items())
            parts.append(f"second={{{', '.join(rows)}}}")
        if own.forward is not None and (own.forward.keeps or own.forward.given):
            parts.append("keeps=True")
        return f"rtk.Passes({', '.join(parts)})"

    def _entry(self, kernel: Kernel, places: Sequence[int] = ()) -> str:
        """The constructor call of a pass."""
        read, whole = ([_operand(o) for o in own] for own in (kernel.operands, kernel.whole))
        parts = [f'"{kernel.name}"', tuple_of([*read, *(f"({o.place}, None)" for o in kernel.known), *whole])]
        written = [r for r in kernel.results if r.part is None or r.part.index == 0]
        results = [*map(_result, written), *['"statistic"'] * len(kernel.keeps)]
        usual = [f'("tensor", {place})' for place in places] or ['"full"']
        if results != usual:
            parts.append(tuple_of(results))
        if kernel.subsets != (1,):
            parts.append(f"subsets={kernel.subsets!r}")
        counts = [f'"{n.name}"' for n in kernel.numbers if is_count(n)]
        if counts:
            parts.append(f"counts={tuple_of(counts)}")
        if kernel.by_row:
            parts.append("rows=True")
        if kernel.any_rows:
            parts.append("any_rows=True")
        if kernel.finish:
            parts.append(f"finish={self._finish(kernel)}")
        if kernel.late:
            parts.append(f"late={tuple_of([str(o.place) for o in kernel.late])}")
        if kernel.placed:
            parts.append("placed=True")
        if kernel.whole:
            parts.append(f"whole={len(kernel.whole)}")
        if kernel.part:
            parts.append(f"part={kernel.part}")
        if kernel.spans:
            parts.append(f"spans={kernel.spans!r}")
        if len(kernel.alike) > 1:
            parts.append(f"alike={kernel.alike!r}")
        numbers = [self.layout.argument_names.index(n.name) for n in kernel.numbers if not is_count(n)]
        if numbers:
            parts.append(f"numbers={tuple(numbers)!r}")
        if places:
            parts.append(f"places={tuple(places)!r}")
        return f"rtk.kernel({', '.join(parts)})"

    def _finish(self, kernel: Kernel) -> str:
        """The function that makes outputs of what a pass has computed, and what backward is given of it."""
        own = Names(frozenset({"kept", "dtype"}))
        names = {o.leaf: own.fresh(o.leaf.name) for o in kernel.late}
        names |= {n: own.fresh(n.name) for n in kernel.numbers if not is_count(n)}
        names |= {r.leaf or symbol(r.name, "tensor"): own.fresh(r.name) for r in kernel.results}
        made = machine(kernel.finish)
        outputs = [source(Printer(names, self.layout.constants)(form)) for form in made]
        named = zip(outputs, kernel.outputs, kernel.finish, strict=True)
        cast = [f"({o}).to(dtype)" if is_late(result, form) else o for o, result, form in named]
        given = [*cast, *(names[s] for s in kernel.given), "*kept"]
        return f"lambda dtype, {', '.join(names.values())}, *kept: {tuple_of(given)}"

    def note(self, files: Sequence[str], elsewhere: Mapping[str, bool]) -> str:
        """What the docstring says of the passes; `elsewhere` are devices that have none, and whether they can."""
        served: dict[str, int] = dict.fromkeys(_SERVED, 0)
        missing: dict[str, list[str]] = {}
        for passes in self.by_variant.values():
            for method, there in zip(_SERVED, passes.served, strict=True):
                served[method] += there
            for method, why in passes.missing:
                missing.setdefault(method, []).append(why)
        whole = [m if n == len(self.by_variant) else f"{m} in part" for m, n in served.items() if n]
        text = f"Fused: {_listed(whole)}, from {_listed(files)}"
        counts = {what: max((len(own(k)) for k in self.found), default=0) for what, own in _KEPT.items()}
        if self.kept:
            kept = [what.format(n, "s" * (n > 1)) for what, n in counts.items() if n]
            text += f"; they keep {_listed(kept)} besides"
        reasons: dict[str, list[str]] = {}
        for method, why_not in missing.items():
            reasons.setdefault(", ".join(dict.fromkeys(why_not)), []).append(method)
        for device, there in elsewhere.items():
            reasons.setdefault(NOT_ASKED if there else "", []).append(f"all on {device}")
        rest = [
            f"{_listed(methods)} in eager operations{f' ({why})' if why else ''}" for why, methods in reasons.items()
        ]
        return "; ".join([text, *rest]) + "."


_KEPT: dict[str, Callable[[Kernel], tuple[Expr, ...]]] = {
    "{0} number{1} for each row": lambda kernel: kernel.keeps,
    "{0} sum{1} over everything": lambda kernel: kernel.given,
}
_LEAST = 2**16  # elements from which passes serve by themselves
_SERVED = ("forward", "backward", "forward mode", "second derivatives")


def _listed(words: Sequence[str]) -> str:
    """`a, b and c`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _operand(operand: Operand) -> str:
    if operand.part is not None:
        return f"({operand.place}, {operand.dims!r}, {_part(operand.part)})"
    return f"({operand.place}, {operand.dims!r})" if operand.dims else str(operand.place)


def _part(part: Part) -> str:
    return repr((part.dim, part.count, part.index, *[True] * part.pairs))


def _result(result: Result) -> str:
    kind = (result.total and "total") or result.row or ("tensor" if result.place is not None else "full")
    if result.leaf is not None:
        kind = "sum"
    dims = result.dims
    if result.reduced:
        kind, dims = "squeezed" if not result.kept else "reduced", result.reduced
    if result.part is not None:
        written = (result.part.dim, result.part.count, *[True] * result.part.pairs)
        return f'("{kind}", {result.place or 0}, {dims!r}, {written!r})'
    if dims:
        return f'("{kind}", {result.place or 0}, {dims!r})'
    return f'"{kind}"' if result.place is None else f'("{kind}", {result.place})'
