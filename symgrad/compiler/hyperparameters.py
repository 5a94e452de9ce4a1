"""Values of hyperparameters at which forms are measured and operations are sampled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from symgrad.spec import Spec
from symgrad.spec.interval import Interval
from symgrad.spec.model import Hyperparameter


def hyperparameter_values(spec: Spec, hyperparameter: Hyperparameter) -> list[Any]:
    """Values of a hyperparameter worth trying: the test's, the choices, or some around the default."""
    given: Sequence[Any] = spec.test.values.get(hyperparameter.name) or hyperparameter.choices or ()
    if given:
        return list(given)
    if hyperparameter.type == "bool":
        return [True, False]
    if hyperparameter.type == "str":
        return [hyperparameter.default or ""]
    tried: list[Any] = [] if hyperparameter.default is None else [hyperparameter.default]
    others: list[Any] = [2, 3, 1, 0]
    if hyperparameter.type == "float":
        is_share = tried and 0 < tried[0] < 1
        floats = [h.name for h in spec.hyperparameters if h.type == "float"]
        apart = _APART * floats.index(hyperparameter.name)  # ends of an interval are seldom equal
        others = [round(v + apart, 3) for v in ([0.75, 0.5] if is_share else [0.75, 1.5, 2.0])]
    domain = hyperparameter.domain
    inside = [v for v in others if domain is None or v in domain]
    return _with_ordinary(hyperparameter, list(dict.fromkeys([*tried, *inside]))[:3])


def usual_value(spec: Spec, hyperparameter: Hyperparameter) -> Any:
    """The default of a hyperparameter, or else the first value worth trying."""
    default = hyperparameter.default
    return hyperparameter_values(spec, hyperparameter)[0] if default is None else default


def measured_values(spec: Spec, hyperparameter: Hyperparameter) -> list[Any]:
    """Values at which forms are measured: those worth trying, and enough of its domain that no other form is equal."""
    values = hyperparameter_values(spec, hyperparameter)
    is_number = hyperparameter.type in ("float", "int") and not hyperparameter.choices
    return _with_ordinary(hyperparameter, values) if is_number else values


def _with_ordinary(hyperparameter: Hyperparameter, values: list[Any]) -> list[Any]:
    """The values, and others of the domain where there is one alone, or none but -1, 0 and 1.

    At a single value it might be a number: with `eps` always 0, `p - eps` is p.
    """
    if len(values) > 1 and not _SPECIAL_VALUES.issuperset(values):
        return values
    domain = hyperparameter.domain or Interval(-math.inf, math.inf, True, True)
    if hyperparameter.type == "int":
        first, last = domain.integers
        start = int(values[0] if values else first if first > -math.inf else min(last, 0))
        found: list[Any] = [n for d in (0, 1, 2, -1, -2) if first <= (n := start + d) <= last]
    else:
        low = domain.lower if domain.lower > -math.inf else min(domain.upper, 1.0) - 1
        high = domain.upper if domain.upper < math.inf else max(low, 0.0) + 1
        found = [float(f"{low + (high - low) * share:.4g}") for share in _SHARES]
    return list(dict.fromkeys([*values, *(v for v in found if v in domain)]))[: max(3, len(values) + 1)]


_APART = 0.03
_SPECIAL_VALUES = frozenset((-1, 0, 1))
_SHARES = (0.37, 0.71)  # of a domain
