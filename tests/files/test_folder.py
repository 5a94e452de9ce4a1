"""Files on disk: which are up to date, which are left over, and writing all of them or none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from symgrad import __version__
from symgrad.files import FileError, FileState, Folder, Status, folder, header, render, spec_hash
from symgrad.spec import parse_spec

SPEC = "op: swish\ntensors: {x: }\noutputs: {y: 2*x}\n"
NAMES = ["swish.py", "test_swish.py"]
RUNTIME = {"_runtime.py": "r = 1\n"}


def texts(module: str = "a = 1\n", test: str = "b = 2\n", spec: str = SPEC, path: str = "specs/swish.yaml", **more):
    bodies = {"swish.py": module, "test_swish.py": test, **more.pop("passes", {})}
    return render(bodies, spec_path=path, source=spec_hash(parse_spec(spec)), **more)


def update(out: Path, wanted: dict[str, str], shared=(), *, force: bool = False) -> list[FileState]:
    return [s for s in Folder(out).update(wanted, dict(shared), force=force) if s.path.name != "__init__.py"]


def statuses(out: Path, wanted: dict[str, str], shared=()) -> list[Status]:
    return [s.status for s in Folder(out).check(wanted, dict(shared)) if s.path.name != "__init__.py"]


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir() if path.is_file() and path.name != "__init__.py"}


def known(out: Path, path: str = "specs/swish.yaml", spec: str = SPEC) -> list[Status] | None:
    """What the headers alone tell of a spec's files."""
    found = Folder(out).known(path, spec_hash(parse_spec(spec)))
    return found and [state.status for state in found]


def test_writes_then_leaves_alone(tmp_path):
    out = tmp_path / "deep" / "generated"
    assert statuses(out, texts()) == [Status.MISSING] * 2
    update(out, texts())
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert sorted(path.name for path in before) == ["__init__.py", *NAMES]
    assert [state.status for state in update(out, texts())] == [Status.FRESH] * 2
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"module": "a = 2\n"}, "differently"),
        ({"spec": SPEC.replace("2", "3")}, "the spec or an option has changed"),
        ({"path": "other/swish2.yaml"}, "it comes from specs/swish.yaml"),
    ],
)
def test_a_stale_file_is_told_why_and_written_anew(tmp_path, monkeypatch, change, reason):
    monkeypatch.chdir(tmp_path)
    update(tmp_path, texts())
    state = Folder(tmp_path).check(texts(**change), {})[-2]
    assert state.status is Status.STALE
    assert reason in state.reason
    update(tmp_path, texts(**change))
    assert contents(tmp_path)["swish.py"].decode() == texts(**change)["swish.py"]


def test_stale_after_a_new_version(tmp_path, monkeypatch):
    update(tmp_path, texts())
    monkeypatch.setattr(header, "__version__", "99.0")
    assert known(tmp_path) is None
    state = Folder(tmp_path).check(texts(), {})[-2]
    assert (state.status, state.reason) == (Status.STALE, f"symgrad {__version__} wrote it")


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text + "more = 1\n",
        lambda text: "# licence\n" + text,
        lambda text: text.replace("a = 1", "a = 3"),
        lambda text: "import this\n",
        lambda text: "",
        lambda text: text.replace("code ", "code 0").replace("text ", "text 0"),
    ],
)
def test_an_edited_file_is_kept_and_its_sibling_too(tmp_path, edit):
    update(tmp_path, texts())
    module = tmp_path / "swish.py"
    module.write_text(edit(module.read_text()))
    before = contents(tmp_path)
    assert statuses(tmp_path, texts()) == [Status.EDITED, Status.FRESH]
    with pytest.raises(FileError, match=r"swish\.py: hand-edited.*--force"):
        update(tmp_path, texts(test="b = 3\n"))
    assert contents(tmp_path) == before
    update(tmp_path, texts(), force=True)
    assert statuses(tmp_path, texts()) == [Status.FRESH] * 2


def test_a_file_that_is_no_text_counts_as_edited(tmp_path):
    (tmp_path / "swish.py").write_bytes(b"\xff\x00\xfe")
    assert statuses(tmp_path, texts())[0] is Status.EDITED


def test_line_ends_of_a_checkout_do_not_matter(tmp_path):
    update(tmp_path, texts())
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert statuses(tmp_path, texts(spec=SPEC.replace("\n", "\r\n"))) == [Status.FRESH] * 2


