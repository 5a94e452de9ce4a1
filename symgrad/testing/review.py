"""A reviewer's report on a hand-written Function: what is wrong, how accurate it is, what it keeps and costs."""

from __future__ import annotations

import math
import re
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from symgrad.notebook import generate, imported
from symgrad.parse import parse_formulas
from symgrad.spec import Spec
from symgrad.testing.checks import Finding
from symgrad.testing.conduct import kept_on, saved, size
from symgrad.testing.facts import Accuracy, Input, Settings, Subject
from symgrad.testing.magnitudes import over_magnitudes
from symgrad.testing.promises import BACKWARD, error_at, value_at
from symgrad.testing.report import Report, inspect_subject, make_subject, with_its_modes
from symgrad.testing.samples import bound, draw, gradients, leaves
from symgrad.testing.sources import must_accept, source_of
from symgrad.ways.sources import spec_of

if TYPE_CHECKING:
    from symgrad.testing.suite import FunctionTests

__all__ = ["Audit", "audit"]

_ELEMENTS = 1 << 16  # of each tensor, where tensors broadcast and time is taken
_ROUNDS = 15
_SHOWN = 2  # findings of a check
_POOR = 1000.0  # ulp: three digits are gone
_WORSE = 4.0  # times the composite's error

_LOST = "an intermediate that is saved has lost its derivative: save inputs or outputs, and recompute"
_NOT_A_NUMBER = "0 / 0, 0 * inf or the derivative of a root at 0: choose a harmless argument before, not after"

ADVICE: Mapping[str, str] = {
    "second_differences": _LOST,
    "forward_over_reverse": _LOST,
    "undefined_cotangents": "every cotangent may be None, or zeros, whatever the others are",
    "materialised_cotangents": "call ctx.set_materialize_grads(False), and return None where the cotangent is None",
    "torch_func": "use setup_context and generate_vmap_rule; inside jvp, torch turns forward mode off",
    "compiled": "torch.compile follows backward: no branch on values, and no jvp in the class that it sees",
    "tensors_on_ctx": "save_for_backward frees them with the graph, and notices changes in place",
    "half_precision": "compute in float32, and round once",
    "sums_in_half_precision": "sum to the input's shape first, and round last",
    "backward_returns": "ask ctx.needs_input_grad, sum_to_size(input.shape), then cast to the input's dtype",
    "devices": "make new tensors like a tensor, or on its device; no branch, index or size that depends on values",
    "inputs_left_alone": "never change an input, a saved tensor or a cotangent in place; return a clone of an input",
    "magnitudes": "digits cancel or an expression overflows: write it another way, or generate the Function",
    "special_values": "an expression overflows or is 0 * inf where the formula has a limit: write it another way",
    "extremes": "an expression overflows though its value does not: write it another way",
}
"""What to do about the findings of a check, where that is always the same."""

_FIRST = ("value_and_gradients", "result_dtypes")  # what is wrong there is wrong everywhere


def _fault(sentence: str) -> str | None:
    """A wrong shape, dtype or device without the case in which it was seen; None for another fault."""
    match = re.fullmatch(r"(?P<name>y\d*|\w+|the gradient of \w+) .*has (?P<fault>(?:shape|dtype|device) .*)", sentence)
    return f"{match['name']} {match['fault']}" if match else None


def _is_nan(sentence: str) -> bool:
    return " is nan, by" in sentence or "analytical:nan" in sentence


@dataclass(frozen=True)
class Contender:
    """Figures of one implementation: largest errors in ulp by quantity, bytes kept for backward, seconds of a forward
    and backward pass; None where it could not be had."""

    name: str
    ulp: Mapping[str, float]
    kept: int | None
    seconds: float | None


