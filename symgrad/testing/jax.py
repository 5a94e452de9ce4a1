"""The conformance suite for JAX: a function with custom derivatives against its formula.

``OperationTests`` is the base class of pytest classes that state the facts of an operation; ``check_function`` holds
any function with a ``custom_jvp`` or ``custom_vjp`` rule against its composite. Everything that is compared at one
point is compiled once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from symgrad.testing.arrays import Facts, Golden, golden_weights, numbered, outputs, untrue_at
from symgrad.testing.facts import Input
from symgrad.testing.residuals import beside_formula

__all__ = ["CHECKS", "Golden", "Input", "OperationTests", "check_function"]

_config: Any = jax.config  # without types of its own
with suppress(RuntimeError):  # a backend is there already
    _config.update("jax_num_cpu_devices", 2)

_split: Any = PartitionSpec  # without types of its own
_SPLIT, _WHOLE = _split("data"), _split()
_QUICKLY: dict[str, Any] = {"xla_backend_optimization_level": 0}  # what is compiled runs once


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    options: dict[str, Any] | None = _QUICKLY if jax.default_backend() == "cpu" else None
    compiled: Callable[..., Any] = jax.jit(function, compiler_options=options)
    return compiled


def _floats(arguments: Sequence[Any], dtype: Any) -> list[Any]:
    """Arrays of JAX, those of floats in a dtype."""
    return [None if a is None else jnp.asarray(a, dtype) if a.dtype.kind == "f" else jnp.asarray(a) for a in arguments]


def _close(ours: Any, theirs: Any, what: str) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-11, err_msg=what)


def _dot(left: Sequence[Any], right: Sequence[Any]) -> Any:
    return reduce(jnp.add, ((a * b).sum() for a, b in zip(left, right, strict=True)), jnp.zeros(()))


def _known(values: Sequence[Any]) -> list[Any]:
    """The values, 0 where the formula has none, as in a row that a mask leaves nothing of: nor has it derivatives."""
    return [jnp.where(jnp.isnan(y), 0.0, y) for y in values]


def _second(gradient: Callable[..., Any], own: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The product of a Hessian and tangents, reverse over reverse."""
    return jax.grad(lambda *v: _dot(gradient(*v), tangents), tuple(range(len(own))))(*own)


def _varied(shapes: Sequence[Any], seed: int) -> list[Any]:
    generator = np.random.default_rng(seed)
    return [jnp.asarray(generator.uniform(0.5, 1.5, a.shape)) for a in shapes]


