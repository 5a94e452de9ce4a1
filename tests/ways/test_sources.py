"""The same operation through each way in gives the same files; mistakes are shown where they were made."""

from __future__ import annotations

import functools
import linecache
import pickle
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
import sympy as sp
import torch
from sympy.codegen.cfunctions import fma, log1p
from sympy.physics.units import meter
from sympy.stats import Normal

import symgrad
from symgrad.parse import parse_formulas
from symgrad.pipeline import compile_spec
from symgrad.spec import load_specs, parse_spec
from symgrad.spec.write import as_yaml
from tests.ways import decorated

HERE = Path(__file__).parent
X, BETA = sp.symbols("x beta", real=True)
K = sp.Symbol("k", positive=True)
N, J = sp.symbols("n j", integer=True, nonnegative=True)
SWISH = """\
op: swish_of_ways
tensors:
  x:
  beta:
outputs:
  y: x / (exp(-beta * x) + 1)
module:
  parameters: {beta: 1.0}
"""
MODULE = {"parameters": {"beta": 1.0}}


def body(generated: symgrad.Generated) -> tuple[str, str]:
    """Module and test without their headers, which name the source."""
    return tuple(
        "\n".join(line for line in text.splitlines() if not line.startswith("# "))
        for text in (generated.module, generated.test)
    )  # type: ignore[return-value]


def test_each_way_in_gives_the_same_bytes(tmp_path: Path) -> None:
    source = "import symgrad\n@symgrad.op(module={'parameters': {'beta': 1.0}})\ndef swish_of_ways(x, beta):\n"
    (tmp_path / "swish.py").write_text(source + "    return x / (exp(-beta * x)  # below\n            + 1)\n")
    ways = [
        SWISH,
        symgrad.op("swish_of_ways", y=X / (1 + sp.exp(-BETA * X)), module=MODULE),
        {"op": "swish_of_ways", "outputs": {"y": X / (1 + sp.exp(-BETA * X))}, "module": MODULE},
        symgrad.op("swish_of_ways", y="x / (exp(-beta * x) + 1)", module=MODULE),
        tmp_path / "swish.py",
    ]
    texts = {body(symgrad.generate(way)) for way in ways}
    assert len(texts) == 1


def test_a_python_file_is_what_its_yaml_is() -> None:
    for spec in load_specs(HERE / "decorated.py"):
        again = parse_spec(as_yaml(spec))
        assert as_yaml(again) == as_yaml(spec)
    huber, gated = load_specs(HERE / "decorated.py")
    assert huber.summary == "Huber loss of each element." and huber.reference == "Huber, 1964"
    assert as_yaml(huber).endswith(
        "let:\n  d: input - target\noutputs:\n  y: where(abs(d) < delta, d**2 / 2, delta * (abs(d) - delta / 2),)\n"
    )
    assert [t.shape for t in gated.tensors] == [("N", "C"), ("C",), None, None]
    assert [t.dtype for t in gated.tensors] == ["float", "float", "bool", "float"]
    assert str(gated.tensors[1].domain) == "(0, oo)" and gated.tensors[3].default == 0
    assert gated.hyperparameters[0].choices == ("hard", "soft")
    assert [(o.name, o.grad) for o in gated.outputs] == [("y", True), ("gate", False)]
    assert gated.options.save == "memory" and gated.module is not None


@pytest.mark.parametrize(
    ("body", "place", "message"),
    [
        ("def f(x):\n    return x * bta\n", "3:16", "unknown name 'bta'"),
        ("def f(x):\n    y = (x +  # far\n         qq)\n    return y\n", "4:10", "unknown name 'qq'"),
        ("def f(x: complex):\n    return x\n", "2:10", "'complex' is no kind of tensor"),
        ("def f(x, p: float, y):\n    return x * p * y\n", "2:20", "a tensor stands before the hyperparameters"),
        ("def f(x):\n    if x: pass\n    return x\n", "3:5", "write where"),
        ("def f(x):\n    y = z + x\n    z = x\n    return y * z\n", "3:9", "'z' has no value yet"),
        ("def f(x):\n    x = 2 * x\n    return (x + # x\n      x) * qq\n", "5:12", "unknown name 'qq'"),
        ("def f(x):\n    x += 1\n    return x\n", "3:5", "write x = x + y"),
        ("def f(x, *, k=open('f')):\n    return x * k\n", "2:15", "must be a literal"),
        ("def f(*x):\n    return x\n", "2:8", "arguments by name"),
        ("async def f(x):\n    return x\n", "2:1", "leave out 'async'"),
        ("def f(x):\n    é = x; return é * zz\n", "3:23", "unknown name 'zz'"),
        ("def f(x)\n    return x\n", "2:9", "not valid Python"),
        ("def f(x, b: Optional[Tensor] = None):\n    return x + b\n", "2:32", "such as b=0"),
        ("def f(x, b: 'Tensor | None' = None):\n    return x + len(b)\n", "2:31", "such as b=0"),
        ("def f(x):\n    y = 2 * x\n", "2:1", "returns nothing"),
        ("def f(x):\n    a, b = x, a\n    return a * b\n", "3:15", "'a' has no value yet"),
        ("def f(x):\n    (a, b), c = x\n    return a * b\n", "3:5", "names are assigned one by one"),
        ("def f(x):\n    a, b = x, x, x\n    return a * b\n", "3:5", "names are assigned one by one"),
        ("def f(x):\n    a, b, c = x.max(-1)\n    return a * c\n", "3:24", "there are 2 parts"),
        ("def f(x, *, k: float = 1 / 0):\n    return k * x\n", "2:24", "must be a literal"),
        ("def f(x):\n    return x > 0\n", "3:12", "a truth value has no gradient; write @symgrad.op(no_grad=['y'])"),
    ],
)
def test_a_mistake_is_shown_in_the_python_source(tmp_path: Path, body: str, place: str, message: str) -> None:
    path = tmp_path / "ops.py"
    path.write_text(f"from symgrad import op\n@op\n{body}")
    line, column = place.split(":")
    with pytest.raises(symgrad.SpecError) as caught:
        from symgrad.parse import parse_formulas

        [parse_formulas(spec) for spec in load_specs(path)]
    assert f"{path}:{int(line) + 1}:{column}: " in str(caught.value)
    assert message in str(caught.value)


