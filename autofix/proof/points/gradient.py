"""Point 5: the gradients against the reference, parameter by parameter.

The reference is the broken script itself, run on with every graph kept and every saved tensor as it was
(``child/reference.py``): its gradients are those of the author's formulas.  The gradients at the first step of each
optimizer after the failure are compared, as long as both runs still have the same parameters.  A parameter's is

- *exact*: equal up to rounding;
- *truncated*: the part is missing, or a piece of it, that comes through graphs of earlier iterations.  A detach between
  iterations means just that;
- *recomputed*: that part is there with other values, because a second forward pass took the place of a stale one and
  saw the weights after a step (``D(g)`` asked anew after the discriminator's step), or drew other random numbers;
- *afresh*: nothing of the past is in it, neither as a graph nor as a value, because the failed pass sent the past back
  a second time from the same place of the loss (a store that was filled on and on is emptied), or led to the parameters
  through the past alone (weights that are adapted are taken anew).  Each pass is then like the passes that the original
  made before it failed;
- *own*: the part is missing that another pass leaves by the way, and the source tells that that pass is not there
  for it: the gradient of a policy's loss for the critic whose advantage weighs the loss;
- *later*: it gets gradients, but first at a step at which the runs have parted already, so that they say nothing;
- *lost*: there is none any more;
- *dropped*: the part is missing that comes through a graph of the same iteration, which failed because a step or a pass
  of another network came between, or a term of the loss is: detached instead of computed anew;
- *scaled*: a multiple of the reference, with one factor for all parameters of an optimizer: a loss counted twice or
  halved;
- *changed*: it differs although no faulty node concerns it, or by more than the part through faulty nodes.

The last four refuse a patch.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import combinations, pairwise
from typing import Any

from autofix.child.recorded import Parts, Pass, Sketches
from autofix.codemods.promises import Keeps
from autofix.execution.record import RunRecord
from autofix.proof.points.base import Point, Verdict, count, listed, matching, point, short
from autofix.proof.promises import NOTHING, Promises

NOISE = 1e-6
"""Size, relative to the step's largest gradient, up to which one is rounding: a bias in front of a normalisation."""
EXACT = 1e-4
"""Relative difference up to which two gradients count as equal: single precision, sums in another order."""
ROUGH = 2e-2
"""Relative difference up to which they do, where some of it is in half precision: bfloat16 has eight bits."""
IN_STEP = 1e-2
"""Relative difference up to which they do at later steps, to which rounding has been carried on."""
ONCE = 0.05
"""Distance of a factor from one up to which it is no sign of a loss that is counted more or less than once."""
MULTIPLE = 1e-3
"""Relative distance up to which one gradient counts as a multiple of another."""
MUCH, ROUGHLY = 0.4, 0.05
"""Distance of a factor from one beyond which a rough multiple counts, and the relative distance allowed then."""
NODES_TO_A_LEAF = 2
"""Nodes that lead to one parameter alone: its accumulator, and the transposition of a weight."""
SPREAD = 3.0
"""Most that a recomputed gradient may differ from the sound one, as a multiple of the faulty part."""


class Kind(StrEnum):
    EXACT = "exact"
    TRUNCATED = "truncated"
    RECOMPUTED = "recomputed"
    AFRESH = "afresh"
    OWN = "own"
    LATER = "later"
    LOST = "lost"
    DROPPED = "dropped"
    SCALED = "scaled"
    CHANGED = "changed"


REFUSED = (Kind.LOST, Kind.DROPPED, Kind.SCALED, Kind.CHANGED)
BY_DESIGN = {
    Kind.TRUNCATED: (
        "right by design: the missing part came through graphs of earlier iterations, which the detach cuts"
    ),
    Kind.RECOMPUTED: "a second forward pass took the place of the stale one, and sees the weights after the step",
    Kind.AFRESH: "no part comes from earlier iterations, as in the backward passes before the failure",
    Kind.OWN: "the missing part was left by the backward pass of another loss, which does not train these parameters",
}
"""Why a gradient of each kind is right although it differs from the reference."""
SIZED = (Kind.TRUNCATED, Kind.RECOMPUTED, Kind.AFRESH, Kind.OWN, Kind.DROPPED, Kind.CHANGED)


