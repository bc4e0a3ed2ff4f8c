"""``autofix check``: read the source, report, and write the patched files where that is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from autofix import check as checker
from autofix.check import Problem, Result
from autofix.commands import selecting
from autofix.commands.waiting import tell, watched
from autofix.escaping import escaped
from autofix.exits import Exit
from autofix.outcomes import Outcomes
from autofix.project import files
from autofix.project.discovery import discover
from autofix.report import formats, lines
from autofix.report.base import Checked
from autofix.report.output import destination


def check(
    paths: Sequence[Path],
    *,
    fix: bool,
    output_format: str | None,
    output_file: Path | None,
    unsafe: bool,
    select: Sequence[str],
    stdin_filename: str | None,
    absolute: bool,
    quiet: bool,
    verbose: bool,
) -> Exit:
    """Analyse *paths*, write the patched files if the user asked to *fix* them, and report."""
    codes = selecting.selected(select)
    standard_input = paths[0] == Path(files.STANDARD_INPUT)
    outcomes: Iterable[Result | Problem]
    if standard_input:
        outcomes, asked = [examine_standard_input(stdin_filename, codes, fix=fix, unsafe=unsafe)], 1
    else:
        found = discover(paths, tell)
        if not found:
            tell(f"autofix: no Python files under {', '.join(map(str, paths))}")
        asked = len(found)
        outcomes = watched(checker.check(found, select=codes, from_root=absolute, unsafe=unsafe), asked)
    report = Outcomes(select=codes, unsafe=unsafe, verbose=verbose, tell=tell)
    for outcome in outcomes:
        report.add(outcome)
        if verbose and isinstance(outcome, Result):
            part = "" if outcome.analysis.complete else ", read in part"
            tell(f"{escaped(outcome.file.name)}: {lines.count(len(outcome.analysis.findings), 'mistake')}{part}")
    if fix and standard_input:
        report.write_standard_output()
    elif fix:
        report.write()
    told = Checked(report, report.left() if fix else report, asked)
    kind = formats.reporter(output_format or formats.default_of_check(to_file=output_file is not None))
    with destination(output_file, sys.stderr if fix and standard_input else sys.stdout) as stream:
        colour = False if output_file is not None else None
        reporter = kind(stream, quiet=quiet, verbose=verbose, fix=fix, colour=colour)
        reporter.findings(told)
    return report.exit(Exit.LEFT if reporter.is_left(told) else Exit.CLEAN)


def examine_standard_input(
    name: str | None, select: Sequence[str] | None, *, fix: bool, unsafe: bool
) -> Result | Problem:
    name = files.STDIN_NAME if name is None else files.display_name(Path(name))
    data = sys.stdin.buffer.read()
    try:
        file = files.decode(data, name)
    except files.FileError as error:
        outcome: Result | Problem = Problem.of(error)
    else:
        outcome = checker.check_file(Path(name), file, select=select, alone=fix, unsafe=unsafe)
    if fix and isinstance(outcome, Problem):
        sys.stdout.buffer.write(data)
    return outcome
