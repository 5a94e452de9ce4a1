"""Nothing is computed on more elements than need be."""

from __future__ import annotations

import pytest
import torch
from compiled import SPECS, compiled, compiled_text

from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import Expr, make, symbol
from symgrad.plan.hoist import hoisted

ROWS, WEIGHT = symbol("x", "tensor", ("N", "D")), symbol("w", "tensor", ("D", "H"))
WHOLE, COLUMN = symbol("grad_y", "cotangent", ("N", "H")), symbol("grad_z", "cotangent", ("N", 1))
SCALE = symbol("scale", "float")


def summed(value: Expr, dim: int = -1) -> Expr:
    return make("sum", value, dim=dim, keepdim=True)


def test_what_is_constant_leaves_a_sum() -> None:
    inside = symbol("t", "tensor", ("N", "H")) * WHOLE
    count = make("count", COLUMN + inside, dim=-1)
    assert hoisted(summed(COLUMN + inside)) is count * COLUMN + summed(inside)
    assert hoisted(summed(COLUMN + inside, 0)) is summed(COLUMN + inside, 0)
    # The mean of the same elements is summed back.
    mean = COLUMN / make("count", inside, dim=-1)
    assert hoisted(summed(mean + inside)) is COLUMN + summed(inside)


def test_a_number_leaves_the_mean_of_a_sum_and_what_is_centred_leaves_it_altogether() -> None:
    x = symbol("x", "tensor", ("N", "H"))
    centred, grad = x - make("mean", x, dim=-1, keepdim=True), symbol("grad_y", "cotangent", ("N", "H"))

    def mean(value: Expr) -> Expr:
        return make("mean", value, dim=-1, keepdim=True)

    assert hoisted(mean(2 * centred * grad - 2 * x * grad)) == 2 * mean(centred * grad - x * grad)
    assert hoisted(mean(2 * centred * grad - 2 * centred * mean(grad))) == 2 * mean(centred * grad)
    assert hoisted(mean(2 * x * grad - 3 * centred * grad)) == mean(2 * x * grad - 3 * centred * grad)


def test_a_term_with_dimensions_that_no_other_has_stays_in_the_sum() -> None:
    column = symbol("c", "tensor", ("N", 1)) * symbol("grad_u", "cotangent", ("N", 1))
    row = ex.mul(symbol("b", "tensor", (1, "H")), symbol("grad_v", "cotangent", (1, "H")))
    assert hoisted(summed(column + row, 1)) is summed(column + row, 1)


def test_a_number_is_not_expanded_for_a_sum_with_what_has_the_shape() -> None:
    matrix, number = symbol("t", "tensor", ("N", "H")) * WHOLE, symbol("grad_u", "cotangent", ())
    spread = make("expand", number, matrix)
    assert hoisted(spread / make("count", matrix, dim=-1) + matrix) is number / make("count", matrix, dim=-1) + matrix


def test_a_number_is_not_expanded_where_another_part_of_the_derivative_has_the_shape() -> None:
    x, grad = symbol("x"), symbol("grad_y", "cotangent")
    inner = grad * make("expand", ex.ONE, make("exp", x)) + make("sin", x)
    assert hoisted(make("tanh", x) * inner) == make("tanh", x) * (grad + make("sin", x))
    alone = grad * make("expand", ex.ONE, make("exp", x))
    assert hoisted(alone) == alone, "nothing else has the shape"


@pytest.mark.parametrize(
    "formula",
    [
        "sum(x - mean(x), dim=0)",
        "sum(2 * logsumexp(x) + x, dim=0)",
        "sum(x - mean(x, dim=1, keepdim=True), dim=1)",
        "softmax(flip(x - amax(x, dim=1, keepdim=True), dims=[1]), dim=1)",
        "log_softmax(cumsum(x - norm(x, dim=1, keepdim=True), dim=1), dim=1)",
    ],
)
def test_what_is_constant_stays_in_the_sum_of_a_tangent_that_does_not_tell_its_shape(formula: str) -> None:
    item = compiled_text(f'op: f\ntensors: {{x: {{shape: [N, D]}}}}\noutputs: {{y: "{formula}"}}\n')
    x = torch.randn(3, 4, dtype=torch.float64)
    own, right = (torch.func.jacfwd(f)(x) for f in (item.function, item.composite))
    torch.testing.assert_close(own, right)


