from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from autofix.project import files
from autofix.project.discovery import discover
from autofix.project.files import FileError, decode, read, write


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def make(*names: str) -> None:
    for name in names:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("pass\n")


def found(*paths: str) -> list[str]:
    return [files.display_name(path) for path in discover(map(Path, paths))]


# Discovery


def test_takes_python_files_sorted_and_nothing_else() -> None:
    make("b.py", "a.py", "sub/c.py", "notes.txt", "x.pyc")
    assert found(".") == ["a.py", "b.py", "sub/c.py"]


@pytest.mark.parametrize(
    "folder", [".git", ".venv", "venv", "node_modules", "build", "__pycache__", "lib/site-packages"]
)
def test_skips_folders_that_are_not_the_users(folder: str) -> None:
    make("a.py", f"{folder}/b.py", f"sub/{folder}/c.py")
    assert found(".") == ["a.py"]


def test_skips_virtual_environments_under_any_name() -> None:
    make("a.py", "my env/lib/b.py", "my env/pyvenv.cfg")
    assert found(".") == ["a.py"]


def test_takes_a_file_that_is_named_whatever_it_is_called_and_wherever_it_lies() -> None:
    make("build/a.py", "script", ".gitignore")
    Path(".gitignore").write_text("script\n")
    assert found("build/a.py", "script") == ["build/a.py", "script"]


def test_searches_a_skipped_folder_that_is_named() -> None:
    make("build/a.py")
    assert found("build") == ["build/a.py"]


def test_takes_each_file_once() -> None:
    make("a.py", "sub/b.py")
    Path("link.py").symlink_to("a.py")
    assert len(found(".", "a.py", "sub", "./sub/b.py")) == 2


def test_does_not_walk_in_circles() -> None:
    make("sub/a.py")
    Path("sub/again").symlink_to(Path.cwd())
    assert found(".") == ["sub/a.py"]


def test_obeys_gitignore_as_git_does() -> None:
    make(".git/HEAD", "a.py", "made/b.py", "made/keep.py", "sub/c.py", "sub/d.py", "sub/made/e.py", "other/f_gen.py")
    Path(".gitignore").write_text("/made/*\n!/made/keep.py\n*_gen.py\nd.py\n")
    Path("sub/.gitignore").write_text("!d.py\nmade/\n")
    assert found(".") == ["a.py", "made/keep.py", "sub/c.py", "sub/d.py"]


def test_obeys_the_gitignore_of_folders_above(monkeypatch: pytest.MonkeyPatch) -> None:
    make(".git/HEAD", "sub/a.py", "sub/b.py")
    Path(".gitignore").write_text("sub/b.py\n")
    monkeypatch.chdir("sub")
    assert found(".") == ["a.py"]


def test_an_ignored_folder_that_is_named_is_searched() -> None:
    make(".git/HEAD", "made/a.py")
    Path(".gitignore").write_text("made/\n")
    assert found(".") == []
    assert found("made") == ["made/a.py"]


def test_names_are_relative_below_the_working_directory_and_absolute_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("sub/a.py")
    assert files.display_name(tmp_path / "sub/a.py") == "sub/a.py"
    assert files.display_name(Path("sub/../sub/a.py")) == "sub/a.py"
    assert files.display_name(Path("sub/a.py"), from_root=True) == str(tmp_path / "sub/a.py")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert files.display_name(Path("../sub/a.py")) == str(tmp_path / "sub/a.py")


# Decoding

KEPT = {
    "plain": b"x = 1\n",
    "empty": b"",
    "no newline at the end": b"x = 1",
    "carriage returns": b"x = 1\r\ny = 2\r\n",
    "old Macintosh": b"x = 1\ry = 2\r",
    "mixed line endings": b"x = 1\r\ny = 2\nz = 3\r",
    "byte order mark": b"\xef\xbb\xbfx = '\xc3\xa4'\n",
    "byte order mark and cookie": b"\xef\xbb\xbf# coding: utf-8\nx = 1\n",
    "latin-1 cookie": b"# -*- coding: latin-1 -*-\nx = '\xe4'\n",
    "cookie in the second line": b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nx = '\x80'\n",
    "koi8-r": "# coding: koi8-r\nx = 'Привет'\n".encode("koi8-r"),
    "a codec that rewrites f-strings": "# -*- coding: future_fstrings -*-\nx = 1\ny = 'ä'\n".encode(),
    "a codec that rewrites annotations": b"#!/bin/python\n# coding: Future-Annotations\nx = 1\n",
    "shift-jis": "# coding: shift_jis\nx = '表示'\n".encode("shift_jis"),
    "form feed and line separator": "x = 1\n\f\ny = '\u2028 \x85 \x1c'\n".encode(),
}


@pytest.mark.parametrize("data", KEPT.values(), ids=KEPT.keys())
def test_bytes_survive_being_read_and_encoded(data: bytes) -> None:
    file = decode(data, "a.py")
    assert file.encode(file.text) == data
    assert not file.text.startswith("\ufeff")


