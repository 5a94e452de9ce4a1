"""The helpers of generated modules: each does what it says, and a module has those that it uses."""

from __future__ import annotations

import ast
import re
from typing import Any

import pytest
import torch
from compiled import SAMPLE, compiled
from torch.utils._python_dispatch import TorchDispatchMode

from symgrad.targets.torch.imports import module_imports
from symgrad.targets.torch.plumbing import plumbing, snippets

ALL = sorted(snippets())


def helpers(*names: str) -> dict[str, Any]:
    """Helpers, running, with all that they need."""
    body = plumbing("\n".join(names))
    scope: dict[str, Any] = {}
    exec(f"{module_imports(body)}\n\n{body}", scope)
    return scope


@pytest.mark.parametrize("name", ALL)
def test_a_helper_brings_what_it_needs(name: str) -> None:
    body = plumbing(name)
    assert name in helpers(name)
    tree = ast.parse(f"{module_imports(body)}\n{body}")
    defined = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    defined |= {t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
    defined |= {n.target.id for n in tree.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    used = set(re.findall(r"\b_[a-zA-Z]\w*", body)) & set(ALL)
    assert used <= defined


@pytest.mark.parametrize("name", ALL)
def test_a_helper_says_what_it_does(name: str) -> None:
    (first, *_) = ast.parse(snippets()[name]).body
    if isinstance(first, ast.FunctionDef | ast.ClassDef):
        documented = ast.get_docstring(first)
        assert documented
        assert documented.rstrip().endswith(".")


@pytest.mark.parametrize("path", SAMPLE, ids=lambda p: p.stem)
def test_a_module_has_no_helper_too_many(path: Any) -> None:
    text = compiled(path).text
    tree = ast.parse(text)
    for node in tree.body:
        name = None
        if isinstance(node, ast.FunctionDef):
            name = node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
        if name is not None and name.startswith("_") and not name.startswith("__"):
            assert len(re.findall(rf"\b{name}\b", text)) > 1, f"{name} is not used"
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} | {
        n.value.id for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
    }
    for imported in (n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)):
        for alias in imported.names:
            bound = (alias.asname or alias.name).partition(".")[0]
            assert (
                bound in names or bound == "annotations" or re.search(rf"\b{bound}\b", text.split("__all__", 1)[1])
            ), bound


def test_tensors_are_widened_to_one_dtype() -> None:
    widen = helpers("_widen")["_widen"]
    single, double, whole = torch.ones(2), torch.ones(2, dtype=torch.float64), torch.ones(2, dtype=torch.int64)
    assert widen(single, single, None, whole) == (single, single, None, whole, None)
    half = torch.ones(2, dtype=torch.bfloat16)
    wide, same, dtype = widen(half, None)
    assert (wide.dtype, same, dtype) == (torch.float32, None, torch.bfloat16)
    assert widen(half, torch.ones(2, dtype=torch.float16))[2] == torch.float32
    for narrow in (single, half):
        *found, untouched, dtype = widen(narrow, double, whole)
        assert [t.dtype for t in found] == [torch.float64, torch.float64]
        assert (untouched, dtype) == (whole, torch.float64)
    *found, dtype = widen(single, torch.ones((), dtype=torch.float64))  # which decides nothing
    assert ([t.dtype for t in found], dtype) == ([torch.float32] * 2, torch.float32)


def test_a_result_is_rounded_to_a_floating_dtype_only() -> None:
    round_ = helpers("_round")["_round"]
    value = torch.tensor([0.5, 1.5])
    assert round_(value, torch.int64) is value
    assert round_(value, torch.float32) is value
    assert round_(value, torch.float16).dtype == torch.float16


def test_wide_formulas_are_evaluated_in_double() -> None:
    widen = helpers("_widen_all")["_widen_all"]
    wide, flags, dtype = widen(torch.ones(2), torch.ones(2, dtype=torch.bool))
    assert (wide.dtype, flags.dtype, dtype) == (torch.float64, torch.bool, torch.float32)  # a condition stays one
    double = torch.ones(2, dtype=torch.float64)
    assert widen(double) == (double, None)
    assert widen(torch.ones(2, dtype=torch.int64))[1] == torch.get_default_dtype()


