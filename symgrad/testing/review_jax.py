"""A reviewer's report on a JAX function with a rule of its own: what is wrong with it, and what it keeps."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import jax
import jax.numpy as jnp

from symgrad.compiler.compile import compile_operation
from symgrad.parse import parse_formulas
from symgrad.testing.arrays import Facts
from symgrad.testing.facts import Input
from symgrad.testing.jax import CHECKS, findings, without_forward_mode
from symgrad.testing.residuals import residual_bytes, scanned_residual_bytes
from symgrad.testing.sources import must_accept, source_of
from symgrad.testing.written import facts_of
from symgrad.ways.sources import spec_of

__all__ = ["Audit", "audit"]

_LARGER = 32  # how many times dimensions are as large, where bytes are counted
ADVICE: Mapping[str, str] = {
    "forward_mode": "write the tangents with jax.custom_jvp: JAX transposes them for reverse mode",
    "derivatives": "a rule calls the decorated function itself, and differentiable values must not be constants in it",
    "dtypes": "a tangent has the output's dtype, a gradient its argument's; compute half precision in float32",
    "residuals": "put the tangents into a function under jax.checkpoint: it keeps what is passed to it",
    "refused": "name hyperparameters in nondiff_argnums, and refuse arrays for them: their gradients are 0 in silence",
}
"""What to do about the findings of a check."""


@dataclass(frozen=True)
class Audit:
    """What is to be said about a function. ``str`` of it is the report; ``ok`` says that no result is wrong and nothing
    raises that should not: memory alone is no error."""

    name: str
    formula: str
    ran: tuple[str, ...]
    found: tuple[str, ...]
    bytes: Mapping[str, tuple[int, int]]

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return all(text.startswith("residuals: ") for text in self.found)

    def __str__(self) -> str:
        lines = [f"{self.name} against {self.formula}"]
        for text in self.found:
            check, _, what = text.partition(": ")
            lines += ["", check, *(f"  {line}" for line in what.splitlines() if line.strip())]
            lines += [f"  -> {ADVICE[check]}"] if check in ADVICE else []
        if self.bytes:
            lines += ["", f"{'bytes kept for reverse mode':28} {'under jit':>12} {'in a scan':>12}"]
            lines += [f"  {name:26} {own[0]:>12} {own[1]:>12}" for name, own in self.bytes.items()]
        failed = {text.partition(": ")[0] for text in self.found}
        return "\n".join(
            [*lines, "", f"{len([c for c in self.ran if c not in failed])} of {len(self.ran)} checks passed"]
        )


def audit(
    function: Callable[..., Any],
    *,
    spec: str | PathLike[str] | None = None,
    formula: str | None = None,
    reference: Callable[..., Any] | None = None,
    inputs: Sequence[Input | str] | None = None,
    settings: Mapping[str, Any] | None = None,
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
) -> Audit:
    """Review a function of arrays, with hyperparameters as keywords.

    What it should compute is one of: ``spec``, the path or text of a spec; ``formula``, in the names of its arguments,
    with values of hyperparameters in ``settings``; ``reference``, the formula in plain JAX, of which ``inputs`` says
    the names and ranges of the arguments (default: those of its signature, between -2 and 2).

    Raises ValueError unless there is one of the three and for unknown checks, and what reading the spec raises.
    """
    source = source_of(function, spec, formula, reference, settings or {})
    unknown = sorted({*only, *skip} - {*CHECKS, "forward_mode"})
    if unknown:
        raise ValueError(f"no check is called {', '.join(unknown)}; there are {', '.join(CHECKS)}")
    generated: type[Facts] | None = None
    if reference is not None:
        facts, written = _of_reference(reference, inputs, settings or {}), _name(reference)
    else:
        program = parse_formulas(spec_of(source).with_targets(("jax",)))
        generated = facts = facts_of(compile_operation(program), "jax")
        written = "; ".join(f"{o.name} = {o.formula.text}" for o in program.spec.outputs)
    must_accept(function, [i.name for i in facts.inputs], facts.cases[0][0])
    own: type[Facts] = type("Audited", (facts,), {"call": staticmethod(function), "refused": ()})
    checks = [c for c in CHECKS if (not only or c in only) and c not in skip]
    found = []
    lack = without_forward_mode(own) if own.linear and "forward_mode" not in skip else None
    if lack:
        own, found = type("Audited", (own,), {"linear": False}), [f"forward_mode: {lack}"]
    found += findings(own, checks)
    forms = {"this": own, "generated": generated} if generated else {"this": own}
    kept = {name: _kept(of, of.call) for name, of in forms.items()} | {"composite": _kept(own, own.composite)}
    ran = ("forward_mode", *checks) if lack else tuple(checks)
    return Audit(_name(function), written, ran, tuple(found), {n: k for n, k in kept.items() if k is not None})


def _name(function: Any) -> str:
    return getattr(function, "__name__", str(function))


def _of_reference(
    reference: Callable[..., Any], inputs: Sequence[Input | str] | None, settings: Mapping[str, Any]
) -> type[Facts]:
    from symgrad.testing.jax import OperationTests

    names = [p for p in inspect.signature(reference).parameters if p not in settings] if inputs is None else inputs
    given = tuple(Input(i, -2, 2) if isinstance(i, str) else i for i in names)
    shapes = ((2, 3),) * len(given)
    outs = jax.eval_shape(lambda *a: reference(*a, **settings), *(jnp.zeros(s) for s in shapes))
    own = {
        "composite": staticmethod(reference),
        "inputs": given,
        "cases": ((dict(settings), shapes),),
        "smooth": (True,) * (len(outs) if isinstance(outs, tuple) else 1),
    }
    return type("Reference", (OperationTests,), own)


def _kept(facts: type[Facts], function: Callable[..., Any]) -> tuple[int, int] | None:
    """The bytes that reverse mode keeps in float32, under jit and for each step of a scan; None where it raises."""
    own = facts()
    settings, shapes = own.cases[0]
    large = tuple(None if s is None else tuple(_LARGER * n if n > 1 else n for n in s) for s in shapes)
    for chosen in (large, shapes):
        arguments = [
            None if a is None else jnp.asarray(a, "float32") if a.dtype.kind == "f" else jnp.asarray(a)
            for a in own.sample(chosen)
        ]
        wanted = [arguments[k] for k in own.wanted(arguments)]
        at = own.at(function, settings, arguments)
        try:
            return residual_bytes(at, wanted), scanned_residual_bytes(at, wanted)
        except Exception:  # of somebody else's function; shapes may not fit together
            continue
    return None