REFUSED = {
    "not utf-8": (b"x = 1\ny = '\xc3\xa4\xe4'\n", 2, 7, "byte 0xe4 is not utf-8"),
    "not utf-8, further down": (b"x = 1\n\n\n\ny = '\xe4'\n", 5, 6, "byte 0xe4 is not utf-8"),
    "unknown cookie": (b"#!/bin/python\n# coding: klingon\n", 2, 1, "unknown encoding"),
    "a codec over UTF-8 and other bytes": (b"# coding: future_fstrings\nx = '\xe4'\n", 2, 6, "byte 0xe4 is not utf-8"),
    "a mark that the cookie denies": (b"\xef\xbb\xbf# coding: latin-1\n", 1, 1, "encoding problem"),
    "a null byte": (b"x = 1\ny =\0 2\n", 2, 4, "null byte"),
    **{
        f"a codec that is none of texts: {name}": (f"# coding: {name}\nx = 1\n".encode(), 1, 1, "no encoding of source")
        for name in ("rot13", "hex", "base64", "zlib", "idna", "punycode", "undefined")
    },
    "two byte order marks": (b"\xef\xbb\xbf\xef\xbb\xbfx = 1\n", 1, 1, "two byte order marks"),
    "UTF-16": ("x = 1\n".encode("utf-16"), 1, 1, "UTF-16 or UTF-32, which Python does not read"),
    "text that cannot be written back": (b"# coding: utf-7\nx = '+AOQ-'\ny = '+AGE-'\n", 1, 1, "not plain utf-7"),
}


@pytest.mark.parametrize(("data", "line", "column", "reason"), REFUSED.values(), ids=REFUSED.keys())
def test_says_where_and_why_bytes_are_no_source(data: bytes, line: int, column: int, reason: str) -> None:
    with pytest.raises(FileError) as caught:
        decode(data, "a.py")
    assert (caught.value.line, caught.value.column) == (line, column)
    assert reason in caught.value.reason


def test_says_why_a_file_cannot_be_read() -> None:
    with pytest.raises(FileError, match=r"^gone\.py:1:1: cannot be read: no such file or directory$"):
        read(Path("gone.py"))
    Path("folder.py").mkdir()
    with pytest.raises(FileError, match="is a directory"):
        read(Path("folder.py"))


# Writing


def rewrite(path: str, old: str, new: str) -> None:
    file = read(Path(path))
    assert old in file.text
    write(Path(path), file, file.text.replace(old, new))


@pytest.mark.parametrize("data", [data for data in KEPT.values() if b"x = 1" in data])
def test_writes_the_change_and_nothing_else(data: bytes) -> None:
    Path("a.py").write_bytes(data)
    rewrite("a.py", "x = 1", "x = 23")
    assert Path("a.py").read_bytes() == data.replace(b"x = 1", b"x = 23")
    assert os.listdir() == ["a.py"]


def test_writes_in_the_files_own_encoding() -> None:
    Path("a.py").write_bytes(KEPT["latin-1 cookie"])
    rewrite("a.py", "ä", "ö")
    assert Path("a.py").read_bytes() == b"# -*- coding: latin-1 -*-\nx = '\xf6'\n"


@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o660])
def test_keeps_the_mode(mode: int) -> None:
    make("a.py")
    Path("a.py").chmod(mode)
    rewrite("a.py", "pass", "x = 1")
    assert stat.S_IMODE(Path("a.py").stat().st_mode) == mode


def test_writes_through_a_symbolic_link_and_leaves_it_a_link() -> None:
    make("real/a.py")
    Path("link.py").symlink_to("real/a.py")
    Path("chain.py").symlink_to("link.py")
    rewrite("chain.py", "pass", "x = 1")
    assert Path("chain.py").is_symlink()
    assert Path("link.py").is_symlink()
    assert Path("real/a.py").read_text() == "x = 1\n"
    assert os.listdir("real") == ["a.py"]


def refused(path: str, text: str, *, file: files.SourceFile | None = None) -> str:
    """Return why *text* is not written, after a look that nothing happened."""
    file = read(Path(path)) if file is None else file
    before = {name: Path(name).read_bytes() for name in os.listdir() if Path(name).is_file()}
    with pytest.raises(FileError) as caught:
        write(Path(path), file, text)
    assert {name: Path(name).read_bytes() for name in os.listdir() if Path(name).is_file()} == before
    return str(caught.value)


def test_writes_a_file_whose_name_is_as_long_as_names_may_be() -> None:
    name = "n" * 252 + ".py"
    make(name)
    rewrite(name, "pass", "x = 1")
    assert Path(name).read_text() == "x = 1\n"
    assert os.listdir() == [name]


def test_refuses_a_file_that_is_read_only() -> None:
    make("a.py")
    Path("a.py").chmod(0o444)
    assert refused("a.py", "x = 1\n") == "a.py:1:1: not written: the file is read-only"


def test_refuses_a_file_that_was_changed_meanwhile() -> None:
    make("a.py")
    file = read(Path("a.py"))
    Path("a.py").write_text("y = 2\n")
    assert "was changed" in refused("a.py", "x = 1\n", file=file)


def test_refuses_a_file_that_is_gone() -> None:
    make("a.py")
    file = read(Path("a.py"))
    Path("a.py").unlink()
    assert "no such file" in refused("a.py", "x = 1\n", file=file)


def test_refuses_text_that_does_not_parse() -> None:
    make("a.py")
    assert refused("a.py", "pass\n  x = (\n").startswith("a.py:2:1: not written: the patched text would not parse")


def test_refuses_a_character_that_the_encoding_lacks() -> None:
    Path("a.py").write_bytes(KEPT["latin-1 cookie"])
    text = read(Path("a.py")).text + "y = '\u20ac'\n"
    assert refused("a.py", text) == "a.py:3:6: the patch holds '\u20ac', which iso-8859-1 cannot write"


def test_a_failure_half_way_leaves_the_old_file_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    make("a.py")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert refused("a.py", "x = 1\n") == "a.py:1:1: not written: no space left on device"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_refuses_a_folder_that_is_read_only() -> None:
    make("sub/a.py")
    Path("sub").chmod(0o555)
    try:
        assert "permission denied" in refused("sub/a.py", "x = 1\n")
    finally:
        Path("sub").chmod(0o755)


def test_says_so_when_the_folder_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    make("a.py")

    def denied(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("autofix.project.files.private", denied)
    assert refused("a.py", "x = 1\n") == "a.py:1:1: not written: permission denied"
