"""What each command does: call the engine or the proof, print the report, return the exit code."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from autofix import check as checker
from autofix import engine
from autofix.check import Problem, Result
from autofix.engine import Finding
from autofix.exits import Exit
from autofix.outcomes import Outcomes, in_order
from autofix.progress import SILENT
from autofix.project import files
from autofix.report import lines, live, machine
from autofix.report.terminal import Printer, wants_colour

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from autofix.execution.invocation import Invocation
    from autofix.progress import Watcher
    from autofix.proof.prove import Certificate, Limits, Script
    from autofix.repair import Repair
    from autofix.report.story import Line
    from autofix.report.view import View

# check ---------------------------------------------------------------------------------------------------------------


def check(
    paths: Sequence[Path],
    *,
    fix: bool,
    diff: bool,
    as_json: bool,
    unsafe: bool,
    select: Sequence[str],
    stdin_filename: str | None,
    absolute: bool,
    quiet: bool,
    verbose: bool,
) -> Exit:
    """Analyse *paths* and print findings, or one patch, or write the patched files."""
    codes = selected(select)
    standard_input = paths[0] == Path(files.STANDARD_INPUT)
    outcomes: Iterable[Result | Problem]
    if standard_input:
        outcomes, asked = [examine_standard_input(stdin_filename, codes, fix=fix, unsafe=unsafe)], 1
    else:
        found = files.discover(paths)
        if not found:
            tell(f"autofix: no Python files under {', '.join(map(str, paths))}")
        outcomes, asked = (
            watched(checker.check(found, select=codes, from_root=absolute, unsafe=unsafe), len(found)),
            len(found),
        )
    report = Outcomes(select=codes, unsafe=unsafe, verbose=verbose, tell=tell)
    for outcome in outcomes:
        report.add(outcome)
        if verbose and isinstance(outcome, Result):
            part = "" if outcome.analysis.complete else ", read in part"
            tell(f"{outcome.file.name}: {lines.count(len(outcome.analysis.findings), 'mistake')}{part}")

    if diff:
        sys.stdout.flush()
        sys.stdout.buffer.write(report.patch())
        return report.exit(Exit.LEFT if report.edits else Exit.CLEAN)
    if fix and standard_input:
        report.write_standard_output()
    elif fix:
        report.write()
    left = in_order(report.left() if fix else report.findings)
    if as_json:
        document = machine.check_document(
            in_order(report.findings),
            report.problems,
            report.patch_text(),
            files=len(report.results),
            written=report.written,
            passes=report.passes,
            missed=report.missed,
        )
        print(machine.render(document))
    else:
        printer = Printer(sys.stderr if fix and standard_input else sys.stdout)
        for finding in left:
            print_finding(printer, finding, quiet=quiet, verbose=verbose)
        if not quiet:
            unread = asked - len(report.results)
            partly = sum(not result.analysis.complete for result in report.results)
            if verbose:
                for (name, line), reason in report.missed.items():
                    tell(f"{name}:{line}: this backward pass was not followed: {reason}")
            summary = lines.summary(
                left,
                len(report.results),
                fixed=report.fixed,
                unread=unread,
                partly=partly,
                passes=report.passes,
                missed=len(report.missed),
            )
            printer.line(summary)
    return report.exit(Exit.LEFT if left else Exit.CLEAN)


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


def print_finding(printer: Printer, finding: Finding, *, quiet: bool, verbose: bool) -> None:
    told = list(lines.finding_lines(finding))
    for line in told[:1] if quiet else told:
        printer.line(*line)
    if verbose and finding.remedy:
        printer.line((lines.location(finding.cause), "dim"), ": ", ("help", "cyan"), f": {finding.remedy}")


# run and prove -------------------------------------------------------------------------------------------------------


class Bounds(TypedDict):
    """The options of ``run`` and ``prove`` that place and bound an execution."""

    root: Path | None
    cwd: Path | None
    steps: int
    timeout: float
    budget: float
    python: str | None
    seed: int
    device: str | None
    memory: int | None
    allow_network: bool
    allow_write: tuple[str, ...]


def run(
    words: Sequence[str],
    *,
    static: bool,
    fix: bool,
    diff: bool,
    html: Path | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **bounds: Unpack[Bounds],
) -> Exit:
    """Repair the program of *words* and prove the repair.  Only a proved patch is written, or handed to a program."""
    from autofix import pages
    from autofix.repair import repair

    if html is not None:
        pages.require(html)
    program = started(words, bounds)
    original = program.script
    shown: list[object] = []
    live_line = wants_colour(sys.stderr)

    def found(early: Repair, by_run: bool) -> None:
        """Tell the cause before any patch is tried."""
        if quiet or as_json or diff:
            return
        if not by_run:
            if not (live_line or verbose):  # only a person who waits
                return
            for finding in early.analysis.findings:
                tell(f"{lines.location(finding.cause)}: {finding.code} {finding.message} (read, not run yet)")
            return
        story_lines = story_of(early, original, verbose=verbose)
        if story_lines and not shown:
            shown.extend(story_lines)
            printer = Printer(sys.stdout)
            for line in story_lines:
                printer.line(*line)
            sys.stdout.flush()

    watcher = live.Report(found, live=live_line, echo=verbose)
    within = limits(bounds, program.python, watcher)
    if not quiet:
        warn_of_misplaced("run", original)
    try:
        outcome = repair(original, within, static=static)
    except (files.FileError, engine.SourceError) as error:
        tell(str(Problem.of(error)))
        return Exit.LEFT
    report = Outcomes(verbose=verbose, tell=tell)
    report.add(Result(outcome.project, outcome.analysis))
    proved = outcome.certificate is not None and outcome.certificate.proved
    patch = report.patch_text()
    told = pages.view_of_repair(outcome, patch, original, within if html else None)
    if html is not None:
        pages.write(html, told)
    if fix and proved:
        report.write()
    if as_json:
        print(machine.render(machine.repair_document(outcome, told, report.written)))
    elif diff:
        print_proved_patch(report, outcome)
    else:
        print_repair(Printer(sys.stdout), told, quiet=quiet, verbose=verbose, shown=shown)
        if report.written:
            print(f"Wrote {', '.join(report.written)}.")
        elif proved and not fix and not quiet:
            print("Nothing was written; --fix writes the patch.")
        if html is not None and not quiet:
            print(f"The page is {html}.")
    return report.exit(Exit.CLEAN if proved or nothing_to_repair(outcome) else Exit.LEFT)


def nothing_to_repair(outcome: Repair) -> bool:
    """Whether the script runs as it is, and there is nothing to prove."""
    return outcome.certificate is None and not outcome.fails and not outcome.analysis.changes


def print_proved_patch(report: Outcomes, outcome: Repair) -> None:
    """Print the patch as bytes, for a program to take; without a proof, the reason on standard error instead."""
    from autofix.report import story

    if outcome.certificate is None or not outcome.certificate.proved:
        closing = "".join(piece if isinstance(piece, str) else piece[0] for piece in story.closing(outcome.certificate))
        tell(" ".join(filter(None, [closing, outcome.note])))
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(report.patch())


def story_of(early: Repair, script: Script, *, verbose: bool) -> list[Line]:
    """The story of what is known before a patch is tried, as lines."""
    from autofix import pages
    from autofix.report import story

    return list(story.tell(pages.view_of_repair(early, "", script), everything=verbose))


def print_repair(printer: Printer, told: View, *, quiet: bool, verbose: bool, shown: Sequence[object] = ()) -> None:
    """Print cause, patch and proof; the cause only where it is not what was *shown* before."""
    from autofix.report import story

    if not quiet and list(story.tell(replace(told, patch=""), everything=verbose)) != shown:
        for line in story.tell(told, everything=verbose):
            printer.line(*line)
    if told.patch:
        for remedy in told.remedies:
            printer.line(("remedy", "green"), f": {remedy}")
        printer.patch(told.patch)
        printer.line()
    if told.certificate is not None:
        print_certificate(printer, told.certificate, quiet=quiet, verbose=verbose)
    elif told.patch:
        printer.line(*story.closing(None))
    if verbose or not told.proved:
        for line in story.refusals(told, everything=verbose):
            printer.line(*line)
    if told.note:
        printer.line(told.note)


def prove(
    words: Sequence[str],
    fixed: Path | None,
    *,
    patch: Path | None,
    against: str | None,
    html: Path | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
    **bounds: Unpack[Bounds],
) -> Exit:
    """Hold a repair that somebody else made to the same proof.

    It is the script *fixed*, the diff *patch*, or the files as they are, *against* a revision of git.
    """
    from autofix import pages
    from autofix.foreign import DiffError
    from autofix.proof import prove as prover
    from autofix.repair import granted

    if html is not None:
        pages.require(html)
    program = started(words, bounds)
    original, within = program.script, limits(bounds, program.python)
    if not quiet:
        warn_of_misplaced("prove", original)
    try:
        file = files.read(original.path)
        if patch is not None:
            original, patched = with_diff(original, patch)
        elif against is not None:
            original, patched = since_revision(original, against)
        else:
            patched = in_place_of(original, fixed or original.path)
        files.read(patched.path)
    except files.FileError as error:
        tell(str(error))
        return Exit.FAILED if isinstance(error, DiffError) else Exit.LEFT
    with busy(f"running {original.path} as it is and as it is patched"):
        certificate = prover.prove(prover.Original(original, within), patched, **granted(original, file, within))
        if html is not None:
            pages.write(html, pages.view_of_proof(certificate, original, patched, within))
    if as_json:
        print(machine.render(machine.prove_document(certificate)))
    else:
        print_certificate(Printer(sys.stdout), certificate, quiet=quiet, verbose=verbose)
        if html is not None and not quiet:
            print(f"The page is {html}.")
    return Exit.CLEAN if certificate.proved else Exit.LEFT


def in_place_of(original: Script, fixed: Path) -> Script:
    """The script *fixed*, started as *original* is; from its own project, where it lies in another."""
    from autofix.project.layout import layout_of

    inside = fixed.resolve().is_relative_to(original.folder)
    root = original.root if inside else layout_of(fixed, cwd=original.cwd).root
    return replace(original, path=fixed, root=root)


def with_diff(script: Script, diff: Path) -> tuple[Script, Script]:
    """Return *script* before and after the diff in a file, or on standard input, which is applied in memory."""
    from autofix.foreign import both_sides

    if str(diff) == files.STANDARD_INPUT:
        return both_sides(script, sys.stdin.buffer.read(), files.STDIN_NAME)
    name = files.display_name(diff)
    try:
        data = diff.read_bytes()
    except OSError as error:
        raise files.FileError(name, f"cannot be read: {files.reason_of(error)}") from None
    return both_sides(script, data, name)


def since_revision(script: Script, revision: str) -> tuple[Script, Script]:
    """Return *script* as git has its project at *revision*, and as it is on the disk."""
    from autofix.revision import since

    return since(script, revision)


def started(words: Sequence[str], bounds: Bounds | None = None) -> Invocation:
    """The program that *words* start, under these options.  Raises :class:`click.UsageError`."""
    from autofix.execution.invocation import InvocationError, invocation

    try:
        if bounds is None:
            return invocation(words)
        return invocation(words, root=bounds["root"], cwd=bounds["cwd"], python=bounds["python"])
    except InvocationError as error:
        raise click.UsageError(str(error)) from None


def warn_of_misplaced(command: str, script: Script) -> None:
    """Say which of autofix's own options stand behind the script, so that they are handed to it."""
    from autofix.execution.invocation import misplaced
    from autofix.project.gather import gather

    context = click.get_current_context(silent=True)
    if context is None or not script.args:
        return
    own = [name for option in context.command.params for name in option.opts if name.startswith("--")]
    try:
        project = gather(script.path, files.read(script.path))
    except files.FileError:
        return
    for name in misplaced(script, [project.file.text, *project.others.values()], own):
        tell(
            f"autofix: warning: {name} stands behind {script.path} and is handed to it; "
            f"for autofix, write: autofix {command} {name} ... {script.path}"
        )


