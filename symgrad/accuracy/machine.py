"""Formulas as a machine executes them: sums, products and powers as sequences of two-operand operations.

The order is chosen for range and sharing. Products multiply bounded function values before plain variables, so that
a vanishing factor meets a large one early (`(s * x) * x` where `s * x**2` would be 0 * inf) and partial products are
shared between formulas; a squared divisor divides twice, because its square overflows, and the first time before the
last of three factors; a hyperbolic cosine divides before a variable, which may be small. The printer and the simulator
both work on this form, so accuracy is measured on what is emitted.

Operations here are `add sub mul div neg pow` with two operands (`neg` one) and the functions of the table. Values
without tensors are left whole: they are Python scalars.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from symgrad.analysis.sizes import UNKNOWN, elements
from symgrad.ir import expr as ex
from symgrad.ir.expr import HALF, MINUS_ONE, ONE, Expr, make
from symgrad.ir.order import parts_of
from symgrad.ir.traversal import PerNode, kept, topological

# Functions whose values are bounded or decay: they enter products first.
_BOUNDED = frozenset({"sigmoid", "tanh", "sin", "cos", "erf", "erfc", "sign", "exp", "where", "sinc"})
_LARGE = frozenset({"cosh"})  # nowhere below 1, and growing: quotients by them decay


def machine(roots: Iterable[Expr]) -> list[Expr]:
    """The roots in machine form; shared subexpressions stay shared."""
    roots = list(roots)
    order = topological(*roots)
    lowered = _among(tuple(dict.fromkeys(_bases(n) for n in order if n.op == "mul")))
    for node in order:
        if node in lowered:
            continue
        if node.is_static or not node.args:
            lowered[node] = node
        else:
            lowered[node] = _LOWER.get(node.op, _same)(node, lowered)
    return [lowered[r] for r in roots]


@kept
def machine_form(root: Expr) -> Expr:
    """One root in machine form, on its own."""
    (found,) = machine([root])
    return found


class Lowered(dict[Expr, Expr]):
    """The machine form of each node, and for each product, by its factors, those that another product has too."""

    def __init__(self, shared: Mapping[frozenset[Expr], frozenset[Expr]]) -> None:
        super().__init__()
        self.shared = shared


_MOST_PRODUCTS = 120  # beyond which products are not compared pair by pair


@kept
def _among(products: tuple[frozenset[Expr], ...]) -> Lowered:
    """What is lowered where these are all products, by their factors: what is shared decides how a node is written."""
    return Lowered(_shared_factors(products))


def _shared_factors(products: Sequence[frozenset[Expr]]) -> dict[frozenset[Expr], frozenset[Expr]]:
    """For each product its largest common part with another one: computed first, it is computed once."""
    if len(products) > _MOST_PRODUCTS:
        return {}
    found: dict[frozenset[Expr], frozenset[Expr]] = {}
    for own in products:
        common = max((own & other for other in products if other is not own), key=len, default=frozenset())
        if len(common) > 1:
            found[own] = common
    return found


@kept
def _bases(product: Expr) -> frozenset[Expr]:
    """The tensor factors that stand above the fraction line, squares counted once."""
    split = (ex.split_power(f) for f in product.args if not f.is_static and not is_divisor(f))
    return frozenset(base for base, _ in split)


def _same(node: Expr, lowered: Lowered) -> Expr:
    return make(node.op, *(lowered[a] for a in node.args), **dict(node.attrs))


def _sum(node: Expr, lowered: Lowered) -> Expr:
    """Left to right, as the spec does, or first a part and the term that reads it; terms with a negative coefficient
    are subtracted."""
    terms = list(parts_of(node) or node.args)
    total = None
    if (found := part_that_is_read(node)) is not None:
        terms = list(node.args)
        part, sign, reader = found
        for term in part.args if part.op == "add" else (part,):
            terms.remove(ex.mul(sign, term))
        terms.remove(reader)
        terms.insert(0, reader)
        total = lowered[part] if sign > 0 else make("sub", lowered[terms.pop(0)], lowered[part])
    for term in terms:
        factor, rest = ex.split_coefficient(term)
        if term not in lowered:  # part of a sum as the spec writes it
            lowered[term] = _sum(term, lowered) if term.op == "add" else term
        if total is None:
            total = lowered[term]
        elif total.is_static and term.is_static:
            total = ex.add(total, term)
        elif factor < 0:
            total = make("sub", total, _term(-factor, rest, lowered))
        else:
            total = make("add", total, lowered[term])
    assert total is not None
    return total


_REDUCTIONS = frozenset({"sum", "mean"})


def part_that_is_read(node: Expr) -> tuple[Expr, int, Expr] | None:
    """A sum of some of the terms that another one reads, its sign, and that other term: a - b in a - b - max(a - b, c).

    Added up first it is computed once, and what is taken away from it is of what was computed. Of what is reduced, such
    as a in a - sum(p * a) + b, one term is a part too: nearly all of it may cancel.
    """
    terms = frozenset(node.args)
    for reader in node.args:
        read = _inside(reader)
        is_reduced = read.op in _REDUCTIONS
        if read.op in ("add", "mul", "pow"):
            continue
        for part in map(_inside, read.args[0].factors if is_reduced else read.args):
            if part.is_static or not (part.op == "add" or (is_reduced and len(terms) > 2)):
                continue
            own = part.args if part.op == "add" else (part,)
            sign = next((s for s in (1, -1) if terms.issuperset(ex.mul(s, t) for t in own)), 0)
            if sign > 0 or (sign < 0 and is_reduced):
                return part, sign, reader
    return None


def _inside(value: Expr) -> Expr:
    """A value without a coefficient, and without what only tells that it is computed once."""
    while value.op in ("boundary", "held") or (value.op == "mul" and ex.split_coefficient(value)[0] != 1):
        value = value.args[0] if value.op != "mul" else ex.split_coefficient(value)[1]
    return value


def _term(factor: Fraction, rest: Expr, lowered: Lowered) -> Expr:
    """`factor * rest` in machine form, from the machine form of its parts."""
    if rest is ONE:
        return ex.num(factor)
    if rest.is_static:
        return ex.mul(factor, rest)
    if rest.op == "mul" or (rest.op == "pow" and is_divisor(rest)):
        return _factors(factor, rest.factors, lowered)
    return lowered[rest] if factor == 1 else _factors(factor, (rest,), lowered)


def _product(node: Expr, lowered: Lowered) -> Expr:
    factor, rest = ex.split_coefficient(node)
    return _factors(factor, rest.factors, lowered)


def _factors(factor: Fraction, factors: tuple[Expr, ...], lowered: Lowered) -> Expr:
    """The product of a rational constant and factors: tensors, then the Python scalar, then the divisors.

    What is much smaller than the product, such as one number for each row, is multiplied first.
    """
    small = _small_part(factors)
    if small:
        inner = _factors(factor, (*small, *(f for f in factors if f.is_static)), lowered)
        large = tuple(f for f in factors if f not in small and not f.is_static)
        if not all(map(is_divisor, large)):
            return make("mul", _factors(_UNIT, large, lowered), inner)
        for divisor in large:  # no operation for 1 / x, which is of a type of its own where x is whole
            inner = _divide(inner, divisor, lowered)
        return inner
    static = [f for f in factors if f.is_static]
    tensors = [f for f in factors if not f.is_static]
    divisors = sorted(filter(is_divisor, tensors), key=lambda f: f.args[0].op not in _LARGE)
    numerators = [f for f in tensors if not is_divisor(f)]
    over, under = _scalar_fraction(factor, static)
    value: Expr | None = None
    if len(numerators) == 1 and divisors and _is_square(numerators[0]) and divisors[0].args[1].number == -1:
        # (x / y) * x: the square alone may overflow or vanish.
        base = lowered[numerators[0].args[0]]
        value = make("mul", _divide(base, divisors.pop(0), lowered), base)
        numerators = []
    variables: list[Expr] = []
    if divisors and _saturates(numerators, divisors[0]):
        # (n / (n + 2)) * x: the quotient is bounded where the product would overflow.
        variables = [f for f in numerators if f.op == "sym"]
        numerators = [f for f in numerators if f.op != "sym"]
    operands = _in_order(numerators, lowered)
    of_rows = [f.args[0] for f in divisors] + [f for f in numerators if not (f.op == "sym" and f.is_differential)]
    if len(operands) > 1 and divisors and all(map(_is_reduced, of_rows)):
        # a / d * b / d: products of sums of squares overflow long before their quotients do.
        divisors = [step for d in divisors for step in _stepwise(d)]
        for operand in operands[:-1]:
            value = _times(value, [operand])
            value = _divide(value, divisors.pop(0), lowered) if divisors else value
        operands = operands[-1:]
    squared = next((k for k, d in enumerate(divisors) if d.args[1].number == -2), None)
    if squared is not None and len(operands) > 2:
        # a * b / d * c / d: the product of three overflows where the quotient does not.
        divisors[squared] = once = make("pow", divisors[squared].args[0], MINUS_ONE)
        value = _divide(_times(value, operands[:-1]), once, lowered)
        operands = operands[-1:]
    value = _times(value, operands) if operands else value
    if value is None:
        value, over = over, ONE
    elif divisors and over.number is not None and 0 < abs(over.number) < 1:
        value, over = make("mul", over, value), ONE  # before the quotient grows
    for divisor in divisors:
        value = _divide(value, divisor, lowered)
    value = _times(value, _in_order(variables, lowered))
    if over is MINUS_ONE:
        value = make("neg", value)
    elif over is not ONE:
        value = make("mul", over, value)
    return value if under is ONE else make("div", value, under)


def _times(value: Expr | None, operands: Sequence[Expr]) -> Expr:
    """A value, if there is one, multiplied by one operand after the other."""
    first, *others = operands if value is None else (value, *operands)
    for operand in others:
        first = make("mul", first, operand)
    return first


_UNIT = Fraction(1)
_EXACT = 2**24  # up to which numerators and denominators are numbers of any type of arithmetic; larger ones overflow
MUCH = 8  # times as many elements


def _small_part(factors: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The factors whose product is much smaller than that of all, if multiplying them first saves an operation."""
    tensors = [f for f in factors if not f.is_static]
    if len(tensors) < 2:
        return ()
    largest = max((n for n in map(elements, tensors) if n < UNKNOWN), default=0.0)
    small: list[Expr] = []
    for f in sorted(tensors, key=elements):
        if elements(f) * MUCH <= largest and elements(ex.mul(*small, f)) * MUCH <= largest:
            small.append(f)
    worthwhile = len(small) + (len(tensors) < len(factors)) > 1
    return tuple(small) if worthwhile and not all(map(is_divisor, small)) else ()


