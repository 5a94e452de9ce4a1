"""Products have one sign, no number inside, and their small factors together."""

from __future__ import annotations

import pytest
import torch
from compiled import compiled_text

from symgrad.ir.expr import Expr, make, symbol
from symgrad.plan.hoist import hoisted

ROWS, WEIGHT = symbol("x", "tensor", ("N", "D")), symbol("w", "tensor", ("D", "H"))
WHOLE, COLUMN = symbol("grad_y", "cotangent", ("N", "H")), symbol("grad_z", "cotangent", ("N", 1))
SCALE = symbol("scale", "float")


def summed(value: Expr, dim: int = -1) -> Expr:
    return make("sum", value, dim=dim, keepdim=True)


def test_a_number_leaves_a_product_with_a_cotangent() -> None:
    gradient = make("matmul", make("mT", SCALE * ROWS), WHOLE)
    assert hoisted(gradient) is gradient  # it does not multiply what the product reads
    direct = make("matmul_right", SCALE * ROWS, WHOLE, WEIGHT)
    assert hoisted(direct) is SCALE * make("matmul_right", ROWS, WHOLE, WEIGHT)
    forward = make("matmul", SCALE * ROWS, WEIGHT)
    assert hoisted(forward) is forward  # a value of forward is shared with it
    tangent = make("matmul", SCALE * ROWS, symbol("tangent_w", "tangent"))
    assert hoisted(tangent) is tangent


def test_a_number_stays_where_the_product_is_larger() -> None:
    small = symbol("s", "tensor", (2, 3))
    gradient = make("matmul", SCALE * small, symbol("grad_y", "cotangent", (3, 50)))
    assert hoisted(gradient) is gradient


@pytest.mark.parametrize(
    ("formula", "shapes"),
    [
        ("(-x) @ y", ((3, 4), (4, 5))),
        ("(2 * x) @ (-y)", ((2, 3, 4), (4,))),
        ("conv1d(-x, y / 2)", ((2, 3, 6), (4, 3, 2))),
        ("conv2d(3 * x, -y, padding=1)", ((2, 3, 6, 5), (4, 3, 2, 2))),
        ("einsum('ij,jk->ik', -x, y / 2)", ((3, 4), (4, 5))),
    ],
)
def test_a_number_in_what_lends_its_shape_is_no_factor(formula: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    item = compiled_text(f'op: f\ntensors: {{x: , y: }}\noutputs: {{z: "{formula}"}}\n')
    tensors = [torch.rand(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    own, right = (torch.autograd.grad(f(*tensors).sin().sum(), tensors) for f in (item.function, item.composite))
    torch.testing.assert_close(own, right)


def test_signs_that_cancel_are_not_computed() -> None:
    a, b, c = (symbol(n, "tensor", ("N", "H")) for n in "abc")
    assert hoisted(-c * WHOLE * (-a - b)) is c * WHOLE * (a + b)
    assert hoisted(c * WHOLE * (a - b)) is c * WHOLE * (a - b)


def test_a_power_of_few_elements_is_multiplied_with_the_others() -> None:
    """In (x * s)**2 * (g / r) the quotient alone overflows where r is small, though s is, too."""
    g, small, r = symbol("grad_z", "cotangent", ("N", 1)), summed(ROWS), summed(ROWS**2)
    product = (ROWS * small) ** 2 * g / r**3
    assert hoisted(product) is ROWS**2 * small**2 * g / r**3
    assert hoisted((ROWS * small) ** 2 * WHOLE) is (ROWS * small) ** 2 * WHOLE


def test_rows_of_zeros_have_gradients_beside_their_eps() -> None:
    """Silent signals in the signal-to-distortion ratio, whose cube of 1 / eps overflows."""
    item = compiled_text(
        "op: f\ntensors: {e: {shape: [B, T]}, r: {shape: [B, T]}}\nlet:\n"
        "  along: sum(e * r, dim=-1, keepdim=True) / (sum(r**2, dim=-1, keepdim=True) + 1e-8) * r\n"
        "outputs:\n  y: mean(log10(sum(along**2, dim=-1) / (sum((e - along)**2, dim=-1) + 1e-8) + 1e-8))\n"
    )
    e, r = (torch.zeros(2, 16, requires_grad=True) for _ in range(2))
    for gradient in torch.autograd.grad(item.function(e, r), (e, r)):
        assert torch.equal(gradient, torch.zeros(2, 16))
