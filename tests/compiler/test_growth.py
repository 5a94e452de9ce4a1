"""What is compiled grows linearly with the formula: values, derivatives, files and the work that they take."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from effort import calls

from symgrad.accuracy.machine import machine
from symgrad.compiler.compile import compile_operation
from symgrad.differentiate.modes import jvp, vjp
from symgrad.differentiate.symbols import cotangent, tangent
from symgrad.ir.traversal import forget_nodes, topological
from symgrad.parse import Program, parse_formulas
from symgrad.parse.regions import by_autograd
from symgrad.pipeline import compile_spec
from symgrad.spec import Spec
from symgrad.spec.load import parse_spec


def newton_schulz(rounds: int) -> str:
    return (
        "op: f\ntensors: {x: {shape: [n, n]}}\n"
        f"let:\n  z: x.mT / (sum(x**2) + 1)\n  rounds: {{repeat: {rounds}, let: {{z: 2*z - z @ x @ z}}}}\n"
        "outputs: {y: z}\n"
    )


def sinkhorn(rounds: int) -> str:
    return (
        "op: f\ntensors: {k: {shape: [m, n], domain: '(0, oo)'}, a: {shape: [m]}, b: {shape: [n]}}\n"
        f"let:\n  v: 0*b + 1\n  rounds: {{repeat: {rounds}, let: {{u: a / (k @ v), v: b / (k.mT @ u)}}}}\n"
        "outputs: {y: 'u[:, None] * k * v'}\n"
    )


def recurrence(rounds: int) -> str:
    return (
        "op: f\ntensors: {x: , w: , h0: }\n"
        f"let:\n  h: h0\n  rounds: {{repeat: {rounds}, let: {{h: tanh(w*h + x)}}}}\n"
        "outputs: {y: h}\n"
    )


def perceptron(layers: int) -> str:
    tensors = "".join(f"  w{k}:\n  b{k}:\n" for k in range(layers))
    lets = "".join(f"  h{k + 1}: w{k} * tanh(h{k}) + b{k}\n" for k in range(layers))
    return f"op: f\ntensors:\n  x:\n{tensors}let:\n  h0: x\n{lets}outputs: {{y: h{layers}}}\n"


def residual(layers: int) -> str:
    lets = "".join(f"  h{k + 1}: h{k} + sin(w * h{k})\n" for k in range(layers))
    return f"op: f\ntensors: {{x: , w: }}\nlet:\n  h0: x\n{lets}outputs: {{y: h{layers}}}\n"


def product(factors: int) -> str:
    return "op: f\ntensors: {x: }\noutputs: {y: " + "*".join(f"(x + {k + 1})" for k in range(5 * factors)) + "}\n"


def outputs(count: int) -> str:
    return "op: f\ntensors: {x: , w: }\noutputs:\n" + "".join(f"  y{k}: sin({k + 1}*x) * w\n" for k in range(count))


FORMULAS = [newton_schulz, sinkhorn, recurrence, perceptron, residual, product, outputs]
Family = Callable[[int], str]


def spec(family: Family, size: int) -> Spec:
    return parse_spec(family(size))


def differentiated(program: Program) -> list[int]:
    """The operations of forward, of backward beside it, and of forward mode; and those of autograd's backward."""
    roots = program.outputs
    symbols = [program.symbols[t.name] for t in program.spec.tensors]
    pulled = [g for o, r in roots.items() for g in vjp({r: cotangent(o, r)}, symbols).values()]
    pushed = [jvp([r], {s: tangent(s.name) for s in symbols})[r] for r in roots.values()]
    forward = topological(*machine(roots.values()))
    backward = set(topological(*machine(pulled))).difference(forward)
    return [len(forward), len(backward), len(topological(*machine(pushed))), by_autograd(forward, frozenset(symbols))]


@pytest.mark.parametrize("family", FORMULAS)
def test_the_operations_grow_with_the_formula(family: Family) -> None:
    found = [differentiated(parse_formulas(spec(family, size))) for size in (16, 32, 64)]
    for once, twice, four_times in zip(*found, strict=True):
        assert four_times - twice <= 2.1 * (twice - once)


@pytest.mark.parametrize("family", FORMULAS)
def test_backward_has_no_more_than_three_times_the_operations_of_autograd(family: Family) -> None:
    for size in (2, 4, 8, 16):
        _, backward, _, autograd = differentiated(parse_formulas(spec(family, size)))
        assert backward <= max(3 * autograd, autograd + 24)  # a few operations more are none to speak of


@pytest.mark.parametrize("family", [f for f in FORMULAS if f is not perceptron])  # each value knows all its tensors
def test_the_work_of_derivatives_grows_with_the_formula(family: Family) -> None:
    def work(size: int) -> int:
        forget_nodes()
        return calls(lambda: differentiated(parse_formulas(spec(family, size))))

    once, twice, four_times = map(work, (16, 32, 64))
    assert four_times - twice <= 3 * (twice - once)  # 4 times, where it is quadratic


def test_the_work_and_the_files_of_a_spec_grow_with_the_formula() -> None:
    lengths: list[int] = []

    def work(size: int) -> int:
        own = spec(recurrence, size).without_kernels()
        return calls(lambda: lengths.append(compile_spec(own).module.count("\n")))

    work(2)  # what is imported
    once, twice, four_times = map(work, (4, 8, 16))
    assert four_times - twice <= 3 * (twice - once)  # 4 times, where it is quadratic
    _, short, long, longest = lengths
    assert longest - long <= 2.4 * (long - short)


def test_rounds_that_are_alike_are_searched_once() -> None:
    def searched(rounds: int) -> int:
        memory = compile_operation(parse_formulas(spec(recurrence, rounds))).memory
        assert memory is not None
        return len(memory.choices)

    assert searched(4) == searched(12)
