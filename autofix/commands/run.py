"""``autofix run``: repair one program, and prove the repair by running it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autofix import engine, pages
from autofix.checking import Problem, Result
from autofix.commands.launch import Bounds, limits, tell_of_kernel, warn_of_misplaced
from autofix.commands.waiting import tell
from autofix.exits import Exit
from autofix.outcomes import Outcomes
from autofix.project import files
from autofix.report import formats, live
from autofix.report.base import Repaired, Reporter
from autofix.report.cells import in_cells, repair_in_cells, view_in_cells
from autofix.report.terminal import wants_colour

if TYPE_CHECKING:
    from autofix.execution.invocation import Invocation
    from autofix.proof.prove import Script
    from autofix.repair import Repair


def run(
    program: Invocation,
    bounds: Bounds,
    *,
    static: bool,
    fix: bool,
    output_format: str,
    html: Path | None,
    quiet: bool,
    verbose: bool,
) -> Exit:
    """Repair a *program* and prove the repair.  Only a proved patch is written, or handed to a program."""
    from autofix.repair import repair

    if html is not None:
        pages.require(html)
    original = program.script
    names = (["html"] if html else []) + [output_format]
    reporters = [formats.reporter(name)(sys.stdout, quiet=quiet, verbose=verbose, fix=fix) for name in names]
    watcher = live.Report(Early(reporters, original), live=wants_colour(sys.stderr), echo=verbose)
    within = limits(bounds, program.python, watcher)
    if not quiet:
        warn_of_misplaced("run", original)
        tell_of_kernel(program)
    try:
        outcome = repair(original, within, static=static)
    except (files.FileError, engine.SourceError) as error:
        tell(str(Problem.of(error)))
        return Exit.LEFT
    report = Outcomes(verbose=verbose, tell=tell)
    report.add(Result(outcome.project, outcome.analysis))
    proved = outcome.certificate is not None and outcome.certificate.proved
    pictured = any(reporter.pictured for reporter in reporters)
    view = pages.view_of_repair(outcome, report.patch_text(), original, within if pictured else None)
    patch = report.patch()
    if fix and proved:
        report.write()
    view, repairs = view_in_cells(view, outcome), in_cells(report).repairs
    told = Repaired(repair_in_cells(outcome), view, patch, tuple(report.written), html, repairs)
    for reporter in reporters:
        reporter.repair(told)
    return report.exit(Exit.CLEAN if proved or nothing_to_repair(outcome) else Exit.LEFT)


@dataclass(frozen=True)
class Early:
    """Callback that hands early results to the reporters, before the last run is over."""

    reporters: Sequence[Reporter]
    script: Script

    def __call__(self, early: Repair, by_run: bool) -> None:
        for reporter in self.reporters:
            if by_run:
                reporter.shown(view_in_cells(pages.view_of_repair(early, "", self.script), early))
            else:
                reporter.read(repair_in_cells(early))


def nothing_to_repair(outcome: Repair) -> bool:
    """Whether the script runs as it is, and there is nothing to prove."""
    return outcome.certificate is None and not outcome.fails and not outcome.analysis.changes
