"""The idealised machine against torch: as near as torch's own functions are to correct rounding."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_expressions import ALPHA, POINT, TENSORS, X, Y, Z, expressions, well_conditioned
from torch.nn import functional

from symgrad.accuracy.evaluate import FLOAT32, FLOAT64, Environment, Exact, Format
from symgrad.accuracy.machine import machine_form
from symgrad.accuracy.simulate import Simulation
from symgrad.ir import expr as ex
from symgrad.ir.expr import COMPARISONS, Expr, make, num, symbol
from symgrad.ir.traversal import topological
from symgrad.ops.functions import BY_AUTOGRAD, FUNCTIONS, Function
from symgrad.targets.torch.runtime import _special

torch.set_num_threads(1)


def simulate(roots: Sequence[Expr], environment: Environment, target: Format) -> list[Any]:
    """The roots at one point, every operation rounded to `target`."""
    simulation = Simulation([environment], target)
    return [simulation(root)[0] for root in roots]


SECOND = list(BY_AUTOGRAD.values())  # other spellings of the same functions
ROWS = [row for row in FUNCTIONS.values() if row.meaning is not None and row not in SECOND]
FORMATS = [(FLOAT32, torch.float32), (FLOAT64, torch.float64)]
IDS = ["float32", "float64"]
SYMBOLS = [symbol(name) for name in "pqr"]
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 1e-30, 1e30, 3e38, 1e-44, math.inf, -math.inf, math.nan)

# How many ulp torch may be away from correct rounding in float32 and float64. Those in the hundreds lose digits to
# cancellation or to the rounding of pi * x.
USUAL = (2.0, 2.0)
TORCH = {
    "dawson": (4.0, 4.0),
    "dawson_prime": (5.0, 6.0),
    "digamma": (600.0, 400.0),
    "erfcx": (20.0, 80.0),
    "erfi": (7.0, 7.0),
    "gammainc": (10.0, 12.0),
    "gammaincc": (10.0, 12.0),
    "i0": (4.0, 4.0),
    "i0e": (5.0, 5.0),
    "i1": (8.0, 6.0),
    "i1e": (5.0, 5.0),
    "log_ndtr": (60.0, 300.0),
    "logaddexp": (200.0, 200.0),
    "modified_bessel_k0": (6.0, 6.0),
    "modified_bessel_k1": (4.0, 4.0),
    "ndtri": (3.0, 4.0),
    "polygamma": (4.0, 1e7),  # zeta with 7 digits
    "scaled_modified_bessel_k0": (6.0, 6.0),
    "scaled_modified_bessel_k1": (5.0, 5.0),
    "sinc": (3000.0, 3000.0),
    "sigmoid": (3.0, 3.0),
    "zeta": (3.0, 4.0),
}
# Those that swing about 0: absolute, as nothing else is kept near a root. torch's Bessel functions have 7 digits beyond
# 5, in float64 too.
SWINGING = {
    **dict.fromkeys(("bessel_j0", "bessel_j1"), (5e-7, 5e-7)),
    **dict.fromkeys(("bessel_y0", "bessel_y1"), (1e-6, 1e-6)),
    **dict.fromkeys(("airy_ai", "airy_ai_prime"), (2e-7, 4e-16)),
}
# Where torch has a convention of its own: signed zeros, poles, and no NaN from NaN.
UNLIKE: dict[str, Callable[[float], bool]] = {
    "atan2": lambda v: v == 0,
    "sinc": lambda v: abs(v) >= 1,
    "sign": math.isnan,
    "heaviside": math.isnan,
    "lgamma": lambda v: v <= 0,
    "digamma": lambda v: v <= 0,
    "polygamma": lambda v: v <= 0,
    "zeta": lambda v: not 0 <= v <= 1e29,
    "gammainc": math.isnan,
    "gammaincc": math.isnan,
    # torch divides first, which overflows beside a subnormal number.
    "remainder": lambda v: 0 < abs(v) < 1e-37,
    "fmod": lambda v: 0 < abs(v) < 1e-37,
}
EXACT = {"abs", "sign", "finite", "floor", "ceil", "round", "relu", "maximum", "minimum", "clamp", "heaviside"}


def arguments(row: Function) -> list[Expr]:
    found = list(SYMBOLS[: row.torch.count("{") if row.name == "zeta" else row.required])
    if row.name == "polygamma":
        found[0] = num(1)
    return found


def in_torch(text: str, names: dict[str, torch.Tensor]) -> list[Any]:
    result = eval(text, {"torch": torch, "F": functional, "_special": _special, **names})
    return list(result.tolist()) if result.dtype == torch.bool else list(result.double().tolist())


def distance(own: float, theirs: float, target: Format) -> float:
    """In ulp; 0 for two NaNs or the same infinity."""
    if own == theirs or (math.isnan(own) and math.isnan(theirs)):
        return 0.0
    if not math.isfinite(own) or not math.isfinite(theirs):
        return math.inf
    return float(abs(mp.mpf(own) - theirs) / target.ulp(own))


@pytest.mark.parametrize(("target", "dtype"), FORMATS, ids=IDS)
@pytest.mark.parametrize("row", ROWS, ids=[r.name for r in ROWS])
def test_a_function_is_simulated_as_torch_computes_it(row: Function, target: Format, dtype: torch.dtype) -> None:
    generator = random.Random(row.name)
    args = [a for a in arguments(row) if a.op == "sym"]
    low, high = row.sample
    wide = row.domain == (-math.inf, math.inf) and low < 0
    points = []
    for i in range(80):
        scale = 10 ** generator.uniform(-6, 1) if wide and i % 2 else 1.0
        points.append({s: target.round(generator.uniform(low, high) * scale) for s in args})
    simulated = Simulation(points, target)(make(row.name, *arguments(row)))
    names = {s.name: torch.tensor([p[s] for p in points], dtype=dtype) for s in args}
    real = in_torch(row.torch.format(*(a.name if a.op == "sym" else "1" for a in arguments(row))), names)
    if row.name in SWINGING:
        assert max(abs(a - b) for a, b in zip(simulated, real, strict=True)) <= SWINGING[row.name][target is FLOAT64]
        return
    allowed = 0.0 if row.name in EXACT else TORCH.get(row.name, USUAL)[target is FLOAT64]
    worst = max(distance(a, b, target) for a, b in zip(simulated, real, strict=True))
    assert worst <= allowed


@pytest.mark.parametrize(("target", "dtype"), FORMATS, ids=IDS)
@pytest.mark.parametrize("row", ROWS, ids=[r.name for r in ROWS])
def test_infinities_and_zeros_give_what_torch_gives(row: Function, target: Format, dtype: torch.dtype) -> None:
    """A result that is not finite says so in both."""
    args = [a for a in arguments(row) if a.op == "sym"]
    special = [v for v in SPECIAL if not UNLIKE.get(row.name, lambda v: False)(v)]
    if len(args) == 1:
        points = [{args[0]: target.round(v)} for v in special]
    elif row.name == "clamp":
        points = [dict(zip(args, (target.round(v), -1.0, 2.5), strict=True)) for v in special]
    else:
        points = [
            dict(zip(args, map(target.round, pair), strict=True))
            for pair in zip(special * 3, special[1:] + special + special[:-1] + special[:2], strict=False)
            if not any(map(math.isinf, pair)) or row.name in ("maximum", "minimum")
        ]
    simulated = Simulation(points, target)(make(row.name, *arguments(row)))
    names = {s.name: torch.tensor([p[s] for p in points], dtype=dtype) for s in args}
    real = in_torch(row.torch.format(*(a.name if a.op == "sym" else "1" for a in arguments(row))), names)
    for point, own, theirs in zip(points, simulated, real, strict=True):
        assert math.isnan(own) == math.isnan(theirs), (point, own, theirs)
        assert math.isinf(own) == math.isinf(theirs) or abs(own) > 1e37, (point, own, theirs)
        if math.isinf(own) or own == 0:
            assert own == theirs or (own == 0 and abs(theirs) < 1e-37), (point, own, theirs)


OPERATIONS = {
    "add": "p + q",
    "sub": "p - q",
    "mul": "p * q",
    "div": "p / q",
    "neg": "-p",
    "sqrt": "torch.sqrt(p)",
    "square": "p**2",
    "reciprocal": "p**-1",
    **{op: f"p {sign} q" for op, sign in COMPARISONS.items()},
}


def node_of(op: str) -> Expr:
    p, q = SYMBOLS[:2]
    powers = {"sqrt": ex.HALF, "square": ex.num(2), "reciprocal": ex.MINUS_ONE}
    if op in powers:
        return make("pow", p, powers[op])
    return make("neg", p) if op == "neg" else make(op, p, q)


@pytest.mark.parametrize(("target", "dtype"), FORMATS, ids=IDS)
@pytest.mark.parametrize("op", OPERATIONS)
def test_arithmetic_is_that_of_torch_to_the_last_bit(op: str, target: Format, dtype: torch.dtype) -> None:
    """But for the square root, which torch's vector code does not round correctly."""
    generator = random.Random(op)
    magnitudes = [generator.uniform(-1, 1) * 10 ** generator.uniform(-18, 18) for _ in range(200)]
    pairs = [(abs(a) if op == "sqrt" else a, b) for a, b in zip(magnitudes, magnitudes[7:], strict=False)]
    pairs += [(a, a * (1 + generator.uniform(-1e-6, 1e-6))) for a in magnitudes[:50]]
    pairs += [(a, b) for a in SPECIAL for b in SPECIAL]
    points = [{SYMBOLS[0]: target.round(a), SYMBOLS[1]: target.round(b)} for a, b in pairs]
    names = {s.name: torch.tensor([p[s] for p in points], dtype=dtype) for s in SYMBOLS[:2]}
    simulated = Simulation(points, target)(node_of(op))
    for point, own, theirs in zip(points, simulated, in_torch(OPERATIONS[op], names), strict=True):
        assert distance(own, theirs, target) <= (1.0 if op == "sqrt" else 0.0), (point, own, theirs)


