"""The search for wrong derivatives and passes draws every row, sees what is wrong, and finds nothing in some seeds."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fused import needs_compiler

from benchmarks.search.__main__ import outcome
from benchmarks.search.draw import NAMES, Drawn, draw
from benchmarks.search.hold import differences
from benchmarks.search.made import Made
from benchmarks.search.modes import modes
from benchmarks.search.shrink import shrunk
from symgrad.spec.interval import parse_interval

_SEEDS = (1, 13, 24, 30, 33, 668)  # of small formulas, which are compiled fast
_NIGHTLY = 40


@pytest.mark.parametrize("seed", _SEEDS)
def test_formulas_of_fixed_seeds_are_right(seed: int) -> None:
    assert not outcome(draw(seed)).wrong


@pytest.mark.nightly
def test_formulas_drawn_anew_are_right() -> None:
    first = random.SystemRandom().randrange(1 << 30)
    found = [o for o in (outcome(draw(first + k)) for k in range(_NIGHTLY)) if o.wrong]
    assert not found, found


def test_formulas_are_drawn_from_every_row_of_the_table() -> None:
    texts = " ".join(draw(seed).text for seed in range(6000))
    assert not {name for name in NAMES if f"{name}(" not in texts and name != "pow"}
    assert "**" in texts


def test_a_formula_is_drawn_again_by_its_seed() -> None:
    assert [draw(s).text for s in range(50)] == [draw(s).text for s in range(50)]


def test_some_formulas_have_domains_and_inputs_lie_in_them(tmp_path: Path) -> None:
    assert 0.1 < sum(bool(draw(seed).domain) for seed in range(500)) / 500 < 0.2
    for kind in ("pointwise", "rows"):
        for seed, domain in enumerate(("(0, oo)", "[0, 1]", "(-1, 1)", "(-oo, 0)"), start=1):
            made = Made(Drawn(seed, kind, "x * w", domain=domain), tmp_path, draft=True)
            seen = []
            made.function = made.composite = lambda x, w, seen=seen: (seen.append(x.detach()), x * w)[1]
            assert not list(differences(made, seed))
            assert seen
            assert all(v in parse_interval(domain) for x in seen for v in x.flatten().tolist() if v == v)


FORMULA = Drawn(1, "pointwise", "sin(x) * w")
TRANSFORMED = Drawn(768, "pointwise", "sin(x) * w")  # in every mode


def test_a_wrong_value_a_lost_derivative_and_a_wrong_dtype_are_seen(tmp_path: Path) -> None:
    made = Made(FORMULA, tmp_path, draft=True)
    dtypes = (torch.float32,)
    assert not list(differences(made, 1, dtypes))
    right = made.function
    broken = {
        "y": lambda x, w: right(x, w) * 1.0001,
        "gradient": lambda x, w: right(x, w) + 0.01 * (x - x.detach()),
        "second": lambda x, w: right(x, w) + 0.01 * (x - x.detach()) ** 2,
        "torch.float64": lambda x, w: right(x, w).double(),
    }
    for name, function in broken.items():
        made.function = function
        assert any(name in d.what for d in differences(made, 1, dtypes)), name


def test_what_goes_wrong_under_a_transformation_is_seen(tmp_path: Path) -> None:
    made = Made(TRANSFORMED, tmp_path, draft=True)
    dtypes = (torch.float32,)
    assert not list(differences(made, TRANSFORMED.seed, dtypes, eager=False))
    right = made.function

    level = torch._C._functorch.maybe_current_level  # 1 in a vjp, 2 where that is mapped
    made.function = lambda x, w: right(x, w) * (2 if level() == 2 else 1)
    assert any("vmap" in d.what for d in differences(made, TRANSFORMED.seed, dtypes, eager=False))
    made.function = lambda x, w: right(x, w) * (2 if torch.compiler.is_compiling() else 1)
    assert any("torch.compile" in d.what for d in differences(made, TRANSFORMED.seed, dtypes, eager=False))


def test_a_wrong_pass_is_seen(tmp_path: Path) -> None:
    made = Made(FORMULA, tmp_path, draft=True)
    assert made.with_passes(torch.float32)
    own = made.library.libraries[torch.float32, 0, False].backward
    first, *others = own.kernel.results
    own.kernel = replace(own.kernel, results=(replace(first, value=first.value * 2), *others))
    found = list(differences(made, 1, (torch.float32,)))
    assert found
    assert {d.of for d in found} == {"passes"}


@needs_compiler
@pytest.mark.nightly
@pytest.mark.parametrize("formula", ["x * sigmoid(w * x)", "softmax(x * w, dim=-1)"])
def test_the_interpreter_of_passes_computes_what_they_do_in_cpp(formula: str, tmp_path: Path) -> None:
    x, w = torch.randn(2, 5, 17)
    results = []
    for draft in (True, False):
        folder = tmp_path / str(draft)
        folder.mkdir()
        made = Made(Drawn(1, "rows", formula), folder, draft=draft)
        assert made.with_passes(torch.float32)
        own = [t.clone().requires_grad_() for t in (x, w)]
        y = made.function(*own)
        results.append([y, *torch.autograd.grad(y.square().sum(), own)])
    for interpreted, run in zip(*results, strict=True):
        torch.testing.assert_close(interpreted, run, rtol=1e-5, atol=1e-6)


def test_what_is_wrong_is_made_smaller() -> None:
    drawn = Drawn(1, "pointwise", "exp(u) + where(x > 0, erf(sin(x) * 2), -w)", {"u": "tanh(erf(w))"})
    least = shrunk(drawn, lambda d: "erf(" in d.text)
    assert least.formula in ("erf(x)", "erf(w)")
    assert not least.let


def test_a_row_is_written_whole_where_a_tensor_that_cancels_is_larger() -> None:
    assert not outcome(Drawn(1, "rows", "x / x * mean(w, dim=-1, keepdim=True)")).wrong


def test_tensors_without_elements_have_sizes_that_change_together(tmp_path: Path) -> None:
    made = Made(Drawn(96, "pointwise", "where(v <= x, x, w)"), tmp_path, draft=True)
    assert not list(modes(made, 96, [torch.zeros(4, 0), torch.zeros(0), torch.zeros(4, 1)], ()))
