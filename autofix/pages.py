"""Gathers what a report shows, and writes the page that ``--html`` asks for."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autofix.evidence.witness import Evidence, witness
from autofix.execution.guardian import GUARD
from autofix.patch import Change, patch
from autofix.project import files
from autofix.project.layout import names_from_root
from autofix.report import view

if TYPE_CHECKING:
    from autofix.proof.prove import Certificate, Limits, Script
    from autofix.repair import Repair


class PageError(click.ClickException):
    """A page that cannot be drawn or written."""


def require(path: Path) -> None:
    """Raise :class:`PageError` where no page can be written to *path*: better before a long run than after.

    The libraries that draw it are not installed with the tool, which most people use without pages.
    """
    if not path.absolute().parent.is_dir():
        raise PageError(f"{files.display_name(path)} cannot be written: there is no such folder.")
    try:
        import autofix.report.page  # noqa: F401
    except ModuleNotFoundError as error:
        raise PageError(f"--html needs {error.name}, which comes with: pip install 'torch-autofix[html]'") from None


def view_of_repair(outcome: Repair, patch: str, script: Script, limits: Limits | None = None) -> view.View:
    """View of the outcome of ``run`` for *script*; *limits* allow one more run where it has no picture yet."""
    evidence = outcome.evidence or (witness(script, limits) if limits else ())
    folder = files.display_name(script.folder)
    return view.view_of_repair(outcome, patch, evidence=evidence, folder=folder, others=sources(evidence, folder))


def view_of_proof(certificate: Certificate, original: Script, patched: Script, limits: Limits) -> view.View:
    """View of the outcome of ``prove`` for a repair from *original* to *patched*.  Runs the original once more."""
    folder, evidence = files.display_name(original.folder), witness(original, limits)
    title = files.display_name(original.path)
    texts = {title: files.read(original.path).text, **sources(evidence, folder)}
    diff = difference(original, patched)
    return view.view_of_proof(certificate, title, diff, evidence=evidence, folder=folder, sources=texts)


def sources(evidence: Iterable[Evidence], folder: str) -> Mapping[str, str]:
    """The texts of the files that *evidence* names, as far as they can be read, by their paths for the caller."""
    paths = {view.under(folder, span.path) for one in evidence for site in one.sites.values() for span in site.spans}
    graphs = [one.details["graph"] for one in evidence if one.details.get("graph")]
    paths |= {view.under(folder, f["file"]) for graph in graphs for node in graph["nodes"] for f in node["frames"][-1:]}
    found = {}
    for path in sorted(paths):
        try:
            found[path] = files.read(Path(path)).text
        except files.FileError:
            continue
    return found


def difference(original: Script, patched: Script) -> str:
    """Unified diff from one script to the other, of the original's files."""
    after = patched.text if patched.text is not None else files.read(patched.path).text
    pairs = [(original.path, after), *((original.folder / name, text) for name, text in patched.others)]
    paths = [path for path, _ in pairs]
    changes = []
    for (path, text), name in zip(pairs, names_from_root(paths) or map(files.display_name, paths), strict=True):
        before = files.read(path).text if path.exists() else ""
        changes.append(Change(name, before.encode(), text.encode()))
    return patch(changes).decode()


def write(path: Path, told: view.View) -> None:
    """Write the page as a whole or not at all.  Raises :class:`PageError` where it cannot be written."""
    from autofix.report import page

    scratch = path.with_name(f".autofix.{secrets.token_hex(8)}.tmp")
    GUARD.add(scratch)
    try:
        with open(scratch, "x", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(page.render(told))
        os.replace(scratch, path)
    except OSError as error:
        raise PageError(f"{files.display_name(path)} cannot be written: {files.reason_of(error)}") from None
    finally:
        scratch.unlink(missing_ok=True)
        GUARD.discard(scratch)
