"""What the search has found stays mended: eager bodies, passes as they are interpreted, and passes in C++."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
import torch
from fused import needs_compiler
from torch.autograd import forward_ad

from benchmarks.search.compiled import compile_together
from benchmarks.search.draw import Drawn
from benchmarks.search.hold import differences
from benchmarks.search.made import Made
from benchmarks.search.wide import TENSORS
from symgrad.accuracy.machine import machine
from symgrad.ir.traversal import topological

_SEEDS = count(1)
_STEPS = {f"h{k}": f"tanh({f'h{k - 1}' if k else 'x'} * w + v)" for k in range(16)}
FINDS = {
    "a total in a whole shape": Drawn(next(_SEEDS), "whole", "count_nonzero(x - x) * (w / w)"),
    "the sign of what is no number": Drawn(next(_SEEDS), "rows", "sum(where(asin(x) < 0, x, w))"),
    "a formula that is divided": Drawn(next(_SEEDS), "pointwise", "h15 * w", _STEPS),
    "a hyperparameter beside a mask": Drawn(next(_SEEDS), "pointwise", "where((x + 0.5 >= 0) & flag, x, w)"),
    "a long constant over a deviation": Drawn(next(_SEEDS), "rows", "std(selu(x), dim=-1)"),
    "a long constant over a number of elements": Drawn(next(_SEEDS), "rows", "mean(selu(x))"),
    "a long constant times a hyperparameter": Drawn(next(_SEEDS), "pointwise", "softshrink((n * selu(x)), a)"),
    "a row of a tensor that cancels": Drawn(next(_SEEDS), "rows", "std(where((x < 0) & flag, v, v), dim=-1)"),
    "a sum of a tensor that cancels": Drawn(next(_SEEDS), "rows", "sum(where(x < w, v, v))"),
    "poles that torch misses": Drawn(next(_SEEDS), "pointwise", "polygamma(1, x)"),
    "a slice of a temporary": Drawn(next(_SEEDS), "whole", "cat([rsqrt(x), w], dim=-1)[:, ::2]"),
    "one of a stack": Drawn(next(_SEEDS), "whole", "stack([x * w, w], dim=0)[0]"),
    "values that are equal": Drawn(next(_SEEDS), "pointwise", "beta(0.5, 0.5 + x)"),
    "terms that are 0 in two spellings": Drawn(next(_SEEDS), "pointwise", "beta((0.5 + abs(x * 0)), (0.5 + abs(x)))"),
    "equal arguments where none is chosen": Drawn(next(_SEEDS), "pointwise", "exp(minimum(hardswish(x), acsch(v)))"),
    "a shape lost beside one of whole numbers": Drawn(next(_SEEDS), "labels", "v / log1p(expm1(v)) - i[:, None]"),
    "poles beside a maximum": Drawn(
        next(_SEEDS), "rows", "cummax(((softsign(w) + (v - x)) + x), dim=-1).values * (binomial(x, v))"
    ),
    "poles and overflow where none is read": Drawn(
        next(_SEEDS), "rows", "cummax(w + x, dim=-1).values * binomial(x, v)"
    ),
    "a root of what is not read": Drawn(
        next(_SEEDS), "rows", "w * sum(where(x > 0, sqrt(x), 0), dim=-1, keepdim=True)"
    ),
    "a choice by a number of what has another shape than its cotangent": Drawn(
        next(_SEEDS), "rows", "sum(where((x >= 0) & flag, v * w, w))", domain="(0, oo)"
    ),
    "a dimension to the left of what broadcasts": Drawn(8008, "whole", "cdist(x, v * w)"),
    "poles in a part that nobody reads": Drawn(next(_SEEDS), "whole", "sum(stack([x * x, acosh(w)], dim=0)[0])"),
    "poles in a chunk that nobody reads": Drawn(
        next(_SEEDS), "whole", "chunk(cat([x * x, acosh(w)], dim=-1), 2, dim=-1)[0] * w"
    ),
    "a second derivative that is 0 at a pole": Drawn(8000, "pointwise", "asec(where(v > 0, w, x))"),
    "nothing times the logarithm of nothing": Drawn(next(_SEEDS), "pointwise", "xlogy(x, w) - xlog1py(x, w)"),
    "shares of a sum that was rounded": Drawn(next(_SEEDS), "rows", "logcumsumexp(sinh(square(w)), dim=-1)"),
    "a row of one number where no tensor is there": Drawn(next(_SEEDS), "rows", "softmax(x - x, dim=1) * (w - v)"),
    "what is left of a division by 0 where it is not read": Drawn(
        8001, "pointwise", "where(w <= 1, remainder(w, x) / v + fmod(w, x), x)"
    ),
    "a number in place of a tensor that is guarded twice": Drawn(
        8003, "rows", "var(where(w < 0, x, asec(w)), dim=1, keepdim=True)", domain="[1, oo)"
    ),
    "the deviation of equal numbers": Drawn(89752, "whole", "sum(std((((v - w) + w)), dim=0))", domain="(0, oo)"),
    "a series where it is not read": Drawn(next(_SEEDS), "pointwise", "sinc(100 * x)"),
    "a tensor that the condition around its own never lets be read": Drawn(
        next(_SEEDS), "wide", "where(b, z * where(b, x, w) + x, 1 + x)", tensors=TENSORS
    ),
    "truth values beside numbers": Drawn(
        next(_SEEDS),
        "wide",
        "sum(t * (w - x)[:, None], dim=[0, 2])",
        tensors=TENSORS,
        others={"y1": "any(b, dim=-1)"},
        fixed=frozenset({"y1"}),
    ),
    "whole numbers that grow below a fraction line": Drawn(
        next(_SEEDS), "wide", "x / silu(sech(z) + x)", tensors=TENSORS
    ),
    "a rest of whole numbers": Drawn(next(_SEEDS), "wide", "z % 3 * x", tensors=TENSORS),
    "a draw in half precision": Drawn(
        next(_SEEDS), "wide", "x + s * normal(x, seed)", tensors=TENSORS, options="accumulate: same"
    ),
    "a draw beside tangents alone": Drawn(next(_SEEDS), "wide", "dropout(x + w, 0.4, seed)", tensors=TENSORS),
    "a second derivative that is 0 in one of two parts": Drawn(
        next(_SEEDS), "rows", "chunk(erfc(where(x >= x, w, v)), 1, dim=1)[0]"
    ),
    "a shape of three terms that is computed apart": Drawn(
        next(_SEEDS),
        "wide",
        "var(a + binomial(0.5 + abs(m[:, 0]), 0.5 + abs(w)) + x, dim=axis, correction=0)",
        tensors=TENSORS,
        options="save: memory",
    ),
    "a view that torch makes of what it has computed": Drawn(
        110109, "wide", "r * s", tensors=TENSORS, others={"y1": "max_pool1d(g, 2)"}
    ),
    "a quotient by what is nearly nothing": Drawn(next(_SEEDS), "pointwise", "bessel_j1(w)"),
}
_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Made]]:
    folder = tmp_path_factory.mktemp("finds")
    yield {what: Made(drawn, folder, draft=True) for what, drawn in FINDS.items()}


@pytest.mark.parametrize("what", FINDS)
def test_a_find_stays_mended(what: str, made: dict[str, Made]) -> None:
    found = made[what]
    assert not list(differences(found, found.drawn.seed, _DTYPES))


@needs_compiler
@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.float16, marks=pytest.mark.nightly)], ids=str)
def test_passes_of_finds_stay_mended_in_cpp(dtype: torch.dtype, made: dict[str, Made]) -> None:
    drafts = [m for m in made.values() if m.library is not None]
    assert len(drafts) >= 6
    compile_together(drafts, dtype, narrow=False)
    try:
        for own in drafts:
            assert not list(differences(own, own.drawn.seed, (dtype,), eager=False)), own.drawn.formula
    finally:
        for own in drafts:  # for others they are interpreted
            own.library.libraries.clear()
            own.library.forget()


def test_a_divided_formula_has_passes_of_as_many_operations_as_it_has(made: dict[str, Made]) -> None:
    """Products that merge across what is computed once would compute it anew, in each step of the chain."""
    found = made["a formula that is divided"]
    assert any(node.op == "boundary" for node in topological(*found.operation.program.outputs.values()))
    sizes = {
        k.name: sum(map(bool, (n.args for n in topological(*machine([r.value for r in k.results])))))
        for k in found.passes.kernels
    }
    assert sizes["forward"] < 4 * 16 + 8
    assert sizes["backward"] < 16 * 16


@pytest.mark.parametrize("what", ["a slice of a temporary", "one of a stack"])
def test_a_view_of_a_temporary_has_derivatives_in_every_mode(what: str, made: dict[str, Made]) -> None:
    """What forward mode must not take for a view is part of the graph for who differentiates forward itself."""
    function = made[what].function
    x, w = torch.rand(3, 4), torch.rand(3, 4)
    with forward_ad.dual_level():  # a tangent that lies in memory otherwise
        dual = forward_ad.make_dual(x, torch.ones(4, 3).T)
        mine = forward_ad.unpack_dual(function(dual, w)).tangent
    _, usual = torch.func.jvp(made[what].composite, (x, w), (torch.ones(3, 4), torch.zeros(3, 4)))
    torch.testing.assert_close(mine, usual)
    compiled = torch.compile(torch.func.grad(lambda t: function(t, w).sum()), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), torch.func.grad(lambda t: made[what].composite(t, w).sum())(x))
