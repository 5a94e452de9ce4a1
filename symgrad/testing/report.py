"""Holding any Function against the composite of its formula, and what was found."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

# Each of these enters its checks into the table.
from symgrad.testing import (  # noqa: F401
    compilers,
    conduct,
    derivatives,
    dtypes,
    half,
    packing,
    promises,
    transforms,
    values,
    variants,
)
from symgrad.testing.checks import CHECKS, Finding, applicable, brief, run
from symgrad.testing.facts import Input, Settings, Shapes, Subject
from symgrad.testing.samples import bound, closed, draw, forward_ad

__all__ = ["CHECKS", "Report", "check_function", "inspect_subject", "make_subject", "with_its_modes"]


@dataclass(frozen=True)
class Report:
    """What was found about an operation: ``findings``, and the names of the checks that ran."""

    name: str
    findings: tuple[Finding, ...]
    ran: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every property holds."""
        return not self.findings

    def __str__(self) -> str:
        if self.ok:
            return f"{self.name}: {len(self.ran)} checks passed"
        failed = len({f.check for f in self.findings})
        lines = [f"{self.name}: {failed} of {len(self.ran)} checks failed"]
        return "\n".join([*lines, *(f"  {finding}" for finding in self.findings)])


def make_subject(
    function: Callable[..., Any] | type[torch.autograd.Function],
    reference: Callable[..., Any],
    inputs: Sequence[Input | str] | None = None,
    **facts: Any,
) -> Subject:
    """The subject of check_function, which describes the arguments."""
    is_class = isinstance(function, type) and issubclass(function, torch.autograd.Function)
    own: Any = function if is_class else facts.pop("function", None)
    if inputs is None:
        names = [p.name for p in inspect.signature(reference).parameters.values() if p.default is p.empty]
        inputs = [n for n in names if not any(n in s for s in facts.get("settings", ()))]
    made = tuple(t if isinstance(t, Input) else Input(t) for t in inputs)
    name = facts.pop("name", None) or getattr(function, "__name__", type(function).__name__)
    count = facts.setdefault("outputs", None)
    if count is None:
        facts["outputs"] = _outputs(reference, made, facts)
    options: dict[str, Any] = {"jit": False, "rounded_once": (False, False), **facts}
    subject = Subject(name=name, call=function, composite=reference, inputs=made, function=own, **options)
    if not is_class:
        return subject
    order = tuple(subject.settings[0])

    def call(*tensors: Any, **settings: Any) -> Any:
        return own.apply(*tensors, *(settings[k] for k in order))

    object.__setattr__(subject, "call", call)
    return subject


def _outputs(reference: Callable[..., Any], inputs: Sequence[Input], facts: dict[str, Any]) -> tuple[str, ...]:
    """Names for the outputs of a reference, which is called once for their number."""
    probe = Subject("probe", reference, reference, tuple(inputs), **{k: v for k, v in facts.items() if k in _PROBED})
    found = reference(*draw(probe), **probe.settings[0])
    return tuple(f"y{k}" for k in range(len(found))) if isinstance(found, (tuple, list)) else ("y",)


_PROBED = ("shapes", "settings")


def inspect_subject(
    subject: Subject, *, only: Iterable[str] = (), skip: Iterable[str] = (), devices: Sequence[str] | None = None
) -> Report:
    """Run the checks that apply to a subject, on the CPU and, by default, on CUDA where there is one."""
    unknown = [name for name in (*only, *skip) if name not in CHECKS]
    if unknown:
        raise ValueError(f"there is no check called {unknown[0]!r}; there are {', '.join(CHECKS)}")
    if devices is None:
        devices = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
    chosen = [c for c in applicable(subject) if (not only or c.name in only) and c.name not in skip]
    found = [f for c in chosen for d in (devices if c.on_devices else devices[:1]) for f in run(c, subject, d)]
    return Report(subject.name, tuple(found), tuple(c.name for c in chosen))


def check_function(
    function: Callable[..., Any] | type[torch.autograd.Function],
    reference: Callable[..., Any],
    inputs: Sequence[Input | str] | None = None,
    *,
    shapes: Sequence[Shapes] = (),
    settings: Sequence[Settings] = ({},),
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    devices: Sequence[str] | None = None,
    raises: bool = True,
    **facts: Any,
) -> Report:
    """Hold ``function`` against ``reference``, the composite of its formula in plain torch operations.

    ``function`` is a torch.autograd.Function, or what people call: tensors by position, then hyperparameters by name
    (of a Function, by position). ``inputs`` are the tensors, by name or as Input; by default they are the arguments of
    the reference. ``shapes`` are samples of the shapes of all tensors, which broadcast otherwise, and ``settings`` of
    the hyperparameters. ``facts`` are other fields of Subject: ``fixed`` outputs, a ``rule`` for gradients that are not
    the formula's, ``double_backward=False``, ``residuals``, ``accuracy`` and so on.

    ``only`` and ``skip`` name checks; ``CHECKS`` has all of them.

    Returns a report of what was found. Raises AssertionError with all of it, unless ``raises`` is False.
    """
    facts |= {"shapes": tuple(shapes), "settings": tuple(settings)}
    subject = make_subject(function, reference, inputs, **facts)
    only, skip = tuple(only), tuple(skip)
    subject, missing, without = with_its_modes(subject)
    report = inspect_subject(subject, only=only, skip=(*skip, *(w for w in without if w not in only)), devices=devices)
    missing = tuple(f for f in missing if f.check not in skip and (not only or f.check in only))
    ran = dict.fromkeys((*(f.check for f in missing), *report.ran))
    report = replace(report, findings=(*missing, *report.findings), ran=tuple(ran))
    if raises and not report.ok:
        raise AssertionError(str(report))
    return report


_FUNCTORCH = ("torch_func", "vmap_over_some", "vmap_of_values", "forward_mode", "compiled_torch_func")


def with_its_modes(subject: Subject) -> tuple[Subject, tuple[Finding, ...], tuple[str, ...]]:
    """A subject of which no mode is asked that it has not at all, a finding for each of these, and the checks that
    need them."""
    missing: list[Finding] = []
    without: list[str] = []
    f, x = closed(subject, bound(subject.call, subject.settings[0]), draw(subject))
    if x and subject.linear:
        try:
            with forward_ad.dual_level():
                f(*(forward_ad.make_dual(t, torch.ones_like(t)) for t in x))
        except (NotImplementedError, RuntimeError) as error:
            missing.append(Finding("forward_mode", "missing", f"forward mode raises: {brief(error)}"))
            subject = replace(subject, linear=False)
            without.append("forward_mode_is_refused")
    try:
        torch.func.vmap(f)(*(torch.stack([t, t]) for t in x))
    except (NotImplementedError, RuntimeError) as error:
        missing.append(Finding("torch_func", "missing", f"no transform of torch.func works: {brief(error)}"))
        without += _FUNCTORCH
    return subject, tuple(missing), tuple(without)
