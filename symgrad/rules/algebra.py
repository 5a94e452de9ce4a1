"""Transformations of sums and products that no pattern can state: they look at all operands at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import reduce

from symgrad.ir import expr as ex
from symgrad.ir.expr import HALF, ONE, Expr, make
from symgrad.ir.truth import compare, where
from symgrad.rules.rule import Transformation

_MOST_TERMS = 40  # of an expanded sum
_MOST_REPEATS = 8  # powers of sums that are multiplied out

_LIMIT = ex.num(10**18)

Powers = dict[Expr, Fraction]


def powers_of(term: Expr) -> tuple[Fraction, Powers]:
    """A term as its rational coefficient and the rational exponents of its bases."""
    coefficient, rest = ex.split_coefficient(term)
    powers: Powers = {}
    for factor in rest.factors:
        base, exponent = ex.split_power(factor)
        n = exponent.number
        if n is None:
            base, n = factor, Fraction(1)
        if base is not ONE:
            powers[base] = powers.get(base, Fraction(0)) + n
    return coefficient, powers


def _monomial(powers: Powers) -> Expr:
    return ex.mul(*(ex.power(base, ex.num(n)) for base, n in powers.items()))


# ------------------------------------------------------------------------------------------------ sums
def common_factor(node: Expr) -> Expr | None:
    """a*x**2 + b*x**3 as x**2 * (a + b*x), and 2 - 2*c as 2 * (1 - c)."""
    split = [powers_of(term) for term in node.args]
    shared = dict(split[0][1])
    for _, powers in split[1:]:
        shared = {
            b: min(n, powers[b], key=abs) for b, n in shared.items() if b in powers and (n > 0) == (powers[b] > 0)
        }
    sizes = {abs(c) for c, _ in split}
    content = sizes.pop() if len(sizes) == 1 else Fraction(1)
    if not shared and content == 1:
        return None
    factor = ex.mul(ex.num(content), _monomial(shared))
    return ex.mul(factor, ex.add(*(ex.mul(term, ex.power(factor, -1)) for term in node.args)))


def content(node: Expr) -> Expr | None:
    """f/2 - g/2 as (f - g)/2, where that cannot overflow: not for plain variables."""
    split = [ex.split_coefficient(term) for term in node.args]
    size = abs(split[0][0])
    if size == 1 or any(abs(c) != size for c, _ in split) or all(rest.op == "sym" for _, rest in split):
        return None
    return ex.mul(ex.num(size), ex.add(*(ex.mul(c / size, rest) for c, rest in split)))


def exp_difference(node: Expr) -> Expr | None:
    """c*exp(a) - c*exp(b) as c * exp(b) * expm1(a - b), with a - b multiplied out where that is shorter."""
    return _of_exp_difference(node, lambda a, b, d: ex.mul(make("exp", b), make("expm1", d)))


def larger_exp_difference(node: Expr) -> Expr | None:
    """The same by the larger exponential: expm1 is of something negative, and no factor overflows alone."""

    def larger(a: Expr, b: Expr, d: Expr) -> Expr:
        falling = ex.mul(-1, make("exp", a), make("expm1", ex.mul(-1, d)))
        return where(compare("gt", d, 0), falling, ex.mul(make("exp", b), make("expm1", d)))

    return _of_exp_difference(node, larger)


def _of_exp_difference(node: Expr, form: Callable[[Expr, Expr, Expr], Expr]) -> Expr | None:
    """c*exp(a) - c*exp(b) as c * form(a, b, a - b)."""
    for i, first in enumerate(node.args):
        for second in node.args[i + 1 :]:
            (a, shared), (b, other) = _exponential(first), _exponential(second)
            if a is None or b is None or shared is not ex.mul(-1, other):
                continue
            rest = [t for t in node.args if t is not first and t is not second]
            if (a.size, _occurs(b, rest)) > (b.size, _occurs(a, rest)):  # what other terms share may leave the sum
                a, b, shared = b, a, ex.mul(-1, shared)
            return ex.add(*rest, ex.mul(shared, form(a, b, shortened(a - b))))
    return None


def _occurs(exponent: Expr, terms: Iterable[Expr]) -> bool:
    return any(_exponential(t)[0] is exponent for t in terms)


def _exponential(term: Expr) -> tuple[Expr | None, Expr]:
    """`(a, c)` with term = c * exp(a)."""
    for factor in term.factors:
        if factor.op == "exp":
            return factor.args[0], ex.mul(*(f for f in term.factors if f is not factor))
    return None, term


def shortened(node: Expr) -> Expr:
    """A sum multiplied out and factored, where terms cancel in that."""
    flat = expanded(node.args) if node.op == "add" else None
    if flat is None or flat is node:
        return node
    power = max((abs(n) for t in flat.terms for b, n in powers_of(t)[1].items() if not b.is_static), default=0)
    before = max((abs(n) for t in node.terms for b, n in powers_of(t)[1].items() if not b.is_static), default=0)
    if len(flat.terms) > len(node.terms) and power >= before:
        return node
    return (common_factor(flat) if flat.op == "add" else None) or flat


def pair_factor(node: Expr) -> Expr | None:
    """a*b + a*c + d as a*(b + c) + d, for the base that the most terms share."""
    if len(node.args) < 3:
        return None
    count: dict[Expr, list[Expr]] = {}
    for term in node.args:
        for base, n in powers_of(term)[1].items():
            if base.symbols:
                count.setdefault(ex.power(base, ex.num(min(n, Fraction(1)) if n > 0 else n)), []).append(term)
    best = max(count, key=lambda base: (len(count[base]), base.size), default=None)
    if best is None or not 1 < len(count[best]) < len(node.args):
        return None
    inside = [ex.mul(term, ex.power(best, -1)) for term in count[best]]
    return ex.add(ex.mul(best, ex.add(*inside)), *(t for t in node.args if t not in count[best]))


def together(node: Expr) -> Expr | None:
    """A sum of fractions as one fraction, whose numerator is expanded so that terms cancel."""
    split = [powers_of(term) for term in node.args]
    least: Powers = {}
    for _, powers in split:
        for base, n in powers.items():
            if n < 0:
                least[base] = max(least.get(base, Fraction(0)), -n)
    if not least:
        return None
    raised: list[Expr] = []
    for coefficient, powers in split:
        complete = {base: powers.get(base, Fraction(0)) + n for base, n in least.items()}
        raised.append(ex.mul(ex.num(coefficient), _monomial({**powers, **complete})))
    numerator = expanded(raised)
    if numerator is None:
        return None
    shared = (common_factor(numerator) if numerator.op == "add" else None) or numerator
    return ex.mul(shared, *(ex.power(base, ex.num(-n)) for base, n in least.items()))


def shorter_together(node: Expr) -> Expr | None:
    """a / (1 - a) + 1 as 1 / (1 - a): one fraction, where terms cancel in it."""
    result = together(node)
    return result if result is not None and result.size < node.size else None


def expand(node: Expr) -> Expr | None:
    """A product or power of sums as one sum."""
    result = expanded([node])
    return None if result is node else result


def expanded(terms: Iterable[Expr]) -> Expr | None:
    """The sum of `terms` with products of sums multiplied out; None where there are too many terms."""
    total: list[Expr] = []
    for term in terms:
        product: list[Expr] = [ONE]
        for factor in term.factors:
            base, exponent = ex.split_power(factor)
            n = exponent.number
            if n is not None and base.op == "hypot" and n > 0 and n % 2 == 0:
                base, n = ex.add(*(a**2 for a in base.args)), n / 2
            whole = n is not None and n.denominator == 1 and 0 < n <= _MOST_REPEATS and base.op == "add"
            if whole and n is not None:
                options = [base.terms] * int(n)
            else:
                options = [(factor if n is None else ex.power(base, ex.num(n)),)]
            for choices in options:
                product = [ex.mul(p, c) for p in product for c in choices]
                if len(product) > _MOST_TERMS:
                    return None
        total += product
        if len(total) > 4 * _MOST_TERMS:
            return None
    return ex.add(*total)


# ------------------------------------------------------------------------------------------------ products
def paired_squares(node: Expr) -> Expr | None:
    """a**2 * b**2 as (a*b)**2: the squares may overflow where their product does not."""
    squares: list[Expr] = []
    others: list[Expr] = []
    for factor in node.args:
        _, exponent = ex.split_power(factor)
        n = exponent.integer
        even = n is not None and n % 2 == 0
        (squares if even else others).append(factor)
    if len(squares) < 2 or all(f.is_static for f in squares):
        return None
    root = ex.mul(*(ex.power(f.args[0], ex.num(_exponent(f) / 2)) for f in squares))
    return ex.mul(*others, make("pow", root, ex.num(2)))


def cancelled_divisors(node: Expr) -> Expr | None:
    """c * (a/c + b) as a + b*c: a sum over one denominator, which a factor cancels."""
    for factor in node.args:
        fraction = together(factor) if factor.op == "add" else None
        if fraction is not None:
            result = ex.mul(fraction, *(f for f in node.args if f is not factor))
            if result.size < node.size:
                return result
    return None


def _exponent(factor: Expr) -> Fraction:
    n = ex.split_power(factor)[1].number
    assert n is not None
    return n


def reversed_fraction(node: Expr) -> Expr | None:
    """p(x) / q(x) by falling powers beyond 1: divided by the highest power, nothing overflows.

    The variable is one base of which the denominators, and numerators that are sums, are polynomials.
    """
    base = _variable(node)
    if base is None:
        return None
    factors, degree = [], Fraction(0)
    for factor in node.factors:
        inner, exponent = ex.split_power(factor)
        n = exponent.number
        if inner.op == "add" and n is not None and base in _bases(inner):
            top = max(powers_of(t)[1].get(base, Fraction(0)) for t in inner.args)
            low = ex.power(base, ex.num(-top))
            factors.append(ex.power(ex.add(*(ex.mul(t, low) for t in inner.args)), exponent))
            degree += top * n
        else:
            factors.append(factor)
    if degree.denominator != 1:
        return None
    far = ex.mul(*factors, ex.power(base, ex.num(degree)))
    return where(compare("lt", make("abs", base), 1), node, far)


def _bases(node: Expr) -> dict[Expr, None]:
    return {b: None for term in node.args for b in powers_of(term)[1] if not b.is_static}


def _variable(node: Expr) -> Expr | None:
    """The base of the highest power in the sums of a fraction."""
    best: tuple[Fraction, Expr] | None = None
    for factor in node.factors:
        inner, exponent = ex.split_power(factor)
        n = exponent.number
        if inner.op == "add" and n is not None and (n < 0 or node.op == "mul"):
            for term in inner.args:
                for base, power in powers_of(term)[1].items():
                    if power > 1 and not base.is_static and (best is None or power > best[0]):
                        best = power, base
    return best[1] if best else None


def clamped_growth(node: Expr) -> Expr | None:
    """The growing factor of a product limited, where another factor has long vanished: 0 * oo is not a number.

    This holds only where the other factor vanishes wherever this one is large: fast enough, which the search proves on
    extreme points, and whatever other tensors are.
    """
    decaying = [_argument(f) for f in node.args if _decays(f)]
    growing = [f for f in node.args if f.args and not f.is_static and not _decays(f) and f.op not in _LIMITED]
    growing = [f for f in growing if (ex.split_power(f)[1].number or 1) > 0]
    growing = [f for f in growing if any(_grows_with(f, argument) for argument in decaying)]
    if not growing:
        return None
    largest = max(growing, key=lambda f: f.size)
    limited = make("clamp", largest, -_LIMIT, _LIMIT)
    return ex.mul(limited, *(f for f in node.args if f is not largest))


def _decays(factor: Expr) -> bool:
    base, exponent = ex.split_power(factor)
    n = exponent.number
    return base.op in _VANISHING or (n is not None and n < 0 and base.op in ("cosh", "sinh", "exp"))


def _argument(decaying: Expr) -> Expr:
    """What decides how much of a factor is left."""
    base, _ = ex.split_power(decaying)
    return base.args[0]


def _grows_with(growing: Expr, argument: Expr) -> bool:
    """Whether an argument is large wherever a growing factor is: what depends on one tensor alone is measured there."""
    return len(growing.tensors) == 1 and frozenset(growing.tensors) == frozenset(argument.tensors)


_VANISHING = frozenset({"exp", "sigmoid", "erfc"})
_LIMITED = frozenset({"tanh", "sin", "cos", "erf", "sign", "where", "clamp"})


def softmax(node: Expr) -> Expr | None:
    """exp(a) / (exp(a) + b + ...) as 1 / (1 + exp(-a) * (b + ...)), term by term."""
    for factor in node.args:
        base, exponent = ex.split_power(factor)
        n = exponent.integer
        if base.op != "add" or n is None or n > -1:
            continue
        for numerator in node.args:
            if numerator.op == "exp" and any(numerator in t.factors for t in base.args):
                inverse = make("exp", -numerator.args[0])
                terms = [_with_exp(term, inverse) for term in base.args]
                rest = ex.mul(*(f for f in node.args if f is not factor and f is not numerator))
                return ex.mul(rest, ex.power(base, ex.num(n + 1)), ex.power(ex.add(*terms), -1))
    return None


def scaled_erfc(node: Expr) -> Expr | None:
    """exp(b) * erfc(a)**n as exp(b - n * a**2) * erfcx(a)**n, where that cancels in the exponent."""
    for exponential in (f for f in node.args if f.op == "exp"):
        for factor in node.args:
            base, exponent = ex.split_power(factor)
            if base.op == "erfc" and exponent.number is not None:
                (own,) = base.args
                rest = exponential.args[0] - exponent * own**2
                if rest.size < exponential.args[0].size:
                    others = (f for f in node.args if f is not factor and f is not exponential)
                    return ex.mul(_exp(rest), ex.power(make("erfcx", own), exponent), *others)
    return None


def exp_of_log_normal(node: Expr) -> Expr | None:
    """exp(b + n*log_ndtr(a)) as exp(b - n*a**2/2) * (erfcx(-a/sqrt(2))/2)**n, where that cancels in the exponent."""
    terms = node.args[0].terms
    for term in terms:
        n, logarithm = ex.split_coefficient(term)
        if logarithm.op == "log_ndtr":
            (own,) = logarithm.args
            rest = ex.add(*(t for t in terms if t is not term))
            shorter = rest - ex.mul(n, HALF, own**2)
            if shorter.size < rest.size:
                return ex.mul(_exp(shorter), ex.power(HALF * make("erfcx", -own * ex.sqrt(HALF)), n))
    return None


def _with_exp(term: Expr, inverse: Expr) -> Expr:
    """term * exp(-a), with the exponentials merged."""
    exponents = [f.args[0] for f in term.factors if f.op == "exp"]
    others = [f for f in term.factors if f.op != "exp"]
    return ex.mul(*others, _exp(reduce(ex.add, exponents, inverse.args[0])))


def _exp(argument: Expr) -> Expr:
    return ONE if argument is ex.ZERO else make("exp", argument)


def root_of_product(node: Expr) -> Expr | None:
    """(a*b)**n as a**n * b**n: the product may overflow."""
    base, exponent = node.args
    if base.op != "mul" or exponent.integer is not None:
        return None
    return ex.mul(*(ex.power(f, exponent) for f in base.args))


def power_as_exp(node: Expr) -> Expr | None:
    """a**b as exp(b * log(a)), where b varies; by another one a power may be of 0, where the logarithm has no slope."""
    base, exponent = node.args
    return None if exponent.is_static else make("exp", exponent * make("log", base))


ALGEBRA = (
    Transformation("common-factor", "add", common_factor, "one product for several", saves=True),
    Transformation("pair-factor", "add", pair_factor, "one product for several", saves=True),
    Transformation("together", "add", together, "over one denominator the numerators cancel exactly"),
    Transformation("exp-difference-expanded", "add", exp_difference, "cancels"),
    Transformation("exp-difference-by-the-larger", "add", larger_exp_difference, "cancels; overflow times zero"),
    Transformation("expand", "mul", expand, "terms of different size stand apart"),
    Transformation("expand-power", "pow", expand, "terms of different size stand apart"),
    Transformation("paired-squares", "mul", paired_squares, "the squares overflow before their product", saves=True),
    Transformation("reversed-fraction", "mul", reversed_fraction, "high powers overflow"),
    Transformation("reversed-quotient", "pow", reversed_fraction, "high powers overflow"),
    Transformation("clamped-growth", "mul", clamped_growth, "0 times infinity"),
    Transformation("power-as-exp", "pow", power_as_exp, "one operation for two"),
    Transformation("exp-of-log-normal", "exp", exp_of_log_normal, "the terms cancel"),
    Transformation("root-of-product", "pow", root_of_product, "the product overflows"),
)

CANCELLED_SUMS = (
    Transformation("cancelled-divisors", "mul", cancelled_divisors, "what is divided by is multiplied by again"),
    Transformation("cancelled-terms", "add", shorter_together, "over one denominator terms cancel"),
)

CONTENT = Transformation("content", "add", content, "one product for several")

SOFTMAX = Transformation("softmax", "mul", softmax, "exponentials overflow")
SCALED_ERFC = Transformation("scaled-erfc", "mul", scaled_erfc, "exp overflows, or both underflow")
