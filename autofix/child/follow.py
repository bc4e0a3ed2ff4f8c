"""Follows values from the calls that make them: which statement puts each of them where, line by line.

This is for a second run of a script whose failure is known, so that the calls to be followed can be named by their
numbers.  Between such a call and the one that reads its result, every line of the user's is watched.
"""

from __future__ import annotations

import sys
import time
import types
from collections.abc import Sequence
from typing import Any

import torch

from .events import Events
from .graph import node_of
from .holders import CONTAINERS, first_of, form_of, paths_to
from .notes import MADE, Tape
from .recorded import Carried
from .sites import Sites
from .stage import is_user_file

SECONDS = 10.0
"""Time after which nothing more is followed: lines are slow to watch."""
MOST = 400
"""Most statements in a report."""
BUDGET = 2000
"""Elements of containers that are looked at after one line."""


class Followed:
    """One value: the number of the call that makes it, of the one that reads it, and the operation of its node."""

    def __init__(self, index: int, made: int, read: int, operation: str) -> None:
        self.index = index
        self.made = made
        self.read = read
        self.operation = operation


class Follower:
    """Watches the lines.  ``wanted`` holds the numbers of the calls at which it has something to do."""

    def __init__(self, values: Sequence[Followed], tape: Tape, sites: Sites, events: Events, root: str) -> None:
        self._values = values
        self._tape = tape
        self._sites = sites
        self._events = events
        self._root = root
        self.wanted = {number for value in values for number in (value.made, value.read)}
        self._alive: dict[int, int] = {}
        """The tensors that are followed, by their ``id``, with the index of the value that each of them is."""
        self._held: list[Any] = []
        self._seen: set[tuple[Any, ...]] = set()
        self._lines: dict[types.FrameType, int] = {}
        self._spent = 0.0
        self._told = 0

    def at_call(self, number: int, tensors: Sequence[torch.Tensor]) -> None:
        """Begin to follow the values that this call made, and end with the values that it reads."""
        for value in self._values:
            if value.read == number:
                self._alive = {key: index for key, index in self._alive.items() if index != value.index}
            if value.made == number:
                made = [one for one in tensors if made_in(one, number)]
                exactly = [one for one in made if operation_of(one) == value.operation]
                self._held += made
                self._alive.update({id(one): value.index for one in exactly or made})
        if self._alive:
            self._begin()
        else:
            self.end()

    def end(self) -> None:
        """Watch no further line."""
        self._alive = {}
        sys.settrace(None)

    def _begin(self) -> None:
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None:
            if is_user_file(frame.f_code.co_filename, self._root) and frame not in self._lines:
                self._lines[frame] = frame.f_lineno
                frame.f_trace = self._line
            frame = frame.f_back
        sys.settrace(self._enter)

    def _enter(self, frame: types.FrameType, event: str, _: Any) -> Any:
        if not is_user_file(frame.f_code.co_filename, self._root):
            return None
        self._lines[frame] = 0
        return self._line

    def _line(self, frame: types.FrameType, event: str, _: Any) -> Any:
        if not self._alive or event not in ("line", "return"):
            return self._line
        began = time.monotonic()
        line = self._lines.get(frame, 0)
        self._look(frame, line)
        if event == "return":
            self._lines.pop(frame, None)
        else:
            self._lines[frame] = frame.f_lineno
        self._spent += time.monotonic() - began
        if self._spent > SECONDS or self._told > MOST:
            self.end()
        return self._line

    def _look(self, frame: types.FrameType, line: int) -> None:
        """Report names that have come to hold a followed value since the last look, but for those on entry."""
        code = frame.f_code
        named = {name: frame.f_globals[name] for name in code.co_names if name in frame.f_globals}
        space = {**named, **frame.f_locals}
        budget = [BUDGET]
        for name, value in space.items():
            for path, kind, holder in paths_to(self._alive, name, value, budget, 2):
                key = (frame if path == name else None, path.rpartition(".")[2], id(holder), *self._inside(holder))
                if key in self._seen:
                    continue
                self._seen.add(key)
                self._held.append(holder)
                if line:
                    self._tell(frame, line, path, kind, holder)

    def _inside(self, holder: Any) -> tuple[int, ...]:
        """The index of the first followed value that a container holds; empty for any other object."""
        if not isinstance(holder, CONTAINERS):
            return ()
        return (first_of(self._alive, holder)[1],)

    def _tell(self, frame: types.FrameType, line: int, path: str, kind: str, holder: Any) -> None:
        code = frame.f_code
        item, index = first_of(self._alive, holder)
        chain = self._sites.of(frame)
        self._told += 1
        told = {
            "value": index,
            "name": path,
            "kind": kind,
            "form": form_of(holder),
            "item": form_of(item),
            "function": getattr(code, "co_qualname", code.co_name),
            "line": line,
            "number": self._tape.calls,
            "passes": self._tape.passes,
            "frames": self._sites.told(chain),
        }
        self._events.write(Carried(told))


def made_in(tensor: torch.Tensor, number: int) -> bool:
    """Whether a tensor's node was made in the call of this number."""
    node = node_of(tensor)
    call = node.metadata.get(MADE) if node is not None else None
    return call is not None and call.number == number


def operation_of(tensor: torch.Tensor) -> str:
    node = node_of(tensor)
    return str(node.name()) if node is not None else ""
