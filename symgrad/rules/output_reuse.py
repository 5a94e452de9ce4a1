"""Derivatives as functions of the output: what backward may keep in place of its input.

The output lives anyway where the next operation keeps it, so saving it costs nothing more. `autograd` marks the rows
that torch's own derivatives use: with `save: memory` they are taken even where they lose digits that the input had.
"""

from __future__ import annotations

from dataclasses import dataclass

from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import Expr
from symgrad.ir.pattern import match
from symgrad.ir.traversal import substitute
from symgrad.rules.words import a, b, f


@dataclass(frozen=True)
class Reuse:
    """Where the output is `output`, `part` of a derivative equals `replacement`, which reads the output only."""

    output: Expr
    part: Expr
    replacement: Expr
    autograd: bool = False

    def at(self, output: Expr) -> tuple[Expr, Expr] | None:
        """The part and its replacement for a concrete output; None where the output is another function."""
        for bindings in match(self.output, output, {}):
            return substitute(self.part, bindings), substitute(self.replacement, bindings)
        return None


OUTPUT_REUSE = (
    Reuse(f("sigmoid", a), f("sigmoid", -a), 1 - f("sigmoid", a), autograd=True),
    Reuse(f("tanh", a), f("cosh", a) ** -2, 1 - f("tanh", a) ** 2, autograd=True),
    Reuse(f("softplus", a), f("sigmoid", a), -f("expm1", -f("softplus", a))),
    Reuse(f("logsigmoid", a), f("sigmoid", -a), -f("expm1", f("logsigmoid", a))),
    Reuse(f("expm1", a), f("exp", a), 1 + f("expm1", a), autograd=True),
    Reuse(f("relu", a), truth.compare("gt", a, 0), truth.compare("gt", f("relu", a), 0), autograd=True),
    Reuse(1 / a, a**-2, (1 / a) ** 2, autograd=True),
    Reuse(f("logaddexp", a, b), f("sigmoid", a - b), f("exp", a - f("logaddexp", a, b))),
    Reuse(f("asinh", a), f("hypot", a, ex.ONE), f("cosh", f("asinh", a))),
    Reuse(f("log", a), 1 / a, f("exp", -f("log", a))),
)
