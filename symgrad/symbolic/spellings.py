"""Other spellings of a formula, by SymPy's simplifiers: for formulas that nothing else makes accurate.

A spelling may be chosen only where it is proven equal. Work is bounded by the size of the formula and by a number of
calls, so the spellings are the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from math import lcm
from typing import Any

from symgrad.accuracy.evaluate import UNDEFINED, Environment, exact
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, split_coefficient, symbol
from symgrad.ir.traversal import rebuild, substitute, topological, transform
from symgrad.symbolic.bounded import bounded
from symgrad.symbolic.from_sympy import from_sympy, opened
from symgrad.symbolic.prove import Claim, judge
from symgrad.symbolic.respell import SYMPY_FAULTS
from symgrad.symbolic.to_sympy import NotConvertible, definition_of, to_sympy

__all__ = ["Spelling", "spellings"]

_LARGEST = 120  # operations of a formula that is respelled at all
_LARGEST_SIMPLIFIED = 60  # of one that the slow simplifiers get
_LARGEST_TRIED = 24  # of one that the slowest gets, which tries all others: 4 s for 31 operations
_LARGEST_DEGREE = 64  # of what SymPy takes for a polynomial: to factor it takes long, or for ever
_LARGEST_NUMBER = 1000  # of numerators and denominators that SymPy is told
_MOST_CALLS = 250_000  # of Python functions, by one simplifier: products of sums that are multiplied out have no end
_MOST_UNFINISHED = 3  # simplifiers that take too long for a formula, before the others are not asked
_MOST_GROWN = 3  # times as many operations as before
# Functions that are there for what floats do: SymPy writes them as what overflows, or is 0 * oo.
_OF_FLOATS = frozenset(
    {"hypot", "xlogy", "xlog1py", "i0e", "i1e", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1"}
    | {"log_ndtr", "erfcx", "dawson", "dawson_prime"}
)
# What SymPy writes with exponentials: whole multiples of an argument are powers.
_OF_EXPONENTIALS = frozenset({"exp", "sin", "cos", "tan", "sinh", "cosh", "tanh"})


@dataclass(frozen=True)
class Spelling:
    """Another spelling of a formula, by a simplifier; that `after` is `before` is what has to be proven.

    In these, functions that SymPy is not told are variables, which have values at the `points`.
    """

    simplifier: str
    form: Expr
    before: Expr
    after: Expr
    points: Sequence[Environment]

    def is_proven(self) -> bool:
        """Whether it is equal to the formula, for variables with the signs that they have at the points."""
        return judge(Claim(self.simplifier, self.before, self.after), self.points).outcome == "proven"


def spellings(formula: Expr, points: Sequence[Environment]) -> Iterator[Spelling]:
    """Spellings of a formula, for variables with the signs that they have at `points`. Imports SymPy."""
    if len(topological(formula)) > _LARGEST or formula.op in ("sym", "num"):
        return
    opaque, functions = _with_functions_named(formula)
    given, numbers = _with_numbers_named(opaque)
    points = [_with_values(point, functions) for point in points]
    positive = frozenset(s for s in opaque.symbols if _is_positive(s, points)) | frozenset(numbers)
    seen = {formula}
    is_polynomial = _degree(formula, given) <= _LARGEST_DEGREE
    unfinished = 0
    for name in _simplifiers():
        if unfinished == _MOST_UNFINISHED:
            return
        if name in _OF_POLYNOMIALS and not is_polynomial:
            continue
        try:
            after = _spelled(given, name, positive)
        except (NotConvertible, *SYMPY_FAULTS):
            continue
        if after is None:
            unfinished += 1
            continue
        after = found = substitute(after, numbers)
        for own in reversed(functions):
            found = substitute(found, {own: functions[own]})
        grown = len(topological(found)) > _MOST_GROWN * len(topological(formula))
        if found in seen or grown or _logs_of_powers(found) > _logs_of_powers(formula):
            continue
        seen.add(found)
        yield Spelling(name, found, opaque, after, points)


@lru_cache(maxsize=128)
def _spelled(given: Expr, simplifier: str, positive: frozenset[Expr]) -> Expr | None:
    """A formula as a simplifier of SymPy's writes it, where some of its variables are positive; None where that takes
    too long."""
    symbols = {s: _of_sympy(s, s in positive) for s in given.symbols if not s.is_boolean and s["kind"] != "str"}
    respell, largest = _simplifiers()[simplifier]
    back = {own: s for s, own in symbols.items()}
    return bounded(partial(_respelled, given, respell, largest, symbols, back), None, _MOST_CALLS)


def _with_functions_named(formula: Expr) -> tuple[Expr, dict[Expr, Expr]]:
    """The formula with symbols for functions that SymPy is not told, and what these are, of those before them.

    Of xlogy(x, y) it makes a product that is 0 * -oo where both are 0.
    """
    named: dict[Expr, Expr] = {}

    def name(node: Expr) -> Expr:
        if node.op not in _OF_FLOATS:
            return node
        own = symbol(f"_{node.op}{len(named)}")
        named[own] = node
        return own

    return transform(formula, name), named


def _with_values(point: Environment, functions: Mapping[Expr, Expr]) -> Environment:
    """A point with the values of named functions, those before others first; without one that has none there."""
    known = dict(point)
    for own, node in functions.items():
        if known.keys() >= node.symbols:
            try:
                known[own] = float(*exact((node,), known, 53))
            except UNDEFINED:
                continue
    return known


def _with_numbers_named(formula: Expr) -> tuple[Expr, dict[Expr, Expr]]:
    """The formula with symbols for long numbers, and what these are: of exp(x/123456) SymPy makes a polynomial of that
    degree."""
    numbers: dict[Expr, Expr] = {}

    def named(node: Expr) -> Expr:
        n = node.number
        if n is None or max(abs(n.numerator), n.denominator) <= _LARGEST_NUMBER:
            return node
        own = symbol(f"_{abs(n)}", "float")
        numbers[own] = ex.num(abs(n))
        return own if n > 0 else -own

    return transform(formula, named), numbers


def _degree(formula: Expr, given: Expr) -> int:
    """The degree of the polynomial that SymPy makes of a formula.

    Fractional powers count by their common denominator, x**(1/3) + x**(1/2) is of degree 3 in x**(1/6); and so do the
    arguments of exponentials in what is `given` to SymPy, sigmoid(1.702*x) is of degree 851 in exp(x/500).
    """
    powers = [n.args[1] for n in topological(formula) if n.op == "pow"]
    functions = [n for n in topological(_with_exponentials(given)) if n.op in _OF_EXPONENTIALS]
    powers += [term for n in functions for term in n.args[0].terms]
    numbers = [split_coefficient(power)[0] for power in powers]
    return lcm(*(n.denominator for n in numbers)) * max((abs(n.numerator) for n in numbers), default=1)


def _with_exponentials(formula: Expr) -> Expr:
    """The formula with the definitions of functions that SymPy has no name for, as the sigmoid."""
    while (after := transform(formula, lambda node: definition_of(node, node.args) or node)) != formula:
        formula = after
    return formula


def _respelled(
    node: Expr, respell: Callable[[Any], Any], largest: int, symbols: Mapping[Expr, Any], back: Mapping[Any, Expr]
) -> Expr:
    """The formula with each branch of its choices respelled; conditions stay as they are."""
    if node.op == "where":
        condition, *branches = node.args
        return rebuild(node, [condition, *(_respelled(b, respell, largest, symbols, back) for b in branches)])
    if not node.args or len(topological(node)) > largest:
        return node
    written = to_sympy(node, symbols)
    return opened(from_sympy(respell(written), {s: back[s] for s in written.free_symbols if s in back}))


def _logs_of_powers(formula: Expr) -> int:
    """How many logarithms are of powers with variables in the exponent: a power overflows, or rounds to 1, where its
    logarithm would not."""
    logs = [n.args[0] for n in topological(formula) if n.op == "log"]
    return sum(any(f.op == "pow" and f.args[1].symbols for f in inside.factors) for inside in logs)


def _is_positive(symbol: Expr, points: Sequence[Environment]) -> bool:
    """Whether a variable is positive at all points."""
    values = [p[symbol] for p in points if symbol in p]
    return bool(values) and all(v > 0 for v in values)


def _of_sympy(symbol: Expr, positive: bool) -> Any:
    """SymPy's symbol for a variable."""
    import sympy

    integer = {"integer": True} if symbol["kind"] in ("int", "int_tensor") else {"real": True}
    return sympy.Symbol(symbol.name, **({"positive": True, **integer} if positive else integer))


