"""Findings as lines that people, editors and ``grep`` read alike: ``path:line:column: CODE message``.

Every place in a finding's story has a line of its own, in the form that compilers give their notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from autofix.codemods.facts.base import Role, Span
from autofix.escaping import escaped
from autofix.findings import Finding
from autofix.report.terminal import Piece


def finding_lines(finding: Finding) -> Iterator[tuple[Piece, ...]]:
    """Yield the line of the cause, then one note for each other place, in the order of the story."""
    mark: Piece = ("[*] ", "cyan") if finding.fixed else ""
    doubt = "" if finding.safe else f" (likely: {finding.fact.doubt})"
    yield ((location(finding.cause), "bold"), ": ", (finding.code, "bold red"), " ", mark, finding.message + doubt)
    for span, phrase in other_places(finding):
        yield ((location(span), "dim"), ": ", ("note", "cyan"), f": {phrase}")


def when_fixed(finding: Finding) -> str:
    """Text before a remedy: the option without which it is left out; empty for a remedy that needs none."""
    return " with --unsafe-fixes" if finding.needs_review else ""


def other_places(finding: Finding) -> Iterator[tuple[Span, str]]:
    """Yield each place but the cause, with all that happens there."""
    places: dict[Span, list[Role]] = {}
    for role in finding.roles():
        places.setdefault(role.span, []).append(role)
    places.pop(finding.cause, None)
    for span, roles in places.items():
        yield span, joined(escaped(role.phrase) for role in roles)


def joined(phrases: Iterable[str]) -> str:
    """What happens at one place, in one sentence; a backward that plays two parts plays the second one later."""
    subject = "this backward "
    told: list[str] = []
    for phrase in dict.fromkeys(phrases):
        again = phrase.startswith(subject) and any(one.startswith(subject) for one in told)
        told.append(f"later {phrase.removeprefix(subject)}" if again else phrase)
    return ", and ".join(told)


def level(finding: Finding) -> Literal["error", "warning"]:
    """Severity of a mistake: an error where PyTorch certainly raises one, else a warning."""
    return "error" if finding.safe and finding.fact.error else "warning"


def location(span: Span) -> str:
    """Return ``path:line:column``, both counted from 1, as editors take it."""
    return f"{escaped(span.path)}:{span.line}:{span.column + 1}"


def count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def summary(
    findings: Sequence[Finding],
    files: int,
    *,
    fixed: int = 0,
    unread: int = 0,
    partly: int = 0,
    passes: int = 0,
    missed: int = 0,
    cells: int = 0,
) -> str:
    """Return the closing line for the *findings* that are left in *files* files, after *fixed* ones were repaired.

    The other arguments are numbers, too: files that are *unread*, because they cannot be read, or *partly* read,
    because they are too long; backward *passes*, and *missed* ones among them; *cells* of notebooks that are no Python.
    """
    if fixed:
        said = f"Fixed {count(fixed, 'mistake')}" + (f", {len(findings)} left" if findings else "")
    elif findings:
        fixable = sum(finding.fixed for finding in findings)
        doubtful = sum(finding.needs_review for finding in findings)
        hints = [f"{fixable} fixable with --fix"] if fixable else []
        hints += [f"{doubtful} with --unsafe-fixes, after a review"] if doubtful else []
        hint = ", ".join(hints) or "none with a safe fix"
        said = f"Found {count(len(findings), 'mistake')} ({hint})"
    else:
        said = f"No mistakes found in {count(files, 'file')}"
    if partly:
        said += f"; {count(partly, 'file')} too long to be read in full"
    if missed:
        said += f"; {passes - missed} of {passes} backward passes were followed (-v names the others)"
    elif passes:
        said += "; the backward pass was followed" if passes == 1 else f"; all {passes} backward passes were followed"
    if cells:
        said += f"; {count(cells, 'cell')} could not be read"
    return f"{said}; {count(unread, 'file')} could not be checked." if unread else f"{said}."
