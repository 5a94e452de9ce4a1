"""The intermediate representation: an immutable, hash-consed expression DAG.

Every value of symgrad, from the parsed formula to the last partial derivative, is an `Expr`: an operation, its
arguments and its attributes. Structurally equal expressions are one object, so equality is identity, sharing is
visible, and a set of expressions is a graph. Hashes come from the structure, not from addresses: a set is walked in the
same order in every process. Pointwise functions and tensor operations are nodes of the same kind; what they mean stands
in the tables `functions` and `tensor_ops`.

The constructors normalise only what is exact in floating point or harmless (flattening, rational constants, like terms,
integer powers): they never distribute a product over a sum and never merge exponentials, because such steps decide
accuracy and belong to the measured rewrite rules. Operand order is canonical, so nothing depends on what else was
compiled in the same process.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias, cast
from weakref import WeakValueDictionary

Scalar: TypeAlias = "Expr | int | Fraction"

COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
LOGICAL = frozenset({"and", "or", "not"})
TENSOR_KINDS = frozenset({"tensor", "int_tensor", "bool_tensor", "cotangent", "tangent"})
BOOLEAN_KINDS = frozenset({"bool", "bool_tensor"})

# Canonical operand order reads like a textbook: numbers, names, then applications by size.
_RANK = {"num": 0, "const": 1, "text": 1, "sym": 2, "pow": 3}

_interned: WeakValueDictionary[tuple[Any, ...], Expr] = WeakValueDictionary()
_numbers: WeakValueDictionary[tuple[int, int], Expr] = WeakValueDictionary()  # hashing a Fraction takes long
_reference: Callable[[tuple[Any, ...]], Callable[[], Expr | None] | None] = vars(_interned)["data"].get
"""The weak reference to a node, in half the time that the dictionary takes."""


class Expr:
    """One node of the DAG: `op` applied to `args`, with constant `attrs`; created through `make` only.

    Equality is identity, and the hash that of the structure. Arithmetic operators build normalised expressions;
    comparisons are built with `compare`.
    """

    __slots__ = ("__dict__", "__weakref__", "_hash", "args", "attrs", "digest", "op", "size", "symbols")
    op: str
    args: tuple[Expr, ...]
    attrs: tuple[tuple[str, Any], ...]
    digest: bytes
    """A hash of the structure that is the same in every process."""
    size: int
    """Number of nodes counted as a tree, capped so that shared towers stay cheap."""
    symbols: frozenset[Expr]
    """The free symbols."""
    _hash: int

    def __hash__(self) -> int:
        return self._hash

    def __getitem__(self, attr: str) -> Any:
        """The constant attribute `attr`; KeyError if the node has none of that name."""
        for key, value in self.attrs:
            if key == attr:
                return value
        raise KeyError(attr)

    def get(self, attr: str, default: Any = None) -> Any:
        """The constant attribute `attr`, or `default`."""
        return next((value for key, value in self.attrs if key == attr), default)

    @cached_property
    def order(self) -> tuple[int, str, int, bytes]:
        """Key of the canonical operand order."""
        base = self.args[0] if self.op == "pow" else self
        if base.op == "sym":
            return (2, base["name"], self.size, self.digest)
        return (_RANK.get(self.op, 4), "", self.size, self.digest)

    @cached_property
    def without_coefficient(self) -> Expr:
        """A product that starts with a number, without that number."""
        own = self.args[1:]
        return own[0] if len(own) == 1 else make("mul", *own)

    @cached_property
    def tensors(self) -> frozenset[Expr]:
        """The tensor-valued symbols it depends on; empty for a Python scalar."""
        return frozenset(s for s in self.symbols if s["kind"] in TENSOR_KINDS)

    @cached_property
    def is_differential(self) -> bool:
        """Whether it depends on a cotangent or tangent."""
        return any(s["kind"] in ("cotangent", "tangent") for s in self.symbols)

    @property
    def is_static(self) -> bool:
        """Whether it is a Python value in generated code (constants and hyperparameters only)."""
        return not self.tensors

    @property
    def is_boolean(self) -> bool:
        """Whether its value is a truth value rather than a number."""
        if self.op == "sym":
            return self["kind"] in BOOLEAN_KINDS
        if self.op == "where":
            return self.args[1].is_boolean
        return self.op in COMPARISONS or self.op in LOGICAL or self.op in ("true", "false")

    @property
    def number(self) -> Fraction | None:
        """The exact rational value of a number node, else None."""
        return cast(Fraction, self["value"]) if self.op == "num" else None

    @property
    def integer(self) -> int | None:
        """The value of a number node that is whole, else None."""
        number = self.number
        return number.numerator if number is not None and number.denominator == 1 else None

    @property
    def terms(self) -> tuple[Expr, ...]:
        """The terms of a sum; of anything else, the node itself alone."""
        return self.args if self.op == "add" else (self,)

    @property
    def factors(self) -> tuple[Expr, ...]:
        """The factors of a product; of anything else, the node itself alone."""
        return self.args if self.op == "mul" else (self,)

    @property
    def name(self) -> str:
        """The name of a symbol."""
        return cast(str, self["name"])

    def __add__(self, other: Scalar) -> Expr:
        return add(self, other)

    def __radd__(self, other: Scalar) -> Expr:
        return add(other, self)

    def __sub__(self, other: Scalar) -> Expr:
        return add(self, mul(-1, other))

    def __rsub__(self, other: Scalar) -> Expr:
        return add(other, mul(-1, self))

    def __mul__(self, other: Scalar) -> Expr:
        return mul(self, other)

    def __rmul__(self, other: Scalar) -> Expr:
        return mul(other, self)

    def __truediv__(self, other: Scalar) -> Expr:
        return mul(self, power(other, -1))

    def __rtruediv__(self, other: Scalar) -> Expr:
        return mul(other, power(self, -1))

    def __pow__(self, other: Scalar) -> Expr:
        return power(self, other)

    def __neg__(self) -> Expr:
        return mul(-1, self)

    def __reduce__(self) -> tuple[Any, ...]:
        """What another process makes of a pickle is the one node there."""
        return _restored, (self.op, self.args, self.attrs)

    def __repr__(self) -> str:
        from symgrad.parse.formula import formula  # the one thing that the representation asks of a later stage

        return formula(self)


def make(op: str, *args: Expr, **attrs: Any) -> Expr:
    """The unique node `op(*args; attrs)`, without any normalisation."""
    items = tuple(sorted(attrs.items())) if attrs else ()
    key = (op, tuple(map(id, args)), items)
    kept = _reference(key)
    found = kept() if kept else None
    if found is None:
        found = Expr()
        found.op, found.args, found.attrs = op, args, items
        found.digest = _digest(found)
        found._hash = int.from_bytes(found.digest[:7], "big")
        found.size = min(1 + sum([a.size for a in args]), 1 << 40)
        found.symbols = _symbols(found)
        _interned[key] = found
    return found


def _digest(node: Expr) -> bytes:
    value = node.number
    # In hexadecimal, because Python refuses to write thousands of decimal digits.
    own = repr(node.attrs) if value is None else f"{value.numerator:x}/{value.denominator:x}"
    text = f"{node.op}|{own}|".encode() + b"".join([a.digest for a in node.args])
    return hashlib.blake2b(text, digest_size=12).digest()


def _symbols(node: Expr) -> frozenset[Expr]:
    if node.op == "sym":
        return frozenset({node})
    sets = [a.symbols for a in node.args]
    largest: frozenset[Expr] = max(sets, key=len, default=frozenset())
    return largest if all(own <= largest for own in sets) else frozenset().union(*sets)


def _restored(op: str, args: tuple[Expr, ...], attrs: tuple[tuple[str, Any], ...]) -> Expr:
    return make(op, *args, **dict(attrs))


# ------------------------------------------------------------------------------------------------ leaves
def num(value: int | Fraction) -> Expr:
    """An exact rational constant."""
    key = (value.numerator, value.denominator)
    found = _numbers.get(key)
    if found is None:
        found = _numbers[key] = make("num", value=Fraction(value))
    return found


def const(name: str) -> Expr:
    """A named constant, such as `pi`, `E`, `oo` or `nan`."""
    return make("const", name=name)


def text(value: str) -> Expr:
    """A string constant, for comparison with a `str` hyperparameter."""
    return make("text", value=value)


def symbol(name: str, kind: str = "tensor", shape: tuple[int | str, ...] | None = None) -> Expr:
    """A free symbol; `kind` is a tensor's (`tensor`, `int_tensor`, `bool_tensor`, `cotangent`,
    `tangent`) or a hyperparameter's (`float`, `int`, `bool`, `str`). `shape` is the declared one of a tensor."""
    return make("sym", name=name, kind=kind, **({} if shape is None else {"shape": shape}))