@dataclass(frozen=True)
class Moment:
    """The gradients at one step (at one pass, where there is no optimizer)."""

    optimizer: int | None
    whole: Sketches
    sound: Sketches
    ways: Parts
    present: Sketches
    parts: Parts
    random: str
    """Fingerprint of the random generator before the last pass."""
    losses: tuple[float, ...] = ()
    """Losses from which the passes of the step were sent back, in sum."""
    states: tuple[Mapping[int, str], Mapping[int, str]] = ({}, {})
    """Fingerprints of the parameters before the first pass of the step, and before the last."""
    closes: bool = False
    """Whether the step makes passes of its own, and goes where they lead it."""
    replaced: bool = False
    """Whether an old value stands in a loss where one of the iteration was to: see :func:`loses_prediction`."""


Values = tuple[float, ...]


@dataclass(frozen=True)
class Meant:
    """One parameter's gradient in the reference."""

    whole: Values
    sound: Values
    """The gradient without the part through faulty nodes."""
    present: Values
    """The gradient without the part through earlier iterations."""
    ways: Sequence[Values] | None
    """The pieces of ``whole`` beside ``sound``; None if they are too many to be known."""
    parts: Sequence[Values] | None
    """The pieces of ``whole`` beside ``present``; None if they are too many to be known."""
    rounding: float = EXACT
    """Relative difference up to which it counts as equal."""


@dataclass
class Comparison:
    """Findings on each parameter, while the runs are followed step by step."""

    kinds: dict[int, Kind] = field(default_factory=dict)
    differences: dict[int, float] = field(default_factory=dict)
    pairs: dict[int, tuple[Values, Values, Values]] = field(default_factory=dict)
    """The reference's gradient where it was compared, whole and without the past, and the patched run's."""


def gradient(
    before: RunRecord,
    reference: RunRecord,
    after: RunRecord,
    start: int,
    promises: Promises = NOTHING,
) -> Point:
    """Compare from optimizer step *start* on (from pass *start*, where there is no optimizer).

    Of the *promises*, ``ONCE`` tells that the failed pass sent a part of another pass's loss back again (the graph
    tells it, too, where that was the whole loss), ``ANEW`` that each iteration of the patched script begins as the
    first one, and ``own`` that the passes on these lines train parameters by the way for which there are other passes.
    """
    ours, theirs = moments(reference, start), moments(after, start)
    wanted = trained(reference, ours)
    if not wanted:
        return replace(point(5, Verdict.NOT_PROVED, why_no_reference(before, reference)), optional=True)
    indices = matching(reference, after)
    fewer, much_fewer = walks_less(reference, after, start), walks_less(reference, after, start, by_half=True)
    left = left_to_others(promises.own, reference, after, start, indices) if promises.own else frozenset()
    rounding = ROUGH if any(p.low for p in reference.passes) else EXACT
    found = compare(wanted, ours, theirs, indices, rounding, fewer=fewer, much_fewer=much_fewer, own=left)
    for index in wanted - set(found.kinds):
        alive = gets_gradient(after, indices.get(index, -1), start)
        found.kinds[index], found.differences[index] = (Kind.LATER, 0.0) if alive else (Kind.LOST, 1.0)
    for index, kind in found.kinds.items():
        if kind is Kind.DROPPED and runs_once(reference, after, index, indices):
            found.kinds[index] = Kind.TRUNCATED
    if joins_other_losses(reference, after, start):
        found.kinds.update({i: Kind.CHANGED for i, k in found.kinds.items() if k is Kind.TRUNCATED})
    if ours and ours[0].replaced:
        dropped = [i for i, (whole, present, seen) in found.pairs.items() if loses_prediction(whole, present, seen)]
        found.kinds.update(dict.fromkeys(dropped, Kind.DROPPED))
    find_dropped(found, loses_terms(reference, after, start), rounding, fewer=fewer)
    failure = before.failure
    once = Keeps.ONCE in promises or (failure is not None and failure.in_pass and before.passes[failure.passes].again)
    afresh = begins_afresh(before, after, ours, wanted, once=once, anew=Keeps.ANEW in promises)
    afresh = afresh and begins_alike(before, reference, after, start)
    factor = common_factor(reference, found)
    if factor is not None and afresh and not scales_losses(ours, theirs, factor):
        factor = None  # other values went into the loss
        found.kinds.update({i: Kind.CHANGED for i, k in found.kinds.items() if k is not Kind.EXACT})
    if factor is not None:
        found.kinds.update({i: Kind.SCALED for i, k in found.kinds.items() if k not in (Kind.EXACT, Kind.LATER)})
    elif afresh and ours and theirs and not same_losses(ours[0].losses, theirs[0].losses):
        again = (Kind.CHANGED, Kind.DROPPED) if once else (Kind.CHANGED,)
        found.kinds.update({i: Kind.AFRESH for i, k in found.kinds.items() if k in again})
    return told(reference, found.kinds, found.differences, factor)


