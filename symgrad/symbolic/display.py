"""Formulas and derivatives of a spec in SymPy, to go on working with and to be shown as LaTeX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from symgrad.differentiate.modes import is_tensor_op, partials, vjp
from symgrad.ir.expr import ZERO, Expr
from symgrad.ir.traversal import topological, transform
from symgrad.ops.functions import FUNCTIONS
from symgrad.parse import Program, parse_formulas
from symgrad.spec import Spec
from symgrad.symbolic.declare import symbols_of
from symgrad.symbolic.to_sympy import applied, to_sympy

if TYPE_CHECKING:
    import sympy

__all__ = ["Partials", "derivatives", "formulas", "latex"]

# With a kink SymPy's derivative is another one there; ours follows PyTorch.
_KINKS = frozenset({"Abs", "sign", "floor", "ceiling", "Max", "Min", "Heaviside"})


# The identity: what divides large formulas, fixes types, or marks an operand.
_MARKS = frozenset({"boundary", "held", "floated"})


class Partials(dict[Any, Any]):
    """Derivatives by symbol; a name finds them, too."""

    def __missing__(self, key: object) -> Any:
        for symbol, value in self.items():
            if str(symbol) == str(key):
                return value
        raise KeyError(key)


def formulas(spec: Spec, own: Mapping[str, sympy.Symbol]) -> dict[str, Any]:
    """The formula of each output; `own` are symbols to use by name."""
    program = parse_formulas(spec)
    symbols = _symbols(program, own)
    return {name: to_sympy(_plain(root), symbols, outside=applied) for name, root in program.outputs.items()}


def derivatives(spec: Spec, own: Mapping[str, sympy.Symbol]) -> dict[str, Partials]:
    """The derivatives of each output that is differentiated, by tensor."""
    program = parse_formulas(spec)
    symbols = _symbols(program, own)
    tensors = [program.symbols[t.name] for t in spec.tensors if t.grad]
    found: dict[str, Partials] = {}
    for output in spec.outputs:
        if output.grad:
            found[output.name] = Partials((symbols[t], _derivative(program, output.name, t, symbols)) for t in tensors)
    return found


def _derivative(program: Program, output: str, tensor: Expr, symbols: Mapping[Expr, Any]) -> Any:
    root = _plain(program.outputs[output])
    if tensor.name in program.gradients:
        return to_sympy(_plain(program.gradients[tensor.name]), symbols, outside=applied)
    root = root.args[0] if root.op == "expand" else root  # which gives it the shape of a tensor that cancelled
    nodes = topological(root)
    if any(is_tensor_op(node) for node in nodes):
        gradient = vjp({root: program.cotangents[output]}, [tensor]).get(tensor, ZERO)
        return to_sympy(_plain(gradient), symbols, outside=applied)
    if any(node.op in ("where", "clamp", "relu", "round") or _class(node) in _KINKS for node in nodes):
        return to_sympy(partials(root, [tensor])[tensor], symbols)
    return to_sympy(root, symbols).diff(symbols[tensor])


def _plain(root: Expr) -> Expr:
    return transform(root, lambda node: node.args[0] if node.op in _MARKS else node)


def _class(node: Expr) -> str:
    return FUNCTIONS[node.op].sympy if node.op in FUNCTIONS else ""


def _symbols(program: Program, own: Mapping[str, sympy.Symbol]) -> dict[Expr, Any]:
    plain = symbols_of(program.spec)
    return {node: own.get(name, plain[name]) for name, node in program.symbols.items()}


def latex(spec: Spec, own: Mapping[str, sympy.Symbol] = {}) -> str:
    """Formulas and derivatives as an aligned block of LaTeX."""
    import sympy

    def written(value: Any) -> str:
        text: str = sympy.latex(value)
        return text

    lines = [f"{written(sympy.Symbol(name))} &= {written(value)}" for name, value in formulas(spec, own).items()]
    for output, found in derivatives(spec, own).items():
        for symbol, value in found.items():
            over = rf"\frac{{\partial {written(sympy.Symbol(output))}}}{{\partial {written(symbol)}}}"
            lines.append(f"{over} &= {written(value)}")
    body = " \\\\\n".join(lines)
    return f"$\\displaystyle \\begin{{aligned}}\n{body}\n\\end{{aligned}}$"
