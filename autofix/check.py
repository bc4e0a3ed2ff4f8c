"""Analyse many files: in parallel where they are many, in order, and none of them able to stop the others."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from autofix import budget, engine
from autofix.escaping import escaped
from autofix.project import files
from autofix.project.gather import Project, gather
from autofix.project.layout import Layout, layout_of
from autofix.project.notebook import name_of_cell
from autofix.spreading import spread

FEW = 8
"""Up to so many files, starting worker processes costs more time than it saves."""


class Edit(NamedTuple):
    """A file, and the text that is to take its place."""

    path: Path
    file: files.SourceFile
    text: str


@dataclass(frozen=True)
class Options:
    """How a file is to be analysed."""

    select: Collection[str] | None = None
    """Only codes that begin with one of these."""
    unsafe: bool = False
    """Whether what rests on a call whose source was not read is patched as well."""
    silence: engine.Silence | None = None
    """What is to be neither reported nor patched."""
    root: Path | None = None
    """The project's root, where it is not to be looked for."""
    src: tuple[Path, ...] = ()
    """Folders of the project that are on the import path, beside those that its layout says."""


@dataclass(frozen=True)
class Result:
    """One file with those that it imports, and what the static witness has to say of them."""

    project: Project
    analysis: engine.Analysis
    options: Options = Options()

    @property
    def problems(self) -> list[Problem]:
        """The cells of a notebook that are no Python; the rest of it was read."""
        notebook = self.file.notebook
        return [
            Problem(name_of_cell(self.file.name, cell), reason, line, column)
            for cell, reason, line, column in (notebook.problems if notebook is not None else ())
        ]

    @property
    def file(self) -> files.SourceFile:
        return self.project.file

    @property
    def edits(self) -> list[Edit]:
        """Every file that the patch changes."""
        changed = self.analysis.program.changed(self.analysis.repaired)
        return [Edit(*self.project.find(before.path), after.text) for before, after in changed]

    @property
    def repaired(self) -> Result:
        """The result for the files as the patch leaves them, where it leaves nothing to find."""
        known = self.analysis
        return replace(self, analysis=replace(known, program=known.repaired, findings=()))

    def over(self, texts: Mapping[str, str], options: Options | None = None) -> Result:
        """The result for the same files where some have other *texts* by now (name to text)."""
        own = texts.get(self.file.name, self.file.text)
        others = {name: texts.get(name, text) for name, text in self.project.others.items()}
        options = options or self.options
        try:
            with budget.bounded():
                analysis = analysed(own, self.file.name, others, self.project.roots, options)
        except budget.Spent:
            program = self.analysis.program.with_texts(texts)
            analysis = engine.Analysis(program, program, (), complete=False)
        return replace(self, analysis=analysis, options=options)


@dataclass(frozen=True)
class Problem:
    """One file of which nothing can be said, and why; ``line`` and ``column`` count from 1."""

    name: str
    reason: str
    line: int = 1
    column: int = 1
    trace: str = ""
    """The traceback, where the reason is a bug in autofix."""
    is_passed_by: bool = False
    """Whether the file is sound, and none of those that are to be read."""

    def __str__(self) -> str:
        where = self.name if self.is_passed_by else f"{self.name}:{self.line}:{self.column}"
        return escaped(f"{where}: {self.reason}")

    @classmethod
    def of(cls, error: files.FileError | engine.SourceError) -> Problem:
        name = error.name if isinstance(error, files.FileError) else error.path
        is_passed_by = isinstance(error, files.FileError) and error.is_passed_by
        return cls(name, error.reason, error.line, error.column, is_passed_by=is_passed_by)


def check(
    paths: Sequence[Path], options: Callable[[Path], Options] = lambda _: Options(), *, from_root: bool = False
) -> Iterator[Result | Problem]:
    """Analyse the files at *paths*, each by its *options*, and yield an outcome for each, in the order given."""
    items = [(path, options(path)) for path in paths]
    examine = partial(_check_item, from_root=from_root)
    workers = min(cpu_count(), len(items))
    if len(items) <= FEW or workers == 1:
        yield from map(examine, items)
        return
    yield from spread(examine, items, workers, partial(_lost, from_root=from_root))


def _check_item(item: tuple[Path, Options], *, from_root: bool) -> Result | Problem:
    return check_path(*item, from_root=from_root)


def _lost(item: tuple[Path, Options], *, from_root: bool) -> Problem:
    """What is said of a file whose worker was killed, and the one of the second try as well."""
    reason = "the process that analysed it was killed twice, by the system for want of memory perhaps"
    return Problem(files.display_name(item[0], from_root=from_root), reason)


def check_path(path: Path, options: Options = Options(), *, from_root: bool = False) -> Result | Problem:
    try:
        file = files.read(path, files.display_name(path, from_root=from_root))
    except files.FileError as error:
        return Problem.of(error)
    return check_file(path, file, options, from_root=from_root)


def check_file(
    path: Path, file: files.SourceFile, options: Options = Options(), *, from_root: bool = False, alone: bool = False
) -> Result | Problem:
    """Analyse one file that was read already, and, unless it is read *alone*, what it imports from its project."""
    try:
        with budget.bounded():
            return _examined(path, file, options, from_root=from_root, alone=alone)
    except engine.SourceError as error:
        return Problem.of(error)
    except budget.Spent:
        return Problem(file.name, f"given up after {budget.SECONDS:.0f} seconds of computing")
    except RecursionError:
        return Problem(file.name, f"{engine.TOO_DEEP} to be followed")
    except Exception as error:  # a bug in autofix: report it with this file's name, and go on with the other files
        reason = f"internal error, please report it: {type(error).__name__}: {error}"
        return Problem(file.name, reason, trace=traceback.format_exc())


def _examined(
    path: Path, file: files.SourceFile, options: Options, *, from_root: bool, alone: bool
) -> Result | Problem:
    """What is found in a file.  Raises :class:`engine.SourceError`."""
    if reason := files.other_language(file):
        return Problem(file.name, reason)
    engine.check_syntax(file.text, file.name)
    layout = layout_for(path, options)
    project = Project(path, file) if alone else gather(path, file, from_root=from_root, layout=layout)
    return Result(project, analysed(file.text, file.name, project.others, project.roots, options), options)


def analysed(
    text: str, name: str, others: Mapping[str, str], roots: Sequence[str], options: Options
) -> engine.Analysis:
    return engine.analyse(
        text,
        name,
        others=others,
        roots=roots,
        select=options.select,
        unsafe=options.unsafe,
        silence=options.silence,
    )


def layout_for(path: Path, options: Options) -> Layout | None:
    """The layout that the *options* give the project of *path*; None where they say nothing of it."""
    if options.root is None and not options.src:
        return None
    found = layout_of(path, root=options.root, cwd=files.absolute(Path()))
    src = [folder.resolve() for folder in options.src]
    return replace(found, import_roots=tuple(dict.fromkeys([*src, *found.import_roots])))


def cpu_count() -> int:
    """Return how many processors this process may use: as many as ``PYTHON_CPU_COUNT`` says, as Python 3.13 has it."""
    if (given := os.environ.get("PYTHON_CPU_COUNT", "")).isdecimal() and int(given) > 0:
        return int(given)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