def test_a_default_may_be_calculated(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_text(
        "from symgrad import op\n@op\ndef f(x, *, k: float = 1 / 4, n: int = -(2 * 8 - 1) + 1):\n    return k * n * x\n"
    )
    (spec,) = load_specs(path)
    assert [h.default for h in spec.hyperparameters] == [0.25, -14]


def test_a_value_may_have_the_name_of_the_function_that_gives_it(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_text("from symgrad import op\n@op\ndef f(x):\n    exp = exp(x)\n    return exp * x\n")
    (spec,) = load_specs(path)
    assert as_yaml(spec).endswith("let:\n  exp: exp(x)\noutputs:\n  y: exp * x\n")


def test_a_name_may_have_several_values_in_turn(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_text(
        "from symgrad import op\n@op\ndef f(x, w):\n    x_1 = exp(w)\n    x = x - mean(x)\n    x = x * x_1 * x\n"
        "    y, w = w * x, x  # each as it was before\n    y = sin(y) + w\n    return x, y, w\n"
    )
    (spec,) = load_specs(path)
    assert as_yaml(spec).endswith(
        "let:\n  x_1: exp(w)\n  x_1_: x - mean(x)\n  x_out: x_1_ * x_1 * x_1_\n  y_1: w * x_out\n  w_out: x_out\n"
        "outputs:\n  x_out_: x_out\n  y: sin(y_1) + w_out\n  w_out_: w_out\n"
    )


CONSTANTS = """import math, torch
from symgrad import op
F = torch.nn.functional
WIDTH: float = 2.5
SCALE = math.sqrt(2 / math.pi) * WIDTH
TWICE = 1
TWICE = 2
MODE = "mean"
SET = 1
def other():
    global SET
    SET, WIDTH = 2, 3
"""


def test_a_function_reads_constants_of_its_module_without_running_it(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_text(CONSTANTS + "@op\ndef f(x):\n    return F.relu(x) * SCALE\n")
    (spec,) = load_specs(path)
    assert as_yaml(spec).endswith(
        'let:\n  WIDTH: "2.5"\n  SCALE: math.sqrt(2 / math.pi) * WIDTH\noutputs:\n  y: F.relu(x) * SCALE\n'
    )
    assert spec.let[0].location.line == 4


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("def f(x, *, WIDTH: float = 1.0):\n    return x * SCALE + WIDTH\n", "'WIDTH' is declared already"),
        ("def f(x):\n    WIDTH = 2 * x\n    return WIDTH * SCALE\n", "constants of the module are made of 'WIDTH'"),
    ],
)
def test_a_constant_is_not_made_of_what_the_function_calls_by_the_same_name(
    tmp_path: Path, function: str, message: str
) -> None:
    path = tmp_path / "ops.py"
    path.write_text(f"{CONSTANTS}@op\n{function}")
    with pytest.raises(symgrad.SpecError, match=message):
        load_specs(path)


@pytest.mark.parametrize(
    "own",
    [
        "def abs(x):\n    return x\n",
        "@op\ndef abs(x):\n    return x**2\n",
        "abs = sum\n",
        "class abs: pass\n",
        "try:\n    from mylib import abs\nexcept ImportError:\n    from torch import abs\n",
    ],
    ids=["function", "operation", "assignment", "class", "two imports"],
)
def test_a_function_that_is_the_files_own_is_not_taken_for_the_languages(tmp_path: Path, own: str) -> None:
    path = tmp_path / "ops.py"
    path.write_text(f"from symgrad import op\n{own}\n@op\ndef f(x):\n    return abs(x) * 2\n")
    with pytest.raises(symgrad.SpecError, match="'abs' is this file's own, which is not run") as raised:
        load_specs(path)
    assert len(raised.value.mistakes) == 1


@pytest.mark.parametrize(
    ("imported", "called", "meant"),
    [
        ("from torch import tanh", "tanh(x)", "tanh(x)"),
        ("from torch import tanh as t", "t(x)", "torch.tanh(x)"),
        ("import torch.nn.functional as nnf", "nnf.silu(x)", "torch.nn.functional.silu(x)"),
        ("from torch.nn import functional", "functional.silu(x)", "torch.nn.functional.silu(x)"),
        ("import torch\nF = torch.nn.functional", "F.silu(x)", "F.silu(x)"),
        ("import torch\nact = torch.nn.functional.silu", "act(x)", "torch.nn.functional.silu(x)"),
        ("from math import sin as abs", "abs(x)", "math.sin(x)"),
        ("from sympy.functions import exp", "exp(x)", "sympy.exp(x)"),
        ("from scipy.special import erfcx", "erfcx(x)", "erfcx(x)"),
    ],
)
def test_what_is_imported_has_the_name_that_tells_what_it_is(
    tmp_path: Path, imported: str, called: str, meant: str
) -> None:
    path = tmp_path / "ops.py"
    path.write_text(f"from symgrad import op\n{imported}\n@op\ndef f(x):\n    return {called}\n")
    (spec,) = load_specs(path)
    assert spec.outputs[0].formula.text == meant
    parse_formulas(spec)


@pytest.mark.parametrize(
    ("imported", "called", "owner"),
    [
        ("from mylib import gelu", "gelu(x)", "mylib"),
        ("from .layers import gelu", "gelu(x)", ".layers"),
        ("from torchmetrics import gelu", "gelu(x)", "torchmetrics"),
        ("import mylib.functional as F", "F.gelu(x)", "mylib"),
    ],
)
def test_what_is_imported_from_elsewhere_is_not_taken_for_torchs(
    tmp_path: Path, imported: str, called: str, owner: str
) -> None:
    path = tmp_path / "ops.py"
    path.write_text(f"from symgrad import op\n{imported}\n@op\ndef f(x):\n    return {called}\n")
    with pytest.raises(symgrad.SpecError, match=f":5:12: '[a-zA-Z]+' is of '{owner}', which is not run"):
        load_specs(path)


def test_a_decorator_below_the_operations_is_refused_in_a_file_and_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_text("from functools import cache\nfrom symgrad import op\n@op\n@cache\ndef f(x):\n    return 2 * x\n")
    with pytest.raises(symgrad.SpecError, match=r":4:2: a decorator below @symgrad\.op is not run"):
        load_specs(path)

    def twice(function):
        return functools.wraps(function)(lambda x: 2 * function(x))

    with pytest.raises(symgrad.SymgradError, match=r"below @symgrad\.op is not run"):

        @symgrad.op
        @twice
        def f(x):
            return x


def test_a_method_is_no_operation(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_text("from symgrad import op\nclass Layer:\n    @op\n    def f(self, x):\n        return 2 * x\n")
    with pytest.raises(symgrad.SpecError, match=":4:5: f: an operation is no method"):
        load_specs(path)


def test_a_mistyped_keyword_is_no_output() -> None:
    with pytest.raises(TypeError, match="unknown keyword 'optons'; did you mean 'options'"):
        symgrad.op("q", y="x * 2", optons={"save": "memory"})


def test_a_name_of_the_function_around_hides_that_of_the_module(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    inner = "def make(SCALE):\n    @op\n    def f(x):\n        return SCALE * x\n    return f\n"
    path.write_text(f"from symgrad import op\nSCALE = 2.0\n{inner}")
    with pytest.raises(symgrad.SpecError, match=":6:16: 'SCALE' is of the function around, which is not run"):
        load_specs(path)


def defined(cell: str, names: dict[str, object]) -> symgrad.Operation:
    """The operation `f` of a cell of a notebook whose other cells bind `names`."""
    name = f"<cell {len(linecache.cache)}>"
    linecache.cache[name] = len(cell), None, cell.splitlines(True), name
    namespace = dict(names)
    exec(compile(cell, name, "exec"), namespace)
    return namespace["f"]


def test_names_of_other_cells_of_a_notebook_are_known_by_what_they_are_bound_to() -> None:
    cell = "import symgrad\n@symgrad.op\ndef f(x):\n    return {}(x)\n"
    for name, function, meant in (("act", torch.tanh, "torch.tanh(x)"), ("erfcx", torch.special.erfcx, "erfcx(x)")):
        assert defined(cell.format(name), {name: function}).spec.outputs[0].formula.text == meant
    with pytest.raises(symgrad.SpecError, match="'square' is of 'collections'"):
        defined(cell.format("square"), {"square": Counter})


def test_a_name_that_is_imported_too_is_no_constant(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_text("from symgrad import op\nC = 3\nfrom math import tau as C\n@op\ndef f(x):\n    return C * x\n")
    with pytest.raises(symgrad.SpecError, match="'C' is this file's own"):
        parse_formulas(load_specs(path)[0])


@pytest.mark.parametrize("name", ["TWICE", "MODE", "SET", "other"])
def test_what_is_no_constant_of_the_module_is_unknown(tmp_path: Path, name: str) -> None:
    path = tmp_path / "ops.py"
    path.write_text(f"{CONSTANTS}@op\ndef f(x):\n    return x * {name}\n")
    with pytest.raises(symgrad.SpecError, match=f":15:16: '{name}' is this file's own, which is not run; write its"):
        load_specs(path)


def test_several_names_are_assigned_at_once(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    body = "    low, high = x / 2, 2 * x\n    top, _ = torch.max(x, dim=-1)\n    return low * high - top[:, None]\n"
    path.write_text(f"import torch\nfrom symgrad import op\n@op\ndef f(x: op.tensor['N', 'D']):\n{body}")
    (spec,) = load_specs(path)
    assert [(let.name, let.text) for let in spec.let] == [
        ("low", "x / 2"), ("high", "2 * x"), ("top", "torch.max(x, dim=-1)[0]"),
    ]  # fmt: skip
    x = torch.randn(3, 4, dtype=torch.float64)
    torch.testing.assert_close(symgrad.load(spec).f(x), x * x - x.amax(-1, keepdim=True))


def test_nothing_in_a_python_file_is_run(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_text("import symgrad\nraise SystemExit\n@symgrad.op\ndef f(x, *, k: float = 2.0):\n    return k * x\n")
    assert [spec.op for spec in load_specs(path)] == ["f"]


def test_outputs_stand_in_the_order_of_their_keywords() -> None:
    names = [f"y{k * 7 % 11}" for k in range(11)]
    op = symgrad.op("keywords", **{name: (k + 1) * X for k, name in enumerate(names)})
    assert [o.name for o in op.spec.outputs] == names
    assert [float(y) for y in op(torch.tensor(1.0))] == [k + 1 for k in range(11)]


def test_a_decorated_function_is_the_operation() -> None:
    x, t = torch.tensor([0.5, 3.0], requires_grad=True), torch.zeros(2)
    torch.testing.assert_close(decorated.huber_of_ways(x, t), torch.nn.functional.huber_loss(x, t, reduction="none"))
    (slope,) = torch.autograd.grad(decorated.huber_of_ways(x, t, delta=2.0).sum(), x)
    assert slope.tolist() == [0.5, 2.0]
    assert pickle.loads(pickle.dumps(decorated.huber_of_ways)) is decorated.huber_of_ways


def test_an_optional_tensor_says_so_as_python_does(tmp_path: Path) -> None:
    path = tmp_path / "optional.py"
    path.write_text(
        "from symgrad import op, tensor\n@op\n"
        "def f(x: 'Tensor | None', b: Optional[tensor['N']] = 0, c: typing.Optional[Tensor] = 0):\n"
        "    return x + b + c\n"
    )
    (spec,) = load_specs(path)
    assert [(t.shape, t.default) for t in spec.tensors] == [(None, None), (("N",), 0), (None, 0)]
    assert symgrad.load(spec).f(torch.ones(2), None, None).tolist() == [1.0, 1.0]


def test_annotations_may_stand_in_quotes(tmp_path: Path) -> None:
    path = tmp_path / "quoted.py"
    path.write_text(
        "import symgrad\n@symgrad.op\ndef f(x: 'symgrad.tensor[\"N\"]', m: 'symgrad.boolean', *, n: 'int' = 2):\n"
        "    return where(m, x**n, 0)\n"
    )
    (spec,) = load_specs(path)
    assert [(t.shape, t.dtype) for t in spec.tensors] == [(("N",), "float"), (None, "bool")]
    assert [(h.type, h.default) for h in spec.hyperparameters] == [("int", 2)]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: lambda x: 2 * x, "a lambda is no operation"),
        (lambda: _asynchronous, "asynchronous"),
        (lambda: functools.lru_cache(_asynchronous), "not _lru_cache_wrapper; other decorators stand above it"),
        (lambda: staticmethod(_asynchronous), "not staticmethod"),
        (lambda: torch.sin, "not builtin_function_or_method"),
        (lambda: eval("lambda: 0", {"__name__": "nowhere"}), "a lambda is no operation"),
    ],
)
def test_what_is_no_plain_function_is_refused_with_the_reason(made, message: str) -> None:
    with pytest.raises(symgrad.SymgradError, match=message):
        symgrad.op(made())


async def _asynchronous(x):
    return x


def test_threads_get_one_operation() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(symgrad.op("threads", y=X * sp.tanh(K * X)))) for _ in range(8)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(found) == 8 and len({id(op) for op in found}) == 1


def test_an_operation_is_callable_has_its_names_and_its_mathematics(capsys: pytest.CaptureFixture[str]) -> None:
    op = symgrad.op("swish_of_ways", y=X / (1 + sp.exp(-BETA * X)), module=MODULE)
    torch.testing.assert_close(op(torch.ones(2), 1.0), torch.nn.functional.silu(torch.ones(2)))
    assert isinstance(op.SwishOfWays(), torch.nn.Module) and op.module.swish_of_ways is op._function
    assert op.formula == X / (1 + sp.exp(-BETA * X))
    assert sp.simplify(op.derivatives[BETA] - sp.diff(op.formula, BETA)) == 0
    assert op.derivatives["beta"] is op.derivatives[BETA]
    assert r"\frac{\partial y}{\partial \beta}" in op._repr_mimebundle_()["text/latex"]
    with pytest.raises(AttributeError, match="no attribute 'Mish'"):
        _ = op.Mish
    op.explain()
    first, *others = capsys.readouterr().out.splitlines()
    assert "; proven by " in first and any("sigmoid" in line for line in others)


def test_a_hyperparameter_may_have_any_name_of_pythons_own() -> None:
    op = symgrad.op("op: f\ntensors: {x: }\nhyperparameters: {self: 1.5, args: 1.0}\noutputs: {y: self*args*x}\n")
    assert op(torch.ones(2), self=2.0, args=3.0).tolist() == [6.0, 6.0]


def test_names_of_modules_and_constants_may_be_those_of_hyperparameters_and_operations() -> None:
    text = (
        "op: none\ntensors: {x: , w: }\noutputs: {y: exp(-self * x) * math * w}\nmodule: {parameters: {w: 1.0}}\n"
        'hyperparameters: {self: {default: 2.0, domain: "(0, oo)"}, math: {default: 3.0, domain: "(0, oo)"}}\n'
    )
    op = symgrad.op(text)
    assert op(torch.zeros(2), torch.ones(2)).tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="math must be in"):
        op(torch.zeros(2), torch.ones(2), math=-1.0)
    spec = parse_spec(text + "options: {targets: [torch, mlx, jax]}\n")
    for name, written in compile_spec(spec).files.items():
        if name.endswith(".py"):
            compile(written, name, "exec")


def test_a_large_formula_and_one_with_integers_show_no_marks_of_the_compiler() -> None:
    """What divides large formulas and fixes types is the identity, and no function that SymPy's users know."""
    large = sp.Add(*(sp.sin(k * X + BETA) * sp.exp(-k * BETA**2) / (k + X**2) for k in range(1, 20)))
    op = symgrad.op("large_of_ways", y=large)
    assert sp.simplify(op.formula - large) == 0
    assert sp.simplify(op.derivatives[X] - sp.diff(large, X)) == 0
    n = sp.Symbol("n", integer=True)
    assert symgrad.op("half_of_ways", y=n / 2 * X).derivatives[X] == n / 2


def test_an_operation_proves_itself() -> None:
    found = symgrad.op("swish_of_ways", y=X / (1 + sp.exp(-BETA * X)), module=MODULE).prove()
    assert found.proven and not found.refuted
    assert str(found).splitlines()[:2] == ["y: proven", "dy/dx: proven"]


def test_a_pickle_is_one_operation_in_another_process(tmp_path: Path) -> None:
    op = symgrad.op("swish_of_ways", y=X / (1 + sp.exp(-BETA * X)), module=MODULE)
    assert pickle.loads(pickle.dumps(op)) is op
    (tmp_path / "op.pickle").write_bytes(pickle.dumps(op))
    code = (
        "import pickle, sys, symgrad; text = open(sys.argv[1], 'rb').read();"
        "first, second = pickle.loads(text), pickle.loads(text);"
        "assert first is second and first.spec.op == 'swish_of_ways' and first.yaml == sys.argv[2]"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "op.pickle"), op.yaml], check=True)


