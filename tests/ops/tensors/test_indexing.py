"""Elements picked by integers, and their losses, against torch's own operations."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from compiled import compiled_text
from derivatives import check, rand

from symgrad.ir.expr import symbol
from symgrad.parse import FormulaError, parse_expression


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def whole(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, high, shape)


def test_gather_adds_what_is_picked_twice() -> None:
    x, index = rand(4, 5), torch.tensor([[0, 0, 3], [1, 2, 1], [4, 4, 4], [0, 1, 2]])
    check("gather(x, 1, i)", {"x": x, "i": index}, like=lambda x, i: x.gather(1, i))
    check("sin(gather(x, -1, i))", {"x": x, "i": index}, like=lambda x, i: x.gather(1, i).sin())
    check("gather(x, 1, i)", {"x": x, "i": index[:, :1]}, like=lambda x, i: x.gather(1, i))
    check("gather(x, n, i)", {"x": x, "i": index}, {"n": 1}, like=lambda x, i: x.gather(1, i))
    check("take_along_dim(x, i, dim=1)", {"x": x, "i": index}, like=lambda x, i: x.gather(1, i), declare=(True,))


@pytest.mark.parametrize(("of", "by"), [((1, 5), (4, 3)), ((4, 5), (1, 3)), ((1, 5, 3), (4, 2, 1)), ((3, 1), (4, 5))])
def test_take_along_dim_broadcasts_the_other_dimensions(of: tuple[int, ...], by: tuple[int, ...]) -> None:
    dim = 0 if of == (3, 1) else 1
    shapes = [", ".join(str(n) if n == 1 else f"d{n}" for n in shape) for shape in (of, by)]
    text = f"op: f\ntensors: {{x: {{shape: [{shapes[0]}]}}, i: {{shape: [{shapes[1]}], dtype: int}}}}\n"
    op = compiled_text(text + f"outputs: {{y: 'sin(take_along_dim(x, i, dim={dim}))'}}\n")
    x, i = rand(*of).requires_grad_(), whole(of[dim], *by)
    own, right = op.function(x, i), torch.take_along_dim(x, i, dim=dim).sin()
    torch.testing.assert_close(own, right)
    weights = torch.rand_like(own)
    own, right = (torch.autograd.grad((weights * y).sum(), x)[0] for y in (own, right))
    torch.testing.assert_close(own, right)


def test_places_are_on_a_device_where_backward_keeps_labels_alone() -> None:
    text = "op: f\ntensors: {x: {shape: [B, N]}, v: {shape: [N]}, i: {shape: [B], dtype: int}}\n"
    op = compiled_text(text + 'outputs: {y: "where(arange(N) < i[:, None], v - x, 0)"}\n')
    x, v, i = rand(4, 5).requires_grad_(), rand(5).requires_grad_(), whole(5, 4)
    own, right = (torch.autograd.grad(f(x, v, i).sum(), (x, v)) for f in (op.function, op.composite))
    torch.testing.assert_close(own, right)


@pytest.mark.parametrize(
    ("place", "text"), [(0, "x[i]"), (1, "x[:, i]"), (2, "x[..., i]"), (0, "index_select(x, 0, i)")]
)
def test_index_along_a_dimension(place: int, text: str) -> None:
    index = torch.tensor([1, 0, 1, 1, 2])
    check(text, {"x": rand(4, 3, 6), "i": index}, like=lambda x, i: x.index_select(place, i), declare=(True,))


def test_index_of_several_dimensions() -> None:
    index = whole(3, 2, 4)
    check("w[i] * v", {"w": rand(3, 5), "i": index, "v": rand(5)}, like=lambda w, i, v: w[i] * v, declare=(True,))
    check("embedding(i, w)", {"w": rand(3, 5), "i": index}, like=lambda w, i: F.embedding(i, w))
    check("w[i, 1]", {"w": rand(3, 5), "i": index}, like=lambda w, i: w[i, 1], declare=(True,))


def test_sums_at_places() -> None:
    x, index, source = rand(4, 3), torch.tensor([3, 1, 3, 3, 0]), rand(5, 3)
    tensors = {"x": x, "i": index, "s": source}
    check("index_add(x, 0, i, s)", tensors, like=lambda x, i, s: x.index_add(0, i, s))
    places = whole(4, 2, 3)
    tensors = {"x": x, "i": places, "s": rand(2, 3)}
    check("scatter_add(x, 0, i, s * 2)", tensors, like=lambda x, i, s: x.scatter_add(0, i, s * 2))


def segments(x: torch.Tensor, index: torch.Tensor, size: int, reduce: str) -> torch.Tensor:
    """The segments one by one; an empty one is 0."""
    rows = [x[index == k] for k in range(size)]
    return torch.stack([getattr(r, reduce)(0) if len(r) else torch.zeros_like(x[0]) for r in rows])


def test_segments() -> None:
    index = torch.tensor([3, 1, 3, 3, 0])
    for name, reduce in (("sum", "sum"), ("mean", "mean"), ("max", "amax"), ("min", "amin")):
        check(
            f"segment_{name}(x, i, 4)",
            {"x": rand(5, 3), "i": index},
            like=lambda x, i, reduce=reduce: segments(x, i, 4, reduce),
            declare=(True,),
        )
    check("segment_sum(x, i, n, dim=1)", {"x": rand(2, 5), "i": index}, {"n": 6})


def test_ties_in_a_segment_share_the_cotangent() -> None:
    x = torch.tensor([1.0, 3.0, 3.0, 2.0], dtype=torch.float64)
    tensors = {"x": x, "i": torch.tensor([0, 0, 0, 1])}
    check("segment_max(x, i, 2)", tensors, like=lambda x, i: torch.stack([x[:3].amax(), x[3:].amax()]))


def test_one_hot() -> None:
    tensors = {"x": rand(4, 3), "t": whole(3, 4)}
    check("x * one_hot(t, d3)", tensors, like=lambda x, t: x * F.one_hot(t, 3), declare=(True,))


LABELS = torch.tensor([2, 0, -100, 4, 1, -100])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_is_torchs(reduction: str, smoothing: float) -> None:
    how = f"reduction='{reduction}', label_smoothing={smoothing}"
    tensors = {"x": rand(6, 5), "t": LABELS}
    known = {"reduction": reduction, "label_smoothing": smoothing}
    check(f"cross_entropy(x, t, {how})", tensors, like=lambda x, t: F.cross_entropy(x, t, **known), declare=(True,))
    weights = rand(5).abs() + 0.1
    check(
        f"cross_entropy(x, t, w, {how})",
        {**tensors, "w": weights},
        like=lambda x, t, w: _weighted(x, t, w, reduction, smoothing),
        declare=(True,),
    )
    torch.testing.assert_close(
        _weighted(tensors["x"], LABELS, weights, reduction, smoothing),
        F.cross_entropy(tensors["x"], LABELS, weights, **known),
    )


def _weighted(x: torch.Tensor, t: torch.Tensor, w: torch.Tensor, reduction: str, smoothing: float) -> torch.Tensor:
    """What torch computes, which has no derivative in the weights."""
    logs, counted = x.log_softmax(1), t != -100
    label = t.clamp(min=0)
    own = -logs.gather(1, label[:, None])[:, 0] * w[label]
    loss = torch.where(counted, (1 - smoothing) * own - smoothing * (logs * w).sum(1) / x.shape[1], 0)
    if reduction == "mean":
        return loss.sum() / torch.where(counted, w[label], 0).sum()
    return loss.sum() if reduction == "sum" else loss


@pytest.mark.parametrize("how", ["", ", label_smoothing=0.1", ", reduction='sum'"])
def test_labels_that_are_all_ignored_give_a_gradient_of_zero(how: str) -> None:
    """As torch's: a batch of padding changes no weights."""
    tensors = "x: {shape: [N, C]}, t: {shape: [N], dtype: int}"
    item = compiled_text(f'op: f\ntensors: {{{tensors}}}\noutputs: {{y: "cross_entropy(x, t{how})"}}\n')
    x, ignored = torch.randn(4, 3, requires_grad=True), torch.full((4,), -100)
    loss = item.function(x, ignored)
    assert (loss == 0) if "sum" in how else loss.isnan()
    assert torch.equal(torch.autograd.grad(loss, x)[0], torch.zeros(4, 3))


