"""Choices of a call of ``check`` or ``review``: the settings of every source, overridden by the command line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autofix.checking import Options
from autofix.project import files
from autofix.project.discovery import is_skipped
from autofix.project.ignoring import spec
from autofix.settings.discovery import Finder, Settings, SettingsError
from autofix.settings.selection import UnknownCode, codes_of, split
from autofix.suppression import baseline as baselines
from autofix.suppression.baseline import Baseline
from autofix.suppression.silencer import Silencer

if TYPE_CHECKING:
    from autofix.suppression.since import Changed


@dataclass(frozen=True)
class Choices:
    """Options of the command line; None, or nothing, where the settings decide."""

    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    extend_exclude: tuple[str, ...] = ()
    force_exclude: bool = False
    unsafe: bool | None = None
    config: Path | None = None
    isolated: bool = False
    baseline: Path | None = None
    since: str | None = None


@dataclass
class Plan:
    """Choices, with the files of settings that they are laid over.

    Raises :class:`click.ClickException` where a file of settings, a baseline or a revision cannot be read.
    """

    choices: Choices
    finder: Finder = field(init=False)
    baseline: Baseline | None = None
    changed: Changed | None = None
    given: tuple[Path, ...] = ()
    """The folders to check, absolute, of which the working directory is no project."""
    _options: dict[int, Options] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chosen = self.choices
        self.finder = Finder(chosen.config, chosen.isolated)
        for option in ("select", "extend_select", "ignore"):
            for code in split(getattr(chosen, option)):
                require(code, f"--{option.replace('_', '-')}")
        try:
            self.baseline = baselines.read(chosen.baseline) if chosen.baseline is not None else None
        except baselines.BaselineError as error:
            raise click.ClickException(str(error)) from None
        self.changed = changed_since(chosen.since) if chosen.since is not None else None

    @property
    def here(self) -> Settings:
        """The settings of the working directory."""
        return self._settings(Path("any.py"))

    def _settings(self, path: Path) -> Settings:
        try:
            return self.finder.of(path)
        except SettingsError as error:
            raise click.ClickException(str(error)) from None

    def options(self, path: Path) -> Options:
        """Options for the analysis of the source at *path*."""
        settings = self._settings(path)
        known = self._options.get(id(settings))
        if known is None:
            known = self._options[id(settings)] = self._options_of(settings)
        return known

    def _options_of(self, settings: Settings) -> Options:
        chosen = self.choices
        selection = settings.selection.over(*map(listed, (chosen.select, chosen.extend_select, chosen.ignore)))
        silence = Silencer(
            selection.silent,
            tuple((pattern, all_of(codes)) for pattern, codes in settings.per_file_ignores),
            str(settings.folder),
            self.baseline,
            self.changed,
        )
        unsafe = settings.unsafe_fixes if chosen.unsafe is None else chosen.unsafe
        return Options(selection.select, unsafe, silence, settings.root, settings.src, self.given)

    def renewed(self) -> Callable[[Options], Options]:
        """Function that updates options once files were written: more lines have changed since the revision by then."""
        if self.choices.since is None:
            return lambda same: same
        again = Plan(self.choices)

        def renew(options: Options) -> Options:
            silence = options.silence
            if isinstance(silence, Silencer):
                silence = replace(silence, changed=again.changed)
            return replace(options, silence=silence)

        return renew

    def excludes(self, path: Path, is_folder: bool) -> bool:
        """Whether *path*, met in a folder that is searched, is left out."""
        settings, chosen = self._settings(path), self.choices
        called = (*listed(chosen.exclude), *listed(chosen.extend_exclude))
        own = (*(settings.exclude or () if not chosen.exclude else ()), *settings.extend_exclude)
        if not chosen.exclude and settings.exclude is None and is_skipped(path, is_folder):
            return True
        if own and matches(path, is_folder, settings.folder, own):
            return True
        return bool(called) and matches(path, is_folder, Path.cwd(), called)

    def wanted(self, paths: Iterable[Path]) -> list[Path]:
        """Paths to check: all of *paths*, less the excluded ones where ``force_exclude`` is set."""
        if not self.choices.force_exclude:
            return list(paths)
        return [path for path in paths if not self._is_below_excluded(files.absolute(path))]

    def _is_below_excluded(self, path: Path) -> bool:
        if self.excludes(path, path.is_dir()):
            return True
        here = Path.cwd()
        return any(
            self.excludes(folder, True) for folder in path.parents if folder != here and folder.is_relative_to(here)
        )


def changed_since(revision: str) -> Changed:
    """Changes since a *revision*.  Raises :class:`click.ClickException`."""
    from autofix.suppression import since  # loads what runs git

    try:
        return since.changed_since(revision, Path.cwd())
    except since.RevisionError as error:
        raise click.ClickException(str(error)) from None


def matches(path: Path, is_folder: bool, folder: Path, patterns: tuple[str, ...]) -> bool:
    """Whether one of *patterns*, which are relative to *folder*, names *path*."""
    full = files.absolute(path)
    if not full.is_relative_to(folder):
        return False
    return spec(patterns).match_file(full.relative_to(folder).as_posix() + "/" * is_folder)


def listed(patterns: Iterable[str]) -> tuple[str, ...]:
    return tuple(split(patterns))


def all_of(patterns: Collection[str]) -> tuple[str, ...]:
    """All codes that *patterns* stand for."""
    return tuple(sorted({code for pattern in patterns for code in codes_of(pattern)}))


def require(pattern: str, option: str) -> None:
    """Raise :class:`click.UsageError` for a pattern that selects nothing."""
    try:
        codes_of(pattern)
    except UnknownCode as error:
        raise click.UsageError(f"{option}: {error}") from None
