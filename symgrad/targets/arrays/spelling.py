"""How a framework of arrays spells what forms are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from symgrad.ir.expr import Expr
from symgrad.ir.traversal import topological
from symgrad.lower.code import words
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import TENSOR_OPS, opened

__all__ = ["Spelling", "common_functions", "common_operations", "convolutions"]


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


_NAMED = (
    *("exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *("abs", "sign", "floor", "ceil", "round"),
)
_INVERSE = ("asin", "acos", "atan", "asinh", "acosh", "atanh")
_OF_TWO = ("logaddexp", "maximum", "minimum", "remainder")


def common_functions(arrays: str) -> dict[str, str]:
    """The functions that frameworks have under NumPy's names, in their module of arrays."""
    return {
        **{name: f"{arrays}.{name}({{0}})" for name in _NAMED},
        **{name: f"{arrays}.arc{name[1:]}({{0}})" for name in _INVERSE},
        **{name: f"{arrays}.{name}({{0}}, {{1}})" for name in _OF_TWO},
        "atan2": f"{arrays}.arctan2({{0}}, {{1}})",
        "clamp": f"{arrays}.clip({{0}}, {{1}}, {{2}})",
        "finite": "rt.finite({0})",
        "where": f"{arrays}.where({{0}}, {{1}}, {{2}})",
    }


def common_operations(arrays: str) -> dict[str, str]:
    """The operations that frameworks have under NumPy's names, in their module of arrays, that arrays have themselves,
    and that all runtime files have."""
    return {
        **{name: f"{arrays}.{name}({{0}}, {{attributes}})" for name in ("sum", "mean", "prod")},
        "amax": f"{arrays}.max({{0}}, {{attributes}})",
        "amin": f"{arrays}.min({{0}}, {{attributes}})",
        "max_values": f"rt.extremum({arrays}.argmax, {{0}}, {{attributes}})",
        "min_values": f"rt.extremum({arrays}.argmin, {{0}}, {{attributes}})",
        "roll": f"{arrays}.roll({{0}}, {{shifts}}, {{dims}})",
        "tril": f"{arrays}.tril({{0}}, {{diagonal}})",
        "triu": f"{arrays}.triu({{0}}, {{diagonal}})",
        "arange": f"{arrays}.arange({{0}})",
        "expand": f"{arrays}.broadcast_to({{0}}, {{shape}})",
        "fill": f"{arrays}.full({{shape}}, {{0}})",
        "unsqueeze": f"{arrays}.expand_dims({{0}}, {{attributes}})",
        "squeeze": f"{arrays}.squeeze({{0}}, {{attributes}})",
        "matmul": "{0} @ {1}",
        "permute": "{0}.transpose({dims})",
        "reshape": "{0}.reshape({rest})",
        "reshape_as": "{0}.reshape({shape})",
        "transpose": "{0}.swapaxes({dim0}, {dim1})",
        "T": "{0}.T",
        "held": "{0}",
        "floated": "{0}",
        "boundary": "{0}",
        "count": "",
        "var": "rt.var({0}, {attributes})",
        "norm": "rt.norm({0}, {attributes})",
        "median_values": "rt.extremum(rt.middle, {0}, {attributes})",
        "median_indices": "rt.middle({0}, {attributes})",
        "topk_values": "rt.topk({0}, {attributes})[0]",
        "topk_indices": "rt.topk({0}, {attributes})[1]",
        "sort_values": "rt.sort({0}, {attributes})",
        "scan": "rt.scan({0}, {1}, {axis})",
        "scan_back": "rt.scan_back({0}, {1}, {axis})",
        "shifted": "rt.shift({0}, {axis}, {step})",
        "shifted_from": "rt.shift({0}, {axis}, 1, {start})",
        "others": "rt.others({0}, {attributes})",
        "others_slope": "rt.others_slope({0}, {1}, {attributes})",
        "add_along": "rt.add_along({0}, {1}, {shape}, {attributes})",
        "add_slices": "rt.add_slices({0}, {1}, {shape}, {attributes})",
        "segment_sum": "rt.segment_sum({0}, {1}, {2}, {axis})",
        "put_along": "rt.put_along({0}, {1}, {shape}, {attributes})",
        "matmul_left": "rt.matmul_left({0}, {1}, {shape})",
        "matmul_right": "rt.matmul_right({0}, {1}, {shape})",
        "between": "rt.cut({0}, {axis}, {1}, {2})",
        "between_back": "rt.cut_back({0}, {shape}, {axis}, {1}, {2})",
        "place": "rt.cut({0}, {axis}, {1}, ({1} + 1) or None)",
        "place_back": "rt.cut_back({0}, {shape}, {axis}, {1}, ({1} + 1) or None)",
        "slice": "rt.cut({0}, {attributes})",
        "slice_back": "rt.cut_back({0}, {shape}, {attributes})",
        "chunk": "rt.chunk({0}, {axis}, {chunks}, {index})",
        "chunk_back": "rt.chunk_back({0}, {shape}, {axis}, {chunks}, {index})",
        "part": "rt.part({0}, {axis}, {index}, {shapes})",
        "pad": "rt.pad({0}, {pad})",
        "flatten": "rt.flatten({0}, {start_dim}, {end_dim})",
        "unflatten": "rt.unflatten({0}, {axis}, {rest})",
        "random_bits": "rt.random_bits({shape}, {0})",
        "diag_embed": "rt.diag_embed({0}, {dim1}, {dim2})",
        "sum_to": "rt.sum_to({0}, {shape})",
        "conform": "rt.conform({0}, {shape})",
        "restore": "rt.restore({0}, {axis}, {shape})",
        "drop": "rt.drop({0}, {axis}, {keepdims})",
    }


def convolutions(dims: int) -> dict[str, str]:
    """Convolutions over so many dimensions, and their derivatives."""
    return {
        f"conv{dims}d": f"rt.conv({dims}, {{all}}, {{attributes}})",
        f"conv{dims}d_input": f"rt.conv_input({dims}, {{0}}, {{1}}, {{shape}}, {{attributes}})",
        f"conv{dims}d_weight": f"rt.conv_weight({dims}, {{0}}, {{1}}, {{shape}}, {{attributes}})",
        f"conv_transpose{dims}d": f"rt.conv_transpose({dims}, {{all}}, {{attributes}})",
    }
