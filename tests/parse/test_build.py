"""From the text of a formula to its expression: what formulas mean, and every mistake at its place."""

from fractions import Fraction

import pytest

from symgrad.errors import SpecError
from symgrad.ir import expr as ex
from symgrad.ir.expr import FALSE, ONE, TRUE, ZERO, Expr, make, symbol
from symgrad.ir.truth import compare, logical, where
from symgrad.ops.functions import FUNCTIONS, call
from symgrad.ops.tensors import Ref
from symgrad.parse import Fault, FormulaError, parse_expression, parse_formulas
from symgrad.spec import parse_spec

X, Y, Z, MASK = symbol("x"), symbol("y"), symbol("z"), symbol("mask", "bool_tensor")
BETA, N, FLAG, MODE = symbol("beta", "float"), symbol("n", "int"), symbol("flag", "bool"), symbol("mode", "str")
SYMBOLS = (X, Y, Z, MASK, BETA, N, FLAG, MODE)


def parse(text: str) -> Expr:
    return parse_expression(text, SYMBOLS)


def faults(text: str, *symbols: Expr) -> list[Fault]:
    with pytest.raises(FormulaError) as caught:
        parse_expression(text, symbols or SYMBOLS)
    return list(caught.value.faults)


def fault(text: str) -> tuple[int, str]:
    (only,) = faults(text)
    return only


# --------------------------------------------------------------------------- what formulas mean

