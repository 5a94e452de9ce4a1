"""Checks of conduct: what is saved, what is left alone, checkpoints, autocast, threads, pickling."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from symgrad.testing.checks import check
from symgrad.testing.compare import differences, gradient_names, result_names
from symgrad.testing.facts import Settings, Subject
from symgrad.testing.reference import expected, reference
from symgrad.testing.rounding import unexplained
from symgrad.testing.samples import (
    bound,
    composite,
    descended,
    differentiated,
    draw,
    gradients,
    leaves,
    listed,
    present,
    total,
)


def called(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[list[Tensor], Any]:
    """What a call saves for backward, and what it returns."""
    found: list[Tensor] = []

    def pack(t: Tensor) -> Tensor:
        found.append(t)
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        returned = function(*arguments)
    return [t.detach() for t in found], returned


def saved(
    subject: Subject, function: Callable[..., Any], arguments: Sequence[Any]
) -> tuple[list[Tensor], list[Tensor]]:
    """What a function saves for backward, and its outputs."""
    found, returned = called(function, arguments)
    return found, listed(subject, returned)


def size(tensors: Sequence[Tensor], alive: Sequence[Tensor] = ()) -> int:
    """Bytes of all storages but those of tensors that are alive anyway."""
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    for t in alive:
        storages.pop(t.untyped_storage().data_ptr(), None)
    return sum(storages.values())


def residuals_of(subject: Subject, settings: Settings) -> Mapping[str, tuple[str, ...]] | None:
    """What a call with these settings is said to save."""
    stated = subject.residuals
    return stated[list(subject.settings).index(settings)] if isinstance(stated, tuple) else stated


@check(kind="cost", on_devices=False, packed=True)
def saved_tensors(subject: Subject, device: str) -> Iterator[str]:
    """What is saved is what is stated, under every subset of gradients, and no more bytes than the composite saves."""
    for settings in subject.settings:
        stated = residuals_of(subject, settings)
        if stated is None:
            continue
        x = draw(subject, dtype=torch.float32)
        for wanted in [(), *subject.subsets()]:
            arguments = leaves(subject, x, wanted)
            found, outputs = saved(subject, bound(subject.call, settings), arguments)
            asked = {subject.inputs[i].name for i in wanted}
            want = [name for name, readers in stated.items() if asked & set(readers)]
            case = f"for the gradients of {', '.join(sorted(asked)) or 'nothing'} {subject.described(None, settings)}"
            if not len(want) <= len(found) <= len(want) + subject.kernel_residuals * bool(want):
                yield f"{len(found)} tensors are saved {case}, {len(want)} are stated ({', '.join(want) or 'none'})"
            mine = {t.data_ptr() for t in found}
            own = {t.name: a for t, a in zip(subject.inputs, arguments, strict=True)} | dict(
                zip(subject.outputs, outputs, strict=True)
            )
            for name in want:
                if name in own and own[name] is not None and own[name].numel() and own[name].data_ptr() not in mine:
                    yield f"{name} is stated to be saved {case}, and is not"


@check(kind="cost", on_devices=False, packed=True, applies=lambda subject: subject.rule is None)
def saved_bytes(subject: Subject, device: str) -> Iterator[str]:
    """No more bytes are kept for backward than by the composite, in all or beside inputs and outputs."""
    settings = subject.settings[0]
    shapes = ((64,),) * len(subject.inputs) if subject.broadcasts else subject.first
    arguments = leaves(subject, draw(subject, shapes, torch.float32))
    (ours, outputs), (theirs, others) = (
        saved(subject, f, arguments) for f in (bound(subject.call, settings), composite(subject, settings))
    )
    given = [t for t in arguments if t is not None]
    rows = max([1, *(t[..., :1].numel() for t in given if t.dim())])
    few = 8 * subject.kernel_residuals * rows
    ours += kept_on(outputs)
    more = size(ours, [*given, *outputs]) - size(theirs, [*given, *others])
    if size(ours) > size(theirs) + few and more > few:
        yield f"{size(ours)} bytes are kept for backward, the composite keeps {size(theirs)}"


def kept_on(outputs: Sequence[Tensor]) -> list[Tensor]:
    """The tensors that are attributes of the node that made the outputs."""
    nodes = {y.grad_fn for y in outputs if y.grad_fn is not None}
    return [v.detach() for n in nodes for v in pytree.tree_leaves(getattr(n, "__dict__", {})) if isinstance(v, Tensor)]


@check(kind="cost", on_devices=False)
def tensors_on_ctx(subject: Subject, device: str) -> Iterator[str]:
    """No tensor is an attribute of ctx, where it lives as long as the graph and no hook sees it."""
    for settings in subject.settings:
        outputs = listed(subject, bound(subject.call, settings)(*leaves(subject, draw(subject))))
        count = len(kept_on(outputs))
        if count:
            yield f"{count} tensors are attributes of ctx: save them with save_for_backward"
            return


@check()
def inputs_left_alone(subject: Subject, device: str) -> Iterator[str]:
    """Inputs and cotangents are not changed, outputs share no memory with them, and no_grad changes no value."""
    for settings in subject.settings:
        call = bound(subject.call, settings)
        arguments = leaves(subject, draw(subject, device=device))
        before = [None if t is None else t.detach().clone() for t in arguments]
        outputs = listed(subject, call(*arguments))
        with torch.no_grad():
            inferred = listed(subject, call(*arguments))
        theirs = {
            t.untyped_storage().data_ptr(): n.name
            for n, t in zip(subject.inputs, arguments, strict=True)
            if t is not None
        }
        for found in (outputs, inferred):
            own = [t.untyped_storage().data_ptr() for t in found]
            if len(set(own)) < len(own):
                yield "outputs share memory"
            for name, pointer in zip(subject.outputs, own, strict=True):
                if pointer in theirs:
                    yield f"{name} shares memory with {theirs[pointer]}"
        yield from differences(
            subject.outputs, inferred, [y.detach() for y in outputs], case="under no_grad", against="a recorded call"
        )
        roots = [y for y in outputs if y.requires_grad]
        cotangents = [3 * torch.ones_like(y) for y in roots]
        wrt = differentiated(arguments)
        for recorded in (False, True) if roots else ():
            torch.autograd.grad(roots, wrt, cotangents, retain_graph=True, create_graph=recorded, allow_unused=True)
        if not all(bool((c == 3).all()) for c in cotangents):
            yield "backward changes its cotangent in place"
        for y in outputs:
            y.detach().zero_()
        for own_, t, b in zip(subject.inputs, arguments, before, strict=True):
            if t is not None and b is not None and not torch.equal(t.detach(), b):
                yield f"{own_.name} is changed by the call, by backward, or with the outputs"


@check(applies=lambda subject: bool(subject.places))
def changes_are_noticed(subject: Subject, device: str) -> Iterator[str]:
    """An input that is changed in place before backward is noticed, or does not change the gradients."""
    settings = subject.settings[0]
    x = draw(subject, device=device)
    want = gradients(subject, bound(subject.call, settings), x)[1]
    for i, t in enumerate(x):
        if t is None or not t.is_floating_point() or not t.numel():
            continue
        wrt = leaves(subject, x)
        arguments = [a if a is None else a.clone() for a in wrt]
        result = total(subject, bound(subject.call, settings)(*arguments))
        altered: Any = arguments[i]
        altered.detach().mul_(2)
        try:
            found = descended(result, differentiated(wrt))
        except RuntimeError:
            continue
        names = gradient_names(subject, present(x, subject.places))
        case = f"after {subject.inputs[i].name} was changed in place, which nothing noticed,"
        yield from differences(names, found, want, case=case, against="the call before")


@check(applies=lambda subject: bool(subject.places))
def checkpoints(subject: Subject, device: str) -> Iterator[str]:
    """Both kinds of torch.utils.checkpoint keep the gradients."""
    settings = subject.settings[0]
    want = expected(subject, settings, draw(subject, device=device))[1]
    for reentrant in (True, False):
        function = functools.partial(checkpoint, bound(subject.call, settings), use_reentrant=reentrant)
        x = leaves(subject, draw(subject, device=device))
        try:
            result = total(subject, function(*x))
            if result.requires_grad:
                result.backward()  # type: ignore[no-untyped-call]
        except (RuntimeError, AssertionError) as error:
            yield f"checkpoint(use_reentrant={reentrant}) raises: {' '.join(str(error).split())[:300]}"
            continue
        got = [torch.zeros_like(t) if t.grad is None else t.grad for t in differentiated(x)]
        names = gradient_names(subject, present(x, subject.places))
        yield from differences(names, got, want, case=f"with checkpoint(use_reentrant={reentrant})", subject=subject)


@check(applies=lambda subject: bool(subject.places) and any(t.dtype == "float" and not t.grad for t in subject.inputs))
def labels(subject: Subject, device: str) -> Iterator[str]:
    """Tensors that are not differentiated get no gradient, also where they ask for one."""
    places = [i for i, t in enumerate(subject.inputs) if t.dtype == "float" and not t.grad]
    x = leaves(subject, draw(subject, device=device), (*subject.places, *places))
    result = total(subject, bound(subject.call, subject.settings[0])(*x))
    given = present(x, places)
    if result.requires_grad:
        for i, g in zip(given, torch.autograd.grad(result, [x[i] for i in given], allow_unused=True), strict=True):
            if g is not None:
                yield f"{subject.inputs[i].name} gets a gradient, though it is said to have none"


@check()
def autocast(subject: Subject, device: str) -> Iterator[str]:
    """Under autocast dtypes are the composite's, and values are those without it where it casts nothing."""
    x = draw(subject, dtype=torch.float32, device=device)
    settings = subject.settings[0]

    def cast(function: Callable[..., Any]) -> list[Tensor]:
        with torch.autocast(device, dtype=torch.bfloat16):
            outputs, found = gradients(subject, function, x)
        return [*outputs, *found]

    ours, theirs = bound(subject.call, settings), reference(subject, settings)
    mine, more, want = (cast(f) for f in (ours, ours, theirs))
    names = result_names(subject, x)
    yield from differences(names, mine, more, case="under autocast", against="a second call")
    options: Any = {"case": "under autocast", "subject": subject, "tolerance": (5e-2, 0.1)}
    yield from unexplained(names, mine, want, functools.partial(cast, theirs), **options)
    if not subject.rule:
        yield from _products(subject, x, device)


