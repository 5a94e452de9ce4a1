"""Whole formulas of tensors, as they are written in papers: every gradient, tangent and second derivative."""

from __future__ import annotations

import math
from itertools import chain, combinations
from typing import Any

import pytest
import torch
from compiled import Compiled, compiled_text, results
from torch.func import grad, hessian, jvp, vmap

from symgrad.errors import SpecError

FORMULAS = {
    "a choice of reductions, each with a cotangent of its own shape": """
        op: reduced_cross_entropy
        tensors:
          logits: {shape: [N, C]}
          target: {shape: [N, C], grad: false}
        hyperparameters:
          reduction: {type: str, default: mean, choices: [none, mean, sum]}
        let:
          each: -sum(target * log_softmax(logits, dim=-1), dim=-1)
        outputs:
          loss: 'where(reduction == "mean", mean(each), where(reduction == "sum", sum(each), each))'
    """,
    "a cotangent whose shape depends on the branch, beside another one": """
        op: centred_loss
        tensors:
          x: {shape: [N, D]}
          z: {shape: [N, D]}
        hyperparameters:
          reduction: {type: str, default: mean, choices: [none, mean]}
        let:
          shift: tanh(mean(z, dim=1, keepdim=True))
          error: x - shift
        outputs:
          loss: 'where(reduction == "mean", mean(error), error)'
          centre: sin(shift)
    """,
    "a tensor that no gradient reads, beside several that share what they read": """
        op: masked_products
        tensors:
          unused: {shape: [A]}
          y: {shape: [A]}
          z: {shape: [D, 1]}
          mask: {shape: [D, A], dtype: bool, grad: false}
        let:
          w: where(mask, z, 0)
        outputs:
          back: y @ w.mT @ w
          pole: 1 / (1 + z**2)
          there: y @ w.mT
        options: {save: memory}
    """,
    "a product that cancels out only where it is simplified": """
        op: cancelled_product
        tensors:
          y: {shape: [A, C]}
        let:
          u: 2 * (y @ y.T) + 1
        outputs:
          z: u - u - atan(amin(y @ y.T, dim=[0, 1], keepdim=True))
    """,
    "a share of the mean for each column that is chosen": """
        op: variance_hinge
        tensors:
          a: {shape: [N, D]}
        outputs:
          loss: mean(relu(1 - sqrt(var(a, dim=0) + 0.0001)))
    """,
    "what drops out of an operand where a domain decides": """
        op: decided
        tensors:
          x: {shape: [N, D]}
          s: {shape: [D], domain: "(0, oo)"}
        outputs:
          m: mean(where(s > 0, s, x), dim=0)
          n: sum(x * (sqrt(s**2) - s), dim=0)
          t: where(s > 0, s, x) @ x.T
    """,
    "the number of elements of a tensor that was not saved": """
        op: softmax_and_mean
        tensors: {x: }
        outputs:
          p: softmax(x, dim=-1)
          m: mean(x)
    """,
    "ties that forward mode counts where no tensor but the result was saved": """
        op: tied_minimum
        tensors: {x: , z: }
        hyperparameters: {keep: true}
        outputs:
          y: tanh(amin(x - z, dim=1, keepdim=keep))
    """,
    "a norm of what broadcasts, which cancels against its own derivative": """
        op: joint_length
        tensors: {x: , z: }
        outputs:
          y: norm(hypot(x, z), dim=-1)
        test:
          shapes: {x: [2, 3], z: [2, 1]}
    """,
    "two softmaxes along a dimension that a hyperparameter names": """
        op: soft_softmax
        tensors:
          x: {shape: [N]}
        hyperparameters:
          d: {type: int, default: -1}
        outputs:
          y: softmax(softmax(x, dim=d), dim=d)
        test: {values: {d: [-1, 0]}}
    """,
    "a temporary that holds rows alone, beside a cumulated cotangent": """
        op: cumulated_softmax
        tensors: {x: }
        outputs:
          y: cumsum(softmax(hypot(x, x + 3), dim=-1), dim=-1)
    """,
    "two convolutions that may broadcast": """
        op: gated_convolution
        tensors:
          x: {shape: [N, I, L]}
          a: {shape: [O, I, K]}
          b: {shape: [O, I, M]}
        outputs:
          y: tanh(conv1d(x, a)) * sigmoid(conv1d(x, b))
        test:
          shapes: {x: [2, 3, 8], a: [4, 3, 3], b: [4, 3, 8]}
    """,
    "two convolutions alike": """
        op: glu_convolution
        tensors:
          x: {shape: [N, I, L]}
          a: {shape: [O, I, K]}
          b: {shape: [O, I, K]}
        outputs:
          y: tanh(conv1d(x, a)) * sigmoid(conv1d(x, b))
        test:
          shapes: {x: [2, 3, 8], a: [4, 3, 3], b: [4, 3, 3]}
    """,
    "a size that is read from a tensor that was not saved": """
        op: outer_sum
        tensors:
          x: {shape: [N, 1]}
          y: {shape: [1, M]}
        outputs:
          z: sum(x * y, dim=1) + mean(y, dim=-1)
    """,
    "the shape of a kept product that is not there": """
        op: rayleigh_quotient
        tensors:
          a: {shape: [D, D]}
          v: {shape: [D]}
        outputs:
          r: (v @ (a @ v)) / (v @ v)
    """,
    "the shape of a product of values that are there": """
        op: linear_attention
        tensors:
          q: {shape: [..., L, D]}
          k: {shape: [..., S, D]}
          v: {shape: [..., S, F]}
        let:
          fq: where(q > 0, q + 1, exp(q))
          fk: where(k > 0, k + 1, exp(k))
        outputs:
          y: fq @ (fk.mT @ v) / (fq @ sum(fk, dim=-2, keepdim=True).mT)
        test:
          shapes: {q: [2, 3, 2], k: [2, 4, 2], v: [2, 4, 3]}
    """,
    "an output without a gradient that another one is made of": """
        op: attention_pooling
        tensors:
          x: {shape: [B, T, D]}
          w: {shape: [D]}
        let:
          weights: softmax(x @ w, dim=1)
        outputs:
          pooled: einsum("btd,bt->bd", x, weights)
          attention: {expr: weights, grad: false}
    """,
    "an Einstein sum of three": """
        op: bilinear_form
        tensors:
          a: {shape: [N, I]}
          b: {shape: [N, J]}
          w: {shape: [K, I, J]}
        outputs:
          y: einsum("ni,kij,nj->nk", a, w, b)
    """,
    "an Einstein sum with leading dimensions": """
        op: batched_rows
        tensors:
          x: {shape: [..., I]}
          w: {shape: [O, I]}
        outputs:
          y: einsum("...i,oi->...o", x, w)
        test:
          shapes: {x: [2, 3, 4], w: [5, 4]}
    """,
    "numbers chosen by a mask": """
        op: masked_mean
        tensors:
          x: {shape: [N, D]}
          mask: {shape: [N, D], dtype: bool, grad: false}
        outputs:
          y: sum(where(mask, x, 0), dim=-1) / (sum(where(mask, 1, 0), dim=-1) + 0.1)
          z: x * where(mask, 2, 1/2)
    """,
    "an arithmetic of sizes": """
        op: column_variance
        tensors:
          x: {shape: [N, D]}
        outputs:
          y: sqrt(var(x, dim=0) + 1)
    """,
    "a mean over what a chosen dimension leaves": """
        op: pooled_activation
        tensors:
          x: {shape: [N, C]}
        hyperparameters: {dim: -1}
        outputs:
          loss: mean(tanh(mean(x, dim=dim)))
    """,
    "a tangent that an exponent of zero makes zero": """
        op: polynomial_kernel
        tensors:
          x: {shape: [N, D]}
          w: {shape: [M, D]}
          c: {shape: []}
        hyperparameters: {degree: {type: int, default: 3}}
        outputs:
          k: (x @ w.T + c)**degree
        test:
          values: {degree: [0, 2, 3]}
    """,
    "two reductions along a dimension that has size 1 anyway": """
        op: peak_energy
        tensors:
          x: {shape: [..., 1]}
        outputs:
          y: cumsum(amax(x, dim=-1, keepdim=True) * sum(x**2, dim=-1, keepdim=True), dim=-1)
        test:
          shapes: {x: [3, 1]}
    """,
    "the shape of what a mask chooses, which is not there": """
        op: masked_rows
        tensors:
          x: {shape: [D, C]}
          mask: {shape: [D, C], dtype: bool, grad: false}
          y:
          z:
        outputs:
          r: sum(x) * z * sum(where(mask, y, 0), dim=-1)
        test:
          shapes: {x: [3, 4], mask: [3, 4], y: [4], z: [1]}
    """,
    "a size as a factor of one term": """
        op: spread_of_logits
        tensors:
          x: {shape: [N, D]}
        let: {p: "log_softmax(sum(x, dim=0), dim=-1)"}
        outputs:
          y: exp(p)
          spread: var(p, correction=0)
    """,
    "a mask beside what is evaluated in float64": """
        op: contrast
        tensors:
          x: {shape: [N, D]}
          mask: {shape: [N, D], dtype: bool, grad: false}
        let:
          p: exp(softmax(where(mask, x, -100), dim=-1))
        outputs:
          y: p * rsqrt(mean(p**2, dim=-1, keepdim=True) + 0.01)
    """,
    "zeros in the shape of a masked tensor": """
        op: share_of_nothing
        tensors:
          x: {shape: [N, D]}
          mask: {shape: [N, D], dtype: bool, grad: false}
        let:
          p: log_softmax(where(mask, x, 0), dim=0)
        outputs:
          y: 'softmax(sum(p - p, dim=0), dim=-1) * x'
    """,
    "an input that is an output without a gradient": """
        op: gram_and_input
        tensors:
          x: {shape: [C, D]}
        outputs:
          gram: x @ x.mT
          same: {expr: x, grad: false}
    """,
    "an output twice, once without a gradient": """
        op: shares_twice
        tensors:
          x: {shape: [C, D]}
        outputs:
          p: exp(x)
          same: {expr: exp(x), grad: false}
        options: {save: memory}
    """,
    "a mean of integers times a total": """
        op: weighted_peak
        tensors:
          x: {shape: [N]}
          k: {shape: [N], dtype: int}
        outputs:
          y: mean(k * max(x, dim=-1).values)
    """,
    "a sum of totals": """
        op: totals
        tensors:
          y: {shape: [B, D, A]}
        hyperparameters:
          reduction: {type: str, default: sum, choices: [sum, none]}
        let: {s: 'einsum("bda,bdd->", y, y @ y.mT)'}
        outputs:
          z: 'where(reduction == "sum", sum(s), s)'
    """,
}


