"""How Triton spells each function. One row a function.

`tl.exp` and its like are approximations on float32, and so are the operators `/` and `tl.sqrt`: only functions of
libdevice and correctly rounded ones are used. A bare name is a function of the plumbing.
"""

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
    """A format string, in which `typed` is a value that has the dtype of the arithmetic.

    `strict`: its arguments must have one dtype, so that a number among them needs it too.
    """

    text: str
    strict: bool = False


SPELLINGS = {
    **{name: Spelling(text, strict=True) for name, text in spelled("triton").items()},
    **{
        name: Spelling(f"libdevice.{name}({{0}})", strict=True)
        for name in (
            *("exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan"),
            *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfcx", "erfinv", "lgamma"),
        )
    },
    **{
        name: Spelling(f"{name}({{0}})", strict=True)
        for name in ("sigmoid", "log_ndtr", "sinc", "relu", "sign", "finite", "reciprocal")
    },
    **{name: Spelling(f"tl.{name}({{0}})", strict=True) for name in ("abs", "floor", "ceil")},
    **{name: Spelling(f"libdevice.{name}({{0}}, {{1}})", strict=True) for name in ("atan2", "hypot", "fmod")},
    **{
        name: Spelling(f"{name}({{0}}, {{1}})", strict=True)
        for name in ("logaddexp", "xlogy", "xlog1py", "heaviside", "remainder")
    },
    "round": Spelling("libdevice.rint({0})", strict=True),
    "maximum": Spelling("maximum({0}, {1})"),
    "minimum": Spelling("minimum({0}, {1})"),
    "clamp": Spelling("minimum(maximum({0}, {1}), {2})"),
    "widen": Spelling("{0}.to(tl.float64)"),
    **{
        narrow: Spelling(f"libdevice.{name}({{0}}).to({{typed}}.dtype)", strict=True) for narrow, name in NARROW.items()
    },
    "row_reciprocal": Spelling("reciprocal({0})"),
    "row_value": Spelling(""),
    **dict.fromkeys(ROW_OPS, Spelling("")),  # a pass writes these around its elements
}


def can_spell(node: Expr) -> bool:
    """Whether Triton has the operation of a machine node; what follows from numbers alone is Python's."""
    if node.is_static or is_structure(node):
        return True
    return node.op in SPELLINGS
