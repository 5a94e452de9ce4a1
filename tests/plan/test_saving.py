"""The plan saves what suffices, as few bytes as possible, and no more than it says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
from compiled import OWN_SPECS, SPECS, Compiled, compiled, compiled_text, stored, subsets
from nightly import sampled
from random_expressions import X, Y, Z

from symgrad.analysis.sizes import Sizes
from symgrad.compiler.operation import Variant
from symgrad.ir import truth
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.traversal import topological
from symgrad.plan.composite import composite_bytes
from symgrad.plan.cut import minimum_cut
from symgrad.plan.reading import read_by, remaining_cost
from symgrad.plan.saving import Plan, Saved, plan, rank
from tests.plan.test_cut import DEAR, bytes_of, check_cut, suffices

G = symbol("grad_y", "cotangent")
ALL = [*SPECS, *OWN_SPECS]
MOST = [p for p in ALL if p.stem not in DEAR]


def saved_by_composite(formulas: Iterable[Expr], fixed: frozenset[Expr] = frozenset()) -> float:
    """Bytes an element that the composite is said to keep for the formulas, in float32."""
    formulas = list(formulas)
    return composite_bytes(formulas, fixed, Sizes.of(formulas))[0]


def needed(variant: Variant) -> list[Expr]:
    return [*variant.gradients.values(), *(o.gradient for o in variant.overrides.values())]


def check_the_cut_is_the_smallest(path: Path) -> None:
    for _, variant in compiled(path).operation.variants():
        check_cut(needed(variant), list(variant.outputs.values()))
        saved = frozenset(s.value for s in variant.plan.base)
        assert suffices(saved, needed(variant)), "what is saved does not suffice for the gradients"
        assert all(s.source != "intermediate" for s in variant.plan.base)
        sizes = Sizes.of(variant.formulas.values())
        if not compiled(path).spec.options.packed:
            assert bytes_of([s.value for s in variant.plan.saved], sizes) == variant.plan.bytes


# ---------------------------------------------------------------------------------------------- policies
def plans(item: Compiled) -> list[tuple[Variant, dict[str, Plan]]]:
    symbols = item.operation.program.symbols
    fixed = frozenset(symbols[t.name] for t in item.spec.tensors if not t.grad)
    found = []
    for _, v in item.operation.variants():
        made = {p: plan(v.formulas, v.outputs, needed(v), p, fixed) for p in ("auto", "memory", "speed")}
        found.append((v, made))
    return found


def check_policies_keep_their_promises(path: Path) -> None:
    for variant, made in plans(compiled(path)):
        auto, memory, speed = made["auto"], made["memory"], made["speed"]
        gradients = needed(variant)
        names = {value: name for name, value in variant.outputs.items() if value.op != "sym"}
        sizes = Sizes.of(variant.formulas.values())
        if not any(p.repeated for p in made.values()):
            assert memory.bytes == bytes_of(minimum_cut(gradients, names, sizes), sizes)
        assert not memory.extras
        for p in made.values():
            assert p.bytes >= memory.bytes
            assert suffices(frozenset(s.value for s in p.base), gradients)
            assert p.cost == remaining_cost(gradients, frozenset(s.value for s in p.saved), sizes)
            if memory.bytes <= memory.composite_bytes:
                assert p.bytes <= p.composite_bytes
        assert speed.cost <= auto.cost
        assert speed.cost <= memory.cost
        if memory.bytes <= memory.composite_bytes and memory.cost <= memory.composite_cost:
            assert round(auto.bytes) == round(memory.bytes)  # one number for each row is free


def test_each_policy_ranks_plans_by_what_it_minimises() -> None:
    def made(size: int, spent: float, limit: int = 12) -> Plan:
        return Plan((), size, limit, spent, 10.0)

    small_slow, large_fast, fitting = made(4, 11.0), made(16, 2.0), made(8, 9.0)
    for policy, order in {
        "memory": [small_slow, fitting, large_fast],
        "auto": [fitting, small_slow, large_fast],
        "speed": [fitting, small_slow, large_fast],
    }.items():
        assert sorted([large_fast, small_slow, fitting], key=lambda p: rank(p, policy)) == order


def check_intermediates_are_dear_and_come_from_forward(path: Path) -> None:
    for _, variant in compiled(path).operation.variants():
        forward, sizes = set(topological(*variant.outputs.values())), Sizes.of(variant.formulas.values())
        for saved in variant.plan.extras:
            assert saved.value in forward
            assert not saved.value.is_boolean
            without = remaining_cost(needed(variant), frozenset(s.value for s in variant.plan.base), sizes)
            assert variant.plan.cost < without


def test_what_a_policy_says_is_planned() -> None:
    text = "op: planned\ntensors: {x: }\noutputs: {y: sin(x) * exp(x)}\noptions: {save: %s}\n"
    sizes = {p: compiled_text(text % p).operation.variants()[0][1].plan for p in ("memory", "auto", "speed")}
    assert [s.source for s in sizes["memory"].saved] == ["input"]
    assert sizes["speed"].cost < sizes["memory"].cost


# ---------------------------------------------------------------------------------------------- what is really saved
def check_no_subset_keeps_more_than_the_composite(path: Path) -> None:
    """In all, or beside what lives anyway: an input for backward may stand in place of an intermediate."""
    item = compiled(path)
    if item.operation.variants()[0][1].overrides or item.spec.options.inplace:
        return
    for setting in item.hyperparameters(3):
        for wanted in subsets(item)[:15]:
            own = stored(item.function, [*item.tensors(wanted, dtype=torch.float32), *setting])
            plain = stored(item.composite, [*item.tensors(wanted, dtype=torch.float32), *setting])
            assert own[0] <= plain[0] or own[1] <= plain[1], (wanted, setting, own, plain)


def check_nothing_is_kept_where_nothing_is_wanted(path: Path) -> None:
    item = compiled(path)
    for setting in item.hyperparameters(2):
        assert stored(item.function, [*item.tensors(), *setting]) == (0, 0)


def test_inputs_are_saved_in_the_order_of_the_arguments() -> None:
    item = compiled_text("\nop: ordered\ntensors: {z: , a: }\noutputs: {y: sin(z * a)}\n")
    ((_, variant),) = item.operation.variants()
    assert [s.value.name for s in variant.plan.base] == ["z", "a"]


def test_each_gradient_keeps_only_its_own() -> None:
    item = compiled_text("op: keeps_own\ntensors: {a: , b: , c: }\noutputs: {y: a * b + c}\n")
    size = item.tensors()[0].nbytes
    for wanted, count in {("a",): 1, ("b",): 1, ("c",): 0, ("a", "b"): 2, ("a", "c"): 1}.items():
        assert stored(item.function, item.tensors(wanted))[0] == count * size, wanted


def test_the_composite_is_counted_as_written() -> None:
    assert saved_by_composite([make("sin", X)]) == 4
    assert saved_by_composite([X * Y]) == 8
    assert saved_by_composite([X * Y], frozenset({Y})) == 4
    assert saved_by_composite([X + Y + Z]) == 0
    assert saved_by_composite([truth.where(truth.compare("gt", X, 0), Y, Z)]) == 1


def check_the_composite_saves_no_less_than_predicted(path: Path) -> None:
    item = compiled(path)
    variants = item.operation.variants()
    tensors = item.tensors(item.differentiable, dtype=torch.float32)
    one_size = len({t.shape for t in tensors}) == 1 and not any(t.shape for t in item.spec.tensors)
    if len(variants) > 1 or not one_size or path not in SPECS:
        return
    fixed = frozenset(item.operation.program.symbols[t.name] for t in item.spec.tensors if not t.grad)
    setting = next(item.hyperparameters())
    predicted = saved_by_composite(variants[0][1].formulas.values(), fixed)
    of_one = predicted - predicted % 0.25  # without statistics, of which this estimates the size
    assert stored(item.composite, [*tensors, *setting])[0] >= tensors[0].numel() * of_one


# ---------------------------------------------------------------------------------------------- all specs
@pytest.mark.parametrize("path", sampled(MOST, 3), ids=lambda p: p.stem)
def test_the_plan_of_a_spec(path: Path) -> None:
    """In one test, because compiling takes longer than checking."""
    check_the_cut_is_the_smallest(path)
    check_policies_keep_their_promises(path)
    check_no_subset_keeps_more_than_the_composite(path)
    check_nothing_is_kept_where_nothing_is_wanted(path)
    check_intermediates_are_dear_and_come_from_forward(path)
    check_the_composite_saves_no_less_than_predicted(path)


@pytest.mark.parametrize(
    ("formula", "saved"),
    [
        ("max(x, dim=-1).values", "max_indices"),
        ("min(x, dim=0, keepdim=True).values", "min_indices"),
        ("sort(x, dim=-1).values", "sort_indices"),
        ("min(x.mT, dim=-1).values", "min_indices"),
        ("max(transpose(x.T, 0, 1), dim=0).values", "max_indices"),
        ("max(exp(x) + x, dim=-1).values", "sym"),  # recomputed in half precision it might choose otherwise
    ],
)
def test_a_choice_of_elements_is_saved_by_its_indices(formula: str, saved: str) -> None:
    item = compiled_text(f"{{op: f, tensors: {{x: {{shape: [N, D]}}}}, outputs: {{y: '{formula}'}}}}")
    ((_, variant),) = item.operation.variants()
    assert [s.value.op for s in variant.plan.base] == [saved]
    x = torch.rand(4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(item.function, x, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(item.function, x, check_fwd_over_rev=True)
    torch.testing.assert_close(
        *(
            torch.func.vmap(torch.func.grad(lambda t, f=f: f(t).sin().sum()))(torch.stack([x, 1 - x])).detach()
            for f in (item.function, item.composite)
        )
    )


SLICED = "mean((sort(x @ t, dim=0).values - sort(y @ t, dim=0).values)**2)"


@pytest.mark.parametrize(
    ("formula", "kept"),
    [
        (SLICED, {"add", "sort_indices"}),
        ("sum(topk(x @ t, 2).values * sin(y[:, :2]))", {"topk_values", "topk_indices"}),
    ],
)
def test_what_was_found_with_values_is_kept_rather_than_sorted_again(formula: str, kept: set[str]) -> None:
    tensors = "x: {shape: [N, 2]}, y: {shape: [N, 2]}, t: {shape: [2, L], grad: false}"
    item = compiled_text(f"{{op: f, tensors: {{{tensors}}}, outputs: {{y: '{formula}'}}}}")
    ((_, variant),) = item.operation.variants()
    assert {s.value.op for s in variant.plan.extras} == kept
    assert variant.plan.repeated == 0 and not variant.plan.is_larger
    x, y, t = (torch.rand(s, dtype=torch.float64, requires_grad=s != (2, 7)) for s in ((5, 2), (5, 2), (2, 7)))
    assert torch.autograd.gradcheck(item.function, (x, y, t), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(item.function, (x, y, t))


def test_one_more_number_for_each_row_is_free_where_intermediates_are_kept_anyway() -> None:
    x = symbol("x")

    def made(bytes_: float, cost: float, *extras: Expr) -> Plan:
        kept = (Saved(x, "input", 4, ""), *(Saved(e, "intermediate", 4, "") for e in extras))
        return Plan(kept, bytes_, 16, cost, 20)

    nothing, one, two = made(8.0, 15), made(8.0, 12, x + 1), made(8.06, 11, x + 1, x + 2)
    assert rank(two, "auto") < rank(one, "auto")
    assert rank(nothing, "auto") < rank(two, "auto")
    assert rank(one, "memory") < rank(two, "memory")
    assert rank(one, "auto") < rank(made(9.0, 5, x + 1), "auto")


def test_what_only_lends_its_shape_is_not_kept() -> None:
    body = "op: f\ntensors: {w: {shape: [O, I]}, u: {shape: [O], grad: false}, v: {shape: [I], grad: false}}\n"
    item = compiled_text(body + "outputs: {y: w / (u @ w @ v)}\n")
    ((_, variant),) = item.operation.variants()
    assert [s.value.op for s in variant.plan.extras] == ["matmul"]


def test_what_is_computed_in_float64_is_not_kept() -> None:
    text = "\nop: gelu\ntensors: {x: }\noutputs: {y: gelu(x)}\noptions: {precision: strict}\n"
    ((_, variant),) = compiled_text(text).operation.variants()
    assert variant.wide_values and not variant.wide_slopes
    assert not variant.plan.extras


DEEP = {
    "layers": ("N,A A,B B,C C,D D,E", "tanh(tanh(tanh(a @ b) @ c) @ d) @ e"),
    "a product in a long formula": ("N,A A,B B,A", "(a @ b) * tanh(softplus(a @ b)) @ c"),
    "attention": ("T,D D,E D,E D,E", "softmax((a @ b) @ (a @ c).T, dim=-1) @ (a @ d)"),
    "gates": ("N,I I,H N,H H,H", "sigmoid(a @ b + c @ d) * tanh(2 * (a @ b) + (sigmoid(c @ d) * c) @ d)"),
}


@pytest.mark.parametrize("shapes, formula", DEEP.values(), ids=DEEP)
def test_no_product_is_repeated_however_many_there_are(shapes: str, formula: str) -> None:
    tensors = ", ".join(f"{name}: {{shape: [{own}]}}" for name, own in zip("abcde", shapes.split(), strict=False))
    ((_, variant),) = compiled_text(
        f"op: deep\ntensors: {{{tensors}}}\noutputs: {{y: '{formula}'}}\n"
    ).operation.variants()
    assert variant.plan.repeated == 0
    assert variant.plan.bytes <= variant.plan.composite_bytes


def test_a_running_sum_is_kept_where_backward_would_be_slower_with_another() -> None:
    text = "op: weighted\ntensors: {x: }\noutputs: {y: 'cumsum(x, dim=-1) * x'}\noptions: {kernels: none}\n"
    variant = compiled_text(text).operation.variants()[0][1]
    assert [s.value.op for s in variant.plan.extras] == ["cumsum"]


@pytest.mark.parametrize(
    ("formula", "auto"), [("x + dropout(b, 0.5, seed)", "mask"), ("x + b * normal(x, seed)", "intermediate")]
)
def test_random_numbers_are_drawn_again_only_to_keep_least(
    formula: str, auto: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\nop: drawn\ntensors: {x: , b: }\nhyperparameters: {seed: 0}\noutputs: {y: '%s'}\noptions: {save: %s}\n"
    found: dict[str, list[torch.Tensor]] = {}
    for policy, sources, times in (("auto", [auto], 1), ("memory", [], 2)):
        item = compiled_text(text % (formula, policy))
        ((_, variant),) = item.operation.variants()
        assert [s.source for s in variant.plan.saved] == sources
        drawn = list[None]()
        own = item.module.rt.random_bits
        monkeypatch.setattr(
            item.module.rt, "random_bits", lambda *a, own=own, drawn=drawn: drawn.append(None) or own(*a)
        )
        generator = torch.Generator().manual_seed(1)
        x, b = (torch.randn(2, 5, generator=generator).requires_grad_() for _ in range(2))
        item.function(x, b).sum().backward()
        assert len(drawn) == times
        assert x.grad is not None and b.grad is not None
        found[policy] = [x.grad, b.grad]
        monkeypatch.undo()
    torch.testing.assert_close(found["auto"], found["memory"])


def test_a_multiple_of_an_input_is_not_kept_in_its_place() -> None:
    tensors = "x: {shape: [B, D]}, w: {shape: [D]}, s: {shape: []}"
    item = compiled_text(f"op: f\ntensors: {{{tensors}}}\nlet: {{f: s - w}}\noutputs: {{p: 2*f - 2*s + w, q: f*x}}\n")
    given = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((3, 4), (4,), ())]
    own, right = (torch.autograd.grad(sum(y.sum() for y in f(*given)), given) for f in (item.function, item.composite))
    torch.testing.assert_close(own, right)


def test_nothing_is_kept_that_gradients_only_divide_by() -> None:
    text = "op: f\ntensors: {x: {shape: [N, D]}, w: {shape: [N]}}\noutputs: {a: sum(x)/(1 + sum(x**2)), b: 'exp(w)'}\n"
    item = compiled_text(text)
    (variant,) = (v for _, v in item.operation.variants())
    assert [str(s.value) for s in variant.plan.saved] == ["x", "exp(w)", "sum(x**2) + 1"]
    x, w = torch.randn(3, 2, requires_grad=True), torch.randn(3, requires_grad=True)
    (ours, _), (theirs, _) = item.function(x, w), item.composite(x, w)
    torch.testing.assert_close(torch.autograd.grad(ours, x), torch.autograd.grad(theirs, x))


def test_totals_that_spare_a_pass_are_kept_however_many_there_are() -> None:
    """They take no memory to speak of, as the mask and the products of a loss would."""
    text = (
        "op: loss\ntensors: {z: {shape: [B, C, L]}, y: {shape: [B, C, L], grad: false}}\nlet:\n  p: sigmoid(z)\n"
        "  tp: 'sum(p * y, dim=[0, 2])'\n  fn: 'sum((1 - p) * y, dim=[0, 2])'\n  fp: 'sum(p * (1 - y), dim=[0, 2])'\n"
        "outputs: {loss: 'sum((1 - (tp + 1) / (tp + fn / 2 + fp / 4 + 1))**0.75)'}\n"
    )
    ((_, variant),) = compiled_text(text).operation.variants()
    kept = [s for s in variant.plan.extras if s.bytes < 0.1]
    again = read_by(variant.accumulated.forms, frozenset(s.value for s in variant.plan.saved))
    assert len(kept) >= 3
    assert not any(n.op == "sum" and not n.is_differential for n in again - {s.value for s in kept})