def as_expr(value: Scalar) -> Expr:
    """`value` itself, or the constant node of a Python number."""
    return value if isinstance(value, Expr) else num(value)


TRUE, FALSE = make("true"), make("false")
ZERO, ONE, HALF, MINUS_ONE = num(0), num(1), num(Fraction(1, 2)), num(-1)
PI, E, OO, NAN = const("pi"), const("E"), const("oo"), const("nan")


# ------------------------------------------------------------------------------------------------ arithmetic
def add(*terms: Scalar) -> Expr:
    """The sum, flattened, with rational constants and like terms collected."""
    coefficients: dict[Expr, Fraction] = {}
    constant = Fraction(0)
    stack = [as_expr(t) for t in reversed(terms)]
    while stack:
        term = stack.pop()
        if term.op == "add":
            stack.extend(reversed(term.args))
        elif term.op == "num":
            constant += term["value"]
        else:
            factor, rest = split_coefficient(term)
            before = coefficients.get(rest)
            coefficients[rest] = factor if before is None else before + factor
    parts = [
        rest if factor is _UNIT and rest.op != "mul" else mul(factor, rest)
        for rest, factor in coefficients.items()
        if factor is _UNIT or factor
    ]
    if constant:
        parts.append(num(constant))
    if not parts:
        return ZERO
    if len(parts) == 1:
        return parts[0]
    if any(part.op == "add" for part in parts):  # 2*(x + y) - (x + y) is a sum again
        return add(*parts)
    ordered = sorted(parts, key=_term_order)
    if not ordered[0].is_static and ordered[-1].tensors:  # a - b + 0.001: what is small comes after what may cancel
        ordered.sort(key=lambda term: term.is_static)
    return make("add", *ordered)


