"""Where the forms of one operation are measured and chosen: region by region, each once.

A region is a pointwise formula between tensor operations; results of tensor operations count as free variables while it
is measured. The chosen forms are remembered, so that forward, backward and jvp write the same value the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from symgrad.accuracy.candidates import Candidate, Choice, Effort
from symgrad.accuracy.choose import RESPELLED, choose, recognise
from symgrad.accuracy.cost import cost
from symgrad.accuracy.domains import within_branches, within_domains
from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Environment, Format
from symgrad.accuracy.guards import guard, may_be_infinite
from symgrad.accuracy.measure import FAR, PRECISIONS, Judge, Sample
from symgrad.accuracy.rewrite import Step, rewrite
from symgrad.accuracy.sampling import ALL_REALS, at_round_numbers, sample_points
from symgrad.accuracy.together import Member, Worth, together
from symgrad.compiler.measured import Measured
from symgrad.differentiate.modes import is_tensor_op, partials, region_leaves, vjp
from symgrad.differentiate.symbols import cotangent
from symgrad.differentiate.ties import held, released
from symgrad.ir.expr import ZERO, Expr, make
from symgrad.ir.traversal import rebuild, substitute, topological
from symgrad.ops.tensors import TENSOR_OPS, interval, is_number, shape_only
from symgrad.ops.tensors.shapes import covers, shape_sources
from symgrad.parse import Program
from symgrad.parse.alignment import cancelled
from symgrad.plan.hoist import hoisted
from symgrad.rules import TENSORS
from symgrad.spec import Spec
from symgrad.spec.interval import Interval
from symgrad.spec.model import Hyperparameter

__all__ = ["Memory", "Slope", "Workbench", "hyperparameter_values", "isolate", "of_shape"]

_MODERATE = 25.0  # beyond this a guard in forward, which costs a pass, would be for what overflows alone
_SIZES = [64, 1, 7, 1000]  # of dimensions, at which forms are measured
_BUDGET = 60_000  # point evaluations of one node: bounds the time spent on a large formula
_WHOLE = 12  # regions that may spend as much; then each a little less, so that all together grow with the logarithm


@dataclass(frozen=True)
class Slope:
    """How a partial was chosen, and the symbols that stood for results of tensor operations in it."""

    choice: Choice
    stand_ins: Mapping[Expr, Expr]

    def flat(self, form: Expr) -> Expr:
        """Another form of the partial, with the same stand-ins."""
        return substitute(form, self.stand_ins)


@dataclass(frozen=True)
class Memory:
    """What the variants of a program share: sample points, measurements, chosen forms, and what searches may spend.

    `measured` are choices of earlier runs.
    """

    samples: dict[tuple[frozenset[Expr], int], Sample] = field(default_factory=dict)
    points: dict[tuple[Any, ...], dict[Format, list[Environment]]] = field(default_factory=dict)
    judges: dict[Expr, Judge] = field(default_factory=dict)
    choices: dict[Expr, Choice] = field(default_factory=dict)
    effort: Effort = field(default_factory=Effort)
    measured: Measured | None = None


class Workbench:
    """Measures and remembers forms for the regions of one variant."""

    def __init__(self, program: Program, memory: Memory | None = None) -> None:
        self._program = program
        self._memory = memory or Memory()
        self.values: dict[Expr, Choice] = {}
        self.slopes: dict[Expr, Choice] = {}
        self._stand_ins: dict[Expr, Mapping[Expr, Expr]] = {}
        self._forward: set[Expr] = set()
        self._of_values: dict[Expr, Expr] = {}
        self._recognised: dict[Expr, tuple[Expr, tuple[Step, ...]]] = {}

    @cached_property
    def _ranges(self) -> dict[Expr, Interval]:
        symbols = self._program.symbols
        return {symbols[t.name]: t.domain or ALL_REALS for t in self._program.spec.tensors}

    @cached_property
    def _may_widen(self) -> bool:
        """Whether the operation can be evaluated in float64: a product or convolution would take many times as long."""
        nodes = topological(*self._program.outputs.values())
        return all(TENSOR_OPS[n.op].recompute for n in nodes if is_tensor_op(n))

    @cached_property
    def _domains(self) -> dict[Expr, Interval]:
        """The intervals of tensors and hyperparameters."""
        symbols, spec = self._program.symbols, self._program.spec
        return self._ranges | {symbols[h.name]: h.domain for h in spec.hyperparameters if h.domain is not None}

    def _range(self, variable: Expr) -> Interval:
        """Where the values of a variable of a region are: a tensor, or the result of a tensor operation."""
        return self._ranges.get(variable) or variable.get("within") or ALL_REALS

    def _within(self, form: Expr) -> Expr:
        return within_domains(form, self._domains | {s: self._range(s) for s in form.tensors})

    @cached_property
    def _scalars(self) -> dict[Expr, list[Any]]:
        """Values of the hyperparameters at which forms are measured."""
        spec = self._program.spec
        return {self._program.symbols[h.name]: measured_values(spec, h) for h in spec.hyperparameters}

    def points(self, region: Expr, most: int) -> dict[Format, list[Environment]]:
        """Sample points for a region: those of its variables."""
        key = region.tensors, region.symbols, most
        if key not in self._memory.points:
            self._memory.points[key] = self._new_points(region, most)
        return self._memory.points[key]

    def _new_points(self, region: Expr, most: int) -> dict[Format, list[Environment]]:
        tensors = {s: self._range(s) for s in sorted(region.tensors, key=lambda s: s.name)}
        scalars = {s: v for s, v in self._scalars.items() if s in region.symbols}
        scalars |= {s: _SIZES for s in region.symbols if s["kind"] == "int" and s not in self._scalars}
        conditions = {s: [False] for s in region.symbols if s not in scalars and not s.tensors}
        ratios = self._is_given(region)  # what is computed from tensors is seldom so large
        return sample_points(tensors, {**scalars, **conditions}, most, powers=self._raises, ratios=ratios)

    def _is_given(self, region: Expr) -> bool:
        """Whether it is known where the variables of a region are: tensors, and results that lie in an interval."""
        return all(s in self._ranges or s.get("within") for s in region.tensors)

    @cached_property
    def _raises(self) -> bool:
        """Whether a tensor is an exponent: of a negative base it must be an integer."""
        nodes = topological(*self._program.outputs.values())
        return any(n.op == "pow" and n.args[1].tensors and n.args[0].tensors for n in nodes)

    def judge(self, region: Expr) -> Judge:
        """The judge of a region whose leaves are symbols."""
        judges = self._memory.judges
        if region not in judges:
            judges[region] = self._new_judge(region)
        return judges[region]

    def _new_judge(self, region: Expr) -> Judge:
        variables = len(region.tensors)
        size = sum(max(1, len(node.args)) for node in topological(region)) * (variables + 3)
        budget = _BUDGET * min(1.0, _WHOLE / (1 + len(self._memory.choices)))
        sample = self._sample(region, max(4, min(192 + 32 * variables, int(budget) // size)))
        return Judge(region, sample, PRECISIONS[self._program.spec.options.precision])

    def _sample(self, region: Expr, most: int) -> Sample:
        """The points for a region; regions of the same variables share them, and the values that they share there."""
        steps = [m for m in (4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256) if m <= most]
        key = (region.symbols, steps[-1])
        samples = self._memory.samples
        if key not in samples:
            large = [
                s for s, own in self._ranges.items() if any(FAR < abs(e) < math.inf for e in (own.lower, own.upper))
            ]
            given = self._is_given(region)
            ends = {s: _closed_ends(self._range(s)) for s in region.tensors}
            points = self.points(region, steps[-1])
            samples[key] = Sample(points, limits=given, large=large, computed=not given, ends=ends)
        return samples[key]

    # ------------------------------------------------------------------------------------------ choosing
    def recognise(self, root: Expr) -> tuple[Expr, tuple[Step, ...]]:
        """The formula in stable tensor operations and, region by region, in stable atoms; and the steps to it."""
        whole, taken = rewrite(root, TENSORS)
        steps = [*taken]

        def visit(region: Expr) -> Expr:
            flat, back = isolate(region)
            if not flat.tensors:
                return region
            flat = self._within(flat)
            if flat not in self._recognised:
                self._recognised[flat] = recognise(flat, self.points(flat, 24)[FLOAT64])
            form, own = self._recognised[flat]
            steps.extend(replace(s, before=substitute(s.before, back), after=substitute(s.after, back)) for s in own)
            return substitute(form, back)

        form = self._by_region(whole, visit)
        return form, tuple(dict.fromkeys(steps))

    def respelled(self, root: Expr) -> tuple[Expr, tuple[Step, ...]]:
        """The formula with regions in the spelling that SymPy found for them, if one is chosen; and the steps to it.

        So derivatives are those of the better spelling.
        """
        steps: list[Step] = []

        def visit(region: Expr) -> Expr:
            flat, back = isolate(region)
            step = next(iter(self.chosen(region).steps), None) if flat.tensors else None
            if step is None or step.rule != RESPELLED or step.before is not flat:
                return region
            form, own = recognise(step.after, self.points(flat, 24)[FLOAT64])
            steps.extend(s.mapped(lambda part: substitute(part, back)) for s in (step, *own))
            return substitute(form, back)

        return self._by_region(root, visit), tuple(dict.fromkeys(steps))

    def settle(self, root: Expr) -> Expr:
        """A formula of forward with every region in its chosen form, whose dead branches are harmless to who
        differentiates it, as compilers do, at moderate arguments."""
        settled = self._settled(root)
        self._forward.update(n for n in topological(settled) if is_tensor_op(n) and not n.is_differential)
        return settled

    def _settled(self, root: Expr) -> Expr:
        return self._by_region(root, self._chosen_form)

    def _chosen_form(self, region: Expr) -> Expr:
        return self._guarded(self._placed(self.chosen(region), region), _MODERATE)

    def _derive(self, region: Expr) -> Expr:
        """Keep the partials of the form that was chosen for a region, beside those of the region itself."""
        choice = self.chosen(region)
        if choice.chosen.form is not choice.formula and not choice.chosen.wide:
            leaves = [leaf for leaf in region_leaves(region) if not (leaf.is_static or leaf.is_boolean)]
            others = partials(self._placed(choice, region), leaves)
            self._of_values |= {own: others[leaf] for leaf, own in partials(region, leaves).items()}
        return region

    def slope_form(self, partial: Expr) -> Expr:
        """The chosen form of a partial derivative."""
        flat, back = isolate(partial)
        if not flat.tensors:
            return partial
        if flat not in self.slopes:
            self._stand_ins[flat] = back
            simple = within_branches(self._within(flat))
            if simple is ZERO:
                return ZERO
            simple = simple if simple.tensors else flat
            other = self._within(substitute(self._of_values.get(partial, partial), {own: s for s, own in back.items()}))
            reads_more = not other.symbols <= simple.symbols  # what cancels there only by value
            self.slopes[flat] = self._choose(simple, None if reads_more else other)
        return substitute(self.slopes[flat].chosen.form, back)

    def slope_error(self, slope: Slope, form: Expr) -> float:
        """The float32 error in ulp of another form of a chosen partial; infinite where it is not finite."""
        choice = slope.choice
        score = self.judge(choice.formula).score(slope.flat(form), FLOAT32, wide=choice.chosen.wide)
        return math.inf if score.nonfinite else score.ulp

    def is_spoiled(self, slope: Slope, form: Expr, value: Expr) -> bool:
        """Whether a form of a partial in float64 loses digits where a value in it was saved in float32."""
        choice, flat = slope.choice, slope.flat(form)
        if not choice.chosen.wide or value not in topological(flat):
            return False
        judge = self.judge(choice.formula)
        whole = judge.score(flat, FLOAT32, wide=True)
        return judge.error_with_rounded(flat, value) > max(judge.precision.acceptable, 2 * whole.ulp)

    def remeasured(self, slope: Slope, form: Expr) -> Choice:
        """The choice with the figures of the form that is emitted, where the plan rewrote it."""
        choice, flat = slope.choice, slope.flat(form)
        if flat is choice.chosen.form:
            return choice
        judge = self.judge(choice.formula)
        wide = choice.chosen.wide
        scores = judge.score(flat, FLOAT32, wide=wide), judge.score(flat, FLOAT64)
        chosen = Candidate(flat, *scores, cost(flat), wide)
        return replace(choice, chosen=chosen, candidates=(*choice.candidates, chosen))

    def chosen(self, region: Expr) -> Choice:
        """How the form of a region of forward was chosen."""
        flat, back = isolate(region)
        if flat not in self.values:
            self._stand_ins[flat] = back
            self.values[flat] = self._choose(flat)
        return self.values[flat]

    def _choose(self, region: Expr, other: Expr | None = None) -> Choice:
        choices = self._memory.choices
        if region not in choices:
            judge = self.judge(region)
            may_be_infinite = self._is_given(region)  # results of whole tensors may not
            choices[region] = self._searched(
                region, judge, other, may_widen=self._may_widen, may_be_infinite=may_be_infinite
            )
        return choices[region]

    def _searched(self, region: Expr, judge: Judge, other: Expr | None, **how: bool) -> Choice:
        """What a search for the best form finds, or found in an earlier run with as much to spend."""
        effort, measured = self._memory.effort.share(), self._memory.measured
        if measured is None:
            return choose(region, judge, self._within, effort=effort, other=other, **how)
        domains = [(s.digest.hex(), self._domains.get(s)) for s in sorted(region.symbols, key=lambda s: s.name)]
        spellings = [form.digest.hex() for form in (region, other) if form is not None]
        content = repr((spellings, judge.sample.content, domains, judge.precision, sorted(how.items())))
        before = effort.left
        known = measured.read(content, before)
        if known is not None:
            found, spent = known
            effort.spend(spent)
            return found
        found = choose(region, judge, self._within, effort=effort, other=other, **how)
        measured.write(content, found, before, before - effort.left)
        return found

    def agree(self, outputs: Iterable[Expr], differentiated: Iterable[Expr], tensors: Sequence[Expr]) -> None:
        """Choose the forms of all values, and of all partials of what is `differentiated`, together."""
        for root in outputs:
            self._by_region(root, self._derive)
        for root in differentiated:
            vjp({root: cotangent("y")}, tensors, self.slope_form)
        if self._program.spec.options.packed:
            return  # backward is to read what is packed, however else a value may be written
        operations = dict.fromkeys(op for back in self._stand_ins.values() for op in back.values())
        known = {op: _stand_in(op, f"_{op.op}:{k}") for k, op in enumerate(operations)}
        chosen = [(found, flat, found[flat]) for found in (self.values, self.slopes) for flat in found]
        members = [
            Member(
                choice,
                self.judge(choice.formula),
                {s: known[op] for s, op in self._stand_ins.get(flat, {}).items()},
                found is self.values,
                self._is_given(choice.formula),
            )
            for found, flat, choice in chosen
        ]
        agreed = together(members, Worth(self._program.spec.options.fused))
        for (found, flat, _), choice in zip(chosen, agreed, strict=True):
            found[flat] = choice

    def _placed(self, choice: Choice, region: Expr) -> Expr:
        _, back = isolate(region)
        return substitute(choice.chosen.form, back)

    def finish(self, root: Expr) -> Expr:
        """A derivative ready to emit: tensor operations on settled values, dead branches guarded."""
        settled = cancelled(self._settle_operations(held(hoisted(root))))
        return self._by_region(settled, lambda region: self._simplified(self._guarded(region)))

    def guarded_anew(self, derivatives: Iterable[Expr], kept: Collection[Expr]) -> dict[Expr, Expr]:
        """What derivatives compute of forward once more, and it with its dead branches guarded as theirs are.

        That is also what is `kept`, where it is not there; not what that is made of or is read by.
        """
        floats = frozenset(k for k in kept if k.args and not k.is_boolean)
        apart = frozenset(topological(*floats))
        found: dict[Expr, Expr] = {}
        for node in topological(*derivatives):
            if node in self._forward and node not in apart and floats.isdisjoint(topological(node)):
                found[node] = self._mapped(node, self._guarded, found)
        below = dict(found)
        for node in topological(*floats):
            if is_tensor_op(node):
                below[node] = self._mapped(node, self._guarded, below)
        found |= {k: below.get(k) or substitute(self._guarded(k), below) for k in floats}
        return {node: guarded for node, guarded in found.items() if guarded is not node}

    def _simplified(self, region: Expr) -> Expr:
        """A region with what the domains of its variables decide."""
        flat, back = isolate(region)
        return substitute(self._within(flat), back) if flat.tensors else region

    def guarded(self, root: Expr) -> Expr:
        """A value whose dead branches are harmless to who differentiates it, as compilers do, at moderate arguments."""
        return self._by_region(root, lambda region: self._guarded(region, _MODERATE))

    def _guarded(self, region: Expr, most: float = math.inf) -> Expr:
        """A region with its dead branches guarded where no argument exceeds `most`."""
        flat, back = isolate(region)
        if not any(n.op == "where" for n in topological(flat)):
            return region
        points = [p for p in self.points(flat, 40)[FLOAT64] if all(abs(p[s]) <= most for s in flat.tensors)]
        # A size is no danger: where it is 0, there are no elements.
        one = dict.fromkeys((s for s in flat.tensors if s.is_differential or is_number(back.get(s, s))), 1.0)
        moderate = [{**p, **one} for p in points]
        infinite = {s for s, operation in back.items() if may_be_infinite(operation)}
        own = (s for s in flat.tensors if s["kind"] == "tensor" and s not in one)
        floats = {s: self._range(s) for s in sorted(own, key=lambda s: s.name)}
        return substitute(guard(flat, [*moderate, *at_round_numbers(moderate, floats, most)], infinite), back)

    def _settle_operations(self, root: Expr) -> Expr:
        """Operands of tensor operations of forward in their chosen forms, so that forward's values are shared."""
        mapped: dict[Expr, Expr] = {}
        order = topological(root)
        forward = [n for n in order if is_tensor_op(n) and not n.is_differential]
        settled: dict[Expr, Expr] = {}
        if held(root) is root:
            self._map_operations(forward, self._chosen_form, settled)
        for node in order:
            args = [mapped[a] for a in node.args]
            if is_tensor_op(node) and not node.is_differential:
                mapped[node] = settled.get(node) or self._settled(node)
            else:
                mapped[node] = rebuild(node, args)
        return mapped[root]

    def _by_region(self, root: Expr, visit: Callable[[Expr], Expr]) -> Expr:
        """Apply `visit` to every region of a formula, innermost first; results of forward stay as they are."""
        root = held(root)
        mapped: dict[Expr, Expr] = {}
        self._map_operations([n for n in topological(root) if is_tensor_op(n)], visit, mapped)
        result = visit(root) if not is_tensor_op(root) else root
        return released(substitute(result, mapped))

    def _map_operations(
        self, operations: Sequence[Expr], visit: Callable[[Expr], Expr], mapped: dict[Expr, Expr]
    ) -> None:
        """Add each tensor operation with the regions of its operands visited, those that it reads first."""
        for node in operations:
            mapped[node] = node if node in self._forward else self._mapped(node, visit, mapped)

    @staticmethod
    def _mapped(node: Expr, visit: Callable[[Expr], Expr], mapped: Mapping[Expr, Expr]) -> Expr:
        operands = [of_shape(visit(a), a, k in shape_only(node)) for k, a in enumerate(node.args)]
        return rebuild(node, [substitute(a, mapped) for a in operands])

    def pointwise_slopes(
        self, outputs: Mapping[str, Expr], tensors: Sequence[str]
    ) -> tuple[dict[tuple[str, str], Expr], dict[tuple[str, str], Slope]]:
        """The partials of outputs that are pointwise in a tensor, by (output, tensor), and how they were chosen."""
        forms: dict[tuple[str, str], Expr] = {}
        choices: dict[tuple[str, str], Slope] = {}
        for name, root in outputs.items():
            own = {leaf.name: leaf for leaf in region_leaves(root) if leaf.op == "sym"}
            leaves = [own[t] for t in tensors if t in own]
            derived = partials(root, leaves)
            for leaf in leaves:
                forms[name, leaf.name] = self.slope_form(derived[leaf])
                flat, back = isolate(derived[leaf])
                if flat in self.slopes:
                    choices[name, leaf.name] = Slope(self.slopes[flat], {op: s for s, op in back.items()})
        return forms, choices


