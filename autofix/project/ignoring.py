"""Patterns for files, matched in bounded time: patterns of settings, and of the ignore files that git reads."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from autofix.project import reading

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

_STAR, _FOLDERS = "[^/]*", "(?:/.+)?"
"""The regular expressions of ``*`` and of ``/**``, as pathspec writes them."""
_LONGEST = 1024
"""Characters of the longest pattern that is taken for one."""


def rules_above(home: Path) -> dict[Path, GitIgnoreSpec]:
    """Return the ignore files between the root of the repository of *home*, absolute, and *home*, outermost first.

    None of them counts where they ignore *home*: a user who names an ignored folder wants to see its files.
    """
    root = next((folder for folder in [home, *home.parents] if (folder / ".git").exists()), home)
    above = [folder for folder in reversed(home.parents) if folder.is_relative_to(root)]
    rules = {folder: rule for folder in above if (rule := read_gitignore(folder)) is not None}
    return {} if is_ignored(home, innermost_first(rules), is_folder=True) else rules


def innermost_first(rules: Mapping[Path, GitIgnoreSpec]) -> list[tuple[Path, GitIgnoreSpec]]:
    return sorted(rules.items(), key=lambda one: len(one[0].parts), reverse=True)


def read_gitignore(folder: Path) -> GitIgnoreSpec | None:
    """The ignore file of *folder*; None where there is none that can be read."""
    try:
        lines = reading.settings(folder / ".gitignore").split("\n")
    except OSError:
        return None
    return spec(tuple(lines))


@lru_cache(maxsize=256)
def spec(patterns: tuple[str, ...]) -> GitIgnoreSpec:
    """Return the matcher of *patterns*, from an ignore file or settings, which may mean harm."""
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(patterns, pattern)


def is_ignored(path: Path, rules: Iterable[tuple[Path, GitIgnoreSpec]], *, is_folder: bool = False) -> bool:
    """Whether git ignores the absolute *path* by *rules*, the innermost first, of which the first to say so decides."""
    for base, rule in rules:
        relative = path.relative_to(base).as_posix() + ("/" if is_folder else "")
        said = rule.check_file(relative).include
        if said is not None:
            return said
    return False


def pattern(line: str) -> GitIgnoreSpecPattern:
    """Return one pattern; a line that is none says nothing, as git has it."""
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # sets within sets, which Python may come to know one day
            known = GitIgnoreSpecPattern(line if len(line) <= _LONGEST else "")
        if known.regex is None or (known.regex.pattern.count(_STAR) < 2 and _FOLDERS not in known.regex.pattern):
            return known
        return GitIgnoreSpecPattern(re.compile(without_backtracking(known.regex.pattern)), known.include)
    except (ValueError, re.error, RecursionError):  # `!`, a last backslash, a range that ends before it begins
        return GitIgnoreSpecPattern("")


def without_backtracking(regex: str) -> str:
    """Return a pattern's regular expression so that each star but the last takes the first match and keeps to it.

    The part behind a star may as well match early: ``*a*b`` matches with any ``a`` if it does with the first.  Else
    k stars try all places for k of them, which takes minutes.
    """
    first, *others = (_in_segments(part) for part in regex.split(_FOLDERS))
    for at, part in enumerate(others, 1):
        folders = "(?:/[^/]+)*?"
        first += f"{folders}{part}" if at == len(others) else f"(?>{folders}{part}(?=/|$))"
    return first


def _in_segments(part: str) -> str:
    first, *others = part.split(_STAR)
    for at, chunk in enumerate(others, 1):
        is_last = at == len(others) or "/" in chunk.replace("[^/]", "")
        first += f"{_STAR}{chunk}" if is_last else f"(?>{_STAR}?{chunk})"
    return first
