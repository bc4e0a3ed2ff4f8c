"""Proves a patch by execution: runs the original and the patched script, and judges the records of the two runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from autofix.child.job import Bounds
from autofix.child.recorded import GRAPHLESS
from autofix.codemods.facts.base import Certainty
from autofix.codemods.promises import Keeps
from autofix.execution.record import Outcome, RunRecord, without_cut_passes
from autofix.execution.runner import Limits, Script, run
from autofix.execution.scratch import kept_copies
from autofix.proof.points.agreement import (
    NEW_TENSORS,
    but_for_what_is_reached,
    but_for_what_is_replaced,
    by_gradients_of_last_step,
    by_losses_of_new_tensors,
    in_another_order,
    same_until_failure,
    until_changed_later,
    until_computed_anew,
    without_what_failed,
)
from autofix.proof.points.base import Point, Verdict, not_deterministic, nothing_alike, unproved
from autofix.proof.points.executed import MORE, unshown
from autofix.proof.points.failure import (
    BASE_CHANGED,
    CHANGED,
    LEAF_CHANGED,
    UNREDUCED,
    clean_after,
    fails_before,
    what_remains,
)
from autofix.proof.points.gradient import Kind, gradient, keeps_a_memory, of_present_values
from autofix.proof.points.held import held, points_between
from autofix.proof.points.held import points as points_of_held
from autofix.proof.points.idle import changes_what_is_idle, idle, trains_nothing
from autofix.proof.points.idle import points as points_of_idle
from autofix.proof.points.kept import (
    arrays,
    calls_again,
    carried,
    is_in_turn,
    kept_by_both,
    kept_otherwise,
    moved_as_kept,
    normalised_otherwise,
    of_weights,
    remembered,
    repeated,
)
from autofix.proof.points.memory import memory_flat
from autofix.proof.points.objective import (
    alike,
    alike_throughout,
    compared,
    draws_apart,
    first_other_loss,
    gates_otherwise,
    otherwise,
    otherwise_beside_what_is_stale,
    otherwise_where_driven,
    parts_by_draws,
    says_nothing,
)
from autofix.proof.points.together import of_all_read_together
from autofix.proof.points.training import still_trains
from autofix.proof.points.used import (
    called_in_other_mode,
    called_otherwise,
    changed_beside,
    clipped_otherwise,
    ends_early,
    ends_elsewhere,
    forgets,
    left_out_otherwise,
    moved_otherwise,
    scheduled_otherwise,
    set_otherwise,
    steps_again,
    steps_apart,
    thrown_away,
    updated_beside,
    used_otherwise,
)
from autofix.proof.promises import NOTHING, Promises

__all__ = [
    "Certificate",
    "Limits",
    "Original",
    "Outcome",
    "Point",
    "RunRecord",
    "Script",
    "Verdict",
    "prove",
]


HELD, IDLE = "memory grows", "trains nothing"
"""The error to expect of a script that raises none, and keeps graphs for nothing."""
WITH_GRAPHS = "held against the original with all graphs that the changed statements cut"
DRAWN = "the patched script draws random numbers that the original does not: its formula cannot be compared"
EMPTIED = "the values of earlier iterations, which have a part in the gradient of the present one, are gone"
KEPT = "{} is updated otherwise than in the original"
LEAST_PATIENCE, PATIENCE = 30.0, 10.0
"""Seconds that a run without updates may take, and the multiple of the original's time that is added to them."""
REFERENCE_STEPS = 8
"""Optimizer steps past the failure, for each optimizer, that a reference run makes: it keeps all graphs and is slow."""


FROM_THE_START = Bounds(0, 0, compare_from=0, more_steps=REFERENCE_STEPS, throughout=True)
"""Bounds of two runs that raise nothing and are compared from their first step."""


