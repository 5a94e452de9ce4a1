"""What a module knows of its fused passes: their entries, and the Function that runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from symgrad.backends.cpu.source import render_source
from symgrad.backends.cpu.spellings import can_spell
from symgrad.backends.cuda.source import render_source as render_triton
from symgrad.backends.cuda.spellings import can_spell as triton_can_spell
from symgrad.backends.fused.elements import ELEMENTS, ROW
from symgrad.backends.fused.kernels import Kernel, Kernels, Result, kernels
from symgrad.backends.torch.layout import Layout, branches
from symgrad.backends.torch.printer import Printer
from symgrad.expr import topological
from symgrad.operation import Variant, absent


@dataclass(frozen=True)
class Fused:
    """The fused passes of a module: the texts of their files by name, and the parts of the module that bind them."""

    files: dict[str, str]
    context: dict[str, Any]


def fused(layout: Layout) -> Fused | None:
    """The fused passes of an operation; None where it has none."""
    by_variant: dict[int, Kernels] = {}
    found: list[Kernel] = []
    for number, variant in enumerate(layout.variants, 1):
        own = by_variant[id(variant)] = kernels(layout, variant, "" if number == 1 else f"_{number}", can_spell)
        found += [k for k in (own.forward, own.backward) if k is not None]
    if not found:
        return None
    files = {f"{layout.spec.op}_cpu.cpp": render_source(layout, found)}
    on_cuda = [k for k in found if all(map(triton_can_spell, topological(*(r.value for r in k.results))))]
    if on_cuda:
        files[f"{layout.spec.op}_cuda.py"] = render_triton(layout, on_cuda)
    return Fused(files, _Binding(layout, by_variant, found).context(files))


class _Binding:
    """The Python side of the passes of one module."""

    def __init__(self, layout: Layout, by_variant: dict[int, Kernels], found: Sequence[Kernel]) -> None:
        self.layout = layout
        self.by_variant = by_variant
        self.found = found

    def context(self, files: Mapping[str, str]) -> dict[str, Any]:
        layout = self.layout
        backward = any(k.backward for k in self.by_variant.values())
        return {
            **_named(files, ".cpp"),
            "cuda": _named(files, ".py"),
            "passes": [(_constant(k), _entry(k)) for k in self.found],
            "forward": self._branches(self._forward, stored=False),
            "backward": self._branches(self._backward, stored=True) if backward else [],
            "shapes": _tuple(
                [
                    f"{t}.shape" if not optional else f"{t} if {t} is None else {t}.shape"
                    for t, optional in self._tensors()
                ]
            ),
            "returned": self._returned(),
            "numbers_on_ctx": self._read_from_ctx(),
            "undefined": " or ".join(f"grad_{o.name} is None" for o in layout.spec.outputs if o.grad),
            "cotangents": ", ".join(f"grad_{o.name}" if o.grad else f"_{k}" for k, o in enumerate(layout.spec.outputs)),
            "wants": any("wants[" in line for line in self._branches(self._backward, stored=True)),
            "note": self.note(files),
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
            return ["fused = None"]
        given = _tuple(self.layout.tensors)
        return [f"fused = _kernels.run({_constant(kernel)}, {given}{self._numbers(kernel)})"]

    def _backward(self, variant: Variant) -> list[str]:
        kernel = self.by_variant[id(variant)].backward
        if kernel is None:
            return ["fused = None"]
        cotangents = ", ".join(f"grad_{o.name}" for o in self.layout.spec.outputs if o.grad)
        wanted = self._wanted(kernel)
        numbers = self._numbers(kernel) or ", ()"
        call = f"_kernels.run({_constant(kernel)}, (*saved, {cotangents}){numbers}, shapes, {wanted})"
        return [f"fused = {call}", *self._placed(kernel)]

    def _numbers(self, kernel: Kernel) -> str:
        names = [self.layout.arguments[n.name] for n in kernel.numbers if n not in (ELEMENTS, ROW)]
        return f", {_tuple(names)}" if names else ""

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
        return ["if fused is not None:", f"    return {', '.join(parts)}"]

    def _returned(self) -> str:
        outputs = list(self.layout.outputs.values())
        return f"({outputs[0]},)" if len(outputs) == 1 else ", ".join(outputs)

    def _read_from_ctx(self) -> list[str]:
        """Hyperparameters that backward reads."""
        kernels_ = [k.backward for k in self.by_variant.values() if k.backward is not None]
        read = {n.name for k in kernels_ for n in k.numbers}
        read |= {h for h in self.layout.hyperparameters_on_ctx if len(self.by_variant) > 1}
        own = [h for h in self.layout.hyperparameters_on_ctx if h in read]
        return [f"{self.layout.arguments[h]} = {self.layout.on_ctx(h)}" for h in own]

    def note(self, files: Mapping[str, str]) -> str:
        """What the docstring says of the passes."""
        missing: dict[str, list[str]] = {}
        for passes in self.by_variant.values():
            for method, why in passes.missing:
                missing.setdefault(method, []).append(why)
        always = [m for m in ("forward", "backward") if m not in missing]
        sometimes = [k.name.partition("_")[0] for k in self.found if k.name.partition("_")[0] in missing]
        served = [*always, *(f"{m} in part" for m in dict.fromkeys(sometimes))]
        text = f"Fused: {' and '.join(served)}, from {' and '.join(files)}"
        rest = [f"{m} in eager operations ({', '.join(dict.fromkeys(why))})" for m, why in missing.items()]
        return "; ".join([text, *rest]) + "."


def _named(files: Mapping[str, str], suffix: str) -> dict[str, str]:
    """The file of a kind and the hash of its text."""
    return {
        key: value
        for name, text in files.items()
        if name.endswith(suffix)
        for key, value in (("file", name), ("digest", sha256(text.encode()).hexdigest()))
    }


def _constant(kernel: Kernel) -> str:
    return f"_{kernel.name.upper()}"


def _entry(kernel: Kernel) -> str:
    """The constructor call of the pass."""
    operands = _tuple([f"({o.place}, {o.dims!r})" for o in kernel.operands])
    results = _tuple([_result(r) for r in kernel.results])
    counts = _tuple([f'"{n.name}"' for n in kernel.numbers if n in (ELEMENTS, ROW)])
    return (
        f'_Pass("{kernel.name}", {_types(kernel)}, operands={operands}, results={results}, shape={kernel.shape!r}, '
        f"subsets={kernel.subsets!r}, counts={counts}, rows={kernel.by_row!r})"
    )


def _result(result: Result) -> str:
    kind = "tensor" if result.place is not None else (result.total and "total") or result.row or "full"
    return f'("{kind}", {result.place or 0}, {result.dims!r})'


def _types(kernel: Kernel) -> str:
    """The argument types of the entry, one letter each."""
    flags = "u" if len(kernel.subsets) > 1 else ""
    pointers = "p" * (len(kernel.operands) + len(kernel.results))
    return f'"{flags}{pointers}{"d" * len(kernel.numbers)}pi"'


def _tuple(items: Sequence[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


__all__ = ["Fused", "fused"]
