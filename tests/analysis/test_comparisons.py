"""What is read by more than its sign."""

from __future__ import annotations

from symgrad.analysis.comparisons import measured
from symgrad.ir import truth
from symgrad.ir.expr import make, symbol
from symgrad.ir.truth import compare

X, W = symbol("x", "tensor"), symbol("w", "tensor")
Y = make("exp", X)


def test_of_what_is_compared_with_zero_the_sign_is_read():
    assert measured(compare("gt", Y - W, 0), frozenset({Y})) == {Y}
    assert measured(compare("gt", make("amax", Y, dim=-1), W), frozenset({Y})) == {Y}
    assert measured(compare("gt", Y, W), frozenset({Y, W})) == {Y, W}
    assert measured(truth.logical("and", compare("lt", W, 0), compare("lt", W, Y)), frozenset({Y})) == {Y}
    assert measured(compare("lt", W, 0), frozenset({W})) == frozenset()
