"""Copies on write: a file that a run is about to change behind a link of its scratch folder becomes a copy first.

Large files of the project, and all that lies beside it, are links to the user's own.  Before Python opens one for
writing, or changes the folder that it stands in, the link is replaced: a file by its copy, a folder by one of links.
Writes by other ways meet the sandbox.
"""

from __future__ import annotations

import builtins
import errno
import functools
import io
import os
import shutil
from collections.abc import Callable
from typing import Any

import torch

Path = Any
"""Any argument that Python takes for a path: text, bytes, a path object, or the number of an open file."""
MOST = 4 * 2**30
"""Bytes of a file that is still copied."""


class Copies:
    """Watches this process's own ways to change files below *scratch*."""

    def __init__(self, scratch: str) -> None:
        self._scratch = scratch
        self.read: set[str] = set()
        """The Python sources that were opened to be read."""
        self._symlink = os.symlink
        self._theirs: set[str] = set()
        """Links that the script itself has made: files behind them are not copied, and not its to change."""

    def install(self) -> None:
        """Watch from now on."""
        _put(io, "open", self._opening(io.open))
        builtins.open = io.open
        _put(io, "open_code", self._opening(io.open_code))
        _put(os, "open", self._opening_by_flags(os.open))
        for name in ("mkdir", "remove", "unlink", "rmdir"):
            self._watch(os, name, 1)
        for name in ("rename", "replace", "symlink", "link"):
            self._watch(os, name, 2)
        self._note_links()
        self._watch(os, "truncate", 1, inside=True)
        self._watch(os, "chdir", 1, inside=True)
        self._watch(shutil, "rmtree", 1, inside=True)
        writer = torch.serialization._open_zipfile_writer_file
        written = writer.__init__

        @functools.wraps(written)
        def made(one: Any, name: Path, *args: Any, **kwargs: Any) -> None:
            self.own(name, keep=False)
            try:
                written(one, name, *args, **kwargs)
            except RuntimeError as error:
                if "Permission denied" in str(error):  # it does not say where
                    error.__cause__ = PermissionError(errno.EACCES, "Permission denied", os.path.abspath(str(name)))
                raise

        writer.__init__ = made  # type: ignore[assignment]

    def _note_links(self) -> None:
        linked = os.symlink  # it finds the folder already real

        @functools.wraps(linked)
        def noted(source: Path, target: Path, *args: Any, **kwargs: Any) -> None:
            linked(source, target, *args, **kwargs)
            if (text := self._text(target)) is not None:
                self._theirs.add(text)

        _put(os, "symlink", noted)

    def _opening(self, opened: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(opened)
        def watched(file: Path, *args: Any, **kwargs: Any) -> Any:
            mode = args[0] if args else kwargs.get("mode", "r")
            if isinstance(mode, str) and not isinstance(file, int):
                if set(mode) & set("wax+"):
                    self.own(file, keep="w" not in mode)
                elif str(file).endswith(".py"):
                    self.read.add(os.path.abspath(str(file)))
            return opened(file, *args, **kwargs)

        return watched

    def _opening_by_flags(self, opened: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(opened)
        def watched(path: Path, flags: int, *args: Any, **kwargs: Any) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and kwargs.get("dir_fd") is None:
                self.own(path, keep=not flags & os.O_TRUNC)
            return opened(path, flags, *args, **kwargs)

        return watched

    def _watch(self, module: Any, name: str, paths: int, *, inside: bool = False) -> None:
        """Let a function have the folders of its first *paths* arguments to itself; with *inside*, the paths too."""
        function = getattr(module, name)

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if not any(key.endswith("dir_fd") and value is not None for key, value in kwargs.items()):
                for path in args[:paths]:
                    if inside:
                        self.own(path)
                    else:
                        self.own_folder(path)
            return function(*args, **kwargs)

        _put(module, name, watched)

    def replace_links(self, root: str) -> list[str]:
        """Leave no link to the user's own files, for a system that cannot forbid writing behind them.

        Linked files of the project at *root* are copied, up to :data:`MOST` bytes in all; the rest, and files beside
        the project, are left out.  Returns a description of each part of the project that is missing.
        """
        left, missing = MOST, []
        for folder, folders, files in os.walk(self._scratch):
            for name in sorted((*folders, *files)):
                place = os.path.join(folder, name)
                if not self._leads_out(place):
                    continue
                end = os.path.realpath(place)
                inside = f"{place}{os.sep}".startswith(f"{root}{os.sep}")
                if inside and os.path.isdir(end):
                    self._open_folder(place, end)
                    continue
                os.unlink(place)
                if inside and os.path.isfile(end) and os.path.getsize(end) <= left:
                    left -= os.path.getsize(end)
                    shutil.copyfile(end, place)
                elif inside:
                    missing.append(f"{os.path.relpath(place, root)} is left out of the copy: it is too large for one")
        return missing

    def own(self, path: Path, *, keep: bool = True) -> None:
        """Put a copy in the place of a link to *path*, or an empty one unless its content is to be kept."""
        text = self._text(path)
        if text is None:
            return
        self._own_folders(os.path.dirname(text))
        if self._leads_out(text):
            end = os.path.realpath(text)
            if os.path.isdir(end):
                self._open_folder(text, end)
            elif not keep or os.path.getsize(end) <= MOST:
                os.unlink(text)
                if keep:
                    shutil.copyfile(end, text)

    def own_folder(self, path: Path) -> None:
        """Let the folder in which *path* stands be one of the scratch folder's own."""
        text = self._text(path)
        if text is not None:
            self._own_folders(os.path.dirname(text))

    def _own_folders(self, folder: str) -> None:
        """Make *folder*, and all above it, real folders."""
        here = self._scratch
        for part in os.path.relpath(folder, self._scratch).split(os.sep):
            here = os.path.normpath(os.path.join(here, part))
            if self._leads_out(here):
                self._open_folder(here, os.path.realpath(here))

    def _open_folder(self, link: str, end: str) -> None:
        entries = sorted(os.listdir(end))
        os.unlink(link)
        os.mkdir(link)
        for name in entries:
            self._symlink(os.path.join(end, name), os.path.join(link, name))

    def _leads_out(self, place: str) -> bool:
        """Whether *place* is a link to something outside of the scratch folder."""
        if place in self._theirs or not os.path.islink(place):
            return False
        return not f"{os.path.realpath(place)}/".startswith(f"{self._scratch}/")

    def _text(self, path: Path) -> str | None:
        """*path* from the root, if it is one below the scratch folder."""
        if isinstance(path, int):
            return None
        try:
            text = os.path.abspath(os.fsdecode(path))
        except (TypeError, OSError):  # no path; or the working directory is gone
            return None
        return text if text.startswith(self._scratch + os.sep) else None


def _put(module: Any, name: str, function: Any) -> None:
    """Replace a function of a module.  It is pickled by its name, and so must be found under it."""
    function.__module__, function.__qualname__ = module.__name__, name
    setattr(module, name, function)