@pytest.mark.parametrize(("target", "dtype"), FORMATS, ids=IDS)
@pytest.mark.parametrize("scalar", [0.1, 3.0, 1e-3])
def test_python_scalars_beside_tensors(scalar: float, target: Format, dtype: torch.dtype) -> None:
    """They enter in the tensor's format; a scalar over a tensor is a multiple of the reciprocal."""
    values = [target.round(math.exp(k / 7) * (-1) ** k) for k in range(-60, 60)]
    points = [{X: v, ALPHA: scalar} for v in values]
    x = torch.tensor(values, dtype=dtype)
    for node, real in (
        (make("mul", ALPHA, X), scalar * x),
        (make("add", X, ALPHA), x + scalar),
        (make("sub", X, ALPHA), x - scalar),
        (make("div", X, ALPHA), x / scalar),
        (make("div", ALPHA, X), scalar / x),
        (make("mul", make("mul", ALPHA, ex.PI), X), scalar * math.pi * x),
    ):
        assert Simulation(points, target)(node) == real.double().tolist(), node


def test_scalars_are_computed_in_double() -> None:
    root = make("mul", make("exp", ALPHA), make("exp", ALPHA))
    assert simulate([root], {ALPHA: 40.0}, FLOAT32) == [math.exp(40.0) ** 2]
    assert simulate([make("mul", root, X)], {ALPHA: 45.0, X: 1.0}, FLOAT32) == [math.inf]


