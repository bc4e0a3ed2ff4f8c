"""Source files on disk: which ones to read, what their bytes mean, and how to write them back unharmed.

What Python reads, this module reads: the encoding comes from a byte order mark or a PEP 263 cookie, and line endings
stay as they are.  A file that cannot be handled is a :class:`FileError` with a position, never a traceback.
"""

from __future__ import annotations

import ast
import os
import secrets
import stat
import sys
import tokenize
import warnings
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SKIPPED_FOLDERS = frozenset(
    [
        ".bzr",
        ".direnv",
        ".eggs",
        ".git",
        ".hg",
        ".idea",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".nox",
        ".pants.d",
        ".pyenv",
        ".pytest_cache",
        ".pytype",
        ".ruff_cache",
        ".svn",
        ".tox",
        ".venv",
        ".vscode",
        "__pycache__",
        "__pypackages__",
        "_build",
        "build",
        "buck-out",
        "dist",
        "node_modules",
        "site-packages",
        "venv",
    ]
)
"""Folders that hold no source of the user's own (ruff's list).  One that is named on the command line is searched."""

STANDARD_INPUT = "-"
STDIN_NAME = "<stdin>"
READ_ONLY = "the file is read-only"


class FileError(Exception):
    """A file that cannot be read, understood or written; ``line`` and ``column`` count from 1."""

    def __init__(self, name: str, reason: str, line: int = 1, column: int = 1) -> None:
        super().__init__(name, reason, line, column)  # all of them, so that it survives pickling
        self.name = name
        self.reason = reason
        self.line = line
        self.column = column

    def __str__(self) -> str:
        return f"{self.name}:{self.line}:{self.column}: {self.reason}"


@dataclass(frozen=True)
class SourceFile:
    """One file as it was read: ``data`` are its bytes, ``text`` what they say, without a byte order mark."""

    name: str
    """How messages and patches call the file: relative to the working directory where it lies below it."""
    data: bytes
    text: str
    encoding: str
    """The name of the codec, without the byte order mark, which ``data`` has or has not."""

    @property
    def has_bom(self) -> bool:
        return self.data.startswith(BOM_UTF8)

    def encode(self, text: str) -> bytes:
        """Return *text* in this file's own encoding.  Raises :class:`FileError` where that lacks a character."""
        try:
            data = text.encode(self.encoding)
        except UnicodeEncodeError as error:
            line, column = position(error.object[: error.start])
            reason = f"the patch holds {error.object[error.start]!r}, which {self.encoding} cannot write"
            raise FileError(self.name, reason, line, column) from None
        return BOM_UTF8 + data if self.has_bom else data


def position(before: str) -> tuple[int, int]:
    """Return line and column, both from 1, of the place that follows the text *before*."""
    lines = before.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return len(lines), len(lines[-1]) + 1


# Which files ---------------------------------------------------------------------------------------------------------


def discover(paths: Iterable[Path]) -> list[Path]:
    """Return the Python files that *paths* name or contain, each once, sorted as they will be shown.

    A file that is named is always taken.  In a folder, it is those that end in ``.py``, lie in no skipped folder and no
    virtual environment, and are not ignored by git.
    """
    found: dict[str, Path] = {}
    for path in paths:
        for file in walk(path) if path.is_dir() else [path]:
            found.setdefault(os.path.realpath(file), file)
    return sorted(found.values(), key=lambda file: display_name(file))


def walk(top: Path) -> Iterator[Path]:
    """Yield the Python files below the folder *top*.  A link to a folder is not followed."""
    rules = rules_above(top)
    for folder, subfolders, names in os.walk(top):
        here = Path(folder)
        home = absolute(here)
        if (spec := read_gitignore(home)) is not None:
            rules[home] = spec
        above = {base: spec for base, spec in rules.items() if home.is_relative_to(base)}
        subfolders[:] = sorted(
            name
            for name in subfolders
            if name not in SKIPPED_FOLDERS
            and not (here / name / "pyvenv.cfg").exists()
            and not is_ignored(home / name, above, is_folder=True)
        )
        for name in names:
            if name.endswith(".py") and (here / name).is_file() and not is_ignored(home / name, above):
                yield here / name


def rules_above(top: Path) -> dict[Path, GitIgnoreSpec]:
    """Return the ignore files between the root of *top*'s repository and *top* itself, outermost first.

    None of them counts where they ignore *top*: who names an ignored folder wants to see what is in it.
    """
    home = absolute(top)
    root = next((folder for folder in [home, *home.parents] if (folder / ".git").exists()), home)
    above = [folder for folder in reversed(home.parents) if folder.is_relative_to(root)]
    rules = {folder: spec for folder in above if (spec := read_gitignore(folder)) is not None}
    return {} if is_ignored(home, rules, is_folder=True) else rules


def read_gitignore(folder: Path) -> GitIgnoreSpec | None:
    try:
        lines = (folder / ".gitignore").read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return None
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)


def is_ignored(path: Path, rules: Mapping[Path, GitIgnoreSpec], *, is_folder: bool = False) -> bool:
    """Whether git ignores the absolute *path* by these *rules*: the innermost file that says anything decides."""
    for base in sorted(rules, key=lambda base: len(base.parts), reverse=True):
        relative = path.relative_to(base).as_posix() + ("/" if is_folder else "")
        said = rules[base].check_file(relative).include
        if said is not None:
            return said
    return False


