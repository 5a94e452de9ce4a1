"""Outputs stand in for inputs in derivatives where bytes are saved and accuracy stays."""

from __future__ import annotations

import pytest
import torch
from compiled import Compiled, compiled_text

from symgrad.ir import expr as ex
from symgrad.ir.expr import make, symbol
from symgrad.ir.traversal import topological
from symgrad.plan.reading import read_by
from symgrad.plan.reuse import Derivatives, reuse_outputs
from symgrad.plan.saving import Plan, Saved

X, G = symbol("x"), symbol("grad_y", "cotangent")


def sources(formula: str, save: str = "auto") -> set[str]:
    item = compiled_text(f"\nop: reused\ntensors: {{x: }}\noutputs: {{y: '{formula}'}}\noptions: {{save: {save}}}\n")
    (variant,) = (v for _, v in item.operation.variants())
    return {s.source for s in variant.plan.base}


@pytest.mark.parametrize("formula", ["exp(x)", "sigmoid(x)", "tanh(x)", "1 / (1 + exp(-x))"])
def test_a_function_of_the_output_keeps_the_output(formula: str) -> None:
    assert sources(formula, "memory") == {"output"}


def test_the_input_is_kept_where_the_output_does_not_do_without_it() -> None:
    assert sources("exp(sin(x))", "memory") == {"input"}


@pytest.mark.parametrize("formula", ["sin(x)", "x**3", "x * sigmoid(x)", "erf(x)", "lgamma(x)"])
def test_other_functions_keep_the_input(formula: str) -> None:
    assert sources(formula, "memory") == {"input"}


def test_an_inaccurate_derivative_is_not_taken_for_speed() -> None:
    """1 - tanh(x)**2 is 100 % off at 20; only `memory` may do what torch's own autograd does."""
    item = compiled_text("\nop: tanh_auto\ntensors: {x: }\noutputs: {y: tanh(x)}\n")
    x = torch.tensor([12.0, 20.0], dtype=torch.float32, requires_grad=True)
    (own,) = torch.autograd.grad(item.function(x).sum(), x)
    true = 1 / torch.cosh(x.detach().double()) ** 2
    torch.testing.assert_close(own.double(), true, rtol=1e-5, atol=0)


def made(values: list[ex.Expr]) -> Plan:
    return Plan(
        tuple(Saved(v, "input" if v.op == "sym" else "output", 4, "") for v in values), 4 * len(values), 8, 1.0, 2.0
    )


def test_a_replacement_is_taken_only_if_it_ranks_better_and_is_accurate() -> None:
    y = make("sigmoid", X)
    slope = y * make("sigmoid", -X)
    derivatives = Derivatives({("y", "x"): slope * G}, {}, {("y", "x"): slope})

    def plan_of(d: Derivatives) -> Plan:
        reads_input = make("sigmoid", -X) in topological(*d.gradients.values())
        return made([X, y] if reads_input else [y])

    taken, chosen = reuse_outputs(derivatives, {"y": y}, plan_of, lambda _: 1.0, "auto")
    assert make("sigmoid", -X) not in topological(*taken.gradients.values())
    assert len(chosen.saved) == 1
    kept, chosen = reuse_outputs(derivatives, {"y": y}, plan_of, lambda _: 1e9, "auto")
    assert kept == derivatives
    assert len(chosen.saved) == 2
    allowed, _ = reuse_outputs(derivatives, {"y": y}, plan_of, lambda _: 1e9, "memory")
    assert allowed != derivatives
    same, _ = reuse_outputs(derivatives, {"y": y}, lambda _: made([X]), lambda _: 1.0, "auto")
    assert same == derivatives


def test_all_three_kinds_are_rewritten_together() -> None:
    y = make("exp", X)
    d = Derivatives({("y", "x"): y * G}, {("y", "x"): y * X}, {("y", "x"): y}).replaced(y, symbol("z"))
    assert [v for group in (d.gradients, d.tangents, d.partials) for v in group.values()] == [
        symbol("z") * G,
        symbol("z") * X,
        symbol("z"),
    ]


def test_a_softmax_is_one_operation_unless_its_logarithm_is_at_hand() -> None:
    text = "\nop: {0}\ntensors: {{x: {{shape: [N, C]}}, t: {{shape: [N, C], grad: false}}}}\noutputs: {{y: '{1}'}}\n"
    cross = compiled_text(text.format("cross", "-sum(t * log_softmax(x, dim=-1), dim=-1)"))
    assert operations(cross) == {"softmax"}
    plain = compiled_text(text.format("plain", "log_softmax(x, dim=-1) + 0 * t"))
    assert operations(plain) == {"log_softmax", "exp"}


def operations(item: Compiled) -> set[str]:
    """The exponentials in the gradients."""
    (variant,) = (v for _, v in item.operation.variants())
    found = read_by(list(variant.gradients.values()), frozenset())
    return {n.op for n in found} & {"softmax", "log_softmax", "exp"}


@pytest.mark.parametrize("save", ["auto", "speed", "memory"])
def test_backward_sorts_nothing_again(save: str) -> None:
    """Where the indices are kept, what was sorted is picked from the input: sorting takes a hundred passes."""
    item = compiled_text(
        "\nop: sparsemax\ntensors: {x: {shape: [N, C]}}\nlet:\n  ordered: sort(x, dim=-1, descending=True).values\n"
        "  inside: (arange(C) + 1) * ordered > cumsum(ordered, dim=-1) - 1\n"
        "  threshold: (sum(where(inside, ordered, 0), dim=-1, keepdim=True) - 1)"
        " / sum(where(inside, 1, 0), dim=-1, keepdim=True)\n"
        f"outputs: {{y: relu(x - threshold)}}\noptions: {{save: {save}}}\n"
    )
    backward = item.text.split("def backward")[1].split("def jvp")[0]
    assert "sort(" not in backward
    assert ".gather(" in backward
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(item.function, x)
    assert torch.autograd.gradgradcheck(item.function, x)