_PRODUCTS = frozenset({"mm", "bmm", "addmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot"})


class _Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the dtypes of matrix products and convolutions."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in _PRODUCTS or "conv" in name:
            self.dtypes |= {a.dtype for a in args if isinstance(a, Tensor) and not a.is_meta}
        return func(*args, **(kwargs or {}))


def _products(subject: Subject, tensors: Sequence[Any], device: str) -> Iterator[str]:
    found = []
    for f in (bound(subject.call, subject.settings[0]), reference(subject, subject.settings[0])):
        x = leaves(subject, tensors)
        with torch.autocast(device, dtype=torch.bfloat16):
            result = total(subject, f(*x)) if subject.live else None
        with _Products() as products:
            if result is not None and result.requires_grad:
                torch.autograd.grad(result, differentiated(x), allow_unused=True)
        found.append(products.dtypes)
    if found[1] and not found[0] <= found[1]:
        yield f"backward under autocast multiplies in {found[0]}, the composite in {found[1]}"


@check(on_devices=False)
def threads(subject: Subject, device: str) -> Iterator[str]:
    """Calls from several threads at once do not disturb each other."""
    x, settings = draw(subject), subject.settings[0]
    want = expected(subject, settings, x)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: gradients(subject, bound(subject.call, settings), x), range(8)))
    names = result_names(subject, x)
    for got in results:
        yield from differences(names, [*got[0], *got[1]], [*want[0], *want[1]], case="in threads", subject=subject)


@check(kind="missing", on_devices=False, applies=lambda subject: subject.function is not None)
def pickled(subject: Subject, device: str) -> Iterator[str]:
    """The function and its class can be pickled, which data loaders and processes need."""
    local = "<locals>" in getattr(subject.call, "__qualname__", "<locals>")
    for thing in (subject.function, *(() if local else (subject.call,))):
        try:
            twin = pickle.loads(pickle.dumps(thing))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            yield f"{thing.__name__} cannot be pickled: {error}"
            continue
        if twin is not thing:
            yield f"{thing.__name__} is another object when it comes back from pickle"
