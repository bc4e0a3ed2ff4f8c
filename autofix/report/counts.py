"""Counts of findings for each kind of mistake."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autofix.findings import Finding


@dataclass(frozen=True)
class Count:
    """The findings of one code, and how many of them the patch repairs."""

    code: str
    name: str
    count: int
    fixable: int


def counted(findings: Iterable[Finding]) -> list[Count]:
    """A row for each code, the most frequent first."""
    by_code: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        by_code.setdefault((finding.code, finding.name), []).append(finding)
    rows = [Count(*key, len(own), sum(one.fixed for one in own)) for key, own in by_code.items()]
    return sorted(rows, key=lambda row: (-row.count, row.code))
