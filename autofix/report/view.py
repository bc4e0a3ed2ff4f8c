"""View of a repair in one plain form, from which the terminal's story and the page are made."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from autofix.codemods.facts.base import Span
from autofix.codemods.facts.kinds import OF_CODES
from autofix.evidence.witness import PHRASES
from autofix.findings import Finding
from autofix.project.files import display_name

if TYPE_CHECKING:
    from autofix.evidence.witness import Evidence, Site
    from autofix.proof.prove import Certificate
    from autofix.repair import Repair

MESSAGES = {
    "stale graph": "a backward call reaches a graph that an earlier backward has already freed",
    "overwritten": "a tensor is modified in place, but a later backward needs its original value",
    "cut graph": "the loss has no graph: it was dropped on the way",
    "leaf changed": "a parameter is modified in place while autograd records",
    "part changed": "one of several views is modified in place",
    "unrecorded view changed": "a view that was made under no_grad is modified in place under grad mode",
    "unrecorded view read": "a view that was made under no_grad is read after its base was modified in place",
    "out argument": "the result of an operation is written into an existing tensor, which autograd cannot record",
    "graph escapes": "a tensor with a graph is converted or copied to where no graph can be",
    "refused flag": "the result of an operation is told not to require grad",
    "refused leaf": "the result of an operation is told to require grad",
    "refused hook": "a tensor that does not require grad is given a hook",
    "whole numbers": "a tensor of whole numbers is told to require grad",
    "legacy API": "a call that PyTorch 2 no longer knows",
    "graph held": "graphs of earlier steps are kept alive, and no backward uses them",
}
"""Messages for mistakes that a run has shown, by kind of evidence, where no reading of the source says it better."""
CAUSES = {"stale graph": "made", "overwritten": "changed", "cut graph": "cut", "graph held": "made"}
"""The role to look at first, by kind of evidence; for other kinds it is the role that failed."""

ORDER = ("loop", "made", "saved", "kept", "retained", "walked", "freed", "constructed", "changed", "used", "cut")
"""Roles in the order of their events, as far as there is one; the role that failed comes last."""


@dataclass(frozen=True)
class Place:
    """One place of a story: the event there, in a word and in a phrase."""

    role: str
    span: Span
    phrase: str
    is_cause: bool = False
    callers: tuple[tuple[str, Span], ...] = ()
    """The calls that led there, as function and place, the outermost first."""


@dataclass(frozen=True)
class Story:
    """One mistake.  Exactly one place, if there is any, is the cause; places stand in the order of their events."""

    code: str
    message: str
    places: tuple[Place, ...]
    remedy: str = ""
    holders: tuple[str, ...] = ()
    """Names in the source of the holders of the value."""

    @property
    def cause(self) -> Place | None:
        return next((place for place in self.places if place.is_cause), None)


@dataclass(frozen=True)
class View:
    """Everything that a report may show."""

    title: str
    stories: tuple[Story, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    """Path, as spans give it, to text, for every file that a story may touch."""
    patch: str = ""
    certificate: Certificate | None = None
    refused: tuple[str, ...] = ()
    note: str = ""
    fails: bool = False
    """Whether the script fails and no patch for it is known."""
    evidence: tuple[Evidence, ...] = ()
    folder: str = ""
    """The script's, from where the caller is: pictures name files as the script's run does."""

    @property
    def remedies(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(story.remedy for story in self.stories if story.remedy))

    @property
    def proved(self) -> bool:
        return self.certificate is not None and self.certificate.proved

    @property
    def pictured(self) -> Evidence | None:
        """The first evidence that has a picture of the graph."""
        return next((one for one in self.evidence if one.details.get("graph")), None)


def view_of_repair(
    outcome: Repair,
    patch: str,
    *,
    evidence: Sequence[Evidence] = (),
    folder: str = "",
    others: Mapping[str, str] = MappingProxyType({}),
) -> View:
    """View of the outcome of ``run``.

    *folder* leads from the caller to the script's, in which the evidence's paths lie; *others* are texts of files that
    the analysis has not read.
    """
    placed = tuple(in_folder(one, folder) for one in evidence)
    stories = stories_of(outcome.analysis.findings, placed)
    told_by_run = bool(stories) and not outcome.analysis.findings
    return View(
        title=outcome.analysis.path,
        stories=stories,
        sources={**others, **outcome.analysis.program.texts},
        patch=patch,
        certificate=outcome.certificate,
        refused=outcome.refused,
        note=outcome.note.split("\n")[0] if told_by_run else outcome.note,  # the places are in the story
        fails=outcome.fails,
        evidence=placed,
        folder=folder,
    )


def view_of_proof(
    certificate: Certificate,
    title: str,
    patch: str,
    *,
    evidence: Sequence[Evidence] = (),
    folder: str = "",
    sources: Mapping[str, str] = MappingProxyType({}),
) -> View:
    """View of the outcome of ``prove`` for somebody else's *patch*."""
    placed = tuple(in_folder(one, folder) for one in evidence)
    return View(title, stories_of((), placed), sources, patch, certificate, evidence=placed, folder=folder)


