"""The Python API: ``autofix.check``, ``autofix.run`` and ``autofix.prove``, the commands as functions.

Each calls the function that its command calls, and returns plain frozen data.  Only ``run`` and ``prove`` execute the
user's code, in a child process; none imports torch.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autofix.checking import Result
from autofix.choices import Choices, Plan
from autofix.codemods.facts.base import Span
from autofix.commands import check as checking
from autofix.commands.launch import Bounds, limits, with_settings
from autofix.edits import TextEdit
from autofix.findings import Finding as Found
from autofix.findings import SourceError
from autofix.outcomes import Outcomes, in_order
from autofix.project import files
from autofix.project.cells import NotebookError, cell_of
from autofix.report.cells import in_cells, repair_in_cells
from autofix.results import (
    AutofixError,
    CheckResult,
    Edit,
    Execution,
    Finding,
    Place,
    Point,
    Problem,
    ProveResult,
    RunResult,
    StoryPlace,
)

if TYPE_CHECKING:
    from autofix.execution.record import RunRecord
    from autofix.proof.prove import Certificate

PathLike = str | os.PathLike[str]


def check(
    *paths: PathLike,
    source: str | None = None,
    filename: PathLike = "source.py",
    select: Sequence[str] = (),
    extend_select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    exclude: Sequence[str] = (),
    extend_exclude: Sequence[str] = (),
    unsafe_fixes: bool | None = None,
    fix: bool = False,
    config: PathLike | None = None,
    isolated: bool = False,
    baseline: PathLike | None = None,
    since: str | None = None,
) -> CheckResult:
    """Find mistakes by reading the source; runs nothing.

    *paths* are files and folders; without any, and without *source*, the working directory is read.  *source* is the
    text of one file instead, which is called *filename* and read as if it were saved there: what it imports is looked
    for around that place.  Settings apply as for the command.  Only with *fix* are files written.  Raises
    :class:`AutofixError` for unusable arguments or settings; a file that cannot be read is a problem of the result.
    """
    if source is not None and (paths or fix):
        raise AutofixError("source is checked alone and never written: leave out paths and fix.")
    told: list[str] = []
    with _errors():
        plan = Plan(
            Choices(
                select=_strings("select", select),
                extend_select=_strings("extend_select", extend_select),
                ignore=_strings("ignore", ignore),
                exclude=_strings("exclude", exclude),
                extend_exclude=_strings("extend_exclude", extend_exclude),
                unsafe=unsafe_fixes,
                config=None if config is None else Path(config),
                isolated=isolated,
                baseline=None if baseline is None else Path(baseline),
                since=since,
            )
        )
        report = Outcomes(tell=told.append)
        if source is not None:
            name = files.display_name(Path(filename))
            report.add(checking.examine_source(source.encode(), name, plan))
        else:
            _, outcomes = checking.examine([Path(path) for path in paths] or [Path()], plan, told.append)
            for outcome in outcomes:
                report.add(outcome)
    if fix:
        report.write()
    report.add_unused()
    patch = report.patch_text()
    return CheckResult(
        findings=_findings(report),
        problems=tuple(Problem(one.name, one.line, one.column, one.reason) for one in report.problems),
        files=len(report.results),
        patch=patch,
        patched=_patched(report),
        written=tuple(report.written),
    )


def run(
    program: PathLike | Sequence[str],
    *,
    static: bool = True,
    fix: bool = False,
    root: PathLike | None = None,
    cwd: PathLike | None = None,
    python: str | None = None,
    steps: int = 20,
    timeout: float = 300.0,
    budget: float | None = None,
    seed: int = 0,
    device: str | None = None,
    memory: int | None = None,
    allow_network: bool = False,
    allow_write: Sequence[PathLike] = (),
) -> RunResult:
    """Repair one program and prove the repair by running it as it is and as it is patched.  Executes user code.

    *program* is a script, or the words of the command line: ``["train.py", "--epochs", "3"]``,
    ``["-m", "package.train"]``, ``["--", "torchrun", "train.py"]``.  Without *static*, the repair comes from the run
    alone.  With *fix*, a proved patch is written.  The other arguments are the options of ``autofix run``; *memory*
    is in bytes.  Raises :class:`AutofixError` for a program that cannot be read or started.
    """
    from autofix.repair import repair

    bounds = _bounds(
        root, cwd, python, steps, timeout, budget, seed, device, memory, network=allow_network, writable=allow_write
    )
    with _errors():
        invocation, chosen = with_settings(_words(program), bounds)
        outcome = repair(invocation.script, limits(chosen, invocation.python), static=static)
    report = Outcomes(tell=lambda _: None)
    report.add(Result(outcome.project, outcome.analysis))
    patch = report.patch_text()
    proved = outcome.certificate is not None and outcome.certificate.proved
    if fix and proved:
        report.write()
        if report.problems:
            raise AutofixError(str(report.problems[0]))
    outcome = repair_in_cells(outcome)
    return RunResult(
        findings=_findings(report),
        patch=patch,
        patched=_patched(report),
        proof=None if outcome.certificate is None else _proof(outcome.certificate),
        fails=outcome.fails,
        note=outcome.note,
        refused=outcome.refused,
        written=tuple(report.written),
    )


def prove(
    program: PathLike | Sequence[str],
    fixed: PathLike | None = None,
    *,
    patch: str | bytes | None = None,
    against: str | None = None,
    root: PathLike | None = None,
    cwd: PathLike | None = None,
    python: str | None = None,
    steps: int = 20,
    timeout: float = 300.0,
    budget: float | None = None,
    seed: int = 0,
    device: str | None = None,
    memory: int | None = None,
    allow_network: bool = False,
    allow_write: Sequence[PathLike] = (),
) -> ProveResult:
    """Hold a repair that somebody else made to the proof.  Executes user code.

    The repair is the script *fixed*, the unified diff *patch* (its text, not a path), or the files as they are now,
    *against* a revision of git.  *program* and the other arguments are those of :func:`run`.  Nothing is written.
    Raises :class:`AutofixError`.
    """
    from autofix.commands.prove import judged, sides

    if sum(one is not None for one in (fixed, patch, against)) != 1:
        raise AutofixError("prove wants one of fixed, patch and against.")
    bounds = _bounds(
        root, cwd, python, steps, timeout, budget, seed, device, memory, network=allow_network, writable=allow_write
    )
    diff = None if patch is None else (patch.encode() if isinstance(patch, str) else patch, "patch")
    with _errors():
        invocation, chosen = with_settings(_words(program), bounds)
        file = files.read(invocation.script.path)
        before, after = sides(invocation.script, None if fixed is None else Path(fixed), diff, against)
        return _proof(judged(before, after, file, limits(chosen, invocation.python)))


@contextmanager
def _errors() -> Iterator[None]:
    """Raise the errors that a command would print for the user as :class:`AutofixError`."""
    try:
        yield
    except click.ClickException as error:
        raise AutofixError(error.message) from None
    except (files.FileError, SourceError) as error:
        raise AutofixError(str(error)) from None


def _strings(name: str, values: Sequence[str]) -> tuple[str, ...]:
    """*values* as a tuple.  Raises :class:`AutofixError` for one string, which is a sequence of letters by accident."""
    if isinstance(values, str):
        raise AutofixError(f'{name} is a list of strings: write {name}=["{values}"].')
    return tuple(values)


def _words(program: PathLike | Sequence[str]) -> tuple[str, ...]:
    words = (os.fspath(program),) if isinstance(program, (str, os.PathLike)) else tuple(program)
    if not words:
        raise AutofixError("no program: name a script, -m and a module, or -- and a command.")
    return words


def _bounds(
    root: PathLike | None,
    cwd: PathLike | None,
    python: str | None,
    steps: int,
    timeout: float,
    budget: float | None,
    seed: int,
    device: str | None,
    memory: int | None,
    *,
    network: bool,
    writable: Sequence[PathLike],
) -> Bounds:
    if steps < 1 or timeout <= 0 or (budget is not None and budget <= 0):
        raise AutofixError("steps, timeout and budget must be positive.")
    if device not in (None, "cpu"):
        raise AutofixError(f"device {device!r} is not known: leave it out, or write 'cpu'.")
    return {
        "root": None if root is None else Path(root),
        "cwd": None if cwd is None else Path(cwd),
        "steps": steps,
        "timeout": timeout,
        "budget": budget,
        "python": python,
        "seed": seed,
        "device": device,
        "memory": memory,
        "allow_network": network,
        "allow_write": tuple(os.path.realpath(path) for path in writable),
    }


def _findings(report: Outcomes) -> tuple[Finding, ...]:
    shown = in_cells(report)
    repairs = shown.repairs
    return tuple(_finding(one, repairs.get(one, ()), report.written) for one in in_order(shown.findings))


def _patched(report: Outcomes) -> dict[str, str]:
    """Texts of the files that the patch changes, by path; for a notebook its JSON, where it can be written."""
    found: dict[str, str] = {}
    for edit in report.edits:
        notebook = edit.file.notebook
        with suppress(NotebookError):
            found[edit.file.name] = edit.text if notebook is None else notebook.with_text(edit.text)
    return found


def _finding(finding: Found, edits: Sequence[TextEdit], written: Sequence[str]) -> Finding:
    return Finding(
        code=finding.code,
        name=finding.name,
        message=finding.message,
        certainty=finding.certainty.value,
        place=_place(finding.cause),
        story=tuple(
            StoryPlace(role.name, role.phrase, _place(role.span), role.span == finding.cause)
            for role in finding.roles()
        ),
        fix=finding.remedy,
        edits=tuple(Edit(_place(edit.span), edit.text) for edit in edits),
        safe=finding.fixed and finding.safe,
        needs_review=finding.needs_review,
        fixed=finding.fixed and cell_of(finding.cause.path)[0] in written,
    )


def _place(span: Span) -> Place:
    return Place(span.path, span.line, span.column + 1, span.end_line, span.end_column + 1)


def _proof(certificate: Certificate) -> ProveResult:
    return ProveResult(
        proved=certificate.proved,
        verdict=certificate.verdict.value,
        points=tuple(
            Point(point.number, point.name, point.verdict.value, point.detail, dict(point.figures))
            for point in certificate.points
        ),
        remarks=certificate.remarks,
        before=_execution(certificate.before),
        after=_execution(certificate.after),
    )


def _execution(record: RunRecord) -> Execution:
    error = record.error
    return Execution(
        outcome=record.outcome.value,
        error="" if error is None else str(error),
        error_line=None if error is None else error.line,
        steps=record.steps,
        losses=record.losses,
        seconds=record.seconds,
    )
