"""Source files on disk: decoding of their bytes, and writing them back unharmed.

What Python reads, this module reads: the encoding comes from a byte order mark or a PEP 263 cookie, and line endings
stay as they are.  A file that cannot be handled is a :class:`FileError` with a position, never a traceback.
"""

from __future__ import annotations

import ast
import codecs
import os
import re
import stat
import sys
import tokenize
import warnings
from codecs import BOM_UTF8
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from autofix.escaping import escaped
from autofix.project import reading
from autofix.project.cells import SUFFIX, NotebookError, OtherLanguage
from autofix.project.layout import root_of

if TYPE_CHECKING:
    from autofix.project.notebook import Notebook

STANDARD_INPUT = "-"
STDIN_NAME = "<stdin>"
READ_ONLY = "the file is read-only"
LARGEST_NOTEBOOK = 256 * 2**20
"""Bytes of the largest notebook that is read: most of them are pictures among its outputs."""


class FileError(Exception):
    """A file that cannot be read, understood or written; ``line`` and ``column`` count from 1."""

    is_passed_by = False
    """Whether the file is sound, but not to be read."""

    def __init__(self, name: str, reason: str, line: int = 1, column: int = 1) -> None:
        super().__init__(name, reason, line, column)  # all of them, so that it survives pickling
        self.name = name
        self.reason = reason
        self.line = line
        self.column = column

    def __str__(self) -> str:
        return escaped(f"{self.name}:{self.line}:{self.column}: {self.reason}")


class PassedBy(FileError):
    """A file that is sound and no Python: a notebook for another language."""

    is_passed_by = True


@dataclass(frozen=True)
class SourceFile:
    """One file as it was read: ``data`` are its bytes, ``text`` is their text, without a byte order mark."""

    name: str
    """Name of the file in messages and patches: relative to the working directory where it lies below it."""
    data: bytes
    text: str
    encoding: str
    """The name of the codec, without the byte order mark, which ``data`` has or has not."""
    notebook: Notebook | None = field(default=None, repr=False)
    """The notebook, where ``data`` is one: ``text`` is the text of its cells then."""

    @classmethod
    def unread(cls, name: str) -> SourceFile:
        """The file by its name alone, for who has no use for its text."""
        return cls(name, b"", "", "utf-8")

    @property
    def has_bom(self) -> bool:
        return self.data.startswith(BOM_UTF8)

    def encode(self, text: str) -> bytes:
        """Return the file's bytes where its text is *text*.  Raises :class:`FileError` where that cannot be written."""
        try:
            written = text if self.notebook is None else self.notebook.with_text(text)
            data = written.encode(self.encoding)
        except NotebookError as error:
            raise FileError(self.name, f"not written: {error.reason}") from None
        except UnicodeEncodeError as error:
            line, column = position(error.object[: error.start])
            reason = f"the patch holds {error.object[error.start]!r}, which {self.encoding} cannot write"
            raise FileError(self.name, reason, line, column) from None
        return BOM_UTF8 + data if self.has_bom else data


def position(before: str) -> tuple[int, int]:
    """Return line and column, both from 1, of the place that follows the text *before*."""
    lines = before.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return len(lines), len(lines[-1]) + 1


# Names ----------------------------------------------------------------------------------------------------------------


def absolute(path: Path) -> Path:
    """Return *path* from the root, symbolic links as they are."""
    return Path(os.path.abspath(path))


def display_name(path: Path, *, from_root: bool = False) -> str:
    """Return *path* as messages show it: relative to the working directory, absolute where it lies elsewhere."""
    full = os.path.abspath(path)
    if from_root:
        return full
    if os.name == "posix" and not full.startswith("//"):
        here = os.getcwd()
        inside = os.path.join(here, "")
        return (full[len(inside) :] or os.curdir) if full.startswith(inside) else os.curdir if full == here else full
    try:
        relative = os.path.relpath(full)
    except ValueError:  # on another drive of a Windows machine
        return full
    return full if Path(relative).parts[:1] == (os.pardir,) else relative


# What they say -------------------------------------------------------------------------------------------------------


def read(path: Path, name: str | None = None) -> SourceFile:
    """Read one source file.  Raises :class:`FileError` for one that cannot be read or decoded."""
    name = display_name(path) if name is None else name
    most = LARGEST_NOTEBOOK if path.suffix == SUFFIX else reading.LARGEST_SOURCE
    try:
        data = reading.read(path, most)
    except OSError as error:
        raise FileError(name, f"cannot be read: {reason_of(error)}") from None
    return decode(data, name)


def decode(data: bytes, name: str) -> SourceFile:
    """Decode *data* as Python would, a notebook as Jupyter would.

    Raises :class:`FileError` for bytes that are no text, or could not be written back.
    """
    if name.endswith(SUFFIX):
        return decode_notebook(data, name)
    try:
        encoding = declared_encoding(data)
    except (SyntaxError, LookupError, UnicodeError) as error:  # the last two since Python 3.14
        reason, line = undeclared_encoding(data, error.msg if isinstance(error, SyntaxError) else str(error))
        raise FileError(name, reason, line) from None
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding
    body = data.removeprefix(BOM_UTF8)
    if body.startswith(BOM_UTF8):
        raise FileError(name, "begins with two byte order marks, which Python does not read")
    try:
        text = _text(body, encoding)
        again = text.encode(encoding, "replace") if encoding != "utf-8" else body
    except UnicodeDecodeError as error:
        line, column = position(body[: error.start].decode(encoding, "replace"))
        raise FileError(name, f"byte 0x{body[error.start]:02x} is not {encoding}", line, column) from None
    except (LookupError, ValueError):
        raise FileError(name, f"{encoding} is no encoding of source", _cookie_line(data)) from None
    if "\0" in text:
        raise FileError(name, "holds a null byte", *position(text[: text.index("\0")]))
    if again != body:
        raise FileError(name, f"not plain {encoding}: writing it back would change bytes that no patch is about")
    return SourceFile(name, data, text, encoding)


