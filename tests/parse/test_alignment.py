"""Named dimensions align by name where they do not from the right, or the spec is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from compiled import compiled_text

from symgrad.errors import SpecError
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ops.tensors.shapes import extent
from symgrad.parse import FormulaError, parse_expression, parse_formulas
from symgrad.parse.alignment import aligned
from symgrad.spec import parse_spec
from symgrad.targets.torch.printer import Printer
from symgrad.targets.torch.runtime import _runtime


def tensor(name: str, *shape: int | str) -> Expr:
    return symbol(name, "tensor", shape)


def printed(root: Expr) -> str:
    return Printer({s: s.name for s in root.symbols}).text(root)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (("C",), "b[..., None, None]"),
        (("N", "C"), "b[..., None, None]"),
        (("N",), "b[..., None, None, None]"),
        (("N", "H"), "b[:, None, :, None]"),
        (("W",), "b"),
        (("C", 1, 1), "b"),
        ((), "b"),
    ],
)
def test_a_tensor_of_fewer_dimensions(shape: tuple[int | str, ...], text: str) -> None:
    x, b = tensor("x", "N", "C", "H", "W"), tensor("b", *shape)
    product = aligned(x * b)
    (other,) = (a for a in product.args if a is not x)
    assert printed(other) == text


def test_leading_dimensions_stay_open() -> None:
    x, b = tensor("x", "...", "C", "T"), tensor("b", "C")
    assert printed(next(a for a in aligned(x * b).args if a is not x)) == "b.unsqueeze(-1)"


@pytest.mark.parametrize("reduced", [("N", "C", 1), ("N", 1, 1), (1, "C", "L")])
def test_a_reduced_operand_does_not_hide_the_name_to_align_by(reduced: tuple[int | str, ...]) -> None:
    whole, scale, weight = tensor("x", "N", "C", "L"), tensor("s", *reduced), tensor("w", "C")
    for order in (scale, whole, weight), (whole, scale, weight):
        product = aligned(make("mul", *order))
        assert make("unsqueeze", weight, dim=(-1,)) in product.args


def test_a_name_does_not_meet_a_size_without_a_name_where_it_stands_elsewhere() -> None:
    image, weight, scale = tensor("x", "N", "C", "H", "W"), tensor("w", "O", "C", "K", "K"), tensor("g", "O")
    steps = {"stride": 1, "padding": 1, "dilation": 1, "groups": 1}
    filtered = make("conv2d", image, weight, **steps)
    mean = make("mean", filtered, dim=(0, 2, 3), keepdim=True)
    for other in filtered, filtered - mean:
        product = aligned(make("mul", other, scale))
        assert make("unsqueeze", scale, dim=(-2, -1)) in product.args
    unnamed = tensor("u", 3)
    assert unnamed in aligned(make("mul", filtered, unnamed)).args


def test_alignment_happens_once_and_deep_inside() -> None:
    x, b = tensor("x", "N", "C", "T"), tensor("b", "C")
    once = aligned((x * b) ** 2 + b)
    assert aligned(once) is once


def test_undeclared_shapes_broadcast_from_the_right() -> None:
    x, b = symbol("x"), tensor("b", "C")
    assert aligned(x * b) is x * b


def test_a_value_that_is_aligned_by_name_and_spelled_anew_has_the_shape_it_is_aligned_to() -> None:
    """Constants of what binomial is made of are brought together as operands are aligned: another spelling."""
    text = "{op: f, tensors: {x: {shape: [B, N]}}, outputs: {y: 'diagonal(binomial(x, 0.5) @ x.mT) * x'}}"
    (found,) = parse_formulas(parse_spec(text)).outputs.values()
    assert str(extent(found)) == "[B, N]"
    assert found.op != "expand"


SPEC = """op: shifted
tensors:
  x: {shape: [N, features]}
  b: {shape: [channels]}
outputs:
  y: exp(x) + 2 * b
  z: x @ x
