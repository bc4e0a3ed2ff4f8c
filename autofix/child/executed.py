"""Which parts of the sources a run has executed, of those in which it is watched.

A patch that somebody wrote by hand may do anything behind ``if step == 1000``: a run that was stopped before shows
nothing of it.  Only the functions that hold such a part are traced, instruction by instruction, and nothing any more
as soon as each part has been executed.
"""

from __future__ import annotations

import os
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from .job import Job, Watched
from .recorded import Missed

Trace = Callable[[types.FrameType, str, Any], Any]
UNIT = 2
"""Bytes of a unit of byte code; ``co_positions`` has an entry for each."""


class Executed:
    """Follows the watched parts of the sources of *job*."""

    def __init__(self, job: Job) -> None:
        self._sources = {os.path.join(job.root, one.file): _Source(one) for one in job.watched}

    def install(self) -> None:
        """Follow the functions that are called from now on."""
        if any(source.open for source in self._sources.values()):
            threading.settrace(self._enter)
            sys.settrace(self._enter)

    def missed(self) -> Missed:
        """What was not executed so far, and which loops are running."""
        sys.settrace(None)
        running: dict[str, set[int]] = {}
        for top in sys._current_frames().values():
            frame: types.FrameType | None = top
            while frame is not None:
                if frame.f_code.co_filename in self._sources:
                    running.setdefault(frame.f_code.co_filename, set()).add(frame.f_lineno)
                frame = frame.f_back
        lines, loops = {}, {}
        for path, source in self._sources.items():
            if missing := source.missing():
                lines[source.file] = missing
            if open_ended := source.running(running.get(path, set())):
                loops[source.file] = open_ended
        return Missed(lines, loops)

    def _enter(self, frame: types.FrameType, _event: str, _: Any) -> Trace | None:
        source = self._sources.get(frame.f_code.co_filename)
        if source is None or not (places := source.places_of(frame.f_code)):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True

        def step(frame: types.FrameType, event: str, _: Any) -> Trace:
            if event == "opcode" and (spans := places.pop(frame.f_lasti // UNIT, None)) is not None:
                source.open.difference_update(spans)
                if not places or not source.open:
                    frame.f_trace_opcodes = False
                    if not any(one.open for one in self._sources.values()):
                        sys.settrace(None)
                        threading.settrace(None)
            return step

        return step


class _Source:
    """One watched source: which of its parts have not been executed, and where its code has them."""

    def __init__(self, watched: Watched) -> None:
        self.file = watched.file
        self.open = set(range(len(watched.spans)))
        self._spans = watched.spans
        self._loops = watched.loops
        self._known: set[int] = set()
        """The parts that any code seen so far has an instruction of."""
        self._places: dict[types.CodeType, dict[int, set[int]]] = {}

    def places_of(self, code: types.CodeType) -> dict[int, set[int]]:
        """The units of *code* that have not been executed and belong to parts, and these parts."""
        if code not in self._places:
            self._learn(code)
        return self._places[code]

    def missing(self) -> tuple[int, ...]:
        """The first lines of the parts that were not executed.  One that has no instruction has nothing to execute."""
        seen = self._known if self._places else set(range(len(self._spans)))
        return tuple(sorted({self._spans[index][0] for index in self.open & seen}))

    def running(self, lines: set[int]) -> tuple[int, ...]:
        """The first lines of the loops within which execution is at one of these *lines*."""
        return tuple(first for first, last in self._loops if any(first <= line <= last for line in lines))

    def _learn(self, code: types.CodeType) -> None:
        """Find the parts in *code* and in the functions that it makes: they are known even if they are not called."""
        places: dict[int, set[int]] = {}
        for unit, (line, end_line, column, end_column) in enumerate(code.co_positions()):
            if line is None or end_line is None or column is None or end_column is None:
                continue
            for index, (first, last, begin, end) in enumerate(self._spans):
                if (first, begin) <= (line, column) and (end_line, end_column) <= (last, end):
                    places.setdefault(unit, set()).add(index)
        self._places[code] = places
        self._known.update(*places.values())
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType) and constant not in self._places:
                self._learn(constant)
