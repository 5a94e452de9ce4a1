"""What the modules of this folder share: arguments, dtypes, residuals, and the way into a Function.

Names of torch that are private stand here alone, each with a fallback.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import math
import numbers
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

_HALF = frozenset((torch.float16, torch.bfloat16))
_forward_ad: Any = torch.autograd.forward_ad  # untyped: private parts
_broadcast_shapes: Any = torch.broadcast_shapes  # has no annotations
_nn_grad: Any = importlib.import_module("torch.nn.grad")  # has no annotations

# ------------------------------------------------------------------------- private names of torch
# Without the name: what is right everywhere, though perhaps slower.
_C: Any = torch._C
_functorch: Any = getattr(_C, "_functorch", None)
in_functorch: Callable[[], bool] = getattr(_C, "_are_functorch_transforms_active", lambda: True)
in_jit_trace: Callable[[], bool] = getattr(_C, "_is_tracing", lambda: False)
_set_forward_mode: Any = getattr(_forward_ad, "_set_fwd_grad_enabled", None) or (lambda mode: contextlib.nullcontext())
_is_batched: Any = getattr(_functorch, "is_batchedtensor", lambda t: False)
_is_wrapped: Any = getattr(_functorch, "is_functorch_wrapped_tensor", lambda t: type(t) is not Tensor)
_unwrap: Any = getattr(_functorch, "get_unwrapped", None)
_level_of: Any = getattr(_functorch, "maybe_get_level", None)
_batch_dim_of: Any = getattr(_functorch, "maybe_get_bdim", None)
_add_batch_dim: Any = getattr(_functorch, "_add_batch_dim", None)
_TELLS_LEVEL = hasattr(_forward_ad, "_current_level")
_CAN_LOOK_INSIDE = None not in (_unwrap, _level_of, _batch_dim_of, _add_batch_dim)


def has_tangents() -> bool:
    """Tell whether a level of forward mode may be on."""
    return not _TELLS_LEVEL or _forward_ad._current_level >= 0


def forward_mode() -> bool:
    """Tell whether forward-mode differentiation may be on."""
    return has_tangents() or in_functorch()


def differentiated() -> bool:
    """Tell whether something may differentiate what is computed now."""
    return torch.is_grad_enabled() or forward_mode() or is_exporting()


def is_exporting() -> bool:
    """Tell torch.export; torch.compiler.is_exporting() is also true in torch.compile on 2.11."""
    return bool(getattr(torch.compiler, "_is_exporting_flag", True))


# ------------------------------------------------------------------------------------- arguments
def tensors(op: str, optional: tuple[str, ...] = (), whole: dict[str, str] | None = None, /, **values: Any) -> Any:
    """Return the arguments as tensors: numbers become tensors, an optional one may be None.

    `whole` names the arguments that are tensors of integers ("int") and masks ("bool").

    Raises TypeError for what is complex or neither.
    """
    given = values.values()
    for value in given:
        if not isinstance(value, Tensor) or value.is_complex():
            break
    else:
        return given
    found = [v for v in given if isinstance(v, Tensor)]
    made: list[Tensor | None] = []
    for name, value in values.items():
        if isinstance(value, complex) or (isinstance(value, Tensor) and value.is_complex()):
            raise TypeError(f"{op}: complex arguments are not supported, and {name} is one")
        if isinstance(value, Tensor) or (value is None and name in optional):
            made.append(value)
            continue
        try:
            made.append(_number(value, found, (whole or {}).get(name)))
        except TypeError:
            raise TypeError(f"{op}: {name} must be a tensor, not {value!r:.50}") from None
    return made


def tensor(op: str, value: Any) -> Any:
    """Return the only argument. Raises TypeError where it is no tensor of real numbers."""
    if not isinstance(value, Tensor) or value.is_complex():
        raise TypeError(f"{op}: expected a real tensor, not {getattr(value, 'dtype', type(value))}")
    return value


def _number(value: Any, beside: list[Tensor], whole: str | None = None) -> Tensor:
    """Return a number as a tensor whose dtype does not change that of the result.

    With ``whole`` "int" or "bool" a number of that type becomes a tensor of integers, or a mask.
    """
    dtype = result_dtype(*beside)
    if type(value).__name__ == whole:
        dtype = torch.int64 if whole == "int" else torch.bool
    elif isinstance(value, float) and not dtype.is_floating_point:
        dtype = torch.get_default_dtype()
    elif dtype == torch.bool and not isinstance(value, bool):
        dtype = torch.int64
    elif dtype in _HALF and any(t.dtype in _HALF and t.dim() > 0 for t in beside):
        dtype = torch.float32  # beside a tensor of half precision, a number is not rounded
    device = beside[0].device if beside else None
    if torch.compiler.is_compiling():  # scalar_tensor would compile anew for every value
        return torch.ones((), dtype=dtype, device=device).mul_(value)
    return torch.scalar_tensor(value, dtype=dtype, device=device)


def floats(*values: Any) -> Any:
    """Return the tensors, in the default dtype if none of them is of floats."""
    if any(t.is_floating_point() for t in values):
        return values
    return [t.to(torch.get_default_dtype()) for t in values]


def integral(op: str, name: str, value: Any) -> None:
    """Raise TypeError where a tensor that counts or indexes is not of integers."""
    if isinstance(value, Tensor) and (value.is_floating_point() or value.dtype == torch.bool):
        raise TypeError(f"{op}: {name} must be a tensor of integers, not of {value.dtype}")


def boolean(op: str, name: str, value: Any) -> None:
    """Raise TypeError where a mask is not of bool."""
    if isinstance(value, Tensor) and value.dtype != torch.bool:
        raise TypeError(f"{op}: {name} must be a bool tensor, not of {value.dtype}")


def hyperparameter(op: str, name: str, value: Any, kind: type) -> Any:
    """Return a hyperparameter as a Python number or text. Raises TypeError for another type, ValueError for an integer
    that no float is near to."""
    if type(value) is kind:
        return value
    if not isinstance(value, bool):
        if kind is float and isinstance(value, (float, int)):  # symbolic ones, too
            if type(value) is not int or abs(value) < 2**63:  # which torch takes
                return value
            if abs(value) <= torch.finfo(torch.float64).max:
                return float(value)
            raise ValueError(f"{op}: {name} is too large for a float")
        if kind is float and isinstance(value, numbers.Real):
            return float(value)
        if kind is int and isinstance(value, numbers.Integral):
            return value if isinstance(value, int) else int(value)
        if isinstance(value, kind):
            return value
    raise TypeError(f"{op}: {name} must be of type {kind.__name__}, not {value!r}")


def number(function: Any, *values: Any, order: tuple[int, ...] = ()) -> float:
    """Return a function of torch's of Python numbers; those in ``order`` are no floats, and come first."""
    if torch.compiler.is_compiling():  # what follows from a symbolic number is a constant for one of its values
        values = tuple(math.ldexp(*math.frexp(v)) for v in values)
        order = tuple(int(math.ldexp(*math.frexp(k))) for k in order)
    return _number_of(function, values, order)


def _number_of(function: Any, values: tuple[float, ...], order: tuple[int, ...]) -> float:
    return float(function(*order, *(torch.tensor(v, dtype=torch.float64) for v in values)))


_number_of._dynamo_marked_constant = True  # type: ignore[attr-defined]  # torch.compiler's own would import Dynamo


def seed(op: str, name: str, value: Any) -> Any:
    """Return a seed: a number as it is, or one that a generator draws. Raises TypeError for another type."""
    if isinstance(value, torch.Generator):
        return int(torch.randint(2**62, (), generator=value, device=value.device))
    return hyperparameter(op, name, value, int)


def rank(value: Any) -> int:
    """Return the number of dimensions of a tensor."""
    count: int = value.dim()
    return count


def dimension(op: str, name: str, value: int, rank: int) -> None:
    """Raise IndexError for a hyperparameter that is no dimension."""
    bound = max(rank, 1)
    if not -bound <= value < bound:
        raise IndexError(f"{op}: {name} must be in [{-bound}, {bound - 1}] for {rank} dimensions, not {value}")