def _term_order(term: Expr) -> tuple[Any, ...]:
    """Positive terms first, larger ones before smaller ones, constants last: x + 1, and 1 - x."""
    factor, rest = split_coefficient(term)
    degree = -rest.size if rest.op != "sym" else -1
    return (factor < 0, term.op == "num", degree, rest.order)


_UNIT = Fraction(1)


def split_coefficient(term: Expr) -> tuple[Fraction, Expr]:
    """`(c, rest)` with term = c * rest and rational c; rest is 1 for a number."""
    if term.op == "num":
        return term["value"], ONE
    if term.op == "mul" and term.args[0].op == "num":
        return term.args[0]["value"], term.without_coefficient
    return _UNIT, term


def split_power(factor: Expr) -> tuple[Expr, Expr]:
    """`(base, exponent)` with factor = base ** exponent."""
    return (factor.args[0], factor.args[1]) if factor.op == "pow" else (factor, ONE)


def mul(*factors: Scalar) -> Expr:
    """The product, flattened, with rational constants and powers of equal bases collected."""
    powers: dict[Expr, list[Expr]] = {}
    constant = _UNIT  # itself, until there is another: fractions take long to multiply and to compare
    stack = [as_expr(f) for f in reversed(factors)]
    while stack:
        factor = stack.pop()
        if factor.op == "mul":
            stack.extend(reversed(factor.args))
        elif factor.op == "num":
            constant = factor["value"] if constant is _UNIT else constant * factor["value"]
        else:
            powers.setdefault(split_power(factor)[0], []).append(factor)
    if not constant:
        return ZERO
    parts: list[Expr] = []
    opened = False  # a merged power is of other bases, which may stand beside it: sqrt(x*y)**2 * x
    for base, same in powers.items():
        if len(same) == 1:
            parts += same
            continue
        coefficient, rest = split_coefficient(power(base, add(*(split_power(f)[1] for f in same))))
        opened = opened or rest.op == "mul" or split_power(rest)[0] not in (base, ONE)
        constant *= coefficient
        if rest is not ONE:
            parts.extend(rest.factors)
    if not parts:
        return num(constant)
    scaled = constant is not _UNIT and constant != 1
    if len(parts) == 1 and not scaled:
        return parts[0]
    if opened:
        return mul(num(constant), *parts)
    parts.sort(key=lambda e: e.order)
    return make("mul", *([num(constant)] if scaled else []), *parts)


