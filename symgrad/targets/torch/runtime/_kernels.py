"""Fused kernels: compiled when they are first needed, and the Function that runs them in plain calls."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
import math
import os
import platform
import shutil
import subprocess
import sys
import types
import warnings
from array import array
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from operator import itemgetter
from pathlib import Path
from struct import Struct
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from . import _runtime as rt

_broadcast_shapes: Any = torch.broadcast_shapes  # has no annotations
_STORAGE = {
    torch.float32: "float",
    torch.float64: "double",
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
}
_FLAGS = (
    *("-std=c++17", "-O2", "-march=native", "-shared", "-fPIC", "-w", "-Wno-psabi"),
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fno-tree-slp-vectorize"),
)
_WHOLE = frozenset({torch.int64, torch.int32})  # what torch has for indices
_EXACT = 2**24  # whole numbers that float32 has
_VECTOR = 64  # bytes
_PLAIN = (Tensor, torch.nn.Parameter)
_threads = torch.get_num_threads
_recording = torch.is_grad_enabled

# ------------------------------------------------------------------------- private names of torch
_guards: Any = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
_dispatch_modes: Callable[[], int] = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
_includes: Any = getattr(torch._C, "_dispatch_tls_is_dispatch_key_included", lambda _: False)
_BEFORE_DISPATCH: Any = getattr(torch._C.DispatchKey, "PreDispatch", None)
_Layouts: Any = getattr(_guards, "TensorGuards", None)  # faster than a key of them is made
_empty_strided: Any = getattr(_guards, "_empty_strided_cpu", None) or (  # in half the time
    lambda size, strides, dtype: torch.empty_strided(size, strides, dtype=dtype, device="cpu")
)


# ---------------------------------------------------------------------------------- what a module says
class Pass(NamedTuple):
    """One kernel: what it reads and writes.

    Attributes:
        name: of its entry in the library.
        operands: places among the tensors that it is given, each with the dimensions that it lacks (None where it is
            what forward kept of rows) and the part of it that is read: a dimension counted from the end, how many
            parts it has, which this is, and True where these are the elements of pairs.
        results: a kind each, the tensor whose shape it has, dimensions, and the dimension in which it is written part
            by part, with the number of parts, and True for pairs.
        subsets: the choices of results that it is compiled for, as bits.
        counts: the numbers of elements that it reads, by name.
        rows: whether it runs row by row.
        part: the library of the file that has it.
        placed: whether it reads places in rows, and tells whether some is none.
        whole: how many operands, the last ones, are whole numbers, one for each row.
        finish: makes the outputs of the tensors at ``late``, the hyperparameters and what was computed.
        late: places of tensors.
        spans: groups of operands of which one has the length of a row, or else it declines.
        alike: the tensors of forward that have the shape of the pass, or else it declines.
        any_rows: whether its rows may have any length.
        numbers: the places of the hyperparameters that it reads among the arguments of forward.
        places: the places among these that its results belong to.
        shape: the operands whose shapes broadcast to that of the pass.
    """

    name: str
    operands: tuple[Any, ...]
    results: tuple[Any, ...]
    subsets: tuple[int, ...] = (1,)
    counts: tuple[str, ...] = ()
    rows: bool = False
    part: int = 0
    placed: bool = False
    whole: int = 0
    finish: Any = None
    late: tuple[int, ...] = ()
    spans: tuple[Any, ...] = ()
    alike: tuple[int, ...] = ()
    any_rows: bool = False
    numbers: tuple[int, ...] = ()
    places: tuple[int, ...] = ()
    shape: tuple[Any, ...] = ()

    @property
    def reads_kept(self) -> bool:
        """Whether it reads what forward kept of rows."""
        return any(dims is None for _, dims, _ in self.operands)

    @property
    def format(self) -> str:
        """What it is called with: geometry, threads, wanted results, addresses, numbers."""
        addresses = len(self.operands) + sum(map(_parts_of, self.results))
        return f"{3 + addresses}q{len(self.numbers) + len(self.counts)}d"


def kernel(name: str, operands: tuple[Any, ...], results: tuple[Any, ...] = (), **others: Any) -> Pass:
    """Return a kernel; an operand may be its place alone, a result its kind alone or with a place.

    Without ``results`` they are the gradients of tensors at ``places``, or one of the shape of the pass.
    """
    results = results or tuple(("tensor", k) for k in others.get("places", ())) or ("full",)
    read = [(o,) if isinstance(o, int) else o for o in operands]
    rows = [(r,) if isinstance(r, str) else r for r in results]
    filled = tuple((*o, *(0, (), None)[len(o) :]) for o in read)
    return Pass(name, filled, tuple((*r, *("full", 0, (), None)[len(r) :]) for r in rows), **others)


def _parts_of(result: Any) -> int:
    """Return in how many parts a result is written."""
    return 1 if result[3] is None else result[3][1]


class Passes(NamedTuple):
    """The kernels of an operation, or of one way through its branches.

    ``tangents`` and ``second`` are those of forward mode and of second derivatives, by what is defined, as bits.
    """

    forward: Pass | None = None
    backward: Pass | None = None
    tangents: Mapping[int, Pass] = {}
    second: Mapping[int, Pass] = {}
    keeps: bool = False  # whether forward returns statistics of rows, which backward reads

    def of_one_shape(self) -> Passes:
        """Return the passes with the shape of them all: what forward reads broadcasts to it."""
        shape = () if self.forward is None else self.forward.operands

        def shaped(found: Mapping[int, Pass]) -> dict[int, Pass]:
            return {bits: own._replace(shape=shape) for bits, own in found.items()}

        forward, backward = (own and own._replace(shape=shape) for own in self[:2])
        return Passes(forward, backward, shaped(self.tangents), shaped(self.second), self.keeps)


class Kernels:
    """The kernels of a module, and the calls of its Function that they serve.

    ``tensors`` is how many arguments are tensors, ``cotangents`` are the places of the outputs that
    have a derivative. Where there are several ``passes``, ``choose`` tells from the arguments which
    ones serve.
    """

    def __init__(
        self,
        library: Library,
        tensors: int,
        passes: Sequence[Passes],
        *,
        cotangents: tuple[int, ...] = (0,),
        choose: Callable[..., int] | None = None,
    ) -> None:
        self.library, self.tensors, self.passes = library, tensors, [p.of_one_shape() for p in passes]
        self.cotangents, self.choose = cotangents, choose
        self.differentiates_twice = any(p.second for p in passes)

    def serve(self, function: Any, outputs: int) -> tuple[Callable[..., Any], Any, Callable[..., Any]]:
        """Return what serves calls: a function for those that nothing differentiates, a Function for the others, and
        what puts a shorter way before the way to both, for tensors like those of an earlier call.

        All run kernels where they can, else the methods of ``function``.
        """
        kernels = self

        def infer(*args: Any) -> Any:
            walk, found = kernels.outputs(args, outputs, keep=False)
            if _is_due(walk):
                kernels.library.remember(_Known(kernels, args, walk, found))
            if found is None:
                return function.forward(*args)
            return found[0] if outputs == 1 else tuple(found)

        def forward(ctx: Any, *args: Any) -> Any:
            walk, found = kernels.outputs(args, outputs, keep=True)
            ctx.call = None if found is None else _Call(kernels, args, len(found) - outputs)
            kept: Any = ()
            if found is None:
                results = function.forward(*args)
            else:
                results, kept = found[0] if outputs == 1 else tuple(found[:outputs]), found[outputs:]
            function.setup_context(ctx, args, results)
            if kept:
                ctx.save_for_backward(*(ctx.to_save or ()), *kept)
            if _is_due(walk):
                kernels.library.remember(_Known(kernels, args, walk, found, ctx))
            return results

        def backward(ctx: Any, *grads: Any) -> Any:
            call, found = ctx.call, ctx.saved_tensors
            given = [grads[k] for k in kernels.cotangents]
            kept: Any = ()
            if call is not None:
                found, kept = found[: len(found) - call.kept], found[len(found) - call.kept :]
                if all(g is not None for g in given):
                    if not rt.differentiated():
                        gradients = call.gradients(ctx.needs_input_grad, (*found, *given), kept)
                        if gradients is not None:
                            return gradients
                    elif kernels.differentiates_twice and not rt.forward_mode():
                        differentiable: Any = _Gradients.apply
                        return differentiable(function, ctx, kept, *found, *given)
            return function.backward(rt.Saved(ctx, found), *grads)

        def jvp(ctx: Any, *tangents: Any) -> Any:
            call, found = ctx.call, ctx.saved_tensors
            own = tangents[: kernels.tensors]
            if call is not None and not rt.reverse_mode((*found, *own)):
                fused = call.tangents(found, own)
                if fused is not None:
                    places = {place: k for k, place in enumerate(kernels.cotangents)}
                    results = tuple(fused[places[k]] if k in places else None for k in range(outputs))
                    return results[0] if outputs == 1 else results
            return function.jvp(rt.Saved(ctx, found), *tangents)

        record = rt.function_like(function, forward=forward, backward=backward, jvp=jvp)
        return infer, record, functools.partial(kernels.quick, function, outputs, backward)

    def quick(
        self, function: Any, outputs: int, backward: Callable[..., Any], otherwise: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Return what serves a call whose tensors are like those of an earlier one, by what is known of that; for any
        other it asks ``otherwise``."""
        kernels, library, count, choose = self, self.library, self.tensors, self.choose
        is_followed, plain = torch.compiler.is_dynamo_compiling, _apply_of(function)

        def call(*args: Any) -> Any:
            if is_followed():
                return otherwise(*args)
            given = args[:count]
            for t in given:
                if type(t) in _PLAIN and t.is_nested:  # torch's comparison asks it for its size, and ends the process
                    return otherwise(*args)
            for known in library.known:
                if (
                    known.alike(*given)
                    and known.recorded == (known.requires and _recording())
                    and (choose is None or choose(*args) == known.choice)
                ):
                    break
            else:
                return otherwise(*args)
            if rt.has_tangents() or not library.on or _dispatch_modes():
                return otherwise(*args)
            run, numbers_of = known.run, known.numbers_of
            if run is None:
                return plain(*args) if known.recorded else function.forward(*args)
            found = run(given, numbers_of(args))
            if found is None:
                return otherwise(*args)
            if known.recorded:
                return direct(*given, (known, found, args))
            return found[0] if outputs == 1 else tuple(found[:outputs])

        def forward(ctx: Any, *given: Any) -> Any:
            known, found, args = given[-1]  # in one argument: autograd looks at each
            pool, saved_of = (*args, *found, None), known.saved_of
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*saved_of(pool))
            if known.fixed:
                ctx.mark_non_differentiable(*known.fixed_of(pool))
            ctx.known = known, args[count:]
            return found[0] if outputs == 1 else tuple(found[:outputs])

        def pull(ctx: Any, *grads: Any) -> Any:
            saved, (known, others) = ctx.saved_tensors, ctx.known
            if library.on and not (_recording() or rt.has_tangents() or _dispatch_modes()):
                gradients = known.gradients(library, (*saved, *grads), others)
                if gradients is not None:
                    return gradients
            gradients = backward(_Late(kernels, function, outputs, ctx, saved), *grads)
            return *(gradients if isinstance(gradients, tuple) else (gradients,))[:count], None

        own = rt.function_like(function, forward=forward, backward=pull)
        direct: Any = _apply_of(own)
        return call

    def chosen(self, args: tuple[Any, ...]) -> Passes:
        """Return the passes that serve a call with these arguments."""
        return self.passes[0 if self.choose is None else self.choose(*args)]

    def outputs(self, args: tuple[Any, ...], count: int, *, keep: bool) -> tuple[Any, Any]:
        """Return how forward runs, and the outputs with what is kept of rows; None where no pass serves."""
        passes = self.chosen(args)
        if passes.forward is None:
            return None, None
        computed = sum(kind != "statistic" for kind, *_ in passes.forward.results)
        wanted = -1 if keep or not passes.keeps else (1 << computed) - 1
        tensors = args[: self.tensors]
        walk = self.library.find(passes.forward, tensors, None, wanted)
        found = self.run(walk, passes.forward, tensors, args)
        return walk, found if found is None or keep else found[:count]

    def run(self, walk: Any, entry: Any, tensors: Any, args: tuple[Any, ...]) -> Any:
        """Run a pass with the hyperparameters that it reads among ``args``; None where it declines."""
        numbers = [args[k] for k in entry.numbers] if walk else []
        if not walk or (entry.whole and any(type(n) is int and abs(n) >= _EXACT for n in numbers)):
            return None  # labels are compared with the numbers
        return walk.run(tensors, numbers)


