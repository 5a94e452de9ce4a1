"""The complete text of a generated module over arrays: a pure function, its value, and one rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from symgrad.analysis.sizes import Sizes
from symgrad.compiler.operation import Operation, Variant, as_written
from symgrad.explain.derivation import PlanEntry
from symgrad.ir.expr import Expr
from symgrad.lower.code import words
from symgrad.lower.conditionals import branches
from symgrad.lower.program import reads
from symgrad.lower.python import lines
from symgrad.resources import environment
from symgrad.targets.arrays import docs
from symgrad.targets.arrays.layout import Layout
from symgrad.targets.arrays.rules import Rule, described, is_light, pulled, pushed
from symgrad.targets.arrays.signature import checks, signature
from symgrad.targets.arrays.spelling import Spelling
from symgrad.targets.constants import definitions
from symgrad.targets.formatting import format_python
from symgrad.targets.literals import tuple_of
from symgrad.targets.torch.docs import listed

__all__ = ["COMMON", "Framework", "render_module", "residuals", "runtime"]

COMMON = "_runtime_arrays.py"
_STANDARD = {"math": "import math", "Any": "from typing import Any"}
_RUNTIME = Path(__file__).parent / "runtime"


def runtime(name: str) -> str:
    """The text of a file that all modules of a folder share."""
    return (_RUNTIME / name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Framework:
    """What is special about the modules of one framework.

    Attributes:
        name: as specs and the command line call it; its files end with it.
        spelling: its words.
        array: the type of its arrays.
        imports: the line that imports each module of the framework that source may name.
        cut: what a rule by tangents keeps, of arguments and outputs; of all values, if rules say what they `keep`.
        keep: how a value is marked that is kept; none where what is kept is all that is read.
        kept, read: sentences on what is kept by a rule of tangents, and on what one of gradients reads.
        fixed: what hyperparameters are called.
        skip: the statement that imports the framework into a test, or skips that.
        owner: the parts of the module that owns parameters, if there are any.
        tested: what its suite is told beside the facts for all frameworks, or in place of them.
    """

    name: str
    spelling: Spelling
    array: str
    imports: Mapping[str, str]
    cut: Callable[[Layout, Variant], Sequence[Expr]]
    kept: str
    read: str
    fixed: str
    skip: str
    keep: Callable[[Expr], str] | None = None
    owner: Callable[[Layout], Mapping[str, Any] | None] = field(default=lambda layout: None)
    tested: Callable[[Layout], Mapping[str, Any]] = field(default=lambda layout: {})

    @property
    def runtime(self) -> str:
        """The name of the file that its modules share."""
        return f"_runtime_{self.name}.py"


@as_written
def render_module(operation: Operation, framework: Framework) -> str:
    """The module of an operation, formatted."""
    layout = Layout(operation, framework.spelling)
    spec = layout.spec
    plain = framework.runtime.removesuffix(".py")
    runtime_name = "rt" if "rt" not in layout.arguments else plain
    owner = framework.owner(layout)
    value = branches(operation.body, layout.value, layout.condition)
    cuts = {id(v): framework.cut(layout, v) for v in layout.variants} if layout.operation.is_linear else {}
    rule = pushed(layout, lambda v: cuts[id(v)], framework.keep) if layout.operation.is_linear else pulled(layout)
    outputs = len(spec.outputs)
    values = [f"{name}: {h.type}" for name, h in zip(layout.values, spec.hyperparameters, strict=True)]
    arrays = [
        f"{name}: {framework.array if t.default is None else 'Any'}"
        for name, t in zip(layout.tensors, spec.tensors, strict=True)
    ]
    context = {
        "op": spec.op,
        "docstring": docs.module_docstring(layout, _kept(layout, framework, rule, cuts)),
        "exported": [*([owner["name"]] if owner else []), spec.op],
        "signature": signature(layout, framework.array),
        "returned": framework.array if outputs == 1 else f"tuple[{', '.join([framework.array] * outputs)}]",
        "summary": docs.function_docstring(layout, framework.fixed),
        "checks": checks(layout, runtime_name),
        "call": ", ".join([*(t.name for t in spec.tensors), *layout.hyperparameters]),
        "options": _options(layout, framework, cuts),
        "arguments": ", ".join([*arrays, *values]),
        "value": lines(value),
        "rule": rule,
        "function": f"_{rule.name}" if rule.name != spec.op else f"_{rule.name}_",
        "residuals": _residuals(layout, rule) if framework.keep and rule.name == "gradients" else "",
        "parameters": ", ".join([*(f"{p}: rt.Arrays" for p in rule.parameters), *values]),
        "constants": definitions(layout.constants),
        "owner": owner,
    }
    read = reads([*value, *rule.program]) | {"Any" if any(t.default is not None for t in spec.tensors) else "rt"}
    read = read.union(*(words(h.inside("_")) for h in spec.hyperparameters))
    context["imports"] = "\n".join(_imports(framework, read, {"rt": f"{plain} as rt", plain: plain}, runtime_name))
    return format_python(environment().get_template("arrays/module.py.j2").render(**context))


def residuals(layout: Layout, framework: Framework) -> Iterator[PlanEntry]:
    """What reverse mode keeps, for each variant and in all, in bytes an element in float32."""
    for path, variant in layout.operation.variants():
        where = f" [{', '.join(path)}]" if path else ""
        values = framework.cut(layout, variant) if layout.operation.is_linear else [s.value for s in variant.plan.base]
        sizes = Sizes.of(variant.formulas.values(), narrow=True)
        for value in values:
            yield PlanEntry(described(layout, variant, value) + where, sizes.bytes(value), _source(variant, value))
        whole, composite = sum(map(sizes.bytes, values)), variant.plan.composite_bytes
        told = f"{whole:g} bytes an element, {composite:g} for the composite in PyTorch"
        yield PlanEntry(f"in all{where}", whole, told)


def _source(variant: Variant, value: Expr) -> str:
    if value.op == "sym":
        return "an argument, which lives anyway"
    if value in variant.outputs.values():
        return "an output, which may live anyway"
    return "a mask, a byte an element" if value.is_boolean else "cheaper than what it is made of"


def _imports(framework: Framework, read: Iterable[str], runtimes: Mapping[str, str], own: str) -> list[str]:
    needed = {framework.array.partition(".")[0], *read}
    standard, others = (
        [line for name, line in table.items() if name in needed] for table in (_STANDARD, framework.imports)
    )
    return [
        *standard,
        *([""] if standard else []),
        *others,
        "",
        *(f"from . import {runtimes[name]}" for name in dict.fromkeys(("rt", own))),
    ]


def _options(layout: Layout, framework: Framework, cuts: Mapping[int, Sequence[Expr]]) -> str:
    """How the runtime makes the operation: the number of hyperparameters, and what is computed again."""
    options = [f"hyperparameters={len(layout.values)}"] if layout.values else []
    if framework.keep and layout.operation.is_linear:
        light = all(is_light(layout, v, cuts[id(v)]) for v in layout.variants)
        recompute = "nothing" if layout.spec.options.save == "speed" else "widened" if light else ""
        options += [f'recompute="{recompute}"'] if recompute else []
    return ", ".join(options)


def _residuals(layout: Layout, rule: Rule) -> str:
    """The places of the arguments and outputs that a rule by gradients keeps."""
    places = {"primals": (layout.tensors, rule.primals), "outputs": (list(layout.outputs.values()), rule.outputs)}
    found = {name: tuple_of([str(every.index(n)) for n in own]) for name, (every, own) in places.items()}
    return f"({', '.join(f'{name}={found[name]}' for name in places)})"


def _kept(layout: Layout, framework: Framework, rule: Rule, cuts: Mapping[int, Sequence[Expr]]) -> str:
    """A sentence on what reverse mode keeps."""
    if rule.name == "tangents":
        cut = dict.fromkeys(described(layout, v, value) for v in layout.variants for value in cuts[id(v)])
        kept = list(cut) if framework.keep else [*rule.primals, *rule.outputs]
        return framework.kept.format(listed(kept) if kept else "nothing")
    saved = dict.fromkeys(described(layout, v, s.value) for v in layout.variants for s in v.plan.base)
    return framework.read.format(listed(list(saved)) if saved else "nothing")
