"""Derivatives of random expressions against numeric ones in mpmath; linearity; symmetry of second derivatives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mpmath as mp
import pytest
import torch
from compiled import compiled_text
from hypothesis import HealthCheck, assume, given, settings
from random_expressions import ALPHA, POINT, TENSORS, X, Y, Z, expressions, well_conditioned

from symgrad.accuracy.evaluate import Exact, exact
from symgrad.differentiate.modes import (
    as_derived,
    is_linear,
    is_tensor_op,
    jvp,
    local_partials,
    partials,
    region_leaves,
    vjp,
)
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import ZERO, Expr, make, symbol
from symgrad.ir.traversal import rebuild, substitute, topological
from symgrad.ops.tensors.shaping import unsqueeze

SETTINGS = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
G, H = symbol("grad_y", "cotangent"), symbol("grad_z", "cotangent")
DX, DY, DZ = (symbol(f"tangent_{s.name}", "tangent") for s in TENSORS)
TANGENTS: dict[Expr, Any] = {DX: 0.6180339887498949, DY: -1.7320508075688772, DZ: 0.2886751345948129}
WIDER = {**POINT, **TANGENTS, G: 1.1, H: -0.4}
BITS, STEP = 400, mp.mpf(2) ** -100


def numeric(root: Expr, direction: Mapping[Expr, Any]) -> Any:
    """The derivative along a direction by central differences; None where the formula is not smooth or not tame."""
    with mp.workprec(BITS):
        points = [
            {**WIDER, **{s: mp.mpf(WIDER[s]) + k * STEP * mp.mpf(d) for s, d in direction.items()}}
            for k in (-2, -1, 1, 2)
        ]
        far, behind, ahead, further = Exact(points, BITS)(at_a_point(root))
        if not all(isinstance(v, mp.mpf) and mp.isfinite(v) for v in (far, behind, ahead, further)):
            return None
        near, wide = (ahead - behind) / (2 * STEP), (further - far) / (4 * STEP)
        tame = abs(near - wide) <= abs(near) * mp.mpf(2) ** -100 + mp.mpf(2) ** -120
        return near if tame and abs(near) < 1e40 else None


def agree(found: Any, expected: Any, bits: int = 80) -> bool:
    with mp.workprec(BITS):
        bound = (abs(expected) + mp.mpf(2) ** -20) * mp.mpf(2) ** -bits
        return bool(mp.isfinite(found) and abs(found - expected) <= bound)


def at_a_point(root: Expr) -> Expr:
    """The formula where all tensors are numbers, so that nothing has to be summed or expanded to a shape."""
    mapped: dict[Expr, Expr] = {}
    for node in topological(root):
        args = [mapped[a] for a in node.args]
        mapped[node] = args[0] if node.op in ("sum_to", "expand") else rebuild(node, args)
    return mapped[root]


def scaled(slope: Any, by: float) -> Any:
    with mp.workprec(BITS):
        return slope * mp.mpf(by)


def smooth(root: Expr) -> None:
    """Parts that are not tame have derivatives that differences do not show."""
    assume(well_conditioned(root) is not None)
    assume(not any(n.op in ("round", "floor", "ceil", "sign", "heaviside") for n in topological(root)))


def value(root: Expr) -> Any:
    return exact([at_a_point(root)], WIDER, BITS)[0]


# ---------------------------------------------------------------------------------------------- first derivatives
@SETTINGS
@given(expressions(*TENSORS, ALPHA))
def test_partials_are_derivatives(root: Expr) -> None:
    smooth(root)
    for leaf, partial in partials(root, [X, Y]).items():
        slope = numeric(root, {leaf: 1})
        if slope is not None:
            assert agree(value(partial), slope), (leaf, partial)


@SETTINGS
@given(expressions(*TENSORS, ALPHA))
def test_vjp_is_the_cotangent_times_the_slope(root: Expr) -> None:
    smooth(root)
    pulled = vjp({root: G}, TENSORS)
    for s in TENSORS:
        slope = numeric(root, {s: 1})
        if slope is None:
            continue
        if s in pulled:
            assert agree(value(pulled[s]), scaled(slope, WIDER[G]))
        else:
            assert slope == 0


@SETTINGS
@given(expressions(*TENSORS, ALPHA))
def test_jvp_is_the_slope_along_the_tangents(root: Expr) -> None:
    smooth(root)
    pushed = jvp([root], {X: DX, Y: DY})
    slope = numeric(root, {X: TANGENTS[DX], Y: TANGENTS[DY]})
    assume(slope is not None)
    assert agree(value(pushed[root]), slope) if root in pushed else slope == 0


@SETTINGS
@given(expressions(*TENSORS), expressions(*TENSORS))
def test_contributions_of_several_outputs_add_up(first: Expr, second: Expr) -> None:
    assume(first is not second)
    smooth(first)
    smooth(second)
    together = vjp({first: G, second: H}, [X, Y])
    for s in (X, Y):
        alone = [vjp({root: c}, [X, Y]).get(s, ZERO) for root, c in ((first, G), (second, H))]
        total = value(ex.add(*alone))
        if mp.isfinite(total):
            assert agree(value(together.get(s, ZERO)), total)
    pushed = jvp([first, second], {X: DX, Z: DZ})
    for root in (first, second):
        assert pushed.get(root, ZERO) is jvp([root], {X: DX, Z: DZ}).get(root, ZERO)


@SETTINGS
@given(expressions(*TENSORS, ALPHA))
def test_vjp_and_jvp_are_transposes(root: Expr) -> None:
    """g * (J t) equals (g J) * t."""
    smooth(root)
    pulled, pushed = vjp({root: G}, TENSORS), jvp([root], dict(zip(TENSORS, (DX, DY, DZ), strict=True)))
    left = value(G * pushed.get(root, ZERO))
    right = value(ex.add(*(pulled.get(s, ZERO) * t for s, t in zip(TENSORS, (DX, DY, DZ), strict=True))))
    assume(mp.isfinite(left) and mp.isfinite(right) and abs(left) < 1e60)
    assert agree(left, right, 200)


# ---------------------------------------------------------------------------------------------- second derivatives
@SETTINGS
@given(expressions(*TENSORS, ALPHA))
def test_second_derivatives_are_derivatives_of_the_first(root: Expr) -> None:
    smooth(root)
    first = vjp({root: G}, [X]).get(X, ZERO)
    assume(first is not ZERO)
    second = vjp({first: H}, [X, Y, G])
    for s in (X, Y, G):
        slope = numeric(first, {s: 1})
        if slope is not None:
            assert agree(value(second.get(s, ZERO)), scaled(slope, WIDER[H])), s


@SETTINGS
@given(expressions(*TENSORS))
def test_the_hessian_is_symmetric_forward_over_reverse(root: Expr) -> None:
    """jvp of the vjp: u H v equals v H u."""
    smooth(root)
    gradient = vjp({root: ex.ONE}, [X, Y])
    rows = [gradient.get(s, ZERO) for s in (X, Y)]

    def along(u: tuple[Expr, Expr], v: tuple[Expr, Expr]) -> Any:
        pushed = jvp(rows, {X: v[0], Y: v[1]})
        return value(ex.add(*(w * pushed.get(r, ZERO) for w, r in zip(u, rows, strict=True))))

    a, b = (DX, DY), (DY, DZ)
    left, right = along(a, b), along(b, a)
    assume(mp.isfinite(left) and mp.isfinite(right) and abs(left) < 1e60)
    # A product with a condition at its very kink would differ; the points are not there.
    assert agree(left, right, 200)


# ---------------------------------------------------------------------------------------------- conventions, structure
def test_powers_follow_the_conventions_of_torch() -> None:
    n = symbol("n", "tensor")
    slope, growth = (partials(X**n, [X, n])[s] for s in (X, n))
    at = {X: 0.0, n: 0.0}
    assert exact([slope, growth], at, 80) == [0, 0]
    assert exact([growth], {X: 0.0, n: 2.0}, 80) == [0]
    assert exact([growth], {X: 2.0, n: 3.0}, 80)[0] == pytest.approx(8 * float(mp.log(2)))
    assert exact([partials(X**2, [X])[X]], {X: 0.0}, 80) == [0]


def test_a_choice_is_differentiated_branch_by_branch() -> None:
    condition = truth.compare("gt", X, 0)
    root = truth.where(condition, make("log", X), 3 * X)
    assert partials(root, [X])[X] is truth.where(condition, 1 / X, ex.num(3))
    step = truth.where(condition, ex.ONE, ZERO)
    assert partials(step, [X])[X] is ZERO
    assert partials(make("exp", X) * step, [X])[X] is not ZERO


def test_what_does_not_depend_is_absent() -> None:
    assert vjp({make("exp", X): G}, [X, Y]).keys() == {X}
    assert jvp([make("exp", X), Y], {Y: DY}) == {Y: DY}
    assert vjp({truth.where(truth.compare("gt", Y, 0), X, ZERO): G}, [X, Y]).keys() == {X}
    assert vjp({make("floor", X): G}, [X]) == {}
    assert partials(Y, [X]) == {X: ZERO}


def test_the_form_of_each_partial_is_asked_for_once_and_used() -> None:
    asked: list[Expr] = []

    def settle(partial: Expr) -> Expr:
        asked.append(partial)
        return make("sech_stand_in", partial)

    root = make("tanh", X) * Y
    pulled = vjp({root: G}, [X, Y], settle)
    assert sorted(map(repr, asked)) == sorted(repr(p) for p in partials(root, [X, Y]).values())
    assert all(any(n.op == "sech_stand_in" for n in topological(g)) for g in pulled.values())
    assert as_derived(root) is root


def test_a_slope_that_turns_out_to_be_zero_contributes_nothing() -> None:
    root = make("sum", X * Y, dim=0, keepdim=False)
    assert vjp({root: G}, [X, Y], lambda slope: ZERO if slope is Y else slope).keys() == {Y}


def test_cotangents_of_a_value_are_added_up_before_they_go_on() -> None:
    """Two slices of one value: its slope multiplies the sum of what they give, once."""
    x = symbol("x", "tensor", ("N",))
    inner = make("exp", x)
    parts = [make("slice", inner, dim=-1, start=a, stop=b, step=1) for a, b in ((1, None), (0, -1))]
    root = parts[0] - parts[1]
    (gradient,) = vjp({root: symbol("g", "cotangent", ("M",))}, [x]).values()
    assert gradient.op == "mul" and sorted(f.op for f in gradient.args) == ["add", "exp"]


def test_regions_end_at_tensor_operations() -> None:
    total = make("sum", X * Y, dim=None, keepdim=False)
    root = make("exp", total) * Z + total
    assert set(region_leaves(root)) == {total, Z}
    assert is_tensor_op(total)
    assert not is_tensor_op(root)
    slopes = partials(root, [total, Z])
    assert slopes[Z] is make("exp", total)
    assert X not in partials(root, [X])[X].symbols


def test_local_partials_of_arithmetic() -> None:
    assert local_partials(X + Y + Z) == (ex.ONE, ex.ONE, ex.ONE)
    assert local_partials(X * Y * Z) == (Y * Z, X * Z, X * Y)
    assert local_partials(truth.compare("lt", X, Y)) == (ZERO, ZERO)
    with pytest.raises(KeyError):
        local_partials(make("unheard_of", X))


def test_the_tangent_of_a_function_of_a_difference_has_the_difference_of_tangents() -> None:
    """On a diagonal `x[:, None] - x` is 0 for every x, and so is its tangent, however large the slope is."""
    column, row = unsqueeze(X, -1), unsqueeze(X, -2)
    (pushed,) = jvp([make("exp", column - row)], {X: DX}).values()
    assert pushed is make("exp", column - row) * (unsqueeze(DX, -1) - unsqueeze(DX, -2))
    mean = make("mean", X, dim=-1, keepdim=True)
    (apart,) = jvp([(X - mean) ** 2], {X: DX}).values()
    assert apart.op == "add"  # sums of what is multiplied by the mean's tangent vanish


def test_contributions_of_one_shape_are_added_before_they_are_reduced() -> None:
    """Of a softmax over edges, what reaches the largest score is 0 but for rounding: two totals apart were 4 % off."""
    text = "{e: {shape: [E]}, i: {shape: [E], dtype: int}}"
    own = "w / segment_sum(w, i, 50)[i]"
    item = compiled_text(f"op: f\ntensors: {text}\nlet: {{w: exp(e - amax(e))}}\noutputs: {{a: '{own}'}}\n")
    generator = torch.Generator().manual_seed(0)
    scores, weights = (torch.randn(20_000, generator=generator) for _ in range(2))
    places = torch.arange(20_000) % 50
    single, double = (
        torch.func.grad(lambda e, w=w: (item.function(e, places) * w).sum())(scores.to(w.dtype))
        for w in (weights + 100, weights.double() + 100)
    )
    torch.testing.assert_close(single, double.float(), atol=1e-4, rtol=1e-4)


def test_products_enter_constant_branches() -> None:
    """So that a factor 0 never meets an infinity of the other branch."""
    gate = truth.where(truth.compare("gt", X, 0), ex.ONE, ZERO)
    slope = partials(make("relu", X) * make("exp", Y), [X])[X]
    assert exact([vjp({make("relu", make("exp", X) - 5): G}, [X])[X]], {X: -1e9, G: 1.0}, 80) == [0]
    assert slope is not gate


# ---------------------------------------------------------------------------------------------- linearity
LINEAR = [
    G,
    3 * G,
    G * X + G * make("exp", Y),
    G * ALPHA / X - 2 * G,
    truth.where(truth.compare("gt", X, 0), G, ZERO),
    truth.where(truth.compare("gt", X, 0), G * X, -G),
    make("sum", G * X, dim=None, keepdim=True) * Y,
    G + H,
    ZERO,
]
NOT_LINEAR = [
    G * G,
    G + 1,
    make("exp", G),
    G * H,
    X,
    1 / G,
    truth.where(truth.compare("gt", G, 0), G, ZERO),
    truth.where(truth.compare("gt", X, 0), G, X),
    G * X + Y,
    make("abs", G),
    G**2 / G**1 + X,
]


@pytest.mark.parametrize("root", LINEAR, ids=repr)
def test_what_is_linear_is_found_so(root: Expr) -> None:
    assert is_linear(root, frozenset({G, H}))


@pytest.mark.parametrize("root", NOT_LINEAR, ids=repr)
def test_what_is_not_linear_is_found_so(root: Expr) -> None:
    assert not is_linear(root, frozenset({G, H}))


@SETTINGS
@given(expressions(*TENSORS))
def test_what_vjp_makes_is_linear_in_the_cotangent(root: Expr) -> None:
    for pulled in vjp({root: G}, [X, Y]).values():
        assert is_linear(pulled, frozenset({G}))
        once, twice = value(pulled), value(substitute(pulled, {G: 2 * G}))
        if mp.isfinite(once) and abs(once) < 1e60:
            assert agree(twice, scaled(once, 2), 300)


@pytest.mark.parametrize(
    "formula, slope",
    {
        "max(0, x) + min(0, 2*(exp(x/2) - 1))": 1,
        "max(0, x) + 0.25*min(0, x)": 0.25,
        "max(0, x) - 0.25*x + log(1 + exp(-abs(x)))": 0.25,
        "max(-x, 0) + log1p(exp(-abs(x)))": -0.5,
        "min(x, 0) - log(1 + exp(-abs(x)))": 0.5,
        "maximum(x, -x) + log(1 + exp(-abs(2*x)))": 0,
        "maximum(x, 0)": 0,  # relu
        "minimum(x, 0)": 1,  # clamp
    }.items(),
)
def test_two_kinks_at_one_place_have_the_slope_of_torch_there(formula: str, slope: float) -> None:
    op = compiled_text(f'{{op: f, tensors: {{x: }}, outputs: {{y: "{formula}"}}}}').function
    x = torch.zeros(2, requires_grad=True)
    assert torch.autograd.grad(op(x).sum(), x)[0].tolist() == [slope, slope]
