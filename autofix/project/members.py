"""A script, with the files of its project that it imports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from autofix.project.files import SourceFile


@lru_cache(maxsize=4096)
def unread(name: str, place: Path) -> tuple[Path, SourceFile]:
    """A companion without its text: one for all the programs that it belongs to."""
    return place, SourceFile.unread(name)


@dataclass(frozen=True)
class Project:
    """A script, and the files that it brings with it."""

    path: Path
    file: SourceFile
    companions: Mapping[str, tuple[Path, SourceFile]] = field(default_factory=dict)
    """Path and content of each file, by its name in reports."""
    roots: tuple[str, ...] = ()
    """The folders, named as the files are, in which modules of the companions are looked for by their full names."""

    @property
    def is_unread(self) -> bool:
        """Whether it has no texts: nothing is to be reported of its files, or changed in them."""
        return not self.file.data

    @property
    def others(self) -> dict[str, str]:
        """The companions' texts."""
        return {name: file.text for name, (_, file) in self.companions.items()}

    def find(self, name: str) -> tuple[Path, SourceFile]:
        """The file that reports call *name*."""
        return (self.path, self.file) if name == self.file.name else self.companions[name]