def _picked(places: Sequence[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Return what takes the values at these places out of a tuple, as a tuple."""
    first = places[0] if places else 0
    if list(places) == list(range(first, first + len(places))):
        return itemgetter(slice(first, first + len(places)))
    return itemgetter(*places)


def _apply_of(function: Any) -> Any:
    """Return apply without binding a signature, which takes 12 us."""
    above: Any = super(Function, function)
    return above.apply


def _comparison(tensors: Any) -> Any:
    """Return torch's own comparison of tensors with these, None where there is none.

    It tells types, dtypes, devices, sizes, strides, and by what calls are dispatched: modes and transforms, too.
    """
    if _Layouts is None:
        return None
    sizes, strides = [list(t.shape) for t in tensors], [list(t.stride()) for t in tensors]
    return _Layouts(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check


def _is_due(walk: Any) -> bool:
    """Tell whether tensors like these are to be known from now on: asked for every time, ever more rarely so."""
    return walk is not None and walk.searches & (walk.searches - 1) == 0


class _Known:
    """What is known of calls whose tensors are like those of an earlier one: their passes, and what they save.

    What serves such a call follows from its tensors and from ``choice``, and so does what it saves: it, and the
    outputs without a derivative, are known by their places among arguments, results and None. ``pulls`` are the passes
    of backward, by what compares saved values and cotangents with those of earlier calls.
    """

    def __init__(self, kernels: Kernels, args: tuple[Any, ...], walk: Any, found: Any, ctx: Any = None) -> None:
        tensors, passes = args[: kernels.tensors], kernels.chosen(args)
        self.run, self.alike = walk.run if walk else None, _comparison(tensors)
        self.choice = 0 if kernels.choose is None else kernels.choose(*args)
        self.requires, self.recorded = any(t.requires_grad for t in tensors), ctx is not None
        self.numbers_of = _picked(passes.forward.numbers if passes.forward is not None else ())
        self.saved: list[Any] = []
        self.fixed: list[Any] = []
        if ctx is not None and found is not None:
            places = {id(t): place for place, t in enumerate((*args, *found, None))}
            self.saved = [places.get(id(t)) for t in ctx.to_save or ()]
            self.fixed = [places.get(id(t)) for t in ctx.non_differentiable or ()]
            self.layouts = [(t.shape, t.dtype, t.device) for t in (*tensors, *found)]
            self.call = _Call(kernels, args, ctx.call.kept)
            self.entry, self.wanted = passes.backward, self.call.wanted(ctx.needs_input_grad)
            self.pulls: tuple[Any, ...] = ()
            if self.entry is not None:
                made = {place: k for k, place in enumerate(self.entry.places)}
                # To autograd all that follows the tensors is one argument.
                self.gradients_of = _picked([made.get(k, len(made)) for k in range(len(tensors) + 1)])
                count = len(self.saved) - self.call.kept
                kept = range(count, len(self.saved)) if self.entry.reads_kept else ()
                grads = [len(self.saved) + k for k in kernels.cotangents]
                self.given_of = _picked([*range(count), *grads, *kept])
                self.others_of = _picked([k - len(tensors) for k in self.entry.numbers])
        labels = any(own is not None and own.whole and own.numbers for own in passes[:2])  # whose numbers are looked at
        apart = len({id(t) for t in tensors}) == len(tensors)  # of one tensor that is given twice no place is told
        known = apart and self.alike is not None and None not in (*self.saved, *self.fixed)
        self.is_of_use = known and not labels and bool(walk) == (found is not None)
        if self.is_of_use:
            self.saved_of, self.fixed_of = _picked(self.saved), _picked(self.fixed)

    def gradients(self, library: Library, known: tuple[Any, ...], others: Any) -> Any:
        """Return a gradient for each argument, from what is saved and all cotangents; None where no pass serves."""
        if self.entry is None:
            return None
        given_of, others_of, gradients_of = self.given_of, self.others_of, self.gradients_of
        given = given_of(known)
        for alike, run in self.pulls:  # noqa: B007
            if alike(*given):
                break
        else:
            walk = library.find(self.entry, given, self.call.shapes, self.wanted)
            if not walk:
                return None
            run = walk.run
            self.pulls = ((_comparison(given), run), *self.pulls[:3])
        found = run(given, others_of(others))
        return None if found is None else gradients_of((*found, None))


class _Late:
    """The context of a call like an earlier one as ``setup_context`` makes it, for eager methods; what is not saved is
    known by its size, dtype and device."""

    def __init__(self, kernels: Kernels, function: Any, outputs: int, ctx: Any, saved: Any) -> None:
        (known, others), count = ctx.known, kernels.tensors
        made = [torch.empty((), dtype=dtype, device=device).expand(shape) for shape, dtype, device in known.layouts]
        pool = [*made[:count], *others, *made[count:], None]
        for place, t in zip(known.saved, saved, strict=True):
            pool[place] = t
        end = count + len(others)
        args, results = tuple(pool[:end]), tuple(pool[end : end + outputs])
        self.saved_tensors, needs = saved, ctx.needs_input_grad[:count]
        self.needs_input_grad = (*needs, *[False] * len(others))
        self.call = _Call(kernels, args, known.call.kept)
        function.setup_context(self, args, results[0] if outputs == 1 else results)

    def _ignored(self, *_: Any) -> None:
        pass

    save_for_backward = save_for_forward = mark_non_differentiable = set_materialize_grads = _ignored


class _Call:
    """A call that a kernel served: its kernels, its hyperparameters and the shapes of its tensors."""

    def __init__(self, kernels: Kernels, args: tuple[Any, ...], kept: int) -> None:
        self.kernels = kernels
        self.passes = kernels.chosen(args)
        tensors = args[: kernels.tensors]
        self.shapes = tuple(None if t is None else t.shape for t in tensors)
        self.args = (*[None] * len(tensors), *args[len(tensors) :])
        self.kept = kept

    def run(self, entry: Any, tensors: Any, wanted: int = -1) -> Any:
        """Return the results of a pass; None where it declines, and where there is none."""
        walk = entry and self.kernels.library.find(entry, tensors, self.shapes, wanted)
        return self.kernels.run(walk, entry, tensors, self.args)

    def wanted(self, needs: Any) -> int:
        """Return which gradients backward computes, as bits."""
        entry = self.passes.backward
        if entry is None or len(entry.places) == 1:
            return 1
        return sum(needs[place] << k for k, place in enumerate(entry.places))

    def gradients(self, needs: Any, given: tuple[Any, ...], kept: Any) -> Any:
        """Return the gradients, from saved values and cotangents; None where no pass serves."""
        entry = self.passes.backward
        tensors = (*given, *kept) if entry is not None and entry.reads_kept else given
        found = self.run(entry, tensors, self.wanted(needs))
        return None if found is None or entry is None else tuple(_placed(entry.places, found, len(self.args)))

    def second(self, needs: Any, given: tuple[Any, ...], cotangents: Any) -> list[Any] | None:
        """Return what cotangents of the gradients give to ``given``; None where no pass serves."""
        entry = self.passes.second.get(_defined(cotangents))
        if entry is None:
            return None
        wanted = sum(needs[place] << k for k, place in enumerate(entry.places))
        found = self.run(entry, (*given, *[c for c in cotangents if c is not None]), wanted)
        return None if found is None else _placed(entry.places, found, len(given))

    def tangents(self, found: Any, tangents: Any) -> Any:
        """Return the tangents of the outputs; None where no pass serves."""
        entry = self.passes.tangents.get(_defined(tangents))
        return self.run(entry, (*found, *[t for t in tangents if t is not None]))


class _Gradients(Function):
    """The gradients of a call that kernels served, where they are differentiated in turn by one kernel more.

    Third derivatives are those of the eager methods.
    """

    @staticmethod
    def forward(ctx: Any, function: Any, first: Any, kept: Any, *given: Any) -> Any:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*given)
        ctx.function, ctx.first, ctx.needs = function, first, first.needs_input_grad
        fused = first.call.gradients(ctx.needs, given, kept)
        return _eager_gradients(function, first, ctx.needs, given) if fused is None else fused

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        call, given, needs = ctx.first.call, ctx.saved_tensors, ctx.needs_input_grad[3:]
        cotangents = cotangents[: call.kernels.tensors]
        fused = None if rt.differentiated() else call.second(needs, given, cotangents)
        if fused is None:
            fused = _through(ctx.function, ctx.first, ctx.needs, given, needs, cotangents)
        return None, None, None, *fused


def _eager_gradients(function: Any, first: Any, needs: Any, given: Any) -> Any:
    """Return the gradients by the eager backward; the last of ``given`` are the cotangents."""
    places = first.call.kernels.cotangents
    count = len(given) - len(places)
    grads = [None] * (1 + max(places))
    for place, grad in zip(places, given[count:], strict=True):
        grads[place] = grad
    found = function.backward(rt.Saved(first, given[:count], needs), *grads)
    return found if isinstance(found, tuple) else (found,)


def _through(function: Any, first: Any, needs: Any, given: Any, wanted: Any, cotangents: Any) -> list[Any]:
    """Return what the cotangents of the gradients give to ``given``, by the eager backward.

    It reads aliases of what is given, of which some may be functions of others.
    """
    with torch.enable_grad():
        aliases = [t.view_as(t) if want else t for t, want in zip(given, wanted, strict=True)]
        grads = _eager_gradients(function, first, needs, aliases)
    pairs = [(g, c) for g, c in zip(grads, cotangents, strict=False) if c is not None]
    pairs = [(g, c) for g, c in pairs if g is not None and g.requires_grad]
    places = [k for k, want in enumerate(wanted) if want]
    if not (pairs and places):
        return [None] * len(given)
    pulled = torch.autograd.grad(
        [g for g, _ in pairs],
        [aliases[k] for k in places],
        [c for _, c in pairs],
        create_graph=_recording(),
        allow_unused=True,
    )
    return _placed(tuple(places), pulled, len(given))


def _placed(places: tuple[int, ...], values: Any, count: int) -> list[Any]:
    """Return a list of so many, with the values at their places and None elsewhere."""
    found: list[Any] = [None] * count
    for place, value in zip(places, values, strict=True):
        found[place] = value
    return found


def _defined(values: Any) -> int:
    """Return which are not None, as bits."""
    return sum(1 << k for k, t in enumerate(values) if t is not None)


class _NoCompilerError(RuntimeError):
    """There is nothing to compile kernels with."""


_told: set[str] = set()  # what modules that nobody asked for kernels have warned of, once for all of them


class Library:
    """The kernels of one file over plain CPU tensors, compiled when they are first needed.

    They run for plain tensors, for which eager operations give the same but for rounding; for
    anything else they decline, and so they do, with one warning, where they cannot be compiled.
    SYMGRAD_KERNELS=0 turns them off.
    """

    kind = "cpu"  # of devices
    as_is: frozenset[torch.dtype] = frozenset()  # dtypes that a pass reads beside its own
    narrow = 2048  # elements up to which vectors of 256 bits serve: what follows those of 512 is slow

    def __init__(
        self,
        module: str,
        source: str,
        digest: str,
        parts: int = 1,
        elsewhere: Any = None,
        *,
        least: int = 0,
        floats: bool = False,
    ) -> None:
        self.least = least  # elements from which on passes serve
        self.floats = floats  # whether results have torch's default type where that of the tensors is narrower
        self.source = Path(module).with_name(source)
        self.digest = digest
        self.parts = parts  # each a library: of plain calls, of forward mode and second derivatives
        self.elsewhere = elsewhere  # the passes over CUDA tensors
        self.on = os.environ.get("SYMGRAD_KERNELS", "1") != "0"
        self.walks: dict[Any, Any] = {}
        self.known: list[_Known] = []
        if elsewhere is not None:
            elsewhere.known, elsewhere.floats = self.known, floats
        self.libraries: dict[Any, Any] = {}
        self.missing: set[int] = set()  # parts that cannot be compiled
        self.lock = Lock()

    def find(self, entry: Any, tensors: Any, shapes: Any, wanted: int = -1) -> Any:
        """Return how a pass runs over these tensors; what is false, or None, where it does not.

        ``shapes`` are those of the inputs of forward, by default those of ``tensors``.
        """
        if not self.on or _dispatch_modes() or _includes(_BEFORE_DISPATCH):
            return None
        for t in tensors:
            if type(t) not in _PLAIN or t.is_nested:
                return None
        if any(t.device.type != self.kind for t in tensors):
            return self.elsewhere and self.elsewhere.find(entry, tensors, shapes, wanted)
        try:
            layouts = [(t.device, t.dtype, t.shape, t.stride()) for t in tensors]
            if any(t.is_neg() or t.data_ptr() == 0 for t in tensors):
                return None
        except RuntimeError:  # sparse tensors have no strides, wrappers of transforms no storage
            return None
        key = entry.name, wanted, shapes, *layouts
        walk = self.walks.get(key)
        if walk is None:
            walk = self.prepare(entry, tensors, shapes, wanted, key)
        walk.searches += 1
        return walk

    def remember(self, known: _Known) -> None:
        """Let calls like this one take the quick way from now on."""
        if known.is_of_use:
            self.known[:] = [known, *self.known[:3]]

    def prepare(self, entry: Any, tensors: Any, shapes: Any, wanted: int, key: Any) -> Any:
        """Return how a pass runs over tensors like these, what is false where it must not."""
        known = [place for place, dims, _ in entry.operands if dims is None]
        known += [place for place, *_ in entry.operands[len(entry.operands) - entry.whole :]]
        dtypes = {t.dtype for k, t in enumerate(tensors) if t.dtype != torch.bool and k not in known}
        walk: Any = False
        if self.floats and dtypes:
            dtypes.add(torch.promote_types(torch.get_default_dtype(), next(iter(dtypes))))
        if len(dtypes) == 1 and dtypes <= _STORAGE.keys():  # eager operations know how to promote
            (dtype,) = dtypes
            inputs = [t.shape for t in tensors] if shapes is None else shapes
            walk = _walk(entry, tensors, inputs, wanted, dtype, self.as_is)
            if walk and self.least and (math.prod(walk.sizes) < self.least or _is_short(entry, walk, dtype)):
                walk = False
            if walk:
                narrow = math.prod(walk.sizes) <= self.narrow
                library = self.library(dtype, entry.part, narrow and self.has_wide_vectors())
                walk = library is not None and self.bind(walk, entry, tensors, library)
        if len(self.walks) > 2000:  # of shapes that keep changing
            self.forget()
        self.walks[key] = walk or _Declined()
        return self.walks[key]

    @staticmethod
    def can_compile() -> bool:
        """Tell whether there is a compiler."""
        return shutil.which(_compiler()[0]) is not None

    @staticmethod
    def has_wide_vectors() -> bool:
        """Tell whether the processor has vectors of 512 bits that a compiler can be told to leave."""
        return any(" avx512f" in features for features in _machine())

    def forget(self) -> None:
        """Forget how passes run."""
        self.walks.clear()
        self.known.clear()

    def library(self, dtype: Any, part: int = 0, narrow: bool = False) -> Any:
        """Return compiled passes for tensors of a dtype, None where there are none."""
        key = dtype, part, narrow
        with self.lock:
            if key not in self.libraries and self.on and part not in self.missing:
                try:
                    self.libraries[key] = self.load(dtype, part, narrow)
                except (ImportError, OSError, RuntimeError) as error:
                    self.give_up(error, part)
            return self.libraries.get(key)

    def give_up(self, error: Exception, part: int = 0) -> None:
        """Decline from now on, and say why; without a later part, plain calls keep their passes."""
        self.on = part > 0
        self.missing.add(part)
        if isinstance(error, _NoCompilerError) and self.least:  # nobody asked for this module's in particular
            if not _told:
                _told.add(str(error))
                text = f"no fused kernels, eager operations serve large tensors instead: {error}"
                warnings.warn(f"{text}; SYMGRAD_KERNELS=0 says that none are wanted", RuntimeWarning, stacklevel=2)
            return
        what = "forward mode and second derivatives" if part else "kernels"
        text = f"no fused {what}, eager operations serve instead: {error}"
        warnings.warn(f"{self.source.stem}: {text}", RuntimeWarning, stacklevel=2)

    def load(self, dtype: torch.dtype, part: int, narrow: bool) -> Any:
        """Return the passes for tensors of a dtype. Raises OSError and RuntimeError."""
        return _compiled(self.source, self.digest, _STORAGE[dtype], part, narrow)

    def bind(self, walk: Any, entry: Any, tensors: Any, library: Any) -> Any:
        """Return the walk with the function that it calls, and its geometry; None where the library has none."""
        function = getattr(library, entry.name, None)
        if function is None:
            return self.give_up(RuntimeError(f"{library._name} has no {entry.name}: remove it"), entry.part)
        return _Run(walk, function, entry, len(tensors))


class CudaLibrary(Library):
    """The kernels of one file over plain CUDA tensors, in Triton; they may decline."""

    kind = "cuda"
    as_is = frozenset({torch.bool, torch.int32})
    narrow = 0
    refused: Any = ()  # what Triton raises where it cannot compile a pass for a device

    def prepare(self, entry: Any, tensors: Any, shapes: Any, wanted: int, key: Any) -> Any:
        """Return how a pass runs, as on a CPU; every choice of results has a kernel of its own."""
        if len(entry.subsets) > 1:
            entry = entry._replace(subsets=(wanted, entry.subsets[-1]))
        return super().prepare(entry, tensors, shapes, wanted, key)

    def load(self, dtype: torch.dtype, part: int, narrow: bool) -> Any:
        """Return the module of the passes. Raises ImportError, OSError and RuntimeError."""
        library = next(iter(self.libraries.values()), None)
        if library is None:
            library = _triton_module(self.source, self.digest)
            self.refused = library.TritonError
        return library

    def bind(self, walk: Any, entry: Any, tensors: Any, library: Any) -> Any:
        """Return the walk with the pass that it calls, or False where there is none."""
        if entry.name not in library.PASSES or len({t.device for t in tensors}) > 1:
            return False
        count = len(entry.operands)
        results = [
            None if size is None else (size, strides, steps, summed > 0, dtype)
            for (size, strides, dtype), steps, summed in zip(walk.results, walk.steps[count:], walk.summed, strict=True)
        ]
        plan = library.Plan(library.PASSES[entry.name], walk.dtype, walk.sizes, walk.steps[:count], results)
        return _Launch(walk, plan, entry, self)


class _Declined:
    """That no pass runs over tensors of some layouts."""

    searches = 0

    def __bool__(self) -> bool:
        return False


class _Run:
    """A compiled pass over tensors of given layouts."""

    searches = 0

    def __init__(self, walk: _Walk, function: Any, entry: Pass, given: int) -> None:
        self.walk, self.entry = walk, entry
        numbers = [len(walk.sizes) - 1, *walk.sizes[-1:], *walk.sizes[:-1]]
        for k, steps in enumerate(walk.steps, -len(entry.operands)):
            numbers += [walk.summed[k]] if k >= 0 else []
            numbers += [min(steps[-1], 1), *steps[:-1]]
        self.geometry = array("q", numbers)
        self.made = [own for own in walk.results if own[0] is not None]
        # What the arguments are of the addresses of tensors, of results, and 0, and where they begin in it.
        counter = iter(range(given, given + len(self.made)))
        places = [*range(given), *(-1 if size is None else next(counter) for size, *_ in walk.results)]
        order = [(places[place], offset) for place, offset in zip_longest(walk.places, walk.offsets, fillvalue=0)]
        self.order = [] if order == [(k, 0) for k in range(given + len(self.made))] else order
        self.run = self.running(function, Struct(entry.format).pack)

    def running(self, function: Any, packed: Any) -> Callable[[Any, Any], list[Any] | None]:
        """Return what calls the pass; variables of its own, and loops, take Python the least time."""
        walk, made, order = self.walk, self.made, self.order
        (address, _), wanted, counts = self.geometry.buffer_info(), walk.subset, walk.counts
        copied = walk.copied if walk.copies else None
        is_made = len(made) == len(walk.results) and not walk.joined and self.entry.finish is None

        def run(tensors: Any, numbers: Any) -> list[Any] | None:
            """Return the results, None for those not wanted; None alone where eager operations are to serve."""
            addresses = []
            for t in tensors:
                addresses.append(t.data_ptr())
            if 0 in addresses:  # of a storage that was freed
                return None
            if copied is not None:
                tensors = copied(tensors)
                addresses = [t.data_ptr() for t in tensors]
            results: list[Any] = []
            for size, strides, dtype in made:
                t = _empty_strided(size, strides, dtype)
                results.append(t)
                addresses.append(t.data_ptr())
            if order:
                addresses.append(0)
                addresses = [addresses[place] + offset for place, offset in order]
            if function(packed(address, _threads(), wanted, *addresses, *numbers, *counts)):
                return None  # a place out of range, for which eager operations have an error
            return results if is_made else self._joined(results, tensors, numbers)

        return run  # what is known of a call may have nothing else of this object, whose geometry the pass reads

    def _joined(self, made: list[Any], tensors: Any, numbers: Any) -> list[Any]:
        """Return the results of what the pass has made."""
        own = iter(made)
        results: list[Any] = [None if size is None else next(own) for size, *_ in self.walk.results]
        for k, (dim, _, *pairs) in self.walk.joined.items():
            parts = results[k].unbind(0)
            results[k] = torch.stack(parts, -1).flatten(-2) if pairs else torch.cat(parts, dim)
        return _finished(self.entry, self.walk.dtype, tensors, numbers, results)


def _finished(entry: Pass, dtype: torch.dtype, tensors: Any, numbers: Any, results: list[Any]) -> list[Any]:
    """Return the outputs of what a pass has computed; what is read for them is widened as sums are."""
    if entry.finish is None:
        return results
    wide = torch.promote_types(dtype, torch.float32)
    return list(entry.finish(dtype, *[tensors[place].to(wide) for place in entry.late], *numbers, *results))


class _Launch:
    """A pass in Triton over tensors of given layouts."""

    searches = 0

    def __init__(self, walk: _Walk, plan: Any, entry: Pass, library: CudaLibrary) -> None:
        self.walk, self.plan, self.entry, self.library = walk, plan, entry, library
        self.places = [place for place, *_ in entry.operands]

    def run(self, tensors: Any, numbers: Any) -> list[Any] | None:
        """Return the results, None for those not wanted; None alone where eager operations are to serve."""
        if not self.library.on or 0 in [t.data_ptr() for t in tensors]:
            return None
        device = tensors[0].get_device()
        if device >= 0 and device != torch.cuda.current_device():
            with torch.cuda.device(device):
                return self.run(tensors, numbers)
        walk = self.walk
        if walk.copies:
            tensors = walk.copied(tensors)
        try:
            results: list[Any] = self.plan([tensors[place] for place in self.places], (*numbers, *walk.counts))
        except self.library.refused as error:
            self.library.give_up(error)
            return None
        return _finished(self.entry, walk.dtype, tensors, numbers, results)


class _Walk:
    """How a pass runs over tensors of given shapes and strides."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.places: list[int] = []  # of the arguments among tensors and results
        self.offsets: list[int] = []  # of the parts that the arguments are, in bytes; none where they are whole
        self.joined: dict[int, Any] = {}  # the results whose parts lie one after the other, and what parts these are
        self.copies: dict[int, Any] = {}
        self.results: list[Any] = []  # shape, strides and dtype
        self.sizes: list[int] = []
        self.steps: list[list[int]] = []
        self.summed: list[int] = []
        self.subset = 0  # of results, as bits
        self.counts: tuple[int, ...] = ()

    def copied(self, tensors: Any) -> list[Tensor]:
        """Return the tensors, those of unfit strides or of truth values copied."""
        found = list(tensors)
        for place, (dtype, like) in self.copies.items():
            fit = found[place].to(dtype)
            if like is None:
                fit = fit.contiguous()
            elif isinstance(like, int):
                fit = _parted(fit, like)
            else:
                dims, shape, strides = like
                full = torch.empty_strided(shape, strides, dtype=dtype, device=fit.device)
                fit = full.copy_(_unsqueezed(fit, dims))
            found[place] = fit
        return found


def _unsqueezed(t: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return a view with dimensions of size 1 at these places."""
    for dim in sorted(dims, reverse=True):
        t = t.unsqueeze(dim)
    return t


def _parted(t: Tensor, dim: int) -> Tensor:
    """Return a copy in which what has one place in a dimension lies in one piece; transposing takes longer."""
    whole = t.movedim(dim, 0).contiguous() if t.is_meta else torch.stack(t.unbind(dim))
    return whole.movedim(0, dim)


def _part(t: Tensor, part: Any) -> Tensor:
    """Return a part of a tensor. Raises RuntimeError where the parts would not be equal, and where there are none."""
    if part is None:
        return t
    dim, count, index, *pairs = part
    if t.dim() < -dim or t.shape[dim] % count:
        raise RuntimeError("no equal parts")
    size = t.shape[dim] // count
    return t[..., index::count] if pairs else t.narrow(dim, index * size, size)


def _walk(entry: Any, tensors: Any, inputs: Any, wanted: int, dtype: torch.dtype, as_is: Any) -> Any:
    """Plan a pass: the order of its dimensions, and the steps of every tensor along each of them."""
    blank = [torch.empty(size, device="meta") for size in inputs]
    metas = [torch.empty_strided(t.shape, t.stride(), device="meta") for t in tensors]
    try:
        shape = _broadcast_shapes(*(_unsqueezed(_part(blank[k], part), dims).shape for k, dims, part in entry.shape))
        views = [_unsqueezed(_part(metas[k], part), dims or ()) for k, dims, part in entry.operands]
    except RuntimeError:  # a mistake, or rows of several lengths, each of which is reduced
        return False
    rows = entry.rows and not entry.any_rows
    if 0 in shape or len(shape) > 16 or (rows and not shape) or (entry.placed and shape[-1] > _EXACT):
        return False
    parts_of = {k: part for k, _, part in entry.shape}
    if any(_part(blank[k], parts_of.get(k)).shape != shape for k in entry.alike):
        return False  # a sum of fewer elements than there are
    if not all(any(views[k].shape[-1:] == shape[-1:] for k in span) for span in entry.spans):
        return False  # a reduction of fewer elements than a row has
    divided = [(view, part[0]) for view, (*_, part) in zip(views, entry.operands, strict=True) if part is not None]
    if any(view.shape[dim] != shape[dim] for view, dim in divided):
        return False  # a part that broadcasts
    # The strides that an eager operation on these operands would give its result, which may be larger than they. Of
    # arithmetic, `lerp` alone does without torch's reference implementations, which take a second to import.
    whole = torch.empty((), device="meta").expand(shape)
    layout = functools.reduce(lambda a, b: torch.lerp(a, b, 0.5), [*views, whole]).stride()
    if rows:  # which lie in one piece
        layout = torch.empty(shape, device="meta").stride()
    last = len(shape) - 1
    dims = [d for d in range(len(shape)) if shape[d] != 1 and not (rows and d == last)]
    dims.sort(key=lambda d: -layout[d])
    if rows:
        dims.append(last)
    walk = _Walk(dtype)
    inner = dims[-1] if dims else None

    def fits(step: Any, part: Any = None) -> bool:
        if part is not None and len(part) > 3:  # neighbours that are pairs
            return inner == last and step[last] == 2
        return inner is None or shape[inner] == 1 or step[inner] in (0, 1)

    steps: list[Any] = []
    offsets: list[Any] = []  # in bytes
    for k, (view, (place, added, part)) in enumerate(zip(views, entry.operands, strict=True)):
        step, offset = view.expand(shape).stride(), view.storage_offset()
        if k >= len(views) - entry.whole:
            if tensors[place].dtype not in _WHOLE:
                return False
            if tensors[place].dtype not in (torch.int64, *as_is):
                step = _unsqueezed(metas[place].contiguous(), added).expand(shape).stride()
                walk.copies[place] = torch.int64, None
        elif added is not None and not (fits(step, part) and tensors[place].dtype in (dtype, *as_is)):
            view = _unsqueezed(_part(metas[place].contiguous(), part), added)
            step, walk.copies[place] = view.expand(shape).stride(), (dtype, None)
            if not fits(step, part) and part is not None:  # parts that lie one behind the other
                view = _unsqueezed(_part(_parted(metas[place], part[0]), part), added)
                step, walk.copies[place] = view.expand(shape).stride(), (dtype, part[0])
                if not fits(step, part):
                    return False
            elif not fits(step, part):
                step, walk.copies[place] = layout, (dtype, (added, shape, layout))
            offset = view.storage_offset()
        steps.append(step)
        offsets.append(offset * dtype.itemsize)
    places = [place for place, *_ in entry.operands]
    subset = 0
    for k, (kind, place, added, parts) in enumerate(entry.results):
        own = dtype
        if kind in ("sum", "statistic") and dtype != torch.float64:
            own = torch.float32  # as it is computed
        if parts is None:
            summed, size, strides, step = _result(kind, place, added, shape, layout, dims, inputs)
            count, apart = 1, 0
        else:
            count = parts[1]
            like = inputs[place] if kind == "tensor" else None
            summed, size, strides, step, apart = _result_in_parts(like, added, parts, shape, layout, dims)
            if not summed and not fits(step, (*parts[:2], 0, *parts[2:])):
                step = _packed(shape, sorted(range(len(shape)), key=lambda d: -layout[d]))
                apart = math.prod(shape)
                size, strides = (count, *shape), (apart, *(n or 1 for n in step))
                walk.joined[k] = parts
            elif summed:
                walk.joined[k] = parts
        is_wanted = wanted >> k & 1
        subset |= ((1 << count) - 1 if is_wanted else 0) << len(walk.summed)
        walk.results.append((tuple(size), strides, own) if is_wanted else (None, (), own))
        walk.summed += [summed] * count
        steps += [step] * count
        offsets += [index * apart * dtype.itemsize if is_wanted else 0 for index in range(count)]
        places += [len(tensors) + k] * count
    walk.places = places
    walk.offsets = offsets if any(offsets) else []
    walk.joined = {k: parts for k, parts in walk.joined.items() if wanted >> k & 1}
    walk.subset = subset if subset in entry.subsets else entry.subsets[-1]
    walk.sizes, walk.steps = _merged(shape, dims, steps, rows)
    if entry.any_rows:
        _cut(walk.sizes, walk.steps)
    walk.counts = tuple(_count_of(name, shape) for name in entry.counts)
    return walk


def _is_short(entry: Any, walk: _Walk, dtype: torch.dtype) -> bool:
    """Tell whether what lies in one piece for every tensor fills no vector: eager operations take less time then."""
    return not entry.rows and walk.sizes[-1] * max(dtype.itemsize, 4) < _VECTOR


def _result(kind: str, place: int, added: Any, shape: Any, layout: Any, dims: list[int], inputs: Any) -> Any:
    """Return of how many sums a result is, its size and strides, and its steps along the dimensions of the pass."""
    inner = dims[-1] if dims else None
    if kind in ("row", "kept", "statistic"):
        size = shape[:-1] if kind == "row" else (*shape[:-1], 1)
        like = torch.empty((*shape[:-1], 1), device="meta")
        return 0, size, like.view(size).stride(), like.expand(shape).stride()
    if kind in ("total", "sum"):
        return 1, (), (), (0,) * len(shape)
    if kind in ("squeezed", "reduced"):
        like = torch.empty([1 if d - len(shape) in added else n for d, n in enumerate(shape)], device="meta")
        step, size = like.expand(shape).stride(), like.shape
        if kind == "squeezed":
            size = tuple(n for d, n in enumerate(shape) if d - len(shape) not in added)
        strides = torch.empty(size, device="meta").stride()
        if inner is not None and step[inner] > 1:
            step = _packed(like.shape, dims)
            strides = tuple(s or 1 for d, s in enumerate(step) if kind == "reduced" or d - len(shape) not in added)
        return like.numel(), size, strides, step
    if kind == "tensor" and (inputs[place] != shape or added):
        return _summed(torch.empty(inputs[place], device="meta"), added, shape, dims)
    return 0, shape, layout, layout


def _summed(like: Tensor, added: Any, shape: Any, dims: list[int]) -> Any:
    """Return the same of what is summed to the size of a tensor, viewed with more dimensions."""
    view, strides = _unsqueezed(like, added), like.stride()
    step = view.expand(shape).stride()
    if dims and step[dims[-1]] > 1:  # what is innermost in the pass is not so in this tensor
        step = _packed((1,) * (len(shape) - view.dim()) + view.shape, dims)
        inside = step[len(shape) - view.dim() :]
        strides = tuple(s or 1 for d, s in enumerate(inside, -view.dim()) if d not in added)
    return like.numel(), like.shape, strides, step


def _result_in_parts(like: Any, added: Any, parts: Any, shape: Any, layout: Any, dims: list[int]) -> Any:
    """Return the same of a result that is written in parts, and how far these are apart; `like` is its size if known.

    Of those that are summed the parts lie one after the other, each in one piece.
    """
    dim, count, *pairs = parts
    whole = [*shape[:dim], shape[dim] * count, *shape[len(shape) + dim + 1 :]]
    if like is not None and list(like) != whole:
        size = _part(torch.empty(like, device="meta"), (dim, count, 0)).shape
        summed, size, strides, step = _summed(torch.empty(size, device="meta"), added, shape, dims)
        return summed, (count, *size), (summed, *strides), step, summed
    order = sorted(range(len(shape)), key=lambda d: -layout[d])
    packed = tuple(s or 1 for s in _packed(whole, order))
    if pairs:
        return 0, whole, packed, (*packed[:-1], count * packed[-1]), packed[-1]
    return 0, whole, packed, packed, shape[dim] * packed[dim]


def _packed(size: Any, dims: list[int]) -> Any:
    """Return the steps of a tensor that lies in the order of these dimensions; 0 where it has one element."""
    steps, length = [0] * len(size), 1
    for d in reversed(dims):
        if size[d] != 1:
            steps[d] = length
            length *= size[d]
    return steps


def _merged(shape: Any, dims: list[int], steps: list[Any], rows: bool) -> tuple[list[int], list[list[int]]]:
    """Return sizes and steps in order, dimensions that lie one behind the other as one."""
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in steps]
    for d in reversed(dims):
        kept = rows and len(sizes) == 1  # a row stays what it is
        if sizes and not kept and all(s[d] == m[0] * sizes[0] for s, m in zip(steps, merged, strict=True)):
            sizes[0] *= shape[d]
            continue
        sizes.insert(0, shape[d])
        for s, m in zip(steps, merged, strict=True):
            m.insert(0, s[d])
    if not sizes:
        return [1], [[1] for _ in steps]
    return sizes, merged


def _cut(sizes: list[int], steps: list[list[int]]) -> None:
    """Cut the innermost dimension into rows, which threads share."""
    length = sizes[-1]
    row = min(length & -length, _ROW)
    if _SHORTEST <= row < length:
        sizes[-1:] = [length // row, row]
        for own in steps:
            own[-1:] = [own[-1] * row, own[-1]]


_ROW, _SHORTEST = 4096, 64  # elements of a row that has no length of its own


def _count_of(name: str, shape: Any) -> int:
    """Return a number of elements that a pass reads: of all, of a row, or along some dimensions."""
    if name == "elements":
        return math.prod(shape)
    dims = [-1] if name == "row_length" else [int(d) for d in name.removeprefix("size of ").split()]
    return math.prod(shape[d] for d in dims) if shape else 1


def _compiled(source: Path, digest: str, storage: str, part: int, narrow: bool) -> Any:
    """Load the passes for one kind of elements, compiling them unless they are in the cache.

    A cached library is found by everything that it depends on, without a compiler, and appears there whole:
    processes that compile it at once do not disturb each other. Raises OSError and RuntimeError.
    """
    text = source.read_text(encoding="utf-8", errors="replace")
    body = text[text.find("//\n") :]
    if hashlib.sha256(body.encode()).hexdigest() != digest:
        raise RuntimeError(f"{source.name} is not the file that this module was generated with")
    flags = [*_FLAGS, f"-DSTORAGE={storage}", f"-DPART={part}"]
    kind = f"{storage}{part or ''}"
    if narrow:
        flags.append("-mno-avx512f")
        kind += "_narrow"
    header = source.with_name("_kernels.h").read_bytes().partition(b"#pragma once")[2]
    shared = hashlib.sha256(header).hexdigest()
    compiler = _compiler()
    what = "\0".join([digest, shared, *compiler, *flags, *_machine()])
    folder = _cache_folder()
    name = f"{source.stem}_{kind}_{hashlib.sha256(what.encode()).hexdigest()[:24]}"
    target = folder / f"{name}_{_version(compiler)}.so"
    if folder.exists():
        _require_own(folder)
    if not shutil.which(compiler[0]):  # what was compiled before by the same command serves
        target = next(filter(_is_sealed, sorted(folder.glob(f"{name}_*.so"))), target)
    if not _is_sealed(target):
        if not shutil.which(compiler[0]):
            raise _NoCompilerError(f"no C++ compiler ({compiler[0]}; CXX names another)")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_own(folder)
        with TemporaryDirectory(dir=folder, prefix="building_") as build:
            made = Path(build) / target.name
            for openmp in (["-fopenmp"], []):  # without it the passes use one thread
                command = [*compiler, *flags, *openmp, str(source), "-o", str(made)]
                done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
                if done.returncode == 0:
                    break
            else:
                raise RuntimeError(f"{' '.join(compiler)} failed:\n{done.stderr[-2000:]}")
            _seal(made)
            ctypes.CDLL(str(made))  # what cannot be loaded is not kept
            made.replace(target)
    return ctypes.CDLL(str(target))


def _compiler() -> tuple[str, ...]:
    """Return the command of the C++ compiler: $CXX, which may name options too, or the first there is of the usual."""
    own = os.environ.get("CXX", "").strip()
    if own:
        return (own,) if shutil.which(own) else tuple(own.split())
    return (next(filter(shutil.which, ("g++", "clang++", "c++")), "g++"),)


@functools.cache
def _version(compiler: tuple[str, ...]) -> str:
    """Return what stands for the version of a compiler in the name of a library."""
    try:
        text = subprocess.run([*compiler, "--version"], capture_output=True, check=False).stdout
    except OSError:
        text = b""
    return hashlib.sha256(text).hexdigest()[:8]


def _require_own(folder: Path) -> None:
    """Raise RuntimeError where anybody else could put a library into a folder, which would then be run."""
    found = folder.stat()
    owner = getattr(os, "getuid", lambda: found.st_uid)()
    if found.st_uid not in (owner, 0) or (os.name == "posix" and found.st_mode & 0o022):
        raise RuntimeError(f"{folder} can be written to by others; SYMGRAD_CACHE names another folder")


@functools.cache
def _machine() -> tuple[str, ...]:
    """Return what a library depends on beside its source and flags: the processor."""
    found = platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return found, platform.processor()
    return found, *sorted({line for line in lines if line.startswith(("flags", "Features"))})


def _cache_folder() -> Path:
    """Return where compiled passes are kept: $SYMGRAD_CACHE, or the user's cache folder."""
    own = os.environ.get("SYMGRAD_CACHE")
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "symgrad"


def _triton_module(source: Path, digest: str) -> Any:
    """Import the passes in Triton. Raises ImportError, OSError and RuntimeError."""
    text = source.read_text(encoding="utf-8", errors="replace")
    body = text[text.find('\n"""') + 1 :]
    if hashlib.sha256(body.encode()).hexdigest() != digest:
        raise RuntimeError(f"{source.name} is not the file that this module was generated with")
    if torch.version.hip is not None:
        raise RuntimeError("they are not meant for ROCm")
    triton = importlib.import_module("triton")
    if tuple(map(int, triton.__version__.split(".")[:2])) < (3, 6):
        raise RuntimeError(f"Triton 3.6 or later is needed, and this is {triton.__version__}")
    triton.runtime.driver.active.get_current_target()  # needs a C compiler
    package = types.ModuleType(f"{__name__}_passes")  # in which it finds what all of its folder share
    package.__path__ = [str(source.parent)]
    sys.modules[package.__name__] = package
    importlib.invalidate_caches()
    return importlib.import_module(f"{package.__name__}.{source.stem}")


def _seal(library: Path) -> None:
    """Append the hash of a library, which loaders do not read."""
    made = library.read_bytes()
    library.write_bytes(made + hashlib.sha256(made).digest())


def _is_sealed(library: Path) -> bool:
    """Tell whether a library is there as it was made; one that is cut off ends the process that loads it."""
    try:
        made = library.read_bytes()
    except OSError:
        return False
    return hashlib.sha256(made[:-32]).digest() == made[-32:]
