"""What rounding moves by itself is no find, and what is wrong is one also where terms cancel."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from benchmarks.search.cases import Case
from benchmarks.search.draw import Drawn
from benchmarks.search.hold import _held, differences
from benchmarks.search.made import Made
from benchmarks.search.modes import differing
from benchmarks.search.rounding import noise

CANCELLING = (
    ("pointwise", "hypot(x, x)"),
    ("pointwise", "w / v"),
    ("pointwise", "erfinv(tanh(w))"),
    ("pointwise", "ndtri(sigmoid(x)) - 0.5"),
    ("pointwise", "tanh(where(minimum(x, v) < atanh(tanh(x)), x - w, x * w))"),
    ("rows", "softmax(i0(x), dim=-1) * coth(x)"),
    ("pointwise", "minimum(hardswish(minimum(x, w)), (w - w) * sin(v))"),  # 0 is a number there, not one of two equals
    ("pointwise", "log_ndtr(x) / 3"),  # divides by 1e22 twice, which leaves few digits of what is subnormal
)


@pytest.mark.parametrize(("kind", "formula"), CANCELLING)
def test_what_cancels_is_no_find_and_what_is_wrong_there_is_one(kind: str, formula: str, tmp_path: Path) -> None:
    made = Made(Drawn(3, kind, formula), tmp_path, draft=True)
    dtypes = (torch.float32, torch.float64)
    assert not list(differences(made, 3, dtypes))
    right = made.function

    def grown(*tensors: Tensor, order: int) -> Tensor:
        """0, but for its derivatives of an order and those after it."""
        moved = [(1e-3 * (t - t.detach())) ** order for t in tensors]
        return torch.stack([m.sum() for m in moved]).sum() if kind == "rows" else sum(torch.broadcast_tensors(*moved))

    broken = {
        "y": lambda *t: right(*t) * (1 + 1e-3),
        "gradient": lambda *t: right(*t) + 10 * grown(*t, order=1),
        "second": lambda *t: right(*t) + 1e5 * grown(*t, order=2),
        "tangent": lambda *t: right(*t) + 10 * grown(*t, order=1),
    }
    for name, function in broken.items():
        made.function = function
        assert any(name in d.what for d in differences(made, 3, dtypes)), name


def test_noise_is_what_the_last_digits_of_cancelling_terms_leave() -> None:
    x = torch.full((64,), 1e6, dtype=torch.float64)

    def results(shift: float) -> dict[str, Tensor]:
        leaf = x.clone().requires_grad_()
        y = torch.exp(leaf * 1e-6) + shift - shift
        (slope,) = torch.autograd.grad(y.sum(), leaf)
        return {"y": y.detach(), "slope": slope}

    steady, cancelling = (noise(lambda s=s: results(s), results(s)) for s in (0.0, 1e8))
    assert 1e-16 < float(steady["y"].max()) < 1e-14
    assert 1e-8 < float(cancelling["y"].max()) < 1e-6
    assert float(cancelling["slope"].max()) < 1e-20  # autograd's operations are moved, and nothing cancels in them


def test_a_step_is_found_on_which_side_of_it_a_result_may_lie() -> None:
    """Of 500 sums that are whole numbers, each is moved below at least once."""
    x = torch.full((500,), 0.5)
    moved = noise(lambda: {"y": torch.floor(x + x)}, {"y": torch.floor(x + x)})["y"]
    assert (moved == 1).all()


def test_a_result_that_is_no_number_has_no_noise() -> None:
    x = torch.tensor([-1.0, 4.0])
    moved = noise(lambda: {"y": torch.sqrt(x)}, {"y": torch.sqrt(x)})["y"]
    assert moved[0] == 0
    assert moved[1] > 0


@pytest.mark.parametrize("formula", ["silu(log1p(expm1(v)))", "where((acsc(w) >= 0) & flag, airy_ai_prime(x), w - v)"])
def test_what_takes_more_digits_and_what_torch_has_no_number_for_is_no_find(formula: str, tmp_path: Path) -> None:
    made = Made(Drawn(1, "pointwise", formula), tmp_path, draft=True)
    points = torch.tensor([float("inf"), float("nan"), -1e4, 1.5])
    given = torch.cartesian_prod(*[points] * len(made.tensors)).reshape(-1, len(made.tensors)).T
    numbers = (True,) * len(made.drawn.spec.hyperparameters)
    case = Case(tuple(given), tuple(range(len(given))), more=False, apart=True, numbers=numbers)
    assert not list(_held(made, case, torch.float32, eager=True))
    right = made.function
    made.function = lambda *t: torch.nan_to_num(right(*t))
    assert any("about NaN" in d.what for d in _held(made, case, torch.float32, eager=True))


def test_what_rounding_explains_is_no_difference_under_vmap_and_more_is() -> None:
    x = torch.tensor([1.0, 1.0 + 2e-7])
    ill = lambda: [torch.stack([(x * x - 1).sum() * 1e7])]  # noqa: E731
    direct = ill()
    assert list(differing("vmap", [direct[0] + 1], direct))
    assert not list(differing("vmap", [direct[0] + 1], direct, ill))
    assert list(differing("vmap", [direct[0] + 100], direct, ill))
