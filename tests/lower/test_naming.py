"""Names of temporaries, and whatever names users give: generated modules are right under all of them."""

from __future__ import annotations

import copy
import re
import unicodedata
from typing import Any

import pytest
import torch
from compiled import SPECS, Compiled, compiled, compiled_text, results
from hypothesis import given, settings
from random_expressions import TENSORS, X, Y, Z, expressions

from symgrad.accuracy.machine import machine
from symgrad.errors import SpecError
from symgrad.ir import expr as ex
from symgrad.ir import truth
from symgrad.ir.expr import make, symbol
from symgrad.ir.traversal import topological
from symgrad.lower.naming import Names, describe
from symgrad.targets.torch.owner import Owner


# ---------------------------------------------------------------------------------------------- names of values
def test_fresh_names_differ() -> None:
    names = Names(["x", "exp_x"])
    assert [names.fresh("exp_x") for _ in range(3)] == ["exp_x2", "exp_x3", "exp_x4"]
    assert names.reserve("x") == "x_"
    assert names.reserve("x") == "x__"
    assert names.fresh("y") == "y"
    assert names.reserve("y") == "y_"


@pytest.mark.parametrize(
    "node, name",
    [
        (make("exp", X), "exp_x"),
        (make("exp", make("neg", X)), "exp_neg_x"),
        (make("sigmoid", X), "sig_x"),
        (make("pow", X, ex.num(2)), "x_squared"),
        (make("pow", X, ex.HALF), "root_x"),
        (make("pow", X, ex.num(-1)), "inverse_x"),
        (make("pow", make("add", X, Y), ex.num(-1)), "inverse"),
        (make("restore", X, Y, dim=(-1,)), "spread"),
        (make("mul", X, Y), "x_y"),
        (make("matmul", X, make("T", Y)), "x_y"),
        (make("pow", X, ex.num(3)), "x_cubed"),
        (truth.compare("gt", X, 0), "positive"),
        (truth.compare("le", X, 0), "nonpositive"),
        (truth.compare("lt", X, Y), "below"),
        (make("add", make("sin", X), Y), "total"),
        (make("round", make("add", X, Y)), "rounded"),
        (make("unsqueeze", X, dim=(-1,)), "x_column"),
        (make("unsqueeze", X, dim=(-1, -2)), "x_spread"),
        (make("exp", make("add", X, make("sin", Y))), "exp"),
        (make("slice", X, dim=-1, start=0, stop=2, step=1), "x_head"),
        (make("slice", X, dim=-1, start=2, stop=None, step=1), "x_tail"),
        (make("slice", make("add", X, Y), dim=-1, start=2, stop=3, step=1), "part"),
        (make("squeeze", make("slice", X, dim=-1, start=1, stop=2, step=1), dim=(-1,)), "x_1"),
        (make("squeeze", make("slice", X, dim=-1, start=-1, stop=None, step=1), dim=(-1,)), "x_last"),
    ],
)
def test_a_value_is_called_what_it_is(node: ex.Expr, name: str) -> None:
    assert describe(node, {}) == name


def test_a_part_that_has_a_name_lends_it() -> None:
    inner = make("add", X, Y)
    assert describe(make("exp", inner), {inner: "score"}) == "exp_score"
    assert describe(inner, {inner: "score_"}) == "score"
    assert describe(make("exp", inner), {inner: "total2"}) == "exp", "a name that says nothing lends nothing"
    assert describe(make("mul", inner, Y), {inner: "sig_y"}) == "product", "not sig_y_y"


@pytest.mark.parametrize(
    "op, line, methods",
    [
        ("layer_norm", "centred = x - x.mean(dim=-1, keepdim=True)", ["forward", "backward", "jvp"]),
        ("rms_norm", "rms = torch.sqrt(total)", ["backward", "jvp"]),
    ],
)
def test_intermediates_have_the_names_of_the_spec(op: str, line: str, methods: list[str]) -> None:
    (path,) = (p for p in SPECS if p.stem == op)
    texts = compiled(path).text.split("@staticmethod")[1:5]
    assert [m for m in methods if not any(f"def {m}(" in t and line in t for t in texts)] == []