@pytest.mark.parametrize("factor", ["/ sqrt(D)", "* sqrt(D)", "/ D**2", "/ D**(1/3)", "/ D"])
def test_a_power_of_a_size_is_no_mean(factor: str) -> None:
    item = compiled_text(
        f'op: f\ntensors: {{k: {{shape: [B, D]}}, i: {{shape: [B]}}}}\noutputs: {{y: "k * i[:, None] {factor}"}}\n'
    )
    for rows in (3, 0):
        given = [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((rows, 8), (rows,))]
        own, right = (torch.autograd.grad(f(*given).sin().sum(), given) for f in (item.function, item.composite))
        torch.testing.assert_close(own, right)
    none = [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((3, 0), (3,))]
    assert torch.autograd.grad(item.function(*none).sum(), none)[1].tolist() == [0.0, 0.0, 0.0]


def test_a_number_that_is_chosen_leaves_the_sum_of_a_mask() -> None:
    item = compiled_text(
        'op: f\ntensors: {x: {shape: [B]}, eta: {shape: []}}\noutputs: {y: "eta + mean(relu(x - eta)) / 2"}\n'
    )
    assert ".sum() / " in item.text.partition("def backward")[2].partition("def jvp")[0]  # of the mask alone
    given = [torch.randn(9, dtype=torch.float64, requires_grad=True), torch.tensor(0.2, dtype=torch.float64)]
    given[1].requires_grad_()
    own, right = (torch.autograd.grad(f(*given).sum(), given) for f in (item.function, item.composite))
    torch.testing.assert_close(own, right)


@pytest.mark.parametrize("row", [(1e4, 0.0, 1.0, -1.0), (1e4, 1e4, 9999.0, 1e4), (1.0, 2.0, 3.0, 0.5)])
def test_a_saturated_row_keeps_its_digits(row: tuple[float, ...]) -> None:
    item = compiled_text(
        "op: f\ntensors: {q: {shape: [B, N]}}\n"
        'outputs: {v: "sum(softmax(q, dim=-1) * (q - log_softmax(q, dim=-1)), dim=-1)"}\n'
    )
    slopes = []
    for dtype, function in ((torch.float32, item.function), (torch.float64, item.composite)):
        q = torch.tensor([row], dtype=dtype, requires_grad=True)
        slopes.append(torch.autograd.grad((0.7 * function(q)).sum(), q)[0].double())
    torch.testing.assert_close(*slopes, rtol=3e-6, atol=1e-7)


@pytest.mark.parametrize("stem", ["rms_norm", "layer_norm"])
def test_norms_of_large_rows_have_all_terms_of_their_gradients(stem: str) -> None:
    item = compiled(next(p for p in SPECS if p.stem == stem))
    x, rest = 1e15 * torch.randn(3, 6), [torch.ones(6)] * (len(item.spec.tensors) - 1)
    slopes = []
    for dtype in (torch.float32, torch.float64):
        own = x.to(dtype).requires_grad_()
        y = item.function(own, *(t.to(dtype) for t in rest))
        weights = torch.linspace(0, 1, y.numel(), dtype=dtype).view(y.shape)
        slopes.append(torch.autograd.grad((weights * y).sum(), own)[0].double())
    torch.testing.assert_close(*slopes, rtol=1e-4, atol=1e-20)


OF_THREE = [
    "sum((x - mean(x, dim=1, keepdim=True)) / sqrt(var(x, dim=1, correction=0, keepdim=True)) * b[:, None], dim=1)",
    "mean((x - mean(x, dim=1, keepdim=True)) / sqrt(mean(x**2, dim=1, keepdim=True) + 0.1) * b[:, None])",
    "sum((x - mean(x, dim=[0, 1], keepdim=True)) * b[:, None], dim=1)",
    "mean(where(b[:, None] > 0, x - mean(x, dim=1, keepdim=True), 0) * b[:, None])",
    "sum(sin(x) * mean(x + b[:, None], dim=1, keepdim=True), dim=2)"
    " - mean(x * s - sum(x * b[:, None], dim=2, keepdim=True) / T, dim=2)",
]


@pytest.mark.parametrize("formula", OF_THREE)
def test_what_has_fewer_dimensions_is_summed_over_the_same_ones(formula: str) -> None:
    """A channel-first layer norm has weights [C] beside x [B, C, T]; sums over what was expanded count all of it."""
    shapes = "x: {shape: [B, C, T]}, b: {shape: [C]}, s: {shape: []}"
    item = compiled_text(f"op: f\ntensors: {{{shapes}}}\noutputs: {{y: '{formula} + 0*s'}}\n")
    x, b, s = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((2, 3, 4), (3,), ()))
    slopes = []
    for function in (item.function, item.composite):
        y = function(x, b, s)
        slopes.append(
            torch.autograd.grad(
                (y * torch.linspace(1, 2, y.numel()).view(y.shape)).sum(), (x, b, s), materialize_grads=True
            )
        )
    torch.testing.assert_close(*slopes)


