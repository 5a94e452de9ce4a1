"""How MLX spells functions and tensor operations."""

from __future__ import annotations

from symgrad.targets.arrays.spelling import Spelling

__all__ = ["MLX"]

_MX = {
    **{name: name for name in ("exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "sinh", "cosh")},
    **{name: name for name in ("tanh", "abs", "sign", "floor", "ceil", "round", "erf", "erfinv", "rsqrt", "sigmoid")},
    **{name: f"arc{name[1:]}" for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
}
_RUNTIME = ("erfc", "erfcx", "log_ndtr", "lgamma", "digamma", "sinc", "finite")
_RUNTIME_OF_TWO = ("hypot", "xlogy", "xlog1py", "heaviside", "polygamma")

MLX = Spelling(
    name="MLX",
    arrays="mx",
    functions={
        **{name: f"mx.{own}({{0}})" for name, own in _MX.items()},
        **{name: f"rt.{name}({{0}})" for name in _RUNTIME},
        **{name: f"rt.{name}({{0}}, {{1}})" for name in _RUNTIME_OF_TWO},
        **{name: f"mx.{name}({{0}}, {{1}})" for name in ("logaddexp", "maximum", "minimum")},
        "atan2": "mx.arctan2({0}, {1})",
        "clamp": "mx.clip({0}, {1}, {2})",
        "logsigmoid": "rt.logsigmoid({0})",
        "pow": "{0} ** {1}",
        "relu": "mx.maximum({0}, 0)",
        "softplus": "mx.logaddexp({0}, 0)",
    },
    operations={
        **{name: f"mx.{name}({{0}}{{attributes}})" for name in ("sum", "mean", "prod", "cumsum", "logsumexp")},
        "amax": "mx.max({0}{attributes})",
        "amin": "mx.min({0}{attributes})",
        "var": "rt.var({0}{attributes})",
        "norm": "rt.norm({0}{attributes})",
        "softmax": "mx.softmax({0}{attributes}, precise=True)",
        "log_softmax": "rt.log_softmax({0}{attributes})",
        "max_values": "rt.extremum(mx.argmax, {0}{attributes})",
        "min_values": "rt.extremum(mx.argmin, {0}{attributes})",
        "max_indices": "mx.stop_gradient(mx.argmax({0}{attributes}))",
        "min_indices": "mx.stop_gradient(mx.argmin({0}{attributes}))",
        "sort_values": "rt.sort({0}{attributes})",
        "sort_indices": "rt.argsort({0}{attributes})",
        "cumsum_back": "mx.cumsum({0}{attributes}, reverse=True)",
        "others": "rt.others({0}{attributes})",
        "others_slope": "rt.others_slope({0}, {1}{attributes})",
        "take_along": "mx.take_along_axis({0}, mx.stop_gradient({1}){attributes})",
        "put_along": "rt.put_along({0}, {1}, {shape}{attributes})",
        "matmul_left": "rt.matmul_left({0}, {1}, {shape})",
        "matmul_right": "rt.matmul_right({0}, {1}, {shape})",
        "matmul": "{0} @ {1}",
        "einsum": "rt.einsum({equation}, {all})",
        **{f"conv{n}d": f"rt.conv({n}, {{all}}{{attributes}})" for n in (1, 2)},
        **{f"conv{n}d_input": f"rt.conv_input({n}, {{0}}, {{1}}, {{shape}}{{attributes}})" for n in (1, 2)},
        **{f"conv{n}d_weight": f"rt.conv_weight({n}, {{0}}, {{1}}, {{shape}}{{attributes}})" for n in (1, 2)},
        "transpose": "{0}.swapaxes({dim0}, {dim1})",
        "mT": "{0}.swapaxes(-1, -2)",
        "T": "{0}.T",
        "held": "{0}",
        "floated": "{0}",
        "diagonal": "mx.diagonal({0}, axis1={dim1}, axis2={dim2})",
        "diag_embed": "rt.diag_embed({0}, {dim1}, {dim2})",
        "sum_to": "rt.sum_to({0}, {shape})",
        "expand": "mx.broadcast_to({0}, {shape})",
        "fill": "mx.full({shape}, {0})",
        "conform": "rt.conform({0}, {shape})",
        "unsqueeze": "mx.expand_dims({0}{attributes})",
        "squeeze": "mx.squeeze({0}{attributes})",
        "restore": "rt.restore({0}, {axis}, {shape})",
        "drop": "rt.drop({0}, {axis}, {keepdims})",
        "count": "",
    },
    # MLX has 0 for the derivative of clip at its ends, and for that of maximum and minimum at a tie.
    differentiated={
        "clamp": "rt.clamp({0}, {1}, {2})",
        "maximum": "rt.maximum({0}, {1})",
        "minimum": "rt.minimum({0}, {1})",
    },
)
