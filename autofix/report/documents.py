"""Findings, patch and proof as JSON, in the form that README.md documents under "JSON".

Lines and columns count from 1, columns in code points, and an end is exclusive.  A field may be added without notice;
when one changes its meaning or goes, :data:`VERSION` rises.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from autofix import __version__
from autofix.codemods.facts.base import Role, Span
from autofix.findings import Finding
from autofix.outcomes import in_order
from autofix.project.cells import cell_of

if TYPE_CHECKING:
    from autofix.checking import Problem
    from autofix.edits import TextEdit
    from autofix.evidence.witness import Evidence, Site
    from autofix.outcomes import Outcomes
    from autofix.proof.prove import Certificate, Point, RunRecord
    from autofix.report.base import Repaired
    from autofix.report.schema import (
        CheckDocument,
        FileObject,
        FindingObject,
        HeaderObject,
        PlaceObject,
        PointObject,
        ProblemObject,
        ProofObject,
        ProveDocument,
        RoleObject,
        RunDocument,
        RunObject,
    )

VERSION = 2
Json = dict[str, Any]
RAW = ("graph", "changes")
"""Details of evidence that no document holds: the picture of the graph, and places whose columns count bytes."""


def render(document: object) -> str:
    """Return *document* as text: ASCII only, so that no terminal can spoil it, and without NaN, which is not JSON."""
    return json.dumps(finite(document), indent=2, allow_nan=False)


def finite(value: Any) -> Any:
    """Return *value* with floats that JSON does not know (NaN and the infinities) as strings."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def check_document(found: Outcomes) -> CheckDocument:
    repairs = found.repairs
    findings = in_order(found.findings)
    return {
        **header("check"),
        "files": len(found.results),
        "passes": {
            "written": found.passes,
            "missed": [{**file_of(name), "line": line, "reason": why} for (name, line), why in found.missed.items()],
        },
        "findings": [finding_object(one, repairs.get(one, ()), found.written) for one in findings],
        "problems": [problem_object(problem) for problem in found.problems],
        "patch": found.patch_text(),
        "written": list(found.written),
    }


def repair_document(told: Repaired) -> RunDocument:
    outcome = told.outcome
    certificate = outcome.certificate
    return {
        **header("run"),
        "findings": [finding_object(one, told.repairs.get(one, ()), told.written) for one in outcome.analysis.findings],
        "patch": told.view.patch,
        "proof": None if certificate is None else certificate_object(certificate),
        "evidence": [evidence_object(evidence) for evidence in told.view.evidence],
        "refused": list(outcome.refused),
        "note": outcome.note,
        "written": list(told.written),
    }


def prove_document(certificate: Certificate) -> ProveDocument:
    return {**header("prove"), "proof": certificate_object(certificate)}


def header(command: str) -> HeaderObject:
    return {"version": VERSION, "autofix": __version__, "command": command}


def finding_object(finding: Finding, edits: Sequence[TextEdit] = (), written: Collection[str] = ()) -> FindingObject:
    """One finding, the *edits* that repair it, and whether they are among the files *written*."""
    return {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "certainty": finding.certainty.value,
        "fixable": finding.fixed,
        "fixed": finding.fixed and cell_of(finding.cause.path)[0] in written,
        "safe": finding.fixed and finding.safe,
        "needs_review": finding.needs_review,
        "fix": finding.remedy,
        "roles": [role_object(role, finding) for role in finding.roles()],
        "edits": [{**place(edit.span), "content": edit.text} for edit in edits],
    }


def role_object(role: Role, finding: Finding) -> RoleObject:
    is_cause = role.span == finding.cause
    return {"name": role.name, "cause": is_cause, "phrase": role.phrase, **place(role.span)}


def place(span: Span) -> PlaceObject:
    return {
        **file_of(span.path),
        "start": {"line": span.line, "column": span.column + 1},
        "end": {"line": span.end_line, "column": span.end_column + 1},
    }


def file_of(name: str) -> FileObject:
    """The file of a place, and in a notebook the cell."""
    file, cell = cell_of(name)
    return {"file": file} if cell is None else {"file": file, "cell": cell}


def problem_object(problem: Problem) -> ProblemObject:
    return {**file_of(problem.name), "line": problem.line, "column": problem.column, "reason": problem.reason}


def evidence_object(evidence: Evidence) -> Json:
    """One fact of the failing run.  Details with places in the run's own form are left out: the roles say it better."""
    return {
        "kind": evidence.kind,
        "roles": [{"name": role} | site_object(site) for role, site in evidence.sites.items() if site.spans],
        "holders": [{"name": one.name, "kind": one.kind, "function": one.function} for one in evidence.holders],
        "details": {n: value for n, value in evidence.details.items() if n not in RAW and value is not None},
    }


def site_object(site: Site) -> Json:
    """The place, and the calls that led to it, the outermost first."""
    callers: list[Json] = [
        {**place(span), "function": name} for span, name in zip(site.spans, site.functions, strict=True)
    ]
    return callers[-1] | {"callers": callers[:-1]}


def certificate_object(certificate: Certificate) -> ProofObject:
    return {
        "proved": certificate.proved,
        "verdict": str(certificate.verdict),
        "points": [point_object(point) for point in certificate.points],
        "remarks": list(certificate.remarks),
        "before": None if certificate.before is None else run_object(certificate.before),
        "after": None if certificate.after is None else run_object(certificate.after),
    }


def point_object(point: Point) -> PointObject:
    return {
        "number": point.number,
        "name": point.name,
        "verdict": str(point.verdict),
        "detail": point.detail,
        "figures": dict(point.figures),
    }


def run_object(run: RunRecord) -> RunObject:
    error = run.error
    return {
        "outcome": str(run.outcome),
        "error": None if error is None else {"type": error.type, "message": error.message, "line": error.line},
        "steps": run.steps,
        "losses": list(run.losses),
        "seconds": run.seconds,
    }
