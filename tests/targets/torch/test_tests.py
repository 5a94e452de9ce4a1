"""Generated tests state what holds, of unusual operations too, and import wherever they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fused
import pytest
from compiled import compiled_text
from fused_specs import LOSS, NORM
from nightly import sampled

from symgrad.notebook import generate
from symgrad.targets.torch.shared import shared_files
from symgrad.testing.checks import applicable, run
from tests.mutants import subject_of

SPECS = Path(__file__).parents[3] / "specs"
SWISH = SPECS / "swish.yaml"


# A parameter that is not read, names that are not ASCII and end with a mark, a branch on a number, NaN in a dead
# branch, no gradient in x, a value at the step that is a tensor, outputs that are constant, only an optional tensor
# with a gradient, dtypes that depend on the order of operations, numbers outside of a domain, a number that decides a
# dtype alone, 0 times infinity in the formula's own derivative, results too large for finite differences and for half
# precision, nothing for the composite to save, a gradient of its own for a tensor that may be absent, sizes as numbers,
# infinity minus infinity in the formula's derivative and not in autograd's, errors that cancel, a function that torch
# has in no more than float32's accuracy, sums that may be of everything, an underflow in the composite, a derivative in
# float64 for the sake of another, functions of integers in float64 (in float32 in the composite), a function that torch
# has not in half precision, no value where two tensors are equal, a difference in which the composite loses digits in
# float32, truth values as outputs, a function whose torch is not accurate beside its root, one with a derivative where
# it has no value, one that torch rounds twice in half precision, parameters with sizes of their own,
# errors of two functions that are alike by luck, bounds for which torch has no gradient, names that tests and classes
# use, places as an output beside a gradient that is given, a gradient that is stopped, a quotient by what is zero for
# one element, borders and groups of named sizes, linear algebra that torch has not in half precision,
# a part of a product that is kept, windows that one element does not fill beside an output that is pointwise.
UNUSUAL = (
    "{op: capped, tensors: {x: }, hyperparameters: {c: {default: 0.5}}, outputs: {y: 'max(min(x, c), -1)'}}",
    "{op: unread, tensors: {x: , w: , b: }, hyperparameters: {flag: true},"
    " outputs: {y: 'where(flag, x*w, b*x)'}, module: {parameters: {w: 1.0, b: 0.5}}}",
    "{op: greek, tensors: {α: , x̂: }, outputs: {ψ: α*x̂}}",
    "{op: sometimes, tensors: {x: }, hyperparameters: {n: 0}, outputs: {y: 'where(n > 0, x**n, -x)'},"
    " test: {values: {n: [0, 2]}}}",
    "{op: root, tensors: {x: }, outputs: {y: 'where(x > 0, sqrt(x), 0)'}}",
    "{op: signs, tensors: {x: , v: }, outputs: {y: 'sign(x)*v'}}",
    "{op: step, tensors: {x: , v: }, outputs: {y: 'heaviside(x, v)', z: 'heaviside(x, 0)*v'}}",
    "{op: constant, tensors: {x: , w: }, outputs: {y: 0*x + 1, z: w - w}, module: {parameters: {w: 1.0}}}",
    "{op: constant_once, tensors: {x: }, outputs: {y: 0*x + 1}, options: {double_backward: false}}",
    "{op: masked, tensors: {x: , m: {dtype: bool}, w: , k: {dtype: int}}, outputs: {y: 'where(m, x*k, 0)*w'}}",
    "{op: shares, tensors: {x: {domain: '(0, 1)'}, z: {domain: '(0, 1)'}}, outputs: {y: softplus(x)*z}}",
    "{op: chosen, tensors: {x: , z: {grad: false}}, outputs: {y: 'where(abs(x) > z, x, 0)*1'}}",
    "{op: rooted, tensors: {x: }, outputs: {y: 'sqrt(clamp(x, min=0))'}}",
    "{op: large, tensors: {x: }, outputs: {y: 1e9*exp(x)}}",
    "{op: ternary, tensors: {w: }, outputs: {t: 'where(w > 1, 1.0, 0.0)'},"
    " gradients: {w: 'where(abs(w) <= 1, grad_t, 0)'}}",
    "{op: offered, tensors: {x: {default: 0}, z: {grad: false}, unread: }, outputs: {y: 2*x + z}}",
    "{op: unpushed, tensors: {x: , b: {default: 0}}, outputs: {y: 3*x + b}, gradients: {b: 2*grad_y}}",
    "{op: sized, tensors: {x: {shape: [N, D]}, b: {shape: [D], default: 0}}, hyperparameters: {flag: true},"
    " outputs: {y: 'where(flag, x/D, x/sqrt(D)) + b', z: 'max(N - D, 1)*x + log(N) - (2*pi)**(-D/2)'},"
    " gradients: {b: 'sum(grad_y, dim=0)/N'}}",
    "{op: gumbel, tensors: {x: , scale: {domain: '(0, oo)'}}, let: {z: x/scale}, outputs: {y: z + exp(-z)}}",
    "{op: bernoulli, tensors: {p: , q: }, outputs: {kl: sigmoid(p)*(p - q) - softplus(p) + softplus(q)}}",
    "{op: gamma, tensors: {a: {domain: '(0, oo)'}, c: {domain: '(0, oo)'}}, outputs: {y: (a - c)*digamma(a) - a}}",
    "{op: either, tensors: {x: {shape: [..., K]}, y: {shape: [...], grad: false}},"
    " outputs: {nll: 'y*sum(softplus(x), dim=-1) + y'}}",
    "{op: in_a_bin, tensors: {x: , log_scale: }, let: {z: x*exp(-log_scale)},"
    " outputs: {logp: log(sigmoid(z + 0.004) - sigmoid(z - 0.004))}}",
    "{op: weibull, tensors: {t: {domain: '(0, oo)', grad: false}, k: {domain: '(0, oo)'}, lam: {domain: '(0, oo)'}},"
    " outputs: {nll: -log(k/lam) - (k - 1)*log(t/lam) + (t/lam)**k}}",
    "{op: counted, tensors: {k: {dtype: int, domain: '[0, oo)'}, a: {domain: '(0, oo)'}},"
    " outputs: {y: exp(a*k) - cosh(k)}}",
    "{op: tail, tensors: {x: , y: }, outputs: {z: log_ndtr(x) * y}}",
    "{op: mean_slope, tensors: {a: {domain: '[1, 1.5]'}, b: {domain: '[1, 1.5]'}},"
    " outputs: {y: (exp(-a) - exp(-b))/(a - b)}}",
    "{op: in_a_floored_bin, tensors: {x: {shape: [N, 1], grad: false}, mean: {shape: [N, K]},"
    " log_scale: {shape: [N, K]}},"
    " let: {p: 'sigmoid((x - mean + 0.004)*exp(-log_scale)) - sigmoid((x - mean - 0.004)*exp(-log_scale))'},"
    " outputs: {nll: '-mean(logsumexp(log(max(p, 1e-12)), dim=-1))'}}",
    "{op: attended, tensors: {s: {shape: [N, K]}, mask: {shape: [N, K], dtype: bool}},"
    " outputs: {p: 'softmax(where(mask, s, -oo), dim=-1)'}, test: {shapes: {s: [3, 2], mask: [3, 2]}}}",
    "{op: attended_by_heads, tensors: {s: {shape: [B, H, L, K]}, mask: {shape: [B, 1, L, K], dtype: bool}},"
    " outputs: {p: 'softmax(where(mask, s, -oo), dim=-1)'}}",
    "{op: clipped_share, tensors: {x: , old: {grad: false}}, let: {d: exp(x - old)},"
    " outputs: {loss: mean(d), share: {expr: 'mean(where(abs(d - 1) > 0.2, 1.0, 0.0))', grad: false}}}",
    "{op: batch_norm, tensors: {x: {shape: [N, C, L]}, g: {shape: [C]}, b: {shape: [C]}},"
    " hyperparameters: {eps: {type: float, default: 1e-5, domain: '(0, oo)'}},"
    " let: {m: 'mean(x, dim=[0, 2])', v: 'var(x, dim=[0, 2], correction=0)'},"
    " outputs: {y: (x - m) / sqrt(v + eps) * g + b, mean: {expr: m, grad: false}}}",
    "{op: truths, tensors: {x: {domain: '(0, oo)'}, w: }, hyperparameters: {flag: true}, outputs: {y: x*w,"
    " known: {expr: x > 0, grad: false}, one: {expr: (x > 0) & (w > 0), grad: false},"
    " own: {expr: w == w, grad: false}, given: {expr: (x > 0) & flag, grad: false}}}",
    "{op: own_sizes, tensors: {x: {shape: [B, C, L]}, w: {shape: [O, C, K]}, g: }, outputs: {y: 'conv1d(x, w) * g'},"
    " module: {parameters: {w: {init: 1, shape: [4, 3, 2]}, g: {init: 1, shape: [7]}}}}",
    "{op: student, tensors: {x: {domain: '(0, oo)'}}, outputs: {y: lgamma((x + 1)/2) - lgamma(x/2) - log(x)/2}}",
    "{op: bounded, tensors: {x: , low: {default: -1}, high: {default: 1}}, outputs: {y: 'clamp(x, low, high)'}}",
    "{op: rooted_gamma, tensors: {x: {domain: '(0, oo)'}}, outputs: {y: lgamma(x)}}",
    "{op: arcosh, tensors: {x: }, outputs: {y: acosh(x)}}",
    "{op: gated_sums, tensors: {x: , w: }, outputs: {y: 'tanh(w * cumsum(x, -1)) * x'}}",
    "{op: entropy, tensors: {p: , q: }, outputs: {y: 'xlogy(p, q)', z: 'xlog1py(p, q)'}}",
    "{op: own_names, tensors: {x: }, hyperparameters: {torch: true, __x: 2, value: 3, output: 2, isinstance: 1},"
    " outputs: {y: 'where(torch, x, 2*x) * __x * value * output * isinstance'}, module: {}}",
    "{op: placed, tensors: {x: {shape: [N, C]}}, gradients: {x: 2*grad_y},"
    " outputs: {y: exp(x), k: {expr: 'argmax(x, dim=1)', grad: false}}}",
    "{op: stopped, tensors: {x: }, outputs: {y: x * detach(sin(x))}}",
    "{op: unbiased, tensors: {x: {shape: [N, C]}}, outputs: {y: 'sum(x**2, dim=1) / (C - 1)'}}",
    "{op: causal, tensors: {x: {shape: [B, C, L]}, w: {shape: [C, 1, K]}, b: {shape: [C], default: 0}},"
    " outputs: {y: 'x + conv1d(pad(x, (K - 1, 0)), w, b, groups=C)'}}",
    "{op: gaussian, tensors: {a: {shape: [N, N]}, b: {shape: [N]}}, let: {s: 'a @ a.mT + eye(N)'},"
    " outputs: {y: 'logdet(s) + b @ inverse(s) @ b'}}",
    "{op: by_channel, tensors: {x: {shape: [B, C, L]}, w: {shape: [C, M, 2]}},"
    " outputs: {y: 'conv_transpose1d(x, w, groups=C)'}}",
    "{op: pooled, tensors: {x: {shape: [N, C, L]}}, outputs: {y: 'max_pool1d(x, 2)', z: x * 2}}",
)


def test_an_operation_without_derivatives_passes(tmp_path: Path) -> None:
    text = "{op: f, tensors: {x: , w: {grad: false}}, outputs: {y: {expr: 'floor(x) * w', grad: false}}}\n"
    stated = subject_of(tmp_path / "f", generate(text))
    assert not stated.places
    assert [f for c in applicable(stated) if not c.slow for f in run(c, stated)] == []


@pytest.mark.parametrize("text", sampled(UNUSUAL, 3), ids=lambda text: text[5 : text.index(",")])
def test_unusual_operations_pass(text: str, tmp_path: Path) -> None:
    stated = subject_of(tmp_path / "unusual", generate(f"{text}\n"))
    assert [str(f) for c in applicable(stated) if not c.slow for f in run(c, stated)] == []


def test_every_kind_of_whole_number_and_truth_value_is_sampled(tmp_path: Path) -> None:
    from symgrad.testing.samples import draw

    tensors = "{x: , k: {dtype: int, domain: '(0, oo)'}, m: {dtype: bool}}"
    stated = subject_of(
        tmp_path / "f", generate(f"{{op: f, tensors: {tensors}, outputs: {{y: 'where(m, k*x, x)'}}}}\n")
    )
    _, k, m = draw(stated, ((99,),) * 3)
    assert set(k.tolist()) == {1, 2, 3, 4}
    assert set(m.tolist()) == {False, True}


# One process for both: each would import torch.
BOTH_MODES = """
import sys, pytest
for name, mode in (("mine", "prepend"), ("yours", "importlib")):
    arguments = ["-W", "error", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "value_and or forward_mode"]
    assert not pytest.main(["-q", *arguments, "--rootdir", ".", f"--import-mode={mode}", f"{name}/ops"])