class OperationTests(Facts):
    """Every check of an operation in JAX."""

    def test_values(self) -> None:
        """The values are those of the formula, in float64."""
        with jax.enable_x64(True):
            for settings, arguments in self.points():
                args = _floats(arguments, jnp.float64)
                both = (type(self).call, type(self).composite)
                ours, theirs = _compiled(lambda *a, own=settings, fs=both: [f(*a, **own) for f in fs])(*args)
                for y, z in zip(outputs(ours), outputs(theirs), strict=True):
                    _close(y, z, str(settings))

    def test_derivatives(self) -> None:
        """Reverse and forward mode, and at the first point their nestings, are those of the formula or of the rules."""
        with jax.enable_x64(True):
            for place, (settings, arguments) in enumerate(self.points()):
                args = _floats(arguments, jnp.float64)
                if not self.wanted(args):
                    continue
                own = [args[k] for k in self.wanted(args)]
                ours, theirs = (self._derivatives(f, settings, args, nested=place == 0) for f in self.differentiated())
                found, expected = _compiled(lambda *a, f=ours, g=theirs: (f(*a), g(*a)))(*own)
                for name in found:
                    for k, (a, b) in enumerate(zip(found[name], expected[name], strict=True)):
                        _close(a, b, f"{name} {k} {settings}")

    def _derivatives(
        self, function: Any, settings: Mapping[str, Any], args: Sequence[Any], *, nested: bool
    ) -> Callable[..., Any]:
        """The derivatives at a point by name, with those of derivatives if they are to be `nested`."""
        f = self.at(function, settings, args)
        derived = not dict(self.rules).keys() & {self.inputs[k].name for k in self.wanted(args)}
        is_composite = function is not type(self).call

        def everything(*own: Any) -> dict[str, Any]:
            weights = _varied(jax.eval_shape(f, *own), 1)
            tangents = _varied(own, 2)
            every = tuple(range(len(own)))

            def loss(*values: Any) -> Any:
                return _dot(_known(f(*values)), weights)

            gradient = jax.jit(jax.grad(loss, every))  # traced once
            found = {"gradient": gradient(*own)}
            if is_composite:  # forward mode and all nestings follow from its gradient and one product by the Hessian
                found["gradient"] = self.by_rules(jnp, found["gradient"], settings, args, weights)
                if self.linear:
                    found["forward"] = [_dot(found["gradient"], tangents)]
                if derived and nested:
                    second = jax.grad(lambda *v: _dot(gradient(*v), tangents), every)(*own)
                    found |= dict.fromkeys(
                        ("reverse over reverse", "forward over reverse", "reverse over forward"), second
                    )
                    found["forward over forward"] = [_dot(second, tangents)]
                    found["third order"] = jax.grad(lambda *v: _dot(_second(gradient, v, tangents), tangents), every)(
                        *own
                    )
                return {k: v for k, v in found.items() if self.linear or "forward" not in k}
            pushed = jax.jit(lambda *v: jax.jvp(loss, v, tuple(tangents))[1])
            if self.linear:
                found["forward"] = [pushed(*own)]
            if derived and nested:
                found["reverse over reverse"] = _second(gradient, own, tangents)
            if derived and nested and self.linear:
                found["forward over reverse"] = jax.jvp(gradient, own, tuple(tangents))[1]
                found["reverse over forward"] = jax.grad(pushed, every)(*own)
                found["forward over forward"] = [jax.jvp(pushed, own, tuple(tangents))[1]]
                twice = jax.jvp(lambda *v: _second(gradient, v, tangents), own, tuple(tangents))
                found["third order"] = twice[1]
            return found

        return everything

    def test_transformations(self) -> None:
        """vmap along every axis and of one argument, scan, checkpoint and pytrees give what a loop gives."""
        with jax.enable_x64(True):
            settings, shapes = self.cases[0]
            batches = [_floats(self.sample(shapes, seed), jnp.float64) for seed in (1, 2)]
            places = self.wanted(batches[0])
            if not places:
                return

            def loss(*own: Any) -> Any:
                f = self.at(type(self).call, settings, batches[0])
                return _dot(f(*own), [jnp.sin(y) for y in f(*own)])

            gradient = jax.jit(jax.grad(loss, tuple(range(len(places)))))  # traced once

            def everything(first: Any, second: Any) -> tuple[Any, Any]:
                loop = [gradient(*first), gradient(*second)]
                stacked = [jnp.stack(pair) for pair in zip(first, second, strict=True)]
                last = [jnp.stack(pair, -1) for pair in zip(first, second, strict=True)]
                _, scanned = jax.lax.scan(lambda c, v: (c, gradient(*v)), 0, stacked)
                again = [jax.checkpoint(gradient)(*v) for v in (first, second)]
                mixed = [(first[0], *second[1:]), (second[0], *second[1:])]
                alone = jax.vmap(gradient, in_axes=(0, *[None] * len(second[1:])))(stacked[0], *second[1:])
                loop += [gradient(*v) for v in mixed]
                named = [jax.grad(lambda tree: loss(*tree["of"]))({"of": list(v)})["of"] for v in (first, second)]
                return loop, [
                    [tuple(g[k] for g in jax.vmap(gradient)(*stacked)) for k in (0, 1)],
                    [tuple(g[k] for g in jax.vmap(gradient, in_axes=-1)(*last)) for k in (0, 1)],
                    [tuple(g[k] for g in scanned) for k in (0, 1)],
                    again,
                    named,
                    [tuple(g[k] for g in alone) for k in (0, 1)],
                ]

            loop, ways = _compiled(everything)(*([b[k] for k in places] for b in batches))
            names = ("vmap", "vmap of the last axis", "scan", "checkpoint", "a pytree", "vmap of one argument")
            for name, way in zip(names, ways, strict=True):
                for ours, theirs in zip(way, loop[2:] if "one" in name else loop, strict=False):
                    for a, b in zip(ours, theirs, strict=True):
                        _close(a, b, name)

    def test_inputs(self) -> None:
        """Arrays of numpy, Python numbers, donated buffers and arrays without elements are taken as arrays are."""
        settings, shapes = self.cases[0]
        call = partial(type(self).call, **settings)
        args = _floats(self.sample(shapes), jnp.float32)
        expected = outputs(call(*args))
        floats = [k for k, a in enumerate(args) if a is not None and jnp.issubdtype(a.dtype, jnp.floating)]
        ways = {"numpy": call(*(a if a is None else np.asarray(a) for a in args))}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of buffers that no output can have
            ways["donated"] = jax.jit(call, donate_argnums=floats)(*(a if a is None else jnp.copy(a) for a in args))
        for name, way in ways.items():
            for y, z in zip(outputs(way), expected, strict=True):
                assert y.dtype == z.dtype, name
                np.testing.assert_allclose(y, z, rtol=1e-5, atol=1e-6, err_msg=name)
        for sizes in self.empty:
            args = _floats(self.sample(sizes), jnp.bfloat16)
            f, own = self.at(type(self).call, settings, args), [args[k] for k in self.wanted(args)]
            values, pull = jax.vjp(f, *own)
            assert [g.shape for g in pull(values)] == [a.shape for a in own]
            free = [k for k in floats if len(floats) > 1 and any(own[k] == () for _, own in self.cases)]
            for k in free:  # a number does not widen what it stands beside
                whole = _floats(self.sample(shapes), jnp.bfloat16)
                number = float(self.sample(((),) * len(shapes))[k])
                weak = outputs(call(*(number if j == k else a for j, a in enumerate(whole))))
                strong = outputs(call(*(jnp.asarray(number, a.dtype) if j == k else a for j, a in enumerate(whole))))
                assert [(y.dtype, y.shape) for y in weak] == [(y.dtype, y.shape) for y in strong]

    def test_pushforwards_and_pullbacks(self) -> None:
        """linearize is jvp, and vjp in all arguments has no tangents for integers and truth values."""
        settings, shapes = self.cases[0]
        args = _floats(self.sample(shapes), jnp.float32)
        places = self.wanted(args)
        if not places:
            return
        f, own = self.at(type(self).call, settings, args), [args[k] for k in places]
        given = [k for k, a in enumerate(args) if a is not None]

        def of_given(*values: Any) -> Any:
            whole = list(args)
            for k, value in zip(given, values, strict=True):
                whole[k] = value
            return [
                y for y, smooth in zip(outputs(type(self).call(*whole, **settings)), self.smooth, strict=True) if smooth
            ]

        values, pull = jax.vjp(of_given, *(args[k] for k in given))
        weights = [jnp.ones_like(y) for y in values]
        found = dict(zip(given, pull(weights), strict=True))
        for k, g in zip(places, jax.vjp(f, *own)[1](weights), strict=True):
            np.testing.assert_allclose(found[k], g, rtol=1e-5, atol=1e-6)
        others = [found[k].dtype for k in given if not jnp.issubdtype(args[k].dtype, jnp.floating)]
        assert all(dtype == jax.dtypes.float0 for dtype in others)
        if self.linear:
            tangents = [jnp.cos(a) for a in own]
            pushed = jax.linearize(f, *own)[1](*tangents)
            for a, b in zip(pushed, jax.jvp(f, own, tangents)[1], strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)

    def test_dtypes(self) -> None:
        """Results have the formula's dtypes and gradients those of their arguments; half precision rounds once."""
        settings, shapes = self.cases[0]
        for dtype in (jnp.float32, jnp.bfloat16, jnp.float16):
            args = _floats(self.sample(shapes), dtype)
            ours = outputs(type(self).call(*args, **settings))
            assert all(y.dtype == dtype for y in ours if jnp.issubdtype(y.dtype, jnp.floating)), dtype
            eps = {jnp.float32: 2.0**-23, jnp.bfloat16: 2.0**-7, jnp.float16: 2.0**-10}[dtype]
            with jax.enable_x64(True):
                exact = [None if a is None else np.asarray(a) for a in args]
                exact = [a if a is None or a.dtype.kind in "biu" else a.astype("float64") for a in exact]
                truth = outputs(type(self).call(*_floats(exact, jnp.float64), **settings))
            for y, z in zip(ours, truth, strict=True):
                if jnp.issubdtype(y.dtype, jnp.floating):
                    found, true = np.asarray(y, "float64"), np.asarray(z.astype(dtype), "float64")
                    size = float(np.max(np.abs(true), initial=0.0, where=np.isfinite(true)))
                    scale = 64 if dtype == jnp.float32 else 2
                    np.testing.assert_allclose(found, true, scale * eps, scale * eps * size, err_msg=str(dtype))
            if self.wanted(args):
                f = self.at(type(self).call, settings, args)
                own = [args[k] for k in self.wanted(args)]
                of = jax.eval_shape(jax.grad(lambda *v, g=f: sum(y.sum() for y in g(*v)), tuple(range(len(own)))), *own)
                assert [(g.shape, g.dtype) for g in of] == [(a.shape, a.dtype) for a in own]

    def test_residuals(self) -> None:
        """Reverse mode keeps no more bytes than that of the formula and its rules, by itself and in a scan."""
        every = [settings for settings, _ in self.cases]
        for settings, shapes in [(s, large) for s in every for large in self.large] or self.cases:
            args = _floats(self.sample(shapes), jnp.float32)
            if not self.wanted(args) or (self.rules and not self.linear):
                continue
            places = ("", " in a step of a scan")
            for where, (ours, theirs) in zip(places, beside_formula(self, settings, args), strict=True):
                assert ours <= theirs, f"{ours} bytes kept{where}, {theirs} by the formula: {settings}"

    def test_sharded(self) -> None:
        """Arrays on two devices, divided by XLA or by shard_map, give what they give on one."""
        if jax.device_count() < 2:
            pytest.skip("one device only: set jax_num_cpu_devices before JAX is used")
        mesh = Mesh(np.array(jax.devices()[:2]), ("data",))
        settings, shapes = self.cases[0]
        args = _floats(self.sample(shapes), jnp.float32)
        places = self.wanted(args)
        if not places:
            return

        def of_all(*own: Any) -> Any:
            f = self.at(type(self).call, settings, args)
            # The slope of arctan depends on y, and rounding moves it little where y is large.
            return jax.grad(lambda *v: sum(jnp.arctan(y).sum() for y in f(*v)), tuple(range(len(own))))(*own)

        gradient = _compiled(of_all)

        def placed(a: Any) -> Any:
            split = a.ndim > 0 and a.shape[0] % 2 == 0
            return jax.device_put(a, NamedSharding(mesh, _SPLIT if split else _WHOLE))

        own = [args[k] for k in places]
        for a, b in zip(gradient(*map(placed, own)), gradient(*own), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        pairs = [jnp.stack([a, jnp.flip(a)]) for a in own]
        each = _compiled(jax.shard_map(jax.vmap(of_all), mesh=mesh, in_specs=_SPLIT, out_specs=_SPLIT))
        for a, b in zip(each(*pairs), _compiled(jax.vmap(of_all))(*pairs), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)

    def test_golden_numbers(self) -> None:
        """Values and gradients in float32 are the truth, and finite where it is, also without float64."""
        compiled: dict[str, Any] = {}  # for points that differ in their numbers alone
        for point in self.golden:
            given = self.golden_arguments(point)
            for x64 in (True, False):
                with jax.enable_x64(x64):
                    args = list(map(jnp.asarray, given))
                    kind = repr((point.settings, sorted(point.gradients)))
                    if kind not in compiled:
                        compiled[kind] = self._with_gradients(point.settings, self.wanted(args), bool(point.gradients))
                    found = compiled[kind](*args)
                for what, wrong in untrue_at(point, found, finite=not x64):
                    raise AssertionError(f"{what}, x64 {x64}: {wrong}")

    def _with_gradients(self, settings: Mapping[str, Any], places: Sequence[int], wanted: bool) -> Callable[..., Any]:
        """The outputs by number, and if `wanted` the gradients of their weighted sum by argument."""

        def everything(*given: Any) -> dict[str, Any]:
            found = numbered(outputs(type(self).call(*given, **settings)))
            if wanted:
                values, pull = jax.vjp(self.at(type(self).call, settings, given), *(given[k] for k in places))
                cotangents = [jnp.asarray(w, y.dtype) for w, y in zip(golden_weights(values), values, strict=True)]
                found |= zip((self.inputs[k].name for k in places), pull(cotangents), strict=True)
            return found

        return _compiled(everything)

    def test_arguments(self) -> None:
        """Hyperparameters are static and in their range; what is no array is refused."""
        settings, shapes = self.cases[0]
        args = _floats(self.sample(shapes), jnp.float32)
        self.assert_refused(args, settings, jnp.asarray)


CHECKS = ("values", "derivatives", "transformations", "dtypes", "residuals")
"""What ``check_function`` looks at."""


def check_function(
    function: Callable[..., Any],
    composite: Callable[..., Any],
    inputs: Sequence[Input],
    shapes: Sequence[tuple[int, ...]],
    *,
    linear: bool = True,
    checks: Sequence[str] = CHECKS,
) -> list[str]:
    """Hold a function with a ``custom_jvp`` or ``custom_vjp`` rule against its formula; what is wrong with it.

    ``composite`` is the formula in plain JAX, with the same arguments, of which ``inputs`` says the names and ranges,
    and ``shapes`` the shapes at one point. ``linear=False`` is for a rule without forward mode. The list is empty
    where nothing is wrong; each text begins with the name of one of the ``checks``.
    """
    outs = len(outputs(jax.eval_shape(composite, *(jnp.zeros(s) for s in shapes))))
    facts = {
        "call": staticmethod(function),
        "composite": staticmethod(composite),
        "inputs": tuple(inputs),
        "cases": (({}, tuple(shapes)),),
        "linear": linear,
        "smooth": (True,) * outs,
    }
    return findings(type("Checked", (OperationTests,), facts), checks)


def without_forward_mode(facts: type[Facts]) -> str | None:
    """What JAX says where a function has no forward mode; None where it has."""
    own = facts()
    settings, shapes = own.cases[0]
    arguments = _floats(own.sample(shapes), jnp.float32)
    wanted = [arguments[k] for k in own.wanted(arguments)]
    try:
        jax.jvp(own.at(facts.call, settings, arguments), wanted, wanted)
    except TypeError as error:
        return str(error).partition(". ")[0] if "forward-mode" in str(error) else None
    return None


def findings(facts: type[Facts], checks: Sequence[str]) -> list[str]:
    """What is wrong with a function of which these are the facts; each text begins with the name of a check."""
    suite = facts()
    found = []
    for check in checks:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                getattr(suite, f"test_{check}")()
        except Exception as error:  # whatever a function of somebody else raises is a finding
            found.append(f"{check}: {str(error).strip() or type(error).__name__}")
    return found
