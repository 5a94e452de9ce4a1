"""Losses of a difference: found where there is one, refused where it would not do, and worth the same."""

from __future__ import annotations

import pytest
import torch
from compiled import compiled_text, results

from symgrad.accuracy.evaluate import exact
from symgrad.ir.traversal import topological
from symgrad.parse import Program, parse_formulas
from symgrad.plan.pivot import Pivot, Pivots, find_pivots, with_outputs
from symgrad.spec import parse_spec

torch.set_num_threads(1)


def program(body: str) -> Program:
    return parse_formulas(parse_spec(f"\nop: loss\n{body}\n"))


def pivots(body: str) -> Pivots | None:
    read = program(body)
    return find_pivots(read, read.symbols)


def pivot(body: str) -> Pivot:
    found = pivots(body)
    assert found is not None
    (one,) = found.sums
    return one


TWO = "tensors: {x: , t: }\n"


@pytest.mark.parametrize(
    ("body", "value", "coefficients"),
    [
        (TWO + "outputs: {y: (x - t)**2}", "x - t", {"x": "1", "t": "-1"}),
        (TWO + "outputs: {y: log(cosh(x - t)) + abs(x - t)}", "x - t", {"x": "1", "t": "-1"}),
        (TWO + "outputs: {y: sin(2*x + 3*t)}", "3*t + 2*x", {"x": "2", "t": "3"}),
        (TWO + "hyperparameters: {w: 0.5}\noutputs: {y: exp(w*x - t)}", "w*x - t", {"x": "w", "t": "-1"}),
        ("tensors: {x: , y: , z: }\noutputs: {o: (x + y - z)**2}", "x + y - z", {"x": "1", "y": "1", "z": "-1"}),
        ("tensors: {x: , t: , w: }\noutputs: {y: w * (x - t)**2}", "x - t", {"x": "1", "t": "-1"}),
        (TWO + "outputs: {y: (x - t)**2, z: sin(x - t)}", "x - t", {"x": "1", "t": "-1"}),
        (TWO + "outputs: {y: (x - t + 1)**2}", "x - t", {"x": "1", "t": "-1"}),
        (TWO + "outputs: {y: (x - t)**2, z: {expr: x - t, grad: false}}", "x - t", {"x": "1", "t": "-1"}),
    ],
)
def test_the_sum_through_which_alone_tensors_are_read(body: str, value: str, coefficients: dict[str, str]) -> None:
    found, whole = pivot(body), pivots(body)
    assert whole is not None
    assert repr(found.value).replace(" * ", "*") == value
    assert {name: repr(c) for name, c in found.coefficients.items()} == coefficients
    assert found.stand_in not in found.value.symbols
    for root in whole.inner.outputs.values():
        assert found.stand_in in root.symbols
        assert not {s.name for s in root.symbols} & set(coefficients)


@pytest.mark.parametrize(
    "body",
    [
        "tensors: {x: }\noutputs: {y: (x - 1)**2}",
        TWO + "outputs: {y: (x - t)**2 + x}",
        TWO + "outputs: {y: x * t}",
        TWO + "outputs: {y: (x**2 - t)**2}",
        TWO + "outputs: {y: (x - t)**2, z: sin(x)}",
        TWO + "outputs: {y: (x - t)**2, z: x - t}",  # it is returned anyway
        "tensors: {x: , t: {shape: [N]}}\noutputs: {y: (x - t)**2}",
        "tensors: {x: , t: {default: 0.0}}\noutputs: {y: (x - t)**2}",
        "tensors: {x: , n: {dtype: int}}\noutputs: {y: (x - n)**2}",
        TWO + "outputs: {y: (x - t)**2}\ngradients: {x: grad_y * 2}",
    ],
)
def test_no_sum_where_something_else_is_read_too(body: str) -> None:
    assert pivots(body) is None


THREE = "tensors: {a: {shape: [b, d]}, p: {shape: [b, d]}, n: {shape: [d]}}\n"


