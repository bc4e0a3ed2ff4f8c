"""One module per output format.  Imports none of them before it is asked for."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autofix.report.base import Reporter

OF_CHECK = {
    "full": "full",
    "concise": "concise",
    "json": "json_document",
    "json-lines": "json_lines",
    "github": "github",
    "gitlab": "gitlab",
    "sarif": "sarif",
    "junit": "junit",
    "rdjson": "rdjson",
}
"""The formats of ``check``, and the modules of this package that write them."""
OF_RUN = {"text": "full", "json": "json_document"}
"""The formats of ``run`` and ``prove``."""
SPECIAL = {"diff": "diff", "html": "browser"}
"""Formats that have an option of their own."""


def reporter(name: str) -> type[Reporter]:
    """The reporter for an output format.  Raises :class:`KeyError` for a name that none has."""
    module = (OF_CHECK | OF_RUN | SPECIAL)[name]
    kind: type[Reporter] = importlib.import_module(f"{__name__}.{module}").REPORTER
    return kind


def default_of_check(*, to_file: bool) -> str:
    """The format where none is asked for: excerpts for a person, a line for each place where a program reads."""
    return "full" if sys.stdout.isatty() and not to_file else "concise"