def refuse_shapes(op: str, /, **shaped: tuple[Any, tuple[Any, ...]]) -> None:
    """Raise ValueError where a shape is not the declared one: a name is one size, `...` any."""
    sizes: dict[Any, tuple[int, str]] = {}
    for name, (t, dims) in shaped.items():
        if t is None:
            continue
        shape = tuple(t.shape)
        fixed = dims[1:] if dims[:1] == ("...",) else dims
        if len(shape) < len(fixed) or (len(shape) > len(fixed) and len(fixed) == len(dims)):
            declared = ", ".join(str(d) for d in dims)
            raise ValueError(f"{op}: {name} must have the shape [{declared}], not {list(shape)}")
        for dim, size in zip(fixed, shape[len(shape) - len(fixed) :], strict=True):
            known, where = (dim, "") if isinstance(dim, int) else sizes.setdefault(dim, (size, name))
            if size != known and where:
                raise ValueError(f"{op}: the dimension {dim} of {name} is {size}, and {known} in {where}")
            if size != known:
                raise ValueError(f"{op}: a dimension of {name} is {size}, not {known}")


# ------------------------------------------------------------------------------------------ dtypes
def result_dtype(*values: Tensor) -> torch.dtype:
    """Return torch.result_type of the tensors, which torch.compile cannot trace."""
    dtypes = [t.dtype for t in values if t.dim() > 0]
    if not any(dtype.is_floating_point for dtype in dtypes):
        dtypes = [t.dtype for t in values]
    return functools.reduce(torch.promote_types, dtypes, torch.bool)


def floated(whole: Tensor) -> Tensor:
    """Return what stands for a function of floats where dtypes are promoted: for one of whole numbers, a tensor of the
    default dtype with as many dimensions; for one of floats, these."""
    return whole if whole.is_floating_point() else torch.empty((1,) * whole.dim(), dtype=torch.get_default_dtype())


def made(*whole: Any, shaped: Any = None) -> Tensor:
    """Return what stands for a function of several tensors where dtypes are promoted.

    Where all are integers, that is a tensor of the default dtype with as many dimensions as those of them that are
    ``shaped`` (all, by default), else one of bool, which decides nothing. Tensors may be None.
    """
    given = [t for t in whole if t is not None]
    if any(t.is_floating_point() for t in given):
        return torch.empty((), dtype=torch.bool)
    dims = max((t.dim() for t in (given if shaped is None else shaped) if t is not None), default=0)
    return torch.empty((1,) * dims, dtype=torch.get_default_dtype())


def as_float(whole: Tensor, *beside: Tensor | None) -> Tensor:
    """Return whole numbers as floats of the dtype of the floats beside them, float32 at least; these may be None."""
    given = [t for t in beside if t is not None and t.dtype.is_floating_point]
    dtype = torch.promote_types(result_dtype(*given), torch.float32) if given else torch.get_default_dtype()
    return whole.to(torch.promote_types(dtype, whole.dtype))  # what was widened stays wide


def widen(*values: Any, floats: tuple[tuple[int, ...], ...] = ()) -> Any:
    """Return the tensors in one dtype, float32 at least, and, last, what to round the result to.

    That is None where nothing had to be widened. Tensors may be None. ``floats`` are the places of tensors of which
    functions make floats where all of them are integers.
    """
    first = None
    for t in values:
        if t is not None and t.dtype is not first:
            if first is not None:
                break
            first = t.dtype
    else:
        if first not in _HALF:
            return *values, None
    given = [t for t in values if t is not None and t.dtype.is_floating_point]
    if all(t.dtype == given[0].dtype and t.dtype not in _HALF for t in given):
        return *values, None
    dtype = _made_of(values, given, floats)
    kind = torch.promote_types(dtype, torch.float32)
    wide = [t.to(kind) if t is not None and t.dtype.is_floating_point else t for t in values]
    return *wide, dtype


def widen_to_double(*values: Any, floats: tuple[tuple[int, ...], ...] = ()) -> Any:
    """Return the numbers as float64, which the formula needs, and, last, what to round to."""
    for t in values:
        if t is not None and t.dtype not in (torch.float64, torch.bool):
            break
    else:
        return *values, None
    if t.device.type == "mps":  # has no float64
        return widen(*values, floats=floats)
    dtype = _made_of(values, [t for t in values if t is not None], floats)
    wide = [t if t is None or t.dtype == torch.bool else t.double() for t in values]
    return *wide, dtype if dtype.is_floating_point else torch.get_default_dtype()


def _made_of(values: Any, given: list[Tensor], floats: tuple[tuple[int, ...], ...]) -> torch.dtype:
    groups = ([values[k] for k in group] for group in floats)
    return result_dtype(*given, *(made(*group) for group in groups if any(t is not None for t in group)))


def double(value: Tensor) -> Tensor:
    """Return the numbers as float64; mps has none."""
    return value if value.device.type == "mps" else value.double()


def alike(least: torch.dtype, *values: Any) -> Any:
    """Return floating tensors in one dtype, ``least`` or wider: products want equal ones."""
    dtypes = {t.dtype for t in values if t is not None}
    dtype = functools.reduce(torch.promote_types, [d for d in dtypes if d.is_floating_point], least)
    if dtypes == {dtype}:
        return values
    return [t if t is None or t.dtype == dtype or not t.dtype.is_floating_point else t.to(dtype) for t in values]


def narrow(value: Tensor, dtype: torch.dtype | None) -> Tensor:
    """Round once; a ``to`` that does nothing would cost the gradient in torch.compile (2.11)."""
    if dtype is None or value.dtype == dtype or not dtype.is_floating_point:
        return value
    return value.to(dtype)


def unrounded(value: Tensor, *computed: Tensor | None) -> Tensor | None:
    """Return a result that has the dtype in which it was computed, or None: it was rounded to its own."""
    kinds = [t.dtype for t in computed if t is not None and t.dtype.is_floating_point]
    return value if value.dtype in kinds else None


def broadcast(value: Any, *beside: Tensor) -> Tensor:
    """Return a new tensor of the value, in the shape and dtype that it and the tensors broadcast to."""
    of = (*beside, value) if isinstance(value, Tensor) else beside
    shape = _broadcast_shapes(*[t.shape for t in of])
    dtype = result_dtype(*of)
    if not dtype.is_floating_point:
        dtype = torch.get_default_dtype()
    if not isinstance(value, Tensor):
        return torch.full(shape, value, dtype=dtype, device=beside[0].device)
    return value.to(dtype).expand(shape).clone()


class Autocast(NamedTuple):
    """The state of autocast on a kind of device."""

    device: str
    enabled: bool
    dtype: torch.dtype | None


def autocast(like: Tensor) -> Autocast:
    """Return the state of autocast, in which backward multiplies as well (pytorch#132388)."""
    device = like.device.type
    if not _casts(device):
        return Autocast("cpu", False, None)
    return Autocast(device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))


def autocast_as(state: Autocast) -> Any:
    """Return a context with this state of autocast: entering torch's own costs 14 us."""
    if not state.enabled and not torch.is_autocast_enabled(state.device):
        return contextlib.nullcontext()
    return torch.autocast(state.device, state.dtype, state.enabled)


def _casts(device: str) -> bool:
    """Tell whether a kind of device has autocast; torch.compile cannot ask torch 2.11."""
    return device in ("cpu", "cuda") or torch.amp.is_autocast_available(device)


def _autocast_all(*values: Tensor) -> list[Tensor]:
    """Cast as autocast does for a convolution; it does not know the derivatives of one."""
    device = values[0].device.type
    if not _casts(device) or not torch.is_autocast_enabled(device):
        return [*values]
    dtype = torch.get_autocast_dtype(device)
    return [t.to(dtype) if t.dtype == torch.float32 else t for t in values]


# --------------------------------------------------------------------------------------- residuals
def save(
    ctx: Any,
    inputs: tuple[Any, ...],
    outputs: tuple[Tensor, ...],
    *saved: Tensor | None,
    residuals: tuple[Tensor | None, ...] = (),
    fixed: tuple[Tensor, ...] = (),
) -> None:
    """Save tensors for backward and jvp, and what inputs and outputs look like.

    ``residuals`` are outputs of forward for backward alone, to be read where nothing differentiates
    it: what was rounded since they were computed keeps none of them. ``fixed`` outputs have no
    derivative.
    """
    own = [r for r in residuals if r is not None]
    # While compiling forward returns no residuals, and what is kept of an output is no output.
    marked = fixed if torch.compiler.is_compiling() else (*fixed, *own)
    if marked:
        _mark_fixed(ctx, marked)
    if own:
        kinds = [y.dtype for y in outputs]
        if any(r.dtype not in kinds or r.dtype in _HALF for r in own if r.dtype.is_floating_point):
            residuals = (None,) * len(residuals)
    ctx.residuals = len(residuals)
    if torch.compiler.is_compiling():  # sizes may be symbolic, which ctx cannot hold
        ctx.inputs = len(inputs)
        given = [t if isinstance(t, Tensor) else None for t in inputs]
        ctx.save_for_backward(*saved, *residuals, *given)
        return
    ctx.set_materialize_grads(False)
    ctx.inputs = [(t.shape, t.dtype) if isinstance(t, Tensor) else None for t in inputs]
    if forward_mode():
        ctx.outputs = [(y.shape, y.dtype, y.device) for y in outputs]
        residuals = (None,) * len(residuals)
        ctx.save_for_forward(*saved, *residuals)
    elif len(outputs) > 1:
        ctx.outputs = [(y.shape, y.dtype, y.device) for y in outputs]
    ctx.save_for_backward(*saved, *residuals)


