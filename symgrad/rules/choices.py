"""Choices brought together: what both branches have in common is computed once, behind the choice.

A value read from a branch that is not taken is never used, so `where(c, h(a), h(b))` is `h(where(c, a, b))` for any h.
The choice then guards h itself, and nothing else has to.
"""

from __future__ import annotations

from fractions import Fraction

from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import COMPARISONS, LOGICAL, ONE, ZERO, Expr
from symgrad.ir.traversal import rebuild, substitute, topological
from symgrad.ir.truth import NEGATED, where
from symgrad.ops.functions import FUNCTIONS
from symgrad.rules.algebra import powers_of
from symgrad.rules.rule import Transformation

# Where functions have simple values: a branch with that value is the function of this argument.
_VALUES: dict[str, tuple[tuple[int, int], ...]] = {
    "exp": ((0, 1),),
    "expm1": ((0, 0),),
    "log": ((1, 0),),
    "log1p": ((0, 0),),
    "sin": ((0, 0),),
    "cos": ((0, 1),),
    "sinh": ((0, 0),),
    "cosh": ((0, 1),),
    "tanh": ((0, 0),),
    "asinh": ((0, 0),),
    "atan": ((0, 0),),
    "erf": ((0, 0),),
    "erfc": ((0, 1),),
}


def _opposite(condition: Expr) -> Expr:
    """Where a condition does not hold; where its operands are not numbers, neither need hold."""
    if condition.op in ("eq", "ne"):
        return truth.compare(NEGATED[condition.op], *condition.args)
    return truth.logical("not", condition)


def nested_choice(node: Expr) -> Expr | None:
    """One choice for two that lead to the same value: where(c, where(d, a, b), b) as where(c & d, a, b)."""
    condition, then, otherwise = node.args
    if condition.is_static:
        return None
    for inner, outer, reached in ((then, otherwise, condition), (otherwise, then, _opposite(condition))):
        if inner.op != "where" or outer not in inner.args[1:]:
            continue
        deeper, first, second = inner.args
        if deeper.is_static:
            continue
        if outer is second:
            return where(truth.logical("and", reached, deeper), first, outer)
        return where(truth.logical("and", reached, _opposite(deeper)), second, outer)
    return None


def choice_of_arguments(node: Expr) -> Expr | None:
    """where(c, h(a), h(b)) as h(where(c, a, b)); a constant branch may be a value of h."""
    condition, then, otherwise = node.args
    if condition.is_static:
        return None
    for known, other, swapped in ((then, otherwise, False), (otherwise, then, True)):
        twin = _like(known, other)
        if twin is None:
            continue
        differing = [k for k, (a, b) in enumerate(zip(known.args, twin.args, strict=True)) if a is not b]
        if len(differing) != 1:
            continue
        (k,) = differing
        branches = (twin.args[k], known.args[k]) if swapped else (known.args[k], twin.args[k])
        chosen = where(condition, *branches)
        return rebuild(known, (*known.args[:k], chosen, *known.args[k + 1 :]))
    return None


_OWN = frozenset({"add", "mul", "where", "num", "sym", *COMPARISONS, *LOGICAL})  # have their own transformations


def _like(known: Expr, other: Expr) -> Expr | None:
    """`other` as an application of the function of `known`."""
    if known.op in _OWN or not known.args or known.is_static:
        return None
    if known.op == other.op and known.attrs == other.attrs and len(known.args) == len(other.args):
        return other
    if known.op == "pow" and other is ONE and known.args[1].number is not None:
        return ex.make("pow", ONE, known.args[1])
    for argument, value in _VALUES.get(known.op, ()):
        if other.number == value:
            return ex.make(known.op, ex.num(argument))
    return None


