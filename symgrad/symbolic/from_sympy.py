"""SymPy's expressions as ours.

What SymPy can take or sum up is done first (derivatives, integrals with a closed form). Classes are found by the names
that rows of the function table give; arithmetic, choices and matrices stand in the table at the end. What has no real
meaning, element by element, is refused with the reason and with what to do.

Two habits of SymPy are undone here and in the parser alike, by the constructors and rules that both use: a number comes
second in comparisons and extrema, and `2 - erfc(u)` is `erfc(-u)` again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from symgrad.errors import shown
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import FALSE, TRUE, ZERO, Expr, make, num
from symgrad.ir.traversal import transform
from symgrad.ops import functions
from symgrad.ops.functions import FUNCTIONS
from symgrad.symbolic.bounded import bounded
from symgrad.symbolic.matrices import MATRICES, contracted
from symgrad.symbolic.respell import in_other_words
from symgrad.symbolic.to_sympy import NotConvertible

if TYPE_CHECKING:
    import sympy

__all__ = ["from_sympy", "opened"]

_MOST_NODES = 20_000
_MOST_RESPELLED = 50  # parts of an expression that are said in other words
_SHORT = 8  # nodes of a definition beside its arguments, which are written in place of a word
_DEFINED = frozenset(row.name for row in FUNCTIONS.values() if row.definition)
_STRUCTURE = frozenset({"Piecewise", "ExprCondPair"})

BY_CLASS: Mapping[str, str] = {row.sympy: row.name for row in FUNCTIONS.values() if row.sympy and not row.internal}

_REFUSED: Mapping[str, str] = {
    "ComplexInfinity": "it divides by zero (zoo)",
    "NaN": "it is undefined (nan)",
    "ImaginaryUnit": "it is complex; formulas are real",
    "DiracDelta": "DiracDelta has no value element by element; leave it out, or write its integral",
    "SingularityFunction": "SingularityFunction has no value element by element; rewrite it with Piecewise",
    "Integral": "this integral has no closed form that SymPy finds",
    "Derivative": "this derivative cannot be taken; substitute what it is of",
    "Subs": "this substitution cannot be carried out; call doit()",
    "Limit": "this limit has no closed form that SymPy finds",
    "Sum": "this sum has no closed form and is not over the index of a tensor",
    "Product": "this product has no closed form",
    "re": "real and imaginary parts; declare the symbols real=True",
    "im": "real and imaginary parts; declare the symbols real=True",
    "conjugate": "complex conjugation; declare the symbols real=True",
    "arg": "the argument of a complex number; declare the symbols real=True",
    "polar_lift": "it is complex; declare the symbols positive=True, or use piecewise_fold",
    "exp_polar": "it is complex; declare the symbols positive=True, or use unpolarify",
    "AccumulationBounds": "it is an interval and no number",
    "Contains": "this set is described by no comparisons",
    "Lambda": "a function is called, or its expr is given",
    "Quantity": "a unit of measurement; formulas are of numbers",
    "RandomSymbol": "a random symbol; symgrad.log_prob writes its density",
    "Tuple": "each entry is an output of its own",
    "ImmutableDenseMatrix": "each entry is an output of its own; a tensor is a MatrixSymbol",
    "BlockMatrix": "blocks are not in the language; each one is an output of its own",
    "KroneckerProduct": "Kronecker products are not in the language; in a text it is einsum and flatten",
    "OneMatrix": "a matrix of ones; in a sum a number broadcasts",
    "ArraySymbol": "array expressions are not in the language; use IndexedBase, or MatrixSymbol",
    "Order": "it has an order term; call removeO()",
    "hyper": "hypergeometric functions are not in the language; try hyperexpand or rewrite",
    "meijerg": "Meijer G-functions are not in the language; try hyperexpand",
}


def from_sympy(expr: sympy.Basic, symbols: Mapping[sympy.Basic, Expr]) -> Expr:
    """`expr` as one of ours, where `symbols` says what its symbols (and matrix symbols) are.

    Raises NotConvertible with the part that has no meaning here, and why.
    """
    from sympy import Basic, MatrixBase, preorder_traversal

    if isinstance(expr, MatrixBase):
        expr = expr.as_immutable()
    if not isinstance(expr, Basic):
        raise NotConvertible(f"{shown(repr(expr))} is no SymPy expression")
    known: dict[Any, Expr] = dict(symbols)
    done = _carried_out(contracted(expr, known))
    if sum(1 for _ in zip(range(_MOST_NODES + 1), preorder_traversal(done), strict=False)) > _MOST_NODES:
        raise NotConvertible(f"the expression has more than {_MOST_NODES} parts; name some of them under 'let'")
    said: dict[Any, Any] = {}  # what has no word here, by what says the same
    stack: list[tuple[Any, bool]] = [(done, False)]
    while stack:
        node, ready = stack.pop()
        if node in known:
            continue
        if node in said and ready:
            known[node] = known[said[node]]
        elif ready:
            try:
                known[node] = _converted(node, known)
            except NotConvertible:
                said[node] = in_other_words(node, _is_word)
                if said[node] is None or len(said) > _MOST_RESPELLED:
                    raise
                stack += [(node, True), (said[node], False)]
        else:
            if not _is_word(node) and (other := in_other_words(node, _is_word)) is not None:
                said[node] = other
            parts = (said[node],) if node in said else _parts(node)
            stack += [(node, True), *((part, False) for part in reversed(parts))]
    return known[done]


def _is_word(node: Any) -> bool:
    """Whether a part has a word here, as far as its class tells."""
    import sympy

    name = type(node).__name__
    tables = (_LEAVES, _BUILD, _OF_POSITIVE, MATRICES, BY_CLASS, _STRUCTURE)
    of_symbols = (sympy.Symbol, sympy.MatrixSymbol, sympy.Number, sympy.core.symbol.Str)
    return name not in _REFUSED and (isinstance(node, of_symbols) or any(name in table for table in tables))


def _carried_out(expr: Any) -> Any:
    """With derivatives, integrals, sums and the like taken, where SymPy finds a closed form."""
    import sympy

    kinds = (sympy.Derivative, sympy.Integral, sympy.Sum, sympy.Product, sympy.Limit, sympy.Subs)
    return bounded(expr.doit, expr) if expr.has(*kinds) else expr


def _parts(node: Any) -> tuple[Any, ...]:
    """What has to be converted before a node."""
    name = type(node).__name__
    if name == "Piecewise":
        return tuple(part for pair in node.args for part in pair.args)
    if name == "MatPow":
        return (node.base,)
    if name == "ElementwiseApplyFunction":
        return (node.expr,)
    if name == "MatrixElement":
        return (node.parent,)
    return () if name in _LEAVES or not node.args or name in _REFUSED else tuple(node.args)


def _converted(node: Any, known: Mapping[Any, Expr]) -> Expr:
    import sympy

    name = type(node).__name__
    if name in _REFUSED:
        raise NotConvertible(f"{shown(str(node))}: {_REFUSED[name]}")
    if isinstance(node, sympy.Symbol | sympy.MatrixSymbol):
        raise NotConvertible(f"the symbol {str(node)!r} is not declared")
    for kind, leaf in _NUMBERS.items():
        if isinstance(node, getattr(sympy, kind)):
            return leaf(node)
    if name in _LEAVES:
        return _LEAVES[name]
    if name == "Piecewise":
        return _piecewise(node, known)
    if name in MATRICES:
        return MATRICES[name](node, known)
    if any(getattr(a, "is_Matrix", False) for a in node.args):
        raise NotConvertible(
            f"{shown(str(node))}: {name} of a matrix is none of its elements; A.applyfunc(f) is, and HadamardProduct"
        )
    args = [known[a] for a in node.args]
    if name in _OF_POSITIVE and all(_gamma_is_positive(name, node.args)):
        return _OF_POSITIVE[name](*args)
    build = _BUILD.get(name)
    if build is not None:
        return build(*args)
    row = BY_CLASS.get(name)
    if row is not None and FUNCTIONS[row].required <= len(args) <= len(FUNCTIONS[row].parameters):
        return _applied(row, node, args)
    if isinstance(node, sympy.core.function.AppliedUndef):
        raise NotConvertible(f"{shown(str(node))} is an undefined function; substitute what it stands for")
    raise NotConvertible(f"{shown(str(node))}: {name} is not in the language, and SymPy says it in no words that are")


def _applied(row: str, node: Any, args: list[Expr]) -> Expr:
    try:
        return _word(row, *args)
    except ValueError as error:
        raise NotConvertible(f"{shown(str(node))}: {error}") from None


def _word(row: str, *args: Expr) -> Expr:
    """A function by its definition, where that is as short as its name; else as a word, which the parser defines."""
    defined = functions.call(row, *args)
    return defined if defined.size <= _SHORT + sum(a.size for a in args) else make(row, *args)


def opened(expr: Expr) -> Expr:
    """`expr`, as `from_sympy` gives it, with definitions in place of words."""
    return transform(expr, lambda n: functions.call(n.op, *n.args) if n.op in _DEFINED else n)


def _float(node: Any) -> Expr:
    """The decimal that a person wrote: Float(0.1) is 1/10."""
    import sympy

    if not node.is_finite:
        return ex.OO if node == sympy.oo else -ex.OO if node == -sympy.oo else ex.NAN
    text = repr(float(node)) if node._prec == 53 and abs(node) < 1e300 else str(node)
    return num(Fraction(text))


def _piecewise(node: Any, known: Mapping[Any, Expr]) -> Expr:
    *cases, last = node.args
    if last.cond != True:  # noqa: E712 (SymPy's own true)
        raise NotConvertible(f"{shown(str(node))}: a Piecewise without a default; end it with (value, True)")
    total = known[last.expr]
    for case in reversed(cases):
        then, condition = known[case.expr], known[case.cond]
        if then.is_boolean != total.is_boolean:
            then, total = truth.as_number(then), truth.as_number(total)
        total = truth.where(condition, then, total)
    return total


def _compare(op: str) -> Callable[[Expr, Expr], Expr]:
    def build(left: Expr, right: Expr) -> Expr:
        if left.is_boolean and right.is_boolean:
            same = truth.logical("not", truth.exclusive(left, right))
            return same if op == "eq" else truth.exclusive(left, right)
        return truth.compare(op, truth.as_number(left), truth.as_number(right))

    return build


def _extremum(name: str) -> Callable[..., Expr]:
    def build(*args: Expr) -> Expr:
        if len(args) == 2 and ZERO in args:
            return functions.extremum_with_zero(name, args[args[0] is ZERO])
        return functions.extremum(name, args)

    return build


def _logical(op: str) -> Callable[..., Expr]:
    return lambda *args: truth.logical(op, *args)


def _gamma_is_positive(name: str, args: tuple[Any, ...]) -> Iterator[bool]:
    """Whether the gamma functions that a value is made of are surely of positive arguments."""
    n, *rest = args
    shifted = {"factorial": (n + 1,), "binomial": (n + 1, *(k + 1 for k in rest), *(n - k + 1 for k in rest))}
    return (
        bool(argument.is_positive) and (name == "beta" or not argument.is_number)
        for argument in shifted.get(name, args)
    )


def _exp_of_log_gamma(*arguments: Expr, over: tuple[Expr, ...] = ()) -> Expr:
    return make("exp", ex.add(*(make("lgamma", a) for a in arguments), *(-make("lgamma", a) for a in over)))


# Functions made of gamma functions without a case for negative arguments.
_OF_POSITIVE: Mapping[str, Callable[..., Expr]] = {
    "gamma": _exp_of_log_gamma,
    "factorial": lambda n: _exp_of_log_gamma(n + 1),
    "beta": lambda a, b: make("exp", _word("lbeta", a, b)),
    "binomial": lambda n, k: _exp_of_log_gamma(n + 1, over=(k + 1, n - k + 1)),
}

_NUMBERS: Mapping[str, Callable[[Any], Expr]] = {
    "Float": _float,
    "Rational": lambda node: num(Fraction(int(node.p), int(node.q))),
}

_LEAVES: Mapping[str, Expr] = {
    "Pi": ex.PI,
    "Exp1": ex.E,
    "Infinity": ex.OO,
    "NegativeInfinity": -ex.OO,
    "EulerGamma": ex.const("EulerGamma"),
    "GoldenRatio": ex.const("GoldenRatio"),
    "Catalan": ex.const("Catalan"),
    "BooleanTrue": TRUE,
    "BooleanFalse": FALSE,
}


def _log(value: Expr, *base: Expr) -> Expr:
    return value.args[0] if value.op == "exp" and not base else functions.call("log", value, *base)


_BUILD: Mapping[str, Callable[..., Expr]] = {
    "log": _log,
    "Add": lambda *args: ex.add(*map(truth.as_number, args)),
    "Mul": lambda *args: ex.mul(*map(truth.as_number, args)),
    "Pow": ex.power,
    "UnevaluatedExpr": lambda value: value,
    "StrictLessThan": _compare("lt"),
    "LessThan": _compare("le"),
    "StrictGreaterThan": _compare("gt"),
    "GreaterThan": _compare("ge"),
    "Equality": _compare("eq"),
    "Unequality": _compare("ne"),
    "And": _logical("and"),
    "Or": _logical("or"),
    "Not": _logical("not"),
    "Xor": truth.exclusive,
    "ITE": lambda condition, then, otherwise: truth.where(condition, then, otherwise),
    "Max": _extremum("maximum"),
    "Min": _extremum("minimum"),
    "sinc": lambda x: make("sinc", x / ex.PI),  # SymPy's is sin(x)/x, torch's sin(pi*x)/(pi*x)
}
