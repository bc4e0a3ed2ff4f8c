"""The command line: parse, call one function of :mod:`autofix.commands`, exit.

Imports nothing but click before it knows what to do, so that ``--help`` and ``--version`` cost nothing.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeVar

import click

from autofix import __version__
from autofix.exits import TABLE, Exit

Command = TypeVar("Command", bound=Callable[..., Any])

EXISTING = click.Path(exists=True, path_type=Path)
DIFF = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
SCRIPT = click.Path(exists=True, dir_okay=False, path_type=Path)
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
FORMAT = click.Choice(["text", "json"])
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
    verbose = click.option("-v", "--verbose", is_flag=True, help="Say more: remedies, refused candidates, tracebacks.")
    return quiet(verbose(command))


def output_format(command: Command) -> Command:
    return click.option(
        "--output-format", type=FORMAT, default="text", show_default=True, help="json is described in the README."
    )(command)


def page(command: Command) -> Command:
    return click.option(
        "--html",
        type=click.Path(dir_okay=False, writable=True, path_type=Path),
        metavar="FILE",
        help="Write a page for the browser, too: story, patch, proof, losses, and a picture of the graph.",
    )(command)


class Launched(click.Command):
    """A command that is given a program: ``SCRIPT ARGS``, ``-m MODULE ARGS``, or ``-- COMMAND``.

    The words that tell which are kept from click, which would take ``-m`` for an option and drop ``--``.
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
"""Before the words ``-m`` and ``--`` while click parses."""


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
            default=600.0,
            show_default=True,
            metavar="SECONDS",
            help="End all runs after so long, and give the best answer so far.",
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


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="\b\nExit codes:\n" + "\n".join(f"  {line}" for line in TABLE.split("\n")),
)
@click.version_option(__version__, "-V", "--version", prog_name="autofix", message="%(prog)s %(version)s")
def cli() -> None:
    """Find the mistakes that make PyTorch's autograd fail, repair them, and prove each patch by running it.

    \b
    Examples:
      autofix check .              find mistakes; runs nothing
      autofix run train.py         find, repair, and prove by running the script before and after
      autofix rule                 what can be found and repaired
    """


@cli.command(
    short_help="Find mistakes by reading the source; --diff and --fix repair them.",
    epilog=examples(
        "autofix check                         all Python files below this folder",
        "autofix check --diff src | git apply  review the patch elsewhere, then apply it",
        "autofix check --fix train.py          repair in place",
        "autofix check --fix - < in.py > out.py",
    ),
)
@click.argument("paths", nargs=-1, type=click.Path(exists=True, allow_dash=True, path_type=Path))
@click.option("--fix", is_flag=True, help="Repair the files in place; with -, write the result to standard output.")
@click.option("--diff", is_flag=True, help="Print one patch for all files, and write nothing.")
@click.option(
    "--unsafe-fixes",
    "unsafe",
    is_flag=True,
    help="Repair what is only likely too: it rests on a call that is not read.",
)
@click.option("--select", multiple=True, metavar="CODES", help="Only these codes or prefixes, separated by commas.")
@click.option("--stdin-filename", metavar="PATH", help="What to call standard input in reports.")
@click.option("--absolute", is_flag=True, help="Print absolute paths, for programs that cannot take relative ones.")
@output_format
@volume
def check(paths: tuple[Path, ...], fix: bool, diff: bool, output_format: str, **options: Any) -> Exit:
    """Find mistakes in PATHS (default: this folder; - is standard input) by reading the source.  Runs nothing."""
    standard_input = Path("-") in paths
    if standard_input and len(paths) > 1:
        raise click.UsageError("- cannot be combined with other paths.")
    if fix and diff:
        raise click.UsageError("--fix and --diff exclude each other.")
    as_json = output_format == "json"
    if as_json and (diff or (fix and standard_input)):
        raise click.UsageError("JSON holds the patch already, and only it: leave out --diff, and --fix with -.")
    from autofix import commands

    return commands.check(paths or (Path(),), fix=fix, diff=diff, as_json=as_json, **options)


@cli.command(
    short_help="Repair one script, and prove the repair by running it.",
    epilog=examples(
        "autofix run train.py                     show cause, patch and proof; write nothing",
        "autofix run --fix train.py --epochs 3    write the patch if it is proved",
        "autofix run --python .venv/bin/python --steps 5 train.py",
        "autofix run --html report.html train.py  the same as a page for the browser",
        "autofix run -m package.train --epochs 3  a module",
        "autofix run -- torchrun --nproc_per_node=1 train.py   a whole command, as pytest tests/test_x.py::test_y",
    ),
    context_settings={"allow_interspersed_args": False},
    cls=Launched,
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="{SCRIPT | -m MODULE | -- COMMAND} [ARGS]...")
@click.option("--fix", is_flag=True, help="Write the patch, if it is proved.")
@click.option("--diff", is_flag=True, help="Print the patch alone, if it is proved.")
@click.option("--no-static", "static", flag_value=False, default=True, help="Repair from what the run shows alone.")
@place
@limits
@page
@output_format
@volume
def run(words: tuple[str, ...], fix: bool, diff: bool, output_format: str, **options: Any) -> Exit:
    """Repair SCRIPT and prove it: run it as it is and as it is patched, and compare.

    ARGS are handed to the script; autofix's own options stand before SCRIPT.
    """
    if not words:
        raise click.UsageError("Missing SCRIPT, -m MODULE or -- COMMAND.")
    if diff and (fix or output_format == "json"):
        raise click.UsageError("--diff prints the patch alone: leave out --fix and --output-format json.")
    from autofix import commands

    return commands.run(unmarked(words), fix=fix, diff=diff, as_json=output_format == "json", **options)


