"""``check --watch``: the check is repeated whenever a source or a file of settings changes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import click

from autofix.commands.waiting import tell
from autofix.exits import Exit
from autofix.project.cells import SUFFIX
from autofix.settings.discovery import FILES


def watched(paths: Sequence[Path], check: Callable[[], Exit]) -> Exit:
    """Call *check* now, and after every change below *paths*, until the user interrupts."""
    try:
        import watchfiles
    except ModuleNotFoundError:
        raise click.ClickException("--watch needs watchfiles: pip install 'torch-autofix[watch]'") from None

    class Sources(watchfiles.DefaultFilter):
        """Python files, and files of settings."""

        def __call__(self, change: watchfiles.Change, path: str) -> bool:
            return (path.endswith((".py", SUFFIX)) or Path(path).name in FILES) and super().__call__(change, path)

    code = attempt(check)
    with suppress(KeyboardInterrupt):
        for _ in watchfiles.watch(*paths, watch_filter=Sources()):
            if sys.stdout.isatty():
                click.clear()
            code = attempt(check)
    return code


def attempt(check: Callable[[], Exit]) -> Exit:
    """One check; a file of settings that is being edited does not end the watch."""
    try:
        code = check()
    except click.ClickException as error:
        error.show()
        code = Exit.FAILED
    sys.stdout.flush()
    tell("autofix: watching for changes, until Ctrl-C.")
    return code
