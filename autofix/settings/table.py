"""The table of settings as a file holds it, its types checked by msgspec."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, Literal, get_args

import msgspec

Format = Literal["full", "concise", "json", "json-lines", "github", "gitlab", "sarif", "junit", "rdjson"]
Seconds = Annotated[float, msgspec.Meta(gt=0)]
_TYPES = {
    "array": "a list",
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "object": "a table",
}
"""Types as msgspec names them in its messages, and as a person does who writes TOML."""
_PLACE = re.compile(r"(.*?)(?: - at `(?:key in )?\$\.?(.*)`)?", re.DOTALL)


class Table(msgspec.Struct, rename="kebab", frozen=True):
    """``[tool.autofix]`` in pyproject.toml, or the whole of autofix.toml."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] = ()
    per_file_ignores: dict[str, tuple[str, ...]] = {}
    unsafe_fixes: bool = False
    output_format: Format | None = None
    root: str | None = None
    src: tuple[str, ...] = ()
    budget: Seconds | None = None
    python: str | None = None


KEYS = tuple(msgspec.structs.fields(Table)[number].encode_name for number in range(len(Table.__struct_fields__)))


class TableError(Exception):
    """A table with a key that is not known, or with a value of another type."""


def table_of(document: Mapping[str, Any]) -> Table:
    """The settings of a parsed table.  Raises :class:`TableError`."""
    for key in document:
        if key not in KEYS:
            raise TableError(f"unknown key `{key}`; {nearest(key, KEYS, 'keys')}")
    form = document.get("output-format")
    if isinstance(form, str) and form not in get_args(Format):
        raise TableError(f"`output-format`: unknown format `{form}`; {nearest(form, get_args(Format), 'formats')}")
    try:
        return msgspec.convert(document, Table)
    except msgspec.ValidationError as error:
        found = _PLACE.fullmatch(str(error))
        reason, key = (plain(found[1]), found[2]) if found is not None else (str(error), "")
        raise TableError(f"`{key}`: {reason[0].lower()}{reason[1:]}" if key else reason) from None


def nearest(given: str, known: Sequence[str], kind: str) -> str:
    """A question for the one of *known* that is like *given*; a list of them all where none is."""
    near = get_close_matches(given, known, 1)
    return f"did you mean `{near[0]}`?" if near else f"known {kind} are {', '.join(known)}"


def plain(reason: str) -> str:
    """A message of msgspec with the types as a person names them."""

    def named(types: re.Match[str]) -> str:
        return " or ".join(_TYPES.get(one, one) for one in types[1].split(" | ") if one != "null")

    return re.sub("`([^`]*)`", named, reason)
