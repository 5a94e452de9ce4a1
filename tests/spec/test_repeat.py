"""A repeated set of intermediates is calculated round by round, from the values of the round before."""

from __future__ import annotations

import pytest
import torch
from compiled import compiled_text

from symgrad.errors import SpecError
from symgrad.spec import parse_spec
from symgrad.spec.write import as_yaml

NEWTON = """
op: root
tensors: {x: {domain: "(0, oo)"}}
let:
  r: 1 + 0*x
  rounds:
    repeat: 6
    let:
      q: x / r
      r: (r + q) / 2
outputs: {y: r, last: q}
"""


def test_each_round_reads_the_one_before() -> None:
    op = compiled_text(NEWTON)
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    y, last = op.function(x)
    torch.testing.assert_close(y, x.sqrt())
    torch.testing.assert_close(last, x.sqrt())
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], 0.5 / x.sqrt())


def test_a_repeated_set_comes_back_from_its_yaml() -> None:
    spec = parse_spec(NEWTON)
    again = parse_spec(as_yaml(spec))
    assert again.equations == spec.equations and [f.loop for f in again.let] == [f.loop for f in spec.let]
    assert ("q", "x / r, 6 times") in spec.equations


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{repeat: 0, let: {r: r}}", "must be a whole number from 1 to 100"),
        ("{repeat: n, let: {r: r}}", "must be a whole number from 1 to 100"),
        ("{let: {r: r}}", "let.again.repeat: is missing"),
        ("{repeat: 3, let: {x: r}}", "'x' is declared already: it is a tensor on line 2"),
        ("{repeat: 3, let: {r: r + t}}", "unknown name 't'"),
        ("{repeat: 3, let: {r: r + s, s: r}}", "'s' is defined further down"),
    ],
)
def test_what_is_wrong_with_a_repeated_set_is_said_once(body: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        compiled_text(f"op: f\ntensors: {{x: }}\nlet:\n  r: x\n  again: {body}\noutputs: {{y: r}}\n")
    assert [message in m.render() for m in caught.value.mistakes] == [True]
