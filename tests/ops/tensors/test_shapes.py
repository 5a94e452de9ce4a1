"""Where shapes come from, and what declared shapes say about them."""

from __future__ import annotations

import pytest

from symgrad.ir.expr import Expr, symbol
from symgrad.ops.tensors.shapes import Extent, ShapeConflict, covers, extent, outline, same_shape, shape_sources
from symgrad.parse import FormulaError, parse_expression

X, Y = symbol("x"), symbol("y")
IMAGE = symbol("x", "tensor", ("N", "C", "H", "W"))
ROWS = symbol("x", "tensor", ("...", "features"))
WEIGHT = symbol("w", "tensor", ("out", "features"))


def parsed(text: str, *symbols: Expr) -> Expr:
    return parse_expression(text, symbols)


def test_sources_of_pointwise_values() -> None:
    assert shape_sources(parsed("x * sin(y) + 2", X, Y)) == {X, Y}
    assert shape_sources(parsed("softmax(x * y, dim=0)", X, Y)) == {X, Y}


def test_full_reductions_have_no_shape() -> None:
    assert shape_sources(parsed("x * mean(x)", X)) == {X}
    assert shape_sources(parsed("sum(x * y)", X, Y)) == frozenset()


def test_what_is_kept_beside_its_operand_adds_nothing() -> None:
    assert shape_sources(parsed("x - mean(x, dim=0, keepdim=True)", X)) == {X}
    (mean,) = shape_sources(parsed("mean(x, dim=0, keepdim=True)", X))
    assert mean.op == "mean"


def test_of_two_values_of_one_shape_one_is_a_source() -> None:
    column = symbol("x", "tensor", ("...", 1))
    kept = parsed("sum(x, dim=-1, keepdim=True) * amax(x, dim=-1, keepdim=True)", column)
    assert len(shape_sources(kept)) == 1


def test_a_shape_does_not_depend_on_what_is_moved() -> None:
    moved, other = (parsed(f"flatten(stack({f}, x), -1), -2)", X) for f in ("(-x", "(2 * exp(x)"))
    assert moved is not other and outline(moved) is outline(other)
    assert covers(shape_sources(moved), shape_sources(other)) and same_shape(shape_sources(moved), other)
    assert not covers(shape_sources(moved), shape_sources(parsed("flatten(stack((y, y), -1), -2)", Y)))
    assert not covers(shape_sources(moved), shape_sources(parsed("flatten(stack((x, x, x), -1), -2)", X)))
    both = parsed("flatten(x * y, -2)", X, Y)
    assert outline(both) is both  # whatever these broadcast to


def test_declared_shapes_that_are_equal() -> None:
    other = symbol("y", "tensor", ("N", "C", "H", "W"))
    assert same_shape(frozenset({IMAGE, other}), IMAGE)
    assert not same_shape(frozenset({X, Y}), X)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sum(x, dim=1)", ("N", "H", "W")),
        ("sum(x, dim=[-1, 0], keepdim=True)", (1, "C", "H", 1)),
        ("transpose(x, 1, -1)", ("N", "W", "H", "C")),
        ("x.mT", ("N", "C", "W", "H")),
        ("mean(x)", ()),
        ("max(x, dim=0).values", ("C", "H", "W")),
        ("einsum('nchw->wn', x)", ("W", "N")),
        ("cumsum(x, dim=1)", ("N", "C", "H", "W")),
    ],
)
def test_exact_extents(text: str, expected: tuple[int | str, ...]) -> None:
    assert extent(parsed(text, IMAGE)) == Extent(expected)


def test_open_extents() -> None:
    lead = frozenset({ROWS})
    assert extent(parsed("x @ w.T", ROWS, WEIGHT)).dims == ("out",)
    assert extent(parsed("mean(x, dim=-1, keepdim=True)", ROWS)) == Extent((1,), lead)
    assert extent(parsed("sum(x, dim=-1)", ROWS)) == Extent((), lead)
    assert not extent(parsed("sum(x, dim=0)", ROWS)).exact


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x @ w", "'features' meets 'out'"),
        ("sum(w, dim=2)", "no dimension 2"),
        ("norm(v, p=oo, dim=-3)", "there is no dimension -3 in ["),  # not of what a norm is made of
        ("sum(w, dim=[0, -2])", "twice"),
        ("einsum('ij,ij->i', w, v)", "'j'"),
        ("v.T", "'.T' is of a matrix"),
        ("w + v", "do not broadcast"),
    ],
)
def test_contradictions(text: str, message: str) -> None:
    shapes = {"v.T": ("a", "b", "c"), "w + v": ("a", "b")}  # with a name in common they would meet in pairs
    third = symbol("v", "tensor", shapes.get(text, ("out", "b")))
    with pytest.raises(FormulaError) as caught:
        parsed(text, ROWS, WEIGHT, third)
    assert message in caught.value.faults[0].message


def test_conflict_is_a_value_error() -> None:
    assert issubclass(ShapeConflict, ValueError)
