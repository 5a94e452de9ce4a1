"""The conformance suite for MLX: a function with custom rules against its formula.

``OperationTests`` is the base class of pytest classes that state the facts of an operation. MLX's functions have the
accuracy of float32, in float64 too: the composite is compared to that, and golden numbers to the accuracy that MLX's
own functions have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import mlx.core as mx
import numpy as np
import pytest

from symgrad.testing.arrays import Facts, Golden, golden_weights, numbered, outputs, untrue_at
from symgrad.testing.facts import Input

__all__ = ["Golden", "Input", "OperationTests"]

_checkpoint: Any = mx.checkpoint  # without types of their own
_compile: Any = mx.compile
_grad: Any = mx.grad
_jvp: Any = mx.jvp


def _floats(arguments: Sequence[Any], dtype: Any) -> list[Any]:
    """Arrays of MLX, those of floats in a dtype."""
    return [None if a is None else mx.array(a).astype(dtype) if a.dtype.kind == "f" else mx.array(a) for a in arguments]


def _numbers(value: Any) -> Any:
    """An array of numpy, in float64."""
    return np.array(value.astype(mx.float32) if value.dtype in (mx.bfloat16, mx.float16) else value).astype("float64")


def _close(ours: Any, theirs: Any, what: str, rtol: float = 1e-4) -> None:
    found, expected = _numbers(ours), _numbers(theirs)
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, not {expected.shape}"
    size = float(np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected)))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * max(size, 1e-2), err_msg=what)


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _dot(left: Sequence[Any], right: Sequence[Any]) -> Any:
    return sum(((a * b).sum() for a, b in zip(left, right, strict=True)), mx.zeros(()))


def _known(found: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """What is found, 0 where a formula has no value, as in a row that a mask leaves nothing of."""
    return [mx.where(mx.isnan(y), 0.0, own) for own, y in zip(found, values, strict=True)]


def _varied(like: Sequence[Any], seed: int) -> list[Any]:
    generator = np.random.default_rng(seed)
    return [mx.array(generator.uniform(0.5, 1.5, a.shape)).astype(a.dtype) for a in like]


class OperationTests(Facts):
    """Every check of an operation in MLX.

    Attributes:
        module: the nn.Module of the operation and the names of what it owns, if it has one.
        only_reverse: whether MLX itself has neither forward mode nor vmap of what the operation is made of.
    """

    module: ClassVar[tuple[Any, tuple[str, ...]] | None] = None
    only_reverse: ClassVar[bool] = False

    def _widest(self) -> Any:
        """The dtype in which least is lost: a GPU has no float64, nor have convolutions."""
        return mx.float32 if self.only_reverse or mx.default_device() == mx.gpu else mx.float64

    def test_values(self) -> None:
        """The values are those of the formula."""
        for settings, arguments in self.points():
            args = _floats(arguments, self._widest())
            ours, theirs = (outputs(f(*args, **settings)) for f in (type(self).call, type(self).composite))
            for y, z in zip(ours, theirs, strict=True):
                _close(y, z, str(settings))

    def test_derivatives(self) -> None:
        """Reverse and forward mode and their nestings are those of the formula, or of the rules."""
        for settings, arguments in self.points():
            args = _floats(arguments, self._widest())
            if not self.wanted(args):
                continue
            own = [args[k] for k in self.wanted(args)]
            ours, theirs = (self._derivatives(f, settings, args)(*own) for f in self.differentiated())
            for name in ours:
                for k, (a, b) in enumerate(zip(ours[name], theirs[name], strict=True)):
                    known = mx.where(mx.isnan(b), a, b)  # MLX multiplies NaN that `where` did not choose by 0
                    _close(a, known, f"{name} {k} {settings}", 1e-3)

    def _derivatives(self, function: Any, settings: Mapping[str, Any], args: Sequence[Any]) -> Callable[..., Any]:
        """All derivatives at a point, by name."""
        f = self.at(function, settings, args)
        is_composite = function is not type(self).call
        derived = not dict(self.rules).keys() & {self.inputs[k].name for k in self.wanted(args)}

        def everything(*own: Any) -> dict[str, Any]:
            weights = _varied(f(*own), 1)
            tangents = _varied(own, 2)
            every = tuple(range(len(own)))

            def loss(*values: Any) -> Any:
                return _dot(f(*values), weights)

            def gradient(*values: Any) -> Any:
                return _tuple(mx.grad(loss, every)(*values))

            first = gradient(*own)
            found = {"gradient": self.by_rules(mx, first, settings, args, weights) if is_composite else first}
            if self.linear and not self.only_reverse:
                if is_composite:  # by transposition: forward and reverse mode agree
                    found["forward"] = [_dot(found["gradient"], tangents)]
                else:
                    found["forward"] = mx.jvp(loss, list(own), tangents)[1]
            if not derived:
                return found
            found["reverse over reverse"] = _tuple(mx.grad(lambda *v: _dot(gradient(*v), tangents), every)(*own))
            if is_composite and not self.only_reverse:
                # By products with the Hessian alone: MLX has no forward mode of the gradient of max and prod.
                curved = _tuple(mx.grad(lambda *v: mx.sin(_dot(gradient(*v), tangents)), every)(*own))
                found["forward over reverse"] = found["reverse over reverse"]
                found["reverse over forward"], found["forward over forward"] = curved, [_dot(curved, tangents)]
            elif not self.only_reverse:

                def inner(*values: Any) -> Any:
                    return mx.sin(mx.jvp(loss, list(values), tangents)[1][0])

                found["forward over reverse"] = mx.jvp(lambda *v: list(gradient(*v)), list(own), tangents)[1]
                found["reverse over forward"] = _tuple(mx.grad(inner, every)(*own))
                found["forward over forward"] = mx.jvp(inner, list(own), tangents)[1]
            if mx.default_device() == mx.gpu:  # on a CPU MLX calls a C++ compiler, which takes seconds
                found["compiled"] = first if is_composite else _tuple(_compile(mx.grad(loss, every))(*own))
            found["checkpoint"] = _tuple(mx.grad(_checkpoint(loss), every)(*own))
            return found

        return everything

    def test_every_argument_alone(self) -> None:
        """A gradient of one argument is that of all: MLX passes a single one bare, and drops those not asked for."""
        settings, shapes = self.cases[0]
        args = _floats(self.sample(shapes), mx.float32)
        places = self.wanted(args)
        if not places:
            return
        own = [args[k] for k in places]
        f = self.at(type(self).call, settings, args)
        values = f(*own)
        weights = _varied(values, 1)
        loss: Any = lambda *v: _dot(_known(f(*v), values), weights)  # noqa: E731
        whole = _tuple(_grad(loss, tuple(range(len(own))))(*own))
        tangents = _varied(own, 2)
        for k in range(len(own)):
            alone: Any = _grad(loss, k)(*own)
            assert alone.dtype == own[k].dtype
            _close(alone, whole[k], f"argument {k}")
            if self.linear and not self.only_reverse:
                one: Any = lambda v, k=k: f(*own[:k], v, *own[k + 1 :])  # noqa: E731
                pushed = _known(_jvp(one, [own[k]], [tangents[k]])[1], values)
                _close(_dot(pushed, weights), (whole[k] * tangents[k]).sum(), f"tangent {k}", 1e-3)

    def test_vmap(self) -> None:
        """vmap keeps the rules: along every axis, nested, and of some arguments alone."""
        if self.only_reverse:
            pytest.skip("MLX has no vmap of convolutions")
        settings, shapes = self.cases[0]
        batches = [_floats(self.sample(shapes, seed), mx.float32) for seed in (1, 2)]
        places = self.wanted(batches[0])
        if not places:
            return
        first, second = ([b[k] for k in places] for b in batches)
        f = self.at(type(self).call, settings, batches[0])

        def gradient(*own: Any) -> list[Any]:
            loss = lambda *v: _dot(f(*v), [mx.cos(mx.stop_gradient(y)) for y in f(*v)])  # noqa: E731
            return list(_tuple(mx.grad(loss, tuple(range(len(own))))(*own)))

        loop = [gradient(*first), gradient(*second)]
        for axis in (0, -1):
            stacked = [mx.stack([*pair], axis % (pair[0].ndim + 1)) for pair in zip(first, second, strict=True)]
            axes = tuple(axis % s.ndim for s in stacked)
            inside = _tuple(mx.vmap(gradient, in_axes=axes, out_axes=0)(*stacked))
            batched = mx.vmap(lambda *v: f(*v), in_axes=axes, out_axes=0)

            def loss(*v: Any, batched: Any = batched) -> Any:
                values = _tuple(batched(*v))
                return _dot(values, [mx.cos(mx.stop_gradient(y)) for y in values])

            around = _tuple(mx.grad(loss, tuple(range(len(stacked))))(*stacked))
            for k in range(len(first)):
                for b in (0, 1):
                    _close(inside[k][b], loop[b][k], f"vmap of grad, axis {axis}, argument {k}", 1e-3)
                    own = mx.take(around[k], b, axis=axes[k])
                    _close(own, loop[b][k], f"grad of vmap, axis {axis}, argument {k}", 1e-3)
        twice = [mx.stack([mx.stack([a, b]), mx.stack([b, a])]) for a, b in zip(first, second, strict=True)]
        nested = _tuple(mx.vmap(mx.vmap(gradient))(*twice))
        for k in range(len(first)):
            _close(nested[k][1][0], loop[1][k], f"vmap of vmap, argument {k}", 1e-3)
            if len(first) > 1:
                only: Any = tuple(0 if j == k else None for j in range(len(first)))
                mixed = [mx.stack([first[j], second[j]]) if j == k else first[j] for j in range(len(first))]
                alone = _tuple(mx.vmap(gradient, in_axes=only, out_axes=0)(*mixed))
                other = [second[j] if j == k else first[j] for j in range(len(first))]
                for j, g in enumerate(gradient(*other)):
                    _close(alone[j][1], g, f"vmap over argument {k} alone, gradient {j}", 1e-3)

    def test_dtypes(self) -> None:
        """Results and gradients have the arguments' dtypes; half precision is computed in float32 and rounds once."""
        settings, shapes = self.cases[0]
        for dtype, eps in ((mx.float32, 2.0**-23), (mx.bfloat16, 2.0**-7), (mx.float16, 2.0**-10)):
            args = _floats(self.sample(shapes), dtype)
            ours = outputs(type(self).call(*args, **settings))
            whole = [a if a is None or not mx.issubdtype(a.dtype, mx.floating) else a.astype(mx.float32) for a in args]
            for y, z in zip(ours, outputs(type(self).call(*whole, **settings)), strict=True):
                if mx.issubdtype(z.dtype, mx.floating):
                    assert y.dtype == dtype
                    _close(y, z.astype(dtype), str(dtype), 2 * eps)
            if self.wanted(args):
                f = self.at(type(self).call, settings, args)
                own = [args[k] for k in self.wanted(args)]
                loss = lambda *v, f=f: sum(y.sum() for y in f(*v))  # noqa: E731
                found = _tuple(mx.grad(loss, tuple(range(len(own))))(*own))
                assert [(g.shape, g.dtype) for g in found] == [(a.shape, a.dtype) for a in own]

    def test_golden_numbers(self) -> None:
        """Values and gradients are the truth, to the accuracy of MLX's own functions, and finite where it is."""
        for point in self.golden:
            args = list(map(mx.array, self.golden_arguments(point)))
            found = numbered(outputs(type(self).call(*args, **point.settings)))
            f = self.at(type(self).call, point.settings, args)
            own = [args[k] for k in self.wanted(args)]
            if point.gradients:
                values = f(*own)
                weights = [mx.array(w).astype(y.dtype) for w, y in zip(golden_weights(values), values, strict=True)]
                gradients = mx.vjp(f, own, weights)[1]
                found |= {self.inputs[k].name: g for k, g in zip(self.wanted(args), gradients, strict=True)}
            for what, wrong in untrue_at(point, {name: _numbers(value) for name, value in found.items()}):
                raise AssertionError(f"{what}: {wrong}")

    def test_arguments(self) -> None:
        """Hyperparameters are Python values in their range; what is no array is refused."""
        settings, shapes = self.cases[0]
        args = _floats(self.sample(shapes), mx.float32)
        self.assert_refused(args, settings, mx.array)
        if not self.linear:
            own = [args[k] for k in self.wanted(args)]
            with pytest.raises(ValueError, match="no forward mode"):
                mx.eval(mx.jvp(self.at(type(self).call, settings, args), own, own)[1])

    def test_module(self) -> None:
        """The module owns its parameters, which have gradients."""
        if self.module is None:
            return
        from mlx.nn.utils import value_and_grad
        from mlx.utils import tree_flatten

        kind, owned = self.module
        settings, shapes = self.cases[0]
        arguments = _floats(self.sample(shapes), mx.float32)
        sizes = {n: arguments[[i.name for i in self.inputs].index(t)].shape[k] for n, (t, k) in self.sizes}
        made = kind(**sizes, **settings)
        given = [a for a, i in zip(arguments, self.inputs, strict=True) if i.name not in owned]
        assert len(tree_flatten(made.parameters())) == len(owned)
        if owned and any(self.smooth):
            loss = lambda m: sum(y.sum() for y in outputs(m(*given)))  # noqa: E731
            _, gradients = value_and_grad(made, loss)(made)
            assert len(tree_flatten(gradients)) == len(owned)
        else:
            made(*given)

    # Of the constructor of the module: of which argument, which dimension.
    sizes: ClassVar[Sequence[tuple[str, tuple[str, int]]]] = ()
