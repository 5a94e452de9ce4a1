"""SymPy's words in formulas mean what SymPy means by them, and only slips of the pen get a suggestion."""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp
import torch

from symgrad.accuracy.evaluate import exact
from symgrad.ir.expr import symbol
from symgrad.ops.functions import SPELLINGS
from symgrad.ops.tensors import TENSOR_SPELLINGS
from symgrad.parse import FormulaError, parse_expression
from symgrad.parse.calls import SPECIAL

A, B = symbol("a"), symbol("b")
POINT = {A: 1.375, B: 0.625}
WORDS = [
    *(f"{name}(a)" for name in ("sec", "csc", "cot", "sech", "csch", "coth", "asec", "acsc", "acot", "acsch", "acoth")),
    *("asech(b)", "cbrt(a)", "root(a, 4)", "real_root(a, 3)", "Mod(a, b)", "frac(a)", "log(a, b + 1)", "gamma(a)"),
    *("gamma(-b)", "beta(a, b)", "factorial(a)", "binomial(a, b)", "binomial(a, 2)", "erf2(a, b)", "erfi(a)"),
    *("besselj(0, a)", "besselj(1, a)", "bessely(1, a)", "besseli(0, a)", "besselk(1, a)", "LambertW(a)", "zeta(3, a)"),
    *("LambertW(-b/3, -1)", "LambertW(a, 0)"),
    *("lowergamma(2.5, a)", "uppergamma(2.5, a)", "Rational(1, 3)*a", "Float('0.1')*a", "S(2)/3*a", "EulerGamma*a"),
    *("GoldenRatio + Catalan*a", "Max(a, b) + Min(a, 1)", "Heaviside(a)", "loggamma(a)", "polygamma(1, a)"),
    "Piecewise((a, And(Gt(a, 0), Lt(b, 0))), (b, Or(Eq(a, b), Ne(a, 3))), (1, True))",
    "Piecewise((a, Xor(a > 0, b > 0)), (b, Not(Le(a, Ge(b, 2)*1))), (2, True))",
    "Piecewise((a, ITE(a > 2, b > 0, b < 1)), (b, True))",
]


@pytest.mark.parametrize("text", WORDS)
def test_a_word_means_what_sympy_means(text: str) -> None:
    (found,) = exact([parse_expression(text, [A, B])], POINT, 200)
    names = {"a": sp.Rational(11, 8), "b": sp.Rational(5, 8)}
    if "Ge(b, 2)*1" in text:  # SymPy does not calculate with truth values
        text = text.replace("Ge(b, 2)*1", "0")
    right = sp.sympify(text.replace("2.5", "Rational(5, 2)").replace("'0.1'", "0.1"), locals=names)
    assert float(found) == pytest.approx(
        float(right.rewrite(sp.erf).evalf(30) if right.has(sp.erf2) else right.evalf(30)), rel=1e-14
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("DiracDelta(a)", "unknown function 'DiracDelta'; it has no value element by element; write its integral"),
        ("sigmod(a)", "unknown function 'sigmod'; did you mean 'sigmoid'?"),
        ("wobble(a)", "unknown function 'wobble'"),
        ("besselj(2, a)", "besselj has the orders 0 and 1; others follow by its recurrence relation"),
        ("gammainc(a, b)", "the argument 'a' of gammainc would need a derivative that no library has; make it a number "
         "or a hyperparameter"),
        ("LambertW(a, 2)", "the real branches of Lambert's W are 0 and -1"),
        ("And(a)", "a number where a condition is needed; compare it with something"),
    ],
)  # fmt: skip
def test_what_is_not_meant_is_not_suggested(text: str, message: str) -> None:
    with pytest.raises(FormulaError) as caught:
        parse_expression(text, [A, B])
    assert caught.value.faults[0].message == message


def test_a_function_of_another_library_is_not_taken_for_a_slip_of_another_function() -> None:
    library = {n for n in dir(sp) if isinstance(getattr(sp, n), sp.core.function.FunctionClass)} - {
        "Function",
        "Lambda",
    }
    for name in sorted((library | set(torch.special.__all__)) - {*SPECIAL, *TENSOR_SPELLINGS, *SPELLINGS}):
        with pytest.raises(FormulaError) as caught:
            parse_expression(f"{name}(a)", [A, B])
        message = caught.value.faults[0].message
        _, _, meant = message.partition("did you mean ")
        assert meant.strip("'?").lower() in ("", name.lower()), message


@pytest.mark.parametrize("point", [(1e-3, 1e6), (1e5, 3.0), (0.5, 0.25), (1e8, 1e8), (12.0, 0.1)])
def test_the_logarithm_of_beta_does_not_cancel(point: tuple[float, float]) -> None:
    with mp.workprec(300):
        right = mp.log(mp.beta(mp.mpf(point[0]), mp.mpf(point[1])))
    (found,) = exact([parse_expression("lbeta(a, b)", [A, B])], {A: point[0], B: point[1]}, 300)
    assert abs(found - right) <= abs(right) * mp.mpf(2) ** -50
