"""Rewrite rules: flat tables, each row proven by `tests/test_rules.py`."""

from __future__ import annotations

from symgrad.rules.kinks import KINKS
from symgrad.rules.rule import Rule
from symgrad.rules.stability import ALTERNATIVES, RECOGNISE, STABILISE

__all__ = ["ALL_RULES", "ALTERNATIVES", "KINKS", "RECOGNISE", "STABILISE", "Rule"]

ALL_RULES: tuple[Rule, ...] = (*RECOGNISE, *STABILISE, *KINKS, *ALTERNATIVES)