def test_float32_overflows_and_rounds_where_it_should() -> None:
    assert simulate([make("mul", X, X)], {X: 1e20}, FLOAT32) == [math.inf]
    assert simulate([make("mul", X, X)], {X: 1e20}, FLOAT64) == [1e20 * 1e20]
    assert simulate([make("add", X, Y)], {X: 1.0, Y: 2.0**-25}, FLOAT32) == [1.0]
    assert simulate([make("exp", X)], {X: 89.0}, FLOAT32) == [math.inf]
    assert simulate([make("exp", X)], {X: 710.0}, FLOAT64) == [math.inf]
    assert simulate([make("div", X, Y)], {X: 1.0, Y: 0.0}, FLOAT32) == [math.inf]
    assert math.isnan(simulate([make("div", X, Y)], {X: 0.0, Y: 0.0}, FLOAT32)[0])
    assert math.isnan(simulate([make("log", X)], {X: -1.0}, FLOAT32)[0])


SETTINGS = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)


@SETTINGS
@given(expressions(*TENSORS, ALPHA))
def test_the_last_rounding_of_each_operation_is_correct(root: Expr) -> None:
    """Each operation on the simulated operands is within half an ulp of its true value (or of a double's error)."""
    form = machine_form(root)
    for target in (FLOAT32, FLOAT64):
        point = {s: v if s not in TENSORS else target.round(v) for s, v in POINT.items()}
        simulation = Simulation([point], target)
        for node in topological(form):
            if node.op in ("sub", "div", "neg") or node.is_static or not node.args or node.is_boolean:
                continue
            operands = [symbol(f"o{i}", "bool" if a.is_boolean else "tensor") for i, a in enumerate(node.args)]
            held = [a if a.is_static else o for a, o in zip(node.args, operands, strict=True)]
            at = {o: simulation(a)[0] for o, a in zip(operands, node.args, strict=True)} | point
            if any(isinstance(v, float) and not math.isfinite(v) for v in at.values()):
                continue
            if any(a.is_static and a.op != "num" for a in node.args):
                continue  # rounded to the format on its way in
            true = Exact([at], 300)(make(node.op, *held, **dict(node.attrs)))[0]
            own = simulation(node)[0]
            if (
                mp.isfinite(true)
                and abs(true) < target.largest
                and all(a.op != "num" or target.round(float(a["value"])) == a["value"] for a in node.args)
            ):
                bound = 0.501 if target is FLOAT32 else 2.0
                assert abs(own - true) <= bound * target.ulp(true), (node, at, own, true)


