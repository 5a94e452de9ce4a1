"""Matching: every binding makes the pattern the node, operands in any order, and never without bound."""

from __future__ import annotations

import pytest
from effort import at_most
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_expressions import ALPHA, TENSORS, X, Y, Z, expressions

from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.pattern import is_wild, match, match_root, wild
from symgrad.ir.traversal import substitute, topological

A, B, C = wild("a"), wild("b"), wild("c")
EXP_X, LOG_Y = make("exp", X), make("log", Y)


def bindings(pattern: Expr, node: Expr) -> list[dict[str, Expr]]:
    return [{w.name: e for w, e in found.items()} for found in match(pattern, node, {})]


def rooted(pattern: Expr, node: Expr) -> list[tuple[dict[str, Expr], Expr | None]]:
    return [({w.name: e for w, e in found.items()}, rest) for found, rest in match_root(pattern, node)]


PATTERNS = [
    A,
    A + B,
    A * B,
    A + 1,
    A**2,
    A**2 + B,
    A * make("exp", B),
    make("exp", A) - 1,
    2 * A,
    A / B,
    A**2 - 2 * A * B + B**2,
    make("log", 1 + A),
    make("sin", A) / A,
    A * B + A * C,
    truth.where(A, B, C),
    make("hypot", A, B),
]
SETTINGS = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@SETTINGS
@given(st.sampled_from(PATTERNS), expressions(X, Y), expressions(X, Y), expressions(X, Y))
def test_a_pattern_matches_its_own_instances_and_the_bindings_say_how(pattern: Expr, a: Expr, b: Expr, c: Expr) -> None:
    concrete = {A: a, B: b, C: c}
    if pattern.op == "where":
        concrete[A] = truth.compare("gt", a, b)
    node = substitute(pattern, {w: e for w, e in concrete.items() if w in pattern.symbols})
    for found in match(pattern, node, {}):
        assert substitute(pattern, found) is node
    for found, rest in match_root(pattern, node):
        result = substitute(pattern, found)
        if rest is not None:
            result = ex.add(result, rest) if node.op == "add" else ex.mul(result, rest)
        assert result is node


@pytest.mark.parametrize("pattern", PATTERNS, ids=repr)
def test_a_pattern_matches_with_distinct_symbols(pattern: Expr) -> None:
    names = {w: symbol(f"{w.name}_") for w in pattern.symbols}
    assert any(all(found[w] is names[w] for w in names) for found in match(pattern, substitute(pattern, names), {}))


def test_operands_match_in_any_order() -> None:
    assert {"a": X, "b": Y} in bindings(A + make("exp", B), make("exp", Y) + X)
    assert len(bindings(A + B, X + Y)) == 2
    assert len(bindings(A * B, X * Y)) == 2
    assert bindings(make("hypot", A, B), make("hypot", Y, X)) == [{"a": Y, "b": X}]


def test_a_wildcard_means_the_same_everywhere() -> None:
    pattern = make("sin", A) / A
    assert bindings(pattern, make("sin", X) / X) == [{"a": X}]
    assert not bindings(pattern, make("sin", X) / Y)
    assert not bindings(A**2 - 2 * A * B + B**2, X**2 - 2 * X * Y + Z**2)


def test_numbers_attributes_and_functions_must_agree() -> None:
    assert not bindings(A + 1, X + 2)
    assert not bindings(A**2, X**3)
    assert not bindings(make("exp", A), make("log", X))
    total = make("sum", A, dim=0, keepdim=False)
    assert bindings(total, make("sum", X, dim=0, keepdim=False)) == [{"a": X}]
    assert not bindings(total, make("sum", X, dim=1, keepdim=False))


def test_a_part_of_a_sum_or_product_leaves_the_rest() -> None:
    ((found, rest),) = rooted(make("exp", A) - 1, EXP_X - 1 + Y)
    assert found == {"a": X}
    assert rest is Y
    products = rooted(make("exp", A) * make("exp", B), EXP_X * make("exp", Y) * Z)
    assert products
    assert all(rest is Z for _, rest in products)
    assert not rooted(make("exp", A) - 1, EXP_X + Y)


def test_one_wildcard_takes_what_a_sum_has_more() -> None:
    assert {"a": X + Y} in bindings(make("exp", 1 + A), make("exp", 1 + X + Y))
    assert {"a": X * Y} in bindings(make("log", LOG_Y * A), make("log", LOG_Y * X * Y))
    assert not bindings(make("exp", 1 + EXP_X), make("exp", 1 + EXP_X + Y))


def test_a_coefficient_moves_into_the_wildcard() -> None:
    assert bindings(2 * A, 6 * X) == [{"a": 3 * X}]
    assert bindings(-A, -3 * X) == [{"a": 3 * X}]
    assert bindings(2 * A, X) == [{"a": X / 2}]
    assert not bindings(2 * make("exp", A), 3 * EXP_X)
    assert bindings(2 * make("exp", A), 2 * EXP_X) == [{"a": X}]


def test_a_power_holds_the_power_that_is_wanted() -> None:
    results = rooted(A * make("exp", B), EXP_X**3 * Y * Z)
    assert any(found.get("b") is X for found, _ in results)
    for found, rest in results:
        whole = found["a"] * make("exp", found["b"]) * (ex.ONE if rest is None else rest)
        assert whole is EXP_X**3 * Y * Z


def test_a_power_in_a_sum_is_no_two_terms() -> None:
    found = rooted(A * B + A * C, (X * Y) ** 2 + X * Z + X * EXP_X)
    assert {rest for _, rest in found} == {(X * Y) ** 2}


def test_long_sums_are_left_alone_and_short_ones_are_quick() -> None:
    long = ex.add(*(make("exp", symbol(f"v{i}")) for i in range(200)))
    with at_most(calls=1_000_000):
        assert not rooted(make("exp", A) - make("exp", B), long)
        assert not list(match(make("exp", A) + B, long, {}))
    short = ex.add(*(make("exp", symbol(f"v{i}")) for i in range(30)))
    first = next(match_root(make("exp", A) + make("exp", B), short))
    assert first[1] is not None


def test_wildcards_are_told_apart_from_symbols() -> None:
    assert is_wild(A)
    assert not is_wild(X)
    assert not is_wild(X + Y)
    assert wild("x") is not X
    assert not bindings(X, Y)
    assert bindings(X, X) == [{}]


@SETTINGS
@given(expressions(*TENSORS, ALPHA))
def test_an_expression_without_wildcards_matches_itself_alone(root: Expr) -> None:
    assert list(match(root, root, {})) == [{}] or root.op in ("mul", "num")
    for part in topological(root)[:-1]:
        assert not any(part is root for _ in match(root, part, {}))
