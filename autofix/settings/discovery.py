"""Discovery of settings: the nearest file upward from each source, as ruff has it, or a file that is named."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autofix.project import files, reading
from autofix.settings.selection import Selection, UnknownCode, codes_of, split

if TYPE_CHECKING:
    from autofix.settings.table import Table

FILES = (".autofix.toml", "autofix.toml", "pyproject.toml")
"""Names of files of settings; the first file in a folder that holds settings counts."""


class SettingsError(Exception):
    """A file of settings that cannot be used: its name, and the reason."""


@dataclass(frozen=True)
class Settings:
    """Settings for the sources of one folder.  Paths are absolute."""

    folder: Path
    """Folder to which patterns and paths are relative."""
    file: Path | None = None
    selection: Selection = field(default_factory=Selection)
    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    unsafe_fixes: bool = False
    output_format: str | None = None
    root: Path | None = None
    src: tuple[Path, ...] = ()
    budget: float | None = None
    python: str | None = None


@dataclass
class Finder:
    """Finds the settings for sources; each file of settings is read once."""

    config: Path | None = None
    """A file that counts for all sources."""
    isolated: bool = False
    """Whether no file counts."""
    _known: dict[Path, Settings] = field(default_factory=dict)
    _of_folders: dict[str, Settings] = field(default_factory=dict)
    """As ``_known``, by the names of folders: making a path of a name takes longer than looking it up."""
    _none: Settings | None = None

    def of(self, path: Path) -> Settings:
        """The settings for the source at *path*.  Raises :class:`SettingsError`."""
        folder = os.path.dirname(os.path.abspath(path))
        if (known := self._of_folders.get(folder)) is None:
            known = self._of_folders[folder] = self.of_folder(Path(folder))
        return known

    def of_folder(self, folder: Path) -> Settings:
        """The settings for the sources in *folder*, absolute.  Raises :class:`SettingsError`."""
        if self.isolated:
            self._none = self._none or Settings(Path.cwd())
            return self._none
        if self.config is not None:
            key = files.absolute(self.config)
            if key not in self._known:
                self._known[key] = read(key, Path.cwd()) or Settings(Path.cwd(), key)
            return self._known[key]
        visited = []
        found = None
        for place in (folder, *folder.parents):
            found = self._known.get(place) or next(of_folder(place), None)
            visited.append(place)
            if found is not None:
                break
        found = found or Settings(Path.cwd())
        self._known.update(dict.fromkeys(visited, found))
        return found


def of_folder(folder: Path) -> Iterator[Settings]:
    """Yield the settings that files in *folder* hold, the one that counts first."""
    for name in FILES:
        file = folder / name
        if file.is_file() and (settings := read(file, folder)) is not None:
            yield settings


def read(file: Path, folder: Path) -> Settings | None:
    """The settings in *file*, of which paths are relative to *folder*; None where it holds none.

    Raises :class:`SettingsError`.
    """
    name = files.display_name(file)
    is_shared = file.name == "pyproject.toml"
    try:
        text = reading.settings(file)
    except OSError as error:
        raise SettingsError(f"{name} cannot be read: {files.reason_of(error)}") from None
    if is_shared and "autofix" not in text:
        return None
    import tomllib  # most projects have no settings

    try:
        document: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        if is_shared and "tool.autofix" not in text:
            return None
        raise SettingsError(f"{name}: {str(error)[0].lower()}{str(error)[1:]}") from None
    if is_shared:
        tool = document.get("tool")
        document = tool.get("autofix") if isinstance(tool, dict) else None
        if document is None:
            return None
    # msgspec takes a while to load, too.
    from autofix.settings.table import TableError, table_of

    if not is_shared and set(document) == {"tool"}:
        raise SettingsError(f"{name}: the keys stand here without a table: leave out `[tool.autofix]`")
    try:
        if not isinstance(document, dict):
            raise TableError("`tool.autofix`: expected a table")
        return settings_of(table_of(document), file, folder)
    except TableError as error:
        raise SettingsError(f"{name}: {error}") from None
    except UnknownCode as error:
        raise SettingsError(f"{name}: {error}") from None


def settings_of(table: Table, file: Path, folder: Path) -> Settings:
    """The settings in a *table*.

    Raises :class:`autofix.settings.selection.UnknownCode`, and :class:`SettingsError` for a root that is not there.
    """
    selection = Selection(tuple(split(table.select)), tuple(split(table.extend_select)), tuple(split(table.ignore)))
    ignores = tuple((pattern, tuple(split(codes))) for pattern, codes in table.per_file_ignores.items())
    for pattern in (
        *selection.selected,
        *selection.extended,
        *selection.ignored,
        *(c for _, own in ignores for c in own),
    ):
        codes_of(pattern)
    if table.root is not None and not (folder / table.root).is_dir():
        raise SettingsError(f"{files.display_name(file)}: `root`: there is no folder `{table.root}`")
    python = table.python
    if python is not None and ("/" in python or (sys.platform == "win32" and "\\" in python)):
        python = str(folder / Path(python).expanduser())
    return Settings(
        folder,
        file,
        selection,
        table.exclude,
        table.extend_exclude,
        ignores,
        table.unsafe_fixes,
        table.output_format,
        folder / table.root if table.root is not None else None,
        tuple(folder / one for one in table.src),
        table.budget,
        python,
    )
