"""Formulas: text to expressions, by walking Python's syntax tree over a whitelist. Nothing is evaluated."""

from symgrad.parse.faults import Fault, FormulaError
from symgrad.parse.program import Program, parse_expression, parse_formulas
from symgrad.parse.scope import Bound, Scope

__all__ = ["Bound", "Fault", "FormulaError", "Program", "Scope", "parse_expression", "parse_formulas"]
