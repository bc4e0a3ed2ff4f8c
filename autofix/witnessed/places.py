"""Finds which loop lies between two moments of a run."""

from __future__ import annotations

from collections.abc import Sequence

from autofix.evidence import parting, passed_by
from autofix.witnessed.source import Loop, Texts
from codemods.facts import Span

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


def outer_place(chain: Chain, failed: Chain) -> Span:
    """A place as an expression of the function in which the failing pass stands, or of the one that called both."""
    depth = len(failed) - 1
    return chain[min(parting(chain[:depth], failed[:depth]), len(chain) - 1)]
