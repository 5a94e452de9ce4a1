"""Headers, hashes, and writing whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

import pytest

from symgrad import __version__, files
from symgrad.files import FileError, Status

SPEC = "op: swish\n"
NAMES = ["swish.py", "test_swish.py"]


def texts(module: str = "a = 1\n", test: str = "b = 2\n", spec: str = SPEC, path: str = "specs/swish.yaml"):
    return files.render("swish", module, test, spec_path=path, spec_text=spec)


def statuses(folder: Path, wanted: dict[str, str]) -> list[Status]:
    return [state.status for state in files.check(folder, wanted)]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_header_names_version_spec_and_hashes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = texts()["swish.py"]
    lines = text.splitlines()
    assert __version__ in lines[0]
    assert "Do not edit" in lines[1]
    assert lines[2] == "# spec: specs/swish.yaml"
    assert all(re.fullmatch(r"# (spec|body)-sha256: [0-9a-f]{64}", line) for line in lines[3:5])
    assert text.endswith("\na = 1\n")


def test_writes_then_leaves_alone(tmp_path):
    out = tmp_path / "deep" / "generated"
    assert statuses(out, texts()) == [Status.MISSING] * 2
    files.update(out, texts())
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert sorted(path.name for path in before) == NAMES
    assert [state.status for state in files.update(out, texts())] == [Status.FRESH] * 2
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == before


def test_what_is_not_wanted_is_removed_where_it_is_as_it_was_written(tmp_path):
    passes = {"swish.cpp": "int c;\n", "swish_triton.py": "d = 4\n"}
    wanted = {**texts(), **dict.fromkeys(passes)}
    files.update(tmp_path, files.render("swish", "", "", spec_path="swish.yaml", spec_text=SPEC, passes=passes))
    edited = tmp_path / "swish_triton.py"
    edited.write_text(edited.read_text() + "# more\n")
    assert statuses(tmp_path, wanted) == [Status.STALE, Status.STALE, Status.LEFT]
    files.update(tmp_path, wanted)
    assert sorted(contents(tmp_path)) == ["swish.py", "swish_triton.py", "test_swish.py"]
    assert statuses(tmp_path, wanted) == [Status.FRESH] * 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"module": "a = 2\n"}, "differently"),
        ({"spec": SPEC + "# more\n"}, "the spec has changed"),
        ({"path": "other/swish2.yaml"}, "it comes from specs/swish.yaml"),
    ],
)
def test_a_stale_file_is_told_why_and_written_anew(tmp_path, monkeypatch, change, reason):
    monkeypatch.chdir(tmp_path)
    files.update(tmp_path, texts())
    state = files.check(tmp_path, texts(**change))[0]
    assert state.status is Status.STALE
    assert reason in state.reason
    files.update(tmp_path, texts(**change))
    assert contents(tmp_path)["swish.py"].decode() == texts(**change)["swish.py"]


def test_stale_after_a_new_version(tmp_path, monkeypatch):
    files.update(tmp_path, texts())
    monkeypatch.setattr(files, "__version__", "99.0")
    state = files.check(tmp_path, texts())[0]
    assert (state.status, state.reason) == (Status.STALE, f"symgrad {__version__} wrote it")


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: text + "# more\n",
        lambda text: "# licence\n" + text,
        lambda text: text.replace("a = 1", "a = 3"),
        lambda text: "import this\n",
        lambda text: "",
        lambda text: text.replace("body-sha256: ", "body-sha256: 0"),
    ],
)
def test_an_edited_file_is_kept_and_its_sibling_too(tmp_path, edit):
    files.update(tmp_path, texts())
    module = tmp_path / "swish.py"
    module.write_text(edit(module.read_text()))
    before = contents(tmp_path)
    assert statuses(tmp_path, texts()) == [Status.EDITED, Status.FRESH]
    with pytest.raises(FileError, match=r"swish\.py: hand-edited.*--force"):
        files.update(tmp_path, texts(test="b = 3\n"))
    assert contents(tmp_path) == before
    files.update(tmp_path, texts(), force=True)
    assert statuses(tmp_path, texts()) == [Status.FRESH] * 2


def test_a_file_that_is_no_text_counts_as_edited(tmp_path):
    (tmp_path / "swish.py").write_bytes(b"\xff\x00\xfe")
    assert statuses(tmp_path, texts())[0] is Status.EDITED


def test_line_ends_of_a_checkout_do_not_matter(tmp_path):
    files.update(tmp_path, texts())
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert statuses(tmp_path, texts(spec=SPEC.replace("\n", "\r\n"))) == [Status.FRESH] * 2


def test_label_is_relative_to_the_project(tmp_path, monkeypatch):
    specs = tmp_path / "project" / "specs" / "losses"
    specs.mkdir(parents=True)
    (tmp_path / "project" / "pyproject.toml").touch()
    spec = specs / "huber.yaml"
    for folder in (tmp_path, specs, tmp_path / "project"):
        monkeypatch.chdir(folder)
        assert files.spec_label(str(spec)) == "specs/losses/huber.yaml"
        assert files.spec_label(os.path.relpath(spec)) == "specs/losses/huber.yaml"


def test_label_without_a_project(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_PROJECT_MARKERS", ("no such marker",))
    monkeypatch.chdir(tmp_path)
    assert files.spec_label("./a/b/c.yaml") == "a/b/c.yaml"
    assert files.spec_label("../b/c.yaml") == "b/c.yaml"
    assert files.spec_label(str(tmp_path / "a" / "b" / "c.yaml")) == "b/c.yaml"
    assert files.spec_label("<spec>") == "<spec>"


def test_label_is_one_harmless_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wanted = texts(path="a\nimport os\n# coding: latin-1 \udcff.yaml")
    files.update(tmp_path, wanted)
    assert statuses(tmp_path, wanted) == [Status.FRESH] * 2
    assert not re.search("coding", "".join(wanted["swish.py"].splitlines()[:2]))
    assert wanted["swish.py"].splitlines()[5] == "a = 1"


def test_fresh_from_every_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_PROJECT_MARKERS", ("no such marker",))
    files.update(tmp_path, texts(path="swish.yaml"))
    before = contents(tmp_path)
    wanted = texts(path="/somewhere/specs/swish.yaml")
    assert statuses(tmp_path, wanted) == [Status.FRESH] * 2
    files.update(tmp_path, wanted)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_where_a_file_should_be(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(FileError, match=f"{name}: a folder stands"):
        files.update(tmp_path, texts())
    assert contents(tmp_path) == {}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_a_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "swish.py")
    with pytest.raises(FileError, match="not a regular file"):
        files.update(tmp_path, texts(), force=True)


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(FileError, match=r"swish\.py: not a directory"):
        files.update(tmp_path / "out", texts())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to root")
def test_an_unwritable_folder(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(FileError, match="permission denied"):
        files.update(tmp_path, texts())
    tmp_path.chmod(0o700)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("force", [False, True])
def test_a_read_only_file_is_kept(tmp_path, force):
    files.update(tmp_path, texts())
    (tmp_path / "test_swish.py").chmod(0o444)
    assert statuses(tmp_path, texts()) == [Status.FRESH] * 2
    before = contents(tmp_path)
    with pytest.raises(FileError, match=r"test_swish\.py: read-only"):
        files.update(tmp_path, texts("a = 5\n", "b = 5\n"), force=force)
    assert contents(tmp_path) == before


def test_permissions_are_the_usual_ones_and_stay(tmp_path):
    files.update(tmp_path, texts())
    (tmp_path / "usual").touch()
    module = tmp_path / "swish.py"
    assert module.stat().st_mode == (tmp_path / "usual").stat().st_mode
    module.chmod(0o640)
    files.update(tmp_path, texts("a = 5\n"))
    assert stat.S_IMODE(module.stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path):
    real, out = tmp_path / "real", tmp_path / "out"
    files.update(real, texts())
    out.mkdir()
    for name in NAMES:
        (out / name).symlink_to(real / name)
    files.update(out, texts("a = 5\n"))
    assert (out / "swish.py").is_symlink()
    assert (real / "swish.py").read_text().endswith("a = 5\n")


def test_a_link_to_itself(tmp_path):
    (tmp_path / "swish.py").symlink_to("swish.py")
    with pytest.raises(FileError, match=r"swish\.py"):
        files.update(tmp_path, texts())
    assert [path.name for path in tmp_path.iterdir()] == ["swish.py"]


@pytest.mark.parametrize("fails_at", [1, 2])
@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_nothing_is_half_written(tmp_path, monkeypatch, fails_at, existing, call):
    if existing:
        files.update(tmp_path, texts())
    before, calls, real = contents(tmp_path), [], getattr(os, call)

    def fail(*args):
        calls.append(args)
        if len(calls) == fails_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args)

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(FileError, match="no space left"):
        files.update(tmp_path, texts("a = 5\n", "b = 5\n"))
    assert contents(tmp_path) == before


def test_an_interrupt_leaves_nothing_behind(tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.update(tmp_path, texts())
    assert contents(tmp_path) == {}


def test_create_refuses_what_exists(tmp_path):
    files.create(tmp_path / "new" / "a.yaml", "op: a\n")
    (tmp_path / "b.yaml").symlink_to("nowhere")
    for name in ("new/a.yaml", "b.yaml"):
        with pytest.raises(FileError, match=f"{name}: exists already"):
            files.create(tmp_path / name, "op: b\n")
    assert (tmp_path / "new" / "a.yaml").read_text() == "op: a\n"
