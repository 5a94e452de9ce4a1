"""Choices of earlier runs, kept by what they were made from: formula, sample points, domains and options.

One file for each choice, in a folder for each state of the compiler. Nothing depends on it: what is missing, damaged or
not to be trusted is measured again, and what is found is what would be measured.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

from symgrad.accuracy.candidates import Candidate, Choice
from symgrad.accuracy.measure import Score
from symgrad.accuracy.rewrite import Step
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import topological
from symgrad.spec.interval import Interval

__all__ = ["Measured", "measured_at_home"]

_OWN = "measured"
_MOST_STATES = 8  # of the compiler, whose choices are kept


def measured_at_home(state: str) -> Measured | None:
    """What was measured in the user's cache by a `state` of the compiler; None where `SYMGRAD_MEASURED=0` turns it off.

    The folder is the one of compiled passes, whose runtime finds it likewise: `$SYMGRAD_CACHE`, or
    `$XDG_CACHE_HOME/symgrad` or `~/.cache/symgrad`.
    """
    if os.environ.get("SYMGRAD_MEASURED") == "0":
        return None
    base = os.environ.get("XDG_CACHE_HOME")
    home = Path(base) if base else Path("~/.cache")
    with suppress(OSError, RuntimeError):  # there may be no home
        return Measured(Path(os.environ.get("SYMGRAD_CACHE") or home / "symgrad").expanduser() / _OWN / state)
    return None


class Measured:
    """Choices in a folder of their own, which is made when there is something to keep."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, content: str, left: int) -> tuple[Choice, int] | None:
        """The choice that was made from something, and the effort that it took; None where it is not known.

        So much effort is `left`: a search that had enough finds the same wherever there is enough.
        """
        try:
            if not _is_private(self._folder):
                return None
            data = self._path(content).read_bytes()
            digest, _, text = data.partition(b"\n")
            if digest != _digest(text):
                return None
            choice, had, spent = _read(json.loads(text))
            return (choice, spent) if had == left or spent < min(had, left) else None
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def write(self, content: str, choice: Choice, had: int, spent: int) -> None:
        """Keep a choice, if that can be done; another process sees the whole file or none.

        The search `had` so much effort to spend, and spent so much.
        """
        with suppress(OSError, TypeError):
            text = json.dumps(_written(choice, had, spent), separators=(",", ":")).encode()
            if not self._folder.exists():
                self._folder.mkdir(parents=True, mode=0o700)
                _forget(self._folder.parent)
            if not _is_private(self._folder):
                return
            path = self._path(content)
            temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
            try:
                temporary.write_bytes(_digest(text) + b"\n" + text)
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)

    def _path(self, content: str) -> Path:
        return self._folder / f"{hashlib.sha256(content.encode()).hexdigest()[:32]}.json"


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()


def _is_private(folder: Path) -> bool:
    """Whether nobody else can put a choice into a folder, which would then be generated."""
    found = folder.stat()
    own = getattr(os, "getuid", lambda: found.st_uid)()
    return found.st_uid in (own, 0) and not (os.name == "posix" and found.st_mode & 0o022)


def _forget(folder: Path) -> None:
    """Remove what states of the compiler have left that were used longest ago."""
    states = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in states[_MOST_STATES:]:
        for file in old.glob("*"):
            file.unlink(missing_ok=True)
        old.rmdir()


# ------------------------------------------------------------------------------------------------ as JSON
def _written(choice: Choice, had: int, spent: int) -> dict[str, Any]:
    """A choice in numbers and texts: expressions by their places among all nodes."""
    order = topological(choice.formula, *_expressions(choice))
    places = {node: place for place, node in enumerate(order)}

    def candidate(c: Candidate) -> list[Any]:
        return [places[c.form], _of_score(c.float32), _of_score(c.float64), c.cost, c.wide, c.far_worth]

    def steps(own: Sequence[Step]) -> list[Any]:
        return [[s.rule, places[s.before], places[s.after], s.why] for s in own]

    return {
        "nodes": [[n.op, [places[a] for a in n.args], [[k, _of_value(v)] for k, v in n.attrs]] for n in order],
        "formula": places[choice.formula],
        "chosen": candidate(choice.chosen),
        "candidates": [candidate(c) for c in choice.candidates],
        "steps": steps(choice.steps),
        "others": [[places[form], steps(taken)] for form, taken in choice.others],
        "effort": [had, spent],
    }


def _expressions(choice: Choice) -> Iterator[Expr]:
    for candidate in (choice.chosen, *choice.candidates):
        yield candidate.form
    for form, _ in choice.others:
        yield form
    for step in (*choice.steps, *(s for _, taken in choice.others for s in taken)):
        yield from (step.before, step.after)


def _read(found: Mapping[str, Any]) -> tuple[Choice, int, int]:
    nodes: list[Expr] = []
    for op, arguments, attributes in found["nodes"]:
        nodes.append(make(op, *(nodes[place] for place in arguments), **{k: _value(v) for k, v in attributes}))

    def candidate(own: Sequence[Any]) -> Candidate:
        form, float32, float64, *rest = own
        return Candidate(nodes[form], Score(*float32), Score(*float64), *rest)

    def steps(own: Sequence[Any]) -> tuple[Step, ...]:
        return tuple(Step(rule, nodes[before], nodes[after], why) for rule, before, after, why in own)

    beside = tuple((nodes[form], steps(taken)) for form, taken in found["others"])
    chosen, *others = map(candidate, (found["chosen"], *found["candidates"]))
    had, spent = found["effort"]
    return Choice(nodes[found["formula"]], chosen, tuple(others), steps(found["steps"]), beside), had, spent


def _of_score(score: Score) -> list[Any]:
    return [score.nonfinite, score.ulp, score.near, score.far]


def _of_value(value: Any) -> Any:
    """An attribute of a node. Raises TypeError for one of a type that none has."""
    if isinstance(value, Fraction):
        return {"over": hex(value.numerator), "under": hex(value.denominator)}
    if isinstance(value, Interval):
        return {"interval": [value.lower, value.upper, value.lower_open, value.upper_open]}
    if isinstance(value, tuple):
        return [_of_value(part) for part in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    raise TypeError(type(value).__name__)


def _value(text: Any) -> Any:
    if isinstance(text, dict) and "interval" in text:
        return Interval(*text["interval"])
    if isinstance(text, dict):
        return Fraction(int(text["over"], 16), int(text["under"], 16))
    return tuple(map(_value, text)) if isinstance(text, list) else text
