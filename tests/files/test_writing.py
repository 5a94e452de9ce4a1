"""Writing: whole or not at all, and nothing that somebody else put there."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from symgrad import files
from symgrad.files import FileError, Status
from tests.files.test_folder import NAMES, contents, statuses, texts, update


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_where_a_file_should_be(tmp_path, name):
    (tmp_path / name).mkdir()
    with pytest.raises(FileError, match=f"{name}: a folder stands"):
        update(tmp_path, texts())
    assert contents(tmp_path) == {}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_a_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "swish.py")
    with pytest.raises(FileError, match="not a regular file"):
        update(tmp_path, texts(), force=True)


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(FileError, match=r"\.py: not a directory"):
        update(tmp_path / "out", texts())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to root")
def test_an_unwritable_folder(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(FileError, match="permission denied"):
        update(tmp_path, texts())
    tmp_path.chmod(0o700)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("force", [False, True])
def test_a_read_only_file_is_kept(tmp_path, force):
    update(tmp_path, texts())
    (tmp_path / "test_swish.py").chmod(0o444)
    assert statuses(tmp_path, texts()) == [Status.FRESH] * 2
    before = contents(tmp_path)
    with pytest.raises(FileError, match=r"test_swish\.py: read-only"):
        update(tmp_path, texts("a = 5\n", "b = 5\n"), force=force)
    assert contents(tmp_path) == before


def test_permissions_are_the_usual_ones_and_stay(tmp_path):
    update(tmp_path, texts())
    (tmp_path / "usual").touch()
    module = tmp_path / "swish.py"
    assert module.stat().st_mode == (tmp_path / "usual").stat().st_mode
    module.chmod(0o640)
    update(tmp_path, texts("a = 5\n"))
    assert stat.S_IMODE(module.stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path):
    real, out = tmp_path / "real", tmp_path / "out"
    update(real, texts())
    out.mkdir()
    for name in NAMES:
        (out / name).symlink_to(real / name)
    update(out, texts("a = 5\n"))
    assert (out / "swish.py").is_symlink()
    assert (real / "swish.py").read_text().endswith("a = 5\n")


def test_a_link_to_itself(tmp_path):
    (tmp_path / "swish.py").symlink_to("swish.py")
    with pytest.raises(FileError, match=r"swish\.py"):
        update(tmp_path, texts())
    assert [path.name for path in tmp_path.iterdir()] == ["swish.py"]


@pytest.mark.parametrize("fails_at", [1, 2])
@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_nothing_is_half_written(tmp_path, monkeypatch, fails_at, existing, call):
    if existing:
        update(tmp_path, texts())
    before, calls, real = contents(tmp_path), [], getattr(os, call)

    def fail(*args):
        calls.append(args)
        if len(calls) == fails_at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args)

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(FileError, match="no space left"):
        update(tmp_path, texts("a = 5\n", "b = 5\n"))
    assert contents(tmp_path) == before


def test_an_interrupt_leaves_nothing_behind(tmp_path, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        update(tmp_path, texts())
    assert contents(tmp_path) == {}


def test_create_refuses_what_exists(tmp_path):
    files.create(tmp_path / "new" / "a.yaml", "op: a\n")
    (tmp_path / "b.yaml").symlink_to("nowhere")
    for name in ("new/a.yaml", "b.yaml"):
        with pytest.raises(FileError, match=f"{name}: exists already"):
            files.create(tmp_path / name, "op: b\n")
    assert (tmp_path / "new" / "a.yaml").read_text() == "op: a\n"
