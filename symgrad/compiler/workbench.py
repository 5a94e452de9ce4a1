"""Where the forms of one operation are measured and chosen: region by region, each once.

A region is a pointwise formula between tensor operations; results of tensor operations count as free variables while it
is measured. The chosen forms are remembered, so that forward, backward and jvp write the same value the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from symgrad.accuracy.candidates import Candidate, Choice
from symgrad.accuracy.choose import RESPELLED, choose, recognise
from symgrad.accuracy.cost import cost
from symgrad.accuracy.counterexamples import counterexamples, ordinary_points
from symgrad.accuracy.domains import within_branches
from symgrad.accuracy.evaluate import FLOAT32, FLOAT64
from symgrad.accuracy.guards import guard, may_be_infinite
from symgrad.accuracy.measure import Judge
from symgrad.accuracy.rewrite import Step, rewrite
from symgrad.accuracy.sample import Sample
from symgrad.accuracy.sampling import at_round_numbers
from symgrad.accuracy.together import Member, Worth, together
from symgrad.compiler.judges import Judges, Memory
from symgrad.differentiate.modes import is_tensor_op, partials, region_leaves, vjp
from symgrad.differentiate.symbols import cotangent
from symgrad.differentiate.ties import compared, held, released
from symgrad.ir.expr import ZERO, Expr, make
from symgrad.ir.order import parts_of
from symgrad.ir.traversal import rebuild, substitute, topological
from symgrad.ops.tensors import interval, is_number, shape_only
from symgrad.ops.tensors.shapes import covers, shape_sources
from symgrad.parse import Program
from symgrad.parse.alignment import cancelled
from symgrad.plan.hoist import hoisted
from symgrad.rules import TENSORS

__all__ = ["Slope", "Workbench", "isolate", "of_shape"]

_MODERATE = 25.0  # beyond this a guard in forward, which costs a pass, would be for what overflows alone
_MOST_SEARCHES = 3  # for a form, where the first one errs at points that its sample lacks


@dataclass(frozen=True)
class Slope:
    """How a partial was chosen, and the symbols that stood for results of tensor operations in it."""

    choice: Choice
    stand_ins: Mapping[Expr, Expr]

    def flat(self, form: Expr) -> Expr:
        """Another form of the partial, with the same stand-ins."""
        return substitute(form, self.stand_ins)


class Workbench(Judges):
    """Measures and remembers forms for the regions of one variant."""

    def __init__(self, program: Program, memory: Memory | None = None) -> None:
        super().__init__(program, memory or Memory())
        self.values: dict[Expr, Choice] = {}
        self.slopes: dict[Expr, Choice] = {}
        self._stand_ins: dict[Expr, Mapping[Expr, Expr]] = {}
        self._forward: set[Expr] = set()
        self._of_values: dict[Expr, Expr] = {}
        self._recognised: dict[Expr, tuple[Expr, tuple[Step, ...]]] = {}
        self._is_respelled = False

    def recognise(self, root: Expr) -> tuple[Expr, tuple[Step, ...]]:
        """The formula in stable tensor operations and, region by region, in stable atoms; and the steps to it."""
        whole, taken = rewrite(root, TENSORS)
        steps = [*taken]

        def visit(region: Expr) -> Expr:
            flat, back = isolate(region, self._program.fixed)
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
            flat, back = isolate(region, self._program.fixed)
            step = next(iter(self.chosen(region).steps), None) if flat.tensors else None
            if step is None or step.rule != RESPELLED or step.before is not flat or self.chosen(region).is_joined:
                return region
            self._is_respelled = True
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

    def _chosen_form(self, region: Expr, *, is_value: bool = True) -> Expr:
        return self._guarded(self._placed(self.chosen(region, is_value=is_value), region), _MODERATE)

    def _form_in_derivative(self, region: Expr) -> Expr:
        return self._chosen_form(region, is_value=False)

    def _derive(self, region: Expr) -> Expr:
        """Keep the partials of the form that was chosen for a region, beside those of the region itself."""
        choice = self.chosen(region)
        if choice.chosen.form is not choice.formula and not (choice.chosen.wide or choice.is_approximated):
            leaves = [leaf for leaf in region_leaves(region) if not (leaf.is_static or leaf.is_boolean)]
            others = partials(released(self._placed(choice, region)), leaves)
            self._of_values |= {own: others[leaf] for leaf, own in partials(region, leaves).items()}
        return region

    def slope_form(self, partial: Expr) -> Expr:
        """The chosen form of a partial derivative."""
        flat, back = isolate(partial, self._program.fixed)
        if not flat.tensors:
            return partial
        if flat not in self.slopes:
            self._stand_ins[flat] = back
            simple = within_branches(self._within(flat))
            if simple is ZERO:
                return ZERO
            simple = simple if simple.tensors else flat
            other = self._within(substitute(self._of_values.get(partial, partial), {own: s for s, own in back.items()}))
            # What cancels there only by value, or reads an operation that the partial does not.
            reads_more = not other.symbols <= simple.symbols or any(map(is_tensor_op, topological(other)))
            self.slopes[flat] = self._choose(simple, None if reads_more else other, is_value=False)
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

    def chosen(self, region: Expr, *, is_value: bool = True) -> Choice:
        """How the form of a region was chosen: of forward, or of what a tensor operation of a derivative reads."""
        flat, back = isolate(region, self._program.fixed)
        if flat not in self.values:
            self._stand_ins[flat] = back
            self.values[flat] = self._choose(flat, is_value=is_value)
        return self.values[flat]

    def _choose(self, region: Expr, other: Expr | None = None, *, is_value: bool = True) -> Choice:
        choices = self._memory.choices
        is_value = is_value or (region, True) in choices  # a derivative that is a value as well is written as that is
        key = region, is_value
        if key not in choices:
            may_be_infinite = self._is_given(region)  # results of whole tensors may not
            how = {"may_widen": self._may_widen, "may_be_infinite": may_be_infinite, "is_value": is_value}
            for _ in range(_MOST_SEARCHES):
                judge = self.judge(region)
                found = self._searched(region, judge, other, **how)
                missed = self._missed(region, found, judge, is_value)
                if missed is None:
                    break
                self._memory.judges[region] = Judge(region, missed, judge.precision)
            choices[key] = found
        return choices[key]

    def _missed(self, region: Expr, found: Choice, judge: Judge, is_value: bool) -> Sample | None:
        """The sample with points at which the form that was chosen on it is wrong, if there are such.

        A formula as it is written is right; a derivative of a respelled one may overflow where its own does not.
        """
        form = found.chosen.form
        as_written = form is region and (is_value or not self._is_respelled)
        if as_written or len(region.symbols) < 2:
            return None
        ranges, scalars = self._variables(region)
        return counterexamples(judge, form, found.chosen.wide, ordinary_points(region, ranges, scalars), ranges)

    def _searched(self, region: Expr, judge: Judge, other: Expr | None, **how: bool) -> Choice:
        """What a search for the best form finds, or found in an earlier run with as much to spend."""
        effort, measured = self._memory.effort.share(), self._memory.measured
        fixed = frozenset(filter(self._is_fixed, region.tensors))
        if measured is None:
            return choose(region, judge, self._within, effort=effort, other=other, fixed=fixed, **how)
        domains = [(s.digest.hex(), self._domains.get(s)) for s in sorted(region.symbols, key=lambda s: s.name)]
        spellings = [form.digest.hex() for form in (region, other) if form is not None]
        names = sorted(s.name for s in fixed)
        orders = [[part.digest.hex() for part in (n, *parts_of(n))] for n in topological(region) if parts_of(n)]
        content = repr((spellings, orders, judge.sample.content, domains, judge.precision, sorted(how.items()), names))
        before = effort.left
        known = measured.read(content, before)
        if known is not None:
            found, spent = known
            effort.spend(spent)
            return found
        found = choose(region, judge, self._within, effort=effort, other=other, fixed=fixed, **how)
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
        fixed = self._program.fixed
        known = {op: _stand_in(op, f"_{op.op}:{k}", op.tensors <= fixed) for k, op in enumerate(operations)}
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
        _, back = isolate(region, self._program.fixed)
        return substitute(choice.chosen.form, back)

    def finish(self, root: Expr) -> Expr:
        """A derivative ready to emit: tensor operations on settled values, dead branches guarded."""
        settled = cancelled(self._settle_operations(held(hoisted(root))))
        return self._by_region(settled, lambda region: self._simplified(self._guarded(region)))

    def guarded_anew(self, derivatives: Iterable[Expr], kept: Collection[Expr]) -> dict[Expr, Expr]:
        """What derivatives compute of forward once more, and it with its dead branches guarded as theirs are.

        That is also what is `kept`, where it is not there, and what that is made of where derivatives read it besides;
        not what is made of that.
        """
        at_hand = frozenset(k for k in kept if k.args)
        floats = frozenset(k for k in at_hand if not k.is_boolean)
        found: dict[Expr, Expr] = {}
        for node in topological(*derivatives, leaves=at_hand):
            if node in self._forward and node not in at_hand and floats.isdisjoint(topological(node)):
                found[node] = self._mapped(node, self._guarded, found)
        below = dict(found)
        for node in topological(*floats):
            if is_tensor_op(node):
                below[node] = self._mapped(node, self._guarded, below)
        found |= {k: below.get(k) or substitute(self._guarded(k), below) for k in floats}
        return {node: guarded for node, guarded in found.items() if guarded is not node}

    def _simplified(self, region: Expr) -> Expr:
        """A region with what the domains of its variables decide."""
        flat, back = isolate(region, self._program.fixed)
        return substitute(self._within(flat), back) if flat.tensors else region

    def guarded(self, root: Expr) -> Expr:
        """A value whose dead branches are harmless to who differentiates it, as compilers do, at moderate arguments."""
        return self._by_region(root, lambda region: self._guarded(region, _MODERATE))

    def _guarded(self, region: Expr, most: float = math.inf) -> Expr:
        """A region with its dead branches guarded where no argument exceeds `most`, also in what is divided first."""
        flat, back = isolate(region, self._program.fixed, through=("held",))
        if not any(n.op == "where" for n in topological(flat)):
            return region
        points = [p for p in self.points(flat, 40)[FLOAT64] if all(abs(p[s]) <= most for s in flat.tensors)]
        # A size is no danger: where it is 0, there are no elements.
        one = dict.fromkeys((s for s in flat.tensors if s.is_differential or is_number(back.get(s, s))), 1.0)
        moderate = [{**p, **one} for p in points]
        infinite = {s for s, operation in back.items() if may_be_infinite(operation)}
        own = (s for s in flat.tensors if s["kind"] == "tensor" and s not in one)
        floats = {s: self._range(s) for s in sorted(own, key=lambda s: s.name)}
        round_numbers = at_round_numbers(moderate, floats, most)
        far = floats if most > _MODERATE else {}
        return substitute(guard(flat, [*moderate, *round_numbers], infinite, far), back)

    def _settle_operations(self, root: Expr) -> Expr:
        """Operands of tensor operations of forward in their chosen forms, so that forward's values are shared."""
        mapped: dict[Expr, Expr] = {}
        order = topological(root)
        forward = [n for n in order if is_tensor_op(n) and not n.is_differential]
        settled: dict[Expr, Expr] = {}
        if held(root) is root:
            self._map_operations(forward, self._form_in_derivative, settled)
        for node in order:
            args = [mapped[a] for a in node.args]
            if is_tensor_op(node) and not node.is_differential:
                mapped[node] = settled.get(node) or self._by_region(node, self._form_in_derivative)
            else:
                mapped[node] = rebuild(node, args)
        return mapped[root]

    def _by_region(self, root: Expr, visit: Callable[[Expr], Expr]) -> Expr:
        """Apply `visit` to every region of a formula, innermost first; results of forward stay as they are."""
        root = held(root)
        mapped: dict[Expr, Expr] = {}
        self._map_operations([n for n in topological(root) if is_tensor_op(n)], visit, mapped)
        result = visit(root) if not is_tensor_op(root) else root
        return compared(substitute(result, mapped))

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
                flat, back = isolate(derived[leaf], self._program.fixed)
                if flat in self.slopes:
                    choices[name, leaf.name] = Slope(self.slopes[flat], {op: s for s, op in back.items()})
        return forms, choices