def test_an_intermediate_keeps_its_name_when_its_form_changes() -> None:
    text = "\nop: loss\ntensors: {x: {shape: [N, classes]}}\nlet: {p: 'exp(x) / sum(exp(x), dim=-1, keepdim=True)'}\n"
    item = compiled_text(f"{text}outputs: {{y: 'sum(p**2) + sum(p)'}}\n")
    assert " p = torch.softmax(x, dim=-1)" in item.text


@settings(deadline=None, max_examples=60)
@given(expressions(*TENSORS))
def test_every_value_gets_a_short_identifier(root: ex.Expr) -> None:
    names = Names(["x", "y", "z"])
    given_names: dict[ex.Expr, str] = {X: "x", Y: "y", Z: "z"}
    for node in topological(*machine([root])):
        if node.args and not node.is_static:
            given_names[node] = names.for_value(node, given_names)
            assert given_names[node].isidentifier()
            assert len(given_names[node]) <= 40
    assert len(set(given_names.values())) == len(given_names)


def test_symbols_with_odd_names_are_described() -> None:
    for odd in ("_", "__", "_x", "x_"):
        s = symbol(odd)
        assert describe(make("exp", s), {s: odd}).isidentifier()
        assert describe(make("exp", s), {}).isidentifier()


# ---------------------------------------------------------------------------------------------- names of users
HOSTILE = " ".join(
    (
        "ctx torch grad_y S N I Q O C beta lambda_ self saved dtype inputs output outputs math F Any Tensor",
        "Function sum tuple isinstance type wants_x tangent_x kept terms _apply _tensors _fit _x __class__ β ﬁ",
        "hostile Hostile HostileFunction _HostileKeeping _HostilePlain _forward _detached _save _round _primals",
        "_total _HALF",
        "_Like _typed _ __ float int bool str args kwargs len super staticmethod device value grad sin exp sigmoid",
        "x x_ x__ wants_x_ grad_x grad_grad_x tangent target product total exp_x forward backward setup_context",
        "vmap info in_dims generate_vmap_rule saved_tensors metadata needs_input_grad requires_grad",
        "save_for_backward name without_x fixed_x values forward_ad op ValueError namedtuple reduce annotations e",
        "inf nan None_ _checked_hostile print __init__ yield_ __y _lambda",
    )
).split()
TEXT = """
op: hostile
tensors: {{'{a}': , '{b}': }}
hyperparameters: {{'{h}': 0.5}}
let: {{'{l}': '{a} * {b}'}}
outputs: {{'{o}': '{l} * {h} + {b}**2', '{p}': 'where({a} > {h}, {l}, {a})'}}
"""


def derivatives_of(function: Any, tensors: list[torch.Tensor], batched: bool) -> list[Any]:
    """Values, gradients, second derivatives, jvp and (of a pointwise function) vmap of a function of tensors."""
    values = results(function(*tensors))
    first = torch.autograd.grad(sum((v.sin().sum() for v in values), torch.zeros(())), tensors, create_graph=True)
    second = torch.autograd.grad(sum((g.sin().sum() for g in first), torch.zeros(())), tensors)
    plain = tuple(t.detach() for t in tensors)
    pushed = torch.func.jvp(function, plain, tuple(t.cos() for t in plain))
    return [values, first, second, pushed, torch.func.vmap(function)(*plain) if batched else None]


def assert_like_composite(item: Compiled, keywords: dict[str, Any]) -> None:
    tensors = item.tensors(item.differentiable)
    setting = list(keywords.values())
    batched = not any(t.shape for t in item.spec.tensors)
    own = derivatives_of(lambda *t: item.function(*t, **keywords), tensors, batched)
    plain = derivatives_of(lambda *t: item.composite(*t, *setting), tensors, batched)
    torch.testing.assert_close(own, plain)
    named = dict(zip((t.name for t in item.spec.tensors), tensors, strict=True)) | keywords
    torch.testing.assert_close(results(item.function(**named)), results(item.composite(*tensors, *setting)))


