"""Checks of what is kept in fewer bits: how far it is off, and the gradients by no more than that changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor

from symgrad.testing.checks import check, packing_of
from symgrad.testing.compare import differences, gradient_names
from symgrad.testing.conduct import saved
from symgrad.testing.facts import Settings, Subject
from symgrad.testing.samples import bound, composite, descended, differentiated, draw, leaves, present, total

__all__ = ["packed_residuals", "stated_error"]

_LONG = 32  # elements of a row that has a scale of its own
_CURVED = 1.5  # times what each element changes alone, for what they change together


def stated_error(form: str, value: Tensor) -> Tensor:
    """How far each element of a value may be off in a form."""
    rows = value.dim() and value.shape[-1] >= _LONG
    largest = value.abs().amax(-1, keepdim=True) if rows else value.abs().amax()
    return largest.expand_as(value) / 254 if form == "int8" else torch.maximum(value.abs() / 16, largest / 458752)


@check(applies=lambda subject: bool(subject.packed), packed=True)
def packed_residuals(subject: Subject, device: str) -> Iterator[str]:
    """What is packed takes a byte or a bit, is off by no more than stated, and so are the gradients."""
    seen = False
    for shapes, settings in [*subject.cases(), *((s, subject.settings[0]) for s in subject.large)]:
        x = leaves(subject, draw(subject, shapes, device=device))
        found, _ = saved(subject, bound(subject.call, settings), x)
        seen = seen or any(t.element_size() == 1 and t.dtype != torch.bool for t in found)
        if set(subject.packed.values()) != {"bit"}:
            packed = _Packed(subject, settings, x)
            case = subject.described(shapes, settings)
            own = packed.too_far() if shapes in subject.large else (*packed.too_far(), *packed.gradients_off())
            yield from (f"{sentence} {case}" for sentence in own)
    if not seen:
        yield f"{', '.join(subject.packed)}: nothing of it is kept in fewer bits"
    yield from _differentiated(subject, device)


def _differentiated(subject: Subject, device: str) -> Iterator[str]:
    """A second derivative is that of the formula, or is refused."""
    settings = subject.settings[0]
    results = []
    for function in (bound(subject.call, settings), composite(subject, settings)):
        x = leaves(subject, draw(subject, device=device))
        wrt = differentiated(x)
        try:
            grads = descended(total(subject, function(*x)), wrt, create_graph=True)
        except RuntimeError as error:
            if "fewer bits" not in str(error):
                raise
            return
        live = [g.square().sum() for g in grads if g.requires_grad]
        results.append(descended(torch.stack(live).sum(), wrt) if live else [])
    names = gradient_names(subject, present(x, subject.places))
    yield from differences(names, *results, case="differentiated again", subject=subject)


@dataclass
class _Packed:
    """A call of an operation: the `values` that it packed, with their forms, and its gradients from other ones."""

    subject: Subject
    settings: Settings
    tensors: Sequence[Any]

    def __post_init__(self) -> None:
        self.runtime = packing_of(self.subject)
        self.forms = {form for form in self.subject.packed.values() if form != "bit"}
        self.values: list[tuple[str, Tensor]] = []
        self.unpacked: list[Tensor] = []

        def recording(form: str, pack: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
            def packs(value: Tensor) -> Any:
                self.values.append((form, value.detach().clone()))
                return pack(value)

            return packs

        lossy: Mapping[str, Any] = self.runtime.LOSSY
        with patch.object(self.runtime, "LOSSY", {form: recording(form, pack) for form, pack in lossy.items()}):
            self.result = total(self.subject, bound(self.subject.call, self.settings)(*self.tensors))
        self.found = self._gradients(None)

    def _gradients(self, given: Sequence[Tensor] | None) -> list[Tensor]:
        """The gradients from what was packed, or from values that are given in its place."""
        unpack = self.runtime._unpacked
        own = iter(given or ())

        def unpacked(first: Any, more: Any, packed: Any) -> Any:
            found = unpack(first, more, packed)
            if packed is None or packed[0] not in self.forms:
                return found
            if given is None:
                self.unpacked.append(found)
            return found if given is None else next(own)

        with patch.object(self.runtime, "_unpacked", unpacked):
            return descended(self.result, differentiated(self.tensors), retain_graph=True)

    def too_far(self) -> Iterator[str]:
        """Values that are further off than is stated."""
        for (form, value), own in zip(self.values, self.unpacked, strict=True):
            if not bool(((own - value).abs() <= stated_error(form, value) * (1 + 1e-6)).all()):
                yield f"what is kept as {form} is off by {float((own - value).abs().max()):.2g}, more than is stated,"

    def gradients_off(self) -> Iterator[str]:
        """Gradients that are further off than what is stated of each value, changed by itself, explains."""
        exact = [value for _, value in self.values]
        want = self._gradients(exact)
        allowed = [torch.zeros_like(g) for g in want]
        for k, (form, value) in enumerate(self.values):
            error = stated_error(form, value)
            for place in range(error.numel()):
                change = torch.zeros_like(value).view(-1)
                change[place] = error.reshape(-1)[place]
                sides = []
                for moved in (value + change.view_as(value), value - change.view_as(value)):
                    grads = self._gradients([*exact[:k], moved, *exact[k + 1 :]])
                    sides.append([(a - b).abs() for a, b in zip(grads, want, strict=True)])
                allowed = [a + torch.maximum(*two) for a, two in zip(allowed, zip(*sides, strict=True), strict=True)]
        names = gradient_names(self.subject, present(self.tensors, self.subject.places))
        for name, own, true, most in zip(names, self.found, want, allowed, strict=True):
            slack = 1e-9 * (1 + true.abs())
            if not bool(((own - true).abs() <= _CURVED * most + slack).all()):
                yield f"{name} is off by {float((own - true).abs().max()):.2g}, more than what is kept explains,"
