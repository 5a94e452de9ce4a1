"""What a result is held against: values and derivatives of the formula, where autograd or torch gets them wrong too."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from symgrad.testing.facts import Settings, Subject
from symgrad.testing.samples import bound, cast, gradients, listed, present, scalar

__all__ = ["all_expected", "expected", "has_values", "reference", "undefined", "with_quotients"]

_broadcast_shapes: Any = torch.broadcast_shapes  # has no annotations
_MOST_QUOTIENTS = 4  # of one gradient
_MOST_DOUBTFUL = 100  # elements


def reference(subject: Subject, settings: Settings) -> Callable[..., Any]:
    """What has the right derivatives, as a function of the tensors alone."""
    formula = _with_derivatives(bound(subject.reference or subject.composite, settings))
    if subject.rule is None:
        return formula
    rule = _rule(subject, settings)
    places = [i for i, t in enumerate(subject.inputs) if t.name in subject.overridden]

    def overridden(*tensors: Any) -> Any:
        fixed = [t.detach() if i in places and t is not None else t for i, t in enumerate(tensors)]
        values, zeros = listed(subject, formula(*fixed)), listed(subject, rule.apply(*tensors))
        outputs = tuple(
            v + z if v.is_floating_point() and k in subject.live else v
            for k, (v, z) in enumerate(zip(values, zeros, strict=True))
        )
        return outputs if len(outputs) > 1 else outputs[0]

    return overridden


class _Differentiable(TorchFunctionMode):
    """Determinants by QR and solutions by the inverse: of torch's own, the gradient of a tangent is wrong (2.13), as it
    takes the inverse or the factors of the matrix in the tangent for constants. Clamps pass the gradient at their
    bounds, which is the convention whatever torch is installed: newer ones do not (pytorch#191142)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _DIFFERENTIABLE.get(func, func)(*args, **(kwargs or {}))


def _with_derivatives(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*tensors: Any) -> Any:
        with _Differentiable():
            return function(*tensors)

    return call


def _sign_and_diagonal(a: Tensor) -> tuple[Tensor, Tensor]:
    q, r = torch.linalg.qr(a)
    diagonal = torch.linalg.diagonal(r)
    with torch._C.DisableTorchFunction():
        sign = torch.linalg.det(q.detach())
    return (sign.round() * diagonal.sign().prod(-1)).detach(), diagonal


def _det(a: Tensor) -> Tensor:
    sign, diagonal = _sign_and_diagonal(a)
    return sign * diagonal.abs().prod(-1)


def _logdet(a: Tensor) -> Tensor:
    sign, diagonal = _sign_and_diagonal(a)
    return diagonal.abs().log().sum(-1) + sign.log()


def _slogdet(a: Tensor) -> Any:
    sign, diagonal = _sign_and_diagonal(a)
    return torch.return_types.slogdet((sign, diagonal.abs().log().sum(-1)))


def _solve(a: Tensor, b: Tensor) -> Tensor:
    dtype = torch.promote_types(a.dtype, b.dtype)
    a, b = a.to(dtype), b.to(dtype)  # of a product, say, that autocast has cast: it casts solutions back
    of_vectors = b.dim() == 1 or b.shape == a.shape[:-1]
    with torch.autocast(a.device.type, enabled=False):  # which casts products, and no solution
        solution: Tensor = torch.linalg.inv(a) @ (b.unsqueeze(-1) if of_vectors else b)
    return solution.squeeze(-1) if of_vectors else solution


def _clamp(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    held = torch.clamp(x, min, max)
    if isinstance(min, Tensor) or isinstance(max, Tensor) or not x.is_floating_point():
        return held
    inside = (x >= (-math.inf if min is None else min)) & (x <= (math.inf if max is None else max))
    return torch.where(inside, x, held.detach())


_DIFFERENTIABLE: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((torch.det, torch.linalg.det, Tensor.det), _det),
    **dict.fromkeys((torch.logdet, Tensor.logdet), _logdet),
    **dict.fromkeys((torch.slogdet, torch.linalg.slogdet, Tensor.slogdet), _slogdet),
    torch.linalg.solve: _solve,
    **dict.fromkeys((torch.clamp, Tensor.clamp, torch.clip, Tensor.clip), _clamp),
}


def _rule(subject: Subject, settings: Settings) -> Any:
    """A Function that is zero, with the gradients that the subject's rule gives, and their transposes."""
    names = [t.name for t in subject.inputs]
    places = [names.index(n) for n in subject.overridden]

    def gradients(cotangents: Sequence[Tensor], tensors: Sequence[Any]) -> list[Any]:
        assert subject.rule is not None
        given = subject.rule(*cotangents, *tensors, **settings)
        found: list[Any] = [None] * len(tensors)
        for i, g in zip(places, given if isinstance(given, (tuple, list)) else (given,), strict=True):
            if g is not None and tensors[i] is not None:
                g = g if isinstance(g, Tensor) else torch.as_tensor(g).to(tensors[i])
                found[i] = g.expand(_broadcast_shapes(g.shape, tensors[i].shape)).sum_to_size(tensors[i].shape)
        return found

    class Rule(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*tensors: Any) -> Any:
            values = listed(subject, subject.composite(*tensors, **settings))
            zeros = tuple(torch.zeros_like(v) for v in values)
            return zeros if len(zeros) > 1 else zeros[0]

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)
            ctx.mark_non_differentiable(*(v for v in listed(subject, output) if not v.is_floating_point()))

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            tensors = ctx.saved_tensors
            found = gradients(cotangents, tensors)
            return tuple(g if g is None else g.to(t.dtype) for g, t in zip(found, tensors, strict=True))

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            tensors = ctx.saved_tensors
            values = listed(subject, subject.composite(*tensors, **settings))
            zeros = [torch.zeros_like(v) for v in values]
            wanted = [i for i in places if tensors[i] is not None and tangents[i] is not None]
            floats = [k for k, z in enumerate(zeros) if z.is_floating_point()]

            def weighed(*live: Tensor) -> Tensor:
                cotangents = [*zeros]
                for k, cotangent in zip(floats, live, strict=True):
                    cotangents[k] = cotangent
                found = gradients(cotangents, tensors)
                terms = [(found[i] * tangents[i]).sum() for i in wanted if found[i] is not None]
                return torch.stack([*terms, *(0 * c.sum() for c in live)]).sum()

            transposed = torch.func.grad(weighed, tuple(range(len(floats))))(*(zeros[k] for k in floats))
            results: list[Any] = [None] * len(zeros)
            for k, tangent in zip(floats, transposed, strict=True):
                results[k] = tangent
            return tuple(results) if len(zeros) > 1 else results[0]

    return Rule


