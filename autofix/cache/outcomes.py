"""The outcome of one check as a text, and back: its files are read from the disk again, unchanged since the check."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autofix.cache.values import document, value
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.source.program import Program
from autofix.findings import Analysis
from autofix.project.files import SourceFile
from autofix.project.gather import Project

NOTHING = ""
"""Text for a file without findings whose outcome does not depend on other files."""


@dataclass(frozen=True)
class Read:
    """A file with the files that it imports, and their analysis."""

    project: Project
    analysis: Analysis


@dataclass(frozen=True)
class Unread:
    """A file that could not be read as a source, and why."""

    reason: str
    line: int
    column: int


def written(outcome: Read | Unread, answers: object) -> str:
    """The text of an *outcome* that rests on *answers*.  Raises :class:`TypeError` for one that cannot be kept."""
    if isinstance(outcome, Unread):
        return json.dumps([answers, [outcome.reason, outcome.line, outcome.column]])
    project, analysis = outcome.project, outcome.analysis
    if _is_empty(outcome) and answers is None:
        return NOTHING
    told = {
        "companions": [[name, str(path)] for name, (path, _) in project.companions.items()],
        "roots": list(project.roots),
        "whole": len(analysis.program.files) > 1,
        "complete": analysis.complete,
        "findings": document(analysis.findings),
        "silenced": document(analysis.silenced),
        "passes": document(tuple(sorted(analysis.passes))),
        "missed": document(tuple(sorted(analysis.missed.items()))),
        "edits": document(analysis.patch.edits),
    }
    return json.dumps([answers, told])


def _is_empty(outcome: Read) -> bool:
    analysis = outcome.analysis
    return (
        not (outcome.project.companions or outcome.project.roots)
        and analysis.complete
        and not (analysis.findings or analysis.silenced or analysis.passes or analysis.missed or analysis.changes)
    )


def read(
    text: str, path: Path, file: SourceFile, companion: Callable[[str], tuple[Path, SourceFile]]
) -> tuple[object, Callable[[], Read | Unread]]:
    """The answers that the outcome in a text rests on, and the outcome itself, for the *file* at *path*.

    *companion* reads another file, by its name.  Both may raise anything where the text is not one that
    :func:`written` made.
    """
    if text == NOTHING:
        return None, lambda: _nothing(path, file)
    answers, told = json.loads(text)
    if isinstance(told, list):
        reason, line, column = told
        return answers, lambda: Unread(str(reason), int(line), int(column))
    return answers, lambda: _read(told, path, file, companion)


def _nothing(path: Path, file: SourceFile) -> Read:
    program = Program.of(file.text, file.name)
    return Read(Project(path, file), Analysis(Patch(program), ()))


def _read(
    told: dict[str, object], path: Path, file: SourceFile, companion: Callable[[str], tuple[Path, SourceFile]]
) -> Read:
    match told:
        case {
            "companions": list(places),
            "roots": list(roots),
            "whole": bool(whole),
            "complete": bool(complete),
            "findings": list(findings),
            "silenced": list(silenced),
            "passes": list(passes),
            "missed": list(missed),
            "edits": list(edits),
        }:
            companions = {name: companion(place) for name, place in places}
            project = Project(path, file, companions, tuple(roots))
            others = project.others if whole else {}
            program = Program.of(file.text, file.name, others, project.roots if whole else ())
            analysis = Analysis(
                Patch(program, value(edits)),
                value(findings),
                complete,
                frozenset(value(passes)),
                dict(value(missed)),
                value(silenced),
            )
            return Read(project, analysis)
    raise ValueError("no outcome")
