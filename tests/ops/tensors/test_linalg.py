"""Linear algebra against torch's own operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from compiled import compiled_text
from derivatives import check, evaluate, rand

from symgrad.differentiate.modes import jvp
from symgrad.ir.expr import symbol
from symgrad.parse import FormulaError, parse_expression
from symgrad.targets.torch.runtime import _runtime as rt

CALLS: dict[str, Callable[..., Any]] = {
    "inverse(x)": torch.linalg.inv,
    "det(x)": torch.linalg.det,
    "logabsdet(x)": lambda x: torch.linalg.slogdet(x).logabsdet,
    "logdet(x @ x.mT)": lambda x: torch.logdet(x @ x.mT),
    "cholesky(x @ x.mT)": lambda x: torch.linalg.cholesky(x @ x.mT),
}


@pytest.mark.parametrize("text", CALLS)
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
def test_is_torchs(text: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    check(text, {"x": rand(*shape) + 4 * torch.eye(3)}, like=CALLS[text])


def test_solutions() -> None:
    torch.manual_seed(0)
    a = rand(3, 3) + 4 * torch.eye(3)
    for b in (rand(3, 2), rand(3)):
        check("solve(a, b)", {"a": a, "b": b}, like=torch.linalg.solve, declare=(True,))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *((text, "needs a square matrix") for text in ("inverse(x)", "logdet(x)", "solve(x, x)")),
        ("cholesky(x)", "do not align"),  # it takes the symmetric part
    ],
)
def test_a_matrix_that_is_not_square_is_refused(text: str, reason: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_expression(text, [symbol("x", "tensor", ("N", "M"))])
    assert reason in str(caught.value)


def test_the_tangent_of_a_log_determinant_has_derivatives_of_its_own() -> None:
    """torch's forward mode differentiates by a factorisation that it keeps, and loses this part (2.13)."""
    torch.manual_seed(0)
    x, v = rand(3, 3) + 4 * torch.eye(3), rand(3, 3)
    (s,) = symbols = [symbol("x", "tensor", ("N", "N"))]
    root = parse_expression("logabsdet(x)", symbols)
    moved = symbol("tangent", "tangent")
    rule = jvp([root], {s: moved})[root]

    def tangent(at: torch.Tensor) -> torch.Tensor:
        return torch.as_tensor(evaluate(rule, {s: at, moved: v}))

    assert torch.autograd.gradcheck(tangent, (x.requires_grad_(),))


def _minors(a: torch.Tensor) -> torch.Tensor:
    """The cofactors of a matrix by their definition."""
    size = range(len(a))
    rows = [[j for j in size if j != i] for i in size]
    return torch.stack([torch.stack([(-1) ** (i + j) * a[rows[i]][:, rows[j]].det() for j in size]) for i in size])


