"""The generated tests notice mistakes: each mutation of a generated module makes its test fail."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fused
import pytest
import torch
from compiled import compiled, compiled_text
from fused_specs import LOSS, NORM

SPECS = Path(__file__).parent.parent / "specs"


@dataclass(frozen=True)
class Mutation:
    """A mistake: `found` (a regular expression) becomes `put`, everywhere; `test` is one that must fail."""

    mistake: str
    found: str
    put: str
    test: str


_GRAD_TARGET = r"(_rounded\(grad_target, ctx\.dtypes\[1\]\)|grad_target)"

MUTATIONS: Mapping[str, tuple[Mutation, ...]] = {
    "swish": (
        Mutation("keeps what is differentiated", r"or torch\.is_grad_enabled\(\)", "or False", "gradgradcheck"),
        Mutation("computes what nobody asked for", r"if wants_beta:", "if True:", "backward_returns"),
        Mutation("a wrong tangent", r"terms\.append\((.*tangent_beta.*)\)", r"terms.append(-(\1))", "gradcheck"),
        Mutation(
            "forward mode off inside jvp",
            r"_set_fwd_grad_enabled\(True\)",
            "_set_fwd_grad_enabled(False)",
            "torch_func",
        ),
        Mutation("no cast of gradients", r"else grad\.to\(dtype\)", "else grad", "backward_returns"),
        Mutation("no sum to the shape", r"grad = grad\.sum_to_size.*", "pass", "backward_returns"),
        Mutation("arithmetic in half precision", r"x, beta, dtype = _widen\(.*\)", "dtype = None", "half_precision"),
        Mutation("a changed cotangent", r"return grad_x, grad_beta", "grad_y.mul_(2)\n        \\g<0>", "left_alone"),
        Mutation(
            "an unused value saved",
            r"ctx\.save_for_backward\(x, beta, sig\)",
            "ctx.save_for_backward(x, beta, torch.stack((sig, y))[0])",
            "saved_tensors",
        ),
    ),
    "split_signs": (
        Mutation("a dropped term", r"if grad_negative is not None:", "if False:", "value_and_gradients"),
        Mutation("no undefined cotangents", r"if grad_positive is not None:", "if True:", "undefined_cotangents"),
        Mutation("a flipped sign", r"_plus\(grad_x, ", "_plus(grad_x, -", "value_and_gradients"),
    ),
    "huber": (
        Mutation("a missing None", rf"(?m){_GRAD_TARGET}, None$", r"\1", "value_and"),
        Mutation("None for a gradient", rf"(?m){_GRAD_TARGET}, None$", "None, None", "gradcheck"),
        Mutation("no check of the domain", r"if not delta > 0:", "if False:", "bad_hyperparameters"),
    ),
    "sign_ste": (
        Mutation("a rule that export drops", r", compiled=_detached\)", ")", "export"),
        Mutation(
            "a scaled gradient", r"(?m)^        return grad_y$", "        return 2 * grad_y", "value_and_gradients"
        ),
        Mutation("a wrong tangent", r"tangent_x\.clone\(\)", "-tangent_x", "transpose"),
    ),
    "clip_gradient": (
        Mutation("an output that is the input", r"return x\.clone\(\)", "return x", "left_alone"),
        Mutation("another limit", r"max=limit", "max=2 * limit", "value_and_gradients"),
    ),
    "cube_first_order": (
        Mutation("a silent second derivative", r"or not _differentiated\(\):", "or True:", "second_derivatives_raise"),
    ),
    "cauchy_loss": (
        Mutation("infinity over infinity", r"1e30, -1e30", "torch.inf, -torch.inf", "numbers_where"),
        Mutation(
            "a number for none",
            r"return _round\((2 \* torch.log1p\(.*\)), ",
            r"return _round(\1.nan_to_num(), ",
            "numbers_where",
        ),
    ),
    "inplace_increment": (
        Mutation("a change that autograd does not see", r"ctx\.mark_dirty\(y\)", "pass", "in_place"),
    ),
}


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The failed tests of every module with each mistake, among those that must notice it; and of it as generated."""
    folder = tmp_path_factory.mktemp("mutants")
    nodes: list[str] = []
    for op, mutations in MUTATIONS.items():
        item = compiled(SPECS / f"{op}.yaml")
        test = item.test
        _write(folder, f"{op}_as_generated", item.spec.op, item.text, test)
        nodes += _nodes(f"{op}_as_generated", test, {m.test for m in mutations})
        for k, mutation in enumerate(mutations):
            text, count = re.subn(mutation.found, mutation.put, item.text)
            assert count, f"{op}: there is nothing to mutate for {mutation.mistake!r}"
            _write(folder, f"{op}_{k}", item.spec.op, text, test)
            nodes += _nodes(f"{op}_{k}", test, {mutation.test})
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += ["-W", "ignore", "--rootdir", str(folder), *nodes]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert "passed" in done.stdout, done.stdout + done.stderr
    found: dict[str, set[str]] = {}
    for name, test in re.findall(r"^(?:FAILED|ERROR) test_(\w+)\.py(?:::(\w+))?", done.stdout, re.MULTILINE):
        found.setdefault(name, set()).add(test)
    return found


