"""Options that several commands share, and how a command that starts a program tells them from the program's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from autofix.report.formats import OF_CHECK, OF_RUN

Command = TypeVar("Command", bound=Callable[..., Any])

EXISTING = click.Path(exists=True, path_type=Path)
DIFF = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
SCRIPT = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
TEXT = "text"
"""An older name of ``check``'s formats for people: the one for a terminal there, the one for a program elsewhere."""
LEAST_MEMORY = 256 * 2**20
"""Bytes that an interpreter takes which has imported torch and done nothing."""


def size(text: str) -> int:
    """Return the bytes of an amount of memory as people write it: 500M, 1.5G, 4GiB.  Units are powers of 1024."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT])(?:i?B)?", text.strip(), re.IGNORECASE)
    if found is None:
        raise click.BadParameter(f"{text!r} is no amount of memory; write 500M or 4G.")
    amount = int(float(found[1]) * 1024 ** ("KMGT".index(found[2].upper()) + 1))
    if amount < LEAST_MEMORY:
        raise click.BadParameter(f"{text} is too little: torch alone takes {LEAST_MEMORY // 2**20}M.")
    return amount


def examples(*lines: str) -> str:
    """Return a closing part of a help text that keeps its line breaks."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def volume(command: Command) -> Command:
    """Add ``-q`` and ``-v``."""
    quiet = click.option("-q", "--quiet", is_flag=True, help="Print results alone: no notes, no summary.")
    verbose = click.option("-v", "--verbose", is_flag=True, help="Say more: fixes, refused candidates, tracebacks.")
    return quiet(verbose(command))


def output_format(command: Command) -> Command:
    """Add ``--output-format`` for ``run`` and ``prove``."""
    return click.option(
        "--output-format",
        type=click.Choice([*OF_RUN]),
        default="text",
        show_default=True,
        help="json is described in docs/formats.md.",
    )(command)


def report(command: Command) -> Command:
    """Add ``--output-format`` and ``--output-file`` for ``check``."""
    choice = click.option(
        "--output-format",
        type=click.Choice([*OF_CHECK, TEXT]),
        metavar="FORMAT",
        callback=lambda _context, _option, value: None if value == TEXT else value,
        help=f"{', '.join(OF_CHECK)}.  [default: full on a terminal, concise elsewhere]",
    )
    file = click.option(
        "--output-file",
        type=click.Path(dir_okay=False, writable=True, path_type=Path),
        metavar="FILE",
        help="Write the report to FILE.",
    )
    return choice(file(command))


CODES = "CODES"


def codes_like(_context: click.Context, _option: click.Parameter, begun: str) -> list[str]:
    """Codes and names of mistakes for a shell that completes a word."""
    from autofix.settings.selection import known

    words = sorted({*known(), *known().values()})
    return [one for one in words if one.lower().startswith(begun.lower())]