@dataclass(frozen=True)
class Certificate:
    """Certificate of the runs on a patch, point by point."""

    points: tuple[Point, ...]
    before: RunRecord
    after: RunRecord
    reference: RunRecord | None = None

    @property
    def verdict(self) -> Verdict:
        """Failed if a point failed; else not proved if one is open; else passed.  Some points may not apply.

        A point that the script itself cannot show stays open without holding up the patch: gradients where the error
        leaves nothing to compare with, and memory where the script ends after a few steps.
        """
        verdicts = {p.verdict for p in self.points if not p.optional or p.verdict is Verdict.FAILED}
        for worst in (Verdict.FAILED, Verdict.NOT_PROVED):
            if worst in verdicts:
                return worst
        return Verdict.PASSED

    @property
    def proved(self) -> bool:
        return self.verdict is Verdict.PASSED

    @property
    def remains(self) -> str:
        """The error of another kind at which the patched script ends, if all is well up to there; else empty."""
        if any(one.verdict is Verdict.FAILED and one.number != 2 for one in self.points):
            return ""
        return what_remains(self.before, self.after)

    @property
    def cannot_get_further(self) -> bool:
        """Whether the original would come to that error, too: no other patch of its first mistake avoids it."""
        ours = self.reference.failure if self.reference is not None else None
        theirs = self.after.failure
        same = ours is not None and theirs is not None and ours.error.message == theirs.error.message
        return same and bool(self.remains)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks for a reader of the certificate on how the scripts were run."""
        remarks = list(dict.fromkeys((*self.before.open_ends, *self.after.open_ends)))
        if "cpu" in (self.before.device, self.after.device):
            remarks.append("what the script puts on a GPU ran on the CPU")
        return tuple(remarks)


@dataclass(frozen=True)
class Original:
    """The script to be repaired, and its runs: each is made when it is first asked for, once for all patches."""

    script: Script
    limits: Limits
    healthy: float | None = None
    """The seconds after which a script that has made its steps without a failure is stopped; None for never."""
    reduction: str = ""
    """Reduction that its references make of losses that it forgot to reduce: ``mean`` or ``sum``."""

    parts: str = ""
    """What its references take one of several views for when their base was changed: ``views`` or ``copies``."""
    attached: bool = False
    """Whether its references cut no graph in the statements that a patch by hand rewrites."""
    recorded: bool = False
    """Whether its references leave out the passes without a graph, and their steps: those of an evaluation."""

    @classmethod
    def of(cls, script: Script, limits: Limits, healthy: float) -> Original:
        """The script, stopped where it is healthy if its mistake shows by then; else it may still fail."""
        first = cls(script, limits, healthy)
        shows = first.before.outcome is not Outcome.STOPPED or held(first.before) or idle(first.before)
        return first if shows else cls(script, limits)

    @cached_property
    def before(self) -> RunRecord:
        """The script as it is."""
        return run(self.script, self.limits, Bounds(healthy=self.healthy))

    @cached_property
    def reference(self) -> RunRecord | None:
        """The script run past its failure, with the gradients of its formulas; None where it does not fail."""
        return self._refer() if self.before.failure is not None else None

    @cached_property
    def apart(self) -> RunRecord:
        """The reference in which modules leave their inputs as they are."""
        return self._refer(apart=True)

    @cached_property
    def fails_by_its_inputs(self) -> bool:
        """Whether nothing is wrong but that modules write over their inputs: without that, the script raises nothing.

        What reads such an input later sees other values then, and nobody knows the ones that were meant.
        """
        failure = self.before.failure
        if failure is None or CHANGED not in failure.error.message:
            return False
        alone = run(self.script, self.limits, replace(bounds(self.before), apart=True))
        return alone.failure is None and alone.complete

    @cached_property
    def streamed(self) -> Original:
        """The original with random numbers of its own for each network."""
        return Original(self.script, replace(self.limits, streams=True))

    def reduced(self, reduction: str) -> Original:
        """The original whose references send the *reduction* of losses of several elements back."""
        return self._with(replace(self, reduction=reduction))

    def with_parts(self, parts: str) -> Original:
        """The original whose references read several views of a changed base as *parts*."""
        return self._with(replace(self, parts=parts))

    def kept_attached(self) -> Original:
        """The original whose references cut no graph in the statements that the patch rewrites."""
        return self._with(replace(self, attached=True))

    def as_recorded(self) -> Original:
        """The original whose references leave out the passes without a graph, and their steps."""
        return self._with(replace(self, recorded=True))

    def _with(self, other: Original) -> Original:
        """*other*, which differs in its references only, with this one's first run."""
        vars(other)["before"] = self.before
        return other

    @cached_property
    def further(self) -> RunRecord:
        """The reference over as many steps as a patched script is judged on."""
        return self._referring(self.limits, replace(self._bounds, more_steps=None, throughout=True))

    @cached_property
    def uncut(self) -> RunRecord:
        """A script that raises nothing, without the cuts of graphs in the statements that the patch rewrites."""
        return run(self.script, self.limits, replace(FROM_THE_START, attached=True))

    @cached_property
    def frozen(self) -> RunRecord:
        """The reference with every parameter update left out, past a pass without a graph, too."""
        return self._freeze(same_calls=False)

    @cached_property
    def frozen_alike(self) -> RunRecord:
        """The reference with every parameter update left out, and all calls of a module alike."""
        return self._freeze(same_calls=True)

    def driven(self, *, apart: bool, detour: bool = False, same_calls: bool = False) -> RunRecord:
        """The reference in which each step moves its parameters in a prescribed way, perhaps with a *detour*."""
        reference = self.before.failure is not None
        bounds = driven(self.before, same_calls=same_calls)
        bounds = replace(bounds, reference=reference, apart=apart, detour=detour)
        return self._referring(self._patiently, self._as_reference(bounds))

    def _freeze(self, *, same_calls: bool) -> RunRecord:
        bounds = replace(still(self.before, same_calls=same_calls), reference=True)
        return self._referring(self._patiently, self._as_reference(bounds))

    @property
    def _patiently(self) -> Limits:
        """Limits for a run that may wait without end for a loss to fall."""
        return replace(self.limits, timeout=min(self.limits.timeout, LEAST_PATIENCE + PATIENCE * self.before.seconds))

    def still(self, patched: Script, *, same_calls: bool) -> RunRecord:
        """A patched script with every parameter update left out."""
        return run(patched, self._patiently, still(self.before, same_calls=same_calls))

    def as_long(self, script: Script, *, between: bool = False) -> RunRecord:
        """A script that is to make the steps of the original, which raises nothing, and may be stopped after them.

        An original that has made its steps is stopped where it is healthy: the training may take hours.
        """
        bounds = Bounds(between=between)
        if self.before.outcome is Outcome.STOPPED:
            passes = len(self.before.passes)
            bounds = replace(bounds, failed_steps=self.before.steps, failed_passes=passes, more_steps=1)
        return run(script, self.limits, bounds)

    @cached_property
    def between(self) -> RunRecord:
        """The script as it is, with the graphs counted that are held between two steps."""
        return self.as_long(self.script, between=True)

    @cached_property
    def repeats(self) -> bool:
        """Whether a second run repeats the first: if not, comparing the script with a patched one shows nothing."""
        again = run(self.script, self.limits)
        return [(p.losses, p.state) for p in self.before.passes] == [(p.losses, p.state) for p in again.passes]

    def _refer(self, *, apart: bool = False) -> RunRecord:
        return self._referring(self.limits, replace(self._bounds, apart=apart))

    def _referring(self, limits: Limits, bounds: Bounds) -> RunRecord:
        """A reference run."""
        record = run(self.script, limits, bounds)
        return without_cut_passes(record) if self.recorded else record

    @property
    def _bounds(self) -> Bounds:
        """Bounds of a reference run."""
        return self._as_reference(bounds(self.before, reference=True))

    def _as_reference(self, bounds: Bounds) -> Bounds:
        """*bounds* of a reference run, with all that it is to get past."""
        return replace(bounds, reduction=self.reduction, parts=self.parts, attached=self.attached)