def limits(bounds: Bounds, python: str, watcher: Watcher | None = None) -> Limits:
    from autofix.proof.prove import Limits

    return Limits(
        python=python,
        steps=bounds["steps"],
        timeout=bounds["timeout"],
        deadline=time.monotonic() + bounds["budget"],
        watcher=watcher or SILENT,
        seed=bounds["seed"],
        device=bounds["device"] or "",
        network=bounds["allow_network"],
        writable=bounds["allow_write"],
        memory=bounds["memory"] or 0,
    )


def print_certificate(printer: Printer, certificate: Certificate, *, quiet: bool, verbose: bool) -> None:
    from autofix.report import story

    if not quiet:
        for line in (*story.proof_table(certificate, whole=verbose), *story.remarks(certificate)):
            printer.line(*line)
    if verbose:
        for line in story.runs(certificate):
            printer.line(*line)
    printer.line(*story.closing(certificate))


# review and rule -----------------------------------------------------------------------------------------------------


def review(paths: Sequence[Path], *, select: Sequence[str], quiet: bool, verbose: bool) -> Exit:
    """Let a person choose among the hunks of every patch."""
    from autofix.review import Reviewer

    codes = selected(select)
    report = Outcomes(select=codes, verbose=verbose, tell=tell)
    found = files.discover(paths)
    for outcome in watched(checker.check(found, select=codes), len(found)):
        report.add(outcome)
    reviewer = Reviewer(Printer(sys.stdout), quiet=quiet)
    for problem in reviewer.review(report.edits, report.findings):
        report.add(problem)
    return report.exit(Exit.CLEAN)


