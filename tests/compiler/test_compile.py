"""A compiled operation: gradients, tangents and overrides of every variant are what the formula says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mpmath as mp
import pytest
import torch
from compiled import OWN_SPECS, compiled, compiled_text
from hypothesis import HealthCheck, assume, given, settings
from random_expressions import ALPHA, POINT, TENSORS, X, Y, Z, expressions, well_conditioned

from symgrad.accuracy.evaluate import Exact
from symgrad.compiler.compile import compile_operation
from symgrad.compiler.operation import Variant
from symgrad.differentiate.modes import vjp
from symgrad.differentiate.symbols import cotangent, tangent
from symgrad.ir import expr as ex
from symgrad.ir.branches import Split, absent
from symgrad.ir.expr import Expr, symbol
from symgrad.ir.traversal import substitute, topological
from symgrad.parse import parse_formulas
from symgrad.spec import parse_spec


def variants(text: str) -> list[Variant]:
    return [v for _, v in compiled_text(text).operation.variants()]


def close(a: Any, b: Any) -> bool:
    return bool(abs(a - b) <= 1e-12 * abs(b) + 1e-40)


@pytest.mark.parametrize("path", OWN_SPECS, ids=lambda p: p.stem)
def test_forms_are_equal_to_the_formulas(path: Path) -> None:
    """Values, gradients and tangents in mpmath, at points of the domain."""
    item = compiled(path)
    symbols = item.operation.program.symbols
    for k, setting in enumerate(item.hyperparameters(3)):
        tensors = {symbols[t.name]: x for t, x in zip(item.spec.tensors, (0.7, 1.3, 1.0), strict=False)}
        point = {**tensors, **{symbols[h.name]: v for h, v in zip(item.spec.hyperparameters, setting, strict=True)}}
        for _, v in item.operation.variants():
            if any(
                n.op in ("sum", "mean", "sum_to", "expand", "unsqueeze")
                for f in v.formulas.values()
                for n in topological(f)
            ):
                continue
            values = Exact([{**point, **{absent(t.name): False for t in item.spec.tensors}}], 200)
            for name, form in v.outputs.items():
                assert close(values(form)[0], values(v.formulas[name])[0])
            for (output, tensor), gradient in v.gradients.items():
                seeded = Exact([{**point, cotangent(output): 1.7 + k}], 200)
                free = substitute(gradient, {}) if gradient.op != "sum_to" else gradient.args[0]
                if any(n.op in ("sum_to", "sum", "expand") for n in topological(free)):
                    continue
                slope = v.partials.get((output, tensor))
                if slope is not None:
                    assert close(seeded(free)[0], (1.7 + k) * values(slope)[0])


SETTINGS = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


@SETTINGS
@given(expressions(X, Y, ALPHA))
def test_derivatives_are_those_of_mpmath(root: Expr) -> None:
    """vjp against a difference quotient of the truth."""
    assume(well_conditioned(root) is not None and root.tensors)
    found = vjp({root: cotangent("y")}, [X, Y])
    step = mp.mpf(2) ** -60
    for own, gradient in found.items():
        bare = gradient.args[0] if gradient.op == "sum_to" else gradient
        if any(n.op in ("sum_to", "sum", "expand") for n in topological(bare)):
            continue
        slope = Exact([{**POINT, cotangent("y"): 1.0}], 300)(bare)[0]
        with mp.workprec(300):
            sides = [Exact([{**POINT, own: mp.mpf(POINT[own]) + s * step}], 300)(root)[0] for s in (1, -1)]
            quotient = (sides[0] - sides[1]) / (2 * step)
        if mp.isfinite(slope) and abs(slope) < 1e12:
            assert abs(slope - quotient) <= 1e-8 * (abs(slope) + 1)


# ---------------------------------------------------------------------------------------------- variants
def test_conditions_name_the_variants() -> None:
    item = compiled(next(p for p in OWN_SPECS if p.stem == "branches"))
    assert isinstance(item.operation.body, Split)
    conditions = [path for path, _ in item.operation.variants()]
    assert conditions == [("flag",), ("not flag",)]


def test_an_optional_tensor_is_a_choice() -> None:
    item = compiled(next(p for p in OWN_SPECS if p.stem == "optional_tensor"))
    without, given_ = (v for _, v in item.operation.variants())
    offset = item.operation.program.symbols["offset"]
    assert all(offset not in f.symbols for f in without.formulas.values())
    assert all(offset in f.symbols for f in given_.formulas.values())
    assert ("y", "offset") not in without.gradients


def test_a_tensor_without_a_gradient_has_none() -> None:
    (variant,) = variants("\nop: labels\ntensors: {x: , t: {grad: false}, k: {dtype: int}}\noutputs: {y: x * t * k}\n")
    assert set(variant.gradients) == set(variant.tangents) == {("y", "x")}


def test_an_output_without_a_gradient_contributes_none() -> None:
    (variant,) = variants("\nop: quiet\ntensors: {x: }\noutputs: {y: sin(x), z: {expr: cos(x), grad: false}}\n")
    assert set(variant.gradients) == {("y", "x")}


def test_a_tensor_that_cancels_has_no_gradient() -> None:
    (variant,) = variants("\nop: cancelled\ntensors: {x: , y: }\noutputs: {z: x + y - y}\n")
    assert set(variant.gradients) == {("z", "x")}


# ---------------------------------------------------------------------------------------------- overrides
def test_a_linear_override_has_a_transpose() -> None:
    g, t = cotangent("y"), tangent("x")
    (variant,) = variants(
        "\nop: linear\ntensors: {x: , w: }\noutputs: {y: sign(x) * w}\ngradients: {x: 3 * grad_y * w}\n"
    )
    override = variant.overrides["x"]
    assert override.gradient is 3 * g * symbol("w")
    assert override.transposed == {"y": 3 * t * symbol("w")}
    assert ("y", "x") not in variant.gradients
    assert ("y", "w") in variant.gradients


def test_the_transpose_of_a_matrix_product_reads_shapes_that_are_there() -> None:
    item = compiled_text("""
        op: half_gradient
        tensors: {x: {shape: [N, I]}, w: {shape: [O, I]}}
        outputs: {y: x @ w.T}
        gradients: {w: 0.5 * grad_y.mT @ x}
    """)
    x, w = item.tensors()
    _, pushed = torch.func.jvp(lambda w: item.function(x, w), (w,), (torch.ones_like(w),))
    torch.testing.assert_close(pushed, 0.5 * x @ torch.ones_like(w).T)


def test_a_non_linear_override_has_none() -> None:
    (variant,) = variants("\nop: clipped\ntensors: {x: }\noutputs: {y: x}\ngradients: {x: 'clamp(grad_y, -1, 1)'}\n")
    assert variant.overrides["x"].transposed is None


def test_a_stopped_gradient_is_zero() -> None:
    (variant,) = variants("\nop: stopped\ntensors: {x: }\noutputs: {y: x}\ngradients: {x: 0}\n")
    assert variant.overrides["x"].gradient is ex.ZERO
    assert variant.plan.saved == ()


def test_an_override_of_several_outputs_is_transposed_by_output() -> None:
    (variant,) = variants(
        "\nop: both\ntensors: {x: }\noutputs: {a: sign(x), b: round(x)}\ngradients: {x: grad_a + 2 * grad_b * x}\n"
    )
    t = tangent("x")
    assert variant.overrides["x"].transposed == {"a": t, "b": 2 * t * symbol("x")}


def test_compiling_twice_gives_the_same() -> None:
    spec = parse_spec("\nop: again\ntensors: {x: , y: }\noutputs: {z: log(1 + exp(x * y)) - x}\n")
    first, second = (compile_operation(parse_formulas(spec)) for _ in range(2))
    assert first.body == second.body


def test_roles_have_symbols_of_their_own() -> None:
    assert len({cotangent("x"), tangent("x"), absent("x"), symbol("x"), X}) == 4
    assert {s["kind"] for s in (cotangent("x"), tangent("x"))} == {"cotangent", "tangent"}
    assert absent("x").is_boolean
    assert absent("x").is_static
    assert set(TENSORS) == {X, Y, Z}


@pytest.mark.parametrize(
    "tensors, formula, signs, true",
    [
        ("{x: , t: }", "x * sigmoid(t * x)", (1, -1), (0.0, 0.0)),
        ("{x: , m: , t: {domain: '(0, oo)'}}", "(log(t) + (m - x)**2 / t) / 2", (1, 0, 1), (1.0, -1.0, -0.5)),
    ],
)
def test_derivatives_of_tensors_that_are_all_large_are_finite_where_the_truth_is(
    tensors: str, formula: str, signs: tuple[int, ...], true: tuple[float, ...]
) -> None:
    function = compiled_text(f"{{op: f, tensors: {tensors}, outputs: {{y: '{formula}'}}}}").function
    large = [sign * torch.full((3,), 1e30) for sign in signs]
    for place, expected in enumerate(true):
        tangents = [torch.full((3,), float(k == place)) for k in range(len(large))]
        pushed = torch.func.jvp(function, tuple(large), tuple(tangents))[1]
        torch.testing.assert_close(pushed, torch.full((3,), expected))
        leaves = [t.clone().requires_grad_() for t in large]
        (pulled,) = torch.autograd.grad(function(*leaves).sum(), leaves[place])
        torch.testing.assert_close(pulled, torch.full((3,), expected))


@pytest.mark.parametrize("kernels", ["none", "all"])
def test_tangents_can_be_computed_from_what_is_saved(kernels: str) -> None:
    """Backward reads `exp(x)` as it is, which is an output; forward mode reads it with a guard, and so needs `x`."""
    function = compiled_text(
        f"{{op: f, tensors: {{x: {{shape: [B, N]}}}}, outputs: {{y: exp(x), z: 'amax(exp(x), dim=-1)'}}, "
        f"options: {{kernels: {kernels}}}}}"
    ).function
    x = torch.linspace(-2, 2, 12, dtype=torch.float64).reshape(3, 4)

    def written(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.exp(), x.exp().amax(-1)

    torch.testing.assert_close(torch.func.jvp(function, (x,), (x,)), torch.func.jvp(written, (x,), (x,)))
    torch.testing.assert_close(torch.func.jacrev(function)(x), torch.func.jacrev(written)(x))