CLAMP = FUNCTIONS["clamp"].name
MEANINGS: dict[str, Expr] = {
    # numbers are exact
    "0.044715 * x": Fraction("0.044715") * X,
    "1e-3 * x": Fraction(1, 1000) * X,
    "x / 3": Fraction(1, 3) * X,
    "1_000.5 + x": X + Fraction("1000.5"),
    "1. * x + .5": X + Fraction(1, 2),
    "pi * E * x": ex.PI * ex.E * X,
    # arithmetic
    "-x**2": -(X**2),
    "+x": X,
    "2**-x": ex.power(2, -X),
    "x**y**2": ex.power(X, Y**2),
    "x - y - z + x": 2 * X - Y - Z,
    "x / y / 2": X / Y / 2,
    "x * (y + 1)": X * (Y + 1),
    "pow(x, exponent=2)": X**2,
    # functions, in every spelling
    "Abs(x)": call("abs", X),
    "ln(x)": call("log", X),
    "sqrt(x)": ex.sqrt(X),
    "softplus(x)": call("softplus", X),
    "softplus(x, 2)": call("softplus", 2 * X) / 2,
    "softplus(x, threshold=20)": where(compare("gt", X, 20), X, call("softplus", X)),
    "gelu(x)": call("gelu", X),
    "gelu(x, approximate='tanh')": call("gelu", X, ex.text("tanh")),
    "gelu(x, 'tanh')": call("gelu", X, ex.text("tanh")),
    "clamp(x, 0, 1)": make(CLAMP, X, ZERO, ONE),
    "clamp(x, max=1, min=0)": make(CLAMP, X, ZERO, ONE),
    "clamp(x, min=0)": make(CLAMP, X, ZERO, ex.OO),
    "clamp(x, max=1)": make(CLAMP, X, -ex.OO, ONE),
    "clip(x, None, 1)": make(CLAMP, X, -ex.OO, ONE),
    "heaviside(x, 1)": call("heaviside", X, 1),
    "Heaviside(x)": call("heaviside", X, Fraction(1, 2)),
    "polygamma(n, x)": call("polygamma", N, X),
    # extrema
    "max(x, y)": call("maximum", X, Y),
    "Min(x, y, 1)": call("minimum", call("minimum", X, Y), 1),
    "max(0, x)": call("relu", X),
    "Max(x, 0)": call("relu", X),
    "min(0, x)": call("clamp", X, -ex.OO, 0),
    "maximum(x, 0)": call("maximum", X, 0),
    "minimum(x, 0)": call("minimum", X, 0),
    # truth values
    "where(x > 0, x, y)": where(compare("gt", X, 0), X, Y),
    "where(0 < x <= 1, x, y)": where(logical("and", compare("gt", X, 0), compare("le", X, 1)), X, Y),
    "where((x > 0) & ~flag | mask, 1, x)": where(
        logical("or", logical("and", compare("gt", X, 0), logical("not", FLAG)), MASK), ONE, X
    ),
    "where(x > 0 and not flag or mask, 1, x)": where(
        logical("or", logical("and", compare("gt", X, 0), logical("not", FLAG)), MASK), ONE, X
    ),
    "where(mode == 'a', x, y)": where(make("eq", MODE, ex.text("a")), X, Y),
    "where('a' != mode, x, y)": where(make("ne", MODE, ex.text("a")), X, Y),
    "where(flag == True, x, y)": where(FLAG, X, Y),
    "where(flag == mask, x, y)": where(
        logical("or", logical("and", FLAG, MASK), logical("and", logical("not", FLAG), logical("not", MASK))), X, Y
    ),
    "(x > 0) * y": where(compare("gt", X, 0), ONE, ZERO) * Y,
    "x + mask": X + where(MASK, ONE, ZERO),
    "sum(x > 0)": make("sum", where(compare("gt", X, 0), ONE, ZERO), dim=None, keepdim=False),
    "Piecewise((x, x > 1), (y, flag), (0, True))": where(compare("gt", X, 1), X, where(FLAG, Y, ZERO)),
    "x if flag else y": where(FLAG, X, Y),
    "x + 1 if x > 0 and flag else y if flag else 0": where(
        logical("and", compare("gt", X, 0), FLAG), X + 1, where(FLAG, Y, ZERO)
    ),
    "max(x if x > 0 else 0, y)": call("maximum", where(compare("gt", X, 0), X, ZERO), Y),
    # names that follow those of modules
    "math.pi * x + np.e + sympy.S.Half": ex.PI * X + ex.E + ex.HALF,
    "where(x < torch.inf, x, y)": where(compare("lt", X, ex.OO), X, Y),
    "torch.where(x > 0, F.relu(x), sympy.exp(y))": where(compare("gt", X, 0), call("relu", X), call("exp", Y)),
    "torch.nn.functional.softmax(x, dim=0)": make("softmax", X, dim=0),
    "torch.max(x, dim=0).values": parse("max(x, dim=0).values"),
    # tensor operations
    "sum(x)": make("sum", X, dim=None, keepdim=False),
    "sum(x, 0, True)": make("sum", X, dim=0, keepdim=True),
    "mean(x, dim=[0, -1], keepdim=flag)": make("mean", X, dim=(0, -1), keepdim=Ref("flag")),
    "mean(x, (0, n))": make("mean", X, dim=(0, Ref("n")), keepdim=False),
    "sum(input=x, dim=n)": make("sum", X, dim=Ref("n"), keepdim=False),
}  # fmt: skip


@pytest.mark.parametrize("text", MEANINGS)
def test_meaning(text: str) -> None:
    assert parse(text) is MEANINGS[text]


def test_any_identifier_is_a_name() -> None:
    names = ["S", "N", "I", "lambda_", "e", "sigmoid", "sum", "where", "π", "Ünï", "_"]
    symbols = {name: symbol(name) for name in names}
    for name in names:
        assert parse_expression(f"{name} * 2", symbols.values()) is 2 * symbols[name]
    own = symbols["sigmoid"]
    assert parse_expression("sigmoid(sigmoid)", [own]) is call("sigmoid", own)


def test_identifiers_are_normalised() -> None:
    assert parse_expression("ﬁ + x", [symbol("fi"), symbol("x")]) is symbol("fi") + X


