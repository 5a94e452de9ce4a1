"""Machine-level expressions as Python source: tensor operations in torch, Python scalars in plain arithmetic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction

from symgrad.analysis.integers import is_integer, is_whole_tensor
from symgrad.ir import expr as ex
from symgrad.ir.expr import COMPARISONS, ONE, OO, ZERO, Expr
from symgrad.ir.traversal import topological
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import TENSOR_OPS, is_number
from symgrad.targets.constants import constant_name, constant_value, rational
from symgrad.targets.exactness import is_decimal, is_exact, is_power_of_two
from symgrad.targets.literals import quoted
from symgrad.targets.torch.dtypes import lender
from symgrad.targets.torch.fusions import SPELLING
from symgrad.targets.torch.operations import print_operation, print_shape

# Binding strength of Python's operators, weakest first.
_CONDITIONAL, _OR, _XOR, _AND, _COMPARE, _BIT_OR, _BIT_AND, _SUM, _PRODUCT, _UNARY, _POWER, ATOM = range(12)

INFIX = {
    "add": ("+", _SUM),
    "sub": ("-", _SUM),
    "mul": ("*", _PRODUCT),
    "div": ("/", _PRODUCT),
    "matmul": ("@", _PRODUCT),
}
_DEFAULT_DTYPE = "torch.get_default_dtype()"


class Printer:
    """Prints expressions; `names` gives the Python names of symbols and of values computed before.

    Constants that are not plain numbers are collected in `constants`, to be defined once; `shapes` and `dtypes` are
    source of the shapes and dtypes of values that are not in scope themselves.
    """

    def __init__(
        self,
        names: Mapping[Expr, str],
        constants: dict[Expr, str] | None = None,
        shapes: Mapping[Expr, str] | None = None,
        dtypes: Mapping[Expr, str] | None = None,
    ) -> None:
        self.names = names
        self.shapes = shapes or {}
        self.dtypes = dtypes or {}
        self.constants = constants if constants is not None else {}
        self.used: Counter[Expr] = Counter()  # how often each name was printed

    def __call__(self, node: Expr) -> str:
        """The source of an expression."""
        return self._at(node, _CONDITIONAL)

    def atom(self, node: Expr) -> str:
        """Source to which a method call or an index can be appended."""
        return self._at(node, ATOM)

    def anew(self, names: Mapping[Expr, str]) -> Printer:
        """A printer in a scope of its own, which owns none of the values that may be overwritten here."""
        return Printer(names, self.constants)

    def local(self, name: str) -> str:
        """The local name of the symbol that the spec calls `name`."""
        return next(text for symbol, text in self.names.items() if symbol.op == "sym" and symbol.name == name)

    def shape(self, like: Expr) -> str:
        """Source of the shape of a value."""
        return print_shape(self, like)

    def tensor(self, value: Expr, like: Expr) -> str:
        """Source of `value` as a tensor, also where it is a Python scalar."""
        return self.atom(value)

    def _at(self, node: Expr, strength: int) -> str:
        """Source that can stand as an operand of an operator of the given strength."""
        text, own = self._print(node)
        return text if own >= strength else f"({text})"

    def _print(self, node: Expr) -> tuple[str, int]:
        if node in self.names:
            self.used[node] += 1
            return self.names[node], ATOM
        if node.op == "num":
            return self._number(node["value"])
        if node.op == "text":
            return quoted(node["value"]), ATOM
        if node.op in ("true", "false"):
            return node.op.capitalize(), ATOM
        if not node.symbols:
            return self._constant(node)
        return self._scalar(node) if is_number(node) and node.op != "count" else self._tensor(node)

    # ------------------------------------------------------------------------------------------ tensors
    def _tensor(self, node: Expr) -> tuple[str, int]:
        special = _TENSOR.get(node.op)
        if special is not None:
            return special(self, node)
        if node.op in INFIX:
            return self._infix(node)
        if node.op in COMPARISONS:
            return self._comparison(node)
        if node.op in TENSOR_OPS:
            return self._tensor_operation(node)
        if node.op in SPELLING:
            return SPELLING[node.op].format(*(self._at(a, _CONDITIONAL) for a in node.args)), ATOM
        row = FUNCTIONS[node.op]
        arguments = [self._at(a, _CONDITIONAL) for a in node.args]
        numbers = [is_number(a) for a in node.args]
        # Of integers torch makes floats of the default dtype, but not in every function; a number beside them is one.
        whole = row.name != "heaviside" and all(n or is_integer(a) for n, a in zip(numbers, node.args, strict=True))
        if row.tensor_args:
            like = self._lender(node.args[numbers.index(False)])
            dtype = f", dtype={_DEFAULT_DTYPE}" if whole else ""
            arguments = [
                f"{like}.new_full((), {text}{dtype})" if number else text
                for number, text in zip(numbers, arguments, strict=True)
            ]
        if row.of_floats and whole and not (row.tensor_args and any(numbers)):
            arguments[0] = f"{self._at(node.args[0], ATOM)}.to({_DEFAULT_DTYPE})"
        return row.torch.format(*arguments), ATOM

    def _lender(self, value: Expr) -> str:
        """A tensor of the value's dtype and device for a number beside it: one with a name, which costs nothing."""
        floats = (n for n in topological(value, leaves=self.names.keys()) if n in self.names and not n.is_static)
        named = [n for n in floats if not n.is_boolean and n.get("kind") != "int_tensor"]
        return self._at(value if len(named) != 1 else named[0], ATOM)

    def _infix(self, node: Expr) -> tuple[str, int]:
        symbol, strength = INFIX[node.op]
        left, right = node.args
        if node.op == "mul" and _is_name(left) and _is_name(right):
            left, right = sorted(node.args, key=lambda a: a.order)
        free = is_power_of_two(left) and not _mixes(right) if node.op == "mul" else node.op == "add"
        loose = right in self.names or free
        closed = strength if loose and node.op in ("mul", "add") else strength + 1
        return f"{self._at(left, strength)} {symbol} {self._at(right, closed)}", strength

    def _comparison(self, node: Expr) -> tuple[str, int]:
        left, right = (self._at(a, _BIT_OR) for a in node.args)
        return f"{left} {COMPARISONS[node.op]} {right}", _COMPARE

    def _logical(self, node: Expr) -> tuple[str, int]:
        symbol, strength = {"and": ("&", _BIT_AND), "or": ("|", _BIT_OR)}[node.op]
        return f" {symbol} ".join(self._at(a, strength + 1) for a in node.args), strength

    def _not(self, node: Expr) -> tuple[str, int]:
        return f"~{self._at(node.args[0], _UNARY)}", _UNARY

    def _neg(self, node: Expr) -> tuple[str, int]:
        return f"-{self._at(node.args[0], _UNARY)}", _UNARY

    def _where(self, node: Expr) -> tuple[str, int]:
        condition, then, otherwise = node.args
        if condition.is_static:
            return self._conditional(node)
        if is_number(then) and is_number(otherwise) and not node.is_boolean:
            return self._choice_of_numbers(condition, then, otherwise), ATOM
        return f"torch.where({', '.join(self(a) for a in node.args)})", ATOM

    def _choice_of_numbers(self, condition: Expr, then: Expr, otherwise: Expr) -> str:
        """A choice between two numbers, in the dtype of a tensor of floats."""
        like, dtype = self._lent_dtype(condition)
        if dtype is None:
            return f"torch.where({self(condition)}, {self(then)}, {self(otherwise)})"
        if (then, otherwise) == (ONE, ZERO):
            return f"{self._at(condition, ATOM)}.to({dtype})"
        if like is not None and like in (self.names.get(s, s.name) for s in _broadcast_from(condition)):
            filled = f"torch.full_like({like}, {self(then)})"
        elif is_exact(then) and is_exact(otherwise):
            return f"torch.where({self(condition)}, {self(then)}, {self(otherwise)}).to({dtype})"
        elif like is not None:
            filled = f"{like}.new_full((), {self(then)})"
        else:
            there = next(self.names[n] for n in topological(condition) if n.tensors and n in self.names)
            filled = f"torch.full((), {self(then)}, dtype={dtype}, device={there}.device)"
        return f"torch.where({self(condition)}, {filled}, {self(otherwise)})"

    def _conditional(self, node: Expr) -> tuple[str, int]:
        """A Python choice; a number beside a tensor becomes a tensor of its shape."""
        condition, then, otherwise = node.args
        if not node.is_static:
            then_text, otherwise_text = self._filled(then, otherwise), self._filled(otherwise, then)
        else:
            then_text, otherwise_text = self._at(then, _OR), self._at(otherwise, _CONDITIONAL)
        return f"{then_text} if {self._at(condition, _OR)} else {otherwise_text}", _CONDITIONAL

    def _filled(self, branch: Expr, other: Expr) -> str:
        """A branch; where it is a number, that number in the shape of the other branch."""
        if not branch.is_static:
            return self._at(branch, _OR)
        read = _broadcast_from(other)
        differential = [s for s in other.tensors if s.is_differential]
        named = [s for s in differential or other.tensors if s in read and s in self.names]
        like = self.names[min(named, key=lambda s: s.name)] if named else self(other)
        return f"torch.zeros_like({like})" if branch is ZERO else f"torch.full_like({like}, {self(branch)})"

    def _lent_dtype(self, condition: Expr) -> tuple[str | None, str | None]:
        """The tensor that decides the dtype of a choice between two numbers, if it is there, and that dtype as source.

        It is one of the condition, else any; of cotangents and tangents only those that are surely there have a known
        shape. Where there is no floating-point tensor torch decides: then both are None.
        """
        floats = [s for s in self.names if s.op == "sym" and s["kind"] == "tensor"]
        own = [s for s in floats if s in condition.tensors]
        differential = [s for s in self.shapes if s.op == "sym" and s.is_differential and s in self.names]
        first = lender(own or floats or differential)
        if first is not None:
            self.used[first] += 1
            return self.names[first], f"{self.names[first]}.dtype"
        kept = lender([s for s in self.dtypes if s in condition.tensors] or self.dtypes)
        return None, self.dtypes[kept] if kept is not None else None

    def _pow(self, node: Expr) -> tuple[str, int]:
        base, exponent = node.args
        n = exponent.number
        if n == 2:
            text = self._at(base, _PRODUCT)
            return (f"{text} * {text}", _PRODUCT) if text.isidentifier() else (f"torch.square({self(base)})", ATOM)
        if n == Fraction(1, 2):
            return f"torch.sqrt({self(base)})", ATOM
        if n == Fraction(-1, 2):
            return f"torch.rsqrt({self(base)})", ATOM
        return f"{self._at(base, ATOM)} ** {self._at(exponent, _UNARY)}", _POWER

    def _clamp(self, node: Expr) -> tuple[str, int]:
        x, low, high = node.args
        bounds = {name: b for name, b, none in (("min", low, -OO), ("max", high, OO)) if b is not none}
        text = self(x)
        if x.is_static:
            like = next(b for b in bounds.values() if not b.is_static)
            text = f"{self._at(like, ATOM)}.new_full((), {text})"
        if len({b.is_static for b in bounds.values()}) > 1:  # torch wants two numbers or two tensors
            text = text if x.is_static else self._at(x, ATOM)
            for name, bound in bounds.items():
                text = f"{text}.clamp({name}={self(bound)})"
            return text, ATOM
        if not bounds:
            return f"torch.clone({text})", ATOM
        return f"torch.clamp({', '.join([text, *(f'{name}={self(bound)}' for name, bound in bounds.items())])})", ATOM

    def _extremum(self, node: Expr) -> tuple[str, int]:
        static = [a for a in node.args if a.is_static]
        if not static:
            return f"torch.{node.op}({', '.join(self(a) for a in node.args)})", ATOM
        (tensor,) = (a for a in node.args if not a.is_static)
        keyword = "min" if node.op == "maximum" else "max"
        return f"torch.clamp({self(tensor)}, {keyword}={self(static[0])})", ATOM

    def _tensor_operation(self, node: Expr) -> tuple[str, int]:
        text = print_operation(self, node)
        # The one that is a product of its own where the operands are matrices, and the call of a helper otherwise.
        return text, _PRODUCT if node.op == "matmul_right" and not text.startswith("rt.matmul_right(") else ATOM

    # ------------------------------------------------------------------------------------------ Python scalars
    def _scalar(self, node: Expr) -> tuple[str, int]:
        """Python arithmetic on hyperparameters; sums and products of any length."""
        if node.op == "where":
            return self._conditional(node)
        if node.op in COMPARISONS:
            left, right = (self._at(a, _BIT_OR) for a in node.args)
            return f"{left} {COMPARISONS[node.op]} {right}", _COMPARE
        if node.op in ("and", "or"):
            strength = _AND if node.op == "and" else _OR
            return f" {node.op} ".join(self._at(a, strength + 1) for a in node.args), strength
        if node.op == "not":
            return f"not {self._at(node.args[0], _COMPARE)}", _AND
        if node.op == "add":
            return self._scalar_sum(node)
        if node.op == "mul":
            return self._scalar_product(node)
        if node.op == "pow":
            return self._scalar_power(node)
        if node.op == "div" and _has_size(node.args[1]):
            return self._size_quotient(*(self._at(a, _CONDITIONAL) for a in node.args))
        if node.op in ("sub", "div"):  # of sizes, which are lowered like tensors
            return self._infix(node)
        if node.op == "neg":
            return self._neg(node)
        python = FUNCTIONS[node.op].python
        if node.op == "log" and _has_size(node):
            python = "rt.log_of_size({0})"
        return python.format(*(self._at(a, _CONDITIONAL) for a in node.args)), ATOM

    def _size_quotient(self, over: str, under: str) -> tuple[str, int]:
        """A quotient of Python numbers by a size, which may be 0."""
        return f"rt.size_quotient({over}, {under})", ATOM

    def _scalar_sum(self, node: Expr) -> tuple[str, int]:
        text = self._at(node.args[0], _SUM)
        for term in node.args[1:]:
            printed = self._at(term, _PRODUCT)
            text += f" - {printed[1:]}" if printed.startswith("-") else f" + {printed}"
        return text, _SUM

    def _scalar_product(self, node: Expr) -> tuple[str, int]:
        over: list[str] = []
        under: list[str] = []
        sign = ""
        for factor in node.args:
            value, exponent = factor.number, factor.args[1].number if factor.op == "pow" else None
            if value is not None:
                sign = "-" if value < 0 else ""
                if abs(value.numerator) != 1:
                    over.append(str(abs(value.numerator)))
                if value.denominator != 1:
                    under.append(str(value.denominator))
            elif exponent is not None and exponent < 0:
                inverse = factor.args[0] if exponent == -1 else None
                under.append(self._at(inverse, _UNARY) if inverse else self._inverse_power(factor))
            else:
                over.append(self._at(factor, _UNARY))
        text = " * ".join(over) or "1"
        if under:
            text += " / " + (under[0] if len(under) == 1 else f"({' * '.join(under)})")
        return sign + text, _PRODUCT

    def _inverse_power(self, factor: Expr) -> str:
        base, exponent = factor.args
        assert exponent.number is not None
        return f"{self._at(base, ATOM)} ** {self._at(ex.num(-exponent.number), _UNARY)}"

    def _scalar_power(self, node: Expr) -> tuple[str, int]:
        base, exponent = node.args
        if exponent.number == Fraction(1, 2):
            return f"math.sqrt({self(base)})", ATOM
        if exponent.number is not None and exponent.number < 0:
            if _has_size(base):
                return self._size_quotient("1", self(base) if exponent.number == -1 else self._inverse_power(node))
            return (
                f"1 / {self._inverse_power(node) if exponent.number != -1 else self._at(base, _UNARY)}",
                _PRODUCT,
            )
        return f"{self._at(base, ATOM)} ** {self._at(exponent, _UNARY)}", _POWER

    def _number(self, value: Fraction) -> tuple[str, int]:
        if not is_decimal(value.denominator):
            return rational(value), _PRODUCT
        return rational(value), ATOM if value >= 0 else _UNARY

    def _constant(self, node: Expr) -> tuple[str, int]:
        """A constant expression: pi and the like by name, others defined once at the top of the module."""
        if node.op == "const" and node["name"] in _CONSTANTS:
            return _CONSTANTS[node["name"]], ATOM
        value = constant_value(node)
        if value is None:  # beyond every float: Python says so, or overflows as it should
            return self._scalar(node)
        if value == int(value) and abs(value) < 1e6:
            return str(int(value)), ATOM if value >= 0 else _UNARY
        if value < 0:
            positive, strength = self._constant(-node)
            return f"-{positive}", _UNARY if strength >= _UNARY else _SUM
        if node not in self.constants:
            self.constants[node] = constant_name(node, self.constants.values())
        return self.constants[node], ATOM


