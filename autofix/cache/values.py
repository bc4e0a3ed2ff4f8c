"""Facts and findings as JSON and back.  Nothing but the listed classes can come out of a document."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from functools import cache
from typing import Any

from autofix.codemods.facts.base import Certainty, Doubt, Role, Span
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.patch import Line, Replacement
from autofix.findings import Finding

TUPLE = ""
"""First item of a list that stands for a tuple; a list that stands for a record begins with the name of its class."""


@cache
def _records() -> dict[str, type[Any]]:
    from autofix.codemods.facts.kinds import ALL  # loaded for findings alone
    from autofix.codemods.facts.parts import Carrier, Drop, Outer, Severed

    kinds = (Span, Role, Carrier, Outer, Severed, Drop, Finding, Replacement, Line)
    return {kind.__name__: kind for kind in (*kinds, *ALL)}


@cache
def _constants() -> dict[str, Any]:
    from autofix.codemods.facts.parts import Form

    return {kind.__name__: kind for kind in (Certainty, Doubt, Form, Keeps)}


@cache
def _names(kind: str) -> tuple[str, ...]:
    return tuple(field.name for field in fields(_records()[kind]))


def document(value: object) -> object:
    """*value* as JSON has it.  Raises :class:`TypeError` for one that has no form there."""
    if isinstance(value, Enum) and _constants().get(type(value).__name__) is type(value):
        return [type(value).__name__, value.value]
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is tuple:
        return [TUPLE, *map(document, value)]
    name = type(value).__name__
    if _records().get(name) is not type(value):
        raise TypeError(name)
    return [name, *(document(getattr(value, field)) for field in _names(name))]


def value(document: object) -> Any:
    """Value of a *document* that :func:`document` has made.  Raises :class:`ValueError` for anything else."""
    if not isinstance(document, list):
        if isinstance(document, dict):
            raise ValueError("a table")
        return document
    if not document or not isinstance(document[0], str):
        raise ValueError("a list without a name")
    name, *rest = document
    if name == TUPLE:
        return tuple(map(value, rest))
    if (constant := _constants().get(name)) is not None and len(rest) == 1:
        return constant(rest[0])
    kind = _records().get(name)
    if kind is None or len(rest) != len(_names(name)):
        raise ValueError(f"no record {name}")
    return kind(**dict(zip(_names(name), map(value, rest), strict=True)))