@kept_copies()
def prove(
    original: Original, patched: Script, promises: Promises = NOTHING, *, expected_error: str = ""
) -> Certificate:
    """Run the patched script within the original's limits, and judge the patch.

    ``promises`` say what the patch may do beyond every other patch: each of them is one of ``Keeps``, and honoured by
    the point that asks for it.  ``expected_error`` is a piece of the message that the original must raise.
    Never raises for anything that the scripts do: a run that did not happen is *not proved*.
    """
    if meant := _meant(original):
        certificates = (_proved(one, patched, promises, expected_error) for one in meant)
        first = next(certificates)
        return first if first.proved else next((one for one in certificates if one.proved), first)
    if Keeps.RECORDED in promises:
        original = original.as_recorded()
    if promises.by_hand and _cuts_all(original):
        kept = _proved(original.kept_attached(), patched, promises, expected_error)
        if kept.reference is not None and kept.reference.failure is None:
            return as_if_attached(kept)
    return _proved(original, patched, promises, expected_error)


def _meant(original: Original) -> list[Original]:
    """The originals with the references that the author may have meant, where the error leaves several of them open."""
    message = original.before.failure.error.message if original.before.failure is not None else ""
    if UNREDUCED in message:
        return [original.reduced("mean"), original.reduced("sum")]
    if BASE_CHANGED in message:
        return [original.with_parts("views"), original.with_parts("copies")]
    return []


