"""A patch as data: the lines of files that become other lines, and the original line of each of them.

The author of an edit knows both, so nothing has to be found out from the two texts afterwards: by its edits a patch is
applied, composed with a later one, taken back in part, and asked for the original of a line.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from autofix.codemods.facts.base import Span
from autofix.codemods.source.program import Program

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")


def common_prefix(one: str, other: str) -> int:
    """Length of the longest common prefix of two texts."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, pair in pairs if pair[0] != pair[1]), min(len(one), len(other)))


def lines_of(text: str) -> list[str]:
    """The lines of a text with their ends, as the parser counts them."""
    return [line for line in _LINE.findall(text) if line]


@dataclass(frozen=True, slots=True)
class Line:
    """A line that a patch writes: its text with its end, and the line of the file that it was; 0 for a new one."""

    text: str
    origin: int = 0


@dataclass(frozen=True, slots=True)
class Replacement:
    """The lines of the file *path* from *start* (from 1) up to, and without, *stop* become *lines*."""

    path: str
    start: int
    stop: int
    lines: tuple[Line, ...]

    @property
    def inserts(self) -> bool:
        """Whether it takes no line away."""
        return self.start == self.stop

    def overlaps(self, other: Replacement) -> bool:
        """Whether both replace a line, or one inserts between lines that the other replaces."""
        return self.path == other.path and self.start < other.stop and other.start < self.stop


