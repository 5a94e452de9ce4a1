"""All formulas of a spec: what each may use, the shapes that they have, and every mistake at once."""

import pytest
from effort import at_most

from symgrad.errors import SpecError
from symgrad.ir.expr import ONE, ZERO, make, symbol
from symgrad.ir.traversal import topological
from symgrad.ops.functions import call
from symgrad.parse import Program, parse_formulas
from symgrad.spec import parse_spec

X = symbol("x")

SMOOTH_L1 = """\
op: smooth_l1
tensors:
  input:
  target: {grad: false}
hyperparameters:
  beta: {type: float, default: 1.0, domain: "(0, oo)"}
  reduction: {type: str, default: mean, choices: [none, mean, sum]}
let:
  d: input - target
  loss: where(abs(d) < beta, d**2 / (2*beta), abs(d) - beta/2)
outputs:
  y: where(reduction == "mean", mean(loss), where(reduction == "sum", sum(loss), loss))
  inside: {expr: abs(d) < beta, grad: false}
gradients:
  input: clamp(grad_y, -1, 1) * sign(d) + 0*y
"""


def program(text: str) -> Program:
    return parse_formulas(parse_spec(text, "a.yaml"))


def test_a_whole_spec() -> None:
    found = program(SMOOTH_L1)
    assert list(found.symbols) == ["input", "target", "beta", "reduction"]
    assert found.symbols["reduction"]["kind"] == "str"
    assert list(found.lets) == ["d", "loss"]
    assert list(found.outputs) == ["y", "inside"]
    assert list(found.cotangents) == ["y"]
    assert found.cotangents["y"] is symbol("grad_y", "cotangent")
    d = found.lets["d"]
    assert d is symbol("input") - symbol("target")
    assert d in topological(found.lets["loss"])
    assert found.outputs["inside"].is_boolean
    assert found.gradients["input"] is make("clamp", found.cotangents["y"], -ONE, ONE) * call("sign", d)


def test_kinds_of_symbols() -> None:
    text = "op: a\ntensors: {x: , i: {dtype: int}, m: {dtype: bool}}\nhyperparameters: {k: 1}\noutputs: {y: x}\n"
    found = program(text)
    assert [s["kind"] for s in found.symbols.values()] == ["tensor", "int_tensor", "bool_tensor", "int"]


def spec_mistakes(old: str, new: str, text: str = SMOOTH_L1) -> list[str]:
    assert old in text
    with pytest.raises(SpecError) as caught:
        program(text.replace(old, new))
    return [mistake.render().splitlines()[0] for mistake in caught.value.mistakes]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("beta, d**2", "bta, d**2", "10:24: let.loss: unknown name 'bta'; did you mean 'beta'?"),
        ("input - target", "input - loss", "9:14: let.d: 'loss' is defined further down"),
        ("input - target", "input - d", "9:14: let.d: 'd' is what is defined here"),
        ("expr: abs(d) <", "expr: y <", "13:18: outputs.inside: 'y' is an output; name what is shared under 'let'"),
        ("expr: abs(d) <", "expr: grad_y <", "13:18: outputs.inside: 'grad_y' is known under 'gradients' only"),
        (
            "clamp(grad_y",
            "clamp(grad_inside",
            "15:16: gradients.input: the output 'inside' has 'grad: false', so it has no gradient",
        ),
        ("(grad_y", "(grad_z", "15:16: gradients.input: unknown name 'grad_z'; did you mean 'grad_y'?"),
        (
            ", grad: false}\ng",
            "}\ng",
            "13:18: outputs.inside: a truth value has no gradient; write {expr: ..., grad: false}",
        ),
        ("expr: abs(d) < beta", "expr: beta", "13:18: outputs.inside: depends on no tensor"),
        (
            '"sum"',
            '"sun"',
            "12:64: outputs.y: 'reduction' is never 'sun', but one of 'none', 'mean', 'sum'; did you mean 'sum'?",
        ),
        (
            "clamp(grad_y, -1, 1) * sign(d) + 0*y",
            "d > 0",
            "15:10: gradients.input: a gradient is a number; write where(condition, a, b)",
        ),
    ],
)
def test_a_mistake_in_a_spec(old: str, new: str, expected: str) -> None:
    assert spec_mistakes(old, new) == [f"a.yaml:{expected}"]


def test_an_integer_has_no_gradient() -> None:
    text = "op: a\ntensors: {i: {dtype: int}}\noutputs: {y: i}\n"
    assert spec_mistakes("y: i", "y: i", text) == [
        "a.yaml:3:14: outputs.y: an integer has no gradient; write {expr: ..., grad: false}"
    ]


