"""Expressions as MathML, which browsers set without any script or font from elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from html import escape
from itertools import pairwise
from typing import NamedTuple

from symgrad.ir.expr import HALF, ONE, Expr, num, power, split_coefficient
from symgrad.ir.traversal import topological
from symgrad.parse.formula import formula

__all__ = ["equation", "name", "quantity"]

_SUM, _PRODUCT, _POWER, _ATOM = range(4)
_LONGEST = 60_000  # characters of one expression; a longer one is shown as its text
_DIGITS = 12
_LARGEST = 100  # denominator of a fraction that is shown as one

_GREEK = (
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "kappa", "lambda", "mu", "nu", "xi"),
    *("pi", "rho", "sigma", "tau", "phi", "chi", "psi", "omega"),
)
_SYMBOLS = {word: chr(code) for word, code in zip(
    _GREEK, (*range(0x3B1, 0x3B9), *range(0x3BA, 0x3BF), 0x3C0, 0x3C1, *range(0x3C3, 0x3C5), *range(0x3C6, 0x3CA)),
    strict=True,
)}  # fmt: skip
_CONSTANTS = {"pi": "π", "E": "e", "oo": "∞", "nan": "nan", "EulerGamma": "&#947;", "GoldenRatio": "φ", "Catalan": "G"}
_FUNCTIONS = {"sigmoid": "\N{GREEK SMALL LETTER SIGMA}", "lgamma": "ln Γ", "digamma": "ψ"}
_MINUS = "&#8722;"
_WORD = re.compile(r"<mi[^>]*>[^<]{2,}</mi>")
_RELATIONS = {"lt": "&lt;", "le": "≤", "gt": "&gt;", "ge": "≥", "eq": "=", "ne": "≠"}


class _Piece(NamedTuple):
    text: str
    binding: int = _ATOM

    def within(self, least: int) -> str:
        """The piece where something of at least this binding is needed."""
        return self.text if self.binding >= least else _fenced(self.text)


Known = Mapping[Expr, _Piece]


def _row(*parts: str) -> str:
    return f"<mrow>{''.join(parts)}</mrow>"


def _mo(sign: str) -> str:
    return f"<mo>{sign}</mo>"


def _fenced(text: str, left: str = "(", right: str = ")") -> str:
    grow = "true" if "<mfrac" in text or "<mtable" in text else "false"
    sides = (f'<mo fence="true" stretchy="{grow}">{side}</mo>' for side in (left, right))
    return _row(next(sides), text, next(sides))


def name(text: str) -> str:
    """A name: Greek letters as such, and what stands after an underscore below the line."""
    base, _, below = text.partition("_")
    own = f"<mi>{_SYMBOLS.get(base, escape(base) or '_')}</mi>"
    return own if not below else f"<msub>{own}<mi>{escape(_SYMBOLS.get(below, below))}</mi></msub>"


def quantity(label: str) -> str:
    """An output or a derivative: "y", "dy/dx"."""
    over, slash, under = label.partition("/")
    if not slash:
        return name(label)
    parts = (_row(_mo("∂"), name(part.removeprefix("d"))) for part in (over, under))
    return f"<mfrac>{''.join(parts)}</mfrac>"


def equation(left: str, expr: Expr) -> str:
    """An equation; `left` is MathML. What is longer than anything one could read is shown as its text."""
    return f'<math display="block">{_row(left, _mo("="), _content(expr))}</math>'


def _content(expr: Expr) -> str:
    known: dict[Expr, _Piece] = {}
    for node in topological(expr):
        piece = _WRITE.get(node.op, _application)(node, known)
        if len(piece.text) > _LONGEST:
            return f"<mtext>{escape(formula(expr)[:2000])}</mtext>"
        known[node] = piece
    return known[expr].text


# ------------------------------------------------------------------------------------------------ arithmetic
def _number(value: Fraction) -> _Piece:
    sign = _mo(_MINUS) if value < 0 else ""
    size = abs(value)
    if size.denominator == 1:
        text = f"<mn>{size.numerator if size < 10**_DIGITS else f'{float(size):.6g}'}</mn>"
    elif size.denominator <= _LARGEST:
        text = f"<mfrac><mn>{size.numerator}</mn><mn>{size.denominator}</mn></mfrac>"
    else:
        text = f"<mn>{float(size):.8g}</mn>"
    return _Piece(_row(sign, text), _SUM) if sign else _Piece(text)


def _sum(node: Expr, known: Known) -> _Piece:
    parts: list[str] = []
    for term in node.args:
        factor, rest = split_coefficient(term)
        text = _product_of(abs(factor), rest, known).within(_PRODUCT)
        sign = _MINUS if factor < 0 else "+"
        parts += [_mo(sign)] * (bool(parts) or factor < 0) + [text]
    return _Piece(_row(*parts), _SUM)


def _product(node: Expr, known: Known) -> _Piece:
    factor, rest = split_coefficient(node)
    own = _product_of(abs(factor), rest, known)
    return own if factor > 0 else _Piece(_row(_mo(_MINUS), own.within(_PRODUCT)), _SUM)


def _product_of(factor: Fraction, rest: Expr, known: Known) -> _Piece:
    above: list[_Piece] = []
    below: list[_Piece] = []
    for part in () if rest is ONE else rest.factors:
        exponent = part.args[1].number if part.op == "pow" else None
        if exponent is not None and exponent < 0 and 1 / power(part.args[0], -exponent) is part:
            below.append(_raised(part.args[0], num(-exponent), known))
        else:
            above.append(known[part])
    small = factor.denominator <= _LARGEST
    if factor.numerator != 1 or not above or not small:
        above.insert(0, _number(Fraction(factor.numerator) if small else factor))
    if factor.denominator != 1 and small:
        below.insert(0, _number(Fraction(factor.denominator)))
    if not below:
        return above[0] if len(above) == 1 else _Piece(_juxtaposed(above), _PRODUCT)
    over, under = (p[0].text if len(p) == 1 else _juxtaposed(p) for p in (above, below))
    return _Piece(f"<mfrac>{_row(over)}{_row(under)}</mfrac>", _PRODUCT)


def _juxtaposed(parts: Sequence[_Piece]) -> str:
    """Factors side by side, with a dot where a number or a word of several letters would run into the next."""
    found = [parts[0].within(_PRODUCT)]
    for before, part in pairwise(parts):
        apart = part.text.startswith("<mn>") or any(map(_WORD.search, (before.text, part.text)))
        found += [_mo("·" if apart else "&#8290;"), part.within(_PRODUCT)]
    return _row(*found)


def _power(node: Expr, known: Known) -> _Piece:
    exponent = node.args[1].number
    if exponent is not None and exponent < 0 and 1 / power(node.args[0], -exponent) is node:
        return _product_of(Fraction(1), node, known)
    return _raised(node.args[0], node.args[1], known)


def _raised(base: Expr, exponent: Expr, known: Known) -> _Piece:
    if exponent is ONE:
        return known[base]
    if exponent is HALF:
        return _Piece(f"<msqrt>{known[base].text}</msqrt>")
    above = known[exponent].text if exponent in known else _number(exponent.number or Fraction(1)).text
    return _Piece(f"<msup>{_row(known[base].within(_ATOM))}{_row(above)}</msup>", _POWER)


# ------------------------------------------------------------------------------------------------ the rest
def _where(node: Expr, known: Known) -> _Piece:
    condition, then, otherwise = (known[a] for a in node.args)
    rows = "".join(
        f"<mtr><mtd>{value}</mtd><mtd>{text}</mtd></mtr>"
        for value, text in (
            (then.text, _row("<mtext>if&#160;</mtext>", condition.text)),
            (otherwise.text, "<mtext>otherwise</mtext>"),
        )
    )
    return _Piece(_row('<mo fence="true" stretchy="true">{</mo>', f'<mtable columnalign="left">{rows}</mtable>'), _SUM)


def _relation(sign: str) -> Callable[[Expr, Known], _Piece]:
    return lambda node, known: _Piece(_row(*_between(sign, [known[a].text for a in node.args])), _SUM)


def _joined(sign: str) -> Callable[[Expr, Known], _Piece]:
    return lambda node, known: _Piece(_row(*_between(sign, [known[a].within(_PRODUCT) for a in node.args])), _SUM)


def _between(sign: str, parts: Sequence[str]) -> list[str]:
    return [parts[0], *(text for part in parts[1:] for text in (_mo(sign), part))] if parts else []


def _application(node: Expr, known: Known) -> _Piece:
    word = _FUNCTIONS.get(node.op, node.op)
    settings = [
        _row(f"<mi>{escape(key)}</mi>", _mo("="), f"<mtext>{escape(str(value))}</mtext>")
        for key, value in node.attrs
        if value not in (None, False)
    ]
    inside = _row(*_between(",", [*(known[a].text for a in node.args), *settings]))
    upright = "" if len(word) == 1 else ' mathvariant="normal"'
    return _Piece(_row(f"<mi{upright}>{escape(word)}</mi>", _mo("&#8289;"), _fenced(inside)), _ATOM)


_WRITE: Mapping[str, Callable[[Expr, Known], _Piece]] = {
    "sym": lambda node, known: _Piece(name(node.name)),
    "num": lambda node, known: _number(node["value"]),
    "const": lambda node, known: _Piece(f"<mi>{_CONSTANTS.get(node['name'], escape(node['name']))}</mi>"),
    "text": lambda node, known: _Piece(f"<mtext>{escape(node['value'])}</mtext>"),
    "true": lambda node, known: _Piece("<mtext>true</mtext>"),
    "false": lambda node, known: _Piece("<mtext>false</mtext>"),
    "add": _sum,
    "mul": _product,
    "pow": _power,
    "exp": lambda node, known: _Piece(f"<msup><mi>e</mi>{_row(known[node.args[0]].text)}</msup>", _POWER),
    "abs": lambda node, known: _Piece(_fenced(known[node.args[0]].text, "|", "|")),
    "where": _where,
    "and": _joined("∧"),
    "or": _joined("&#8744;"),
    "not": lambda node, known: _Piece(_row(_mo("¬"), known[node.args[0]].within(_PRODUCT)), _PRODUCT),
    "matmul": _joined("@"),
    "mT": lambda node, known: _Piece(f"<msup>{known[node.args[0]].within(_ATOM)}<mi>&#8868;</mi></msup>", _POWER),
    **{op: _relation(sign) for op, sign in _RELATIONS.items()},
}