@pytest.mark.parametrize(
    "matrix",
    [
        [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]],
        [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]],
        [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
        [[0.0, 2.0, 0.0], [0.0, 0.0, -3.0], [4.0, 0.0, 0.0]],
        [[0.0]],
    ],
)
def test_a_determinant_has_its_gradient_at_singular_matrices(matrix: list[list[float]]) -> None:
    op = compiled_text("{op: f, tensors: {x: {shape: [n, n]}}, outputs: {y: det(x)}}")
    x = torch.tensor(matrix, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(op.function(x), x)
    right = _minors(x.detach()) if len(x) > 1 else torch.ones_like(x)
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-12)
    pushed = torch.func.jvp(op.function, (x.detach(),), (torch.ones_like(x),))[1]
    torch.testing.assert_close(pushed, right.sum(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_derivatives_of_a_determinant_that_is_no_number_are_none_and_no_error(value: float) -> None:
    """One matrix of a batch may overflow: torch's singular values are an error for all of them."""
    op = compiled_text("{op: f, tensors: {x: {shape: [b, n, n]}}, outputs: {y: det(x)}}")
    x = torch.eye(3, dtype=torch.float64).repeat(2, 1, 1)
    x[0, 1, 2] = value
    x.requires_grad_()
    (slope,) = torch.autograd.grad(op.function(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
    (third,) = torch.autograd.grad(second.sum(), x)
    assert all(t[0].isnan().all() and t[1].isfinite().all() for t in (second.detach(), third))


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_derivatives_of_a_determinant_of_any_rank_are_those_of_its_polynomial(rank: int) -> None:
    """Of products no pivot is exactly zero: what is as small as an error of rounding must cancel."""
    op = compiled_text("{op: f, tensors: {x: {shape: [n, n]}}, outputs: {y: det(x)}}")
    torch.manual_seed(0)
    x = (rand(3, rank) @ rand(rank, 3)).requires_grad_()
    pushed, found = rand(3, 3), []
    for function in (op.function, lambda x: (x[0] * torch.linalg.cross(x[1], x[2])).sum()):
        (slope,) = torch.autograd.grad(function(x), x, create_graph=True)
        (second,) = torch.autograd.grad((slope * pushed).sum(), x)
        forward = torch.func.jvp(torch.func.grad(function), (x.detach(),), (pushed,))[1]
        found.append((slope.detach(), second, forward))
    torch.testing.assert_close(*found, rtol=1e-11, atol=1e-11)


def _expanded(x: torch.Tensor) -> torch.Tensor:
    """The determinant along the first row."""
    if len(x) == 1:
        return x[0, 0]
    rest = [_expanded(torch.cat([x[1:, :k], x[1:, k + 1 :]], dim=1)) for k in range(len(x))]
    return torch.stack([(-1) ** k * x[0, k] * rest[k] for k in range(len(x))]).sum()


@pytest.mark.parametrize("sizes", [[100.0, 1.0, 1e-2, 1e-3], [1e4, 1.0, 1e-3, 1e-4]], ids=str)
def test_derivatives_of_a_determinant_are_right_for_rows_in_units_of_their_own(sizes: list[float]) -> None:
    """An error of rounding of the largest element may be more than what other rows have in all."""
    op = compiled_text("{op: f, tensors: {x: {shape: [n, n]}}, outputs: {y: det(x)}}")
    torch.manual_seed(0)
    units, way, other = torch.tensor(sizes), rand(4, 4), rand(4, 4)
    scale = units[:, None] * units
    for alike in (torch.eye(4), 2 * torch.eye(4) + rand(4, 4)):
        ways = [w * scale for w in (way, other)]
        for k in range(3):
            right = _pulled(_expanded, (alike * scale).double(), [w.double() for w in ways[:k]])
            found = _pulled(op.function, (alike * scale).float(), [w.float() for w in ways[:k]])
            torch.testing.assert_close(found * scale, (right * scale).float(), rtol=1e-4, atol=1e-6)


def test_second_derivatives_of_a_square_of_a_determinant_are_finite_at_singular_matrices() -> None:
    op = compiled_text("{op: f, tensors: {x: {shape: [n, n]}}, outputs: {y: det(x)**2}}")
    x = torch.ones(3, 3, dtype=torch.float64).tril(-1)
    minors = _minors(x).flatten()
    torch.testing.assert_close(torch.func.hessian(op.function)(x).reshape(9, 9), 2 * torch.outer(minors, minors))


def _pulled(function: Callable[..., torch.Tensor], x: torch.Tensor, ways: list[torch.Tensor]) -> torch.Tensor:
    """The gradient of the gradient, ..., along ways."""
    at = x.clone().requires_grad_()
    total = function(at)
    for way in ways:
        (slope,) = torch.autograd.grad(total, at, create_graph=True)
        total = (slope * way).sum()
    return torch.autograd.grad(total, at)[0]


@pytest.mark.parametrize("rank", range(5))
def test_third_derivatives_of_a_determinant_of_any_rank_are_those_of_its_polynomial(rank: int) -> None:
    op = compiled_text("{op: f, tensors: {x: {shape: [n, n]}}, outputs: {y: det(x)}}")
    torch.manual_seed(0)
    x, first, second = rand(4, rank) @ rand(rank, 4), rand(4, 4), rand(4, 4)
    found = []
    for function in (op.function, _expanded):

        def slope(t: torch.Tensor, f: Callable[..., torch.Tensor] = function) -> torch.Tensor:
            return torch.func.grad(lambda u: (torch.func.grad(f)(u) * first).sum())(t)

        forward = torch.func.jvp(slope, (x,), (second,))[1]
        reverse = torch.func.grad(lambda t, g=slope: (g(t) * second).sum())
        batch = torch.func.vmap(reverse)(torch.stack([x, x.mT]))
        found.append((forward, reverse(x), _pulled(function, x, [first, second]), batch))
    torch.testing.assert_close(*found, rtol=1e-11, atol=1e-11)


def test_fourth_derivatives_of_a_determinant_are_right_where_there_is_an_inverse() -> None:
    op = compiled_text("{op: f, tensors: {x: {shape: [n, n]}}, outputs: {y: det(x)}}")
    torch.manual_seed(0)
    x, ways = rand(4, 4) + 2 * torch.eye(4), [rand(4, 4) for _ in range(3)]
    found = [_pulled(function, x, ways) for function in (op.function, _expanded)]
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)


def test_forward_mode_over_forward_mode_is_right_where_torchs_determinant_is_not() -> None:
    op = compiled_text("{op: f, tensors: {x: {shape: [n, n]}}, outputs: {y: det(x)}}")
    torch.manual_seed(0)
    x = rand(2, 2)
    right = torch.zeros(2, 2, 2, 2, dtype=torch.float64)
    right[0, 0, 1, 1] = right[1, 1, 0, 0] = 1
    right[0, 1, 1, 0] = right[1, 0, 0, 1] = -1
    torch.testing.assert_close(torch.func.jacfwd(torch.func.jacfwd(op.function))(x), right)
    torch.testing.assert_close(torch.func.jacfwd(torch.func.jacfwd(rt.det))(x), right)


def test_tangents_of_solutions_are_right_under_two_levels_of_vmap() -> None:
    """Those of torch.linalg.solve are not (2.13): its hessian over a batch is off by orders of magnitude."""
    op = compiled_text("{op: f, tensors: {a: {shape: [n, n]}, b: {shape: [n, k]}}, outputs: {y: 'solve(a, b)**2'}}")
    torch.manual_seed(0)
    a, b = rand(3, 3, 3) + 3 * torch.eye(3), rand(3, 3, 2)
    right, found, forward = (
        torch.func.vmap(mode(lambda a, b, f=f: f(a, b).sum(), argnums=(0, 1)))(a, b)
        for f, mode in (
            (lambda a, b: (torch.linalg.inv(a) @ b) ** 2, torch.func.hessian),
            (op.function, torch.func.hessian),
            (op.function, lambda f, argnums: torch.func.jacfwd(torch.func.jacfwd(f, argnums), argnums)),
        )
    )
    torch.testing.assert_close(found, right, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(forward, right, rtol=1e-9, atol=1e-9)
