"""Slices, joins and shapes against torch's own operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compiled import compiled_text
from derivatives import Shape, check, rand

from symgrad.ir.expr import symbol
from symgrad.ops.tensors.shapes import extent
from symgrad.parse import FormulaError, parse_expression


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


SLICES: list[tuple[str, Callable[..., Any]]] = [
    ("x[:, 1:]", lambda x: x[:, 1:]),
    ("x[:, :-1] * 2", lambda x: x[:, :-1] * 2),
    ("x[1:, 1:3]", lambda x: x[1:, 1:3]),
    ("x[:, ::2]", lambda x: x[:, ::2]),
    ("x[:, 1::2]", lambda x: x[:, 1::2]),
    ("x[:, -2:]", lambda x: x[:, -2:]),
    ("x[0]", lambda x: x[0]),
    ("x[-1]", lambda x: x[-1]),
    ("x[:, -2]", lambda x: x[:, -2]),
    ("x[1, 2]", lambda x: x[1, 2]),
    ("x[:, None]", lambda x: x[:, None]),
    ("x[None, :, None, 1:]", lambda x: x[None, :, None, 1:]),
    ("x[1:] - x[:-1]", lambda x: x[1:] - x[:-1]),
    ("(x[2:] - 2 * x[1:-1] + x[:-2])**2", lambda x: (x[2:] - 2 * x[1:-1] + x[:-2]) ** 2),
]
FREE: list[tuple[str, Callable[..., Any]]] = [  # of tensors of any number of dimensions
    ("x[..., 1:]", lambda x: x[..., 1:]),
    ("x[..., 0] * x[..., 1]", lambda x: x[..., 0] * x[..., 1]),
    ("x[..., None] * x[..., None, :]", lambda x: x[..., None] * x[..., None, :]),
    ("x[..., 1:, :2]", lambda x: x[..., 1:, :2]),
    ("x[..., -1]", lambda x: x[..., -1]),
    ("flip(x, -1)", lambda x: x.flip(-1)),
    ("roll(x, 1, -1)", lambda x: x.roll(1, -1)),
    ("roll(x, [1, -2], [0, 1])", lambda x: x.roll((1, -2), (0, 1))),
    ("diff(x)", lambda x: x.diff()),
    ("diff(x, 2, 0)", lambda x: x.diff(2, 0)),
    ("diff(x**2, n=3) * 2", lambda x: (x**2).diff(3) * 2),
    ("pad(x, [1, 2])", lambda x: F.pad(x, (1, 2))),
    ("pad(x, [-1, 2, 1, 0])", lambda x: F.pad(x, (-1, 2, 1, 0))),
    ("pad(x, [1, 2], value=3)", lambda x: F.pad(x, (1, 2), value=3)),
    ("cat([x, x * x], dim=-1)", lambda x: torch.cat([x, x * x], -1)),
    ("cat(x, 2 * x, dim=0)", lambda x: torch.cat([x, 2 * x], 0)),
    ("stack([x, sin(x)], dim=-1)", lambda x: torch.stack([x, x.sin()], -1)),
    ("chunk(x, 2, dim=-1)[0] * sigmoid(chunk(x, 2, dim=-1)[1])", lambda x: F.glu(x, -1)),
    ("unsqueeze(x, -1)", lambda x: x.unsqueeze(-1)),
    ("x[..., : x.shape[-1] // 2]", lambda x: x[..., :2]),
    (
        "cat([-x[..., x.size(-1) // 2 :], x[..., : x.size(-1) // 2]], -1)",
        lambda x: torch.cat([-x[..., 2:], x[..., :2]], -1),
    ),
    ("split(x, x.shape[-1] // 2, dim=-1)[0]", lambda x: x[..., :2]),
    ("x.sum(0) / x.shape[0] + x.numel()", lambda x: x.mean(0) + 12),
    ("x.sum() / len(x)", lambda x: x.sum() / 3),
    ("x.reshape(*x.shape[:-1], -1, 2).unbind(-1)[0] * 2", lambda x: x[:, ::2] * 2),
    ("x.view(*x.shape[:-2], 2, 6)", lambda x: x.view(2, 6)),
    ("x + zeros(*x.shape[-2:])", lambda x: x + 0),
    ("reshape(x, -1)", lambda x: x.reshape(-1)),
    ("x.reshape(2, 6)", lambda x: x.reshape(2, 6)),
    ("flatten(x)", lambda x: x.flatten()),
    ("unflatten(x, -1, [2, 2])", lambda x: x.unflatten(-1, (2, 2))),
    ("tril(x) * 2", lambda x: x.tril() * 2),
    ("triu(x, 1)", lambda x: x.triu(1)),
]
DECLARED: list[tuple[str, Callable[..., Any]]] = [
    ("stack([x, sin(x)], 0)", lambda x: torch.stack([x, x.sin()], 0)),
    ("unsqueeze(x, 1)", lambda x: x.unsqueeze(1)),
    ("squeeze(x[:, :1], 1)", lambda x: x[:, :1].squeeze(1)),
    ("permute(x, [1, 0])", lambda x: x.permute(1, 0)),
    ("movedim(x, 0, 1)", lambda x: x.movedim(0, 1)),
    ("reshape(x, d3, 2, d4 / 2)", lambda x: x.reshape(3, 2, 2)),
    ("reshape(x, d3 * d4)", lambda x: x.reshape(12)),
    ("flatten(x[None], 0, 1)", lambda x: x),
    ("split(x, [1, 3], dim=1)[1]", lambda x: x.split([1, 3], 1)[1]),
    ("pad(x, [2, 1], mode='reflect')", lambda x: F.pad(x[None], (2, 1), mode="reflect")[0]),
    ("pad(x, [2, 1], mode='circular')", lambda x: F.pad(x[None], (2, 1), mode="circular")[0]),
    ("pad(x, [2, 1], mode='replicate')", lambda x: F.pad(x[None], (2, 1), mode="replicate")[0]),
    ("x * arange(d4)", lambda x: x * torch.arange(4)),
    ("trace(x @ x.T)", lambda x: (x @ x.T).trace()),
    ("diag(x @ x.T)", lambda x: (x @ x.T).diag()),
    ("diag(x[0]) @ x.T", lambda x: x[0].diag() @ x.T),
    ("outer(x[0], x[1])", lambda x: x[0].outer(x[1])),
    ("x[:, d4 - 1] + x[:, d4 // 2]", lambda x: x[:, 3] + x[:, 2]),
    ("x[d3 // 2 - 2] + x[d3 // 4 * d4]", lambda x: x[-1] + x[0]),
    ("pad(x, (d3 // 2, d3 - d3 // 2, -(d3 // 2), 0))", lambda x: F.pad(x, (1, 2, -1, 0))),
    (
        "(x[:, : d4 // 2] + x[:, d4 // 2 :])[: d3 // 2] * arange(d3 // 2 + 1)",
        lambda x: (x[:, :2] + x[:, 2:])[:1] * torch.arange(2),
    ),
    ("x * arange(1, 2 * d4, 2)", lambda x: x * torch.arange(1, 8, 2)),
    ("x + zeros(d3, 1) + full((1, d4), fill_value=2) + ones(x.shape)", lambda x: x + 3),
    ("x[:1].expand(d3, -1) * x", lambda x: x[:1] * x),
    ("where(~tril(ones(d3, d4, dtype=torch.bool)), x, 0)", lambda x: x.triu(1)),
    ("unbind(stack([x, sin(x)], 0).reshape(2, d3, d4), 0)[1]", lambda x: x.sin()),
    ("split(x, [d4 // 2, d4 // 2], dim=1)[1]", lambda x: x[:, 2:]),
    ("x[: d3 // 2] * x[d3 - d3 // 2 :]", lambda x: x[:1] * x[2:]),
    ("x[:, 1 : d4 // 2] * x[:, : d3 // 2]", lambda x: x[:, 1:2] * x[:, :1]),
    ("x[:, :d3] @ x", lambda x: x[:, :3] @ x),
    ("x[:, -d3:-1] @ x[:2]", lambda x: x[:, -3:-1] @ x[:2]),
    ("split(x, d4 // 2, dim=1)[1]", lambda x: x[:, 2:]),
    ("split(x, [d3 // 2, d3 - d3 // 2])[1]", lambda x: x[1:]),
    ("x * arange(d4 // 2 * 2)", lambda x: x * torch.arange(4)),
    ("x @ tril(ones(d4, d4))", lambda x: x @ torch.ones(4, 4, dtype=x.dtype).tril()),
    ("x.T @ full((d3, d3), 2)", lambda x: x.T @ torch.full((3, 3), 2, dtype=x.dtype)),
    ("x / sqrt(tensor(x.shape[0]))", lambda x: x / 3**0.5),
    ("x.reshape(*x.shape[:1], 2, -1).reshape(*x.shape)", lambda x: x),
    ("x @ x.T + eye(d3)", lambda x: x @ x.T + torch.eye(3)),
    ("cat([x[:, 2:], x[:, :2]], dim=1)", lambda x: torch.cat([x[:, 2:], x[:, :2]], 1)),
]


@pytest.mark.parametrize(("text", "plain"), [*SLICES, *DECLARED], ids=lambda v: v if isinstance(v, str) else "")
def test_of_declared_shapes(text: str, plain: Callable[..., Any]) -> None:
    check(text, {"x": rand(3, 4)}, like=plain, declare=(True,))


@pytest.mark.parametrize(("text", "plain"), FREE, ids=lambda v: v if isinstance(v, str) else "")
def test_of_any_shapes(text: str, plain: Callable[..., Any]) -> None:
    check(text, {"x": rand(3, 4)}, like=plain)


def test_unit_matrices_and_places_may_have_the_size_of_a_dimension_that_is_a_number() -> None:
    """As for rotations and deformations of space; where none has that size, a tensor lends its device all the same."""
    shapes = "f: {shape: [..., 3, 3]}"
    item = compiled_text(f"op: f\ntensors: {{{shapes}}}\noutputs: {{y: '(f.mT @ f - eye(3)) * arange(3)'}}\n")
    f = rand(2, 3, 3)
    torch.testing.assert_close(item.function(f), (f.mT @ f - torch.eye(3)) * torch.arange(3))
    item = compiled_text(f"op: f\ntensors: {{{shapes}}}\noutputs: {{y: 'f[..., :2, :2] - eye(2)'}}\n")
    torch.testing.assert_close(item.function(f), f[..., :2, :2] - torch.eye(2))


def test_a_tensor_that_may_be_absent_lends_no_device() -> None:
    item = compiled_text(
        "op: f\ntensors: {x: {default: 0}, w: }\noutputs: {y: 'w * arange(4) + x + linspace(0, 3, 4)'}\n"
    )
    w = rand(4)
    torch.testing.assert_close(item.function(None, w), w * torch.arange(4) + torch.arange(4))
    torch.testing.assert_close(item.function(w, w), w * torch.arange(4) + w + torch.arange(4))


def test_rotary_embedding_is_a_rotation_of_halves() -> None:
    tensors = {"x": rand(2, 3, 4), "c": rand(3, 4), "s": rand(3, 4)}
    check(
        "x * c + cat([-chunk(x, 2, dim=-1)[1], chunk(x, 2, dim=-1)[0]], dim=-1) * s",
        tensors,
        like=lambda x, c, s: x * c + torch.cat([-x.chunk(2, -1)[1], x.chunk(2, -1)[0]], -1) * s,
    )


def test_of_few_elements_there_are_no_differences_and_their_gradient_is_zero() -> None:
    for order in (3, 4, 5):
        check(
            f"diff(x**2, {order}, dim=0)",
            {"x": rand(3, 4)},
            like=lambda x, n=order: (x**2).diff(n, 0),
            declare=(False,),
        )


def test_joined_tensors_of_one_have_tangents_of_all() -> None:
    check("cat([x, y], dim=0)", {"x": rand(2, 3), "y": rand(4, 3)}, like=lambda x, y: torch.cat([x, y]))
    check("cat([x, 0 * y, y], dim=0)[1:]", {"x": rand(2, 3), "y": rand(4, 3)}, declare=(True,))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("x[:, 1:]", "[N, ?]"),
        ("x[:, 2:5]", "[N, 3]"),
        ("diff(y, 2)", "[B, 4]"),
        ("cat([diff(x), x[:, :1]], dim=1)", "[N, C]"),
        ("cat([x[:, :2], x[:, 2:]], dim=1)", "[N, C]"),
        ("cat([chunk(x, 2, dim=1)[1], chunk(x, 2, dim=1)[0]], dim=1)", "[N, C]"),
        ("unflatten(flatten(y), 0, [B, 6])", "[B, 6]"),
        ("reshape(y, 2, 3, -1)", "[2, 3, B]"),
    ],
)
def test_sizes_are_known_where_those_of_operands_are(text: str, shape: str) -> None:
    from symgrad.ir.expr import make
    from symgrad.parse.scope import Bound, Scope

    y = symbol("y", "tensor", ("B", 6))
    scope = Scope.of([symbol("x", "tensor", ("N", "C")), y])
    scope.names["B"] = Bound(make("count", y, dim=(-2,)))
    assert str(extent(parse_expression(text, scope))) == shape


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y[:, 7:]", "7 lies beyond a dimension of size 6"),
        ("y[:, 9]", "9 lies beyond a dimension of size 6"),
        ("y[:, 6]", "6 lies beyond a dimension of size 6"),
        ("y[:, -7]", "-7 lies beyond"),
        ("y[0, 0, 0]", "3 places in a tensor of 2 dimensions"),
        ("y[::-1]", "write flip"),
        ("y[0.5]", "a subscript is made of"),
        ("y[:n / 2]", "bounds of a slice are whole numbers"),
        ("z[1:]", "the shape is not declared"),
        ("y[..., 0, ...]", "once"),
        ("cat([x, y], dim=0)", "'C' meets 6"),
        ("cat([x, x[0]], dim=0)", "as many dimensions"),
        ("chunk(y, 4, dim=1)[0]", "has no 4 equal parts"),
        ("chunk(y, 2, dim=1)[2]", "there are 2 parts"),
        ("chunk(y, 2, dim=1)", "add [0] or [1]"),
        ("split(y, [2, 3], dim=1)[0]", "do not make up a dimension of size 6"),
        ("permute(x, [0, 0])", "each of the 2 dimensions once"),
        ("permute(x, [0, 1, 2])", "needs 2 dimensions, not 3"),
        ("reshape(y[:1], 5)", "elements are not"),
        ("unflatten(y, 1, [4, 2])", "unflatten of 6"),
        ("squeeze(y, 1)", "is not 1"),
        ("tril(x[0])", "needs two dimensions"),
        ("pad(x, [1])", "two numbers for each dimension"),
        ("diff(y, 7)", "differences of order 7 along dimension -1 of [2, 6]"),
        ("diff(y, 0)", "at least 1"),
        ("diff(y, n)", "must be made of whole numbers, not of hyperparameters"),
        ("diff(x, dim=n)", "not of hyperparameters"),
        ("diff(sum(y))", "without dimensions"),
        ("arange(0.5)", "arange needs sizes: whole numbers, named dimensions or hyperparameters of type int"),
        ("arange(0, 6, -2)", "a step is a whole number, and at least 1"),
        ("split(x, [x.shape[1] // 2, 1], dim=1)[0]", "the parts of a split make up the dimension"),
        ("stack([x, x[0]], 0)", "different numbers of dimensions"),
    ],
)
def test_refuses(text: str, message: str) -> None:
    symbols = [symbol(name, "tensor", shape) for name, shape in {"x": ("N", "C"), "y": (2, 6), "z": None}.items()]
    with pytest.raises(FormulaError) as caught:
        parse_expression(text, [*symbols, symbol("n", "int")])
    assert message in str(caught.value)


ORDERED: list[tuple[str, Callable[..., Any], Shape]] = [
    ("cummax(x, dim=-1).values", lambda x: x.cummax(-1).values, (3, 5)),
    ("cummin(x, dim=0).values", lambda x: x.cummin(0).values, (3, 5)),
    ("topk(x, 2).values", lambda x: x.topk(2).values, (3, 5)),
    ("topk(x, 3, dim=0, largest=False).values", lambda x: x.topk(3, 0, largest=False).values, (4, 2)),
    ("median(x, dim=1).values", lambda x: x.median(1).values, (3, 5)),
    ("std(x, dim=-1)", lambda x: x.std(-1), (3, 5)),
    ("std(x, unbiased=False)", lambda x: x.std(unbiased=False), (3, 5)),
    ("x * count_nonzero(x, dim=0)", lambda x: x * x.count_nonzero(0), (3, 5)),
    ("where(any(x > 0.5, dim=1, keepdim=True), x, 0)", lambda x: x * (x > 0.5).any(1, keepdim=True), (3, 5)),
    ("where(all(x > -1, dim=1, keepdim=True), x, 0)", lambda x: x * (x > -1).all(1, keepdim=True), (3, 5)),
    ("x * argmax(x, dim=1, keepdim=True)", lambda x: x * x.argmax(1, keepdim=True), (3, 5)),
    ("x * argmin(x)", lambda x: x * x.argmin(), (3, 5)),
    ("gather(x, 1, argmax(x, dim=1, keepdim=True))", lambda x: x.amax(1, keepdim=True), (3, 5)),
]


@pytest.mark.parametrize(("text", "plain", "shape"), ORDERED, ids=lambda v: v if isinstance(v, str) else "")
def test_order(text: str, plain: Callable[..., Any], shape: Shape) -> None:
    check(text, {"x": rand(*shape)}, like=plain)


def test_parts_that_fill_a_tensor_are_joined_and_not_added() -> None:
    from symgrad.differentiate.modes import vjp
    from symgrad.differentiate.symbols import cotangent
    from symgrad.plan.hoist import hoisted

    for shape, text in (
        ((2, 6), "cat([-x[:, 2:], x[:, :2]], dim=1)"),
        (("N", "C"), "cat([-chunk(x, 2, dim=-1)[1], chunk(x, 2, dim=-1)[0]], dim=-1)"),
    ):
        x = symbol("x", "tensor", shape)
        root = parse_expression(text, [x])
        gradient = hoisted(vjp({root: cotangent("y", root)}, [x])[x])
        assert gradient.op == "cat", gradient
    x = symbol("x", "tensor", (2, 6))
    root = parse_expression("sum(x[:, :3]) + sum(x[:, 4:])", [x])
    assert "cat" not in repr(hoisted(vjp({root: cotangent("y", root)}, [x])[x]))


@pytest.mark.parametrize("shape", ["k, D // k", "D // k, k", "k, D // k // 2 + D // (2 * k)"])
def test_sizes_may_be_divided_by_hyperparameters(shape: str) -> None:
    item = compiled_text(f"""
        op: grouped
        tensors: {{x: {{shape: [N, D]}}}}
        hyperparameters: {{k: {{type: int, default: 2}}}}
        outputs: {{y: "sin(reshape(x, (N, {shape})))"}}
    """)
    x = torch.rand(2, 12, requires_grad=True)
    sizes = (3, 4) if shape.startswith("k") else (4, 3)
    y, right = item.function(x, k=3), x.reshape(2, *sizes).sin()
    torch.testing.assert_close((y, *torch.autograd.grad(y.sum(), x)), (right, *torch.autograd.grad(right.sum(), x)))
