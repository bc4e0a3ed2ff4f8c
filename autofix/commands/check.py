"""``autofix check``: read the source, report, and write the patched files where that is asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

from autofix import checking as checker
from autofix.cache.results import Results
from autofix.cache.store import Store, default_folder
from autofix.checking import Edit, Problem, Result
from autofix.choices import Choices, Plan
from autofix.commands.waiting import tell, watched
from autofix.escaping import escaped
from autofix.exits import Exit
from autofix.outcomes import Outcomes, in_order
from autofix.project import files
from autofix.project.discovery import discover
from autofix.project.layout import is_too_wide
from autofix.report import formats, lines
from autofix.report.base import Checked, Reporter
from autofix.report.output import destination, replace
from autofix.suppression import adding, baseline


class Request(NamedTuple):
    """Options for the use of the findings, and for their report."""

    fix: bool = False
    output_format: str | None = None
    output_file: Path | None = None
    stdin_filename: str | None = None
    absolute: bool = False
    statistics: bool = False
    show_fixes: bool = False
    exit_zero: bool = False
    add_ignores: bool = False
    write_baseline: Path | None = None
    quiet: bool = False
    verbose: bool = False
    no_cache: bool = False
    cache_dir: Path | None = None


def check(paths: Sequence[Path], request: Request, choices: Choices) -> Exit:
    """Analyse *paths*, write the repairs, comments or baseline that *request* asks for, and report."""
    plan = Plan(choices)
    kind = reporter_of(request, plan)
    standard_input = paths[0] == Path(files.STANDARD_INPUT)
    if standard_input:
        outcomes: Iterable[Result | Problem] = [examine_standard_input(request, plan)]
        asked = 1
    else:
        kept = kept_results(request)
        found, outcomes = examine(paths, plan, from_root=request.absolute, results=kept)
        if not found:
            tell(f"autofix: no Python files under {', '.join(map(str, paths))}")
        asked = len(found)
        outcomes = watched(outcomes, asked)
    if request.add_ignores:
        return add_ignores(outcomes, verbose=request.verbose)
    report = gathered(outcomes, verbose=request.verbose)
    if request.write_baseline is not None:
        report.add_unused()
        return write_baseline(report, request.write_baseline)
    if request.fix and standard_input:
        report.write_standard_output()
    elif request.fix:
        report.write()
    report.add_unused()
    left = report
    if request.fix:
        left = report.left(plan.renewed())
        left.add_unused()
    shown = in_places(report)
    told = Checked(shown, in_places(left) if request.fix else shown, asked)
    with destination(request.output_file, sys.stderr if request.fix and standard_input else sys.stdout) as stream:
        reporter = kind(stream, quiet=request.quiet, verbose=request.verbose, fix=request.fix)
        reporter.colour = False if request.output_file is not None else None
        reporter.show_fixes = request.show_fixes
        if request.statistics:
            reporter.statistics(told)
        else:
            reporter.findings(told)
    return report.exit(Exit.LEFT if reporter.is_left(told) and not request.exit_zero else Exit.CLEAN)


def in_places(report: Outcomes) -> Outcomes:
    """The outcomes with every place of a notebook in its cell."""
    if all(one.file.notebook is None for one in report.results):
        return report
    from autofix.report.cells import in_cells  # most files are no notebooks

    return in_cells(report)


def kept_results(request: Request) -> Results | None:
    """Results of earlier checks; None where none are to be kept, or no folder for them is known."""
    folder = None if request.no_cache else request.cache_dir or default_folder()
    return Results(Store(folder), request.absolute) if folder is not None else None


def reporter_of(request: Request, plan: Plan) -> type[Reporter]:
    """The reporter that is asked for, on the command line or in the settings."""
    name = request.output_format or plan.here.output_format
    kind = formats.reporter(name or formats.default_of_check(to_file=request.output_file is not None))
    if request.statistics and not kind.counts:
        raise click.UsageError(f"--statistics has no form in {name}; take full, concise or json.")
    return kind


def examine(
    paths: Sequence[Path],
    plan: Plan,
    tell: Callable[[str], None] = tell,
    *,
    from_root: bool = False,
    results: Results | None = None,
) -> tuple[list[Path], Iterator[Result | Problem]]:
    """The files that *paths* name or contain, and the outcome of each as it comes; *tell* hears of skipped files.

    *results* holds the results of earlier checks.
    """
    here, folders = Path.cwd(), (Path(os.path.abspath(path)) for path in paths if path.is_dir())
    plan.given = tuple(folder for folder in folders if is_too_wide(here) or not folder.is_relative_to(here))
    found = discover(plan.wanted(paths), tell, plan.excludes)
    return found, checker.check(found, plan.options, from_root=from_root, results=results)


def gathered(outcomes: Iterable[Result | Problem], *, verbose: bool) -> Outcomes:
    """The outcomes put together; verbose, with a line for each file as it comes."""
    report = Outcomes(verbose=verbose, tell=tell)
    for outcome in outcomes:
        report.add(outcome)
        if verbose and isinstance(outcome, Result):
            part = "" if outcome.analysis.complete else ", read in part"
            tell(f"{escaped(outcome.file.name)}: {lines.count(len(outcome.analysis.findings), 'mistake')}{part}")
    return report


def examine_standard_input(request: Request, plan: Plan) -> Result | Problem:
    given = request.stdin_filename
    name = files.STDIN_NAME if given is None else files.display_name(Path(given))
    data = sys.stdin.buffer.read()
    outcome = examine_source(data, name, plan, alone=request.fix)
    if request.fix and isinstance(outcome, Problem):
        sys.stdout.buffer.write(data)
    return outcome


def examine_source(data: bytes, name: str, plan: Plan, *, alone: bool = False) -> Result | Problem:
    """Outcome for a source that does not come from its file *name*; its imports are read unless it is *alone*."""
    try:
        file = files.decode(data, name)
    except files.FileError as error:
        return Problem.of(error)
    return checker.check_file(Path(name), file, plan.options(Path(name)), alone=alone)


def add_ignores(outcomes: Iterable[Result | Problem], *, verbose: bool) -> Exit:
    """Write a comment at every finding that suppresses it from now on."""
    report = Outcomes(verbose=verbose, tell=tell)
    sources: dict[str, Edit] = {}
    found = {}
    for outcome in outcomes:
        if isinstance(outcome, Problem):
            report.add(outcome)
            continue
        for finding in outcome.analysis.findings:  # in the files as they are, not as earlier repairs would leave them
            name = finding.cause.path
            found[finding.code, finding.cause] = finding
            path, file = outcome.project.find(name)
            sources[name] = Edit(path, file, file.text)
    done = 0
    for edit in adding.ignores(found.values(), sources):
        if isinstance(edit, Problem):
            report.add(edit)
            continue
        try:
            files.write(edit.path, edit.file, edit.text)
        except files.FileError as error:
            report.add(Problem.of(error))
        else:
            done += sum(one.cause.path == edit.file.name for one in found.values())
    print(f"Added comments for {lines.count(done, 'mistake')}.")
    return report.exit(Exit.CLEAN)


def write_baseline(report: Outcomes, path: Path) -> Exit:
    """Write the findings to a baseline, as known ones."""
    found = in_order(report.findings)
    replace(path, baseline.written(found, report.sources, path))
    print(f"Wrote {lines.count(len(found), 'mistake')} to {files.display_name(path)}.")
    return report.exit(Exit.CLEAN)