def _cuts_all(original: Original) -> bool:
    """Whether the original fails for want of any graph, and the patch rewrites something that may cut it."""
    failure = original.before.failure
    rewritten = any(one.rewritten for one in original.script.watched)
    return rewritten and failure is not None and GRAPHLESS in failure.error.message


def as_if_attached(certificate: Certificate) -> Certificate:
    """*certificate*, with point 5 open where it is of other gradients than those of the graphs that were cut.

    The author may have meant one of several cuts in a statement.
    """

    def seen(one: Point) -> Point:
        if one.number == 5 and one.verdict is Verdict.FAILED:
            return replace(one, verdict=Verdict.NOT_PROVED, detail=f"{WITH_GRAPHS}: {one.detail}", optional=False)
        if one.number == 4 and one.verdict is Verdict.PASSED:
            return replace(one, detail=one.detail.replace("as before", "as in the original with its graphs"))
        return one

    return replace(certificate, points=tuple(map(seen, certificate.points)))


def _proved(original: Original, patched: Script, promises: Promises, expected_error: str) -> Certificate:
    """:func:`prove`, where it is known what the references make of losses of several elements."""
    certificate = as_far_as_shown(_judged(original, patched, promises, expected_error))
    if certificate.proved or not _parts_by_draws(certificate):
        return certificate
    streamed = as_far_as_shown(_judged(original.streamed, patched, promises, expected_error))
    if not streamed.proved:
        return certificate
    points = tuple(
        replace(one, detail=f"{one.detail}, where each network draws its own random numbers")
        if one.number == 3
        else one
        for one in streamed.points
    )
    return replace(streamed, points=points)


def as_far_as_shown(certificate: Certificate) -> Certificate:
    """*certificate*, with point 2 open where the patched run did not execute all that the patch changes."""
    if not (reason := unshown(certificate.before, certificate.reference, certificate.after)):
        return certificate
    points = tuple(
        replace(one, verdict=Verdict.NOT_PROVED, detail=reason)
        if one.number == 2 and one.verdict is Verdict.PASSED
        else one
        for one in certificate.points
    )
    return replace(certificate, points=points)


def _parts_by_draws(certificate: Certificate) -> bool:
    """Whether nothing fails but that the runs part, and they have drawn random numbers in another order by then."""
    failed = {one.number for one in certificate.points if one.verdict is Verdict.FAILED}
    pairs = zip(certificate.before.passes, certificate.after.passes, strict=False)
    return failed == {3} and any(ours.random != theirs.random for ours, theirs in pairs)


def _judged(original: Original, patched: Script, promises: Promises, expected_error: str) -> Certificate:
    """:func:`prove`, with the random numbers as they come."""
    before = original.before
    quiet = _judged_without_error(original, patched, promises, expected_error)
    if quiet is not None:
        return quiet
    fails = fails_before(before, expected_error)
    if fails.verdict is not Verdict.PASSED:
        # Without the failure to compare with, the patched run would show nothing.
        open_points = unproved("there is no failure of the original to compare with")
        return Certificate((fails, *open_points), before, RunRecord(Outcome.NOT_STARTED))
    # Where weights are updated by hand, no step tells how they move later.
    throughout = promises.by_hand and not before.optimizers
    after = run(patched, original.limits, replace(bounds(before), throughout=throughout))
    reference, same, gradients = _compared(original, after, promises)
    gradients = of_all_read_together(before, after, patched, gradients)
    points = (
        fails,
        clean_after(before, after),
        without_what_failed(before, reference, after, same, gradients, promises),
        still_trains(before, after, reference, lambda: original.further, lambda: original.frozen),
        gradients,
        memory_flat(before, reference, after),
    )
    certificate = Certificate(points, before, after, reference)
    # Updates of the original leave its parameters as they are: its formulas with fixed weights show nothing.
    afresh = (
        any(one in promises for one in (Keeps.ONCE, Keeps.ANEW, Keeps.IN_PLACE)) or NEW_TENSORS in gradients.figures
    )
    if not certificate.proved:
        return certificate
    if afresh or "afresh" in gradients.figures.get("counts", {}):
        return _with(certificate, _set_apart(original, patched, certificate) if promises.by_hand else {})
    return _with(certificate, _refused(original, patched, certificate, promises))


