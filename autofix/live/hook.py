"""``autofix.explain()``: an error of autograd that ends the program is explained below its traceback.

Costs nothing until then: the hook is called by the interpreter once the program has died, and reads the source then.
"""

from __future__ import annotations

import sys
from types import TracebackType

from autofix.live.frames import is_first_process

_installed: list[Explaining] = []


class Explaining:
    """Handle that ``explain`` returns; as a context manager it lets go at the end of the block."""

    def __init__(self) -> None:
        self._before = sys.excepthook
        sys.excepthook = self._hook
        _installed.append(self)

    def _hook(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self._before(kind, error, trace)
        if not is_first_process():
            return
        from autofix.live.death import explained

        told = explained(error)
        if told is not None:
            sys.stderr.flush()
            told.show(sys.stderr)

    def __enter__(self) -> Explaining:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Add the explanation of *error* to it as a note, which is printed below its traceback."""
        self.remove()
        if error is None or not is_first_process():
            return
        from autofix.live.death import explained

        told = explained(error)
        if told is not None:
            error.add_note(told.text)

    def remove(self) -> None:
        """Explain nothing any more."""
        if sys.excepthook == self._hook:
            sys.excepthook = self._before
        if self in _installed:
            _installed.remove(self)


def explain() -> Explaining:
    """Explain errors of autograd from now on, or, in a ``with`` statement, within its block.

    When such an error ends the program, its cause in the source is printed below the traceback, with the story of the
    graph (kept, used, freed), and a patch where one is known.
    """
    return _installed[-1] if _installed else Explaining()
