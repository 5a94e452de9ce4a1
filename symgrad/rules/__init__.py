"""Rewrite rules: flat tables, each row proven by `tests/rules/test_rules.py`."""

from __future__ import annotations

from symgrad.rules.algebra import ALGEBRA, CANCELLED_SUMS, CONTENT, SCALED_ERFC, SOFTMAX
from symgrad.rules.alternatives import ALTERNATIVE_RULES
from symgrad.rules.choices import CHOICES
from symgrad.rules.constants import CONSTANTS
from symgrad.rules.kinks import KINKS
from symgrad.rules.mixtures import MIXTURES
from symgrad.rules.products import CANCELLED_PRODUCTS, CANCELLED_WHOLE, GATHERED, LOGARITHMS, VARYING_POWER
from symgrad.rules.recognise import RECOGNISE_RULES
from symgrad.rules.rule import Rule, Transformation, with_negatives
from symgrad.rules.stability import STABLE_RULES
from symgrad.rules.sums import CLAMP_COMPLEMENT, EQUAL_CONSTANTS, OPENED_SUM
from symgrad.rules.tensors import TENSORS

__all__ = [
    "ALL_RULES",
    "ALTERNATIVES",
    "CANCELLED",
    "CHEAPER",
    "KINKS",
    "RECOGNISE",
    "STABILISE",
    "TENSORS",
    "Rule",
    "Transformation",
]

# Before differentiation, so that derivatives are those of the atoms.
RECOGNISE: tuple[Rule | Transformation, ...] = (
    *with_negatives(RECOGNISE_RULES),
    SOFTMAX,
    SCALED_ERFC,
    VARYING_POWER,
    *MIXTURES,
)

# After it, to each value and partial derivative on its own.
STABILISE: tuple[Rule | Transformation, ...] = (
    *with_negatives(STABLE_RULES),
    CANCELLED_WHOLE,
    CONTENT,
    *CONSTANTS,
    EQUAL_CONSTANTS,
    CLAMP_COMPLEMENT,
)

# Offered as candidates, and kept where they measure better.
ALTERNATIVES: tuple[Rule | Transformation, ...] = (
    *with_negatives(ALTERNATIVE_RULES),
    *ALGEBRA,
    OPENED_SUM,
    GATHERED,
    LOGARITHMS,
)

CANCELLED = (*CANCELLED_PRODUCTS, *CANCELLED_SUMS)

# Those that may save operations where nothing is to be gained in accuracy.
CHEAPER: tuple[Rule | Transformation, ...] = (
    *CANCELLED,
    GATHERED,
    *CHOICES,
    *(r for r in ALTERNATIVES if r.saves),
)

ALL_RULES: tuple[Rule | Transformation, ...] = (*RECOGNISE, *STABILISE, *KINKS, *ALTERNATIVES, *CANCELLED, *CHOICES)
