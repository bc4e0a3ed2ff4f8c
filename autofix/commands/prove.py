"""``autofix prove``: hold a repair that somebody else made to the same proof."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from autofix import pages
from autofix.commands.launch import Bounds, limits, warn_of_misplaced, with_settings
from autofix.commands.waiting import busy, tell
from autofix.exits import Exit
from autofix.project import files
from autofix.project.notebook import SUFFIX
from autofix.report import formats
from autofix.report.base import Proved

if TYPE_CHECKING:
    from autofix.proof.prove import Script


def prove(
    words: Sequence[str],
    fixed: Path | None,
    *,
    patch: Path | None,
    against: str | None,
    html: Path | None,
    output_format: str,
    quiet: bool,
    verbose: bool,
    **bounds: Unpack[Bounds],
) -> Exit:
    """Hold a repair that somebody else made to the same proof.

    It is the script *fixed*, the diff *patch*, or the files as they are, *against* a revision of git.
    """
    from autofix.foreign import DiffError
    from autofix.proof import prove as prover
    from autofix.repair import granted

    if html is not None:
        pages.require(html)
    program, chosen = with_settings(words, bounds)
    if program.script.path.suffix == SUFFIX and (patch is not None or against is not None):
        raise click.UsageError("A notebook is judged against another one: autofix prove BROKEN.ipynb FIXED.ipynb")
    original, within = program.script, limits(chosen, program.python)
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
        certificate = prover.prove(prover.Original(original, within), patched, granted(original, file, within))
        view = pages.view_of_proof(certificate, original, patched, within) if html is not None else None
    told = Proved(certificate, view, html)
    for name in (["html"] if html else []) + [output_format]:
        formats.reporter(name)(sys.stdout, quiet=quiet, verbose=verbose).proof(told)
    return Exit.CLEAN if certificate.proved else Exit.LEFT


def in_place_of(original: Script, fixed: Path) -> Script:
    """The script *fixed*, started as *original* is; from its own project, where it lies in another."""
    from autofix.project.layout import layout_of

    inside = fixed.resolve().is_relative_to(original.folder)
    root = original.root if inside else layout_of(fixed, cwd=original.cwd).root
    text = files.read(fixed).text if SUFFIX in (original.path.suffix, fixed.suffix) else None
    return replace(original, path=fixed, root=root, text=text)


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
