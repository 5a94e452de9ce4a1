"""Derivatives as functions of the output: what backward may keep in place of its input.

The output lives anyway where the next operation keeps it, so saving it costs nothing more. `autograd` marks the rows
that torch's own derivatives use: with `save: memory` they are taken even where they lose digits that the input had.
"""

from __future__ import annotations

from dataclasses import dataclass

from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import Expr, make
from symgrad.ir.pattern import match, wild
from symgrad.ir.traversal import substitute

a, b = wild("a"), wild("b")


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


def _f(name: str, *args: Expr) -> Expr:
    return make(name, *args)


OUTPUT_REUSE = (
    Reuse(_f("sigmoid", a), _f("sigmoid", -a), 1 - _f("sigmoid", a), autograd=True),
    Reuse(_f("tanh", a), _f("cosh", a) ** -2, 1 - _f("tanh", a) ** 2, autograd=True),
    Reuse(_f("softplus", a), _f("sigmoid", a), -_f("expm1", -_f("softplus", a))),
    Reuse(_f("logsigmoid", a), _f("sigmoid", -a), -_f("expm1", _f("logsigmoid", a))),
    Reuse(_f("expm1", a), _f("exp", a), 1 + _f("expm1", a), autograd=True),
    Reuse(_f("relu", a), truth.compare("gt", a, 0), truth.compare("gt", _f("relu", a), 0), autograd=True),
    Reuse(1 / a, a**-2, (1 / a) ** 2, autograd=True),
    Reuse(_f("logaddexp", a, b), _f("sigmoid", a - b), _f("exp", a - _f("logaddexp", a, b))),
    Reuse(_f("asinh", a), _f("hypot", a, ex.ONE), _f("cosh", _f("asinh", a))),
    Reuse(_f("log", a), 1 / a, _f("exp", -_f("log", a))),
)
