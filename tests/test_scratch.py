"""The scratch copy: its contents, the folders that are swept away, and that nothing is written through a link."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest

from autofix.execution import scratch
from autofix.execution.scratch import LOCK, MAGIC, scratch_copy


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_only_folders_with_the_tools_own_free_lock_are_swept(temporary: Path, tmp_path: Path) -> None:
    names = ["autofix-2024-experiments", "autofix-4194304-0123abcd", "autofix-notes", "autofix-1-left"]
    for name in names:
        (temporary / name).mkdir()
        (temporary / name / "precious.txt").write_text("x")
    (temporary / "autofix-notes" / LOCK).write_text("my own lock\n")
    (temporary / "autofix-1-left" / LOCK).write_text(MAGIC)
    (temporary / "autofix-1-linked").symlink_to(temporary / "autofix-2024-experiments")
    scratch.sweep()
    assert sorted(path.name for path in temporary.iterdir()) == sorted([*names[:3], "autofix-1-linked"])
    assert all((temporary / name / "precious.txt").exists() for name in names[:3])


def test_a_folder_in_use_is_not_swept_whoever_its_process_is(temporary: Path, tmp_path: Path) -> None:
    """Another container has other process numbers, and the same folder for temporary files."""
    (tmp_path / "project").mkdir()
    with scratch_copy(tmp_path / "project", {}) as one:
        elsewhere = one.top.with_name("autofix-999999999-0123abcd")
        os.rename(one.top, elsewhere)
        scratch.sweep()
        assert elsewhere.is_dir()
        os.rename(elsewhere, one.top)
    scratch.sweep()
    assert list(temporary.iterdir()) == []


def test_the_copy_stands_among_its_neighbours_and_the_caller_where_it_stood(temporary: Path, tmp_path: Path) -> None:
    for name in ("work/project/src/a.py", "work/project/.git/HEAD", "work/data/rows.csv", "other/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    root = tmp_path / "work" / "project"
    with scratch_copy(root, {}, root / "src") as one:
        assert (one.start, one.copy.name) == (one.copy / "src", "project")
        assert (one.copy.parent / "data" / "rows.csv").read_text() == "work/data/rows.csv"
        assert not (one.copy / ".git").exists()
    with scratch_copy(root, {}, tmp_path) as one:
        assert one.copy == one.start / "work" / "project"
        assert (one.start / "other" / "x").exists()
    with scratch_copy(root, {}, tmp_path / "other") as one:
        assert [path.name for path in one.start.iterdir()] == ["x"]
        assert not one.copy.is_relative_to(one.start)


def test_no_text_is_written_through_a_link(temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders beyond the most entries are links: behind them lie the user's own files."""
    monkeypatch.setattr(scratch, "MOST", 1)
    root = tmp_path / "project"
    (root / "deep" / "er").mkdir(parents=True)
    for name in ("a.py", "deep/b.py", "deep/er/c.py", "deep/er/d.py"):
        (root / name).write_text("old")
    with scratch_copy(root, {"deep/er/c.py": "new", "deep/e.py": "new"}) as one:
        assert (one.copy / "deep" / "er" / "c.py").read_text() == "new"
        assert (one.copy / "deep" / "er" / "d.py").read_text() == "old"
        assert (one.copy / "deep" / "e.py").read_text() == "new"
    assert {path.read_text() for path in root.rglob("*.py")} == {"old"}
    assert not (root / "deep" / "e.py").exists()


def test_links_within_a_project_lead_to_its_copy(temporary: Path, tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "real").mkdir(parents=True)
    (root / "real" / "a.txt").write_text("a")
    (root / "link").symlink_to("real")
    with scratch_copy(root, {}) as one:
        (one.copy / "link" / "a.txt").write_text("b")
        assert (one.copy / "real" / "a.txt").read_text() == "b"
    assert (root / "real" / "a.txt").read_text() == "a"


