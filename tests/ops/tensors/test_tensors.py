"""Every row of the table of tensor operations against torch's autograd of the plain operation."""

from __future__ import annotations

import pytest
import torch
from compiled import compiled_text
from derivatives import Shape, check, evaluate, rand
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from symgrad.differentiate.modes import vjp
from symgrad.differentiate.symbols import cotangent
from symgrad.ir.expr import make, symbol
from symgrad.parse import FormulaError, parse_expression


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


# ------------------------------------------------------------------------------------------------ reductions
REDUCTIONS = ("sum", "mean", "prod", "amax", "amin", "var", "logsumexp", "norm")


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dim", ["", ", dim=0", ", dim=-1", ", dim=[0, -1]", ", dim=[-1, -2]", ", dim=n"])
@pytest.mark.parametrize("keep", ["", ", keepdim=True", ", keepdim=k"])
def test_reduction(name: str, dim: str, keep: str) -> None:
    for k in (True, False) if "k" in keep[-1:] else (True,):
        check(f"{name}(x{dim}{keep})", {"x": rand(2, 3)}, {"n": 1, "k": k})
        check(f"{name}(x{dim}{keep})", {"x": rand(3, 1, 2)}, {"n": -3, "k": k})


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dim", ["", ", dim=0", ", dim=-1"])
@pytest.mark.filterwarnings("ignore:var():UserWarning")
def test_reduction_of_scalars_and_nothing(name: str, dim: str) -> None:
    if (name, dim) != ("norm", ", dim=0"):
        check(f"{name}(x{dim})", {"x": rand()}, order=1 if name == "var" else 2)  # var is undefined
    if name not in ("amax", "amin") or dim == ", dim=-1":
        # What torch gives for derivatives of undefined results depends on the mode.
        undefined = name in ("mean", "var", "logsumexp") and dim != ", dim=-1"
        check(f"{name}(x{dim})", {"x": rand(0, 3)}, order=0 if undefined else 2)


def test_extrema_share_among_ties() -> None:
    x = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], dtype=torch.float64)
    for text in ("amax(x, dim=-1)", "amin(x)", "amax(x, dim=0, keepdim=True)", "norm(x, oo, dim=1)"):
        check(text, {"x": x})


def test_max_sends_the_cotangent_to_the_index_it_returned() -> None:
    x = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], dtype=torch.float64)
    check("max(x, dim=1).values", {"x": x})
    check("min(x, dim=0, keepdim=True).values", {"x": x})


def test_products_and_norms_have_gradients_at_zeros() -> None:
    x = torch.tensor([[0.0, 3.0, 2.0], [0.0, 0.0, 2.0]], dtype=torch.float64)
    check("prod(x, dim=1)", {"x": x})
    check("prod(x)", {"x": x})
    check("norm(x, dim=0)", {"x": x}, order=1)


@pytest.mark.parametrize("p", ["1", "2", "3", "4", "oo", "n"])
def test_norms_of_every_order(p: str) -> None:
    for dim in ("", ", dim=0", ", dim=-1, keepdim=True"):
        check(f"norm(x, {p}{dim})", {"x": rand(2, 3)}, {"n": 3})


@pytest.mark.parametrize("correction", ["0", "1", "2", "n"])
def test_corrections(correction: str) -> None:
    check(f"var(x, dim=-1, correction={correction})", {"x": rand(2, 4)}, {"n": 1})
    check(f"var(x, correction={correction})", {"x": rand(2, 4)}, {"n": 3})
    check("var(x, unbiased=False)", {"x": rand(2, 4)})


def test_large_values_stay_finite() -> None:
    x = torch.tensor([1e4, -1e4, 9999.0])
    for text in ("logsumexp(x)", "softmax(x, dim=0)", "log_softmax(x, dim=0)", "norm(x)", "var(x)"):
        (s,) = symbols = [symbol("x")]
        root = parse_expression(text, symbols)
        cotangent = symbol("grad", "cotangent")
        y = evaluate(root, {s: x})
        assert y.isfinite().all()
        assert evaluate(vjp({root: cotangent}, symbols)[s], {s: x, cotangent: torch.ones_like(y)}).isfinite().all()


