"""Git for checkouts that may mean harm: no hooks, filters, prompts or submodules; only transports that are named."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from autofix.campaign.bounded import Ended, bounded
from autofix.campaign.sources import SCHEMES, refuse
from autofix.execution.guardian import GUARD
from autofix.project import git as safe
from autofix.project.git import GitError

SETTINGS = (
    *safe.SETTINGS,
    "filter.lfs.smudge=",
    "filter.lfs.process=",
    "filter.lfs.required=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
)
"""Settings for a clone, which may start more programs than a command on a checkout."""
ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_ASKPASS": "",
    "GIT_OPTIONAL_LOCKS": "0",
    # A checkout may say that an object is fetched where it is missing, and by which program.
    "GIT_ALLOW_PROTOCOL": "",
}
MEMORY = 4 * 2**30


def git(folder: Path, *words: str, data: bytes = b"", environment: Mapping[str, str] | None = None) -> str:
    """Output of a git command in *folder*, without the last line end.  Raises :class:`GitError`."""
    said = safe.git(folder, *words, data=data, environment={**ENVIRONMENT, **(environment or {})})
    return said.decode(errors="replace").removesuffix("\n")


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("fatal: ").removeprefix("error: ") if lines else ""


def clone(url: str, cache: Path, seconds: float) -> Path:
    """The checkout of *url* in the *cache*, which appears there complete or not at all.

    Raises :class:`GitError`, and :class:`autofix.campaign.sources.SourceError` for a URL that is refused.
    """
    refuse(url)
    target = cache / hashlib.sha256(url.encode(errors="surrogatepass")).hexdigest()[:20]
    if target.is_dir():
        return target
    unfinished = cache / f"autofix-{os.getpid()}-{secrets.token_hex(4)}"
    GUARD.add(unfinished)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        allowed = {"GIT_ALLOW_PROTOCOL": ":".join(one for one in SCHEMES if one != "file" or url.startswith("file:"))}
        ended = bounded(_clone_words(url, unfinished), cache, seconds, MEMORY, {**ENVIRONMENT, **allowed})
        if ended.code or ended.exceeded:
            raise GitError((_failure(ended, seconds),))
        os.rename(unfinished, target)
    except OSError as error:
        if not target.is_dir():  # else another worker on this machine was faster
            raise GitError((f"cannot be cloned into {cache}: {error.strerror}",)) from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        GUARD.discard(unfinished)
    return target


def _clone_words(url: str, target: Path) -> list[str]:
    shallow = ["--depth=1", "--single-branch", "--no-tags", "--no-recurse-submodules", "--no-local", "--template="]
    options = [word for setting in SETTINGS for word in ("-c", setting)]
    return ["git", "--no-pager", *options, "clone", "--quiet", *shallow, "--", url, str(target)]


def _failure(ended: Ended, seconds: float) -> str:
    if ended.exceeded == "time":
        return f"cloning took more than {seconds:.0f} seconds"
    if ended.exceeded:
        return f"cloning was ended: {ended.exceeded}"
    return f"cannot be cloned: {last_line(ended.messages) or f'git ended with {ended.code}'}"


def revision(folder: Path) -> str:
    """The commit that is checked out; empty where the folder is no checkout of its own."""
    if not (folder / ".git").exists():
        return ""
    try:
        return git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    except GitError:
        return ""