@pytest.mark.parametrize("text", FORMULAS.values(), ids=FORMULAS)
def test_derivatives_are_those_of_the_composite(text: str) -> None:
    item = compiled_text(text)
    names = item.differentiable
    for setting in item.hyperparameters(3):
        for wanted in chain.from_iterable(combinations(names, r) for r in range(1, len(names) + 1)):
            found, right = (
                _first_and_second(f, item.tensors(wanted), setting) for f in (item.function, item.composite)
            )
            torch.testing.assert_close(found, right)
        torch.testing.assert_close(*(_pushed(item, f, setting) for f in (item.function, item.composite)))


def test_cotangents_of_an_einstein_sum_can_be_batched() -> None:
    item = compiled_text(FORMULAS["an Einstein sum of three"])
    assert torch.autograd.gradcheck(item.function, item.tensors(item.differentiable), check_batched_grad=True)


@pytest.mark.parametrize("formula", ["cumsum(x, dim=-1)**2", "max(x, dim=-1).values**2", "min(x, dim=0).values**2"])
def test_scalars_have_one_dimension_under_vmap_too(formula: str) -> None:
    item = compiled_text(f"{{op: f, tensors: {{x: }}, outputs: {{y: '{formula}'}}}}")
    x = torch.tensor([0.5, -1.5], dtype=torch.float64)
    torch.testing.assert_close(vmap(grad(item.function))(x), 2 * x)
    torch.testing.assert_close(vmap(hessian(item.function))(x), torch.full_like(x, 2))


