"""The dtype of a formula, as source."""

from __future__ import annotations

import pytest
from random_expressions import X, Y

from symgrad.backends.torch.dtypes import printed, promoted
from symgrad.expr import Expr, make


def total(value: Expr) -> Expr:
    return make("sum", value, dim=None, keepdim=False)


@pytest.mark.parametrize(
    "formula, text",
    [
        (X * Y, "_result_dtype(x, y)"),
        (total(X * Y), "_result_dtype(x, y)"),
        (total(X) * total(Y), "torch.promote_types(x.dtype, y.dtype)"),
        (total(X * Y) / (total(X) + total(Y)), "torch.promote_types(x.dtype, y.dtype)"),
        (total(X) * Y, "_result_dtype(torch.empty((), dtype=_result_dtype(x)), y)"),
    ],
    ids=str,
)
def test_values_without_dimensions_count_only_beside_each_other(formula: Expr, text: str) -> None:
    assert printed(promoted(formula), {X: "x", Y: "y"}) == text
