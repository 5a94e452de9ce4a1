"""Random expressions over the whole function table, and a point at which their condition is known."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath as mp
from hypothesis import strategies as st

from symgrad.accuracy.evaluate import Exact
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import COMPARISONS, Expr, make, symbol
from symgrad.ir.traversal import topological
from symgrad.ops.functions import BY_AUTOGRAD, FUNCTIONS

X, Y, Z = symbol("x"), symbol("y"), symbol("z")
ALPHA, BETA, N, FLAG, MODE = (
    symbol("alpha", "float"),
    symbol("beta", "float"),
    symbol("n", "int"),
    symbol("flag", "bool"),
    symbol("mode", "str"),
)
TENSORS, SCALARS = (X, Y, Z), (ALPHA, BETA, N)
SECOND = {row.name for row in BY_AUTOGRAD.values()}  # other spellings of what is in the table already
TABLE = sorted(
    name
    for name, row in FUNCTIONS.items()
    if row.definition is None and row.partials is not None and name not in SECOND
)

_NUMBERS = [Fraction(*pair) for pair in ((0, 1), (1, 1), (2, 1), (-1, 1), (1, 2), (-3, 1), (1, 3), (-2, 7), (22, 7))]
_NUMBERS += [Fraction(text) for text in ("0.1", "1e-12", "-0.25", "1.0507009873554804934193349852946", "123456789")]
_EXPONENTS = [Fraction(*pair) for pair in ((2, 1), (3, 1), (-1, 1), (-2, 1), (1, 2), (-1, 2), (3, 2), (-5, 1), (4, 1))]


def numbers() -> st.SearchStrategy[Expr]:
    """Rational constants, and constants of the language."""
    return st.one_of(st.sampled_from(_NUMBERS).map(ex.num), st.sampled_from([ex.PI, ex.E]))


def inside(name: str, argument: Expr) -> Expr:
    """`argument` moved into the domain of a function."""
    low, high = FUNCTIONS[name].domain
    if name == "acosh":
        return 1 + make("hypot", argument, ex.HALF) if not argument.is_static else 1 + argument**2
    if (low, high) == (0, 1):
        return make("sigmoid", argument)
    if low == 0:
        return ex.HALF + argument**2
    if (low, high) == (-1, 1):
        return ex.num(Fraction(9, 10)) * make("tanh", argument)
    if -1 < low < high == 0:
        return ex.num(Fraction(low) / 2) * make("sigmoid", argument)
    return make("abs", argument) if -1 <= low < 0 else argument


@st.composite
def _call(draw: st.DrawFn, operands: st.SearchStrategy[Expr]) -> Expr:
    name = draw(st.sampled_from(TABLE))
    row = FUNCTIONS[name]
    if name == "polygamma":
        return make(name, ex.num(draw(st.integers(0, 3))), inside(name, draw(operands)))
    arguments = [draw(operands) for _ in range(row.required)]
    if name == "clamp":
        arguments[1:] = [arguments[1], arguments[1] + make("abs", arguments[2]) + ex.num(Fraction(1, 8))]
    else:
        arguments[-1] = inside(name, arguments[-1])
    return make(name, *arguments)


@st.composite
def _condition(draw: st.DrawFn, operands: st.SearchStrategy[Expr]) -> Expr:
    def atom() -> Expr:
        return truth.compare(draw(st.sampled_from(sorted(COMPARISONS))), draw(operands), draw(operands))

    kind = draw(st.sampled_from(["atom", "and", "or", "not", "mixed"]))
    if kind == "atom":
        return atom()
    if kind == "not":
        return truth.logical("not", truth.logical("and", atom(), atom()))
    if kind == "mixed":
        return truth.logical("or", truth.logical("and", atom(), atom()), truth.logical("not", atom()))
    return truth.logical(kind, atom(), atom())


@st.composite
def _compound(draw: st.DrawFn, operands: st.SearchStrategy[Expr]) -> Expr:
    kind = draw(st.sampled_from(["add", "sub", "mul", "div", "neg", "pow", "power", "where", *["call"] * 4]))
    a = draw(operands)
    if kind == "neg":
        return -a
    if kind == "pow":
        return ex.power(a, ex.num(draw(st.sampled_from(_EXPONENTS))))
    if kind == "call":
        return draw(_call(operands))
    b = draw(operands)
    if kind == "power":
        return ex.power(ex.HALF + a**2, b)
    if kind == "where":
        return truth.where(draw(_condition(operands)), a, b)
    if kind == "div":
        return a / b if b.number != 0 else a
    return {"add": a + b, "sub": a - b, "mul": a * b}[kind]


def expressions(*symbols: Expr) -> st.SearchStrategy[Expr]:
    """Expressions of float value in the given symbols."""
    named = st.sampled_from(symbols)
    leaves = st.one_of(named, named, numbers())
    return st.recursive(leaves, _compound, max_leaves=7)


POINT: dict[Expr, Any] = {
    X: 0.7310585786300049,
    Y: -1.2533141373155001,
    Z: 2.0943951023931957,
    ALPHA: 0.3678794411714423,
    BETA: -1.4426950408889634,
    N: 3,
    FLAG: True,
    MODE: "mean",
}


def well_conditioned(root: Expr) -> Any:
    """The true value at POINT, or None where a double need not reach ten digits of it.

    That is where a part is not finite or of extreme size, or where a small change of the point or of the precision
    changes the value: near a jump, or after cancellation.
    """
    values = Exact([POINT], 200)
    for node in topological(root):
        value = values(node)[0]
        if isinstance(value, bool | str) or node.op in ("num", "const"):
            continue
        if not mp.isfinite(value) or abs(value) > 1e60 or 0 < abs(value) < 1e-60 or (node.op == "add" and not value):
            return None
    true = values(root)[0]
    moved = {s: v if isinstance(v, bool | str | int) else v * (1 + 1e-13) for s, v in POINT.items()}
    for others in (Exact([POINT], 44)(root)[0], Exact([moved], 200)(root)[0]):
        if isinstance(true, bool):
            if others != true:
                return None
        elif not mp.isfinite(others) or abs(others - true) > 1e-9 * abs(true) + 1e-60:
            return None
    return true
