"""Whole specs drawn at random: of tensors with named sizes, whole numbers and truth values, several outputs, options.

Templates say what is done to values of two dimensions, which are made of all kinds of tensors as `draw` makes them.
"""

from __future__ import annotations

import random

from benchmarks.search.draw import _DOMAINS, Drawn, _value, _words

__all__ = ["TEMPLATES", "TENSORS", "draw_wide"]

TENSORS = {
    "x": "shape: [B, N]",
    "w": "shape: [B, N]",
    "v": "shape: [N]",
    "r": "shape: [B, 1]",
    "s": "shape: []",
    "c": "shape: [B, N], grad: false",
    "m": "shape: [N, C]",
    "q": "shape: [C, N]",
    "t": "shape: [B, C, N]",
    "g": "shape: [B, C, L]",
    "h": "shape: [B, C, L, L]",
    "k1": "shape: [D, C, 2]",
    "k2": "shape: [D, C, 2, 3]",
    "k3": "shape: [C, D, 2, 2]",
    "i": "shape: [B], dtype: int",
    "j": "shape: [B, N], dtype: int",
    "z": "shape: [B, N], dtype: int",
    "b": "shape: [B, N], dtype: bool",
    "d": "shape: [B, N], default: 0.5",
}
_LEAVES = (
    "x",
    "x",
    "x",
    "w",
    "w",
    "v",
    "r",
    "s",
    "c",
    "d",
    "z",
    "where(b, x, w)",
    "x[:, :1]",
    "m[:, 0]",
    "t[:, 0]",
    "q[-1]",
)
# Of values {0} and {1} of [B, N]; what a template names beside these has its own shape.
TEMPLATES = (
    *("segment_sum({0}, i, N)", "segment_mean({0}, i, N)", "segment_max({0}, i, N)", "segment_min({0}, i, N)"),
    *("index_add({0}.mT, 0, i, {0} @ {1}.mT)", "index_select({0}, 1, i)", "m[i] * sum({0}, dim=-1, keepdim=True)"),
    *("scatter_add({0}, 1, j, {1})", "gather({0}, 1, j) * {1}", "embedding(i, m) * sum({0})", "where(j > 1, {0}, {1})"),
    *("one_hot(i, N) * {0} - {1}", "cross_entropy({0}, i, reduction=mode)", "where(b & (z < 2), {0}, {1} * z)"),
    *("{0} @ m", "({0} @ m) @ q", "t @ ({0})[:, :, None]", "einsum('bn,bcn,nd->bcd', {0}, t, m)", "t * ({0})[:, None]"),
    *("einsum('bn,cn->bc', {0}, q)", "einsum('...n,...n->...', {0}, {1})", "softmax(t * s, dim=1) @ m", "t.mT @ t"),
    *("conv1d(g, k1)", "conv1d(g * s, k1, stride=2, padding=1)", "conv2d(h, k2, padding=1)", "conv2d(tanh(h), k2)"),
    *(
        "conv_transpose2d(h, k3, stride=2)",
        "max_pool1d(g, 2)",
        "avg_pool2d(h * h, 2, stride=1)",
        "max_pool2d(sin(h), 2)",
    ),
    *("solve({0}.mT @ {0} + eye(N), {1}.mT)", "inverse({0}.mT @ {0} + 2 * eye(N))", "logdet({0} @ {0}.mT + eye(B))"),
    *("cholesky({0} @ {0}.mT + eye(B))", "logabsdet({0}.mT @ {1} + eye(N))", "diag(diagonal({0} @ {1}.mT))"),
    *(
        "cat([{0}, {1}, c], dim=0)",
        "stack([{0}, v * {1}], dim=1)[:, -1]",
        "({0})[:, None] * ({1})[None]",
        "cat([t, t], 2)",
    ),
    *(
        "t[:, 0, 1:] - ({0})[:, :-1]",
        "({0})[::2, ..., None] + s",
        "pad({0}, [1, 1], value=1.5) * 2",
        "pad(t, [1, 0, 0, 2])",
    ),
    *("sort({0}, dim=0).values - {1}", "sort({0} * s, dim=-1, descending=True).values", "topk({0}, 1, dim=0).values"),
    "topk({0}, 1, dim=-1, largest=False).values * {1}",
    *("take_along_dim({0}, sort({1}, dim=-1).indices, -1)", "median(t, dim=1).values"),
    *("cumsum(t * t, dim=1)", "cumprod({0}, dim=0)", "logcumsumexp(t * s, dim=1)", "cummax({0}, dim=0).values * {1}"),
    *("sum(t * ({0})[:, None], dim=[0, 2])", "mean(t, dim=[-1, 1])", "var(t * s, dim=[1, 2])", "sum({0}, dim=axis)"),
    *("softmax({0}, dim=axis) * {1}", "cumsum({0} * {1}, dim=axis)", "amax({0}, dim=axis, keepdim=True) - {1}"),
    *(
        "var({0}, dim=axis, correction=0)",
        "std({0}, dim=-1, unbiased=False)",
        "norm({0}, p=3, dim=axis)",
        "norm(t, dim=[1, 2])",
    ),
    *(
        "logsumexp(t + ({0})[:, None], dim=[1, 2])",
        "norm({0}, p=1, dim=-1)",
        "prod(t, dim=1)",
        "amin(t * s, dim=[0, 1])",
    ),
    *("flip(t, [0, 2]) * s", "roll({0}, [1, -1], [0, 1]) * {1}", "permute(t, [2, 0, 1]) * s", "movedim(t, 0, -1) + s"),
    *(
        "flatten(t * t)",
        "unflatten({0}, -1, [N, 1]) * s",
        "reshape({0}, [N, B]) * 2",
        "squeeze(r, 1) * s",
        "unsqueeze({0}, 1) * t",
    ),
    *("cosine_similarity({0}, {1}, dim=-1)", "cosine_similarity({0}, {1}, dim=0) * v"),
    *("where(mode == 'none', {0}, where(mode == 'sum', sum({0}), mean({0} * {1})))", "where(any(b), {0}, {1})"),
    *(
        "dropout({0}, 0.4, seed)",
        "{0} * uniform(x, seed)",
        "{0} + s * normal(x, seed)",
        "detach({0}) + {1} - detach({1})",
    ),
    *(
        "diff({0}, 2, 0)",
        "tril({0} @ {1}.mT, -1)",
        "triu(t, 1) * s",
        "outer(v, v) * s",
        "trace({0} @ {1}.mT) * v",
        "({0}).mT[i]",
    ),
    *("({0}).sum(dim=-1, keepdim=True) * r", "{0} if flag else {1}", "clamp({0}, min=r, max=v + 3)"),
    *("count_nonzero({0}, dim=-1) * {1}.sum(dim=-1)", "z % 3 * {0}", "floor(z / 2) + {1}"),
)
_PLAIN = ("{0}", "{0} * r - v", "sum({0} * {1}, dim=-1)", "where(b, {0}, {1})", "sum({0})", "mean({0} * {1}, dim=0)")
_WHOLE = (  # of which nothing has a gradient
    *("argmax({0}, dim=0)", "max({0}, dim=0).indices", "argmin(t * s, dim=-1, keepdim=True)", "any(b, dim=-1)"),
    *("all({0} > z)", "sum(b, dim=-1)", "z * i[:, None]", "{0} > {1}", "sort({0}, dim=-1).indices", "z + j"),
)
_OPTIONS = (
    *("", "", "", "", "precision: strict", "precision: fast", "save: memory", "save: speed", "accumulate: same"),
    "save: memory, precision: fast",
)


