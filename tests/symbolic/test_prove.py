"""The judge proves what is right and refutes what is wrong, with the point at which it is."""

from __future__ import annotations

from collections.abc import Callable
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
from symgrad.symbolic.certify import certificate

SPECS = Path(__file__).parents[2] / "specs"


def compiled(formula: str, tensors: str = "{x: }") -> Operation:
    text = f"op: own\ntensors: {tensors}\noutputs: {{y: '{formula}'}}\n"
    return compile_operation(parse_formulas(parse_spec(text)))


def outcomes(operation: Operation) -> list[str]:
    return [v.outcome for v in certificate(operation).verdicts]


@pytest.mark.parametrize(
    ("formula", "tensors"),
    [
        ("x * sigmoid(x)", "{x: }"),
        ("log(exp(x) + exp(t))", "{x: , t: }"),
        ("max(x, 0)**2 - abs(t)", "{x: , t: }"),
        ("where(abs(x) < 1, x**2 / 2, abs(x) - 1/2)", "{x: }"),
        ("sqrt(x**2 + t**2)", "{x: , t: }"),
        ("softmax(x, -1)", "{x: }"),
        ("x @ w", "{x: {shape: [N, K]}, w: {shape: [K, M]}}"),
        ("amax(x, -1) * sum(x**2, -1)", "{x: }"),
    ],
)
def test_what_is_right_is_proven(formula: str, tensors: str) -> None:
    found = outcomes(compiled(formula, tensors))
    assert found
    assert set(found) == {"proven"}


def test_regimes_are_counted() -> None:
    found = certificate(compiled("where(x < 1, x, min(x**2, 9))")).verdicts
    assert {v.regimes for v in found} == {4}


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

SAMPLE = ("swish", "huber", "gelu", "cauchy_loss", "mish", "softmax_rows", "power", "geglu")


def _mutated(operation: Operation, change: Callable[[Expr], Expr]) -> Operation | None:
    """The operation with one gradient and its tangents wrong; None where the change finds nothing to change."""

    def visit(variant: Variant) -> Variant:
        gradients = {key: change(g) for key, g in variant.gradients.items()}
        return replace(variant, gradients=gradients)

    body = operation.body
    if not isinstance(body, Variant):
        return None
    wrong = visit(body)
    return None if wrong.gradients == body.gradients else replace(operation, body=wrong)


@pytest.mark.parametrize("name", SAMPLE)
def test_wrong_derivatives_are_refuted(name: str) -> None:
    """Run with all specs by `python tests/symbolic/test_prove.py`."""
    survivors, count = surviving(compile_operation(parse_formulas(load_spec(SPECS / f"{name}.yaml"))))
    assert count
    assert not survivors


def surviving(operation: Operation) -> tuple[list[str], int]:
    """The wrong derivatives that are not refuted, and how many were tried."""
    survivors, count = [], 0
    for what, change in MUTANTS.items():
        mutant = _mutated(operation, change)
        if mutant is None:
            continue
        count += 1
        if not certificate(mutant).refuted:
            survivors.append(what)
    return survivors, count


if __name__ == "__main__":
    total = 0
    for path in sorted(SPECS.glob("*.yaml")):
        left, tried = surviving(compile_operation(parse_formulas(load_spec(path))))
        total += tried
        print(path.stem, f"{tried} wrong derivatives", f"not refuted: {', '.join(left)}" if left else "all refuted")
    print(total)
