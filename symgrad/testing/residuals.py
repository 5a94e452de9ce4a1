"""What reverse mode of JAX keeps of a function, in bytes, and of an operation beside its formula."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Literal

from symgrad.testing.arrays import Facts

__all__ = ["beside_formula", "residual_bytes", "scanned_residual_bytes"]


def residual_bytes(function: Callable[..., Any], arguments: Sequence[Any], fixed: Sequence[Any] = ()) -> int:
    """The bytes that reverse mode of a function keeps, under jit; constants are no part of them.

    The function takes the arguments, in which it is differentiated, and then those that are fixed.
    """

    def kept(own: Sequence[Any], others: Sequence[Any]) -> Any:
        return jax.tree_util.tree_leaves(jax.vjp(lambda *values: jax.jit(function)(*values, *others), *own)[1])

    program: Any = jax.make_jaxpr(kept)(list(arguments), list(fixed)).jaxpr
    found = zip(program.outvars, _depend(program, [True] * len(program.invars)), strict=True)
    return sum(v.aval.size * v.aval.dtype.itemsize for v, depends in found if depends)


def scanned_residual_bytes(
    function: Callable[..., Any], arguments: Sequence[Any], fixed: Sequence[Any] = (), steps: int = 4
) -> int:
    """The bytes for each step that reverse mode keeps of a loop by scan, which passes the arguments from outside."""

    def loop(*own: Any) -> Any:
        stacked = [jnp.stack([a] * steps) for a in own]
        return jax.lax.scan(lambda carry, values: (carry, function(*values)), 0, stacked)[1]

    return residual_bytes(loop, arguments, fixed) // steps


def beside_formula(facts: Facts, settings: Mapping[str, Any], arguments: Sequence[Any]) -> list[tuple[int, int]]:
    """The bytes that reverse mode keeps of an operation and of its formula: by themselves, and in a step of a scan.

    A gradient that the spec gives is counted as JAX's own derivative of it in the cotangents, to which it is linear.
    """
    places = facts.wanted(arguments)
    rules = dict(facts.rules)
    own = [arguments[k] for k in places]
    ours, composite = (facts.at(f, settings, arguments) for f in (type(facts).call, type(facts).composite))
    derived = [j for j, k in enumerate(places) if facts.inputs[k].name not in rules]
    cotangents = [jnp.ones_like(y) for y in jax.eval_shape(composite, *own)]

    def of_derived(*values: Any) -> Any:
        given = dict(zip(derived, values, strict=True))
        return composite(*(given.get(j, a) for j, a in enumerate(own)))

    def of_rules(*values: Any) -> Any:
        given, others = iter(values[: len(cotangents)]), dict(zip(places, values[len(cotangents) :], strict=True))
        whole = [next(given) if smooth else None for smooth in facts.smooth]
        at = [others.get(k, a) for k, a in enumerate(arguments)]
        return [jnp.asarray(rule(*at, *whole, **settings)) for rule in rules.values()]

    found = []
    for bytes_of in (residual_bytes, scanned_residual_bytes):
        formula = bytes_of(of_derived, [own[j] for j in derived]) if derived else 0
        found.append((bytes_of(ours, own), formula + (bytes_of(of_rules, cotangents, own) if rules else 0)))
    return found


def _depend(program: Any, given: Sequence[bool]) -> list[bool]:
    """Which results of a jaxpr depend on those of its arguments that are `given`."""
    known = {v for v, own in zip(program.invars, given, strict=True) if own}
    for equation in program.eqns:
        read = [not isinstance(v, Literal) and v in known for v in equation.invars]
        inner = equation.params["jaxpr"].jaxpr if equation.primitive.name in ("jit", "pjit") else None
        made = [any(read)] * len(equation.outvars) if inner is None else _depend(inner, read)
        known |= {v for v, depends in zip(equation.outvars, made, strict=True) if depends}
    return [not isinstance(v, Literal) and v in known for v in program.outvars]