@pytest.mark.parametrize(
    ("formula", "values"),
    [
        ("norm(a - p, dim=-1) - norm(a - n, dim=-1)", {"a - p": ("b", "d"), "a - n": ("b", "d")}),
        ("softmax(a - p + n, dim=-1)", {"a + n - p": ("b", "d")}),
        ("a - p - mean(a - p, dim=-1, keepdim=True) + n", {"a - p": ("b", "d")}),
        ("mean(a - p, dim=-1, keepdim=True) - a + p", {"a - p": ("b", "d")}),
        ("norm(a - p, dim=-1) - norm(a - n, dim=-1) * mean(p - n)", None),  # as many as the tensors
        ("norm(a - p, dim=-1) - norm(a - n, dim=-1) * mean(p)", None),
    ],
)
def test_sums_of_declared_shapes_have_shapes_too(formula: str, values: dict[str, tuple[str, ...]] | None) -> None:
    found = pivots(THREE + f"outputs: {{y: '{formula}'}}")
    assert (found and {repr(p.value): p.stand_in["shape"] for p in found.sums}) == values


FIXED = "m: {shape: [n, d], dtype: bool}, f: {shape: [n, d], grad: false}"
ROWS = f"tensors: {{x: {{shape: [n, d]}}, y: {{shape: [n, d]}}, w: {{shape: [d, k]}}, b: {{shape: [n]}}, {FIXED}}}\n"


@pytest.mark.parametrize(
    ("formula", "values"),
    [
        ("sum(x, dim=-1)**2 * b", {"sum(x, dim=-1)"}),
        ("tanh(mean(x, dim=0) @ w)", {"mean(x, dim=0)"}),
        ("sum(x, dim=-1) * mean(y, dim=-1)", {"sum(x, dim=-1)", "mean(y, dim=-1)"}),
        ("exp(max(x, dim=-1).values)", {"max(x, dim=-1).values"}),
        ("(sum(x, dim=-1) + b)**2", {"sum(x, dim=-1) + b"}),
        ("sin(sum(x - y, dim=-1))", {"sum(x - y, dim=-1)"}),
        ("(x - mean(x, dim=-1, keepdim=True) + y)**2", {"x + y - mean(x, dim=-1, keepdim=True)"}),
        ("sin(sum(where(m, x - y, 0), dim=-1) * 2)", {"sum(where(m, x - y, 0), dim=-1)"}),
        ("exp(mean(x * f, dim=-1)) * b", {"mean(f * x, dim=-1)"}),  # f is kept, as it is by the composite
        ("sin(sum(x - y, dim=-1)) + sum(y**2)", {"sum(x - y, dim=-1)"}),  # spares x alone
        ("y * exp(-sum(f, dim=-1, keepdim=True))", {"sum(f, dim=-1, keepdim=True)"}),
        ("x * sum(x, dim=-1, keepdim=True)", None),
        ("cumsum(x, dim=-1)**2", None),  # no smaller than x
        ("sin(sum(x * y, dim=-1))", None),
        ("exp(pi + E) * x * y", None),  # a sum of numbers
    ],
)
def test_totals_through_which_alone_tensors_are_read(formula: str, values: set[str] | None) -> None:
    found = pivots(ROWS + f"outputs: {{o: '{formula}'}}")
    assert (found and {repr(p.value) for p in found.sums}) == values


