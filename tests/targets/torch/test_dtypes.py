"""The dtype of a formula, as source; and operands of several dtypes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from compiled import compiled_text, results
from random_expressions import X, Y

from symgrad.ir.expr import ONE, ZERO, Expr, make, symbol
from symgrad.ir.truth import compare, where
from symgrad.lower.code import name, source
from symgrad.ops.functions import call
from symgrad.targets.torch.dtypes import cast, printed, promoted


def total(value: Expr) -> Expr:
    return make("sum", value, dim=None, keepdim=False)


@pytest.mark.parametrize(
    "formula, text",
    [
        (X * Y, "rt.result_dtype(x, y)"),
        (total(X * Y), "rt.result_dtype(x, y)"),
        (total(X) * total(Y), "torch.promote_types(x.dtype, y.dtype)"),
        (total(X * Y) / (total(X) + total(Y)), "torch.promote_types(x.dtype, y.dtype)"),
        (total(X) * Y, "rt.result_dtype(torch.empty((), dtype=rt.result_dtype(x)), y)"),
    ],
    ids=str,
)
def test_values_without_dimensions_count_only_beside_each_other(formula: Expr, text: str) -> None:
    assert source(printed(promoted(formula), {X: "x", Y: "y"})) == text


@pytest.mark.parametrize(
    ("accumulate", "save"), [("float32", "auto"), ("same", "auto"), ("same", "memory"), ("float32", "speed")]
)
@pytest.mark.parametrize(
    ("formula", "shapes", "wide"),
    [
        ("x @ w.T + s", ((3, 4), (5, 4), (5,)), "s"),
        ("tanh(x @ w.T) * sigmoid(x @ w.T) + s", ((3, 4), (5, 4), (5,)), "s"),
        ("max(x @ w.T, s)", ((3, 4), (5, 4), (5,)), "s"),
        ("einsum('ni,oi->no', x, w) * s", ((3, 4), (5, 4), (5,)), "s"),
        ("conv1d(x, w) - s", ((2, 4, 6), (5, 4, 3), (4,)), "s"),
        ("(x + s) @ w.T", ((3, 4), (5, 4), (4,)), "xw"),
    ],
)
def test_a_product_meets_cotangents_and_tangents_of_another_dtype(
    formula: str, shapes: Any, wide: str, accumulate: str, save: str
) -> None:
    item = compiled_text(
        f'{{op: f, tensors: {{x: , w: , s: }}, outputs: {{y: "{formula}"}}, '
        f"options: {{accumulate: {accumulate}, save: {save}}}}}"
    )
    generator = torch.Generator().manual_seed(0)
    tensors = [
        torch.randn(shape, generator=generator, dtype=torch.float64 if name in wide else torch.float32)
        for name, shape in zip("xws", shapes, strict=True)
    ]
    found, right = (_derivatives(f, tensors) for f in (item.function, item.composite))
    torch.testing.assert_close(found, right, rtol=1e-5, atol=1e-5)


def _derivatives(function: Any, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The gradients of a plain call and of one that is differentiated again, and the tangent in each tensor alone."""
    found = []
    for again in (False, True):
        wrt = [t.detach().requires_grad_() for t in tensors]
        found += torch.autograd.grad(function(*wrt).sin().sum(), wrt, create_graph=again)
    for k, t in enumerate(tensors):
        alone = lambda one, k=k: function(*tensors[:k], one, *tensors[k + 1 :])  # noqa: E731
        found.append(torch.func.jvp(alone, (t,), (torch.ones_like(t),))[1])
    return [t.detach() for t in found]


@pytest.mark.parametrize(
    "formula", ["sum(x * m) / (sum(m) + 1e-9)", "h * sum(m**2) + sum(x)", "x * (sum(m) + h)", "sum(x * (sum(m) + h))"]
)
@pytest.mark.parametrize("half", ["x", "m"])
def test_totals_that_are_floats_by_a_number_have_no_weight_of_their_own(formula: str, half: str) -> None:
    item = compiled_text(
        "op: f\ntensors: {x: {shape: [N]}, m: {shape: [N], grad: false}}\nhyperparameters: {h: 0.5}\n"
        f"outputs: {{y: '{formula}'}}\n"
    )
    for kinds in ((torch.float16, torch.float32), (torch.float32, torch.float64), (torch.int64, torch.float16)):
        tensors = [torch.ones(3, dtype=kinds[name != half]) for name in "xm"]
        assert item.function(*tensors, 0.5).dtype == item.composite(*tensors, 0.5).dtype


