"""Exceptions on their way through the program, and its own end."""

from __future__ import annotations

from autofix.codemods.interpreter.values import Value


class Exceptions:
    """What was raised, and what the blocks around the program handle."""

    def __init__(self) -> None:
        self.raised = False
        """Whether the function that was called last ended by an exception."""
        self.error: Value = None
        """The error, or its type, that was raised last; None where it is not known."""
        self.awaited: tuple[tuple[Value, ...], ...] = ()
        """The types of errors that the blocks handle in which the program is."""
        self.exited = False
        """Whether the program ended itself."""