@pytest.mark.parametrize(
    ("formula", "elements"),
    [
        ("sum(x, dim=-1)**2", 6),
        ("sin(mean(x, dim=d, keepdim=True))", 6),
        ("max(x, dim=-1).values**2", 6 + 2 * 6),  # and indices, of twice the bytes
        ("sum(x) * sum(y, dim=0)", 1 + 8),
        ("sin(sum(x - y, dim=-1)) + exp(-mean(x, dim=-1))", 6 + 6),
        ("y * exp(-mean(x, dim=-1, keepdim=True)) + sin(sum(x - y, dim=0))", 6 + 8 + 6 * 8),
        ("max(x, dim=0).values * sum(x, dim=0) + sin(sum(x, dim=1)) @ y", 8 + 8 + 6 + 2 * 8 + 6 * 8),
        ("(x - y)**2 * mean(y, dim=0)", 8 + 6 * 8),
        ("sin(30 * mean(x, dim=-1))", 6),  # computed in float64
        ("sum(y, dim=-1) * sin(30 * sum(x, dim=-1))", 6 + 6),
        ("tanh(2 * x - 3 * y + 1)", 6 * 8),
    ],
)
def test_a_total_is_kept_in_place_of_its_rows(formula: str, elements: int) -> None:
    declared = "tensors: {x: {shape: [n, d]}, y: {shape: [n, d]}}\nhyperparameters: {d: -1}\n"
    item = compiled_text(f"\nop: total\n{declared}outputs: {{o: '{formula}'}}\n")
    kept: dict[int, int] = {}
    x, y = (torch.randn(6, 8).requires_grad_() for _ in range(2))

    def pack(t: torch.Tensor) -> torch.Tensor:
        kept[t.data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        value = item.function(x, y)
    assert value.requires_grad and sum(kept.values()) == 4 * elements
    x, y = (t.detach().double().requires_grad_() for t in (x, y))
    found = []
    for order in (item.function, item.composite):
        first = torch.autograd.grad(order(x, y, -1).sin().sum(), [x, y], create_graph=True, materialize_grads=True)
        second = sum(g.square().sum() for g in first)
        found.append((*first, *torch.autograd.grad(second, [x, y], allow_unused=True, materialize_grads=True)))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("formula", ["sin(x - t)**2", "sin(mean(x - t, dim=-1))", "abs(x - t)**3"])
def test_a_sum_that_is_returned_without_a_gradient_is_kept_too(formula: str) -> None:
    value = "mean(x - t, dim=-1)" if "mean" in formula else "x - t"
    declared = "tensors: {x: {shape: [n, d]}, t: {shape: [n, d], grad: false}}"
    item = compiled_text(f"\nop: told\n{declared}\noutputs: {{y: '{formula}', z: {{expr: '{value}', grad: false}}}}\n")
    x, t = item.tensors(["x"])
    values = [f(x, t) for f in (item.function, item.composite)]
    first = [torch.autograd.grad(y.sum(), x, create_graph=True)[0] for y, _ in values]
    second = [torch.autograd.grad(g.sin().sum(), x)[0] for g in first]
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*first)
    torch.testing.assert_close(*second)
    assert values[0][0].requires_grad and not values[0][1].requires_grad
    y, z = item.function(x, t)
    z.add_(1)  # where it is what backward reads, autograd notices that, as it does of the composite
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_constant_beside_a_sum_is_not_kept_with_it() -> None:
    item = compiled_text("\nop: small\ntensors: {x: , t: }\noutputs: {y: log(x - t + 1)}\n")
    x, t = torch.tensor([1e-9], requires_grad=True), torch.tensor([3e-9])
    torch.testing.assert_close(item.function(x, t), torch.tensor([-2e-9]), atol=0, rtol=1e-6)


def test_what_is_not_saved_anyway_is_not_replaced() -> None:
    read = program(ROWS + "outputs: {o: 'mean(x, dim=0) * mean(f, dim=0) + sum(y)'}")
    found = find_pivots(read, ["f"])
    assert found is not None and [repr(p.value) for p in found.sums] == ["mean(f, dim=0)"]
    assert find_pivots(read, []) is None


def test_a_name_of_the_spec_or_a_free_one() -> None:
    named = pivot(TWO + "let: {gap: x - t}\noutputs: {y: gap**2}")
    assert named.name == "gap"
    plain = pivot(TWO + "outputs: {y: (x - t)**2}")
    assert plain.name == "diff"
    taken = pivot("tensors: {x: , diff: }\noutputs: {y: (x - diff)**2}")
    assert taken.name not in ("diff", "x", "y")


def test_inside_and_outside_are_the_same_formula() -> None:
    settings = "hyperparameters: {d: {default: 2.0, domain: '(0, oo)'}}\n"
    body = TWO + settings + "outputs: {y: d**2 * (sqrt(1 + ((x - t) / d)**2) - 1)}"
    whole, found = program(body), pivots(body)
    assert found is not None
    outer = whole.outputs["y"]
    restored = found.outside(found.inner.outputs["y"])
    point = dict(zip(sorted(outer.symbols, key=lambda s: s.name), (1.5, 0.25, -2.0), strict=True))
    before, after = exact([outer, restored], point, 200)
    assert abs(before - after) < 1e-50
    extended = with_outputs(whole, found)
    assert extended.outputs["diff"] is found.sums[0].value
    assert [o.name for o in extended.spec.outputs] == ["y", "diff"]
    assert extended.outputs["y"] is outer