def _mark_fixed(ctx: Any, outputs: tuple[Tensor, ...]) -> None:
    """Mark outputs as not differentiable, under vmap too, where they wrap the results."""
    if in_functorch() and _unwrap is not None and not torch.compiler.is_compiling():
        outputs = tuple(_unbatched(y) for y in outputs)
    ctx.mark_non_differentiable(*outputs)


def _unbatched(t: Any) -> Any:
    """Return what is inside of a tensor that vmap made."""
    while _is_batched(t):
        t = _unwrap(t)
    return t


def saved(ctx: Any) -> Any:
    """Return what was saved; residuals are None where something may differentiate backward."""
    found = ctx.saved_tensors
    if torch.compiler.is_compiling():
        found = found[: len(found) - ctx.inputs]
    count = ctx.residuals
    if count and differentiated():
        return *found[: len(found) - count], *[None] * count
    return found


def shape(ctx: Any, place: int) -> Any:
    """Return the shape of an input."""
    if torch.compiler.is_compiling():
        return ctx.saved_tensors[place - ctx.inputs].shape
    return ctx.inputs[place][0]


def dtype(ctx: Any, place: int) -> torch.dtype:
    """Return the dtype of an input."""
    compiling = torch.compiler.is_compiling()
    kind: torch.dtype = ctx.saved_tensors[place - ctx.inputs].dtype if compiling else ctx.inputs[place][1]
    return kind


def like(ctx: Any) -> Tensor:
    """Return a tensor with the device and dtype of an output, where forward mode or several of them have it kept."""
    compiling = torch.compiler.is_compiling()
    given = [t for t in ctx.saved_tensors[-ctx.inputs :] if t is not None] if compiling else []
    device, dtype = (given[0].device, given[0].dtype) if given else (ctx.outputs[0][2], ctx.outputs[0][1])
    return torch.empty((), device=device, dtype=dtype)


def needs(ctx: Any) -> tuple[bool, ...]:
    """Tell which inputs need a derivative: in forward mode, any may."""
    found: tuple[bool, ...] = ctx.needs_input_grad
    return (True,) * len(found) if forward_mode() else found


def fit(ctx: Any, place: int, grad: Tensor | None) -> Tensor | None:
    """Give a gradient the shape and dtype of its input: sum first, round last."""
    if grad is None:
        return None
    grad = _summed(grad, shape(ctx, place))
    kind = dtype(ctx, place)
    return grad if grad.dtype == kind else grad.to(kind)


def accumulate(ctx: Any, place: int, total: Tensor | None, grad: Tensor) -> Tensor:
    """Add what one more cotangent contributes to a gradient, in its shape; it is rounded last."""
    return added(total, _summed(grad, shape(ctx, place)))


def added(total: Tensor | None, term: Tensor) -> Tensor:
    """Add one more term to a cotangent or tangent."""
    return term if total is None else total + term


def _summed(grad: Tensor, shape: Any) -> Tensor:
    if grad.shape == shape:
        return grad
    return grad.sum_to_size(shape) if shape else grad.sum()


def zeros(ctx: Any, output: int) -> Tensor:
    """Return zeros for the cotangent or tangent of an output."""
    shape, kind, device = ctx.outputs[output]
    return torch.zeros(shape, dtype=kind, device=device)


@contextlib.contextmanager
def primals(ctx: Any) -> Iterator[Any]:
    """Yield what jvp saved, without this level's tangents, and enable forward mode.

    torch calls jvp with forward mode off, and jvp of jvp would be zero (pytorch#197867).
    """
    with _set_forward_mode(True):
        found = ctx.saved_tensors
        yield [t if t is None else _primal(t) for t in found[: len(found) - ctx.residuals]]


def _primal(t: Any) -> Any:
    """Return ``t`` without this level's tangent; unpack_dual has no vmap rule, hence the walk."""
    if not (_CAN_LOOK_INSIDE and _is_batched(t)):
        return _forward_ad.unpack_dual(t, level=0).primal
    inner = _primal(_unwrap(t))
    return _add_batch_dim(inner, _batch_dim_of(t), _level_of(t))


def tangent(ctx: Any, value: Tensor, output: int = 0) -> Tensor:
    """Give the tangent of an output its shape and dtype."""
    shape, kind, _ = ctx.outputs[output]
    return value.expand(shape).to(kind)


def own(value: Tensor) -> Tensor:
    """Return a result as a tensor of its own: of a view autograd lets nobody change an element in place, and wants a
    tangent that lies in memory as it does. Compilers, which may differentiate forward, get it as it is."""
    return value if torch.compiler.is_compiling() else value.detach()


class Sum:
    """The terms of an output's tangent, added up in its shape and dtype."""

    def __init__(self, ctx: Any, output: int = 0) -> None:
        self.ctx = ctx
        self.output = output
        self.total: Tensor | None = None

    def __iadd__(self, term: Tensor) -> Sum:
        self.total = added(self.total, term)
        return self

    def result(self) -> Tensor:
        """Return the tangent; zeros where there is no term."""
        if self.total is None:
            return zeros(self.ctx, self.output)
        return tangent(self.ctx, self.total, self.output)


class Saved:
    """A context whose saved tensors have been read, which may happen only once."""

    def __init__(self, ctx: Any, saved: Any, needs: Any = None) -> None:
        self._ctx = ctx
        self.saved_tensors = saved
        if needs is not None:
            self.needs_input_grad = needs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


# -------------------------------------------------------------------------- the way into a Function
def entry(
    function: Any,
    *,
    outputs: int = 1,
    residuals: int = 0,
    surrogate: Any = None,
    kernels: Any = None,
    extern: Any = None,
    exported: Any = None,
) -> Callable[..., Any]:
    """Return the cheapest way into a Function that is right for whoever watches the call.

    It drops the ``residuals``, which are the last results of forward. ``surrogate`` serves tracers
    and compilers, where these would lose the rule of the Function; ``kernels`` plain calls, as
    functions that are ``extern`` do, which leave no residuals; ``exported`` torch.export.
    """
    bare = without_residuals(function, outputs, residuals)
    if extern is not None:
        function, residuals, kernels = bare, 0, extern
    members = {name: value for name, value in vars(bare).items() if name != "jvp"}
    traced: Any = type(function.__name__, (Function,), members)  # Dynamo refuses a jvp
    compiled = surrogate or traced.apply
    scripted = surrogate or bare.forward  # torch.jit.save refuses a Function
    infer, record, quick = (bare.forward, function, None) if kernels is None else kernels.serve(function, outputs)
    above: Any = super(Function, record)
    direct = above.apply  # Function.apply binds a signature: 12 us
    is_compiling = torch.compiler.is_compiling

    def call(*args: Any) -> Any:
        if is_compiling():
            return exported(*args) if exported is not None and is_exporting() else compiled(*args)
        if in_functorch():
            return bare.apply(*(args if outputs == 1 else _batched_alike(args)))
        if in_jit_trace():
            return scripted(*args)
        if not is_recorded(args):
            return infer(*args)
        results = direct(*args)
        if not residuals:
            return results
        return results[0] if outputs == 1 else results[:outputs]

    return call if quick is None or residuals else quick(call)


def is_recorded(args: tuple[Any, ...]) -> bool:
    """Tell whether autograd records a call with these arguments, or forward mode is on."""
    return reverse_mode(args) or forward_mode()


def reverse_mode(args: tuple[Any, ...]) -> bool:
    """Tell whether autograd records a call with these arguments."""
    if torch.is_grad_enabled():
        for value in args:
            if isinstance(value, Tensor) and value.requires_grad:
                return True
    return False


