"""Every row of the function table is proven: derivative, meaning in torch and in Python, guard, spellings."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Iterator
from fractions import Fraction

import mpmath as mp
import pytest
import torch
from compiled import compiled_text
from effort import at_most
from torch.nn import functional

from symgrad.accuracy.evaluate import exact
from symgrad.differentiate.modes import partials as derivatives
from symgrad.ir.expr import COMPARISONS, ZERO, Expr, make, num, symbol
from symgrad.ops.functions import BY_AUTOGRAD, FUNCTIONS, SPELLINGS, Function, call, extremum, real
from symgrad.targets.torch.runtime import _runtime, _special

ROWS = [row for row in FUNCTIONS.values() if row.meaning is not None and row not in BY_AUTOGRAD.values()]
ATOMS = [row for row in ROWS if row.name not in ("heaviside",)]
SYMBOLS = [symbol(name) for name in ("p", "q", "r")]


# torch's own error in float64; its Bessel functions of both kinds have 6 to 10 digits beyond 5.
LOOSE = {"polygamma": 1e-8, **dict.fromkeys(("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"), 1e-4)}


def arguments(row: Function) -> list[Expr]:
    """Symbols for the arguments; orders are constants."""
    assert row.partials is not None
    count = len(inspect.signature(row.partials).parameters)
    found = list(SYMBOLS[:count])
    if row.name == "polygamma" or row.orders:
        found[0] = num(2 if row.orders else 1)
    return found


SCOPE: dict[str, object] = {  # what spellings read
    "torch": torch,
    "F": functional,
    "math": math,
    "_special": _special,
    "rt": _runtime,
}


def points(row: Function, count: int = 12) -> Iterator[dict[Expr, float]]:
    generator = random.Random(row.name)
    low, high = row.sample
    for _ in range(count):
        yield {s: generator.uniform(low, high) for s in arguments(row) if s.op == "sym"}


@pytest.mark.parametrize("row", ATOMS, ids=[r.name for r in ATOMS])
def test_derivatives_are_those_of_the_meaning(row: Function) -> None:
    args = arguments(row)
    node = make(row.name, *args)
    assert row.partials is not None
    partials = row.partials(*args)
    assert len(partials) == len(args)
    for point in points(row):
        for argument, partial in zip(args, partials, strict=True):
            if argument.op != "sym":
                continue
            with mp.workprec(300):
                step = mp.mpf(2) ** -80
                ahead, behind = (
                    exact([node], {**point, argument: mp.mpf(point[argument]) + sign * step}, 300)[0]
                    for sign in (1, -1)
                )
                slope = (ahead - behind) / (2 * step)
                (stated,) = exact([partial], point, 300)
                assert abs(stated - slope) <= mp.mpf(2) ** -48 * (1 + abs(slope)), (row.name, point)


@pytest.mark.parametrize("row", ROWS, ids=[r.name for r in ROWS])
def test_the_spelling_in_torch_has_the_meaning(row: Function) -> None:
    args = arguments(row)
    for point in points(row):
        values = [
            torch.tensor(point[a], dtype=torch.float64)
            if a.op == "sym"
            else torch.tensor(2.0, dtype=torch.float64)
            if row.tensor_args
            else int(a["value"])
            for a in args
        ]
        names = [f"v{i}" for i in range(len(values))]
        scope = {**SCOPE, **dict(zip(names, values, strict=True))}
        got = eval(row.torch.format(*names), scope)
        (want,) = exact([make(row.name, *args)], point, 200)
        assert float(got) == pytest.approx(float(want), rel=LOOSE.get(row.name, 1e-11), abs=1e-13)


@pytest.mark.parametrize("row", ROWS, ids=[r.name for r in ROWS])
def test_the_spelling_for_python_numbers_has_the_meaning(row: Function) -> None:
    args = arguments(row)
    for point in points(row, 6):
        texts = [repr(point[a]) if a.op == "sym" else str(a["value"]) for a in args]
        got = eval(row.python.format(*texts), SCOPE)
        (want,) = exact([make(row.name, *args)], point, 200)
        assert float(got) == pytest.approx(float(want), rel=LOOSE.get(row.name, 1e-11), abs=1e-13)


KINKS = {
    "abs": (0.0, 0.0),
    "relu": (0.0, 0.0),
    "sign": (0.0, 0.0),
}


@pytest.mark.parametrize(("name", "at", "slope"), [(n, *v) for n, v in KINKS.items()])
def test_derivatives_at_kinks_follow_the_conventions(name: str, at: float, slope: float) -> None:
    (partial,) = FUNCTIONS[name].partials(SYMBOLS[0])  # type: ignore[misc]
    assert exact([partial], {SYMBOLS[0]: at}, 100)[0] == slope


def test_clamp_passes_the_gradient_on_the_closed_interval_and_extrema_share_ties() -> None:
    x = SYMBOLS[0]
    (inside, _, _) = FUNCTIONS["clamp"].partials(x, num(-1), num(1))  # type: ignore[misc]
    assert [exact([inside], {x: v}, 60)[0] for v in (-1.5, -1.0, 0.0, 1.0, 1.5)] == [0, 1, 1, 1, 0]
    for name in ("maximum", "minimum"):
        first, second = FUNCTIONS[name].partials(*SYMBOLS[:2])  # type: ignore[misc]
        assert exact([first, second], {SYMBOLS[0]: 2.0, SYMBOLS[1]: 2.0}, 60) == [0.5, 0.5]


@pytest.mark.parametrize("row", [r for r in ROWS if r.safe is not None], ids=lambda r: r.name)
def test_the_safe_argument_is_safe(row: Function) -> None:
    """Value and derivatives are finite where the guard of a dead branch puts the critical argument."""
    args = arguments(row)
    assert row.safe is not None and row.partials is not None
    point = {a: float(row.safe) for a in args if a.op == "sym"}
    assert all(mp.isfinite(v) for v in exact([make(row.name, *args), *row.partials(*args)], point, 100))


@pytest.mark.parametrize("row", BY_AUTOGRAD.values(), ids=lambda row: row.name)
def test_the_spelling_for_autograd_has_three_derivatives(row: Function) -> None:
    *orders, name = arguments(row)
    forms = [make(row.name.removesuffix("_by_autograd"), *orders, name)]
    given = [f"torch.tensor({float(order.number)}, dtype=torch.float64)" for order in orders]
    for _ in range(3):
        forms.append(derivatives(forms[-1], [name])[name])
    for point in points(row):
        x = torch.tensor(point[name], dtype=torch.float64, requires_grad=True)
        value = eval(row.torch.format(*given, "x"), {**SCOPE, "x": x})
        for order, form in enumerate(forms):
            (right,) = exact([form], point, 200)
            assert float(value.detach()) == pytest.approx(float(right), rel=1e-8 if point[name] < 5 else 1e-4, abs=1e-6)
            if order < len(forms) - 1:
                (value,) = torch.autograd.grad(value, x, create_graph=True)


@pytest.mark.parametrize(
    "row",
    [r for r in FUNCTIONS.values() if r.definition is not None and not r.name.startswith("bessel")],
    ids=lambda r: r.name,
)
def test_a_definition_expands_to_other_rows(row: Function) -> None:
    numbers = {"real_root": [num(3)], "nan_to_num": [num(0), num(1), num(-1)]}.get(row.name, [])
    expanded = call(row.name, *SYMBOLS[: row.required - len(numbers)], *numbers)
    assert expanded.op in {"pow", "mul", "add", "div", "where", *COMPARISONS, *FUNCTIONS}


def test_no_spelling_means_two_functions() -> None:
    spellings = [s for row in FUNCTIONS.values() for s in (row.name, *row.aliases)]
    internal = [row.name for row in FUNCTIONS.values() if row.internal]
    assert len(spellings) == len(set(spellings)) == len(SPELLINGS) + len(internal)
    assert not SPELLINGS.keys() & set(internal)


@pytest.mark.parametrize("row", ATOMS, ids=[r.name for r in ATOMS])
def test_what_torch_saves_is_what_the_row_says(row: Function) -> None:
    """At most: the composite's bytes, which plans are held against, are not overstated."""
    args = arguments(row)
    (point,) = points(row, 1)
    values = [
        torch.full((3,), point[a], dtype=torch.float64, requires_grad=True)
        if a.op == "sym"
        else torch.tensor(2.0, dtype=torch.float64)
        if row.tensor_args
        else int(a["value"])
        for a in args
    ]
    if row.by_autograd:
        return  # it saves nothing, and has no derivative
    saved: list[torch.Tensor] = []
    names = [f"v{i}" for i in range(len(values))]
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (saved.append(t), t)[1], lambda t: t):
        eval(row.torch.format(*names), {**SCOPE, **dict(zip(names, values, strict=True))})
    stated = ("x" in row.saves) * sum(a.op == "sym" for a in args) + ("y" in row.saves) + ("m" in row.saves)
    storages = {t.untyped_storage().data_ptr() for t in saved if t.numel() == 3}
    assert stated <= len(storages)


