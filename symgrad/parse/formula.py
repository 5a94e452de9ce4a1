"""An expression as the text of a formula, as a person would write it.

`parse_expression(formula(e), e.symbols)` is `e` again for every expression that the language can write. What
only the compiler writes (`expand`, machine operations) is shown in the same style.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from symgrad.ir.expr import COMPARISONS, HALF, ONE, OO, Expr, num, power, split_coefficient
from symgrad.ir.traversal import topological
from symgrad.ops.tensors import TENSOR_OPS, TensorOp

__all__ = ["formula", "whole_formula"]

_MAX_LENGTH = 20_000  # of a text; a longer part is shown as "..."
_SHORT, _LONG = 12, 40  # digits of a decimal that is preferred to a fraction; of one that is if it is shorter
_ZEROS = 9  # of a whole number that is written with an exponent where it has more

# How tightly a text binds, from the loosest to the tightest.
_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = range(9)


class _Text(NamedTuple):
    text: str
    binding: int

    def within(self, least: int) -> str:
        """The text where something of at least this binding is needed."""
        return self.text if self.binding >= least else f"({self.text})"


Known = Mapping[Expr, _Text]
_TOO_LONG = _Text("...", _ATOM)


def formula(expr: Expr) -> str:
    """The expression in the language of specs, with no more parentheses than it takes."""
    return formulas(expr)[expr]


def whole_formula(expr: Expr, declared: Iterable[str] = ()) -> str | None:
    """The formula where these names are declared too, None where a part of it is too long to be shown."""
    texts = _texts(expr, declared=declared)
    return None if any(text is _TOO_LONG for text in texts.values()) else texts[expr].text


def formulas(*roots: Expr) -> dict[Expr, str]:
    """The formula of every expression below the roots."""
    return {node: text.text for node, text in _texts(*roots).items()}


def _texts(*roots: Expr, declared: Iterable[str] = ()) -> dict[Expr, _Text]:
    known: dict[Expr, _Text] = {}
    nodes = topological(*roots)
    symbols = [node for node in nodes if node.op == "sym"]
    taken = {*declared, *(s.name for s in symbols), *(dim for s in symbols for dim in s.get("shape") or ())}
    for node in nodes:
        hidden = node.op == "const" and node.name in taken
        text = _Text(f"sympy.{node.name}", _ATOM) if hidden else _WRITE.get(node.op, _application)(node, known)
        known[node] = text if len(text.text) <= _MAX_LENGTH else _TOO_LONG
    return known


# ------------------------------------------------------------------------------------------------ leaves
def _number(node: Expr, known: Known) -> _Text:
    return _product_of(node["value"], (), known)


def _string(value: str) -> str:
    quote = '"' if "'" in value else "'"
    return f"{quote}{value}{quote}"


# ------------------------------------------------------------------------------------------------ arithmetic
def _sum(node: Expr, known: Known) -> _Text:
    parts: list[str] = []
    for term in node.args:
        factor, rest = split_coefficient(term)
        sign = "-" if factor < 0 else "+"
        text = _product_of(abs(factor), _factors(rest), known).within(_PRODUCT)
        parts.append(f" {sign} {text}" if parts else f"{'-' if factor < 0 else ''}{text}")
    return _Text("".join(parts), _SUM)


def _factors(expr: Expr) -> tuple[Expr, ...]:
    if expr is ONE:
        return ()
    return expr.factors


def _product(node: Expr, known: Known) -> _Text:
    factor, rest = split_coefficient(node)
    return _product_of(factor, _factors(rest), known)


def _product_of(factor: Fraction, factors: Iterable[Expr], known: Known) -> _Text:
    """A rational times some factors, those with a negative power below the line."""
    above: list[_Text] = []
    below: list[_Text] = []
    for part in factors:
        exponent = part.args[1].number if part.op == "pow" else None
        if exponent is not None and exponent < 0 and 1 / power(part.args[0], -exponent) is part:
            below.append(_raised(part.args[0], num(-exponent), known))
        elif part.op == "pow":
            above.append(_raised(part.args[0], part.args[1], known))
        else:
            above.append(known[part])
    number, divisor = _over(abs(factor), bool(above))
    if number is not None:
        above.insert(0, number)
    sign = "-" if factor < 0 else ""
    if len(above) + len(below) == 1 and above and divisor == 1:
        alone = above[0]
        if not sign:
            return alone
        return _Text(sign + alone.within(_PRODUCT), _SIGN if alone.binding >= _POWER else _PRODUCT)
    return _Text(sign + _fraction(above, below, divisor), _PRODUCT)


def _fraction(above: Sequence[_Text], below: Sequence[_Text], divisor: int) -> str:
    # The first operand may be a product itself; the ones after a sign may not.
    texts = [part.within(_SIGN if i else _PRODUCT) for i, part in enumerate(above)] or ["1"]
    top = " * ".join(texts)
    if divisor == 1:
        return "".join([top, *(f" / {part.within(_SIGN)}" for part in below)])
    if not below:
        return f"{top} / {divisor}" if above[0].text != "1" or len(above) > 1 else f"{top}/{divisor}"
    if len(below) == 1:
        return f"{top} / ({divisor} * {below[0].within(_PRODUCT)})"
    return "".join([f"{top} / {divisor}", *(f" / {part.within(_SIGN)}" for part in below)])


def _over(value: Fraction, others: bool) -> tuple[_Text | None, int]:
    """A positive rational as a factor and a divisor: 1/2 divides by 2, 0.044715 is a decimal, 2/3 is both."""
    decimal = _decimal(value)
    whole = value.denominator == 1
    if decimal is not None and (whole or value.numerator != 1 or value.denominator > 9):
        return (None if value == 1 and others else _Text(decimal, _ATOM)), 1
    factor = None if value.numerator == 1 and others else _Text(str(value.numerator), _ATOM)
    return factor, value.denominator


def _decimal(value: Fraction) -> str | None:
    """The exact decimal, or None where a fraction is shorter."""
    if value.denominator == 1:
        return _whole(str(value.numerator))
    longest = _SHORT if len(str(value)) <= _LONG else _LONG
    for digits in range(1, longest + 1):
        scaled = value * 10**digits
        if scaled.denominator == 1:
            whole, part = divmod(scaled.numerator, 10**digits)
            text = f"{part:0{digits}}"
            return f"{part}e-{digits}" if not whole and text.startswith("000") else f"{whole}.{text}"
    return None


def _whole(text: str) -> str:
    digits = text.rstrip("0")
    if len(text) <= len(digits) + _ZEROS:
        return text
    point = "." if len(digits) > 1 else ""
    return f"{digits[0]}{point}{digits[1:]}e{len(text) - 1}"


def _power(node: Expr, known: Known) -> _Text:
    return _product_of(Fraction(1), (node,), known)


def _raised(base: Expr, exponent: Expr, known: Known) -> _Text:
    if exponent is ONE:
        return known[base]
    if exponent is HALF:
        return _Text(f"sqrt({known[base].text})", _ATOM)
    over = known[exponent] if exponent in known else _number(exponent, known)
    return _Text(f"{known[base].within(_ATOM)}**{over.within(_ATOM)}", _POWER)


# ------------------------------------------------------------------------------------------ truth values
def _comparison(node: Expr, known: Known) -> _Text:
    left, right = (known[side].within(_SUM) for side in node.args)
    return _Text(f"{left} {COMPARISONS[node.op]} {right}", _COMPARE)


def _logical(word: str, binding: int) -> Callable[[Expr, Known], _Text]:
    def write(node: Expr, known: Known) -> _Text:
        return _Text(f" {word} ".join(known[arg].within(binding + 1) for arg in node.args), binding)

    return write


def _infix(sign: str, binding: int) -> Callable[[Expr, Known], _Text]:
    """An operation of two operands that binds to the left."""

    def write(node: Expr, known: Known) -> _Text:
        left, right = node.args
        return _Text(f"{known[left].within(binding)} {sign} {known[right].within(binding + 1)}", binding)

    return write


# ------------------------------------------------------------------------------------------------ functions
def _application(node: Expr, known: Known) -> _Text:
    """``name(operands, attribute=value)``; attributes that have their defaults are not shown."""
    field = _FIELDS.get(node.op)
    row = field[0] if field else TENSOR_OPS.get(node.op)
    if row is not None and row.method:
        return _Text(f"{known[node.args[0]].within(_ATOM)}.{row.method}", _ATOM)
    operands = [known[arg].text for arg in node.args]
    leading, attributes = _attributes(node, row)
    call = f"{row.name if row else node.op}({', '.join([*leading, *operands, *attributes])})"
    return _Text(f"{call}.{field[1]}" if field else call, _ATOM)


def _attributes(node: Expr, row: TensorOp | None) -> tuple[list[str], list[str]]:
    """The attributes that stand before the operands, such as an equation, and those after."""
    leading: list[str] = []
    named: list[str] = []
    declared = {attribute.name: attribute for attribute in row.attributes} if row else {}
    order = list(declared)
    for name, value in sorted(node.attrs, key=lambda item: order.index(item[0]) if item[0] in order else -1):
        attribute = declared.get(name)
        if attribute is not None and attribute.required and attribute.kind == "text":
            leading.append(_value(value))
        elif attribute is None or attribute.required or value != attribute.default:
            named.append(f"{name}={_value(value)}")
    return leading, named


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Expr):
        return formula(value)
    return _string(value) if isinstance(value, str) else repr(value)


def _clamp(node: Expr, known: Known) -> _Text:
    """A bound at infinity is no bound."""
    x, low, high = node.args
    if low is not -OO and high is not OO:
        return _application(node, known)
    bounds = [("min", low)] * (low is not -OO) + [("max", high)] * (high is not OO)
    texts = [known[x].text, *(f"{name}={known[bound].text}" for name, bound in bounds)]
    return _Text(f"clamp({', '.join(texts)})", _ATOM)


def _unsqueeze(node: Expr, known: Known) -> _Text:
    """As an index: ``bias[..., None, None]``."""
    dims = node["dim"]
    index = ["None" if place in dims else ":" for place in range(min(dims), 0)]
    return _Text(f"{known[node.args[0]].within(_ATOM)}[..., {', '.join(index)}]", _ATOM)


def _slice(node: Expr, known: Known) -> _Text:
    """As a subscript: ``x[..., 1:]``."""
    return _Text(f"{known[node.args[0]].within(_ATOM)}[{_at(node['dim'], _bounds(node))}]", _ATOM)


def _bounds(node: Expr) -> str:
    start, stop, step = node["start"], node["stop"], node["step"]
    return f"{start or ''}:{'' if stop is None else stop}{'' if step == 1 else f':{step}'}"


def _at(dim: int, item: str) -> str:
    """What stands in a subscript for an item at a dimension."""
    return ", ".join(["...", item, *[":"] * (-1 - dim)] if dim < 0 else [*[":"] * dim, item])


def _squeeze(node: Expr, known: Known) -> _Text:
    """A slice of one element without its dimension is an element: ``x[..., 0]``."""
    (of,), dims = node.args, node["dim"]
    if of.op == "slice" and dims == (of["dim"],):
        return _Text(f"{known[of.args[0]].within(_ATOM)}[{_at(of['dim'], str(of['start']))}]", _ATOM)
    return _application(node, known)


def _lookup(node: Expr, known: Known) -> _Text:
    """As a subscript: ``w[index]``."""
    x, index = node.args
    return _Text(f"{known[x].within(_ATOM)}[{_at(node['dim'], known[index].text)}]", _ATOM)


def _chunk(node: Expr, known: Known) -> _Text:
    text = f"chunk({known[node.args[0]].text}, {node['chunks']}, dim={_value(node['dim'])})"
    return _Text(f"{text}[{node['index']}]", _ATOM)


def _ordered(node: Expr, known: Known) -> _Text:
    """A call with its arguments in torch's order, or with a list of its operands."""
    row = TENSOR_OPS[node.op]
    if not row.order:
        _, attributes = _attributes(node, row)
        return _Text(f"{row.name}({', '.join([f'[{_listed(node.args, known)}]', *attributes])})", _ATOM)
    operands = dict(zip(row.operands, node.args, strict=False))
    rest = _listed(node.args[len(row.operands) - 1 :], known)
    texts = [
        (f"[{rest}]" if row.variadic and n == row.operands[-1] else known[operands[n]].text)
        if n in operands
        else _value(node[n])
        for n in row.order
    ]
    return _Text(f"{row.name}({', '.join(texts)})", _ATOM)