def test_cross_entropy_of_images_and_of_one_row() -> None:
    x, t = rand(2, 5, 3, 4), whole(5, 2, 3, 4)
    check("cross_entropy(x, t)", {"x": x, "t": t}, like=F.cross_entropy, declare=(True,))
    check("cross_entropy(x, t, ignore_index=1)", {"x": x, "t": t}, declare=(True,))
    tensors = {"x": rand(5), "t": torch.tensor(3)}
    check("cross_entropy(x, t)", tensors, like=F.cross_entropy, declare=(True,))
    tensors = {"x": rand(6, 5), "t": LABELS}
    check("nll_loss(x, t)", tensors, like=F.nll_loss, declare=(True,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cross_entropy(x, x[:, 0])", "needs integers"),
        ("x[x]", "a subscript is made of whole numbers"),
        ("gather(x, 1, x)", "needs integers"),
        ("gather(x, 1, t)", "as many dimensions"),
        ("gather(x, 1, u)", "'M' meets 'N'"),
        ("cross_entropy(x, v)", "'N' meets 'M'"),
        ("cross_entropy(x, t, reduction='avg')", "the reduction is"),
        ("cross_entropy(x, t, reduction=3)", "must be a text"),
        ("index_select(x, 0, u)", "one dimension"),
        ("segment_sum(x, v, 3)", "'M' meets 'N'"),
        ("segment_sum(x, t, 2.5)", "needs sizes"),
        ("segment_sum(x, t, x)", "needs sizes"),
        ("one_hot(x, 3)", "needs integers"),
    ],
)
def test_refuses(text: str, message: str) -> None:
    symbols = [
        symbol("x", "tensor", ("N", "C")),
        *(symbol(name, "int_tensor", shape) for name, shape in {"t": ("N",), "v": ("M",), "u": ("M", "C")}.items()),
    ]
    with pytest.raises(FormulaError) as caught:
        parse_expression(text, symbols)
    assert message in str(caught.value)