@pytest.mark.parametrize("k", range(0, len(HOSTILE), 3))
def test_hostile_names(k: int) -> None:
    """Six names at a time, each in another role; over all tests every name takes two roles."""
    roles = {role: HOSTILE[(k + 17 * i) % len(HOSTILE)] for i, role in enumerate("abhlop")}
    item = compiled_text(TEXT.format(**roles))
    assert_like_composite(item, {unicodedata.normalize("NFKC", roles["h"]): 0.7})


@pytest.mark.parametrize(
    "name", ["x", "torch", "self", "_apply", "float", "β", "ctx", "hostile", "output", "target", "_copy"]
)
@pytest.mark.parametrize("formula", ["{n} + x0", "{n} * x0"])
def test_hostile_names_in_place(name: str, formula: str) -> None:
    body = formula.format(n=name)
    text = f"\nop: hostile\ntensors: {{'{name}': , x0: }}\noutputs: {{y: '{body}'}}\noptions: {{inplace: '{name}'}}\n"
    item = compiled_text(text)
    first, second = item.tensors(item.differentiable)
    changed = first.detach().clone()
    result = item.module.hostile_(**{name: changed, "x0": second})
    assert result is changed
    torch.testing.assert_close(result, item.composite(first, second))
    (own,) = torch.autograd.grad(result.sin().sum(), second)
    torch.testing.assert_close(own, torch.autograd.grad(item.composite(first, second).sin().sum(), second)[0])


@pytest.mark.parametrize(
    "name", ["x", "torch", "self", "_detached", "fixed_x0", "β", "grad_y", "_straight_through", "value"]
)
def test_hostile_names_of_an_override(name: str) -> None:
    text = (
        f"\nop: hostile\ntensors: {{'{name}': , x0: }}\noutputs: {{y0: 'sign({name}) * x0'}}\n"
        f"gradients: {{'{name}': 2 * grad_y0 * x0}}\n"
    )
    item = compiled_text(text)
    first, second = item.tensors(item.differentiable)
    own = torch.autograd.grad(item.function(first, second).sum(), (first, second))
    torch.testing.assert_close(own, (2 * second.detach(), first.detach().sign()))
    plain = first.detach(), second.detach()
    pushed = torch.func.jvp(item.function, plain, plain)[1]
    torch.testing.assert_close(pushed, 2 * plain[1] * plain[0] + plain[0].sign() * plain[1])
    compiled = torch.autograd.grad(item.surrogate(first, second).sum(), (first, second))
    torch.testing.assert_close(compiled, own)


@pytest.mark.parametrize("name", ["x", "torch", "self", "_save", "without_x0", "β", "inputs", "outputs", "saved"])
def test_hostile_names_of_an_optional_tensor(name: str) -> None:
    item = compiled_text(
        f"\nop: hostile\ntensors: {{x0: , '{name}': {{default: 1}}}}\noutputs: {{y: 'sin(x0) * {name}**2'}}\n"
    )
    first, second = item.tensors(item.differentiable)
    torch.testing.assert_close(item.function(first, **{name: second}), first.sin() * second**2)
    (own,) = torch.autograd.grad(item.function(first).sum(), first)
    torch.testing.assert_close(own, first.detach().cos())
    torch.testing.assert_close(torch.func.jvp(item.function, (first.detach(),), (own,))[1], own**2)


@pytest.mark.parametrize("name", ["K", "self", "torch", "shape", "_check_shapes", "op", "t"])
def test_hostile_names_of_dimensions(name: str) -> None:
    item = compiled_text(
        f"\nop: hostile\ntensors: {{x0: {{shape: ['{name}', M]}}, x1: {{shape: ['{name}']}}}}\n"
        "outputs: {y: 'sum(x0, dim=1) * exp(x1)'}\n"
    )
    assert_like_composite(item, {})
    with pytest.raises(ValueError, match=re.escape(name)):
        item.function(torch.ones(2, 3), torch.ones(3))