def _closed_ends(domain: Interval) -> list[float]:
    return [end for end in (domain.lower, domain.upper) if end in domain]


def of_shape(form: Expr, operand: Expr, lends_shape: bool = False) -> Expr:
    """The form of an operand with the shape of the operand, of which tensors may have dropped out."""
    if form is operand or covers(shape_sources(form), shape_sources(operand)):
        return form
    return operand if lends_shape else make("expand", form, operand)


def isolate(region: Expr) -> tuple[Expr, dict[Expr, Expr]]:
    """A region with results of tensor operations as free symbols, and what these stand for."""
    operations = [leaf for leaf in region_leaves(region) if is_tensor_op(leaf)]
    if not operations:
        return region, {}
    symbols = {op: _stand_in(op, f"_{op.op}{i}") for i, op in enumerate(operations)}
    return substitute(region, symbols), {s: op for op, s in symbols.items()}


def _stand_in(operation: Expr, name: str) -> Expr:
    """The symbol for the result of a tensor operation: of the same kind, and within the same interval."""
    kind = "int" if operation.op == "count" else "tensor"
    return make("sym", name=name, kind=kind, of=operation.op, within=interval(operation))


def hyperparameter_values(spec: Spec, hyperparameter: Hyperparameter) -> list[Any]:
    """Values of a hyperparameter worth trying: the test's, the choices, or some around the default."""
    given: Sequence[Any] = spec.test.values.get(hyperparameter.name) or hyperparameter.choices or ()
    if given:
        return list(given)
    if hyperparameter.type == "bool":
        return [True, False]
    if hyperparameter.type == "str":
        return [hyperparameter.default or ""]
    tried: list[Any] = [] if hyperparameter.default is None else [hyperparameter.default]
    others: list[Any] = [2, 3, 1, 0]
    if hyperparameter.type == "float":
        is_share = tried and 0 < tried[0] < 1
        others = [0.75, 0.5] if is_share else [0.75, 1.5, 2.0]
    domain = hyperparameter.domain
    inside = [v for v in others if domain is None or v in domain]
    return _with_ordinary(hyperparameter, list(dict.fromkeys([*tried, *inside]))[:3])


