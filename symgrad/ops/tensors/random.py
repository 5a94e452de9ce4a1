"""Random numbers that a seed and a place determine: they may be drawn again wherever they are needed.

The numbers are those of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014),
with the place of an element as the counter. They are integers, so that no derivative passes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from symgrad.ir.expr import HALF, ONE, ZERO, Expr, make, num
from symgrad.ir.truth import compare, where
from symgrad.ops.tensors.row import Attribute, TensorOp

BITS = 23  # so that the middle of each of as many equal parts of (0, 1) is a float32
_PARTS = num(2**BITS)


def _uniform(like: Expr, seed: Expr) -> Expr:
    """Between 0 and 1, and neither of them."""
    return (make("random_bits", like, seed) + HALF) * num(Fraction(1, 2**BITS))


def _normal(like: Expr, seed: Expr) -> Expr:
    return make("ndtri", _uniform(like, seed))


def _dropout(x: Expr, seed: Expr, p: Expr) -> Expr:
    if p.number is not None and not 0 <= p.number < 1:
        raise ValueError("the share of what is dropped is at least 0 and below 1")
    return where(compare("lt", make("random_bits", x, seed), p * _PARTS), ZERO, x / (ONE - p))


_SEED: dict[str, Any] = {"operands": ("like", "seed"), "seeds": frozenset({1})}

ROWS = (
    TensorOp("uniform", definition=_uniform, **_SEED),
    TensorOp("normal", definition=_normal, **_SEED),
    TensorOp(
        "dropout",
        operands=("input", "seed"),
        attributes=(Attribute("p", "number", required=True),),
        order=("input", "p", "seed"),
        seeds=frozenset({1}),
        definition=_dropout,
    ),
)

INTERNAL = (
    TensorOp(
        "random_bits",
        torch="rt.random_bits({shape0}, {1}, {like0})",
        shape_of=0,
        shape_only=frozenset({0}),
        integer=frozenset({1}),
        differentiable=False,
        called=tuple(row.name for row in ROWS),
        exact=True,
        cost=30.0,
        **_SEED,
    ),
)
