"""Calls whose tensors are like those of an earlier one take a short way, and get what the long one gives."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from effort import calls
from fused import agree, all_written, needs_compiler, written
from fused_specs import GATE, LAYER, LOSS, SOFT, TWO
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

pytestmark = needs_compiler

CASES = [
    ("gate", [(5, 4), (4,)], ()),
    ("layer", [(7, 33), (33,), (33,)], ()),
    ("two", [(4, 5), (5,)], ()),
    ("loss", [(4, 5), (4, 5)], (0.5, "sum")),
    ("loss", [(4, 5), (4, 5)], (0.5, "none")),
    ("soft", [(4, 40), (40,)], ()),
]


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SYMGRAD_KERNELS", raising=False)
        yield all_written((GATE, LAYER, LOSS, SOFT, TWO), tmp_path_factory.mktemp("known"))


def drawn(shapes, seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(s, generator=generator, dtype=torch.float64) + 0.5 for s in shapes]


def outputs_of(module, tensors, settings):
    found = getattr(module, module._kernels.source.stem)(*tensors, *settings)
    return list(found) if isinstance(found, tuple) else [found]


def evaluated(module, tensors, settings, wanted, twice=False):
    """Outputs, gradients and, where these are differentiated in turn, what they give to the tensors."""
    leaves = [t.clone().requires_grad_(k in wanted) for k, t in enumerate(tensors)]
    outputs = outputs_of(module, leaves, settings)
    read = [t for t in leaves if t.requires_grad]
    if not read:
        return outputs
    cotangents = [y.detach().cos() for y in outputs]
    gradients = torch.autograd.grad(outputs, read, cotangents, create_graph=twice)
    second = torch.autograd.grad([g.sin().sum() for g in gradients], read, allow_unused=True) if twice else ()
    return [*outputs, *gradients, *(g for g in second if g is not None)]


@pytest.mark.parametrize(("op", "shapes", "settings"), CASES, ids=str)
def test_a_known_call_gives_what_the_first_one_gave_and_eager_methods_give(modules, op, shapes, settings):
    module = modules[op]
    count = len(shapes)
    for wanted in (range(count), [0], []):
        module._kernels.forget()
        for seed in range(4):
            tensors = drawn(shapes, seed)
            found = evaluated(module, tensors, settings, wanted)
            assert module._kernels.known
            module._kernels.on = False
            agree(found, evaluated(module, tensors, settings, wanted))
            module._kernels.on = True


@pytest.mark.parametrize(("op", "shapes", "settings"), CASES, ids=str)
def test_gradients_of_a_known_call_can_be_differentiated(modules, op, shapes, settings):
    module = modules[op]
    module._kernels.forget()
    tensors = drawn(shapes, 0)
    wanted = range(len(shapes)) if op != "loss" else [0]
    first = evaluated(module, tensors, settings, wanted, twice=True)
    assert module._kernels.known
    agree(evaluated(module, tensors, settings, wanted, twice=True), first)


def test_each_way_through_the_branches_is_known_by_itself(modules):
    module = modules["loss"]
    module._kernels.forget()
    tensors = drawn([(4, 5), (4, 5)], 0)
    ways = [(0.5, "mean"), (0.5, "sum"), (2.0, "none"), (2.0, "mean")]
    first = [evaluated(module, tensors, way, [0]) for way in ways]
    for _ in range(2):
        for way, found in zip(ways, first, strict=True):
            agree(evaluated(module, tensors, way, [0]), found)


def test_what_asks_for_another_way_does_not_take_the_short_one(modules):
    """Transforms, forward mode and calls that nothing records, of tensors that are known."""
    gate = modules["gate"]
    gate._kernels.forget()
    x, beta = drawn([(5,), ()], 0)
    x.requires_grad_()
    for _ in range(3):
        (gradient,) = torch.autograd.grad(gate.gate(x, beta).sum(), x)
    assert gate._kernels.known
    agree([torch.func.grad(lambda t: gate.gate(t, beta).sum())(x)], [gradient])
    agree([torch.func.vmap(gate.gate, (0, None))(x, beta)], [gate.gate(x, beta)])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.detach(), torch.ones(5, dtype=torch.float64))
        agree([forward_ad.unpack_dual(gate.gate(dual, beta)).tangent], [gradient])
    with torch.no_grad():
        assert not gate.gate(x, beta).requires_grad
    assert gate.gate(x, beta).requires_grad and not gate.gate(x.detach(), beta).requires_grad
    with torch.inference_mode():
        assert gate.gate(x, beta).is_inference()


def test_a_tracer_that_wraps_no_tensors_sees_known_calls(modules):
    """Torch's comparison does not tell that its mode is on: what it traced was a constant."""
    gate = modules["gate"]
    gate._kernels.forget()
    x, beta = drawn([(5,), ()], 0)
    for _ in range(3):
        y = gate.gate(x.requires_grad_(), beta)
        torch.autograd.grad(y.sum(), x)
        gate.gate(x.detach(), beta)
    assert gate._kernels.known
    for early in (False, True):
        traced = make_fx(gate.gate, pre_dispatch=early)(x.detach(), beta)
        agree([traced(2 * x, beta)], [gate.gate(2 * x, beta)])
    pulled = make_fx(lambda g: torch.autograd.grad(gate.gate(x, beta), x, g)[0])
    late = make_fx(lambda g: torch.autograd.grad(y, x, g, retain_graph=True)[0])
    y, ones = gate.gate(x, beta), torch.ones_like(x)
    (gradient,) = torch.autograd.grad(y, x, retain_graph=True, grad_outputs=ones)
    agree([way(ones)(2 * ones) for way in (pulled, late)], [2 * gradient] * 2)
    early = make_fx(lambda g: torch.autograd.grad(gate.gate(x, beta), x, g)[0], pre_dispatch=True)
    agree([early(ones)(2 * ones)], [2 * gradient])


