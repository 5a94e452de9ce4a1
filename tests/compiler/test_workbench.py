"""Forms are measured region by region and remembered."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from compiled import compiled_text
from hypothesis import given, settings
from random_expressions import TENSORS, X, Y, expressions
from torch import Tensor

import symgrad
from symgrad.accuracy.candidates import Choice
from symgrad.accuracy.equality import Check
from symgrad.accuracy.evaluate import FLOAT32, FLOAT64
from symgrad.compiler.compile import compile_operation
from symgrad.compiler.hyperparameters import hyperparameter_values
from symgrad.compiler.judges import Memory
from symgrad.compiler.workbench import Slope, Workbench, isolate
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import Expr, make
from symgrad.ir.traversal import substitute, topological
from symgrad.parse import parse_formulas
from symgrad.spec import parse_spec

MEASURED = """
op: measured
tensors: {x: , y: }
hyperparameters: {beta: {default: 0.5, domain: '(0, 1)'}}
outputs: {z: log(1 + exp(x * beta)) + y}
"""


def bench(text: str = "") -> tuple[Workbench, dict[str, Expr]]:
    text = text or MEASURED
    program = parse_formulas(parse_spec(text))
    return Workbench(program), dict(program.outputs)


def test_a_formula_is_brought_into_stable_atoms() -> None:
    workbench, outputs = bench()
    settled = workbench.settle(workbench.recognise(outputs["z"])[0])
    assert "softplus" in {n.op for n in topological(settled)}
    points = workbench.points(outputs["z"], 24)[FLOAT64]
    assert Check(points)(outputs["z"], settled)


def test_a_region_is_measured_once() -> None:
    workbench, outputs = bench()
    first = workbench.settle(outputs["z"])
    count = len(workbench.values)
    assert workbench.settle(outputs["z"]) is first
    assert len(workbench.values) == count
    slope = workbench.slope_form(make("exp", X) * Y)
    assert workbench.slope_form(make("exp", X) * Y) is slope
    assert len(workbench.slopes) == 1


HILL = """
op: hill
tensors: {x: {domain: "(0, oo)"}, k: {domain: "(0, oo)"}, n: {domain: "(0, oo)"}}
outputs: {y: x**n / (k**n + x**n)}
"""
SOFT_POWER = """
op: soft_power
tensors: {a: {domain: "(0, oo)"}, b: , x: {domain: "(0, oo)"}}
outputs: {y: log(a * x**b + 1)}
"""


def slopes(text: str) -> dict[str, Choice]:
    """The choices of the partials by the name of the tensor."""
    (variant,) = (v for _, v in compile_operation(parse_formulas(parse_spec(text))).variants())
    return {tensor: choice for (_, tensor), choice in variant.slope_choices.items()}


def test_partials_may_be_those_of_the_form_that_was_chosen_for_the_value() -> None:
    """The powers overflow, the sigmoid of a logarithm does not, and neither do its derivatives."""
    chosen = slopes(HILL)["k"]
    assert chosen.steps[0].rule == "derivative-of-form"
    assert "sigmoid" in {n.op for n in topological(chosen.chosen.form)}
    assert not chosen.chosen.wide and not chosen.chosen.float32.nonfinite


def test_a_partial_of_the_form_of_the_value_that_reads_more_than_the_partial_is_not_measured() -> None:
    """A value may join terms of several variables: x then cancels in the partial by a, but stays in its text."""
    text = "op: joined\ntensors: {a: , x: }\noutputs: {y: 1/cosh(x) + acosh(a + 1) + atanh(0.1*x) + asinh(x)}\n"
    a, x = (torch.tensor([0.3, 1.7], dtype=torch.float64, requires_grad=True) for _ in range(2))
    (symgrad.load(text).joined(a, x)).sum().backward()
    torch.testing.assert_close(a.grad, ((a + 1) ** 2 - 1).rsqrt())


def test_a_partial_of_the_form_of_the_value_that_reads_another_operation_is_not_measured() -> None:
    text = """
        op: joined
        tensors: {u: {shape: [N]}, w: {shape: [N]}}
        let: {f: 1/(1 + u**2) - norm(u)}
        outputs: {y: "sum((f[:, None] - f)*w, dim=1)"}
    """
    u, w = torch.rand(2, 4, dtype=torch.float64)
    f = lambda u: 1 / (1 + u**2) - u.norm()  # noqa: E731
    right = torch.func.grad(lambda u: ((f(u)[:, None] - f(u)) * w).sum().sin())(u)
    torch.testing.assert_close(torch.func.grad(lambda u: symgrad.load(text).joined(u, w).sum().sin())(u), right)


def test_a_derivative_of_a_form_with_cases_is_not_taken_where_one_without_is_as_good() -> None:
    assert "where" not in {n.op for n in topological(slopes(SOFT_POWER)["a"].chosen.form)}


@pytest.mark.parametrize("share", [0.5, 2.0])
def test_a_derivative_has_its_limit_where_a_probability_is_one(share: float) -> None:
    """The logarithm of a softmax is 0 there, in float32, and its power with a negative exponent a pole."""
    focal = symgrad.load("""
