"""The types of the JSON documents: docs/schema.json is made from them by ``make docs``.

Lines and columns count from 1, columns in code points, and an end is exclusive.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class PositionObject(TypedDict):
    line: int
    column: int


class FileObject(TypedDict):
    """A file, and in a notebook the cell; cells count from 1, those without code too."""

    file: str
    cell: NotRequired[int]


class PlaceObject(FileObject):
    start: PositionObject
    end: PositionObject


class EditObject(PlaceObject):
    """A piece of a file, and the text that takes its place."""

    content: str


class RoleObject(PlaceObject):
    """A place of a finding's story, and what happens there."""

    name: str
    cause: bool
    phrase: str


class FindingObject(TypedDict):
    code: str
    name: str
    message: str
    certainty: str
    fixable: bool
    fixed: bool
    safe: bool
    needs_review: bool
    fix: str
    roles: list[RoleObject]
    edits: list[EditObject]


class ProblemObject(FileObject):
    """A file, or a cell, that could not be checked."""

    line: int
    column: int
    reason: str


class MissedObject(FileObject):
    """A backward pass that was not followed."""

    line: int
    reason: str


class PassesObject(TypedDict):
    written: int
    missed: list[MissedObject]


class HeaderObject(TypedDict):
    version: int
    autofix: str
    command: str


class PointObject(TypedDict):
    number: int
    name: str
    verdict: str
    detail: str
    figures: dict[str, Any]


class ErrorObject(TypedDict):
    type: str
    message: str
    line: int | None


class RunObject(TypedDict):
    outcome: str
    error: ErrorObject | None
    steps: int
    losses: list[Any]
    seconds: float


class ProofObject(TypedDict):
    proved: bool
    verdict: str
    points: list[PointObject]
    remarks: list[str]
    before: RunObject | None
    after: RunObject | None


class CheckDocument(HeaderObject):
    files: int
    passes: PassesObject
    findings: list[FindingObject]
    problems: list[ProblemObject]
    patch: str
    written: list[str]


class RunDocument(HeaderObject):
    findings: list[FindingObject]
    patch: str
    proof: ProofObject | None
    evidence: list[dict[str, Any]]
    refused: list[str]
    note: str
    written: list[str]


class ProveDocument(HeaderObject):
    proof: ProofObject


class RuleObject(TypedDict):
    """How often a mistake was found by a campaign, and in how many repositories."""

    code: str
    name: str
    findings: int
    repositories: int


class RepositoryObject(TypedDict):
    """What came of one repository of a campaign; ``memory`` is in bytes, paths are relative to the report."""

    name: str
    source: str
    command: list[str]
    status: str
    reason: str
    revision: str
    seconds: float
    memory: int
    tries: int
    files: int
    findings: dict[str, int]
    problems: int
    patch: str
    verdict: str
    proved: bool
    branch: str
    branch_note: str
    result: str


class CampaignDocument(HeaderObject):
    asked: int
    left: int
    done: int
    files: int
    seconds: float
    memory: int
    patches: int
    proved: int
    rules: list[RuleObject]
    repositories: list[RepositoryObject]