def of_present_values(before: RunRecord, after: RunRecord, gradients: Point) -> Point:
    """*gradients*, refused where the patch keeps a graph for a later pass although its parameters change in between.

    Such a pass computes the gradient at values that are gone: nothing fails, and the training is not the one that was
    meant.  The reference keeps its graphs as well and cannot tell.  An original that did so itself is left alone.
    """
    old = sent_over_old_values(after)
    if not old or sent_over_old_values(before):
        return gradients
    names = sorted({after.parameters[index].name for index in old if index in after.parameters})
    detail = f"backward is called again on a kept graph after its parameters have changed: {listed(names)}"
    return replace(gradients, verdict=Verdict.FAILED, detail=detail)


def sent_over_old_values(record: RunRecord) -> set[int]:
    """The parameters that change between two passes through common nodes above them."""
    states = {p.number: p.state for p in record.passes}
    return {
        index
        for p in record.passes
        for index, number in p.over.items()
        if p.error is None and index in p.state and index in states.get(number, {})
        if states[number][index] != p.state[index]
    }


def compare(
    wanted: set[int],
    ours: Sequence[Moment],
    theirs: Sequence[Moment],
    indices: Mapping[int, int],
    rounding: float,
    *,
    fewer: bool,
    much_fewer: bool,
    own: frozenset[int] = frozenset(),
) -> Comparison:
    """Follow both runs until they part, and classify each parameter where it first gets a gradient."""
    found = Comparison()
    for number, (here, there) in enumerate(zip(ours, theirs, strict=False)):
        if here.optimizer != there.optimizer:
            break
        # Another loss over about as many nodes: a second forward pass saw other values.  At the first step that takes
        # something faulty; later, a parameter that the script itself changes in place may have come to another value.
        anew = (number > 0 or bool(here.sound)) and not much_fewer and not same_losses(here.losses, there.losses)
        # An optimizer that looks ahead (SAM) takes the last pass at weights that an earlier one has moved.
        begun, ended = (same_state(*pair, indices) for pair in zip(here.states, there.states, strict=True))
        elsewhere = begun and not ended
        redrawn = here.random != there.random or anew or elsewhere
        parted = redrawn or here.closes
        noise = NOISE * max(map(size, here.whole.values()), default=0.0)
        for index in sorted(wanted & set(here.whole)):
            whole = here.whole[index]
            seen = there.whole.get(indices.get(index, -1), ())
            first = index not in found.kinds
            if not size(whole) and first:
                continue
            meant = Meant(
                whole,
                here.sound.get(index, whole),
                here.present.get(index, whole),
                here.ways.get(index) if index in here.sound else (),
                here.parts.get(index) if index in here.present else (),
                rounding,
            )
            if first and not seen and size(meant.present) <= rounding * size(whole):
                continue  # nothing but the past uses it at this step: whether it trains at all is for the others to say
            kind, difference = classify(meant, seen, redrawn=redrawn, fewer=fewer)
            if index in own and kind in (Kind.CHANGED, Kind.DROPPED):
                kind = Kind.OWN
            if seen and max(size(whole), size(seen)) <= noise:
                kind, difference = Kind.EXACT, 0.0
            if first:
                found.kinds[index], found.differences[index] = kind, difference
                found.pairs[index] = whole, meant.present, seen
            elif difference > IN_STEP and not redrawn and rounding < IN_STEP:
                # Behind a failure of another kind the graphs of earlier iterations may come into play only here.
                explained = kind in (Kind.TRUNCATED, Kind.RECOMPUTED)
                found.kinds[index] = kind if explained else Kind.CHANGED
                found.differences[index] = difference
            parted = parted or kind is not Kind.EXACT
        if Kind.RECOMPUTED in found.kinds.values():  # a recomputed value is another one for other parameters, too
            slightly = [i for i, k in found.kinds.items() if k is Kind.CHANGED and found.differences[i] <= IN_STEP]
            found.kinds.update(dict.fromkeys(slightly, Kind.RECOMPUTED))
        if parted:
            break
    return found


