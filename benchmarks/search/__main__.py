"""Search, and print what is found; the exit status is 1 if that is anything."""

from __future__ import annotations

import argparse
import contextlib
import math
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

import benchmarks.search
from benchmarks.search.compiled import compile_together
from benchmarks.search.draw import Drawn, draw
from benchmarks.search.hold import differences, dtype_of
from benchmarks.search.made import Made
from benchmarks.search.shrink import shrunk
from benchmarks.search.wide import draw_wide
from symgrad.errors import SymgradError
from symgrad.ir.traversal import forget_nodes

_LONG = 4.0  # seconds of this process after which a draft is left
_TOGETHER = 24  # drafts of one dtype whose passes are compiled in one file


@dataclass(frozen=True)
class Outcome:
    """What came of one formula; `refused` where the language does not have it, `confirmed` where its draft differed."""

    drawn: Drawn
    wrong: tuple[str, ...] = ()
    refused: bool = False
    confirmed: bool = False
    too_long: bool = False
    made: Made | None = None


def outcome(drawn: Drawn, *, draft: bool = True, eager: bool = True, folder: Path | None = None) -> Outcome:
    """Inspect a draft of a formula, and where that differs the formula as it is compiled for users.

    Without `eager` a draft differs where its passes do, but for one of whole tensors, of which few have any: its body
    counts in dtypes for which float64 has digits to spare. In a `folder` a draft with passes is kept.
    """
    eager = eager or (drawn.kind == "whole" and dtype_of(drawn.seed) != torch.float64)
    found = _inspected(drawn, draft=draft, eager=eager, folder=folder)
    if draft and found.wrong:
        return _confirmed(drawn, eager)
    return found


def _confirmed(drawn: Drawn, eager: bool) -> Outcome:
    found = _inspected(drawn, draft=False, eager=eager)
    return Outcome(drawn, found.wrong, found.refused, confirmed=True)


def _inspected(drawn: Drawn, *, draft: bool, eager: bool, folder: Path | None = None) -> Outcome:
    forget_nodes()
    with TemporaryDirectory() as own, warnings.catch_warnings(), at_most(_LONG if draft else math.inf):
        warnings.simplefilter("ignore")
        try:
            made = Made(drawn, folder or Path(own), draft=draft)
            if not eager and made.library is None:
                return Outcome(drawn)
            found = tuple(f"{d.of}: {d.what}" for d in differences(made, drawn.seed, eager=eager))
        except SymgradError as error:
            if "internal" not in str(error):
                return Outcome(drawn, refused=True)
            return Outcome(drawn, (f"refused: {error}",))
        except TooLongError:
            return Outcome(drawn, too_long=True)
        except RecursionError:
            raise
        except Exception as error:
            return Outcome(drawn, (f"{type(error).__name__}: {error}",))
    return Outcome(drawn, found, made=made if folder and made.library is not None else None)


class TooLongError(Exception):
    """A formula took longer than it is worth."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TooLongError where what happens inside takes longer, where the system has a clock of processes."""

    def stop(*_: object) -> None:
        raise TooLongError

    if not hasattr(signal, "SIGVTALRM") or not math.isfinite(seconds):
        yield
        return
    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 0.1)  # again, where nobody hears it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def search(given: argparse.Namespace) -> Iterator[Outcome]:
    """What comes of the formulas drawn from a seed on; those of which passes run in C++, too, come once more."""
    end = time.monotonic() + given.seconds
    waiting: dict[torch.dtype, list[Made]] = {}
    with TemporaryDirectory() as name:
        for seed in range(given.seed, given.seed + given.count):
            if time.monotonic() > end:
                break
            in_cpp = given.cpp and seed % given.cpp == 0
            draft = not given.every or seed % given.every != 0
            found = outcome(
                (draw_wide if given.wide else draw)(seed),
                draft=draft,
                eager=given.eager or not draft,
                folder=Path(name) if in_cpp and draft else None,
            )
            yield found
            if found.made is not None:
                batch = waiting.setdefault(dtype_of(seed), [])
                batch.append(found.made)
                if len(batch) == _TOGETHER:
                    yield from in_cpp_too(waiting.pop(dtype_of(seed)))
        for batch in waiting.values():
            yield from in_cpp_too(batch)


def in_cpp_too(drafts: list[Made]) -> Iterator[Outcome]:
    """What comes of drafts whose passes are compiled together; of what differs, as it is compiled for users."""
    dtype = dtype_of(drafts[0].drawn.seed)
    narrow = bool(drafts[0].drawn.seed // 2 % 2)
    try:
        compile_together(drafts, dtype, narrow=narrow)
    except RuntimeError as error:
        if len(drafts) == 1:
            yield Outcome(drafts[0].drawn, (f"RuntimeError: {error}",))
            return
        for made in drafts:
            yield from in_cpp_too([made])
        return
    for made in drafts:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            differs = list(differences(made, made.drawn.seed, eager=False))
        yield _confirmed(made.drawn, eager=False) if differs else Outcome(made.drawn)


def is_wrong(drawn: Drawn) -> bool:
    """Whether a formula is wrong as it is compiled for users."""
    return bool(_inspected(drawn, draft=False, eager=True).wrong)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.search",
        description=benchmarks.search.__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=100, help="formulas at most")
    parser.add_argument("--seconds", type=float, default=600, help="time at most, but for the last formula")
    parser.add_argument("--seed", type=int, default=0, help="of the first formula; each has the next one")
    parser.add_argument("--every", type=int, default=20, help="one formula of so many is no draft; 0: all are")
    parser.add_argument("--cpp", type=int, default=4, help="one draft's passes of so many run in C++, too; 0: none")
    parser.add_argument("--passes", dest="eager", action="store_false", help="only passes count in drafts: faster")
    parser.add_argument("--whole", action="store_true", help="print finds as they are, without making them smaller")
    parser.add_argument("--wide", action="store_true", help="whole specs are drawn, of what formulas alone leave out")
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    last = given.seed - 1
    for found in search(given):
        is_new = found.drawn.seed > last
        counts["formulas" if is_new else "in C++"] += 1
        last = max(last, found.drawn.seed)
        counts["refused"] += found.refused
        counts["too long"] += found.too_long
        counts["compiled in full"] += found.confirmed
        if found.wrong:
            counts["finds"] += 1
            least = found.drawn if given.whole else shrunk(found.drawn, is_wrong)
            print(f"seed {found.drawn.seed}:", *found.wrong[:3], least.text, sep="\n  ", flush=True)
        if is_new and counts["formulas"] % 50 == 0:
            print(f"{_listed(counts)}; the next seed is {last + 1}", file=sys.stderr, flush=True)
    print(f"{_listed(counts)}; the next seed is {last + 1}, after {time.process_time():.0f} s of this process")
    return 1 if counts["finds"] else 0


def _listed(counts: Counter[str]) -> str:
    return ", ".join(
        f"{counts[k]} {k}" for k in ("formulas", "refused", "too long", "in C++", "compiled in full", "finds")
    )


if __name__ == "__main__":
    sys.exit(main())
