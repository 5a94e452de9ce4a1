"""Checks of torch.compile, torch.export and torch.jit.trace."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.func import grad, jvp, vmap

from symgrad.testing.checks import check
from symgrad.testing.compare import differences, result_names
from symgrad.testing.facts import Settings, Shapes, Subject
from symgrad.testing.reference import expected, reference
from symgrad.testing.samples import bound, closed, composite, draw, every, gradients, leaves, listed, smooth, stacked

_jit: Any = torch.jit  # has no annotations
_BACKEND = os.environ.get("SYMGRAD_TEST_BACKEND", "aot_eager")  # or inductor, which takes minutes


def _compared(subject: Subject, function: Any, settings: Settings, tensors: list[Any], case: str) -> Iterator[str]:
    got, want = gradients(subject, function, tensors), expected(subject, settings, tensors)
    results = [[*outputs, *found] for outputs, found in (got, want)]
    yield from differences(result_names(subject, tensors), *results, case=case, subject=subject, tensors=tensors)


@check(slow=True)
def compiled(subject: Subject, device: str) -> Iterator[str]:
    """torch.compile(fullgraph=True) keeps outputs and gradients."""
    settings = subject.settings[0]
    torch._dynamo.reset()
    function = torch.compile(bound(subject.call, settings), fullgraph=True, backend=_BACKEND)
    case = f"compiled {subject.described(None, settings)}"
    yield from _compared(subject, function, settings, draw(subject, device=device), case)


@check(slow=True)
def compiled_for_all_sizes(subject: Subject, device: str) -> Iterator[str]:
    """torch.compile(dynamic=True) keeps them at three shapes."""
    settings = subject.settings[-1]
    torch._dynamo.reset()
    function = torch.compile(bound(subject.call, settings), fullgraph=True, dynamic=True, backend=_BACKEND)
    for shapes in _three(subject):
        tensors = draw(subject, shapes, device=device)
        case = f"compiled with dynamic=True {subject.described(shapes, settings)}"
        yield from _compared(subject, function, settings, tensors, case)


def _three(subject: Subject) -> list[Shapes]:
    """Three shapes of one rank, where the subject says so or its tensors broadcast."""
    n = len(subject.inputs)
    if subject.broadcasts:
        return [((size, 3),) * n for size in (4, 5, 7)]
    ranks = [None if s is None else len(s) for s in subject.first]
    alike = [s for s in subject.full_shapes if [None if o is None else len(o) for o in s] == ranks]
    return alike[:3]


@check(applies=lambda subject: bool(subject.places) and subject.linear, on_devices=False, slow=True)
def compiled_torch_func(subject: Subject, device: str) -> Iterator[str]:
    """torch.compile of vmap of grad, and of jvp, keeps the rule."""
    settings = subject.settings[0]
    torch._dynamo.reset()
    tensors, others = (draw(subject, device=device, seed=seed) for seed in (0, 1))
    results: list[list[Any]] = []
    for function in (bound(subject.call, settings), reference(subject, settings)):
        f, x = closed(subject, smooth(subject, function), tensors)
        if not x:
            return
        _, t = closed(subject, function, others)

        def derived(x: Any, batch: Any, f: Any = f) -> Any:  # briefly, because Dynamo traces every line
            def weighed(*x: Any) -> Any:
                outputs = f(*x)
                return sum(y.sin().sum() for y in (outputs if isinstance(outputs, tuple) else (outputs,)))

            return vmap(grad(weighed, every(x)))(*batch), jvp(f, x, x)

        # Of the operation Dynamo leaves nothing for another backend.
        way = torch.compile(derived, fullgraph=True, backend="eager") if not results else derived
        found = way(x, tuple(stacked(x, t)))
        results.append(torch.utils._pytree.tree_leaves(found))
    names = [f"result {k + 1}" for k in range(len(results[1]))]
    yield from differences(names, *results, case="of compiled vmap of grad and jvp", subject=subject)


class _Calls(torch.nn.Module):
    """A module that calls the operation."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: Any) -> Any:
        return self.function(*tensors)


@check(on_devices=False, slow=True)
def exported(subject: Subject, device: str) -> Iterator[str]:
    """torch.export keeps outputs and gradients; of a rule that is not linear in the cotangent, outputs."""
    settings = subject.settings[0]
    tensors = draw(subject, device=device)
    with warnings.catch_warnings(), torch.set_grad_enabled(subject.linear):
        warnings.simplefilter("ignore")
        program = torch.export.export(_Calls(bound(subject.call, settings)), tuple(tensors))
        function = program.module()
    if subject.linear:
        yield from _compared(subject, function, settings, tensors, "exported")
        return
    results = [listed(subject, f(*tensors)) for f in (function, composite(subject, settings))]
    yield from differences(subject.outputs, *results, case="exported", subject=subject)


@check(applies=lambda subject: bool(subject.library), on_devices=False, slow=True)
def operator(subject: Subject, device: str) -> Iterator[str]:
    """The operator of torch.library passes opcheck, and torch.export keeps it as one node."""
    namespace, _, name = subject.library.partition("::")
    own = getattr(getattr(torch.ops, namespace), name).default
    for settings in subject.settings:
        arguments = (*leaves(subject, draw(subject, device=device)), *settings.values())
        for test, outcome in torch.library.opcheck(own, arguments, raise_exception=False).items():
            if outcome != "SUCCESS":
                yield f"{subject.library} fails {test} {subject.described(None, settings)}: {_first_line(outcome)}"
    program = torch.export.export(_Calls(bound(subject.call, subject.settings[0])), tuple(draw(subject, device=device)))
    if own not in {node.target for node in program.graph.nodes}:
        yield f"torch.export does not keep {subject.library} as a node"


def _first_line(error: object) -> str:
    return str(error).strip().partition("\n")[0]


@check(applies=lambda subject: subject.jit, on_devices=False)
def jit_traced(subject: Subject, device: str) -> Iterator[str]:
    """torch.jit.trace keeps the values, and what it makes can be saved and loaded."""
    for settings in subject.settings[:2]:
        tensors = draw(subject, device=device)
        function, _ = closed(subject, bound(subject.call, settings), tensors, every(tensors))
        given = tuple(t for t in leaves(subject, tensors) if t is not None)
        with warnings.catch_warnings(), torch.set_grad_enabled(subject.linear):
            warnings.simplefilter("ignore")
            file = io.BytesIO()
            traced = _jit.trace(_Calls(function), given, check_trace=False)
            _jit.save(traced, file)
            file.seek(0)
            found = _jit.load(file)(*(t for t in tensors if t is not None))
        want = listed(subject, composite(subject, settings)(*tensors))
        yield from differences(subject.outputs, listed(subject, found), want, case="traced, saved and loaded")
