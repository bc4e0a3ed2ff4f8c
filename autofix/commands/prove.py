"""``autofix prove``: the proof for a repair that somebody else made."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autofix import pages
from autofix.commands.launch import Bounds, limits, tell_of_kernel, warn_of_misplaced
from autofix.commands.waiting import busy, tell
from autofix.exits import Exit
from autofix.project import files
from autofix.project.cells import SUFFIX
from autofix.report import formats
from autofix.report.base import Proved
from autofix.report.cells import cells_of_file, proof_in_cells

if TYPE_CHECKING:
    from autofix.execution.invocation import Invocation
    from autofix.proof.prove import Certificate, Limits, Script


def prove(
    program: Invocation,
    bounds: Bounds,
    fixed: Path | None,
    *,
    patch: Path | None,
    against: str | None,
    html: Path | None,
    output_format: str,
    quiet: bool,
    verbose: bool,
) -> Exit:
    """Hold a repair that somebody else made to the proof, and report.

    The repair is the script *fixed*, the diff *patch*, or the files as they are, *against* a revision of git.
    """
    from autofix.foreign import DiffError
    from autofix.revision import UnknownRevision

    if html is not None:
        pages.require(html)
    if program.script.path.suffix == SUFFIX and (patch is not None or against is not None):
        raise click.UsageError("A notebook is judged against another one: autofix prove BROKEN.ipynb FIXED.ipynb")
    original, within = program.script, limits(bounds, program.python)
    if not quiet:
        warn_of_misplaced("prove", original)
        tell_of_kernel(program)
    try:
        file = files.read(original.path)
        original, patched = sides(original, fixed, None if patch is None else diff_of(patch), against)
    except UnknownRevision as error:
        raise click.ClickException(f"--against {against}: {error.reason}") from None
    except files.FileError as error:
        tell(str(error))
        return Exit.FAILED if isinstance(error, DiffError) else Exit.LEFT
    with busy(f"running {original.path} as it is and as it is patched"):
        certificate = judged(original, patched, file, within)
        view = pages.view_of_proof(certificate, original, patched, within) if html is not None else None
        certificate = proof_in_cells(certificate, cells_of_file(file), cells_of_file(files.read(patched.path)))
    told = Proved(certificate, view, html)
    for name in (["html"] if html else []) + [output_format]:
        formats.reporter(name)(sys.stdout, quiet=quiet, verbose=verbose).proof(told)
    return Exit.CLEAN if certificate.proved else Exit.LEFT


def sides(
    original: Script, fixed: Path | None, diff: tuple[bytes, str] | None, against: str | None
) -> tuple[Script, Script]:
    """The script before and after a repair: by the script *fixed*, a *diff* with its name, or the revision *against*.

    Raises :class:`autofix.project.files.FileError`.
    """
    if diff is not None:
        from autofix.foreign import both_sides

        before, after = both_sides(original, *diff)
    elif against is not None:
        from autofix.revision import since

        before, after = since(original, against)
    else:
        before, after = original, in_place_of(original, fixed or original.path)
    files.read(after.path)
    return before, after


def judged(original: Script, patched: Script, file: files.SourceFile, within: Limits) -> Certificate:
    """Run both scripts and return the certificate of the repair; *file* is the original's as it is on the disk."""
    from autofix.proof import prove as prover
    from autofix.proof.changed import watched
    from autofix.repair import HEALTHY, granted

    before, after = watched(original, patched)
    return prover.prove(prover.Original.of(before, within, HEALTHY), after, granted(original, file, within))


def in_place_of(original: Script, fixed: Path) -> Script:
    """The script *fixed*, started as *original* is; from its own project, where it lies in another."""
    from autofix.project.layout import layout_of

    inside = fixed.resolve().is_relative_to(original.folder)
    root = original.root if inside else layout_of(fixed, cwd=original.cwd).root
    text = files.read(fixed).text if SUFFIX in (original.path.suffix, fixed.suffix) else None
    way = original.way
    if fixed.suffix != SUFFIX and original.path.suffix == SUFFIX:  # a script that was made of the notebook
        from autofix.execution.runner import Way

        way = Way.FILE
    return replace(original, path=fixed, root=root, text=text, way=way)


def diff_of(diff: Path) -> tuple[bytes, str]:
    """The diff in a file, or on standard input, and its name in messages."""
    if str(diff) == files.STANDARD_INPUT:
        return sys.stdin.buffer.read(), files.STDIN_NAME
    name = files.display_name(diff)
    try:
        return diff.read_bytes(), name
    except OSError as error:
        raise files.FileError(name, f"cannot be read: {files.reason_of(error)}") from None
