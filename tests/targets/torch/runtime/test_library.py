"""An operation that names an operator of torch.library is one node of an exported program, with its gradient."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from compiled import compiled_text

from symgrad.errors import SpecError
from symgrad.notebook import generate
from symgrad.spec import parse_spec
from symgrad.testing.checks import CHECKS, run
from tests.mutants import subject_of

# A tensor that may be absent, a hyperparameter of each kind, a kept intermediate, an output without a gradient; and a
# rule that torch.export loses of every other Function.
GATED = """
op: gated
tensors: {x: , beta: {default: 1}}
hyperparameters: {k: 2.0, n: 1, flag: true, way: {type: str, default: one, choices: [one, all]}}
let: {each: "where(flag, x * sigmoid(k * beta * x)**n, x)"}
outputs: {y: "where(way == 'one', each, sum(each))", positive: {expr: x > 0, grad: false}}
options: {library: symgrad_tests::gated}
"""
SHAPED = """
op: shaped
tensors: {x: {shape: [N, D]}, w: {shape: [D]}}
outputs: {y: x * w}
options: {library: symgrad_tests::shaped}
"""
CLIPPED = """
op: clipped
tensors: {χ: }
outputs: {y: 2 * χ}
gradients: {χ: "clamp(grad_y, -1, 1)"}
options: {library: symgrad_tests::clipped}
"""


@pytest.mark.parametrize("text", [GATED, SHAPED, CLIPPED], ids=["gated", "shaped", "clipped"])
def test_the_operator_passes_opcheck_and_is_exported_whole(text: str, tmp_path: Path) -> None:
    subject = subject_of(tmp_path / "ops", generate(text))
    assert subject.library.startswith("symgrad_tests::")
    assert not run(CHECKS["operator"], subject)


def test_an_exported_program_keeps_a_rule_that_is_not_linear() -> None:
    function: Any = compiled_text(CLIPPED).function

    class Doubled(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return 5 * function(x)

    x = torch.ones(3, requires_grad=True)
    torch.export.export(Doubled(), (x,)).module()(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1.0] * 3


def test_a_module_may_be_loaded_again() -> None:
    compiled_text(CLIPPED.replace("2 *", "3 *")).function(torch.ones(1))
    assert torch.ops.symgrad_tests.clipped(torch.ones(1)).tolist() in ([2.0], [3.0])
    again: Any = compiled_text(CLIPPED.replace("2 *", "4 *")).module
    assert torch.ops.symgrad_tests.clipped(torch.ones(1)).tolist() == [4.0]
    assert again.clipped(torch.ones(1)).tolist() == [4.0]


@pytest.mark.parametrize("name", ["gated", "a::b::c", "1::a", "my-lib::a", "lib::"])
def test_what_is_no_name_in_a_namespace_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="such as mylib::my_op"):
        parse_spec(GATED.replace("symgrad_tests::gated", f"'{name}'"))
