"""Formulas as people write them, which no directed rule mends, are respelled by SymPy: proven equal, and accurate."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain

import pytest

from symgrad.accuracy.choose import RESPELLED
from symgrad.accuracy.evaluate import Environment
from symgrad.compiler.compile import compile_operation
from symgrad.compiler.operation import Variant
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import topological
from symgrad.parse import parse_formulas
from symgrad.spec import parse_spec
from symgrad.symbolic import spellings as module
from symgrad.symbolic.prove import Claim, Verdict
from symgrad.symbolic.spellings import Spelling, spellings

POSITIVE = "{domain: '(0, oo)'}"
CASES = {
    "a mean of squares": ("(a**2 + b**2)/2 - (a + b)**2/4", "{a: , b: }"),
    "a cube": ("3*a*b**2 + a**3 - 3*a**2*b - b**3", "{a: , b: }"),
    "Huber with the square expanded": (
        "where(abs(a - b) < 1, (a**2 - 2*a*b + b**2)/2, abs(a - b) - 1/2)",
        "{a: , b: }",
    ),
    "a Gaussian with the square expanded": (
        "-(x**2 - 2*x*m + m**2)/(2*s**2) - log(s)",
        f"{{x: , m: , s: {POSITIVE}}}",
    ),
    "log cosh": ("log(exp(x)/2 + exp(-x)/2)", "{x: }"),
    "a squared sine": ("1 - cos(x)**2", "{x: }"),
    "a sine of a difference": ("sin(a)*cos(b) - cos(a)*sin(b)", "{a: , b: }"),
    "an angle between directions": ("acos(sin(a)*sin(b) + cos(a)*cos(b))", "{a: , b: }"),
}


def variant(formula: str, tensors: str) -> Variant:
    text = f'op: own\ntensors: {tensors}\noutputs: {{y: "{formula}"}}\n'
    ((_, found),) = compile_operation(parse_formulas(parse_spec(text))).variants()
    return found


SLOW = ("a mean of squares", "a Gaussian with the square expanded", "an angle between directions")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] if name in SLOW else []) for name in CASES]
)
def test_formulas_as_people_write_them_become_accurate(name: str) -> None:
    found = variant(*CASES[name])
    jumps = "angle" in name  # its slope is a sign, which changes within the rounding of large inputs
    for choice in chain(found.value_choices.values(), () if jumps else found.slope_choices.values()):
        assert choice.chosen.float32.failures == 0
        assert choice.chosen.float32.ulp <= 4


def test_a_spelling_is_a_step_of_the_derivation_and_derivatives_are_those_of_it() -> None:
    found = variant("3*a*b**2 + a**3 - 3*a**2*b - b**3", "{a: , b: }")
    assert [(s.rule, s.why) for s in found.recognitions["y"]] == [("respelled", "SymPy's factor, proven equal")]
    assert str(found.partials["y", "a"]) == "3 * (a - b)**2"


def test_a_spelling_is_refined_where_it_is_not_yet_accurate() -> None:
    """SymPy's factor finds b*((t/a)**b - 1)/a, which still cancels; the rules go on from there."""
    found = variant(
        "(b - 1)*log(t/a) + log(b) - (t/a)**b - log(a)",
        "{t: {domain: '(0, oo)'}, a: {domain: '(0, oo)'}, b: {domain: '(0, oo)'}}",
    )
    choice = found.slope_choices["y", "a"]
    assert "expm1" in str(choice.chosen.form) and choice.chosen.float32.ulp <= 4


def points(*names: str) -> list[dict[Expr, float]]:
    return [{symbol(n): 0.25 + 0.5 * k + j for j, n in enumerate(names)} for k in range(8)]


def formula(text: str, *names: str) -> Expr:
    return parse_formulas(
        parse_spec(f'op: o\ntensors: {{{", ".join(f"{n}: " for n in names)}}}\noutputs: {{y: "{text}"}}\n')
    ).outputs["y"]


def test_a_spelling_that_is_not_proven_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    square = formula("a**2 - 2*a*b + b**2", "a", "b")
    factored = formula("(a - b)**2", "a", "b")
    (spelling,) = (s for s in spellings(square, points("a", "b")) if s.simplifier == "factor")
    assert spelling.form is factored
    assert spelling.is_proven()
    monkeypatch.setattr(module, "judge", lambda claim, points: Verdict(claim.subject, "agrees"))
    assert not spelling.is_proven()
    found = variant(*CASES["a cube"])
    choices = [*found.value_choices.values(), *found.slope_choices.values()]
    assert not found.recognitions["y"]
    assert all(step.rule != RESPELLED for choice in choices for step in choice.steps)


