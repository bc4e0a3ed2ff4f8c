"""Runs the user's script as ``python SCRIPT ARGS`` would, and says how it ended."""

from __future__ import annotations

import builtins
import errno
import importlib.util
import itertools
import linecache
import os
import re
import socket
import sys
import threading
import types
from collections.abc import Iterator
from importlib.abc import InspectLoader
from pathlib import Path

from .job import Job
from .recorded import RunError
from .tests import Caught

HERE = str(Path(__file__).absolute().parent) + os.sep


def perform(job: Job) -> tuple[str, RunError | None]:
    """Execute the script as ``__main__``.

    Returns the outcome (``finished`` or ``raised``) and, for the latter, the error's type, message, place and frames.
    """
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = module
    caught = Caught(job)
    try:
        code = code_of_module(job, module) if job.way == "module" else code_of_file(job, module)
        exec(code, module.__dict__)
        wait_for_threads()
    except SystemExit as error:
        if error.code in (None, 0):
            return "finished", None
        return "raised", describe(caught.error or error, job.root)
    except BaseException as error:
        # The traceback that the script would have shown its user belongs to its output.
        error.with_traceback(own_frames_removed(error.__traceback__))
        sys.excepthook(type(error), error, error.__traceback__)
        return "raised", describe(error, job.root)
    return "finished", None


def code_of_file(job: Job, module: types.ModuleType) -> types.CodeType:
    """The code of ``python FILE ARGS``, with the import path and the arguments that it finds."""
    sys.path.insert(0, os.path.dirname(job.target))
    inside = job.target.startswith(job.root + os.sep)
    sys.argv = [os.path.relpath(job.target) if inside else job.target, *job.args]
    module.__dict__.update(__file__=job.target, __package__=None, __spec__=None, __cached__=None)
    if job.target.endswith(".ipynb"):  # the cells, written there as one script
        del module.__dict__["__file__"]
        module.__dict__.update(get_ipython=NoKernel, display=print)
    with open(job.target, "rb") as file:
        return compile(file.read(), job.target, "exec", dont_inherit=True)


class NoKernel:
    """Stands for the kernel of a notebook that is run as a script: no call of it does anything."""

    def __getattr__(self, name: str) -> NoKernel:
        return self

    def __call__(self, *args: object, **kwargs: object) -> NoKernel:
        return self

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __contains__(self, thing: object) -> bool:
        return False


def code_of_module(job: Job, module: types.ModuleType) -> types.CodeType:
    """The code of ``python -m MODULE ARGS``, with import path and arguments.  Raises :class:`ModuleNotFoundError`."""
    sys.path.insert(0, os.getcwd())
    sys.argv = ["-m", *job.args]
    spec = importlib.util.find_spec(job.target)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{job.target}.__main__")
    loader = spec.loader if spec is not None else None
    if spec is None or not isinstance(loader, InspectLoader):
        raise ModuleNotFoundError(f"No module named {job.target!r}, or one that cannot be run", name=job.target)
    code = loader.get_code(spec.name)
    if code is None:
        raise ImportError(f"{job.target} has no Python code", name=job.target)
    sys.argv[0] = spec.origin or ""
    module.__dict__.update(
        __file__=spec.origin, __package__=spec.parent, __spec__=spec, __loader__=loader, __cached__=spec.cached
    )
    return code


def wait_for_threads() -> None:
    """Let the threads end that the interpreter would wait for: the training may run in one of them."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def own_frames_removed(trace: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback as it would be without the probe."""
    kept: list[types.TracebackType] = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(HERE):
            kept.append(trace)
        trace = trace.tb_next
    result: types.TracebackType | None = None
    for one in reversed(kept):
        result = types.TracebackType(result, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return result


def describe(error: BaseException, root: str) -> RunError:
    """The error as plain data: type, message, and the user's frames with the innermost last."""
    frames: list[tuple[str, int, str]] = []
    column: int | None = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if is_user_file(code.co_filename, root):
            file = os.path.relpath(code.co_filename, root)
            frames.append((file, trace.tb_lineno, code.co_qualname))
            column = column_of(code, trace.tb_lasti)
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename and is_user_file(error.filename, root):
        frames.append((os.path.relpath(error.filename, root), error.lineno or 1, ""))
        column = error.offset
    file, line, _ = frames[-1] if frames else ("", None, "")
    what, path = refused(error)
    return RunError(type(error).__name__, _said(str(error)), line, file, tuple(frames), what, path, column)


def column_of(code: types.CodeType, last: int) -> int | None:
    """Column of the expression whose instruction is at *last*, in characters from 1; None where it is not known."""
    if not hasattr(code, "co_positions"):  # before Python 3.11
        return None
    line, _, column, _ = next(itertools.islice(code.co_positions(), last // 2, None), (None,) * 4)
    if line is None or column is None:
        return None
    return len(linecache.getline(code.co_filename, line).encode()[:column].decode(errors="replace")) + 1


def refused(error: BaseException) -> tuple[str, str]:
    """The access that the system has refused, if it caused *error*: ``write`` with the path, or ``network``."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        pending += [one.__cause__, one.__context__, *(arg for arg in one.args if isinstance(arg, BaseException))]
        if isinstance(one, OSError) and one.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and one.filename:
            place = one.filename2 or one.filename
            if isinstance(place, (str, bytes)):
                return "write", os.path.realpath(os.fsdecode(place))
        if isinstance(one, socket.gaierror) or (
            isinstance(one, OSError) and one.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH)
        ):
            return "network", ""
    return "", ""


def _said(message: str) -> str:
    """The message of an error; the worker's own, where a data loader hands on the traceback of a worker."""
    if not message.startswith("Caught ") or "Original Traceback" not in message:
        return message
    named = (_NAMED.match(line) for line in reversed(message.splitlines()))
    return next((one[1] for one in named if one), message)


_NAMED = re.compile(r"[A-Z]\w*(?:Error|Exception): (.*)")


def is_user_file(path: str, root: str) -> bool:
    """Whether *path* is source of the user's project, not of an installed package inside its folder."""
    return path.startswith(root + os.sep) and "site-packages" not in path


def user_place(root: str) -> tuple[str, int | None]:
    """File (relative to *root*) and line of the innermost user frame that is running now."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if is_user_file(path, root):
            return os.path.relpath(path, root), frame.f_lineno
        frame = frame.f_back
    return "", None


def user_chain(root: str) -> tuple[tuple[str, int], ...]:
    """File (relative to *root*) and line of every user frame that is running now, the outermost first."""
    chain: list[tuple[str, int]] = []
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if is_user_file(path, root):
            chain.append((os.path.relpath(path, root), frame.f_lineno))
        frame = frame.f_back
    return tuple(reversed(chain))