def decode_notebook(data: bytes, name: str) -> SourceFile:
    """Decode a notebook.  Raises :class:`FileError`; :class:`PassedBy` for one whose kernel runs no Python."""
    from autofix.project import notebook  # most files are none

    try:
        found = notebook.read(data.removeprefix(BOM_UTF8).decode())
    except UnicodeDecodeError as error:
        raise FileError(name, f"byte 0x{data[error.start]:02x} is not utf-8") from None
    except OtherLanguage as error:
        raise PassedBy(name, f"skipped: {error.reason}") from None
    except NotebookError as error:
        raise FileError(name, error.reason, error.line, error.column) from None
    return SourceFile(name, data, found.text, "utf-8", found)


_OF_DOMAINS = frozenset(["idna", "punycode"])
"""Encodings of domain names: Python would take them, and an author means none of them."""


def _text(body: bytes, encoding: str) -> str:
    """*body* decoded.  Raises :class:`LookupError` for a codec that is none of texts, and :class:`ValueError`."""
    if encoding == "utf-8":
        return body.decode()
    if codecs.lookup(encoding).name in _OF_DOMAINS:
        raise LookupError(encoding)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # codecs for escapes complain of wrong ones
        return body.decode(encoding)


_OVER_UTF_8 = frozenset(["future_fstrings", "future_annotations", "future_typing"])
"""Codecs of packages that decode UTF-8 and rewrite newer syntax for older versions of Python."""


def declared_encoding(data: bytes) -> str:
    """The encoding of source, from its first lines.  Raises what :func:`tokenize.detect_encoding` does."""
    head = data.split(b"\n", 2)[:2]
    if all(line.isascii() and b"coding" not in line for line in head):
        return "utf-8"
    declared = _COOKIE.search(head[_cookie_line(data) - 1])
    if declared is not None and declared[1].decode().lower().replace("-", "_") in _OVER_UTF_8:
        return "utf-8"
    return tokenize.detect_encoding(BytesIO(data).readline)[0]


def undeclared_encoding(data: bytes, message: str) -> tuple[str, int]:
    """Return the reason and the line for a file whose first lines Python's tokenizer refuses to decode."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "UTF-16 or UTF-32, which Python does not read: save it as UTF-8", 1
    head = data.split(b"\n", 2)[:2]
    for number, line in enumerate(head, 1):
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as error:
            return f"byte 0x{line[error.start]:02x} is not utf-8, and no other encoding is declared", number
    at = _cookie_line(data)
    declared = _COOKIE.search(head[at - 1])
    name = declared[1].decode() if declared is not None else ""
    # Python 3.14 refuses a codec in which no source is written with the words for one that there is not.
    return (f"{name} is no encoding of source" if name and _is_other_codec(name) else message), at


def _is_other_codec(name: str) -> bool:
    """Whether there is a codec of this name that gives something else for plain ASCII."""
    try:
        codecs.lookup(name)
    except LookupError:
        return False
    try:
        return b"x = 1\n".decode(name) != "x = 1\n"
    except (LookupError, ValueError):
        return True


_COOKIE = re.compile(rb"coding[:=][ \t]*([-\w.]+)")
"""Source: PEP 263."""


def _cookie_line(data: bytes) -> int:
    """The line that declares the encoding."""
    return next((number for number, line in enumerate(data.split(b"\n", 2)[:2], 1) if b"coding" in line), 1)


def other_language(file: SourceFile) -> str:
    """Why a file that was named is no Python, where its text would pass for some, as JSON does; else empty."""
    begins = file.text.lstrip()[:1]
    if begins and begins in "{[":
        import json

        try:
            json.loads(file.text)
        except (ValueError, RecursionError):
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
            # Text in UTF-8 may declare a codec that this Python lacks.
            ast.parse(text if codecs.lookup(file.encoding).name == "utf-8" else data)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        raise FileError(file.name, f"not written: the patched text would not parse ({error})", line) from None
    return data


def write(path: Path, file: SourceFile, text: str) -> None:
    """Replace the file at *path*, last seen as *file*, by *text*: as a whole or not at all.

    Mode, encoding, byte order mark and symbolic links stay.  Raises :class:`FileError` where the text does not parse or
    cannot be encoded, and where the file is read-only, gone, or changed since it was read.
    """
    import secrets  # loaded by those that write alone

    from autofix.execution.guardian import GUARD

    data = check_result(file, text)

    target = Path(os.path.realpath(path))
    scratch: Path | None = None
    if path.is_symlink():
        root = root_of(Path(os.path.realpath(path.parent)), Path.cwd())
        if not target.is_relative_to(root):
            raise FileError(file.name, f"not written: it is a link to {target}, outside of the project")
    try:
        mode = stat.S_IMODE(target.stat().st_mode)
        if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(target, os.W_OK):
            raise FileError(file.name, f"not written: {READ_ONLY}")
        scratch = target.parent / f".autofix.{secrets.token_hex(8)}.tmp"  # short: no name is too long for it
        GUARD.add(scratch)
        with open(scratch, "xb", opener=private) as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        keep_owner(scratch, target)
        os.chmod(scratch, mode)
        if reading.read(target, max(len(file.data), reading.LARGEST_SOURCE)) != file.data:
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
