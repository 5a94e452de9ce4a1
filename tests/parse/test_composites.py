"""Functions of torch that are formulas: each row against torch's own, values and gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compiled import compiled_text
from torch import Tensor

from symgrad.errors import SpecError
from symgrad.parse.composites import COMPOSITES, composite

X, Y, W = "x: {shape: [N, D]}", "y: {shape: [N, D]}", "w: {shape: [M, D]}"
SIGNS = "y: {shape: [N, D], grad: false}"  # of what torch differentiates no target

# formula, declared tensors, torch's own; of tensors with these sizes
SIZES = {"N": 4, "D": 6, "M": 3, "B": 2, "T": 5, "V": 3}
ROWS: dict[str, tuple[str, list[str], Callable[..., Any]]] = {
    "mm": ("mm(x, w.T)", [X, W], lambda x, w: torch.mm(x, w.T)),
    "mv": ("x.mv(v)", [X, "v: {shape: [D]}"], torch.mv),
    "dot": ("dot(a, b)", ["a: {shape: [D]}", "b: {shape: [D]}"], torch.dot),
    "bmm": ("bmm(a, a.mT)", ["a: {shape: [B, N, D]}"], lambda a: torch.bmm(a, a.mT)),
    "linear": ("F.linear(x, w, b)", [X, W, "b: {shape: [M]}"], F.linear),
    "addmm": ("addmm(c, x, w.T, beta=2)", ["c: {shape: [M]}", X, W], lambda c, x, w: torch.addmm(c, x, w.T, beta=2)),
    "addmv": ("addmv(c, x, v, alpha=3)", ["c: {shape: [N]}", X, "v: {shape: [D]}"], lambda c, x, v: c + 3 * (x @ v)),
    "baddbmm": (
        "baddbmm(c, a, a.mT)",
        ["c: {shape: [B, N, N]}", "a: {shape: [B, N, D]}"],
        lambda c, a: torch.baddbmm(c, a, a.mT),
    ),
    "cross": (
        "torch.linalg.cross(a, b, dim=0) + a.cross(b, dim=-2)",
        ["a: {shape: [V, D]}", "b: {shape: [V, D]}"],
        lambda a, b: 2 * torch.linalg.cross(a, b, dim=0),
    ),
    "add": ("x.add(y, alpha=2)", [X, Y], lambda x, y: x.add(y, alpha=2)),
    "sub": ("torch.sub(x, y, alpha=2)", [X, Y], lambda x, y: torch.sub(x, y, alpha=2)),
    "subtract": ("subtract(x, y)", [X, Y], torch.subtract),
    "mul": ("x.mul(y).mul(2)", [X, Y], lambda x, y: x * y * 2),
    "multiply": ("multiply(x, y)", [X, Y], torch.multiply),
    "div": ("x.div(y + 9)", [X, Y], lambda x, y: x / (y + 9)),
    "divide": ("divide(x, 3)", [X], lambda x: x / 3),
    "true_divide": ("true_divide(x, 3)", [X], lambda x: x / 3),
    "neg": ("x.neg()", [X], torch.neg),
    "negative": ("negative(x)", [X], torch.negative),
    "lt": ("where(x.lt(y), x, 2 * y)", [X, Y], lambda x, y: torch.where(x < y, x, 2 * y)),
    "le": ("where(le(x, y), x, 2 * y)", [X, Y], lambda x, y: torch.where(x <= y, x, 2 * y)),
    "gt": ("where(x.gt(0), x, 2 * y)", [X, Y], lambda x, y: torch.where(x > 0, x, 2 * y)),
    "ge": ("where(x.ge(0), x, 2 * y)", [X, Y], lambda x, y: torch.where(x >= 0, x, 2 * y)),
    "eq": ("where(torch.eq(sign(x), 1), x, 2 * y)", [X, Y], lambda x, y: torch.where(x > 0, x, 2 * y)),
    "ne": ("where(sign(x).ne(1), x, 2 * y)", [X, Y], lambda x, y: torch.where(x <= 0, x, 2 * y)),
    "logical_and": (
        "where(torch.logical_and(x > 0, y > 0), x, y)",
        [X, Y],
        lambda x, y: torch.where(torch.logical_and(x > 0, y > 0), x, y),
    ),
    "logical_or": (
        "where(torch.logical_or(x > 0, y > 0), x, y)",
        [X, Y],
        lambda x, y: torch.where(torch.logical_or(x > 0, y > 0), x, y),
    ),
    "logical_xor": (
        "where(torch.logical_xor(x > 0, y > 0), x, y)",
        [X, Y],
        lambda x, y: torch.where(torch.logical_xor(x > 0, y > 0), x, y),
    ),
    "logical_not": ("where(logical_not(x > 0), x, y)", [X, Y], lambda x, y: torch.where(x > 0, y, x)),
    "clamp_min": ("x.clamp_min(0.5)", [X], lambda x: x.clamp_min(0.5)),
    "clamp_max": ("clamp_max(x, max=0.5)", [X], lambda x: x.clamp_max(0.5)),
    "bool": ("x.masked_fill(relu(y).bool(), 2)", [X, Y], lambda x, y: x.masked_fill(y.relu().bool(), 2)),
    "masked_fill": (
        "softmax(x.masked_fill(y > 0.5, -oo), -1)",
        [X, Y],
        lambda x, y: x.masked_fill(y > 0.5, -math.inf).softmax(-1),
    ),
    "zeros_like": ("where(y > 0, x, torch.zeros_like(x))", [X, Y], lambda x, y: torch.where(y > 0, x, 0)),
    "ones_like": ("sum(ones_like(x) * w, -1)", ["x: {shape: [M, D]}", W], lambda x, w: w.sum(-1)),
    "full_like": ("x + sum(full_like(y, 2.5, dtype=y.dtype))", [X, Y], lambda x, y: x + 2.5 * y.numel()),
    "expand_as": ("sum(v.expand_as(x) * 1)", ["v: {shape: [D]}", X], lambda v, x: v.expand_as(x).sum() + 0 * x.sum()),
    "linspace": (
        "x * linspace(-1, 2, D)",
        [X],
        lambda x: x * torch.linspace(-1, 2, x.shape[1], dtype=x.dtype),
    ),
    "var_mean": (
        "(x - torch.var_mean(x, dim=(-2, -1), keepdim=True)[1]) * var_mean(x)[0]",
        [X],
        lambda x: (x - torch.var_mean(x, dim=(-2, -1), keepdim=True)[1]) * torch.var_mean(x)[0],
    ),
    "std_mean": (
        "std_mean(x, -1, correction=0)[0] + std_mean(x, -1)[1]",
        [X],
        lambda x: torch.std_mean(x, -1, correction=0)[0] + torch.std_mean(x, -1)[1],
    ),
    "argsort": ("take_along_dim(x, argsort(x, descending=True), -1)", [X], lambda x: x.sort(-1, True).values),
    "vector_norm": (
        "torch.linalg.vector_norm(x, ord=3, dim=-1)",
        [X],
        lambda x: torch.linalg.vector_norm(x, ord=3, dim=-1),
    ),
    "dist": ("torch.dist(x, y)", [X, Y], torch.dist),
    "glu": ("F.glu(x)", [X], F.glu),
    "softmin": ("F.softmin(x, dim=-1)", [X], lambda x: F.softmin(x, dim=-1)),
    "swapaxes": ("x.swapaxes(0, 1) * 2", [X], lambda x: x.swapaxes(0, 1) * 2),
    "swapdims": ("x.swapdims(-1, -2) * 2", [X], lambda x: x.swapdims(0, 1) * 2),
    "t": ("x @ w.t()", [X, W], lambda x, w: x @ w.t()),
    "normalize": ("F.normalize(x, dim=-1)", [X], lambda x: F.normalize(x, dim=-1)),
    "layer_norm": (
        "F.layer_norm(x, (D,), v, None, 1e-3)",
        [X, "v: {shape: [D]}"],
        lambda x, v: F.layer_norm(x, v.shape, v, None, 1e-3),
    ),
    "rms_norm": (
        "F.rms_norm(x, x.shape[-1:], v, eps=1e-3)",
        [X, "v: {shape: [D]}"],
        lambda x, v: F.rms_norm(x, v.shape, v, eps=1e-3),
    ),
    "scaled_dot_product_attention": (
        "F.scaled_dot_product_attention(a, k, k, is_causal=True)",
        ["a: {shape: [B, T, D]}", "k: {shape: [B, T, D]}"],
        lambda a, k: F.scaled_dot_product_attention(a, k, k, is_causal=True),
    ),
    "attn_mask": (
        "F.scaled_dot_product_attention(a, k, k, attn_mask=m) + F.scaled_dot_product_attention(a, k, k, m < 0.5)",
        ["a: {shape: [B, T, D]}", "k: {shape: [B, T, D]}", "m: {shape: [T, T], grad: false}"],
        lambda a, k, m: (
            F.scaled_dot_product_attention(a, k, k, attn_mask=m) + F.scaled_dot_product_attention(a, k, k, m < 0.5)
        ),
    ),
    "mse_loss": ("F.mse_loss(x, y)", [X, Y], F.mse_loss),
    "l1_loss": ("F.l1_loss(x, y, reduction='none')", [X, Y], lambda x, y: F.l1_loss(x, y, reduction="none")),
    "smooth_l1_loss": ("F.smooth_l1_loss(x, y, beta=0.5)", [X, Y], lambda x, y: F.smooth_l1_loss(x, y, beta=0.5)),
    "huber_loss": (
        "F.huber_loss(x, y, reduction='sum', delta=0.5)",
        [X, Y],
        lambda x, y: F.huber_loss(x, y, reduction="sum", delta=0.5),
    ),
    "binary_cross_entropy_with_logits": (
        "F.binary_cross_entropy_with_logits(x, y, pos_weight=v)",
        [X, Y, "v: {shape: [D], grad: false}"],
        lambda x, y, v: F.binary_cross_entropy_with_logits(x, y, pos_weight=v),
    ),
    "kl_div": (
        "F.kl_div(log_softmax(x, -1), softmax(y, -1), reduction='batchmean')",
        [X, Y],
        lambda x, y: F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"),
    ),
    "poisson_nll_loss": ("F.poisson_nll_loss(x, y)", [X, Y], F.poisson_nll_loss),
    "soft_margin_loss": ("F.soft_margin_loss(x, sign(y))", [X, SIGNS], lambda x, y: F.soft_margin_loss(x, y.sign())),
    "hinge_embedding_loss": (
        "F.hinge_embedding_loss(x, sign(y))",
        [X, SIGNS],
        lambda x, y: F.hinge_embedding_loss(x, y.sign()),
    ),
    "margin_ranking_loss": (
        "F.margin_ranking_loss(x, z, sign(y), margin=0.25)",
        [X, "z: {shape: [N, D]}", SIGNS],
        lambda x, z, y: F.margin_ranking_loss(x, z, y.sign(), margin=0.25),
    ),
    "pairwise_distance": ("F.pairwise_distance(x, y)", [X, Y], F.pairwise_distance),
    "triplet_margin_loss": (
        "F.triplet_margin_loss(x, y, z, margin=2)",
        [X, Y, "z: {shape: [N, D]}"],
        lambda x, y, z: F.triplet_margin_loss(x, y, z, margin=2),
    ),
}


def drawn(declared: str) -> Tensor:
    sizes = [SIZES[name] for name in declared.split("[")[1].split("]")[0].split(", ")]
    return torch.randn(sizes, dtype=torch.float64, requires_grad="grad: false" not in declared)


def test_every_row_has_a_check() -> None:
    assert {signature.partition("(")[0] for signature in COMPOSITES} == set(ROWS) - {"attn_mask"}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_torchs_own_function(name: str) -> None:
    torch.manual_seed(1)
    text, declared, own = ROWS[name]
    item = compiled_text(f'op: f\ntensors: {{{", ".join(declared)}}}\noutputs: {{y_: "{text}"}}\n')
    tensors = [drawn(each) for each in declared]
    found, right = item.function(*tensors), own(*tensors)
    torch.testing.assert_close(found, right)
    differentiated = [t for t in tensors if t.requires_grad]
    g = torch.randn_like(right)
    for mine, theirs in zip(
        *(torch.autograd.grad(v, differentiated, g, allow_unused=True) for v in (found, right)), strict=True
    ):
        zero = torch.zeros(())  # what torch has where ours is None, or the other way round
        torch.testing.assert_close(*(zero if t is None or not t.any() else t for t in (mine, theirs)))


MISTAKES = {
    "mse_loss(x, y, 1)": "takes this by its name",
    "mse_loss(x)": "lacks its argument 'target'",
    "mse_loss(x, y, reduction='avg')": "'reduction' is one of mean, none, sum",
    "kl_div(x, y, reduction='batch')": "'reduction' is one of batchmean, mean, none, sum",
    "rms_norm(x, D)": "lacks its argument 'eps'",
    "masked_fill(x, y, 0)": "a number where a condition is needed",
    "var_mean(x)": "has several results",
    "layer_norm(x, x.shape[:1])": "the last dimensions are told from the end",
    "x(y)": "'x' is not a function; for a product write",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_what_is_wrong_with_a_call_is_told_at_the_call(text: str) -> None:
    with pytest.raises(SpecError, match=MISTAKES[text].replace("(", r"\(")) as error:
        compiled_text(f'op: f\ntensors: {{{X}, {Y}}}\noutputs: {{z: "1 + {text}"}}\n')
    (mistake,) = error.value.mistakes
    assert (mistake.location.line, mistake.location.column) >= (3, 17)


def test_a_tensor_with_the_name_of_a_row_is_that_tensor() -> None:
    """As t is; its method is still the function."""
    item = compiled_text("op: f\ntensors: {x: {shape: [N, D]}, t: }\noutputs: {y: x @ x.t() * t}\n")
    x, t = torch.randn(4, 3), torch.tensor(2.0)
    torch.testing.assert_close(item.function(x, t), x @ x.t() * t)
    with pytest.raises(SpecError, match="'t' is not a function"):
        compiled_text("op: f\ntensors: {x: , t: }\noutputs: {y: t(x + 1)}\n")


def test_defaults_are_formulas_of_the_arguments() -> None:
    row = composite("scaled_dot_product_attention")
    assert row is not None
    assert row.required == ("query", "key", "value")
    assert row.defaults["scale"] == "1 / sqrt(query.shape[-1])"