"""


def test_contradictions_are_mistakes_with_a_place() -> None:
    with pytest.raises(SpecError) as caught:
        parse_formulas(parse_spec(SPEC, "shifted.yaml"))
    first, second = caught.value.mistakes
    assert (first.location, first.where) == ((6, 6), "outputs.y")
    assert "[channels]" in first.message
    assert "[N, features]" in first.message
    assert (second.location.line, second.where) == (7, "outputs.z")
    assert "'features' meets 'N'" in second.message


# ------------------------------------------------------------------------------------------------ at the call
@pytest.fixture
def check() -> Callable[..., None]:
    return lambda op, shapes: _runtime.refuse_shapes(op, **shapes)


def test_shapes_that_fit(check: Callable[..., None]) -> None:
    x = torch.ones(2, 5, 3)
    check(
        "op", {"x": (x, ("...", 5, "C")), "w": (torch.ones(3), ("C",)), "none": (None, ("C",)), "s": (x[0, 0, 0], ())}
    )


@pytest.mark.parametrize(
    ("shape", "dims", "message"),
    [
        ((4,), ("C",), "op: the dimension C of w is 4, and 3 in x"),
        ((3, 3), ("C",), r"op: w must have the shape \[C\], not \[3, 3\]"),
        ((3,), ("...", 2, "C"), r"op: w must have the shape \[..., 2, C\], not \[3\]"),
        ((4, 3), (5, "C"), "op: a dimension of w is 4, not 5"),
    ],
)
def test_shapes_that_do_not(check: Callable[..., None], shape: tuple[int, ...], dims: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check("op", {"x": (torch.ones(2, 3), ("N", "C")), "w": (torch.ones(shape), dims)})


@pytest.mark.parametrize(
    ("shapes", "result"),
    [
        (("N D", "M D"), "N M D"),
        (("M D", "N D"), "M N D"),
        (("B N D", "B M D"), "B N M D"),
        (("N D", "D"), "N D"),
        (("N", "M"), None),
        (("N D", "D N"), None),
        (("N D", "M D D"), None),
    ],
)
def test_rows_with_a_name_in_common_meet_in_pairs_in_the_order_in_which_they_are_written(
    shapes: tuple[str, str], result: str | None
) -> None:
    first, second = (tensor(name, *names.split()) for name, names in zip("ba", shapes, strict=True))
    for operator in ("-", "*", "<", "%"):
        text = f"b {operator} a" if operator != "<" else "where(b < a, 1, 0)"
        if result is None:
            with pytest.raises(FormulaError, match=r"do not (align|broadcast)"):
                parse_expression(text, [first, second])
        else:
            assert extent(parse_expression(text, [first, second])).dims == tuple(result.split())


CONDITIONED: dict[str, Callable[..., Any]] = {
    "where(m, a, x) - a": lambda x, a, b, m: torch.where(m, a, x) - a,
    "where(a > b, a, x) * x": lambda x, a, b, m: torch.where(a > b, a, x) * x,
    "where(a > 0, x, a)**2": lambda x, a, b, m: torch.where(a > 0, x, a) ** 2,
    "where(m & (a > b), a, x) * x": lambda x, a, b, m: torch.where(m & (a > b), a, x) * x,
    "where(~m, sin(x), cos(x)) * x": lambda x, a, b, m: torch.where(~m, x.sin(), x.cos()) * x,
    "where(sum(x, dim=1) > a, a, x) * x": lambda x, a, b, m: torch.where(x.sum(1, keepdim=True) > a, a, x) * x,
}


@pytest.mark.parametrize("formula", CONDITIONED)
def test_conditions_of_fewer_dimensions_align_by_name(formula: str) -> None:
    shapes = "x: {shape: [T, D]}, a: {shape: [T]}, b: {shape: [T]}, m: {shape: [T], dtype: bool}"
    item = compiled_text(f'op: f\ntensors: {{{shapes}}}\noutputs: {{y: "{formula}"}}\n')
    given = [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((4, 4), (4,), (4,))]
    m = torch.tensor([True, False, True, False])
    x, a, b = given
    results = []
    for y in (item.function(x, a, b, m), CONDITIONED[formula](x, a[:, None], b[:, None], m[:, None])):
        slopes = torch.autograd.grad(y.sin().sum(), given, materialize_grads=True)
        results.append([y.detach(), *slopes])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("formula", ["x + (u - a)", "x * (u * a)", "(u - a) + x", "x * u + a"])
def test_sums_align_in_whatever_order_they_are_written(formula: str) -> None:
    shapes = "x: {shape: [B, T, D]}, a: {shape: [B, T]}, u: {shape: [B]}"
    item = compiled_text(f'op: f\ntensors: {{{shapes}}}\noutputs: {{y: "{formula}"}}\n')
    x, a, u = (torch.randn(*s) for s in ((2, 3, 4), (2, 3), (2,)))
    right = eval(formula, {"x": x, "a": a[..., None], "u": u[:, None, None]})
    torch.testing.assert_close(item.function(x, a, u), right)


@pytest.mark.parametrize(
    "formula", ["u[:, None] + 0*u", "exp(u[:, None]) + u - u", "where((u > 0)[:, None], u - u, 1)"]
)
def test_what_cancels_keeps_its_dimension_beside_a_column_of_the_same_tensor(formula: str) -> None:
    item = compiled_text(
        f'op: f\ntensors: {{u: {{shape: [N]}}}}\noutputs: {{y: "{formula}", z: "sum({formula}, dim=1)"}}\n'
    )
    y, z = item.function(torch.tensor([0.5, -1.0, 2.0]))
    assert y.shape == (3, 3)
    torch.testing.assert_close(z, y.sum(1))


@pytest.mark.parametrize("formula", ["u + a + x - x", "(sigmoid(u) - a) + x - x", "a + 0*x"])
def test_what_is_left_of_a_sum_is_placed_by_name_in_the_shape_of_all(formula: str) -> None:
    shapes = "x: {shape: [B, T, D]}, a: {shape: [B, T]}, u: {shape: [B]}"
    item = compiled_text(f'op: f\ntensors: {{{shapes}}}\noutputs: {{y: "{formula}"}}\n')
    given = [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((2, 3, 4), (2, 3), (2,))]
    x, a, u = given
    right = eval(formula, {"x": x, "a": a[..., None], "u": u[:, None, None], "sigmoid": torch.sigmoid})
    torch.testing.assert_close(item.function(*given), right)
    slopes = [torch.autograd.grad(y.sin().sum(), given, materialize_grads=True) for y in (item.function(*given), right)]
    torch.testing.assert_close(*slopes)