def test_fresh_from_every_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(header, "_PROJECT_MARKERS", ("no such marker",))
    update(tmp_path, texts(path="swish.yaml"))
    before = contents(tmp_path)
    wanted = texts(path="/somewhere/specs/swish.yaml")
    assert statuses(tmp_path, wanted) == [Status.FRESH] * 2
    update(tmp_path, wanted)
    assert contents(tmp_path) == before


# --------------------------------------------------------------------------- headers alone


def test_headers_alone_tell_what_is_up_to_date_and_what_was_edited(tmp_path):
    update(tmp_path, texts(shared=RUNTIME), RUNTIME)
    assert known(tmp_path) == [Status.FRESH] * 2
    (tmp_path / "swish.py").write_text((tmp_path / "swish.py").read_text() + "a = 4\n")
    assert known(tmp_path) == [Status.EDITED, Status.FRESH]


@pytest.mark.parametrize(
    "change",
    [
        lambda out: (out / "test_swish.py").unlink(),
        lambda out: (out / "_runtime.py").unlink(),
        lambda out: (out / "__init__.py").write_text(
            (out / "__init__.py").read_text().replace("compiler ", "compiler 0")
        ),
        lambda out: (out / "swish.py").write_text("a = 1\n"),
    ],
    ids=["a test is missing", "what is shared is missing", "another compiler", "no header"],
)
def test_headers_that_leave_a_doubt_are_not_believed(tmp_path, change):
    update(tmp_path, texts(shared=RUNTIME), RUNTIME)
    change(tmp_path)
    assert known(tmp_path) is None


def test_another_spec_or_package_is_not_known(tmp_path):
    update(tmp_path, texts())
    assert known(tmp_path, spec=SPEC.replace("2", "3")) is None
    assert known(tmp_path, path="specs/other.yaml") is None
    assert Folder(tmp_path).known("specs/swish.yaml", spec_hash(parse_spec(SPEC), "pkg")) is None


def test_a_comment_in_the_spec_changes_nothing(tmp_path):
    update(tmp_path, texts())
    same = "# why\nop:   swish\n\ntensors:\n  x:   # a tensor\noutputs:\n  y: '2*x'\n"
    assert known(tmp_path, spec=same) == [Status.FRESH] * 2


def test_a_formatter_changes_nothing(tmp_path):
    wanted = texts("x = {'a': 1}\n\n\ndef f():\n    '''What it is.  '''\n    return (1)\n")
    update(tmp_path, wanted)
    laid_out = 'x = {\n    "a": 1,\n}\n\n\n# why\ndef f():\n    """What it is."""\n    return 1\n'
    head = "".join((tmp_path / "swish.py").read_text().splitlines(True)[:5])
    (tmp_path / "swish.py").write_text(head + laid_out)
    assert statuses(tmp_path, wanted) == known(tmp_path) == [Status.FRESH] * 2
    update(tmp_path, wanted)
    assert (tmp_path / "swish.py").read_text() == head + laid_out


# --------------------------------------------------------------------------- what modules share


def test_what_modules_share_is_written_once_and_mended(tmp_path):
    wanted = texts(shared=RUNTIME)
    update(tmp_path, wanted, RUNTIME)
    assert (tmp_path / "_runtime.py").read_text().endswith("r = 1\n")
    assert statuses(tmp_path, wanted, {"_runtime.py": "r = 2\n"}) == [Status.STALE, *[Status.FRESH] * 2]
    (tmp_path / "_runtime.py").write_text((tmp_path / "_runtime.py").read_text() + "s = 1\n")
    assert Status.EDITED in [state.status for state in Folder(tmp_path).shared_states()]
    with pytest.raises(FileError, match=r"_runtime\.py: hand-edited"):
        update(tmp_path, wanted, RUNTIME)


def test_a_certificate_is_written_where_it_is_asked_for_and_changes_nothing_else(tmp_path):
    plain, proven = (
        texts('"""Swish.\n\nResiduals: x.\n"""\n'),
        texts('"""Swish.\n\nResiduals: x.\nProven: 3 values.\n"""\n'),
    )
    update(tmp_path, plain)
    assert set(statuses(tmp_path, proven)) == {Status.FRESH}
    (first, *_) = update(tmp_path, proven)
    assert (first.status, first.reason) == (Status.STALE, "without its certificate")
    before = contents(tmp_path)
    assert b"Proven: 3 values.\n" in before["swish.py"]
    for wanted in (plain, proven):
        assert {state.status for state in update(tmp_path, wanted)} == {Status.FRESH}
    assert contents(tmp_path) == before and set(known(tmp_path)) == {Status.FRESH}
    (tmp_path / "swish.py").write_text(before["swish.py"].decode().replace("Residuals: x", "Residuals: y"))
    assert Status.EDITED in statuses(tmp_path, plain)