def test_write_gives_what_gen_writes(tmp_path: Path) -> None:
    op = symgrad.op(SWISH)
    written = op.write(tmp_path)
    generated = symgrad.generate(SWISH)
    texts = {p.name: p.read_text() for p in written}
    assert texts["swish_of_ways.py"] == generated.module
    assert {"swish_of_ways.py", "test_swish_of_ways.py", "_runtime.py"} <= {p.name for p in tmp_path.iterdir()}


def test_assumptions_are_domains_and_kinds() -> None:
    k, t = sp.Symbol("k", positive=True), sp.Symbol("t", nonnegative=True)
    n, flag = sp.Symbol("n", integer=True), sp.Symbol("flag")
    y = sp.Piecewise((k * n, flag), (sp.sqrt(t) * X, True))
    op = symgrad.op("kinds", y=y, hyperparameters={k: 2})
    kinds = {t.name: (t.dtype, str(t.domain or "")) for t in op.spec.tensors}
    assert kinds == {"n": ("int", ""), "flag": ("bool", ""), "t": ("float", "[0, oo)"), "x": ("float", "")}
    (h,) = op.spec.hyperparameters
    assert (h.name, h.type, h.default, str(h.domain)) == ("k", "float", 2.0, "(0, oo)")


K = sp.Symbol("k", integer=True)


