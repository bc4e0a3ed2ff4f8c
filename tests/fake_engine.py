"""A stand-in for the engine, so that the tools around it can be tested by themselves.

Every ``store.append(NAME)`` is a mistake that ``.detach()`` repairs, every ``hopeless.append(NAME)`` one that nothing
does, and ``boom()`` is a bug in the engine.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from typing import Any

from autofix.codemods.facts.base import Span
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.rewriting.patch import Line, Patch, lines_of
from autofix.codemods.source.program import Program
from autofix.engine import Analysis, Finding, SourceError

MISTAKE = re.compile(r"(store|hopeless)\.append\((\w+)\)")
REMEDY = "Detach what is stored."


def analyse(source: str, path: str, *, select: Collection[str] | None = None, **_: Any) -> Analysis:
    try:
        ast.parse(source)
    except SyntaxError as error:
        raise SourceError(path, error.lineno or 1, error.offset or 1, error.msg) from None
    if "boom()" in source:
        raise ZeroDivisionError("boom")
    if select is not None and not any("AF101".startswith(code) for code in select):
        return analysis(path, source, source)
    lines = re.split(r"(?<=\n)|(?<=\r)(?!\n)", source)
    findings = []
    for number, line in enumerate(lines, 1):
        for match in MISTAKE.finditer(line):
            findings.append(finding(path, number, match))
    patched = MISTAKE.sub(lambda m: f"store.append({m[2]}.detach())" if m[1] == "store" else m[0], source)
    return analysis(path, source, patched, tuple(findings))


def analysis(path: str, source: str, patched: str, findings: tuple[Finding, ...] = ()) -> Analysis:
    """The analysis of a program of one file."""
    lines = [Line(line, number) for number, line in enumerate(lines_of(patched), 1)]
    return Analysis(Patch.of(Program.of(source, path), {path: lines}), findings)


def finding(path: str, line: int, match: re.Match[str]) -> Finding:
    kept = Span(path, line, match.start(), line, match.end())
    used = Span(path, line, match.start(2), line, match.end(2))
    after = Span(path, line + 1, 0, line + 1, 4)
    fact = StaleGraph(made=used, kept=kept, used=used, freed=after, failed=after, name=match[1])
    fixed = match[1] == "store"
    return Finding("AF101", "stored-tensor", fact, fixed, REMEDY if fixed else "", fact.cause)
