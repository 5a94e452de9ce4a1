"""For every check of symgrad.testing, an operation that is broken in its way, and what it must say."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch.autograd import Function

from symgrad.testing import Accuracy, Input, Subject

Broken = tuple[Subject, str]


def scaled(x: Any, w: Any) -> Any:
    """The formula of most of the examples."""
    return x * x * w


class Scaled(Function):
    """A right Function, apart from nested forward mode and torch.compile, which dislike every jvp."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        return x * x * w

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad_y: Any) -> Any:
        if grad_y is None:
            return None, None
        x, w = ctx.saved_tensors
        grad_x = grad_w = None
        if ctx.needs_input_grad[0]:
            grad_x = (2 * x * w * grad_y).sum_to_size(x.shape).to(x.dtype)
        if ctx.needs_input_grad[1]:
            grad_w = (x * x * grad_y).sum_to_size(w.shape).to(w.dtype)
        return grad_x, grad_w

    @staticmethod
    def jvp(ctx: Any, tangent_x: Any, tangent_w: Any) -> Any:
        x, w = ctx.saved_tensors
        first = 0 if tangent_x is None else 2 * x * w * tangent_x
        second = 0 if tangent_w is None else x * x * tangent_w
        return first + second


class _LargePasses:
    """What a module has whose passes serve large tensors alone."""

    least, narrow, on = 2**16, 0, True

    def __init__(self) -> None:
        self.walks = {"forward": True}

    def can_compile(self) -> bool:
        return True

    def forget(self) -> None:
        pass


_with_passes: Any = ModuleType("symgrad_broken_passes")
_with_passes._kernels = _LargePasses()
sys.modules[_with_passes.__name__] = _with_passes


def _wrong_in_passes(x: Any, w: Any) -> Any:
    y = x * x * w
    return y if y.numel() < _with_passes._kernels.least else y + 0.01


_wrong_in_passes.__module__ = _with_passes.__name__


def of(function: Any, composite: Callable[..., Any] = scaled, **facts: Any) -> Subject:
    """A subject whose function is broken."""
    given = dict(facts)
    names = given.pop("names", ("x", "w") if composite is scaled else ("x",))
    inputs = given.pop("inputs", tuple(Input(n) for n in names))
    if isinstance(function, type):
        own = function

        def call(*tensors: Any, **settings: Any) -> Any:
            return own.apply(*tensors, *settings.values())

        given.setdefault("function", own)
        return Subject("broken", call, composite, inputs, **given)
    return Subject("broken", function, composite, inputs, **given)


def with_methods(**methods: Callable[..., Any]) -> Any:
    """`Scaled` with other methods."""
    return type("Changed", (Scaled,), {name: staticmethod(m) for name, m in methods.items()})


# ------------------------------------------------------------------------------------------ values
def _dropped(x: Any, w: Any) -> Any:
    y = x * x * w
    return torch.cat([y[..., :-1], 0 * y[..., -1:]], -1) if y.numel() > 512 else y


def _slope_at_zero(x: Any) -> Any:
    return torch.where(x >= 0, x, 0 * x)


def _unsafe_sigmoid(x: Any) -> Any:
    return torch.exp(x) / (1 + torch.exp(x))


# ------------------------------------------------------------------------------------------ derivatives
def _wrong_sign(ctx: Any, g: Any) -> Any:
    grad_x, grad_w = Scaled.backward(ctx, g)
    return grad_x, None if grad_w is None else -grad_w


class Kept(Function):
    """Keeps the square, an intermediate, and so loses its derivative."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x**3, x**2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, outputs: Any) -> None:
        ctx.mark_non_differentiable(outputs[1])
        ctx.save_for_backward(outputs[1])
        ctx.save_for_forward(outputs[1])

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any) -> Any:
        return 3 * ctx.saved_tensors[0] * g

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        return 3 * ctx.saved_tensors[0] * tangent, None


def cube(x: Any) -> Any:
    return x**3


def kept(x: Any) -> Any:
    return Kept.apply(x)[0]


def _eager_backward(ctx: Any, g: Any) -> Any:
    x, w = ctx.saved_tensors
    if g is None:
        return None, None
    return (2 * x * w * g).sum_to_size(x.shape).to(x.dtype), (x * x * g).sum_to_size(w.shape).to(w.dtype)


class Materialising(Scaled):
    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)


class Either(Function):
    """Forgets its second output where there is no cotangent of the first."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x * x, 3 * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, outputs: Any) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        if g is None:
            return None
        grad = 2 * ctx.saved_tensors[0] * g
        return grad if h is None else grad + 3 * h


def either(x: Any) -> Any:
    return x * x, 3 * x


# ------------------------------------------------------------------------------------------ torch.func
class WithoutVmap(Scaled):
    generate_vmap_rule = False


