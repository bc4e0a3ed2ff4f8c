"""Finds the loop that lies between two moments of a run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from autofix.codemods.facts.base import Span
from autofix.evidence.source import Loop, Texts
from autofix.evidence.witness import parting, passed_by

COMPREHENSIONS = ("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>")
Chain = tuple[Span, ...]
"""Places of one moment, from the outermost call to the innermost."""


def crossed(texts: Texts, made: Chain, freed: Chain, failed: Chain, story: Sequence[Chain]) -> tuple[Span | None, bool]:
    """The loop that lies between *freed* and *failed*, and whether the value was made inside it.

    *story* holds the moments from the making to the failure, in the order of time.
    """
    if passed_by(story):
        return None, False
    around = _loops(texts, freed, failed)
    for number, (depth, loop) in enumerate(around):
        if not _inside(texts, made, failed, depth, loop):
            continue
        if number and passed_by([made, failed]):
            break  # made anew by every turn of the outer loop, before the inner one
        return texts.of(failed[depth]).span(loop), True
    if not around:
        return None, False
    depth, loop = around[0]
    return texts.of(failed[depth]).span(loop), False


def turned_within(texts: Texts, made: Chain, moments: Sequence[Chain]) -> bool:
    """Whether a loop lies around all *moments* and not around *made*, which comes before: several turns use it."""
    failed = moments[-1]
    around = _loops(texts, moments[0], failed)
    if not around or not all(passed_by([made, one]) for one in moments):
        return False
    depth, loop = around[0]
    return not _inside(texts, made, failed, depth, loop) and all(
        _inside(texts, one, failed, depth, loop) for one in moments
    )


def _loops(texts: Texts, freed: Chain, failed: Chain) -> list[tuple[int, Loop]]:
    """The loops around both places with the index of their frame, the innermost first."""
    deepest = min(parting(freed, failed), len(failed) - 1, len(freed) - 1)
    found: list[tuple[int, Loop]] = []
    for depth in range(deepest, -1, -1):
        text = texts.of(failed[depth])
        first, second = texts.of(freed[depth]).statement(freed[depth]), text.statement(failed[depth])
        if first is None or second is None:
            continue
        common = text.loops_of(first)
        found += [(depth, loop) for loop in text.loops_of(second) if loop in common]
    return found


def _inside(texts: Texts, made: Chain, failed: Chain, depth: int, loop: Loop) -> bool:
    """Whether *made* lies in the body of *loop*, which stands in the frame *depth* of *failed*."""
    if len(made) <= depth or parting(made, failed) < depth or made[depth].path != failed[depth].path:
        return False
    text = texts.of(failed[depth])
    statement = text.statement(made[depth])
    return statement is not None and (loop in text.loops_of(statement) or statement is loop)


def named_by_callers(texts: Texts, name: str, chain: Chain, functions: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Names that the callers of a method have for its ``self.name``, with their index in *chain*; the innermost first.

    Ends where a caller has no name for the object: another object called the method for it.
    """
    for depth in range(len(chain) - 2, -1, -1):
        if not functions[depth + 1].endswith(COMPREHENSIONS):  # these share the names of the function around them
            text = texts.of(chain[depth])
            call = text.expression(chain[depth])
            if not isinstance(call, ast.Call) or not name.startswith("self."):
                return
            method = functions[depth + 1].rpartition(".")[2]
            owner = call.func
            if isinstance(owner, ast.Attribute) and owner.attr == method:
                owner = owner.value
            if not isinstance(owner, (ast.Name, ast.Attribute, ast.Subscript)):
                return
            name = text.code(owner) + name.removeprefix("self")
        yield depth, name


def outer_place(chain: Chain, failed: Chain) -> Span:
    """A place as an expression of the function in which the failing pass stands, or of the one that called both."""
    depth = len(failed) - 1
    return chain[min(parting(chain[:depth], failed[:depth]), len(chain) - 1)]
