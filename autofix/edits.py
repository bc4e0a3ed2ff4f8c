"""The edits of a patch, and the findings that each of them repairs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from autofix.checking import Edit
from autofix.codemods.facts.base import Span
from autofix.codemods.rewriting.patch import Replacement, common_prefix, lines_of
from autofix.codemods.source.sources import parses
from autofix.findings import Finding


@dataclass(frozen=True)
class TextEdit:
    """A piece of a file, and the text that takes its place; the piece is empty for an insertion."""

    span: Span
    text: str
    lines: tuple[int, ...]
    """The lines that are replaced; for an insertion, the one before it."""


def edits_of(
    changed: Iterable[Edit], findings: Sequence[Finding], read: Mapping[Finding, Collection[str]] | None = None
) -> dict[Finding, tuple[TextEdit, ...]]:
    """The edits that repair each of *findings*, in all files that are *changed*.

    An edit that touches the stories of several findings is given to all of them.  The edits of a file in which no
    story happens are given to the findings of the programs that have *read* it; without *read*, to all findings.
    """
    fixed = [finding for finding in findings if finding.fixed]
    found: dict[Finding, tuple[TextEdit, ...]] = dict.fromkeys(fixed, ())
    for edit in changed:
        path, before = edit.file.name, edit.file.text
        parts = list(text_edits(before, edit.changes))
        near = [finding for finding in fixed if lines_of_story(finding, path)]
        near = near or [finding for finding in fixed if read is None or path in read.get(finding, ())]
        reasons = attribute([part.lines for part in parts], near, path)
        for finding in near:
            own = [part for part, reason in zip(parts, reasons, strict=True) if finding in reason]
            found[finding] += tuple(own if parses(applied(before, own)) else parts)
    return found


def text_edits(before: str, changes: Iterable[Replacement]) -> Iterator[TextEdit]:
    """Yield the *changes* of a text: whole lines, or the part of a line that alone differs."""
    old = lines_of(before)
    for change in changes:
        path, start, end = change.path, change.start - 1, change.stop - 1
        text = "".join(line.text for line in change.lines)
        if end - start == len(change.lines) == 1:
            lead = common_prefix(old[start], text)
            tail = common_prefix(old[start][lead:][::-1], text[lead:][::-1])
            span = Span(path, start + 1, lead, start + 1, len(old[start]) - tail)
            yield TextEdit(span, text[lead : len(text) - tail], (start + 1,))
            continue
        end_of_text = end == len(old) and end > start and not old[-1].endswith(("\n", "\r"))
        close = (end, len(old[-1])) if end_of_text else (end + 1, 0)
        yield TextEdit(Span(path, start + 1, 0, *close), text, tuple(range(start + 1, end + 1)) or (start,))


def applied(text: str, edits: Sequence[TextEdit]) -> str:
    """*text* with just these *edits*, which do not overlap."""
    starts = [0]
    for line in lines_of(text):
        starts.append(starts[-1] + len(line))
    for edit in sorted(edits, key=lambda edit: edit.span, reverse=True):
        start, end = (
            starts[edit.span.line - 1] + edit.span.column,
            starts[edit.span.end_line - 1] + edit.span.end_column,
        )
        text = text[:start] + edit.text + text[end:]
    return text


def attribute(touched: Sequence[Sequence[int]], findings: Sequence[Finding], path: str) -> list[tuple[Finding, ...]]:
    """Return for each edit of the file *path*, whose lines are *touched*, the findings whose story it changes.

    An edit that touches no story goes to the nearest finding; a finding whose own lines nothing touches goes to the
    nearest edit, so that every finding is named somewhere.
    """
    reasons = [[finding for finding in findings if lines_of_story(finding, path) & set(lines)] for lines in touched]
    for finding in findings if touched else ():
        if not any(finding in found for found in reasons):
            nearest = min(range(len(touched)), key=lambda index: distance(touched[index], finding, path))
            reasons[nearest].append(finding)
    for found, lines in zip(reasons, touched, strict=True):
        if not found and findings:
            found.append(min(findings, key=lambda finding: distance(lines, finding, path)))
    return [tuple(found) for found in reasons]


def lines_of_story(finding: Finding, path: str) -> set[int]:
    """Return the lines of *path* where something of *finding*'s story happens; of a loop, only the head."""
    places = {finding.cause.line} if finding.cause.path == path else set()
    for role in finding.roles():
        if role.span.path == path:
            last = role.span.line if role.name == "loop" else role.span.end_line
            places.update(range(role.span.line, last + 1))
    return places


def distance(lines: Sequence[int], finding: Finding, path: str) -> int:
    """Number of lines from an edit to the nearest place of *finding*'s story in the file *path*; 0 if it has none."""
    return min((abs(line - place) for line in lines for place in lines_of_story(finding, path)), default=0)