@SETTINGS
@given(expressions(*TENSORS, ALPHA))
def test_double_precision_is_near_the_truth_where_it_is_well_conditioned(root: Expr) -> None:
    true = well_conditioned(root)
    if true is not None and not isinstance(true, bool):
        (own,) = simulate([machine_form(root)], POINT, FLOAT64)
        assert abs(own - true) <= 1e-8 * abs(true) + 1e-14


@given(st.floats(width=32, allow_nan=False), st.floats(width=32, allow_nan=False))
@settings(deadline=None, max_examples=200)
def test_float32_arithmetic_is_rounded_once(a: float, b: float) -> None:
    left, right = torch.tensor(a, dtype=torch.float32), torch.tensor(b, dtype=torch.float32)
    expected = [(left + right).item(), (left - right).item(), (left * right).item(), (left / right).item()]
    nodes = [make(op, X, Z) for op in ("add", "sub", "mul", "div")]
    for own, theirs in zip(simulate(nodes, {X: a, Z: b}, FLOAT32), expected, strict=True):
        assert own == theirs or (math.isnan(own) and math.isnan(theirs))


@pytest.mark.parametrize("target", [FLOAT32, FLOAT64], ids=IDS)
def test_rough_results_are_off_where_libraries_may_differ(target: Format) -> None:
    point = {X: target.round(0.1), Y: target.round(0.3)}
    plain, rough = Simulation([point], target), Simulation([point], target, off=(1, -2, 2))
    for root in (make("mul", X, Y), make("div", X, Y), make("exp", X)):
        ((right,), (shifted,)) = plain(root), rough(root)
        assert 0 < abs(shifted - right) <= 2 * float(target.ulp(mp.mpf(right)))
    for root in (make("mul", num(2), X), make("add", X, Y), make("neg", X)):
        assert rough(root) == plain(root)
