"""Machine forms as Python source over arrays: operations in the words of a framework, Python scalars in arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from symgrad.analysis.integers import is_integer
from symgrad.ir import expr as ex
from symgrad.ir.expr import COMPARISONS, OO, Expr, split_coefficient
from symgrad.ir.traversal import topological
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import TENSOR_OPS, Ref, is_number, shape_only
from symgrad.ops.tensors.extent import extent
from symgrad.ops.tensors.shapes import shape_sources
from symgrad.targets.arrays.source import Line
from symgrad.targets.arrays.spelling import Spelling, modules
from symgrad.targets.constants import constant_name, constant_value, rational
from symgrad.targets.exactness import is_decimal
from symgrad.targets.literals import quoted

__all__ = ["Printer"]

# Binding strength of Python's operators, weakest first.
_CONDITIONAL, _OR, _AND, _COMPARE, _BIT_OR, _BIT_AND, _SUM, _PRODUCT, _UNARY, _POWER, _ATOM = range(11)

_INFIX = {
    "add": ("+", _SUM),
    "sub": ("-", _SUM),
    "mul": ("*", _PRODUCT),
    "div": ("/", _PRODUCT),
    "matmul": ("@", _PRODUCT),
}
_NAMED = {"pi": "math.pi", "E": "math.e", "oo": "math.inf", "nan": "math.nan"}


class Printer:
    """Prints expressions; `names` are the Python names of symbols and of values computed before.

    `absent` are the conditions that an optional tensor was not given. Constants that are no plain numbers are
    collected in `constants`, to be defined once. What is printed may be `differentiated` again, by the framework.
    `reads` collects the names and modules in what was printed.
    """

    def __init__(
        self,
        spelling: Spelling,
        names: Mapping[Expr, str],
        constants: dict[Expr, str],
        *,
        absent: Mapping[Expr, str],
        differentiated: bool = False,
    ) -> None:
        self.names = names
        self.reads: set[str] = set()
        self._spelling = spelling
        self._constants = constants
        self._absent = absent
        self._functions = {**spelling.functions, **(spelling.differentiated if differentiated else {})}

    def __call__(self, node: Expr) -> str:
        """The source of an expression."""
        return self._at(node, _CONDITIONAL)

    def shape(self, like: Expr) -> str:
        """Source of the shape of a value: of the value itself, or of what it broadcasts from."""
        sources = self._shaped_like(like)
        if len(sources) == 1:
            return f"{self._at(sources[0], _ATOM)}.shape"
        return self._module(f"rt.shape_of({', '.join(map(self, sources))})") if sources else "()"

    def _shaped_like(self, like: Expr) -> list[Expr]:
        """The values that a value has its shape from: itself alone, if it has a name."""
        return [like] if like in self.names else sorted(shape_sources(like), key=lambda s: s.order)

    def line(self, template: str, value: Expr, *more: str) -> Line:
        """The template with its `{value}`, or the value as an `{atom}`; it reads `more`, too."""
        self.reads = set(more)
        text = template.format(value=self(value), atom=self._at(value, _ATOM))
        return Line(text, frozenset(self.reads))

    def _named(self, node: Expr) -> str:
        self.reads.add(self.names[node])
        return self.names[node]

    def _module(self, text: str) -> str:
        """Source that begins with the name of a module."""
        self.reads.add(text.partition(".")[0])
        return text

    def _spelled(self, spelling: str, *operands: str, **more: str) -> str:
        self.reads |= modules(spelling)
        return spelling.format(*operands, **more)

    def _at(self, node: Expr, strength: int) -> str:
        """Source that can stand as an operand of an operator of the given strength."""
        text, own = self._print(node)
        return text if own >= strength else f"({text})"

    def _print(self, node: Expr) -> tuple[str, int]:
        if node in self.names:
            return self._named(node), _ATOM
        if node in self._absent:
            self.reads.add(self._absent[node])
            return f"{self._absent[node]} is None", _COMPARE
        if node.op == "num":
            return self._number(node["value"])
        if node.op == "text":
            return quoted(node["value"]), _ATOM
        if node.op in ("true", "false"):
            return node.op.capitalize(), _ATOM
        if not node.symbols:
            return self._constant(node)
        if node.op == "count":
            return self._count(node)
        return self._scalar(node) if is_number(node) else self._array(node)

    # ------------------------------------------------------------------------------------------ arrays
    def _array(self, node: Expr) -> tuple[str, int]:
        if node.op in _INFIX:
            return self._infix(node)
        if node.op in COMPARISONS:
            left, right = (self._at(a, _BIT_OR) for a in node.args)
            return f"{left} {COMPARISONS[node.op]} {right}", _COMPARE
        if node.op in ("and", "or"):
            symbol, strength = {"and": ("&", _BIT_AND), "or": ("|", _BIT_OR)}[node.op]
            return f" {symbol} ".join(self._at(a, strength + 1) for a in node.args), strength
        if node.op == "not":
            return f"~{self._at(node.args[0], _UNARY)}", _UNARY
        if node.op == "neg":
            return f"-{self._at(node.args[0], _UNARY)}", _UNARY
        if node.op == "where":
            return self._where(node)
        if node.op == "pow":
            return self._pow(node)
        if node.op in ("held", "floated", "boundary"):
            return self._print(node.args[0])
        if node.op in TENSOR_OPS:
            return self._operation(node), _ATOM
        if node.op == "clamp":
            return self._clamp(node), _ATOM
        return self._spelled(self._functions[node.op], *map(self, node.args)), _ATOM

    def _infix(self, node: Expr) -> tuple[str, int]:
        symbol, strength = _INFIX[node.op]
        left, right = node.args
        closed = strength if node.op in ("mul", "add") and right in self.names else strength + 1
        return f"{self._at(left, strength)} {symbol} {self._at(right, closed)}", strength

    def _where(self, node: Expr) -> tuple[str, int]:
        condition, then, otherwise = node.args
        if condition.is_static:
            branches = [self._filled(a, b) for a, b in ((then, otherwise), (otherwise, then))]
            return f"{branches[0]} if {self._at(condition, _OR)} else {branches[1]}", _CONDITIONAL
        plain = node.is_boolean or is_integer(node)
        branches = [self(a) if plain else self._as_float(a) for a in (then, otherwise)]
        return self._of_arrays(f"where({self(condition)}, {', '.join(branches)})"), _ATOM

    def _of_arrays(self, call: str) -> str:
        """A call of a function of the module of arrays."""
        return self._module(f"{self._spelling.arrays}.{call}")

    def _filled(self, branch: Expr, other: Expr) -> str:
        """A branch of a Python choice; a number has the shape of the other branch."""
        if not is_number(branch) or is_number(other):
            return self._at(branch, _OR)
        return self._of_arrays(f"full({self.shape(other)}, {self._as_float(branch)})")

    def _as_float(self, value: Expr) -> str:
        """A value; a whole number as a float, which it is in a choice."""
        text = self(value)
        if value.number is not None and value.number.denominator == 1:
            return f"{text}.0"
        return f"float({text})" if is_number(value) and _is_whole(value) else text

    def _pow(self, node: Expr) -> tuple[str, int]:
        base, exponent = node.args
        n = exponent.number
        if n == 2:
            if base in self.names:
                return f"{self._named(base)} * {self._named(base)}", _PRODUCT
            return self._of_arrays(f"square({self(base)})"), _ATOM
        if n == Fraction(1, 2):
            return self._of_arrays(f"sqrt({self(base)})"), _ATOM
        if n == Fraction(-1, 2):
            return self._spelled(self._functions["rsqrt"], self(base)), _ATOM
        return f"{self._at(base, _ATOM)} ** {self._at(exponent, _UNARY)}", _POWER

    def _clamp(self, node: Expr) -> str:
        x, low, high = node.args
        bounds = ["None" if b in (OO, -OO) else self(b) for b in (low, high)]
        return self._spelled(self._functions["clamp"], self(x), *bounds)

    def _operation(self, node: Expr) -> str:
        read = [a for k, a in enumerate(node.args) if k not in shape_only(node)]
        like = [a for k, a in enumerate(node.args) if k in shape_only(node)]
        own = self._spelling.operations[node.op]
        operands = [self._operand(a, _ATOM if own.startswith(f"{{{k}}}") else _CONDITIONAL) for k, a in enumerate(read)]
        if node.op == "expand" and is_number(node.args[0]):
            own = self._spelling.operations["fill"]
            operands = [operands[0] if node.args[0].is_boolean else self._as_float(node.args[0])]
        called, rows = self._spelling.attributes, TENSOR_OPS[node.op].attributes
        attributes = {a: (called.get(a.name, a.name), node.get(a.name, a.default)) for a in rows}
        given = (own for a, own in attributes.items() if a.required or own[1] != a.default)
        return self._spelled(
            own,
            *operands,
            all=", ".join(operands),
            rest=", ".join(operands[1:]),
            attributes="".join(f", {name}={self._attribute(value)}" for name, value in given),
            shape=self.shape(like[0]) if like else "",
            shapes=", ".join(map(self.shape, like)),
            **{name: self._attribute(value) for name, value in attributes.values()},
        )

    def _operand(self, node: Expr, strength: int) -> str:
        """An operand of an operation; a size is a whole number also where it is a part of another."""
        factor, rest = split_coefficient(node)
        if not is_number(node) or factor.denominator == 1:
            return self._at(node, strength)
        return f"{self._at(factor.numerator * rest, _ATOM)} // {factor.denominator}"

    def _attribute(self, value: object) -> str:
        """An attribute as source; a hyperparameter by its local name."""
        if isinstance(value, Ref):
            return self._named(next(s for s in self.names if s.op == "sym" and s.name == value.name))
        if isinstance(value, tuple):
            items = ", ".join(map(self._attribute, value))
            return f"({items},)" if len(value) == 1 else f"({items})"
        return quoted(value) if isinstance(value, str) else repr(value)

    def _count(self, node: Expr) -> tuple[str, int]:
        """A number of elements, which is a Python number."""
        like, dim = node.args[0], node["dim"]
        if dim is None:
            sources = self._shaped_like(like)
            if len(sources) == 1:
                return f"{self._at(sources[0], _ATOM)}.size", _ATOM
            return self._module(f"math.prod({self.shape(like)})"), _ATOM
        shape = self.shape(like)
        if extent(like).dims and not isinstance(dim, tuple):
            return f"{shape}[{self._attribute(dim)}]", _ATOM
        return self._module(f"rt.count({shape}, {self._attribute(dim)})"), _ATOM

    # ------------------------------------------------------------------------------------------ Python scalars
    def _scalar(self, node: Expr) -> tuple[str, int]:
        """Python arithmetic on hyperparameters and sizes; sums and products of any length."""
        own = _SCALAR.get(node.op)
        if own is not None:
            return own(self, node)
        if node.op in COMPARISONS:
            left, right = (self._at(a, _BIT_OR) for a in node.args)
            return f"{left} {COMPARISONS[node.op]} {right}", _COMPARE
        return self._spelled(FUNCTIONS[node.op].python, *map(self, node.args)), _ATOM

    def _scalar_choice(self, node: Expr) -> tuple[str, int]:
        condition, then, otherwise = node.args
        text = f"{self._at(then, _OR)} if {self._at(condition, _OR)} else {self._at(otherwise, _CONDITIONAL)}"
        return text, _CONDITIONAL

    def _scalar_logic(self, node: Expr) -> tuple[str, int]:
        if node.op == "not":
            return f"not {self._at(node.args[0], _COMPARE)}", _AND
        strength = _AND if node.op == "and" else _OR
        return f" {node.op} ".join(self._at(a, strength + 1) for a in node.args), strength

    def _scalar_sum(self, node: Expr) -> tuple[str, int]:
        text = self._at(node.args[0], _SUM)
        for term in node.args[1:]:
            negative = split_coefficient(term)[0] < 0
            text += f" {'-' if negative else '+'} {self._at(-term if negative else term, _PRODUCT)}"
        return text, _SUM

    def _scalar_product(self, node: Expr) -> tuple[str, int]:
        """Factors over divisors; sizes may be 0, and then a quotient is infinite as it is in arrays."""
        over: list[str] = []
        under: list[Expr] = []
        sign = ""
        for factor in node.args:
            value, exponent = factor.number, factor.args[1].number if factor.op == "pow" else None
            if value is not None:
                sign = "-" if value < 0 else ""
                over += [str(abs(value.numerator))] if abs(value.numerator) != 1 else []
                under += [ex.num(value.denominator)] if value.denominator != 1 else []
            elif exponent is not None and exponent < 0:
                under.append(ex.make_power(factor.args[0], ex.num(-exponent)))
            else:
                over.append(self._at(factor, _UNARY))
        text = sign + (" * ".join(over) or "1")
        if not under:
            return text, _PRODUCT
        return self._quotient(text, under)

    def _quotient(self, over: str, under: list[Expr]) -> tuple[str, int]:
        if any(map(_has_size, under)):
            product = " * ".join(self._at(u, _UNARY) for u in under)
            return self._module(f"rt.quotient({over}, {product})"), _ATOM
        texts = [self._at(u, _UNARY) for u in under]
        return f"{over} / {texts[0]}" if len(texts) == 1 else f"{over} / ({' * '.join(texts)})", _PRODUCT

    def _scalar_division(self, node: Expr) -> tuple[str, int]:
        return self._quotient(self._at(node.args[0], _PRODUCT), [node.args[1]])

    def _scalar_power(self, node: Expr) -> tuple[str, int]:
        base, exponent = node.args
        if exponent.number == Fraction(1, 2):
            return self._module(f"math.sqrt({self(base)})"), _ATOM
        if exponent.number is not None and exponent.number < 0:
            return self._quotient("1", [ex.make_power(base, ex.num(-exponent.number))])
        return f"{self._at(base, _ATOM)} ** {self._at(exponent, _UNARY)}", _POWER

    def _number(self, value: Fraction) -> tuple[str, int]:
        if not is_decimal(value.denominator):
            return rational(value), _PRODUCT
        return rational(value), _ATOM if value >= 0 else _UNARY

    def _constant(self, node: Expr) -> tuple[str, int]:
        """A constant expression: pi and the like by name, others defined once at the top of the module."""
        if node.op == "const":
            return self._module(_NAMED[node["name"]]), _ATOM
        value = constant_value(node)
        if value is None:  # beyond every float
            return self._scalar(node)
        if value == int(value) and abs(value) < 1e6:
            return str(int(value)), _ATOM if value >= 0 else _UNARY
        if value < 0:
            positive, strength = self._constant(-node)
            return f"-{positive}", _UNARY if strength >= _UNARY else _SUM
        if node not in self._constants:
            self._constants[node] = constant_name(node, self._constants.values())
        return self._constants[node], _ATOM


def _has_size(number: Expr) -> bool:
    return any(n.op == "count" for n in topological(number))


def _is_whole(number: Expr) -> bool:
    """Whether a Python number is perhaps an int."""
    return number.op == "count" or (number.op == "sym" and number["kind"] in ("int", "bool"))


_SCALAR: dict[str, Callable[[Printer, Expr], tuple[str, int]]] = {
    "where": Printer._scalar_choice,
    "and": Printer._scalar_logic,
    "or": Printer._scalar_logic,
    "not": Printer._scalar_logic,
    "add": Printer._scalar_sum,
    "mul": Printer._scalar_product,
    "pow": Printer._scalar_power,
    "sub": Printer._infix,
    "div": Printer._scalar_division,
    "neg": lambda printer, node: (f"-{printer._at(node.args[0], _UNARY)}", _UNARY),
}