def choices(command: Command) -> Command:
    """Add the options that choose mistakes and files: the fields of :class:`autofix.choices.Choices`."""
    options = [
        click.option(
            "--select",
            multiple=True,
            metavar=CODES,
            shell_complete=codes_like,
            help="Look for these codes or names alone, or for all that begin so.",
        ),
        click.option(
            "--extend-select",
            multiple=True,
            metavar=CODES,
            shell_complete=codes_like,
            help="Look for these, too, beside the choice of the settings.",
        ),
        click.option(
            "--ignore",
            multiple=True,
            metavar=CODES,
            shell_complete=codes_like,
            help="Leave out these; of --select and --ignore the longer name counts.",
        ),
        click.option(
            "--exclude",
            multiple=True,
            metavar="PATTERNS",
            help="Leave out these files and folders, instead of the usual ones.",
        ),
        click.option(
            "--extend-exclude", multiple=True, metavar="PATTERNS", help="Leave out these files and folders, too."
        ),
        click.option("--force-exclude", is_flag=True, help="Leave out excluded files even where PATHS name them."),
        click.option(
            "--config",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="The settings for all files.  [default: the nearest autofix.toml or pyproject.toml above each]",
        ),
        click.option("--isolated", is_flag=True, help="Read no file of settings."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def follow_up(command: Command) -> Command:
    """Add the options that narrow a report of ``check``, sum it up, or write something else than patches."""
    file = click.Path(dir_okay=False, path_type=Path)
    options = [
        click.option("--statistics", is_flag=True, help="Print how often each mistake was found, and no more."),
        click.option("--show-fixes", is_flag=True, help="With --fix, list what was repaired."),
        click.option("--exit-zero", is_flag=True, help="End with 0 although mistakes are left."),
        click.option("--add-ignores", is_flag=True, help="Write a comment at each mistake that suppresses it."),
        click.option("--baseline", type=file, metavar="FILE", help="Leave out the mistakes that FILE lists."),
        click.option("--write-baseline", type=file, metavar="FILE", help="Write all mistakes to FILE."),
        click.option("--since", metavar="REV", help="Only mistakes in lines that were changed since a git revision."),
        click.option("-w", "--watch", is_flag=True, help="Check again whenever a file changes."),
        click.option(
            "--no-cache", is_flag=True, envvar="AUTOFIX_NO_CACHE", help="Neither use nor keep results of checks."
        ),
        click.option(
            "--cache-dir",
            type=click.Path(file_okay=False, readable=False, path_type=Path),
            envvar="AUTOFIX_CACHE_DIR",
            metavar="FOLDER",
            help="Where results of checks are kept.  [default: autofix in the user's folder for caches]",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def page(command: Command) -> Command:
    return click.option(
        "--html",
        type=click.Path(dir_okay=False, writable=True, path_type=Path),
        metavar="FILE",
        help="Write a page for the browser, too: story, patch, proof, losses, and a picture of the graph.",
    )(command)


class Launched(click.Command):
    """A command that is given a program: ``SCRIPT ARGS``, ``-m MODULE ARGS``, or ``-- COMMAND``.

    The words ``-m`` and ``--`` are kept from click, which would take ``-m`` for an option and drop ``--``.
    """

    MARKS = ("-m", "--")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        takes_value = {
            name: isinstance(option, click.Option) and not option.is_flag and not option.count
            for option in self.get_params(ctx)
            for name in option.opts
        }
        at = 0
        while at < len(args) and args[at].startswith("-") and args[at] != "-":
            if args[at] in self.MARKS:
                args = [*args[:at], f"{MARK}{args[at]}", *args[at + 1 :]]
                break
            at += 2 if takes_value.get(args[at], False) else 1
        return super().parse_args(ctx, args)


MARK = "\0"
"""Prefix of the words ``-m`` and ``--`` while click parses."""


def unmarked(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(word.removeprefix(MARK) for word in words)


def place(command: Command) -> Command:
    """Add the options that say where the project lies."""
    root = click.option(
        "--root",
        type=FOLDER,
        metavar="PATH",
        help="The project's root, of which a copy is run.  "
        "[default: the nearest folder upward with pyproject.toml, setup.py, setup.cfg or .git]",
    )
    cwd = click.option("--cwd", type=FOLDER, metavar="PATH", help="The folder to start in.  [default: this one]")
    return root(cwd(command))


def limits(command: Command) -> Command:
    """Add the options that bound an execution."""
    options = [
        click.option(
            "--steps",
            type=click.IntRange(min=1),
            default=20,
            show_default=True,
            help="Judge the patched script on so many optimizer steps past the failure.",
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0, min_open=True),
            default=300.0,
            show_default=True,
            metavar="SECONDS",
            help="Stop each run after so long.",
        ),
        click.option(
            "--budget",
            type=click.FloatRange(min=0, min_open=True),
            metavar="SECONDS",
            help="End all runs after so long, and give the best answer so far.  [default: 600, or as the settings say]",
        ),
        click.option("--python", metavar="PATH", help="The interpreter to run scripts with.  [default: autofix's own]"),
        click.option("--seed", type=int, default=0, show_default=True, help="Seed of all random numbers in both runs."),
        click.option(
            "--device", type=click.Choice(["cpu"]), default=None, help="Run what was written for a GPU on the CPU."
        ),
        click.option(
            "--memory",
            type=size,
            metavar="SIZE",
            help="The most memory for one process, such as 4G.  [default: four fifths of the machine's]",
        ),
        click.option("--allow-network", is_flag=True, help="Leave the network open, say for a script that downloads."),
        click.option(
            "--allow-write",
            multiple=True,
            type=click.Path(exists=True, resolve_path=True),
            metavar="PATH",
            help="A folder or file outside of the scratch copy that the script may write to.  Can be repeated.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def campaign(command: Command) -> Command:
    """Add the options that say where a campaign runs, and bound what each repository may take."""
    options = [
        click.option(
            "--jobs",
            type=click.IntRange(min=1),
            metavar="N",
            help="Repositories at a time on this machine.  [default: one for each processor]",
        ),
        click.option("--scheduler", metavar="ADDRESS", help="Work on the Dask cluster there, such as tcp://host:8786."),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0, min_open=True),
            default=600.0,
            show_default=True,
            metavar="SECONDS",
            help="End the work on a repository after so long.",
        ),
        click.option(
            "--memory",
            type=size,
            default="4G",
            show_default=True,
            metavar="SIZE",
            help="End the work on a repository whose processes take more, together.",
        ),
        click.option("--unsafe-fixes", "unsafe", is_flag=True, help="Make patches for likely mistakes, too."),
        click.option("--isolated", is_flag=True, help="Read no settings of the checkouts."),
        click.option(
            "--open-branch",
            is_flag=True,
            help="Commit each patch on a branch of its checkout; work tree and index stay as they are.",
        ),
        click.option(
            "--cache",
            type=click.Path(file_okay=False, path_type=Path),
            metavar="FOLDER",
            help="Where git URLs are cloned.  [default: clones in the output folder]",
        ),
        click.option("--python", metavar="PATH", help="The interpreter to run scripts with.  [default: autofix's own]"),
        click.option("--retry-failed", is_flag=True, help="Repeat repositories that were ended, killed or not found."),
    ]
    for option in reversed(options):
        command = option(command)
    return command