def rule(code: str | None) -> Exit:
    """Print the catalogue, or one page of it."""
    from autofix.report import catalogue
    from codemods.rules.registry import all_codemods

    known = all_codemods()
    told = list(catalogue.contents(known) if code is None else catalogue.page(code, known))
    if not told:
        raise click.ClickException(f"no mistake is called {code}; `autofix rule` lists them all.")
    printer = Printer(sys.stdout)
    for line in told:
        printer.line(*line)
    return Exit.CLEAN


def selected(select: Sequence[str]) -> tuple[str, ...] | None:
    """Return the codes and prefixes of ``--select``.  Raises :class:`click.UsageError` for one that selects nothing."""
    codes = [code.strip().upper() for option in select for code in option.split(",") if code.strip()]
    if not codes:
        return None
    from codemods.rules.registry import all_codemods

    codemods = all_codemods()
    known = {codemod.code for codemod in codemods} | {fact.code for codemod in codemods for fact in codemod.answers}
    for code in codes:
        if not any(one.startswith(code) for one in known):
            raise click.UsageError(f"--select {code} selects nothing; known codes: {', '.join(sorted(known))}.")
    return tuple(codes)


# While a person waits ------------------------------------------------------------------------------------------------


def tell(message: str) -> None:
    """Print one message on standard error."""
    print(message, file=sys.stderr, flush=True)


def watched(outcomes: Iterator[Result | Problem], total: int) -> Iterator[Result | Problem]:
    """Pass *outcomes* on, under a progress bar where a person watches and the wait is long enough to wonder."""
    if total < 50 or not wants_colour(sys.stderr):
        yield from outcomes
        return
    yield next(outcomes)  # starts the worker processes, which must not be forked beside rich's thread
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("checking", total=total, completed=1)
        for outcome in outcomes:
            progress.advance(task)
            yield outcome


def busy(what: str) -> AbstractContextManager[object]:
    """Show that something runs, where a person watches."""
    if not wants_colour(sys.stderr):
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(what)
