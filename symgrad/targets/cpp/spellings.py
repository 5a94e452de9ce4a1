"""How C++ spells each function, on lanes and on plain numbers. One row a function."""

from __future__ import annotations

from dataclasses import dataclass

from symgrad.accuracy.widening import NARROW
from symgrad.ir.expr import Expr
from symgrad.ops.functions import spelled
from symgrad.targets.fused.terms import ROW_OPS
from symgrad.targets.fused.writing import is_structure

__all__ = ["SPELLINGS", "Spelling", "can_spell"]


@dataclass(frozen=True)
class Spelling:
    """Templates: `lanes` for a register full of elements, `number` for a double. Empty: there is none."""

    lanes: str
    number: str = ""


def _same(name: str, *, number: bool = True) -> Spelling:
    """A function of one argument that is called alike in both places."""
    return Spelling(f"{name}({{0}})", f"__builtin_{name}({{0}})" if number else "")


SPELLINGS = {
    **{name: Spelling(text) for name, text in spelled("cpp").items()},
    **{
        name: _same(name)
        for name in (
            *("exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan"),
            *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "lgamma", "floor", "ceil"),
        )
    },
    "finite": _same("finite", number=False),
    **{
        name: Spelling(f"{name}({{0}})", f"{name}_of({{0}})")
        for name in ("digamma", "erfinv", "erfcx", "log_ndtr", "sigmoid", "sinc", "relu", "sign")
    },
    **{
        name: Spelling(f"{name}({{0}}, {{1}})", f"{name}_of({{0}}, {{1}})")
        for name in ("remainder", "logaddexp", "xlogy", "xlog1py", "heaviside")
    },
    "abs": Spelling("abs({0})", "__builtin_fabs({0})"),  # __builtin_abs is of whole numbers
    "polygamma": Spelling("trigamma({1})", "trigamma_of({1})"),  # of order 1
    "atan2": Spelling("atan2({0}, {1})", "__builtin_atan2({0}, {1})"),
    "hypot": Spelling("hypot({0}, {1})", "__builtin_hypot({0}, {1})"),
    "fmod": Spelling("fmod({0}, {1})", "__builtin_fmod({0}, {1})"),
    "maximum": Spelling("maximum({0}, {1})", "__builtin_fmax({0}, {1})"),
    "minimum": Spelling("minimum({0}, {1})", "__builtin_fmin({0}, {1})"),
    "clamp": Spelling("minimum(maximum({0}, {1}), {2})", "__builtin_fmin(__builtin_fmax({0}, {1}), {2})"),
    "round": Spelling("nearbyint({0})", "__builtin_nearbyint({0})"),
    "reciprocal": Spelling("reciprocal({0})"),
    "widen": Spelling("widen({0})", "{0}"),
    **{narrow: Spelling(f"{name}({{0}})") for narrow, name in NARROW.items()},
    "double": Spelling("InDouble({0})", "{0}"),
    "single": Spelling("V({0})", "{0}"),
    "row_reciprocal": Spelling("1 / {0}"),
    "row_value": Spelling("{0}"),
    **dict.fromkeys(ROW_OPS, Spelling("")),  # a pass writes these around its elements
}


def can_spell(node: Expr) -> bool:
    """Whether C++ has the operation of a machine node."""
    if not node.symbols:
        return True  # a constant, evaluated here
    if is_structure(node):
        return True
    if node.op == "polygamma" and node.args[0].number != 1:
        return False
    row = SPELLINGS.get(node.op)
    return row is not None and bool(row.number if node.is_static else row.lanes or node.op.startswith("row_"))
