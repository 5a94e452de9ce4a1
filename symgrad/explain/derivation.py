"""The record of how an operation was compiled: what `symgrad explain` shows and docstrings state."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AccuracyRow", "Candidate", "Derivation", "PlanEntry", "Proof", "Step"]


@dataclass(frozen=True)
class Step:
    """One rewrite rule that fired on `subject` (an output or a derivative)."""

    subject: str
    rule: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True)
class Candidate:
    """One form that was measured; errors in ulp, `cost` in passes over memory."""

    subject: str
    text: str
    ulp32: float
    ulp64: float
    nonfinite: int
    cost: float
    chosen: bool


@dataclass(frozen=True)
class PlanEntry:
    """One value kept for backward, in bytes an element (float32), and why."""

    what: str
    bytes_per_element: float
    reason: str


@dataclass(frozen=True)
class AccuracyRow:
    """Worst measured error of an emitted form, beside that of the formula as written, under autograd for a derivative.

    `nonfinite` and `composite_nonfinite` count results that are not finite where the truth is, `composite_nonfinite`
    at moderate arguments alone. `local`: it is about a factor of a derivative, not about all of it.
    """

    subject: str
    ulp32: float
    ulp64: float
    composite_ulp32: float
    composite_ulp64: float
    nonfinite: int
    composite_nonfinite: int = 0
    local: bool = False


@dataclass(frozen=True)
class Proof:
    """What SymPy found of a value, gradient or tangent: `outcome` in a word, `text` as a line."""

    subject: str
    outcome: str
    text: str


@dataclass(frozen=True)
class Derivation:
    """Everything worth telling about one compiled operation; texts are in the spec language."""

    formula: tuple[tuple[str, str], ...] = ()
    derivatives: tuple[tuple[str, str], ...] = ()
    steps: tuple[Step, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    plan: tuple[PlanEntry, ...] = ()
    accuracy: tuple[AccuracyRow, ...] = ()
    notes: tuple[str, ...] = ()
    kept: tuple[tuple[str, tuple[PlanEntry, ...]], ...] = ()
    """What reverse mode keeps in frameworks beside PyTorch, by framework; `plan` is PyTorch's, empty where that is no
    target."""
    proofs: tuple[Proof, ...] = ()  # none where nobody asked for them
    prover: str = ""