op: focal
tensors: {x: {shape: [N, C]}, t: {shape: [N], dtype: int}}
hyperparameters: {g: {type: float, default: 2.0, domain: "[0, oo)"}}
let: {lp: "gather(log_softmax(x, dim=-1), 1, t[:, None])[:, 0]"}
outputs: {loss: "mean(-(1 - exp(lp))**g * lp)"}
""")
    x = torch.tensor([[200.0, 0.0], [1.0, 2.0]], requires_grad=True)
    focal.focal(x, torch.tensor([0, 1]), share).backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert not x.grad[0].any()


def test_variants_share_what_was_chosen_and_what_may_be_spent() -> None:
    program = parse_formulas(parse_spec(MEASURED))
    memory = Memory()
    first, second = Workbench(program, memory), Workbench(program, memory)
    region = make("exp", X) - Y
    assert first.chosen(region) is second.chosen(region)
    assert first.judge(region).sample is second.judge(region).sample
    assert set(second.values) == {region}, "only its own regions count for a variant"


def test_regions_end_at_tensor_operations() -> None:
    total = make("sum", X * Y, dim=None, keepdim=False)
    region = make("exp", total) * X + total
    flat, back = isolate(region)
    assert all(n.op != "sum" for n in topological(flat))
    assert substitute(flat, back) is region
    assert isolate(X * Y) == (X * Y, {})


def test_points_lie_in_the_domain_and_use_all_settings() -> None:
    workbench, outputs = bench(
        "\nop: ranged\ntensors: {x: {domain: '(0, 2]'}}\n"
        "hyperparameters: {k: {default: 2, domain: '[1, 9]'}, on: true}\noutputs: {y: x**k}\n"
    )
    points = workbench.points(outputs["y"], 40)
    for target in (FLOAT32, FLOAT64):
        assert 10 <= len(points[target]) <= 40
        for point in points[target]:
            values = {s.name: v for s, v in point.items()}
            assert 0 < values["x"] <= 2
            assert 1 <= values["k"] <= 9
    assert len({p[s] for p in points[FLOAT32] for s in p if s.name == "k"}) > 1


def test_slope_errors_are_figures_of_another_form() -> None:
    workbench, _ = bench()
    slope = make("sigmoid", X) * make("sigmoid", -X)
    workbench.slope_form(slope)
    chosen = Slope(workbench.slopes[slope], {})
    good = workbench.slope_error(chosen, chosen.choice.chosen.form)
    bad = workbench.slope_error(chosen, make("sigmoid", X) - make("sigmoid", X) ** 2)
    assert good < 10 < bad


@settings(deadline=None, max_examples=15)
@given(expressions(*TENSORS))
def test_isolating_is_undone_by_substituting(root: Expr) -> None:
    mixed = root + make("sum", root * X, dim=None, keepdim=True) if root.tensors else X
    flat, back = isolate(mixed)
    assert substitute(flat, back) is mixed


@pytest.mark.parametrize(
    "declared, expected",
    [
        ("true", [True, False]),
        ("{type: str, choices: [a, b], default: a}", ["a", "b"]),
        ("{type: int, domain: '[5, 5]'}", [5]),
        ("{type: float, domain: '(10, 20)'}", None),
        ("0.5", None),
        ("{type: float, default: -3, domain: '(-oo, 0)'}", None),
        ("{type: float, default: 0.0, domain: '[0, 0.5)'}", [0.0, 0.185, 0.355]),
        ("{type: float, default: 30, domain: '[20, 100]'}", [30, 49.6, 76.8]),
        ("{type: int, default: 8, domain: '[8, 64]'}", [8, 9, 10]),
        ("{type: int, domain: '[5, 8]'}", [5, 6, 7]),
        ("{type: int, default: -4, domain: '(-oo, -3]'}", [-4, -3, -5]),
    ],
)
def test_hyperparameters_are_tried_where_they_may_lie(declared: str, expected: list[object] | None) -> None:
    spec = parse_spec(f"\nop: tried\ntensors: {{x: }}\nhyperparameters: {{h: {declared}}}\noutputs: {{y: x}}\n")
    (h,) = spec.hyperparameters
    values = hyperparameter_values(spec, h)
    assert 1 <= len(values) <= 3
    assert expected is None or values == expected
    assert h.domain is None or all(v in h.domain for v in values)
    assert h.default is None or h.default in values


@pytest.mark.parametrize(("choices", "is_asked"), [("[1, 2]", False), ("[0, 2]", True)])
def test_a_hyperparameter_lies_between_its_choices(choices: str, is_asked: bool) -> None:
    """The derivative of a power asks whether its exponent is 0 only where it may be."""
    declared = f"{{type: int, default: 2, choices: {choices}}}"
    item = compiled_text(f"op: f\ntensors: {{x: }}\nhyperparameters: {{p: {declared}}}\noutputs: {{y: abs(x)**p}}\n")
    ((_, variant),) = item.operation.variants()
    assert any(n.op == "eq" for n in topological(variant.gradients["y", "x"])) == is_asked


def test_what_is_never_differentiated_is_told_from_what_is() -> None:
    """A form in which a mask is nothing where it is 0 would lose the second derivatives of any other factor."""
    keep, weight = (make("sum", n, dim=-1, keepdim=True) for n in (X, Y))
    (first, _), (second, _) = (isolate(n * make("exp", X), frozenset({X})) for n in (keep, weight))
    assert first is not second
    assert [s.get("fixed") for n in (first, second) for s in n.tensors if s is not X] == [True, None]


def test_a_loss_that_is_masked_is_not_in_float64() -> None:
    """The ratio of two probabilities that were logarithms, as reinforcement learning clips it."""
    tensors = "{a: {shape: [B, T]}, b: {shape: [B, T], grad: false}, m: {shape: [B, T], grad: false}}"
    loss = "sum(m * (exp(b - a) - (b - a) - 1)) / sum(m)"
    item = compiled_text(f"{{op: f, tensors: {tensors}, outputs: {{y: '{loss}'}}}}")
    ((_, variant),) = item.operation.variants()
    assert not (variant.wide_values or variant.wide_slopes)
    a = torch.tensor([[0.0, -200.0]], requires_grad=True)
    y = item.function(a, torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
    assert y.isfinite() and torch.autograd.grad(y, a)[0].isfinite().all()


def test_the_values_of_the_test_section_come_first() -> None:
    spec = parse_spec(
        "\nop: told\ntensors: {x: }\nhyperparameters: {h: 0.5}\noutputs: {y: h * x}\ntest: {values: {h: [7.0, 9.0]}}\n"
    )
    assert hyperparameter_values(spec, spec.hyperparameters[0]) == [7.0, 9.0]


@pytest.mark.parametrize("declared", ["default: 0.0, domain: '[0, 0.5)'", "default: 0.0", "domain: '[0, 1]'"])
@pytest.mark.parametrize("tested", ["", "test: {values: {eps: [0.0]}}"])
def test_a_hyperparameter_that_is_only_ever_tried_at_0_stays_in_the_derivatives(declared: str, tested: str) -> None:
    """At `eps` = 0 alone, `sigmoid(-h) - eps` is the shorter `sigmoid(-h)`."""
    module = symgrad.load(f"""
