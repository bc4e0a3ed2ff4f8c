"""Repairs one script: the static patch, proved by running the script before and after, or the next one that stands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from autofix import engine, files
from autofix.engine import Analysis
from autofix.evidence import witness
from autofix.project import Project, gather
from autofix.prove import Certificate, Limits, Outcome, RunRecord, Script, Verdict, prove, run_original, run_reference
from autofix.runner import warm_up
from codemods.program import Program

ATTEMPTS = 4
"""Patches that are executed before the search is given up."""


@dataclass(frozen=True)
class Repair:
    """The patch that stood the proof, or the last one that did not, and why others were refused."""

    project: Project
    """The script and the files that it imports."""
    analysis: Analysis
    certificate: Certificate | None = None
    """None where there was nothing to prove."""
    refused: tuple[str, ...] = ()
    note: str = ""
    fails: bool = False
    """Whether the script fails and no patch for it is known."""


def repair(script: Path, args: tuple[str, ...], limits: Limits) -> Repair:
    """Find the mistakes in *script*, patch them, and prove the patch by execution.

    Raises :class:`autofix.files.FileError` and :class:`autofix.engine.SourceError` for a script that cannot be read.
    """
    source = files.read(script)
    warm_up(limits)
    original = Script(script, args=args)
    engine.parse(source.text, source.name)
    project = gather(script, source, within=original.folder)
    analysis = engine.analyse(source.text, source.name, others=project.others)
    before = run_original(original, limits)
    if not analysis.changes:
        return _without_patch(project, analysis, before, original, limits)
    reference: RunRecord | None = None
    refused: list[str] = []
    rejected: set[Program] = set()
    first: tuple[Analysis, Certificate] | None = None
    for _ in range(ATTEMPTS):
        if reference is None and before.failure is not None:
            reference = run_reference(original, limits, before)
        certificate = prove(
            original,
            patched_script(original, project, analysis.repaired),
            limits,
            expected_error=_expected_error(analysis),
            before=before,
            reference=reference,
        )
        first = first or (analysis, certificate)
        if certificate.verdict is not Verdict.FAILED:
            return Repair(project, analysis, certificate, tuple(refused))
        refused.append(_reason(analysis, certificate))
        rejected |= set(analysis.steps)
        analysis = engine.analyse(source.text, source.name, others=project.others, rejected=rejected)
        if not analysis.changes:
            break
    assert first is not None
    return Repair(project, *first, tuple(refused[1:]))


def patched_script(original: Script, project: Project, program: Program) -> Script:
    """The script as it runs in *program*, which holds the project's files with other texts."""
    others = []
    for file in program.files[1:]:
        path, before = project.find(file.path)
        if file.text != before.text:
            others.append((path.relative_to(original.folder).as_posix(), file.text))
    return replace(original, text=program.files[0].text, others=tuple(others))


def _without_patch(project: Project, analysis: Analysis, before: RunRecord, original: Script, limits: Limits) -> Repair:
    """What there is to say of a script for which no patch is known."""
    if before.failure is None:
        if before.outcome in (Outcome.FINISHED, Outcome.STOPPED):
            return Repair(project, analysis, note="The script runs; nothing was changed.")
        return Repair(
            project, analysis, note=f"The script did not run to a result: {before.outcome.value}.", fails=True
        )
    error = before.failure.error
    where = f" at line {error.line}" if error.line else ""
    note = [f"The script fails{where} and no repair is known: {error.message}"]
    # What the run itself shows is worth more than the line of the traceback.
    for told in witness(original, limits)[:1]:
        note += [f"{span.path}:{span.line}:{span.column + 1}: note: {phrase}" for phrase, span in told.story()]
    return Repair(project, analysis, note="\n".join(note), fails=True)


def _expected_error(analysis: Analysis) -> str:
    """A piece of PyTorch's message, where all the mistakes have the same one."""
    errors = {finding.fact.error for finding in analysis.findings if finding.fixed}
    return errors.pop() if len(errors) == 1 else ""


def _reason(analysis: Analysis, certificate: Certificate) -> str:
    remedies = "; ".join(dict.fromkeys(finding.remedy for finding in analysis.findings if finding.fixed))
    failed = next(point for point in certificate.points if point.verdict is Verdict.FAILED)
    return f"{remedies}: {failed.name}: {failed.detail}"
