"""Display for a person while a command is at work: messages on standard error, a progress bar, a spinner."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

from autofix.checking import Problem, Result
from autofix.escaping import escaped_lines
from autofix.report.terminal import wants_colour


def tell(message: str) -> None:
    """Print one message on standard error."""
    print(escaped_lines(message), file=sys.stderr, flush=True)


def watched(outcomes: Iterator[Result | Problem], total: int) -> Iterator[Result | Problem]:
    """Pass *outcomes* on, under a progress bar where a person watches and the wait is long enough to wonder."""
    if total < 50 or not wants_colour(sys.stderr):
        yield from outcomes
        return
    yield next(outcomes)  # starts the worker processes, which must not be forked beside rich's thread
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("checking", total=total, completed=1)
        for outcome in outcomes:
            progress.advance(task)
            yield outcome


def busy(what: str) -> AbstractContextManager[object]:
    """Show that something runs, where a person watches."""
    if not wants_colour(sys.stderr):
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(what)