op: smoothed_preference
tensors: {{a: {{shape: [B]}}, b: {{shape: [B]}}}}
hyperparameters: {{eps: {{type: float, {declared}}}}}
let: {{h: 0.1 * (a - b)}}
outputs: {{loss: mean(-(1 - eps) * logsigmoid(h) - eps * logsigmoid(-h))}}
{tested}
""")
    a, b = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in ([1.0, -2.0], [0.5, 4.0]))
    found = torch.autograd.grad(module.smoothed_preference(a, b, eps=0.3), (a, b))
    h = 0.1 * (a - b)
    each = -0.7 * torch.nn.functional.logsigmoid(h) - 0.3 * torch.nn.functional.logsigmoid(-h)
    torch.testing.assert_close(found, torch.autograd.grad(each.mean(), (a, b)))


def test_a_finished_derivative_has_harmless_dead_branches() -> None:
    workbench, _ = bench()
    root = truth.where(truth.compare("gt", X, 0), X**-1, ex.ZERO) * Y
    finished = workbench.finish(root)
    inverse = next(n for n in topological(finished) if n.op == "pow" and n.args[1].number == -1)
    assert inverse.args[0].op == "where"


def test_what_backward_computes_again_is_harmless_where_a_branch_is_dead() -> None:
    """Backward computes the sum of exponentials once more, for autograd to differentiate: expm1(100) is infinite."""
    op = compiled_text("{op: f, tensors: {x: {shape: [B, N]}}, outputs: {y: 'logsumexp(1 - celu(x), dim=-1)'}}")

    def second(function: Callable[..., Tensor], dtype: torch.dtype) -> Tensor:
        x = torch.tensor([[100.0, -1.0, 3.0], [88.0, 0.5, -2.0]], dtype=dtype, requires_grad=True)
        (slope,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        return torch.autograd.grad(slope.sum(), x)[0].double()

    true = second(lambda x: (1 - torch.nn.functional.celu(x)).logsumexp(-1), torch.float64)
    torch.testing.assert_close(second(op.function, torch.float32), true, rtol=1e-5, atol=1e-6)


def test_what_a_kept_mask_is_made_of_is_not_guarded_for_backward_reads_the_mask() -> None:
    text = "{op: f, tensors: {x: {shape: [B, N]}, w: {shape: [B, N]}, i: {shape: [B], dtype: int}}, outputs: {y: '%s'}}"
    op = compiled_text(text % "segment_max(celu(w) + x, i, 3)")
    x, w = (torch.randn(6, 4, generator=torch.Generator().manual_seed(k)).double() for k in range(2))
    i = torch.arange(6) % 3
    found = [torch.func.grad(lambda t, f=f: f(x, t, i).square().sum())(w) for f in (op.function, op.composite)]
    torch.testing.assert_close(*found)


def test_what_a_kept_value_is_made_of_is_guarded_where_backward_reads_it_besides() -> None:
    """The column of `elu(k)` inside the kept running sum was computed once more with `expm1` of a large k."""
    feature = "(elu(k) + 1)"
    formula = f"cumsum({feature}[:, :, None] * v[:, None], dim=0) / cumsum({feature}, dim=0)[:, :, None]"
    item = compiled_text(
        f"op: f\ntensors: {{k: {{shape: [T, D]}}, v: {{shape: [T, D]}}}}\noutputs: {{o: '{formula}'}}\n"
    )
    k, v = torch.tensor([[[100.0, -1.0], [2.0, 0.5]], [[1.0, 2.0], [3.0, 4.0]]]).requires_grad_().unbind()
    (first,) = torch.autograd.grad((item.function(k, v) ** 2).sum(), v, create_graph=True)
    (second,) = torch.autograd.grad((first**2).sum(), k)
    assert second.isfinite().all()


def test_passes_read_what_forward_computes_though_backward_guards_it() -> None:
    text = "{op: f, tensors: {x: {shape: [B, N]}}, outputs: {y: 'x * logsumexp(1 - celu(x), dim=-1, keepdim=True)'}}"
    ((_, found),) = compile_operation(parse_formulas(parse_spec(text))).variants()
    forward = {n for n in topological(*found.outputs.values()) if n.op == "logsumexp"}
    assert found.guarded.keys() == forward
    assert forward.isdisjoint(topological(*found.gradients.values()))
    assert forward <= set(topological(*found.for_passes.gradients.values()))


def test_a_size_needs_no_guard_in_a_dead_branch() -> None:
    item = compiled_text("{op: f, tensors: {a: {shape: [N, D]}}, outputs: {y: 'mean(relu(1 - sum(a, dim=-1)))'}}")
    assert "-grad_y / N, 0)" in item.text  # which is shown as mathematics


def test_what_a_domain_makes_a_number_of_still_lends_its_shape() -> None:
    """`sign(x)` is -1 for negative x, and has a gradient of the norm to sum for each of its elements."""
    module = symgrad.load("""
