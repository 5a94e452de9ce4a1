"""Every row of the table of tensor operations against torch's autograd of the plain operation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from symgrad.accuracy.machine import machine
from symgrad.differentiate.modes import jvp, vjp
from symgrad.differentiate.symbols import cotangent
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import substitute
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.parse import FormulaError, parse_expression
from symgrad.targets.constants import constant_value
from symgrad.targets.torch.printer import Printer
from symgrad.targets.torch.runtime import _runtime

torch.set_num_threads(1)

Shape = tuple[int, ...]


HELPERS: dict[str, Any] = {"torch": torch, "math": math, "F": torch.nn.functional, "rt": _runtime}


def evaluate(root: Expr, values: Mapping[Expr, Any]) -> Any:
    """The value of an expression, as printed for torch."""
    (lowered,) = machine([root])
    names = {s: s.name for s in (*root.symbols, *values)}
    constants: dict[Expr, str] = {}
    text = Printer(names, constants)(lowered)
    known = {name: constant_value(node) for node, name in constants.items()}
    return eval(text, {**HELPERS, **known, **{s.name: v for s, v in values.items()}})


def build(text: str, tensors: Mapping[str, Any], numbers: Mapping[str, Any], declared: bool) -> tuple[Expr, list[Expr]]:
    """The expression of a formula; with declared shapes, every dimension has a name or its size."""
    symbols = []
    for name, t in tensors.items():
        shape = tuple(f"d{size}" if size > 1 else size for size in t.shape) if declared else None
        symbols.append(symbol(name, "tensor", shape))
    scalars = [symbol(name, "bool" if isinstance(v, bool) else "int") for name, v in numbers.items()]
    return parse_expression(text, [*symbols, *scalars]), symbols


def equal(found: Any, expected: Any, what: str) -> None:
    """Equal to rounding; NaN equals NaN."""
    torch.testing.assert_close(found, expected, equal_nan=True, msg=lambda m: f"{what}: {m}")


def check(text: str, tensors: Mapping[str, Any], numbers: Mapping[str, Any] = {}, *, order: int = 2) -> None:
    """Value, vjp, jvp and second derivatives of a formula, with and without declared shapes."""
    for declared in (False, True):
        root, symbols = build(text, tensors, numbers, declared)
        xs = [t.clone().requires_grad_() for t in tensors.values()]
        values: dict[Expr, Any] = dict(zip(symbols, xs, strict=True))
        values |= {s: numbers[s.name] for s in root.symbols if s.name in numbers}
        values |= {symbol(n, "bool" if isinstance(v, bool) else "int"): v for n, v in numbers.items()}
        y = evaluate(root, values)
        cotangent = symbol("grad", "cotangent")
        g = torch.rand_like(y).requires_grad_()
        pulled = vjp({root: cotangent}, symbols)
        found = [evaluate(pulled[s], {**values, cotangent: g}) for s in symbols]
        expected = torch.autograd.grad(y, xs, g, create_graph=True)
        for x, a, b in zip(xs, found, expected, strict=True):
            a = a.expand(x.shape) if a.dim() < x.dim() else a
            equal(a, b, f"vjp of {text}")
        if order > 0:
            _check_jvp(text, root, symbols, values, xs, y)
        if order > 1:
            _check_second(text, symbols, pulled, values, cotangent, xs, g, expected)


def _check_jvp(text: str, root: Expr, symbols: list[Expr], values: dict[Expr, Any], xs: list[Any], y: Any) -> None:
    tangents = {s: symbol(f"tangent_{s.name}", "tangent") for s in symbols}
    pushed = [torch.rand_like(x) for x in xs]
    own = evaluate(jvp([root], tangents)[root], {**values, **dict(zip(tangents.values(), pushed, strict=True))})

    def plain(*primals: Any) -> Any:
        return evaluate(root, {**values, **dict(zip(symbols, primals, strict=True))})

    _, expected = torch.func.jvp(plain, tuple(x.detach() for x in xs), tuple(pushed))
    equal(own.expand(y.shape), expected, f"jvp {text}")


def _check_second(
    text: str, symbols: list[Expr], pulled: Any, values: Any, cotangent: Expr, xs: list[Any], g: Any, expected: Any
) -> None:
    """vjp applied to the vjp, and torch's autograd through the printed vjp."""
    stand_in = symbol("h", "cotangent")
    for s, b in zip(symbols, expected, strict=True):
        h = torch.rand_like(b)
        wanted = torch.autograd.grad(b, [*xs, g], h, allow_unused=True, retain_graph=True) if b.requires_grad else []
        first = evaluate(pulled[s], {**values, cotangent: g}).expand(b.shape)
        through = torch.autograd.grad(first, [*xs, g], h, allow_unused=True, retain_graph=True)
        # A cotangent that is differentiated is a tensor like any other.
        plain = symbol("grad", "tensor")
        again = vjp({substitute(pulled[s], {cotangent: plain}): stand_in}, [*symbols, plain])
        for k, (x, want, auto) in enumerate(zip([*xs, g], wanted, through, strict=True)):
            want = torch.zeros_like(x) if want is None else want
            auto = torch.zeros_like(x) if auto is None else auto
            equal(auto, want, f"autograd of vjp {text}")
            target = [*symbols, plain][k]
            if target in again:
                own = evaluate(again[target], {**values, plain: g, stand_in: h})
                own = own.sum_to_size(x.shape) if own.dim() > x.dim() else own.expand(x.shape)
            else:
                own = torch.zeros_like(x)
            equal(own, want, f"vjp of vjp {text}")


def rand(*shape: int) -> torch.Tensor:
    return torch.rand(shape, dtype=torch.float64) * 4 - 2


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
        check(
            f"{name}(x{dim})", {"x": rand(0, 3)}, order=0 if name in ("mean", "logsumexp") and dim != ", dim=-1" else 2
        )


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


def test_every_row_is_complete() -> None:
    for row in TENSOR_OPS.values():
        if row.differentiable and not row.fields and row.name != "others_slope":
            assert row.vjp is not None, row.name
            assert row.jvp is not None, row.name
