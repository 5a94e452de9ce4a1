"""Ways to call an operation, and what it is compared with."""

import pytest
import torch
from torch.func import grad, jvp
from torch.overrides import TorchFunctionMode

from symgrad.testing import Input, Subject
from symgrad.testing.half import _gradient_of_sum
from symgrad.testing.reference import expected, reference

_FORMS = {
    "det": torch.det,
    "linalg.det": torch.linalg.det,
    "logdet": torch.logdet,
    "slogdet": lambda x: torch.linalg.slogdet(x).logabsdet,
    "solve": lambda x: torch.linalg.solve(x, x[..., :2] + 1),
    "solve for vectors": lambda x: torch.linalg.solve(x, x[..., 0] + 1),
}


@pytest.mark.parametrize("name", _FORMS)
def test_the_gradient_of_a_tangent_of_determinants_and_solutions_is_that_of_differences(name):
    formula = _FORMS[name]
    subject = Subject("op", formula, formula, (Input("x"),), pointwise=False)
    generator = torch.Generator().manual_seed(0)
    x, t, moved = torch.randn(3, 2, 3, 3, dtype=torch.float64, generator=generator)
    x = x.mT @ x if name == "logdet" else x
    function = reference(subject, {})
    torch.testing.assert_close(function(x), formula(x))
    found = grad(lambda x: jvp(function, (x,), (t,))[1].sum())(x)
    step = 1e-6
    more, less = (jvp(formula, (x + s * step * moved,), (t,))[1].sum() for s in (1, -1))
    torch.testing.assert_close((found * moved).sum(), (more - less) / (2 * step), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", _FORMS)
def test_determinants_and_solutions_have_the_dtype_of_torchs_own_under_autocast(name):
    formula = _FORMS[name]
    subject = Subject("op", formula, formula, (Input("x"),), pointwise=False)
    x = 3 * torch.eye(3) + torch.ones(3, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(reference(subject, {})(x), formula(x))


def test_solutions_of_what_autocast_multiplied_are_of_the_wider_dtype():
    formula = lambda a, b: torch.linalg.solve(a, b)  # noqa: E731
    subject = Subject("op", formula, formula, (Input("a"), Input("b")), pointwise=False)
    a, b = 3 * torch.eye(3) + torch.ones(3, 3), torch.ones(3, 2)
    found = reference(subject, {})(a, b.bfloat16())
    torch.testing.assert_close(found, torch.linalg.solve(a, b))


class _Newer(TorchFunctionMode):
    """A torch whose clamps pass no gradient at their bounds."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        y = func(*args, **(kwargs or {}))
        if func not in (torch.clamp, torch.Tensor.clamp):
            return y
        x, low, high = args
        return torch.where((x > low) & (x < high), x, y.detach())


def test_the_convention_of_clamps_is_that_of_no_version():
    formula = lambda x: x.clamp(-1, 1) * torch.clamp(x, -1, 1)  # noqa: E731
    subject = Subject("op", formula, formula, (Input("x"),))
    x = torch.tensor([-2.0, -1, 0.5, 1, 2, torch.nan])
    with _Newer():
        assert grad(lambda x: formula(x).sum())(x)[[1, 3]].tolist() == [0, 0]
        found = grad(lambda x: reference(subject, {})(x).nan_to_num().sum())(x)
    assert found.tolist() == [0, -2, 1, 2, 0, 0]


def test_what_autograd_has_no_number_for_is_what_differences_tend_to():
    """0 times infinity of a dead branch is a derivative of 0 or another, and where there is none it is none."""

    def rooted(x):
        return torch.where(x > 0, torch.sqrt(x), 3 * x)

    def undefined(x):
        return torch.where(x > 0, torch.sqrt(x), x) + 0 * torch.log(x)

    subject = Subject("op", rooted, rooted, (Input("x"),))
    ((found,),) = expected(subject, {}, [torch.tensor([-1.0, 4.0])])[1:]
    torch.testing.assert_close(found, torch.tensor([3.0, 0.5]))  # weighted with 1 and 2
    subject = Subject("op", undefined, undefined, (Input("x"),))
    ((found,),) = expected(subject, {}, [torch.tensor([-1.0, 4.0])])[1:]
    assert found.isnan().tolist() == [True, False]


def test_gradients_of_several_outputs_are_those_of_one_call():
    """Two calls would round two gradients in half precision."""
    calls = []

    def both(x):
        calls.append(x)
        return x + 1, 2 * x

    subject = Subject("op", both, both, (Input("x"),), outputs=("a", "b"))
    assert _gradient_of_sum(subject, both, [torch.tensor(1.0)], 0) == 3.0
    assert len(calls) == 1