def without_residuals(function: Any, outputs: int, residuals: int) -> Any:
    """Return the Function without residuals, for those who would not read them."""
    if not residuals:
        return function
    nothing = (None,) * residuals
    # Dynamo follows functions, and not those of a Function.
    own_forward, own_setup = function.forward, function.setup_context
    own_backward, own_jvp = function.backward, function.jvp

    def shown(results: Any) -> Any:
        return results[0] if outputs == 1 else results[:outputs]

    def forward(*args: Any) -> Any:
        return shown(own_forward(*args))

    def setup_context(ctx: Any, inputs: Any, results: Any) -> None:
        own = (results,) if outputs == 1 else tuple(results)
        own_setup(ctx, inputs, (*own, *nothing))

    def backward(ctx: Any, *grads: Any) -> Any:
        return own_backward(ctx, *grads, *nothing)

    def jvp(ctx: Any, *tangents: Any) -> Any:
        return shown(own_jvp(ctx, *tangents))

    # Dynamo gives forward a context as well, unless its signature has as many parameters as there are arguments.
    forward.__signature__ = inspect.signature(own_forward)  # type: ignore[attr-defined]
    bare = function_like(function, forward=forward, setup_context=setup_context, backward=backward, jvp=jvp)
    bare.generate_vmap_rule = True
    return bare


def function_like(function: Any, **methods: Any) -> Any:
    """Return a Function with methods of its own, named as another."""
    members = {"__module__": function.__module__, "__doc__": function.__doc__}
    return type(function.__name__, (Function,), {**members, **{name: staticmethod(m) for name, m in methods.items()}})