# ------------------------------------------------------------------------------------------------ along a dimension
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "cumsum"])
@pytest.mark.parametrize("dim", ["0", "-1", "n"])
def test_along(name: str, dim: str) -> None:
    for x in (rand(2, 3), rand(1, 4), rand(3, 2, 1), rand(0, 2)):
        check(f"{name}(x, dim={dim})", {"x": x}, {"n": -2})
    if dim != "n":
        check(f"{name}(x, dim={dim})", {"x": rand()})


@pytest.mark.parametrize("call", ["max(x, dim=0)", "min(x, dim=-1, keepdim=True)", "max(x, dim=n, keepdim=k)"])
def test_extrema_with_indices(call: str) -> None:
    for k in (True, False):
        check(f"{call}.values", {"x": rand(2, 3)}, {"n": 1, "k": k})
    check("max(x, dim=-1).values", {"x": rand()})


@pytest.mark.parametrize("call", ["sort(x)", "sort(x, dim=0)", "sort(x, dim=n, descending=True)", "sort(x, stable=k)"])
def test_sorted_values_carry_gradients_to_their_places(call: str) -> None:
    check(f"{call}.values", {"x": rand(2, 3)}, {"n": 0, "k": True})
    check(f"{call}.values * w", {"x": rand(3, 3), "w": rand(3)}, {"n": 1, "k": False})


def test_indices_have_no_derivative() -> None:
    x = symbol("x")
    root = parse_expression("x * max(x, dim=0, keepdim=True).indices", [x])
    value = rand(3, 2)
    cotangent = symbol("grad", "cotangent")
    grad = evaluate(vjp({root: cotangent}, [x])[x], {x: value, cotangent: torch.ones(3, 2)})
    assert (grad == value.argmax(0)).all()


