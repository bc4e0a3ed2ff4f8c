"""The catalogue as one Markdown page, ``docs/rules.md``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from autofix.codemods.facts.kinds import name_of
from autofix.report.catalogue import SECTIONS, Documentation, documentation, facts, plain

if TYPE_CHECKING:
    from autofix.codemods.facts.base import Fact
    from autofix.codemods.rules.base import Codemod

PREFACE = """\
# The mistakes that autofix finds

This page is made from the codemods' docstrings by `make docs`. `autofix rule AF101` prints one entry.

Codes that end in 0 stand for a kind of mistake: `autofix check` reports a mistake under its kind's code where no
rewrite is known to be right, and under a rewrite's code where one is.
"""
NOTHING_SAID = "PyTorch raises nothing: memory grows with every step."


def rules(codemods: Sequence[type[Codemod]], examples: Mapping[str, str]) -> str:
    """Return the page.  ``examples`` are diffs that show the effect of a codemod, by its code."""
    parts = [PREFACE, "\n".join(_contents(codemods)), "\n".join(_by_error(codemods))]
    for fact in facts():
        parts.append("\n\n".join(_kind(fact, codemods)))
        for codemod in codemods:
            if codemod.answers[0] is fact:
                parts.append("\n\n".join(_entry(codemod, examples.get(codemod.code, ""))))
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _contents(codemods: Sequence[type[Codemod]]) -> Iterator[str]:
    yield "## Contents\n"
    for fact in facts():
        yield f"- {_link(fact.code, name_of(fact))}: {plain(documentation(fact).title)}"
        for codemod in codemods:
            if codemod.answers[0] is fact:
                yield f"  - {_link(codemod.code, codemod.name)}: {plain(codemod.title())}"


def _by_error(codemods: Sequence[type[Codemod]]) -> Iterator[str]:
    yield "## By what PyTorch says\n"
    yield "| message | mistakes |"
    yield "| --- | --- |"
    for fact in facts():
        answering = [codemod for codemod in codemods if fact in codemod.answers]
        entries = ", ".join(_link(codemod.code, codemod.name) for codemod in answering)
        yield f"| {fact.error or '(nothing; memory grows)'} | {entries or _link(fact.code, name_of(fact))} |"


def _kind(fact: type[Fact], codemods: Sequence[type[Codemod]]) -> Iterator[str]:
    yield f"## {fact.code} {name_of(fact)}"
    yield from _text(documentation(fact))
    yield f"PyTorch says: *{fact.error}*" if fact.error else NOTHING_SAID
    answering = [_link(codemod.code, codemod.name) for codemod in codemods if fact in codemod.answers]
    yield f"Rewrites: {', '.join(answering)}." if answering else "No rewrite is known for it."


def _entry(codemod: type[Codemod], example: str) -> Iterator[str]:
    told = documentation(codemod)
    yield f"### {codemod.code} {codemod.name}"
    yield from _text(told)
    for heading in SECTIONS:
        if heading in told.sections:
            yield f"**{heading}.** {plain(told.sections[heading])}"
    if example:
        yield f"**Example.**\n\n```diff\n{example}\n```"


def _text(told: Documentation) -> Iterator[str]:
    yield plain(told.title)
    if "" in told.sections:
        yield plain(told.sections[""])


def _link(code: str, name: str) -> str:
    """A link to an entry, by the anchor that GitHub gives its heading."""
    return f"[{code} {name}](#{code.lower()}-{name})"
