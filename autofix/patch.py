"""Unified diffs that ``git apply`` and ``patch -p1`` take: built with difflib, and parsed back with unidiff.

A diff is about bytes.  Lines end at a line feed and nowhere else (``str.splitlines`` would also cut at form feeds and
at U+2028), a carriage return belongs to its line, and every file's lines stand in the file's own encoding.  Latin-1
serves to carry bytes through difflib and unidiff, for it gives every byte a character of its own.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk, Line, PatchSet

CARRIER = "latin-1"
CONTEXT = 3
"""Lines of context, as git and GNU diff have it."""
NO_NEWLINE = "\\ No newline at end of file\n"
ESCAPES = {0x07: "a", 0x08: "b", 0x09: "t", 0x0A: "n", 0x0B: "v", 0x0C: "f", 0x0D: "r", 0x22: '"', 0x5C: "\\"}


class PatchError(Exception):
    """A patch that does not lead to the intended text.  A bug in this module, never the user's fault."""


@dataclass(frozen=True)
class Change:
    """One file before and after, as bytes."""

    name: str
    before: bytes
    after: bytes


def patch(changes: Iterable[Change]) -> bytes:
    """Return one patch for all *changes*; empty where nothing changes.  Raises :class:`PatchError` if wrong."""
    changes = [change for change in changes if change.before != change.after]
    text = "".join(unified(change) for change in changes)
    verify(text, changes)
    return text.encode(CARRIER)


def unified(change: Change, context: int = CONTEXT) -> str:
    """Return the unified diff of one file, its bytes carried as Latin-1."""
    before, after = lines_of(change.before), lines_of(change.after)
    body = list(difflib.unified_diff(before, after, n=context, lineterm="\n"))[2:]
    header = [f"--- {header_name('a/', change.name)}\n", f"+++ {header_name('b/', change.name)}\n"]
    return "".join(header + [line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}" for line in body])


def lines_of(data: bytes) -> list[str]:
    """Cut *data* after every line feed."""
    lines = data.decode(CARRIER).split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def header_name(prefix: str, name: str) -> str:
    """Return a file name as git writes it in a header: quoted where it must be, closed by a tab if it has a space."""
    path = os.fsencode(prefix + name.replace(os.sep, "/").lstrip("/"))
    if any(byte < 0x20 or byte in b'"\\\x7f' for byte in path):
        quoted = (f"\\{ESCAPES[b]}" if b in ESCAPES else f"\\{b:03o}" if b < 0x20 or b > 0x7E else chr(b) for b in path)
        return f'"{"".join(quoted)}"'
    return path.decode(CARRIER) + ("\t" if b" " in path else "")


def verify(text: str, changes: list[Change]) -> None:
    """Parse *text* with unidiff, apply it, and compare.  Raises :class:`PatchError` on any difference."""
    try:
        files = PatchSet(text)
    except UnidiffParseError as error:
        raise PatchError(f"the patch cannot be parsed back: {error}") from error
    if len(files) != len(changes):
        raise PatchError(f"the patch has {len(files)} files instead of {len(changes)}")
    for file, change in zip(files, changes, strict=True):
        if apply(file, change.before) != change.after:
            raise PatchError(f"the patch for {change.name} does not lead from the old text to the new one")


def hunks_of(change: Change, context: int = CONTEXT) -> list[Hunk]:
    """Return the hunks that lead from one text to the other, with so many lines of *context*."""
    if change.before == change.after:
        return []
    text = unified(change, context)
    verify(text, [change])
    return list(PatchSet(text)[0])


def apply(hunks: Iterable[Hunk], before: bytes) -> bytes:
    """Return *before* with just these *hunks* applied, which are given in order.

    Raises :class:`PatchError` where a hunk does not fit.
    """
    lines = lines_of(before)
    result: list[str] = []
    done = 0
    for hunk in hunks:
        # A hunk without any line of the source names the line that it follows.
        start = hunk.source_start - 1 if hunk.source_length else hunk.source_start
        old, new = sides(hunk)
        if start < done or lines[start : start + len(old)] != old:
            raise PatchError(f"a hunk does not fit at line {hunk.source_start}")
        result += lines[done:start] + new
        done = start + len(old)
    return "".join(result + lines[done:]).encode(CARRIER)


def sides(hunk: Iterable[Line]) -> tuple[list[str], list[str]]:
    """Return the old and the new lines of *hunk*, without the newline that a marker denies them."""
    old: list[str] = []
    new: list[str] = []
    last: list[list[str]] = []
    for line in hunk:
        if line.line_type == "\\":
            for side in last:
                side[-1] = side[-1].removesuffix("\n")
            continue
        last = [old] * (not line.is_added) + [new] * (not line.is_removed)
        for side in last:
            side.append(line.value)
    return old, new


def changed_lines(hunk: Hunk) -> Iterator[int]:
    """Yield the numbers of the source's lines that *hunk* replaces; for an insertion, the line before it."""
    before = hunk.source_start - 1 if hunk.source_length else hunk.source_start
    for line in hunk:
        if line.source_line_no is not None:
            before = line.source_line_no
        if line.is_removed or line.is_added:
            yield before