@pytest.mark.parametrize("row", [r for r in ROWS if r.in_half and not r.orders], ids=lambda r: r.name)
def test_torch_rounds_once_in_half_precision_where_the_row_says_so(row: Function) -> None:
    args = arguments(row)
    found = [a for a in points(row, 40) if all(a.values())]
    values = {a: torch.tensor([p[a] for p in found]).bfloat16() if a.op == "sym" else int(a["value"]) for a in args}
    names = dict(zip(("a", "b", "c"), values.values(), strict=False))
    got = eval(row.torch.format(*names), {**SCOPE, **names})
    for k, result in enumerate(got.double().tolist()):
        point = {a: float(v[k]) for a, v in values.items() if isinstance(v, torch.Tensor)}
        (true,) = exact([make(row.name, *args)], point, 100)
        assert result == pytest.approx(float(true), rel=2**-8, abs=1e-38, nan_ok=True), (row.name, point)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("save", ["auto", "memory"])
def test_beside_a_number_that_is_none_both_operands_of_an_extremum_have_the_gradient(name: str, save: str) -> None:
    op = compiled_text(f"{{op: f, tensors: {{x: , y: }}, outputs: {{z: '{name}(x, y)'}}, options: {{save: {save}}}}}")
    x = torch.tensor([math.nan, 1.0, math.nan, 2.0, 0.0, 3.0], requires_grad=True)
    y = torch.tensor([0.0, math.nan, math.nan, 2.0, 1.0, 2.0], requires_grad=True)
    g = torch.arange(1.0, 7.0)
    found, right = (torch.autograd.grad(f(x, y), (x, y), g) for f in (op.function, getattr(torch, name)))
    torch.testing.assert_close(found, right)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_an_extremum_of_many_is_one_of_pairs_and_its_derivatives_do_not_double_with_each(name: str) -> None:
    values = [symbol(f"v{k}") for k in range(16)]
    whole = extremum(name, [num(1), *values])
    assert depth(whole) == 5, "four rounds of pairs, and the number last"
    assert whole.args[1] is num(1)
    assert extremum(name, values[:3]) is make(name, make(name, *values[:2]), values[2])
    with at_most(calls=200_000):
        derivatives(whole, values)


