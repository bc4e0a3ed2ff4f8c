"""Analyse many files: in parallel where they are many, in order, and none of them able to stop the others."""

from __future__ import annotations

import gc
import os
import re
import traceback
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, is_dataclass, replace
from functools import lru_cache, partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from autofix import budget
from autofix.cache.outcomes import Read, Unread
from autofix.cache.results import AT_ONCE, Asked, Results
from autofix.codemods.rewriting.patch import Patch, Replacement, composed
from autofix.codemods.source.program import Program
from autofix.escaping import escaped
from autofix.findings import Analysis, Silence, SourceError
from autofix.project import files, reading
from autofix.project.cells import name_of_cell
from autofix.project.disk import Answers, Disk, Inquiry, digest
from autofix.project.layout import Layout
from autofix.project.members import Project, unread

FEW = 8
"""Number of files up to which starting worker processes costs more time than it saves."""


class Edit(NamedTuple):
    """A file, and the text that is to take its place."""

    path: Path
    file: files.SourceFile
    text: str
    changes: tuple[Replacement, ...] = ()
    """Replacements that turn the file's own text into ``text``."""

    def after(self, earlier: Edit | None) -> Edit:
        """This edit combined with the *earlier* one that its file had undergone before the analysis, if any."""
        if earlier is None:
            return self
        return self._replace(changes=composed(self.file.text, earlier.changes, self.changes))


@dataclass(frozen=True)
class Options:
    """Options for the analysis of one file."""

    select: Collection[str] | None = None
    """Only codes that begin with one of these."""
    unsafe: bool = False
    """Whether mistakes that rest on a call whose source was not read are patched as well."""
    silence: Silence | None = None
    """Function that picks the findings to be neither reported nor patched; None where all count."""
    root: Path | None = None
    """The project's root, where it is not to be looked for."""
    src: tuple[Path, ...] = ()
    """Folders of the project on the import path, in addition to those of its layout."""
    given: tuple[Path, ...] = ()
    """Folders that are to be checked and lie in no project of the working directory."""


@dataclass(frozen=True)
class Result:
    """One file with the files that it imports, and their analysis by the static witness."""

    project: Project
    analysis: Analysis
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
    def names(self) -> list[str]:
        """The file, and the files that were read with it as one program, as reports name them."""
        read = self.project.companions if self.is_brief else self.analysis.program.texts
        return list(dict.fromkeys([self.file.name, *read]))

    @property
    def edits(self) -> list[Edit]:
        """Every file that the patch changes."""
        patch = self.analysis.patch
        changed = patch.program.changed(patch.patched)
        return [Edit(*self.project.find(one.path), after.text, patch.of_file(one.path)) for one, after in changed]

    @property
    def repaired(self) -> Result:
        """The result for the files as the patch leaves them, where it leaves nothing to find."""
        known = self.analysis
        return replace(self, analysis=replace(known, patch=Patch(known.repaired), findings=()))

    @property
    def brief(self) -> Result:
        """The result without texts, where no report needs them: most files of a folder have no findings."""
        file, analysis = self.file, self.analysis
        if analysis.findings or analysis.silenced or analysis.changes or file.notebook:
            return self
        if "autofix:" in file.text or "noqa" in file.text.lower():  # a comment may suppress nothing
            return self
        return _brief(self.project.path, self, self.options)

    @property
    def is_brief(self) -> bool:
        """Whether the result has no texts."""
        return self.project.is_unread

    def over(self, texts: Mapping[str, str], options: Options | None = None) -> Result:
        """The result for these files where some of them have other *texts* by now (name to text)."""
        own = texts.get(self.file.name, self.file.text)
        others = {name: texts.get(name, text) for name, text in self.project.others.items()}
        options = options or self.options
        try:
            with budget.bounded():
                analysis = analysed(own, self.file.name, others, self.project.roots, options)
        except budget.Spent:
            program = self.analysis.program.with_texts(texts)
            analysis = Analysis(Patch(program), (), complete=False)
        return replace(self, analysis=analysis, options=options)


def _brief(path: Path, result: Result, options: Options) -> Result:
    """A *result* without texts, built of as few objects as possible: one is held for every file."""
    analysis, project = result.analysis, result.project
    file = files.SourceFile.unread(result.file.name)
    whole = project.companions if len(analysis.program.files) > 1 or result.is_brief else _NONE
    companions = {name: unread(name, place) for name, (place, _) in whole.items()} or _NONE
    nothing = Program.of("", file.name)
    missed = analysis.missed or _NONE
    return Result(
        Project(path, file, companions, project.roots),
        Analysis(Patch(nothing), (), analysis.complete, analysis.passes, missed),
        options,
    )


_NONE: Mapping[Any, Any] = {}


