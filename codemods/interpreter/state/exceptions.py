"""Exceptions on their way through the program, and its own end."""

from __future__ import annotations

from autofix.codemods.interpreter.values import Value


class Exceptions:
    """The raised exception, and the types of errors that the current blocks handle."""

    def __init__(self) -> None:
        self.raised = False
        """Whether the function that was called last ended by an exception."""
        self.error: Value = None
        """The error, or its type, that was raised last; None where it is not known."""
        self.awaited: tuple[tuple[Value, ...], ...] = ()
        """For each block around the current statement, the types of errors that it handles."""
        self.exited = False
        """Whether the program ended itself."""

    @property
    def may_be_handled(self) -> bool:
        """Whether a block around the current statement handles errors of some type: a ``with`` handles none."""
        return any(self.awaited)