def _set_apart(original: Original, patched: Script, certificate: Certificate) -> dict[int, Point]:
    """The points that fail of a patch by hand whose losses with fixed weights cannot be compared."""
    before, reference, after = certificate.before, certificate.reference, certificate.after
    assert reference is not None
    detail = (
        set_otherwise(reference, after)
        or steps_again(reference, after)
        or _steered_otherwise(before, (reference, after))
        or called_in_other_mode(reference, after)
        or _ends_unseen(original, certificate)
    )
    if detail:
        return {4: replace(certificate.points[3], verdict=Verdict.FAILED, detail=detail)}
    gradients = certificate.points[4]
    if keeps_a_memory(reference) and (reason := _emptied(original, patched)):
        return {5: replace(gradients, verdict=Verdict.FAILED, detail=reason, optional=False)}
    if "cancelled_pass" not in certificate.points[2].figures:
        return {}
    # What was computed before these passes keeps its values, whatever graph it has.
    moving, there = _moved_alike(original, patched)
    if reason := otherwise_where_driven(moving, there, math.inf):
        return {5: replace(gradients, verdict=Verdict.FAILED, detail=reason, optional=False)}
    reason = DRAWN if parts_by_draws(moving, there) else gates_otherwise(moving, there)
    return {5: replace(gradients, verdict=Verdict.NOT_PROVED, detail=reason, optional=False)} if reason else {}


def _emptied(original: Original, patched: Script) -> str:
    """Message on values of earlier iterations that the loss no longer sees, with no update made; or empty."""
    other = first_other_loss(original.frozen, original.still(patched, same_calls=False))
    if other is None:
        return ""
    return f"{EMPTIED}: the loss of backward pass {other[0].number} is {sum(other[1].losses):.6g}"


def _judged_without_error(
    original: Original, patched: Script, promises: Promises, expected_error: str
) -> Certificate | None:
    """The certificate of a patch of a script that raises nothing and trains too little, or keeps graphs for nothing."""
    before = original.before
    if trains_nothing(before) and expected_error in ("", IDLE):
        return _begun(original, patched, original.as_long(patched), promises)
    if held(before) and expected_error in ("", HELD):
        after = original.as_long(patched)
        return _as_held(original, Certificate(points_of_held(before, after), before, after), promises)
    if idle(before) and expected_error in ("", IDLE):
        after = original.as_long(patched)
        if changes_what_is_idle(before, after):
            return _begun(original, patched, after, promises)
    if before.failure is None and before.complete and expected_error in ("", HELD):
        after = original.as_long(patched, between=True)
        found = points_between(original.between, after)
        return _as_held(original, Certificate(found, original.between, after), promises)
    return None


def _as_held(original: Original, certificate: Certificate, promises: Promises) -> Certificate:
    """The *certificate* of a patch of an original that raises nothing, and that must do all else as it does."""
    before, after = certificate.before, certificate.after
    if not promises.by_hand or not certificate.proved:
        return certificate
    detail = (
        set_otherwise(before, after)
        or scheduled_otherwise(before, after)
        or clipped_otherwise(before, after)
        or called_otherwise(before, after)
        or normalised_otherwise(before, after)
    )
    if not detail and (others := kept_otherwise(before, after, kept_by_both(before, after))):
        again = repeated(before, original.as_long(original.script))
        detail = next((KEPT.format(name) for name in others if name in again), "")
    if not detail and (gate := gates_otherwise(before, after)):
        unseen = replace(certificate.points[4], verdict=Verdict.NOT_PROVED, detail=f"{gate}; {MORE}")
        return _with(certificate, {5: unseen})
    if not detail:
        return certificate
    return _with(certificate, {4: replace(certificate.points[3], verdict=Verdict.FAILED, detail=detail)})


