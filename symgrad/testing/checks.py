"""The table of checks: each is a generator of sentences, one for each property that does not hold."""

from __future__ import annotations

import contextlib
import re
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from unittest.mock import patch

from symgrad.testing.facts import Subject

__all__ = ["CHECKS", "Check", "Finding", "applicable", "brief", "check", "packing_of", "run"]

Kind: TypeAlias = Literal["wrong", "missing", "cost"]
Run: TypeAlias = "Callable[[Subject, str], Iterator[str]]"

_MOST = 6  # sentences of one check: more say nothing new
_MOST_ALIKE = 2  # that differ in names and numbers alone
_MOST_TOLD = 50  # such sentences, after which no other one is expected
_NAMES_AND_NUMBERS = re.compile(r"'[^']*'|\b\w*_\w*\b|[\d.]+")
_LONG = 300  # characters of a message


@dataclass(frozen=True)
class Finding:
    """A property that does not hold.

    ``kind`` is ``wrong`` for a result that differs from the reference, ``missing`` where the operation raises and the
    reference does not, ``cost`` for memory. ``raised`` is the exception, if one came unexpected.
    """

    check: str
    kind: Kind
    sentence: str
    device: str = "cpu"
    raised: BaseException | None = None

    def __str__(self) -> str:
        where = f" [{self.device}]" if self.device != "cpu" else ""
        return f"{self.check}{where}: {self.sentence}"


@dataclass(frozen=True)
class Check:
    """A property that every Function must have; ``applies`` says of which operations it is asked.

    ``on_devices``: it is asked on every device, else on the CPU alone. ``slow``: it compiles. ``packed``: it is about
    values that the operation keeps in fewer bits; all other checks run while these are kept without loss, since the
    derivatives are the formula's only then.
    """

    name: str
    run: Run
    kind: Kind
    applies: Callable[[Subject], bool]
    on_devices: bool
    slow: bool
    packed: bool

    @property
    def summary(self) -> str:
        """What is checked, in one line."""
        return (self.run.__doc__ or "").strip().splitlines()[0]


CHECKS: dict[str, Check] = {}
"""All checks by name, in the order in which they run."""


def check(
    *,
    kind: Kind = "wrong",
    applies: Callable[[Subject], bool] = lambda subject: True,
    on_devices: bool = True,
    slow: bool = False,
    packed: bool = False,
) -> Callable[[Run], Run]:
    """Enter a function of a subject and a device into the table."""

    def enter(function: Run) -> Run:
        name = function.__name__
        assert name not in CHECKS, name
        CHECKS[name] = Check(name, function, kind, applies, on_devices, slow, packed)
        return function

    return enter


def applicable(subject: Subject) -> list[Check]:
    """The checks that an operation is asked."""
    return [c for c in CHECKS.values() if c.applies(subject)]


# Where torch's messages go on to explain themselves, or to say where in torch they were raised.
_ASIDE = re.compile(
    r"\.? (?:Explanation:|Hint:|The above quantities|See: https|For more|\(unhinted|While executing|from user code)"
)


def brief(error: BaseException) -> str:
    """What an exception says, on one line and without what torch adds for its own developers."""
    text = _ASIDE.split(" ".join(str(error).split()), maxsplit=1)[0]
    return text if len(text) <= _LONG else f"{text[:_LONG]}..."


def packing_of(subject: Subject) -> Any:
    """The shared file that packs the residuals of an operation."""
    return subject.function.setup_context.__globals__["_packing"]


def _as_they_are(subject: Subject) -> contextlib.AbstractContextManager[Any]:
    """Let the operation keep its residuals without loss."""
    if all(form == "bit" for form in subject.packed.values()):
        return contextlib.nullcontext()
    return patch.object(packing_of(subject), "LOSSY", {})


def run(found: Check, subject: Subject, device: str = "cpu") -> list[Finding]:
    """Run one check; an exception is a finding, too."""
    findings: list[Finding] = []
    with warnings.catch_warnings(), contextlib.nullcontext() if found.packed else _as_they_are(subject):
        warnings.filterwarnings("ignore", module=r"torch(\.|$)")  # torch's own, of what it deprecates in itself
        try:
            alike: Counter[str] = Counter()
            for sentence in found.run(subject, device):
                words = _NAMES_AND_NUMBERS.sub("", sentence)
                alike[words] += 1
                if alike[words] <= _MOST_ALIKE and all(sentence != other.sentence for other in findings):
                    findings.append(Finding(found.name, found.kind, sentence, device))
                if len(findings) == _MOST or alike[words] == _MOST_TOLD:
                    break
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            sentence = f"raised {type(error).__name__} in {place.name}: {brief(error)}"
            findings.append(Finding(found.name, "missing", sentence, device, error))
    return findings