op: signed_norm
tensors: {x: {shape: [B, N], domain: "(-oo, 0)"}, v: {shape: [N]}}
outputs: {y: "sign(x) * norm(v, dim=-1, keepdim=True)"}
""")
    x, v = -torch.ones(3, 2), torch.tensor([3.0, 4.0], requires_grad=True)
    module.signed_norm(x, v).sum().backward()
    assert v.grad is not None
    assert torch.allclose(v.grad, -6 * v.detach() / 5)


def test_second_derivatives_are_numbers_where_a_guarded_length_is_zero() -> None:
    """`hypot` has no slope at the origin, where the choice of a divisor does not take it."""
    module = symgrad.load("{op: angle, tensors: {y: , x: }, outputs: {t: 'atan2(y, x)'}}")
    given = [torch.zeros(2, requires_grad=True) for _ in range(2)]
    first = torch.autograd.grad(module.angle(*given).sum(), given, create_graph=True)
    assert all(g.isfinite().all() for g in torch.autograd.grad(sum(g.sum() for g in first), given))


@pytest.mark.parametrize(
    "formula",
    [
        "where(mask[:, None], sigmoid(q @ k.mT / sqrt(D) - log(T)), 0)",
        "where(mask[:, None] & (arange(T)[:, None] >= arange(T)), sigmoid(q @ k.mT / sqrt(D) - log(T))**2, 0)",
    ],
    ids=["mask", "masks"],
)
def test_gradients_behind_a_mask_are_finite_where_what_it_masks_is_far_below_zero(formula: str) -> None:
    """Masked attention by sigmoids: no form may be chosen that overflows on one side of the mask alone."""
    item = compiled_text(
        "op: f\ntensors: {q: {shape: [B, T, D]}, k: {shape: [B, T, D]}, mask: {shape: [B, T], dtype: bool}}\n"
        f"outputs: {{o: '{formula}'}}"
    )
    q, k = (torch.randn(1, 6, 8, generator=torch.Generator().manual_seed(n)).mul(20).requires_grad_() for n in (0, 1))
    mask = torch.tensor([[True, False, True, True, False, True]])
    assert (q @ k.mT / 8**0.5).min() < -104
    for gradient in torch.autograd.grad(item.function(q, k, mask).sum(), (q, k)):
        assert gradient.isfinite().all()


def test_second_derivatives_are_finite_where_a_dead_branch_divides_first() -> None:
    item = compiled_text(
        "op: f\ntensors: {u: , v: }\noutputs: {t: 'where(v > 0, exp(-(u + sqrt(v))**2), 0) * v', "
        "s: 'where(v > 0, u * exp(-(u + sqrt(v))**2), 3)'}"
    )
    u, v = torch.tensor([[0.5, -0.3, 0.2], [-0.4, 0.7, -2.0]], dtype=torch.float64).requires_grad_().unbind()
    first = torch.autograd.grad([y.sum() for y in item.function(u, v)], (u, v), create_graph=True)
    for second in torch.autograd.grad([g.sum() for g in first], (u, v)):
        assert second.isfinite().all()


@pytest.mark.parametrize("body", ["exp(x * 30)", "x * exp(20 * x)"])
def test_a_branch_is_guarded_where_other_tensors_than_its_own_make_it_dead(body: str) -> None:
    """Of `(w > 0) | (x + y > 1)` no sample was false for a large x; in life y may be any number."""
    item = compiled_text(
        f"op: f\ntensors: {{x: , y: , w: }}\noutputs: {{r: 'where((w > 0) | (x + y > 1), {body}, x)'}}\n"
    )
    x = torch.tensor(50.0, dtype=torch.float64, requires_grad=True)
    y, w = torch.tensor([-1e4, -1.0], dtype=torch.float64).unbind()
    (first,) = torch.autograd.grad(item.function(x, y, w), x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    assert (first, second) == (1, 0)


def test_no_branch_of_an_equality_is_dropped() -> None:
    """What other values have was taken for a choice that no sample made."""
    text = (
        "op: f\ntensors: {x: , y: , k: {grad: false}}\noutputs: {r: 'where(x > y, where(k == 1, x / y, x - y), y)'}\n"
    )
    item, (x, y) = compiled_text(text), torch.tensor([3.0, 2.0], requires_grad=True).unbind()
    for k in (1.0, 0.0):
        found, right = (f(x, y, torch.tensor(k)) for f in (item.function, item.composite))
        assert found == right
        for own, true in zip(*(torch.autograd.grad(v, (x, y), retain_graph=True) for v in (found, right)), strict=True):
            torch.testing.assert_close(own, true)


def test_what_an_equality_chooses_is_measured() -> None:
    """A logarithm of a small quotient became log1p((x - y) / y), for no sample had k = 1."""
    mask = "((~(x > y)) & (k != 2)) & ((~(arange(N) < n[:, None])) & (w > x))"
    formula = (
        "where(~(k == 1), where(w > x, sqrt(y), exp(x * 30)) + exp(x**2) * sigmoid(x - y), "
        f"where({mask}, abs(x)**y, where(x + y > 1, abs(x)**y, log(x / y))))"
    )
    floats = ", ".join(f"{name}: {{shape: [B, N]}}" for name in "xyw")
    item = compiled_text(
        f"op: f\ntensors: {{{floats}, k: {{shape: [B, N], grad: false}}, n: {{shape: [B], dtype: int}}}}\n"
        f'outputs: {{r: "{formula}"}}\n'
    )
    x, y, w, k = torch.tensor([-1e-8, -2.587762, -1e4, 1.0]).view(4, 1, 1)
    found = item.function(x, y, w, k, torch.zeros(1, dtype=torch.long))
    torch.testing.assert_close(found, torch.log(x / y))
