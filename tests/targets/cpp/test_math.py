"""The functions of lanes against numpy's long double: a few ulp everywhere, and the same special values."""

from __future__ import annotations

import ctypes
import math
import mmap
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import mpmath as mp
import numpy as np
import pytest
import torch
from flint import acb, arb, ctx
from fused import needs_compiler
from once import once

from symgrad.lower.code import words
from symgrad.ops.functions import FUNCTIONS
from symgrad.targets.cpp.shared import shared_files
from symgrad.targets.cpp.spellings import SPELLINGS
from symgrad.targets.torch.runtime._kernels import _FLAGS

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="long double is no wider than double"),
]


def _sigmoid(x):
    e = np.exp(-abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


TRUTH = {
    "exp": (np.exp, 1.1),
    "exp_minus_abs": (lambda x: np.exp(-abs(x)), 1.1),
    "expm1": (np.expm1, 2.0),
    "log": (np.log, 1.0),
    "log1p": (np.log1p, 1.0),
    "sin": (np.sin, 1.6),
    "cos": (np.cos, 1.6),
    "tan": (np.tan, 2.6),
    "tanh": (np.tanh, 2.6),
    "sigmoid": (_sigmoid, 2.5),
    "softplus": (lambda x: np.maximum(x, 0) + np.log1p(np.exp(-abs(x))), 2.5),
    "logsigmoid": (lambda x: np.minimum(x, 0) - np.log1p(np.exp(-abs(x))), 2.5),
    "sqrt": (np.sqrt, 0.51),
    "floor": (np.floor, 0.0),
    "nearbyint": (np.rint, 0.0),
    "sign": (np.sign, 0.0),
    "finite": (lambda x: np.nan_to_num(x, nan=np.nan, posinf=1e30, neginf=-1e30), 0.5),
}

DTYPES = {"float": np.float32, "double": np.float64}

# Functions that numpy has not: their values by mpmath, bounds in ulp of float64, and where they are compared.
SPECIAL_TRUTH = {
    "digamma": (mp.digamma, 4.0, (-20, 40)),
    "trigamma": (lambda x: mp.polygamma(1, x), 6.0, (-3, 40)),
    "erfinv": (mp.erfinv, 4.0, (-1, 1)),
    "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), 6.0, (-9, 60)),
    "log_ndtr": (lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2), 6.0, (-60, 8)),
}


# What the passes have of their own, with their values by ball arithmetic and where they are defined.
ANYWHERE = (-math.inf, math.inf)


def _log_ndtr(x):
    upper = (abs(x) / arb(2).sqrt()).erfc() / 2
    return upper.log() if x < 0 else (-upper).log1p()


OF_ONE = {
    "exp": (arb.exp, ANYWHERE),
    "expm1": (arb.expm1, ANYWHERE),
    "log": (arb.log, (0, math.inf)),
    "log1p": (arb.log1p, (-1, math.inf)),
    "log2": (lambda x: x.log() / arb(2).log(), (0, math.inf)),
    "log10": (lambda x: x.log() / arb(10).log(), (0, math.inf)),
    "sinh": (arb.sinh, ANYWHERE),
    "cosh": (arb.cosh, ANYWHERE),
    "tanh": (arb.tanh, ANYWHERE),
    "asinh": (arb.asinh, ANYWHERE),
    "acosh": (arb.acosh, (1, math.inf)),
    "atanh": (arb.atanh, (-1, 1)),
    "asin": (arb.asin, (-1, 1)),
    "acos": (arb.acos, (-1, 1)),
    "atan": (arb.atan, ANYWHERE),
    "erf": (arb.erf, ANYWHERE),
    "erfc": (arb.erfc, ANYWHERE),
    "erfcx": (lambda x: (x * x).exp() * x.erfc(), ANYWHERE),
    "log_ndtr": (_log_ndtr, ANYWHERE),
    "erfinv": (arb.erfinv, (-1, 1)),
    "digamma": (arb.digamma, (0, math.inf)),
    "trigamma": (lambda x: acb(x).polygamma(1).real, (0, math.inf)),
    "lgamma": (arb.lgamma, (0, math.inf)),
    "sinc": (lambda x: (arb.pi() * x).sin() / (arb.pi() * x), (-1000, 1000)),
}  # fmt: skip
OF_TWO = {
    "pow": arb.__pow__,
    "atan2": lambda y, x: arb.atan2(y, x),
    "hypot": lambda x, y: (x * x + y * y).sqrt(),
    "xlogy": lambda x, y: x * y.log() if y > 0 else arb("nan"),
    "xlog1py": lambda x, y: x * y.log1p() if y > -1 else arb("nan"),
    "logaddexp": lambda x, y: x.max(y) + (-abs(x - y)).exp().log1p(),
}
# What neither rounds nor is tested as a function of lanes: choices between its operands, steps, and forms of others.
EXACT = {"abs", "ceil", "clamp", "floor", "heaviside", "maximum", "minimum", "reciprocal", "relu", "round", "sign"}


