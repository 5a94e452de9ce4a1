"""An audit of a JAX function names what is wrong, says what to do, and recognises whom it is about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

jax = pytest.importorskip("jax")

from symgrad.cli import main  # noqa: E402
from symgrad.testing.review_jax import audit  # noqa: E402
from symgrad.testing.sources import load_target  # noqa: E402

SOURCE = """
import jax
import jax.numpy as jnp


def formula(x, k=1.0):
    return jnp.sin(k * x)


@jax.custom_jvp
def lost(x):
    return jnp.sin(x)


@lost.defjvp
def _(primals, tangents):
    return lost(*primals), jax.lax.stop_gradient(jnp.cos(primals[0])) * tangents[0]


@jax.custom_vjp
def reverse_only(x):
    return jnp.sin(x)


reverse_only.defvjp(lambda x: (jnp.sin(x), (x, x + 1)), lambda kept, g: (jnp.cos(kept[1] - 1) * g,))
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("audited") / "rules_of_jax.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def test_a_lost_second_derivative_is_told_by_the_command_that_sees_what_jax_made(source: Path) -> None:
    result = CliRunner().invoke(main, ["audit", f"{source}::lost", "--formula", "sin(x)", "--only", "derivatives"])
    assert result.exit_code == 1
    assert "lost against y = sin(x)" in result.output
    assert "forward over forward" in result.output or "reverse over" in result.output
    assert "-> a rule calls" in result.output


def test_a_rule_without_forward_mode_is_told_and_the_rest_goes_on(source: Path) -> None:
    found = audit(load_target(f"{source}::reverse_only"), formula="sin(x)", only=["derivatives", "residuals"])
    assert not found.ok
    checks = [text.partition(":")[0] for text in found.found]
    assert checks == ["forward_mode", "residuals"]  # no derivative is wrong
    assert found.bytes["this"][0] == 2 * found.bytes["generated"][0]


def test_a_plain_function_is_held_to_a_reference_in_jax(source: Path) -> None:
    plain: Any = load_target(f"{source}::formula")
    command = ["audit", f"{source}::formula", "--reference", f"{source}::formula", "--target", "jax"]
    result = CliRunner().invoke(main, [*command, "--set", "k=2.0", "--only", "values"])
    assert (result.exit_code, "1 of 1 checks passed" in result.output) == (0, True), result.output
    assert not audit(plain, reference=lambda x: plain(x, 2.0), inputs=["x"], only=["values"]).ok


def test_unknown_checks_are_refused() -> None:
    with pytest.raises(ValueError, match="no check is called speed"):
        audit(jax.numpy.sin, formula="sin(x)", only=["speed"])
