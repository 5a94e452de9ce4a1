"""Optional tensors in operations on whole tensors: None stands for a tensor of the declared shape."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from compiled import compiled_text

from symgrad.errors import SpecError

WHOLE = [
    "x * sum(b)",
    "sum(x * b) / (1 + sum(b))",
    "x / (1 + sum(b, dim=-1, keepdim=True))",
    "sum(b)",
    "sum(b, dim=0)",
    "mean(b) + x",
    "x + cumsum(b, dim=-1)",
    "cumsum(x * b, dim=-1)",
    "x * softmax(b, dim=-1)",
    "x + max(b, dim=-1, keepdim=True).values",
    "x * sort(b).values",
    "sort(x * b).values",
    "var(b) * x",
    "prod(b) * x",
    "norm(b) * x",
    "logsumexp(b, dim=-1)",
    "x + b.mT",
    "x @ b + x",
    "b.T @ x",
    "sum(x @ b + sum(x, dim=0))",
    "cumsum(x @ b + sum(x, dim=0), dim=0)",
    "einsum('ij,ij->i', x @ b + sum(x, dim=0), x)",
    "einsum('ij,kj->ik', b, x) + x",
    "x + atan2(sum(b, dim=-1) + 3, sum(b, dim=-1))",
    "atan2(x, 2 + sum(b))",
    "sum(where(least > 0, b, x))",
    "cumsum(tanh(where(least > 0, x, b)), dim=0)",
]


@pytest.mark.parametrize("default", [0, 1])
@pytest.mark.parametrize("formula", WHOLE)
def test_none_is_a_tensor_of_the_default(formula: str, default: int) -> None:
    item = compiled_text(
        f"{{op: f, tensors: {{x: {{shape: [N, N]}}, b: {{shape: [N, N], default: {default}}}}}, "
        f'hyperparameters: {{least: 1.0}}, outputs: {{y: "{formula}"}}}}'
    )
    x = torch.rand(3, 3, dtype=torch.float64, requires_grad=True)
    full = torch.full((3, 3), default, dtype=torch.float64)
    for f in item.function, item.composite:
        found, right = (_value_and_gradient(f(x, b, 1.0), x) for b in (None, full))
        torch.testing.assert_close(found, right)


def test_the_shape_of_what_is_absent_comes_from_several_tensors() -> None:
    item = compiled_text("""
        op: f
        tensors:
          x: {shape: [N, I]}
          w: {shape: [O, I]}
          scale: {shape: [N, O], default: 1}
        outputs:
          y: x @ w.T * scale
          total: sum(scale, dim=0)
    """)
    x, w = torch.rand(2, 3), torch.rand(4, 3)
    found, right = (item.function(x, w, scale) for scale in (None, torch.ones(2, 4)))
    torch.testing.assert_close(found, right)


def test_leading_dimensions_are_those_of_what_is_given() -> None:
    """Of x @ 0 too: a bias alone does not tell how many rows there are."""
    item = compiled_text("""
        op: f
        tensors:
          x: {shape: [..., I]}
          w: {shape: [O, I], default: 0}
          b: {shape: [O]}
        outputs: {y: x @ w.T + b, z: sum(x @ w.T + b)}
    """)
    b, none, full = torch.rand(4, dtype=torch.float64, requires_grad=True), None, torch.zeros(4, 3, dtype=torch.float64)
    for leading in (), (2,), (2, 5):
        x = torch.rand(*leading, 3, dtype=torch.float64)
        for f in item.function, item.composite:
            found, right = (
                [*y, *torch.autograd.grad(y[0].sum() * y[1], b)] for y in (f(x, w, b) for w in (none, full))
            )
            torch.testing.assert_close(found, right)


@pytest.mark.parametrize(
    ("formula", "optional"),
    [
        ("x @ w.T * g + b", "g"),
        ("x @ w.T * g + b", "gx"),
        ("prod(b, dim=-1, keepdim=True) + t + mean(x)", "t"),
    ],
)
@pytest.mark.parametrize("default", [0, 1])
def test_a_result_has_the_shape_of_the_formula_as_far_as_what_is_given_tells_it(
    formula: str, optional: str, default: int
) -> None:
    """0 * g cancels a product that alone had the whole shape."""
    shapes = {"x": "[N, I]", "w": "[O, I]", "g": "[O]", "b": "[O]", "t": "[N, O]"}
    declared = {n: f"{{shape: {s}{f', default: {default}' if n in optional else ''}}}" for n, s in shapes.items()}
    tensors = ", ".join(f"{name}: {text}" for name, text in declared.items())
    item = compiled_text(f'{{op: f, tensors: {{{tensors}}}, outputs: {{y: "{formula}"}}}}')
    sizes = {"N": 2, "I": 3, "O": 4}
    given = [torch.rand([sizes[d] for d in s.strip("[]").split(", ")]) for s in shapes.values()]
    for f in item.function, item.composite:
        found, right = (
            f(*[absent if n == optional[0] else t for n, t in zip(shapes, given, strict=True)])
            for absent in (None, torch.full_like(given[list(shapes).index(optional[0])], default))
        )
        torch.testing.assert_close(found, right)


def test_many_choices_beside_optional_tensors() -> None:
    """Whether a tensor is there is no condition inside of an expression: its gradient could not be written."""
    item = compiled_text("""
        op: f
        tensors: {x: , a: {default: 0}, b: {default: 0}}
        hyperparameters: {p: true, q: true, r: true}
        outputs: {y: "x * where(p, a, b) + where(q, x, 1) * where(r, x, 2)"}
    """)
    x, a, b = (torch.rand(3, requires_grad=True) for _ in range(3))
    for given, flags in product(product((a, None), (b, None)), product((True, False), repeat=3)):
        first, second = (torch.zeros(3) if t is None else t.detach() for t in given)
        p, q, r = flags
        right = (first if p else second) + (x.detach() * 2 if q and r else 2 if q else 1 if r else 0)
        y = item.function(x, *given, *flags)
        _, found = _value_and_gradient(y, x)
        torch.testing.assert_close(found, y.detach().cos() * right)


def test_a_sum_that_is_kept_tells_no_shape_of_what_is_absent() -> None:
    item = compiled_text(
        "{op: f, tensors: {b: {shape: [N, D]}, x: {shape: [D, N], default: 0}}, outputs: {y: sum(b) * x}}"
    )
    torch.testing.assert_close(item.function(torch.rand(2, 3), None), torch.zeros(3, 2))


def test_tensors_that_may_all_be_absent_leave_no_shape() -> None:
    tensors = "w: {shape: [M], default: 0}, v: {shape: [M], default: 0}, z: {shape: [N]}"
    with pytest.raises(SpecError, match=r"outputs\.y: where 'v' is None: no other tensor tells the shape of v"):
        compiled_text(f"{{op: f, tensors: {{{tensors}}}, outputs: {{y: 'sum(w + v) * z'}}}}")


def test_of_nothing_but_what_is_absent_a_number_is_left() -> None:
    item = compiled_text("""
        op: f
        tensors: {x: {shape: [..., A]}, w: {shape: [C, D]}, b: {shape: [..., A], default: 2}}
        outputs: {y: exp(b)}
    """)
    y = item.function(torch.rand(2, 3), torch.rand(4, 5), None)
    torch.testing.assert_close(y, torch.tensor(math.exp(2)))


@pytest.mark.parametrize(
    ("formula", "shape"), [("sum(b, dim=0, keepdim=True)", (1, 4)), ("sum(b, keepdim=True)", (1, 1))]
)
def test_dimensions_of_size_1_need_no_tensor_that_tells_them(formula: str, shape: tuple[int, ...]) -> None:
    tensors = "x: {shape: [N, C]}, b: {shape: [M, C], default: 2}, z: {shape: [M, C]}"
    item = compiled_text(f"{{op: f, tensors: {{{tensors}}}, outputs: {{y: '{formula}'}}}}")
    x, z = torch.rand(2, 4), torch.rand(3, 4)
    torch.testing.assert_close(item.function(x, None, z), item.function(x, torch.full((3, 4), 2.0), z))
    assert item.function(x, None, z).shape == shape


@pytest.mark.parametrize(
    ("formula", "reason"),
    [
        ("x @ b", "the shape of x @ b is not known; declare the 'shape' of 'b'"),
        ("softmax(b, dim=0) + x", "the shape of b is not known; declare the 'shape' of 'b'"),
        ("transpose(sum(x, dim=-1) + b, 0, 1)", "there is no dimension 1 in"),
    ],
)
def test_a_formula_without_a_value_for_none_is_a_mistake(formula: str, reason: str) -> None:
    with pytest.raises(SpecError, match=rf"outputs\.y: where 'b' is None: .*{reason}"):
        compiled_text(f"{{op: f, tensors: {{x: {{shape: [N, M]}}, b: {{default: 0}}}}, outputs: {{y: '{formula}'}}}}")


def _value_and_gradient(y: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
    if not y.requires_grad:
        return [y, torch.zeros_like(x)]
    return [y.detach(), *torch.autograd.grad(y.sin().sum(), x, allow_unused=True, materialize_grads=True)]


@pytest.mark.parametrize("default", ["1", "true"])
def test_a_mask_that_is_absent_is_a_truth_value(default: str) -> None:
    own = compiled_text(
        f"""
op: masked
tensors:
  q: {{shape: [T, D]}}
  mask: {{dtype: bool, shape: [T, D], default: {default}}}
outputs: {{y: "where(mask, q, -1) @ q.mT"}}
"""
    ).module
    q = torch.randn(3, 4, dtype=torch.float64)
    assert torch.allclose(own.masked(q, None), q @ q.mT)
    mask = q > 0
    assert torch.allclose(own.masked(q, mask), torch.where(mask, q, -1.0) @ q.mT)


def test_a_truth_value_is_no_default_of_numbers() -> None:
    with pytest.raises(SpecError, match="must be a number"):
        compiled_text('op: a\ntensors: {x: , b: {default: true}}\noutputs: {y: "x + b"}')
