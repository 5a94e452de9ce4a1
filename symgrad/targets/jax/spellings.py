"""How JAX spells functions and tensor operations."""

from __future__ import annotations

from symgrad.targets.arrays.spelling import Spelling

__all__ = ["JAX"]

_JNP = {
    **{name: name for name in ("exp", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "sinh", "cosh")},
    **{name: name for name in ("tanh", "abs", "sign", "floor", "ceil", "round", "sinc")},
    **{name: f"arc{name[1:]}" for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
}
_TWO = ("logaddexp", "maximum", "minimum", "heaviside", "hypot")

JAX = Spelling(
    name="JAX",
    arrays="jnp",
    functions={
        **{name: f"jnp.{own}({{0}})" for name, own in _JNP.items()},
        **{name: f"jnp.{name}({{0}}, {{1}})" for name in _TWO},
        "atan2": "jnp.arctan2({0}, {1})",
        "clamp": "jnp.clip({0}, {1}, {2})",
        "digamma": "special.digamma({0})",
        "erf": "special.erf({0})",
        "erfc": "special.erfc({0})",
        "erfcx": "special.erfcx({0})",
        "erfinv": "special.erfinv({0})",
        "finite": "rt.finite({0})",
        "lgamma": "special.gammaln({0})",
        "log_ndtr": "special.log_ndtr({0})",
        "logsigmoid": "jax.nn.log_sigmoid({0})",
        "polygamma": "special.polygamma({0}, {1})",
        "pow": "{0} ** {1}",
        "relu": "jax.nn.relu({0})",
        "rsqrt": "jax.lax.rsqrt({0})",
        "sigmoid": "jax.nn.sigmoid({0})",
        "softplus": "jax.nn.softplus({0})",
        "xlog1py": "special.xlog1py({0}, {1})",
        "xlogy": "special.xlogy({0}, {1})",
    },
    operations={
        **{name: f"jnp.{name}({{0}}{{attributes}})" for name in ("sum", "mean", "prod", "cumsum")},
        "amax": "jnp.max({0}{attributes})",
        "amin": "jnp.min({0}{attributes})",
        "var": "rt.var({0}{attributes})",
        "logsumexp": "jax.nn.logsumexp({0}{attributes})",
        "norm": "rt.norm({0}{attributes})",
        "softmax": "jax.nn.softmax({0}{attributes})",
        "log_softmax": "jax.nn.log_softmax({0}{attributes})",
        "max_values": "rt.extremum(jnp.argmax, {0}{attributes})",
        "min_values": "rt.extremum(jnp.argmin, {0}{attributes})",
        "max_indices": "jnp.argmax({0}{attributes})",
        "min_indices": "jnp.argmin({0}{attributes})",
        "sort_values": "jnp.sort({0}{attributes})",
        "sort_indices": "jnp.argsort({0}{attributes})",
        "cumsum_back": "rt.cumsum_back({0}{attributes})",
        "others": "rt.others({0}{attributes})",
        "others_slope": "rt.others_slope({0}, {1}{attributes})",
        "take_along": "jnp.take_along_axis({0}, {1}{attributes})",
        "put_along": "rt.put_along({0}, {1}, {shape}{attributes})",
        "matmul_left": "rt.matmul_left({0}, {1}, {shape})",
        "matmul_right": "rt.matmul_right({0}, {1}, {shape})",
        "matmul": "{0} @ {1}",
        "einsum": "jnp.einsum({equation}, {all})",
        **{f"conv{n}d": f"rt.conv({n}, {{all}}{{attributes}})" for n in (1, 2)},
        **{f"conv{n}d_input": f"rt.conv_input({n}, {{0}}, {{1}}, {{shape}}{{attributes}})" for n in (1, 2)},
        **{f"conv{n}d_weight": f"rt.conv_weight({n}, {{0}}, {{1}}, {{shape}}{{attributes}})" for n in (1, 2)},
        "transpose": "{0}.swapaxes({dim0}, {dim1})",
        "mT": "{0}.mT",
        "T": "{0}.T",
        "held": "{0}",
        "floated": "{0}",
        "diagonal": "jnp.diagonal({0}, axis1={dim1}, axis2={dim2})",
        "diag_embed": "rt.diag_embed({0}, {dim1}, {dim2})",
        "sum_to": "rt.sum_to({0}, {shape})",
        "expand": "jnp.broadcast_to({0}, {shape})",
        "fill": "jnp.full({shape}, {0})",
        "conform": "rt.conform({0}, {shape})",
        "unsqueeze": "jnp.expand_dims({0}{attributes})",
        "squeeze": "jnp.squeeze({0}{attributes})",
        "restore": "rt.restore({0}, {axis}, {shape})",
        "drop": "rt.drop({0}, {axis}, {keepdims})",
        "count": "",
    },
    # JAX has 1 for the derivative of abs at 0, and 1/2 for that of clip at its ends.
    differentiated={"abs": "rt.magnitude({0})", "clamp": "rt.clamp({0}, {1}, {2})"},
)
