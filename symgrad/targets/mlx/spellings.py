"""How MLX spells functions and tensor operations."""

from __future__ import annotations

from symgrad.ops.functions import spelled
from symgrad.targets.arrays.spelling import Spelling, common_functions, common_operations, convolutions

__all__ = ["MLX"]

_RUNTIME = ("erfc", "erfcx", "log_ndtr", "ndtri", "lgamma", "digamma", "sinc")
_RUNTIME_OF_TWO = ("fmod", "hypot", "xlogy", "xlog1py", "heaviside", "polygamma")

MLX = Spelling(
    name="MLX",
    arrays="mx",
    functions={
        **spelled("mlx"),
        **common_functions("mx"),
        **{name: f"mx.{name}({{0}})" for name in ("erf", "erfinv", "rsqrt", "sigmoid")},
        **{name: f"rt.{name}({{0}})" for name in _RUNTIME},
        **{name: f"rt.{name}({{0}}, {{1}})" for name in _RUNTIME_OF_TWO},
        "pow": "{0} ** {1}",
        "relu": "mx.maximum({0}, 0)",
    },
    operations={
        **common_operations("mx"),
        **{name: f"mx.{name}({{0}}, {{attributes}})" for name in ("cumsum", "logsumexp", "logcumsumexp")},
        "softmax": "mx.softmax({0}, {attributes}, precise=True)",
        "log_softmax": "rt.log_softmax({0}, {attributes})",
        "to_int": "mx.stop_gradient({0}.astype(mx.int32))",
        "max_indices": "mx.stop_gradient(mx.argmax({0}, {attributes}))",
        "min_indices": "mx.stop_gradient(mx.argmin({0}, {attributes}))",
        "sort_indices": "rt.argsort({0}, {attributes})",
        "cumprod": "rt.cumprod({0}, {attributes})",
        "cumsum_back": "mx.cumsum({0}, {attributes}, reverse=True)",
        "take_along": "mx.take_along_axis({0}, mx.stop_gradient({1}), {attributes})",
        "gather": "mx.take_along_axis({0}, mx.stop_gradient({1}), {attributes})",
        "lookup": "rt.lookup({0}, {1}, {attributes})",
        "einsum": "rt.einsum({equation}, {all})",
        **convolutions(1),
        **convolutions(2),
        "cat": "mx.concatenate([{all}], axis={axis})",
        "flip": "rt.flip({0}, {dims})",
        "detach": "mx.stop_gradient({0})",
        "mT": "{0}.swapaxes(-1, -2)",
        "diagonal": "rt.diagonal({0}, {dim1}, {dim2})",
    },
    # Under vmap MLX's operators take a first operand that is not mapped for one that is.
    logical={"and": "mx.logical_and({0}, {1})", "or": "mx.logical_or({0}, {1})"},
    # MLX has 0 for the derivative of clip at its ends, and for that of maximum and minimum at a tie; that of where is a
    # product with the condition, so that NaN on the other side passes.
    differentiated={
        "clamp": "rt.clamp({0}, {1}, {2})",
        "maximum": "rt.maximum({0}, {1})",
        "minimum": "rt.minimum({0}, {1})",
        "where": "rt.where({0}, {1}, {2})",
    },
)
