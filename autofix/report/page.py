"""One page that holds a whole repair, for a browser: opens from disk, asks no network and runs no script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING

from markupsafe import Markup, escape
from unidiff.patch import PatchSet

from autofix.codemods.facts.base import Span
from autofix.report import story
from autofix.report.chart import charts, memory
from autofix.report.drawing import drawing, words
from autofix.report.excerpts import excerpts
from autofix.report.frame import rendered
from autofix.report.lines import location
from autofix.report.view import View, quoted

if TYPE_CHECKING:
    from unidiff.patch import Line, PatchedFile


@dataclass(frozen=True)
class DiffLine:
    """A line of a diff: its numbers before and after (0 for none), its sign, and its text."""

    before: int
    after: int
    sign: str
    text: str


@dataclass(frozen=True)
class DiffFile:
    path: str
    hunks: tuple[tuple[str, tuple[DiffLine, ...]], ...]
    """For each hunk its heading and its lines."""


def render(view: View) -> str:
    """Return the page as HTML."""
    told = view.stories[0] if view.stories else None
    paths = {*view.sources, *(place.span.path for one in view.stories for place in one.places)}
    drawn = charts(view.certificate) if view.certificate else ()
    grown = memory(view.certificate) if view.certificate else None
    return rendered(
        "page.html",
        {"ticked": ticked},
        view=view,
        story=told,
        more=view.stories[1:],
        excerpts=excerpts(view, told.places) if told else (),
        quoted=lambda span: quoted(span, view.sources),
        where=lambda span: short(span, paths),
        words=story.WORDS,
        verdict=verdict(view),
        diff=tuple(diff_files(view.patch)),
        charts=tuple((chart, Markup(chart.svg)) for chart in drawn),
        kept=((grown, Markup(grown.svg)),) if grown else (),
        curves={name for chart in drawn for name, curve in chart.curves.items() if curve},
        drawing=drawing(view),
        described=words,
    )


def ticked(text: str) -> Markup:
    """*text* as HTML, with the parts between backticks as code."""
    pieces = text.split("`")
    if len(pieces) % 2 == 0:  # one without its partner
        return escape(text)
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(piece) if index % 2 else escape(piece) for index, piece in enumerate(pieces))


def short(span: Span, paths: Iterable[str]) -> str:
    """Begin of *span*, by its file's name alone where no other file has it: the path stands above its lines."""
    name = PurePath(span.path).name
    alone = sum(PurePath(path).name == name for path in {span.path, *paths}) == 1
    return location(replace(span, path=name) if alone else span)


def verdict(view: View) -> tuple[str, str]:
    """Conclusion of the report in a sentence, and the name of its style."""
    if view.certificate is None and not view.patch:
        return ("No repair is known.", "open") if view.fails else ("Nothing was changed.", "calm")
    open_only = view.certificate is not None and str(view.certificate.verdict) != "failed"
    return plain(story.closing(view.certificate)), "passed" if view.proved else "unsure" if open_only else "open"


def plain(line: story.Line) -> str:
    return "".join(piece if isinstance(piece, str) else piece[0] for piece in line)


def diff_files(patch: str) -> Iterator[DiffFile]:
    """The files of a diff.  Lines end at a line feed and nowhere else, as in :mod:`autofix.patch`."""
    for file in PatchSet(line + "\n" for line in patch.removesuffix("\n").split("\n")) if patch else ():
        yield DiffFile(file.path, tuple(hunks_of(file)))


def hunks_of(file: PatchedFile) -> Iterator[tuple[str, tuple[DiffLine, ...]]]:
    for hunk in file:
        heading = f"line {hunk.source_start}" + (f", in {hunk.section_header}" if hunk.section_header else "")
        yield heading, tuple(diff_line(line) for line in hunk)


def diff_line(line: Line) -> DiffLine:
    sign = {"+": "+", "-": "\N{MINUS SIGN}", "\\": "\\"}.get(line.line_type, "")
    text = story.shown(line.value.removesuffix("\n").removesuffix("\r"))
    return DiffLine(line.source_line_no or 0, line.target_line_no or 0, sign, text)
