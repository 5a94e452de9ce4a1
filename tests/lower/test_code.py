"""Templates become expressions whose parts bind as their operators say, and which know the names that they read."""

from __future__ import annotations

import ast
import math

import pytest

from symgrad.lower.code import added, binary, chained, code, constant, minus, name, names_in, source

A_B = code("a + b")


@pytest.mark.parametrize(
    "template, parts, text",
    [
        ("{0} * {1}", ("x", A_B), "x * (a + b)"),
        ("{0}.sum()", (A_B,), "(a + b).sum()"),
        ("f({0}, {1})", ([A_B, "y"], [ast.keyword("dim", constant(-1))]), "f(a + b, y, dim=-1)"),
        ("f({0}, {1})", ("x", []), "f(x)"),
        ("cat(({0},), dim={1})", (["x"], 0), "cat((x,), dim=0)"),
        ("f(({0}) * 2 if {0} else {1})", ("x", constant(0.5)), "f(x * 2 if x else 0.5)"),
        ("{0} ** 2", (constant(-1),), "(-1) ** 2"),
    ],
)
def test_a_template_is_filled(template: str, parts: tuple[object, ...], text: str) -> None:
    assert source(code(template, *parts)) == text  # type: ignore[arg-type]


def test_a_template_stays_as_it_is() -> None:
    assert [source(code("f({0}, {own})", n, own=n)) for n in ("x", "y")] == ["f(x, x)", "f(y, y)"]


def test_a_name_is_written_as_it_is_declared() -> None:
    micro = "\N{MICRO SIGN}"  # which a parser reads as another letter
    assert source(code("f({0})", micro)) == f"f({micro})"
    assert names_in(code("f({0})", micro)) == {"f", micro}


@pytest.mark.parametrize("value", [0, -3, 0.1, -0.5, 1e-300, True, None, 'a"b', "new\nline", (1, -2), (3,)])
def test_a_constant_is_worth_what_it_was(value: object) -> None:
    text = source(constant(value))
    assert eval(text) == value
    assert repr(eval(text)) == repr(value)


def test_infinity_has_a_name() -> None:
    assert [source(constant(v)) for v in (math.inf, -math.inf)] == ["math.inf", "-math.inf"]


def test_sums_and_products_of_any_length_need_no_brackets() -> None:
    product = code("a / b * c")
    assert source(chained("*", name("x"), product)) == "x * a / b * c"
    assert source(binary("*", name("x"), product)) == "x * (a / b * c)"
    assert source(chained("*", name("x"), A_B)) == "x * (a + b)"
    assert source(added(name("x"), minus(name("y")))) == "x - y"
    assert source(added(name("x"), code("-2 * y / z"))) == "x - 2 * y / z"
    assert source(added(name("x"), code("2 * -y"))) == "x + 2 * -y"


def test_what_a_lambda_binds_is_not_read() -> None:
    assert names_in(code("f(lambda a, b: a * b + c, d)")) == {"f", "c", "d"}
