"""Search, and print what is found; the exit status is 1 if that is anything."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import benchmarks.search
from benchmarks.search.draw import Drawn, draw
from benchmarks.search.hold import inspect
from benchmarks.search.shrink import shrunk
from symgrad.errors import SymgradError


@dataclass(frozen=True)
class Outcome:
    """What came of one formula; `refused` where the language does not have it, `apart` how many drafts differed."""

    drawn: Drawn
    wrong: tuple[str, ...] = ()
    refused: bool = False
    confirmed: bool = False


def wrong(drawn: Drawn, *, draft: bool) -> tuple[str, ...]:
    """What is wrong with a formula. Raises SymgradError where the language refuses it."""
    try:
        return tuple(f"{d.of}: {d.what}" for d in inspect(drawn, drawn.seed, draft=draft))
    except SymgradError as error:
        if "internal" in str(error):
            return (f"refused: {error}",)
        raise
    except RecursionError:
        raise
    except Exception as error:
        return (f"{type(error).__name__}: {error}",)


def outcome(drawn: Drawn, *, draft: bool = True) -> Outcome:
    """Inspect a draft of a formula, and where that differs the formula as it is compiled for users."""
    try:
        found = wrong(drawn, draft=draft)
        if found and draft:
            found = wrong(drawn, draft=False)
            return Outcome(drawn, found, confirmed=True)
    except SymgradError:
        return Outcome(drawn, refused=True)
    return Outcome(drawn, found)


def search(seed: int, count: int, seconds: float, every: int) -> Iterator[Outcome]:
    """What comes of the formulas drawn from `seed` on."""
    end = time.monotonic() + seconds
    for own in range(seed, seed + count):
        if time.monotonic() > end:
            return
        yield outcome(draw(own), draft=own % every != 0)


def is_wrong(drawn: Drawn) -> bool:
    """Whether a formula is wrong as it is compiled for users."""
    try:
        return bool(wrong(drawn, draft=False))
    except SymgradError:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(
        description=benchmarks.search.__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=100, help="formulas at most")
    parser.add_argument("--seconds", type=float, default=600, help="time at most, but for the last formula")
    parser.add_argument("--seed", type=int, default=0, help="of the first formula; each has the next one")
    parser.add_argument("--every", type=int, default=20, help="one formula of so many is no draft")
    parser.add_argument("--whole", action="store_true", help="print finds as they are, without making them smaller")
    given = parser.parse_args()
    tried = refused = confirmed = finds = 0
    last = given.seed
    for found in search(given.seed, given.count, given.seconds, given.every):
        tried += 1
        last = found.drawn.seed
        refused += found.refused
        confirmed += found.confirmed
        if found.wrong:
            finds += 1
            least = found.drawn if given.whole else shrunk(found.drawn, is_wrong)
            print(f"seed {last}:", *found.wrong[:3], least.text, sep="\n  ", flush=True)
        if tried % 50 == 0:
            print(f"{tried} formulas, {finds} finds; the next seed is {last + 1}", file=sys.stderr, flush=True)
    print(f"{tried} formulas, {refused} refused, {confirmed} compiled in full, {finds} finds; next seed {last + 1}")
    return 1 if finds else 0


if __name__ == "__main__":
    sys.exit(main())