def _nodes(name: str, test: str, needed: set[str]) -> list[str]:
    """The tests of a file in whose names stands what is needed; compilers take long, and would notice no more."""
    tests = re.findall(r"(?m)^def (test_(?!compile)\w+)\(", test)
    return [f"test_{name}.py::{test}" for test in tests if any(part in test for part in needed)]


def _write(folder: Path, name: str, op: str, module: str, test: str) -> None:
    """A module and its test under another name, so that one process can import all of them."""
    (folder / f"{name}.py").write_text(module, encoding="utf-8")
    renamed = test.replace(f'import_module("{op}")', f'import_module("{name}")')
    assert renamed != test
    (folder / f"test_{name}.py").write_text(renamed, encoding="utf-8")


@pytest.mark.parametrize("op", MUTATIONS)
def test_right_modules_pass(op: str, failures: dict[str, set[str]]) -> None:
    assert f"{op}_as_generated" not in failures


@pytest.mark.parametrize(
    ("name", "mutation"),
    [pytest.param(f"{op}_{k}", m, id=f"{op}: {m.mistake}") for op, ms in MUTATIONS.items() for k, m in enumerate(ms)],
)
def test_mistakes_are_noticed(name: str, mutation: Mutation, failures: dict[str, set[str]]) -> None:
    failed = failures.get(name, set())
    assert any(mutation.test in test for test in failed), f"only these failed: {sorted(failed)}"


def test_an_operation_without_derivatives_passes(tmp_path: Path) -> None:
    text = "{op: f, tensors: {x: , w: {grad: false}}, outputs: {y: {expr: 'floor(x) * w', grad: false}}}"
    item = compiled_text(text)
    _write(tmp_path, "f_alone", item.spec.op, item.text, item.test)
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += ["-k", "not compile and not export", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


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
# errors of two functions that are alike by luck, bounds for which torch has no gradient.
UNUSUAL = (
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
    "{op: entropy, tensors: {p: , q: }, outputs: {y: 'xlogy(p, q)', z: 'xlog1py(p, q)'}}",
)
WORDS = {"module", "jit", "accuracy", "export", "layouts", "saved", "dtypes", "checkpoint", "undefined", "reverse"}
WORDS |= {"asked", "second", "numbers", "torch_func", "gradgradcheck", "rounded", "autocast"}


def test_integers_and_truth_values_of_all_kinds_are_sampled() -> None:
    tensors = "{x: , k: {dtype: int, domain: '(0, oo)'}, m: {dtype: bool}}"
    text = compiled_text(f"{{op: f, tensors: {tensors}, outputs: {{y: 'where(m, k*x, x)'}}}}").test
    scope: dict[str, Any] = {"torch": torch, "Any": Any}
    source = re.search(r"(?s)def sample\(.*?\n\n\n", text)
    assert source is not None
    exec(source[0], scope)
    assert set(scope["sample"](1, (99,), 0).tolist()) == {1, 2, 3, 4}
    assert set(scope["sample"](2, (99,), 0).tolist()) == {False, True}


def test_unusual_operations_pass(tmp_path: Path) -> None:
    nodes: list[str] = []
    for k, text in enumerate(UNUSUAL):
        item = compiled_text(text)
        test = item.test
        _write(tmp_path, f"unusual_{k}", item.spec.op, item.text, test)
        nodes += _nodes(f"unusual_{k}", test, WORDS)
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), *nodes], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout


def test_no_section_of_a_test_is_empty() -> None:
    for path in sorted((SPECS.parent / "generated").glob("test_*.py")):
        assert not re.search(r"^# -+ .*\n\s*# -+ ", path.read_text(), re.MULTILINE), path


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
    for command in (["ruff", "check", "."], ["mypy", "--strict", *options, "."]):
        done = subprocess.run(
            [sys.executable, "-m", *command], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, done.stdout
