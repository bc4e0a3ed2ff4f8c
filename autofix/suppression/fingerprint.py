"""Fingerprints of findings: alike for one mistake in two versions of a file, whatever lines were added above it."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from autofix.codemods.source.program import split
from autofix.findings import Finding


def fingerprints(
    findings: Iterable[Finding], sources: Mapping[str, str], *, folder: str = ""
) -> Iterator[tuple[Finding, str]]:
    """Yield each finding with its fingerprint; paths count relative to *folder*, by default the working directory.

    A fingerprint is made of the path, the kind of mistake, the gist of its message, and the text of the line of its
    cause; findings that are equal in all of them are numbered.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    for finding in findings:
        cause = finding.cause
        lines = split(sources.get(cause.path, ""))
        text = " ".join(lines[cause.line - 1].split()) if cause.line <= len(lines) else ""
        path = os.path.relpath(cause.path, folder or os.curdir).replace(os.sep, "/")
        parts = (path, finding.fact.code, finding.fact.gist, text)
        data = "\0".join((*parts, str(seen[parts]))).encode("utf-8", "surrogatepass")
        seen[parts] += 1
        yield finding, hashlib.sha256(data).hexdigest()[:32]
