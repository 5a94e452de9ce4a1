"""The functions of lanes against numpy's long double: a few ulp everywhere, and the same special values."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from fused import needs_compiler

from symgrad.backends.cpu.plumbing import plumbing
from symgrad.resources import template_folder

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="long double is no wider than double"),
]


def _sigmoid(x):
    e = np.exp(-abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


TRUTH = {
    "exp": (np.exp, 1.1),
    "expm1": (np.expm1, 2.0),
    "log": (np.log, 1.0),
    "log1p": (np.log1p, 1.0),
    "sin": (np.sin, 1.6),
    "cos": (np.cos, 1.6),
    "tanh": (np.tanh, 2.6),
    "sigmoid": (_sigmoid, 2.5),
    "softplus": (lambda x: np.maximum(x, 0) + np.log1p(np.exp(-abs(x))), 2.5),
    "logsigmoid": (lambda x: np.minimum(x, 0) - np.log1p(np.exp(-abs(x))), 2.5),
    "sqrt": (np.sqrt, 0.51),
    "floor": (np.floor, 0.0),
    "nearbyint": (np.rint, 0.0),
    "sign": (np.sign, 0.0),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("math")
    heads = "".join(f"#include <{h}>\n" for h in ("cmath", "cstdint", "cstring", "type_traits", "vector"))
    heads += "#if defined(__AVX__)\n#include <immintrin.h>\n#endif\n"
    text = f"{heads}namespace {{\n{plumbing(' '.join(TRUTH))}\n}}\n"
    for name in TRUTH:
        for kind in ("float", "double"):
            text += (
                f'extern "C" void {name}_{kind}(const {kind}* x, {kind}* y, int64_t n) {{\n'
                f"    for (int64_t i = 0; i < n; i += W) store(y + i, {name}(load<Lanes<{kind}>>(x + i)));\n}}\n"
            )
    source = folder / "math.cpp"
    source.write_text(text)
    flags = (template_folder() / "torch" / "plumbing" / "17a_flags.py").read_text()
    command = ["g++", *re.findall(r'"(-[^"]+)"', flags), str(source), "-o", str(folder / "math.so")]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(Path(folder) / "math.so"))


SPECIAL = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-45,
    -1e-45,
    1e-38,
    3e38,
    -3e38,
    88.7,
    -88.7,
    -103.9,
    89.5,
    -1.0,
    710.0,
]


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("name", TRUTH)
def test_function(library, name, kind):
    dtype = {"float": np.float32, "double": np.float64}[kind]
    random = np.random.default_rng(0)
    x = np.concatenate([SPECIAL, *(random.standard_normal(4096) * s for s in (1e-3, 0.1, 1, 10, 300, 1e5))]).astype(
        dtype
    )
    y = np.empty_like(x)
    getattr(library, f"{name}_{kind}")(
        x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(x))
    )
    truth, bound = TRUTH[name]
    with np.errstate(all="ignore"):
        wide = truth(x.astype(np.longdouble))
        true = wide.astype(dtype)
        error = np.abs(y.astype(np.longdouble) - wide) / np.spacing(np.abs(true)).astype(np.longdouble)
    numbers = np.isfinite(true)
    if name == "sign":
        numbers &= ~np.isnan(x)  # torch says 0
    else:
        assert np.array_equal(np.isnan(true), np.isnan(y))
    assert np.array_equal(true[np.isinf(true)], y[np.isinf(true)])
    assert np.nanmax(error[numbers]) <= bound
    if name != "logsigmoid":  # -0 where the true value is too small
        assert np.array_equal(np.signbit(true[numbers]), np.signbit(y[numbers]))
