"""The files that run as one program, their lines numbered through.

Whatever reasons about a program counts its lines as one sequence: the first file's from 1, the next file's after its
last, as a linker lays sections out.  So a place is one number, an edit is a change of one text, and only who reads
files or shows places to a person knows which file a line is in.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, TypeVar, cast

from autofix.codemods.facts.base import Span

T = TypeVar("T")


@dataclass(frozen=True)
class File:
    """A file of a program: ``path`` as reports name it, and its text."""

    path: str
    text: str


@dataclass(frozen=True)
class Program:
    """The files of a program.  The first one is the script that is run; the others are imported by it."""

    files: tuple[File, ...]
    roots: tuple[str, ...] = ()
    """Folders in which modules are looked for by their full names, beside those around the importing file."""

    @classmethod
    def of(cls, text: str, path: str, others: Mapping[str, str] | None = None, roots: Sequence[str] = ()) -> Program:
        """The program of one script, and of the *others* that belong to it (path to text), found below *roots*."""
        return cls((File(path, text), *(File(name, other) for name, other in (others or {}).items())), tuple(roots))

    @property
    def path(self) -> str:
        return self.files[0].path

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """For each file, the number of lines before it."""
        found, before = [], 0
        for file in self.files:
            found.append(before)
            before += _count(file.text)
        return tuple(found)

    @cached_property
    def lines(self) -> list[str]:
        """All lines, as they are numbered through."""
        return [line for file in self.files for line in split(file.text)]

    @cached_property
    def texts(self) -> dict[str, str]:
        return {file.path: file.text for file in self.files}

    def start_of(self, path: str) -> int:
        """Number of lines before the file *path*.  Raises :class:`KeyError` for a file of another program."""
        for file, start in zip(self.files, self.starts, strict=True):
            if file.path == path:
                return start
        raise KeyError(path)

    def index_at(self, line: int) -> int:
        """Index of the file that has a line of the program (from 1)."""
        return max(bisect_right(self.starts, line - 1) - 1, 0)

    def with_texts(self, texts: Mapping[str, str]) -> Program:
        """The program with other texts for some of its files."""
        return replace(self, files=tuple(File(file.path, texts.get(file.path, file.text)) for file in self.files))

    def changed(self, other: Program) -> Iterator[tuple[File, File]]:
        """The files that differ in *other*, which has the same files: as they are here, and as they are there."""
        for mine, theirs in zip(self.files, other.files, strict=True):
            if mine.text != theirs.text:
                yield mine, theirs

    def in_file(self, what: T) -> T:
        """*what* (a span, or frozen data with spans in it) with the program's line numbers turned into the files'."""
        return with_spans(what, lambda span: _moved(span, -self.starts[self.index_at(span.line)]))

    def in_program(self, what: T) -> T:
        """Inverse of :meth:`in_file`.  Raises :class:`KeyError` for a file that is not of this program."""
        return with_spans(what, lambda span: _moved(span, self.start_of(span.path)))


def split(text: str) -> list[str]:
    """The lines as the parser counts them: only ``\\n``, ``\\r\\n`` and ``\\r`` end one."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")


@lru_cache(maxsize=4096)
def _count(text: str) -> int:
    """Number of lines: most files stand in many programs."""
    return len(split(text))


def with_spans(what: T, change: Callable[[Span], Span]) -> T:
    """*what* (a span, or frozen data with spans in it) with every span as *change* makes it."""
    return cast(T, _with_spans(what, change))


def _with_spans(what: Any, change: Callable[[Span], Span]) -> Any:
    if isinstance(what, Span):
        return change(what)
    if isinstance(what, (tuple, list)) and not hasattr(what, "_fields"):
        return type(what)(_with_spans(one, change) for one in what)
    if is_dataclass(what) and not isinstance(what, type):
        changed = {field.name: getattr(what, field.name) for field in fields(what)}
        return replace(what, **{name: _with_spans(value, change) for name, value in changed.items()})
    return what


def _moved(span: Span, by: int) -> Span:
    """*span*, *by* lines further down."""
    return replace(span, line=span.line + by, end_line=span.end_line + by) if by else span
