"""What an operation gains over autograd on the formula as written, in one line."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.accuracy.measure import ulp_text
from symgrad.explain.derivation import AccuracyRow, Derivation

__all__ = ["certificate_line", "gain", "proof_line"]

_NOTABLE = 4.0  # ulp, beyond which autograd has lost something


def gain(derivation: Derivation) -> str:
    """Accuracy of the derivatives beside autograd's, bytes kept for backward, and what was proven."""
    rows = [row for row in derivation.accuracy if not row.local]
    slopes = [row for row in rows if "/d" in row.subject.partition(" [")[0]]
    parts = [
        _accuracy("derivatives", slopes, "autograd") if slopes else _accuracy("values", rows, "the formula as written"),
        _bytes(derivation),
        proof_line(derivation),
    ]
    return "; ".join(part for part in parts if part)


def _accuracy(what: str, rows: Sequence[AccuracyRow], other: str) -> str:
    if not rows:
        return ""
    ours, theirs = max(r.ulp32 for r in rows), max(r.composite_ulp32 for r in rows)
    own = f"{what} within {ulp_text(ours)} ulp" if ours else f"{what} as exact as their inputs"
    if any(r.composite_nonfinite for r in rows):
        return f"{own} where {other} is not finite"
    if theirs > max(_NOTABLE, 2 * ours):
        return f"{own} where {other} loses {_figure(theirs)}"
    return own


def _figure(ulp: float) -> str:
    """Two digits of a small figure, three of a large one."""
    return ulp_text(ulp) if ulp < 10 else f"{int(float(f'{ulp:.3g}')):,}" if ulp < 1e9 else f"{ulp:.0e}"


def _bytes(derivation: Derivation) -> str:
    whole = [entry.bytes_per_element for entry in derivation.plan if entry.what.partition(" [")[0] == "in all"]
    return f"{max(whole):.3g} bytes an element" if whole else ""


def certificate_line(derivation: Derivation) -> str:
    """What was proven, for the docstring of a module; empty where nobody asked, or where something is wrong."""
    proofs = derivation.proofs
    if not proofs or any(p.outcome == "refuted" for p in proofs):
        return ""
    count = sum(p.outcome == "proven" for p in proofs)
    share = "" if count == len(proofs) else f"{count} of "
    return f"{share}{len(proofs)} values, gradients and tangents, by {derivation.prover}."


def proof_line(derivation: Derivation) -> str:
    """How much was proven, empty where nobody asked."""
    proofs = derivation.proofs
    if not proofs:
        return ""
    wrong = [p.subject for p in proofs if p.outcome == "refuted"]
    if wrong:
        return f"refuted: {', '.join(wrong)}"
    count = sum(p.outcome == "proven" for p in proofs)
    return f"proven by {derivation.prover}" if count == len(proofs) else f"{count} of {len(proofs)} proven"