def told(
    reference: RunRecord, kinds: Mapping[int, Kind], differences: Mapping[int, float], factor: float | None
) -> Point:
    """The verdict in words and figures."""
    names: dict[Kind, list[str]] = {}
    for index, kind in sorted(kinds.items()):
        names.setdefault(kind, []).append(reference.parameters[index].name)
    figures: dict[str, Any] = {
        "parameters": {
            reference.parameters[i].name: {"kind": kind.value, "difference": differences[i]}
            for i, kind in sorted(kinds.items())
        },
        "counts": {kind.value: len(these) for kind, these in names.items()},
    }
    if factor is not None:
        figures["factor"] = factor
    if set(names) <= {Kind.EXACT}:
        return point(5, Verdict.PASSED, f"exact for {count(len(kinds), 'parameter')}", **figures)
    parts = []
    for kind in sorted(names, key=list(Kind).index):
        largest = max(differences[i] for i, k in kinds.items() if k is kind)
        size = f" (by up to {100 * largest:.3g} %)" if kind in SIZED else ""
        times = f" ({factor:.3g} times the reference)" if kind is Kind.SCALED and factor is not None else ""
        parts.append(f"{kind.value}{size}{times}: {listed(names[kind])}")
        if kind in BY_DESIGN:
            parts[-1] += f" ({BY_DESIGN[kind]})"
    verdict = Verdict.FAILED if any(kind in names for kind in REFUSED) else Verdict.PASSED
    return point(5, verdict, "; ".join(parts), **figures)


def moments(record: RunRecord, start: int) -> list[Moment]:
    """The recorded gradients after *start*, in their order."""
    if not record.optimizers:
        passes = [p for p in record.passes if p.number > start and p.error is None and p.sketches is not None]
        return [
            Moment(
                None,
                p.sketches or {},
                p.sound,
                p.ways,
                p.present,
                p.parts,
                p.random,
                p.losses,
                replaced=p.used is not None and p.used.replaced,
            )
            for p in passes
        ]
    first: dict[int, Mapping[int, str]] = {}
    total: dict[int, float] = {}
    for one in record.passes:
        first.setdefault(one.step, one.state)
        total[one.step] = total.get(one.step, 0.0) + sum(one.losses)
    last: dict[int, tuple[str, tuple[float, ...], tuple[Mapping[int, str], Mapping[int, str]]]] = {
        p.number: (p.random, (total[p.step],), (first[p.step], p.state)) for p in record.passes
    }
    replaced = {p.step for p in record.passes if p.used is not None and p.used.replaced}
    # Of a closure, the first pass is compared: the others are made at weights that the step has moved.
    closed = {step.closure for step in record.updates}
    last |= {p.number: (p.random, p.losses, (p.state, p.state)) for p in record.passes if p.number in closed}
    return [
        Moment(
            step.optimizer,
            step.sketches,
            step.sound,
            step.ways,
            step.present,
            step.parts,
            *last.get(step.closure or step.passes, ("", (), ({}, {}))),
            bool(step.closure),
            step.number - 1 in replaced,
        )
        for step in record.updates
        if step.number > start and step.sketches is not None
    ]


