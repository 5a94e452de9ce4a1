"""Names of numbers: those of the language, and what other languages call them."""

from __future__ import annotations

from collections.abc import Mapping

from symgrad.ir import expr as ex
from symgrad.ir.expr import FALSE, MINUS_ONE, ONE, TRUE, ZERO, Expr

__all__ = ["CONSTANTS", "ELSEWHERE", "NO_NUMBERS", "OF_MODULES", "SINGLETONS"]

CONSTANTS: Mapping[str, Expr] = {
    "pi": ex.PI, "E": ex.E, "oo": ex.OO,
    **{name: ex.const(name) for name in ("EulerGamma", "GoldenRatio", "Catalan")},
}  # fmt: skip
# What other languages call them, for messages.
ELSEWHERE = {"inf": "oo", "infinity": "oo", "π": "pi", "true": "True", "false": "False"}
# What math, numpy and torch call them, as in `math.e`.
OF_MODULES = {"e": "E", "inf": "oo"}
# What SymPy has by these names, and formulas have not.
NO_NUMBERS: Mapping[str, str] = {
    "I": "SymPy's is the imaginary unit, and formulas are real",
    "zoo": "SymPy's is what a division by zero gives",
    "nan": "SymPy's is no number",
    "TribonacciConstant": "SymPy's is (1 + (19 - 3*sqrt(33))**(1/3) + (19 + 3*sqrt(33))**(1/3))/3",
}
# SymPy's own numbers, as in `S.Half`.
SINGLETONS: Mapping[str, Expr] = {
    "Zero": ZERO, "One": ONE, "NegativeOne": MINUS_ONE, "Half": ex.HALF, "Pi": ex.PI, "Exp1": ex.E, "Infinity": ex.OO,
    "NegativeInfinity": MINUS_ONE * ex.OO, "true": TRUE, "false": FALSE,
    **{name: CONSTANTS[name] for name in ("EulerGamma", "GoldenRatio", "Catalan")},
}  # fmt: skip