@dataclass(frozen=True)
class Audit:
    """What is to be said about a Function. ``str`` of it is the report; ``ok`` says that no result is wrong and nothing
    raises that should not."""

    name: str
    formula: str
    report: Report
    contenders: tuple[Contender, ...]
    notes: tuple[str, ...]
    shapes: tuple[Any, ...] = ()  # at which bytes are counted

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that are no matter of cost."""
        return tuple(f for f in self.report.findings if f.kind != "cost")

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not self.errors

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.name} against {self.formula}"
        titles = {"wrong": "Wrong results", "missing": "Raises where the composite does not", "cost": "Memory"}
        repeated = self._repeated()
        for kind, title in titles.items():
            found = [f for f in self.report.findings if f.kind == kind and f.check not in repeated]
            if found:
                yield f"\n{title}"
            for check in sorted(dict.fromkeys(f.check for f in found), key=lambda name: name not in _FIRST):
                yield f"  {check}"
                sentences = list(dict.fromkeys(f.sentence for f in found if f.check == check))
                yield from (f"    {sentence}" for sentence in sentences[:_SHOWN])
                if len(sentences) > _SHOWN:
                    yield f"    and {len(sentences) - _SHOWN} more"
                advice = _NOT_A_NUMBER if any(map(_is_nan, sentences)) else ADVICE.get(check)
                if advice:
                    yield f"    -> {advice}"
                if check == _FIRST[0] and repeated:
                    yield f"    and so in {', '.join(repeated)}"
        if self.notes:
            yield "\nNotes"
            yield from (f"  {note}" for note in self.notes)
        yield from self._table()
        failed = len({f.check for f in self.report.findings})
        yield f"\n{len(self.report.ran) - failed} of {len(self.report.ran)} checks passed"

    def _repeated(self) -> tuple[str, ...]:
        """The checks that say nothing but what plain calls have shown already, of other calls."""
        shown = {_fault(f.sentence) for f in self.report.findings if f.check == _FIRST[0]} - {None}
        causes: dict[str, set[str | None]] = {}
        for f in self.report.findings:
            if f.check not in _FIRST:
                causes.setdefault(f.check, set()).add(_fault(f.sentence))
        return tuple(check for check, faults in causes.items() if faults <= shown)

    def _table(self) -> Iterator[str]:
        rows = [["", *(c.name for c in self.contenders)]]
        for quantity in self.contenders[0].ulp if self.contenders else ():
            cells = [f"{c.ulp[quantity]:.3g}" if quantity in c.ulp else "" for c in self.contenders]
            rows.append([f"ulp of {quantity} in float32", *cells])
        if self.contenders:
            shapes = ", ".join(map(str, self.shapes))
            kept = ["-" if c.kept is None else str(c.kept) for c in self.contenders]
            rows.append([f"bytes kept for backward, of {shapes}", *kept])
            taken = ["-" if c.seconds is None else f"{c.seconds * 1e6:.0f}" for c in self.contenders]
            rows.append(["forward and backward, in us", *taken])
            yield ""
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        for first, *rest in rows if self.contenders else ():
            cells = [c.rjust(w) for c, w in zip(rest, widths[1:], strict=True)]
            yield f"  {first.ljust(widths[0])}  {'  '.join(cells)}".rstrip()


def audit(
    function: Callable[..., Any] | type[torch.autograd.Function],
    *,
    spec: str | PathLike[str] | None = None,
    formula: str | None = None,
    reference: Callable[..., Any] | None = None,
    inputs: Sequence[Input | str] | None = None,
    settings: Settings | None = None,
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    timed: bool = True,
    **facts: Any,
) -> Audit:
    """Review ``function``, a torch.autograd.Function or what people call.

    What it should compute is one of: ``spec``, the path or text of a spec; ``formula``, such as ``"x * sigmoid(x)"``,
    whose names are those of the arguments of ``forward``, with values of hyperparameters in ``settings``;
    ``reference``, the formula in plain torch operations. With a spec or a formula the accuracy is measured against
    true values, and the generated Function stands beside in the table of figures.

    Raises ValueError unless there is one of the three, and what reading the spec raises.
    """
    source = source_of(function, spec, formula, reference, settings or {})
    generated: Subject | None = None
    points: tuple[Accuracy, ...] = ()
    if reference is not None:
        if settings:
            facts["settings"] = (settings,)
        subject = make_subject(function, reference, inputs, **facts)
        written = getattr(reference, "__name__", "the reference")
    else:
        asked = spec_of(source)
        generated = generated_subject(asked)
        written = "; ".join(f"{name} = {text}" for name, text in asked.equations)
        if "magnitudes" not in skip and (not only or "magnitudes" in only):
            points = over_magnitudes(parse_formulas(asked), generated.settings[0])
        subject = _beside(function, generated, **facts)
    must_accept(function, [i.name for i in subject.inputs], subject.settings[0])
    subject, missing, without = with_its_modes(subject)
    only, skip = ([name for name in names if name != "magnitudes"] for names in (only, skip))
    report = inspect_subject(subject, only=only, skip=(*skip, *(w for w in without if w not in only)))
    far, notes = _far(subject, points)
    found = (*missing, *report.findings, *far)
    ran = (*report.ran, *(f.check for f in missing), *(["magnitudes"] if points else []))
    report = replace(report, findings=found, ran=ran)
    contenders = tuple(_contenders(subject, generated, timed))
    return Audit(subject.name, written, report, contenders, (*_notes(subject, report), *notes), subject.first)


def generated_subject(spec: Spec) -> Subject:
    """The subject of the generated module."""
    texts = generate(spec.with_targets(("torch",)))
    package = imported(texts).__name__.rpartition(".")[0]
    scope: dict[str, Any] = {"__name__": f"{package}.test_{texts.op}", "__package__": package}
    exec(compile(texts.test, f"<test of {texts.op}>", "exec"), scope)
    found: type[FunctionTests] = next(v for k, v in scope.items() if k.startswith("Test") and hasattr(v, "subject"))
    return found.subject()


def _beside(function: Any, generated: Subject, **facts: Any) -> Subject:
    """The subject of a hand-written function that should compute what a generated one does."""
    made = make_subject(
        function,
        generated.composite,
        generated.inputs,
        settings=generated.settings,
        shapes=generated.shapes,
        outputs=generated.outputs,
    )
    own = {
        "jit": False,
        "rounded_once": (False, False),
        "residuals": None,
        "kernel_residuals": 0,
        "accuracy": (),
        "library": "",
    }
    none = {"refused": (), "bad_shapes": (), "numbers": (), "inplace": None, "module": None}
    return replace(generated, call=made.call, function=made.function, name=made.name, **{**own, **none, **facts})


def _far(subject: Subject, points: Sequence[Accuracy]) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """Findings and notes of what is far from the truth at some size of a tensor: where the composite is not, an
    error."""
    findings, notes = [], []
    composite = replace(subject, call=subject.reference or subject.composite)
    for promise in points:
        errors = [(_error(subject, promise, row), _error(composite, promise, row), row) for row in promise.points]
        poor = sorted((found for found in errors if found[0] > _POOR), key=lambda found: _remoteness(subject, found[2]))
        worse = [found for found in poor if found[0] > _WORSE * found[1]]
        for own, other, row in (worse or poor)[:_SHOWN]:
            names = [*(t.name for t in subject.inputs), *subject.settings[0]]
            at = ", ".join(
                f"{k}={v:.6g}" if isinstance(v, float) else f"{k}={v!r}" for k, v in zip(names, row, strict=False)
            )
            got = value_at(subject, promise, torch.float32, row)
            sentence = f"{promise.quantity} in float32 at {at} is {got:.6g}, and truly {row[-2]:.6g}"
            if worse:
                text = f"{sentence} ({own:.2g} ulp; the composite is {other:.2g} ulp off)"
                findings.append(Finding("magnitudes", "wrong", text))
            else:
                notes.append(f"{sentence}; the composite is as far off")
    return tuple(findings), tuple(notes)


def _remoteness(subject: Subject, row: tuple[Any, ...]) -> float:
    """How far from 1 the tensors of a point are."""
    return sum(abs(math.log10(abs(v))) for v in row[: len(subject.inputs)] if v)


def _error(subject: Subject, promise: Accuracy, row: tuple[Any, ...]) -> float:
    """The error in float32, in ulp; infinite where there is no number, or where the call raises."""
    try:
        error = error_at(subject, promise, torch.float32, row, BACKWARD, "cpu")
    except Exception:
        error = math.inf
    return 0.0 if error is None else error


# ------------------------------------------------------------------------------------------ figures
def _contenders(subject: Subject, generated: Subject | None, timed: bool) -> Iterator[Contender]:
    points = generated.accuracy if generated else ()
    rows = [("this", subject), ("composite", replace(subject, call=subject.reference or subject.composite))]
    if generated is not None:
        rows.append(("generated", generated))
    for name, own in rows:
        yield Contender(name, _errors(own, points), _kept(own), _seconds(own) if timed else None)


def _errors(subject: Subject, points: Sequence[Accuracy]) -> dict[str, float]:
    """The largest errors beyond conditioning in float32, in ulp."""
    found: dict[str, float] = {}
    for promise in points:
        errors = (_error(subject, promise, point) for point in promise.points)
        found[promise.quantity] = max(found.get(promise.quantity, 0.0), *errors)
    return found


def _large(subject: Subject) -> list[Any]:
    shapes = ((_ELEMENTS,),) * len(subject.inputs) if subject.broadcasts else (subject.large or (subject.first,))[-1]
    return draw(subject, shapes, torch.float32)


def _kept(subject: Subject) -> int | None:
    try:
        arguments = leaves(subject, draw(subject, dtype=torch.float32))
        found, outputs = saved(subject, bound(subject.call, subject.settings[0]), arguments)
        return size([*found, *kept_on(outputs)])
    except Exception:
        return None


def _seconds(subject: Subject) -> float | None:
    """The median time of a forward and backward pass."""
    function, tensors = bound(subject.call, subject.settings[0]), _large(subject)
    taken = []
    try:
        for _ in range(_ROUNDS):
            start = time.perf_counter()
            gradients(subject, function, tensors)
            taken.append(time.perf_counter() - start)
    except Exception:
        return None
    return statistics.median(taken[3:])


def _notes(subject: Subject, report: Report) -> Iterator[str]:
    """What is saved that is neither an input nor an output, where second derivatives are wrong."""
    seconds = {"second_differences", "forward_over_reverse", "torch_func", "every_branch"}
    if not seconds & {f.check for f in report.findings}:
        return
    arguments = leaves(subject, draw(subject))
    try:
        found, outputs = saved(subject, bound(subject.call, subject.settings[0]), arguments)
    except Exception:
        return
    alive = {t.data_ptr() for t in (*arguments, *outputs) if isinstance(t, Tensor)}
    own = [t for t in (*found, *kept_on(outputs)) if t.data_ptr() not in alive and t.is_floating_point()]
    if own:
        shapes = ", ".join(str(tuple(t.shape)) for t in own)
        yield f"backward keeps {len(own)} floats that are neither inputs nor outputs, of shapes {shapes}"