def _compared(original: Original, after: RunRecord, promises: Promises) -> tuple[RunRecord, Point, Point]:
    """Points 3 and 5 of the patched run *after*, and the reference that it is held against."""
    before, reference = original.before, original.reference
    assert reference is not None
    same = by_gradients_of_last_step(reference, after, first_difference(before), same_until_failure(before, after))
    gradients = gradient(before, reference, after, first_difference(before), promises)
    inputs = Keeps.INPUTS in promises or promises.by_hand
    if inputs and gradients.verdict is Verdict.FAILED and (not promises.by_hand or original.fails_by_its_inputs):
        others = gradient(before, original.apart, after, first_difference(before), replace(promises, own=frozenset()))
        if others.verdict is Verdict.PASSED:
            detail = f"{others.detail}, where modules leave their inputs as they are"
            gradients, reference = replace(others, detail=detail), original.apart
    if promises.carried is not None and gradients.verdict is Verdict.FAILED:
        detail = "there is no reference: the graph of what the original hands to NumPy is lost"
        certain = promises.carried is Certainty.CERTAIN and not promises.by_hand
        gradients = replace(gradients, verdict=Verdict.NOT_PROVED, detail=detail, optional=certain)
    same, gradients = by_losses_of_new_tensors(before, reference, after, same, gradients)
    other_leaves = Keeps.IN_PLACE in promises or Keeps.HELD in promises
    if other_leaves and gradients.verdict is Verdict.FAILED:
        detail = "there is no reference: the original never updates the leaves"
        gradients = replace(gradients, verdict=Verdict.NOT_PROVED, detail=detail, optional=True)
    differs = same.verdict is not Verdict.PASSED or gradients.verdict is Verdict.FAILED
    if differs and not original.repeats:
        same, gradients = not_deterministic(same), not_deterministic(gradients)
    if Keeps.REACHED in promises:
        same = but_for_what_is_reached(before, after, same)
    if other_leaves:
        same = but_for_what_is_replaced(before, after, same)
    same = until_computed_anew(before, after, same, gradients)
    same = until_changed_later(before, reference, after, same, gradients)
    same = in_another_order(before, after, same, gradients)
    gradients = of_present_values(before, after, gradients)
    return reference, nothing_alike(same, promises.made), nothing_alike(gradients, promises.made)


def _refused(original: Original, patched: Script, certificate: Certificate, promises: Promises) -> dict[int, Point]:
    """The points of a certificate that further runs refuse: the script trains on another formula, or otherwise."""
    refused = _other_objective(original, patched, certificate, promises)
    if refused or not promises.by_hand:
        return refused
    trains, gradients = certificate.points[3:5]
    keeps = Keeps.SMOOTH not in promises and _keeps_values(gradients)
    anew = certificate.reference is original.reference and _computes_anew(gradients)
    if (
        keeps
        or anew
        or (certificate.reference is original.reference and moved_as_kept(original.frozen, original.further))
    ):
        apart = certificate.reference is not original.reference
        moving, there = _moved_alike(original, patched, apart=apart)
        cancelled = "cancelled_pass" in certificate.points[2].figures
        refused = _driven_otherwise(original, moving, there, gradients, cancelled=cancelled) if keeps else {}
        if anew and otherwise_beside_what_is_stale(moving, there):
            # A module that is called once more may draw, or adapt a buffer.
            alike = _moved_alike(original, patched, same_calls=True)
            if reason := otherwise_beside_what_is_stale(*alike):
                refused = {5: replace(gradients, verdict=Verdict.FAILED, detail=reason, optional=False)}
        refused = refused or _kept_otherwise(original, moving, there, trains, alone=not keeps, apart=apart)
    if not refused and (end := _ends_unseen(original, certificate)):
        refused = {4: replace(certificate.points[3], verdict=Verdict.FAILED, detail=end)}
    return refused


def _with(certificate: Certificate, others: Mapping[int, Point]) -> Certificate:
    """*certificate*, with *others* in the place of the points of their numbers."""
    return replace(certificate, points=tuple(others.get(one.number, one) for one in certificate.points))


def _keeps_values(gradients: Point) -> bool:
    """Whether a patch computes nothing anew: at most it takes values off their graphs."""
    kinds = {one["kind"] for one in gradients.figures.get("parameters", {}).values()}
    return kinds <= {Kind.EXACT, Kind.TRUNCATED}


def _computes_anew(gradients: Point) -> bool:
    """Whether a patch computes values anew, and leaves all others as they are."""
    kinds = {one["kind"] for one in gradients.figures.get("parameters", {}).values()}
    return Kind.RECOMPUTED in kinds <= {Kind.EXACT, Kind.TRUNCATED, Kind.RECOMPUTED, Kind.LATER}


def _moved_alike(
    original: Original, patched: Script, *, apart: bool = False, same_calls: bool = False
) -> tuple[RunRecord, RunRecord]:
    """Runs of both scripts in which each step moves its parameters in a prescribed way."""
    bounds = driven(original.before, same_calls=same_calls)
    return original.driven(apart=apart, same_calls=same_calls), run(patched, original.limits, bounds)