@dataclass(frozen=True)
class Patch:
    """Replacements in the files of a program: apart from one another, in the order of the files and of their lines."""

    program: Program
    """The program that is patched."""
    edits: tuple[Replacement, ...] = ()

    @classmethod
    def of(cls, program: Program, written: Mapping[str, Sequence[Line]]) -> Patch:
        """The patch after which the files of *program* that are named consist of the lines that are *written*."""
        edits: list[Replacement] = []
        for file in program.files:
            if file.path in written:
                edits += _replacements(file.path, lines_of(file.text), written[file.path])
        return cls(program, tuple(edits))

    @cached_property
    def patched(self) -> Program:
        """The program after the patch."""
        texts = {path: "".join(line.text for line in self.written(path)) for path in self.paths}
        return self.program.with_texts(texts) if texts else self.program

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that it changes."""
        return tuple(dict.fromkeys(edit.path for edit in self.edits))

    def written(self, path: str) -> list[Line]:
        """All lines of a file after the patch."""
        return written(self.program.texts[path], self.of_file(path))

    def of_file(self, path: str) -> tuple[Replacement, ...]:
        """The edits of one file."""
        return tuple(edit for edit in self.edits if edit.path == path)

    def then(self, later: Patch) -> Patch:
        """Composition of this patch and a *later* one, which is a patch of the program that this one leads to."""
        if not self.edits:
            return replace(later, program=self.program)
        texts, edits = self.program.texts, list[Replacement]()
        for file in self.program.files:
            edits += composed(texts[file.path], self.of_file(file.path), later.of_file(file.path))
        return Patch(self.program, tuple(edits))

    def without(self, edit: Replacement) -> Patch:
        """The patch less one of its edits."""
        return replace(self, edits=tuple(one for one in self.edits if one is not edit))

    def before(self, earlier: Patch) -> Patch | None:
        """This patch, which is one of the program after the *earlier* patch, as a patch of the program before it.

        None where it changes lines that the earlier one wrote or parted.
        """
        moved: list[Replacement] = []
        for edit in self.edits:
            lines, own = earlier.written(edit.path), lines_of(earlier.program.texts[edit.path])
            numbers = range(edit.start - edit.inserts, edit.stop)
            came = [lines[number - 1].origin if number else 0 for number in numbers]
            if any(number and not origin for number, origin in zip(numbers, came, strict=True)):
                return None
            if any(not _is_kept(lines[number - 1], own) for number in range(edit.start, edit.stop)):
                return None
            if came != list(range(came[0], came[0] + len(came))):
                return None
            start = came[0] + edit.inserts
            origins = {number: line.origin for number, line in enumerate(lines, 1)}
            kept = tuple(Line(line.text, origins.get(line.origin, 0)) for line in edit.lines)
            moved.append(Replacement(edit.path, start, start + edit.stop - edit.start, kept))
        order = {file.path: at for at, file in enumerate(earlier.program.files)}
        return Patch(earlier.program, tuple(sorted(moved, key=lambda edit: (order[edit.path], edit.start, edit.stop))))

    def original(self, line: int) -> int:
        """The line of the program that a line of the patched one was; a negative number for one that is new."""
        if line < 1:
            return -line
        index = self.patched.index_at(line)
        here, there = self.program.starts[index], self.patched.starts[index]
        origins = self._origins.get(self.program.files[index].path)
        if origins is None:
            return line - there + here
        at = line - there
        found = origins[at - 1] if at <= len(origins) else self._last(index, at)
        return here + found if found else -line

    def span(self, span: Span) -> Span | None:
        """A span of the patched program in that from which it came; None where one of its ends is new."""
        line, end = self.original(span.line), self.original(span.end_line)
        return replace(span, line=line, end_line=end) if 0 < line <= end else None

    def _last(self, index: int, at: int) -> int:
        """The empty line behind the end of a file is its own."""
        before, after = self.program.files[index].text, self.patched.files[index].text
        ends = at == len(lines_of(after)) + 1
        return len(lines_of(before)) + 1 if ends and before.endswith(("\n", "\r")) else 0

    @cached_property
    def _origins(self) -> dict[str, list[int]]:
        return {path: [line.origin for line in self.written(path)] for path in self.paths}

    @cached_property
    def changed(self) -> frozenset[int]:
        """The lines of the program that it takes away or writes otherwise."""
        return frozenset(
            self.program.start_of(edit.path) + number for edit in self.edits for number in range(edit.start, edit.stop)
        )

    @cached_property
    def texts_written(self) -> tuple[str, ...]:
        """The texts of all lines that it writes."""
        return tuple(line.text for edit in self.edits for line in edit.lines)


def written(text: str, edits: Iterable[Replacement]) -> list[Line]:
    """All lines of a file, which has this *text*, after *edits* of it."""
    before, result, done = lines_of(text), list[Line](), 1
    for edit in edits:
        result += [Line(before[number - 1], number) for number in range(done, edit.start)]
        result += edit.lines
        done = edit.stop
    return result + [Line(line, number) for number, line in enumerate(before[done - 1 :], done)]


def composed(text: str, first: Sequence[Replacement], later: Sequence[Replacement]) -> tuple[Replacement, ...]:
    """The *first* edits of a file, which has this *text*, and *later* ones of what they lead to, as one."""
    if not first or not later:
        return tuple(first or later)
    between = written(text, first)
    lines = written("".join(line.text for line in between), later)
    came = [0, *(line.origin for line in between)]
    return tuple(_replacements(first[0].path, lines_of(text), [Line(one.text, came[one.origin]) for one in lines]))


def _replacements(path: str, before: Sequence[str], written: Sequence[Line]) -> Iterator[Replacement]:
    """Replacements that turn the lines *before* into the *written* ones."""
    kept = _in_order([(at, line.origin) for at, line in enumerate(written) if _is_kept(line, before)])
    number = at = 0
    for here, origin in (*kept, (len(written), len(before) + 1)):
        if here > at or origin > number + 1:
            yield Replacement(path, number + 1, origin, tuple(written[at:here]))
        number, at = origin, here + 1


def _is_kept(line: Line, before: Sequence[str]) -> bool:
    return 0 < line.origin <= len(before) and before[line.origin - 1] == line.text


def _in_order(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Most of *pairs*, such that their second numbers ascend as their first ones do."""
    best: list[int] = []
    ends: list[int] = []
    """For each length, the pair that ends an ascending row of this length with the least number."""
    pairs = list(pairs)
    previous: list[int] = []
    for at, (_, origin) in enumerate(pairs):
        length = bisect_left(best, origin)
        previous.append(ends[length - 1] if length else -1)
        if length == len(best):
            best.append(origin)
            ends.append(at)
        else:
            best[length], ends[length] = origin, at
    found: list[tuple[int, int]] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        found.append(pairs[at])
        at = previous[at]
    return found[::-1]
