"""Hostile texts are answered at once, with mistakes at their places and nothing else."""

import warnings

import pytest
from effort import at_most
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.ir.expr import Expr
from symgrad.parse import FormulaError, Scope, parse_expression
from tests.parse.test_build import MEANINGS, MISTAKES, SYMBOLS

HOSTILE = {
    "parentheses": "(" * 9_000 + "x" + ")" * 9_000,
    "lists": "[" * 49 + "]" * 49,
    "signs": "-" * 4_900 + "x",
    "not": "not " * 4_000 + "flag",
    "signed powers": "x" + "**-x" * 1_500,
    "powers": "x" + "**x" * 2_400,
    "sum": "x" + "+sin(x)*y" * 500,
    "long sum": "+".join(f"x**{i}" for i in range(2, 1_200)),
    "alternating": "x" + "*y+x" * 1_000,
    "comparisons": "x" + "<x" * 2_000,
    "conditions": "&".join(["(x>0)"] * 900),
    "calls": "sin(" * 49 + "x" + ")" * 49,
    "branches": "where(x>0,x," * 49 + "y" + ")" * 49,
    "cases": "Piecewise(" + ",".join(f"(x,x>{i})" for i in range(600)) + ",(0,True))",
    "maximum": "max(" + ",".join(["x", "y"] * 1_000) + ")",
    "attributes": "x" + ".T" * 2_000,
    "digits": "9" * 19_000,
    "huge product": "*".join(["9e307"] * 2_000),
    "huge sum": "+".join(f"1/(1e300+{i})" for i in range(600)),
    "huge coefficient": "*".join(["(9e300*x)"] * 800),
    "harmonic": "x*(" + "+".join(f"1/{i}" for i in range(1, 1_200)) + ")",
    "tower": "9**9**9**9**9",
    "exponential tower": "exp(exp(exp(exp(10))))",
    "unknown names": "+".join(f"unknown{i}" for i in range(900)),
    "keywords": "sum(" + ",".join(f"a{i}=1" for i in range(700)) + ")",
    "commas": "," * 4_000,
    "operators": "+*" * 2_000,
    "called results": "f" + "()" * 1_000,
    "surrogate": "x\ud800",
    "long name": "x" * 19_000,
    "long text": "mode == '" + "a" * 19_000 + "'",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_answered_at_once(name: str) -> None:
    answered(HOSTILE[name])


def answered(text: str, symbols: Scope | tuple[Expr, ...] = SYMBOLS) -> Expr | None:
    found = None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            with at_most(calls=10_000_000):
                found = parse_expression(text, symbols)
        except FormulaError as error:
            assert error.faults
            assert all(0 <= f.offset <= len(text) and f.message.isprintable() for f in error.faults)
    return found


PIECES = st.sampled_from(
    [
        *"xy()[],.=+-*/@<>&|~^%!'\"#:;{}\\ \n\t\0é²",
        *("beta", "flag", "mode", "mask", "n", "x", "1e3", "0", "2", "and", "or", "not", "is", "None", "True", "_1"),
        *("**", "sum(", "where(", "max(", "sin(", "dim=", "'a'", ".T", ".values"),
        *MEANINGS,
        *MISTAKES,
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    answered(text)


@settings(max_examples=500, deadline=None)
@given(st.lists(PIECES, max_size=12).map("".join))
def test_any_pieces(text: str) -> None:
    answered(text)


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(sorted(MEANINGS)), st.integers(0, 60), st.integers(0, 5), PIECES)
def test_any_change_of_a_formula(text: str, at: int, removed: int, piece: str) -> None:
    answered(text[:at] + piece + text[at + removed :])
