"""Runs at the start of every Python process that a run starts: it finds the project's copy, and may be the one watched.

Python imports a module of this name, from the first place of its path that has one, before it runs anything else.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def enter(job: str) -> None:
    """Let ``child/descend.py`` prepare this process for the run whose *job* file is named."""
    spec = importlib.util.spec_from_file_location("_autofix_main", os.path.join(os.path.dirname(HERE), "__main__.py"))
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.load("descend").enter(job)


def hand_on() -> None:
    """Import the module of this name that would have been found without this one."""
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != HERE]
    own = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ImportError:
        sys.modules["sitecustomize"] = own


hand_on()
if "AUTOFIX_JOB" in os.environ:
    enter(os.environ["AUTOFIX_JOB"])
