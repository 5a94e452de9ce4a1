"""What reading a spec gives, from a text or a file."""

import math
import os
import pickle
from pathlib import Path

import pytest

from symgrad.errors import Location, SpecError
from symgrad.spec import (
    Formula,
    Interval,
    Module,
    Options,
    Parameter,
    Sampling,
    load_spec,
    parse_spec,
)

SWISH = """\
op: swish
summary: Swish activation with a learnable slope.
reference: Ramachandran et al., "Searching for Activation Functions", 2017
tensors:
  x:
  beta:
outputs:
  y: x * sigmoid(beta * x)
module:
  parameters: {beta: 1.0}
"""

FULL = """\
op: everything
doc: |
  Several
  lines.
tensors:
  input: {shape: [..., features], domain: "(0, oo)", doc: what comes in}
  weight: {shape: [features, 3]}
  bias: {default: 0}
  target: {grad: false}
  index: {dtype: int}
hyperparameters:
  beta: {type: float, default: 1, domain: "[0, 10]"}
  power: 2
  flag: true
  mode: {type: str, choices: [none, mean], default: mean, doc: how}
  eps: 1e-3
  required: {type: int}
let:
  d: input - target
  e: d**2
outputs:
  loss: where(abs(d) < beta, e, d)
  mask: {expr: d > 0, grad: false, doc: where}
  one: 1
gradients:
  input: grad_loss
  weight: 0
module: {parameters: {weight: {init: 0.5, shape: [features, 3]}, bias: 0}}
options: {save: memory, double_backward: false, accumulate: same, precision: fast, align: names, kernels: true}
test:
  shapes: {input: [2, 4], weight: [4, 3]}
  ranges: {input: [0.5, 3]}
  values: {beta: [0.5, 2], mode: [none]}
"""


# --------------------------------------------------------------------------- what is read


def test_a_small_spec() -> None:
    spec = parse_spec(SWISH, "specs/swish.yaml")
    assert (spec.op, spec.path, spec.text) == ("swish", "specs/swish.yaml", SWISH)
    assert [(tensor.name, tensor.grad, tensor.dtype) for tensor in spec.tensors] == [
        ("x", True, "float"),
        ("beta", True, "float"),
    ]
    assert spec.outputs[0].formula == Formula("y", "x * sigmoid(beta * x)", Location(8, 6), "outputs.y")
    assert spec.module == Module((Parameter("beta", 1.0),))
    assert spec.options == Options()
    assert spec.test == Sampling()
    assert (spec.let, spec.hyperparameters, spec.gradients, spec.doc) == ((), (), {}, "")


def test_a_spec_with_every_key() -> None:
    spec = parse_spec(FULL)
    tensors = {tensor.name: tensor for tensor in spec.tensors}
    assert list(tensors) == ["input", "weight", "bias", "target", "index"]
    assert tensors["input"].shape == ("...", "features")
    assert tensors["input"].domain == Interval(0, math.inf, True, True)
    assert tensors["weight"].shape == ("features", 3)
    assert tensors["bias"].default == 0
    assert [name for name, tensor in tensors.items() if not tensor.grad] == ["target", "index"]
    assert tensors["target"].location == Location(9, 3)
    assert [(h.name, h.type, h.default) for h in spec.hyperparameters] == [
        ("beta", "float", 1.0),
        ("power", "int", 2),
        ("flag", "bool", True),
        ("mode", "str", "mean"),
        ("eps", "float", 0.001),
        ("required", "int", None),
    ]
    assert isinstance(spec.hyperparameters[0].default, float)
    assert spec.hyperparameters[3].choices == ("none", "mean")
    assert [formula.text for formula in spec.let] == ["input - target", "d**2"]
    assert [(output.name, output.grad, output.doc) for output in spec.outputs] == [
        ("loss", True, ""),
        ("mask", False, "where"),
        ("one", True, ""),
    ]
    assert spec.outputs[1].location == Location(23, 16)
    assert {name: formula.text for name, formula in spec.gradients.items()} == {
        "input": "grad_loss",
        "weight": "0",
    }
    assert spec.module == Module((Parameter("weight", 0.5, ("features", 3)), Parameter("bias", 0)))
    assert spec.options == Options("memory", False, None, "same", "fast", "names", "all")
    assert spec.test == Sampling(
        {"input": (2, 4), "weight": (4, 3)}, {"input": (0.5, 3)}, {"beta": (0.5, 2.0), "mode": ("none",)}
    )
    assert spec.doc == "Several\nlines.\n"


