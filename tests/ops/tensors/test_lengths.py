"""Sizes that are told by those of the tensors that are given, and code that grows with the formula alone."""

from __future__ import annotations

import pytest
import torch
from compiled import compiled_text

from symgrad.ir.expr import Expr, make, symbol
from symgrad.ops.tensors.lengths import known_length, length, stand_in
from symgrad.parse import parse_expression

HALVES = "cat([-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], -1)"
X = symbol("x", "tensor")


def of(text: str) -> Expr:
    return parse_expression(text, [X, symbol("k", "int"), symbol("w", "tensor")])


def test_a_join_of_halves_is_as_long_as_what_it_is_made_of() -> None:
    assert length(of(HALVES), -1) is make("count", X, dim=(-1,))
    assert length(of(f"sin({HALVES})"), -2) is make("count", X, dim=(-2,))
    assert stand_in(of(f"2 * {HALVES}")) is X


@pytest.mark.parametrize("text", ["x * w", "x[..., -k:]", "sum(x, -1)", "x[..., : x.shape[-1] // 2]"])
def test_what_may_be_of_another_size_is_asked_itself(text: str) -> None:
    value = of(text)
    assert stand_in(value) is value
    known = known_length(value, -1)
    assert known is None or known is not make("count", X, dim=(-1,))


@pytest.mark.parametrize("shape", ["", "shape: [N, D]"])
def test_halves_of_halves_take_no_more_code_for_each_round(shape: str) -> None:
    def rounds(count: int) -> str:
        lets = "".join(f"  a{k}: '{HALVES.replace('x', f'a{k - 1}' if k > 1 else 'x')}'\n" for k in range(1, count + 1))
        return f"op: f\ntensors: {{x: {{{shape}}}}}\nlet:\n{lets}outputs: {{y: sin(a{count})}}\n"

    small, large = (len(compiled_text(rounds(count)).text) for count in (2, 6))
    assert large < 4 * small
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    right = x
    for _ in range(2):
        right = torch.cat([-right[..., 2:], right[..., :2]], -1)
    found = compiled_text(rounds(2)).function(x)
    torch.testing.assert_close(found, right.sin())
    torch.testing.assert_close(*(torch.autograd.grad(v.sum(), x)[0] for v in (found, right.sin())))