def test_a_formula_over_several_lines() -> None:
    assert parse("\n  x\n  + (y\r\n*\t2)\n") is X + 2 * Y
    assert fault("x +\n  bta * y") == (6, "unknown name 'bta'; did you mean 'beta'?")


def test_a_long_sum() -> None:
    terms = [X**k for k in range(1, 501)]
    assert parse(" + ".join(f"x**{k}" for k in range(1, 501))) is ex.add(*terms)


def test_matrix_products() -> None:
    product = make("matmul", X, Y)
    assert parse("x @ y + beta") is product + BETA
    assert parse("2 * x @ y / 3") is make("matmul", 2 * X, Y) / 3
    assert parse("x @ y @ x") is make("matmul", product, X)
    assert parse("matmul(x, other=y)") is product
    assert fault("x @ 2") == (4, "matmul works on tensors; 2 depends on none")


def test_results_with_names() -> None:
    values = parse("max(x, dim=0).values")
    assert values.args == (X,)
    assert values["dim"] == 0
    assert parse("max(x, dim=0).indices").op != values.op
    assert "add .values or .indices" in fault("max(x, dim=0) + 1")[1]
    assert "unknown result 'value'; there are values, indices" in fault("max(x, dim=0).value")[1]


def test_an_intermediate_with_several_results() -> None:
    text = "op: a\ntensors: {x: }\nlet: {m: 'max(x, dim=0)'}\noutputs: {y: m.values}\n"
    program = parse_formulas(parse_spec(text))
    assert program.outputs["y"] is parse("max(x, dim=0).values")
    assert list(program.lets) == ["m_values", "m_indices"]
    with pytest.raises(SpecError, match=r"'m' has several results; write m\.values or m\.indices"):
        parse_formulas(parse_spec(text.replace("m.values", "m + 1")))


def test_the_maximum_of_one_tensor_is_over_everything() -> None:
    assert parse("max(x)") is parse("amax(x)")


def test_an_equation_is_a_text() -> None:
    product = parse("einsum('ij,jk->ik', x, y)")
    assert product.args == (X, Y)


def test_an_optional_operand() -> None:
    assert parse("conv1d(x, y)").args == (X, Y)
    assert parse("conv1d(x, y, None, 2)") is parse("conv1d(x, y, stride=2)")


def test_transposed() -> None:
    assert parse("x.T").args == (X,)


# --------------------------------------------------------------------------- shapes


def sources_kept(text: str) -> str:
    return repr(parse(text))


@pytest.mark.parametrize(
    "method, function",
    [
        ("x.exp()", "exp(x)"),
        ("(x * y).sum(1)", "sum(x * y, dim=1)"),
        ("x.sum(dim=-1, keepdim=True)", "sum(x, dim=-1, keepdim=True)"),
        ("x.softmax(-1).log()", "log(softmax(x, dim=-1))"),
        ("x.clamp(min=0)", "clamp(x, min=0)"),
        ("x.max()", "max(x)"),
        ("x.max(dim=0).indices", "max(x, dim=0).indices"),
        ("x.sort(1, descending=True).values", "sort(x, dim=1, descending=True).values"),
        ("x.norm(1, -1)", "norm(x, p=1, dim=-1)"),
        ("x.transpose(0, 1).matmul(y)", "transpose(x, 0, 1) @ y"),
        ("torch.exp(x).abs()", "abs(exp(x))"),
        ("np.exp(x)", "exp(x)"),
        ("x.sum(axis=1, keepdims=True)", "sum(x, dim=1, keepdim=True)"),
        ("torch.max(x, -1)[0]", "max(x, dim=-1).values"),
        ("x.min(1, True).indices", "min(x, dim=1, keepdim=True).indices"),
        ("torch.linalg.norm(x, dim=-1)", "norm(x, dim=-1)"),
        ("torch.sort(x, dim=0)[1]", "sort(x, dim=0).indices"),
        ("x.contiguous().clone()", "x"),
        ("x.flip(0, 1)", "flip(x, [0, 1])"),
    ],
)
def test_a_method_is_the_function_of_the_same_name(method: str, function: str) -> None:
    assert parse(method) is parse(function)


