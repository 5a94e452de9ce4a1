"""What SymPy's symbols say by their assumptions: kinds and domains of tensors and hyperparameters, and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from symgrad.ir.expr import Expr, symbol
from symgrad.spec.model import Hyperparameter, Spec, Tensor
from symgrad.spec.names import name_fault
from symgrad.symbolic.matrices import shape_of
from symgrad.symbolic.to_sympy import NotConvertible

if TYPE_CHECKING:
    import sympy

__all__ = ["booleans", "declared", "free_symbols", "identifier", "node_of", "symbols_of"]

# By the assumption that decides; the first that holds.
_DOMAINS = (("positive", "(0, oo)"), ("negative", "(-oo, 0)"), ("nonnegative", "[0, oo)"), ("nonpositive", "(-oo, 0]"))


def free_symbols(expressions: Iterable[sympy.Basic]) -> dict[Any, str]:
    """The symbols of SymPy expressions with the names that they get, each name once.

    Symbols, matrix symbols and indexed bases count; indices and the sizes of dimensions do not. Raises
    NotConvertible for two symbols of one name, and for one whose name is none here.
    """
    import sympy

    found: dict[str, Any] = {}
    expressions = list(expressions)
    indices = {
        index for e in expressions for node in e.atoms(sympy.Indexed) for index in node.indices if index.is_Symbol
    }
    bases = {b for e in expressions for b in e.atoms(sympy.IndexedBase)}
    sizes = {s for e in expressions for m in e.atoms(sympy.MatrixSymbol) for n in m.shape for s in n.free_symbols}
    sizes |= {
        s
        for e in expressions
        for t in e.atoms(sympy.Sum, sympy.Product)
        if t.has(sympy.Indexed)
        for limit in t.limits
        for n in limit[1:]
        for s in n.free_symbols
    }
    labels = {str(b.label) for b in bases}
    taken = {s for e in expressions for s in e.free_symbols if s.is_Symbol or isinstance(s, sympy.MatrixSymbol)}
    skipped = indices | sizes | {s for s in taken if s.is_Symbol and s.name in labels}
    for item in sorted([*(taken - skipped), *bases], key=lambda s: (str(s), sympy.srepr(s))):
        name = identifier(item)
        if name in found:
            raise NotConvertible(_twins(name, found[name], item))
        found[name] = item
    return {item: name for name, item in found.items()}


def _twins(name: str, first: Any, second: Any) -> str:
    one, other = (f"{type(s).__name__}({str(s)!r}{_assumed(s)})" for s in (first, second))
    why = "that SymPy tells apart" if _assumed(first) == _assumed(second) else "with different assumptions"
    return f"two symbols of the name {name!r} {why}: {one} and {other}; use one of them everywhere"


def _assumed(item: Any) -> str:
    given = getattr(item, "_assumptions_orig", None) or {}
    return "".join(f", {key}={value}" for key, value in sorted(given.items()) if key != "commutative")


def identifier(item: Any) -> str:
    """The name of a symbol as one of a spec: `x_{1}` is x_1, `lambda` is lambda_. Raises NotConvertible."""
    import sympy

    own = str(item.label if isinstance(item, sympy.IndexedBase) else item.name)
    name = re.sub(r"[\\${}]", "", own).replace("'", "_prime").replace("^", "_")
    name = re.sub(r"\W", "_", name)
    if isinstance(item, sympy.Dummy):
        name = name.lstrip("_") or "dummy"
    if name_fault(name):
        name = f"{name}_" if name.isidentifier() else f"_{name}"
    fault = name_fault(name)
    if fault:
        raise NotConvertible(f"the symbol {own!r} has no name that a spec can use: {fault}; rename it")
    return name


def declared(item: Any, *, boolean: bool, hyperparameter: bool, within: Iterable[Any] = ()) -> dict[str, Any]:
    """What stands under the name of a symbol as a tensor, or as a hyperparameter. Raises NotConvertible."""
    import sympy

    keys: dict[str, Any] = {}
    kind = "type" if hyperparameter else "dtype"
    for expression in within:
        if expression.has(item) and not item.is_Symbol:
            shape = shape_of(item, expression)
            if shape is not None:
                keys["shape"] = list(shape)
                break
    if isinstance(item, sympy.MatrixSymbol | sympy.IndexedBase):
        return keys
    if boolean:
        return {kind: "bool"}
    if item.is_commutative is False:
        raise NotConvertible(f"the symbol {str(item)!r} does not commute; a matrix is a MatrixSymbol")
    if item.is_real is False or item.is_finite is False or (item.is_complex and not item.is_real):
        raise NotConvertible(f"the symbol {str(item)!r} is not real, and formulas are; declare it real=True")
    if item.is_integer:
        keys[kind] = "int"
    domain = next((text for assumption, text in _DOMAINS if getattr(item, f"is_{assumption}")), None)
    return {**keys, "domain": domain} if domain else keys


def booleans(expressions: Iterable[Any]) -> set[Any]:
    """The symbols that stand where a truth value does."""
    import sympy
    from sympy.logic.boolalg import ITE, And, Not, Or, Xor

    found: set[Any] = set()
    for node in (n for e in expressions for n in sympy.preorder_traversal(e)):
        if isinstance(node, And | Or | Not | Xor | ITE):
            found |= {a for a in node.args if a.is_Symbol}
        elif type(node).__name__ == "ExprCondPair" and node.cond.is_Symbol:
            found.add(node.cond)
    return found


def node_of(name: str, keys: Mapping[str, Any], *, hyperparameter: bool) -> Expr:
    """Our symbol for what is declared so."""
    if hyperparameter:
        return symbol(name, keys.get("type", "float"))
    shape = keys.get("shape")
    kind = {"int": "int_tensor", "bool": "bool_tensor"}.get(keys.get("dtype", "float"), "tensor")
    return symbol(name, kind, None if shape is None else tuple(shape))


def symbols_of(spec: Spec) -> dict[str, sympy.Symbol]:
    """SymPy's symbols for the tensors and hyperparameters of a spec, with their domains as assumptions."""
    items: list[Tensor | Hyperparameter] = [*spec.tensors, *spec.hyperparameters]
    return {item.name: _symbol(item) for item in items}


def _symbol(item: Tensor | Hyperparameter) -> sympy.Symbol:
    import sympy

    kind = item.dtype if isinstance(item, Tensor) else item.type
    if kind in ("bool", "str"):
        return sympy.Symbol(item.name)
    assumptions: dict[str, bool] = {"integer" if kind == "int" else "real": True}
    domain = item.domain if isinstance(item, Tensor) else item.interval
    if domain is not None:
        low, high = domain.lower, domain.upper
        if low > 0 or (low == 0 and domain.lower_open):
            assumptions["positive"] = True
        elif low == 0:
            assumptions["nonnegative"] = True
        elif high < 0 or (high == 0 and domain.upper_open):
            assumptions["negative"] = True
        elif high == 0:
            assumptions["nonpositive"] = True
    if "positive" in assumptions or "negative" in assumptions:
        assumptions.pop("real", None)
    return sympy.Symbol(item.name, **assumptions)
