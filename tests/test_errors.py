"""Messages: where a mistake is, how it is shown, and that importing what shows it is light."""

import subprocess
import sys

import pytest

from symgrad.errors import Location, Mistake, SpecError, shown, suggestion


def mistake(line: int, column: int, source: str = "", message: str = "wrong") -> Mistake:
    return Mistake("a.yaml", Location(line, column), "outputs.y", message, source)


def test_render_is_the_message_the_source_line_and_a_caret() -> None:
    text = Mistake(
        "specs/swish.yaml",
        Location(7, 18),
        "outputs.y",
        "unknown name 'bta'; did you mean 'beta'?",
        "  y: x * sigmoid(bta * x)",
    ).render()
    assert text.splitlines() == [
        "specs/swish.yaml:7:18: outputs.y: unknown name 'bta'; did you mean 'beta'?",
        "  y: x * sigmoid(bta * x)",
        "                 ^",
    ]


def test_render_without_a_key_and_without_a_line() -> None:
    assert Mistake("a.yaml", Location(1, 1), "", "no such file").render() == "a.yaml:1:1: no such file"


def test_caret_stands_under_the_place_after_tabs_and_wide_characters() -> None:
    assert mistake(1, 3, "\tab").render().splitlines()[2] == "\t ^"
    assert mistake(1, 3, "数字x").render().splitlines()[2] == "    ^"
    assert mistake(1, 3, "e\u0301x").render().splitlines()[2] == " ^"


def test_a_long_line_is_shown_in_part() -> None:
    _, line, caret = mistake(1, 5001, "a" * 5000 + "B" + "a" * 5000).render().splitlines()
    assert len(line) < 130
    assert line[caret.index("^")] == "B"


def test_what_a_terminal_would_act_upon_is_replaced() -> None:
    assert "\x1b" not in mistake(1, 1, "\x1b[31m").render()
    assert "\ud800" not in mistake(1, 1, "a\ud800").render()


def test_mistakes_are_sorted_by_position_and_not_repeated() -> None:
    error = SpecError([mistake(2, 1), mistake(1, 9), mistake(10, 1), mistake(2, 1)])
    assert [m.location.line for m in error.mistakes] == [1, 2, 10]
    assert str(error).splitlines()[0] == "a.yaml:1:9: outputs.y: wrong"


def test_suggestion() -> None:
    assert suggestion("bta", ["x", "beta"]) == "; did you mean 'beta'?"
    assert suggestion("Beta", ["x", "beta"]) == "; did you mean 'beta'?"
    assert suggestion("zeta_function", ["x", "beta"]) == ""
    assert suggestion("gard_z", ["grad_y", "grad_z"]) == "; did you mean 'grad_z'?"
    assert suggestion("slcie", ["slice"]) == suggestion("lsice", ["slice"]) == "; did you mean 'slice'?"
    assert suggestion("softpluss", ["softsign", "softplus"]) == "; did you mean 'softplus'?"


@pytest.mark.parametrize(
    ("word", "other"),
    [("tan", "any"), ("arctan", "scan"), ("clip", "flip"), ("log_ndtr", "logdet"), ("arctan", "arange"), ("x", "y")],
)
def test_another_word_is_no_slip(word: str, other: str) -> None:
    assert suggestion(word, [other]) == suggestion(other, [word]) == ""
    assert suggestion("b" * 100_000, ["b" * 99_999]) == ""


def test_shown_is_short_and_printable() -> None:
    assert shown("a") == "'a'"
    assert len(shown("a" * 1000)) < 70
    assert shown("a\n\x1b").isprintable()


def test_importing_errors_is_cheap() -> None:
    code = "import sys, symgrad.errors; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"ruamel", "sympy", "torch", "difflib", "pydantic"}.isdisjoint(done.stdout.split())
