"""Commands for frameworks beside PyTorch: what is kept there, what is proven, what is measured, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from symgrad.cli import main

SPEC = "op: gate\ntensors: {x: }\noutputs: {y: x * sigmoid(x)}\n"
IN_PLACE = "op: sq\ntensors: {x: }\noutputs: {y: x**2}\noptions: {inplace: x}\n"


@pytest.fixture
def spec(tmp_path: Path) -> str:
    (tmp_path / "gate.yaml").write_text(SPEC)
    (tmp_path / "sq.yaml").write_text(IN_PLACE)
    return str(tmp_path / "gate.yaml")


def test_explain_tells_what_is_kept_in_each_target_alone(spec: str) -> None:
    result = CliRunner().invoke(main, ["explain", "--no-prove", "--target", "jax", "--target", "mlx", spec])
    assert result.exit_code == 0
    assert "Kept for reverse mode in JAX" in result.stdout
    assert "Kept for reverse mode in MLX" in result.stdout
    assert "Kept for the backward pass" not in result.stdout


def test_files_for_other_targets_than_those_of_one_command_are_not_left_over(spec: str, tmp_path: Path) -> None:
    out = ["-o", str(tmp_path / "out"), "-j", "1"]
    assert CliRunner().invoke(main, ["gen", spec, *out]).exit_code == 0
    for command in (["gen", "--prune"], ["check"]):
        result = CliRunner().invoke(main, [*command, spec, *out, "--target", "jax"])
        assert result.exit_code == 0, result.output
        assert "left over" not in result.output
    assert {"gate.py", "gate_jax.py"} <= {path.name for path in (tmp_path / "out").iterdir()}


def test_prove_judges_what_is_written_for_the_target(spec: str) -> None:
    """JAX makes gradients of the tangents."""
    result = CliRunner().invoke(main, ["prove", "--target", "jax", "-j", "1", spec])
    assert "tangent of y by x: proven" in result.stdout
    assert "dy/dx" not in result.stdout
    assert result.stdout.endswith("2 claims: 2 proven\n")


@pytest.mark.parametrize("command", [["explain", "--no-prove"], ["prove", "-j", "1"]])
def test_what_a_target_cannot_have_is_told_at_its_place(command: list[str], spec: str) -> None:
    result = CliRunner().invoke(main, [*command, "--target", "mlx", spec.replace("gate", "sq")])
    assert result.exit_code == 1
    assert "sq.yaml:4:11: options.inplace: MLX has no operations in place" in result.stderr


def test_bench_measures_a_module_against_its_composite(spec: str, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    figures = tmp_path / "figures.json"
    arguments = ["bench", "--target", "jax", "--size", "64", "--rounds", "2", "--json", str(figures), spec]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    (row,) = json.loads(figures.read_text())
    assert (row["op"], row["kept"][0], row["scanned"][0]) == ("gate", 256, 256)
    assert row["kept"][1] > 256