def _scalar_fraction(factor: Fraction, static: list[Expr]) -> tuple[Expr, Expr]:
    """The Python scalar of a product as numerator and denominator; dyadic constants multiply."""
    if not static and factor == 1:
        return ONE, ONE
    under = ex.mul(*(ex.power(f.args[0], ex.mul(-1, f.args[1])) for f in static if is_divisor(f)))
    over = ex.mul(*(f for f in static if not is_divisor(f)))
    denominator = factor.denominator
    if over is not ONE and (under is not ONE or denominator != 1) and not over.symbols and not under.symbols:
        return ex.mul(factor, *static), ONE  # one constant, rounded once
    if under is ONE and denominator & (denominator - 1) == 0:
        return ex.mul(factor, over), ONE
    if abs(factor.numerator) != 1 and over is ONE and under is ONE:
        return ex.num(factor), ONE
    if max(abs(factor.numerator), denominator) > _EXACT:
        return ex.mul(factor, over), under
    return ex.mul(factor.numerator, over), ex.mul(denominator, under)


def _saturates(numerators: list[Expr], divisor: Expr) -> bool:
    """Whether a quotient is one of a value and a sum that contains all its factors, beside variables."""
    own = [f for f in numerators if f.op != "sym"]
    if not own or len(own) == len(numerators) or divisor.args[0].op != "add":
        return False
    inside = frozenset(topological(divisor.args[0]))
    return all(f in inside for f in own)