LOSSES = [
    "softmax(x - t, dim=-1)",  # not x - logsumexp(x - t) - t
    "(x - t)**2",
    "log(cosh(x - t))",
    "where(abs(x - t) < 1, 0.5 * (x - t)**2, abs(x - t) - 0.5)",
    "sqrt((2*x - 3*t)**2 + 1)",
]


@pytest.mark.parametrize("formula", LOSSES)
@pytest.mark.parametrize("shapes", [((4, 3), (4, 3)), ((4, 3), (3,)), ((1, 3), (4, 1))], ids=str)
def test_values_and_gradients_are_those_of_the_composite(
    formula: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]
) -> None:
    item = compiled_text(f"\nop: loss\ntensors: {{x: , t: }}\noutputs: {{y: '{formula}'}}\n")
    torch.manual_seed(0)
    for wanted in ((True, True), (True, False), (False, True)):
        tensors = [torch.randn(s, dtype=torch.float64).requires_grad_(w) for s, w in zip(shapes, wanted, strict=True)]
        inputs = [t for t in tensors if t.requires_grad]
        own, plain = (results(f(*tensors))[0] for f in (item.function, item.composite))
        torch.testing.assert_close(own, plain)
        g = torch.randn_like(own)
        first = [torch.autograd.grad(y, inputs, g, create_graph=True) for y in (own, plain)]
        for a, b in zip(*first, strict=True):
            assert a.shape == b.shape
            torch.testing.assert_close(a, b)
        second = [torch.autograd.grad(sum((d**2).sum() for d in f), inputs, allow_unused=True) for f in first]
        for a, b in zip(*second, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("spec", "sizes", "numbers"),
    [
        ("tensors: {x: , t: }\noutputs: {y: log(cosh(x - t))}", [(50,), (50,)], 50),
        (THREE + "outputs: {y: 'norm(a - p, dim=-1) - norm(a - n, dim=-1)'}", [(9, 8), (9, 8), (8,)], 144),
    ],
)
def test_what_is_kept_are_the_differences_alone(spec: str, sizes: list[tuple[int, ...]], numbers: int) -> None:
    item = compiled_text(f"\nop: loss\n{spec}\n")
    assert item.operation.keeping is not None
    kept: list[torch.Tensor] = []
    tensors = [torch.randn(size, requires_grad=True) for size in sizes]
    with torch.autograd.graph.saved_tensors_hooks(lambda s: (kept.append(s), s)[1], lambda s: s):
        item.function(*tensors)
    assert sum(s.numel() for s in kept) == numbers
    assert not any(n.op == "sub" for n in topological(*item.operation.program.outputs.values()))


def test_a_tensor_that_broadcasts_has_a_tangent_in_the_shape_of_the_sum() -> None:
    item = compiled_text("\nop: loss\ntensors: {x: , t: }\noutputs: {y: (x - t)**2, z: 'mean((x - t).mT, dim=-2)'}\n")
    tensors = torch.randn(3, 4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    own, plain = (torch.func.jvp(f, tensors, tensors) for f in (item.function, item.composite))
    torch.testing.assert_close(own, plain)


def test_a_tensor_that_a_branch_does_not_read_has_no_gradient_there() -> None:
    found = compiled_text(
        "op: f\ntensors: {x: , w: , z: }\nhyperparameters: {whole: true}\n"
        "outputs: {y: 'hypot(where(whole, sum(w), z), sum(x, dim=-2) + 3)'}\n"
    )
    x, w, z = torch.randn(3, 3), torch.randn(3, 3, requires_grad=True), torch.randn(1, 3)
    (slope,) = torch.autograd.grad(found.function(x, w, z, whole=False).sum(), w, allow_unused=True)
    assert slope is None
