"""What is joined and put among zeros by the runtime file is what torch gives, whoever calls."""

from __future__ import annotations

import pytest
import torch

from symgrad.targets.torch.runtime import _runtime as rt


@pytest.mark.parametrize("dim", [-1, 0, 1])
@pytest.mark.parametrize("kinds", [(torch.float32, torch.float32), (torch.float32, torch.float64)])
def test_single_elements_are_joined_as_torch_does(dim: int, kinds: tuple[torch.dtype, ...]) -> None:
    a, b = (torch.randn(40, 50, dtype=kind).unsqueeze(dim) for kind in kinds)
    expected = torch.cat((a, b, a), dim)
    with torch.no_grad():
        found = rt.cat((a, b, a), dim)
    assert torch.equal(found, expected) and found.dtype == expected.dtype and found.is_contiguous()
    for function in (rt.cat, torch.compile(rt.cat, backend="eager", fullgraph=True)):
        with torch.no_grad():
            assert torch.equal(function((a, b), dim), torch.cat((a, b), dim))
    x = a.double().requires_grad_()
    rt.cat((x, x * 2), dim).sum().backward()
    assert x.grad is not None and bool((x.grad == 3).all())
    batched = torch.func.vmap(lambda p: rt.cat((p, b[0] if dim else b), -1 if dim else 0))
    if dim:
        assert torch.equal(batched(a)[1], torch.cat((a[1], b[0]), -1))


def test_single_elements_are_copied_tensor_by_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    a, joined = torch.randn(40, 50, 1), torch.randn(40, 50, 2)
    calls = list[int]()
    own = torch.cat
    monkeypatch.setattr(torch, "cat", lambda parts, dim: calls.append(len(parts)) or own(parts, dim))
    with torch.no_grad():
        rt.cat((a, a), -1)
        assert not calls
        rt.cat((joined, joined), -1)
    assert calls == [2]


@pytest.mark.parametrize(("start", "stop", "step"), [(0, None, 2), (1, None, 2), (1, -1, 3), (5, 2, 2), (1, 3, 1)])
def test_a_slice_is_put_among_zeros(start: int, stop: int | None, step: int) -> None:
    x = torch.randn(3, 7, dtype=torch.float64)
    value = x[:, start:stop:step].clone().requires_grad_()

    def put(value: torch.Tensor) -> torch.Tensor:
        return rt.slice_back(value, x.shape, -1, start, stop, step)

    expected = torch.zeros_like(x)
    expected[:, start:stop:step] = value.detach()
    assert torch.equal(put(value), expected)
    if value.numel():
        assert torch.autograd.gradcheck(put, value, check_forward_ad=True, check_batched_grad=True)
        assert torch.autograd.gradgradcheck(put, value)
    assert torch.equal(torch.func.vmap(put)(torch.stack([value.detach()] * 2))[1], expected)
