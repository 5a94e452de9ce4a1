"""How JAX spells functions and tensor operations."""

from __future__ import annotations

from symgrad.ops.functions import spelled
from symgrad.targets.arrays.spelling import Spelling, common_functions, common_operations, convolutions

__all__ = ["JAX"]

_SPECIAL = ("digamma", "erf", "erfc", "erfcx", "erfinv", "i0", "i0e", "i1", "i1e", "log_ndtr", "ndtri")
_SPECIAL_OF_TWO = ("gammainc", "gammaincc", "polygamma", "xlog1py", "xlogy", "zeta")
_TWO = ("heaviside", "hypot", "fmod")

JAX = Spelling(
    name="JAX",
    arrays="jnp",
    functions={
        **spelled("jax"),
        **common_functions("jnp"),
        **{name: f"jnp.{name}({{0}}, {{1}})" for name in _TWO},
        **{name: f"special.{name}({{0}})" for name in _SPECIAL},
        **{name: f"special.{name}({{0}}, {{1}})" for name in _SPECIAL_OF_TWO},
        "lgamma": "special.gammaln({0})",
        "pow": "rt.power({0}, {1})",
        "relu": "jax.nn.relu({0})",
        "rsqrt": "jax.lax.rsqrt({0})",
        "sigmoid": "jax.nn.sigmoid({0})",
        "sinc": "jnp.sinc({0})",
    },
    operations={
        **common_operations("jnp"),
        **{name: f"jnp.{name}({{0}}, {{attributes}})" for name in ("cumsum", "cumprod")},
        "logsumexp": "jax.nn.logsumexp({0}, {attributes})",
        "softmax": "jax.nn.softmax({0}, {attributes})",
        "log_softmax": "jax.nn.log_softmax({0}, {attributes})",
        "to_int": "{0}.astype(jnp.int32)",
        "max_indices": "jnp.argmax({0}, {attributes})",
        "min_indices": "jnp.argmin({0}, {attributes})",
        **{
            f"cum{which}_{of}": f"rt.running(jax.lax.cum{which}, {{0}}, {{attributes}})[{k}]"
            for which in ("max", "min")
            for k, of in enumerate(("values", "indices"))
        },
        "sort_indices": "jnp.argsort({0}, {attributes})",
        "logcumsumexp": "rt.logcumsumexp({0}, {attributes})",
        "cumsum_back": "rt.cumsum_back({0}, {attributes})",
        "take_along": "jnp.take_along_axis({0}, {1}, {attributes})",
        "gather": "jnp.take_along_axis({0}, {1}, {attributes})",
        "lookup": "jnp.take({0}, {1}, {attributes})",
        "segment_max": "rt.segment_extremum(jax.ops.segment_max, {0}, {1}, {2}, {axis})",
        "segment_min": "rt.segment_extremum(jax.ops.segment_min, {0}, {1}, {2}, {axis})",
        "einsum": "jnp.einsum({equation}, {all})",
        **convolutions(1),
        **convolutions(2),
        **convolutions(3),
        **{f"avg_pool{n}d": f"rt.avg_pool({n}, {{0}}, {{attributes}})" for n in (1, 2, 3)},
        **{f"avg_pool{n}d_back": f"rt.avg_pool_back({n}, {{0}}, {{shape}}, {{attributes}})" for n in (1, 2, 3)},
        **{f"max_pool{n}d_values": f"rt.max_pool({n}, {{0}}, {{attributes}})[0]" for n in (1, 2, 3)},
        **{f"max_pool{n}d_indices": f"rt.max_pool({n}, {{0}}, {{attributes}})[1]" for n in (1, 2, 3)},
        "inverse": "jnp.linalg.inv({0})",
        "solve": "jnp.linalg.solve({0}, {1})",
        "det": "jnp.linalg.det({0})",
        "cofactor": "jax.grad(lambda m: jnp.linalg.det(m).sum())({0})",
        "cofactor_slope": "jax.jvp(jax.grad(lambda m: jnp.linalg.det(m).sum()), ({0},), ({1},))[1]",
        "logdet": "rt.logdet({0})",
        "logabsdet": "jnp.linalg.slogdet({0})[1]",
        "cholesky": "jnp.linalg.cholesky({0})",
        "cat": "jnp.concatenate(({all},), axis={axis})",
        "flip": "jnp.flip({0}, {dims})",
        "detach": "jax.lax.stop_gradient({0})",
        "mT": "{0}.mT",
        "diagonal": "jnp.diagonal({0}, axis1={dim1}, axis2={dim2})",
    },
    # JAX has 1 for the derivative of abs at 0, and 1/2 for that of clip at its ends.
    differentiated={"abs": "rt.magnitude({0})", "clamp": "rt.clamp({0}, {1}, {2})"},
)
