"""Functions that torch lacks, or that it cannot differentiate, in torch.

Generated files take from here what they use. Everything is made of torch's operations on whole tensors, so that
autograd, forward mode, vmap and torch.compile see through it.
"""

from __future__ import annotations

import torch
from torch import Tensor


def _attached(x: Tensor, value: Tensor, *slopes: Tensor) -> Tensor:
    """`value`, which belongs to x without its history, with derivatives: Taylor's polynomial about x, at x."""
    offset = x - x.detach()
    total = torch.zeros_like(value)
    for order in range(len(slopes), 0, -1):
        total = offset / order * (slopes[order - 1] + total)
    return value + total


def _bessel_slopes(zero: Tensor, one: Tensor, x: Tensor, sign: float, turn: float) -> tuple[Tensor, ...]:
    """The first three derivatives of C0, and of C1, where C0' = sign*C1 and C1' = turn*C0 - C1/x."""
    quotient = torch.where(x == 0, 0.5, one / x)
    first = turn * zero - quotient
    # d/dx of C1/x is (C1' - C1/x) / x, which is 0 at 0.
    bend = torch.where(x == 0, torch.zeros_like(x), (first - quotient) / x)
    second = turn * sign * one - bend
    third_of_quotient = torch.where(x == 0, torch.full_like(x, -0.125), (second - 2 * bend) / x)
    third = turn * sign * first - third_of_quotient
    return first, second, third


def _bessel_j0(x: Tensor) -> Tensor:
    at = x.detach()
    zero, one = torch.special.bessel_j0(at), torch.special.bessel_j1(at)
    first, second, _ = _bessel_slopes(zero, one, at, -1.0, 1.0)
    return _attached(x, zero, -one, -first, -second)


def _bessel_j1(x: Tensor) -> Tensor:
    at = x.detach()
    zero, one = torch.special.bessel_j0(at), torch.special.bessel_j1(at)
    return _attached(x, one, *_bessel_slopes(zero, one, at, -1.0, 1.0))


def _bessel_y0(x: Tensor) -> Tensor:
    at = x.detach()
    zero, one = torch.special.bessel_y0(at), torch.special.bessel_y1(at)
    first, second, _ = _bessel_slopes(zero, one, at, -1.0, 1.0)
    return _attached(x, zero, -one, -first, -second)


def _bessel_y1(x: Tensor) -> Tensor:
    at = x.detach()
    zero, one = torch.special.bessel_y0(at), torch.special.bessel_y1(at)
    return _attached(x, one, *_bessel_slopes(zero, one, at, -1.0, 1.0))


def _modified_bessel_k0(x: Tensor) -> Tensor:
    at = x.detach()
    zero, one = torch.special.modified_bessel_k0(at), torch.special.modified_bessel_k1(at)
    first, second, _ = _bessel_slopes(zero, one, at, -1.0, -1.0)
    return _attached(x, zero, -one, -first, -second)


def _modified_bessel_k1(x: Tensor) -> Tensor:
    at = x.detach()
    zero, one = torch.special.modified_bessel_k0(at), torch.special.modified_bessel_k1(at)
    return _attached(x, one, *_bessel_slopes(zero, one, at, -1.0, -1.0))


def _scaled_modified_bessel_k0(x: Tensor) -> Tensor:
    at = x.detach()
    zero, one = torch.special.scaled_modified_bessel_k0(at), torch.special.scaled_modified_bessel_k1(at)
    first, second, _ = _bessel_slopes(zero, one, at, -1.0, -1.0)
    # (exp(x) K)' and on, from the derivatives of K times exp(x).
    d1, d2, d3 = -one, -first, -second
    return _attached(x, zero, zero + d1, zero + 2 * d1 + d2, zero + 3 * d1 + 3 * d2 + d3)


def _scaled_modified_bessel_k1(x: Tensor) -> Tensor:
    at = x.detach()
    zero, one = torch.special.scaled_modified_bessel_k0(at), torch.special.scaled_modified_bessel_k1(at)
    d1, d2, d3 = _bessel_slopes(zero, one, at, -1.0, -1.0)
    return _attached(x, one, one + d1, one + 2 * d1 + d2, one + 3 * d1 + 3 * d2 + d3)
