"""What users of torch and NumPy may write instead of names that the language does not have."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import SequenceMatcher

BY_NAME = "dimensions meet by their names under 'shape'"

_BY_HAND = "write its formula: what it sums and divides is what is differentiated"
_BY_VALUE = "the shape of a result never depends on values; write where(mask, x, 0)"
_FACTORS = "its gradient is undefined at equal singular values; there are inverse, solve, cholesky, det and logdet"
_NOWHERE = "torch has no such function"
_EXPANDED = "write what it is; SymPy's object is expanded"
_DTYPES = (
    "results have the dtype of the tensors, half precision is computed in float32, and a truth value counts as 1 or 0"
)
_RECURRENT = "a recurrence over a dimension is not in the language; rounds of a fixed number are: repeat under 'let'"
_DRAWN = "random numbers are those of uniform(x, seed), normal(x, seed) and dropout(x, p, seed)"
_ON_ONE_DEVICE = "formulas are of one device"
_RESAMPLED = "write gathers of the points and their weights: x[index]"

_FUNCTIONS = {
    "inner": "write a @ b.mT",
    "scan": "formulas are of the tensors that are given",
    "addbmm": "write c + sum(a @ b, 0)",
    **dict.fromkeys(("tensordot", "kron", "bilinear", "ger", "vdot"), "write einsum('...', a, b)"),
    **dict.fromkeys(("floor_divide", "floordiv"), "write floor(a / b)"),
    **dict.fromkeys(("masked_select", "masked_fill_"), "write where(mask, value, x)"),
    **dict.fromkeys(("float32", "float64"), "write the number alone: it broadcasts"),
    **dict.fromkeys(
        ("rand_like", "randn_like", "bernoulli", "rand", "randn"),
        "write uniform(x, seed), normal(x, seed) or dropout(x, p, seed)",
    ),
    **dict.fromkeys(("quantile", "nanquantile", "kthvalue", "percentile"), "write sort(x, dim=d).values[..., k]"),
    **dict.fromkeys(("nansum", "nanmean"), "write sum(nan_to_num(x, 0, oo, -oo))"),
    **dict.fromkeys(("tile", "repeat", "repeat_interleave"), BY_NAME),
    **dict.fromkeys(("group_norm", "instance_norm", "batch_norm"), _BY_HAND),
    **dict.fromkeys(("binary_cross_entropy", "gaussian_nll_loss"), _BY_HAND),
    **dict.fromkeys(("nonzero", "unique", "masked_scatter", "bincount", "histc"), _BY_VALUE),
    **dict.fromkeys(("svd", "qr", "eigh", "eig", "lstsq", "pinverse", "matrix_exp", "lu"), _FACTORS),
    **dict.fromkeys(("fft", "ifft", "rfft", "stft", "complex", "polar", "view_as_complex"), "formulas are real"),
    **dict.fromkeys(("interpolate", "grid_sample", "affine_grid", "fold", "unfold"), _RESAMPLED),
    "argwhere": _BY_VALUE,
    **dict.fromkeys(("lstm", "gru", "rnn", "ctc_loss", "associative_scan"), _RECURRENT),
    **dict.fromkeys(("multinomial", "poisson", "randperm", "randint", "exponential", "gumbel"), _DRAWN),
    **dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter", "all_to_all"), _ON_ONE_DEVICE),
    **dict.fromkeys(("index_put", "put", "index_copy"), "write index_add(x, dim, index, src) or where(mask, value, x)"),
    **dict.fromkeys(("searchsorted", "bucketize"), "write sum(where(x[..., None] > bounds, 1, 0), dim=-1)"),
    **dict.fromkeys(
        ("adaptive_avg_pool1d", "adaptive_avg_pool2d"), "write avg_pool with the size of a window, or mean"
    ),
    **dict.fromkeys(("max_unpool1d", "max_unpool2d"), "write scatter_add(0*y, dim, index, x)"),
    "embedding_bag": "write segment_sum(weight[index], bag, bags)",
    **dict.fromkeys(("matrix_power", "mpow"), "write a @ a"),
    "expm": "write rounds of its series: repeat under 'let'",
    "mode": "there are median, amax and argmax",
    "batched_index_select": "write take_along_dim(x, index, dim)",
    "copysign": "write abs(x) * where(y < 0, -1, 1)",
    "finfo": "write finfo(float32).eps and the like; and -oo in where(mask, x, -oo), which never reaches a gradient",
    "float_power": "write a ** b",
    "maxout": "write amax(x, dim=...)",
    "prelu": "write where(x > 0, x, weight * x)",
    "rrelu": "write leaky_relu(x, slope)",
    "scatter": "write scatter_add(x, index, src, dim)",
    "signbit": "write x < 0",
    "slogdet": "write logabsdet(x)",
    **dict.fromkeys(("half", "bfloat16"), _DTYPES),
    "vander": "write x[..., None] ** arange(n)",
    "DiracDelta": "it has no value element by element; write its integral",
    "diff": "write x[..., 1:] - x[..., :-1]; of SymPy's, the derivative itself, which SymPy's object has",
    **dict.fromkeys(("Integral", "integrate"), "write its closed form; that of SymPy's object is found"),
    **dict.fromkeys(("Derivative", "Subs", "Limit", "limit"), "write what it gives; SymPy's object is carried out"),
    **dict.fromkeys(
        ("Sum", "Product", "summation"),
        "write sum(x, dim=...) or prod(x, dim=...) of a tensor; a sum over a number SymPy's object carries out",
    ),
    **dict.fromkeys(("re", "im", "conjugate", "arg", "exp_polar", "polar_lift", "unpolarify"), "formulas are real"),
    **dict.fromkeys(("Matrix", "Tuple", "Array", "ImmutableMatrix"), "each of its entries is an output of its own"),
    **dict.fromkeys(("Symbol", "symbols", "Dummy", "Function", "Lambda", "Poly"), "write names and functions alone"),
    "KroneckerDelta": "write where(a == b, 1, 0)",
    "Determinant": "write det(x)",
    "HadamardProduct": "write a * b",
    "Order": "leave the order term out",
    "O": "leave the order term out",
    "Contains": "write the comparisons",
    "UnevaluatedExpr": "leave it out: nothing is evaluated as it is read",
    **dict.fromkeys(("expint", "E1", "Ei", "Si", "Ci", "Shi", "Chi", "li", "Li", "polylog"), _NOWHERE),
    **dict.fromkeys(("fresnels", "fresnelc", "hyper", "meijerg", "betainc", "betainc_regularized"), _NOWHERE),
    **dict.fromkeys(("elliptic_k", "elliptic_e", "elliptic_f", "elliptic_pi"), _NOWHERE),
    **dict.fromkeys(("airybi", "airybiprime", "airy", "hankel1", "hankel2", "exp1", "expi", "expn"), _NOWHERE),
    **dict.fromkeys(("erf2inv", "factorial2", "factorialk", "gammaincinv", "gammainccinv", "zetac"), _NOWHERE),
    "multigammaln": "write lgamma(x) + lgamma(x - 1/2) + ... and (p*(p - 1)/4)*log(pi)",
    "exp10": "write 10**x",
    "logaddexp2": "write logaddexp(a*log(2), b*log(2)) / log(2)",
    "Add": "write a + b",
    "Mul": "write a * b",
    "Nor": "write Not(Or(a, b))",
    "Nand": "write Not(And(a, b))",
    **dict.fromkeys(("RootOf", "CRootOf", "rootof", "roots", "real_roots", "Set", "Expr"), "write what it is"),
    **dict.fromkeys(("rf", "ff", "RisingFactorial", "FallingFactorial", "jn", "yn", "Ynm", "Znm"), _EXPANDED),
    **dict.fromkeys(("legendre", "hermite", "laguerre", "chebyshevt", "chebyshevu", "gegenbauer"), _EXPANDED),
    **dict.fromkeys(("jacobi", "assoc_legendre", "assoc_laguerre"), _EXPANDED),
}
_KEYWORDS = {"axes": "dim"}


def instead_of(function: str) -> str:
    """``"; write a @ b"`` for ``mm``, or an empty text."""
    return f"; {_FUNCTIONS[function]}" if function in _FUNCTIONS else ""


def keyword_for(word: str, parameters: Collection[str]) -> str:
    """``"; did you mean 'dim'?"`` for ``axes``, where there is that parameter, or an empty text."""
    known = _KEYWORDS.get(word)
    return f"; did you mean {known!r}?" if known in parameters else ""


def slip_of(word: str, names: Iterable[str]) -> str:
    """``"; did you mean 'sigmoid'?"`` for a slip of the pen: one or two letters of a longer word.

    Another word that only looks alike means something else, and is not suggested.
    """
    own = word.lower()
    for name in names:
        other = name.lower()
        matcher = SequenceMatcher(None, own, other)
        close = matcher.ratio() >= 0.8 or (len(own) == len(other) and sum(a != b for a, b in zip(own, other)) == 1)  # noqa: B905
        if own == other or (
            min(len(own), len(other)) > 2 and own[0] == other[0] and abs(len(own) - len(other)) <= 2 and close
        ):
            return f"; did you mean {name!r}?"
    return ""
