"""The user's own frames of a traceback: frames of no installed package and of none of Python's own modules."""

from __future__ import annotations

import os
import sysconfig
import time
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import NamedTuple

STARTED = time.time()
"""Time at which this process began to be watched; a file that has changed since differs from the running code."""
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PLACES = tuple(
    os.path.realpath(sysconfig.get_path(name)) + os.sep
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
    if sysconfig.get_path(name)
)


class Frame(NamedTuple):
    """A line that was running: the file as its code names it, the line from 1, and the frame itself."""

    path: str
    line: int
    frame: FrameType


def frames_of(trace: TracebackType | None) -> Iterator[Frame]:
    """Yield all frames of a traceback, the outermost first, after the callers' frames around it, which still run."""
    around: list[Frame] = []
    outer = trace.tb_frame.f_back if trace is not None else None
    while outer is not None:
        around.append(Frame(outer.f_code.co_filename, outer.f_lineno, outer))
        outer = outer.f_back
    yield from reversed(around)
    while trace is not None:
        yield Frame(trace.tb_frame.f_code.co_filename, trace.tb_lineno, trace.tb_frame)
        trace = trace.tb_next


def is_of_user(path: str) -> bool:
    """Whether a frame's file is the user's own source."""
    real = os.path.realpath(path)
    if not os.path.isfile(real) or real.startswith(HERE) or f"{os.sep}site-packages{os.sep}" in real:
        return False
    # A project may lie below the interpreter's folders, as in a container; a package of its library never is one.
    return not real.startswith(_PLACES) and not real.startswith(os.path.dirname(os.__file__) + os.sep)


def is_first_process() -> bool:
    """Whether this is the process that speaks for all of a distributed training."""
    return os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) in ("", "0")
