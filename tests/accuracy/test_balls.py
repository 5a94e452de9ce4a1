"""Two evaluations that share no code, Arb's and mpmath's, agree on every function that both tables have."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Iterator

import mpmath as mp
import pytest

from symgrad.accuracy.balls import BALLS, ball, midpoint, precision, to_mpf
from symgrad.ops.functions import FUNCTIONS, Function

BITS = 200
ROWS = [row for name, row in FUNCTIONS.items() if name in BALLS and row.meaning and row.partials]
# mpmath's own faults: digits lost next to a pole, and in sums that stop too soon.
LOOSE = {"zeta": 30, "modified_bessel_k0": 150, "modified_bessel_k1": 100, "scaled_modified_bessel_k1": 100}


def points(row: Function) -> Iterator[list[float]]:
    """Numbers within the range of the samples, and smaller and larger ones where the domain has them."""
    assert row.partials is not None
    count = len(inspect.signature(row.partials).parameters)
    generator = random.Random(row.name)
    low, high = row.sample
    grows = math.isinf(row.domain[1])
    for k in range(12):
        scale = 1.0 if k % 2 else 10 ** generator.uniform(-4, 2 if grows else 0)
        yield [generator.uniform(low, high) * scale for _ in range(count)]
    if count == 1:
        yield from ([v] for v in (0.0, 1e30, -1e30) if row.domain[0] < v < row.domain[1])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_both_systems_find_the_same_value(row: Function) -> None:
    decided = 0
    for arguments in points(row):
        if row.name == "polygamma":
            arguments[0] = 2.0
        with precision(BITS):
            found = midpoint(BALLS[row.name], [ball(a) for a in arguments])
        if found is None:
            continue
        decided += 1
        with mp.workprec(BITS):
            assert row.meaning is not None
            meant, own = row.meaning(*map(mp.mpf, arguments)), to_mpf(found)
            allowed = mp.mpf(2) ** (8 - LOOSE.get(row.name, BITS)) * abs(meant)
            assert abs(own - meant) <= allowed, (arguments, mp.nstr(own, 20), mp.nstr(meant, 20))
    assert decided >= 3


def test_modified_bessel_functions_have_many_digits_between_series_and_asymptote() -> None:
    with precision(1500):
        x = ball(200.0)
        i0, i1, k0, k1 = (BALLS[n](x) for n in ("i0", "i1", "modified_bessel_k0", "modified_bessel_k1"))
        assert k0.rel_accuracy_bits() > 1400
        assert k1.rel_accuracy_bits() > 1400
        assert (i0 * k1 + i1 * k0 - 1 / x).contains(0)  # their Wronskian