@pytest.mark.parametrize(
    ("formula", "right"),
    [
        ("x * where(mask, 0.1, 0.3)", [0.1, 0.3]),
        ("x * where(mask, a, 1/3)", [0.7, 1 / 3]),
        ("x / where(x > 0, 10, 1) + 0 * where(mask, 1, 0)", [0.1, 0.1]),
        ("x * sum(where(mask, 0.1, 0.3), dim=-1)", [0.4, 0.4]),
    ],
)
def test_a_choice_between_numbers_keeps_their_digits(formula: str, right: list[float]) -> None:
    item = compiled_text(
        f"{{op: f, tensors: {{x: , mask: {{dtype: bool, grad: false}}}}, hyperparameters: {{a: 0.7}}, "
        f"outputs: {{y: '{formula}'}}}}"
    )
    x, mask = torch.ones(2, dtype=torch.float64, requires_grad=True), torch.tensor([True, False])
    for f in item.function, item.composite:
        y = f(x, mask, 0.7)
        for found in y, *torch.autograd.grad(y.sum(), x):
            torch.testing.assert_close(found, torch.tensor(right, dtype=torch.float64), rtol=1e-15, atol=0)


def test_a_choice_between_numbers_has_the_shape_of_its_condition() -> None:
    item = compiled_text("{op: f, tensors: {x: {shape: [N, D]}}, outputs: {y: 'where(mean(x, dim=0) > 0, 2, 3)'}}")
    x = torch.tensor([[1.0, -1.0], [2.0, -3.0], [1.0, 1.0]], dtype=torch.float64)
    for f in item.function, item.composite:
        torch.testing.assert_close(f(x), torch.tensor([2.0, 3.0], dtype=torch.float64))