def _driven_otherwise(
    original: Original, moving: RunRecord, there: RunRecord, gradients: Point, *, cancelled: bool = False
) -> dict[int, Point]:
    """Point 5, refused where losses differ although the parameters are moved alike; nothing where they do not.

    *moving* is the original whose parameters each step moves in a prescribed way, *there* the patched script.  With
    *cancelled*, gradients have cancelled out: what was computed before those passes keeps its values.
    """
    start: float = first_difference(original.before) if original.before.failure is not None else 0
    start = math.inf if cancelled else start
    if not (reason := otherwise_where_driven(moving, there, start)):
        return {}
    refused = replace(gradients, verdict=Verdict.FAILED, detail=reason, optional=False)
    return {5: refused if original.repeats else not_deterministic(refused)}


def _kept_otherwise(
    original: Original, moving: RunRecord, there: RunRecord, trains: Point, *, alone: bool, apart: bool
) -> dict[int, Point]:
    """Point 4, refused where the patched script keeps other values beside its parameters, moved as above; or nothing.

    With *alone*, the losses may differ, and only what depends on nothing but the parameters can be compared.
    """
    if original.before.failure is None or not is_in_turn(moving, there):
        return {}
    if not _by_mistake(original.before) and (detail := left_out_otherwise(moving, there)):
        return {4: replace(trains, verdict=Verdict.FAILED, detail=detail)}
    alone = alone or calls_again(moving, there) or not alike(*compared(moving, there))
    names = carried(moving) | arrays(moving)
    others = frozenset(kept_otherwise(moving, there, names)) & of_weights(original.frozen, moving, alone=alone)
    if others - carried(moving):
        others &= carried(moving) | remembered(moving, original.driven(apart=apart, detour=True))
    if others:
        others &= repeated(moving, original.driven(apart=apart))
    if not others:
        return {}
    name = min(others)
    refused = replace(trains, verdict=Verdict.FAILED, detail=KEPT.format(name))
    return {4: refused if original.repeats else not_deterministic(refused)}


def _other_objective(
    original: Original, patched: Script, certificate: Certificate, promises: Promises
) -> dict[int, Point]:
    """The points that fail because the patched script trains on another formula than the original, or otherwise."""
    before, after, reference = certificate.before, certificate.after, certificate.reference
    assert reference is not None
    same, trains, gradients = certificate.points[2:5]
    cancels = "cancelled_pass" in same.figures or promises.carried is not None
    start, smooth = first_difference(before), Keeps.SMOOTH in promises
    own = [name for name, one in gradients.figures.get("parameters", {}).items() if one["kind"] == "own"]
    reason, unseen = "", False
    if alike_throughout(reference, after, start):
        frozen, there = reference, after
    else:
        frozen, there = original.frozen, original.still(patched, same_calls=False)
        if says_nothing(frozen, there):
            return {}
        reason = "" if smooth else otherwise(frozen, there, start, own, cancels=cancels)
        unseen = draws_apart(frozen, there) and not smooth
        if reason or (
            parts_by_draws(frozen, there) and not smooth
        ):  # a module that is called once more may draw, or adapt a buffer
            alike = original.frozen_alike, original.still(patched, same_calls=True)
            again = otherwise(*alike, start, own, cancels=cancels)
            if not reason or not (says_nothing(*alike) or parts_by_draws(*alike)):
                reason = again
            unseen = unseen and (says_nothing(*alike) or draws_apart(*alike))
    live = (original.further if promises.by_hand else reference), after
    if setting := _set_otherwise(original.before, live, (frozen, there)):
        return {4: replace(trains, verdict=Verdict.FAILED, detail=setting)}
    if not reason and (use := used_otherwise(frozen, there, start)):
        reason = f"a step is {use}"
    by_hand = promises.by_hand and not _by_mistake(original.before)
    mode = left_out_otherwise(frozen, there) if by_hand else ""
    mode = mode or called_otherwise(frozen, there) or normalised_otherwise(frozen, there) or called_in_other_mode(*live)
    if not reason and mode:
        return {4: replace(trains, verdict=Verdict.FAILED, detail=mode)}
    if not reason and promises.by_hand and (gate := gates_otherwise(frozen, there)):
        return {5: replace(gradients, verdict=Verdict.NOT_PROVED, detail=f"{gate}; {MORE}", optional=False)}
    if not reason and unseen:
        open_point = replace(gradients, verdict=Verdict.NOT_PROVED, detail=DRAWN, optional=not promises.by_hand)
        return {5: open_point}
    if not reason:
        return {}
    refused = replace(gradients, verdict=Verdict.FAILED, detail=reason, optional=False)
    return {5: refused if original.repeats else not_deterministic(refused)}