def undefined(subject: Subject, settings: Settings, tensors: Sequence[Any]) -> str:
    """A hint for where the formula itself has no finite value or gradient; an empty text where it has."""
    outputs, found = gradients(subject, reference(subject, settings), tensors)
    if all(bool(t.isfinite().all()) for t in (*outputs, *found)):
        return ""
    return (
        "; the formula itself is not finite there: a 'domain', or 'ranges' and 'shapes' under 'test', says where it is"
    )


def expected(
    subject: Subject, settings: Settings, tensors: Sequence[Any], wanted: Sequence[int] | None = None
) -> tuple[list[Tensor], list[Tensor]]:
    """The outputs and gradients of the reference.

    Where autograd takes 0 times infinity of a dead branch for no number, the derivative is what difference quotients
    tend to; no number is left where some tend to none, as at the tip of a cone.
    """
    function = reference(subject, settings)
    outputs, found = gradients(subject, function, tensors, wanted)
    if has_values(outputs) and any(bool(g.isnan().any()) for g in found):
        places = present(tensors, subject.places if wanted is None else wanted)
        doubles = cast(tensors, torch.float64)
        of = scalar(subject, function)
        lost = [
            (g, tuple(index), place)
            for place, g in zip(places, found, strict=True)
            for index in g.isnan().nonzero().tolist()[:_MOST_QUOTIENTS]
        ]
        quotients = [_quotient(of, doubles, place, index) for _, index, place in lost]
        if not any(map(math.isnan, quotients)):
            for (g, index, _), quotient in zip(lost, quotients, strict=True):
                g[index] = torch.tensor(quotient, dtype=torch.float64).to(g.dtype)  # infinite, where it is too large
    return outputs, found


def all_expected(
    subject: Subject, settings: Settings, tensors: Sequence[Any], wanted: Sequence[int] | None = None
) -> list[Tensor]:
    """The outputs of the reference, and after them its gradients."""
    outputs, found = expected(subject, settings, tensors, wanted)
    return [*outputs, *found]


def with_quotients(
    derivative: Tensor, doubtful: Tensor, function: Callable[..., Tensor], tensors: Sequence[Any], place: int
) -> Tensor:
    """A derivative of a number in one tensor by autograd, with what difference quotients tend to where it is doubtful.

    Of ``abs(x)**2`` autograd has the second derivative 0 at 0, for it multiplies two signs.
    """
    settled = derivative.clone()
    for index in map(tuple, doubtful.nonzero().tolist()[:_MOST_DOUBTFUL]):
        quotient = _quotient(function, tensors, place, index)
        settled[index] = settled[index] if math.isnan(quotient) else quotient
    return settled


def has_values(outputs: Sequence[Tensor]) -> bool:
    """Whether the formula has a value at every element: only then are its gradients a reference."""
    return not any(bool(y.isnan().any()) for y in outputs if y.is_floating_point())


def _quotient(function: Callable[..., Tensor], tensors: Sequence[Any], place: int, index: tuple[int, ...]) -> float:
    """The derivative of a number in one element by extrapolated central differences.

    NaN where they do not agree, at a pole, or where there is a kink: a cone has the same value on both sides of its
    tip.
    """

    def at(step: float) -> float:
        moved = [t.clone() if k == place else t for k, t in enumerate(tensors)]
        moved[place][index] += step
        return float(function(*moved).detach())

    def central(step: float) -> float:
        return (at(step) - at(-step)) / (2 * step)

    if not math.isfinite(at(0.0)):
        return math.nan
    size = 1e-3 * max(abs(float(tensors[place][index].detach())), 1e-2)
    bends = [abs(at(step) - 2 * at(0.0) + at(-step)) / step for step in (size, size / 8)]
    noise = 1e-7 * max(1.0, abs(at(0.0)))
    if not bends[1] <= 0.5 * bends[0] + noise:  # of a smooth function an eighth
        return math.nan
    rows = [central(size / 2**k) for k in range(5)]
    for order in (2, 4, 16):  # beside a bend of the third order they are off by a multiple of the step
        rows = [(order * b - a) / (order - 1) for a, b in pairwise(rows)]
    return rows[1] if abs(rows[1] - rows[0]) <= 1e-7 * (1 + abs(rows[1])) else math.nan
