"""A fused operation is worth what it replaces, in value and in gradient, and never costs a second computation."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from random_expressions import ALPHA, TENSORS, X, Y, Z, expressions, well_conditioned

from symgrad.accuracy.cost import operation_cost
from symgrad.accuracy.machine import machine
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import Expr, make, symbol
from symgrad.ir.pattern import is_wild
from symgrad.ir.traversal import substitute, topological
from symgrad.lower.growth import BOUNDS
from symgrad.plan.fusion import FUSIONS, GUARDED, Fusion, fuse, softmax_fusions
from symgrad.targets.constants import constant_value
from symgrad.targets.torch.fusions import SPELLING
from symgrad.targets.torch.printer import Printer
from symgrad.targets.torch.runtime import _runtime, _special

G, H = symbol("grad_y", "cotangent"), symbol("grad_z", "cotangent")
INPUTS = (X, Y, Z, G, H)
ROWS = (*FUSIONS, *softmax_fusions(-1))


def evaluate(roots: list[Expr], values: dict[Expr, Any]) -> list[torch.Tensor]:
    """The machine-level roots, printed and run."""
    constants: dict[Expr, str] = {}
    texts = [Printer({s: s.name for s in values}, constants).text(root) for root in roots]
    scope: dict[str, Any] = {
        "torch": torch,
        "math": math,
        "F": torch.nn.functional,
        "rt": _runtime,
        "_special": _special,
    }
    scope |= {s.name: v for s, v in values.items()} | {n: constant_value(c) for c, n in constants.items()}
    return [eval(text, scope) for text in texts]


def tensors(*, half_steps: bool = False) -> dict[Expr, Any]:
    generator = torch.Generator().manual_seed(5)
    values: dict[Expr, Any] = {ALPHA: 0.37}
    for s in INPUTS:
        t = torch.randn(4, 6, generator=generator, dtype=torch.float64)
        values[s] = ((t * 2).round() / 2 if half_steps else t).requires_grad_()
    return values


def concrete(fusion: Fusion) -> Expr:
    """The pattern with tensors for its wildcards: the cotangent for what is multiplied by it."""
    wilds = sorted({s for s in fusion.pattern.symbols if is_wild(s)}, key=lambda s: s.name)
    named = {"g": G, "y": X, "a": X, "b": Y, "c": Z, "k": ex.num(3)}
    if fusion.mask is not None:
        named[fusion.mask.name] = truth.compare("ge", X, Y)
    return substitute_raw(fusion.pattern, {w: named[w.name] for w in wilds})


def substitute_raw(root: Expr, pairs: dict[Expr, Expr]) -> Expr:
    """Replace symbols without normalising: patterns are in machine form."""
    mapped: dict[Expr, Expr] = {}
    for node in topological(root):
        mapped[node] = pairs.get(node) or make(node.op, *(mapped[a] for a in node.args), **dict(node.attrs))
    return mapped[root]


# ---------------------------------------------------------------------------------------------- rows of the table
@pytest.mark.parametrize("fusion", ROWS, ids=lambda f: f.name)
def test_a_row_has_the_value_and_both_derivatives_of_its_pattern(fusion: Fusion) -> None:
    pattern = concrete(fusion)
    (fused,) = fuse([pattern])
    assert fused.op == fusion.name
    values = tensors(half_steps=True)  # exact arithmetic, and kinks are met
    plain, quick = evaluate([pattern, fused], values)
    torch.testing.assert_close(quick, plain, rtol=1e-14, atol=1e-14)
    used = [values[s] for s in sorted(pattern.tensors, key=lambda s: s.name)]
    weight = torch.arange(24, dtype=torch.float64).reshape(4, 6).cos()
    first = [torch.autograd.grad(v, used, weight, create_graph=True, allow_unused=True) for v in (plain, quick)]
    for a, b in zip(*first, strict=True):
        torch.testing.assert_close(
            torch.zeros_like(weight) + (0 if b is None else b), 0 * weight + (0 if a is None else a)
        )
    seconds = []
    for slopes in first:
        total = sum((s.sin().sum() for s in slopes if s is not None), torch.zeros((), dtype=torch.float64))
        found = torch.autograd.grad(total, used, allow_unused=True) if total.requires_grad else (None,) * len(used)
        seconds.append([torch.zeros_like(u) if f is None else f for u, f in zip(used, found, strict=True)])
    for a, b in zip(*seconds, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("fusion", ROWS, ids=lambda f: f.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_row_keeps_dtype_and_extremes(fusion: Fusion, dtype: torch.dtype) -> None:
    pattern = concrete(fusion)
    (fused,) = fuse([pattern])
    extreme = torch.tensor([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e30, 1e-30], dtype=dtype)
    values: dict[Expr, Any] = {s: extreme.roll(i).clone() for i, s in enumerate(INPUTS)}
    plain, quick = evaluate([pattern, fused], values)
    assert quick.dtype == plain.dtype == dtype
    if fusion.name in ("threshold_backward", "leaky_relu_backward"):
        # torch's kernels pass the gradient where its argument is NaN; nothing but a NaN input sees that.
        known = ~torch.isnan(values[X])
        plain, quick = plain[known], quick[known]
    torch.testing.assert_close(quick, plain, rtol=1e-6, atol=0, equal_nan=True)


def test_rows_are_batched_and_have_a_forward_mode() -> None:
    values = {s: v.detach() for s, v in tensors().items() if s is not ALPHA}
    for fusion in ROWS:
        pattern = concrete(fusion)
        own = sorted(pattern.tensors, key=lambda s: s.name)

        def run(*arguments: torch.Tensor, root: Expr, own: list[Expr] = own) -> torch.Tensor:
            return evaluate([root], dict(zip(own, arguments, strict=True)))[0]

        (fused,) = fuse([pattern])
        arguments = tuple(values[s] for s in own)
        tangents = tuple(a.cos() for a in arguments)
        plain, quick = partial(run, root=pattern), partial(run, root=fused)
        batched = [torch.func.vmap(f)(*arguments) for f in (plain, quick)]
        torch.testing.assert_close(batched[1], batched[0], rtol=1e-12, atol=1e-12)
        pushed = [torch.func.jvp(f, arguments, tangents)[1] for f in (plain, quick)]
        torch.testing.assert_close(pushed[1], pushed[0], rtol=1e-12, atol=1e-12)


def test_every_fusion_has_a_spelling_and_a_cost() -> None:
    assert {fusion.name for fusion in ROWS} | {GUARDED} == set(SPELLING) - {*BOUNDS}
    for fusion in ROWS:
        assert operation_cost(make(fusion.name, *fusion.arguments)) >= 0
        assert {s for s in fusion.pattern.symbols if is_wild(s)} == {s for a in fusion.arguments for s in a.symbols}


# ---------------------------------------------------------------------------------------------- whole graphs
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(expressions(*TENSORS, G, ALPHA), expressions(*TENSORS, G))
def test_fused_graphs_have_the_same_values_and_cost_no_more(left: Expr, right: Expr) -> None:
    points = {X: 0.7310585786300049, Y: -1.2533141373155001, Z: 2.0943951023931957, ALPHA: 0.3678794411714423, G: 1.7}
    left, right = (substitute(r, {}) for r in (left, right))
    at = {G: Y}
    assume(all(well_conditioned(substitute(r, at)) is not None for r in (left, right)))
    assume(not left.is_static and not right.is_static)
    values = {s: torch.tensor([v], dtype=torch.float64) if s.tensors else v for s, v in points.items()}
    values[G] = values[Y]
    plain = machine([left, right, left * G + right])
    fused = fuse(plain)
    for a, b in zip(evaluate(plain, values), evaluate(fused, values), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-9, atol=1e-12)
    spent = [sum(operation_cost(n) for n in topological(*roots)) for roots in (plain, fused)]
    assert spent[1] <= spent[0] + 1e-9


def test_a_value_that_others_need_is_not_fused_away() -> None:
    product = make("mul", X, Y)
    total = make("add", product, Z)
    assert fuse([total])[0].op == "addcmul"
    assert fuse([total, product])[0] is total
    assert fuse([total, make("exp", product)])[0] is total
    assert fuse([total], leaves=frozenset({product}))[0] is total


def test_an_argument_that_only_a_leaf_reads_is_not_at_hand() -> None:
    inner = make("sub", ex.ONE, make("pow", make("div", X, ALPHA), ex.num(2)))
    square = make("mul", inner, inner)
    assert fuse([square], leaves=frozenset({inner})) == [square]


def test_scalars_and_masks_are_not_fused() -> None:
    mask = truth.compare("gt", X, 0)
    for root in (
        make("add", make("mul", ALPHA, X), symbol("i", "int_tensor")),
        make("add", make("mul", X, Y), ALPHA),
        make("add", make("mul", ALPHA, ALPHA), X),
        truth.where(mask, ALPHA, ex.ZERO),
        truth.where(mask, ex.ONE, ex.ZERO),
    ):
        assert fuse([root])[0] is root


def test_kernels_that_do_not_promote_take_one_tensor() -> None:
    assert fuse([truth.where(truth.compare("gt", X, 0), G, ex.ZERO)])[0].op == "threshold_backward"
    assert fuse([truth.where(truth.compare("gt", X, 0), Y, ex.ZERO)])[0].op == "where"
    assert fuse([truth.where(truth.compare("gt", make("mul", X, Y), 0), G, ex.ZERO)])[0].op == "masked"


@pytest.mark.parametrize("name", ["softmax_backward", "log_softmax_backward"])
def test_a_softmax_is_known_by_its_gradient_whatever_broadcasts(name: str) -> None:
    """The kernel takes equal shapes only: others are computed in steps."""
    weighted = make("mul", X, G)
    root = {
        "softmax_backward": make("mul", X, make("sub", G, make("sum", weighted, dim=0, keepdim=True))),
        "log_softmax_backward": make("sub", G, make("mul", make("exp", X), make("sum", G, dim=0, keepdim=True))),
    }[name]
    (fused,) = fuse([root])
    assert fused.op == name and fused.args == (G, X, ex.ZERO)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    for g in (x.cos(), x[:1].cos(), x[0].cos(), x.cos().float(), torch.tensor(2.0, dtype=torch.float64)):
        plain, quick = evaluate([root, fused], {X: x, G: g})
        torch.testing.assert_close(quick, plain, rtol=1e-12, atol=1e-12)
    (kept,) = fuse([make("mul", X, make("sub", G, make("sum", weighted, dim=0, keepdim=False)))])
    assert kept.op == "mul"


def test_a_number_that_the_same_mask_hides_is_chosen_for_derivatives_alone() -> None:
    inside = truth.compare("gt", X * Y, 0)
    divisor = truth.where(inside, X, 1)

    def chosen(value: Expr) -> list[str]:
        found = topological(*fuse(machine([truth.where(inside, value, 0)])))
        return [n.op for n in found if n.op in ("where", GUARDED)]

    assert chosen(G / divisor) == [GUARDED]
    assert chosen(make("sum", G / divisor, dim=-1, keepdim=True)) == ["where"]  # what is not hidden takes part in it
    shown = topological(*fuse(machine([truth.where(inside, G / divisor, 0), G * divisor])))
    assert [n.op for n in shown if n.op in ("where", GUARDED)] == ["where"]


@pytest.mark.parametrize("number", [0, 1])
def test_a_mask_hides_whichever_way_it_is_written(number: int) -> None:
    outside = truth.compare("gt", X * Y, 0)
    exponential = make("exp", truth.where(outside, number, X))

    def chosen(*values: Expr) -> list[str]:
        return [n.op for n in topological(*fuse(machine(values))) if n.op in ("where", "masked", GUARDED)]

    hidden = truth.where(outside, 0, G * exponential)
    assert chosen(hidden) == [GUARDED, "masked"]
    assert GUARDED not in chosen(truth.where(outside, G * exponential, 0)), "where the number is what is shown"
    assert GUARDED not in chosen(hidden, G * exponential)


# ------------------------------------------------------------------------------------- parts added to a slice
def padded(part: Expr, *, start: int, dim: int = -1, step: int = 1) -> Expr:
    return make("slice_back", part, X, dim=dim, start=start, stop=None, step=step)


@pytest.mark.parametrize("no_grad", [False, True])
@pytest.mark.parametrize("start", [2, -4, 0])
def test_a_part_is_added_to_a_slice_of_what_nobody_else_reads(start: int, no_grad: bool) -> None:
    part = make("slice", make("mul", G, Y), dim=-1, start=start, stop=None, step=1)
    onto = make("mul", X, G)
    roots = [make("add", padded(part, start=start), onto), make("add", onto, padded(part, start=start))]
    fused = [one for root in roots for one in fuse([root])]
    assert [f.op for f in fused] == ["slice_added"] * 2 and all(f.args[0] is onto for f in fused)
    values = {s: t.detach() if no_grad else t for s, t in tensors().items() if s is not ALPHA}
    with torch.set_grad_enabled(not no_grad):
        plain, quick = evaluate(roots[:1], values), evaluate(fused[:1], values)
    torch.testing.assert_close(quick, plain)
    if not no_grad:
        torch.testing.assert_close(
            *(torch.autograd.grad(v[0].cos().sum(), [values[s] for s in (X, Y, G)]) for v in (quick, plain))
        )


def test_several_parts_are_added_to_the_zeros_of_the_first() -> None:
    one, two, three = (make("slice", make("mul", G, s), dim=-1, start=0, stop=-2, step=1) for s in (X, Y, Z))
    root = make("add", make("add", padded(one, start=2), padded(two, start=1)), padded(three, start=0))
    assert [n.op for n in topological(*fuse([root])) if n.op.startswith("slice_")] == ["slice_back"] + [
        "slice_added"
    ] * 2


@pytest.mark.parametrize(
    ("onto", "others"),
    [
        (X, []),  # a leaf
        (make("exp", X), []),  # autograd keeps it
        (make("mul", X, G), [make("mul", X, G)]),  # somebody else reads it
        (make("sum_to", make("mul", X, G), X), [make("sum_to", make("mul", X, G), X)]),
        (make("sum_to", make("mul", X, G), X), [make("mul", X, G)]),
        (make("mul", make("sum", X, dim=-1, keepdim=True), ex.num(2)), []),  # it has fewer elements
        (make("mT", make("mul", X, G)), []),  # it may be a view
    ],
)
def test_no_part_is_added_to_what_is_no_memory_of_its_own(onto: Expr, others: list[Expr]) -> None:
    part = make("slice", Y, dim=-1, start=2, stop=None, step=1)
    assert "slice_added" not in [n.op for n in topological(*fuse([make("add", onto, padded(part, start=2)), *others]))]


def test_a_part_with_steps_is_padded() -> None:
    part = make("slice", Y, dim=-1, start=0, stop=None, step=2)
    assert fuse([make("add", make("mul", X, G), padded(part, start=0, step=2))])[0].op == "addcmul"


def test_what_is_left_of_equal_products_is_nothing() -> None:
    first, second = make("mul", X, Y), make("mul", Z, Z)
    assert fuse([make("sub", first, second)])[0].op == "sub"  # torch rounds one product of a fused operation alone
    assert fuse([make("sub", first, make("mul", first, Z))])[0].op == "subcmul"
    assert fuse([make("sub", make("mul", first, G), second)])[0].op == "subcmul"  # in derivatives it is not divided by


def test_what_is_compared_with_an_extremum_that_is_kept_is_rounded_as_it_was() -> None:
    x, y, r, kept = (symbol(n, "tensor") for n in ("x", "y", "r", "kept"))
    total = make("add", make("mul", x, y), r)
    mask = make("eq", total, kept)
    assert fuse([mask]) == [mask] and fuse([total])[0].op == "addcmul"