def draw_wide(seed: int) -> Drawn:
    """The spec of a seed."""
    chance = random.Random(f"wide {seed}")
    lets: dict[str, str] = {}

    def value() -> str:
        # x keeps the shape of what a template is of, whichever tensors the rest is made of.
        return f"({_value(chance, chance.choice((0, 1, 1, 2, 3)), (*_LEAVES, *lets, *lets))} + x)"

    if chance.random() < 0.3:
        lets["u"] = value()
    if chance.random() < 0.1:
        lets["o"] = value()
    formulas = [
        chance.choice(TEMPLATES if chance.random() < 0.8 else _PLAIN).format(value(), value())
        for _ in range(chance.choice((1, 1, 1, 2, 2, 3)))
    ]
    if chance.random() < 0.2:
        formulas[0] = _value(chance, 2, (f"({formulas[0]})",))
    others = dict(zip(("y1", "y2"), formulas[1:], strict=False))
    fixed = {n for n in others if chance.random() < 0.1}
    if chance.random() < 0.08:
        others["y3"] = chance.choice(_WHOLE).format(value(), value())
        fixed.add("y3")
    tensors = dict(TENSORS)
    if chance.random() < 0.15:
        tensors["x"] += f", domain: '{chance.choice(_DOMAINS)}'"
    used = _words(" ".join([formulas[0], *others.values()]))
    lets = {n: text for n, text in lets.items() if n in used or (n == "u" and "o" in used)}
    return Drawn(
        seed,
        "wide",
        formulas[0],
        lets,
        tensors=tensors,
        others=others,
        fixed=frozenset(fixed),
        options=chance.choice(_OPTIONS),
    )