@pytest.mark.parametrize(
    "text", ['a"b', "q' ", "{x!r}", "{missing}", "back\\slash", "new\nline", '"""', "é", "%s", "a and b"]
)
def test_hostile_choices(text: str) -> None:
    """What a spec says is text in the module, never code."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    item = compiled_text(
        "\nop: hostile\ntensors: {x: }\n"
        f'hyperparameters: {{mode: {{type: str, choices: ["{quoted}", other], default: "{quoted}"}}}}\n'
        "outputs: {y: 'where(mode == \"other\", sin(x), 2 * x)'}\n"
    )
    x = torch.ones(3)
    torch.testing.assert_close(item.function(x), 2 * x)
    torch.testing.assert_close(item.function(x, mode="other"), x.sin())
    with pytest.raises(ValueError, match="must be") as caught:
        item.function(x, mode="neither")
    assert text.replace(" and ", " or ") in str(caught.value)


@pytest.mark.parametrize(
    "text", ['"""', "\\", '"', "{{ 1 }}", "{% for %}", "'''", "\\N{BULLET}", "#", '\\"\\"\\"', 'ends with "']
)
def test_hostile_texts(text: str) -> None:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    item = compiled_text(
        f'\nop: hostile\nsummary: "{quoted}"\ndoc: "{quoted}"\nreference: "{quoted}"\n'
        f'tensors: {{x: {{doc: "{quoted}"}}}}\noutputs: {{y: sin(x)}}\nmodule: {{}}\n'
    )
    x = torch.ones(3)
    torch.testing.assert_close(item.function(x), x.sin())
    assert text in (item.module.__doc__ or "")
    assert text in (item.function.__doc__ or "")
    assert text in item.module.Hostile.__doc__


# ---------------------------------------------------------------------------------------------- names in an nn.Module
_ROLES = {
    "input": "tensors: {{'{n}': }}\noutputs: {{y: 'sin({n})'}}\nmodule: {{}}\n",
    "parameter": "tensors: {{x0: , '{n}': }}\noutputs: {{y: 'x0**2 * {n}'}}\nmodule: {{parameters: {{'{n}': 0.7}}}}\n",
    "hyperparameter": "tensors: {{x0: }}\nhyperparameters: {{'{n}': 0.5}}\n"
    "outputs: {{y: '{n} * x0**2'}}\nmodule: {{}}\n",
}
_NAMES = ("x", "beta", "β", "ctx", "inputs", "weight", "N", "_x", "grad", "value", "hostile")
_CLASHES = ("self", "dtype", "device", "float", "training", "parameters", "forward", "torch", "_apply")
_CLASHES += ("__class__", "extra_repr")


@pytest.mark.parametrize("name", [*_NAMES, *_CLASHES])
@pytest.mark.parametrize("role", _ROLES)
def test_hostile_names_in_a_module(role: str, name: str) -> None:
    """Either the module works, under a name of its own where nn.Module has this one, or the spec is refused."""
    try:
        item = compiled_text(f"\nop: hostile\n{_ROLES[role].format(n=name)}")
    except SpecError:
        return
    made = item.module.Hostile()
    x = torch.linspace(-1, 1, 5)
    assert item.spec.module is not None
    owner = Owner(item.spec, item.spec.module)
    (attribute,) = (owner.inputs if role == "input" else owner.names).values()
    (keyword,) = (owner.inputs if role == "input" else owner.arguments).values()
    assert (attribute == name) == (name not in _CLASHES and not name.startswith("_")) or role == "input"
    assert (keyword == name) or name in ("self", "torch", "dtype", "device", "__class__") or role == "input"
    result = made(**{keyword: x}) if role == "input" else made(x)
    assert result.shape == x.shape
    assert keyword in repr(made) or role == "input"
    if role != "input":
        other = item.module.Hostile(**{keyword: 0.25})
        torch.testing.assert_close(other(x), 0.25 * x**2)
        assert not torch.equal(other(x), result)
    if role == "parameter":
        assert len(list(made.parameters())) == 1
        assert [tuple(made.state_dict())] == [(attribute,)]
    other = copy.deepcopy(made).train().eval().float()
    other.zero_grad()
    torch.testing.assert_close(other(**{keyword: x}) if role == "input" else other(x), result)
