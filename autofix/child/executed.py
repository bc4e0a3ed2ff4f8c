"""Watched parts of the sources that a run has executed, and parts that it has not.

A patch that somebody wrote by hand may do anything behind ``if step == 1000``: a run that was stopped before shows
nothing of it.  Only the functions that hold a watched part are traced, instruction by instruction, and tracing ends as
soon as each part has been executed.
"""

from __future__ import annotations

import mmap
import os
import sys
import threading
import types
from collections.abc import Callable, Mapping
from typing import Any

from .job import Job, Watched
from .recorded import Missed
from .turns import Turn

Trace = Callable[[types.FrameType, str, Any], Any]
_monitoring: Any = vars(sys).get("monitoring")
"""``sys.monitoring``, from Python 3.12 on."""
UNIT = 2
"""Bytes of a unit of byte code; ``co_positions`` has an entry for each."""


class Executed:
    """Follows the watched parts of the sources of *job*."""

    def __init__(self, job: Job) -> None:
        self._sources = {os.path.join(job.root, one.file): _Source(one) for one in job.watched}
        self._tracer: _Tracer | _Monitor | None = None

    def install(self) -> None:
        """Follow the functions that are called from now on."""
        if any(source.waits for source in self._sources.values()):
            self._tracer = _tracer_of(self._sources)
            self._tracer.start()

    def missed(self) -> Missed:
        """Lines that were not executed so far, and loops that are running and have never come to an end."""
        if self._tracer is not None:
            self._tracer.stop()
        running: dict[str, set[int]] = {}
        for top in sys._current_frames().values():
            frame: types.FrameType | None = top
            while frame is not None:
                if frame.f_code.co_filename in self._sources:
                    running.setdefault(frame.f_code.co_filename, set()).add(frame.f_lineno)
                frame = frame.f_back
        lines, loops, turns = {}, {}, {}
        for path, source in self._sources.items():
            if missing := source.missing():
                lines[source.file] = missing
            if open_ended := source.running(running.get(path, set())):
                loops[source.file] = open_ended
            if same := source.same_values():
                turns[source.file] = same
        return Missed(lines, loops, turns)


def _tracer_of(sources: Mapping[str, _Source]) -> _Tracer | _Monitor:
    """The cheapest way to see instructions that this Python has: before 3.12 there is only one."""
    free = (tool for tool in (3, 4, 5, 2, 1) if _monitoring is not None and _monitoring.get_tool(tool) is None)
    tool = next(free, None)
    return _Tracer(sources) if tool is None else _Monitor(sources, tool)


class _Tracer:
    """Sees instructions through :func:`sys.settrace`."""

    def __init__(self, sources: Mapping[str, _Source]) -> None:
        self._sources = sources

    def start(self) -> None:
        threading.settrace(self._enter)
        sys.settrace(self._enter)

    def stop(self) -> None:
        sys.settrace(None)
        threading.settrace(None)

    def _enter(self, frame: types.FrameType, _event: str, _: Any) -> Trace | None:
        source = self._sources.get(frame.f_code.co_filename)
        if source is None or not source.concerns(frame.f_code):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        inside = set[tuple[int, int]]()

        def step(frame: types.FrameType, event: str, _: Any) -> Trace:
            if event in ("opcode", "return"):
                source.at(frame, frame.f_lasti, inside, ends=event == "return")
                if not source.concerns(frame.f_code):
                    frame.f_trace_opcodes = False
                    if not any(one.waits for one in self._sources.values()):
                        self.stop()
            return step

        return step


class _Monitor:
    """Sees instructions through :mod:`sys.monitoring` (PEP 669): functions that are not watched run at full speed.

    The tracing of Python 3.12 tells a function's instructions only where they were asked for before it was called.
    """

    def __init__(self, sources: Mapping[str, _Source], tool: int) -> None:
        self._sources, self._tool = sources, tool
        self._inside: dict[types.FrameType, set[tuple[int, int]]] = {}
        """For each frame of a watched function, the loops that it has been in."""

    def start(self) -> None:
        events = _monitoring.events
        self._followed = events.INSTRUCTION | events.PY_RETURN | events.PY_YIELD
        _monitoring.use_tool_id(self._tool, "autofix")
        for event, called in (
            (events.PY_START, self._enter),
            (events.PY_RESUME, self._enter),
            (events.INSTRUCTION, self._step),
            (events.PY_RETURN, self._leave),
            (events.PY_YIELD, self._leave),
            (events.PY_UNWIND, self._leave),
        ):
            _monitoring.register_callback(self._tool, event, called)
        _monitoring.set_events(self._tool, events.PY_START | events.PY_RESUME | events.PY_UNWIND)

    def stop(self) -> None:
        if _monitoring.get_tool(self._tool) == "autofix":
            _monitoring.set_events(self._tool, 0)
            _monitoring.free_tool_id(self._tool)
        self._inside.clear()

    def _enter(self, code: types.CodeType, _offset: int) -> object:
        source = self._sources.get(code.co_filename)
        if source is None or not source.concerns(code):
            return _monitoring.DISABLE
        _monitoring.set_local_events(self._tool, code, self._followed)
        return None

    def _step(self, code: types.CodeType, offset: int) -> object:
        source = self._sources[code.co_filename]
        frame = sys._getframe(1)
        source.at(frame, offset, self._inside.setdefault(frame, set()), ends=False)
        self._go_on(source, code)
        return None

    def _leave(self, code: types.CodeType, offset: int, _: object) -> None:
        source = self._sources.get(code.co_filename)
        frame = sys._getframe(1)
        inside = self._inside.pop(frame, None) if source is not None else None
        if source is not None and inside is not None:
            source.at(frame, offset, inside, ends=True)
            self._go_on(source, code)

    def _go_on(self, source: _Source, code: types.CodeType) -> None:
        """Follow *code* no longer where all of it has been seen."""
        if not source.concerns(code):
            _monitoring.set_local_events(self._tool, code, 0)
            # A frame that is kept would keep its tensors.
            self._inside = {frame: loops for frame, loops in self._inside.items() if frame.f_code is not code}
            if not any(one.waits for one in self._sources.values()):
                self.stop()