def test_programs_stay_programs_and_environments_are_left_out(temporary: Path, tmp_path: Path) -> None:
    root = tmp_path / "project"
    for name in ("env/conda-meta/x", "venv2/pyvenv.cfg", "go.sh"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    (root / "go.sh").chmod(0o755)
    os.mkfifo(root / "pipe")
    with scratch_copy(root, {}) as one:
        assert sorted(path.name for path in one.copy.iterdir()) == ["go.sh"]
        assert os.access(one.copy / "go.sh", os.X_OK)


def test_without_protection_no_link_is_left(temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autofix.child import copies

    monkeypatch.setattr(scratch, "LARGE", 4)
    monkeypatch.setattr(copies, "MOST", 12)
    root = tmp_path / "project"
    for name, text in (("a.bin", "12345"), ("data/b.bin", "123456"), ("data/c.bin", "1234567"), ("../beside.txt", "x")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "data").rename(tmp_path / "mounted")
    (root / "data").symlink_to(tmp_path / "mounted")
    with scratch_copy(root, {}) as one:
        told = copies.Copies(str(one.top)).replace_links(str(one.copy))
        assert told == ["data/c.bin is left out of the copy: it is too large for one"]
        assert not any(path.is_symlink() for path in one.top.rglob("*"))
        assert {path.name for path in one.copy.rglob("*.bin")} == {"a.bin", "b.bin"}
        (one.copy / "data" / "b.bin").write_text("spoilt")
    assert (tmp_path / "mounted" / "b.bin").read_text() == "123456"


def tree_of(folder: Path) -> dict[str, tuple[str, int, str]]:
    """All entries: kind, permissions, and content or the end of a link."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        content = os.readlink(path) if path.is_symlink() else path.read_text() if path.is_file() else ""
        content = content.removeprefix(str(folder))
        found[str(path.relative_to(folder))] = (stat.filemode(mode)[0], stat.S_IMODE(mode), content)
    return found


def test_a_copy_that_serves_another_run_is_as_if_it_were_new(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "LARGE", 10)
    root = tmp_path / "work" / "project"
    names = ("a.py", "b.py", "go.sh", "data/c.txt", "data/d.txt", "data/large.bin", "deep/er/e.py", "../beside/f.txt")
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name * (9 if "large" in name else 1))
    (root / "go.sh").chmod(0o755)
    (root / "link").symlink_to("data")
    with scratch_copy(root, {}) as one:
        fresh = tree_of(one.top / "tree")
    with scratch.kept_copies():
        with scratch_copy(root, {"a.py": "patched", "deep/new.py": "new"}) as one:
            top, copy = one.top, one.copy
            (one.temporary / "left").touch()
            one.record.write_text("record")
            (copy / "b.py").write_text("same")
            (copy / "data" / "c.txt").unlink()
            (copy / "data" / "d.txt").write_bytes((copy / "data" / "d.txt").read_bytes())
            (copy / "data" / "large.bin").unlink()
            (copy / "data" / "large.bin").write_text("own")
            (copy / "deep" / "er").rename(copy / "moved")
            (copy / "runs" / "1").mkdir(parents=True)
            (copy / "runs" / "1" / "loss.csv").touch()
            (copy / "link").unlink()
            (copy / "link").mkdir()
            (copy / "go.sh").chmod(0o600)
            (copy / "data").chmod(0o500)
            (copy.parent / "beside").unlink()
            (copy.parent / "beside").mkdir()
        with scratch_copy(root, {}) as one:
            assert one.top == top
            assert tree_of(one.top / "tree") == fresh
            assert list(one.temporary.iterdir()) == []
            assert not one.record.exists()
        (root / "a.py").write_text("changed by its author")
        (root / "b.py").unlink()
        (root / "data" / "late.txt").touch()
        with scratch_copy(root, {}) as one:
            assert (one.copy / "a.py").read_text() == "changed by its author"
            assert not (one.copy / "b.py").exists()
            assert (one.copy / "data" / "late.txt").exists()
            with scratch_copy(root, {}) as other:
                assert other.top != one.top
            with scratch_copy(root / "data", {}) as other:
                assert other.top != one.top
    assert list(temporary.iterdir()) == []


def test_a_copy_that_cannot_be_restored_is_made_anew(temporary: Path, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.py").write_text("a")
    with scratch.kept_copies():
        with scratch_copy(tmp_path / "project", {}) as one:
            top = one.top
            shutil.rmtree(one.top)
        with scratch_copy(tmp_path / "project", {}) as one:
            assert one.top != top
            assert (one.copy / "a.py").read_text() == "a"
    assert list(temporary.iterdir()) == []
