"""What a module knows of its fused passes: their entries, and the Function that runs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from symgrad.accuracy.machine import machine
from symgrad.compiler.operation import Variant
from symgrad.ir.branches import absent
from symgrad.ir.traversal import topological
from symgrad.targets.fused.elements import is_count
from symgrad.targets.fused.kernels import kernels
from symgrad.targets.fused.language import Language
from symgrad.targets.fused.model import Kernel, Kernels, Result
from symgrad.targets.literals import tuple_of
from symgrad.targets.torch.conditionals import branches
from symgrad.targets.torch.layout import Layout
from symgrad.targets.torch.printer import Printer

__all__ = ["Fused", "fused"]


@dataclass(frozen=True)
class Fused:
    """The fused passes of a module: the texts of their files by name, and the parts of the module that bind them.

    `kept` is the most numbers that forward keeps for each row beside what the plan saves; `shared` are the files that
    those of a folder share.
    """

    files: dict[str, str]
    context: dict[str, Any]
    kept: int = 0
    shared: dict[str, str] = field(default_factory=dict)


def fused(layout: Layout, languages: Sequence[Language]) -> Fused | None:
    """The fused passes of an operation; None where it has none. The first of the languages has all of them."""
    by_variant: dict[int, Kernels] = {}
    found: list[Kernel] = []
    for number, variant in enumerate(layout.variants, 1):
        suffix = "" if number == 1 else f"_{number}"
        own = by_variant[id(variant)] = kernels(layout, variant, suffix, languages[0].can_spell)
        found += own.all
    files = {}
    runners = []
    shared: dict[str, str] = {}
    for language in languages:
        own_passes = [k for k in found if _is_written(k, language)]
        if own_passes:
            name, text = f"{layout.spec.op}{language.suffix}", language.render(layout, own_passes)
            files[name] = text
            shared |= language.shared()
            runners.append((language.runner, name, sha256(text.encode()).hexdigest()))
    binding = _Binding(layout, by_variant, found)
    return Fused(files, binding.context(runners), binding.kept, shared) if files else None


def _is_written(kernel: Kernel, language: Language) -> bool:
    """Whether a language has a pass and all of its functions."""
    lowered = machine([r.value for r in kernel.results])
    return language.has(kernel) and all(map(language.can_spell, topological(*lowered)))


class _Binding:
    """The Python side of the passes of one module."""

    def __init__(self, layout: Layout, by_variant: dict[int, Kernels], found: Sequence[Kernel]) -> None:
        self.layout = layout
        self.by_variant = by_variant
        self.found = found

    @property
    def kept(self) -> int:
        """The most numbers that a pass keeps for each row."""
        return max((len(k.keeps) for k in self.found), default=0)

    def context(self, runners: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
        layout = self.layout
        all_ = list(self.by_variant.values())
        backward = any(k.backward for k in all_)
        tensors = layout.spec.tensors
        return {
            "runners": runners,
            "passes": [(_constant(k), _entry(k)) for k in self.found],
            "forward": self._branches(self._forward, stored=False),
            "backward": self._branches(self._backward, stored=True) if backward else [],
            "second": self._branches(self._second, stored=True) if any(k.second for k in all_) else [],
            "tangents": self._branches(self._tangents, stored=True) if any(k.tangents for k in all_) else [],
            "choices": list(self._choices()),
            "keeps": self.kept > 0,
            "shapes": tuple_of(
                [
                    f"{t}.shape" if not optional else f"{t} if {t} is None else {t}.shape"
                    for t, optional in self._tensors()
                ]
            ),
            "inferred": self._inferred(),
            "returned": self._returned(),
            "numbers_on_ctx": self._read_from_ctx([k.backward for k in all_]),
            "numbers_of_second": self._read_from_ctx([s.kernel for k in all_ for s in k.second.values()]),
            "numbers_of_tangents": self._read_from_ctx([t for k in all_ for t in k.tangents.values()]),
            "defined": " and ".join(f"grad_{o.name} is not None" for o in layout.spec.outputs if o.grad),
            "given": ", ".join(f"grad_{o.name}" for o in layout.spec.outputs if o.grad),
            "given_count": sum(o.grad for o in layout.spec.outputs),
            "tangents_given": tuple_of(
                [f"tangent_{t.name}" if t.name in layout.differentiable else "None" for t in tensors]
            ),
            "tangents_returned": self._tangents_returned(),
            "tangents_passed": ", ".join(
                f"tangent_{t.name}" if t.name in layout.differentiable else "None" for t in tensors
            ),
            "tensors": len(tensors),
            "parts": 1 + max(k.part for k in self.found),
            "cotangents": ", ".join(f"grad_{o.name}" if o.grad else f"_{k}" for k, o in enumerate(layout.spec.outputs)),
            "wants": any("wants[" in line for line in self._branches(self._backward, stored=True)),
            "note": self.note([name for _, name, _ in runners]),
        }

    def _tensors(self) -> list[tuple[str, bool]]:
        spec = self.layout.spec
        return [(self.layout.arguments[t.name], t.default is not None) for t in spec.tensors]

    def _branches(self, leaf: Any, *, stored: bool) -> list[str]:
        names = self.layout.symbols()
        if stored:
            names |= {absent(t): f"ctx.without_{t}" for t in self.layout.absences_on_ctx}
        return branches(self.layout.operation.body, leaf, Printer(names, self.layout.constants))

    def _forward(self, variant: Variant) -> list[str]:
        kernel = self.by_variant[id(variant)].forward
        if kernel is None:
            return ["return None"]
        given = tuple_of(self.layout.tensors)
        if not kernel.keeps:
            return [f"return _kernels.run({_constant(kernel)}, {given}{self._numbers(kernel)})"]
        numbers, results = self._numbers(kernel) or ", ()", (1 << len(kernel.results)) - 1
        return [f"return _kernels.run({_constant(kernel)}, {given}{numbers}, None, -1 if keep else {results})"]

    def _backward(self, variant: Variant) -> list[str]:
        kernel = self.by_variant[id(variant)].backward
        if kernel is None:
            return ["return None"]
        numbers = self._numbers(kernel) or ", ()"
        given = "(*given, *kept)" if kernel.known else "given"
        call = f"_kernels.run({_constant(kernel)}, {given}{numbers}, ctx._shapes, {self._wanted(kernel)})"
        return [f"fused = {call}", *self._placed(kernel)]

    def _second(self, variant: Variant) -> list[str]:
        passes = self.by_variant[id(variant)]
        if not passes.second:
            return ["return None"]
        numbers = self._numbers(*[s.kernel for s in passes.second.values()]) or ", ()"
        table = self._named("SECOND_DERIVATIVES", variant)
        return [f"return _pulled({table}, given, cotangents{numbers}, ctx._shapes, wants)"]

    def _tangents(self, variant: Variant) -> list[str]:
        passes = self.by_variant[id(variant)]
        if not passes.tangents:
            return ["fused = None"]
        numbers = self._numbers(*passes.tangents.values()) or ", ()"
        return [f"fused = _pushed({self._named('TANGENTS', variant)}, saved, tangents{numbers}, ctx._shapes)"]

    def _named(self, what: str, variant: Variant) -> str:
        """The name of the passes of a variant, by what is defined."""
        number = [id(v) for v in self.layout.variants].index(id(variant)) + 1
        return f"_{what}" if number == 1 else f"_{what}_{number}"

    def _choices(self) -> Iterator[tuple[str, list[tuple[int, str]]]]:
        """The tables of passes by what is defined."""
        for variant in self.layout.variants:
            passes = self.by_variant[id(variant)]
            if passes.tangents:
                yield self._named("TANGENTS", variant), [(b, _constant(k)) for b, k in passes.tangents.items()]
            if passes.second:
                rows = [(b, f"({_constant(s.kernel)}, {s.places!r})") for b, s in passes.second.items()]
                yield self._named("SECOND_DERIVATIVES", variant), rows

    def _numbers(self, *passes: Kernel) -> str:
        """The hyperparameters that passes read, which are the same for all of these, as an argument."""
        names = [self.layout.arguments[n.name] for n in passes[0].numbers if not is_count(n)]
        return f", {tuple_of(names)}" if names else ""

    def _wanted(self, kernel: Kernel) -> str:
        """The bits of the results that are wanted."""
        if len(kernel.results) == 1:
            return "1"
        return " | ".join(
            f"wants[{r.place}] << {k}" if k else f"wants[{r.place}]" for k, r in enumerate(kernel.results)
        )

    def _placed(self, kernel: Kernel) -> list[str]:
        """The gradients in the order of the arguments."""
        at = {r.place: k for k, r in enumerate(kernel.results)}
        spec = self.layout.spec
        parts = [f"fused[{at[k]}]" if k in at else "None" for k in range(len(spec.tensors))]
        parts += ["None"] * len(spec.hyperparameters)
        return [f"return None if fused is None else {tuple_of(parts)}"]

    def _inferred(self) -> str:
        """The outputs alone: nothing is kept of rows where nothing is differentiated."""
        count = len(self.layout.outputs)
        return "fused[0]" if count == 1 else f"tuple(fused[:{count}])" if self.kept else "tuple(fused)"

    def _returned(self) -> str:
        outputs = list(self.layout.outputs.values())
        if self.kept:
            outputs.append("*kept")
        return f"({outputs[0]},)" if len(outputs) == 1 else ", ".join(outputs)

    def _tangents_returned(self) -> str:
        """The tangents of the outputs, None for those that have none."""
        own = [o.grad for o in self.layout.spec.outputs]
        if all(own):
            return "tuple(fused)" if len(own) > 1 else "fused[0]"
        places = iter(range(len(own)))
        return tuple_of([f"fused[{next(places)}]" if grad else "None" for grad in own])

    def _read_from_ctx(self, passes: Sequence[Kernel | None]) -> list[str]:
        """Bring the hyperparameters that passes read into scope."""
        read = {n.name for k in passes if k is not None for n in k.numbers}
        read |= {h for h in self.layout.hyperparameters_on_ctx if len(self.by_variant) > 1}
        own = [h for h in self.layout.hyperparameters_on_ctx if h in read]
        return [f"{self.layout.arguments[h]} = {self.layout.on_ctx(h)}" for h in own]

    def note(self, files: Sequence[str]) -> str:
        """What the docstring says of the passes."""
        served: dict[str, int] = dict.fromkeys(_SERVED, 0)
        missing: dict[str, list[str]] = {}
        for passes in self.by_variant.values():
            for method, there in zip(_SERVED, passes.served, strict=True):
                served[method] += there
            for method, why in passes.missing:
                missing.setdefault(method, []).append(why)
        whole = [m if n == len(self.by_variant) else f"{m} in part" for m, n in served.items() if n]
        text = f"Fused: {_listed(whole)}, from {_listed(files)}"
        if self.kept:
            text += f"; they keep {self.kept} number{'s' * (self.kept > 1)} for each row besides"
        reasons: dict[str, list[str]] = {}
        for method, why_not in missing.items():
            reasons.setdefault(", ".join(dict.fromkeys(why_not)), []).append(method)
        rest = [f"{_listed(methods)} in eager operations ({why})" for why, methods in reasons.items()]
        return "; ".join([text, *rest]) + "."


_SERVED = ("forward", "backward", "forward mode", "second derivatives")


def _listed(words: Sequence[str]) -> str:
    """`a, b and c`."""
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _constant(kernel: Kernel) -> str:
    return f"_{kernel.name.upper()}"


def _entry(kernel: Kernel) -> str:
    """The constructor call of the pass."""
    known = [f"({o.place}, None)" for o in kernel.known]
    operands = tuple_of([*(f"({o.place}, {o.dims!r})" for o in kernel.operands), *known])
    results = tuple_of([*map(_result, kernel.results), *['("statistic", 0, ())'] * len(kernel.keeps)])
    counts = tuple_of([f'"{n.name}"' for n in kernel.numbers if is_count(n)])
    spans = f", spans={kernel.spans!r}" if kernel.spans else ""
    return (
        f'_Pass("{kernel.name}", {_types(kernel)}, operands={operands}, results={results}, shape={kernel.shape!r}, '
        f"subsets={kernel.subsets!r}, counts={counts}, rows={kernel.by_row!r}, part={kernel.part}{spans})"
    )


def _result(result: Result) -> str:
    kind = "tensor" if result.place is not None else (result.total and "total") or result.row or "full"
    dims = result.dims
    if result.reduced:
        kind, dims = "squeezed" if not result.kept else "reduced", result.reduced
    return f'("{kind}", {result.place or 0}, {dims!r})'


def _types(kernel: Kernel) -> str:
    """The argument types of the entry, one letter each."""
    flags = "u" if len(kernel.subsets) > 1 else ""
    pointers = "p" * sum(map(len, (kernel.operands, kernel.known, kernel.results, kernel.keeps)))
    return f'"{flags}{pointers}{"d" * len(kernel.numbers)}pi"'
