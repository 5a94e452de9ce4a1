"""An audit names what is wrong with a hand-written Function, with the numbers, and its exit status says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from symgrad.cli import main
from symgrad.testing import audit, check_function
from symgrad.testing.sources import load_target

pytest_plugins = ["pytester"]

SOURCE = '''
import torch


class Gate(torch.autograd.Function):
    """x * sigmoid(x), with the sigmoid saved."""

    @staticmethod
    def forward(ctx, x):
        s = torch.sigmoid(x)
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx, g):
        x, s = ctx.saved_tensors
        return g * (s + x * s * (1 - s))


def gate(x):
    return x * torch.sigmoid(x)
'''
FAST = ("value_and_gradients", "every_branch", "second_differences")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    file = tmp_path / f"ops_{tmp_path.name}.py"
    file.write_text(SOURCE)
    return file


def test_a_lost_second_derivative_is_named_with_its_cause(source: Path) -> None:
    found = audit(load_target(f"{source}::Gate"), formula="x * sigmoid(x)", only=FAST, timed=False)
    text = str(found)
    assert not found.ok
    assert "the second derivative in x" in text and "by the composite" in text
    assert "backward keeps 1 floats that are neither inputs nor outputs" in text
    assert "forward mode raises" in text and "setup_context" in text
    assert {f.check for f in found.errors} == {"every_branch", "second_differences", "forward_mode", "torch_func"}


def test_figures_stand_beside_those_of_the_composite_and_the_generated_function(source: Path) -> None:
    found = audit(load_target(f"{source}::gate"), formula="x * sigmoid(x)", only=["value_and_gradients"], timed=False)
    assert found.ok
    assert [c.name for c in found.contenders] == ["this", "composite", "generated"]
    assert all({"y", "dy/dx"} <= set(c.ulp) and c.kept for c in found.contenders)


def test_a_reference_will_do(source: Path) -> None:
    def wrong(x: Any) -> Any:
        return x * torch.sigmoid(x) + 0.25

    found = audit(wrong, reference=load_target(f"{source}::gate"), only=["value_and_gradients"], timed=False)
    assert "wrong against gate" in str(found) and "y with shapes (2, 3) at x=" in str(found)
    assert not found.ok


def test_a_file_that_does_not_parse_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "half_written.py").write_text("import torch\n\ndef gate(x:\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"half_written cannot be imported: .*line 3"):
        load_target(f"{tmp_path}/half_written.py::gate")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("ops.py", "neither"),
        ("none.py::f", "no file"),
        ("math:nothing", "has no nothing"),
        ("no_such:f", "cannot"),
        ("math:pi", "is no function but 3.14"),
    ],
)
def test_a_bad_target_is_explained(target: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        load_target(target)


def test_a_name_that_the_function_does_not_take_is_explained(source: Path) -> None:
    with pytest.raises(ValueError, match="beta of the formula is no argument"):
        audit(load_target(f"{source}::gate"), formula="x * sigmoid(beta * x)")


def test_arguments_that_the_function_does_not_take_or_misses_are_explained(source: Path) -> None:
    function, two = load_target(f"{source}::Gate"), "{op: two, tensors: {a: , b: }, outputs: {y: a * b}}"
    with pytest.raises(ValueError, match="Gate cannot be called with a, b: too many positional arguments"):
        audit(function, spec=two)
    with pytest.raises(ValueError, match=r"<lambda> cannot be called with x: missing .* 'b'"):
        audit(lambda x, b: x * b, formula="x")
    with pytest.raises(ValueError, match="Gate cannot be called with x, b: too many"):
        audit(function, reference=lambda x, b: x * b)


def test_a_module_that_raises_is_explained(tmp_path: Path) -> None:
    (tmp_path / "raising.py").write_text("raise RuntimeError('boom')\n")
    with pytest.raises(ValueError, match="raising cannot be imported: boom"):
        load_target(f"{tmp_path}/raising.py::gate")


def test_check_function_raises_with_all_findings() -> None:
    with pytest.raises(AssertionError, match="value_and_gradients: y with shapes"):
        check_function(torch.sin, torch.cos, ["x"], only=["value_and_gradients"])
    report = check_function(torch.sin, torch.cos, ["x"], only=["value_and_gradients"], raises=False)
    assert not report.ok
    assert check_function(torch.sin, torch.sin, ["x"], only=["value_and_gradients", "torch_func"]).ok


def test_what_is_wrong_at_a_kink_is_found_without_a_jvp_which_is_missed_once() -> None:
    class Relu(torch.autograd.Function):  # of which no copy can be pickled
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return torch.relu(x)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return None if grad is None else torch.where(x >= 0, grad, 0)

    report = check_function(Relu, torch.relu, ["x"], skip=["pickled"], raises=False)
    assert {f.check for f in report.findings} == {"every_branch", "forward_mode"}
    assert check_function(Relu, torch.relu, ["x"], only=["devices", "layouts"]).ok


def test_a_check_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="no check called 'hessian'"):
        check_function(torch.sin, torch.sin, ["x"], only=["hessian"])


def test_the_command_exits_with_1_where_something_is_wrong(source: Path) -> None:
    command = ["audit", f"{source}::Gate", "--reference", f"{source}::gate"]
    done = CliRunner().invoke(main, [*command, "--no-time", "--only", "every_branch"])
    assert done.exit_code == 1
    assert "the second derivative in x" in done.output
    wrong = CliRunner().invoke(main, command[:-2])
    assert wrong.exit_code == 2 and "Give one of" in wrong.output


def test_the_fixture_fails_a_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "import torch\n\n\ndef test_it(symgrad_audit):\n"
        "    symgrad_audit(torch.sin, reference=torch.cos, inputs=['x'], only=['value_and_gradients'])\n"
    )
    done = pytester.runpytest_inprocess("-p", "no:xdist")
    done.assert_outcomes(failed=1)
    assert "by the composite" in done.stdout.str()
