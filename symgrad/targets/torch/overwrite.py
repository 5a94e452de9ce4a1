"""Source that overwrites its own temporaries: a fresh large tensor costs more in page faults than in arithmetic.

Only for a backward that nothing differentiates or batches, and where autocast is off. What is overwritten is a result
of this method that nothing else reads, has the shape and dtype of what is written over it, and is neither saved nor an
argument.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from symgrad.accuracy.cost import is_product
from symgrad.compiler.operation import Variant
from symgrad.differentiate.symbols import cotangent
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import TENSOR_OPS, data_arguments, is_index, is_number, typed_arguments
from symgrad.ops.tensors.extent import SCALAR
from symgrad.ops.tensors.shapes import absorbed, covers, extent, shape_sources
from symgrad.ops.tensors.shaping import is_matrix
from symgrad.targets.torch.fusions import SPELLING
from symgrad.targets.torch.printer import ATOM, Printer

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
# Views in which no element stands twice.
_WHOLE = frozenset({"T", "mT", "transpose", "sum_to", "unsqueeze", "squeeze", "restore", "drop"})
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
        dtypes: Mapping[Expr, str] | None,
        fits: MayOverwrite,
        dying: frozenset[Expr] = frozenset(),
    ) -> None:
        super().__init__(names, constants, shapes, dtypes)
        self.fits = fits
        self.dying = dying

    def _print(self, node: Expr) -> tuple[str, int]:
        if node not in self.names and node.args and node.symbols and not node.is_static and not node.is_boolean:
            if (accumulated := self._accumulated(node)) is not None:
                return accumulated, ATOM
            for place, method in _methods(node):
                if self._is_free(node.args[place], node):
                    texts = [self.atom(a) if k == place else self(a) for k, a in enumerate(node.args)]
                    return method.format(*texts), ATOM
        return super()._print(node)

    def _accumulated(self, node: Expr) -> str | None:
        """A sum with a product by a matrix, which is added to the other term while it is computed."""
        for total, product in (node.args, node.args[::-1]) if node.op == "add" else ():
            by_matrix = product.op == "matmul" and product not in self.names and is_matrix(product.args[1])
            if by_matrix and self._is_free(total, node) and self.fits(product, total):
                return f"_plus_product({', '.join(map(self, (total, *product.args)))})"
        return None

    def _is_free(self, operand: Expr, result: Expr) -> bool:
        """Whether an operand is a temporary that nothing else reads and that can hold the result."""
        own = operand in self.dying or self._is_anonymous(operand)
        return own and not operand.is_boolean and not is_number(operand) and self.fits(operand, result)

    def _is_anonymous(self, value: Expr) -> bool:
        """Whether a value is a tensor that has no name, or all of one by another shape."""
        while value not in self.names and value.op in _WHOLE:
            value = value.args[0]
        return value not in self.names and _is_new(value)


def _is_new(value: Expr) -> bool:
    """Whether a value is a tensor of its own wherever it is computed, and neither a view nor one of its operands."""
    if not value.args or is_number(value) or viewed(value) is not value:
        return False
    return value.op != "where" or not value.args[0].is_static


def viewed(value: Expr) -> Expr:
    """What a value is a view of, perhaps: itself, where it is a tensor of its own."""
    while (value.op in TENSOR_OPS and TENSOR_OPS[value.op].view) or (value.op == "einsum" and len(value.args) == 1):
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


def _is_number_or_tensor(node: Expr) -> bool:
    """Whether a value is, by a choice in Python, a number or a tensor."""
    if node.op != "where" or node.is_static or not node.args[0].is_static:
        return False
    return any(a.is_static for a in node.args[1:])


class Room:
    """Which values of a derivative surely have the shape and dtype of others.

    The shape is that of what they broadcast from, the dtype that of the tensors whose data they are made of; the
    operands of a product are of one dtype. A cotangent has the shape and dtype of its output.
    """

    def __init__(self, variant: Variant) -> None:
        self._outputs = {cotangent(o, formula): formula for o, formula in variant.formulas.items()}
        wanted = {tensor for _, tensor in variant.gradients} | variant.overrides.keys()
        self._wanted = {s for f in variant.formulas.values() for s in f.tensors if s.name in wanted}
        self._alike = _of_one_dtype(variant.formulas.values())
        self._sources: dict[Expr, frozenset[Expr]] = {}
        self._dtypes: dict[Expr, frozenset[Expr]] = {}

    def fits(self, value: Expr, other: Expr) -> bool:
        """Whether a tensor `value` can hold `other`, which is computed from it."""
        if any(map(_is_number_or_tensor, topological(value))):
            return False  # the number is made a tensor of one of the shapes alone
        has, needs = self._dtype(value), self._dtype(other)
        # One of the tensors that have a gradient is no integer; nor is a cotangent.
        if not (value.is_differential or has >= self._wanted) or not needs <= has:
            return False
        own, needed = absorbed(self._shape(value)), absorbed(self._shape(other))
        return needed <= own or covers(own, needed)

    def _shape(self, root: Expr) -> frozenset[Expr]:
        """The values whose shapes broadcast to that of `root`."""
        for node in topological(root, leaves=self._sources.keys()):
            if node not in self._sources:
                if node in self._outputs:
                    found = shape_sources(self._outputs[node])
                elif node.op in TENSOR_OPS and (k := TENSOR_OPS[node.op].shape_of) is not None:
                    found = self._sources[node.args[k]]
                elif node.op in TENSOR_OPS or not node.args:
                    found = shape_sources(node)
                else:
                    found = frozenset().union(*(self._sources[a] for a in node.args))
                self._sources[node] = found
        return self._sources[root]

    def _dtype(self, root: Expr) -> frozenset[Expr]:
        """The tensors whose dtypes are promoted to that of `root`; a value without dimensions does not count."""
        for node in topological(root, *self._outputs.values(), leaves=self._dtypes.keys()):
            if node not in self._dtypes:
                if node in self._outputs:
                    found = self._dtype(self._outputs[node])
                elif node.is_static or node.is_boolean or is_index(node) or extent(node) == SCALAR:
                    found = frozenset()
                elif node.op == "sym":
                    found = self._alike.get(node, frozenset({node}))
                else:
                    found = frozenset().union(*(self._dtypes[a] for a in typed_arguments(node)))
                self._dtypes[node] = found
        return self._dtypes[root]


def _of_one_dtype(formulas: Iterable[Expr]) -> dict[Expr, frozenset[Expr]]:
    """For tensors, views and products of them: the tensors of the same dtype, which a product wants of its operands."""
    found: dict[Expr, frozenset[Expr]] = {}
    for node in topological(*formulas):
        operands = [found.get(a) for a in data_arguments(node)]
        if node.op == "sym" and node.tensors:
            found[node] = frozenset({node})
        elif is_product(node) and all(operands):
            together = frozenset().union(*(o for o in operands if o))
            found |= {n: together for n, others in found.items() if others & together}
            found[node] = together
        elif operands and operands[0] and viewed(node) is not node:  # a size reads no data
            found[node] = operands[0]
    return found
