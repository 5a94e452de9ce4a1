"""A guard changes no value, and what a dead branch would be shows in no derivative."""

from __future__ import annotations

import mpmath as mp
import pytest
import torch
from compiled import compiled_text
from hypothesis import HealthCheck, assume, given, settings
from random_expressions import X, Y, expressions, well_conditioned

from symgrad.accuracy.evaluate import Exact
from symgrad.accuracy.guards import guard
from symgrad.accuracy.sampling import ALL_REALS
from symgrad.ir import truth
from symgrad.ir.expr import Expr, symbol
from symgrad.ir.traversal import topological

A, B, C = (symbol(n, "bool") for n in "abc")
MODE = symbol("mode", "str")


SETTINGS = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


@SETTINGS
@given(expressions(X, Y), expressions(X, Y), expressions(X, Y))
def test_a_guard_changes_no_value(a: Expr, b: Expr, c: Expr) -> None:
    root = truth.where(truth.compare("gt", a, c), b, c)
    assume(well_conditioned(root) is not None)
    points = [{X: x, Y: y} for x in (-2.0, -0.5, 0.0, 0.3, 4.0) for y in (-1.0, 0.0, 2.0)]
    guarded = guard(root, points, far={X: ALL_REALS, Y: ALL_REALS})
    before, after = Exact(points, 100)(root), Exact(points, 100)(guarded)
    for left, right in zip(before, after, strict=True):
        if mp.isfinite(left):
            assert left == right


PARTIAL = [
    "sqrt(x)",
    "log(x)",
    "1 / x",
    "x**-2",
    "x**0.3",
    "acosh(x + 1)",
    "rsqrt(x)",
    "lgamma(x)",
    "exp(1 / x)",
    "log(x)**2 / x",
]


