"""Residuals in fewer bits: which of the saved values a spec wants in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from symgrad.ir.expr import Expr
from symgrad.plan.saving import Plan, Saved, in_form
from symgrad.spec.model import Packing

__all__ = ["asked_for", "is_inexact", "with_bits"]


def is_inexact(saved: Saved) -> bool:
    """Whether a value is not what it was when it is unpacked."""
    return saved.packing is not None and bool(saved.packing.error)


def asked_for(
    packings: Iterable[Packing], forms: Mapping[str, Sequence[Expr]], read: frozenset[Expr]
) -> dict[Expr, Packing]:
    """The values to keep packed: of the forms of each name the first that the derivatives read, if it fits."""
    found: dict[Expr, Packing] = {}
    for packing in packings:
        value = next((form for form in forms.get(packing.name, ()) if form in read), None)
        if value is not None and value.is_boolean != bool(packing.error):
            found[value] = packing
    return found


def with_bits(plan: Plan, packings: Iterable[Packing], forms: Mapping[str, Sequence[Expr]]) -> Plan:
    """The plan with all masks as bits that are computed from the tensors which something of a name is computed from."""
    for packing in packings:
        if not packing.error:
            own = [form.tensors for form in forms.get(packing.name, ())]
            saved = tuple(
                in_form(s, packing)
                if s.packing is None and s.value.is_boolean and any(t <= s.value.tensors for t in own)
                else s
                for s in plan.saved
            )
            plan = replace(plan, saved=saved, bytes=sum(s.bytes for s in saved))
    return plan
