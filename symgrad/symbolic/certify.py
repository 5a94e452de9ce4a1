"""What an operation claims, and what the judge finds of it: the certificate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from symgrad.accuracy.evaluate import Environment
from symgrad.accuracy.sampling import moderate
from symgrad.compiler.operation import Operation, Variant, quantity
from symgrad.compiler.workbench import Workbench
from symgrad.differentiate.modes import is_tensor_op
from symgrad.differentiate.symbols import cotangent, tangent
from symgrad.ir.expr import ONE, Expr, make
from symgrad.ir.traversal import rebuild, topological
from symgrad.symbolic.prove import Claim, Verdict, judge
from symgrad.symbolic.whole import of_whole_tensors

__all__ = ["Certificate", "certificate", "claims", "verdict"]

_MOST_POINTS = 160
_SEED = 1.3125  # of cotangents and tangents, in which everything is linear

# Operations that leave every element as it is: where all tensors have one element, they are nothing.
_SHAPING = frozenset({"sum_to", "expand", "conform", "squeeze", "unsqueeze", "restore", "drop"})


@dataclass(frozen=True)
class Certificate:
    """The verdicts on all values, gradients and tangents of an operation."""

    verdicts: tuple[Verdict, ...]

    def __str__(self) -> str:
        return "\n".join(f"{v.subject}: {v.text}" for v in self.verdicts)

    @property
    def refuted(self) -> bool:
        """Whether something is wrong."""
        return any(v.outcome == "refuted" for v in self.verdicts)

    @property
    def proven(self) -> bool:
        """Whether everything was proven."""
        return bool(self.verdicts) and all(v.outcome == "proven" for v in self.verdicts)

    @property
    def prover(self) -> str:
        """Who found it: arithmetic in the field, and SymPy for the functions in it, with their versions."""
        from importlib.metadata import version

        return f"python-flint {version('python-flint')} and SymPy {version('sympy')}"


def certificate(operation: Operation, *, gradients: bool = True) -> Certificate:
    """Judge all that an operation emits: forward, backward and jvp, in every variant.

    Without `gradients` it is what JAX and MLX get: they make gradients of linear tangents, by transposition. Imports
    SymPy for functions that are not elementary.
    """
    found = []
    for path, variant in operation.variants():
        place = f" [{', '.join(path)}]" if path else ""
        pulled = gradients or any(own.transposed is None for own in variant.overrides.values())
        for claim in claims(variant, gradients=pulled):
            found.append(verdict(replace(claim, subject=claim.subject + place), variant, operation))
    return Certificate(tuple(found))


def verdict(claim: Claim, variant: Variant, operation: Operation) -> Verdict:
    """What the judge finds of one claim of a variant."""
    if any(is_tensor_op(n) for n in topological(claim.formula, claim.emitted)):
        outputs = {cotangent(name, formula): formula for name, formula in variant.formulas.items()}
        return of_whole_tensors(claim, operation.program, outputs)
    return judge(claim, _points(claim, Workbench(operation.program, operation.memory)))


def claims(variant: Variant, *, gradients: bool = True) -> Iterator[Claim]:
    """What a variant claims of its outputs, gradients and tangents.

    A gradient that the spec gives is what is emitted, and its tangents are the transposed of it.
    """
    symbols = {s.name: s for formula in variant.formulas.values() for s in formula.tensors}
    for output, formula in variant.formulas.items():
        yield _claim(f"{output}", formula, variant.outputs[output])
    for (output, tensor), gradient in variant.gradients.items() if gradients else ():
        formula = variant.formulas[output]
        yield _claim(quantity(output, tensor), formula, gradient, symbols[tensor], cotangent(output, formula))
    for (output, tensor), pushed in variant.tangents.items():
        formula = variant.formulas[output]
        by = symbols[tensor]
        yield _claim(f"tangent of {output} by {tensor}", formula, pushed, by, tangent(tensor), forward=True)
    for tensor, own in variant.overrides.items():
        given = make("conform", own.given, symbols[tensor]) if tensor in symbols else own.given
        yield _claim(f"given gradient of {tensor}", own.given, own.gradient)
        for output, pushed in (own.transposed or {}).items():
            by = cotangent(output, variant.formulas[output])
            yield _claim(f"transposed rule of {tensor} for {output}", given, pushed, by, tangent(tensor))


def _claim(
    subject: str,
    formula: Expr,
    emitted: Expr,
    by: Expr | None = None,
    factor: Expr = ONE,
    *,
    forward: bool = False,
) -> Claim:
    """The claim, about elements where no operation on whole tensors is part of it."""
    flat = _of_elements(formula), _of_elements(emitted)
    if not any(is_tensor_op(n) for n in topological(*flat)):
        formula, emitted = flat
    return Claim(subject, formula, emitted, by, factor, forward)


def _of_elements(root: Expr) -> Expr:
    """An expression where all tensors have one element."""
    mapped: dict[Expr, Expr] = {}
    for node in topological(root):
        args = [mapped[a] for a in node.args]
        mapped[node] = args[0] if node.op in (*_SHAPING, "held", "floated") else rebuild(node, args)
    return mapped[root]


def _points(claim: Claim, bench: Workbench) -> list[Environment]:
    seeds = {s for e in (claim.formula, claim.emitted, claim.factor) for s in e.symbols if s.is_differential}
    points = moderate(bench.points(claim.formula, 400), _MOST_POINTS)
    return [{**point, **dict.fromkeys(seeds, _SEED)} for point in points]
