"""Intervals: what is one, what lies inside, and how they are written."""

import math

import pytest

from symgrad.spec import Interval, parse_interval


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(0, oo)", (0, math.inf, True, True)),
        ("[-1, 1]", (-1, 1, False, False)),
        ("(-oo, 0)", (-math.inf, 0, True, True)),
        ("[-pi/2,pi/2)", (-math.pi / 2, math.pi / 2, False, True)),
        ("( 1/2 , 3*pi/4 ]", (0.5, 0.75 * math.pi, True, False)),
        ("(-1e-3, 2*E)", (-0.001, 2 * math.e, True, True)),
        ("(-oo, oo)", (-math.inf, math.inf, True, True)),
        ("[2, 2]", (2, 2, False, False)),
        ("[+.5, 1.]", (0.5, 1, False, False)),
    ],
)
def test_intervals(text: str, expected: tuple[float, float, bool, bool]) -> None:
    interval = parse_interval(text)
    assert (interval.lower, interval.upper, interval.lower_open, interval.upper_open) == expected
    assert str(interval) == text


@pytest.mark.parametrize(
    "text",
    [
        *[
            "",
            "0, 1",
            "(0 1)",
            "(0, 1, 2)",
            "(0, nan)",
            "(0, inf)",
            "(x, 1)",
            "(0, exit())",
            "(0, 1**9)",
            "(--1, 2)",
        ],
        *[
            "(1, 0)",
            "(1, 1)",
            "[1, 1)",
            "[0, oo]",
            "(oo, oo)",
            "(-oo, -oo)",
            "(0, 1/0)",
            "(0, oo/2)",
            "(0, 2*oo)",
        ],
        *["(0, 1e999)", "(0, 1" + "*1e300" * 9 + ")", "(٣, 4)", "(" * 1000],
    ],
)
def test_what_is_no_interval(text: str) -> None:
    with pytest.raises(ValueError, match=r"interval|bound|infin"):
        parse_interval(text)


def test_membership_and_text_of_intervals() -> None:
    half = Interval(0, 1, True, False)
    assert [number in half for number in (0, 0.5, 1, 2, math.nan)] == [False, True, True, False, False]
    assert str(half) == "(0, 1]"
    assert str(Interval(-math.inf, 0.5, True, True)) == "(-oo, 0.5)"


@pytest.mark.parametrize("text", ["(0, oo)", "[-1, 2)", "(-oo, 3]", "(-oo, oo)", "[0.5, 1]"])
@pytest.mark.parametrize("whole", [False, True])
def test_the_test_of_an_interval_says_what_lies_inside(text: str, whole: bool) -> None:
    interval = parse_interval(text)
    test = interval.holds("value", whole) or "True"
    values = [-7, -1, 0, 1, 2, 3] if whole else [-math.inf, -7.0, -1, 0, 0.5, 1, 2.5, 3, math.inf, math.nan]
    for value in values:
        assert eval(test, {"math": math, "value": value}) == (value in interval), value
