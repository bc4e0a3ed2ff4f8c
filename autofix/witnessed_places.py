"""Compares places of a run: which came after which in the source, and which loop lies between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from autofix.witnessed_carriers import Frame
from autofix.witnessed_source import Loop, Texts
from codemods.facts import Span

Chain = tuple[Frame, ...]
"""Places of one moment, from the outermost call to the innermost."""


def parting(first: Chain, second: Chain) -> int:
    """The index of the first frame at which two chains differ; the length of the shorter where none does."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one.span != other.span:
            return index
    return min(len(first), len(second))


def passed_by(story: Sequence[Chain]) -> bool:
    """Whether the moments of *story*, in the order of time, follow one another in the source as well.

    If they do not, the run went around a loop, or came to the same function again, in between.
    """
    for earlier, later in pairwise(story):
        index = parting(earlier, later)
        if index >= len(earlier) or index >= len(later):
            return False  # the very same place twice
        before, after = earlier[index].span, later[index].span
        if before.contains(after):  # the caller of what came before: it goes on behind it
            continue
        if after.contains(before):
            continue
        if before.start >= after.start:
            return False
    return True


def crossed(texts: Texts, made: Chain, freed: Chain, failed: Chain, story: Sequence[Chain]) -> tuple[Span | None, bool]:
    """The loop that lies between *freed* and *failed*, and whether the value was made inside it."""
    if passed_by(story):
        return None, False
    around = _loops(texts, freed, failed)
    if not around:
        return None, False
    for number, (depth, loop) in enumerate(around):
        if not _inside(texts, made, failed, depth, loop):
            continue
        if number and made[depth].span.start < failed[depth].span.start:
            inner = around[0]  # made anew by every turn of the outer loop, before the inner one
            return texts.of(failed[inner[0]].span).span(inner[1]), False
        return texts.of(failed[depth].span).span(loop), True
    depth, loop = around[0]
    return texts.of(failed[depth].span).span(loop), False


def _loops(texts: Texts, freed: Chain, failed: Chain) -> list[tuple[int, Loop]]:
    """The loops around both places with the index of their frame, the innermost first."""
    deepest = min(parting(freed, failed), len(failed) - 1, len(freed) - 1)
    found: list[tuple[int, Loop]] = []
    for depth in range(deepest, -1, -1):
        text = texts.of(failed[depth].span)
        first, second = text.statement(freed[depth].span), text.statement(failed[depth].span)
        if first is None or second is None:
            continue
        common = text.loops_of(first)
        found += [(depth, loop) for loop in text.loops_of(second) if loop in common]
    return found


def _inside(texts: Texts, made: Chain, failed: Chain, depth: int, loop: Loop) -> bool:
    """Whether *made* lies in the body of *loop*, which stands in the frame *depth* of *failed*."""
    if len(made) <= depth or parting(made, failed) < depth:
        return False
    text = texts.of(failed[depth].span)
    if made[depth].span.path != failed[depth].span.path:
        return False
    statement = text.statement(made[depth].span)
    return statement is not None and (loop in text.loops_of(statement) or statement is loop)


def outer_place(chain: Chain, failed: Chain) -> Span:
    """A place as an expression of the function in which the failing pass stands, or of the one that called both."""
    depth = len(failed) - 1
    index = min(parting(chain[:depth], failed[:depth]), len(chain) - 1)
    return chain[index].span
