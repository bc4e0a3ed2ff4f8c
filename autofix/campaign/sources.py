"""The repositories of a campaign: folders, git URLs, and files that list both."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from autofix.campaign.task import Bounds, Task

SCHEMES = ("https", "http", "ssh", "git", "file")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)")
_OF_SSH = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?([A-Za-z0-9][A-Za-z0-9_.-]*):(?!:)[^-\s]\S*")
MARK = "--"
"""Word between a repository and the arguments of ``autofix run``."""


class SourceError(click.ClickException):
    """A repository that is refused, or a list that cannot be read."""

    exit_code = 2


def tasks(repositories: Iterable[str], cache: Path, bounds: Bounds) -> list[Task]:
    """The tasks of a campaign, none twice.  Raises :class:`SourceError`."""
    found: dict[str, Task] = {}
    for source, base, command in _entries(repositories):
        is_url = looks_like_url(source)
        if is_url:
            refuse(source)
        else:
            source = str(base / source)
            if not Path(source).is_dir():
                raise SourceError(f"{source}: there is no such folder")
            source = str(Path(source).resolve())
        task = Task(source, is_url, command, str(cache.absolute()), bounds)
        found.setdefault(task.name, task)
    return list(found.values())


def _entries(repositories: Iterable[str]) -> Iterator[tuple[str, Path, tuple[str, ...]]]:
    """Each source with the folder that it is relative to, and its command."""
    for given in repositories:
        path = Path(given)
        if not path.is_file():
            yield given, Path(), ()
            continue
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SourceError(f"{given} cannot be read: {error}") from None
        for number, line in enumerate(lines, 1):
            try:
                source, command = parsed(line)
            except ValueError as error:
                raise SourceError(f"{given}:{number}: {error}") from None
            if source:
                yield source, path.parent, command


def parsed(line: str) -> tuple[str, tuple[str, ...]]:
    """The source and the command of one line of a list: ``SOURCE``, or ``SOURCE -- SCRIPT ARGS``.

    Raises :class:`ValueError`.
    """
    words = shlex.split(line, comments=True)
    if not words:
        return "", ()
    source, *rest = words
    if not rest:
        return source, ()
    if rest[0] != MARK or len(rest) == 1:
        raise ValueError(f"expected {MARK} and what autofix run is given after {source}")
    return source, tuple(rest[1:])


def looks_like_url(source: str) -> bool:
    """Whether *source* names a repository elsewhere; True for a word like an option, which :func:`refuse` rejects."""
    if source.startswith("-") or "::" in source or _URL.match(source):
        return True
    return _OF_SSH.fullmatch(source) is not None and not Path(source).exists()


def refuse(url: str) -> None:
    """Raise :class:`SourceError` for a URL that git would take for an option, or for a program to start."""
    if url.startswith("-"):
        raise SourceError(f"{url}: this is an option for git, and no repository")
    if any(ord(character) <= 32 or ord(character) == 127 for character in url):
        raise SourceError(f"{url!r}: no URL holds a space or a control character")
    found = _URL.match(url)
    if found is not None:
        scheme, host = found[1].lower(), found[2].rpartition("@")[2]
        if scheme not in SCHEMES:
            raise SourceError(f"{url}: only {', '.join(SCHEMES)} are fetched from")
        if host.startswith("-") or found[2].startswith("-"):
            raise SourceError(f"{url}: a host that begins with - is an option for ssh")
    elif "::" in url:
        raise SourceError(f"{url}: transports with :: start programs, and are refused")
