"""The command line: parse, call one function of :mod:`autofix.commands`, exit.

Imports nothing but click before it knows what to do, so that ``--help`` and ``--version`` cost nothing.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import click

from autofix import __version__, options
from autofix.escaping import escaped
from autofix.exits import TABLE, Exit
from autofix.options import DIFF, EXISTING, SCRIPT, Launched, examples, unmarked

UNSEEN = 50_000
"""New objects after which the garbage collector looks through them."""


class Commands(click.Group):
    """The commands; a script in the place of one is told which of them take it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            if not args or self.get_command(ctx, args[0]) is not None or not args[0].endswith((".py", ".ipynb")):
                raise
            if not Path(args[0]).is_file():
                raise click.UsageError(f"File '{args[0]}' does not exist.", ctx) from None
            raise click.UsageError(
                f"'{args[0]}' is no command: `autofix check {args[0]}` reads it, `autofix run {args[0]}` executes it.",
                ctx,
            ) from None


@click.group(
    cls=Commands,
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
        "autofix check --since origin/main     only what touches changed lines",
        "autofix check --output-format sarif --output-file autofix.sarif",
        "autofix check --fix - < in.py > out.py",
    ),
)
@click.argument("paths", nargs=-1, type=click.Path(exists=True, allow_dash=True, path_type=Path))
@click.option("--fix", is_flag=True, help="Repair the files in place; with -, write the result to standard output.")
@click.option("--diff", is_flag=True, help="Print one patch for all files, and write nothing.")
@click.option(
    "--unsafe-fixes/--no-unsafe-fixes",
    "unsafe",
    default=None,
    help="Repair likely mistakes, too: the ones that rest on a call whose source was not read.",
)
@options.choices
@options.follow_up
@click.option("--stdin-filename", metavar="PATH", help="Read standard input, as the text of this file.")
@click.option("--absolute", is_flag=True, help="Print absolute paths, for programs that cannot take relative ones.")
@options.report
@options.volume
def check(paths: tuple[Path, ...], **others: Any) -> Exit:
    """Find mistakes in PATHS (default: this folder; - is standard input) by reading the source.  Runs nothing."""
    if others["stdin_filename"] is not None:
        paths = paths or (Path("-"),)
    refuse_contradictions(paths, **others)
    from dataclasses import fields

    from autofix.choices import Choices
    from autofix.commands.check import Request, check

    watch, diff = others.pop("watch"), others.pop("diff")
    choices = Choices(**{field.name: others.pop(field.name) for field in fields(Choices)})
    request = Request(**others | ({"output_format": "diff"} if diff else {}))
    paths = paths or (Path(),)
    if not watch:
        return check(paths, request, choices)
    from autofix.commands.watch import watched

    return watched(paths, lambda: check(paths, request, choices))


def refuse_contradictions(paths: tuple[Path, ...], **given: Any) -> None:
    """Raise :class:`click.UsageError` for options of ``check`` that exclude each other."""
    standard_input = Path("-") in paths
    report, fix = given["output_format"], given["fix"]
    if standard_input and len(paths) > 1:
        raise click.UsageError("- cannot be combined with other paths.")
    if given["stdin_filename"] is not None and not standard_input:
        raise click.UsageError("--stdin-filename names standard input: leave out the paths.")
    if fix and given["diff"]:
        raise click.UsageError("--fix and --diff exclude each other.")
    if given["diff"] and (report or given["statistics"]):
        raise click.UsageError("--diff prints the patch alone: leave out --output-format and --statistics.")
    if report and fix and standard_input:
        raise click.UsageError("--fix with - prints the patched text alone: leave out --output-format.")
    for name in ("add_ignores", "write_baseline"):
        if given[name] and (fix or given["diff"] or standard_input):
            raise click.UsageError(
                f"--{name.replace('_', '-')} leaves the code as it is: leave out --fix, --diff and -."
            )
    if given["add_ignores"] and given["write_baseline"]:
        raise click.UsageError("--add-ignores and --write-baseline exclude each other.")
    if given["baseline"] and given["write_baseline"]:
        raise click.UsageError("--write-baseline writes all mistakes: leave out --baseline.")
    if standard_input and (given["since"] or given["watch"]):
        raise click.UsageError("--since and --watch want files, not standard input.")
    if given["isolated"] and given["config"]:
        raise click.UsageError("--config and --isolated exclude each other.")


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
@options.place
@options.limits
@options.page
@options.output_format
@options.volume
def run(words: tuple[str, ...], fix: bool, diff: bool, output_format: str, **others: Any) -> Exit:
    """Repair SCRIPT and prove it: run it as it is and as it is patched, and compare.

    ARGS are handed to the script; autofix's own options stand before SCRIPT.
    """
    if not words:
        raise click.UsageError("Missing SCRIPT, -m MODULE or -- COMMAND.")
    if diff and (fix or output_format == "json"):
        raise click.UsageError("--diff prints the patch alone: leave out --fix and --output-format json.")
    from autofix.commands.launch import begun, bounds_of

    program, bounds = begun(unmarked(words), bounds_of(others))
    from autofix.commands.run import run as command  # while torch is imported

    return command(program, bounds, fix=fix, output_format="diff" if diff else output_format, **others)


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
@options.place
@options.limits
@options.page
@options.output_format
@options.volume
def prove(words: tuple[str, ...], patch: Path | None, against: str | None, output_format: str, **others: Any) -> Exit:
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
    from autofix.commands.launch import begun, bounds_of

    program, bounds = begun(words, bounds_of(others))
    from autofix.commands.prove import prove as command  # while torch is imported

    return command(program, bounds, fixed, patch=patch, against=against, output_format=output_format, **others)


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
@options.choices
@options.volume
def review(words: tuple[str, ...], **others: Any) -> Exit:
    """Show the patches for PATHS hunk by hunk, with the reason for each, and apply those that you accept.

    Answers are those of git add -p: y, n, a, d, s, q, ?.
    """
    from dataclasses import fields

    from autofix.choices import Choices
    from autofix.commands.launch import started
    from autofix.commands.review import review as command

    given = Choices(**{field.name: others.pop(field.name) for field in fields(Choices) if field.name in others})
    if words[:1] and words[0].startswith(options.MARK):
        return command((started(unmarked(words)).script.path,), given, **others)
    paths = [EXISTING.convert(word, None, None) for word in words]
    return command(paths or (Path(),), given, **others)