def _indexed(name: str, *indices: str) -> sp.Indexed:
    return sp.IndexedBase(name)[tuple(sp.Symbol(i, integer=True) for i in indices)]


def _product_sum(name: str, *indices: str) -> sp.Sum:
    """Sum over k of X[i, k] times another tensor, which leaves i and the other's index."""
    return sp.Sum(_indexed("X", "i", "k") * _indexed(name, *indices), (K, 0, N - 1))


def test_a_symbol_may_be_named_as_the_output_that_reads_it() -> None:
    y = sp.Symbol("y", real=True)
    product = symgrad.op("product", y=X * y)
    assert [t.name for t in product.spec.tensors] == ["x", "y"]
    assert product(torch.tensor(3.0), torch.tensor(2.0)).item() == 6.0
    square = symgrad.op("square", y=y**2)
    assert [t.name for t in square.spec.tensors] == ["y"]
    with pytest.raises(symgrad.SpecError, match="'a' is an output; name what is shared under 'let'"):
        symgrad.op("chain", a=sp.sin(X), b=2 * sp.Symbol("a", real=True))


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        (lambda: sp.Symbol("x", positive=True) + X, "two symbols of the name 'x' with different assumptions"),
        (lambda: sp.Dummy("x") * sp.Dummy("x"), "two symbols of the name 'x' that SymPy tells apart"),
        (lambda: functools.reduce(lambda e, _: sp.sin(e) + X, range(600), X), "nested deeper than SymPy can read it"),
        (lambda: sp.DiracDelta(X), "DiracDelta has no value element by element"),
        (lambda: sp.I * X, "complex; formulas are real"),
        (lambda: sp.zoo * X, "zoo"),
        (lambda: sp.Function("f")(X), "an undefined function"),
        (lambda: sp.Piecewise((X, X > 0)), "without a default"),
        (lambda: sp.Integral(sp.sin(sp.sin(X)), (X, 0, BETA)), "no closed form"),
        (lambda: sp.Symbol("z", imaginary=True) * X, "is not real"),
        (lambda: sp.re(sp.Symbol("z")), "declare the symbols real=True"),
        (lambda: "x * sigmod(y_)", "unknown function 'sigmod'"),
        (lambda: sp.polylog(2, X), "polylog is not in the language, and SymPy says it in no words that are"),
        (lambda: sp.Lambda(X, X**2), "a function is called"),
        (lambda: sp.Matrix([X, 2]), "each entry is an output of its own"),
        (lambda: sp.Tuple(X, 2), "each entry is an output of its own"),
        (lambda: Normal("N", 0, 1) * X, "symgrad.log_prob writes its density"),
        (lambda: meter * X, "a unit of measurement"),
        (lambda: sp.IndexedBase("v")[0] * X, "single and shifted elements are not"),
        (lambda: sp.Sum(sp.IndexedBase("v")[N], (N, 1, BETA)), "an index runs over a whole dimension"),
        (lambda: sp.Sum(sp.MatrixSymbol("A", 3, 3)[N, N], (N, 0, 1)), "from 0 to 1 of a dimension of size 3"),
        (lambda: sp.Sum(sp.IndexedBase("v", shape=(N,))[K], (K, 0, BETA)), "from 0 to beta of a dimension of size n"),
        (lambda: sp.Product(sp.IndexedBase("v", shape=(N,))[K], (K, 0, 4)), "an index runs over a whole dimension"),
        (lambda: sp.MatrixSymbol("A", 3, 3) + sp.Identity(3), "a unit matrix whose size is a symbol"),
        (lambda: sp.srepr(X**2), "which is what srepr prints; give the expression itself"),
        (lambda: sp.Integer(3), "no name is read in '3'"),
        (lambda: sp.exp(sp.MatrixSymbol("A", 3, 3)), "exp of a matrix is none of its elements"),
        (lambda: sp.Symbol("c", complex=True) * X, "is not real"),
        (lambda: _indexed("v", "i", "k") / sp.Sum(_indexed("v", "i", "k"), (K, 0, N - 1)), "different indices meet"),
        (lambda: _product_sum("w", "k", "j") + _indexed("v", "j", "i"), "different indices meet"),
        (lambda: sp.Product(_indexed("v", "k"), (K, 1, N - 1)), "an index runs over a whole dimension"),
        (lambda: _indexed("v", "k") * K, "the index k is a number here; write arange(...) in a text"),
        (lambda: sp.exp(-_indexed("v", "k")) * sp.cos(K), "the index k is a number here"),
        (
            lambda: sp.Sum(_indexed("v", "k"), (K, 0, 2)) * sp.Sum(_indexed("v", "k") ** 2, (K, 0, 3)),
            "have 4 and 3 terms",
        ),
        (lambda: sp.Float("1e400") * X, "larger, or nearer to 0, than every floating-point number"),
        (lambda: "I * x_", "unknown name 'I'; SymPy's is the imaginary unit"),
        (lambda: "x_ + nan", "unknown name 'nan'; SymPy's is no number"),
        (lambda: "2x", "'2x' is not a number; for a product write '2*x'"),
        (lambda: "class*def", "'class' has no place in a formula"),
        (lambda: "x_ + TribonacciConstant", "unknown name 'TribonacciConstant'; SymPy's is (1 + "),
        (lambda: "Determinant(x_)", "unknown function 'Determinant'; write det(x)"),
        (lambda: "x_ if x_ > 0", "'if' without 'else'; a choice is written: a if condition else b"),
        (lambda: "Sum(x_, (k, 0, 3))", "a sum over a number SymPy's object carries out"),
        (lambda: "expint(1, x_)", "torch has no such function"),
    ],
)
def test_what_cannot_be_an_operation_is_refused_with_the_reason(formula, message: str) -> None:
    with pytest.raises(symgrad.SpecError) as caught:
        symgrad.op("refused", y=formula())
    assert message in str(caught.value)
    with pytest.raises(symgrad.SpecError) as unnamed:
        symgrad.op(formula())
    assert message in str(unnamed.value)


