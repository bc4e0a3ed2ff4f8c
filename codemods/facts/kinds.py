"""All kinds of facts.  Loads every module of them, which a report without findings need not."""

from __future__ import annotations

from autofix.codemods.facts import changed, cut, freed, kept, legacy, untrained
from autofix.codemods.facts.base import Fact

_DECLARED = {
    one: None
    for module in (freed, changed, cut, untrained, kept, legacy)
    for one in vars(module).values()
    if isinstance(one, type)
}
ALL: tuple[type[Fact], ...] = tuple(kind for kind in _DECLARED if issubclass(kind, Fact) and kind is not Fact)
"""Every kind, by module, in the order of the text."""
OF_CODES: tuple[type[Fact], ...] = tuple(kind for kind in ALL if Fact in kind.__bases__)
"""The kinds that have a code of their own; a kind that is derived from another shares a code."""


def name_of(kind: type[Fact]) -> str:
    """A kind's name as it is written in reports and asked for: ``stale-graph``."""
    return kind.kind.lower().replace(" ", "-")
