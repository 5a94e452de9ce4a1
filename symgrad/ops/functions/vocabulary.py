"""SymPy's words for what other functions say, so that what SymPy prints can be pasted.

Each is a spelling with SymPy's meaning for real arguments. What SymPy continues into the complex plane is not a number.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb, factorial

from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import HALF, ONE, PI, ZERO, Expr, make, sqrt
from symgrad.ir.truth import compare, where
from symgrad.ops.functions.row import Function

_LARGEST_FACTORIAL = 170
_LARGEST_CHOICE = 1100  # of twice as many or more: what is beyond has no double


# ------------------------------------------------------------------------------------------------ roots and remainders
def _root(x: Expr, n: Expr) -> Expr:
    if n is ZERO:
        raise ValueError("there is no root of order 0")
    return ex.power(x, ex.power(n, -1))


_TWO = ex.num(2)


def _real_root(x: Expr, n: Expr = _TWO) -> Expr:
    """The real root of odd order of negative numbers, too."""
    order = n.integer
    if order is None:
        raise ValueError("the order of a real root is a whole number")
    if order % 2 == 0 or order == 1:
        return _root(x, n)
    return make("sign", x) * ex.power(make("abs", x), Fraction(1, order))


# ------------------------------------------------------------------------------------------------ gamma functions
def gamma(x: Expr) -> Expr:
    """By its logarithm, and by reflection for negative arguments, where it has a sign."""
    n = x.integer
    if n is not None and 0 < n <= _LARGEST_FACTORIAL:
        return ex.num(factorial(n - 1))
    positive = compare("gt", x, ZERO)
    above, below = where(positive, x, ONE), where(positive, -HALF, x)  # so that no branch has a slope that is no number
    reflected = PI / (make("sin", PI * below) * make("exp", make("lgamma", 1 - below)))
    return where(positive, make("exp", make("lgamma", above)), reflected)


_STIRLING = [Fraction(b) for b in ("1/12", "-1/360", "1/1260", "-1/1680", "1/1188", "-691/360360", "1/156")]
_FAR = 10  # from where Stirling's series with these terms is exact to 55 bits


def _correction(x: Expr) -> Expr:
    """What lgamma(x) is beside (x - 1/2)*log(x) - x + log(2*pi)/2, for large x."""
    square = ex.power(x, -2)
    total: Expr = ex.num(_STIRLING[-1])
    for coefficient in reversed(_STIRLING[:-1]):
        total = ex.num(coefficient) + square * total
    return total / x


def log_beta(a: Expr, b: Expr) -> Expr:
    """lgamma(a) + lgamma(b) - lgamma(a + b); of positive arguments large terms cancel in Stirling's series.

    The three cases are those of SLATEC's dlbeta (W. Fullerton, 1977).
    """
    if a.number is not None and b.number is not None:
        return make("lgamma", a) + make("lgamma", b) - make("lgamma", a + b)
    # No extrema, in whose derivatives two that are equal share: the whole is smooth there.
    ordered = compare("le", a, b)
    p, q = where(ordered, a, b), where(ordered, b, a)
    # Bounded where they are not read, so that no branch has a slope that is no number.
    near, far_p, far_q = make("clamp", p, ZERO, ex.OO), *(make("clamp", x, ex.num(_FAR - 1), ex.OO) for x in (p, q))
    both = (
        _correction(far_p)
        + (_correction(far_q) - _correction(far_p + far_q))
        + (far_p - HALF) * make("log", far_p / (far_p + far_q))
        + far_q * make("log1p", -far_p / (far_p + far_q))
        - HALF * make("log", far_q)
        + HALF * make("log", 2 * PI)
    )
    one = (
        (_correction(far_q) - _correction(near + far_q))
        + (near - near * make("log", near + far_q))
        + (far_q - HALF) * make("log1p", -near / (near + far_q))
    )
    none = make("lgamma", q) - make("lgamma", p + q)
    large = truth.logical("and", compare("ge", q, _FAR), compare("gt", p, ZERO))
    small = make("lgamma", p) + where(large, one, none)
    if any(v.number is not None and v.number < _FAR for v in (a, b)):
        return small
    return where(compare("ge", p, _FAR), both, small)


def _beta(a: Expr, b: Expr) -> Expr:
    """The sign and the exponential of the logarithm."""
    return _sign_of_gamma(a) * _sign_of_gamma(b) * _sign_of_gamma(a + b) * make("exp", log_beta(a, b))


def _sign_of_gamma(x: Expr) -> Expr:
    return where(compare("gt", x, ZERO), ONE, 1 - 2 * _is_odd(make("floor", x)))


def _is_odd(whole: Expr) -> Expr:
    """1 for odd whole numbers, and 0 for even ones."""
    return whole - 2 * make("floor", HALF * whole)


def _factorial(n: Expr) -> Expr:
    return gamma(n + 1)


def _binomial(n: Expr, k: Expr) -> Expr:
    """(n + 1) * B(n - k + 1, k + 1) inverted, and B(n + 1, k - n) * sin(pi*(k - n)) / pi where k is beyond n.

    For k that is a number, it is the polynomial in n.
    """
    top, number = n.integer, k.integer
    if number is not None and number < 0:
        return ZERO
    if top is not None and number is not None and top >= 0 and min(number, top - number) <= _LARGEST_CHOICE:
        return ex.num(comb(top, number))
    if number is not None and number <= 20:
        return ex.mul(*(n - i for i in range(number)), Fraction(1, factorial(number)))
    whole, left, right = n + 1, n - k + 1, k + 1
    inside = truth.logical("and", compare("gt", left, ZERO), compare("gt", right, ZERO))
    beyond = truth.logical("and", compare("gt", whole, ZERO), compare("le", left, ZERO))
    either = truth.logical("or", inside, beyond)
    # What is not read is a function of 1, so that no branch has a slope that is no number.
    first = where(inside, left, where(beyond, whole, ONE))
    second = where(inside, right, where(beyond, k - n, ONE))
    logarithm = log_beta(first, second)
    of_whole, of_left, of_right = (gamma(where(either, ONE, x)) for x in (whole, left, right))
    reflected = _sin_pi(where(beyond, k - n, ONE)) / PI * make("exp", logarithm)
    other = where(beyond, reflected, of_whole / (of_left * of_right))
    return where(inside, 1 / (where(inside, whole, ONE) * make("exp", logarithm)), other)


def _sin_pi(x: Expr) -> Expr:
    """sin(pi*x), 0 at whole numbers."""
    nearest = make("round", x)
    return (1 - 2 * _is_odd(nearest)) * make("sin", PI * (x - nearest))


def _lowergamma(a: Expr, x: Expr) -> Expr:
    return make("gammainc", a, x) * gamma(a)


def _uppergamma(a: Expr, x: Expr) -> Expr:
    return make("gammaincc", a, x) * gamma(a)


# ------------------------------------------------------------------------------------------------ Bessel functions
_BESSEL = {
    "besselj": ("bessel_j0", "bessel_j1"),
    "bessely": ("bessel_y0", "bessel_y1"),
    "besseli": ("i0", "i1"),
    "besselk": ("modified_bessel_k0", "modified_bessel_k1"),
}


def _bessel(name: str) -> Function:
    signs = {"besselj": -1, "bessely": -1}.get(name, 1)  # of order -1

    def definition(n: Expr, x: Expr) -> Expr:
        order = n.integer
        if order is None or abs(order) > 1:
            raise ValueError(f"{name} has the orders 0 and 1; others follow by its recurrence relation")
        return ex.mul(signs if order < 0 else 1, make(_BESSEL[name][abs(order)], x))

    return Function(name, ("n", "x"), definition=definition, sympy=name)


def _inverse_erfc(x: Expr) -> Expr:
    return -make("ndtri", HALF * x) * sqrt(HALF)


def _of_reciprocal(name: str, function: str) -> Function:
    return Function(name, ("x",), definition=lambda x: make(function, 1 / x), sympy=name)


def _reciprocal_of(name: str, function: str) -> Function:
    return Function(name, ("x",), definition=lambda x: 1 / make(function, x), sympy=name)


ROWS = (
    _reciprocal_of("sec", "cos"),
    _reciprocal_of("csc", "sin"),
    _reciprocal_of("cot", "tan"),
    _reciprocal_of("sech", "cosh"),
    _reciprocal_of("csch", "sinh"),
    _reciprocal_of("coth", "tanh"),
    _of_reciprocal("asec", "acos"),
    _of_reciprocal("acsc", "asin"),
    _of_reciprocal("acot", "atan"),
    _of_reciprocal("asech", "acosh"),
    _of_reciprocal("acsch", "asinh"),
    _of_reciprocal("acoth", "atanh"),
    Function("cbrt", ("x",), definition=lambda x: _real_root(x, ex.num(3))),
    Function("root", ("x", "n"), definition=_root),
    Function("real_root", ("x", "n"), definition=_real_root),
    Function("frac", ("x",), definition=lambda x: x - make("floor", x), sympy="frac"),
    Function("gamma", ("x",), definition=gamma, sympy="gamma"),
    Function("factorial", ("n",), definition=_factorial, sympy="factorial"),
    Function("beta", ("a", "b"), definition=_beta, sympy="beta"),
    Function("lbeta", ("a", "b"), definition=log_beta, aliases=("betaln", "logbeta")),
    Function("binomial", ("n", "k"), definition=_binomial, sympy="binomial"),
    Function("lowergamma", ("a", "x"), definition=_lowergamma, sympy="lowergamma", orders=1),
    Function("uppergamma", ("a", "x"), definition=_uppergamma, sympy="uppergamma", orders=1),
    Function("erf2", ("a", "b"), definition=lambda a, b: make("erf", b) - make("erf", a), sympy="erf2"),
    Function("erfcinv", ("x",), definition=_inverse_erfc, sympy="erfcinv"),
    Function("entr", ("x",), definition=lambda x: -make("xlogy", x, x)),
    Function("ndtr", ("x",), definition=lambda x: HALF * make("erfc", -x * sqrt(HALF))),
    *map(_bessel, _BESSEL),
)