@cli.command(
    short_help="Judge a repair that somebody else made.",
    epilog=examples(
        "autofix prove train.py train_by_hand.py",
        "autofix prove train.py --patch fix.diff --epochs 3",
        "git diff | autofix prove train.py --patch -    a diff of one or several files",
        "autofix prove --output-format json before.py after.py",
        "autofix prove --against HEAD -m package.train  what is not committed yet is the repair",
    ),
    context_settings={"allow_interspersed_args": False},
    cls=Launched,
)
@click.argument(
    "words", nargs=-1, type=click.UNPROCESSED, metavar="{BROKEN | -m MODULE | -- COMMAND} [FIXED] [ARGS]..."
)
@click.option("--patch", type=DIFF, metavar="DIFF", help="A unified diff instead of FIXED; - is standard input.")
@click.option("--against", metavar="REV", help="Instead of FIXED: the files as they are, BROKEN as git has it at REV.")
@place
@limits
@page
@output_format
@volume
def prove(words: tuple[str, ...], patch: Path | None, against: str | None, output_format: str, **options: Any) -> Exit:
    """Run BROKEN and FIXED, a repair that somebody else made, and say what the repair shows and where it falls short.

    A DIFF is applied to a copy, never to the files themselves; files that have the change already are judged as they
    are.  ARGS are handed to both scripts; autofix's own options stand before BROKEN, and only --patch may follow it.
    """
    if patch is not None and against is not None:
        raise click.UsageError("--patch and --against exclude each other.")
    words = unmarked(words)
    if not words:
        raise click.UsageError("Missing BROKEN, -m MODULE or -- COMMAND.")
    fixed: Path | None = None
    if patch is None and against is None:
        if words[0] in Launched.MARKS:
            raise click.UsageError("Missing --patch DIFF or --against REV, before the module or the command.")
        SCRIPT.convert(words[0], None, None)
        if words[1:2] == ("--patch",):
            patch = DIFF.convert(argument(words[2:], "--patch requires an argument."), None, None)
            words = (words[0], *words[3:])
        else:
            fixed = SCRIPT.convert(argument(words[1:], "Missing FIXED or --patch DIFF."), None, None)
            words = (words[0], *words[2:])
    from autofix import commands

    return commands.prove(words, fixed, patch=patch, against=against, as_json=output_format == "json", **options)


def argument(rest: Sequence[str], missing: str) -> str:
    """Return the first of *rest*.  Raises :class:`click.UsageError` where there is none."""
    if not rest:
        raise click.UsageError(missing)
    return rest[0]


@cli.command(
    short_help="Accept or refuse patches hunk by hunk.",
    epilog=examples(
        "autofix review             every patch below this folder, hunk by hunk",
        "yes | autofix review src   accept all of them",
        "autofix review -m package.train    the patches for a module and what it imports",
    ),
    cls=Launched,
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[PATHS]... | -m MODULE | -- COMMAND")
@click.option("--select", multiple=True, metavar="CODES", help="Only these codes or prefixes, separated by commas.")
@volume
def review(words: tuple[str, ...], **options: Any) -> Exit:
    """Show the patches for PATHS hunk by hunk, with the reason for each, and apply those that you accept.

    Answers are those of git add -p: y, n, a, d, s, q, ?.
    """
    from autofix import commands

    if words[:1] and words[0].startswith(MARK):
        return commands.review((commands.started(unmarked(words)).script.path,), **options)
    paths = [EXISTING.convert(word, None, None) for word in words]
    return commands.review(paths or (Path(),), **options)


@cli.command(
    short_help="Explain the mistakes that autofix knows.",
    epilog=examples(
        "autofix rule          a line for each mistake",
        "autofix rule AF101    problem, cause, fix, and its limits",
        "autofix rule stored   the same by name; the beginning of one is enough",
    ),
)
@click.argument("code", required=False)
def rule(code: str | None) -> Exit:
    """Explain the mistakes that autofix knows: all of them in a line each, or CODE at length."""
    from autofix import commands

    return commands.rule(code)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.  Never raises."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a path or a message may hold what the terminal's encoding lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(args=arguments, prog_name="autofix", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        return Exit.INTERRUPTED
    except click.ClickException as error:
        error.show()
        return Exit.FAILED
    except BrokenPipeError:  # the reader, say `head`, has seen enough; keep the interpreter from complaining at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    except Exception:
        traceback.print_exc()
        click.echo("autofix failed: this is a bug, please report it with the lines above.", err=True)
        return Exit.FAILED
    return int(code or 0)
