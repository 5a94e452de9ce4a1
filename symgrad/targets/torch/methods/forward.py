"""The body of forward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from symgrad.analysis.integers import is_whole_tensor
from symgrad.compiler.operation import Variant
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import topological
from symgrad.lower.code import Code, code
from symgrad.lower.program import Assign, Program, Return, Statement, returned
from symgrad.lower.schedule import Scope, Target, statements
from symgrad.ops.tensors import TENSOR_OPS, is_number
from symgrad.ops.tensors.shapes import same_shape, shape_sources
from symgrad.plan.reading import is_drawn
from symgrad.targets.torch.dtypes import (
    Made,
    Operands,
    beside,
    cast,
    floated_groups,
    lender,
    operands_in_order,
    printed,
    promoted,
    rounds_floats,
)
from symgrad.targets.torch.layout import PrintingOf
from symgrad.targets.torch.methods.common import Common, widening

_ROUND = "rt.narrow({0}, dtype)"
_AS_IT_IS = "{0}"


@dataclass(frozen=True)
class _Widening:
    """What widens the tensors, and the template that rounds each output."""

    program: Program
    rounding: Mapping[str, str]


def viewed(value: Expr) -> Expr:
    """What a value is a view of, perhaps: itself, where it is a tensor of its own."""
    *_, last = _views(value)
    return last


def _views(value: Expr) -> Iterator[Expr]:
    """A value, and what it may be a view of, step by step."""
    yield value
    while (row := TENSOR_OPS.get(value.op)) is not None and (row.view or (row.variadic and len(value.args) == 1)):
        value = value.args[0]
        yield value


class Forward(Common):
    """Writes forward."""

    def forward(self) -> Program:
        """The formula; with intermediates to keep, they follow the outputs."""
        return self._branches(self.layout.operation.body, self._forward)

    def _forward(self, variant: Variant) -> Program:
        layout = self.layout
        targets: list[Target] = []
        results: list[Code | str | None] = []
        fixed = self._fixed(variant)
        single = len(variant.outputs) == 1 and not layout.keeps and not fixed
        scope = self._scope(layout.symbols(variant))
        if not (layout.optional and layout.widened):  # then every variant begins with tensors of its own
            scope.shared = self._in_all_variants(layout.operation.body, lambda v: list(v.outputs.values()))
        widened = self._widening(variant, scope)
        for name, short in variant.outputs.items():
            local = layout.outputs[name]
            form = _whole(short, variant.formulas[name])
            repeated = bool(form.args) and form in (t.value for t in targets)
            # Compilers may differentiate forward: what is marked as without a derivative is detached.
            finish = [*["{0}.clone()"] * repeated, *["{0}.detach()"] * (name in fixed), widened.rounding[name]]
            apart = rounds_floats(variant.formulas[name], variant.formulas.values())
            complete = partial(self._complete, form, variant.formulas[name], finish, apart)
            if single:
                targets.append(Target(local, form, (), complete))
            else:
                targets.append(Target(local, form))
                results.append(complete(code("{0}", local)).value)
        own = [Target(local, s.value) for local, s in self._returned(scope, variant)]
        printing = self.printing_formulas(variant, layout.symbols())
        program = (*widened.program, *statements([*own, *targets], scope, printing, in_forward=True))
        if single:
            return program
        return (*program, returned([*results, *(t.name for t in own), *[None] * (layout.keeps - len(own))]))

    def printing_formulas(self, variant: Variant, names: Mapping[Expr, str | Code]) -> PrintingOf:
        """A printer of formulas, in which whole numbers are beside what the names say."""
        around = operands_in_order(beside(variant.formulas.values()), names)
        return self.layout.printing(around, differentiable=True)  # tracers differentiate it

    def _widening(self, variant: Variant, scope: Scope) -> _Widening:
        """How the tensors are widened, and the outputs rounded to their dtypes."""
        layout = self.layout
        names = layout.widened
        if not names:
            return _Widening((), dict.fromkeys(variant.outputs, _AS_IT_IS))
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
        groups = {name: floated_groups(formula) for name, formula in variant.formulas.items()}
        first, *others = groups.values()
        if all(operands == everyone.keys() for operands in sources.values()) and others == [first] * len(others):
            made = [{everyone[s] for s in group.of} for group in first]
            program = widening(names, "dtype", layout.wide_values, made)
            return _Widening(program, dict.fromkeys(variant.outputs, _ROUND))
        # What autocast multiplies is of a type of its own: it is rounded only where it was widened.
        test = scope.names.fresh("rounded") if layout.multiplies else "_"
        dtypes, locals_ = list[Statement](), dict[tuple[Operands, tuple[Made, ...]], str]()
        patterns = dict.fromkeys(variant.outputs, _AS_IT_IS)
        condition = f"{test} and " if layout.multiplies else ""
        parts = {name: (operands, groups[name]) for name, operands in sources.items()}
        for name, (operands, own) in parts.items():
            if operands and (operands, own) not in locals_:
                local = "dtype" if len(set(parts.values())) == 1 else scope.names.fresh(f"{name}_dtype")
                locals_[operands, own] = local
                dtypes.append(Assign(local, printed(operands, symbols, own)))
            if operands:
                patterns[name] = f"rt.narrow({{0}}, {condition}{locals_[operands, own]})"
        return _Widening((*dtypes, *widening(names, test, layout.wide_values)), patterns)

    def _complete(self, form: Expr, formula: Expr, finish: Sequence[str], apart: bool, value: Code) -> Return:
        """The return of a result as a new tensor of the formula's full shape and dtype, which may be `apart` from that
        in which it is computed; `finish` are the templates of what is done with it then."""
        names = self.layout.symbols()
        missing = shape_sources(formula) - shape_sources(form)
        spread = any(v.op == "expand" and not is_number(v.args[0]) for v in _views(form))
        if missing and all(s.op == "sym" for s in missing):
            local = {names[s] for s in shape_sources(formula) if s.op == "sym"}
            value = code("rt.broadcast({0}, {1})", value, [t for t in self.layout.tensors if t in local])
        else:
            own = form.args[0] if form.op == "expand" and spread else form
            if is_whole_tensor(own) and not is_whole_tensor(formula):
                value = code("{0}.to({1})", value, printed(promoted(formula), names))  # the floats dropped out
            elif form.op in ("expand", "where") or (finish[-1:] == [_AS_IT_IS] and is_drawn(form)):
                value = cast(value, formula, names)
            elif apart and finish[-1:] == [_AS_IT_IS]:
                value = code("{0}.to({1})", value, printed(promoted(formula), names))
            if spread or form.is_static or any(map(self._is_shared, _ways(form))):
                value = code("{0}.clone()", value)
            elif viewed(form) is not form or ((row := TENSOR_OPS.get(form.op)) is not None and row.inner_view):
                finish = [*finish, "rt.own({0})"]
        for template in finish:
            value = code(template, value)
        return Return(value)

    def _is_shared(self, form: Expr) -> bool:
        """Whether a value is, or is a view of, an argument or another result."""
        seen = viewed(form)
        return seen.op == "sym" or (seen is not form and any(seen in v.outputs.values() for v in self.layout.variants))


def _is_of_truth_values(formula: Expr) -> bool:
    """Whether it is a number made of truth values alone."""
    return not formula.is_boolean and bool(formula.tensors) and all(s.is_boolean for s in formula.tensors)


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