def _ends_unseen(original: Original, certificate: Certificate) -> str:
    """Message on a patched script that ends earlier or later than the original; empty where that is not known."""
    reference, after = certificate.reference, certificate.after
    assert reference is not None
    if reference.outcome is Outcome.STOPPED and after.outcome is Outcome.FINISHED:
        reference = original.further
    return ends_elsewhere(reference, after)


def _begun(original: Original, patched: Script, after: RunRecord, promises: Promises) -> Certificate:
    """The certificate of a patch of an original that leaves some of its parameters alone; *after* is its run."""
    before = original.before
    points = points_of_idle(before, after)
    setting = set_otherwise(before, after) or ends_elsewhere(before, after)
    refused = {4: replace(points[3], verdict=Verdict.FAILED, detail=setting)} if setting else {}
    if not refused and promises.by_hand:
        moving, there = _moved_alike(original, patched)
        refused = _driven_otherwise(original, moving, there, points[4])
        refused = refused or _attached_in_part(original, patched, points[4])
    return _with(Certificate(points, before, after), refused)


def _attached_in_part(original: Original, patched: Script, gradients: Point) -> dict[int, Point]:
    """Point 5 of a patch that may have rewritten what cuts a graph, held against the original without those cuts.

    Nothing where they are not why parameters are left alone, or without them the original raises an error.
    """
    if not any(one.rewritten for one in original.script.watched):
        return {}
    uncut = original.uncut
    if uncut.failure is not None or not uncut.complete or not changes_what_is_idle(original.before, uncut):
        return {}
    if alike_throughout(uncut, run(patched, original.limits, FROM_THE_START), 0):
        return {5: replace(gradients, detail=f"equal, {WITH_GRAPHS}")}
    detail = f"{WITH_GRAPHS}: the losses or the gradients differ"
    return {5: replace(gradients, verdict=Verdict.NOT_PROVED, detail=detail, optional=False)}


def _set_otherwise(before: RunRecord, live: tuple[RunRecord, RunRecord], still: tuple[RunRecord, RunRecord]) -> str:
    """Difference from the original in the steering of training, by runs with and without updates; or empty."""
    return (
        set_otherwise(*still)
        or set_otherwise(*live)
        or ends_early(*still)
        or steps_again(*still)
        or steps_apart(*still)
        or moved_otherwise(*live)
        or _steered_otherwise(before, live)
        or forgets(*live)
    )


def _steered_otherwise(before: RunRecord, live: tuple[RunRecord, RunRecord]) -> str:
    """Difference from the original in what happens to parameters and gradients beside passes and steps; or empty."""
    return (
        updated_beside(*live)
        or ("" if _by_mistake(before) else changed_beside(*live))
        or scheduled_otherwise(*live)
        or clipped_otherwise(*live)
        or thrown_away(*live)
    )


def _by_mistake(before: RunRecord) -> bool:
    """Whether the original fails because it changes a member of an optimizer beside its steps."""
    return before.failure is not None and LEAF_CHANGED in before.failure.error.message


def bounds(before: RunRecord, *, reference: bool = False) -> Bounds:
    """Bounds of a run that is compared with *before*."""
    failure = before.failure
    assert failure is not None
    more = REFERENCE_STEPS if reference else None
    return Bounds(failure.steps, failure.passes + failure.in_pass, first_difference(before), reference, more)


def still(before: RunRecord, *, same_calls: bool) -> Bounds:
    """Bounds of a run in which every parameter update is left out."""
    return replace(bounds(before), more_steps=REFERENCE_STEPS, frozen=True, same_calls=same_calls)


def driven(before: RunRecord, *, same_calls: bool = False) -> Bounds:
    """Bounds of a run in which each step moves its parameters in a prescribed way."""
    if before.failure is not None:
        return replace(still(before, same_calls=same_calls), driven=True)
    return Bounds(0, 0, more_steps=REFERENCE_STEPS, frozen=True, driven=True)


def first_difference(before: RunRecord) -> int:
    """The step (the pass, without an optimizer) up to which any right patch computes as the original did.

    It is the failure; or, where the original kept its graphs, the first pass that walks into an earlier step's graph:
    there a patch begins to differ.
    """
    failure = before.failure
    assert failure is not None
    onset = next((p for p in before.passes[: failure.passes] if p.past), None)
    if before.optimizers:
        return onset.step if onset else failure.steps
    return onset.number - 1 if onset else failure.passes