def trained(reference: RunRecord, ours: Sequence[Moment]) -> set[int]:
    """Parameters that the reference run trains: members with a gradient; without optimizers, leaves that move."""
    has = {i for moment in ours for i, sketch in moment.whole.items() if size(sketch)}
    if reference.optimizers:
        return {i for i in has if reference.parameters[i].optimizer is not None}
    moved = {i for i in has if len({p.state[i] for p in reference.passes if i in p.state}) > 1}
    return moved or has


def runs_once(reference: RunRecord, after: RunRecord, index: int, indices: Mapping[int, int]) -> bool:
    """Whether the parameter makes one step in all, so that there is no later iteration that would learn less."""
    one = sum(index in step.moved for step in reference.updates)
    return one == sum(indices.get(index, -1) in step.moved for step in after.updates) == 1


def gets_gradient(after: RunRecord, index: int, start: int) -> bool:
    """Whether the patched run gives the parameter a gradient anywhere after *start*."""
    if after.optimizers:
        return any(step.gradients.get(index) for step in after.updates if step.number > start)
    return any(one.gradients.get(index) for one in after.passes if one.number > start)


def classify(meant: Meant, seen: Values, *, redrawn: bool, fewer: bool) -> tuple[Kind, float]:
    """The kind of one parameter's gradient, and its distance from the reference relative to the reference's norm.

    ``redrawn`` says that the patched run has drawn other random numbers, ``fewer`` that its passes visit fewer nodes.
    """
    whole, norm = meant.whole, size(meant.whole)
    exact = meant.rounding * norm
    if not norm:
        return (Kind.CHANGED, 1.0) if size(seen) else (Kind.EXACT, 0.0)
    if not size(seen):
        # No gradient at this step; later steps tell whether there is any at all.
        only_past = size(meant.present) <= exact
        return (Kind.TRUNCATED if only_past and seen else Kind.LOST), 1.0
    if len(seen) != len(whole):
        return Kind.CHANGED, 1.0
    off, faulty, from_sound = math.dist(seen, whole), math.dist(whole, meant.sound), math.dist(seen, meant.sound)
    if off <= exact:
        return Kind.EXACT, off / norm
    if redrawn and size(seen) <= SPREAD * norm:
        return Kind.RECOMPUTED, off / norm
    if faulty <= exact or from_sound > SPREAD * faulty:
        return Kind.CHANGED, off / norm
    if math.dist(seen, meant.present) <= exact:
        return Kind.TRUNCATED, off / norm
    # Some of the ways into the past may be kept, by a graph that is retained; but nothing else may be missing, and
    # where there is no past, nothing at all: a term of the loss may be small.
    tolerance = max(exact, 10 * EXACT * norm)
    has_past = math.dist(whole, meant.present) > 0
    if fewer and has_past and (meant.parts is None or is_sum_of_some(meant.parts, seen, meant.present, tolerance)):
        return Kind.TRUNCATED, off / norm
    some = from_sound <= exact or (meant.ways and is_sum_of_some(meant.ways, seen, meant.sound, tolerance))
    if some and (off > tolerance or (fewer and from_sound <= exact < off)):
        return Kind.DROPPED, off / norm
    return (Kind.CHANGED if fewer else Kind.RECOMPUTED), off / norm


