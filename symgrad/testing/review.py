"""A reviewer's report on a hand-written Function: what is wrong, how accurate it is, what it keeps and costs."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from symgrad.testing.checks import Finding
from symgrad.testing.conduct import kept_on, saved, size
from symgrad.testing.facts import Accuracy, Input, Settings, Subject
from symgrad.testing.report import Report, inspect_subject, make_subject
from symgrad.testing.samples import bound, closed, draw, forward_ad, gradients, leaves
from symgrad.testing.sources import spec_text
from symgrad.testing.values import WAYS, error_at

__all__ = ["Audit", "Contender", "audit"]

_ELEMENTS = 1 << 16  # of each tensor, where tensors broadcast and time is taken
_ROUNDS = 15
_SHOWN = 2  # findings of a check

_LOST = "an intermediate that is saved has lost its derivative: save inputs or outputs, and recompute"

ADVICE: Mapping[str, str] = {
    "second_differences": _LOST,
    "forward_over_reverse": _LOST,
    "undefined_cotangents": "every cotangent may be None, or zeros, whatever the others are",
    "materialised_cotangents": "call ctx.set_materialize_grads(False), and return None where the cotangent is None",
    "torch_func": "use setup_context and generate_vmap_rule; inside jvp, torch turns forward mode off",
    "compiled": "Dynamo refuses a class with a jvp: give torch.compile one without",
    "tensors_on_ctx": "save_for_backward frees them with the graph, and notices changes in place",
    "half_precision": "compute in float32, and round once",
    "sums_in_half_precision": "sum to the input's shape first, and round last",
    "backward_returns": "ask ctx.needs_input_grad, sum_to_size(input.shape), then cast to the input's dtype",
    "devices": "make zeros like a tensor, or on its device",
    "inputs_left_alone": "never change an input, a saved tensor or a cotangent in place; return a clone of an input",
    "special_values": "an expression overflows or is 0 * inf where the formula has a limit: write it another way",
    "extremes": "an expression overflows though its value does not: write it another way",
}
"""What to do about the findings of a check, where that is always the same."""


@dataclass(frozen=True)
class Contender:
    """Figures of one implementation: largest errors in ulp by quantity, bytes kept for backward, seconds of a forward
    and
    backward; None where it could not be had."""

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
        for kind, title in titles.items():
            found = [f for f in self.report.findings if f.kind == kind]
            if found:
                yield f"\n{title}"
            for check in dict.fromkeys(f.check for f in found):
                yield f"  {check}"
                sentences = [f.sentence for f in found if f.check == check]
                yield from (f"    {sentence}" for sentence in sentences[:_SHOWN])
                if len(sentences) > _SHOWN:
                    yield f"    and {len(sentences) - _SHOWN} more"
                if check in ADVICE:
                    yield f"    -> {ADVICE[check]}"
        if self.notes:
            yield "\nNotes"
            yield from (f"  {note}" for note in self.notes)
        yield from self._table()
        failed = len({f.check for f in self.report.findings})
        yield f"\n{len(self.report.ran) - failed} of {len(self.report.ran)} checks passed"

    def _table(self) -> Iterator[str]:
        rows = [["", *(c.name for c in self.contenders)]]
        for quantity in self.contenders[0].ulp if self.contenders else ():
            cells = [f"{c.ulp[quantity]:.3g}" if quantity in c.ulp else "" for c in self.contenders]
            rows.append([f"ulp of {quantity} in float32", *cells])
        if self.contenders:
            kept = ["-" if c.kept is None else str(c.kept) for c in self.contenders]
            rows.append(["bytes kept for backward", *kept])
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
    ``reference``,
    the formula in plain torch operations. With a spec or a formula the accuracy is measured against true values, and
    the
    generated Function stands beside in the table of figures.

    Raises ValueError unless there is one of the three, and what reading the spec raises.
    """
    if (spec is None) + (formula is None) + (reference is None) != 2:
        raise ValueError("an audit takes one of spec, formula and reference")
    generated: Subject | None = None
    if reference is not None:
        if settings:
            facts["settings"] = (settings,)
        subject = make_subject(function, reference, inputs, **facts)
        written = getattr(reference, "__name__", "the reference")
    else:
        generated, written = _of_spec(spec if formula is None else spec_text(function, formula, settings or {}))
        subject = _beside(function, generated, **facts)
    subject, missing, without = _able(subject)
    report = inspect_subject(subject, only=only, skip=(*skip, *(w for w in without if w not in only)))
    report = replace(report, findings=(*missing, *report.findings), ran=(*report.ran, *(f.check for f in missing)))
    contenders = tuple(_contenders(subject, generated, timed))
    return Audit(subject.name, written, report, contenders, tuple(_notes(subject, report)))


def _of_spec(spec: Any) -> tuple[Subject, str]:
    """The subject of the generated module, and its formula."""
    import symgrad

    module = symgrad.load(spec)
    texts = symgrad.generate(spec)
    package = module.__name__.rpartition(".")[0]
    scope: dict[str, Any] = {"__name__": f"{package}.test_{texts.op}", "__package__": package}
    exec(compile(texts.test, f"<test of {texts.op}>", "exec"), scope)
    found = next(v for k, v in scope.items() if k.startswith("Test") and hasattr(v, "subject"))
    lines = (texts.test.split('"""')[1]).strip().splitlines()[1:]
    return found.subject(), "; ".join(line.strip() for line in lines if line.strip())


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
    own = {"jit": False, "rounded_once": (False, False), "residuals": None, "kernel_residuals": 0, "accuracy": ()}
    none = {"refused": (), "bad_shapes": (), "numbers": (), "inplace": None, "module": None}
    return replace(generated, call=made.call, function=made.function, name=made.name, **{**own, **none, **facts})


_FUNCTORCH = ("torch_func", "vmap_over_some", "vmap_of_values", "forward_mode", "compiled_torch_func")


def _able(subject: Subject) -> tuple[Subject, tuple[Finding, ...], tuple[str, ...]]:
    """The subject without the modes that it has not at all, a finding for each of them, and the checks that need
    them."""
    missing: list[Finding] = []
    without: list[str] = []
    f, x = closed(subject, bound(subject.call, subject.settings[0]), draw(subject))
    if x and subject.linear:
        try:
            with forward_ad.dual_level():
                f(*(forward_ad.make_dual(t, torch.ones_like(t)) for t in x))
        except (NotImplementedError, RuntimeError) as error:
            missing.append(Finding("forward_mode", "missing", f"forward mode raises: {_short(error)}"))
            subject = replace(subject, linear=False)
            without += ["forward_mode_is_refused"]
    try:
        torch.func.vmap(f)(*(torch.stack([t, t]) for t in x))
    except (NotImplementedError, RuntimeError) as error:
        missing.append(Finding("torch_func", "missing", f"no transform of torch.func works: {_short(error)}"))
        without += _FUNCTORCH
    return subject, tuple(missing), tuple(without)


def _short(error: BaseException) -> str:
    return " ".join(str(error).split()).partition(". ")[0][:200]


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
        for point in promise.points:
            try:
                error = error_at(subject, promise, torch.float32, point, WAYS[0], "cpu")
            except Exception:
                error = math.inf
            if error is not None:
                found[promise.quantity] = max(found.get(promise.quantity, 0.0), error)
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
