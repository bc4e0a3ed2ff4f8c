"""The outcome of one check as a text, and back: its files are read from the disk again, unchanged since the check."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from autofix.cache.values import document, value
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.source.program import Program
from autofix.findings import Analysis
from autofix.project.files import SourceFile
from autofix.project.members import Project, unread

NOTHING = ""
"""Text for a file of which there is nothing to report, and whose outcome does not depend on other files."""


class Read(NamedTuple):
    """A file with the files that it imports, and their analysis."""

    project: Project
    analysis: Analysis


class Unread(NamedTuple):
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
        "brief": project.is_unread,
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
        outcome.project.is_unread
        and not (outcome.project.companions or outcome.project.roots)
        and analysis.complete
        and not (analysis.passes or analysis.missed)
    )


Reader = Callable[[Path], SourceFile]
"""Function that reads a file of an outcome which has texts."""


def read(text: str, path: Path, name: str, reader: Reader) -> tuple[object, Callable[[], Read | Unread]]:
    """The answers that the outcome in a text rests on, and the outcome itself, for the file *name* at *path*.

    Both may raise anything where the text is not one that :func:`written` made.
    """
    if text == NOTHING:
        return None, lambda: _nothing(path, name)
    answers, told = json.loads(text)
    if isinstance(told, list):
        reason, line, column = told
        return answers, lambda: Unread(str(reason), int(line), int(column))
    return answers, lambda: _read(told, path, name, reader)


def _nothing(path: Path, name: str) -> Read:
    return Read(Project(path, SourceFile.unread(name)), Analysis(Patch(Program.of("", name)), ()))


def _read(told: dict[str, object], path: Path, name: str, reader: Reader) -> Read:
    match told:
        case {
            "brief": bool(brief),
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
            file = SourceFile.unread(name) if brief else reader(path)
            paths = {other: _path(place) for other, place in places}
            companions = {
                other: unread(other, place) if brief else (place, reader(place)) for other, place in paths.items()
            }
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


@lru_cache(maxsize=4096)
def _path(place: str) -> Path:
    """The path of a file: many programs have the same companions."""
    return Path(place)