def stories_of(findings: Iterable[Finding], evidence: Iterable[Evidence]) -> tuple[Story, ...]:
    """Stories of the *findings* from the source; where there are none, the story of the first evidence from a run."""
    read = tuple(story_of_finding(finding) for finding in findings)
    return read or tuple(story_of_evidence(one) for one in evidence)[:1]


def story_of_finding(finding: Finding) -> Story:
    places = [Place(role.name, role.span, role.phrase, role.span == finding.cause) for role in finding.roles()]
    if not any(place.is_cause for place in places):
        places.insert(0, Place("cause", finding.cause, "here", is_cause=True))
    return Story(finding.code, finding.message, in_order(places), finding.remedy if finding.fixed else "")


def story_of_evidence(evidence: Evidence) -> Story:
    cause = CAUSES.get(evidence.kind, "failed")
    if cause not in evidence.sites:
        cause = "failed"
    told = [role for role in PHRASES if role in evidence.sites]
    places = in_order(
        Place(role, span, phrase, role == cause, callers_of(evidence.sites[role]))
        for role, (phrase, span) in zip(told, evidence.story(), strict=True)
    )
    codes = {fact.kind: fact.code for fact in OF_CODES}
    holders = tuple(dict.fromkeys(holder.name for holder in evidence.holders))
    message = MESSAGES.get(evidence.kind, evidence.kind)
    return Story(codes.get(evidence.kind, ""), message, places, holders=holders)


def in_order(places: Iterable[Place]) -> tuple[Place, ...]:
    return tuple(sorted(places, key=lambda place: ORDER.index(place.role) if place.role in ORDER else len(ORDER)))


def callers_of(site: Site) -> tuple[tuple[str, Span], ...]:
    return tuple(zip(site.functions[:-1], site.spans[:-1], strict=True))


def in_folder(evidence: Evidence, folder: str) -> Evidence:
    """*evidence* with paths as the caller sees them, from where the script's *folder* is."""
    if not folder:
        return evidence
    sites = {
        role: replace(site, spans=tuple(replace(span, path=under(folder, span.path)) for span in site.spans))
        for role, site in evidence.sites.items()
    }
    return replace(evidence, sites=sites)


def under(folder: str, path: str) -> str:
    place = os.path.normpath(os.path.join(folder, path))
    return display_name(Path(place)) if os.path.isabs(place) else place


def quoted(span: Span, sources: Mapping[str, str]) -> str:
    """The source text of *span*, as far as its first line goes; empty where the file is not at hand."""
    lines = source_lines(sources.get(span.path, ""))
    if not 1 <= span.line <= len(lines):
        return ""
    line = lines[span.line - 1]
    return line[span.column : span.end_column if span.end_line == span.line else len(line)].rstrip()


def source_lines(text: str) -> list[str]:
    """The lines of *text*, for any kind of line end."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
