"""Choices of earlier runs spare their searches, and nothing depends on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from symgrad.accuracy.candidates import Effort
from symgrad.compiler import workbench
from symgrad.compiler.measured import Measured, measured_at_home
from symgrad.ir.expr import Expr
from symgrad.ir.traversal import forget_nodes
from symgrad.pipeline import Compiled, compile_spec
from symgrad.spec import parse_spec
from symgrad.targets.torch.runtime import _kernels

SPEC = """
op: kept
tensors: {x: {domain: '(0, oo)'}, y: , m: {dtype: bool}}
hyperparameters: {alpha: 0.5}
outputs: {z: "where(m, log(1 + exp(y)) - alpha * x**2 / 3, atan(y) * sqrt(1 + x) - 1.25)"}
"""
ALONE = "op: alone\ntensors: {x: }\noutputs: {y: cosh(x) - 1}\n"


@contextmanager
def searched() -> Iterator[list[Expr]]:
    """The formulas for which forms are searched in the block."""
    found: list[Expr] = []
    search = workbench.choose

    def counted(formula: Expr, *rest: Any, **options: Any) -> Any:
        found.append(formula)
        return search(formula, *rest, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workbench, "choose", counted)
        yield found


def compiled(folder: Path, text: str = SPEC) -> Compiled:
    """A spec compiled as by a new process, which knows what is in the folder."""
    forget_nodes()
    return compile_spec(parse_spec(text), measured=Measured(folder))


def test_a_second_run_searches_nothing_and_writes_the_same(tmp_path: Path) -> None:
    plain = compile_spec(parse_spec(SPEC))
    with searched() as first:
        assert compiled(tmp_path / "own").files == plain.files
    assert first
    with searched() as second:
        again = compiled(tmp_path / "own")
    assert second == []
    assert (again.files, again.derivation) == (plain.files, plain.derivation)


def test_a_sum_in_another_order_is_searched_again(tmp_path: Path) -> None:
    text = "op: order\ntensors: {n: , k: , b: }\noutputs: {y: log(n - k + b)}\n"
    compiled(tmp_path / "own", text)
    with searched() as second:
        again = compiled(tmp_path / "own", text.replace("n - k + b", "b + n - k"))
    assert second and again.files == compile_spec(parse_spec(text.replace("n - k + b", "b + n - k"))).files


def test_what_did_not_change_in_an_edited_spec_is_not_searched_again(tmp_path: Path) -> None:
    before = "op: two\ntensors: {x: , y: }\noutputs: {a: tanh(x) * y, b: cosh(x) - 1}\n"
    with searched() as first:
        compiled(tmp_path / "own", before)
    with searched() as second:
        compiled(tmp_path / "own", before.replace("cosh(x) - 1", "cosh(x) - 2"))
    assert 0 < len(second) < len(first)
    assert not any("y" in str(formula) for formula in second)


@pytest.mark.parametrize(
    ("old", "new"),
    [("{x: }", "{x: {domain: '(0, 9)'}}"), ("k: 0.5", "k: 2.5"), ("k: 0.5", "k: {default: 0.5, domain: '(0, 1)'}")],
    ids=["a domain", "a default", "a domain of a hyperparameter"],
)
def test_where_it_is_measured_is_part_of_what_a_choice_is_kept_by(tmp_path: Path, old: str, new: str) -> None:
    text = "op: alone\ntensors: {x: }\nhyperparameters: {k: 0.5}\noutputs: {y: cosh(k * x) - 1}\n"
    compiled(tmp_path / "own", text)
    with searched() as second:
        compiled(tmp_path / "own", text.replace(old, new))
    assert second


def test_options_that_decide_a_choice_are_part_of_what_it_is_kept_by(tmp_path: Path) -> None:
    compiled(tmp_path / "own", ALONE)
    with searched() as second:
        compiled(tmp_path / "own", f"{ALONE}options: {{precision: fast}}\n")
    assert second


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data.replace(b"cosh", b"sinh"),
        lambda data: b"{}\n",
    ],
    ids=["cut off", "empty", "another formula", "another file"],
)
def test_a_damaged_file_is_measured_again(tmp_path: Path, damage: Any) -> None:
    plain = compiled(tmp_path / "own", ALONE)
    for file in (tmp_path / "own").iterdir():
        file.write_bytes(damage(file.read_bytes()))
    with searched() as second:
        assert compiled(tmp_path / "own", ALONE).files == plain.files
    assert second
    with searched() as third:
        compiled(tmp_path / "own", ALONE)
    assert third == [], "it was written anew"


def test_a_folder_that_others_may_write_to_is_neither_read_nor_written(tmp_path: Path) -> None:
    compiled(tmp_path / "own", ALONE)
    kept = sorted((tmp_path / "own").iterdir())
    (tmp_path / "own").chmod(0o777)
    with searched() as second:
        compiled(tmp_path / "own", ALONE.replace("- 1", "- 2"))
    assert second
    assert sorted((tmp_path / "own").iterdir()) == kept
    with searched() as third:
        compiled(tmp_path / "own", ALONE)
    assert third


def test_a_folder_that_cannot_be_made_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("a file stands here")
    assert compiled(tmp_path / "own" / "below", ALONE).files == compile_spec(parse_spec(ALONE)).files


def test_no_temporary_file_stays(tmp_path: Path) -> None:
    compiled(tmp_path / "own", ALONE)
    assert all(file.suffix == ".json" and not file.name.startswith(".") for file in (tmp_path / "own").iterdir())


def test_a_search_that_spent_everything_is_believed_where_as_much_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured, read = Measured(tmp_path / "own"), Measured.read
    compiled(tmp_path / "own", ALONE)
    seen: list[tuple[str, int]] = []

    def noted(self: Measured, content: str, left: int) -> Any:
        seen.append((content, left))
        return read(self, content, left)

    monkeypatch.setattr(Measured, "read", noted)
    compiled(tmp_path / "own", ALONE)
    content, had = seen[0]
    found = measured.read(content, had)
    assert found is not None
    choice, spent = found
    assert measured.read(content, spent + 1) == found, "with less it is the same, if that is enough"
    assert measured.read(content, spent) is None
    measured.write(content, choice, had=spent, spent=spent)
    assert measured.read(content, spent) == found
    assert measured.read(content, Effort().left) is None, "with more another form might be found"


@pytest.mark.parametrize(
    ("own", "base", "found"),
    [("{}/own", "elsewhere", "{}/own"), ("", "{}", "{}/symgrad"), ("~/own", "", "~/own"), ("", "", "~/.cache/symgrad")],
)
def test_the_folder_is_that_of_compiled_passes_and_can_be_turned_off(
    own: str, base: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYMGRAD_CACHE", own.format(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", base.format(tmp_path))
    monkeypatch.delenv("SYMGRAD_MEASURED", raising=False)
    measured = measured_at_home("state")
    assert measured is not None
    assert measured._folder == Path(found.format(tmp_path)).expanduser() / "measured" / "state"
    assert measured._folder.parents[1] == _kernels._cache_folder()
    monkeypatch.setenv("SYMGRAD_MEASURED", "0")
    assert measured_at_home("state") is None


def test_few_states_of_the_compiler_are_kept(tmp_path: Path) -> None:
    for k in range(12):
        compiled(tmp_path / f"state{k}", ALONE)
    assert len(list(tmp_path.iterdir())) == 8
    assert (tmp_path / "state11").is_dir()
