"""Source that overwrites its own temporaries: a fresh large tensor costs more in page faults than in arithmetic.

Only for a backward that nothing differentiates or batches. What is overwritten is a result of this method that nothing
else reads, has the shape and dtype of what is written over it, and is neither saved nor an argument.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from symgrad.backends.torch.fusions import SPELLING
from symgrad.backends.torch.printer import ATOM, Printer
from symgrad.differentials import cotangent
from symgrad.expr import Expr
from symgrad.functions import FUNCTIONS
from symgrad.operation import Variant
from symgrad.shapes import absorbed, shape_sources
from symgrad.tensor_ops import TENSOR_OPS, shaping
from symgrad.traversal import topological

__all__ = ["MayOverwrite", "OverwritingPrinter", "Room", "overwritable", "viewed"]

MayOverwrite = Callable[[Expr, Expr], bool]  # whether a value of the first kind can hold one of the second

# By operation: the operand that is overwritten, and the method; tried in order.
_ARITHMETIC: dict[str, tuple[tuple[int, str], ...]] = {
    "add": ((0, "{0}.add_({1})"), (1, "{1}.add_({0})")),
    "mul": ((0, "{0}.mul_({1})"), (1, "{1}.mul_({0})")),
    "sub": ((0, "{0}.sub_({1})"), (1, "{1}.neg_().add_({0})")),
    "div": ((0, "{0}.div_({1})"),),
    "pow": ((0, "{0}.pow_({1})"),),
    "neg": ((0, "{0}.neg_()"),),
}
_VIEWS = frozenset(row.name for row in (*shaping.TRANSPOSITIONS, *shaping.INTERNAL))
_METHOD = re.compile(r"torch\.(\w+)\(\{0\}(?:, )?(.*)\)")


def _method(spelling: str) -> str | None:
    """`torch.add({0}, {1}, alpha={2})` as `{0}.add_({1}, alpha={2})`."""
    found = _METHOD.fullmatch(spelling)
    return f"{{0}}.{found[1]}_({found[2]})" if found else None


class OverwritingPrinter(Printer):
    """Prints methods that overwrite where `fits` allows it; `dying` are names that are read for the last time."""

    def __init__(
        self,
        names: Mapping[Expr, str],
        constants: dict[Expr, str] | None,
        shapes: Mapping[Expr, str] | None,
        fits: MayOverwrite,
        dying: frozenset[Expr] = frozenset(),
    ) -> None:
        super().__init__(names, constants, shapes)
        self.fits = fits
        self.dying = dying

    def _print(self, node: Expr) -> tuple[str, int]:
        if node not in self.names and node.args and node.symbols and not node.is_static and not node.is_boolean:
            for place, method in _methods(node):
                if self._is_free(node.args[place], node):
                    texts = [self.atom(a) if k == place else self(a) for k, a in enumerate(node.args)]
                    return method.format(*texts), ATOM
        return super()._print(node)

    def _is_free(self, operand: Expr, result: Expr) -> bool:
        """Whether an operand is a temporary that nothing else reads and that can hold the result."""
        own = operand in self.dying or (operand not in self.names and _is_new(operand))
        return own and not operand.is_boolean and self.fits(operand, result)


def _is_new(value: Expr) -> bool:
    """Whether a value is a tensor of its own wherever it is computed, and neither a view nor one of its operands."""
    if not value.args or value.is_static or viewed(value) is not value:
        return False
    return value.op != "where" or not value.args[0].is_static


def viewed(value: Expr) -> Expr:
    """What a value is a view of, perhaps: itself, where it is a tensor of its own."""
    while value.op in _VIEWS or (value.op == "einsum" and len(value.args) == 1):
        value = value.args[0]
    return value


def overwritable(temporaries: Iterable[Expr], order: Iterable[Expr]) -> set[Expr]:
    """The temporaries of which no view is taken in all that is computed."""
    below = {a for node in order if viewed(node) is not node for a in node.args}
    return {n for n in temporaries if _is_new(n) and n not in below}


def _methods(node: Expr) -> tuple[tuple[int, str], ...]:
    if node.op == "pow":
        n = node.args[1].number
        special = {2: "square_", 0.5: "sqrt_", -0.5: "rsqrt_"}.get(float(n)) if n is not None else None
        return ((0, f"{{0}}.{special}()"),) if special else _ARITHMETIC["pow"]
    if node.op in _ARITHMETIC:
        return _ARITHMETIC[node.op]
    if node.op in SPELLING:
        method = _method(SPELLING[node.op])
    elif node.op in FUNCTIONS and len(node.args) == 1:
        method = _method(FUNCTIONS[node.op].torch)
    else:
        method = None
    return ((0, method),) if method else ()


class Room:
    """Which values of a derivative surely have the shape and dtype of others.

    They have where they are made of the same tensors. A cotangent has the shape and dtype of its output.
    """

    def __init__(self, variant: Variant) -> None:
        self._outputs = {cotangent(o, formula): formula for o, formula in variant.formulas.items()}
        self._floats = {s for f in variant.formulas.values() for s in f.tensors if s["kind"] == "tensor"}
        self._sources: dict[Expr, frozenset[Expr]] = {}

    def fits(self, value: Expr, other: Expr) -> bool:
        """Whether a tensor `value` can hold `other`, which is computed from it."""
        sources = self._of(value)
        # One of the tensors that need a gradient is no integer; nor is a cotangent, which may be batched, too.
        has, needs = ({s for s in v.symbols if s.is_differential} for v in (value, other))
        is_float = bool(has) or sources >= self._floats
        return is_float and needs <= has and absorbed(self._of(other)) <= absorbed(sources)

    def _of(self, root: Expr) -> frozenset[Expr]:
        """What a value has its shape from."""
        for node in topological(root, leaves=self._sources.keys()):
            if node not in self._sources:
                self._sources[node] = self._own(node)
        return self._sources[root]

    def _own(self, node: Expr) -> frozenset[Expr]:
        if node in self._outputs:
            return shape_sources(self._outputs[node])
        if node.op in TENSOR_OPS or not node.args:
            return shape_sources(node)
        return frozenset().union(*(self._sources[a] for a in node.args))
