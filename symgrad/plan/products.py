"""Products of derivatives: without what is 1, with one sign, and with their small factors together."""

from __future__ import annotations

from symgrad.accuracy.machine import MUCH
from symgrad.analysis.sizes import elements
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make
from symgrad.ops.tensors import shape_only
from symgrad.ops.tensors.shapes import same_shape, shape_sources

__all__ = ["simpler_product", "without_numbers"]


def simpler_product(product: Expr) -> Expr:
    """The same product of elements, of fewer or better factors."""
    return _with_powers_apart(_without_signs(_without_ones(product)))


def _without_ones(product: Expr) -> Expr:
    """A product without the sum of a softmax, which is 1, where its shape is not needed."""
    for factor in product.args:
        if factor.op == "sum" and factor.args[0].op == "softmax" and factor["dim"] == factor.args[0]["dim"]:
            rest = ex.mul(*(f for f in product.args if f is not factor))
            if same_shape(shape_sources(rest), product):
                return rest
    return product


def _without_signs(product: Expr) -> Expr:
    """a * (b + c) for -a * (-b - c)."""
    negative = [f for f in product.args if f.op == "add" and all(ex.split_coefficient(t)[0] < 0 for t in f.args)]
    if not negative:
        return product
    turned = [ex.add(*(-t for t in f.args)) for f in negative]
    return ex.mul((-1) ** len(negative), *(f for f in product.args if f not in negative), *turned)


def _with_powers_apart(product: Expr) -> Expr:
    """a**2 * (b**2 * c / d) for (a * b)**2 * (c / d), where b, c and d have few elements.

    What has few elements is multiplied first, and the quotient c / d alone may overflow where b is small.
    """

    def is_small(part: Expr) -> bool:
        return elements(part) * MUCH <= elements(product)

    if sum(map(is_small, product.args)) < 2:
        return product
    factors: list[Expr] = []
    for factor in product.args:
        base, exponent = ex.split_power(factor)
        n = exponent.number
        is_apart = base.op == "mul" and n is not None and n.denominator == 1 and any(map(is_small, base.args))
        factors += [ex.power(part, exponent) for part in base.args] if is_apart else [factor]
    return ex.mul(*factors)


def without_numbers(product: Expr) -> Expr:
    """c * (a @ g) for (c * a) @ g with a cotangent g, unless the gradient has more elements than a.

    The gradient is a tensor of its own, over which it is multiplied; a has to be left as it is.
    """
    if not any(s["kind"] == "cotangent" for s in product.symbols if s.is_differential):
        return product
    operands, numbers = list(product.args), []
    for k, operand in enumerate(operands):
        if k in shape_only(product) or operand.op != "mul" or operand.is_differential:
            continue
        own = [f for f in operand.args if f.is_static]
        if own and elements(product) <= elements(operand):
            operands[k] = ex.mul(*(f for f in operand.args if f not in own))
            numbers += own
    return ex.mul(*numbers, make(product.op, *operands, **dict(product.attrs))) if numbers else product
