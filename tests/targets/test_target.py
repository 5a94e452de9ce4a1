"""Targets beside torch: what they cannot have is a mistake of the spec at its place, and the others go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiled import compiled_text

from symgrad.errors import SpecError
from symgrad.ops.functions import FUNCTIONS
from symgrad.ops.tensors import TENSOR_OPS
from symgrad.pipeline import compile_spec
from symgrad.spec import parse_spec
from symgrad.targets.target import TARGETS, Target, refusals
from symgrad.testing.written import facts_of

EVERYONE = [pytest.param(target, id=target.name) for target in TARGETS.values()]
SQUARE = "op: sq\ntensors:\n  x:\noutputs:\n  y: x**2\n"


NOWHERE = {f"bessel_{kind}{n}" for kind in "jy" for n in (0, 1)}
NOWHERE |= {f"{scaled}modified_bessel_k{n}" for scaled in ("", "scaled_") for n in (0, 1)}
NOWHERE |= {"airy_ai", "airy_ai_prime", "dawson", "dawson_prime", "erfi", "lambertw", "lambertw_lower"}
LACKING = {"jax": NOWHERE, "mlx": NOWHERE | {"i0", "i0e", "i1", "i1e", "gammainc", "gammaincc", "zeta"}}


@pytest.mark.parametrize("target", EVERYONE)
def test_every_function_has_a_spelling(target: Target) -> None:
    """But for what the framework lacks; what only kernels write has none, nor what the compiler takes apart."""
    own = {name for name, row in FUNCTIONS.items() if row.torch and not name.startswith("narrow")}
    functions = {name for name in own if not name.endswith("_by_autograd")}
    assert functions - set(target.spelling.functions) - {"widen"} == LACKING[target.name]


@pytest.mark.parametrize("target", EVERYONE)
@pytest.mark.parametrize("call", ["bessel_j0(x)", "x + lambertw(exp(x))"])
def test_a_function_without_a_spelling_is_told_at_its_place(target: Target, call: str) -> None:
    found = refusals(compiled_text(SQUARE.replace("x**2", call)).operation, target)
    (mistake,) = [m for m in found if "of which" not in m.message]
    assert mistake.location == (5, 6 + call.find("lambertw") if "lambertw" in call else 6)
    assert target.spelling.name in mistake.message


@pytest.mark.parametrize("call", ["lambertw(x) * x", "x + max_pool1d(x[None, None], 2)[0, 0]"])
def test_a_call_is_found_by_what_it_calls_and_not_by_the_word(call: str) -> None:
    text = SQUARE.replace("  x:\n", "  x: {shape: [N]}\n  lambertw:\n").replace("x**2", f"sum(lambertw) * x + {call}")
    found = refusals(compiled_text(text).operation, TARGETS["mlx"])
    place = max(call.find("lambertw(x)"), call.find("max_pool1d"))
    assert found[0].location == (6, 6 + len("sum(lambertw) * x + ") + place)


@pytest.mark.parametrize("target", EVERYONE)
def test_a_function_of_a_hyperparameter_that_python_has_by_way_of_torch_alone_is_refused(target: Target) -> None:
    text = SQUARE.replace("outputs", "hyperparameters: {k: 1.5}\noutputs").replace("x**2", "x * digamma(k)")
    (mistake,) = refusals(compiled_text(text).operation, target)
    assert "'digamma'" in mistake.message


@pytest.mark.parametrize("target", EVERYONE)
def test_every_spelling_is_of_an_operation_that_there_is(target: Target) -> None:
    """Operations may lack one, and are refused then; `fill` is how a number gets a shape."""
    assert set(target.spelling.operations) - set(TENSOR_OPS) == {"fill"}
    assert set(target.spelling.functions) | set(target.spelling.differentiated) <= {*FUNCTIONS, "rsqrt", "where"}


@pytest.mark.parametrize("target", EVERYONE)
def test_an_operation_in_place_is_refused_where_the_spec_asks_for_it(target: Target) -> None:
    text = "# not inplace\n" + SQUARE + "options: {inplace: x}\n"
    (mistake,) = refusals(compiled_text(text).operation, target)
    assert mistake.location == (7, 11)
    assert mistake.where == "options.inplace"
    assert target.spelling.name in mistake.message


@pytest.mark.parametrize("target", EVERYONE)
def test_an_operation_named_as_a_module_of_the_framework_is_refused_for_it_alone(target: Target) -> None:
    """Its function would hide the module."""
    for name in ("jnp", "mx"):
        found = refusals(compiled_text(SQUARE.replace("sq", name)).operation, target)
        assert [(m.location, m.where) for m in found] == [((1, 5), "op")] * (name in target.framework.imports)


@pytest.mark.parametrize("target", EVERYONE)
def test_arguments_may_be_named_as_what_the_files_need(target: Target) -> None:
    """The composite of the test takes them by these names."""
    names = {"jax": ("jnp", "rt", "jax"), "mlx": ("mx", "rt", "terms")}[target.name]
    text = "op: f\ntensors: {{{0}: , {1}: }}\nhyperparameters: {{{2}: 2.0}}\noutputs: {{y: {2} * tanh({0}) + {1}**2}}\n"
    facts = facts_of(compiled_text(text.format(*names)).operation, target.name)()
    for settings, arguments in facts.points():
        own = [a.astype("float32") for a in arguments]
        ours, theirs = (f(*map(array(target.name), own), **settings) for f in (type(facts).call, type(facts).composite))
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def array(framework: str) -> Any:
    """How a framework makes an array."""
    module, name = {"jax": ("jax.numpy", "asarray"), "mlx": ("mlx.core", "array")}[framework]
    return getattr(pytest.importorskip(module), name)


@pytest.mark.parametrize("target", EVERYONE)
def test_first_order_alone_is_refused(target: Target) -> None:
    (mistake,) = refusals(compiled_text(SQUARE + "options: {double_backward: false}\n").operation, target)
    assert mistake.where == "options.double_backward"


def test_an_operation_without_a_spelling_is_told_at_its_place() -> None:
    from dataclasses import replace

    jax = TARGETS["jax"]
    without = {name: text for name, text in jax.spelling.operations.items() if name != "cumsum"}
    poor = replace(jax, framework=replace(jax.framework, spelling=replace(jax.spelling, operations=without)))
    (mistake,) = refusals(compiled_text(SQUARE.replace("x**2", "1 + cumsum(x, dim=0)")).operation, poor)
    assert (mistake.location, mistake.where) == ((5, 10), "outputs.y")
    assert "cumsum" in mistake.message


def test_other_targets_go_on() -> None:
    compiled = compile_spec(parse_spec(SQUARE + "options: {inplace: x, targets: [torch, jax]}\n"))
    assert set(compiled.files) == {"sq.py", "test_sq.py", "sq.cpp"}
    assert [m.where for m in compiled.mistakes] == ["options.inplace"]


def test_no_target_at_all_is_an_error() -> None:
    with pytest.raises(SpecError, match="no operations in place"):
        compile_spec(parse_spec(SQUARE + "options: {inplace: x, targets: [jax, mlx]}\n"))


def test_files_of_all_targets_stand_side_by_side() -> None:
    compiled = compile_spec(parse_spec(SQUARE + "options: {targets: [torch, jax, mlx]}\n"))
    own = {f"{start}sq{end}.py" for start in ("", "test_") for end in ("", "_jax", "_mlx")}
    assert set(compiled.files) == {*own, "sq.cpp"}
    assert {"_runtime.py", "_runtime_arrays.py", "_runtime_jax.py", "_runtime_mlx.py"} <= set(compiled.shared)


def test_an_unknown_target_is_a_mistake() -> None:
    with pytest.raises(SpecError, match="targets"):
        parse_spec(SQUARE + "options: {targets: [tensorflow]}\n")


def test_a_dozen_specs_are_for_all_targets() -> None:
    """These are generated, committed and tested in every run."""
    specs = Path(__file__).parents[2] / "specs"
    named = [path.stem for path in specs.glob("*.yaml") if "targets: [torch, jax, mlx]" in path.read_text("utf-8")]
    assert len(named) >= 12
    assert "swish" in named
