"""Constants that options have by default, and what is computed of them: ``"relu1" in options.layers.split(",")``.

A program that is started without options goes the way of their defaults, so that this way is followed first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress

_METHODS = frozenset(
    """casefold endswith isdigit lower lstrip partition replace rsplit rstrip split splitlines startswith strip title
    upper""".split()
)
"""Methods of texts that tell the same of the same text."""

Usual = Callable[[Hashable], object]
"""The constant that a value is by default, by its key; None for others."""


def usual_of(key: Hashable, usual: Usual) -> object:
    """The text, the list of texts or the number that a value, by its *key*, is by default, or is in any case.

    None for others.
    """
    match key:
        case ("str" | "int" | "float", (str() | int() | float()) as constant):
            return constant
        case ("plus", of, int() as more):
            known = usual_of(of, usual)
            return known + more if isinstance(known, (int, float)) else None
        case ("text", of):
            known = usual_of(of, usual)
            return None if known is None else str(known)
        case ("len", of):
            known = usual_of(of, usual)
            return len(known) if isinstance(known, (str, list, tuple)) else None
        case ("item", of, ("int", int(at))):
            known = usual_of(of, usual)
            return known[at] if isinstance(known, (str, list, tuple)) and -len(known) <= at < len(known) else None
        case ("looked up", ("method", of, str(name)), *given) if name in _METHODS:
            known, arguments = usual_of(of, usual), [usual_of(one, usual) for one in given]
            if isinstance(known, str) and None not in arguments:
                with suppress(TypeError, ValueError):
                    return getattr(known, name)(*arguments)
            return None
    return usual(key)


def is_in(item: Hashable, container: Hashable, usual: Usual) -> bool | None:
    """Whether an item is in a container by default, both by their keys; None where the defaults do not say."""
    searched, wanted = usual_of(container, usual), usual_of(item, usual)
    if isinstance(searched, (list, tuple)) or (isinstance(searched, str) and isinstance(wanted, str)):
        return wanted in searched if wanted is not None else None
    return None
