"""`grad(expr, x)` under 'gradients' is the gradient of a formula, beside or in place of that of the outputs."""

from __future__ import annotations

import pytest
import torch
from compiled import compiled_text

from symgrad.errors import SpecError

ROUTER = """
op: f
tensors: {x: {shape: [N, E]}, w: {shape: [E]}}
let: {share: "softmax(x * w, dim=-1)", load: "mean(share, dim=0)"}
outputs: {p: share}
gradients: {x: "grad(grad_p * share, x) + 0.1 * grad(load**2, x)"}
"""


def test_an_auxiliary_loss_adds_its_gradient_and_the_rule_is_differentiated_as_a_formula() -> None:
    op = compiled_text(ROUTER)
    torch.manual_seed(0)
    x, w, g, h = (torch.randn(*s, dtype=torch.float64) for s in ((4, 3), (3,), (4, 3), (4, 3)))
    x.requires_grad_()
    (found,) = torch.autograd.grad(op.function(x, w), x, g, create_graph=True)
    share = (x * w).softmax(-1)
    loss = (g * share).sum() + 0.1 * (share.mean(0) ** 2).sum()
    (right,) = torch.autograd.grad(loss, x, create_graph=True)
    torch.testing.assert_close(found, right)
    second, expected = (torch.autograd.grad(one, x, h)[0] for one in (found, right))
    torch.testing.assert_close(second, expected)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("outputs: {y: 'x * grad(x, x)'}", "'grad' is known under 'gradients' only"),
        ("outputs: {y: x}\ngradients: {x: 'grad(x**2, x + 1)'}", "is the name of a tensor of floats"),
        ("outputs: {y: x}\ngradients: {x: 'grad(3, x)'}", "this depends on no tensor, so it has no gradient"),
        ("outputs: {y: x}\ngradients: {x: 'grad(x)'}", "lacks its argument 'tensor'"),
    ],
)
def test_what_has_no_gradient_is_refused(section: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        compiled_text(f"op: f\ntensors: {{x: }}\n{section}\n")
    assert message in str(caught.value)