LEFT = {"fmod": np.fmod, "remainder": np.remainder}


@pytest.fixture(scope="module", params=["", "-mno-avx512f", "-mno-avx"], ids=["native", "avx", "sse"])
def library(request, tmp_path_factory):
    built = once(_library, request.param)
    if built is None:
        pytest.skip("a processor without these instructions")
    path = tmp_path_factory.mktemp("math") / "math.so"
    path.write_bytes(built)
    return ctypes.CDLL(str(path))


def _library(without):
    """A library of all functions for arrays; None where the processor has not what is left `without` an extension."""
    text = '#include "_kernels.h"\n'
    for name in dict.fromkeys((*TRUTH, *SPECIAL_TRUTH, *OF_ONE)):
        for kind in ("float", "double"):
            text += (
                f'extern "C" void {name}_{kind}(const {kind}* x, {kind}* y, int64_t n) {{\n'
                f"    for (int64_t i = 0; i < n; i += W) store(y + i, {name}(load<Lanes<{kind}>>(x + i)));\n}}\n"
            )
    for name in (*OF_TWO, *LEFT):
        for kind in ("float", "double"):
            text += (
                f'extern "C" void {name}_{kind}(const {kind}* x, const {kind}* z, {kind}* y, int64_t n) {{\n'
                "    for (int64_t i = 0; i < n; i += W)\n"
                f"        store(y + i, {name}(load<Lanes<{kind}>>(x + i), load<Lanes<{kind}>>(z + i)));\n}}\n"
            )
    for kind in ("float", "double"):
        text += (
            f'extern "C" void power_{kind}(const {kind}* x, double p, {kind}* y, int64_t n) {{\n'
            f"    for (int64_t i = 0; i < n; i += W) store(y + i, pow(load<Lanes<{kind}>>(x + i), p));\n}}\n"
        )
    for kind in ("bfloat16", "float16"):
        for name, x, y in (("read", kind, "float"), ("write", "float", kind)):
            text += (
                f'extern "C" void {name}_{kind}(const {x}* x, {y}* y, int64_t n) {{\n'
                f"    for (int64_t i = 0; i < n; i += W) store(y + i, load<Lanes<float>>(x + i));\n}}\n"
            )
    for kind in ("float", "double", "bfloat16", "float16"):
        arithmetic = "double" if kind == "double" else "float"
        text += (
            f'extern "C" void stream_{kind}(const {arithmetic}* x, {kind}* y, int64_t n) {{\n'
            f"    for (int64_t i = 0; i < n; i += W) stream(y + i, load<Lanes<{arithmetic}>>(x + i));\n"
            "    end_streams();\n}\n"
        )
    for name in ("sin", "cos", "tan"):
        text += (
            f'extern "C" void {name}_of_product(const float* x, const float* z, float* y, int64_t n) {{\n'
            "    for (int64_t i = 0; i < n; i += W)\n"
            f"        store(y + i, {name}(widen(load<Lanes<float>>(x + i)) * widen(load<Lanes<float>>(z + i))));\n}}\n"
        )
    text += 'extern "C" bool streamed(void* start, int64_t bytes) { return is_streamed(start, bytes); }\n'
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "math.cpp"), Path(folder, "math.so")
        source.write_text(text)
        for name, header in shared_files().items():
            Path(folder, name).write_text(header)
        command = ["g++", *_FLAGS, *without.split(), str(source), "-o", str(target)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode and without:
            return None
        assert not done.returncode, done.stderr
        return target.read_bytes()


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_what_goes_past_the_caches_is_what_would_be_stored(library, dtype):
    x = torch.randn(4096, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
    room = torch.zeros(4096 + 64, dtype=dtype)
    first = -room.data_ptr() % 64 // room.element_size()
    y = room[first : first + 4096]
    kind = {torch.float32: "float", torch.float64: "double"}.get(dtype, str(dtype).removeprefix("torch."))
    given, made = ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr())
    getattr(library, f"stream_{kind}")(given, made, ctypes.c_int64(4096))
    assert torch.equal(y, x.to(dtype))


@pytest.mark.skipif(sys.platform != "linux", reason="nothing goes past the caches")
def test_large_results_go_past_the_caches_unless_their_memory_is_new(library, request):
    def streamed(size):
        return library.streamed(ctypes.c_void_p(start), ctypes.c_int64(size)) & 1

    size = 16 << 20
    with mmap.mmap(-1, size) as memory:
        part = ctypes.c_char.from_buffer(memory)
        start = ctypes.addressof(part)
        assert not streamed(size), "of new memory the system writes the first page that is touched"
        memory[size // 2] = 1
        has_avx = "sse" not in request.node.name and torch.backends.cpu.get_cpu_capability().startswith("AVX")
        assert streamed(size) == has_avx
        assert not streamed(size // 2)
        del part


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_is_read_and_rounded_as_torch_does(library, dtype):
    """Every number of 16 bits, and what lies between two of them: ties, subnormal numbers, infinities, NaN."""
    kind = str(dtype).removeprefix("torch.")

    def run(name, x, y):
        getattr(library, f"{name}_{kind}")(*(ctypes.c_void_p(t.data_ptr()) for t in (x, y)), ctypes.c_int64(x.numel()))
        return y

    half = torch.arange(1 << 16).to(torch.uint16).view(dtype)
    wide = run("read", half, torch.empty(half.shape))
    assert torch.equal(wide.nan_to_num(123.0), half.float().nan_to_num(123.0))
    tie = (wide.nan_to_num() + wide.roll(1).nan_to_num()) / 2
    infinity, tiny = torch.tensor(torch.inf), torch.tensor(0.0)
    between = [wide, tie, *(torch.nextafter(tie, towards) for towards in (infinity, -infinity, tiny))]
    given = torch.cat([*between, 1.37 * wide, torch.full((16,), 1e-45), torch.full((16,), 3.4e38)])
    rounded = run("write", given, torch.empty(given.shape, dtype=dtype))
    assert torch.equal(rounded.isnan(), given.isnan())
    assert torch.equal(rounded[~given.isnan()].view(torch.int16), given.to(dtype)[~given.isnan()].view(torch.int16))


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("name", TRUTH)
def test_function(library, name, kind):
    dtype = DTYPES[kind]
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


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("name", LEFT)
def test_remainders_are_exact(library, name, kind):
    """Quotients of all sizes, next to whole numbers on both sides, and special values beside one another."""
    random = np.random.default_rng(0)
    one, other = (random.standard_normal(8192) * 10 ** random.uniform(-6, 6, 8192) for _ in range(2))
    turns, unit = np.round(random.uniform(1, 1000, 4096)), random.uniform(0.1, 3, 4096).astype(DTYPES[kind])
    near = (turns * unit).astype(DTYPES[kind])
    pairs = np.array([(a, b) for a in SPECIAL for b in SPECIAL])
    x = np.concatenate([one, near, np.nextafter(near, DTYPES[kind](0)), np.repeat(-near[:64], 16), pairs[:, 0]])
    y = np.concatenate([other, unit, unit, np.repeat(unit[:64], 16), pairs[:, 1]])
    x, y = (np.ascontiguousarray(t, dtype=DTYPES[kind]) for t in (x, y))
    found = np.empty_like(x)
    given = [t.ctypes.data_as(ctypes.c_void_p) for t in (x, y, found)]
    getattr(library, f"{name}_{kind}")(*given, ctypes.c_int64(len(x)))
    with np.errstate(all="ignore"):
        true = LEFT[name](x, y)
    wrong = ~((found == true) | (np.isnan(found) & np.isnan(true)))
    assert not wrong.any(), (x[wrong][:4], y[wrong][:4], found[wrong][:4], true[wrong][:4])
    if name == "fmod":  # of a remainder numpy gives 0 the sign of y, torch that of x
        assert np.array_equal(np.signbit(found[true == 0]), np.signbit(true[true == 0]))


@cache
def _angles(dtype):
    """Angles of all sizes, sorted so that those of a register are about alike: many are the closest to a multiple of
    pi/2 that there is, which are the hardest to reduce, on both sides of where the standard library takes over."""
    random = np.random.default_rng(0)
    quarters = [*range(1, 2048), *random.integers(2048, 1 << 25, 2048), *(29 << k for k in range(20))]
    with mp.workdps(60):
        hard = [float(k * mp.pi / 2) for k in map(int, quarters)]
    exponents = np.finfo(dtype)
    sizes = np.ldexp(random.uniform(1, 2, 1024), random.integers(exponents.minexp, exponents.maxexp, 1024))
    x = np.concatenate([hard, sizes, random.uniform(0, 2e5, 2048), np.linspace(99990, 100010, 64)]).astype(dtype)
    x = np.sort(x[: len(x) // 16 * 16])
    return np.concatenate([x, -x])


@cache
def _values(name, dtype):
    with mp.workdps(30):
        return [getattr(mp, name)(mp.mpf(x)) for x in _angles(dtype).tolist()]


@pytest.mark.parametrize(
    ("name", "kind", "bound"),
    [
        ("sin", "float", 1.6),
        ("sin", "double", 1.05),
        ("cos", "float", 1.6),
        ("cos", "double", 1.05),
        ("tan", "float", 0.51),
        ("tan", "double", 2.6),
    ],
)
def test_angles_of_all_sizes(library, name, kind, bound):
    dtype = DTYPES[kind]
    x = _angles(dtype)
    y = np.empty_like(x)
    getattr(library, f"{name}_{kind}")(
        x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(x))
    )
    true = _values(name, dtype)
    errors = np.array([float(mp.mpf(found) - value) for found, value in zip(y.tolist(), true, strict=True)])
    in_ulp = np.abs(errors) / np.spacing(np.abs(y)).astype(np.float64)
    worst = int(np.argmax(in_ulp))
    assert in_ulp[worst] <= bound, (x[worst], in_ulp[worst])


@cache
def _factors():
    """Two floats whose product is an angle: of all sizes, beyond what a float holds, and as close to a multiple of pi/2
    as the second one can bring it, which is below the last place of a float."""
    random = np.random.default_rng(0)
    sizes = [np.ldexp(random.uniform(-2, 2, 2048), random.integers(-126, 127, 2048)) for _ in range(2)]
    x = random.uniform(0.5, 4, 6144).astype(np.float32)
    quarters = np.concatenate([random.integers(1, 64, 4096), random.integers(64, 1 << 16, 2048)])
    first = np.concatenate([sizes[0], x, random.uniform(-4, 4, 4096)]).astype(np.float32)
    second = np.concatenate([sizes[1], quarters * (np.pi / 2) / x.astype(np.float64), random.uniform(-40, 40, 4096)])
    return first, second.astype(np.float32)


@pytest.mark.parametrize(("name", "bound"), [("sin", 1.6), ("cos", 1.6), ("tan", 0.51)])
def test_angles_that_are_products(library, name, bound):
    def run(x, z):
        y = np.empty_like(x)
        pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (x, z, y)]
        getattr(library, f"{name}_of_product")(*pointers, ctypes.c_int64(len(x)))
        return y

    x, z = _factors()
    y = run(x, z)
    with mp.workdps(120):
        true = [getattr(mp, name)(mp.mpf(a) * mp.mpf(b)) for a, b in zip(x.tolist(), z.tolist(), strict=True)]
        errors = np.array([float(mp.mpf(found) - value) for found, value in zip(y.tolist(), true, strict=True)])
    in_ulp = np.abs(errors) / np.spacing(np.abs(y)).astype(np.float64)
    worst = int(np.argmax(in_ulp))
    assert in_ulp[worst] <= bound, (x[worst], z[worst], in_ulp[worst])
    zeros = np.float32([0.0, -0.0] * 8)
    assert np.array_equal(np.signbit(run(zeros, np.ones_like(zeros))), np.signbit(zeros) & (name != "cos"))


_NEAR = [
    1.4616321449683622,
    1.0,
    2.0,
    0.5,
    0.49999,
    1e-7,
    1e-12,
    0.999999,
    -0.999999,
    9.999,
    10.0,
    11.999,
    12.0,
    -1.0001,
]


def _special_points(name, kind):
    """Places all over the domain, and those where one form takes over from another."""
    low, high = SPECIAL_TRUTH[name][2]
    dtype = DTYPES[kind]
    random = np.random.default_rng(0)
    x = np.concatenate([random.uniform(low, high, 300), random.standard_normal(100) * 0.1, _NEAR]).astype(dtype)
    x = np.sort(np.unique(x[(x > low) & (x < high) & (x != np.floor(x) if low < -2 else True)]))
    return np.concatenate([x, np.full(-len(x) % 16, x[0])]).astype(dtype)


def _special_values(case):
    """The values of a function and its slopes at its points, the same for all kinds of registers."""
    name, kind = case.split()
    truth = SPECIAL_TRUTH[name][0]
    with mp.workdps(60):
        places = [mp.mpf(x) for x in _special_points(name, kind).tolist()]
        return [(truth(x), mp.diff(truth, x, h=mp.mpf(10) ** -25)) for x in places]


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("name", SPECIAL_TRUTH)
def test_special_function(library, name, kind):
    bound = SPECIAL_TRUTH[name][1]
    dtype = DTYPES[kind]
    x = _special_points(name, kind)
    y = np.empty_like(x)
    getattr(library, f"{name}_{kind}")(
        x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(x))
    )
    for value, found, (true, slope) in zip(
        x.tolist(), y.tolist(), once(_special_values, f"{name} {kind}"), strict=True
    ):
        ulp = float(np.spacing(dtype(abs(float(true)))))
        # What half an ulp of x changes, where digamma and its like turn about near a pole.
        conditioning = abs(slope * value) * (np.finfo(dtype).eps / 2)
        allowed = (0.51 if kind == "float" and name != "erfcx" else bound) * ulp + (0 if value > 0 else conditioning)
        assert abs(found - true) <= allowed, (value, found, float((found - true) / ulp))


def test_special_values_of_special_functions(library):
    expected = {
        "digamma": [(0.0, -np.inf), (-0.0, np.inf), (-2.0, np.nan), (np.inf, np.inf), (np.nan, np.nan)],
        "trigamma": [(0.0, np.inf), (-2.0, np.inf), (np.inf, 0.0), (np.nan, np.nan)],
        "erfinv": [(1.0, np.inf), (-1.0, -np.inf), (1.5, np.nan), (0.0, 0.0), (-0.0, -0.0), (np.nan, np.nan)],
        "erfcx": [(np.inf, 0.0), (-np.inf, np.inf), (-1e3, np.inf), (0.0, 1.0), (np.nan, np.nan)],
        "log_ndtr": [(np.inf, 0.0), (-np.inf, -np.inf), (np.nan, np.nan)],
    }
    for name, pairs in expected.items():
        x, y = np.zeros(16), np.empty(16)
        x[: len(pairs)] = [v for v, _ in pairs]
        getattr(library, f"{name}_double")(
            x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(16)
        )
        np.testing.assert_array_equal(y[: len(pairs)], [v for _, v in pairs])


def _sizes(dtype, count, seed=0):
    """Numbers of every exponent, subnormal ones among them, and many about 1."""
    random, facts = np.random.default_rng(seed), np.finfo(dtype)
    exponents = random.integers(facts.minexp - facts.nmant, facts.maxexp, count)
    every = np.ldexp(random.uniform(1, 2, count), exponents) * random.choice([-1, 1], count)
    return np.concatenate([every, *(random.standard_normal(count) * s for s in (1e-3, 0.1, 1, 5, 30, 300))])


def _within(name, dtype):
    """Places in the domain of a function, next to its bounds and the zeros of some."""
    low, high = OF_ONE[name][1]
    random = np.random.default_rng(1)
    x = [_sizes(dtype, 60), np.linspace(-20, 20, 200)]
    for bound, way in ((low, 1), (high, -1), (1, 1), (1, -1), (2, 1), (2, -1), (1.4616321449683622, 1)):
        if math.isfinite(bound):
            x.append(bound + way * np.ldexp(random.uniform(1, 2, 60), random.integers(-60, 1, 60)))
    found = np.concatenate(x).astype(dtype)
    found = found[(found > low) & (found < high) & np.isfinite(found) & (np.abs(found) < 1e300)]
    return np.concatenate([found, np.full(-len(found) % 16, found[0], dtype)])


def _called(library, name, kind, *arguments):
    y = np.empty_like(arguments[0])
    given = [a.ctypes.data_as(ctypes.c_void_p) if isinstance(a, np.ndarray) else a for a in (*arguments, y)]
    getattr(library, f"{name}_{kind}")(*given, ctypes.c_int64(len(y)))
    return y


def _ulps(found, true, dtype):
    """The error of what was found, in units of the last place of the truth; what overflows is infinite."""
    value, largest = float(true), float(np.finfo(dtype).max)
    if abs(value) > largest or not math.isfinite(found):
        good = (
            abs(found) >= largest and abs(value) >= largest * (1 - np.finfo(dtype).eps) and (found > 0) == (value > 0)
        )
        return 0.0 if good else math.inf
    return abs(float(arb(found) - true)) / float(np.spacing(dtype(abs(value))))


@pytest.fixture
def wide():
    before, ctx.prec = ctx.prec, 300
    yield
    ctx.prec = before


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("name", OF_ONE)
def test_four_ulp_over_the_whole_domain(library, wide, name, kind):
    dtype, truth = DTYPES[kind], OF_ONE[name][0]
    x = _within(name, dtype)
    y = _called(library, name, kind, x)
    for value, found in zip(x.tolist(), y.tolist(), strict=True):
        true = truth(arb(value))
        if not true.is_finite() or (abs(value) > 1e5 and name in ("erfcx", "erfc", "log_ndtr", "exp", "sinh", "cosh")):
            continue  # beyond what ball arithmetic computes
        if name == "sinc" and value == round(value):
            continue  # 0, or 1e-100 in balls
        assert _ulps(found, true, dtype) <= 4, (value, found, float(true))


def test_every_function_that_kernels_spell_is_measured() -> None:
    called = frozenset().union(*(words(s.lanes) for name, s in SPELLINGS.items() if name in FUNCTIONS))
    exact = {"where", "V", *(word for name in EXACT & SPELLINGS.keys() for word in words(SPELLINGS[name].lanes))}
    assert not called - {*TRUTH, *SPECIAL_TRUTH, *OF_ONE, *OF_TWO, *LEFT, *exact}


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("name", OF_TWO)
def test_four_ulp_of_two_arguments(library, wide, name, kind):
    """Powers of all sizes, those next to 1 with large exponents among them."""
    dtype, random = DTYPES[kind], np.random.default_rng(2)
    x = _sizes(dtype, 256).astype(dtype)
    z = random.permutation(_sizes(dtype, 256, 3)).astype(dtype)
    if name == "pow":
        x = np.maximum(np.abs(x), np.finfo(dtype).tiny)
        x[::3] = np.exp(random.standard_normal(len(x)) * 0.1)[::3]
        logs = np.where(np.abs(np.log(x.astype(np.float64))) < 1e-12, 1, np.log(x.astype(np.float64)))
        z = (random.uniform(-1, 1, len(x)) * (87 if kind == "float" else 700) / logs).astype(dtype)
    else:
        z[::4] = (x * random.uniform(0.1, 10, len(x)))[::4]
    y = _called(library, name, kind, x, z)
    for a, b, found in zip(x.tolist(), z.tolist(), y.tolist(), strict=True):
        true = OF_TWO[name](arb(a), arb(b))
        if true.is_finite() and math.isfinite(b):
            largest = max(a, b)
            if name == "logaddexp" and largest < 0:  # it and the logarithm added to it cancel
                rounded = float(np.finfo(dtype).eps) * (true - 2 * largest)
                assert abs(arb(found) - true) <= 2 * rounded, (a, b, found, float(true))
                continue
            assert _ulps(found, true, dtype) <= 4, (a, b, found, float(true))


@pytest.mark.parametrize("kind", ["float", "double"])
def test_special_values_of_powers_arcs_and_lengths(library, kind):
    """As IEEE 754 has them, which numpy follows."""
    dtype = DTYPES[kind]
    values = [0.0, -0.0, 1, -1, 2, -2, 3, 0.5, -0.5, -3, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1e30]
    x, z = (v.ravel().astype(dtype) for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        for name, truth in (("pow", np.power), ("atan2", np.arctan2), ("hypot", np.hypot)):
            y, true = _called(library, name, kind, x, z), truth(x, z)
            np.testing.assert_allclose(y, true, rtol=4 * np.finfo(dtype).eps, err_msg=name)
            assert np.array_equal(np.signbit(y[~np.isnan(y)]), np.signbit(true[~np.isnan(true)])), name


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("exponent", [0, 1, 2, 4, 7, 8, -1, -3, 0.5, 1.5, -0.5, 2.5, 9, 0.3, -7.5, np.inf])
def test_powers_with_one_exponent_for_all(library, wide, exponent, kind):
    dtype = DTYPES[kind]
    x = np.array([0.0, -0.0, 1, -1, 2, 3, -3, 0.7, -0.7, 1.1, np.inf, -np.inf, np.nan, 12.5, 1e3, 0.01], dtype)
    y = _called(library, "power", kind, x, ctypes.c_double(exponent))
    with np.errstate(all="ignore"):
        true = 1 / np.sqrt(x) if exponent == -0.5 else np.power(x, dtype(exponent))
        np.testing.assert_allclose(y, true, rtol=4 * np.finfo(dtype).eps)