class WrongVmap(Scaled):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, w: Any) -> Any:
        return WrongVmap.apply(x, w), 0


def _first_tangent(ctx: Any, tangent_x: Any, tangent_w: Any) -> Any:
    return Scaled.jvp(ctx, tangent_x, None if tangent_w is None else -tangent_w)


class Reversed(Function):
    """Reverses gradients, but not tangents."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return None if g is None else -g

    @staticmethod
    def jvp(ctx: Any, tangent: Any) -> Any:
        return tangent.clone()


def reversal(grad_y: Any, x: Any) -> Any:
    return (-grad_y,)


def same(x: Any) -> Any:
    return x.clone()


def _floor_by_hand(x: Any) -> Any:
    return torch.floor(x) if float(x.sum()) < 1e9 else x


# ------------------------------------------------------------------------------------------ compilers
def _for_size_five(x: Any, w: Any) -> Any:
    return scaled(x, w) + (1 if x.dim() and x.shape[0] == 5 else 0)


def _while_compiling(x: Any, w: Any) -> Any:
    return scaled(x, 2 * w if torch.compiler.is_compiling() else w)


def _operator_with_a_wrong_shape() -> str:
    """An operator whose fake results have another shape."""
    name = "symgrad_broken::scaled"
    made: Any = torch.library.custom_op(name, scaled, mutates_args=(), schema="(Tensor x, Tensor w) -> Tensor")
    made.register_fake(lambda x, w: x.new_empty(x.numel()))
    return name


def _while_tracing(x: Any, w: Any) -> Any:
    return scaled(x, 2 * w if torch.jit.is_tracing() else w)


# ------------------------------------------------------------------------------------------ dtypes and devices
def _in_steps(x: Any, w: Any) -> Any:
    return x * x * w * 3 / 3


def _rounded_first(ctx: Any, g: Any) -> Any:
    x, w = ctx.saved_tensors
    if g is None:
        return None, None
    return (2 * x * w * g).to(x.dtype).sum_to_size(x.shape), (x * x * g).half().cumsum(-1)[..., -1].to(
        w.dtype
    ).sum_to_size(w.shape)


def _contiguous_alone(x: Any, w: Any) -> Any:
    return x.as_strided(x.shape, torch.empty(x.shape, device="meta").stride()) ** 2 * w


def _zeros_here(ctx: Any, g: Any) -> Any:
    x, _ = ctx.saved_tensors
    grad_x, grad_w = Scaled.backward(ctx, g)
    return torch.zeros(x.shape, dtype=x.dtype) if grad_x is None else grad_x, grad_w


# ------------------------------------------------------------------------------------------ conduct
class OnCtx(Scaled):
    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        Scaled.setup_context(ctx, inputs, output)
        ctx.square = inputs[0].detach() ** 2


class Unsaved(Scaled):
    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)
        ctx.inputs = tuple(t.detach() for t in inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.inputs
        return (2 * x * w * g).sum_to_size(x.shape), (x * x * g).sum_to_size(w.shape)


class SavedTwice(Scaled):
    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *(t.clone() for t in (output, output, output)))
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w, *_ = ctx.saved_tensors
        return (2 * x * w * g).sum_to_size(x.shape), (x * x * g).sum_to_size(w.shape)


def _overwriting(ctx: Any, g: Any) -> Any:
    return Scaled.backward(ctx, g if torch.is_grad_enabled() else g.mul_(1).add_(1))


def _reading_twice(ctx: Any, g: Any) -> Any:
    assert ctx.saved_tensors and ctx.saved_tensors
    return Scaled.backward(ctx, g)


_lock, _shared = threading.Barrier(1), threading.local()
_place: list[Any] = [None]


def _through_a_global(x: Any, w: Any) -> Any:
    _place[0] = key = object()
    for _ in range(2000):
        pass
    threading.Event().wait(0.001)
    return scaled(x, w if _place[0] is key else 2 * w)


def _autocast_ignored(x: Any, w: Any) -> Any:
    with torch.autocast("cpu", enabled=False):
        return x @ w


def product(x: Any, w: Any) -> Any:
    return x @ w


def _unpicklable() -> Any:
    class Local(Scaled):
        pass

    return Local


class ScaledModule(torch.nn.Module):
    """Forgets to reset its parameter."""

    def __init__(self, w: float = 2.0, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.full((), w, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        pass

    def forward(self, x: Any) -> Any:
        return scaled(x, self.w)

    def extra_repr(self) -> str:
        return "w=2.0"


def _add_one_(x: Any) -> Any:
    x.data.add_(1)
    return x


def add_one(x: Any) -> Any:
    return x + 1


def _add_one_badly(x: Any) -> Any:
    return x.copy_((x + 1).detach())


def damped(x: Any, *, rate: float) -> Any:
    return rate * x


ROWS = (((2, 3), (3, 4)),)

BROKEN: dict[str, Broken] = {
    "value_and_gradients": (of(with_methods(backward=_wrong_sign)), "gradient of w"),
    "sizes": (of(_dropped), "y "),
    "passes": (of(_wrong_in_passes), "y "),
    "every_branch": (of(_slope_at_zero, torch.relu), "gradient of x at a condition"),
    "special_values": (of(_unsafe_sigmoid, torch.sigmoid), "x=inf"),
    "extremes": (of(lambda x: torch.log1p(torch.exp(x)), torch.nn.functional.softplus), "times as large"),
    "accuracy": (
        of(
            lambda x: torch.exp(x) - 1,
            torch.expm1,
            accuracy=(Accuracy("y", 0.5, 0.5, ((1e-6, 1.00000050000016667e-06, 6e-14),)),),
        ),
        "ulp off",
    ),
    "finite_differences": (of(with_methods(backward=_wrong_sign)), "Jacobian mismatch"),
    "second_differences": (of(kept, cube), "mismatch"),
    "backward_returns": (of(with_methods(backward=_eager_backward)), "nobody asked"),
    "undefined_cotangents": (of(Either, either, outputs=("y", "z")), "from z alone"),
    "materialised_cotangents": (of(Materialising), "set_materialize_grads"),
    "forward_over_reverse": (of(kept, cube), "tangent"),
    "second_derivatives_raise": (of(scaled, double_backward=False), "returns a result"),
    "torch_func": (of(WithoutVmap), "vmap"),
    "vmap_over_some": (of(WrongVmap), "vmap"),
    "forward_mode": (of(with_methods(jvp=_first_tangent)), "jvp in w"),
    "transposition": (of(Reversed, same, rule=reversal, overridden=("x",)), "transpose of backward"),
    "forward_mode_is_refused": (of(Reversed, same, rule=reversal, overridden=("x",), linear=False), "no transpose"),
    "vmap_of_values": (of(_floor_by_hand, torch.floor, fixed=("y",)), "vmap"),
    "compiled": (of(Scaled), "jvp"),
    "compiled_for_all_sizes": (of(_for_size_five), "(5, 3)"),
    "compiled_torch_func": (of(_while_compiling), "compiled vmap"),
    "exported": (of(_while_compiling), "exported"),
    "operator": (of(scaled, library=_operator_with_a_wrong_shape()), "fails test_faketensor"),
    "jit_traced": (of(_while_tracing), "traced"),
    "result_dtypes": (of(lambda x, w: scaled(x, w).float()), "dtype"),
    "python_numbers": (of(lambda x, w: scaled(x, w.detach()), numbers=(2,)), "detach"),
    "half_precision": (of(_in_steps), "ulp off"),
    "sums_in_half_precision": (of(with_methods(backward=_rounded_first)), "60000 terms"),
    "complex_arguments": (of(lambda x, w: scaled(x.real, w)), "complex"),
    "bad_hyperparameters": (
        of(damped, damped, settings=({"rate": 1.0},), refused=(("rate", -1.0, ValueError),)),
        "accepted",
    ),
    "bad_shapes": (of(scaled, shapes=(((3,), (3,)),), bad_shapes=(((3,), (1,)),)), "accepted"),
    "layouts": (of(_contiguous_alone), "transposed"),
    "devices": (of(with_methods(backward=_zeros_here)), "device"),
    "saved_tensors": (
        of(Scaled, residuals={"x": ("x", "w"), "w": ("x",)}),
        "2 tensors are saved for the gradients of w",
    ),
    "saved_bytes": (of(SavedTwice), "bytes"),
    "packed_residuals": (of(Scaled, packed={"x": "bit"}), "nothing of it is kept in fewer bits"),
    "tensors_on_ctx": (of(OnCtx), "1 tensors are attributes"),
    "inputs_left_alone": (of(with_methods(backward=_overwriting)), "cotangent in place"),
    "changes_are_noticed": (of(Unsaved), "was changed in place"),
    "checkpoints": (of(with_methods(backward=_reading_twice)), "use_reentrant=False"),
    "labels": (of(scaled, inputs=(Input("x"), Input("w", grad=False))), "w gets a gradient"),
    "autocast": (of(_autocast_ignored, product, names=("x", "w"), shapes=ROWS, pointwise=False), "dtype"),
    "threads": (of(_through_a_global), "threads"),
    "pickled": (of(_unpicklable()), "pickle"),
    "as_module": (
        of(scaled, module=ScaledModule, parameters={"w": 2.0}, module_shapes=((2, 3), ())),
        "reset_parameters",
    ),
    "in_place": (of(add_one, add_one, inplace=_add_one_, inplace_of="x"), "without autograd's knowledge"),
    "in_place_torch_func": (of(add_one, add_one, inplace=_add_one_badly, inplace_of="x"), "grad"),
}
