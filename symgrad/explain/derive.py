"""The derivation record of a compiled operation, for `symgrad explain` and the notes of `gen`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from symgrad.accuracy.autograd import Autograd
from symgrad.accuracy.candidates import Choice
from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Format
from symgrad.accuracy.machine import machine_form
from symgrad.accuracy.measure import Judge, Score, ulp_text
from symgrad.accuracy.simulate import Simulation
from symgrad.compiler.operation import Operation, Variant, quantity
from symgrad.compiler.workbench import Workbench
from symgrad.differentiate.modes import is_tensor_op
from symgrad.explain.derivation import AccuracyRow, Candidate, Derivation, PlanEntry, Proof, Step
from symgrad.explain.equations import derivatives
from symgrad.explain.natives import native
from symgrad.explain.speed import slow
from symgrad.ir.expr import Expr, split_coefficient, symbol
from symgrad.ir.traversal import substitute, topological
from symgrad.parse import Program
from symgrad.parse.formula import formula

if TYPE_CHECKING:
    from symgrad.symbolic.certify import Certificate

_CANCELLED = 0.828125  # the value of a tensor that what is measured does not depend on
_ACCURATE = 4.0  # ulp, in float32: the figure that every formula should reach


def derivation(operation: Operation, missing: Sequence[str] = (), *, prove: bool = False) -> Derivation:
    """Collect formula, derivatives, rules, candidates, plan and accuracy over all variants.

    `missing` says what the target lacks, which is told with the other notes. With `prove` SymPy judges all of it.
    """
    spec = operation.program.spec
    variants = operation.variants()
    subjects = [(_label(path, subject), choice) for path, v in variants for subject, choice in _choices(v)]
    found = Derivation(
        formula=tuple(spec.equations),
        derivatives=tuple(
            (_label(path, name), text) for path, v in variants for name, text in derivatives(v, operation.program)
        ),
        steps=(*_recognitions(variants), *_steps(subjects)),
        candidates=tuple(_candidates(subjects)),
        plan=tuple(_plan(operation.variants())),
        accuracy=tuple(row for path, v in variants for row in _accuracy(path, v, operation)),
        notes=(
            *_unread(operation.program),
            *_unguarded(operation.program),
            *_overflowing(operation.program),
            *_pairs(operation.program),
            *_native(operation.program),
            *_wide(variants),
            *_notes(subjects),
            *slow(operation, fuses=not missing),
            *missing,
        ),
    )
    if not prove:
        return found
    from symgrad.symbolic.certify import certificate

    return certified(found, certificate(operation))


def certified(found: Derivation, certificate: Certificate) -> Derivation:
    """A derivation with what was proven of it."""
    proofs = tuple(Proof(v.subject, v.outcome, v.text) for v in certificate.verdicts)
    return replace(found, proofs=proofs, prover=certificate.prover)


def _label(path: tuple[str, ...], subject: str) -> str:
    return f"{subject} [{', '.join(path)}]" if path else subject


def _choices(variant: Variant) -> Iterator[tuple[str, Choice]]:
    for output, tensor, choice in variant.choices:
        key = output if tensor is None else (output, tensor)
        yield quantity(output, tensor), _in_full(choice, variant.stand_ins.get(key, {}))


def _in_full(choice: Choice, stand_ins: Mapping[Expr, Expr]) -> Choice:
    """The choice with results of whole tensors in place of what stood for them."""

    def full(form: Expr) -> Expr:
        return substitute(form, stand_ins)

    return choice.mapped(full, full)


def _recognitions(variants: list[tuple[tuple[str, ...], Variant]]) -> Iterator[Step]:
    for path, variant in variants:
        for output, steps in variant.recognitions.items():
            for step in steps:
                yield Step(_label(path, output), step.rule, formula(step.before), formula(step.after), step.why)


def _steps(subjects: list[tuple[str, Choice]]) -> Iterator[Step]:
    for subject, choice in subjects:
        for step in choice.steps:
            yield Step(subject, step.rule, formula(step.before), formula(step.after), step.why)


def _candidates(subjects: list[tuple[str, Choice]]) -> Iterator[Candidate]:
    for subject, choice in subjects:
        for c in choice.candidates:
            text = formula(c.form) + (" (in float64)" if c.wide else "")
            nonfinite = c.float32.nonfinite + c.float64.nonfinite
            yield Candidate(subject, text, c.float32.ulp, c.float64.ulp, nonfinite, c.cost, c == choice.chosen)


def _plan(variants: list[tuple[tuple[str, ...], Variant]]) -> Iterator[PlanEntry]:
    for path, variant in variants:
        plan = variant.plan
        lets = {form: symbol(name) for form, name in variant.lets.items()}
        for saved in (s for s in plan.saved if not s.spared):
            yield PlanEntry(_label(path, formula(substitute(saved.value, lets))), saved.bytes, saved.reason)
        summary = (
            f"{plan.bytes:g} bytes an element, {plan.composite_bytes:g} for the composite; backward costs about "
            f"{plan.cost:.1f} passes over memory, the composite's {plan.composite_cost:.1f}"
        )
        yield PlanEntry(_label(path, "in all"), plan.bytes, summary)


def _accuracy(path: tuple[str, ...], variant: Variant, operation: Operation) -> Iterator[AccuracyRow]:
    bench = Workbench(operation.program, operation.memory)
    symbols = operation.program.symbols
    for output, tensor, choice in variant.choices:
        local = any(map(is_tensor_op, topological(variant.formulas[output])))
        written = choice.formula if local else variant.formulas[output]
        by = None if local or tensor is None else symbols[tensor]
        yield _accuracy_row(_label(path, quantity(output, tensor)), choice, bench, written, by, local)


def _accuracy_row(
    subject: str, choice: Choice, bench: Workbench, written: Expr, by: Expr | None, local: bool
) -> AccuracyRow:
    best, judge = choice.chosen, bench.judge(choice.formula)
    theirs = [as_written(judge, written, by, target) for target in (FLOAT32, FLOAT64)]
    nonfinite = best.float32.nonfinite + best.float64.nonfinite
    off = (best.float32.ulp, best.float64.ulp, theirs[0].ulp, theirs[1].ulp)
    return AccuracyRow(subject, *off, nonfinite, theirs[0].near, local)


def as_written(judge: Judge, written: Expr, by: Expr | None, target: Format) -> Score:
    """The error of the formula as written, or of its derivative under autograd, at the points of a judge."""
    points = [{**dict.fromkeys(written.symbols, _CANCELLED), **p} for p in judge.sample.points[target]]
    if by is None:
        return judge.errors_of(Simulation(points, target)(machine_form(written)), target).score
    return judge.errors_of(Autograd(written, points, target)(by), target).score


def _unread(program: Program) -> Iterator[str]:
    for name in program.unread:
        yield f"{name!r} is read by no output, let or gradient"


def _unguarded(program: Program) -> Iterator[str]:
    """Texts that are compared and might be anything: a slip in one takes the other branch in silence."""
    compared: dict[str, dict[str, None]] = {}
    choices = {h.name: h.choices for h in program.spec.hyperparameters}
    for node in topological(*program.outputs.values(), *program.gradients.values()):
        if node.op in ("eq", "ne") and node.args[1].op == "text" and choices.get(node.args[0].name) is None:
            compared.setdefault(node.args[0].name, {})[node.args[1]["value"]] = None
    for name, texts in compared.items():
        shown = ", ".join(map(repr, texts))
        yield f"{name!r} is compared with {shown} and may be any other text, too; declare its `choices`"


def _overflowing(program: Program) -> Iterator[str]:
    """Logarithms of weighted sums of exponentials, of which only those without weights are the stable operation."""
    for node in topological(*program.outputs.values()):
        total = node.args[0] if node.op == "log" else node
        total = total.args[0] if total.op == "unsqueeze" else total
        weighted = total.op in ("sum", "mean") and total.args[0].op == "mul"
        if node.op == "log" and weighted and any(factor.op == "exp" for factor in total.args[0].args):
            yield f"{formula(node)}: the exponentials overflow; write logsumexp(a + log(w)) for weights w above 0"


def _pairs(program: Program) -> Iterator[str]:
    """Distances of all pairs, whose differences take the memory of a tensor with one dimension more."""
    for node in topological(*program.outputs.values()):
        terms = node.args[0].terms if node.op == "norm" else ()
        if len(terms) == 2 and all(split_coefficient(t)[1].op == "unsqueeze" for t in terms):
            instead = "torch.cdist takes a tenth of the time, and has no second derivative"
            yield f"{formula(node)}: the differences of all pairs are written to memory; {instead}"


def _native(program: Program) -> Iterator[str]:
    found = native(program)
    if found is not None:
        yield f"torch has this as one operation: {found}"


def _wide(variants: Iterable[tuple[tuple[str, ...], Variant]]) -> Iterator[str]:
    for path, variant in variants:
        if wide := variant.in_float64:
            told = f"in float64: {', '.join(wide)}, of which no form is accurate in float32"
            costs = "that takes two to six times as long in eager operations on a CPU, up to 64 times on a GPU"
            yield f"{_label(path, told)}; {costs}, and mps has none"


def _notes(subjects: list[tuple[str, Choice]]) -> Iterator[str]:
    for subject, choice in subjects:
        best = choice.chosen
        if best.float32.nonfinite or best.float64.nonfinite:
            yield f"{subject} is not finite at some points where the true value is"
        if best.float32.ulp > _ACCURATE:
            yield f"{subject} is {ulp_text(best.float32.ulp)} ulp off in float32"
