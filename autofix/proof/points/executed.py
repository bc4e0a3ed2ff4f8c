"""Point 2, second part: the runs executed the parts that the patch changes.

A run that loads another copy of the package, or that is stopped before it comes to a changed line, shows nothing of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from autofix.execution.record import RunRecord
from autofix.proof.points.base import listed

MORE = "--steps N watches more"
TURNS = "a number decides on a value, which was the same in all steps that were watched"


def unshown(before: RunRecord, reference: RunRecord | None, after: RunRecord) -> str:
    """Why the patched run does not show all that the patch changes; empty where it does."""
    if after.unloaded:
        name, place = next(iter(after.unloaded.items()))
        reason = f"{name} was loaded from {place}" if place else f"{name} was never loaded"
        return f"{reason}, so the run does not show the patch"
    if not after.complete or after.missed is None:
        return ""
    if places := _listed(after.missed.lines):
        return f"{places} of the patched source: changed, and not executed in the steps that were watched; {MORE}"
    if places := _listed(after.missed.loops):
        return f"{places} of the patched source: a loop is changed, and its end was not seen; {MORE}"
    if places := _listed(after.missed.turns):
        return f"{places} of the patched source: {TURNS}; {MORE}"
    if reference is not None and reference.missed is not None and (places := _listed(reference.missed.turns)):
        return f"{places} of the original: taken out, {TURNS}; {MORE}"
    if before.missed is not None and (reference is None or reference.failure is None):
        # Where an original cannot run on, nobody knows the lines that it would have executed after its failure.
        others = reference.missed.lines if reference is not None and reference.missed is not None else {}
        never = {
            file: tuple(line for line in lines if reference is None or line in others.get(file, ()))
            for file, lines in before.missed.lines.items()
        }
        if places := _listed(never):
            return f"{places} of the original: taken out, and not executed in the steps that were watched; {MORE}"
    return ""


def _listed(found: Mapping[str, tuple[int, ...]]) -> str:
    """The places, as ``file:line``."""
    return listed([f"{file}:{line}" for file, lines in found.items() for line in lines])