def depth(node: Expr) -> int:
    return 1 + max(map(depth, node.args)) if node.args else 0


@pytest.mark.parametrize(
    ("formula", "twin"),
    [
        ("max(x, 0)", "relu(x)"),
        ("min(max(0, x), c)", "clamp(relu(x), max=c)"),
        ("min(x, 2)", "clamp(x, max=2)"),
        ("max(c, x)", "clamp(x, min=c)"),
    ],
)
def test_a_kink_of_a_tensor_and_a_number_has_the_slope_of_clamp_but_at_relu(formula: str, twin: str) -> None:
    spec = "op: f\ntensors: {{x: }}\nhyperparameters: {{c: 2.0}}\noutputs: {{y: '{} + 0*c'}}"
    slopes = []
    for text in (formula, twin):
        x = torch.tensor([-1.0, 0.0, 1.0, 2.0, 3.0], requires_grad=True)
        compiled_text(spec.format(text)).module.f(x).sum().backward()
        assert x.grad is not None
        slopes.append(x.grad.tolist())
    assert slopes[0] == slopes[1]
    assert slopes[0][1 if "0" in formula else 3] == float("0" not in formula)


@pytest.mark.parametrize("formula", ["min(w, c)*v", "max(w, 1)*v**2", "min(w**2, 1)*v", "max(w - 1, 0)*v"])
def test_second_derivatives_at_a_kink_of_a_tensor_and_a_number_are_symmetric(formula: str) -> None:
    """The spelling of torch has the slope that the rule has."""
    spec = f"op: f\ntensors: {{w: , v: }}\nhyperparameters: {{c: 1.0}}\noutputs: {{y: '{formula} + 0*c'}}"
    op = compiled_text(spec).module.f
    point = torch.ones(1, dtype=torch.float64), torch.full((1,), 2.0, dtype=torch.float64)
    (_, first), (second, _) = torch.autograd.functional.hessian(lambda w, v: op(w, v).sum(), point)
    assert torch.equal(first, second)


