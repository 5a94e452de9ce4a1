"""Sums of outer products are one product of matrices."""

from __future__ import annotations

import torch
from compiled import compiled_text

ROUNDS = """
op: scaled_rounds
tensors: {m: {shape: [n, k]}, b: {shape: [k]}}
let:
  v: b
  sweeps:
    repeat: 3
    let:
      u: sin(m @ v)
      v: cos(m.mT @ u)
outputs: {y: v}
"""


def test_outer_products_of_one_gradient_are_one_product_of_matrices() -> None:
    """Each by itself would be written, and added to the others, as large as the matrix: twice for each product."""
    item = compiled_text(ROUNDS)
    backward = item.text.split("def backward")[1].split("def jvp")[0]
    assert "matmul_left" not in backward
    m, b = torch.rand(4, 3, dtype=torch.float64), torch.rand(3, dtype=torch.float64)
    args = (m.requires_grad_(), b.requires_grad_())
    own, theirs = (torch.autograd.grad(f(*args).sum(), args) for f in (item.function, item.composite))
    torch.testing.assert_close(own, theirs)
    assert torch.autograd.gradgradcheck(item.function, args)


def test_one_outer_product_stays_a_product_of_elements() -> None:
    item = compiled_text("\nop: once\ntensors: {m: {shape: [n, k]}, b: {shape: [k]}}\noutputs: {y: 'm @ b'}\n")
    assert "matmul_left" in item.text