def _batched_alike(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments, all batched where one is.

    torch counts what an output that is not batched gives to a gradient once for each element of the
    batch, if another output of the Function is batched. What is batched alike has no such outputs.
    """
    given = [t for t in args if isinstance(t, Tensor)]
    if _CAN_LOOK_INSIDE and len({_batch_levels(t) for t in given}) == 1:
        return args
    nowhere: Any = False
    for t in given:
        nowhere = t.detach().new_zeros((), dtype=torch.bool) | nowhere
    return tuple(t.masked_fill(nowhere, 0) if isinstance(t, Tensor) else t for t in args)


def _batch_levels(t: Any) -> frozenset[int]:
    """Return the levels of vmap that batch a tensor."""
    found = set()
    while _is_wrapped(t):
        if _is_batched(t):
            found.add(_level_of(t))
        t = _unwrap(t)
    return frozenset(found)


def overwrite(target: Tensor, value: Tensor) -> Tensor:
    """Copy a result over a tensor. Raises RuntimeError, as torch does, where its dtype cannot hold it."""
    if not torch.can_cast(value.dtype, target.dtype):
        raise RuntimeError(f"result type {value.dtype} can't be cast to the desired output type {target.dtype}")
    return target.copy_(value)


# --------------------------------------------------------------------------- rules that specs give
def straight_through(value: Tensor, surrogate: Tensor) -> Tensor:
    """Return the value with the derivative of the surrogate."""
    zero = torch.where(surrogate.isfinite(), surrogate - surrogate.detach(), 0)
    return value.detach() + zero.to(value.dtype)


def refuse_compilers(op: str, exports: bool = False) -> None:
    """Raise where a compiler would drop the gradient rule of a Function in silence.

    ``exports``: torch.export keeps it, in an operator of torch.library.
    """
    if not torch.is_grad_enabled():
        return
    compiling = torch.compiler.is_compiling()
    if compiling and (in_functorch() or (is_exporting() and not exports)):
        raise NotImplementedError(
            f"{op}: torch.export and torch.func inside torch.compile lose this gradient; "
            "export under torch.no_grad(), or call torch.func outside torch.compile"
        )
    if not compiling and in_jit_trace():
        raise NotImplementedError(f"{op}: torch.jit.trace loses this gradient; trace it under torch.no_grad()")


def refuse_tangent(op: str, name: str, tangent: Tensor | None) -> None:
    """Raise for the tangent of a tensor whose gradient rule has no forward mode."""
    if tangent is not None:
        raise RuntimeError(f"{op}: no forward mode in {name}, whose gradient rule is not linear in the cotangent")


def once(op: str, *grads: Any) -> Any:
    """Return gradients so that differentiating them raises."""
    if not torch.compiler.is_compiling() and differentiated():
        grads = tuple(None if g is None else _once(g, op) for g in grads)
    return grads[0] if len(grads) == 1 else grads


class _Once(Function):
    """The identity, on the gradient of an operation whose gradient is not to be differentiated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(grad: Tensor, op: str) -> Tensor:
        return grad.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _, ctx.op = inputs

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(f"{ctx.op}: has no second derivative (double_backward: false)")

    jvp = backward


_once: Any = _Once.apply


# --------------------------------------------------------------------------------- tensor operations
def shape_of(function: Callable[..., Tensor], *shapes: Any) -> torch.Size:
    """Return the shape of a result without computing it."""
    return function(*(torch.empty(shape, device="meta") for shape in shapes)).shape


def broadcast_shapes(*shapes: Any) -> Any:
    """Return the shape that these broadcast to."""
    return _broadcast_shapes(*shapes)


def conform(value: Tensor, shape: Any) -> Tensor:
    """Sum where the shape has size 1 or no dimension, expand where the value has so itself."""
    missing = len(shape) - value.dim()
    value = value.reshape((1,) * missing + value.shape)
    own = value.shape[value.dim() - len(shape) :]
    return value.sum_to_size([1 if n == 1 else k for k, n in zip(own, shape, strict=True)]).expand(shape)


def count(shape: Any, *dims: int) -> int:
    """Return the number of elements along some dimensions; a scalar has one."""
    return math.prod([shape[d] for d in dims]) if shape else 1


def size_quotient(over: float, under: float) -> float:
    """Return a quotient by a size, which may be 0, as torch has it."""
    return over / under if under else over * math.inf


def log_of_size(size: float) -> float:
    """Return the logarithm of a size, which may be 0."""
    return math.log(size) if size else -math.inf


def bounded(x: Tensor) -> Tensor:
    """Return an exponent of what divides; finite if something may be differentiated: 0 * inf is no number."""
    if not differentiated() or not x.is_floating_point():
        return x
    most = math.log(torch.finfo(x.dtype).max) - 0.01
    return x.clamp(-most, most)


def bounded_below(x: Tensor) -> Tensor:
    """Return an argument of erfcx, which grows as exp(x**2) below 0, where that divides; as `bounded` does."""
    if not differentiated() or not x.is_floating_point():
        return x
    return x.clamp(min=-math.sqrt(math.log(torch.finfo(x.dtype).max) - 5))  # its slope is finite there, too


def expm1(x: Tensor) -> Tensor:
    """Return torch.expm1; torch differentiates it as expm1(x) + 1, of which nothing is left far below 0."""
    if not differentiated():
        return torch.expm1(x)
    return torch.where(x < -1, torch.exp(x.clamp(max=0)) - 1, torch.expm1(x))


def sigmoid(x: Tensor) -> Tensor:
    """Return torch.sigmoid; torch differentiates it by its distance from 1, of which nothing is left far above 0."""
    if not differentiated():
        return torch.sigmoid(x)
    return torch.where(x > 0, 1 - torch.sigmoid(-x), torch.sigmoid(x))


def tanh(x: Tensor) -> Tensor:
    """Return torch.tanh; torch differentiates it by its distance from 1, of which nothing is left far from 0."""
    if not differentiated():
        return torch.tanh(x)
    far = torch.where(x > 0, 1 - 2 * torch.sigmoid(-2 * x), 2 * torch.sigmoid(2 * x) - 1)
    return torch.where(x.abs() > 1, far, torch.tanh(x))


def masked(value: Tensor, mask: Tensor) -> Tensor:
    """Return the value where the mask is true, else 0: on a CPU with a kernel for whole vectors."""
    if not value.is_cpu:
        return torch.where(mask, value, 0)
    chosen: Tensor = torch.ops.aten.threshold_backward(value, mask.to(value.dtype), 0)
    return chosen


def var(x: Tensor, dim: int | tuple[int, ...] | None = None, *, correction: float = 1, keepdim: bool = False) -> Tensor:
    """Return the variance: on a CPU by operations on whole vectors, which torch's own is not.

    What rounding of the mean adds is taken out again (Chan, Golub and LeVeque, 1983), so that it is 0 of equal numbers.
    In half precision squares would overflow where the variance does not.
    """
    if not x.is_cpu:
        return x.var(dim, correction=correction, keepdim=keepdim)
    kind = x.dtype
    x = x.float() if kind in _HALF else x
    mean = x.mean(dim, keepdim=True)
    centred, count = x - mean, x.numel() // max(mean.numel(), 1)
    squares, left = (centred * centred).sum(dim, keepdim=keepdim), centred.sum(dim, keepdim=keepdim)
    rounding = left * left / max(count, 1)
    rounding = torch.where(squares - rounding > 8 * torch.finfo(x.dtype).eps * squares, rounding, squares).detach()
    return ((squares - rounding) / max(count - correction, 0)).to(kind)


def guarded(value: Tensor, mask: Tensor, other: float) -> Tensor:
    """Return the value, or a harmless one where a mask hides what follows from it, if that may be differentiated."""
    return torch.where(mask, value, other) if differentiated() else value


def softmax_backward(grad: Tensor, y: Tensor, dim: int) -> Tensor:
    """Return ``y * (grad - sum(y * grad))``, the gradient through a softmax, in one pass."""
    if grad.shape != y.shape or grad.dtype != y.dtype:
        return y * (grad - (y * grad).sum(dim=dim, keepdim=True))
    product: Tensor = torch.ops.aten._softmax_backward_data(grad, y, dim, y.dtype)
    return product


def log_softmax_backward(grad: Tensor, y: Tensor, dim: int) -> Tensor:
    """Return ``grad - exp(y) * sum(grad)``, the gradient through a log-softmax, in one pass."""
    if grad.shape != y.shape or grad.dtype != y.dtype:
        return grad - torch.exp(y) * grad.sum(dim=dim, keepdim=True)
    diff: Tensor = torch.ops.aten._log_softmax_backward_data(grad, y, dim, y.dtype)
    return diff


def cumsum_backward(x: Tensor, dim: int) -> Tensor:
    """Sum each element and all that follow it; a scalar is its own sum (flip fails under vmap)."""
    return x.flip(dim).cumsum(dim).flip(dim) if x.dim() else x


def drop(value: Tensor, dim: Any) -> Tensor:
    """Remove dimensions of size 1; a scalar has none (squeeze raises under vmap)."""
    return value.squeeze(dim) if value.dim() else value


def restore(value: Tensor, dim: Any, shape: Any) -> Tensor:
    """Give a reduced value the dimensions ``dim`` again, of size 1, if they are gone."""
    if value.dim() == len(shape):
        return value
    if not isinstance(dim, tuple):  # perhaps symbolic, which torch.compile cannot sort
        return value.unsqueeze(dim)
    for d in sorted(d % len(shape) for d in dim):
        value = value.unsqueeze(d)
    return value


def put_along(value: Tensor, index: Tensor, shape: Any, dim: int) -> Tensor:
    """Return zeros of a shape with ``value`` at ``index`` along ``dim``; no place twice."""
    zeros = value.new_zeros(shape)
    return zeros.scatter(dim, index, value) if in_functorch() else zeros.scatter_(dim, index, value)


def add_along(value: Tensor, index: Tensor, shape: Any, dim: int) -> Tensor:
    """Return zeros of ``shape`` to which ``value`` is added at ``index`` along ``dim``."""
    zeros = value.new_zeros(shape)
    return zeros.scatter_add(dim, index, value) if in_functorch() else zeros.scatter_add_(dim, index, value)


def lookup(x: Tensor, index: Tensor, dim: int) -> Tensor:
    """Return the slices of ``x`` that ``index`` names along ``dim``, in whose place the dimensions of it stand."""
    place = dim % x.dim()
    found = x.index_select(place, index.reshape(-1))
    return found if index.dim() == 1 else found.reshape((*x.shape[:place], *index.shape, *x.shape[place + 1 :]))


def add_slices(value: Tensor, index: Tensor, shape: Any, dim: int) -> Tensor:
    """Return zeros of ``shape`` to which the slices of ``value`` are added at ``index`` along ``dim``."""
    place = dim % len(shape)
    rows = value.reshape((*shape[:place], index.numel(), *shape[place + 1 :]))
    return _added(value.new_zeros(shape), place, index.reshape(-1), rows)


def segment_sum(x: Tensor, index: Tensor, size: int, dim: int) -> Tensor:
    """Sum the slices of ``x`` along ``dim`` that have the same number in ``index``, of ``size`` numbers."""
    place = dim % x.dim()
    return _added(x.new_zeros((*x.shape[:place], size, *x.shape[place + 1 :])), place, index, x)


def _added(zeros: Tensor, place: int, index: Tensor, slices: Tensor) -> Tensor:
    """Return zeros to which slices are added, in their own memory where no transformation forbids that."""
    return zeros.index_add(place, index, slices) if in_functorch() else zeros.index_add_(place, index, slices)


def segment_extremum(x: Tensor, index: Tensor, size: int, dim: int, reduce: str) -> Tensor:
    """Return the extrema of the slices along ``dim`` with the same number in ``index``; 0 where there is none."""
    place = dim % x.dim()
    zeros = x.new_zeros((*x.shape[:place], size, *x.shape[place + 1 :]))
    where = index.reshape([-1 if k == place else 1 for k in range(x.dim())]).expand(x.shape)
    return zeros.scatter_reduce(place, where, x, reduce, include_self=False)


def cat(parts: tuple[Tensor, ...], dim: int) -> Tensor:
    """Join tensors; single elements one beside the other tensor by tensor, where torch copies them one at a time."""
    first = parts[0]
    plain = not (torch.compiler.is_compiling() or in_jit_trace() or differentiated())
    if not (plain and first.is_cpu and first.numel() >= _MANY and first.shape[dim] == 1):
        return torch.cat(parts, dim)
    if any(type(p) is not Tensor or p.shape != first.shape or p.dtype != first.dtype for p in parts):
        return torch.cat(parts, dim)
    sizes = list(first.shape)
    sizes[dim] = len(parts)
    joined = first.new_empty(sizes)
    for k, part in enumerate(parts):
        joined.narrow(dim, k, 1).copy_(part)
    return joined


_MANY = 1024  # elements, of which copying takes longer than the calls


def slice_back(value: Tensor, shape: Any, dim: int, start: int, stop: int | None, step: int) -> Tensor:
    """Return zeros of ``shape`` with ``value`` in a slice along ``dim``."""
    place = dim % len(shape)
    size = shape[place]
    first, last = _place(start, size), size if stop is None else _place(stop, size)
    if step == 1:
        edges = [0, 0] * (len(shape) - 1 - place)
        return torch.constant_pad_nd(value, [*edges, first, size - max(first, last)])
    put: Tensor = torch.ops.aten.slice_backward(value, list(shape), place, first, max(first, last), step)
    return put


def slice_added(value: Tensor, part: Tensor, dim: int, start: int) -> Tensor:
    """Return ``value``, which nobody else reads, with ``part`` added from ``start`` on along ``dim``: in its own
    memory, but where a derivative or a transformation may need what it was."""
    size, length = value.shape[dim], part.shape[dim]
    first = _place(start, size)
    if torch.is_grad_enabled() or in_functorch() or part.dtype != value.dtype:
        return value + slice_back(part, value.shape, dim, first, first + length, 1)
    value.narrow(dim, first, length).add_(part)
    return value


def _place(bound: int, size: Any) -> Any:
    """Return where a bound of a slice lies; compilers do not follow ``slice.indices``."""
    return max(bound + size, 0) if bound < 0 else min(bound, size)


def between(x: Tensor, start: int, stop: int, dim: int) -> Tensor:
    """Return the slice along ``dim`` from bounds of a call. Raises ValueError where they are not in order within it."""
    first, last = _bounds(x.shape[dim], start, stop)
    return x.narrow(dim, first, last - first)


def between_back(value: Tensor, shape: Any, start: int, stop: int, dim: int) -> Tensor:
    """Return zeros of ``shape`` with ``value`` between bounds of a call."""
    return slice_back(value, shape, dim, *_bounds(shape[dim], start, stop), 1)


def place_back(value: Tensor, shape: Any, index: int, dim: int) -> Tensor:
    """Return zeros of ``shape`` with ``value`` at one place, from the end where it is negative."""
    start = index % shape[dim]
    return slice_back(value, shape, dim, start, start + 1, 1)


def _bounds(size: int, start: int, stop: int) -> tuple[int, int]:
    first = start + size if start < 0 else start
    last = stop + size if stop < 0 else stop
    if not 0 <= first <= last <= size:
        raise ValueError(f"a dimension of size {size} has no slice {start}:{stop}")
    return first, last


def flatten(x: Tensor, start: int, end: int) -> Tensor:
    """Return ``x`` with the dimensions from ``start`` to ``end`` as one."""
    if not x.dim():
        return x.reshape((1,))
    first, last = start % x.dim(), end % x.dim() + 1
    return x.reshape((*x.shape[:first], math.prod(x.shape[first:last]), *x.shape[last:]))


def unflatten(x: Tensor, dim: int, *sizes: int) -> Tensor:
    """Return ``x`` with a dimension divided into several."""
    place = dim % x.dim()
    return x.reshape((*x.shape[:place], *sizes, *x.shape[place + 1 :]))


def chunk(x: Tensor, chunks: int, dim: int) -> tuple[Tensor, ...]:
    """Return equal parts along ``dim``. Raises ValueError where there are none."""
    size = x.shape[dim]
    if size % chunks:
        raise ValueError(f"a dimension of size {size} has no {chunks} equal parts")
    return torch.split(x, size // chunks, dim) if size else (x,) * chunks


def chunk_back(value: Tensor, shape: Any, chunks: int, dim: int, index: int) -> Tensor:
    """Return zeros of ``shape`` with ``value`` as one of the equal parts along ``dim``."""
    size = shape[dim] // chunks
    return slice_back(value, shape, dim, index * size, (index + 1) * size, 1)


def part(value: Tensor, dim: int, *shapes: Any) -> Tensor:
    """Return the part of ``value`` along ``dim`` that is of the last one of ``shapes``, after the others."""
    *before, own = (shape[dim] for shape in shapes)
    return value.narrow(dim, sum(before), own)


def avg_pool_back(value: Tensor, shape: Any, kernel: Any, stride: Any, padding: Any, dims: int) -> Tensor:
    """Return the transposed of a mean over windows: each element, spread over its window, in a tensor of ``shape``."""
    sizes, steps, edges = (
        k if isinstance(k, tuple) else (k,) * dims for k in (kernel, kernel if stride is None else stride, padding)
    )
    conv = (torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d)[dims - 1]
    more = [
        n - (m - 1) * s + 2 * p - k
        for n, m, k, s, p in zip(shape[-dims:], value.shape[-dims:], sizes, steps, edges, strict=True)
    ]
    weight = value.new_full((1, 1, *sizes), 1 / math.prod(sizes))
    planes = value.reshape((-1, 1, *value.shape[-dims:]))
    return conv(planes, weight, stride=steps, padding=edges, output_padding=more).reshape(shape)


def others(x: Tensor, dim: int | None) -> Tensor:
    """Return the product of all other elements along ``dim``, also right where one is 0."""
    if dim is None:
        return others(x.reshape(-1), 0).reshape(x.shape)
    if x.dim() == 0 or x.shape[dim] == 0:
        return torch.ones_like(x)
    ones, size = torch.ones_like(x.narrow(dim, 0, 1)), x.shape[dim] - 1
    before = torch.cat((ones, x.narrow(dim, 0, size)), dim).cumprod(dim)
    after = torch.cat((x.narrow(dim, 1, size), ones), dim).flip(dim).cumprod(dim).flip(dim)
    return before * after


def others_slope(x: Tensor, grad: Tensor, dim: int | None) -> Tensor:
    """Multiply ``grad`` by the (symmetric) derivative of ``others``."""
    if dim is None:
        return others_slope(x.reshape(-1), grad.reshape(-1), 0).reshape(x.shape)
    if x.dim() == 0:
        return torch.zeros_like(x)
    x, grad = x.movedim(dim, -1), grad.movedim(dim, -1)
    own = torch.eye(x.shape[-1], dtype=torch.bool, device=x.device)
    pairs = others(torch.where(own, 1, x.unsqueeze(-2)), -1)
    return (grad.unsqueeze(-1) * torch.where(own, 0, pairs)).sum(-2).movedim(-1, dim)


def shift(x: Tensor, dim: int, step: int, fill: float = 0) -> Tensor:
    """Return each element of ``x`` a place further along ``dim``, or back for a step of -1; ``fill`` comes after."""
    if x.dim() == 0 or x.shape[dim] == 0:
        return torch.full_like(x, fill)
    size = x.shape[dim] - 1
    vacant = torch.full_like(x.narrow(dim, 0, 1), fill)
    kept = x.narrow(dim, 0 if step > 0 else 1, size)
    return torch.cat((vacant, kept) if step > 0 else (kept, vacant), dim)


def scan(decay: Tensor, x: Tensor, dim: int) -> Tensor:
    """Return ``s[k] = decay[k]*s[k-1] + x[k]`` along ``dim``: of pairs first, and from these of what lies between."""
    if x.dim() == 0:
        return x.clone()
    decay, x, dim, half = _halved(decay, x, dim)
    if half == 0:
        return x
    if x.shape[dim] > 2 * half:
        before = scan(decay.narrow(dim, 0, 2 * half), x.narrow(dim, 0, 2 * half), dim)
        last, own = before.narrow(dim, 2 * half - 1, 1), decay.narrow(dim, 2 * half, 1)
        return torch.cat((before, torch.addcmul(x.narrow(dim, 2 * half, 1), own, last)), dim)
    decay_even, decay_odd = unflatten(decay, dim, half, 2).unbind(dim + 1)
    even, odd = unflatten(x, dim, half, 2).unbind(dim + 1)
    odd = scan(decay_even * decay_odd, torch.addcmul(odd, decay_odd, even), dim)
    even = torch.addcmul(even, decay_even, shift(odd, dim, 1))
    return flatten(torch.stack((even, odd), dim + 1), dim, dim + 1)


def scan_back(decay: Tensor, x: Tensor, dim: int) -> Tensor:
    """Return ``r[k] = x[k] + decay[k+1]*r[k+1]`` along ``dim``, the transposed of ``scan`` in ``x``."""
    if x.dim() == 0:
        return x.clone()
    decay, x, dim, half = _halved(decay, x, dim)
    if half == 0:
        return x
    if x.shape[dim] > 2 * half:
        after = scan_back(decay.narrow(dim, 1, 2 * half), x.narrow(dim, 1, 2 * half), dim)
        first, own = after.narrow(dim, 0, 1), decay.narrow(dim, 1, 1)
        return torch.cat((torch.addcmul(x.narrow(dim, 0, 1), own, first), after), dim)
    decay_even, decay_odd = unflatten(decay, dim, half, 2).unbind(dim + 1)
    even, odd = unflatten(x, dim, half, 2).unbind(dim + 1)
    even = scan_back(shift(decay_odd, dim, 1) * decay_even, torch.addcmul(even, decay_odd, odd), dim)
    odd = odd + shift(decay_even * even, dim, -1)
    return flatten(torch.stack((even, odd), dim + 1), dim, dim + 1)


def _halved(decay: Tensor, x: Tensor, dim: int) -> tuple[Tensor, Tensor, int, int]:
    """Return both in one shape, the dimension from the front, and how many pairs there are along it."""
    if decay.shape != x.shape:
        shape = broadcast_shapes(decay.shape, x.shape)
        decay, x = decay.expand(shape), x.expand(shape)
    return decay, x, dim % x.dim(), x.shape[dim] // 2


def det(x: Tensor) -> Tensor:
    """Return the determinant; torch's own loses terms of its derivatives in nested forward mode."""
    return _by_rule(_Det, x)


def _pivots(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the diagonal of an LU factorisation, and the order of its rows, for a determinant: as torch's own does, of
    the transpose where that lies as LAPACK wants it."""
    factors, order, _ = torch.linalg.lu_factor_ex(x.mT if x.is_contiguous() else x)
    return factors.diagonal(dim1=-2, dim2=-1), order


def solve(a: Tensor, b: Tensor) -> Tensor:
    """Return the solution for matrices; torch's own has wrong tangents under two levels of vmap."""
    if in_functorch():
        return _by_rule(_Solve, a, b)
    found: Tensor = torch.linalg.solve(a, b)
    return found


def _by_rule(function: Any, *args: Tensor) -> Tensor:
    """Return what a Function gives; the operations in it, where compilers and tracers refuse one or nothing records."""
    plain = torch.compiler.is_compiling() or in_jit_trace() or not (in_functorch() or is_recorded(args))
    found: Tensor = function.forward(*args) if plain else function.apply(*args)
    return found


class _Solve(Function):
    """The solution for matrices, whose derivatives are solutions again."""

    generate_vmap_rule = True

    @staticmethod
    def forward(a: Tensor, b: Tensor) -> Tensor:
        dtype = torch.promote_types(a.dtype, b.dtype)
        found: Tensor = torch.linalg.solve(a.to(dtype), b.to(dtype))
        return found

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.dtype, ctx.residuals = inputs[1].dtype, 0
        ctx.save_for_backward(inputs[0], output)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        a, found = ctx.saved_tensors
        turned = solve(a.mT, grad)
        return -(turned @ found.to(turned.dtype).mT).to(a.dtype), turned.to(ctx.dtype)

    @staticmethod
    def jvp(ctx: Any, moved: Tensor | None, tangent: Tensor | None) -> Any:
        with primals(ctx) as (a, b):
            if moved is not None:
                tangent = -moved @ solve(a, b) if tangent is None else tangent - moved @ solve(a, b)
            return None if tangent is None else solve(a, tangent)


def logabsdet(x: Tensor) -> Tensor:
    """Return the logarithm of the size of the determinant."""
    return _pivots(x)[0].abs().log().sum(-1)


def logdet(x: Tensor) -> Tensor:
    """Return the logarithm of the determinant, NaN where that is negative."""
    pivots, order = _pivots(x)
    sign = pivots.detach().sign().prod(-1) * _sign(order)
    found: Tensor = pivots.abs().log().sum(-1) + sign.log()
    return found


def _sign(order: Tensor) -> Tensor:
    """Return the sign of the permutation of an LU factorisation."""
    places = torch.arange(1, order.shape[-1] + 1, device=order.device)
    return 1 - 2 * ((order != places).sum(-1) % 2)


def cofactor(x: Tensor) -> Tensor:
    """Return the derivative of ``det``, of matrices without an inverse too."""
    return _by_rule(_Cofactor, x)


def cofactor_slope(x: Tensor, direction: Tensor) -> Tensor:
    """Return the derivative of ``cofactor`` in a direction, of matrices without an inverse too."""
    return _by_rule(_CofactorSlope, x, direction)


class _OfMatrix(Function):
    """A function of matrices whose derivatives read its arguments."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.residuals = 0
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)


class _Det(_OfMatrix):
    """The determinant by the factors of the matrix, whose own derivatives are infinite without an inverse."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        pivots, order = _pivots(x)
        return pivots.prod(-1) * _sign(order)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grad[..., None, None] * cofactor(x)

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Any:
        with primals(ctx) as (x,):
            return (cofactor(x) * tangent).sum((-2, -1))


class _Cofactor(_OfMatrix):
    """The cofactors by the factors of the matrix, whose own derivatives are infinite without an inverse.

    A pivot that is 0 is replaced by what is far below an error of rounding: what it has in the inverse, the determinant
    takes back. Others stay, however small beside the largest: rows may be in different units.
    """

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        if x.numel() == 0:
            return torch.zeros_like(x)
        factors, order = torch.linalg.lu_factor_ex(x)[:2]
        pivots = factors.diagonal(dim1=-2, dim2=-1)
        largest = factors.abs().amax((-2, -1)).unsqueeze(-1)
        least = torch.finfo(x.dtype).eps ** 2 * torch.where(largest == 0, 1, largest)
        kept = torch.where(pivots.abs() < torch.finfo(x.dtype).tiny, least, pivots)
        close = factors + torch.diag_embed(kept - pivots)
        unit = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device).expand(x.shape)
        size: Tensor = kept.prod(-1) * _sign(order)
        inverse: Tensor = torch.linalg.lu_solve(close, order, unit)
        found: Tensor = size[..., None, None] * inverse.mT
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return cofactor_slope(x, grad)

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Any:
        with primals(ctx) as (x,):
            return cofactor_slope(x, tangent)


class _CofactorSlope(_OfMatrix):
    """The second derivative of ``det``, a symmetric form. Singular values are kept from 0 by an error of rounding."""

    @staticmethod
    def forward(x: Tensor, direction: Tensor) -> Tensor:
        if x.numel() == 0:
            return torch.zeros_like(x)
        x, (direction,), back = _in_one_unit(x, direction)
        left, right, size, inverse = _singular(x)
        turned = left.mT @ direction @ right.mT
        others = size * inverse.unsqueeze(-1) * inverse.unsqueeze(-2)
        others = others - torch.diag_embed(others.diagonal(dim1=-2, dim2=-1))  # products of all but two
        shares = (turned.diagonal(dim1=-2, dim2=-1).unsqueeze(-2) * others).sum(-1)
        found: Tensor = back * (left @ (torch.diag_embed(shares) - others * turned.mT) @ right)
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, direction = ctx.saved_tensors
        return _by_rule(_CofactorBend, x, direction, grad), cofactor_slope(x, grad)

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor | None, moved: Tensor | None) -> Any:
        with primals(ctx) as (x, direction):
            terms = [] if moved is None else [cofactor_slope(x, moved)]
            if tangent is not None:
                terms.append(_by_rule(_CofactorBend, x, direction, tangent))
            return functools.reduce(torch.add, terms)


class _CofactorBend(_OfMatrix):
    """The third derivative of ``det``, a symmetric form. What is beyond it is of matrices that have an inverse."""

    @staticmethod
    def forward(x: Tensor, direction: Tensor, other: Tensor) -> Tensor:
        if x.numel() == 0:
            return torch.zeros_like(x)
        x, (direction, other), back = _in_one_unit(x, direction, other)
        left, right, size, inverse = _singular(x)
        a, b = (left.mT @ way @ right.mT for way in (direction, other))
        p, q = (way.diagonal(dim1=-2, dim2=-1) for way in (a, b))
        same = torch.eye(x.shape[-1], dtype=torch.bool, device=x.device)
        pairs = inverse.unsqueeze(-1) * inverse.unsqueeze(-2)
        others = (size * pairs).unsqueeze(-1) * inverse[..., None, None, :]
        others = others.masked_fill(same.unsqueeze(-1) | same.unsqueeze(-2) | same, 0)  # products of all but three

        def shared(*ways: Tensor) -> Tensor:
            return torch.einsum("...ijk,...ij,...jk->...ki", others, *ways)

        mixed = p.unsqueeze(-1) * q.unsqueeze(-2) - a * b.mT
        shares = torch.einsum("...ijk,...ij->...k", others, mixed)
        apart = (
            torch.einsum("...ijk,...j->...ki", others, q) * a.mT + torch.einsum("...ijk,...j->...ki", others, p) * b.mT
        )
        found: Tensor = back * (left @ (torch.diag_embed(shares) + shared(a, b) + shared(b, a) - apart) @ right)
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, direction, other = ctx.saved_tensors
        (slope,) = torch.func.vjp(lambda at: _third_of_det(at, direction, other), x)[1](grad)
        return slope, _by_rule(_CofactorBend, x, other, grad), _by_rule(_CofactorBend, x, direction, grad)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Any:
        with primals(ctx) as own:
            moved, terms = tangents[0], []
            if moved is not None:
                terms.append(torch.func.jvp(lambda at: _third_of_det(at, *own[1:]), (own[0],), (moved,))[1])
            for other, tangent in zip(own[:0:-1], tangents[1:], strict=True):
                if tangent is not None:
                    terms.append(_by_rule(_CofactorBend, own[0], other, tangent))
            return functools.reduce(torch.add, terms)


def _in_one_unit(x: Tensor, *ways: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
    """Return a matrix whose rows and columns are in units of their own, powers of 2, as one of about 1 everywhere, with
    directions in which it moves, and the factors of what a derivative of its determinant is to that of the first.

    An error of rounding of the largest element may be more than the elements of another row.
    """

    def units(dim: int, beside: Tensor | float) -> Tensor:
        largest = (x * beside).abs().amax(dim, keepdim=True)
        return torch.where((largest > 0) & largest.isfinite(), largest, 1).log2().floor()

    rows = units(-1, 1)
    columns = units(-2, torch.exp2(-rows))
    scale = torch.exp2(-rows - columns)
    back = torch.exp2(rows.sum(-2, keepdim=True) + columns.sum(-1, keepdim=True) - rows - columns)
    return x * scale, [way * scale for way in ways], back


def _singular(x: Tensor) -> tuple[Tensor, ...]:
    """Return the factors of a singular value decomposition, the determinant and 1 over the singular values.

    These are kept from 0 by an error of rounding. A matrix that is not finite, of which torch raises an error, has a
    determinant that is no number.
    """
    finite = x.isfinite().all(-1).all(-1)[..., None, None]
    left, sizes, right = torch.linalg.svd(torch.where(finite, x, 0))
    largest = sizes[..., :1]
    sizes = torch.maximum(sizes, torch.finfo(x.dtype).eps * torch.where(largest == 0, 1, largest))
    sign = (torch.linalg.det(left) * torch.linalg.det(right)).sign()
    return left, right, torch.where(finite, (sign * sizes.prod(-1))[..., None, None], torch.nan), 1 / sizes


def _third_of_det(x: Tensor, direction: Tensor, other: Tensor) -> Tensor:
    """Return the third derivative of ``det``, of a matrix that has an inverse."""
    turned, size, slope = torch.linalg.inv_ex(x).inverse.mT, cofactor(x), cofactor_slope(x, direction)

    def along(way: Tensor) -> Any:
        return turned @ way.mT @ size

    def share(value: Tensor, way: Tensor) -> Any:
        return (value * way).sum((-2, -1))[..., None, None]

    mixed = other @ turned.mT @ direction + direction @ turned.mT @ other
    both = share(turned, other) * along(direction) + share(turned, direction) * along(other)
    found: Tensor = share(slope, other) * turned - both + along(mixed)
    return found


_GOLDEN, _FIRST, _SECOND = -0x61C8864680B583EB, -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15  # as signed integers


def random_bits(shape: Any, seed: Any, like: Tensor) -> Tensor:
    """Return 23 random bits for each place of a tensor, the same for a seed wherever they are drawn (SplitMix64).

    They are whole numbers in the dtype of ``like``, float32 at least.
    """
    if not isinstance(seed, Tensor):
        seed = torch.full((), seed, dtype=torch.int64, device=like.device)
    places = torch.arange(1, shape.numel() + 1, device=like.device).reshape(shape)
    dtype = torch.promote_types(like.dtype, torch.float32)
    return ((_mixed(_mixed(seed.long()) + places * _GOLDEN) >> 41) & 0x7FFFFF).to(dtype)


def _mixed(bits: Tensor) -> Tensor:
    """Return the finaliser of SplitMix64: integers that differ in any bit differ in about half of all."""
    bits = (bits ^ ((bits >> 30) & 0x3FFFFFFFF)) * _FIRST
    bits = (bits ^ ((bits >> 27) & 0x1FFFFFFFFF)) * _SECOND
    return bits ^ ((bits >> 31) & 0x1FFFFFFFF)


def rows(x: Tensor) -> Tensor:
    """Return a tensor as the matrix of its rows."""
    if x.dim() == 2:
        return x
    return x.reshape(x.shape[:-1].numel(), x.shape[-1]) if x.dim() > 1 else x.unsqueeze(0)


def matmul_left(grad: Tensor, b: Tensor, shape: Any) -> Tensor:
    """Return the gradient of ``a @ b`` with respect to ``a``, of this shape."""
    if b.dim() == 1:
        product = grad.unsqueeze(-1) * b
    elif len(shape) == 1:
        return (b @ grad.unsqueeze(-1)).squeeze(-1).sum_to_size(shape)
    else:
        product = grad @ b.mT
    return product.sum_to_size(shape)


def matmul_right(a: Tensor, grad: Tensor, shape: Any) -> Tensor:
    """Return the gradient of ``a @ b`` with respect to ``b``, of this shape."""
    if a.dim() == 1:
        return a * grad if len(shape) == 1 else (a.unsqueeze(-1) * grad.unsqueeze(-2)).sum_to_size(shape)
    if len(shape) == 1:
        return rows(a).mT @ grad.reshape(-1)
    if len(shape) == 2:
        return rows(a).mT @ rows(grad)
    return (a.mT @ grad).sum_to_size(shape)


def einsum(equation: str, *operands: Tensor) -> Tensor:
    """Return torch.einsum as matrix products: it has no rule for cotangents batched by autograd."""
    inputs, output = equation.split("->")
    terms = inputs.split(",")
    ranks = [x.dim() - len(t.replace("...", "")) for t, x in zip(terms, operands, strict=True)]
    spread = "".join(chr(0x3B1 + k) for k in range(max(ranks)))  # Greek letters for `...`, right to left
    terms = [t.replace("...", spread[:n][::-1]) for t, n in zip(terms, ranks, strict=True)]
    output = output.replace("...", spread[::-1])
    values = list(zip(operands, terms, strict=True))
    while len(values) > 1:
        pairs = [(i, j) for j in range(len(values)) for i in range(j)]
        sizes = [_result_size(values, i, j, output) for i, j in pairs]
        i, j = pairs[sizes.index(min(sizes))]
        second, first = values.pop(j), values.pop(i)
        values.append(_contracted(*first, *second, output + "".join(term for _, term in values)))
    ((value, letters),) = values
    return value.permute([letters.index(c) for c in output])


def _result_size(values: list[tuple[Tensor, str]], i: int, j: int, output: str) -> int:
    """Return how many elements the product of two operands has: the pair with the fewest is multiplied first."""
    kept = output + "".join(term for k, (_, term) in enumerate(values) if k not in (i, j))
    sizes: dict[str, int] = {}
    for value, term in (values[i], values[j]):
        sizes |= {c: max(n, sizes.get(c, 1)) for c, n in zip(term, value.shape, strict=True)}
    size = 1
    for c, n in sizes.items():  # torch.compile follows no generator here
        if c in kept or (c in values[i][1]) != (c in values[j][1]):
            size *= n
    return size


def _contracted(a: Tensor, p: str, b: Tensor, q: str, kept: str) -> tuple[Tensor, str]:
    """Multiply ``a`` and ``b``, of dimensions ``p`` and ``q``; sum over those not ``kept``."""
    batch = [c for c in p if c in q and c in kept]
    summed = [c for c in p if c in q and c not in kept]
    left, right = [c for c in p if c not in q], [c for c in q if c not in p]
    a = a.permute([p.index(c) for c in (*batch, *left, *summed)])
    b = b.permute([q.index(c) for c in (*batch, *summed, *right)])
    n, m, s = len(batch), len(left), len(summed)
    lines, columns = a.shape[n : n + m], b.shape[n + s :]
    letters = "".join((*batch, *left, *right))
    if not summed:
        a = a.reshape((*a.shape, *[1] * len(right)))
        return a * b.reshape((*b.shape[:n], *[1] * m, *columns)), letters
    sizes = [k if j == 1 else j for j, k in zip(a.shape[n + m :], b.shape[n : n + s], strict=True)]
    a, b = a.expand((*a.shape[: n + m], *sizes)), b.expand((*b.shape[:n], *sizes, *columns))
    a = a.reshape((*a.shape[:n], math.prod(lines), math.prod(sizes)))
    product = a @ b.reshape((*b.shape[:n], math.prod(sizes), math.prod(columns)))
    return product.reshape((*product.shape[:n], *lines, *columns)), letters


def _conv_input(shape: Any, weight: Tensor, grad: Tensor, **how: Any) -> Any:
    """Return the gradient of a convolution in its input; torch's own takes batches only."""
    derivative = (_nn_grad.conv1d_input, _nn_grad.conv2d_input, _nn_grad.conv3d_input)[weight.dim() - 3]
    weight, grad = _autocast_all(weight, grad)
    if len(shape) < weight.dim():
        return derivative((1, *shape), weight, grad.unsqueeze(0), **how).squeeze(0)
    return derivative(shape, weight, grad, **how)


def _conv_weight(x: Tensor, shape: Any, grad: Tensor, **how: Any) -> Any:
    """Return the gradient of a convolution in its weight; torch's own takes batches only."""
    derivative = (_nn_grad.conv1d_weight, _nn_grad.conv2d_weight, _nn_grad.conv3d_weight)[len(shape) - 3]
    x, grad = _autocast_all(x, grad)
    if x.dim() < len(shape):
        x, grad = x.unsqueeze(0), grad.unsqueeze(0)
    return derivative(x, shape, grad, **how)


conv1d_input = conv2d_input = conv3d_input = _conv_input
conv1d_weight = conv2d_weight = conv3d_weight = _conv_weight
