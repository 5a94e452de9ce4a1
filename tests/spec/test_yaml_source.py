"""YAML 1.2 as a tree that knows its places; what no spec needs is refused."""

import pytest
from effort import at_most
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from symgrad.errors import Location, Mistake, SpecError
from symgrad.spec.yaml_source import MAX_BYTES, Document, Mapping, Scalar, Sequence, decode, read_yaml


def read(text: str) -> Document:
    return read_yaml(text, "a.yaml")


def value(text: str) -> Scalar:
    node = read(text).root.entries["a"].value
    assert isinstance(node, Scalar)
    return node


def refusal(text: str) -> Mistake:
    """The only mistake, which comes within a second."""
    try:
        with at_most(calls=1_000_000):
            mistakes = read(text).mistakes
    except SpecError as error:
        mistakes = error.mistakes
    assert len(mistakes) == 1
    return mistakes[0]


# --------------------------------------------------------------------------- types of scalars


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1e-3", 0.001), ("1E3", 1000.0), (".5", 0.5), ("5.", 5.0), ("-1.5e+2", -150.0), ("+12", 12),
        ("010", 10), ("0o17", 15), ("0x1F", 31),
        ("true", True), ("FALSE", False), ("null", None), ("~", None), ("", None),
        ("no", "no"), ("on", "on"), ("yes", "yes"), ("y", "y"), ("1_000", "1_000"), ("12:30", "12:30"),
        ("2020-01-01", "2020-01-01"), ("0b1", "0b1"), ("'1'", "1"), ('"true"', "true"), ("<<", "<<"),
        ("=", "="),
        (".inf", float("inf")), ("-.INF", float("-inf")), ("1e999", float("inf")), ("٣", "٣"),
    ],
)  # fmt: skip
def test_scalars_are_read_as_yaml_1_2(text: str, expected: object) -> None:
    found = value(f"a: {text}").value
    assert found == expected
    assert type(found) is type(expected)


def test_nan_and_integers_of_any_length() -> None:
    nan = value("a: .nan").value
    assert nan != nan
    assert value("a: " + "9" * 9000).value == float("inf")
    assert value("a: -" + "9" * 9000).value == float("-inf")
    assert value("a: 0x" + "f" * 9000).value == float("inf")


def test_a_key_is_its_text_whatever_it_looks_like() -> None:
    assert list(read("no: 1\ntrue: 2\n1e3: 3\nnull: 4").root.entries) == ["no", "true", "1e3", "null"]


def test_nodes_know_where_they_stand() -> None:
    root = read("# comment\na: {b: [1, two]}\n").root
    assert root.location == Location(2, 1)
    entry = root.entries["a"]
    assert entry.key.location == Location(2, 1)
    assert isinstance(entry.value, Mapping)
    items = entry.value.entries["b"].value
    assert isinstance(items, Sequence)
    assert [item.location for item in items.items] == [Location(2, 9), Location(2, 12)]


def test_an_absent_value_stands_at_its_key() -> None:
    assert read("x: 1\n  \na:\n").root.entries["a"].location == Location(3, 1)


# --------------------------------------------------------------------------- places inside scalars


@pytest.mark.parametrize(
    "text",
    [
        "a: one + TWO",
        "a: {a: 1}\nb: 2".replace("{a: 1}", "'it''s + TWO'"),
        'a: "\\u0041\\x41\\n\\t \\"TWO"',
        'a: "one \\\n   two \\\n   TWO"',
        'a: "one\\n\\\r\n   two TWO"',
        "a: one\n  two\n\n  three + TWO",
        "a: 'one\n  two ''\n\n  TWO'",
        'a: "one\n  two\n\n  TWO"',
        "a: |\n  one\n    two\n  TWO",
        "a: |2- # comment with TW\n  one\n\n\n  TWO",
        "a: >\n  one\n  two\n\n    more\n  TWO",
        "a: >-\r\n  one\r\n  two TWO\r\n",
        "a: 数字 + é + \U0001d465 + TWO",
        "a:\n\n   TWO",
        "\ufeffa: TWO",
    ],
)
def test_every_character_is_found_in_the_file(text: str) -> None:
    scalar = value(text)
    lines = text.removeprefix("\ufeff").splitlines()
    for step, char in enumerate("TWO"):
        line, column = scalar.locate(scalar.text.index("TWO") + step)
        assert lines[line - 1][column - 1] == char
    assert scalar.locate(0) <= scalar.locate(len(scalar.text))


def test_offsets_outside_of_the_text_are_its_ends() -> None:
    scalar = value("a: xy")
    assert scalar.locate(-5) == scalar.locate(0) == Location(1, 4)
    assert scalar.locate(99) == scalar.locate(2) == Location(1, 6)


def test_places_in_an_escape_are_the_place_of_the_escape() -> None:
    assert value(r'a: "\u0041b"').locate(0) == Location(1, 5)
    assert value(r'a: "\u0041b"').locate(1) == Location(1, 11)