def _is_square(factor: Expr) -> bool:
    return factor.op == "pow" and factor.args[1].number == 2


def is_divisor(factor: Expr) -> bool:
    """Whether a factor is a power with a negative number as its exponent."""
    if factor.op != "pow":
        return False
    exponent = factor.args[1].number
    return exponent is not None and exponent < 0


def _in_order(numerators: list[Expr], lowered: Lowered) -> list[Expr]:
    """Bounded values, other values, variables; squares as two factors, but in polynomials of the square.

    Of the bounded ones squares of exponentials come last, which overflow first; beyond them, factors that another
    product has too come first.
    """
    operands: list[tuple[tuple[bool, bool, bool, int], Expr]] = []
    own = frozenset(ex.split_power(f)[0] for f in numerators)
    shared = lowered.shared.get(own, own)
    for f in numerators:
        base, exponent = ex.split_power(f)
        growth = _growth(base)
        rank = (growth > 0, base.op == "exp" and exponent.number == 2, base not in shared, growth)
        beside = [lowered[g] for g in numerators if g is not f]
        if exponent.number == 2 and beside and not all(_is_polynomial(g, lowered[f]) for g in beside):
            operands += [(rank, lowered[base])] * 2
        else:
            operands.append((rank, lowered[f]))
    return [operand for _, operand in sorted(operands, key=lambda item: item[0])]


