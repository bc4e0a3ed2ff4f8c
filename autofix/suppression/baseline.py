"""A file of known findings, which are not reported, so that a project can begin with the new ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autofix.findings import Finding
from autofix.project import files
from autofix.suppression.fingerprint import fingerprints

VERSION = 1


class BaselineError(Exception):
    """A baseline that cannot be read."""


@dataclass(frozen=True)
class Baseline:
    """The fingerprints of known findings.  Paths count relative to the folder that the file is in."""

    folder: str
    known_ones: tuple[str, ...]
    """Sorted."""

    def known(self, findings: Iterable[Finding], texts: Mapping[str, str]) -> set[Finding]:
        """The *findings* that the baseline has; *texts* holds the texts of their files, by name."""
        told = fingerprints(sorted(set(findings), key=lambda one: one.cause), texts, folder=self.folder)
        known_ones = set(self.known_ones)
        return {finding for finding, fingerprint in told if fingerprint in known_ones}


def read(path: Path) -> Baseline:
    """The baseline in a file.  Raises :class:`BaselineError`."""
    name = files.display_name(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BaselineError(f"{name} cannot be read: {files.reason_of(error)}; --write-baseline makes one.") from None
    except ValueError as error:
        raise BaselineError(f"{name} is no baseline: {error}") from None
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise BaselineError(f"{name} is no baseline of version {VERSION}.")
    return Baseline(str(files.absolute(path).parent), tuple(sorted(document.get("findings", ()))))


def written(findings: Sequence[Finding], texts: Mapping[str, str], path: Path) -> bytes:
    """A baseline of *findings*, to be written to *path*: one line for each, so that versions can be compared."""
    folder = str(files.absolute(path).parent)
    known = {
        fingerprint: {"file": finding.cause.path, "code": finding.code, "message": finding.message}
        for finding, fingerprint in fingerprints(findings, texts, folder=folder)
    }
    rows = ",\n".join(f"  {json.dumps(key)}: {json.dumps(known[key])}" for key in sorted(known))
    body = f"{{\n{rows}\n}}" if rows else "{}"
    return f'{{"version": {VERSION}, "findings": {body}}}\n'.encode()