def measured_values(spec: Spec, hyperparameter: Hyperparameter) -> list[Any]:
    """Values at which forms are measured: those worth trying, and enough of its domain that no other form is equal."""
    values = hyperparameter_values(spec, hyperparameter)
    is_number = hyperparameter.type in ("float", "int") and not hyperparameter.choices
    return _with_ordinary(hyperparameter, values) if is_number else values


def _with_ordinary(hyperparameter: Hyperparameter, values: list[Any]) -> list[Any]:
    """The values, and others of the domain where there is one alone, or none but -1, 0 and 1.

    At a single value it might be a number: with `eps` always 0, `p - eps` is p.
    """
    if len(values) > 1 and not _SPECIAL_VALUES.issuperset(values):
        return values
    domain = hyperparameter.domain or Interval(-math.inf, math.inf, True, True)
    if hyperparameter.type == "int":
        first, last = domain.integers
        start = int(values[0] if values else first if first > -math.inf else min(last, 0))
        found: list[Any] = [n for d in (0, 1, 2, -1, -2) if first <= (n := start + d) <= last]
    else:
        low = domain.lower if domain.lower > -math.inf else min(domain.upper, 1.0) - 1
        high = domain.upper if domain.upper < math.inf else max(low, 0.0) + 1
        found = [float(f"{low + (high - low) * share:.4g}") for share in _SHARES]
    return list(dict.fromkeys([*values, *(v for v in found if v in domain)]))[: max(3, len(values) + 1)]


_SPECIAL_VALUES = frozenset((-1, 0, 1))
_SHARES = (0.37, 0.71)  # of a domain