def test_a_spelling_that_is_no_better_is_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proof takes long, and of spellings that are as infinite as the formula none may be chosen."""
    asked: list[Expr] = []

    def judged(claim: Claim, points: Sequence[Environment]) -> Verdict:
        asked.append(claim.emitted)
        return Verdict(claim.subject, "agrees")

    def offering(formula: Expr, points: Sequence[Environment]) -> Iterator[Spelling]:
        for spelling in spellings(formula, points):
            offered.append(spelling.form)
            yield spelling

    offered: list[Expr] = []
    monkeypatch.setattr(module, "judge", judged)
    monkeypatch.setattr(module, "spellings", offering)
    variant("exp(a) * (b + a) / hypot(exp(a), b)**2", "{a: , b: }")
    assert len(offered) > len(asked)


def test_a_simplifier_that_finds_no_end_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """SymPy multiplies products of sums out, by one derivative of `log(1/2 + addcdiv(x, fmod(w, v), log_ndtr(v))**2)`
    for minutes."""

    def endless(expr: object) -> object:
        while True:
            str(expr)

    own = module._simplifiers()["factor"]
    square = formula("a**2 - 2*a*b + b**2", "a", "b")
    monkeypatch.setattr(module, "_MOST_CALLS", 10_000)
    monkeypatch.setattr(module, "_simplifiers", lambda: {"endless": (endless, 120), "factor": own})
    assert [s.simplifier for s in spellings(square, points("a", "b"))] == ["factor"]
    several = {f"endless {k}": (endless, 120) for k in range(3)}
    monkeypatch.setattr(module, "_simplifiers", lambda: {**several, "factor": own})
    assert not list(spellings(square, points("a", "b"))), "a formula for which several find none is given up"


def test_a_formula_is_respelled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that begins anew, for points that were missed, does not ask SymPy again."""
    asked: list[object] = []
    monkeypatch.setattr(module, "_simplifiers", lambda: {"counted": (lambda e: asked.append(e) or e.factor(), 120)})
    square = formula("a**2 - 2*a*b + b**2 + 1", "a", "b")
    for _ in range(2):
        list(spellings(square, points("a", "b")))
    assert len(asked) == 1


def test_large_formulas_are_not_respelled() -> None:
    large = formula(" + ".join(f"sin({k}*a)**2*b**{k}" for k in range(2, 70)), "a", "b")
    assert not list(spellings(large, points("a", "b")))


def test_well_written_formulas_never_import_sympy() -> None:
    code = (
        "import sys; from symgrad.pipeline import compile_spec; from symgrad.spec import parse_spec;"
        "compile_spec(parse_spec('op: o\\ntensors: {x: , t: }\\noutputs: {y: x * sigmoid(t * x)}\\n'));"
        "assert 'sympy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_logarithm_of_a_power_is_written_for_a_product_with_a_logarithm() -> None:
    """r**(-a) rounds to 1 as a base of itself, and r**a overflows."""
    r, a = symbol("r", "tensor"), symbol("a", "tensor")
    points = [{r: 2.5, a: 1.5}]
    for formula in (r ** (-a) * make("log", r), a * make("log", r) + make("log", a)):
        logs = [n.args[0] for s in spellings(formula, points) for n in topological(s.form) if n.op == "log"]
        assert not any(f.op == "pow" and f.args[1].symbols for inside in logs for f in inside.factors)


def test_polynomials_of_thousands_of_terms_are_not_factored(monkeypatch: pytest.MonkeyPatch) -> None:
    import sympy

    def never(*given: object, **options: object) -> None:
        raise AssertionError("a polynomial is factored")

    for name in ("factor", "cancel", "together", "simplify"):
        monkeypatch.setattr(sympy, name, never)
    x = symbol("x", "tensor")
    list(spellings(x ** Fraction(32, 2523) - 1 + x, [{x: 0.5}]))
    list(spellings(sum(make("exp", -x / k) for k in (7, 11, 13)) - x, [{x: 0.5}]))
    list(spellings(make("sigmoid", x * Fraction(851, 500)) - x, [{x: 0.5}]))
    with pytest.raises(AssertionError, match="is factored"):
        list(spellings(x ** Fraction(1, 2) - 1 + x, [{x: 0.5}]))


def test_long_numbers_are_names_to_sympy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of exp(x * 12347/10007) it would make a polynomial of degree 12347, of a physical constant one without end."""
    import sympy

    factor, told = sympy.factor, set[object]()

    def watched(e: sympy.Expr, **options: bool) -> sympy.Expr:
        told.update(e.atoms(sympy.Rational))
        return factor(e, **options)

    monkeypatch.setattr(sympy, "factor", watched)
    x, number = symbol("x", "tensor"), Fraction(12347, 10007)
    decay = make("exp", -number * x)
    found = [s.form for s in spellings(decay * x**2 - number * decay, [{x: 0.5}])]
    assert told and all(max(abs(n.p), n.q) <= 1000 for n in told)
    assert found and all(f.symbols == {x} for f in found)


@pytest.mark.parametrize("formula", ["xlogy(abs(x), abs(x))", "i0e(x)", "hypot(x, 1/2)", "erfcx(exp(x))"])
def test_functions_that_are_there_for_what_floats_do_stay_in_every_spelling(formula: str) -> None:
    """SymPy's xlogy(x, y) is x*log(y), which is 0 * -oo; its i0e and hypot overflow before theirs do."""
    found = variant(f"{formula} + logit(sigmoid(x))", "{x: }")
    kept = formula.partition("(")[0]
    assert kept in {n.op for n in topological(found.outputs["y"])}
    assert not found.value_choices["y"].chosen.float32.nonfinite
