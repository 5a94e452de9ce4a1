"""One line says what an operation gains over autograd on the formula as written."""

from __future__ import annotations

from dataclasses import replace

import pytest
from compiled import compiled_text

from symgrad.explain.derivation import Derivation, Proof
from symgrad.explain.derive import derivation
from symgrad.explain.gain import certificate_line, gain
from symgrad.pipeline import compile_spec
from symgrad.spec import parse_spec

SQUARE = "op: own\ntensors: {x: }\noutputs: {y: x**2}\n"


def of(formula: str, tensors: str = "{x: }") -> Derivation:
    return derivation(compiled_text(f"\nop: own\ntensors: {tensors}\noutputs: {{y: '{formula}'}}\n").operation)


def test_what_autograd_loses_is_said() -> None:
    found = gain(of("x * sigmoid(beta * x)", "{x: , beta: }"))
    assert found.startswith("derivatives within 1.0 ulp where autograd loses 1")


def test_a_composite_that_overflows_at_ordinary_arguments_is_not_finite() -> None:
    found = of("log(1 + exp(x))")
    assert "where autograd is not finite" in gain(found)
    assert {row.subject: bool(row.composite_nonfinite) for row in found.accuracy} == {"y": True, "dy/dx": True}


def test_nothing_is_claimed_where_nothing_was_gained() -> None:
    assert "autograd" not in gain(of("x**2"))


def test_a_local_factor_is_no_derivative() -> None:
    found = of("sum(exp(x) * x, -1)")
    assert all(row.local for row in found.accuracy)
    assert "derivatives" not in gain(found)


@pytest.mark.parametrize(
    ("outcomes", "line"),
    [
        (["proven", "proven"], "proven by SymPy 9"),
        (["proven", "agrees"], "1 of 2 proven"),
        (["proven", "refuted"], "refuted: b"),
    ],
)
def test_the_proof_is_named(outcomes: list[str], line: str) -> None:
    proofs = tuple(Proof(name, outcome, "") for name, outcome in zip("ab", outcomes, strict=True))
    assert gain(replace(of("x**2"), proofs=proofs, prover="SymPy 9")).endswith(line)


def test_a_docstring_says_what_is_proven_and_nothing_of_what_is_refuted() -> None:
    def line(*outcomes: str) -> str:
        proofs = tuple(Proof("y", outcome, "") for outcome in outcomes)
        return certificate_line(replace(of("x**2"), proofs=proofs, prover="SymPy 9"))

    assert line("proven", "proven") == "2 values, gradients and tangents, by SymPy 9."
    assert line("proven", "agrees") == "1 of 2 values, gradients and tangents, by SymPy 9."
    assert line("proven", "refuted") == line() == ""


def test_the_module_of_a_proven_operation_has_the_certificate_in_its_docstring() -> None:
    plain, proven = (compile_spec(parse_spec(SQUARE), prove=prove).module for prove in (False, True))
    (line,) = set(proven.splitlines()) - set(plain.splitlines())
    assert line.startswith("Proven: 3 values, gradients and tangents, by ")
    assert proven.replace(f"{line}\n", "") == plain