_CONSTANTS = {"pi": "math.pi", "E": "math.e", "oo": "math.inf", "nan": "math.nan"}


def _has_size(number: Expr) -> bool:
    return number.op != "maximum" and any(n.op == "count" for n in topological(number))  # a least size is none of 0


def _mixes(product: Expr) -> bool:
    """Whether whole numbers meet floats in a product: of the numbers alone a fraction makes floats of another dtype."""
    return product.op == "mul" and len({is_whole_tensor(a) for a in product.args}) > 1


def _is_name(node: Expr) -> bool:
    return node.op == "sym" and not node.is_differential


def _broadcast_from(root: Expr) -> set[Expr]:
    """The symbols that broadcast to the shape of a value: those that no tensor operation reads before."""
    found, pending = set(), [root]
    while pending:
        node = pending.pop()
        if node.op == "sym":
            found.add(node)
        elif node.op not in TENSOR_OPS:
            pending += node.args
    return found


_TENSOR: dict[str, Callable[[Printer, Expr], tuple[str, int]]] = {
    "neg": Printer._neg,
    "not": Printer._not,
    "and": Printer._logical,
    "or": Printer._logical,
    "where": Printer._where,
    "pow": Printer._pow,
    "clamp": Printer._clamp,
    "maximum": Printer._extremum,
    "minimum": Printer._extremum,
}