SAID = {
    "a polynomial": (sp.Poly(X**2 + 1, X), "x**2 + 1"),
    "a spherical Bessel function": (sp.jn(0, K), "sin(k) / k"),
    "a harmonic number": (sp.harmonic(K), "polygamma(0, k + 1) + EulerGamma"),
    "a hypergeometric function": (sp.hyper([1], [2], K), "exp(k) / k - 1 / k"),
    "a Meijer G-function": (sp.meijerg([[], []], [[0], []], X), "exp(-x)"),
    "C's own functions": (log1p(X) + fma(X, BETA, K), "log(x + 1) + beta * x + k"),
    "a matter of equality": (sp.KroneckerDelta(N, 2) * X, "x * where(n != 2, 0, 1)"),
    "a number without a name": (sp.CRootOf(X**5 - X - 1, 0) * K, "1.167303978261418684256046 * k"),
    "membership": (
        sp.Piecewise((X, sp.Contains(X, sp.S.Integers)), (0, True)),
        "where(floor(x) == x, x, 0)",
    ),
    "a sum over a number": (sp.Sum(X**N, (N, 0, 3)), "x**2 + x**3 + x + 1"),
    "a sum up to an integer": (sp.Sum(K**J, (J, 0, N)), "where(k == 1, n + 1, (1 - k**(n + 1)) / (1 - k))"),
}