def choice_of_factors(node: Expr) -> Expr | None:
    """where(c, k*a, k*b) as k * where(c, a, b), for numbers and powers that both branches have."""
    condition, then, otherwise = node.args
    if condition.is_static or ZERO in (then, otherwise) or node.is_boolean:
        return None
    (c, left), (d, right) = map(powers_of, (then, otherwise))
    shared = []
    for base, n in left.items():
        m = right.get(base)
        if m is not None and (n > 0) == (m > 0):
            shared.append(ex.power(base, ex.num(min(n, m, key=abs))))
    size = abs(c) if abs(c) == abs(d) else Fraction(1)
    if not left or not right:
        size = Fraction(1)
    factor = ex.mul(ex.num(size), *shared)
    if factor is ONE:
        return None
    inverse = ex.power(factor, -1)
    return ex.mul(factor, where(condition, ex.mul(then, inverse), ex.mul(otherwise, inverse)))


def choice_of_unit_factor(node: Expr) -> Expr | None:
    """where(c, 1, h(a) * b) as h(where(c, k, a)) * where(c, 1, b), where h(k) is 1."""
    condition, then, otherwise = node.args
    if condition.is_static:
        return None
    for one, product in ((then, otherwise), (otherwise, then)):
        if one is not ONE or product.op != "mul":
            continue
        for factor in product.args:
            unit = next((k for k, value in _VALUES.get(factor.op, ()) if value == 1), None)
            if unit is not None:
                rest = ex.mul(*(f for f in product.args if f is not factor))
                if rest.is_static:
                    continue
                sides = ((ex.num(unit), factor.args[0]), (ONE, rest))
                chosen, others = (where(condition, *(s if one is then else s[::-1])) for s in sides)
                return ex.mul(ex.make(factor.op, chosen), others)
    return None


def choice_of_terms(node: Expr) -> Expr | None:
    """where(c, k + a, k + b) as k + where(c, a, b), for the terms that both branches have."""
    condition, then, otherwise = node.args
    if condition.is_static or "add" not in (then.op, otherwise.op):
        return None
    own, theirs = (b.terms for b in (then, otherwise))
    shared = [t for t in own if t in theirs]
    if not shared:
        return None
    left, right = (ex.add(*(t for t in terms if t not in shared)) for terms in (own, theirs))
    return ex.add(*shared, where(condition, left, right))


def sum_of_choices(node: Expr) -> Expr | None:
    """Terms or factors that are choices on one condition, as one choice."""
    groups: dict[Expr, list[Expr]] = {}
    for part in node.args:
        if part.op == "where" and not part.args[0].is_static:
            groups.setdefault(part.args[0], []).append(part)
    for condition, parts in groups.items():
        if len(parts) > 1:
            combine = ex.add if node.op == "add" else ex.mul
            one = where(condition, *(combine(*(p.args[k] for p in parts)) for k in (1, 2)))
            return combine(one, *(p for p in node.args if p not in parts))
    return None


def choice_by_sign(node: Expr) -> Expr | None:
    """Choices on how x compares with k, nested or added, as one choice between the three cases.

    Where x is no number, all comparisons fail; the result is then that of the last case, which reads x.
    """
    subjects = {n.args: None for n in topological(node) if n.op in COMPARISONS and not n.is_static}
    for subject in subjects:
        tests = [n for n in topological(node) if n.op in COMPARISONS and n.args == subject]
        choices = [n for n in topological(node) if n.op == "where" and any(t is n.args[0] for t in tests)]
        if len(choices) < 2 or len(tests) < 2:
            continue
        cases = []
        for order in (1, 0, -1):
            facts = {t: truth.compare(t.op, order, 0) for t in tests}
            cases.append(substitute(node, facts))
        above, equal, below = cases
        if above is below:
            return where(truth.compare("eq", *subject), equal, above)
        last, first, test = (below, above, "gt") if below.tensors >= above.tensors else (above, below, "lt")
        at = where(truth.compare("eq", *subject), equal, last) if equal is not first else last
        return where(truth.compare(test if equal is not first else _WEAK[test], *subject), first, at)
    return None


