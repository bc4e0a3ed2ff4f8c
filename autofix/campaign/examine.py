"""The work of a campaign on one repository, done on the machine where it lies; errors are outcomes, none is raised."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from msgspec.structs import replace

from autofix.campaign.bounded import Ended, bounded
from autofix.campaign.branch import open_branch
from autofix.campaign.git import clone, last_line, revision
from autofix.campaign.sources import SourceError
from autofix.campaign.task import TRIES, Bounds, Outcome, Status, Task, outcome_of
from autofix.project.git import GitError

OF_BUDGET = 0.8
"""The part of a repository's time that ``run`` may spend on runs, so that it ends by itself with its best answer."""


def examine(task: Task, tries: int = 1) -> Outcome:
    """Fetch the repository, check it or run it, and open a branch.  *tries* includes the tries of lost workers."""
    began = time.monotonic()
    try:
        folder = clone(task.source, Path(task.cache), task.bounds.seconds) if task.is_url else Path(task.source)
        if not folder.is_dir():
            return outcome_of(task, "not there", f"there is no folder {folder} on this machine", tries)
    except (GitError, SourceError) as error:
        return outcome_of(task, "not there", last_line(str(error)), tries)
    commit = revision(folder)
    while True:
        try:
            ended = bounded(
                words(task),
                folder,
                max(1.0, task.bounds.seconds - (time.monotonic() - began)),
                task.bounds.memory,
                {"PYTHON_CPU_COUNT": "1"},  # the other processors have repositories of their own
            )
        except OSError as error:
            return outcome_of(task, "failed", f"autofix cannot be started: {error.strerror}", tries)
        if not ended.is_killed or tries >= TRIES:
            break
        tries += 1
    outcome = replace(judged(task, ended, tries), revision=commit, memory=ended.memory)
    if task.bounds.open_branch and outcome.patch:
        try:
            outcome = replace(outcome, branch=open_branch(folder, outcome))
        except (GitError, OSError) as error:
            outcome = replace(outcome, branch_note=last_line(str(error)))
    return replace(outcome, seconds=round(time.monotonic() - began, 3))


def words(task: Task) -> list[str]:
    """The command for one repository, which is started in its folder."""
    bounds = task.bounds
    # Without -P, the interpreter would look for autofix, and for what autofix imports, in the checkout first.
    start = [*(task.program or (sys.executable, "-P", "-m", "autofix"))]
    if not task.command:
        options = [*(["--unsafe-fixes"] if bounds.unsafe else []), *(["--isolated"] if bounds.isolated else [])]
        return [*start, "check", "--output-format", "json", *options, "."]
    limits = ["--budget", f"{bounds.seconds * OF_BUDGET:g}", "--timeout", f"{bounds.seconds * OF_BUDGET:g}"]
    options = ["--python", bounds.python] if bounds.python else []
    return [*start, "run", "--output-format", "json", *limits, *options, *task.command]


def judged(task: Task, ended: Ended, tries: int) -> Outcome:
    """The outcome for how the command has ended."""
    status, reason = failure(task.bounds, ended)
    if status == "done":
        try:
            document = json.loads(ended.output)
            if document["command"] in ("check", "run"):
                return Outcome(task.name, task.source, task.command, tries=tries, document=document)
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        status, reason = "failed", last_line(ended.messages) or f"autofix ended with {ended.code} and no report"
    return outcome_of(task, status, reason, tries)


def failure(bounds: Bounds, ended: Ended) -> tuple[Status, str]:
    """Status and reason for a command by its end; ``done``, without a reason, where its output is to be read."""
    if ended.exceeded == "time":
        return "timed out", f"ended after {bounds.seconds:g} seconds"
    if ended.exceeded == "memory":
        return "out of memory", f"ended at {ended.memory / 2**20:.0f} MiB, more than {bounds.memory / 2**20:.0f} MiB"
    if ended.exceeded:
        return "failed", f"ended: {ended.exceeded}"
    if ended.is_killed:
        return "died", f"its process was killed by signal {-ended.code} at each of {TRIES} tries"
    return "done", ""
