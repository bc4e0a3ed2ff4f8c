"""``python -m autofix train.py ARGS``: the script as ``python train.py ARGS`` runs it, explained if it dies."""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Sequence
from types import ModuleType, TracebackType

from autofix.live.frames import HERE
from autofix.live.hook import explain


def run(arguments: Sequence[str]) -> int:
    """Run a script in this process as ``__main__``, and return the exit code.  Lets :class:`SystemExit` through."""
    path = os.path.abspath(arguments[0])
    sys.argv = list(arguments)
    sys.path[0] = os.path.dirname(path)
    module = ModuleType("__main__")
    module.__dict__.update(__builtins__=builtins, __file__=path, __cached__=None, __spec__=None)
    sys.modules["__main__"] = module
    explain()
    try:
        with open(path, "rb") as stream:
            code = compile(stream.read(), path, "exec", dont_inherit=True)
        exec(code, module.__dict__)
    except Exception as error:
        error.__traceback__ = of_script(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def of_script(trace: TracebackType | None) -> TracebackType | None:
    """The traceback from the script on."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(HERE):
        trace = trace.tb_next
    return trace