"""


def test_a_generated_test_runs_in_a_package_without_warnings(tmp_path: Path) -> None:
    for name in ("mine", "yours"):
        subject_of(tmp_path / name / "ops", generate(SWISH), parents=True)
        (tmp_path / name / "__init__.py").touch()
    command = [sys.executable, "-c", BOTH_MODES]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("2 passed") == 2


HOSTILE = (
    "{op: torch_names, tensors: {torch: , Tensor: , reduce: , isinstance: },"
    " outputs: {Any: torch*Tensor + reduce*isinstance}}",
    "{op: imported, tensors: {namedtuple: , nn_grad: , math: }, hyperparameters: {bool: true, Function: 2.0},"
    " outputs: {copy: 'where(bool, namedtuple*tanh(nn_grad), Function*math)'}}",
    "{op: over, tensors: {x: , float: }, outputs: {y: x*sigmoid(float)}, options: {inplace: x}}",
)


def test_files_are_clean_whatever_the_names_and_with_fused_passes(tmp_path: Path) -> None:
    (tmp_path / "ruff.toml").write_text((SPECS.parent / "generated" / "ruff.toml").read_text())
    for text in HOSTILE:
        item = compiled_text(text)
        (tmp_path / f"{item.spec.op}.py").write_text(item.text)
        (tmp_path / f"test_{item.spec.op}.py").write_text(item.test)
    for text in (LOSS, NORM):
        (tmp_path / f"{fused.compiled(text).spec.op}.py").write_text(fused.compiled(text).module)
    root = SPECS.parent  # whose cache knows torch, which takes long to read
    options = ["--cache-dir", str(root / ".mypy_cache"), "--config-file", str(root / "pyproject.toml")]
    (tmp_path / "__init__.py").touch()
    for name, body in shared_files({"rt", "rtk", "_library", "_special"}).items():
        (tmp_path / name).write_text(body)
    for command in (["ruff", "check", "."], ["mypy", "--strict", *options, "."]):
        done = subprocess.run(
            [sys.executable, "-m", *command], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, done.stdout
