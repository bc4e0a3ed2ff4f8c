"""A repair as a person wants to read it: the cause in the user's own source, and what the patch has shown."""

from __future__ import annotations

import shutil
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from autofix.engine import Finding
from autofix.report.lines import count, finding_lines, location, other_places
from autofix.report.terminal import Piece
from codemods.facts import Span

if TYPE_CHECKING:
    from autofix.prove import Certificate

Line = tuple[Piece, ...]

WIDTH = 120
TOLD = 1
"""So many findings are shown with their source, the rest as the line of their cause: all must fit on one screen."""
VERDICTS = {"passed": "green", "failed": "bold red", "not proved": "yellow"}


def tell(findings: Sequence[Finding], source: str, *, everything: bool = False) -> Iterator[Line]:
    """Yield the story of each finding in *source*."""
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    told = len(findings) if everything else TOLD
    for finding in findings[:told]:
        yield from excerpt(finding, lines)
        yield ("",)
    for finding in findings[told:]:
        yield next(finding_lines(finding))
    if findings[told:]:
        yield ("",)


def excerpt(finding: Finding, lines: Sequence[str]) -> Iterator[Line]:
    """Yield the report's line and the lines of source that matter, the cause marked and every role underlined."""
    yield ((location(finding.cause), "bold"), ": ", (finding.code, "bold red"), f" {finding.message}")
    here: list[tuple[Span, str]] = [(finding.cause, cause_phrase(finding))]
    for span, phrase in other_places(finding):
        if span.path == finding.cause.path:
            here.append((span, phrase))
        else:
            yield ((location(span), "dim"), ": ", ("note", "cyan"), f": {phrase}")
    gutter = len(str(max(span.line for span, _ in here)))
    last = None
    for span, phrase in sorted(here, key=lambda item: item[0]):
        is_cause = span == finding.cause
        style = "bold red" if is_cause else "cyan"
        source = lines[span.line - 1] if span.line <= len(lines) else ""
        if span.line != last:
            margin = f"{'>' if is_cause else ' '} {span.line:>{gutter}} | "
            yield ((margin, style if is_cause else "dim"), source[:WIDTH])
        yield ((" " * (gutter + 3) + "| ", "dim"), underline(span, source, "^" if is_cause else "-", phrase, style))
        last = span.line


def cause_phrase(finding: Finding) -> str:
    phrases = [role.phrase for role in finding.roles() if role.span == finding.cause]
    return ", and ".join(dict.fromkeys(phrases)) or "here"


def underline(span: Span, source: str, stroke: str, phrase: str, style: str) -> Piece:
    """Return the strokes below *span*'s first line, and its phrase after them."""
    end = span.end_column if span.end_line == span.line else len(source)
    lead = "".join("\t" if char == "\t" else " " * columns(char) for char in source[: span.column])
    strokes = stroke * max(1, sum(columns(char) for char in source[span.column : end].rstrip()))
    return (f"{lead}{strokes} {phrase}", style)


def columns(char: str) -> int:
    """Return how many columns of a terminal *char* takes."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def proof_table(certificate: Certificate, *, whole: bool = False) -> Iterator[Line]:
    """Yield the proof, one point a line: details are cut to the screen's width, unless they are wanted *whole*."""
    screen = min(shutil.get_terminal_size((WIDTH, 0)).columns, WIDTH)
    width = max((len(point.name) for point in certificate.points), default=0)
    verdict_width = max(len(verdict) for verdict in VERDICTS)
    for point in certificate.points:
        verdict = str(point.verdict)
        name = f"  {point.number} {point.name:<{width}}  "
        detail = point.detail if whole else shortened(point.detail, screen - len(name) - verdict_width - 2)
        yield (name, (f"{verdict:<{verdict_width}}", VERDICTS.get(verdict, "")), f"  {detail}".rstrip())


def remarks(certificate: Certificate) -> Iterator[Line]:
    """Yield what a reader must know of how the scripts were run."""
    for remark in certificate.remarks:
        yield (("  note", "cyan"), f": {remark}")


def shortened(text: str, width: int) -> str:
    """Return *text*, or as many of its words as fit *width* columns."""
    return textwrap.shorten(text, max(width, 20), placeholder=" ...")


def runs(certificate: Certificate) -> Iterator[Line]:
    """Yield how far each run came."""
    for name, run in (("before", certificate.before), ("after", certificate.after)):
        if run is not None:
            error = f", {run.error.type} at line {run.error.line}" if run.error else ""
            yield ((f"  {name}: {run.outcome}, {count(run.steps, 'step')}, {run.seconds:.1f} s{error}", "dim"),)


def closing(certificate: Certificate | None) -> Line:
    """Return the verdict in one sentence."""
    if certificate is None:
        return ("Not proved: nothing was executed.",)
    if certificate.proved:
        return (("Proved", "bold green"), ": the patched script trains.")
    first = certificate.points[0]
    if str(first.verdict) != "passed":  # then there is nothing to compare with, and the other points say no more
        hint = "  --python PATH takes another interpreter." if str(certificate.before.outcome) == "not started" else ""
        return (("Not proved", "bold red"), f": {first.detail}.{hint}")
    missing = [f"{point.number}" for point in certificate.points if point.verdict == certificate.verdict]
    what = "failed" if str(certificate.verdict) == "failed" else "could not be shown"
    return (("Not proved", "bold red"), f": {'point' if len(missing) == 1 else 'points'} {', '.join(missing)} {what}.")
