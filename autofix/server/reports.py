"""Requests to the analysing process, and its reports: plain data that crosses the pipe between the processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autofix.checking import Problem
from autofix.edits import TextEdit
from autofix.findings import Finding


@dataclass(frozen=True)
class Request:
    """A document to be analysed, among the documents that are open.  Paths are absolute."""

    serial: int
    """Rises from request to request."""
    path: str
    version: int | None
    texts: Mapping[str, str]
    """The texts of the open documents, which take the place of the files on the disk."""


@dataclass(frozen=True)
class Fix:
    """One repair of one finding: its title, and its edits in all files."""

    title: str
    edits: tuple[TextEdit, ...]
    safe: bool
    preferred: bool = False


@dataclass(frozen=True)
class Report:
    """Findings in a document and in the files that it imports.  They name files by their absolute paths."""

    serial: int
    path: str
    version: int | None
    findings: tuple[Finding, ...] = ()
    problems: tuple[Problem, ...] = ()
    fixes: Mapping[Finding, tuple[Fix, ...]] = field(default_factory=dict)
    """The repairs of each finding, the best one first."""
    all_safe: tuple[TextEdit, ...] = ()
    """The edits of all repairs together that lose nothing for certain."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """The texts that the findings' spans point into."""
    companions: frozenset[str] = frozenset()
    """The files that were read with the document."""
    rules: Mapping[str, str] = field(default_factory=dict)
    """The explanation of each code that was found, in Markdown."""
    error: str = ""
    """Reason why there are no results: settings that cannot be used."""


@dataclass(frozen=True)
class Done:
    """No further report on a request follows."""

    serial: int