def test_the_package_file_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "__init__.py").write_text("mine = 1\n")
    update(tmp_path, texts(shared=RUNTIME), RUNTIME)
    assert (tmp_path / "__init__.py").read_text() == "mine = 1\n"
    assert known(tmp_path) == [Status.FRESH] * 2
    assert all(state.status is Status.FRESH for state in Folder(tmp_path).shared_states())


def test_a_package_file_that_went_is_missing(tmp_path):
    update(tmp_path, texts(shared=RUNTIME), RUNTIME)
    (tmp_path / "__init__.py").unlink()
    assert Status.MISSING in [state.status for state in Folder(tmp_path).shared_states()]


def test_files_of_another_compiler_are_known_only_when_all_were_verified(tmp_path, monkeypatch):
    other = render({"mul.py": "m = 1\n"}, spec_path="specs/mul.yaml", source="1")
    update(tmp_path, {**texts(), **other})
    monkeypatch.setattr(folder, "compiler_hash", lambda: "another")
    one = Folder(tmp_path)
    one.update(texts(), {})
    one.stamp()  # mul may be from the old compiler
    assert known(tmp_path) is None
    both = Folder(tmp_path)
    both.update(texts(), {})
    both.update(other, {})
    both.stamp()
    assert known(tmp_path) == [Status.FRESH] * 2


# --------------------------------------------------------------------------- left over


def left(out: Path, *specs: str, failed=(), whole: bool = True) -> dict[str, str]:
    made = Folder(out)
    for spec in specs:
        made.known(spec, spec_hash(parse_spec(SPEC)))
    return {state.path.name: state.reason for state in made.left_over(specs, failed, whole=whole)}


def test_files_of_a_spec_that_is_gone_are_left_over_and_pruned(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = Path("out")
    update(out, texts(shared=RUNTIME), RUNTIME)
    assert left(out, "specs/swish.yaml") == {}
    assert left(out, "specs/other.yaml", whole=False) == {}
    assert left(out, "specs/other.yaml", failed=["specs/swish.yaml"]) == {}
    reason = "specs/swish.yaml is gone"
    assert left(out, "specs/other.yaml") == {
        "_runtime.py": "no module needs it",
        "swish.py": reason,
        "test_swish.py": reason,
    }
    (out / "test_swish.py").write_text((out / "test_swish.py").read_text() + "mine = 1\n")
    made = Folder(out)
    gone, kept = made.prune(made.left_over(["specs/other.yaml"], [], whole=True))
    assert [path.name for path in gone] == ["_runtime.py", "swish.py"]
    assert [state.reason for state in kept] == [f"{reason}; edited by hand"]
    gone, kept = made.prune(kept, force=True)
    assert (sorted(os.listdir(out)), kept) == (["__init__.py"], [])


def test_files_whose_spec_stands_belong_to_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").touch()
    Path("specs").mkdir()
    Path("specs/swish.yaml").touch()
    update(Path("out"), texts())
    update(Path("out"), render({"a.py": "a = 1\n"}, spec_path="<spec>", source="1"))
    assert left(Path("out"), "specs/other.yaml") == {}


def test_what_a_spec_gave_under_another_name_is_left_over(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    update(tmp_path, render({"old.py": "o = 1\n"}, spec_path="specs/swish.yaml", source="1"))
    update(tmp_path, texts())
    assert left(tmp_path, "specs/swish.yaml", whole=False) == {"old.py": "specs/swish.yaml gives no such file now"}


# --------------------------------------------------------------------------- tests elsewhere


def test_tests_may_stand_in_another_folder(tmp_path):
    ops, tests = tmp_path / "src" / "pkg" / "ops", tmp_path / "tests"
    ops.parent.mkdir(parents=True)
    (ops.parent / "__init__.py").touch()
    made = Folder(ops, tests)
    assert made.package == "pkg.ops"
    made.update(texts(), {})
    assert sorted(path.name for path in ops.iterdir()) == ["__init__.py", "swish.py"]
    assert [path.name for path in tests.iterdir()] == ["test_swish.py"]
    assert Folder(ops, ops).package == Folder(ops).package == ""
