"""A repair as a person wants to read it: the cause in the user's own source, the patch, and the proof."""

from __future__ import annotations

import shutil
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from autofix.codemods.facts.base import Span
from autofix.report.lines import count, joined, location
from autofix.report.terminal import Piece
from autofix.report.view import Place, Story, View, quoted, source_lines

if TYPE_CHECKING:
    from autofix.proof.prove import Certificate

Line = tuple[Piece, ...]

WIDTH = 120
"""Most columns of a line, and the columns assumed where no terminal tells its own."""
TOLD = 1
"""Mistakes that are told with their source, the rest by the line of their cause: all must fit on one screen."""
REFUSED = 8
"""Refused candidates that are told."""
CONTEXT = 2
"""Lines of source above and below the cause; none where there is a long patch to read, which shows them again."""
LONG = 15
"""Lines from which on a patch is long."""
UNDERLINED = 4
"""Lines of a longer cause that are shown."""
TAB = 4
DIRECTIONS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
WORDS = {"walked": "freed via", "retained": "graph kept", "constructed": "built by", "call": "called"}
"""Roles whose name alone says too little."""
VERDICTS = {"passed": "green", "failed": "bold red", "not proved": "yellow", "does not apply": "dim"}


def tell(view: View, *, everything: bool = False) -> Iterator[Line]:
    """Yield every story of *view*: where it is, the cause in its source, and the other places in their order."""
    told = len(view.stories) if everything else TOLD
    for story in view.stories[:told]:
        yield from headline(story)
        yield from excerpt(story, view.sources, CONTEXT if everything or view.patch.count("\n") < LONG else 0)
        yield from places(story, view.sources, everything=everything)
        yield ("",)
    for story in view.stories[told:]:
        yield from headline(story)
    if view.stories[told:]:
        yield ("",)


def headline(story: Story) -> Iterator[Line]:
    where = f"{location(story.cause.span)}: " if story.cause else ""
    yield ((where.removesuffix(": "), "bold"), ": " * bool(where), (story.code, "bold red"), f" {story.message}")


def excerpt(story: Story, sources: Mapping[str, str], context: int) -> Iterator[Line]:
    """Yield the cause underlined, with *context* lines around it."""
    if story.cause is None or story.cause.span.path not in sources:
        return
    span = story.cause.span
    lines = source_lines(sources[span.path])
    if span.line > len(lines):  # the file has changed since it was run
        return
    last = min(span.end_line, span.line + UNDERLINED - 1, len(lines))
    numbers = range(max(1, span.line - context), min(last + context, len(lines)) + 1)
    gutter = len(str(numbers.stop - 1))
    for number in trimmed(numbers, lines, keep=range(span.line, last + 1)):
        inside = span.line <= number <= last
        style = "bold red" if inside else "dim"
        text = cut(shown(lines[number - 1]), screen() - gutter - 5)
        yield ((f"{'>' if inside else ' '} {number:>{gutter}} | ", style), text)
        if inside:
            marked = underline(lines[number - 1], *ends(span, number, lines[number - 1]))
            phrase = f" {cause_phrase(story)}" if number == last else ""
            yield ((" " * (gutter + 3) + "| ", "dim"), (cut(marked + phrase, screen() - gutter - 5), "bold red"))


def trimmed(numbers: range, lines: Sequence[str], keep: range) -> Iterator[int]:
    """*numbers* without the blank lines at either end."""
    full = [number for number in numbers if number in keep or lines[number - 1].strip()]
    yield from (number for number in numbers if full[0] <= number <= full[-1])


def ends(span: Span, number: int, line: str) -> tuple[int, int]:
    """The part of *span* that lies in this *line*, from its first character that is not blank."""
    start = span.column if number == span.line else len(line) - len(line.lstrip())
    return start, span.end_column if number == span.end_line else len(line.rstrip())


def cause_phrase(story: Story) -> str:
    assert story.cause is not None
    return joined(place.phrase for place in story.places if place.span == story.cause.span)


def places(story: Story, sources: Mapping[str, str], *, everything: bool = False) -> Iterator[Line]:
    """Yield a line for each other place: the event, its location and source; and a line with holders of the value."""
    cause = story.cause.span if story.cause else None
    told: dict[Span, list[Place]] = {}
    for place in story.places:
        if place.span != cause:
            told[place.span] = [*told.pop(place.span, []), place]  # where it comes up last
    words = {span: ", ".join(WORDS.get(place.role, place.role) for place in here) for span, here in told.items()}
    width = max(map(len, [*words.values(), *(["held by"] if story.holders else [])]), default=0)
    reach = max((len(location(span)) for span in told), default=0)
    if told:
        yield ("",)
    for span, here in told.items():
        where = location(span)
        room = screen() - width - reach - 6
        text = cut(shown(quoted(span, sources)), max(room, 20))
        yield ((f"  {words[span]:<{width}}  ", "cyan"), (f"{where:<{reach}}", "dim"), f"  {text}".rstrip())
        if everything:
            yield ((" " * (width + 4) + joined(place.phrase for place in here), "dim"),)
        yield from callers(here[0], indent=width + 4, everything=everything)
    if story.holders:
        yield ((f"  {'held by':<{width}}  ", "cyan"), ", ".join(story.holders))


