"""The program that ``run`` and ``prove`` are given, and the bounds of its execution."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import click

from autofix.commands.waiting import tell
from autofix.progress import SILENT
from autofix.project import files
from autofix.settings.discovery import Finder, SettingsError

if TYPE_CHECKING:
    from autofix.execution.invocation import Invocation
    from autofix.progress import Watcher
    from autofix.proof.prove import Limits, Script


class Bounds(TypedDict):
    """The options of ``run`` and ``prove`` that place and bound an execution."""

    root: Path | None
    cwd: Path | None
    steps: int
    timeout: float
    budget: float | None
    python: str | None
    seed: int
    device: str | None
    memory: int | None
    allow_network: bool
    allow_write: tuple[str, ...]


def bounds_of(options: dict[str, Any]) -> Bounds:
    """The bounds among the *options* of a command, which they are taken from."""
    return Bounds(**{name: options.pop(name) for name in Bounds.__annotations__})  # type: ignore[no-any-return, typeddict-item]


BUDGET = 600.0
"""Seconds for all runs, where nobody says another number."""


def started(words: Sequence[str], bounds: Bounds | None = None) -> Invocation:
    """The program that *words* start, under these options.  Raises :class:`click.UsageError`."""
    from autofix.execution.invocation import InvocationError, invocation

    try:
        if bounds is None:
            return invocation(words)
        return invocation(words, root=bounds["root"], cwd=bounds["cwd"], python=bounds["python"])
    except InvocationError as error:
        raise click.UsageError(str(error)) from None


def with_settings(words: Sequence[str], bounds: Bounds) -> tuple[Invocation, Bounds]:
    """The program that *words* start, and its bounds: an option that the command line leaves open comes from settings.

    Raises :class:`click.ClickException` where a file of settings cannot be used.
    """
    program = started(words, bounds)
    try:
        settings = Finder().of(program.script.path)
    except SettingsError as error:
        raise click.ClickException(str(error)) from None
    chosen = bounds.copy()
    chosen["root"] = bounds["root"] or settings.root
    if words[0] != "--":  # a command names its interpreter itself
        chosen["python"] = bounds["python"] or settings.python
    chosen["budget"] = bounds["budget"] or settings.budget or BUDGET
    is_same = (chosen["root"], chosen["python"]) == (bounds["root"], bounds["python"])
    return program if is_same else started(words, chosen), chosen


def begun(words: Sequence[str], bounds: Bounds) -> tuple[Invocation, Bounds]:
    """As :func:`with_settings`, with the program's interpreter on its way: it imports torch for longer than anything
    else takes that a command does before the first run.
    """
    from autofix.execution.runner import warm_up

    program, chosen = with_settings(words, bounds)
    warm_up(program.script, program.python)
    return program, chosen


def limits(bounds: Bounds, python: str, watcher: Watcher[Any] | None = None) -> Limits:
    from autofix.proof.prove import Limits

    return Limits(
        python=python,
        steps=bounds["steps"],
        timeout=bounds["timeout"],
        deadline=time.monotonic() + (bounds["budget"] or BUDGET),
        watcher=watcher or SILENT,
        seed=bounds["seed"],
        device=bounds["device"] or "",
        network=bounds["allow_network"],
        writable=bounds["allow_write"],
        memory=bounds["memory"] or 0,
    )


def tell_of_kernel(program: Invocation) -> None:
    """Say that a notebook runs without a kernel, and what is to be installed for one."""
    if not program.lacking:
        return
    name = program.script.path
    where = "" if program.lacking == "nbclient" else f", for {program.python}"
    wanted = '"torch-autofix[notebook]"' if program.lacking == "nbclient" else program.lacking
    tell(
        f"autofix: note: {name} runs as a script, without magics and shell commands: "
        f"{program.lacking} is not installed (pip install {wanted}{where})"
    )


def warn_of_misplaced(command: str, script: Script) -> None:
    """Say which of autofix's own options stand behind the script, so that they are handed to it."""
    from autofix.execution.invocation import misplaced
    from autofix.project.gather import gather

    context = click.get_current_context(silent=True)
    if context is None or not script.args:
        return
    own = [name for option in context.command.params for name in option.opts if name.startswith("--")]
    try:
        project = gather(script.path, files.read(script.path))
    except files.FileError:
        return
    for name in misplaced(script, [project.file.text, *project.others.values()], own):
        tell(
            f"autofix: warning: {name} stands behind {script.path} and is handed to it; "
            f"for autofix, write: autofix {command} {name} ... {script.path}"
        )