def tie_by_sign(node: Expr) -> Expr | None:
    """where(x == k, b / 2, where(x < k, b, 0)) as b * (1 + sign(k - x)) / 2, for a Python number k.

    Not where b is a product with a tensor, whose elements may be infinite: 0 * oo is no number.
    """
    condition, at, beyond = node.args
    if condition.op != "eq" or condition.is_static or not condition.args[1].is_static or beyond.op != "where":
        return None
    x, k = condition.args
    for branch, sides in enumerate(_sides(x, k), start=1):
        for op, side in sides.items():
            if beyond.args[0] is truth.compare(op, x, k) and beyond.args[3 - branch] is ZERO:
                whole = beyond.args[branch]
                if _halved(whole) is not at or _has_tensor_factor(whole):
                    return None
                return ex.mul(whole, ex.HALF, 1 + ex.make("sign", side))
    return None


def _has_tensor_factor(node: Expr) -> bool:
    """Whether a value is a product with a tensor, other than what an operation computes, in a branch at least."""
    parts = node.args if node.op == "mul" else node.args[1:] if node.op == "where" else ()
    return any(map(_has_tensor_factor, parts)) or (node.get("kind") == "tensor" and node.get("of") is None)


def _sides(x: Expr, k: Expr) -> tuple[dict[str, Expr], dict[str, Expr]]:
    """What is positive where a comparison of x with k holds, and what where it does not, both beside x == k."""
    below, above = k - x, x - k
    return {"lt": below, "gt": above}, {"lt": above, "le": above, "gt": below, "ge": below}


def _halved(node: Expr) -> Expr:
    """Half of a value, in the branches of choices."""
    if node.op == "where":
        return where(node.args[0], _halved(node.args[1]), _halved(node.args[2]))
    return ex.mul(ex.HALF, node)


def choice_of_coefficients(node: Expr) -> Expr | None:
    """where(k == 0, 0, k * f) as k * f, and where(c, 0, k * f) as where(c, 0, k) * f, for Python numbers c and k.

    Only for an f that is surely finite: 0 * x**-1 is not a number at 0.
    """
    condition, then, otherwise = node.args
    if not condition.is_static or otherwise.is_static or then is not ZERO or otherwise.op != "mul":
        return None
    scalars = [f for f in otherwise.args if f.is_static]
    if not any(f.symbols for f in scalars):
        return None
    rest = ex.mul(*(f for f in otherwise.args if not f.is_static))
    vanishes = condition.op == "eq" and condition.args[1] is ZERO and condition.args[0] in scalars
    coefficient = ex.mul(*scalars)
    if not _is_finite(substitute(rest, {condition.args[0]: ZERO}) if vanishes else rest):
        return None
    return ex.mul(rest, coefficient if vanishes else where(condition, ZERO, coefficient))


def _is_finite(node: Expr) -> bool:
    """Whether a value is finite for all finite tensors, as far as can be seen."""
    for part in topological(node):
        if part.op == "pow" and not part.is_static:
            n = part.args[1].integer
            if n is None or n < 0:
                return False
        elif part.op in FUNCTIONS and not part.is_static and FUNCTIONS[part.op].safe is not None:
            return False
    return True


_WEAK = {"gt": "ge", "lt": "le"}

CHOICES = (
    Transformation("nested-choice", "where", nested_choice, "one choice for two"),
    Transformation("choice-of-arguments", "where", choice_of_arguments, "one function for two"),
    Transformation("choice-of-factors", "where", choice_of_factors, "one product for two"),
    Transformation("choice-of-unit-factor", "where", choice_of_unit_factor, "a guard that is a choice anyway"),
    Transformation("choice-of-terms", "where", choice_of_terms, "one sum for two"),
    Transformation("sum-of-choices", "add", sum_of_choices, "one choice for two"),
    Transformation("product-of-choices", "mul", sum_of_choices, "one choice for two"),
    Transformation("choice-by-sign", "where", choice_by_sign, "one choice for several"),
    Transformation("tie-by-sign", "where", tie_by_sign, "arithmetic for two choices"),
    Transformation("choice-of-coefficients", "where", choice_of_coefficients, "one number for two tensors"),
    Transformation("sum-by-sign", "add", choice_by_sign, "one choice for several"),
)
