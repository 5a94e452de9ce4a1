"""The body of forward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from symgrad.compiler.operation import Variant
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import topological
from symgrad.ops.tensors import TENSOR_OPS, is_number
from symgrad.ops.tensors.shapes import same_shape, shape_sources
from symgrad.targets.torch.dtypes import Operands, cast, lender, printed, promoted
from symgrad.targets.torch.methods.common import Common, widening
from symgrad.targets.torch.schedule import Scope, Target, statements

_ROUND = "rt.narrow({value}, dtype)"


@dataclass(frozen=True)
class _Widening:
    """The lines that widen the tensors, and the pattern that rounds each output."""

    lines: tuple[str, ...]
    rounding: Mapping[str, str]


def viewed(value: Expr) -> Expr:
    """What a value is a view of, perhaps: itself, where it is a tensor of its own."""
    while (row := TENSOR_OPS.get(value.op)) is not None and (row.view or (row.variadic and len(value.args) == 1)):
        value = value.args[0]
    return value


class Forward(Common):
    """Writes forward."""

    def forward(self) -> list[str]:
        """The formula; with intermediates to keep, they follow the outputs."""
        return self._branches(self.layout.operation.body, self._forward)

    def _forward(self, variant: Variant) -> list[str]:
        layout = self.layout
        targets: list[Target] = []
        values: dict[str, str] = {}
        fixed = self._fixed(variant)
        single = len(variant.outputs) == 1 and not layout.keeps and not fixed
        scope = self._scope(layout.symbols(variant))
        if not (layout.optional and layout.widened):  # then every variant begins with tensors of its own
            scope.shared = self._in_all_variants(layout.operation.body, lambda v: list(v.outputs.values()))
        widened = self._widening(variant, scope)
        for name, short in variant.outputs.items():
            local = layout.outputs[name]
            form = _whole(short, variant.formulas[name])
            repeated = form.args and form in (t.value for t in targets)
            value = self._complete(form, variant.formulas[name], "{value}.clone()" if repeated else "{value}")
            if name in fixed:  # compilers may differentiate forward
                value += ".detach()"
            if single:
                value = widened.rounding[name].replace("{value}", value)
                targets.append(Target(local, form, template=f"return {value}"))
            else:
                targets.append(Target(local, form))
                values[name] = value.format(value=local)
        kept = self._kept_names(scope, variant)
        returned = layout.returned(variant)
        own = [Target(local, s.value) for local, s in zip(kept, layout.kept(variant), strict=True) if s in returned]
        lines = [*widened.lines, *statements([*own, *targets], scope, layout.constants)]
        if single:
            return lines
        results = [widened.rounding[name].format(value=value) for name, value in values.items()]
        return [
            *lines,
            f"return {', '.join([*results, *(t.name for t in own), *['None'] * (layout.keeps - len(own))])}",
        ]

    def _widening(self, variant: Variant, scope: Scope) -> _Widening:
        """How the tensors are widened, and the outputs rounded to their dtypes."""
        layout = self.layout
        names = layout.widened
        if not names:
            return _Widening((), dict.fromkeys(variant.outputs, "{value}"))
        symbols = layout.symbols()
        sources = {name: promoted(formula) for name, formula in variant.formulas.items()}
        present = frozenset().union(*(f.tensors for f in variant.formulas.values()))
        everyone = {
            layout.symbol(t.name): name
            for t, name in zip(layout.spec.tensors, layout.tensors, strict=True)
            if t.dtype != "bool"
            and layout.symbol(t.name) not in layout.places
            and (t.default is None or layout.symbol(t.name) in present)
        }
        names = list(everyone.values())
        lent = lender(s for s in everyone if s["kind"] == "tensor")
        for name, formula in variant.formulas.items():
            if lent is not None and not sources[name] and _is_of_truth_values(formula):
                sources[name] = frozenset({lent})
        if all(operands == everyone.keys() for operands in sources.values()):
            lines = widening(names, "dtype", layout.wide_values)
            return _Widening(tuple(lines), dict.fromkeys(variant.outputs, _ROUND))
        # What autocast multiplies is of a type of its own: it is rounded only where it was widened.
        test = scope.names.fresh("rounded") if layout.multiplies else "_"
        lines, locals_ = list[str](), dict[Operands, str]()
        patterns = dict.fromkeys(variant.outputs, "{value}")
        condition = f"{test} and " if layout.multiplies else ""
        for name, operands in sources.items():
            if operands and operands not in locals_:
                local = "dtype" if len(set(sources.values())) == 1 else scope.names.fresh(f"{name}_dtype")
                locals_[operands] = local
                lines.append(f"{local} = {printed(operands, symbols)}")
            if operands:
                patterns[name] = f"rt.narrow({{value}}, {condition}{locals_[operands]})"
        lines += widening(names, test, layout.wide_values)
        return _Widening(tuple(lines), patterns)

    def _complete(self, form: Expr, formula: Expr, pattern: str) -> str:
        """The pattern of a result that is a new tensor of the formula's full shape and dtype."""
        names = self.layout.symbols()
        missing = shape_sources(formula) - shape_sources(form)
        if missing and all(s.op == "sym" for s in missing):
            everyone = sorted((names[s] for s in shape_sources(formula)), key=self.layout.tensors.index)
            return pattern.replace("{value}", f"rt.broadcast({{value}}, {', '.join(everyone)})")
        if form.op in ("expand", "where"):
            pattern = pattern.replace("{value}", f"{{value}}{cast(formula, names)}")
        spread = form.op == "expand" and not is_number(form.args[0])
        if any(map(self._is_shared, _ways(form))):
            own = "({value})" if form.op == "where" else "{value}"
            return pattern.replace("{value}", f"{own}.clone()")
        if spread or form.is_static:
            return pattern.replace("{value}", "{value}.clone()")
        return pattern

    def _is_shared(self, form: Expr) -> bool:
        """Whether a value is, or is a view of, an argument or another result."""
        seen = viewed(form)
        return seen.op == "sym" or (seen is not form and any(seen in v.outputs.values() for v in self.layout.variants))


def _is_of_truth_values(formula: Expr) -> bool:
    return bool(formula.tensors) and all(s.is_boolean for s in formula.tensors)


def _ways(form: Expr) -> Iterator[Expr]:
    """A value, or those that choices of Python leave it to be."""
    if form.op == "where" and form.args[0].is_static:
        for branch in form.args[1:]:
            yield from _ways(branch)
    else:
        yield form


def _whole(form: Expr, formula: Expr) -> Expr:
    """The form in the shape of the formula, where tensor operations that give it have cancelled out.

    What the formula does not contain stands for a part of it, and has that part's shape. Numbers that only lack tensors
    get the shape and the dtype of all of them later; a truth value keeps its dtype.
    """
    own, whole = shape_sources(form), shape_sources(formula)
    of_tensors = all(s.op == "sym" for s in whole) and not formula.is_boolean
    if own >= whole or of_tensors or not own.issubset(topological(formula)):
        return form
    return form if same_shape(own | whole, form) else make("expand", form, formula)
