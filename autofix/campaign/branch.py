"""Write a patch as a branch with one commit, by git's plumbing: neither the work tree nor the index is touched."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from autofix.campaign.git import git
from autofix.campaign.task import Outcome
from autofix.escaping import escaped, escaped_lines
from autofix.project.git import GitError

NAME = "autofix/repairs"
MOST = 99
IDENTITY = ("autofix", "autofix@localhost")


def open_branch(folder: Path, outcome: Outcome) -> str:
    """Commit the patch of *outcome* on a new branch of the checkout in *folder*; returns the branch's name.

    A branch that holds this very commit's tree on this very parent is found again, so that a second try writes no
    second one.  Raises :class:`GitError`.
    """
    own_repository(folder)
    parent = git(folder, "rev-parse", "--verify", "HEAD^{commit}")
    tree = patched_tree(folder, outcome.patch)
    for number in range(1, MOST + 1):
        name = NAME if number == 1 else f"{NAME}-{number}"
        known = git(folder, "for-each-ref", "--format=%(objectname)", f"refs/heads/{name}")
        if not known:
            git(folder, "update-ref", f"refs/heads/{name}", commit(folder, tree, parent, outcome), "0" * len(parent))
            return name
        if git(folder, "rev-parse", f"{known}^{{tree}}", f"{known}^@").split() == [tree, parent]:
            return name
    raise GitError((f"there are {MOST} branches called {NAME} already",))


def own_repository(folder: Path) -> None:
    """Raise :class:`GitError` where *folder* has no repository, or names one that knows nothing of it."""
    place = folder / ".git"
    if place.is_symlink() or not place.exists():
        raise GitError(("the folder is no git checkout",))
    if place.is_file():  # a work tree beside its repository, which must say so, too
        found = re.fullmatch(r"gitdir: (.+)\n?", place.read_text(encoding="utf-8", errors="surrogateescape"))
        back = folder / found[1] / "gitdir" if found else place
        if back == place or not back.is_file() or Path(back.read_text().strip()).resolve() != place.resolve():
            raise GitError(("the folder's .git leads to a repository that does not know of it",))
    for part in ("objects", "refs", "refs/heads"):
        if (place / part).is_symlink():
            raise GitError((f".git/{part} is a link",))


def patched_tree(folder: Path, patch: str) -> str:
    """The tree of the commit that is checked out, with *patch*.  Raises :class:`GitError` where it does not apply."""
    with tempfile.TemporaryDirectory(prefix="autofix-index-") as scratch:
        environment = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
        git(folder, "read-tree", "HEAD", environment=environment)
        try:
            data = patch.encode("utf-8", "surrogateescape")
            git(folder, "apply", "--cached", "--whitespace=nowarn", "-", data=data, environment=environment)
        except GitError as error:
            raise GitError(
                (f"the patch does not apply to the commit that is checked out: {error.lines[-1]}",)
            ) from None
        return git(folder, "write-tree", environment=environment)


def commit(folder: Path, tree: str, parent: str, outcome: Outcome) -> str:
    """Make the commit, with autofix as author and committer where git knows no name."""
    environment: dict[str, str] = {}
    for role in ("AUTHOR", "COMMITTER"):
        try:
            git(folder, "-c", "user.useConfigOnly=true", "var", f"GIT_{role}_IDENT")
        except GitError:
            environment |= {f"GIT_{role}_NAME": IDENTITY[0], f"GIT_{role}_EMAIL": IDENTITY[1]}
    message = message_of(outcome).encode("utf-8", "backslashreplace")
    arguments = ["commit-tree", "--no-gpg-sign", tree, "-p", parent, "-F", "-"]
    return git(folder, *arguments, data=message, environment=environment)


def message_of(outcome: Outcome) -> str:
    """The message of the commit: the story of each repaired mistake, and the points of the proof."""
    repaired = [one for one in outcome.findings if one["fixable"]]
    count = f"{len(repaired)} mistakes" if len(repaired) != 1 else "a mistake"
    lines = [f"autofix: repair {count} of PyTorch's autograd", ""]
    for finding in repaired:
        lines += [*_story(finding), ""]
    proof = outcome.proof
    if proof is not None:
        lines.append(f"Proved by running `{shlex.join(outcome.command)}` before and after:")
        lines += [
            f"  {one['number']} {one['name']}: {one['verdict']}  {one['detail']}".rstrip() for one in proof["points"]
        ]
    return escaped_lines("\n".join(lines)).strip() + "\n"


def _story(finding: dict[str, Any]) -> Iterator[str]:
    roles = finding["roles"]
    cause = next((role for role in roles if role["cause"]), None)
    yield escaped(f"{_place(cause)}{finding['code']} {finding['message']}")
    for role in roles:
        if role is not cause:
            yield escaped(f"  {role['name']:<14} {_place(role)}{role['phrase']}").rstrip(": ")
    if finding["fix"]:
        yield escaped(f"  fix: {finding['fix']}")


def _place(role: dict[str, Any] | None) -> str:
    return f"{role['file']}:{role['start']['line']}:{role['start']['column']}: " if role else ""