@pytest.mark.parametrize("name", SAID)
def test_what_the_language_has_no_word_for_is_said_in_other_words(name: str) -> None:
    formula, line = SAID[name]
    assert symgrad.op("said", out=formula).spec.outputs[0].formula.line == line


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x/y", ["x", "y"]),
        ("sp.exp(x) + torch.sin(t) + sympy.sqrt(x)", ["x", "t"]),
        ("S.Half * x - sp.S.One", ["x"]),
        ("Rational(1, 3) * x**2 + Piecewise((x, x > 0), (0, True))", ["x"]),
    ],
)
def test_a_line_is_a_formula_however_sympys_users_write_it(text: str, names: list[str]) -> None:
    op = symgrad.op(text)
    assert [t.name for t in op.spec.tensors] == names
    assert parse_formulas(op.spec).outputs


def test_names_that_are_none_here_are_mapped() -> None:
    op = symgrad.op("mapped", y=sp.Symbol("lambda") * sp.Symbol("x_{1}") * sp.Symbol("x'"))
    assert {t.name for t in op.spec.tensors} == {"lambda_", "x_1", "x_prime"}


def test_matrices_and_sums_over_indices_are_tensor_operations() -> None:
    n, m, i, j = sp.symbols("n m i j", integer=True)
    a, b = sp.MatrixSymbol("A", n, m), sp.MatrixSymbol("B", m, n)
    x, v = sp.IndexedBase("X"), sp.IndexedBase("V")
    left, right = torch.randn(2, 3), torch.randn(3, 2)
    trace = symgrad.op("trace_of_ways", y=sp.Trace(a * b))
    torch.testing.assert_close(trace(left, right), torch.trace(left @ right))
    hadamard = symgrad.op("hadamard_of_ways", y=sp.HadamardProduct(a, b.T) + 2 * a)
    torch.testing.assert_close(hadamard(left, right), left * right.T + 2 * left)
    square = sp.MatrixSymbol("S", n, n)
    inverse = symgrad.op("inverse_of_ways", y=sp.Determinant(square) * square.I)
    assert [o.formula.line for o in inverse.spec.outputs] == ["det(S) * inverse(S)"]
    product = symgrad.op("indexed_of_ways", y=sp.Sum(x[i, j] * v[j], (j, 0, m - 1)), tensors=[x, v])
    torch.testing.assert_close(product(left, right[:, 0]), left @ right[:, 0])
    squares = symgrad.op("squares_of_ways", y=sp.sqrt(sp.Sum(v[i] ** 2, (i, 0, n - 1))))
    torch.testing.assert_close(squares(left[0]), torch.linalg.vector_norm(left[0]))


