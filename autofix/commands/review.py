"""``autofix review``: a person chooses among the hunks of every patch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from autofix import checking as checker
from autofix.choices import Choices, Plan
from autofix.commands.waiting import tell, watched
from autofix.exits import Exit
from autofix.outcomes import Outcomes
from autofix.project.discovery import discover
from autofix.report.terminal import Printer
from autofix.review import Reviewer


def review(paths: Sequence[Path], choices: Choices, *, quiet: bool, verbose: bool) -> Exit:
    """Let a person choose among the hunks of every patch; a hunk that is not accepted leaves a mistake."""
    plan = Plan(choices)
    report = Outcomes(verbose=verbose, tell=tell)
    found = discover(plan.wanted(paths), tell, plan.excludes)
    for outcome in watched(checker.check(found, plan.options), len(found)):
        report.add(outcome)
    reviewer = Reviewer(Printer(sys.stdout), quiet=quiet)
    for problem in reviewer.review(report.edits, report.findings):
        report.add(problem)
    return report.exit(Exit.LEFT if reviewer.is_refused else Exit.CLEAN)
