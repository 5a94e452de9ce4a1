"""The judge proves what is right and refutes what is wrong, with the point at which it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from symgrad.compiler.compile import compile_operation
from symgrad.compiler.operation import Operation, Variant
from symgrad.ir import expr as ex
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import topological, transform
from symgrad.parse import parse_formulas
from symgrad.spec import load_spec, parse_spec
from symgrad.symbolic.certify import certificate, claims, verdict
from symgrad.symbolic.prove import Claim

SPECS = Path(__file__).parents[2] / "specs"


def compiled(formula: str, tensors: str = "{x: }", more: str = "") -> Operation:
    text = f"op: own\ntensors: {tensors}\noutputs: {{y: '{formula}'}}\n{more}"
    return compile_operation(parse_formulas(parse_spec(text)))


def outcomes(operation: Operation) -> set[str]:
    return {v.outcome for v in certificate(operation).verdicts}


@pytest.mark.parametrize(
    ("formula", "tensors"),
    [
        ("x * sigmoid(x)", "{x: }"),
        ("log(exp(x) + exp(t))", "{x: , t: }"),
        ("max(x, 0)**2 - abs(t)", "{x: , t: }"),
        ("where(abs(x) < 1, x**2 / 2, abs(x) - 1/2)", "{x: }"),
        ("sqrt(x**2 + t**2)", "{x: , t: }"),
        ("t * (cos(x - t) - 1) + sin(2 * x)", "{x: , t: }"),
        ("erfc((log(x / t) + t) / sqrt(x) / 2)", '{x: {domain: "(0, 9)"}, t: {domain: "(0, 9)"}}'),
        ("remainder(x, t) * fmod(t, x)", '{x: {domain: "(0, oo)"}, t: {domain: "(0, oo)"}}'),
        ("x - t * round(x / t)", '{x: , t: {domain: "(0, oo)"}}'),
        ("x @ w", "{x: {shape: [N, K]}, w: {shape: [K, M]}}"),
        ("amax(x, -1) * sum(x**2, -1)", "{x: }"),
        ("softmax(where(arange(T)[:, None] >= arange(S), x, -oo), -1)", "{x: {shape: [T, S]}}"),
        ("sort(x, -1, descending=True).values * cumsum(x, -1)", "{x: {shape: [N, C]}}"),
        ("x[index] * sum(x[:, 1:]**2)", "{x: {shape: [N, C]}, index: {shape: [M], dtype: int}}"),
        ("conv1d(x, w, b, stride=2, padding=1)", "{x: {shape: [B, 2, 4]}, w: {shape: [2, 2, 3]}, b: {shape: [2]}}"),
        ("cumprod(x, -1) + logcumsumexp(x, -1)", "{x: {shape: [N, C]}}"),
        ("logdet(x)", "{x: {shape: [N, N]}}"),
        ("sin(x[3:] - x[:-3])", "{x: {shape: [N, H, W]}}"),
        ("cat([flip(x, 1), pad(x, [1, 0])], 1) * roll(x, 1, 0)[:, :1]", "{x: {shape: [N, C]}}"),
    ],
)
def test_what_is_right_is_proven(formula: str, tensors: str) -> None:
    assert outcomes(compiled(formula, tensors)) == {"proven"}


def test_regimes_are_counted() -> None:
    found = certificate(compiled("where(x < 1, x, min(x**2, 9))")).verdicts
    assert {v.regimes for v in found if v.regimes} == {4}


def test_an_approximation_is_none_of_the_proven_and_named_so() -> None:
    found = certificate(compiled("x - tanh(x)")).verdicts
    assert [v.text for v in found if v.outcome != "proven"] == [
        "agrees at 40 points to the precision of float64, as an approximation"
    ]


# ------------------------------------------------------------------------------------------------ what is wrong
def _first(root: Expr, op: str, change: Callable[[Expr], Expr]) -> Expr:
    """The root with the last operation of one kind changed."""
    nodes = [n for n in topological(root) if n.op == op]
    return transform(root, lambda n: change(n) if nodes and n is nodes[-1] else n)


MUTANTS: dict[str, Callable[[Expr], Expr]] = {
    "a sign": lambda g: -g,
    "a factor": lambda g: g * 2,
    "a factor near 1": lambda g: g * (1 + ex.num(1) / 10**6),
    "a term lost": lambda g: _first(g, "add", lambda n: ex.add(*n.args[:-1])),
    "a term more": lambda g: _first(g, "add", lambda n: ex.add(*n.args, ex.ONE)),
    "a factor lost": lambda g: _first(g, "mul", lambda n: ex.mul(*n.args[:-1])),
    "another function": lambda g: transform(g, lambda n: make("tanh", *n.args) if n.op in _SMOOTH else n),
    "another power": lambda g: _first(g, "pow", lambda n: ex.power(n.args[0], n.args[1] + 1)),
    "the other branch": lambda g: _first(g, "where", lambda n: make("where", n.args[0], n.args[2], n.args[1])),
    "a constant off": lambda g: _first(g, "mul", lambda n: ex.mul(*n.args, ex.num(3) / 2)),
}
_SMOOTH = ("sigmoid", "exp", "sin", "cos", "log1p", "erf")

SAMPLE = (
    *("swish", "huber", "gelu", "cauchy_loss", "softmax_rows", "power", "sort", "spatial_total_variation"),
    *("lsq_fake_quantise", "scale_gradient", "field/nightly/rotary_pairs"),
)


def wrong_claims(operation: Operation) -> Iterator[tuple[str, Claim, Variant]]:
    """Claims whose emitted derivative was changed after it was derived."""
    for _, variant in operation.variants():
        for claim in claims(variant):
            for what, change in MUTANTS.items() if claim.by is not None or "given" in claim.subject else ():
                wrong = change(claim.emitted)
                if wrong is not claim.emitted:
                    yield f"{claim.subject}: {what}", replace(claim, emitted=wrong), variant


def surviving(operation: Operation) -> tuple[list[str], int]:
    """The wrong derivatives that are not refuted, and how many were tried."""
    found = [(what, verdict(claim, variant, operation)) for what, claim, variant in wrong_claims(operation)]
    return [what for what, own in found if own.outcome != "refuted"], len(found)


def test_wrong_derivatives_tangents_and_overrides_are_refuted() -> None:
    """With all specs: `python -m tests.symbolic.test_prove`."""
    count = 0
    for name in SAMPLE:
        survivors, tried = surviving(compile_operation(parse_formulas(load_spec(SPECS / f"{name}.yaml"))))
        assert not survivors, name
        count += tried
    assert count >= 60


def test_what_is_detached_has_no_derivative() -> None:
    operation = compiled("x * detach(exp(x)) + sum(x)")
    assert outcomes(operation) == {"proven", "agrees"}
    assert surviving(operation)[0] == []
    attached = compiled("x * exp(x) + sum(x)")
    (_, variant), (_, wrong) = (next(iter(o.variants())) for o in (operation, attached))
    pairs = [
        (right, other) for right, other in zip(claims(variant), claims(wrong), strict=True) if right.by is not None
    ]
    assert pairs
    for right, other in pairs:
        assert verdict(replace(right, emitted=other.emitted), variant, operation).outcome == "refuted"


def test_a_value_of_integers_alone_makes_a_regime_and_no_kink() -> None:
    """A label that is the one to be ignored at every witness is proven there, too."""
    operation = compile_operation(parse_formulas(load_spec(SPECS / "field/nightly/padded_cross_entropy.yaml")))
    assert certificate(operation).proven


def test_a_test_shape_that_is_too_large_is_tried_without_its_dimensions_of_two() -> None:
    operation = compile_operation(parse_formulas(load_spec(SPECS / "field/nightly/temporal_shift.yaml")))
    assert certificate(operation).proven


def test_a_wrong_transpose_of_an_override_is_refuted() -> None:
    operation = compiled("x * 2", more="gradients: {x: 3 * grad_y}\n")
    ((_, variant),) = operation.variants()
    own = variant.overrides["x"]
    transposed = {o: 2 * t for o, t in (own.transposed or {}).items()}
    assert transposed
    wrong = replace(variant, overrides={"x": replace(own, transposed=transposed)})
    assert not certificate(operation).refuted
    assert [v.subject for v in certificate(replace(operation, body=wrong)).verdicts if v.outcome == "refuted"] == [
        "transposed rule of x for y"
    ]


if __name__ == "__main__":
    total = 0
    for path in sorted(SPECS.rglob("*.yaml")):
        left, tried = surviving(compile_operation(parse_formulas(load_spec(path))))
        total += tried
        print(path.stem, f"{tried} wrong derivatives", f"not refuted: {', '.join(left)}" if left else "all refuted")
    print(total)
