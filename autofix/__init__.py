"""The tool around the codemods: find, rewrite, run, prove."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autofix.api import check, prove, run
    from autofix.live.hook import explain
    from autofix.live.ipython import load_ipython_extension, unload_ipython_extension
    from autofix.results import AutofixError, CheckResult, Finding, ProveResult, RunResult

__version__ = "0.1.0"
__all__ = [
    "AutofixError",
    "CheckResult",
    "Finding",
    "ProveResult",
    "RunResult",
    "check",
    "explain",
    "load_ipython_extension",
    "prove",
    "run",
    "unload_ipython_extension",
]

_HOMES = {
    "check": "autofix.api",
    "prove": "autofix.api",
    "run": "autofix.api",
    "explain": "autofix.live.hook",
    "load_ipython_extension": "autofix.live.ipython",
    "unload_ipython_extension": "autofix.live.ipython",
    "AutofixError": "autofix.results",
    "CheckResult": "autofix.results",
    "Finding": "autofix.results",
    "ProveResult": "autofix.results",
    "RunResult": "autofix.results",
}
"""The modules of the names that are loaded when they are first asked for: importing the package costs nothing."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