@pytest.mark.parametrize("name", ["beta", "lbeta"])
def test_second_derivatives_of_a_beta_function_are_numbers_on_all_sides(name: str) -> None:
    op = compiled_text(f"{{op: f, tensors: {{x: , y: }}, outputs: {{z: '{name}(x, y)'}}, options: {{kernels: none}}}}")
    values = torch.tensor([-12.3, -0.4, 0.3, 3.0, 12.0, 40.0], dtype=torch.float64)
    x, y = (v.clone().requires_grad_() for v in torch.meshgrid(values, values + 0.05, indexing="ij"))
    slopes = torch.autograd.grad(op.function(x, y).sum(), (x, y), create_graph=True)
    second = torch.autograd.grad(sum(s.sum() for s in slopes), (x, y))
    assert all(t.isfinite().all() for t in (*slopes, *second))


def test_a_beta_function_is_smooth_where_its_arguments_are_equal() -> None:
    """Extrema of the two shared their slopes there: beside a number the gradient was 0."""
    op = compiled_text("{op: f, tensors: {x: }, outputs: {z: 'beta(0.5, 0.5 + x)'}, options: {kernels: none}}")
    x = torch.tensor([0.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(op.function(x), x, create_graph=True)
    half, one = (torch.tensor(v, dtype=torch.float64) for v in (0.5, 1.0))
    inner = torch.digamma(half) - torch.digamma(one)
    curvature = inner**2 + torch.polygamma(1, half) - torch.polygamma(1, one)
    torch.testing.assert_close(slope, torch.pi * inner[None])
    torch.testing.assert_close(torch.autograd.grad(slope, x)[0], torch.pi * curvature[None])


@pytest.mark.parametrize(
    ("formula", "points"),
    [("gamma(x)", [1, 2, 3.5, -0.5]), ("binomial(x, 0.3)", [0, 1, 60, -0.3]), ("binomial(x, 2.5 * x)", [1.3, 0])],
)
def test_derivatives_of_gamma_functions_are_numbers_wherever_a_branch_that_is_not_read_has_none(
    formula: str, points: list[float]
) -> None:
    """Reflected, the whole numbers are poles, and what of gamma functions overflows the inverse of a beta does not."""
    op = compiled_text(f"{{op: f, tensors: {{x: }}, outputs: {{z: '{formula}'}}, options: {{kernels: none}}}}")
    for function in (op.function, op.composite):
        x = torch.tensor(points, requires_grad=True)
        (slope,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(slope.sum(), x)
        assert slope.isfinite().all()
        assert second.isfinite().all()


def test_a_binomial_coefficient_beyond_n_is_right_where_gamma_functions_overflow() -> None:
    """By reflection: gamma functions of 200 are infinite, and the coefficient is 0 where k - n is a whole number."""
    op = compiled_text("{op: f, tensors: {n: , k: }, outputs: {z: 'binomial(n, k)'}, options: {kernels: none}}")
    points = [(0.5, 200.25), (0.5, 100.5), (10.0, 1000.3), (2.0, 4.0), (-0.5, 2.5), (60.5, 3.25), (0.83, 3.3)]
    n, k = (torch.tensor(own, dtype=torch.float64, requires_grad=True) for own in zip(*points, strict=True))
    z = op.function(n, k)
    slopes = torch.autograd.grad(z.sum(), (n, k), create_graph=True)
    assert all(s.isfinite().all() for s in torch.autograd.grad(sum(s.sum() for s in slopes), (n, k)))
    with mp.workdps(40):
        for order, found in (((0, 0), z), ((1, 0), slopes[0]), ((0, 1), slopes[1])):
            true = [float(mp.diff(mp.binomial, p, order)) for p in points]
            assert found.tolist() == pytest.approx(true, rel=1e-12, abs=1e-40)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_digamma_keeps_its_digits_beside_its_root(dtype: torch.dtype) -> None:
    """But for what an ulp of the argument changes; torch's own has none there."""
    root = 1.4616321449683622
    sizes = [2.0**-k for k in range(1, 50)]
    x = torch.tensor([root, *(root + sign * s for s in sizes for sign in (1, -1))], dtype=dtype)
    ulp = torch.finfo(dtype).eps
    own, usual = (f(x).double().tolist() for f in (_special.digamma, torch.digamma))
    worst = [0.0, 0.0]
    with mp.workdps(40):
        for k, at in enumerate(x.double().tolist()):
            true = mp.digamma(mp.mpf(at))
            for which, got in enumerate((own[k], usual[k])):
                worst[which] = max(worst[which], float(abs(got - true) / (4 * abs(true) * ulp + at * ulp)))
    assert worst[0] <= 1 < worst[1]


def test_trigamma_has_all_digits_of_float64() -> None:
    x = torch.logspace(-6, 6, 100, dtype=torch.float64)
    for at, got in zip(x.tolist(), _special.polygamma(1, x).tolist(), strict=True):
        assert got == pytest.approx(float(mp.polygamma(1, at)), rel=2e-15)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_polygamma_of_negative_numbers_is_that_of_positive_ones(n: int) -> None:
    """torch adds a term for each pole up to 0: it takes seconds at -1e9, and never ends where 1 is less than an ulp."""
    x = torch.tensor([-0.3, -2.7, -0.5, -1.5, -100.25, -1e9 - 0.25, 0.1, 3.2, 50.0], dtype=torch.float64)
    for at, got in zip(x.tolist(), _special.polygamma(n, x).tolist(), strict=True):
        with mp.workdps(60):
            assert got == pytest.approx(float(real.polygamma(n, mp.mpf(at))), rel=1e-12)
    assert not _special.polygamma(n, torch.tensor([-1e30, -3.0], dtype=torch.float64)).isfinite().any()


def test_digamma_of_integers_is_a_float() -> None:
    torch.testing.assert_close(_special.digamma(torch.tensor([2, 3])), torch.digamma(torch.tensor([2.0, 3.0])))


@pytest.mark.parametrize("name", ["i0", "i1", "i0e", "i1e", "gammainc", "gammaincc"])
def test_the_true_value_at_huge_numbers_does_not_take_as_many_bits_as_they_have_digits(name: str) -> None:
    """It took for ever: exp of a number of thousands of digits, and a series with as many terms."""
    row = FUNCTIONS[name]
    for x in (mp.mpf(2) ** 300, mp.mpf(2) ** 100_000):
        with mp.workprec(200), at_most(10_000):
            value = row.meaning(*([mp.mpf(2)] * (row.required - 1)), x)
            if name in ("i0e", "i1e"):
                assert abs(value * mp.sqrt(2 * mp.pi * x) - 1) < mp.mpf(2) ** -150
            else:
                assert value == {"gammainc": 1, "gammaincc": 0}.get(name, mp.inf)


def test_the_series_of_scaled_bessel_functions_continues_what_stands_below_it() -> None:
    for name in ("i0e", "i1e"):
        below, above = (FUNCTIONS[name].meaning(real.HUGE * (1 + s * mp.mpf(2) ** -60)) for s in (-1, 1))
        assert abs(below / above - 1) < mp.mpf(2) ** -50


@pytest.mark.parametrize("at", [0.0, -0.0, math.inf])
def test_digamma_is_as_infinite_as_torchs(at: float) -> None:
    op = compiled_text("{op: f, tensors: {x: }, outputs: {y: digamma(x)}, options: {kernels: none}}").function
    x = torch.full((2,), at, dtype=torch.float64)
    assert torch.equal(op(x), torch.digamma(x)) and torch.equal(torch.vmap(op)(x), torch.digamma(x))


# A point at which a function jumps, by its arguments; the first of them is moved.
JUMPS = {"sign": (0.0,), "heaviside": (0.0, 0.5), "floor": (2.0,), "ceil": (2.0,), "round": (2.5,)}
JUMPS |= {"remainder": (6.0, 1.5), "fmod": (6.0, 1.5)}


def test_every_function_that_is_flat_says_what_it_jumps_at() -> None:
    """A slope of 0 everywhere is that of a constant, or of what jumps."""
    flat = {r.name for r in ROWS if r.partials and not r.orders and len(r.parameters) == 1 and _slope(r) is ZERO}
    assert {row.name for row in ROWS if row.jumps} == JUMPS.keys() > flat > set()


def _slope(row: Function) -> Expr:
    assert row.partials is not None
    (slope,) = row.partials(symbol("x"))
    return slope


@pytest.mark.parametrize("name", JUMPS)
def test_a_function_jumps_at_the_zeros_of_what_it_says(name: str) -> None:
    row, (at, *others) = FUNCTIONS[name], JUMPS[name]
    assert row.meaning is not None and row.jumps is not None
    below, above = (row.meaning(mp.mpf(at + d), *map(mp.mpf, others)) for d in (-1e-9, 1e-9))
    assert abs(above - below) > 0.9
    x = symbol("x")
    distance = row.jumps(x, *(num(Fraction(n)) for n in others))
    near, far = (exact([distance], {x: at + d}, 64)[0] for d in (1e-9, 0.3))
    assert abs(near) < 1e-8 < 0.1 < abs(far)