@dataclass(frozen=True)
class Problem:
    """One file that could not be analysed, and the reason; ``line`` and ``column`` count from 1."""

    name: str
    reason: str
    line: int = 1
    column: int = 1
    trace: str = ""
    """The traceback, where the reason is a bug in autofix."""
    is_passed_by: bool = False
    """Whether the file is sound but not written in Python: a notebook for another language."""
    bytes_read: str = field(default="", compare=False, repr=False)
    """The digest of the file's bytes, where the reason lies in them alone."""

    def __str__(self) -> str:
        where = self.name if self.is_passed_by else f"{self.name}:{self.line}:{self.column}"
        return escaped(f"{where}: {self.reason}")

    @classmethod
    def of(cls, error: files.FileError | SourceError) -> Problem:
        name = error.name if isinstance(error, files.FileError) else error.path
        is_passed_by = isinstance(error, files.FileError) and error.is_passed_by
        return cls(name, error.reason, error.line, error.column, is_passed_by=is_passed_by)


def check(
    paths: Sequence[Path],
    options: Callable[[Path], Options] = lambda _: Options(),
    *,
    from_root: bool = False,
    results: Results | None = None,
) -> Iterator[Result | Problem]:
    """Analyse the files at *paths*, each by its *options*, and yield an outcome for each, in the order given.

    Results are :attr:`Result.brief`.  Outcomes that an earlier check has kept in *results* are taken from there; new
    ones are kept for the next check.
    """
    items = [(path, options(path)) for path in paths]
    asked = _asked(items, results.disk) if results is not None else [None] * len(items)
    known = _known(items, asked, results) if results is not None else [None] * len(items)
    left = [item for item, outcome in zip(items, known, strict=True) if outcome is None]
    analysed = _analysed(left, from_root=from_root)
    try:
        for item, one, outcome in zip(items, asked, known, strict=True):
            if outcome is not None:
                yield outcome
                continue
            examined = next(analysed)
            if results is not None and one is not None:
                _keep(one, examined, results)
            outcome = examined.outcome
            if isinstance(outcome, Result) and outcome.is_brief:
                outcome = _brief(item[0], outcome, item[1])  # it has come from another process with copies of both
            yield outcome
    finally:
        analysed.close()
        if results is not None:
            results.close()


class _Examined(NamedTuple):
    """The outcome for one file, and the answers of the disk that it rests on; None where it is not to be kept."""

    outcome: Result | Problem
    answers: Answers | None = None
    bytes_read: str = ""
    """The digest of the file's bytes."""


def _analysed(items: Sequence[tuple[Path, Options]], *, from_root: bool) -> Generator[_Examined]:
    """Analyse files one by one, or spread over all processors where they are many."""
    workers = min(cpu_count(), len(items))
    examine = partial(_check_item, from_root=from_root, command=next(_commands))
    if len(items) <= FEW or workers == 1:
        yield from map(examine, items)
        return
    from autofix import engine  # noqa: F401 - before the workers are forked, so that each has it
    from autofix.spreading import spread

    yield from spread(examine, items, workers, partial(_lost, from_root=from_root), _cost)


_PASS = re.compile(rb"backward|autograd\.grad|training_step")


def _cost(item: tuple[Path, Options]) -> float:
    """Estimated cost of a file: its length in bytes, times 20 where it runs a backward pass; 0 if it is unreadable."""
    if reading.is_pipe(item[0]):
        return 0.0
    try:
        data = reading.read(item[0])
    except OSError:
        return 0.0
    return len(data) * (20.0 if _PASS.search(data) else 1.0)


_commands = count()
"""Numbers for calls of :func:`check`."""


@lru_cache(maxsize=1)
def _disk(command: int) -> Disk:
    """View of the disk that this process shares within one call of :func:`check`."""
    return Disk()


def _check_item(item: tuple[Path, Options], *, from_root: bool, command: int) -> _Examined:
    inquiry, before = Inquiry(_disk(command)), budget.spent
    outcome = check_path(*item, from_root=from_root, disk=inquiry)
    read = digest(outcome.file.data) if isinstance(outcome, Result) else outcome.bytes_read
    answers = inquiry.answers if read and budget.spent == before else None
    return _Examined(outcome.brief if isinstance(outcome, Result) else outcome, answers, read)


def _lost(item: tuple[Path, Options], *, from_root: bool) -> _Examined:
    """Outcome for a file whose worker process was killed at both tries."""
    reason = "the process that analysed it was killed twice, by the system for want of memory perhaps"
    return _Examined(Problem(files.display_name(item[0], from_root=from_root), reason))


def _known(
    items: Sequence[tuple[Path, Options]], asked: Sequence[Asked | None], results: Results
) -> list[Result | Problem | None]:
    """Outcomes of earlier checks for *items*, in order; None where none was kept or it no longer holds."""
    told = [one for one in asked if one is not None]
    found = (one for start in range(0, len(told), AT_ONCE) for one in results.find(told[start : start + AT_ONCE]))
    known: list[Result | Problem | None] = []
    for one, (_, options) in zip(asked, items, strict=True):
        match next(found) if one is not None else None:
            case None:
                known.append(None)
            case name, Unread(reason, line, column):
                known.append(Problem(name, reason, line, column))
            case _, Read(project, analysis):
                known.append(Result(project, analysis, options))
    return known


