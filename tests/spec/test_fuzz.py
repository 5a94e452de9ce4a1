"""Whatever a spec holds, it is read or refused at once, with mistakes at places that exist."""

from effort import at_most
from hypothesis import given, settings
from hypothesis import strategies as st

from symgrad.errors import SpecError
from symgrad.spec import Spec, parse_spec
from tests.spec.test_load import FULL, SWISH


def only_spec_or_error(text: str | bytes) -> None:
    try:
        with at_most(calls=1_000_000):
            spec = parse_spec(text, "a.yaml")
        assert isinstance(spec, Spec)
    except SpecError as error:
        assert error.mistakes
        assert all(mistake.location >= (1, 1) and mistake.message for mistake in error.mistakes)
        assert "a.yaml:" in str(error)


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    only_spec_or_error(data)


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    only_spec_or_error(text)


WORDS = st.sampled_from(
    [
        *[
            "",
            " ",
            "\n",
            "\n  ",
            "[",
            "]",
            "{",
            "}",
            ": ",
            ", ",
            "- ",
            "'",
            '"',
            "|",
            ">",
            "&a ",
            "*a",
            "!!str ",
            "#",
        ],
        *[
            "~",
            "true",
            "0",
            "-1",
            "1e999",
            ".nan",
            "9" * 500,
            "0x" + "f" * 390,
            "(0, oo)",
            "[0, 1]",
            "...",
            "---",
        ],
        *["x", "beta", "expr", "grad", "default", "type", "int", "choices", "domain", "shape", "init"],
        *["\t", "\\", "é", "\u2028", "\ud800"],
    ]
)


@settings(max_examples=300)
@given(
    st.sampled_from([SWISH, FULL]),
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 12), WORDS), max_size=6),
)
def test_any_change_of_a_valid_spec(text: str, changes: list[tuple[int, int, str]]) -> None:
    for start, removed, word in changes:
        start %= len(text) + 1
        text = text[:start] + word + text[start + removed :]
    only_spec_or_error(text)


KEYS = st.sampled_from(
    [
        *[
            "x",
            "y",
            "grad",
            "default",
            "shape",
            "domain",
            "dtype",
            "type",
            "choices",
            "expr",
            "init",
            "pi",
            "\uff58",
        ],
        *["parameters", "shapes", "ranges", "values", "save", "inplace"],
    ]
)
ATOMS = st.sampled_from(
    ["", "1", "-1", "0.5", "1e999", ".nan", "true", "x", "y", "float", "'(0, 1)'", "...", "9" * 400]
)


def flow_mapping(items: dict[str, str]) -> str:
    return "{" + ", ".join(f"{key}: {value}" for key, value in items.items()) + "}"


VALUES = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(KEYS, inner, max_size=3).map(flow_mapping)
    ),
    max_leaves=8,
)
SECTIONS = [
    "op",
    "tensors",
    "hyperparameters",
    "let",
    "outputs",
    "gradients",
    "module",
    "options",
    "test",
    "doc",
]


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(SECTIONS), VALUES), st.booleans())
def test_any_values_of_the_keys(values: dict[str, str], complete: bool) -> None:
    base = {"op": "f", "tensors": "{x: }", "outputs": "{y: x}"} if complete else {}
    only_spec_or_error("\n".join(f"{key}: {value}" for key, value in {**base, **values}.items()))