@pytest.mark.parametrize(
    ("tensors", "formula", "expected"),
    [
        ("{x: , w: }", "sum(x*w)", "not known to be of the shape of 'x', which 'inplace' overwrites"),
        (
            "{x: {shape: [N]}, w: {shape: [M, N]}}",
            "x*w",
            "of shape [M, N], where 'x', which 'inplace' overwrites, has [N]",
        ),
        ("{x: , w: }", "sum(x*w, dim=1)", "not known to be of the shape of 'x', which 'inplace' overwrites"),
        ("{x: {dtype: int}, w: }", "exp(x)*w", "'x', which 'inplace' overwrites, holds integers; the result does not"),
    ],
)
def test_what_is_written_into_a_tensor_fits_it(tensors: str, formula: str, expected: str) -> None:
    text = f"op: a\ntensors: {tensors}\noutputs:\n  y: {formula}\noptions: {{inplace: x}}\n"
    assert spec_mistakes(formula, formula, text) == [f"a.yaml:4:6: outputs.y: {expected}"]
    program(text.replace(formula, "softmax(x, dim=-1)" if "int" not in tensors else "{expr: 2*x, grad: false}"))
    program("op: a\ntensors: {x: {shape: [n, m]}, w: {shape: [m, m]}}\noutputs: {y: x @ w}\noptions: {inplace: x}")


def test_all_mistakes_of_a_spec_and_none_that_follow_from_them() -> None:
    found = spec_mistakes("input - target", "input - targt")
    assert found == ["a.yaml:9:14: let.d: unknown name 'targt'; did you mean 'target'?"]
    text = SMOOTH_L1.replace("beta/2", "bta/2").replace("sign(d)", "sgin(d)")
    assert len(spec_mistakes("input - target", "input - targt", text)) == 3


def test_a_tensor_named_like_a_gradient() -> None:
    text = "op: a\ntensors: {x: , grad_y: }\noutputs: {y: x * grad_y}\ngradients: {x: 2*x}\n"
    program(text)
    assert spec_mistakes("2*x", "grad_y", text) == [
        "a.yaml:4:16: gradients.x: 'grad_y' is declared, and is the gradient of 'y' too; rename one"
    ]


def test_an_output_has_the_shape_of_its_formula() -> None:
    text = "op: a\ntensors: {x: , y: }\nlet: {zero: x - x}\noutputs: {z: y + zero, one: x**0}\n"
    assert {name: repr(e) for name, e in program(text).outputs.items()} == {
        "z": "expand(y, x + y)",
        "one": "expand(1, x + 1)",
    }


def test_named_dimensions_align() -> None:
    text = "op: a\ntensors: {x: {shape: [N, C, H, W]}, b: {shape: [C]}}\noutputs: {y: x + b}\n"
    assert repr(program(text).outputs["y"]) == "b[..., None, None] + x"


def test_shapes_that_contradict_each_other() -> None:
    text = "op: a\ntensors: {x: {shape: [N, 3]}, b: {shape: [4]}}\noutputs: {y: 2 * (x - b)}\n"
    (mistake,) = spec_mistakes("x - b", "x - b", text)
    assert mistake.startswith("a.yaml:3:19: outputs.y: ")
    assert spec_mistakes("x - b", "x - b + b", text)


def test_a_stopped_gradient() -> None:
    text = "op: a\ntensors: {x: }\noutputs: {y: x}\ngradients: {x: 0}\n"
    assert program(text).gradients["x"] is ZERO


def test_the_place_in_a_folded_formula() -> None:
    text = "op: a\ntensors: {x: }\noutputs:\n  y: >-\n    x +\n    x * bta\n"
    assert spec_mistakes("bta", "bta", text) == ["a.yaml:6:9: outputs.y: unknown name 'bta'"]


def test_a_deep_chain_of_intermediates() -> None:
    names = "".join(f"  a{i + 1}: sin(a{i}) * x + 1\n" for i in range(200))
    text = f"op: a\ntensors: {{x: }}\nlet:\n  a0: x\n{names}outputs: {{y: a200}}\n"
    with at_most(calls=3_000_000):
        assert len(repr(program(text).outputs["y"])) < 100_000


def test_a_spec_beyond_all_help() -> None:
    names = "".join(f"  a{i}: {'+'.join(f'unknown{j}' for j in range(15))}\n" for i in range(200))
    text = f"op: a\ntensors: {{x: }}\nlet:\n{names}outputs: {{y: x}}\n"
    with at_most(calls=3_000_000):
        assert 100 <= len(spec_mistakes("y: x", "y: x", text)) < 120