def test_a_cotangent_that_is_missing_or_lies_otherwise(modules):
    two = modules["two"]
    two._kernels.forget()
    x, z = (t.requires_grad_() for t in drawn([(4, 5), (4, 5)], 0))
    for _ in range(2):
        a, _ = two.two(x, z)
        agree(torch.autograd.grad(a, [x, z], torch.ones(4, 5, dtype=torch.float64)), [z.exp(), x * z.exp()])
        agree(torch.autograd.grad(two.two(x, z)[1], [x, z], torch.ones(5, 4, dtype=torch.float64).mT), [x * 0 + 1] * 2)
        a, b = two.two(x, z)
        agree(torch.autograd.grad(a.sum() + b.sum(), [x, z]), [z.exp() + 1, x * z.exp() + 1])


def test_a_known_call_makes_few_calls_of_python(modules):
    gate = modules["gate"]
    gate._kernels.forget()
    x, beta = (t.requires_grad_() for t in drawn([(5, 4), (4,)], 0))
    grad = torch.ones(5, 4, dtype=torch.float64)
    for _ in range(3):
        gate.gate(x, beta).backward(grad)
    assert calls(lambda: gate.gate(x, beta)) <= 10
    node = gate.gate(x, beta).grad_fn
    with torch.no_grad():
        assert calls(lambda: node.apply(grad)) <= 7
        gate.gate(x, beta)
        assert calls(lambda: gate.gate(x, beta)) <= 7


def known_loss(modules):
    """A function with a hyperparameter whose calls are known, its arguments, and what its gradient is."""
    loss = modules["loss"]
    loss._kernels.forget()
    x, z = drawn([(4, 5), (4, 5)], 5)
    x.requires_grad_()
    for _ in range(3):
        (gradient,) = torch.autograd.grad(loss.loss(x, z, 0.5, "sum"), x)
    assert loss._kernels.known
    return lambda a, b: loss.loss(a, b, 0.5, "sum"), x, z, gradient


def test_what_a_known_call_saves_is_saved_as_autograd_asks(modules):
    call, x, z, gradient = known_loss(modules)
    y = x * 1
    late = call(y, z)
    with torch.no_grad():
        y += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        late.backward()
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t.clone(), lambda t: t):
        held = call(x, z)
    assert packed
    agree(torch.autograd.grad(held, x), [gradient])
    agree(torch.autograd.grad(checkpoint(call, x, z, use_reentrant=False), x), [gradient])


