"""Finds the codemods by walking the package, and refuses a malformed one with its file and line."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from functools import cache
from pathlib import Path

from autofix.codemods import rules
from autofix.codemods.facts.base import Fact
from autofix.codemods.rules.base import Codemod

_CODE = re.compile(r"AF[1-9]\d\d")
_NAME = re.compile(r"[a-z]+(-[a-z]+)*")


class MalformedCodemod(TypeError):
    """A codemod that lacks what every codemod must have."""


def _check(kind: type[Codemod], taken: dict[str, type[Codemod]]) -> None:
    problem = ""
    if not _CODE.fullmatch(kind.code):
        problem = f"code {kind.code!r} is not of the form AF101"
    elif kind.code in taken:
        problem = f"code {kind.code} is taken by {taken[kind.code].__name__}"
    elif not _NAME.fullmatch(kind.name):
        problem = f"name {kind.name!r} is not of the form stored-tensor"
    elif not kind.answers or not all(isinstance(fact, type) and issubclass(fact, Fact) for fact in kind.answers):
        problem = "answers no fact"
    elif not kind.__dict__.get("__doc__"):
        problem = "has no documentation"
    if problem:
        file = inspect.getsourcefile(kind)
        line = inspect.getsourcelines(kind)[1]
        raise MalformedCodemod(f"{file}:{line}: codemod {kind.__name__}: {problem}")


_DECLARED = re.compile(
    r'^    code(?:: ClassVar\[str\])? = "(\w+)"\n    name(?:: ClassVar\[str\])? = "([\w-]+)"$', re.MULTILINE
)


@cache
def names() -> dict[str, str]:
    """The names of all codemods by code, read from their sources: to import them takes LibCST, and as long as a check.

    Where there are no sources, the codemods are imported.
    """
    found: dict[str, str] = {}
    for folder in rules.__path__:
        for file in sorted(Path(folder).glob("*.py")):
            found.update(_DECLARED.findall(file.read_text(encoding="utf-8")))
    return found or {kind.code: kind.name for kind in all_codemods()}


@cache
def all_codemods() -> tuple[type[Codemod], ...]:
    """Every codemod, ordered by code.  Raises :class:`MalformedCodemod`."""
    found: dict[str, type[Codemod]] = {}
    for module_info in pkgutil.iter_modules(rules.__path__):
        module = importlib.import_module(f"{rules.__name__}.{module_info.name}")
        for kind in vars(module).values():
            if (
                isinstance(kind, type)
                and issubclass(kind, Codemod)
                and not inspect.isabstract(kind)
                and kind.__module__ == module.__name__
            ):
                _check(kind, found)
                found[kind.code] = kind
    return tuple(found[code] for code in sorted(found))