def of_shape(form: Expr, operand: Expr, lends_shape: bool = False) -> Expr:
    """The form of an operand with the shape of the operand, of which tensors may have dropped out."""
    if form is operand or covers(shape_sources(form), shape_sources(operand)):
        return form
    return operand if lends_shape else make("expand", form, operand)


def isolate(
    region: Expr, fixed: frozenset[Expr] = frozenset(), through: Collection[str] = ()
) -> tuple[Expr, dict[Expr, Expr]]:
    """A region with results of tensor operations as free symbols, but of those it goes `through`, and what these stand
    for; `fixed` are the tensors that are never differentiated."""
    operations = [leaf for leaf in region_leaves(region, through) if is_tensor_op(leaf)]
    if not operations:
        return region, {}
    symbols = {op: _stand_in(op, f"_{op.op}{i}", op.tensors <= fixed) for i, op in enumerate(operations)}
    return substitute(region, symbols), {s: op for op, s in symbols.items()}


def _stand_in(operation: Expr, name: str, is_fixed: bool) -> Expr:
    """The symbol for the result of a tensor operation: of the same kind, and within the same interval."""
    kind = "int" if operation.op == "count" else "tensor"
    told = {"fixed": True} if is_fixed else {}
    return make("sym", name=name, kind=kind, of=operation.op, within=interval(operation), **told)
