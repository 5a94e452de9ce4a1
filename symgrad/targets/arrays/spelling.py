"""How a framework of arrays spells what forms are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.lower.code import words
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import TENSOR_OPS, opened

__all__ = ["Spelling"]


@dataclass(frozen=True)
class Spelling:
    """The words of one framework.

    Attributes:
        name: as users call the framework.
        arrays: the module of array functions, `jnp` or `mx`.
        functions: templates of pointwise functions over their arguments.
        operations: templates of tensor operations over their operands and `{attributes}`, which are keywords; `{all}`
            are the operands and `{rest}` all but the first; `{shape}` is the shape of the operand of which only that
            is read, `{shapes}` those of several.
        attributes: what the framework calls an attribute, where that is not its name here.
        logical: templates of `and` and `or`, where these are no operators.
        differentiated: spellings in code that is differentiated again, where the framework has other derivatives at
            kinks than PyTorch.
    """

    name: str
    arrays: str
    functions: Mapping[str, str]
    operations: Mapping[str, str]
    attributes: Mapping[str, str] = field(default_factory=lambda: {"dim": "axis", "keepdim": "keepdims"})
    logical: Mapping[str, str] = field(default_factory=dict)
    differentiated: Mapping[str, str] = field(default_factory=dict)

    def opened(self, form: Expr) -> Expr:
        """A form with operations that the framework has no word for by others."""
        return opened(form, self.operations)

    def missing(self, forms: Iterable[Expr]) -> Iterator[tuple[str, ...]]:
        """The functions and operations in some forms that the framework has no word for, by what specs may call."""
        for node in topological(*map(self.opened, forms)):
            if node.is_static:  # Python computes it, for some functions by way of torch
                if node.op in FUNCTIONS and "rt" in words(FUNCTIONS[node.op].python):
                    yield (node.op,)
            elif node.op in FUNCTIONS and node.op not in self.functions:
                yield (node.op,)
            elif node.op in TENSOR_OPS and node.op not in self.operations:
                own = node.op.removesuffix("_values").removesuffix("_indices")
                yield TENSOR_OPS[node.op].called or (own,)