def test_a_mask_and_factors_without_what_is_summed_leave_the_sum() -> None:
    g, w, m = symbol("grad_y", "cotangent", ("N", "D")), symbol("w", "tensor", ("D",)), symbol("m", "tensor", ("N", 1))
    over_rows, over_columns = ({"dim": dim, "keepdim": False} for dim in (0, 1))
    mask, column = truth.compare("gt", w, 0), truth.compare("gt", m, 0)
    assert hoisted(make("sum", w * g, **over_rows)) is w * make("sum", g, **over_rows)
    masked = hoisted(make("sum", truth.where(mask, w * g, ex.ZERO), **over_rows))
    assert masked is truth.where(mask, w, ex.ZERO) * make("sum", g, **over_rows)
    for kept in (make("sum", m * g, **over_columns), make("sum", truth.where(column, g, ex.ZERO), **over_columns)):
        assert hoisted(kept) is kept  # whose column would not fit
    apart = make("sum", truth.where(mask, g, w), **over_rows)
    assert hoisted(apart) is apart


def test_what_is_larger_than_a_condition_leaves_its_choice_if_no_branch_makes_it_infinite() -> None:
    """A trust ratio chooses between numbers, by which whole tensors are multiplied."""
    g, x, a = symbol("grad_y", "cotangent", ("N",)), symbol("x", "tensor", ("N",)), symbol("a", "tensor", ())
    total = make("sum", x, dim=None, keepdim=False)
    above = truth.compare("gt", total, 0)
    side = make("sign", x * a)
    assert hoisted(truth.where(above, side * g * a, ex.ZERO)) is side * g * truth.where(above, a, ex.ZERO)
    steep = truth.where(above, 1 / x, ex.ZERO)
    assert hoisted(truth.where(above, g / x, ex.ZERO)) is g * steep
    assert hoisted(truth.where(above, g / total, g)) is g * truth.where(above, 1 / total, ex.ONE)
    for kept in (
        truth.where(truth.compare("gt", x, 0), g * a, ex.ZERO),
        truth.where(above, g, x),
        truth.where(above, g, ex.ZERO),
    ):
        assert hoisted(kept) is kept


def test_scales_of_columns_have_the_gradients_of_the_composite() -> None:
    """SmoothQuant: the mask and the power of the largest of a column leave the sum over its rows."""
    s = "max(amax(abs(x), dim=0), 0.5)**alpha / max(amax(abs(w), dim=1), 0.5)**(1 - alpha)"
    item = compiled_text(
        "op: f\ntensors: {x: {shape: [B, D]}, w: {shape: [D, M]}}\nhyperparameters: {alpha: 0.5}\n"
        f"let: {{s: '{s}'}}\noutputs: {{u: x / s, v: 's[:, None] * w'}}\n"
    )
    x, w = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((5, 4), (4, 3)))
    for alpha in (0.0, 0.3, 1.0):
        found, right = (
            torch.autograd.grad([y.sin().sum() for y in f(x, w, alpha)], (x, w))
            for f in (item.function, item.composite)
        )
        torch.testing.assert_close(found, right)


def test_what_lacks_a_dimension_that_is_summed_stays_in_the_sum() -> None:
    one, column = symbol("u", "tensor", (1, 1, "T")), symbol("b", "tensor", ("C", 1))
    g = symbol("grad_y", "cotangent", (1, 1, 1))
    both = make("sum", one * column * g, dim=(0, 1), keepdim=True)
    assert hoisted(both) is both
    mask = truth.compare("gt", symbol("m", "tensor", ("N", 1)), 0)
    of_row = make("sum", truth.where(mask, symbol("grad_z", "cotangent", ("D",)), ex.ZERO), dim=1, keepdim=True)
    assert hoisted(of_row) is of_row


@pytest.mark.parametrize("formula", ["mean(x + mean(x * s), dim=0)", "sum(x * y) * s + mean(x + s, dim=0)"])
def test_what_is_expanded_is_not_added_up_one_after_the_other(formula: str) -> None:
    shapes = "x: {shape: [N, D]}, y: {shape: [N, D]}, s: {shape: []}"
    item = compiled_text(f"op: f\ntensors: {{{shapes}}}\noutputs: {{z: '{formula} + 0 * sum(y)'}}\n")
    x, y, s = torch.randn(100_000, 2), torch.randn(100_000, 2), torch.tensor(0.7, requires_grad=True)
    (found,) = torch.autograd.grad(item.function(x, y, s).sum(), s)
    doubles = x.double(), y.double(), s.detach().double().requires_grad_()
    (right,) = torch.autograd.grad(item.composite(*doubles).sum(), doubles[2])
    torch.testing.assert_close(found.double(), right, rtol=2e-5, atol=0)
