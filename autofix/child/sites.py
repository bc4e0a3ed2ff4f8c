"""Sites of events in the user's source: chains of frames, cheap to take, decoded when they are told."""

from __future__ import annotations

import os
import sys
import types
from typing import Any

from .stage import is_user_file

Chain = tuple[tuple[types.CodeType, int], ...]
"""The user's frames, the innermost first, as (code, index of the last instruction).  Frames of libraries are left out.
"""


class Sites:
    """Takes chains and decodes them.  ``root`` is the folder of the user's files."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._is_user: dict[types.CodeType, bool] = {}
        self._positions: dict[types.CodeType, list[Any]] = {}

    def here(self, depth: int = 1) -> Chain:
        """The chain of the code that runs now, from *depth* frames above the caller on."""
        return self.of(sys._getframe(depth + 1))

    def of(self, frame: types.FrameType | None) -> Chain:
        """The chain of *frame* and its callers."""
        known = self._is_user
        chain = []
        while frame is not None:
            code = frame.f_code
            user = known.get(code)
            if user is None:
                user = known[code] = is_user_file(code.co_filename, self._root)
            if user:
                chain.append((code, frame.f_lasti))
                if code.co_name == "<module>":  # beyond it are the frames that run the script
                    break
            frame = frame.f_back
        return tuple(chain)

    def told(self, chain: Chain) -> list[dict[str, Any]]:
        """The frames of *chain* as plain data, the outermost first: file, function, and the span of the expression.

        Lines count from 1, columns are offsets in bytes of UTF-8 from 0, ends are exclusive.
        """
        return [self._frame(code, last) for code, last in reversed(chain)]

    def _frame(self, code: types.CodeType, last: int) -> dict[str, Any]:
        line, end_line, column, end_column = self._position(code, last)
        return {
            "file": os.path.relpath(code.co_filename, self._root),
            "function": getattr(code, "co_qualname", code.co_name),
            "first_line": code.co_firstlineno,
            "line": line,
            "column": column,
            "end_line": end_line,
            "end_column": end_column,
        }

    def _position(self, code: types.CodeType, last: int) -> tuple[Any, ...]:
        if not hasattr(code, "co_positions"):  # before Python 3.11
            line = next((n for start, end, n in code.co_lines() if start <= last < end), code.co_firstlineno)
            return line, line, None, None
        if code not in self._positions:
            self._positions[code] = list(code.co_positions())
        return tuple(self._positions[code][last // 2])
