"""Reads a diff that somebody else made, and applies it in memory to the files of a script's folder.

It takes what ``git diff``, ``git format-patch`` and ``diff -u`` write: paths with or without ``a/`` and ``b/``, counted
from the working directory, the script's folder or any folder above it (``git diff`` counts from the repository's root);
several files, new ones among them; and lines that have moved since, as ``git apply`` does.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from unidiff.constants import DEV_NULL, LINE_TYPE_EMPTY
from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk, Line, PatchedFile, PatchSet

from autofix.execution.runner import Script
from autofix.patch import CARRIER, lines_of, sides
from autofix.project import files

PREFIXES = ("a/", "b/")


class DiffError(files.FileError):
    """A diff that cannot be read or does not fit; ``name`` and ``line`` say where, in the diff or in the file."""


def both_sides(script: Script, diff: bytes, name: str) -> tuple[Script, Script]:
    """Return *script* before and after *diff*, whichever of the two the files are now.  Nothing is written.

    Raises what :func:`patched` raises, for a diff that fits neither way.
    """
    try:
        return script, patched(script, diff, name)
    except DiffError as error:
        try:
            before = patched(script, diff, name, back=True)
        except DiffError:
            raise error from None
    return before, as_it_is(script, before.texts)


def as_it_is(script: Script, changed: Iterable[str]) -> Script:
    """*script* with the texts that the *changed* files, relative to the root, have now: a patch already written."""
    texts = {name: files.read(script.folder / name).text for name in changed}
    own = texts.pop(script.key, script.text)
    return replace(script, text=own, others=tuple(texts.items()))


def patched(script: Script, diff: bytes, name: str, *, back: bool = False) -> Script:
    """Return *script* with *diff*, which messages call *name*, applied, or taken *back*.

    Nothing is written.

    Raises :class:`DiffError` where *diff* cannot be parsed, names a file that is not there, or does not fit; and
    :class:`autofix.project.files.FileError` for a file that cannot be read.
    """
    contents: dict[Path, bytes] = {}
    for file in parse(diff, name):
        if not file and not (file.is_binary_file or is_moved(file) or is_new(file)):
            continue  # a change of mode
        if back and is_new(file):
            continue  # it may stay: nothing imported it
        target = target_of(file, script, name)
        if target not in contents:
            contents[target] = b"" if is_new(file) else files.read(target).data
        contents[target] = apply(file, contents[target], files.display_name(target), name, back=back)
    if not contents:
        raise DiffError(name, "changes nothing")
    own = script.path.resolve()
    texts = {target: files.decode(data, files.display_name(target)).text for target, data in contents.items()}
    others = {target.relative_to(script.folder).as_posix(): text for target, text in texts.items() if target != own}
    return replace(script, text=texts.get(own, script.text), others=tuple(others.items()))


def parse(diff: bytes, name: str) -> PatchSet:
    """Parse the bytes, carried as Latin-1.  Raises :class:`DiffError` with the line of the diff that breaks it."""
    line = 1

    def counted() -> Iterator[str]:
        nonlocal line
        for line, text in enumerate(lines_of(diff), 1):  # noqa: B007 - the reader below wants to know how far it came
            yield text

    try:
        return PatchSet(counted())
    except UnidiffParseError as error:
        reason = str(error).encode(CARRIER, "replace").decode("utf-8", "replace").strip()
        raise DiffError(name, f"no unified diff: {reason[:1].lower()}{reason[1:]}", line) from None


def target_of(file: PatchedFile, script: Script, name: str) -> Path:
    """The file below the script's folder that this part of the diff is about.  Raises :class:`DiffError`."""
    line = file.diff_line_no or 1
    told = readable(file.path)
    if file.is_binary_file or is_moved(file) or file.target_file == DEV_NULL:
        what = "is binary" if file.is_binary_file else "is renamed" if is_moved(file) else "is deleted"
        raise DiffError(name, f"{told} {what}, which cannot be tried in a copy", line)
    named = [readable(path) for path in (file.source_file, file.target_file) if path.rstrip("\r") != DEV_NULL]
    places = [place for path in named for place in places_of(path, script)]
    if is_new(file):
        inside = [place for place in places if place.is_relative_to(script.folder)]
        if inside:
            return min(inside, key=missing_folders)
    else:
        there = [place for place in places if place.is_file()]
        inside = [place for place in there if place.is_relative_to(script.folder)]
        if inside:  # of two names, as `diff -u train.py.orig train.py` has them, the script is meant
            return script.path.resolve() if script.path.resolve() in inside else inside[0]
        if there:
            root = files.display_name(script.folder)
            raise DiffError(
                name, f"{told} lies outside of {root}, the project of which a copy is run; see --root", line
            )
    raise DiffError(name, f"there is no file {told} below {files.display_name(script.folder)}", line)