@given(st.text(alphabet="ab'\"\\ \n\t:#é|>-", max_size=40), st.sampled_from(["plain", "'", '"', "|", ">"]))
def test_places_never_run_backwards(text: str, style: str) -> None:
    written = {
        "plain": text,
        "'": "'" + text.replace("'", "''").replace("\n", "\n ") + "'",
        '"': '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\n ") + '"',
        "|": "|\n  " + text.replace("\n", "\n  "),
        ">": ">\n  " + text.replace("\n", "\n  "),
    }[style]
    try:
        scalar = value("a: " + written)
    except (SpecError, AssertionError, KeyError):  # not one scalar under a
        return
    places = [scalar.locate(offset) for offset in range(len(scalar.text) + 1)]
    assert places == sorted(places)
    lines = ("a: " + written).split("\n")
    for char, (line, column) in zip(scalar.text, places, strict=False):
        if char not in " \t\n\\":
            assert lines[line - 1][column - 1] == char or lines[line - 1][column - 1] == "\\"


# --------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("text", "location", "message"),
    [
        ("", (1, 1), "empty"),
        ("# nothing\n", (1, 1), "empty"),
        ("---\n...\n", (2, 1), "mapping"),
        ("- a\n", (1, 1), "mapping"),
        ("just text", (1, 1), "mapping"),
        ("a: 1\n---\nb: 2\n", (2, 1), "second document"),
        ("a: 1\nb: 2\na: 3\n", (3, 1), "the key 'a' stands on line 1 already"),
        ("a: &x 1\n", (1, 4), "anchors"),
        ("a: *x\n", (1, 4), "anchors"),
        ("a: !!python/object/apply:os.system [ls]\n", (1, 4), "tags"),
        ("a: !!str 1\n", (1, 4), "tags"),
        ("%YAML 1.1\n---\na: no\n", (1, 1), "directives"),
        ("a: 1\n? [b]\n: 2\n", (2, 3), "a key is a text"),
        ("a: b\x00\n", (1, 5), "U+0000"),
        ("a: b\x1b\n", (1, 5), "U+001B"),
        ("a: b\u202e\n", (1, 5), "U+202E"),
        ("a: \ud800\n", (1, 4), "U+D800"),
        ('a: "\\0"\n', (1, 4), "U+0000"),
        ('a: "\\ud800"\n', (1, 4), "U+D800"),
        ('a: "\\UFFFFFFFF"\n', (1, 1), "escape"),
        ("a: [1\nb: 2", (2, 2), "not valid YAML"),
        ("a: b: c\n", (1, 5), "not valid YAML"),
        ("\ta: 1\n", (1, 1), "not valid YAML"),
        ("a: 'x", (1, 4), "not valid YAML: the quote that is opened here is never closed"),
        ("a: !x!y 1", (1, 4), "not valid YAML"),
        ("[" * 10_000, (1, 51), "deeper than 50"),
        ("[\n" * 10_000, (51, 1), "deeper than 50"),
        ("{" * 10_000, (1, 51), "deeper than 50"),
        ("a: " + "[" * 9_000, (1, 54), "deeper than 50"),
        ("- " * 5_000, (1, 101), "deeper than 50"),
        ("? " * 5_000, (1, 101), "deeper than 50"),
        ("[a, " * 2_000, (1, 201), "deeper than 50"),
        ("a: [" + "1," * 4_000, (1, 5999), "more than 3000"),
        ("a" * 20_000 + ": 1", (1, 10_000), "line of more than"),
        ("a: 1\n" + " " * MAX_BYTES, (1, 1), "larger than"),
    ],
)  # fmt: skip
def test_what_is_refused_is_refused_at_its_place(text: str, location: tuple[int, int], message: str) -> None:
    mistake = refusal(text)
    assert message in mistake.message
    assert mistake.location == location
    assert mistake.render().startswith(f"a.yaml:{location[0]}:{location[1]}: ")


@pytest.mark.parametrize(
    "line",
    [
        "'x",
        '"x',
        "!" * 9_999,
        "&" + "a" * 9_998,
        "a: |",
        " b",
        "# c",
        "'" * 9_999,
        "? ",
        "x",
        "",
        "\\",
        "<" * 9_000,
    ],
)
@pytest.mark.parametrize("start", ["", "a: ", 'a: "', "a: '", "a: |\n ", "a: >\n"])
def test_no_text_takes_long(start: str, line: str) -> None:
    text = start + (line + "\n") * (MAX_BYTES // (8 * len(line) + 8))
    try:
        with at_most(calls=1_000_000):
            read(text)
    except SpecError as error:
        assert error.mistakes


def test_several_small_mistakes_are_reported_at_once() -> None:
    mistakes = read("a: &x 1\na: 2\nb: !t 3\nc: *y\n").mistakes
    assert [mistake.location for mistake in mistakes] == [(1, 4), (2, 1), (3, 4), (4, 4)]


def test_decode() -> None:
    assert decode("é".encode(), "a.yaml") == "é"
    with pytest.raises(SpecError) as caught:
        decode("op: é\nb: ".encode() + b"\xff", "a.yaml")
    assert caught.value.mistakes[0].location == (2, 4)
    with pytest.raises(SpecError, match="larger"):
        decode(b" " * (MAX_BYTES + 1), "a.yaml")


@given(st.text(alphabet=st.sampled_from("ab:-[]{},'\"|>#&*!%? \n\t\\0.1"), max_size=60))
def test_any_text_is_read_or_refused_and_agrees_with_ruamel(text: str) -> None:
    try:
        document = read(text)
    except SpecError as error:
        assert error.mistakes
        return
    if document.mistakes:
        return
    yaml = YAML(typ="rt", pure=True)
    try:
        theirs = yaml.compose(text)
    except YAMLError:
        pytest.fail("ruamel refuses what was read")
    assert [key.value for key, _ in theirs.value] == list(document.root.entries)