def _is_polynomial(value: Expr, square: Expr) -> bool:
    """Whether a value in machine form is a polynomial in a square, which is at hand then and overflows anyway."""
    pending, seen = [value] if value.op in ("add", "sub") else [], set[Expr]()
    while pending:
        node = pending.pop()
        if node is square:
            return True
        if node.op in ("add", "sub", "mul", "neg") and node not in seen:
            seen.add(node)
            pending += node.args
    return False


def _growth(factor: Expr) -> int:
    if factor.op in _BOUNDED:
        return 0
    if factor.op == "sym":
        return 2
    return 1


def _divide(value: Expr, divisor: Expr, lowered: Lowered) -> Expr:
    base, exponent = divisor.args
    n = exponent.number
    assert n is not None
    if value is ONE and n == -HALF["value"]:
        return make("pow", lowered[base], exponent)
    # Of what is reduced the root is at hand, and t**1.5 overflows early.
    at_once = n != -2 and (value is ONE or not _is_reduced(base))
    for step in [divisor] if at_once else _stepwise(divisor):
        power = -step.args[1]
        value = make("div", value, lowered[base] if power is ONE else make("pow", lowered[base], power))
    return value


def _stepwise(divisor: Expr) -> list[Expr]:
    """A divisor d**2 as d and d, and d**1.5 as d and its root."""
    base, exponent = divisor.args
    n = exponent.number
    if n is None or (n not in _STEPWISE and n != -2):
        return [divisor]
    half = [make("pow", base, ex.num(-HALF["value"]))] if n.denominator == 2 else []
    return [make("pow", base, MINUS_ONE)] * int(-n) + half


_STEPWISE = frozenset({Fraction(-3, 2), Fraction(-5, 2), Fraction(-3)})  # exponents of derivatives of norms
_OF_ROWS = _REDUCTIONS | {"var", "std", "norm"}


@PerNode
def _is_reduced(value: Expr) -> bool:
    """Whether a value is one for each row, or for a whole tensor."""
    return value.op in _OF_ROWS or (value.op in ("add", "mul", "pow") and any(map(_is_reduced, value.args)))


def _power(node: Expr, lowered: Lowered) -> Expr:
    if is_divisor(node):
        return _factors(ONE["value"], (node,), lowered)
    return make("pow", lowered[node.args[0]], lowered[node.args[1]])


def _held(node: Expr, lowered: Lowered) -> Expr:
    return lowered[node.args[0]]


_LOWER = {"add": _sum, "mul": _product, "pow": _power, "held": _held, "boundary": _held}
