"""The cases: a folder for each, with a broken script, its repair, a look-alike that is right, and ``about.json``.

A script is a file (``broken.py``, ``fixed.py``, ``clean.py``) or a folder of that name with several files; the first
one to run is then named in ``about.json`` as ``"entry": "broken/main.py"``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import Any

from autofix.project import files


@dataclass(frozen=True)
class Program:
    """A script with the files beside it that belong to it."""

    entry: Path
    folder: bool
    """Whether the whole folder of the entry is the program, or that file alone."""

    @cached_property
    def texts(self) -> dict[str, str]:
        """Text of each file, by its path from the program's root; the script alone is called ``.``."""
        if not self.folder:
            return {".": read(self.entry)}
        return {path.relative_to(self.root).as_posix(): read(path) for path in sorted(self.root.rglob("*.py"))}

    @property
    def root(self) -> Path:
        return next((one for one in self.entry.parents if one.name in ("broken", "fixed", "clean")), self.entry.parent)

    def key(self, path: Path) -> str:
        """The key in ``texts`` of the file at *path*; the path itself for a file of somebody else's."""
        root, place = self.root.resolve(), path.resolve()
        if not place.is_relative_to(root):
            return str(path)
        return place.relative_to(root).as_posix() if self.folder else "."


@dataclass(frozen=True)
class Case:
    """One known mistake with its repair, or a script without a mistake, or both."""

    name: str
    kind: str
    broken: Program | None
    fixed: Program | None
    clean: Program | None
    named: tuple[str, ...] = ()
    """``cause_lines`` of ``about.json``: the lines that the script's author holds to be the mistake."""

    @cached_property
    def causes(self) -> set[tuple[str, int]]:
        """File and line, in the broken script, of places that may be called the cause: the author's, else the repair's.

        An author writes ``12`` or, in a script of several files, ``"model.py:12"``.
        """
        if self.broken is None or not self.named:
            return self.changed
        lines = set()
        for one in self.named:
            name, _, line = one.rpartition(":")
            paths = [key for key in self.broken.texts if name and Path(key).name == Path(name).name]
            lines |= {(path, int(line)) for path in paths or [self.broken.key(self.broken.entry)]}
        return lines

    @cached_property
    def changed(self) -> set[tuple[str, int]]:
        """File and line, in the broken script, of lines that the repair changes, and of neighbours of insertions."""
        lines: set[tuple[str, int]] = set()
        if self.broken is None or self.fixed is None:
            return lines
        for key, text in self.broken.texts.items():
            lines |= {(key, line) for line in changed_lines(text, self.fixed.texts.get(key, ""))}
        return lines


class MalformedCase(ValueError):
    """A folder that is not laid out as a case."""


def load(folder: Path) -> list[Case]:
    """Return the cases in *folder*, by name.  Raises :class:`MalformedCase`."""
    return [case(path) for path in sorted(folder.iterdir()) if (path / "about.json").is_file()]


def case(folder: Path) -> Case:
    about: Mapping[str, Any] = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    entry = str(about.get("entry", ""))
    broken, fixed, clean = (program(folder, name, entry) for name in ("broken", "fixed", "clean"))
    if (broken is None) != (fixed is None) or (broken is None and clean is None):
        raise MalformedCase(f"{folder}: a broken script wants a fixed one, and a case wants a script")
    named = tuple(str(line) for line in about.get("cause_lines", ()))
    return Case(folder.name, str(about.get("kind", "?")), broken, fixed, clean, named)


def program(folder: Path, name: str, entry: str) -> Program | None:
    """The program *name*, or None where there is none; *entry* names the first file where there are several."""
    if (folder / f"{name}.py").is_file():
        return Program(folder / f"{name}.py", folder=False)
    if not (folder / name).is_dir():
        return None
    inside = started(entry)
    for first in (inside, "main.py", "train.py"):
        if first and (folder / name / first).is_file():
            return Program(folder / name / first, folder=True)
    scripts = list((folder / name).glob("*.py"))
    if len(scripts) != 1:
        raise MalformedCase(f"{folder / name}: no main.py, and the entry in about.json names none of its files")
    return Program(scripts[0], folder=True)


def started(entry: str) -> str:
    """The file that ``broken/main.py``, or ``python -m package.main``, starts, from the program's root."""
    words = entry.split()
    if "-m" in words:
        return words[words.index("-m") + 1].replace(".", "/") + ".py"
    return entry.partition("/")[2]


def changed_lines(before: str, after: str) -> set[int]:
    """Lines of *before* (from 1) that *after* has not, and the neighbours of lines that *after* inserts."""
    old, new = before.split("\n"), after.split("\n")
    lines: set[int] = set()
    for tag, start, end, _, _ in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "insert":
            lines |= {start, start + 1}
        elif tag != "equal":
            lines |= set(range(start + 1, end + 1))
    return lines


def read(path: Path) -> str:
    return files.read(path).text