# ------------------------------------------------------------------------------------------------ products
MATRICES = [
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((5, 2, 3), (3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((2, 1, 2, 3), (5, 3, 4)),
    ((2, 3), (5, 3, 4)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((1, 2, 3), (5, 3, 4)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
]


@pytest.mark.parametrize(("a", "b"), MATRICES)
def test_matmul(a: Shape, b: Shape) -> None:
    check("a @ b", {"a": rand(*a), "b": rand(*b)})
    check("sum(sin(a) @ b * 2)", {"a": rand(*a), "b": rand(*b)})


def test_transpositions() -> None:
    check("x @ w.T", {"x": rand(2, 3), "w": rand(4, 3)})
    check("x @ w.T", {"x": rand(3), "w": rand(4, 3)})
    check("x @ w.T", {"x": rand(5, 2, 3), "w": rand(4, 3)})
    check("x @ w.mT", {"x": rand(5, 2, 3), "w": rand(5, 4, 3)})
    check("x @ w.mT", {"x": rand(5, 2, 3), "w": rand(4, 3)})
    check("x @ w.mT", {"x": rand(3), "w": rand(5, 4, 3)})


def test_the_gradient_in_what_was_transposed_is_not_transposed() -> None:
    for lead in ((), ("B",), ("...",)):
        x, w = symbol("x", "tensor", (*lead, "N", "D")), symbol("w", "tensor", (*lead, "M", "D"))
        product = make("matmul", x, make("mT", w))
        gradient = vjp({product: cotangent("y", product)}, [w])[w]
        assert gradient.op in ("matmul", "matmul_right")
    check("transpose(x, 0, -1) * x", {"x": rand(3, 2, 3)})
    check("transpose(x, n, 1) @ x", {"x": rand(4, 4, 4)}, {"n": 0})


EQUATIONS = [
    ("ij,jk->ik", ((2, 3), (3, 4))),
    ("i,j->ij", ((2,), (3,))),
    ("i,i->", ((3,), (3,))),
    ("ij->ji", ((2, 3),)),
    ("ij->i", ((2, 3),)),
    ("ij->", ((2, 3),)),
    ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 2))),
    ("bij,bjk->bik", ((2, 3, 4), (2, 4, 2))),
    ("...ij,...jk->...ik", ((2, 1, 3, 4), (5, 4, 2))),
    ("...i,i->...", ((2, 5, 3), (3,))),
    ("ij,jk", ((2, 3), (3, 4))),
    ("ij,ij->ij", ((2, 3), (1, 3))),
    ("ij,k->kj", ((2, 3), (4,))),
    ("...,->...", ((2, 3), ())),
    ("ii->", ((3, 3),)),
    ("ii->i", ((3, 3),)),
    ("bii", ((2, 3, 3),)),
    ("...ii->...i", ((2, 2, 3, 3),)),
    ("iij,j->i", ((3, 3, 2), (2,))),
    ("ijij->ji", ((2, 3, 2, 3),)),
    ("iii->i", ((2, 2, 2),)),
]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_einsum(equation: str, shapes: tuple[Shape, ...]) -> None:
    tensors = {name: rand(*shape) for name, shape in zip("abc", shapes, strict=False)}
    check(f"einsum('{equation}', {', '.join(tensors)})", tensors)


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("i->ii", "the result repeats 'i'"),
        ("ij,jk->ik", "2 operands"),
        ("i->j", "in no operand"),
        ("i1->i", "no subscript"),
        ("i...->i...", "no subscript"),
        ("...i->i", "lacks the '...'"),
    ],
)
def test_einsum_refuses(equation: str, message: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_expression(f"einsum('{equation}', x)", [symbol("x")])
    assert message in caught.value.faults[0].message


CONVOLUTIONS = [
    ("conv1d", (2, 3, 8), (4, 3, 3)),
    ("conv1d", (3, 8), (4, 3, 3)),
    ("conv2d", (2, 3, 5, 6), (4, 3, 3, 2)),
    ("conv2d", (3, 5, 6), (4, 3, 3, 2)),
]


@pytest.mark.parametrize(("name", "x", "weight"), CONVOLUTIONS)
@pytest.mark.parametrize("how", ["", ", stride=2, padding=1", ", dilation=n", ", padding=n"])
def test_convolution(name: str, x: Shape, weight: Shape, how: str) -> None:
    tensors = {"x": rand(*x), "w": rand(*weight)}
    check(f"{name}(x, w{how})", tensors, {"n": 2})
    check(f"{name}(x, w, b{how})", {**tensors, "b": rand(weight[0])}, {"n": 2})


def test_grouped_convolution() -> None:
    check("conv1d(x, w, groups=2)", {"x": rand(2, 4, 5), "w": rand(6, 2, 3)})


# ------------------------------------------------------------------------------------------------ composition
_POINTWISE = [
    "sin({0})",
    "{0}**2",
    "{0} * x",
    "{0} + y",
    "sigmoid({0}) * {0}",
    "where({0} > 0, {0}, x)",
    "exp(-{0}**2)",
]
_TENSOR = [
    "sum({0}, dim=0, keepdim=True)",
    "mean({0}, dim=-1, keepdim=True)",
    "mean({0})",
    "softmax({0}, dim=0)",
    "logsumexp({0}, dim=-1)",
    "amax({0}, dim=1)",
    "cumsum({0}, dim=-1)",
    "norm({0}, dim=0, keepdim=True)",
    "({0} + x) @ y.T",
    "var({0} + x, dim=-1)",
    "max({0} * y, dim=0).values",
    "prod({0} + x, dim=1, keepdim=True)",
    "sum({0})",
]


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(_POINTWISE + _TENSOR), min_size=1, max_size=4))
def test_compositions(steps: list[str]) -> None:
    text = "x"
    for step in steps:
        text = step.format(f"({text})")
    tensors = {"x": rand(3, 3), "y": rand(3, 3)}
    if "y" not in text:
        text = f"({text}) * y"
    try:
        parse_expression(text, [symbol(n, "tensor", ("a", "a")) for n in tensors])
    except FormulaError:
        return  # such as a dimension that was reduced already
    check(text, tensors)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_distances_of_all_pairs_have_torchs_derivatives(p: int) -> None:
    torch.manual_seed(0)
    x, w = rand(3, 2), rand(4, 2)

    def like(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.cdist(x, w, p=float(p))

    check(f"cdist(x, w, p={p})", {"x": x, "w": w}, like=like, order=1, declare=(True,))
    check(f"cdist(x, w, p={p})**3", {"x": x, "w": w}, declare=(True,))


def test_close_points_far_from_zero_keep_their_distance_and_equal_ones_have_a_gradient_of_zero() -> None:
    spec = "{op: f, tensors: {x: {shape: [n, d]}, z: {shape: [m, d]}}, outputs: {y: 'cdist(x, z)'}}"
    op = compiled_text(spec)
    x = torch.tensor([[1000.0, 1000.0], [1000.25, 1000.0]], requires_grad=True)
    y = op.function(x, x.detach())
    assert y.tolist() == [[0.0, 0.25], [0.25, 0.0]]
    (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert slope.tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    assert torch.autograd.grad(slope.sum(), x)[0].isfinite().all()


def test_gradients_of_vectors_in_products_are_accumulated_wide() -> None:
    """A sum of products that are rounded first is off by their roundings, and overflows where the sum does not."""
    item = compiled_text("{op: f, tensors: {x: {shape: [B, N]}, v: {shape: [N]}}, outputs: {y: 'x @ v'}}")
    torch.manual_seed(0)
    x, v = torch.randn(512, 6).bfloat16(), torch.randn(6).bfloat16().requires_grad_()
    (found,) = torch.autograd.grad(item.function(x, v).sum(), v)
    torch.testing.assert_close(found, x.double().sum(0).bfloat16())
    x, v = (100 * x[:256]).half().repeat_interleave(2, 0), v.detach().half().requires_grad_()
    cotangent = torch.tensor([1000.0, -1000.0]).half().repeat(256)
    (found,) = torch.autograd.grad(item.function(x, v), v, cotangent)
    torch.testing.assert_close(found, torch.zeros_like(v))


@pytest.mark.parametrize("how", ["", ", dim=0", ", dim=-1, eps=0.5"])
def test_cosines_are_torchs(how: str) -> None:
    torch.manual_seed(0)

    def like(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        options = {"": {}, ", dim=0": {"dim": 0}, ", dim=-1, eps=0.5": {"dim": -1, "eps": 0.5}}[how]
        return torch.cosine_similarity(x, w, **options)

    check(f"cosine_similarity(x, w{how})", {"x": rand(3, 4), "w": rand(3, 4)}, like=like)


def test_a_deviation_of_equal_numbers_has_torchs_gradient() -> None:
    """It is 0, where the root of a variance has none."""
    op = compiled_text("\nop: deviation\ntensors: {x: }\noutputs: {y: 'std(x, dim=-1)'}\n")
    for x in (torch.full((2, 5), 3.7), torch.zeros(2, 5), torch.randn(2, 5)):
        x = x.requires_grad_()
        own, theirs = (torch.autograd.grad(y.sum(), x)[0] for y in (op.function(x), x.std(-1)))
        torch.testing.assert_close(own, theirs)


def test_shares_of_a_log_sum_exp_read_the_exponents_that_were_summed() -> None:
    """In another order of terms each would be rounded by another ulp of what may be 1e7: shares would not sum to 1."""
    op = compiled_text(
        "\nop: mixture\ntensors: {d: {shape: [N, K]}, s: {shape: [N, K]}}\n"
        "outputs: {y: 'logsumexp(-d**2/2 - s, dim=-1)'}\noptions: {kernels: none}\n"
    )
    torch.manual_seed(0)
    d, s = (torch.randn(64, 8) * 300).requires_grad_(), torch.randn(64, 8).requires_grad_()
    (share,) = torch.autograd.grad(-op.function(d, s).sum(), s)
    torch.testing.assert_close(share.sum(-1), torch.ones(64))
    wide = [t.detach().double().requires_grad_() for t in (d, s)]
    true = torch.autograd.grad(op.composite(*wide).sum(), wide)
    for own, right in zip(torch.autograd.grad(op.function(d, s).sum(), (d, s)), true, strict=True):
        torch.testing.assert_close(own.double(), right, rtol=0, atol=2e-5 * float(right.abs().max()))


def test_masked_rows_of_a_log_sum_exp_have_derivatives_of_any_order_and_mode() -> None:
    op = compiled_text(
        "\nop: masked\ntensors: {x: {shape: [N, M]}, mask: {shape: [N, M], dtype: bool}}\n"
        "outputs: {y: 'mean(logsumexp(where(mask, x, -oo), dim=1))'}\n"
    )
    x, mask = torch.randn(3, 3, dtype=torch.float64, requires_grad=True), torch.eye(3) < 1
    assert torch.autograd.gradgradcheck(lambda x: op.function(x, mask).sin(), x)
    mask[0] = False  # a row of which nothing is left
    _, tangent = torch.func.jvp(lambda x: op.function(x, mask), (x.detach(),), (torch.ones_like(x),))
    assert not tangent.isnan()