def test_products_and_nested_sums_over_indices_are_those_of_the_dimensions() -> None:
    m, n, i, j = sp.symbols("m n i j", integer=True)
    x = sp.IndexedBase("X")
    values = torch.rand(3, 4)
    rows = symgrad.op("rows_of_ways", y=sp.Product(1 - x[i, j], (j, 0, m - 1)))
    torch.testing.assert_close(rows(values), (1 - values).prod(-1))
    every = symgrad.op("every_of_ways", y=sp.Product(x[i, j], (j, 0, m - 1), (i, 0, n - 1)))
    torch.testing.assert_close(every(values), values.prod())
    nested = symgrad.op("nested_of_ways", y=sp.Sum(sp.log(sp.Sum(sp.exp(x[i, j]), (j, 0, m - 1))), (i, 0, n - 1)))
    torch.testing.assert_close(nested(values), values.logsumexp(-1).sum())


def test_sums_over_elements_of_matrix_symbols_are_those_of_indexed_bases() -> None:
    n, m, i, j = sp.symbols("n m i j", integer=True)
    a, v, s = sp.MatrixSymbol("A", n, m), sp.MatrixSymbol("V", m, 1), sp.MatrixSymbol("S", n, n)
    values = torch.rand(3, 4)
    squares = symgrad.op("elements_of_ways", y=sp.Sum(a[i, j] ** 2, (i, 0, n - 1), (j, 0, m - 1)))
    torch.testing.assert_close(squares(values), (values**2).sum())
    diagonal = symgrad.op("diagonal_of_ways", y=sp.Sum(s[i, i], (i, 0, n - 1)))
    torch.testing.assert_close(diagonal(values[:, :3]), values[:, :3].trace())
    dot = symgrad.op("dot_of_ways", y=sp.DotProduct(v.T, v))
    torch.testing.assert_close(dot(values[:1].T), (values[0] ** 2).sum())
    with pytest.raises(symgrad.SpecError, match="at two numbers, or at two indices of a sum"):
        symgrad.op(sp.Sum(a[i, j] * v[j, 0], (j, 0, m - 1)))