def test_a_spec_is_a_value() -> None:
    spec = parse_spec(FULL)
    assert spec == parse_spec(FULL)
    assert hash(spec) == hash(parse_spec(FULL))
    assert pickle.loads(pickle.dumps(spec)) == spec
    with pytest.raises(AttributeError):
        spec.op = "other"  # type: ignore[misc]


@pytest.mark.parametrize("literal", ["1", "1e-3", "0x10", "true", "1.50"])
def test_a_formula_keeps_its_raw_text(literal: str) -> None:
    assert parse_spec(f"op: f\ntensors: {{x: }}\noutputs:\n  y: {literal}\n").outputs[0].formula.text == literal


def test_a_mistake_inside_a_formula_has_its_place_in_the_file() -> None:
    spec = parse_spec("op: f\ntensors: {x: }\noutputs:\n  y: |\n    x +\n      bta\n", "a.yaml")
    formula = spec.outputs[0].formula
    assert formula.location == Location(5, 5)
    mistake = spec.mistake(formula, formula.text.index("bta"), "unknown name 'bta'")
    assert mistake.render() == "a.yaml:6:7: outputs.y: unknown name 'bta'\n      bta\n      ^"


def test_a_formula_without_a_file_has_places_too() -> None:
    assert Formula("y", "a + b", Location(3, 10)).locate(4) == Location(3, 14)


@pytest.mark.parametrize(
    "name",
    ["S", "N", "I", "lambda_", "ctx", "torch", "grad_y", "no", "on", "true", "null", "θ", "exp", "_", "self"],
)
def test_any_identifier_is_a_name(name: str) -> None:
    spec = parse_spec(f"op: f\ntensors: {{{name}: }}\noutputs: {{out: 1}}\noptions: {{inplace: {name}}}")
    assert spec.tensors[0].name == spec.options.inplace == name


def test_names_are_normalised_as_python_does() -> None:
    spec = parse_spec("op: f\ntensors: {ﬁ: }\noutputs: {y: 1}\ngradients: {fi: 1}")
    assert spec.tensors[0].name == "fi"
    with pytest.raises(SpecError, match="'fi' is declared already: it is a tensor on line 2"):
        parse_spec("op: f\ntensors: {ﬁ: , fi: }\noutputs: {y: 1}")


@pytest.mark.parametrize("op", ["relu", "log1p_exp", "conv1d", "sum", "max", "exp", "sort", "swish", "matmul", "l"])
def test_operations_may_be_called_what_they_are(op: str) -> None:
    assert parse_spec(f"op: {op}\ntensors: {{x: }}\noutputs: {{y: x}}").op == op


def test_a_domain_may_be_a_list_of_two_bounds() -> None:
    assert parse_spec(
        "op: f\ntensors: {x: }\nhyperparameters: {p: {default: 1.0, domain: [0, pi/2]}}\noutputs: {y: x}"
    ).hyperparameters[0].domain == Interval(0, math.pi / 2, False, False)


# --------------------------------------------------------------------------- files


def test_load_spec_reads_a_file(tmp_path: Path) -> None:
    path = tmp_path / "swish.yaml"
    path.write_text(SWISH)
    assert load_spec(path) == parse_spec(SWISH, str(path))


def failure(path: str | Path) -> str:
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    (mistake,) = caught.value.mistakes
    assert mistake.location == Location(1, 1)
    return mistake.message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert failure(tmp_path / "absent.yaml") == "no such file or directory"
    assert failure(tmp_path) == "not a file; give the path of a spec"
    assert failure("a\0b") == "not a path"
    assert failure("a" * 10_000)
    (tmp_path / "large.yaml").write_bytes(b" " * 2_000_000)
    assert "larger than" in failure(tmp_path / "large.yaml")
    (tmp_path / "empty.yaml").touch()
    assert failure(tmp_path / "empty.yaml") == "the file is empty"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert failure(tmp_path / "pipe") == "not a file; give the path of a spec"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="needs a user without all rights")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "secret.yaml"
    path.write_text(SWISH)
    path.chmod(0)
    assert failure(path) == "permission denied"


@pytest.mark.parametrize(
    ("written", "meant"), [("true", "all"), ("false", "none"), ("auto", "auto"), ("all", "all"), ("none", "none")]
)
def test_kernels_take_a_word_or_a_truth_value(written: str, meant: str) -> None:
    spec = parse_spec(f"op: f\ntensors: {{x: }}\noutputs: {{y: x}}\noptions: {{kernels: {written}}}\n")
    assert spec.options.kernels == meant
