"""The table of tensor operations is complete: each row holds what the stages ask of it."""

from __future__ import annotations

import re
import string

import pytest
import torch
from derivatives import check, rand

import symgrad
from symgrad.ops.tensors import INTERNAL_ROWS, ROWS, TENSOR_OPS, TENSOR_SPELLINGS, TensorOp, interval
from symgrad.parse import parse_formulas
from symgrad.spec import parse_spec
from symgrad.targets.torch.operations import SPECIAL
from symgrad.targets.torch.printer import INFIX

# Rows of which only the compiler's own second derivatives are made: torch differentiates what they print.
_FIRST_ORDER = {"others_slope"}


def is_spelling(row: TensorOp) -> bool:
    """Whether a row only says what a call means, in terms of other rows."""
    return row.definition is not None and row.vjp is None and row.differentiable


def lacks(row: TensorOp) -> list[str]:
    """The facts that some stage will ask and a row does not hold."""
    if row.fields or is_spelling(row):
        return []
    found = []
    if row.differentiable and row.name not in _FIRST_ORDER:
        found += [name for name in ("vjp", "jvp") if getattr(row, name) is None]
    if row.extent is None and row.shape_of is None and row.name not in ("restore", "drop"):
        found.append("extent or shape_of")
    if not row.torch and row.name not in SPECIAL and row.name not in INFIX:
        found.append("torch")
    names = {a.name for a in row.attributes} | {"attributes", "operands", "rest"}
    for _, key, _, _ in string.Formatter().parse(row.torch):
        if key and not key.isdigit() and not key.startswith(("shape", "device", "like")) and key not in names:
            found.append(f"what {{{key}}} in 'torch' is")
    return found


@pytest.mark.parametrize("row", TENSOR_OPS.values(), ids=lambda row: row.name)
def test_every_row_holds_what_the_stages_ask(row: TensorOp) -> None:
    assert not lacks(row), f"{row.name} lacks {', '.join(lacks(row))}"


def test_a_row_that_lacks_something_is_named() -> None:
    assert lacks(TensorOp("odd", torch="{0}.odd({wrong})")) == [
        "vjp",
        "jvp",
        "extent or shape_of",
        "what {wrong} in 'torch' is",
    ]


def test_no_name_stands_for_two_rows() -> None:
    names = [name for row in (*ROWS, *INTERNAL_ROWS) for name in (row.name, *row.aliases)]
    assert len(set(names)) == len(names) == len(TENSOR_OPS) + sum(len(row.aliases) for row in TENSOR_OPS.values())
    assert TENSOR_SPELLINGS.keys() <= set(names)


def test_fields_are_rows() -> None:
    for row in TENSOR_OPS.values():
        assert all(operation in TENSOR_OPS for _, operation in row.fields), row.name