def test_a_known_call_keeps_nothing_alive(modules):
    gate = modules["gate"]
    gate._kernels.forget()
    tensors = drawn([(5, 4), (4,)], 0)
    for _ in range(3):
        leaves = [t.clone().requires_grad_() for t in tensors]
        y = gate.gate(*leaves)
        y.sum().backward()
    seen = [weakref.ref(t) for t in (*leaves, y, *(t.grad for t in leaves))]
    gc.disable()
    try:
        del leaves, y
        assert [r() for r in seen] == [None] * len(seen)
    finally:
        gc.enable()


def test_what_a_pass_reads_lives_as_long_as_a_call_that_knows_it(modules):
    call, x, z, gradient = known_loss(modules)
    library = modules["loss"]._kernels
    held = call(x, z)
    (run,) = (run for key, run in library.walks.items() if key[0].startswith("backward") and run)
    geometry = weakref.ref(run.geometry)
    library.forget()
    del run
    gc.collect()
    assert geometry() is not None
    agree(torch.autograd.grad(held, x), [gradient])


def test_views_of_the_same_layout_are_read_where_they_begin(modules):
    call, x, z, gradient = known_loss(modules)
    storage = torch.cat([z.flatten(), x.detach().flatten()]).requires_grad_()
    view = storage[20:].view(4, 5)
    agree(torch.autograd.grad(call(view, z), view), [gradient])
    across = x.detach().mT.contiguous().mT.requires_grad_()
    for _ in range(2):
        agree(torch.autograd.grad(call(across, z), across), [gradient])


def test_threads_make_known_calls_at_once(modules):
    call, x, z, gradient = known_loss(modules)
    scaled = [(x.detach() * k).requires_grad_() for k in range(1, 5)]
    alone = [torch.autograd.grad(call(t, z), t)[0] for t in scaled]

    def often(t):
        return [torch.autograd.grad(call(t, z), t)[0] for _ in range(50)]

    with ThreadPoolExecutor(4) as pool:
        for found, right in zip(pool.map(often, scaled), alone, strict=True):
            agree(found, [right] * 50)
    agree(torch.autograd.grad(call(x, z), x), [gradient])


def test_a_tensor_that_is_given_twice_is_not_taken_for_two_others(modules):
    """What is saved is known by its place among the arguments."""
    module = modules["gate"]
    module._kernels.forget()
    x, z = drawn([(5, 4), (5, 4)], 3)
    for _ in range(4):
        same = x.clone().requires_grad_()
        torch.autograd.grad(module.gate(same, same).sum(), same)
    for pair in ([x, z], [z, x]):
        found = evaluated(module, pair, (), range(2))
        module._kernels.on = False
        agree(found, evaluated(module, pair, (), range(2)))
        module._kernels.on = True


PRIVATE = [
    (torch._C, "_dynamo"),
    (torch._C, "_len_torch_dispatch_stack"),
    (torch._C, "_dispatch_tls_is_dispatch_key_included"),
    (torch._C._dynamo.guards, "TensorGuards"),
    (torch._C._dynamo.guards, "_empty_strided_cpu"),
]


@pytest.mark.parametrize(("owner", "name"), PRIVATE, ids=lambda x: x if isinstance(x, str) else "")
def test_without_a_private_name_of_torch_passes_run_and_are_right(owner, name, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.delattr(owner, name)
        module = written(GATE, tmp_path)
    tensors = drawn([(5, 4), (4,)], 0)
    for _ in range(3):
        found = evaluated(module, tensors, (), range(2))
    assert any(module._kernels.walks.values())
    assert bool(module._kernels.known) == (name not in ("_dynamo", "TensorGuards")), "else nothing compares tensors"
    module._kernels.on = False
    agree(found, evaluated(module, tensors, (), range(2)))


def test_a_nested_tensor_after_a_known_call_is_left_to_torch_which_refuses_it(modules):
    """Asked for its size, as a comparison with tensors of earlier calls does, it ends the process."""
    module = modules["gate"]
    for _ in range(3):
        module.gate(torch.ones(2), torch.tensor(1.0))
    with pytest.warns(UserWarning, match="nested"):
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    with pytest.raises((NotImplementedError, RuntimeError)):
        module.gate(nested, torch.tensor(1.0))