def test_the_shape_of_what_cancels() -> None:
    assert sources_kept("x - x + 1") == "expand(1, x + 1)"
    assert sources_kept("y + 0 * x") == "expand(y, x + y)"
    assert sources_kept("sum(x**0)") == "sum(expand(1, x + 1))"
    assert sources_kept("where(x > y, 1, 1)") == "expand(1, x + y + 1)"
    assert sources_kept("x - x + x") == "x"
    assert sources_kept("sum(x) + x - x") == "expand(sum(x), sum(x) + x)"


def test_a_branch_in_python_has_its_own_shape() -> None:
    assert sources_kept("where(flag, sum(x), x)") == "where(flag, sum(x), x)"
    assert sources_kept("where(flag, 0 * x, y)") == "where(flag, expand(0, x), y)"


# --------------------------------------------------------------------------- mistakes

_BOUNDS = "the bounds of a slice are whole numbers, and what is made of sizes and int hyperparameters, such as D // 2"
NORMAL = "m + s*normal(x, seed), whose numbers have mean 0 and deviation 1"
MISTAKES: dict[str, tuple[int, str]] = {
    "": (0, "the formula is empty"),
    "  ": (0, "the formula is empty"),
    "x * bta": (4, "unknown name 'bta'; did you mean 'beta'?"),
    "sigmod(x)": (0, "unknown function 'sigmod'; did you mean 'sigmoid'?"),
    "inner(x, y)": (0, "unknown function 'inner'; write a @ b.mT"),
    "sum(x, axes=0)": (7, "sum(input, dim=..., keepdim=...) has no argument 'axes'; did you mean 'dim'?"),
    "sigmoid(x, axis=0)": (11, "sigmoid(x) has no argument 'axis'"),
    "sigmoid": (0, "'sigmoid' is a function; it needs arguments: sigmoid(...)"),
    "beta(x)": (0, "'beta' is not a function; for a product write 'beta*('"),
    "x ^ 2": (2, "'^' is not an operator; did you mean '**'?"),
    "x %": (3, "an operand is missing between '%' and the end"),
    "nan_to_num(x)": (0, "nan_to_num(x, nan, posinf, neginf) lacks its argument 'nan'"),
    "x // 2": (0, "'//' divides sizes and whole numbers; did you mean floor(a / b)?"),
    "x << 2": (2, "'<<' is not an operator; did you mean '<'?"),
    "x = 1": (2, "'=' has no meaning here; did you mean '=='?"),
    "x y": (2, "an operator is missing between 'x' and 'y'"),
    "2x": (0, "'2x' is not a number; for a product write '2*x'"),
    "2(x + 1)": (1, "an operator is missing before '('; did you mean '*('?"),
    "x +": (3, "an operand is missing between '+' and the end"),
    "* x": (0, "an operand is missing before '*'"),
    "(x": (0, "'(' is never closed"),
    "x)": (1, "')' closes no bracket"),
    "(x]": (2, "']' closes no bracket"),
    "x, y": (1, "a formula is one expression; what stands after ',' has no meaning"),
    "(x, y)": (0, "several values where one is needed"),
    "x[0]": (
        0,
        "the shape is not declared: declare it, or count dimensions from the end, as in x[..., 0]",
    ),
    "x[..., :x]": (8, _BOUNDS),
    "{x": (0, "braces are not part of the language"),
    "x # y": (2, "a comment cannot stand inside of a formula"),
    "x \\ y": (2, "a backslash has no place in a formula; it may extend over several lines as it is"),
    "x ≤ y": (2, "the character '≤' has no place in a formula; did you mean '<='?"),
    "x²": (1, "the character '²' has no place in a formula; did you mean '**2'?"),
    "x\0": (1, "'\\x00' has no place in a formula"),
    "mode == 'a": (8, "a text that is never closed, or that holds a backslash"),
    "1j * x": (0, "'1j' is a complex number; formulas are real"),
    "0x10": (0, "'0x10' is not a number; for a product write '0*x10'"),
    "007": (0, "'007' is not a number: it starts with 0"),
    "1__0": (0, "'1__0' is not a number: '_' stands between digits"),
    "1e999999999": (0, "'1e999999999' is larger, or nearer to 0, than every floating-point number"),
    "9**9**9**9 * x": (3, "a constant beyond every floating-point number"),
    "2**5000 * x": (0, "a constant beyond every floating-point number"),
    "binomial(10**9, 5*10**8) * x": (0, "a constant beyond every floating-point number"),
    "x / 0": (4, "division by zero"),
    "x / (1 - 1)": (5, "division by zero"),
    "x * log(0)": (4, "this constant is infinite, or beyond every number; write -oo for infinity"),
    "x * sin(oo)": (4, "this constant is undefined"),
    "x + oo - oo": (4, "infinity is no number to calculate with; compare with it, or choose it by where()"),
    "0 * oo * x": (4, "infinity is no number to calculate with; compare with it, or choose it by where()"),
    "x * -oo": (4, "infinity is no number to calculate with; compare with it, or choose it by where()"),
    "x * log(-1)": (4, "this constant is undefined"),
    "x * polygamma(0, -1000000)": (4, "this constant is undefined"),
    "polygamma(1.5, x)": (10, "the order must be an integer from 0 to 100 or a hyperparameter of type int"),
    "None": (0, "None is not a value"),
    "inf": (0, "unknown name 'inf'; did you mean 'oo'?"),
    "finite(x)": (0, "unknown function 'finite'"),
    "еxp(x)": (
        0, "unknown function 'еxp'; 'exp' looks like it, and one of them has U+0435 (cyrillic small letter ie)"
    ),
    "х + 1": (0, "unknown name 'х'; 'x' looks like it, and one of them has U+0445 (cyrillic small letter ha)"),
    "where(true, x, y)": (6, "unknown name 'true'; did you mean 'True'?"),
    "other.pi * x": (6, "'other.pi': write pi"),
    "math.tau * x": (5, "'math.tau': functions are called by their plain name"),
    "x if flag": (2, "'if' without 'else'; a choice is written: a if condition else b"),
    "x else y": (2, "'else' without 'if'; a choice is written: a if condition else b"),
    "x if y else 1": (5, "a number where a condition is needed; compare it with something"),
    "np.sum(x)": (0, "functions are torch's and called by their plain name; write sum(...) if that is meant"),
    "sympy.sinc(x)": (0, "SymPy's sinc is another function; write sinc(x/pi)"),
    "x.max(1)": (0, "a value is needed, and this has several; add .values or .indices"),
    "x.max(y)": (0, "as a method 'max' reads its arguments in another way; write max(a, b) or max(a, dim=...)"),
    "torch.linalg.norm(x, 2)": (0, "of matrices torch.linalg.norm has other orders; write norm(x, p, dim)"),
    "torch.dropout(x, 0.5, True)": (22, "torch's dropout has another argument here; give it by its name"),
    "F.cross_entropy(x, y, None, 1)": (28, "torch's cross_entropy has another argument here; give it by its name"),
    "x.frac()": (0, "torch's frac is another function; write x - trunc(x)"),
    "torch.normal(x, 1)": (0, f"torch's normal is another function; write {NORMAL}"),
    "x.where(x > 0, y)": (0, "as a method 'where' reads its arguments in another way; write where(condition, a, b)"),
    "x.sum(axes=1)": (6, "sum(input, dim=..., keepdim=...) has no argument 'axes'; did you mean 'dim'?"),
    "torch.exq(x)": (0, "unknown function 'exq'; did you mean 'exp'?"),
    "x.unsqueeze(1)": (0, "unsqueeze counts from the end where the shape is not declared: dim=-1 is the last"),
    "sin(*x)": (4, "only sizes are spread, as in *x.shape[:-1]"),
    "x.reshape(*y.shape[:-1], 2)": (10, "the shape is not declared: it is not known how many sizes these are"),
    "x.reshape(*x.shape[:1], 2)": (10, "the shape is not declared: it is not known how many sizes these are"),
    "x.reshape(*x.shape[:y], 2)": (10, "the sizes that are spread are counted, as in *x.shape[:-1]"),
    "ones(*x.shape[-10000000000:])": (5, "the sizes that are spread are counted, as in *x.shape[:-1]"),
    "ones(*x.shape[::0])": (5, "the sizes that are spread are counted, as in *x.shape[:-1]"),
    "layer_norm(x, x.shape[-10000000000:])": (14, "a tensor has at most 64 dimensions"),
    "numel(3)": (0, "a number has no elements to count"),
    "x.repeat(1)": (0, "unknown function 'repeat'; dimensions meet by their names under 'shape'"),
    "x.flip()": (0, "flip(...) lacks its argument 'dims'"),
    "x.__class__": (2, "unknown attribute '__class__'"),
    "(x)(y)": (3, "an operator is missing before '('; did you mean '*('?"),
    "sigmoid(x, y)": (11, "sigmoid(x) takes 1 argument, not 2"),
    "sigmoid()": (0, "sigmoid(x) lacks its argument 'x'"),
    "sigmoid(y=x)": (8, "sigmoid(x) has no argument 'y'"),
    "clamp(x, mim=0)": (9, "clamp(x, min=..., max=...) has no argument 'mim'; did you mean 'min'?"),
    "clamp(x, 0, min=0)": (12, "clamp(x, min=..., max=...) is given 'min' twice"),
    "clamp(x)": (0, "clamp(x, min=..., max=...) needs one of its optional arguments"),
    "where(x, x, y)": (6, "a number where a condition is needed; compare it with something"),
    "x and y > 0": (0, "a number where a condition is needed; compare it with something"),
    "beta or flag": (0, "a number where a condition is needed; compare it with something"),
    "mode + x": (0, "a text cannot be calculated with; compare it with '==' or '!='"),
    "where(mode == 1, x, y)": (14, "a text is compared with a text: name == 'value'"),
    "where(mode < 'a', x, y)": (6, "texts are compared with '==' or '!='"),
    "Piecewise((x, x > 0))": (14, "the last condition of Piecewise((a, condition), ..., (b, True)) is True"),
    "Piecewise(x, y)": (
        10, "each case of Piecewise((a, condition), ..., (b, True)) is a pair of a value and its condition"
    ),
    "max(x, y, axis=0)": (10, "max(input, dim=..., keepdim=...) is given 'dim' twice"),
    "Max(x)": (0, "Max(a, b) takes at least 2 arguments"),
    "sum(3)": (0, "sum works on tensors; 3 depends on none"),
    "sum(where(flag, x, 0))": (0, "sum works on tensors; where(flag, x, 0) may be 0, which depends on none"),
    "sum(x, dim=y)": (11, "'dim' must be an integer or a hyperparameter of type int"),
    "sum(x, dim=1.5)": (11, "'dim' must be an integer or a hyperparameter of type int"),
    "sum(x, dim=[0, 0])": (11, "'dim' lists a dimension twice"),
    "sum(x, dim=[])": (11, "'dim' is an empty list"),
    "sum(x, keepdim=1)": (15, "'keepdim' must be True, False or a hyperparameter of type bool"),
    "sum(None)": (4, "the argument 'input' cannot be None"),
    "x.foo": (2, "unknown attribute 'foo'"),
    "conv1d(x, y, stride=0)": (20, "'stride' must be at least 1, not 0"),
    "conv1d(x, y, padding=-1)": (21, "'padding' must be at least 0, not -1"),
    "conv2d(x, y, stride=(1, 2, 3))": (20, "'stride' has one value or 2, not 3"),
    "conv2d(x, y, dilation=[1, 0])": (22, "'dilation' must be at least 1, not 0"),
    "conv2d(x, y, groups=0)": (20, "'groups' must be at least 1, not 0"),
    "x == not y": (5, "not an expression from here on"),
}  # fmt: skip


