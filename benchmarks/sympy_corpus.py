"""Expressions that SymPy builds, against SymPy's own evaluation to 50 digits.

    python benchmarks/sympy_corpus.py             values and derivatives of the formulas, a few minutes
    python benchmarks/sympy_corpus.py --compile   also of the compiled modules in float64, twice as long

Each case is built by calls to SymPy: elementary and special functions, choices, closed forms, densities of
`sympy.stats`, polynomials, formulas of `sympy.physics`. It prints what fails and why, and the count.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import mpmath as mp
import sympy as sp
import sympy.stats as st
from sympy.physics import hydrogen, qho_1d

import symgrad
from symgrad.accuracy.evaluate import exact
from symgrad.differentiate.modes import partials
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import transform
from symgrad.parse import parse_formulas

DIGITS = 50
X, Y, Z = sp.symbols("x y z", real=True)
A, B, C = sp.symbols("a b c", positive=True)
U = sp.Symbol("u", real=True)
Case = tuple[str, Any]


def elementary() -> Iterator[Case]:
    """Elementary functions, alone and in each other."""
    real = [
        sp.exp,
        sp.sin,
        sp.cos,
        sp.tan,
        sp.sinh,
        sp.cosh,
        sp.tanh,
        sp.atan,
        sp.asinh,
        sp.sech,
        sp.csch,
        sp.sec,
        sp.csc,
    ]
    for f in (*real, sp.cot, sp.coth, sp.acot, sp.acsch):
        yield f"{f.__name__}(x)", f(X)
        yield f"{f.__name__}(x*y)/(1 + y**2)", f(X * Y) / (1 + Y**2)
    for f in (sp.log, sp.sqrt, sp.cbrt, sp.acosh, sp.asech, sp.acoth, sp.asec, sp.acsc, sp.asin, sp.acos, sp.atanh):
        shift = {sp.acosh: 1 + A, sp.acoth: 1 + A, sp.asec: 1 + A, sp.acsc: 1 + A}.get(f, A / (1 + A))
        yield f"{f.__name__}", f(shift) * X
    yield "logistic", 1 / (1 + sp.exp(-X))
    yield "swish", X / (1 + sp.exp(-Y * X))
    yield "softplus", sp.log(1 + sp.exp(X))
    yield "log in a base", sp.log(A, B + 1)
    yield "root", sp.root(A, 5) * sp.real_root(A, 3)
    yield "atan2", sp.atan2(Y, X)
    yield "a power", A**X * X**3
    yield "a tower", A ** (A**B)
    yield "golden", sp.GoldenRatio * X + sp.EulerGamma * Y + sp.Catalan
    yield "Mod", sp.Mod(X, 2) * Y
    yield "frac", sp.frac(X) ** 2
    yield "sinc", sp.sinc(X * Y)
    yield "hypot", sp.sqrt(X**2 + Y**2 + Z**2)
    yield "horner", sp.horner(X**5 - 3 * X**3 + X / 7 - 0.25)
    yield "collected", sp.collect(sp.expand((X + Y) ** 3 * (X - 1)), X)
    yield "partial fractions", sp.apart((X**2 + 3) / ((X**2 + 1) * (X**2 + 4)), X)
    yield "rational", sp.together(1 / (1 + X**2) + Y / (2 + Y**2))
    yield "a float", 0.1 * X + sp.Float("2.5e-3") * Y**2
    yield "trigsimp", sp.trigsimp(sp.sin(X) * sp.cos(Y) + sp.cos(X) * sp.sin(Y))
    yield "expand_trig", sp.expand_trig(sp.cos(3 * X + Y))
    yield "series", lambda: sp.series(sp.exp(sp.sin(X)), X, 0, 7).removeO()
    yield "rewritten", sp.tanh(X).rewrite(sp.exp)
    yield "matrix", sp.Matrix([[X, Y], [sp.sin(Z), 2]]).det()
    yield "trace of an inverse", lambda: sp.simplify(sp.Matrix([[A + 1, X], [Y, B + 2]]).inv().trace())
    yield "norm", sp.Matrix([X, Y, Z]).norm()


def choices() -> Iterator[Case]:
    """Piecewise functions and truth values."""
    yield "Abs", sp.Abs(X) ** 3 * sp.sign(Y)
    yield "Max", sp.Max(X, Y, 0) - sp.Min(X, 1)
    yield "clip", sp.Min(1, sp.Max(X, -1))
    yield "relu", sp.Max(0, X) * Y
    yield "floor", sp.floor(X) * Y + sp.ceiling(Y) * X
    yield "Heaviside", sp.Heaviside(X, sp.S.Half) * Y
    yield "Piecewise", sp.Piecewise((X**2, X < 0), (sp.sin(X), X < 2), (Y, True))
    yield "And", sp.Piecewise((X, sp.And(X > 0, Y > 0)), (Y, sp.Or(X > 1, Y < -1)), (X * Y, True))
    yield "Not", sp.Piecewise((X, sp.Not(sp.And(X > Y, Y > 0))), (0, True))
    yield "Xor", sp.Piecewise((X, sp.Xor(X > 0, Y > 0)), (Y, True))
    yield "ITE", sp.Piecewise((X, sp.ITE(X > 0, Y > 0, Y < 1)), (Y**2, True))
    yield "Eq", sp.Piecewise((X, sp.Eq(Y, 3)), (Y * X, sp.Ne(X, 2)), (0, True))
    yield "huber", sp.Piecewise((X**2 / 2, sp.Abs(X) < A), (A * (sp.Abs(X) - A / 2), True))
    yield "ramp", sp.SingularityFunction(X, 1, 2).rewrite(sp.Piecewise)
    yield "folded", sp.piecewise_fold(sp.Piecewise((X, X > 0), (Y, True)) * sp.Piecewise((Y, Y > 0), (2, True)))
    yield "a rational interval", sp.Piecewise((1, sp.Interval(0, 1).as_relational(X)), (X, True))
    yield "dead root", sp.Piecewise((sp.sqrt(X), X > 0), (0, True))
    yield "integral of Abs", lambda: sp.integrate(sp.Abs(U), (U, 0, X))


def special() -> Iterator[Case]:
    """Special functions."""
    for f in (sp.erf, sp.erfc):
        yield f.__name__, f(X)
        yield f"{f.__name__} of a product", f(X * Y) * sp.exp(-(X**2))
    yield "2 - erfc", sp.erfc(-X) * Y
    yield "erf2", sp.erf2(X, Y)
    yield "erfinv", sp.erfinv(X / (1 + X**2))
    yield "erfcinv", sp.erfcinv(A / (1 + A))
    yield "gamma", sp.gamma(A)
    yield "gamma of a real", sp.gamma(X)
    yield "loggamma", sp.loggamma(A) * X
    yield "digamma", sp.digamma(A)
    for n in (1, 2, 3):
        yield f"polygamma {n}", sp.polygamma(n, A) * X
    yield "beta", sp.beta(A, B)
    yield "log of beta", sp.log(sp.beta(A, B))
    yield "factorial", sp.factorial(A)
    yield "binomial", sp.binomial(A + B, B)
    yield "binomial of a number", sp.binomial(X, 3)
    yield "rising factorial", sp.expand_func(sp.rf(X, 3))
    yield "falling factorial", sp.expand_func(sp.ff(X, 4))
    yield "Pochhammer", sp.gamma(A + B) / sp.gamma(A)
    for order in (0, 1):
        yield f"besselj {order}", sp.besselj(order, X)
        yield f"bessely {order}", sp.bessely(order, A)
        yield f"besseli {order}", sp.besseli(order, X)
        yield f"besselk {order}", sp.besselk(order, A)
    yield "log of besseli", sp.log(sp.besseli(0, A))
    yield "spherical Bessel", sp.expand_func(sp.jn(1, A))
    yield "besselj of half order", sp.expand_func(sp.besselj(sp.Rational(3, 2), A))
    yield "lower gamma", sp.lowergamma(sp.Rational(5, 2), A)
    yield "upper gamma", sp.uppergamma(2, A)
    yield "zeta", sp.zeta(3, A)
    yield "LambertW", sp.LambertW(A)
    yield "erfi", sp.erfi(X)
    yield "Airy", sp.airyai(X)
    yield "expint", sp.expint(1, A)
    yield "Si", sp.Si(X)
    yield "polylog", sp.polylog(2, X / 4)
    yield "LambertW below -1", sp.LambertW(-1 / (3 + A), -1)


def closed_forms() -> Iterator[Case]:
    """What doit() and solvers give."""
    yield "Gaussian integral", sp.Integral(sp.exp(-(U**2)), (U, 0, X))
    yield "integral of a rational", sp.Integral(1 / (1 + U**2), (U, 0, X))
    yield "derivative", sp.Derivative(sp.sin(X * Y) * sp.exp(X), X)
    yield "second derivative", sp.Derivative(sp.log(1 + X**2), X, 2)
    yield "sum", sp.Sum(X**U / (U + 1), (U, 0, 4))
    yield "product", sp.Product(X + U, (U, 1, 4))
    yield "geometric sum", sp.Sum(sp.Rational(1, 2) ** U, (U, 0, sp.oo)) * X
    yield "limit", sp.Limit(sp.sin(U * X) / U, U, 0)
    yield "root of a quadratic", lambda: sp.solve(A * U**2 - B * U - C, U)[1]
    f = sp.Function("f")(X)
    yield "dsolve", lambda: sp.dsolve(f.diff(X) + 2 * f, ics={f.subs(X, 0): 3}).rhs
    yield "antiderivative", lambda: sp.integrate(X**2 * sp.exp(X) * sp.cos(X), X)
    yield "gradient of a norm", sp.diff(sp.sqrt(X**2 + Y**2 + 1), X)
    yield "cse put together", sp.cse(sp.sin(X + Y) + sp.cos(X + Y))[1][0].subs(sp.cse(sp.sin(X + Y) + sp.cos(X + Y))[0])
    yield "Fourier series", lambda: sp.fourier_series(U**2, (U, -sp.pi, sp.pi)).truncate(4).subs(U, X)
    yield "interpolation", lambda: sp.interpolate([(1, 2), (2, 5), (3, 1)], X)
    yield "Pade", sp.pade(sp.exp(X), X, 3, 2) if hasattr(sp, "pade") else (1 + X / 2) / (1 - X / 2)
    yield "Hessian", sp.hessian(sp.exp(X * Y) * sp.sin(X), (X, Y)).det()
    yield "substituted", (X**2 + sp.sin(Y)).subs(Y, X * Z)


def polynomials() -> Iterator[Case]:
    """Orthogonal polynomials and spherical harmonics."""
    for n in (2, 3, 5):
        yield f"legendre {n}", sp.legendre(n, X)
        yield f"hermite {n}", sp.hermite(n, X)
        yield f"laguerre {n}", sp.laguerre(n, X)
        yield f"chebyshev {n}", sp.chebyshevt(n, X) * sp.chebyshevu(n, Y)
        yield f"gegenbauer {n}", sp.gegenbauer(n, 2, X)
        yield f"jacobi {n}", sp.jacobi(n, 1, 2, X)
    yield "assoc_legendre", sp.assoc_legendre(3, 1, X / (1 + X**2))
    yield "assoc_laguerre", sp.assoc_laguerre(3, 2, X)
    yield "real harmonic", sp.Znm(2, 0, A, X).expand(func=True)


def physics() -> Iterator[Case]:
    """Formulas of sympy.physics, and of textbooks."""
    for n, level in ((1, 0), (2, 0), (2, 1), (3, 2)):
        yield f"hydrogen {n}{level}", hydrogen.R_nl(n, level, A, 1)
    for n in (0, 1, 3):
        yield f"oscillator {n}", qho_1d.psi_n(n, X, 1, 1).subs(sp.Symbol("hbar"), 1).subs(qho_1d.hbar, 1)
    yield "Planck", A**3 / (sp.exp(A / B) - 1)
    yield "Fermi", 1 / (sp.exp((X - Y) / A) + 1)
    yield "Lennard-Jones", 4 * A * ((B / C) ** 12 - (B / C) ** 6)
    yield "Morse", A * (1 - sp.exp(-B * (X - Y))) ** 2
    yield "Breit-Wigner", A / ((X**2 - B**2) ** 2 + B**2 * A**2)
    yield "Lorentz factor", 1 / sp.sqrt(1 - (X / (1 + sp.Abs(X))) ** 2)
    yield "Langevin", sp.coth(A) - 1 / A
    yield "Debye-Hueckel", A * sp.exp(-B * C) / C
    yield "damped oscillator", sp.exp(-A * X) * sp.cos(sp.sqrt(B) * X)
    yield "Arrhenius", A * sp.exp(-B / C)
    yield "Black-Scholes", X * sp.erfc(-(Y + A) / sp.sqrt(2)) / 2 - sp.exp(-A) * sp.erfc(-Y / sp.sqrt(2)) / 2
    yield "lens", 1 / (1 / A + 1 / B)
    yield "great circle", sp.acos(sp.sin(X) * sp.sin(Y) + sp.cos(X) * sp.cos(Y) * sp.cos(Z))
    yield "Nernst", A * sp.log(B / C)


def densities() -> Iterator[Case]:
    """Logarithms of the densities of sympy.stats."""
    m = X
    parameters: dict[str, tuple[Any, ...]] = {
        "Normal": (m, A), "Gamma": (A, B), "Beta": (A, B), "Exponential": (A,), "LogNormal": (m, A),
        "Laplace": (m, A), "Logistic": (m, A), "Cauchy": (m, A), "StudentT": (A,), "Weibull": (A, B), "Pareto": (A, B),
        "Uniform": (A, A + B),
        "ChiSquared": (A,), "Rayleigh": (A,), "Gumbel": (A, m), "GammaInverse": (A, B), "Kumaraswamy": (A, B),
        "LogLogistic": (A, B), "Maxwell": (A,), "Nakagami": (A, B), "VonMises": (m, A), "FDistribution": (A, B),
        "Dagum": (A, B, C), "ExGaussian": (m, A, B), "Arcsin": (A, A + B), "BetaPrime": (A, B), "Chi": (A,),
        "Erlang": (A, B), "Frechet": (A, B, m), "Gompertz": (A, B), "GaussianInverse": (A, B), "Levy": (m, A),
        "Lomax": (A, B), "Moyal": (m, A), "RaisedCosine": (m, A), "Reciprocal": (A, A + B), "ShiftedGompertz": (A, B),
        "WignerSemicircle": (A,), "BoundedPareto": (A, B, B + C), "PowerFunction": (A, B, B + C), "LogCauchy": (m, A),
    }  # fmt: skip
    value = sp.Symbol("t", positive=True)

    def density(name: str, arguments: tuple[Any, ...]) -> symgrad.Operation:
        return symgrad.log_prob(name.lower(), getattr(st, name)("V", *arguments), value)

    for name, arguments in parameters.items():
        yield f"density of {name}", partial(density, name, arguments)


def corpus() -> list[Case]:
    """All cases by name."""
    return [
        *elementary(), *choices(), *special(), *closed_forms(), *polynomials(), *physics(), *densities(),
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------ judging
def points(symbols: list[Any], seed: str, count: int = 40) -> Iterator[dict[Any, Any]]:
    """Rational points inside of what the symbols assume."""
    generator = random.Random(seed)
    for _ in range(count):
        yield {
            s: sp.Rational(generator.randint(1, 2999) if s.is_positive else generator.randint(-1999, 1999), 1000)
            for s in symbols
        }


def _number(value: Any) -> Any:
    """A SymPy value to 50 digits; None where it is no real number."""
    try:
        found = value.evalf(DIGITS + 15, maxn=400)
    except (TypeError, ValueError, ZeroDivisionError, NotImplementedError):
        return None
    if found in (sp.oo, -sp.oo) or (not found.is_Float and not found.is_Integer and not found.is_Rational):
        return None
    with mp.workdps(DIGITS + 15):
        return mp.mpf(str(found))


def _evaluable(formula: Any) -> Any:
    """Decimals as they are written, and functions that SymPy does not evaluate by others."""
    decimals = {f: sp.Rational(repr(float(f))) for f in formula.atoms(sp.Float)}
    return formula.xreplace(decimals).replace(sp.erfcinv, lambda a: sp.erfinv(1 - a))


def _slope(formula: Any, symbol: Any, point: dict[Any, Any]) -> Any:
    """A derivative that SymPy does not evaluate, as a quotient of differences with an error of 1e-60."""
    sides = []
    for sign in (1, -1):
        moved = {**point, symbol: point[symbol] + sign * sp.Rational(1, 10**30)}
        try:
            sides.append(formula.subs(moved).evalf(110))
        except (TypeError, ValueError):
            return None
    with mp.workdps(110):
        if not all(side.is_Float or side.is_Rational for side in sides):
            return None
        return (mp.mpf(str(sides[0])) - mp.mpf(str(sides[1]))) * 10**30 / 2


def judge(name: str, made: Any, *, compiled: bool = False) -> str:
    """Why a case fails, or an empty text."""
    try:
        made = made() if callable(made) and not isinstance(made, sp.Basic) else made  # what takes long is made here
        operation = made if isinstance(made, symgrad.Operation) else symgrad.op(made)
        program = parse_formulas(operation.spec)
    except symgrad.SymgradError as error:
        return f"refused: {error.mistakes[0].message if isinstance(error, symgrad.SpecError) else error}"
    (output,) = program.outputs.values()
    root = transform(output, lambda n: n.args[0] if n.op in ("boundary", "expand") else n)  # of one element
    formula = _evaluable(made.doit()) if isinstance(made, sp.Basic) else operation.formula
    names: dict[str, Any] = {str(s): s for s in formula.free_symbols}
    tensors: list[Expr] = [program.symbols[t.name] for t in operation.spec.tensors if t.name in names]
    derived = partials(root, tensors)
    pairs = [(formula, root), *((sp.diff(formula, names[t.name]), derived[t]) for t in tensors)]
    decided = 0
    for point in points([names[t.name] for t in tensors], name):
        environment = {t: mp.mpf(int(point[names[t.name]].p)) / int(point[names[t.name]].q) for t in tensors}
        with mp.workprec(400):
            environment = {t: mp.mpf(int(point[names[t.name]].p)) / int(point[names[t.name]].q) for t in tensors}
        rights = [_number(theirs.subs(point)) for theirs, _ in pairs]
        rights = [
            _slope(formula, names[tensors[k - 1].name], point) if right is None and k else right
            for k, right in enumerate(rights)
        ]
        if any(right is None for right in rights):
            continue
        for k, (right, ours) in enumerate(zip(rights, exact([o for _, o in pairs], environment, 400), strict=True)):
            with mp.workdps(DIGITS + 10):
                if not abs(ours - right) <= mp.mpf(10) ** (5 - DIGITS) * (1 + abs(right)):
                    what = "the value" if not k else f"the derivative by {tensors[k - 1].name}"
                    return f"{what} at {point} is {mp.nstr(ours, 20)}, SymPy's {mp.nstr(right, 20)}"
        if compiled and decided < 3 and (fault := _compiled_fault(operation, tensors, environment, rights)):
            return fault
        decided += 1
        if decided == 5:
            return ""
    return "" if decided else "SymPy has a real value at no point"


def _compiled_fault(operation: Any, tensors: list[Expr], environment: dict[Expr, Any], rights: list[Any]) -> str:
    import torch

    values = [torch.tensor(float(environment[t]), dtype=torch.float64, requires_grad=True) for t in tensors]
    result = operation(*values)
    grads = torch.autograd.grad(result, values, allow_unused=True)
    found = [float(result.detach()), *(0.0 if g is None else float(g) for g in grads)]
    for got, right in zip(found, rights, strict=True):
        if not abs(got - right) <= 1e-6 * (1 + abs(right)):
            return f"compiled: {got}, SymPy's {mp.nstr(right, 17)}"
    return ""


def main(arguments: list[str]) -> int:
    """Judge all cases, or those whose names hold a word that is given."""
    words = [a for a in arguments if not a.startswith("-")]
    cases = [case for case in corpus() if not words or any(w in case[0] for w in words)]
    failed, start = 0, time.monotonic()
    for name, made in cases:
        fault = judge(name, made, compiled="--compile" in arguments)
        if fault:
            failed += 1
            print(f"{name}: {fault}")
    print(f"{len(cases) - failed} of {len(cases)} equal SymPy's to {DIGITS} digits; {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