@cli.command(
    short_help="Check or repair many checkouts; one report.",
    epilog=examples(
        "autofix campaign --output report ~/src/*        check every checkout, one process for each processor",
        "autofix campaign --output report list.txt       a line for each: PATH, URL, or PATH -- train.py ARGS",
        "autofix campaign --output report --open-branch list.txt   each patch as a branch, beside the work tree",
        "autofix campaign --output report --scheduler tcp://host:8786 list.txt   on a Dask cluster",
    ),
)
@click.argument("repositories", nargs=-1, required=True, metavar="REPOS...")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="FOLDER",
    help="Where results, patches and the report go; the same call goes on where it stopped.",
)
@options.campaign
@options.volume
def campaign(repositories: tuple[str, ...], **others: Any) -> Exit:
    """Check REPOS: checkouts, git URLs, or files that list both, a line each.  Runs nothing unless a line says so.

    A line SOURCE -- SCRIPT ARGS has `autofix run SCRIPT ARGS` repair the script and prove the repair.
    """
    if others["scheduler"] is not None and others["jobs"] is not None:
        raise click.UsageError("--jobs is for this machine: leave it out with --scheduler.")
    from autofix.commands.campaign import Request
    from autofix.commands.campaign import campaign as command

    return command(repositories, Request(**others))


@cli.command(
    short_help="Explain the mistakes that autofix knows.",
    epilog=examples(
        "autofix rule          a line for each mistake",
        "autofix rule AF101    problem, cause, fix, and its limits",
        "autofix rule stored   the same by name; the beginning of one is enough",
    ),
)
@click.argument("code", required=False, shell_complete=options.codes_like)
def rule(code: str | None) -> Exit:
    """Explain the mistakes that autofix knows: all of them in a line each, or CODE at length."""
    from autofix.commands.rule import rule as command

    return command(code)


@cli.command(
    short_help="Serve an editor: diagnostics and fixes while you type.",
    epilog=examples("autofix server    what an editor starts; docs/editors.md says how"),
)
@click.option("--stdio", is_flag=True, help="Standard input and output, which are used in any case.")
def server(stdio: bool) -> Exit:
    """Speak the Language Server Protocol over standard input and output.

    Diagnostics, quick fixes and hovers come from reading the source; only the command autofix.prove runs a script.
    """
    from autofix.commands.server import server as command

    return command()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code.  Never raises."""
    # Modules and syntax trees are many objects that stay: to look through them after each 700 is a tenth of the work.
    gc.set_threshold(UNSEEN, *gc.get_threshold()[1:])
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller, who wants nothing of it
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
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
        _let_go_of_output()
        return Exit.FAILED
    except OSError as error:
        print(f"autofix: {cannot(error)}", file=sys.stderr)  # noqa: T201
        _let_go_of_output()
        return Exit.FAILED
    except Exception:
        traceback.print_exc()
        click.echo("autofix failed: this is a bug, please report it with the lines above.", err=True)
        return Exit.FAILED
    return int(code or 0)


def cannot(error: OSError) -> str:
    """Message for an error of the system, on one line: a full disk, a closed descriptor, no memory for a process."""
    if error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF, errno.EFBIG):
        where = "standard output"
    elif error.filename is None:
        where = "the system refuses"
    else:
        where = os.fsdecode(error.filename)
    return escaped(f"{where}: {(error.strerror or str(error)).lower()}")


def _let_go_of_output() -> None:
    """Keep the interpreter from writing what is left, and complaining, as it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