@pytest.mark.parametrize("call", ["mean({})", "var({}, dim=0)", "norm({})", "softmax({}, dim=-1)"])
def test_what_torch_has_of_floats_alone_is_refused_of_integers(call: str) -> None:
    k = symbol("k", "int_tensor")
    name = call.partition("(")[0]
    message = f"{name} works on floats, and k + 1 is of integers; multiply it by 1.0"
    assert faults(call.format("k + 1"), k) == [Fault(0, message)]
    assert parse_expression(call.format("1.0 * (k + 1)"), [k]).op == name
    assert parse_expression(call.format("where(mask, 1, 0)"), [MASK]).op == name


@pytest.mark.parametrize("product", ["{} @ x", "conv1d(x, {})", "einsum('i,i->', {}, x)"])
def test_a_product_of_integers_and_floats_is_refused_as_by_torch(product: str) -> None:
    k, x = symbol("k", "int_tensor"), symbol("x", "tensor")
    ((_, message),) = faults(product.format("(2 * k)"), k, x)
    assert message.endswith("and 2 * k is of integers; declare 'k' without 'dtype: int'")
    for allowed in ("(1.0 * k)", "(k / 2)", "where(k > 0, 1, 0)", "where(k > 0, x, 0)", "(k * x)"):
        parse_expression(product.format(allowed), [k, x])
    parse_expression(product.format("k").replace("x", "k"), [k])


