"""Says which findings of a program are suppressed: by comments, settings, a baseline, or for their lines' age."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autofix.codemods.source.program import Program
from autofix.findings import Finding
from autofix.project.ignoring import spec
from autofix.suppression.baseline import Baseline
from autofix.suppression.directives import directives_in

if TYPE_CHECKING:
    from autofix.suppression.since import Changed


@dataclass(frozen=True)
class Silencer:
    """An :data:`autofix.engine.Silence`; goes to worker processes, and its ``repr`` into the key of a cache."""

    codes: tuple[str, ...] = ()
    per_file: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Patterns for files, relative to the folder, and the codes that are ignored in them."""
    folder: str = ""
    baseline: Baseline | None = None
    changed: Changed | None = None

    def __call__(self, program: Program, findings: Sequence[Finding]) -> list[Finding]:
        if not findings:
            return []
        texts = program.texts
        old = self.baseline.known(findings, texts) if self.baseline is not None else set()
        return [
            one for one in findings if one in old or self._silences(one) or _is_commented(one, texts[one.cause.path])
        ]

    def _silences(self, finding: Finding) -> bool:
        if finding.code in self.codes or (self.changed is not None and not self.changed.touches(finding)):
            return True
        return any(
            finding.code in codes and self._names(pattern, finding.cause.path) for pattern, codes in self.per_file
        )

    def _names(self, pattern: str, path: str) -> bool:
        relative = os.path.relpath(path, self.folder or os.curdir)
        return not Path(relative).is_absolute() and spec((pattern,)).match_file(relative)


def _is_commented(finding: Finding, text: str) -> bool:
    return any(directive.covers(finding) for directive in directives_in(finding.cause.path, text))