@cache
def _simplifiers() -> Mapping[str, tuple[Callable[[Any], Any], int]]:
    """By name, with the number of operations that a formula may have."""
    import sympy

    def logarithms(e: Any) -> Any:
        return sympy.expand_log(sympy.powsimp(sympy.powdenest(e)), deep=True)

    return {
        "factor": (_factored_parts, _LARGEST),
        "factor of the whole": (lambda e: sympy.factor(e, deep=True), _LARGEST),
        "expand_log": (logarithms, _LARGEST),
        "trigsimp": (sympy.trigsimp, _LARGEST_SIMPLIFIED),
        "simplify": (sympy.simplify, _LARGEST_TRIED),
        "together": (sympy.together, _LARGEST),
        "cancel": (sympy.cancel, _LARGEST_SIMPLIFIED),
        "expand": (sympy.expand, _LARGEST_SIMPLIFIED),
        "powsimp": (sympy.powsimp, _LARGEST),
        "logcombine": (sympy.logcombine, _LARGEST),
        "factor of exponentials": (lambda e: sympy.factor(sympy.expand(e.rewrite(sympy.exp))), _LARGEST_SIMPLIFIED),
        "rewrite(exp)": (lambda e: sympy.expand(e.rewrite(sympy.exp)), _LARGEST_SIMPLIFIED),
    }


_OF_POLYNOMIALS = frozenset(
    {"factor", "factor of the whole", "factor of exponentials", "cancel", "simplify", "together"}
)


def _factored_parts(e: Any) -> Any:
    """With the polynomial parts of every sum factored, those apart that belong to different functions."""
    import sympy

    def factored(total: Any) -> Any:
        groups: dict[Any, list[Any]] = {}
        for term in total.args:
            _, functions = term.as_independent(sympy.Function, sympy.exp)
            groups.setdefault(functions if functions.has(sympy.Function) else 1, []).append(term)
        return sympy.Add(*(sympy.factor(sympy.Add(*terms)) for terms in groups.values()))

    return e.replace(lambda part: part.is_Add, factored)