# A formula of each operation that specs call: of x [3, 4], a square s [3, 3], w [4, 3], integers i [3], and of n
# dimensions a grid gn and a kernel kn of two channels.
EXAMPLES = {
    **{name: f"{name}(x, dim=-1)" for name in ("sum", "mean", "prod", "amax", "amin", "var", "logsumexp", "norm")},
    **{name: f"{name}(x, dim=-1)" for name in ("softmax", "log_softmax", "cumsum", "cumprod", "logcumsumexp")},
    **{name: f"{name}(x, dim=-1).values" for name in ("max", "min", "sort", "cummax", "cummin", "median")},
    **{name: f"{name}(x)" for name in ("flatten", "tril", "triu")},
    **{name: f"{name}(s @ s.mT + eye(d3))" for name in ("inverse", "det", "logdet", "logabsdet", "cholesky")},
    **{f"conv{n}d": f"conv{n}d(g{n}, k{n}, padding=1)" for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": f"conv_transpose{n}d(g{n}, k{n}, stride=2)" for n in (1, 2, 3)},
    **{f"avg_pool{n}d": f"avg_pool{n}d(g{n}, 2)" for n in (1, 2, 3)},
    **{f"max_pool{n}d": f"max_pool{n}d(g{n}, 2)" for n in (1, 2, 3)},
    "detach": "detach(x) * x",
    "topk": "topk(x, 2, dim=-1).values",
    "matmul": "x @ w",
    "einsum": "einsum('nk,kn->n', x, w)",
    "solve": "solve(s + 4 * eye(d3), x)",
    "transpose": "transpose(x, 0, 1) * w",
    "mT": "x.mT * w",
    "T": "x.T * w",
    "unsqueeze": "unsqueeze(x, 1) * x",
    "squeeze": "squeeze(x[:, :1], 1)",
    "diagonal": "diagonal(s * s)",
    "gather": "gather(x, 1, i[:, None])",
    "segment_sum": "segment_sum(x, i, 4)",
    "segment_max": "segment_max(x, i, 4)",
    "segment_min": "segment_min(x, i, 4)",
    "cat": "cat([x, sin(x)], dim=0)",
    "flip": "flip(x, 1) * x",
    "roll": "roll(x, 1, 0) * x",
    "pad": "pad(x, [1, 2]) ** 2",
    "diff": "diff(x, 2) ** 2",
    "permute": "permute(x, [1, 0]) * w",
    "reshape": "reshape(x, 2, 6) ** 2",
    "unflatten": "unflatten(x, -1, [2, 2]) ** 2",
}


def is_called(row: TensorOp) -> bool:
    """Whether specs call it, and it has a derivative."""
    return row.differentiable and not is_spelling(row) and row in ROWS


@pytest.mark.parametrize("row", [*filter(is_called, TENSOR_OPS.values())], ids=lambda row: row.name)
def test_every_row_has_an_example_whose_value_and_derivatives_hold(row: TensorOp) -> None:
    assert row.name in EXAMPLES, f"write a formula of {row.name} into EXAMPLES"
    i = torch.tensor([2, 0, 2])
    text = EXAMPLES[row.name]
    given = {"x": rand(3, 4), "s": rand(3, 3), "w": rand(4, 3), "i": i}
    for n in (1, 2, 3):
        given |= {f"g{n}": rand(1, 2, *(4, 5, 6)[:n]), f"k{n}": rand(2, 2, *(2, 2, 2)[:n])}
    check(text, {name: t for name, t in given.items() if re.search(rf"\b{name}\b", text)}, declare=(True,))


BOUNDED = [
    *(EXAMPLES[row.name] for row in ROWS if row.within is not None),
    "flip(softmax(x, dim=-1), 1)",
    "gather(log_softmax(x, dim=-1), 1, i[:, None])",
    "mean(softmax(x, dim=-1), dim=0)",
    "amax(norm(x, dim=-1, keepdim=True), dim=0)",
]


@pytest.mark.parametrize("text", BOUNDED)
@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 100.0])
def test_results_lie_within_the_interval_that_the_row_says(text: str, scale: float) -> None:
    shapes = {"x": "{shape: [N, C]}", "i": "{shape: [N], dtype: int}"}
    own = [name for name in shapes if re.search(rf"\b{name}\b", text)]
    declared = ", ".join(f"{name}: {shapes[name]}" for name in own)
    spec = parse_spec(f"op: f\ntensors: {{{declared}}}\noutputs: {{y: '{text}'}}")
    within = interval(parse_formulas(spec).outputs["y"])
    assert within is not None
    given = {"x": scale * rand(3, 4), "i": torch.tensor([2, 0, 2])}
    found = symgrad.load(spec).f(*(given[name] for name in own))
    assert all(float(value) in within for value in found.flatten())


def test_what_is_computed_of_bounded_results_is_not_bounded_by_them() -> None:
    spec = parse_spec("op: f\ntensors: {x: {shape: [N, C]}}\noutputs: {y: 'sum(softmax(x, dim=-1), dim=0)'}")
    assert interval(parse_formulas(spec).outputs["y"]) is None