def test_a_share_of_a_mean_keeps_its_digits_where_terms_tie() -> None:
    item = compiled_text("""
        op: f
        tensors: {x: {shape: [B, D]}}
        hyperparameters: {a: 0.5}
        let: {p: "softmax(a * x, dim=0)"}
        outputs: {y: "mean(max(p, max(p, a * x)), dim=0)"}
    """)
    x = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    own, right = (torch.autograd.grad(f(x, 0.5).sum(), x)[0] for f in (item.function, item.composite))
    torch.testing.assert_close(own, right, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
def test_the_mean_of_nothing_has_a_logarithm(shape: tuple[int, ...]) -> None:
    item = compiled_text("{op: f, tensors: {x: }, outputs: {y: 'log(mean(exp(x), dim=-1))'}}")
    x = torch.ones(shape)
    torch.testing.assert_close(item.function(x), item.composite(x), equal_nan=True)


def test_a_share_of_nothing_has_a_gradient_without_elements() -> None:
    item = compiled_text("""
        op: f
        tensors: {x: }
        outputs:
          loss: mean(exp(log_softmax(x, dim=-1)))
          p: log_softmax(x, dim=-1)
    """)
    x = torch.ones(0, 3, requires_grad=True)
    assert torch.autograd.grad(item.function(x)[0], x)[0].shape == (0, 3)


@pytest.mark.parametrize(
    ("formula", "right"),
    [
        ("logsumexp(x, dim=-1) - log(mean(exp(x), dim=-1)) + 0 * sum(w, dim=-1)", math.log(4)),
        ("sum(x * w, dim=-1) - sum(x * w, dim=-1) + 2", 2.0),
        ("max(0 * x + 1, dim=0, keepdim=True).values + 0 * sum(w, dim=1)", 1.0),
    ],
)
def test_what_cancels_out_leaves_its_shape_and_dtype(formula: str, right: float) -> None:
    item = compiled_text(f"{{op: f, tensors: {{x: , w: }}, outputs: {{y: '{formula}'}}}}")
    x, w = torch.rand(1, 4), torch.rand(1, 4)
    shape = (1,) if "keepdim" not in formula else (1, 4)
    for mix in (torch.half, torch.half), (torch.float32, torch.float64), (torch.float64, torch.float32):
        y = item.function(x.to(mix[0]), w.to(mix[1]))
        assert (y.shape, y.dtype) == (shape, torch.promote_types(*mix))
        torch.testing.assert_close(y, torch.full_like(y, right))
        y.add_(1)  # its elements have places of their own
    assert jvp(item.function, (x, w), (x, w))[1].eq(0).all()


def test_a_tangent_leaves_out_a_batched_output_without_a_gradient() -> None:
    item = compiled_text(FORMULAS["an output without a gradient that another one is made of"])
    primals, tangents = item.tensors(), item.tensors(seed=1)
    dims = (0, None)

    def batched(f: Any) -> Any:
        return lambda x, w: vmap(lambda *a: f(a[0][None], a[1]), dims)(x, w)

    def fixed(*arguments: Any) -> Any:
        pooled, attention = item.composite(*arguments)
        return pooled, attention.detach()

    own, right = (jvp(batched(f), tuple(primals), tuple(tangents)) for f in (item.function, fixed))
    torch.testing.assert_close(own, right)
    x = [t.requires_grad_() for t in item.tensors()]
    assert [y.requires_grad for y in batched(item.function)(*x)] == [True, False]
    torch.testing.assert_close(
        jvp(item.module.AttentionPoolingFunction.forward, tuple(primals), tuple(tangents))[1][1],
        torch.zeros_like(right[1][1][:, 0]),
    )


def test_an_einstein_sum_without_a_sum_takes_operands_of_two_dtypes_as_torch_does() -> None:
    item = compiled_text("\nop: scaled\ntensors: {x: , s: }\noutputs: {y: 'einsum(\"ij,j->ij\", x, s)'}\n")
    x, s = torch.randn(2, 3, requires_grad=True), torch.randn(3, dtype=torch.float64, requires_grad=True)
    own, right = (f(x, s) for f in (item.function, lambda *a: torch.einsum("ij,j->ij", *a)))
    torch.testing.assert_close(own, right)
    torch.testing.assert_close(*(torch.autograd.grad(y.sin().sum(), (x, s)) for y in (own, right)))


@pytest.mark.parametrize("shapes", [((3, 1), (3, 4)), ((3, 4), (1, 4)), ((1, 4), (3, 1)), ((3, 0), (1, 1))])
@pytest.mark.parametrize("equation", ["ij,ij->", "ij,ij->i", "ij,ij->ji"])
def test_a_letter_of_an_einstein_sum_may_be_broadcast(equation: str, shapes: Any) -> None:
    item = compiled_text(f"{{op: f, tensors: {{a: , b: }}, outputs: {{y: 'einsum(\"{equation}\", a, b)'}}}}")
    tensors = [torch.rand(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    own, right = (_first_and_second(f, tensors, ()) for f in (item.function, item.composite))
    torch.testing.assert_close(own, right)


def test_an_index_keeps_its_dtype_beside_half_precision() -> None:
    item = compiled_text("""
        op: spread
        tensors: {x: }
        outputs:
          width: max(x, dim=-1).values - min(x, dim=-1).values
          at: {expr: "max(x, dim=-1).indices", grad: false}
    """)
    assert [y.dtype for y in item.function(torch.randn(2, 3).half())] == [torch.float16, torch.int64]


def test_a_small_constant_is_added_after_what_cancels() -> None:
    item = compiled_text("""
        op: scaled
        tensors: {x: }
        outputs: {y: "(x - amin(x)) / (amax(x) - amin(x) + 1e-3)"}
    """)
    x = torch.tensor([9999.0, 9999.0]).requires_grad_()
    item.function(x)[0].backward()
    want = x.detach().requires_grad_()
    item.composite(want)[0].backward()
    torch.testing.assert_close(x.grad, want.grad)


@pytest.mark.parametrize("shape", ["", "{shape: [N, C]}"])
@pytest.mark.parametrize("total", ["-{}", "mean({})"])
def test_the_gradient_of_an_entropy_keeps_its_digits_where_one_class_dominates(shape: str, total: str) -> None:
    entropy = total.format("sum(softmax(x, dim=-1) * log_softmax(x, dim=-1), dim=-1)")
    item = compiled_text(f'{{op: f, tensors: {{x: {shape}}}, outputs: {{y: "{entropy}"}}}}')
    x = torch.tensor([[12.0, 0.5, -1.0], [0.0, 30.0, -2.0]])
    found, right = (torch.func.grad(lambda t: f(t).sum())(x) for f in (item.function, item.composite))  # noqa: B023
    torch.testing.assert_close(found, right, rtol=1e-5, atol=0)


def test_a_number_takes_dtype_and_device_of_a_cotangent_where_only_indices_are_saved() -> None:
    item = compiled_text("""
        op: discounted
        tensors: {x: {shape: [N, D]}}
        let: {ranked: "sort(x, dim=-1)", place: "cumsum(0 * x + 1, dim=-1)"}
        outputs:
          gain: sum(ranked.values / log(1 + place), dim=-1)
          total: sum(ranked.values, dim=-1)
          order: {expr: ranked.indices, grad: false}
    """)
    x = torch.rand(2, 7, dtype=torch.float64, requires_grad=True)
    own, right = (torch.autograd.grad(f(x)[0].sum(), x)[0] for f in (item.function, item.composite))
    torch.testing.assert_close(own, right, rtol=1e-14, atol=0)
    assert "torch.full(" not in item.text


def _pushed(item: Compiled, f: Any, setting: Any) -> Any:
    """Outputs and tangents, pushed along the differentiable tensors."""
    primals, tangents = item.tensors(), item.tensors(seed=1)
    at = [k for k, t in enumerate(item.spec.tensors) if t.name in item.differentiable]

    def alone(*given: Any) -> Any:
        arguments = dict(enumerate(primals)) | dict(zip(at, given, strict=True))
        return results(f(*arguments.values(), *setting))

    return jvp(alone, tuple(primals[k] for k in at), tuple(tangents[k] for k in at))


def _first_and_second(f: Any, tensors: list[torch.Tensor], setting: Any) -> list[torch.Tensor]:
    """Outputs, gradients, and the gradients of a sum of these."""
    wrt = [t for t in tensors if t.requires_grad]
    outputs = results(f(*tensors, *setting))
    live = [y.sin().sum() for y in outputs if y.requires_grad]
    first = torch.autograd.grad(live, wrt, create_graph=True, materialize_grads=True)
    sums = [g.cos().sum() for g in first if g.requires_grad]
    second = torch.autograd.grad(sums, wrt, materialize_grads=True, allow_unused=True) if sums else ()
    return [t.detach() for t in (*outputs, *first, *second)]


def test_an_einstein_sum_of_another_rank_is_refused() -> None:
    with pytest.raises(SpecError, match="does not fit"):
        compiled_text("{op: f, tensors: {x: {shape: [N, D]}}, outputs: {y: 'einsum(\"ijk->i\", x)'}}")


@pytest.mark.parametrize(
    "mask, expected",
    {
        "m[:, None] & m": lambda m: m[:, None] & m,
        "not m[:, None]": lambda m: (~m)[:, None],
        "m[None] | flip(m, 0)[:, None]": lambda m: m[None] | m.flip(0)[:, None],
        "tril(m[:, None] & m)": lambda m: torch.tril(m[:, None] & m),
        "(x > 0).T": lambda m: (X_OF_MASKS > 0).T,
        "m[i][:, None]": lambda m: m[torch.tensor([2, 2, 0])][:, None],
    }.items(),
)
def test_a_mask_in_another_shape_or_order_is_a_condition(mask: str, expected: Any) -> None:
    text = f"""
        op: masked_elements
        tensors: {{x: {{shape: [N, N]}}, m: {{shape: [N], dtype: bool}}, i: {{shape: [N], dtype: int}}}}
        outputs: {{y: "where({mask}, x**2, -x)"}}
    """
    m, i = torch.tensor([True, False, True]), torch.tensor([2, 2, 0])
    x = X_OF_MASKS.clone().requires_grad_()
    y = compiled_text(text).function(x, m, i)
    plain = torch.where(expected(m), x**2, -x)
    torch.testing.assert_close(y, plain)
    torch.testing.assert_close(*(torch.autograd.grad(v.sum(), x)[0] for v in (y, plain)))


X_OF_MASKS = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -3.0], [-0.5, 1.0, 4.0]], dtype=torch.float64)
