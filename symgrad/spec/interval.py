"""Intervals of real numbers, as a spec writes them: ``(0, oo)``, ``[-1, 1]``, ``(-pi/2, pi/2)``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

__all__ = ["BOUND", "INTERVAL", "Interval", "parse_interval"]

_CONSTANTS = {"pi": math.pi, "E": math.e, "oo": math.inf}
_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_FACTOR = rf"(?:{_NUMBER}|pi|E|oo)"
BOUND = rf"[-+]?\s*{_FACTOR}(?:\s*[*/]\s*{_FACTOR})*"
INTERVAL = rf"\s*[(\[]\s*{BOUND}\s*,\s*{BOUND}\s*[)\]]\s*"

_PARTS = re.compile(rf"\s*([(\[])\s*({BOUND})\s*,\s*({BOUND})\s*([)\]])\s*", re.ASCII)
_STEP = re.compile(rf"([*/]?)\s*({_FACTOR})", re.ASCII)


@dataclass(frozen=True)
class Interval:
    """A non-empty interval of real numbers. An infinite bound is an infinity, and open."""

    lower: float
    upper: float
    lower_open: bool
    upper_open: bool
    text: str = field(default="", compare=False)
    """As the spec writes it; empty if the interval comes from elsewhere."""

    def __contains__(self, number: float) -> bool:
        above = self.lower < number if self.lower_open else self.lower <= number
        below = number < self.upper if self.upper_open else number <= self.upper
        return above and below

    @property
    def integers(self) -> tuple[float, float]:
        """The least and the greatest integer, or infinities; reversed, if there is none."""
        first = self.lower if math.isinf(self.lower) else math.ceil(self.lower)
        last = self.upper if math.isinf(self.upper) else math.floor(self.upper)
        return (first if first in self else first + 1, last if last in self else last - 1)

    def holds(self, name: str, whole: bool = False) -> str:
        """The test in Python that a number lies inside, an integer if it is `whole`; neither NaN nor an infinity does.

        Empty where every number passes.
        """
        infinite = (math.inf,) if whole else ()  # a bound that an integer need not be compared with
        above = "" if -self.lower in infinite else f"{_printed(self.lower)} {'<' if self.lower_open else '<='} "
        below = "" if self.upper in infinite else f" {'<' if self.upper_open else '<='} {_printed(self.upper)}"
        if above and not below:
            return f"{name} {'>' if self.lower_open else '>='} {_printed(self.lower)}"
        return f"{above}{name}{below}" if above or below else ""

    def __str__(self) -> str:
        return self.text or "".join(
            (
                "(" if self.lower_open else "[",
                f"{_spelled(self.lower)}, {_spelled(self.upper)}",
                ")" if self.upper_open else "]",
            )
        )


def parse_interval(text: str) -> Interval:
    """The interval that ``text`` writes.

    Raises ValueError, with a message for the user, where it writes none, or an empty one.
    """
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise ValueError('not an interval such as "(0, oo)", "[-1, 1]" or "(-pi/2, pi/2)", in quotes')
    left, lower_text, upper_text, right = parts.groups()
    lower, upper = _bound(lower_text), _bound(upper_text)
    interval = Interval(lower, upper, left == "(", right == ")", text.strip())
    if lower > upper or (lower == upper and (interval.lower_open or interval.upper_open)):
        raise ValueError("an empty interval")
    if (math.isinf(lower) and left == "[") or (math.isinf(upper) and right == "]"):
        raise ValueError("an infinite bound is open: it takes a round bracket")
    if lower == math.inf or upper == -math.inf:
        raise ValueError("an empty interval")
    return interval


def _bound(text: str) -> float:
    """The value of a product or quotient of numbers and constants, with a sign."""
    product = 1.0
    for operator, factor in _STEP.findall(text.lstrip("+-")):
        number = _CONSTANTS.get(factor) or float(factor)
        if operator == "/" and number == 0:
            raise ValueError("a bound divides by zero")
        if math.isinf(number) and factor != "oo":
            raise ValueError("a bound that is too large; 'oo' is infinity")
        product = product / number if operator == "/" else product * number
    if "oo" in text and text.strip("+- \t") != "oo":
        raise ValueError("infinity stands alone in a bound: 'oo' or '-oo'")
    if math.isinf(product) and "oo" not in text:
        raise ValueError("a bound that is too large; 'oo' is infinity")
    return -product if text.startswith("-") else product


def _spelled(number: float) -> str:
    if math.isinf(number):
        return "oo" if number > 0 else "-oo"
    whole = number == int(number) and abs(number) < 2**53
    return str(int(number) if whole else number)


def _printed(number: float) -> str:
    """A bound in Python."""
    if math.isinf(number):
        return "math.inf" if number > 0 else "-math.inf"
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(number)