def make_power(base: Expr, exponent: Expr) -> Expr:
    """`base ** exponent` as it stands; the base itself where the exponent is 1."""
    return base if exponent is ONE else make("pow", base, exponent)


_MOST_SPLIT = 64  # exponents up to which constants leave a power


def power(base: Scalar, exponent: Scalar) -> Expr:
    """The power; exact for rational constants, merged for nested integer exponents, without constant factors."""
    base, exponent = as_expr(base), as_expr(exponent)
    n = exponent.number
    if n is None:
        return ONE if base is ONE else make("pow", base, exponent)
    if n == 0:
        return ONE
    if n == 1 or base is ONE:
        return base
    value = base.number
    if value is not None and n.denominator == 1 and (value or n > 0) and _is_small_power(value, n):
        return num(value ** int(n))
    if value is not None and value > 0 and n.denominator == 2:
        roots = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if roots[0] ** 2 == value.numerator and roots[1] ** 2 == value.denominator:
            return power(num(Fraction(*roots)), num(2 * n))
    if n.denominator == 1:
        if base.op == "pow":
            return power(base.args[0], mul(base.args[1], exponent))
        if base.op == "mul" and abs(n) <= _MOST_SPLIT:
            constants = [a for a in base.args if not a.symbols]
            if constants and len(constants) < len(base.args):
                rest = mul(*(a for a in base.args if a.symbols))
                return mul(*(power(c, exponent) for c in constants), power(rest, exponent))
            factor, rest = split_coefficient(base)
            if factor != 1:
                return mul(power(num(factor), exponent), power(rest, exponent))
    if n.denominator == 2 and base.op == "mul" and all(map(_is_positive, base.args)):
        roots_of = [power(a, exponent) for a in base.args]
        exponents = (r.args[1].number for r in roots_of if r.op == "pow")
        if all(e is not None and e.denominator == 1 for e in exponents):
            return mul(*roots_of)
    inner = base.args[1].number if base.op == "pow" else None
    if inner is not None and _is_positive(base.args[0]):
        return power(base.args[0], num(inner * n))
    if inner is not None and inner.denominator == 1 and inner.numerator % 2 == 0:
        if inner * n == 1:
            return make("abs", base.args[0])
        if (inner * n).denominator == 1 and (inner * n) % 2 == 0:
            return power(base.args[0], num(inner * n))
    return make("pow", base, exponent)


def _is_positive(node: Expr) -> bool:
    """Whether a value is a positive constant, by its looks."""
    if node.op == "pow" and node.args[1].number is not None:
        return _is_positive(node.args[0])
    return (node.number or 0) > 0 or (node.op == "const" and node["name"] in ("pi", "E"))


def _is_small_power(value: Fraction, n: Fraction) -> bool:
    """Whether the exact power stays a number of reasonable length."""
    return abs(n) <= 1024 and max(value.numerator.bit_length(), value.denominator.bit_length()) * abs(n) <= 4096


def sqrt(base: Scalar) -> Expr:
    """The square root, as the power 1/2."""
    return power(base, HALF)