def _keep(asked: Asked, examined: _Examined, results: Results) -> None:
    outcome = examined.outcome
    if examined.answers is None:
        return
    if isinstance(outcome, Problem):
        kept: Read | Unread = Unread(outcome.reason, outcome.line, outcome.column)
    else:
        kept = Read(outcome.project, outcome.analysis)
    results.add(asked, examined.bytes_read, examined.answers, kept)


def _asked(items: Sequence[tuple[Path, Options]], disk: Disk) -> list[Asked | None]:
    """Files and their options as keys of results; None for pipes, and for options that hold a function."""
    texts: dict[int, str] = {}  # there are few options for many files, and a baseline has many lines
    layouts: dict[tuple[int, str], str] = {}
    asked: list[Asked | None] = []
    for path, options in items:
        if reading.is_pipe(path) or (options.silence is not None and not is_dataclass(options.silence)):
            asked.append(None)
            continue
        if (text := texts.get(id(options))) is None:
            text = texts[id(options)] = digest(repr(options).encode("utf-8", "surrogateescape"))
        if options.root is not None or options.src or options.given:
            folder = os.path.dirname(os.path.abspath(path))
            if (more := layouts.get((id(options), folder))) is None:
                more = repr((layout_for(path, options, disk), disk.checkout(Path(folder))))
                layouts[id(options), folder] = more
            text += more
        asked.append(Asked(path, text))
    return asked


def check_path(
    path: Path, options: Options = Options(), *, from_root: bool = False, disk: Inquiry | None = None
) -> Result | Problem:
    try:
        file = files.read(path, files.display_name(path, from_root=from_root))
    except files.FileError as error:
        return Problem.of(error)
    return check_file(path, file, options, from_root=from_root, disk=disk)


def check_file(
    path: Path,
    file: files.SourceFile,
    options: Options = Options(),
    *,
    from_root: bool = False,
    alone: bool = False,
    disk: Inquiry | None = None,
) -> Result | Problem:
    """Analyse one file that was read already, and, unless it is read *alone*, the files that it imports.

    Imports are looked for on the *disk*.
    """
    from autofix import engine

    try:
        with budget.bounded(), _without_collecting():
            return _examined(path, file, options, from_root=from_root, alone=alone, disk=disk)
    except SourceError as error:
        exhausted = engine.TOO_DEEP in error.reason
        return replace(Problem.of(error), bytes_read="" if exhausted else digest(file.data))
    except budget.Spent:
        return Problem(file.name, f"given up after {budget.SECONDS:.0f} seconds of computing")
    except RecursionError:
        return Problem(file.name, f"{engine.TOO_DEEP} to be followed")
    except Exception as error:  # a bug in autofix: report it with this file's name, and go on with the other files
        reason = f"internal error, please report it: {type(error).__name__}: {error}"
        return Problem(file.name, reason, trace=traceback.format_exc())


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Let the garbage collector rest within the block: a syntax tree is many objects that live to its end."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _examined(
    path: Path, file: files.SourceFile, options: Options, *, from_root: bool, alone: bool, disk: Inquiry | None
) -> Result | Problem:
    """Result for a file; a problem where it is in another language.  Raises :class:`autofix.findings.SourceError`."""
    from autofix import engine
    from autofix.project.gather import gather

    if reason := files.other_language(file):
        return Problem(file.name, reason)
    engine.check_syntax(file.text, file.name)
    layout = layout_for(path, options, disk.disk if disk is not None else None)
    project = Project(path, file) if alone else gather(path, file, from_root=from_root, layout=layout, disk=disk)
    return Result(project, analysed(file.text, file.name, project.others, project.roots, options), options)


def analysed(text: str, name: str, others: Mapping[str, str], roots: Sequence[str], options: Options) -> Analysis:
    from autofix import engine  # takes long to import, and results of earlier checks need none of it

    return engine.analyse(
        text,
        name,
        others=others,
        roots=roots,
        select=options.select,
        unsafe=options.unsafe,
        silence=options.silence,
    )


def layout_for(path: Path, options: Options, disk: Disk | None = None) -> Layout | None:
    """The layout that the *options* give the project of *path*; None where they say nothing of it."""
    if options.root is None and not options.src and not options.given:
        return None
    folder = Path(os.path.dirname(os.path.realpath(path)))
    found = (disk or Disk()).layout(folder, files.absolute(Path()), root=options.root, given=options.given)
    src = [folder.resolve() for folder in options.src]
    return replace(found, import_roots=tuple(dict.fromkeys([*src, *found.import_roots])))


def cpu_count() -> int:
    """Return how many processors this process may use: as many as ``PYTHON_CPU_COUNT`` says, as Python 3.13 has it."""
    if (given := os.environ.get("PYTHON_CPU_COUNT", "")).isdecimal() and int(given) > 0:
        return int(given)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