def callers(place: Place, *, indent: int, everything: bool) -> Iterator[Line]:
    """Yield the calls that led to *place*: all of them, or the nearest where it is in another file."""
    nearest = [caller for caller in place.callers[-1:] if caller[1].path != place.span.path]
    for function, span in reversed(place.callers) if everything else nearest:
        yield ((" " * indent + f"called from {location(span)} in {function}", "dim"),)


def refusals(view: View, *, everything: bool = False) -> Iterator[Line]:
    """Yield why each candidate was refused: of many only the first, each on one line, unless *everything* is wanted."""
    told = view.refused if everything else view.refused[:REFUSED]
    for reason in told:
        text = " ".join(reason.split())
        yield (("refused", "yellow"), f": {text if everything else cut(text, screen() - len('refused: '))}")
    if len(view.refused) > len(told):
        yield ((f"         and {len(view.refused) - len(told)} more; -v tells them all", "dim"),)


def shown(source: str) -> str:
    """A line of *source* that can stand anywhere: tabs as blanks, and pictures for characters that steer a terminal."""
    return "".join(picture(char) for char in source.expandtabs(TAB))


def picture(char: str) -> str:
    if char < " ":
        return chr(0x2400 + ord(char))
    # Marks of direction would show the text in another order than the one in which it runs.
    steers = unicodedata.category(char) == "Cc" or unicodedata.bidirectional(char) in DIRECTIONS
    return "\N{REPLACEMENT CHARACTER}" if steers else char


def underline(line: str, start: int, end: int) -> str:
    """The strokes below the characters of *line* from *start* to *end*, after as many blanks as lead to them."""
    lead = columns(shown(line[:start]))
    return " " * lead + "^" * max(1, columns(shown(line[:end])) - lead)


def columns(text: str) -> int:
    """Number of a terminal's columns that *text* takes."""
    return sum(width_of(char) for char in text)


def width_of(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, width: int) -> str:
    """*text*, or as much of it as fits *width* columns."""
    if columns(text) <= width:
        return text
    kept = ""
    for char in text:
        if columns(kept + char) > width - 3:
            break
        kept += char
    return kept + "..."


def screen() -> int:
    """The columns that a line may take."""
    return min(shutil.get_terminal_size((WIDTH, 0)).columns, WIDTH)


def proof_table(certificate: Certificate) -> Iterator[Line]:
    """Yield the proof point by point; a detail that does not fit the screen's width goes on below."""
    width = max((len(point.name) for point in certificate.points), default=0)
    verdict_width = max((len(point.verdict) for point in certificate.points), default=0)
    for point in certificate.points:
        verdict = str(point.verdict)
        name = f"  {point.number} {point.name:<{width}}  "
        margin = len(name) + verdict_width + 2
        first, *more = wrapped(point.detail, max(screen() - margin, 20))
        yield (name, (f"{verdict:<{verdict_width}}", VERDICTS.get(verdict, "")), f"  {first}".rstrip())
        for line in more:
            yield (" " * margin, line)


def remarks(certificate: Certificate) -> Iterator[Line]:
    """Yield the remarks for a reader on how the scripts were run."""
    for remark in certificate.remarks:
        yield (("  note", "cyan"), f": {remark}")


def wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width) or [""]


def runs(certificate: Certificate) -> Iterator[Line]:
    """Yield how far each run came."""
    for name, run in (("before", certificate.before), ("after", certificate.after)):
        if run is not None:
            error = f", {run.error.type} at {run.error.file}:{run.error.line}" if run.error else ""
            yield ((f"  {name}: {run.outcome}, {count(run.steps, 'step')}, {run.seconds:.1f} s{error}", "dim"),)


def closing(certificate: Certificate | None) -> Line:
    """Return the verdict in one sentence."""
    if certificate is None:
        return ("Not proved: nothing was executed.",)
    if certificate.proved:
        by_verdict: dict[str, list[str]] = {}
        for point in certificate.points:
            by_verdict.setdefault(str(point.verdict), []).append(str(point.number))
        open_points, outside = by_verdict.get("not proved", []), by_verdict.get("does not apply", [])
        rest = f"; {numbered(open_points)} could not be shown" if open_points else ""
        rest += f"; {numbered(outside)} {'do' if len(outside) > 1 else 'does'} not apply" if outside else ""
        return (("Proved", "bold green"), f": the patched script {'runs' if '4' in outside else 'trains'}{rest}.")
    first = certificate.points[0]
    if str(first.verdict) != "passed":  # then there is nothing to compare with, and the other points say no more
        elsewhere = str(certificate.before.outcome) == "not started" and "TMPDIR" not in first.detail
        hint = "  --python PATH takes another interpreter." if elsewhere else ""
        return (("Not proved", "bold red"), f": {first.detail}.{hint}")
    second = next((point for point in certificate.points if point.number == 2), first)
    if str(certificate.verdict) == str(second.verdict) == "not proved":  # the patched run itself says too little
        return (("Not proved", "bold red"), f": {second.detail}.")
    missing = [f"{point.number}" for point in certificate.points if point.verdict == certificate.verdict]
    what = "failed" if str(certificate.verdict) == "failed" else "could not be shown"
    return (("Not proved", "bold red"), f": {numbered(missing)} {what}.")


def numbered(points: Sequence[str]) -> str:
    return f"{'point' if len(points) == 1 else 'points'} {', '.join(points)}"