def test_a_float_in_front_of_a_matrix_product_makes_floats_of_integers() -> None:
    k, x = symbol("k", "int_tensor"), symbol("x", "tensor")
    written, grouped = (parse_expression(text, [k, x]) for text in ("1.0 * k @ x", "(1.0 * k) @ x"))
    assert written is grouped and written.args[0].op == "floated"


@pytest.mark.parametrize("text", MISTAKES)
def test_mistake(text: str) -> None:
    assert fault(text) == MISTAKES[text]


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "x.__class__.__mro__",
        "(lambda: x)()",
        "[y for y in x]",
        "f'{x}'",
        "x is y",
        "x in y",
        "sum(*x)",
        "sum(**x)",
        "x := 1",
        "yield x",
        "await x",
        "...",
        "b'x'",
        "'a' 'b'",
        "'''x'''",
        "x;y",
        "import os",
        "sum(x for x in y)",
        "'text'.T + x",
        "`x`",
    ],
)  # fmt: skip
def test_what_is_not_part_of_the_language_is_refused(text: str) -> None:
    assert faults(text)


def test_all_mistakes_of_a_formula_at_once() -> None:
    found = faults("sigmod(x) + bta * clamp(x, mim=0) + where(x, a, b) + 1/0")
    assert [f.offset for f in found] == [0, 12, 27, 42, 45, 48, 55]
    assert [f.offset for f in faults("2x ^ 3y")] == [0, 3, 5]
    assert len(faults(" + ".join(f"unknown{i}" for i in range(500)))) == 20


def test_offsets_behind_other_alphabets() -> None:
    ü = symbol("ü")
    assert faults("ü*ü + bta", ü, BETA) == [(6, "unknown name 'bta'; did you mean 'beta'?")]


def test_constants_of_the_language() -> None:
    assert TRUE is parse("True")
    assert FALSE is parse("1 > 2")
    assert compare("lt", X, ex.OO) is parse("x < oo")