def test_an_optional_tensor_that_is_not_read_leaves_the_dtype_alone() -> None:
    item = compiled_text("{op: f, tensors: {x: , unused: {default: 0}}, outputs: {y: tanh(x) * exp(x)}}")
    assert item.function(torch.rand(3).bfloat16(), torch.rand(3)).dtype == torch.bfloat16


K, N = symbol("k", "int_tensor"), symbol("n", "int")


@pytest.mark.parametrize(
    "formula, text",
    [
        (X + call("lgamma", K), "rt.result_dtype(rt.floated(k), x)"),
        (call("sqrt", K), "rt.result_dtype(rt.floated(k))"),
        (K / 2, "rt.result_dtype(rt.floated(k))"),
        (total(X * call("log", K)), "rt.result_dtype(rt.floated(k), x)"),
        (1 / K, "rt.result_dtype(rt.floated(k))"),
        (X / (1 + K), "rt.result_dtype(k, x)"),
        (X / call("sqrt", K), "rt.result_dtype(rt.floated(k), x)"),
        (X * K / 2, "rt.result_dtype(k, x)"),
        (N * K**2 - call("abs", K), "rt.result_dtype(k)"),
        (call("maximum", K, ONE), "rt.result_dtype(k)"),
    ],
    ids=str,
)
def test_functions_of_whole_numbers_are_floats(formula: Expr, text: str) -> None:
    assert source(printed(promoted(formula), {X: "x", K: "k"})) == text


@pytest.mark.parametrize(
    "formula", ["exp(x*k)", "sigmoid(x + k)", "x*k/2", "x/k", "exp(x)/(1 + k**2)", "where(k > 2, exp(x), x)"]
)
def test_an_integer_beside_half_precision_leaves_its_dtype_alone(formula: str) -> None:
    op = compiled_text(
        f"{{op: f, tensors: {{x: , k: {{dtype: int, grad: false}}}}, outputs: {{y: '{formula}'}}}}"
    ).function
    for dtype in (torch.float16, torch.bfloat16):
        assert op(torch.rand(3).to(dtype), torch.tensor([1, 2, 3])).dtype == dtype


@pytest.mark.parametrize(
    "formula", ["k * 2.0", "k / 1", "mean(k + -1.0)", "k * 2", "k - 1", "x * (2.0 * k)", "x * k * 2.0"]
)
def test_a_float_or_a_quotient_makes_floats_of_whole_numbers(formula: str) -> None:
    item = compiled_text(
        f"op: f\ntensors: {{x: , k: {{dtype: int}}}}\noutputs: {{y: {{expr: {formula}, grad: false}}}}\n"
    )
    x, k = torch.ones(3, dtype=torch.float16), torch.arange(3)
    right = eval(formula, {"x": x, "k": k, "mean": torch.mean})
    torch.testing.assert_close(item.function(x, k), right)


@pytest.mark.parametrize("formula", ["x * k / 2", "k * sin(x) / 4 - 1", "sum(x) * k / 2"])
def test_a_fraction_beside_whole_numbers_and_a_double_without_dimensions_is_double(formula: str) -> None:
    item = compiled_text(f"op: f\ntensors: {{x: , k: {{dtype: int, grad: false}}}}\noutputs: {{y: {formula}}}\n")
    x, k = torch.tensor(0.1, dtype=torch.float64), torch.arange(3)
    right = eval(formula, {"x": x, "k": k, "sin": torch.sin, "sum": torch.sum})
    assert right.dtype == torch.float64
    for function in (item.function, item.composite):
        torch.testing.assert_close(function(x, k), right, rtol=1e-14, atol=0)


