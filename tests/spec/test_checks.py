"""Every mistake in a spec is told, at its place, and nothing else."""

import sys

import pytest

from symgrad.errors import SpecError
from symgrad.spec import parse_spec


def spec_with(extra: str) -> str:
    return "op: f\ntensors: {x: , t: {grad: false}}\noutputs: {y: x}\n" + extra


def rendered(text: str | bytes) -> list[str]:
    """What every mistake says, with its place."""
    try:
        parse_spec(text, "a.yaml")
    except SpecError as error:
        return [mistake.render().splitlines()[0].removeprefix("a.yaml:") for mistake in error.mistakes]
    return []


def calls_of(text: str) -> tuple[int, int]:
    """How many mistakes a text has, and how many calls and returns it takes to find them: the same on every machine."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        found = rendered(text)
    finally:
        sys.setprofile(None)
    return len(found), calls


def test_all_mistakes_come_at_once_in_the_order_of_the_file() -> None:
    found = rendered(
        "op: My-Op\n"
        "sumary: text\n"
        "tensors:\n"
        "  x: {grad: maybe}\n"
        "  pi:\n"
        "  x2: 3\n"
        "outputs:\n"
        "  x: 1\n"  # as a tensor is, which it may be
        "  y:\n"
        "options: {save: fast}\n"
        "op: again\n"
    )
    assert found == [
        "1:5: op: 'My-Op' is not snake_case (such as 'smooth_l1')",
        "2:1: sumary: unknown key 'sumary'; did you mean 'summary'?",
        "4:13: tensors.x.grad: must be true or false, not the text 'maybe'",
        "5:3: tensors.pi: 'pi' is a constant of the language",
        "6:7: tensors.x2: must be a mapping of keys such as 'grad' or 'domain', or nothing, not 3",
        "9:3: outputs.y: must be a formula of at most 10000 characters, not nothing",
        "10:17: options.save: must be auto, memory or speed, not the text 'fast'",
        "11:1: the key 'op' stands on line 1 already",
    ]


@pytest.mark.parametrize(
    "op",
    [
        *[
            "../../x",
            "/x",
            "a b",
            "Swish",
            "1x",
            "class",
            "None",
            "__init__",
            "_x",
            "x_",
            "a__b",
            "é",
            "x" * 100,
        ],
        *[
            "torch",
            "test",
            "test_x",
            "conftest",
            "symgrad",
            "isinstance",
            "float",
            "math",
            "pi",
            "tensor",
            "function",
            "con",
        ],
        *["true", "12", "[a]", "{a: b}", "'a\n  b'"],
    ],
)
def test_what_is_no_name_of_an_operation(op: str) -> None:
    found = rendered(f"op: {op}\ntensors: {{x: }}\noutputs: {{y: x}}")
    assert len(found) == 1
    assert found[0].startswith("1:5: op: ")


@pytest.mark.parametrize(
    "name", ["lambda", "None", "pi", "E", "oo", "1x", "a-b", "''", "a.b", "__debug__", "\uff49\uff46"]
)
@pytest.mark.parametrize("section", ["tensors", "hyperparameters", "let", "outputs"])
def test_what_is_no_name(section: str, name: str) -> None:
    sections = {"tensors": "a: ", "hyperparameters": "b: 1", "let": "c: 1", "outputs": "d: 1"}
    lines = [f"{key}: {{{entry}{f', {name}: 1' if key == section else ''}}}" for key, entry in sections.items()]
    found = rendered("op: f\n" + "\n".join(lines).replace(f"{name}: 1", f"{name}: ", section == "tensors"))
    assert len(found) == 1
    assert f": {section}." in found[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tensors: {x: }\noutputs: {y: x}", "1:1: op: is missing"),
        ("op: f\noutputs: {y: 1}", "1:1: tensors: is missing"),
        ("op: f\ntensors: {x: }", "1:1: outputs: is missing"),
        ("op: f\ntensors:\noutputs: {y: 1}", "2:1: tensors: an operation has at least one tensor"),
        ("op: f\ntensors: {x: }\noutputs: {}", "3:1: outputs: an operation has at least one output"),
        ("op: f\ntensors: [x]\noutputs: {y: 1}", "2:10: tensors: must be a mapping of names"),
        ("op:\ntensors: {x: }\noutputs: {y: 1}", "1:1: op: must be a text, not nothing"),
    ],
)
def test_what_a_spec_needs(text: str, expected: str) -> None:
    assert [line[: len(expected)] for line in rendered(text)] == [expected]


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ("let: {x: 1}", "let.x: 'x' is declared already"),
        ("let: {y: 1}", "outputs.y: 'y' is declared already: it is an intermediate on line 4"),
        ("hyperparameters: {y: 1}", "outputs.y: 'y' is declared already"),
        ("let: [a]", "let: must be a mapping of names to formulas, not a list"),
        ("let: {a: [1]}", "let.a: must be a formula"),
        ("let: {a: ''}", "let.a: must be a formula"),
        ("summary: [a]", "summary: must be a text, not a list"),
        ("summary: 2017", "summary: must be a text, not 2017"),
        ("module: {parameter: {}}", "module.parameter: unknown key 'parameter'; did you mean 'parameters'?"),
        ("module: {parameters: {z: 1}}", "module.parameters.z: unknown tensor 'z'"),
        ("module: {parameters: {x: one}}", "module.parameters.x: must be a finite number"),
        ("module: {parameters: {x: true}}", "module.parameters.x: must be a finite number, not true"),
        ("module: {parameters: {x: .nan}}", "module.parameters.x: must be a finite number"),
        ("module: {parameters: {x: {shape: [3]}}}", "module.parameters.x.init: is missing"),
        ("module: {parameters: {x: {init: 1, shape: [0]}}}", "module.parameters.x.shape[0]: must be a posit"),
        ("module: {parameters: {x: {init: 1, shape: [...]}}}", "module.parameters.x.shape: a parameter has"),
        ("module: {parameters: {t: 1}}", "module.parameters.t: the tensor 't' is never differentiated"),
        ("gradients: {z: 1}", "gradients.z: unknown tensor 'z'"),
        ("gradients: {t: 1}", "gradients.t: the tensor 't' is never differentiated"),
        ("gradients: {x: }", "gradients.x: must be a formula"),
        ("options: {inplace: z}", "options.inplace: unknown tensor 'z'"),
        ("options: {inplace: [x]}", "options.inplace: must be the name of a tensor, not a list"),
        ("options: {double_backward: yes}", "options.double_backward: must be true or false"),
        ("options: {accumulate: float64}", "options.accumulate: must be float32 or same"),
        ("options: {kernels: 1}", "options.kernels: must be auto, all or none, not 1"),
        ("test: {shapes: {z: [1]}}", "test.shapes.z: unknown tensor 'z'"),
        ("test: {shapes: {x: 3}}", "test.shapes.x: must be a list of sizes, not 3"),
        ("test: {shapes: {x: [-1]}}", "test.shapes.x[0]: must be a size"),
        ("test: {shapes: {x: [1.0]}}", "test.shapes.x[0]: must be a size"),
        ("test: {shapes: {x: [99999, 99999]}}", "test.shapes.x: a tested tensor has at most"),
        ("test: {ranges: {x: [1, 0]}}", "test.ranges.x: a reversed range"),
        ("test: {ranges: {x: [0, 1, 2]}}", "test.ranges.x: must be two numbers"),
        ("test: {ranges: {x: [0, .inf]}}", "test.ranges.x[1]: must be a finite number"),
        ("test: {values: {p: [1]}}", "test.values.p: unknown hyperparameter 'p'"),
    ],
)
def test_mistakes(extra: str, expected: str) -> None:
    found = rendered(spec_with(extra))
    assert len(found) == 1
    assert expected in found[0]


@pytest.mark.parametrize(
    ("tensor", "extra", "expected"),
    [
        ("", "test: {ranges: {x: [1]}}", "test.ranges.x: must be two numbers, not a list of 1"),
        (
            "{shape: [..., d]}",
            "module: {parameters: {x: 1}}",
            "x: a parameter has definite sizes, not '...'; give 'init'",
        ),
        ("{dtype: int, grad: true}", "", "tensors.x.grad: a tensor of dtype int is never differentiated"),
        ("{dtype: bool, domain: '(0, 1)'}", "", "tensors.x.domain: a tensor of dtype bool has no domain"),
        ("{dtype: complex}", "", "tensors.x.dtype: must be float, int or bool"),
        ("{dtype: int, default: 0.5}", "", "tensors.x.default: must be an integer"),
        ("{dtype: bool, default: 2}", "", "tensors.x.default: must be true, false, 0 or 1, as the dtype is bool"),
        ("{default: none}", "", "tensors.x.default: must be a finite number"),
        ("{default: true}", "", "tensors.x.default: must be a number, as the dtype is float"),
        ("{dtype: int, default: true}", "", "tensors.x.default: must be an integer"),
        ("{default: 0, domain: '(0, 1)'}", "", "tensors.x.default: 0 is outside of the domain (0, 1)"),
        ("{shape: n}", "", "tensors.x.shape: must be a list of dimensions"),
        ("{shape: [0]}", "", "tensors.x.shape[0]: must be a positive size"),
        ("{shape: [1.5]}", "", "tensors.x.shape[0]: must be a positive size"),
        ("{shape: [n, ...]}", "", "tensors.x.shape: '...' stands for leading dimensions"),
        ("{shape: [a-b]}", "", "tensors.x.shape: 'a-b' is not a name"),
        ("{grads: false}", "", "tensors.x.grads: unknown key 'grads'; did you mean 'grad'?"),
        ("{domain: 3}", "", "tensors.x.domain: not an interval"),
        ("{domain: {a: 1}}", "", "tensors.x.domain: not an interval"),
        ("{dtype: int}", "gradients: {x: 1}", "gradients.x: the tensor 'x' is never differentiated"),
        ("{dtype: bool}", "test: {ranges: {x: [0, 1]}}", "test.ranges.x: a tensor of dtype bool"),
        ("{dtype: int}", "test: {ranges: {x: [0.2, 0.8]}}", "test.ranges.x: there is no integer in this range"),
        ("{dtype: int, domain: '(0, 1)'}", "", "tensors.x.domain: there is no integer in (0, 1)"),
        ("{domain: '(0, 1)'}", "test: {ranges: {x: [0, 0.5]}}", "test.ranges.x[0]: 0 is outside of"),
        ("{domain: '(0, 1)'}", "module: {parameters: {x: 2}}", "module.parameters.x: 2 is outside of"),
        ("{shape: [n, 2]}", "test: {shapes: {x: [3]}}", "test.shapes.x: must have the dimensions [n, 2]"),
        ("{shape: [n, n]}", "test: {shapes: {x: [3, 4]}}", "test.shapes.x: the dimension 'n' is 3 here"),
        ("{shape: [n, 2]}", "module: {parameters: {x: {init: 1, shape: [n]}}}", "the tensor 'x' has the"),
        ("{default: 0}", "options: {inplace: x}", "options.inplace: the tensor 'x' may be None"),
    ],
)
def test_mistakes_about_tensors(tensor: str, extra: str, expected: str) -> None:
    everything = rendered(f"op: f\ntensors:\n  x: {tensor}\n  w:\noutputs: {{y: x*w}}\n{extra}")
    found = [mistake for mistake in everything if "outputs.y: " not in mistake]  # which the formula may add
    assert len(found) == 1
    assert expected in found[0]


@pytest.mark.parametrize(
    ("outputs", "extra", "expected"),
    [
        ("{y: 1, z: 2}", "options: {inplace: x}", "options.inplace: an operation in place has one output"),
        ("{y: {expr: 1, grad: false}}", "gradients: {x: 1}", "gradients: every output has 'grad: false'"),
        ("{y: {grad: false}}", "", "outputs.y.expr: is missing"),
        ("{y: {exp: 1, expr: 1}}", "", "outputs.y.exp: unknown key 'exp'; did you mean 'expr'?"),
        ("{y: [1]}", "", "outputs.y: must be a formula of at most 10000 characters, not a list"),
    ],
)
def test_mistakes_about_outputs(outputs: str, extra: str, expected: str) -> None:
    found = rendered(f"op: f\ntensors: {{x: }}\noutputs: {outputs}\n{extra}")
    assert len(found) == 1
    assert expected in found[0]


def test_a_required_hyperparameter_may_follow_one_with_a_default() -> None:
    assert rendered(spec_with("hyperparameters: {p: 1, q: {type: float}}")) == []


def test_the_work_for_a_mistake_does_not_grow_with_their_number() -> None:
    """It is 2000 calls where nothing is suggested; a suggestion compares with every name, and there are not many."""
    wrong = "\n".join(f"  wrong_key_{index}: 1" for index in range(1400))
    found, calls = calls_of(f"op: f\ntensors: {{x: }}\noutputs: {{y: x}}\ngradients:\n{wrong}")
    assert found == 1400 and calls < 4_000 * found
    tensors = "\n".join(f"  tensor_{index}:" for index in range(120))
    wrong = "\n".join(f"  tensro_{index}: 1" for index in range(120))
    found, calls = calls_of(f"op: f\ntensors:\n{tensors}\noutputs: {{y: tensor_0}}\ngradients:\n{wrong}")
    assert found == 120 and calls < 50_000 * found


@pytest.mark.parametrize(
    ("hyperparameter", "expected"),
    [
        ("", ": must be a finite number, true, false or a text, not nothing"),
        ("{}", ": has neither a type nor a default"),
        (".inf", ": must be a finite number"),
        ("1e999", ": must be a finite number"),
        (f"{'9' * 300}", ": must be an integer of 64 bits"),
        (f"{'9' * 399}", ": must be a finite number"),
        ("9223372036854775808", ": must be an integer of 64 bits"),
        ("{type: flaot}", ".type: must be float, int, bool or str, not the te"),
        ("{type: int, default: 1.0}", ".default: must be an integer of 64"),
        ("{type: int, default: true}", ".default: must be an integer of 64"),
        ("{type: str, default: 1}", ".default: must be a text"),
        ("{type: bool, default: 1}", ".default: must be true or false"),
        ("{default: 2.5, domain: '(0, 1)'}", ".default: 2.5 is outside of the doma"),
        ("{default: a, choices: [b]}", ".default: 'a' is not one of the choices"),
        ("{type: int, choices: [1, a]}", ".choices[1]: must be an integer"),
        ("{choices: [1, a]}", ": default and choices are of"),
        ("{choices: []}", ".choices: must be a list of values, not an empty"),
        ("{choices: [a, a]}", ".choices[1]: 'a' stands in the list already"),
        ("{default: a, domain: '(0, 1)'}", ".domain: a hyperparameter of type"),
        ("{default: 1, domain: '(1, 0)'}", ".domain: an empty interval"),
        ("{type: int, domain: '(0, 9)', choices: [1]}", ".choices: a hyperpar"),
    ],
)
def test_mistakes_about_hyperparameters(hyperparameter: str, expected: str) -> None:
    found = rendered(spec_with(f"hyperparameters: {{p: {hyperparameter}}}"))
    assert len(found) == 1
    assert f": hyperparameters.p{expected}" in found[0]


@pytest.mark.parametrize(
    ("hyperparameter", "values", "expected"),
    [
        ("1", "[a]", "[0]: must be an integer"),
        ("{default: 1, domain: '(0, 2)'}", "[2]", "[0]: 2 is ou"),
        ("{choices: [a]}", "[b]", "[0]: 'b' is not one"),
    ],
)
def test_mistakes_about_tested_values(hyperparameter: str, values: str, expected: str) -> None:
    declared = f"hyperparameters: {{p: {hyperparameter}}}"
    found = rendered(spec_with(f"{declared}\ntest: {{values: {{p: {values}}}}}"))
    assert len(found) == 1
    assert f": test.values.p{expected}" in found[0]


def test_mistakes_in_formulas_are_reported_beside_those_of_the_rest() -> None:
    found = rendered("op: Bad-Name\ntensors: {x: , t: {gradd: false}}\noutputs: {y: sigmid(x) + bta, z: t}")
    assert [m.split(": ")[1] for m in found] == ["op", "tensors.t.gradd", "outputs.y", "outputs.y"]


def test_no_cotangent_is_unknown_whose_output_was_refused() -> None:
    found = rendered("op: f\ntensors: {x: }\noutputs: {y: max(x, 0), z: 2*x}\ngradients: {x: grad_y + gard_z}")
    assert [m.split(": ")[-1] for m in found] == [
        "inside of { } a formula with a comma takes quotes",
        "unknown name 'gard_z'; did you mean 'grad_z'?",
    ]


@pytest.mark.parametrize("name", ["pi", "E", "oo"])
def test_a_dimension_may_have_the_name_of_a_constant(name: str) -> None:
    assert rendered(f"op: f\ntensors: {{x: {{shape: [..., {name}]}}}}\noutputs: {{y: x}}") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("op: f\ntensors:\n\tx:\n", "cannot start any token; indent with spaces"),
        ("op: f\ntensors: {x: }\noutputs:\n  y: @x\n", "cannot start any token; put the text in quotes"),
        ("op: f\noutputs:\n  y: where(x > 0: x, 0)\n", "put a text with ': ' in quotes"),
        ("op: f\ntensors: {x: }\noutputs: {y: sum(x, dim=1)}\n", "inside of { } a formula with a comma takes quotes"),
    ],
)
def test_what_to_do_about_the_syntax_of_yaml(text: str, expected: str) -> None:
    assert any(mistake.endswith(expected) for mistake in rendered(text))


@pytest.mark.parametrize(
    ("formulas", "places"),
    [
        ("outputs: {y: {expr: clamp(x, 0, 1)}}", ["3:21"]),
        ("outputs: {y: max(x, 0), z: where(x > 0, x, 0), w: 'max(x, 0)'}", ["3:14", "3:28"]),
        ("outputs: {y: x}\ngradients: {x: clamp(grad_y, -1, max(1, 2))}", ["4:16"]),
    ],
)
def test_a_comma_in_braces_is_one_mistake(formulas: str, places: list[str]) -> None:
    expected = [f"{place}: inside of {{ }} a formula with a comma takes quotes" for place in places]
    assert rendered(f"op: f\ntensors: {{x: }}\n{formulas}\n") == expected


def test_a_torn_formula_hides_no_other_mistake() -> None:
    found = rendered("op: f\ntensors: {x: }\noutputs: {y: max(x, 0), z: 2*q}\n")
    assert len(found) == 2 and found[1].endswith("unknown name 'q'")


def test_one_tensor_is_surely_there() -> None:
    (mistake,) = rendered("op: f\ntensors: {x: {default: 0}, w: {default: 1}}\noutputs: {y: x + w}\n")
    assert "tensors: one tensor has no default" in mistake


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        ("{init: one, shape: [...]}", [".init: must be a finite number", ".shape: a parameter has definite sizes"]),
        ("{init: 1, shape: wide}", [".shape: must be a list of sizes"]),
        ("one", [": a parameter has definite sizes", ": must be a finite number"]),
    ],
)
def test_a_wrong_value_of_a_parameter_hides_no_wrong_shape(parameter: str, expected: list[str]) -> None:
    tensors = "x: , w: {shape: [..., d]}"
    found = rendered(
        f"op: f\ntensors: {{{tensors}}}\noutputs: {{y: x*w}}\nmodule: {{parameters: {{w: {parameter}}}}}\n"
    )
    assert len(found) == len(expected)
    assert all(f" module.parameters.w{start}" in mistake for start, mistake in zip(expected, found, strict=True))


def test_few_tensors_are_optional() -> None:
    tensors = ", ".join(f"b{k}: {{default: 0}}" for k in range(6))
    (mistake,) = rendered(f"op: f\ntensors: {{x: , {tensors}}}\noutputs: {{y: x * b0}}\n")
    assert "tensors: at most 5 tensors have a default" in mistake


def test_tensors_are_as_many_as_a_function_can_differentiate() -> None:
    many = "\n".join(f"  x{k}:" for k in range(151))
    (mistake,) = rendered(f"op: f\ntensors:\n{many}\noutputs: {{y: x0}}\n")
    assert "tensors: at most 150 tensors" in mistake