def absolute(path: Path) -> Path:
    """Return *path* from the root, symbolic links as they are."""
    return Path(os.path.abspath(path))


def display_name(path: Path, *, from_root: bool = False) -> str:
    """Return *path* as messages show it: relative to the working directory, absolute where it lies elsewhere."""
    full = os.path.abspath(path)
    if from_root:
        return full
    try:
        relative = os.path.relpath(full)
    except ValueError:  # on another drive of a Windows machine
        return full
    return full if Path(relative).parts[:1] == (os.pardir,) else relative


# What they say -------------------------------------------------------------------------------------------------------


def read(path: Path, name: str | None = None) -> SourceFile:
    """Read one source file.  Raises :class:`FileError` for one that cannot be read or decoded."""
    name = display_name(path) if name is None else name
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FileError(name, f"cannot be read: {reason_of(error)}") from None
    return decode(data, name)


def decode(data: bytes, name: str) -> SourceFile:
    """Decode *data* as Python would.  Raises :class:`FileError` for what is no text, or could not be written back."""
    try:
        encoding, _ = tokenize.detect_encoding(BytesIO(data).readline)
    except SyntaxError as error:
        reason, line = undeclared_encoding(data, str(error.msg))
        raise FileError(name, reason, line) from None
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding
    body = data.removeprefix(BOM_UTF8)
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        line, column = position(body[: error.start].decode(encoding, "replace"))
        raise FileError(name, f"byte 0x{body[error.start]:02x} is not {encoding}", line, column) from None
    if "\0" in text:
        raise FileError(name, "holds a null byte", *position(text[: text.index("\0")]))
    if text.encode(encoding, "replace") != body:
        raise FileError(name, f"not plain {encoding}: writing it back would change bytes that no patch is about")
    return SourceFile(name, data, text, encoding)


def undeclared_encoding(data: bytes, message: str) -> tuple[str, int]:
    """Return the reason and the line for a file whose first lines Python's tokenizer refuses to decode."""
    head = data.split(b"\n")[:2]
    for number, line in enumerate(head, 1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            return f"byte 0x{line[error.start]:02x} is not utf-8, and no other encoding is declared", number
    cookie = next((number for number, line in enumerate(head, 1) if b"coding" in line), 1)
    return message, cookie


def other_language(file: SourceFile) -> str:
    """Why a file that was named is no Python, where its text would pass for some: notebooks and JSON; else empty."""
    if file.name.endswith(".ipynb"):
        return "a notebook, which autofix does not read: convert it with `jupyter nbconvert --to script`"
    begins = file.text.lstrip()[:1]
    if begins and begins in "{[":
        import json

        try:
            json.loads(file.text)
        except ValueError:
            return ""
        return "JSON, and no Python"
    return ""


def reason_of(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


# And back ------------------------------------------------------------------------------------------------------------


def check_result(file: SourceFile, text: str) -> bytes:
    """Return *text* as the bytes to replace *file* by.  Raises :class:`FileError` where it must not be written."""
    data = file.encode(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in the user's strings is not ours to report
            ast.parse(data)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None) or 1
        raise FileError(file.name, f"not written: the patched text would not parse ({error})", line) from None
    return data


def write(path: Path, file: SourceFile, text: str) -> None:
    """Replace the file at *path*, last seen as *file*, by *text*: as a whole or not at all.

    Mode, encoding, byte order mark and symbolic links stay.  Raises :class:`FileError` where the text does not parse or
    cannot be encoded, and where the file is read-only, gone, or changed since it was read.
    """
    data = check_result(file, text)
    from autofix.execution.guardian import GUARD

    target = Path(os.path.realpath(path))
    scratch: Path | None = None
    from autofix.project.layout import root_of

    if path.is_symlink():
        root = root_of(Path(os.path.realpath(path.parent)), Path.cwd())
        if not target.is_relative_to(root):
            raise FileError(file.name, f"not written: it is a link to {target}, outside of the project")
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
        if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(target, os.W_OK):
            raise FileError(file.name, f"not written: {READ_ONLY}")
        scratch = target.parent / f".{target.name}.{secrets.token_hex(4)}.tmp"
        GUARD.add(scratch)
        with open(scratch, "xb", opener=private) as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        keep_owner(scratch, target)
        os.chmod(scratch, mode)
        if target.read_bytes() != file.data:
            raise FileError(file.name, "not written: the file was changed while autofix was at work")
        os.replace(scratch, target)
    except OSError as error:
        raise FileError(file.name, f"not written: {reason_of(error)}") from None
    finally:
        if scratch:
            scratch.unlink(missing_ok=True)
            GUARD.discard(scratch)


def private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def keep_owner(scratch: Path, target: Path) -> None:
    """Give *scratch* the owner and group of *target*, where the system knows such a thing and lets us.

    Where it does not, as in a colleague's folder that we may write to, the file becomes ours, as with any editor.
    """
    if sys.platform == "win32":
        return
    there = target.stat()
    here = os.stat(scratch)
    if (here.st_uid, here.st_gid) != (there.st_uid, there.st_gid):
        with suppress(PermissionError):
            os.chown(scratch, there.st_uid, there.st_gid)