class _Source:
    """One watched source: which of its parts have not been executed, and where its code has them."""

    def __init__(self, watched: Watched) -> None:
        self.file = watched.file
        self.open = set(range(len(watched.spans)))
        self._done = mmap.mmap(-1, len(watched.spans) + 1)
        """A byte for each part that was executed, here or in a forked worker of a loader."""
        self._spans = watched.spans
        self._by_type = watched.by_type
        self._turns = [(one[:4], Turn(one[4])) for one in watched.turns]
        self._turns_at: dict[types.CodeType, dict[int, list[Turn]]] = {}
        """The expressions that begin at an instruction, which a growing number decides on."""
        self._endless = set(watched.loops)
        """The loops that have not come to an end yet."""
        self._lines_of: dict[types.CodeType, list[int | None]] = {}
        """The line of each instruction; None for one of the compiler's own."""
        self._loops_of: dict[types.CodeType, set[tuple[int, int]]] = {}
        self._known: set[int] = set()
        """The parts that any code seen so far has an instruction of."""
        self._places: dict[types.CodeType, dict[int, set[int]]] = {}

    @property
    def waits(self) -> bool:
        """Whether anything has not been executed, or not been seen to its end."""
        return bool(self.open or self._endless or any(turn.open for _, turn in self._turns))

    def concerns(self, code: types.CodeType) -> bool:
        """Whether *code* has something that has not been executed, or a loop that has not come to an end."""
        if code not in self._places:
            self._learn(code)
        turns = any(turn.open for some in self._turns_at[code].values() for turn in some)
        return bool(self._places[code] or turns or self._endless & self._loops_of[code])

    def at(self, frame: types.FrameType, offset: int, inside: set[tuple[int, int]], *, ends: bool) -> None:
        """The instruction of *frame* at an *offset* in bytes is about to be executed; *inside* are the loops that it
        has been in.
        """
        code = frame.f_code
        for turn in self._turns_at[code].get(offset // UNIT, ()) if not ends else ():
            if turn.open:
                turn.look(frame)
        line = self._lines_of[code][offset // UNIT]
        for index in self._places[code].pop(offset // UNIT, ()):
            self.open.discard(index)
            self._done[index] = True
        if line is None and not ends:  # an instruction of the compiler's own
            return
        for loop in self._endless & self._loops_of[code]:
            if line is not None and loop[0] <= line <= loop[1] and not ends:
                inside.add(loop)
            elif loop in inside:
                self._endless.discard(loop)

    def missing(self) -> tuple[int, ...]:
        """The first lines of the parts that were not executed.  One that has no instruction has nothing to execute."""
        seen = self._known if self._places else set(range(len(self._spans)))
        left = {index for index in self.open & seen if not self._done[index]}
        for branch in self._by_type:
            inside = {index for index, span in enumerate(self._spans) if _within(span, branch)}
            if not any(self._done[index] for index in inside):
                left -= inside
        return tuple(sorted({self._spans[index][0] for index in left}))

    def same_values(self) -> tuple[int, ...]:
        """The lines of expressions whose value has never turned although their numbers have changed."""
        return tuple(sorted({span[0] for span, turn in self._turns if turn.misses}))

    def running(self, lines: set[int]) -> tuple[int, ...]:
        """The first lines of the loops that have never come to an end, and are at one of these *lines*."""
        return tuple(first for first, last in sorted(self._endless) if any(first <= line <= last for line in lines))

    def _learn(self, code: types.CodeType) -> None:
        """Find the parts in *code* and in the functions that it makes: they are known even if they are not called."""
        places: dict[int, set[int]] = {}
        begun: dict[int, list[Turn]] = {}
        found = set[int]()
        positions = list(code.co_positions())
        for unit, (line, end_line, column, end_column) in enumerate(positions):
            if line is None or end_line is None or column is None or end_column is None:
                continue
            place = line, end_line, column, end_column
            for index, span in enumerate(self._spans):
                if _within(place, span):
                    places.setdefault(unit, set()).add(index)
            for number, (span, turn) in enumerate(self._turns):
                if number not in found and _within(place, span):
                    found.add(number)
                    begun.setdefault(unit, []).append(turn)
        self._places[code], self._turns_at[code] = places, begun
        self._lines_of[code] = [line for line, *_ in positions]
        lines = {line for _, _, line in code.co_lines() if line is not None}
        self._loops_of[code] = {loop for loop in self._endless if loop[0] in lines}
        self._known.update(*places.values())
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType) and constant not in self._places:
                self._learn(constant)


def _within(inner: tuple[int, int, int, int], outer: tuple[int, int, int, int]) -> bool:
    """Whether a span of lines and columns, as :class:`Watched` has them, lies in another one."""
    first, last, begin, end = outer
    return (first, begin) <= (inner[0], inner[2]) and (inner[1], inner[3]) <= (last, end)
