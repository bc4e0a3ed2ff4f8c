"""``autofix rule``: the catalogue of mistakes."""

from __future__ import annotations

import sys

import click

from autofix.codemods.rules.registry import all_codemods
from autofix.exits import Exit
from autofix.report import catalogue
from autofix.report.terminal import Printer
from autofix.settings.selection import UnknownCode


def rule(code: str | None) -> Exit:
    """Print the catalogue, or one page of it."""
    known = all_codemods()
    told = list(catalogue.contents(known) if code is None else catalogue.page(code, known))
    if not told:
        raise click.ClickException(str(UnknownCode(code or "")))
    printer = Printer(sys.stdout)
    for line in told:
        printer.line(*line)
    return Exit.CLEAN
