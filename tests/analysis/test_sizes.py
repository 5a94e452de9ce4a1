"""How large values are: what matters is that rows are told from matrices, and bytes from elements."""

from __future__ import annotations

from symgrad.analysis.sizes import UNKNOWN, Sizes, elements, item_size
from symgrad.ir.expr import make, symbol
from symgrad.ir.truth import compare

X = symbol("x", "tensor", ("N", "D"))
FREE = symbol("free")


def test_a_reduction_of_rows_is_much_smaller_than_the_rows() -> None:
    row = make("sum", X, dim=-1, keepdim=True)
    assert elements(row) * 8 <= elements(X)
    assert elements(make("sum", FREE, dim=-1, keepdim=False)) * 8 <= elements(FREE)
    assert elements(make("sum", X, dim=None, keepdim=False)) == 1


def test_what_is_pointwise_is_as_large_as_its_operands() -> None:
    assert elements(make("exp", X) * symbol("w", "tensor", ("D",))) == elements(X)


def test_declared_sizes_count_and_python_values_are_one_number() -> None:
    assert elements(symbol("x", "tensor", (3, 5))) == 15
    assert elements(symbol("beta", "float")) == 1


def test_a_cotangent_without_a_shape_is_as_large_as_can_be() -> None:
    assert elements(symbol("grad_y", "cotangent")) == UNKNOWN


def test_bytes_are_those_of_float32_a_mask_and_an_index() -> None:
    assert [item_size(v) for v in (X, compare("gt", X, 0), symbol("k", "int_tensor"))] == [4, 1, 8]
    sizes = Sizes.of([make("exp", X)])
    assert sizes.bytes(X) == 4 and sizes.share(make("amax", X, dim=-1, keepdim=True)) < 1 / 8