@pytest.mark.parametrize(
    "formula, right",
    [
        ("log(1 + exp(k - 1))", lambda k: torch.log(1 + torch.exp(k - 1))),
        ("softplus(where(k > 1, 1, 0))", lambda k: torch.nn.functional.softplus((k > 1).float())),
        ("logsigmoid(abs(k))", lambda k: torch.nn.functional.logsigmoid(k.float())),
        ("sqrt(k**2 + (k + 1)**2)", lambda k: torch.sqrt(k**2 + (k + 1) ** 2)),
        ("logaddexp(k, 0.5)", lambda k: torch.log(torch.exp(k) + math.exp(0.5))),
        ("atan2(h, k)", lambda k: torch.atan(0.5 / k)),
        ("heaviside(k, 0.5)", lambda k: torch.where(k == 0, 0.5, 1.0)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_functions_that_torch_has_of_floats_alone_take_integers(formula: str, right: Any) -> None:
    item = compiled_text(
        f"op: f\ntensors: {{k: {{dtype: int}}}}\nhyperparameters: {{h: 0.5}}\n"
        f"outputs: {{y: {{expr: '{formula}', grad: false}}}}\n"
    )
    for k in (torch.arange(4), torch.tensor(2)):
        for function in (item.function, item.composite):
            torch.testing.assert_close(function(k, 0.5), right(k))


def test_a_choice_between_numbers_has_the_dtype_of_all_that_it_compares() -> None:
    assert (
        source(cast(name("r"), where(compare("ge", X, Y), ONE, ZERO), {X: "x", Y: "y"}))
        == "r.to(rt.result_dtype(x, y))"
    )
    assert source(cast(name("r"), where(compare("ge", X, ZERO), ONE, ZERO), {X: "x"})) == "r"
    inside = make("tanh", where(compare("ge", X, Y), ONE, ZERO))
    assert source(cast(name("r"), inside, {X: "x", Y: "y"})) == "r.to(rt.result_dtype(x, y))"


def test_what_is_made_of_one_whole_tensor_alone_is_not_rounded_to_it() -> None:
    op = compiled_text('op: two\ntensors: {a: , b: }\noutputs: {y: "a*b", z: "log1p(a) + a*a"}\n').function
    for b in (torch.tensor([2.0]), torch.tensor([2.0]).half(), torch.tensor([2])):
        _, z = op(torch.tensor([3]), b)
        assert z.dtype == torch.float32
        torch.testing.assert_close(z, torch.tensor([9 + math.log(4.0)]))


def test_single_beside_double_is_computed_in_double() -> None:
    op = compiled_text('op: thirds\ntensors: {a: , b: }\noutputs: {y: "a/3 + b"}\n').function
    a, b = torch.tensor([1.0]), torch.tensor([0.0], dtype=torch.float64)
    assert op(a, b).item() == 1 / 3
    assert op(a, b.squeeze(0)).dtype == torch.float32


def test_gradients_from_several_outputs_are_rounded_once() -> None:
    text = "{op: product, tensors: {a: , b: , c: , d: }, outputs: {re: a*c - b*d, im: a*d + b*c}}"
    values = [t.half() for t in torch.rand((4, 99), generator=torch.Generator().manual_seed(0))]
    gradients = []
    for dtype in (torch.float16, torch.float64):
        leaves = [v.to(dtype).requires_grad_() for v in values]
        re, im = compiled_text(text).function(*leaves)
        gradients.append(torch.autograd.grad([re, im], leaves, [leaves[0].detach(), leaves[1].detach()]))
    for one, exact in zip(*gradients, strict=True):
        torch.testing.assert_close(one, exact.half(), rtol=0, atol=0)


def test_truth_values_are_not_asked_for_a_dtype() -> None:
    item = compiled_text("\nop: f\ntensors: {x: , mask: {dtype: bool}}\noutputs: {y: 'where(mask, sin(x) * x, 0)'}\n")
    assert "x, dtype = rt.widen(x)" in item.text and "mask.dtype" not in item.text


@pytest.mark.parametrize("kinds", [(torch.float16, torch.float16), (torch.float16, torch.float32)], ids=str)
def test_a_choice_between_numbers_by_truth_values_alone_is_rounded_to_the_dtype_it_is_lent(kinds: Any) -> None:
    item = compiled_text(
        "\nop: f\ntensors: {x: , t: {grad: false}, mask: {dtype: bool}}\n"
        "outputs: {l: 'where(mask, (x - t)**2, 0)', n: {expr: 'where(mask, 1, 0)', grad: false}}\n"
    )
    x, t = (torch.ones(3, dtype=kind) for kind in kinds)
    _, n = item.function(x, t, torch.tensor([True, False, True]))
    assert n.dtype == t.dtype and n.tolist() == [1, 0, 1]


@pytest.mark.parametrize("formula", ["x > 0", "(x > 0) & (w < 1)", "(x > 0) | (w < 1)", "w < w", "w == w"])
@pytest.mark.parametrize("others", ["", ", z: w * x"])
def test_a_truth_value_stays_one_where_it_is_known_or_a_tensor_cancels(formula: str, others: str) -> None:
    item = compiled_text(
        "\nop: f\ntensors: {x: {domain: '(0, oo)'}, w: }\n"
        f"outputs: {{y: {{expr: '{formula}', grad: false}}{others}}}\n"
    )
    x, w = torch.rand(2, 1) + 0.5, torch.tensor([0.0, 2.0, float("nan")])
    expected = eval(formula, {"x": x, "w": w})
    torch.testing.assert_close(results(item.function(x, w))[0], expected, rtol=0, atol=0)


@pytest.mark.parametrize("formula", ["where(x == x, x**2, 0)", "where(x != x, 0, x**2)", "where(x >= x, x**2, 0)"])
def test_a_comparison_with_itself_finds_what_is_no_number(formula: str) -> None:
    item = compiled_text(f"\nop: f\ntensors: {{x: }}\noutputs: {{y: '{formula}'}}\n")
    x = torch.tensor([float("nan"), 3.0], requires_grad=True)
    y = item.function(x)
    assert y.tolist() == [0, 9]
    assert torch.autograd.grad(y.sum(), x)[0].tolist() == [0, 6]


@pytest.mark.parametrize(
    "formula",
    [
        "x * sqrt(arange(D))",
        "x / (arange(D) + 1)",
        "sum(x / (arange(D) + 1), dim=1)",
        "x + 1 / (arange(D) + 1)",
        "x * arange(D)",
        "x + eye(N)[:, :1]",
        "mean(x * 0.5**arange(D))",
        "x * 0.5**arange(D)[0]",
    ],
)
def test_functions_of_places_have_their_part_in_the_dtype(formula: str) -> None:
    item = compiled_text(f"{{op: f, tensors: {{x: {{shape: [N, D]}}}}, outputs: {{y: '{formula}'}}}}")
    for dtype in (torch.float16, torch.float64):
        x = torch.ones(3, 2, dtype=dtype)
        assert item.function(x).dtype == item.composite(x).dtype


@pytest.mark.parametrize(
    "formula", ["where(m, x * n, x / (1 + n**2))", "x * n + x / n", "where(m, x * n, 2 * x / n)", "sin(x * n + x / n)"]
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_what_is_divided_by_whole_numbers_beside_a_float_keeps_its_digits_in_another_form(
    formula: str, dtype: torch.dtype
) -> None:
    """`x * (n + 1 / n)` divides whole numbers alone, in float32: float64 had half of its digits, in silence."""
    own = compiled_text(
        "op: f\ntensors: {x: , n: {dtype: int, domain: '[1, 9]'}, m: {dtype: bool}}\n"
        f"outputs: {{y: '{formula} + where(m, 0, 0) * x'}}"
    ).function
    n, m = torch.tensor([1, 2, 3, 7]), torch.tensor([True, False, False, True])
    names = {"n": n, "m": m, "where": torch.where, "sin": torch.sin}
    for shape in ((4,), ()):
        x = torch.linspace(0.3, 1.7, 4, dtype=dtype)[: math.prod(shape)].reshape(shape).requires_grad_()
        wanted = eval(formula, {**names, "x": x})
        y = own(x, n, m)
        assert y.dtype == wanted.dtype
        got, want = (torch.autograd.grad(v.sum(), x, create_graph=True)[0] for v in (y, wanted))
        tangents = [
            torch.func.jvp(f, (x.detach(),), (torch.ones_like(x),))[1]
            for f in (lambda z: own(z, n, m), lambda z: eval(formula, {**names, "x": z}))
        ]
        limit = {torch.float64: 1e-13, torch.float32: 1e-5, torch.bfloat16: 3e-2}[dtype]
        for a, b in ((y, wanted), (got, want), tangents):
            assert a.dtype == b.dtype
            torch.testing.assert_close(a, b, rtol=limit, atol=limit)


@pytest.mark.parametrize(
    "formula",
    [
        "x * arange(T) + x / (arange(T) + 1)",
        "x * argmax(x, dim=1, keepdim=True) + x / (1 + argmax(x, dim=1, keepdim=True))",
    ],
)
def test_what_is_divided_by_places_beside_a_double_keeps_its_digits_in_another_form(formula: str) -> None:
    own = compiled_text(f"op: f\ntensors: {{x: {{shape: [N, T]}}}}\noutputs: {{y: '{formula}'}}").function
    x = torch.linspace(-1, 1.4, 6, dtype=torch.float64).reshape(2, 3).requires_grad_()
    names = {"T": 3, "arange": torch.arange, "argmax": torch.argmax}
    wanted = eval(formula, {**names, "x": x})
    torch.testing.assert_close(own(x), wanted, rtol=1e-14, atol=1e-15)
    got, want = (torch.autograd.grad(v.sum(), x)[0] for v in (own(x), wanted))
    torch.testing.assert_close(got, want, rtol=1e-14, atol=1e-15)
    ones = (torch.ones_like(x),)
    tangents = [torch.func.jvp(f, (x.detach(),), ones)[1] for f in (own, lambda z: eval(formula, {**names, "x": z}))]
    torch.testing.assert_close(*tangents, rtol=1e-14, atol=1e-15)


def test_a_place_that_is_an_index_too_stays_whole() -> None:
    text = "op: f\ntensors: {x: {shape: [N, T]}}\nlet: {k: 'argmax(x, dim=1, keepdim=True)'}\n"
    own = compiled_text(text + "outputs: {y: 'gather(x, 1, k) * k + gather(x, 1, k) / (k + 1)'}").function
    x = torch.tensor([[0.1, 0.7, 0.3]], dtype=torch.float64)
    torch.testing.assert_close(own(x), torch.tensor([[0.7 + 0.35]], dtype=torch.float64), rtol=1e-6, atol=0)


def test_a_result_of_whole_numbers_beside_a_quotient_stays_whole() -> None:
    tensors = "op: f\ntensors: {x: {shape: [N, T]}, n: {shape: [N, T], dtype: int}}\n"
    text = tensors + "let: {k: 'argmax(x, dim=1, keepdim=True)'}\n"
    whole = "a: {expr: 'where(x > 0, n, 0)', grad: false}, b: {expr: k, grad: false}"
    outputs = f"outputs: {{y: 'x * n + x / n + x * k + x / (k + 1)', {whole}}}"
    own = compiled_text(text + outputs).function
    x, n = torch.tensor([[0.1, 0.7, 0.3]], dtype=torch.float64), torch.tensor([[1, 2, 3]])
    y, a, b = own(x, n)
    assert (y.dtype, a.dtype, b.dtype) == (torch.float64, torch.int64, torch.int64)
    assert a.tolist() == [[1, 2, 3]] and b.tolist() == [[1]]


OF_WHOLE_NUMBERS = [
    "x * sin(arange(T))",
    "x * exp(-arange(T) / T)",
    "x + log(arange(T) + 1)",
    "x + arange(T)**0.5",
    "x * 0.3**arange(T)",
    "x + lgamma(k + 1)",
    "x * sqrt(k)",
    "x * exp(-(k % 7) / 3)",
    "x + k * 0.1",
    "x * (k * 0.1)",
    "x * 0.3**k",
    "x + logaddexp(k, 0.1)",
    "x * atan2(k, 0.3)",
    "x * softplus(k) + log(1 + exp(k / 9))",
    "sum(x * sqrt(k)) + sum(sin(k))",
    "x * sin(argmax(x, dim=0) + 1)",
    "sin(x * sqrt(k)) + exp(x / (1 + k)) * log(k)",
    "relu(x * sqrt(k)) + max(x, log(k))",
    "x + where(k > 2, k, 0.1)",
    "x * where(x > 0.5, 0.1, k)",
    "x + logsumexp(k, dim=0)",
    "x + log(clamp(k, 1.1, 2.3))",
]


@pytest.mark.parametrize("formula", OF_WHOLE_NUMBERS)
@pytest.mark.parametrize("accumulate", ["float32", "same"])
def test_functions_of_whole_numbers_beside_a_double_have_its_digits(formula: str, accumulate: str) -> None:
    item = compiled_text(
        "op: f\ntensors: {x: {shape: [T]}, k: {shape: [T], dtype: int, domain: '[1, 99999999]'}}\n"
        f"outputs: {{y: '{formula}', n: {{expr: k, grad: false}}}}\noptions: {{accumulate: {accumulate}}}\n"
    )
    x, k = torch.linspace(0.3, 0.7, 4, dtype=torch.float64, requires_grad=True), torch.tensor([1, 3, 10, 11])

    def exact(x: torch.Tensor) -> torch.Tensor:
        def second(number: Any) -> torch.Tensor:
            return torch.tensor(number, dtype=torch.float64)

        names = {name: getattr(torch, name) for name in ("sin", "exp", "log", "lgamma", "sqrt", "sum", "relu")}
        names |= {"T": second(4), "arange": lambda t: torch.arange(int(t)).double(), "x": x, "k": k.double()}
        names |= {"where": lambda c, a, b: torch.where(c, *(torch.as_tensor(v, dtype=x.dtype) for v in (a, b)))}
        names |= {"logsumexp": torch.logsumexp, "clamp": torch.clamp}
        names |= {"logaddexp": lambda a, b: torch.logaddexp(a, second(b)), "max": torch.maximum}
        names |= {"atan2": lambda a, b: torch.atan2(a, second(b)), "softplus": torch.nn.functional.softplus}
        value: torch.Tensor = eval(formula, {**names, "argmax": lambda t, dim: torch.argmax(t, dim).double()})
        return value

    right = exact(x)
    slope = torch.autograd.grad(right.sum(), x)[0]
    for function in (item.function, item.composite):
        y = function(x, k)[0]
        torch.testing.assert_close(y, right, rtol=1e-14, atol=1e-14)
        torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], slope, rtol=1e-14, atol=1e-14)
    given = ((x.detach(),), (torch.ones_like(x),))
    tangents = [torch.func.jvp(f, *given)[1] for f in (lambda x: item.function(x, k)[0], exact)]
    torch.testing.assert_close(*tangents, rtol=1e-14, atol=1e-14)


def test_whole_numbers_are_counted_before_floats_are_made_of_them() -> None:
    item = compiled_text("op: f\ntensors: {x: , k: {dtype: int}}\noutputs: {y: 'x * exp(-(k % 10))'}\n")
    x, k = torch.ones(1), torch.tensor([2**30 + 3])
    for function in (item.function, item.composite):
        torch.testing.assert_close(function(x, k), torch.exp(-(k % 10)))


@pytest.mark.parametrize("accumulate", ["float32", "same"])
@pytest.mark.parametrize("outputs", ["y: x * sqrt(k), z: w + sqrt(k)", "y: x * w, z: w - sin(k), n: sqrt(k)"])
@pytest.mark.parametrize("shapes", [((3,), (3,), (3,)), ((3,), (), (3,)), ((), (3,), ()), ((), (), (3,))], ids=str)
def test_whole_numbers_beside_several_dtypes_leave_each_result_its_own(
    outputs: str, shapes: Any, accumulate: str
) -> None:
    item = compiled_text(
        f"op: f\ntensors: {{x: , w: , k: {{dtype: int}}}}\noutputs: {{{outputs}}}\n"
        f"options: {{accumulate: {accumulate}}}\n"
    )
    formulas = dict(part.split(": ") for part in outputs.split(", "))
    for kinds in itertools.product((torch.float16, torch.float32, torch.float64), repeat=2):
        x, w = (torch.ones(shape, dtype=kind) for shape, kind in zip(shapes, kinds, strict=False))
        k = torch.full(shapes[2], 2)
        names = {"x": x, "w": w, "k": k, "sqrt": torch.sqrt, "sin": torch.sin}
        right = [eval(formula, names) for formula in formulas.values()]
        for function in (item.function, item.composite):
            assert [y.dtype for y in function(x, w, k)] == [y.dtype for y in right]


@pytest.mark.parametrize(
    "formula",
    [
        "where(k > 2, k, 0.1)",
        "where(x > 0.5, h, k)",
        "where(k > 2, k, 1)",
        "logsumexp(k, dim=1, keepdim=True)",
        "k @ k",
    ],
)
@pytest.mark.parametrize("accumulate", ["float32", "same"])
def test_choices_and_reductions_of_whole_numbers_have_their_part_in_the_dtype(formula: str, accumulate: str) -> None:
    item = compiled_text(
        "op: f\ntensors: {x: {shape: [N, N]}, k: {shape: [N, N], dtype: int}}\nhyperparameters: {h: 0.5}\n"
        f"outputs: {{y: 'x * exp(x) + {formula}'}}\noptions: {{accumulate: {accumulate}}}\n"
    )
    k = torch.tensor([[1, 2], [3, 2**26 + 1]])
    names = {"k": k, "h": 0.5, "exp": torch.exp, "where": torch.where, "logsumexp": torch.logsumexp}
    for kind in (torch.float16, torch.float32, torch.float64):
        x = torch.ones((2, 2), dtype=kind)
        right = eval(f"x * exp(x) + {formula}", {**names, "x": x})
        for function in (item.function, item.composite):
            assert function(x, k, 0.5).dtype == right.dtype


@pytest.mark.parametrize("formula", ["relu(x - sqrt(k))", "max(x, sqrt(k)) * 3", "clamp(x, sqrt(k), 9) * k"])
@pytest.mark.parametrize("step", [-1e-9, 1e-9])
def test_a_comparison_with_functions_of_whole_numbers_is_saved_as_it_was(formula: str, step: float) -> None:
    text = f"op: f\ntensors: {{x: {{shape: [T]}}, k: {{shape: [T], dtype: int}}}}\noutputs: {{y: '{formula}'}}\n"
    item = compiled_text(text)
    k = torch.tensor([2, 3, 5, 7])
    x = (k.double().sqrt() + step).requires_grad_()
    found, right = (torch.autograd.grad(f(x, k).sum(), x)[0] for f in (item.function, item.composite))
    assert found.tolist() == right.tolist()


def test_a_product_of_what_a_mask_chooses_has_the_dtype_of_the_composite_under_autocast() -> None:
    tensors = "p: {shape: [B, T, S]}, v: {shape: [B, S, E]}, mask: {shape: [B, S], dtype: bool}"
    formula = "einsum('bts,bse->bte', softmax(where(mask[:, None], p, -oo), dim=-1), v)"
    item = compiled_text(f'{{op: f, tensors: {{{tensors}}}, outputs: {{y: "{formula}"}}}}')
    generator = torch.Generator().manual_seed(0)
    p, v = (torch.rand(shape, generator=generator) for shape in ((2, 3, 4), (2, 4, 5)))
    mask = torch.tensor([True, True, False, True]).expand(2, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, wanted = (results(f(p, v, mask)) for f in (item.function, item.composite))
    torch.testing.assert_close(found, wanted, rtol=5e-2, atol=5e-2)