def test_unit_matrices_elements_and_ranged_indices_have_words() -> None:
    n = sp.Symbol("n", integer=True)
    a, lam = sp.MatrixSymbol("A", n, n), sp.Symbol("lam", positive=True)
    left, scale = torch.randn(3, 3), torch.tensor(0.5)
    ridge = symgrad.op("ridge_of_ways", y=a + lam * sp.Identity(n), tensors=[a, lam])
    torch.testing.assert_close(ridge(left, scale), left + 0.5 * torch.eye(3))
    corner = symgrad.op("corner_of_ways", y=a[0, 1] * a.T[2, 0], tensors=[a])
    torch.testing.assert_close(corner(left), left[0, 1] * left[0, 2])
    v, i = sp.IndexedBase("V"), sp.Idx("i", n)
    total = symgrad.op("ranged_of_ways", y=sp.Sum(v[i] ** 2, i))
    torch.testing.assert_close(total(left[0]), (left[0] ** 2).sum())


def test_what_needs_no_sympy_and_no_processes_leaves_them_out(tmp_path: Path) -> None:
    (tmp_path / "double.yaml").write_text("op: doubled_once\ntensors: {x: }\noutputs: {y: 2 * x}\n")
    code = (
        "import sys; from symgrad.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "imported = {'sympy', 'concurrent.futures'} & set(sys.modules); assert not imported, imported"
    )
    spec, out = str(tmp_path / "double.yaml"), str(tmp_path / "out")
    for arguments in (
        ["--help"],
        ["prove", spec],
        ["gen", spec, "-o", out, "-j", "1"],
        ["gen", spec, "-o", out, "-j", "1"],
    ):
        subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, cwd=tmp_path)


def test_what_users_write_passes_a_strict_type_checker() -> None:
    pytest.importorskip("mypy", reason="no mypy")
    root = Path(symgrad.__file__).parent.parent
    options = ["--cache-dir", str(root / ".mypy_cache"), "--config-file", str(root / "pyproject.toml")]
    command = [sys.executable, "-m", "mypy", "--strict", *options, str(HERE / "typed.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stdout


def test_the_range_of_a_sum_is_the_size_of_what_it_runs_over() -> None:
    operation = symgrad.op(y=_indexed("v", "j") * sp.Sum(_indexed("v", "k") ** 2, (K, 0, 2)))
    assert operation(torch.ones(3, dtype=torch.float64)).tolist() == [3.0, 3.0, 3.0]
    with pytest.raises(ValueError, match="a dimension of v is 5, not 3"):
        operation(torch.ones(5))