def places_of(path: str, script: Script) -> Iterator[Path]:
    """Places on the disk that a path of the diff may stand for, the likeliest first."""
    short = path[2:] if path.startswith(PREFIXES) else path
    own = script.path.resolve().parent
    for base in dict.fromkeys((Path.cwd(), own, *own.parents, *script.folder.parents)):
        for one in dict.fromkeys((short, path)):
            yield (base / one).resolve()


def missing_folders(place: Path) -> int:
    return sum(not folder.is_dir() for folder in place.parents)


def is_new(file: PatchedFile) -> bool:
    return file.source_file.rstrip("\r") == DEV_NULL


def is_moved(file: PatchedFile) -> bool:
    return any(line.startswith(("rename from ", "copy from ")) for line in file.patch_info or ())


def readable(name: str) -> str:
    """A path of a header as the system writes it: without the quotes and escapes that git puts around odd ones."""
    data = name.rstrip("\r").encode(CARRIER, "replace")
    if len(data) > 1 and data.startswith(b'"') and data.endswith(b'"'):
        data = codecs.escape_decode(data[1:-1])[0]
    return os.fsdecode(data)


def apply(file: PatchedFile, before: bytes, target: str, name: str, *, back: bool = False) -> bytes:
    """Return *before* with all hunks applied, or taken *back*.

    Raises :class:`DiffError` with the line where one does not fit.
    """
    lines = lines_of(before)
    result: list[str] = []
    done = moved = 0
    for hunk in file:
        old, new = sides(proper(hunk))
        first, length = hunk.source_start, hunk.source_length
        if back:
            old, new, first, length = new, old, hunk.target_start, hunk.target_length
        # A hunk without any line of the source names the line that it follows.
        wanted = max(0, first - 1 if length else first)
        start = fitting(lines, old, wanted + moved, done)
        if start is None:
            line, reason = misfit(lines, old, wanted + moved)
            raise DiffError(target, f"{name} does not fit: {reason}", line)
        moved = start - wanted
        result += lines[done:start] + new
        done = start + len(old)
    return "".join(result + lines[done:]).encode(CARRIER)


def proper(hunk: Hunk) -> list[Line]:
    """The lines of *hunk* without the empty ones that follow it in a mail."""
    return [line for line in hunk if line.line_type != LINE_TYPE_EMPTY]


def fitting(lines: list[str], old: list[str], wanted: int, done: int) -> int | None:
    """Index at which *lines* have *old*, not before *done* and as near to *wanted* as can be; None if nowhere."""
    if not old:
        return wanted if done <= wanted <= len(lines) else None
    starts = [at for at in range(done, len(lines) - len(old) + 1) if lines[at : at + len(old)] == old]
    return min(starts, key=lambda at: abs(at - wanted), default=None)


def misfit(lines: list[str], old: list[str], wanted: int) -> tuple[int, str]:
    """First line (from 1) at which the file differs from the lines that the diff expects, and a message on both."""
    for offset, expected in enumerate(old):
        at = wanted + offset
        if at >= len(lines):
            return len(lines) or 1, f"the file ends before `{shown(expected)}`, which it expects"
        if lines[at] != expected:
            space = "; they differ in white space" if lines[at].split() == expected.split() else ""
            return at + 1, f"it expects `{shown(expected)}` here, and the file has `{shown(lines[at])}`{space}"
    return wanted + 1, "it overlaps another of its hunks"


def shown(line: str) -> str:
    return line.encode(CARRIER).decode("utf-8", "replace").strip()