@pytest.mark.parametrize("formula", PARTIAL)
@pytest.mark.parametrize("other", ["0", "x", "x**2"])
def test_a_dead_branch_never_shows(formula: str, other: str) -> None:
    text = "\nop: dead_branch\ntensors: {x: }\noutputs: {y: 'where(x > 0, %s, %s)'}\n"
    item = compiled_text(text % (formula, other))
    x = torch.tensor([-2.0, -1.0, -0.5, -0.0, 0.0, 0.25, 1.5], dtype=torch.float64, requires_grad=True)
    y = item.function(x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert all(t.isfinite().all() for t in (y, first, second))
    dead = x.detach() <= 0
    slope = {"0": 0 * x, "x": 0 * x + 1, "x**2": 2 * x}[other].detach()
    torch.testing.assert_close(first.detach()[dead], slope[dead])
    pushed = torch.func.jvp(item.function, (x.detach(),), (torch.ones_like(x),))[1]
    torch.testing.assert_close(pushed, first.detach())


def test_a_dead_branch_does_not_show_where_tensors_broadcast() -> None:
    item = compiled_text(
        "\nop: dead_branch\ntensors: {x: , y: }\n"
        "outputs: {z: 'where(x > 0, where(y > 0, log(x) * sqrt(y), log(x) / (y**2 + 1)), log(1 - x)**2 * y)'}\n"
    )
    x = torch.tensor([[-2.0, -0.5, 0.0, 0.25, 1.5]], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([[-1.0], [0.0], [2.0]], dtype=torch.float64, requires_grad=True)
    first = torch.autograd.grad(item.function(x, y).sum(), (x, y), create_graph=True)
    second = torch.autograd.grad(sum(g.sum() for g in first), (x, y))
    assert all(t.isfinite().all() for t in (*first, *second))


def test_what_is_masked_by_infinity_shows_in_no_derivative() -> None:
    item = compiled_text("""
        op: masked_entropy
        tensors: {x: {shape: [N, C]}, m: {shape: [N, C], grad: false}}
        let: {z: "log_softmax(where(m > 0, -oo, x), dim=1)"}
        outputs: {y: "sum(where(m > 0, 0, z * exp(z)), dim=1)"}
    """)
    x = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
    m = torch.tensor([[-1.0, 1, -1, -1], [1, -1, -1, 1]], dtype=torch.float64)
    grad = torch.ones(2, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(item.function(x, m), x, grad, create_graph=True)
    second = torch.autograd.grad(first.square().sum(), (x, grad))
    assert all(t.isfinite().all() for t in (first, *second))

    def kept(x: torch.Tensor) -> torch.Tensor:
        of_row = [torch.log_softmax(row[use], dim=0) for row, use in zip(x, m <= 0, strict=True)]
        return torch.stack([(z * z.exp()).sum() for z in of_row])

    torch.testing.assert_close(first, torch.autograd.grad(kept(x).sum(), x)[0])


@pytest.mark.parametrize("inner", ["sqrt(x)", "x * log(x)"])
def test_who_differentiates_forward_sees_no_dead_branch_inside_of_a_reduction(inner: str) -> None:
    text = "op: reduced\ntensors: {x: }\noptions: {save: memory}\n"
    item = compiled_text(f"{text}outputs: {{y: 'sum(where(x > 0, {inner}, 0)**2)'}}\n")
    x = torch.tensor([-2.0, 0.0, 0.25, 1.5], dtype=torch.float64)
    function = item.module.ReducedFunction
    through = torch.func.grad(function.forward)(x)  # as compilers do
    torch.testing.assert_close(through, torch.func.grad(item.function)(x))
    assert through.isfinite().all()


def test_nothing_in_a_condition_is_guarded_for_it_has_no_derivative() -> None:
    condition, inner = truth.compare("gt", X, 0), truth.compare("gt", Y / X, 1)
    root = truth.where(condition, truth.where(inner, Y, Y / X), Y)
    guarded = guard(root, [{X: x, Y: 1.0} for x in (-1.0, 0.0, 2.0)])
    assert guarded is not root, "the quotient that is chosen is guarded"
    assert inner in topological(guarded)


def test_a_masked_softmax_is_finite_and_its_gradient_is_masked_once() -> None:
    tensors = "{x: {shape: [N, C]}, m: {shape: [N, C], grad: false}}"
    item = compiled_text(f"\nop: rows\ntensors: {tensors}\noutputs: {{y: 'softmax(where(m > 0, -oo, x), dim=1)'}}\n")
    body = item.text.split("def backward")[1].split("def jvp")[0]
    assert body.count("masked") + body.count("torch.where") == 1
    x, m = torch.randn(2, 3, dtype=torch.float64, requires_grad=True), torch.tensor([[1.0, -1, -1], [-1, 1, 1]])
    assert torch.autograd.gradgradcheck(lambda x: item.function(x, m), x)


def test_a_mask_that_says_nothing_of_a_pole_guards_it() -> None:
    """Distances are 0 on the diagonal alone, which is what the mask leaves out and no sample of both tells."""
    item = compiled_text("""
        op: pairwise_energy
        tensors: {p: {shape: [N, D]}}
        let: {r: "norm(p[:, None, :] - p[None, :, :], dim=-1)"}
        outputs: {y: "sum(where(eye(N) < 1/2, 1 / r, 0))"}
    """)
    p = torch.tensor([[0.0, 1.0], [2.0, -1.0], [0.5, 0.25]], dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(item.function(p), p, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), p)

    def plain(p: torch.Tensor) -> torch.Tensor:
        return 2 * (1 / torch.nn.functional.pdist(p)).sum()

    expected = torch.autograd.functional.jacobian(plain, p)
    torch.testing.assert_close(first, expected)
    hessian = torch.autograd.functional.hessian(lambda p: 2 * sum(1 / (p[i] - p[j]).norm() for i, j in PAIRS), p)
    torch.testing.assert_close(second.flatten(), 2 * hessian.reshape(6, 6) @ first.detach().flatten())


PAIRS = ((0, 1), (0, 2), (1, 2))


def test_an_exponential_in_a_dead_branch_is_guarded_among_many_variables() -> None:
    """With 40 points for three variables, none reached where exp overflows."""
    item = compiled_text("""
        op: rows
        tensors: {w: {shape: [B, N]}}
        outputs: {y: "logsumexp(1 - celu(w), dim=0)"}
    """)
    body = item.text.split("def backward")[1].split("def jvp")[0]
    assert "torch.exp(clamped_w)" in body
    assert "torch.exp(w)" not in body


@pytest.mark.parametrize(
    "formula",
    [
        "c**2 * (1 - cos(x / c))",
        "1 - (1 + x / c) * exp(-x / c)",
        "c**2 / 2 * (1 - exp(-(x / c)**2))",
        "(1 - exp(-x)) / x",
    ],
)
def test_a_polynomial_far_from_its_interval_has_no_part_in_second_derivatives(formula: str) -> None:
    item = compiled_text(
        f'op: f\ntensors: {{x: {{domain: "(0, oo)"}}, c: {{domain: "(0, oo)"}}}}\noutputs: {{y: "c * ({formula})"}}\n'
    )
    for size in (1e3, 1e6, 1e8):
        given = [torch.tensor([v], requires_grad=True) for v in (size, 1.0)]
        seconds = []
        for f in (item.function, item.composite):
            slopes = torch.autograd.grad(f(*given).sum(), given, create_graph=True)
            seconds.append(torch.autograd.grad(slopes[0].sum() + slopes[1].sum(), given))
        torch.testing.assert_close(*seconds, rtol=1e-3, atol=1e-5 * size)


def test_what_a_guard_holds_is_still_added_up_first_in_the_sum_that_has_it() -> None:
    """p/q - log(p/q) - 1 has its digits near p = q where 1 is taken away before what is read of that."""
    item = compiled_text(
        "op: f\ntensors: {p: {domain: '(0, oo)'}, q: {domain: '(0, oo)'}}\noutputs: {y: p/q - log(p/q) - 1}\n"
    )
    p, q = torch.tensor(0.051213227), torch.tensor(0.05172536)
    with mp.workdps(40):
        ratio = mp.mpf(p.item()) / mp.mpf(q.item())
        right = float(ratio - mp.log(ratio) - 1)
    assert abs(item.function(p, q).item() - right) <= 1e-4 * right


def test_a_series_that_is_dead_near_zero_shows_in_no_second_derivative() -> None:
    """Of the Bessel functions at large arguments; a dead power of 1 / kappa overflows below what is sampled."""
    item = compiled_text(
        "\nop: von_mises\ntensors: {x: {grad: false}, mu: , kappa: {domain: '(0, oo)'}}\n"
        "outputs: {y: log(i0e(kappa)) + kappa - kappa * cos(x - mu)}\n"
    )
    kappa = torch.tensor([1e-6, 1e-4, 1e-2, 1.0], requires_grad=True)
    (first,) = torch.autograd.grad(
        item.function(torch.tensor(0.1), torch.tensor(0.3), kappa).sum(), kappa, None, True, True
    )
    (second,) = torch.autograd.grad(first.sum(), kappa)
    torch.testing.assert_close(second, torch.tensor([0.5, 0.5, 0.499963, 0.354338]), rtol=1e-4, atol=0)
