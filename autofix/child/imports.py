"""Loads the project's modules from its copy, for every finder of the interpreter that knows them.

A project that is installed in editable mode has its own folder on ``sys.path``, or a finder in front of all others.
Entries of the path are turned into their counterparts in the copy, and a finder stands before the others: it asks them
for the module, and puts the copy's file in the place of the original's.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

from .job import Job


class CopyFinder:
    """The first entry of ``sys.meta_path``: finds the modules of the project at *origin* in the copy at *root*."""

    def __init__(self, origin: str, root: str) -> None:
        self._origin = origin
        self._root = root
        self._inside = threading.local()
        self.found: set[str] = set()
        """The files that were found for modules: some are executed without staying in ``sys.modules``."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that another finder has, with the copy's file where that is the original's."""
        if getattr(self._inside, "busy", False):  # another finder asks all of them in turn
            return None
        self._inside.busy = True
        try:
            return self._moved(name, self._ask(name, path, target))
        finally:
            self._inside.busy = False

    def _ask(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is not self and find is not None:
                spec = find(name, path, target)
                if spec is not None:
                    return spec if isinstance(spec, ModuleSpec) else None
        return None

    def _moved(self, name: str, spec: ModuleSpec | None) -> ModuleSpec | None:
        if spec is None:
            return None
        if spec.origin and spec.has_location:
            self.found.add(self.counterpart(spec.origin))
        folders = spec.submodule_search_locations
        if spec.origin and spec.has_location and (place := self.counterpart(spec.origin)) != spec.origin:
            inside = [self.counterpart(folder) for folder in folders] if folders is not None else None
            return importlib.util.spec_from_file_location(name, place, submodule_search_locations=inside)
        if folders is not None and not spec.has_location:
            inside = [self.counterpart(folder) for folder in folders]
            if inside != list(folders):
                spec = ModuleSpec(name, None, is_package=True)  # a package without ``__init__.py``
                spec.submodule_search_locations = inside
        return spec

    def counterpart(self, path: str) -> str:
        """The place in the copy of a *path* within the project; *path* itself where there is none."""
        for one in (path, os.path.realpath(path)):
            if one == self._origin or one.startswith(self._origin + os.sep):
                place = self._root + one[len(self._origin) :]
                if os.path.exists(place):
                    return place
        return path


def redirect(job: Job) -> CopyFinder:
    """Let imports of this process lead into the copy, and find the project's modules as if it were installed."""
    finder = CopyFinder(job.origin or job.root, job.root)
    sys.meta_path.insert(0, finder)
    sys.path[:] = list(dict.fromkeys(finder.counterpart(place) for place in sys.path))
    sys.path += [place for place in job.import_roots if place not in sys.path]
    return finder


def unloaded(job: Job, read: set[str]) -> dict[str, str]:
    """The changed sources that were not loaded from the copy, and the file that was loaded instead; empty for none.

    ``read`` are the files that were read as text, and may have been executed since.
    """
    by_name = {
        name: path
        for name, module in (list(sys.modules.items()) if job.changed else ())
        if isinstance(path := getattr(module, "__file__", None), str)
    }
    # There are some thousand modules: only the links of files with the name of a changed one are resolved.
    last = {os.path.basename(changed) for changed in job.changed}
    loaded = (path for path in (*read, job.target, *by_name.values()) if os.path.basename(path) in last)
    seen = set(map(os.path.realpath, loaded))
    found = {}
    for changed in job.changed:
        place = os.path.join(job.root, changed)
        if os.path.realpath(place) in seen:
            continue
        names = _names(place, (*job.import_roots, job.root, *sys.path))
        found[changed] = next((by_name[name] for name in names if name in by_name), "")
    return found


def _names(place: str, folders: Sequence[str]) -> list[str]:
    """The names under which a source may be imported, by the folders that are searched."""
    found = []
    for folder in folders:
        if folder and place.startswith(folder.rstrip(os.sep) + os.sep):
            parts = os.path.relpath(place, folder)[: -len(".py")].split(os.sep)
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found