def first_passes(reference: RunRecord, after: RunRecord, start: int) -> tuple[list[Pass], list[Pass]]:
    """The passes of both runs that make the first compared step."""
    by_step = bool(reference.optimizers)
    mine, theirs = (
        [p for p in run.passes if (p.step if by_step else p.number - 1) == start] for run in (reference, after)
    )
    return mine, theirs


def left_to_others(
    lines: Collection[int], reference: RunRecord, after: RunRecord, start: int, indices: Mapping[int, int]
) -> frozenset[int]:
    """The parameters that passes on these *lines* no longer reach in the first compared step, but others as before.

    The other passes start from equal losses and visit as many nodes; or one pass starts from the sum of all losses.
    """
    mine, theirs = first_passes(reference, after, start)
    by_the_way, there_for = (
        frozenset[int]().union(*(p.reached for p in mine if (p.line in lines) is so)) for so in (True, False)
    )
    if len(theirs) == 1 and same_losses([sum(sum(p.losses) for p in mine)], theirs[0].losses):
        return by_the_way & there_for
    if len(mine) != len(theirs) or not all(same_losses(a.losses, b.losses) for a, b in zip(mine, theirs, strict=True)):
        return frozenset()
    found = set()
    for index in frozenset[int]().union(*(p.reached for p in mine)):
        both = [(a, b) for a, b in zip(mine, theirs, strict=True) if index in a.reached]
        still = [(a, b) for a, b in both if indices.get(index) in b.reached]
        gone = {a.line for a, _ in both} - {a.line for a, _ in still}
        if still and gone and gone <= set(lines) and all(a.walked == b.walked for a, b in still):
            found.add(index)
    return frozenset(found)


MOST_JOINED = 8
"""Passes of one step of which all sums are compared."""


def joins_other_losses(reference: RunRecord, after: RunRecord, start: int) -> bool:
    """Whether fewer passes than the original's make the first compared step, one of them from no sum of its losses.

    A backward that comes out of the loop of a running sum starts from the last of them, and one backward for several
    from their sum; anything else trains for less, or for something else.
    """
    mine, theirs = first_passes(reference, after, start)
    if not 0 < len(theirs) < len(mine) <= MOST_JOINED or not all(p.losses for p in (*mine, *theirs)):
        return False
    losses = [sum(p.losses) for p in mine]
    sums = [sum(some) for most in range(1, len(losses) + 1) for some in combinations(losses, most)]
    return not all(any(math.isclose(sum(p.losses), one, rel_tol=EXACT) for one in sums) for p in theirs)


def loses_terms(reference: RunRecord, after: RunRecord, start: int) -> frozenset[int]:
    """The parameters of passes in the first compared step that visit fewer nodes of their own iteration than before.

    A detach between iterations takes away what leads into the past alone.
    """
    mine, theirs = first_passes(reference, after, start)
    if len(mine) != len(theirs):
        return frozenset()
    fewer = (p.reached for p, other in zip(mine, theirs, strict=True) if other.own < p.own)
    return frozenset[int]().union(*fewer)


def find_dropped(found: Comparison, suspected: frozenset[int], rounding: float, *, fewer: bool) -> None:
    """Tell the parameters whose gradient has lost a term of the loss that is small at the compared step.

    The distance from old outputs begins at zero: its gradient is next to nothing beside the rest.  Where nodes of the
    present iteration are missing, the gradient has to be the present part of the reference itself.
    """
    noise = NOISE * max((size(whole) for whole, _, _ in found.pairs.values()), default=0.0)
    for index in suspected & set(found.pairs):
        whole, present, seen = found.pairs[index]
        if 0 < size(whole) <= noise and 0 < size(seen) <= noise:
            continue  # rounding in both runs: a bias in front of a normalisation
        most = {Kind.TRUNCATED: NOISE, Kind.EXACT: rounding if fewer else math.inf}.get(found.kinds[index], math.inf)
        off = math.dist(seen, present) / size(whole) if len(seen) == len(present) else 0.0
        if off > most:
            found.kinds[index], found.differences[index] = Kind.DROPPED, off