@pytest.mark.parametrize(
    "shapes", [((2, 3), (3,)), ((2, 3), ()), ((4, 1), (1,)), ((2, 0), (0,)), ((3,), (3,)), ((2, 3), (2, 1))]
)
def test_a_gradient_is_summed_then_rounded(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    fit = helpers("_fit")["_fit"]
    grad = torch.ones(shapes[0])
    fitted = fit(grad, torch.Size(shapes[1]), torch.float64)
    assert fitted.shape == shapes[1]
    assert fitted.dtype == torch.float64
    assert fitted.sum() == grad.sum()
    assert fit(torch.ones(70_000), torch.Size([]), torch.float32).item() == 70_000


def test_what_is_put_along_a_dimension_is_copied_only_where_it_is_differentiated() -> None:
    put = helpers("_put_along")["_put_along"]
    value, index = torch.tensor([[5.0], [7.0]], dtype=torch.float64), torch.tensor([[2], [0]])
    expected = torch.tensor([[0.0, 0.0, 5.0], [7.0, 0.0, 0.0]], dtype=torch.float64)

    class Made(TorchDispatchMode):
        """Counts the operations that make a tensor as large as the result."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            made.append(isinstance(result, torch.Tensor) and not func._schema.is_mutable)
            return result

    made: list[bool] = []
    with torch.no_grad(), Made():
        found = put(value, index, (2, 3), 1)
    torch.testing.assert_close(found, expected)
    assert sum(made) == 1
    assert torch.autograd.gradgradcheck(lambda v: put(v, index, (2, 3), 1), value.requires_grad_())
    batched = torch.func.vmap(lambda v, i: put(v, i, (3,), 0))(value.detach(), index)
    torch.testing.assert_close(batched, expected)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 2, 3), (0, 3), (2, 0)], ids=str)
def test_a_product_is_added_to_what_is_there(shape: tuple[int, ...]) -> None:
    plus = helpers("_plus_product")["_plus_product"]
    a, b = torch.rand(shape), torch.rand(shape[-1], 5)
    total = torch.rand(*shape[:-1], 5)
    expected = total + a @ b
    assert plus(total, a, b) is total
    torch.testing.assert_close(total, expected)
    strided = torch.rand(5, 4, 2).permute(2, 1, 0)
    expected = strided + torch.ones(2, 4, 3) @ torch.ones(3, 5)
    torch.testing.assert_close(plus(strided, torch.ones(2, 4, 3), torch.ones(3, 5)), expected)


def test_numbers_become_tensors_that_leave_the_dtype() -> None:
    tensors = helpers("_tensors")["_tensors"]
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        x = torch.ones(3, dtype=dtype)
        own, number = tensors("op", (), x=x, w=2.5)
        assert own is x
        assert (own * number).dtype == (dtype if dtype in (torch.float32, torch.float64) else (x * number).dtype)
        assert number.dim() == 0
    assert tensors("op", (), x=torch.ones(3, dtype=torch.int64), w=2.5)[1].dtype == torch.get_default_dtype()
    assert tensors("op", ("w",), x=torch.ones(3), w=None)[1] is None
    for wrong in (1j, torch.ones(2, dtype=torch.complex64)):
        with pytest.raises(TypeError, match="op: complex arguments are not supported, and w is one"):
            tensors("op", (), x=torch.ones(2), w=wrong)
    for other in (None, "a", [1.0]):
        with pytest.raises(TypeError, match="op: w must be a tensor, not"):
            tensors("op", (), x=torch.ones(2), w=other)


def test_only_real_tensors_are_real() -> None:
    is_real = helpers("_is_real")["_is_real"]
    assert is_real(torch.ones(2)) and is_real(torch.nn.Parameter(torch.ones(2)))
    assert is_real(torch.ones(2, dtype=torch.int64)) and is_real(torch.ones(2, dtype=torch.bool))
    assert not any(map(is_real, (1.0, None, [1.0], torch.ones(2, dtype=torch.complex64))))


def test_shapes_are_checked_by_name() -> None:
    check = helpers("_refuse_shapes")["_refuse_shapes"]
    x, b = torch.ones(2, 3, 5), torch.ones(3)
    check("op", {"x": (x, ("N", "C", "T")), "b": (b, ("C",)), "none": (None, ("C",))})
    check("op", {"x": (x, ("...", "C", 5)), "b": (b, ("C",))})
    for shapes in (
        {"x": (x, ("N", "C"))},
        {"x": (x, ("N", "C", 4))},
        {"x": (x, ("N", "C", "T")), "b": (b, ("T",))},
        {"x": (x, ("N", "N", "T"))},
        {"b": (b, ("...", "A", "B"))},
    ):
        with pytest.raises(ValueError, match=r"^op: "):
            check("op", shapes)


def test_a_function_of_an_integer_counts_as_torch_counts_it() -> None:
    scope = helpers("_result_dtype", "_floated")
    for x in (torch.rand(3).half(), torch.rand(()).half(), torch.rand(3), torch.rand(()).double()):
        for k in (torch.tensor([1, 2, 3]), torch.tensor(2)):
            assert scope["_result_dtype"](scope["_floated"](k), x) == (torch.log(k) * x).dtype


def test_result_types_are_those_of_torch() -> None:
    result = helpers("_result_dtype")["_result_dtype"]
    kinds = [torch.bool, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64]
    for a in kinds:
        for b in kinds:
            for shapes in (((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())):
                tensors = [torch.ones(s, dtype=d) for s, d in zip(shapes, (a, b), strict=True)]
                floating = torch.result_type(*tensors)
                if floating.is_floating_point and any(t.dim() and t.dtype.is_floating_point for t in tensors):
                    assert result(*tensors) == floating


def test_constants_come_first() -> None:
    body = plumbing("_widen _is_real _dispatcher")
    tree = ast.parse(body)
    kinds = [isinstance(n, ast.FunctionDef | ast.ClassDef) for n in tree.body]
    assert kinds == sorted(kinds)