def _listed(nodes: Iterable[Expr], known: Known) -> str:
    return ", ".join(known[node].text for node in nodes)


def _size(node: Expr, known: Known) -> _Text:
    """The size of a declared dimension by its name."""
    (of,), dims = node.args, node["dim"]
    shape = of.get("shape") if of.op == "sym" else None
    name = shape[dims[0]] if shape and isinstance(dims, tuple) and len(dims) == 1 and -len(shape) <= dims[0] else None
    return _Text(name, _ATOM) if isinstance(name, str) and name != "..." else _application(node, known)


_FIELDS: Mapping[str, tuple[TensorOp, str]] = {
    operation: (row, field) for row in TENSOR_OPS.values() for field, operation in row.fields
}

_WRITE: Mapping[str, Callable[[Expr, Known], _Text]] = {
    "sym": lambda node, known: _Text(node.name, _ATOM),
    "num": _number,
    "const": lambda node, known: _Text(node.name, _ATOM),
    "text": lambda node, known: _Text(_string(node["value"]), _ATOM),
    "true": lambda node, known: _Text("True", _ATOM),
    "false": lambda node, known: _Text("False", _ATOM),
    "add": _sum,
    "mul": _product,
    "pow": _power,
    "held": lambda node, known: known[node.args[0]],  # a mark of the compiler, and no operation
    "boundary": lambda node, known: known[node.args[0]],
    **dict.fromkeys(COMPARISONS, _comparison),
    "and": _logical("and", _AND),
    "or": _logical("or", _OR),
    "not": lambda node, known: _Text(f"not {known[node.args[0]].within(_NOT)}", _NOT),
    "matmul": _infix("@", _PRODUCT),
    "sub": _infix("-", _SUM),
    "div": _infix("/", _PRODUCT),
    "neg": lambda node, known: _Text(f"-{known[node.args[0]].within(_POWER)}", _SIGN),
    "clamp": _clamp,
    "unsqueeze": _unsqueeze,
    "squeeze": _squeeze,
    "slice": _slice,
    "lookup": _lookup,
    "chunk": _chunk,
    "count": _size,
    "arange": lambda node, known: _Text(f"arange({known[node.args[0]].text})", _ATOM),
    **dict.fromkeys((row.name for row in TENSOR_OPS.values() if row.order and not row.definition), _ordered),
    **dict.fromkeys(("unflatten", "cat"), _ordered),
}