def loses_prediction(whole: Values, present: Values, seen: Values) -> bool:
    """Whether a gradient loses the part of old values, which a loss itself uses: they are no state behind weights.

    The old value of a temporal difference was the next value of the iteration before: without its graph only the target
    is trained.
    """
    exact = EXACT * size(whole)
    return len(seen) == len(present) and math.dist(seen, present) <= exact < math.dist(whole, present)


def same_state(ours: Mapping[int, str], theirs: Mapping[int, str], indices: Mapping[int, int]) -> bool:
    return all(theirs.get(indices.get(index, -1), bits) == bits for index, bits in ours.items())


def same_losses(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether two passes were sent back from equal losses, up to rounding."""
    return len(ours) == len(theirs) and all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(ours, theirs, strict=True))


def is_sum_of_some(parts: Sequence[Values], seen: Values, base: Values, tolerance: float) -> bool:
    """Whether *seen* is *base* and some of *parts*, up to *tolerance*."""
    for chosen in range(2 ** len(parts)):
        some = [part for bit, part in enumerate(parts) if chosen >> bit & 1]
        if math.dist(seen, [sum(values) for values in zip(base, *some, strict=True)]) <= tolerance:
            return True
    return False


def walks_less(reference: RunRecord, after: RunRecord, start: int, *, by_half: bool = False) -> bool:
    """Whether the patched run's passes of the first compared step visit fewer nodes than the reference's.

    With *by_half*, fewer by half of the nodes that an earlier pass had visited: these cannot all have been made anew.
    No way leads any more to a network that the patched script freezes meanwhile.
    """
    mine, theirs = first_passes(reference, after, start)
    if not by_half:
        return sum(p.walked for p in theirs) < sum(p.walked for p in mine)
    indices = matching(reference, after)
    frozen = frozenset[int]().union(*(p.frozen for p in theirs))
    at_rest = NODES_TO_A_LEAF * sum(indices.get(index) in frozen for p in mine for index in p.reached - p.frozen)
    new = sum(p.walked for p in mine) - sum(p.past for p in mine) // 2
    return sum(p.walked for p in theirs) < new - at_rest


def begins_afresh(
    before: RunRecord, after: RunRecord, ours: Sequence[Moment], wanted: set[int], *, once: bool, anew: bool
) -> bool:
    """Whether each pass of the patched run, from the failed one on, is like the passes of the original before it.

    The failed pass sent a loss back again that an earlier iteration had sent back from the same place, or only the
    past led it to the parameters, so that no detach could be right.  The passes of the patched run do not walk into
    the past: they have the same types of nodes, below the same first ones, and reach the same parameters as passes
    that succeeded before.
    """
    failure = before.failure
    assert failure is not None
    if not failure.in_pass:
        return False
    if not (once or anew or before.passes[failure.passes].repeats or is_all_past(ours, wanted)):
        return False
    failed, indices = before.passes[failure.passes], matching(before, after)
    models = [p for p in before.passes[: failure.passes] if p.reached == failed.reached and not p.past]
    types = frozenset[str]().union(*(p.types for p in models))
    reached = {indices.get(index) for index in failed.reached}
    later = [p for p in after.passes[failure.passes :] if p.reached == reached]
    if once:  # the source tells which part of the loss is the past's: the rest may be of other kinds of nodes
        return bool(later) and not any(p.past for p in later)
    return bool(models and later) and all(
        not p.past and p.trunk in [model.trunk for model in models] and p.types <= types for p in later
    )


def keeps_a_memory(reference: RunRecord) -> bool:
    """Whether a store that holds items of earlier iterations was meant to: their values have a part in the gradients.

    A store that is filled on and on by mistake is filled several times in an iteration, which is meant to see these
    items alone.  One item alone needs no store, and one that does not grow is emptied by the script itself.
    """
    passes = [one.used for one in reference.passes if one.used is not None and one.used.items]
    if not any(one.weighed for one in passes):
        return False
    grows = all(one.items < following.items for one, following in pairwise(passes))
    return passes[0].present <= 1 or not grows


def begins_alike(before: RunRecord, reference: RunRecord, after: RunRecord, start: int) -> bool:
    """Whether the first compared step of the patched run begins with the losses that the original has sent back in it.

    Fewer passes than the reference's are one over the last of its running sums, or over the sum of its losses.
    """
    failure = before.failure
    assert failure is not None
    mine, theirs = first_passes(reference, after, start)
    if 0 < len(theirs) < len(mine):
        losses, total = [sum(p.losses) for p in mine], sum(sum(p.losses) for p in theirs)
        return any(math.isclose(total, one, rel_tol=EXACT) for one in (losses[-1], sum(losses)))
    # What `autograd.grad` was called for is computed with weights that begin afresh, too.
    done = [p for p in before.passes[: failure.passes] if reference.optimizers and p.step == start and p.trains]
    begun = [p for p in theirs if p.trains]
    return all(same_losses(a.losses, b.losses) for a, b in zip(done, begun, strict=False))


def is_all_past(ours: Sequence[Moment], wanted: set[int]) -> bool:
    """Whether the first gradients come entirely through graphs of earlier iterations."""
    found = {i: ours[0].whole[i] for i in wanted & set(ours[0].whole)} if ours else {}
    return bool(found) and all(
        i in ours[0].present and size(ours[0].present[i]) <= EXACT * size(whole) for i, whole in found.items()
    )


def scales_losses(ours: Sequence[Moment], theirs: Sequence[Moment], factor: float) -> bool:
    """Whether the first losses differ by the factor by which the gradients do, or not at all."""
    here, there = (sum(moments[0].losses) for moments in (ours, theirs))
    return any(math.isclose(there, times * here, rel_tol=1e-3) for times in (1.0, factor))


def common_factor(reference: RunRecord, found: Comparison) -> float | None:
    """The factor by which all gradients of some optimizer are scaled, if there is one; None otherwise.

    The factor may scale the whole gradient, or the rest that a truncation leaves of it.  A single number is always a
    multiple of another, so it takes at least two.
    """
    for optimizer in {p.optimizer for p in reference.parameters.values()}:
        members = [i for i in found.pairs if reference.parameters[i].optimizer == optimizer]
        pairs = [found.pairs[i] for i in members]
        if any(found.kinds[i] in (Kind.EXACT, Kind.LOST) for i in members) or any(
            len(a) != len(b) for a, _, b in pairs
        ):
            continue
        whole, present, seen = ([value for pair in pairs for value in pair[part]] for part in range(3))
        factors = [factor for ours in (present, whole) if (factor := factor_of(ours, seen)) is not None]
        if factors and not any(abs(factor - 1) <= ONCE for factor in factors):
            return factors[0]
    return None


def factor_of(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """The number by which *theirs* is a multiple of *ours*; None if it is none.

    Gradients that were computed anew are no exact multiples, and yet one sees that they count twice or by half.
    """
    if len(ours) < 2 or not size(ours) or not size(theirs):
        return None
    factor = sum(x * y for x, y in zip(ours, theirs, strict=True)) / size(ours) ** 2
    rest = math.dist([factor * x for x in ours], theirs) / size(theirs)
    return factor if rest <= (ROUGHLY if abs(factor - 1) > MUCH else MULTIPLE) else None


def why_no_reference(before: RunRecord, reference: RunRecord) -> str:
    failure = reference.failure
    if failure is not None:
        where = f" in line {failure.error.line}" if failure.error.line else ""
        return (
            f"there is no reference: with all graphs kept, too, the original fails{where}: {short(str(failure.error))}"
        )
    if before.failure is not None and reference.steps <= before.failure.steps:
        return f"there is no reference: the reference run {reference.outcome.value} before the step that failed"
    return "there is no reference: the reference run computed no gradient"


def size(values: Sequence[float]) -> float:
    return math.hypot(*values)
