"""Point 4, second part: what a script keeps beside its parameters is updated as the original updates it.

The average of a network's weights, a target network, a queue of features: while each step moves the parameters alike in
both runs, these must take on the original's values, too, perhaps a step earlier or later.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from autofix.child.recorded import DETOUR, MOST_KEPT, Pass, Step
from autofix.execution.record import RunRecord
from autofix.proof.points.objective import alike, compared, order, parts_by_draws, says_nothing

SAME = 1e-6
"""Relative difference up to which two values count as equal: single precision."""
OF_THE_WAY = 0.02
"""Distance of two values, as a part of the way that the original's has come, up to which they count as equal."""
FEWEST = 2
"""Steps at which a value is another one, for the patched script to keep another one: it may come a step late."""
LATE = 2
"""Steps behind a detour up to which a value that is computed at some steps only may still be an old one."""
INPUT = 1e-4
"""Relative difference up to which two inputs count as equal."""

Values = tuple[float, ...]


def kept_otherwise(reference: RunRecord, after: RunRecord, names: frozenset[str]) -> tuple[str, ...]:
    """Those of *names* of which the patched script does not keep the original's values; of the first one on, in order.

    A script may keep them under other names.
    """
    return tuple(name for name in sorted(names) if _differs(name, reference.updates, after.updates))


def _differs(name: str, ours: Sequence[Step], theirs: Sequence[Step]) -> bool:
    values = [(at, step.kept[name]) for at, step in enumerate(ours[: len(theirs)]) if name in step.kept]
    if all(len(value) == 1 for _, value in values) and not any(name in step.kept for step in theirs):
        return False  # a total that is a number of Python's now
    missing = sum(not _is_there(name, value, values[0][1], theirs[max(0, at - 1) : at + 2]) for at, value in values)
    return missing >= FEWEST


def _is_there(name: str, value: Values, first: Values, steps: Sequence[Step]) -> bool:
    """Whether one of *steps* has a *value*, under this *name* or another one."""
    if any(len(step.kept) >= MOST_KEPT and name not in step.kept for step in steps):
        return True  # it may be one of those that were not looked at
    most = OF_THE_WAY * _apart(value, first) + SAME * math.hypot(*value)
    if any(_apart(value, step.kept.get(name, ())) <= most for step in steps):
        return True
    return any(_apart(value, other) <= most for step in steps for other in step.kept.values())


def _apart(one: Values, other: Values) -> float:
    if len(one) != len(other):
        return math.inf
    return 0.0 if one == other else math.dist(one, other)


def carried(reference: RunRecord) -> frozenset[str]:
    """The names whose values are carried on from step to step, without a graph, and change."""
    names = frozenset[str]().union(*(step.carried for step in reference.updates))
    return frozenset(name for name in names if _moves(name, reference))


def arrays(reference: RunRecord) -> frozenset[str]:
    """The names of NumPy's arrays that change, and are others at each step."""
    names = frozenset[str]().union(*(step.arrays for step in reference.updates))
    return frozenset(name for name in names if _moves(name, reference))


def remembered(moving: RunRecord, detoured: RunRecord) -> frozenset[str]:
    """The names whose values depend on those that the parameters had at the first steps, long after these.

    Such a name is computed from its own value of the step before.  *detoured* are other parameters at the first steps.
    """
    if not is_in_turn(moving, detoured):
        return frozenset()
    turns = Counter[int]()
    last: list[tuple[Step, Step]] = []
    for one, other in zip(moving.updates, detoured.updates, strict=False):
        if turns and min(turns.values()) > DETOUR + LATE:
            last.append((one, other))
        turns[one.optimizer] += 1
    pairs = [(name, one.kept[name], other.kept[name]) for one, other in last for name in one.kept.keys() & other.kept]
    return frozenset(name for name, value, otherwise in pairs if _is_other(value, otherwise))


def repeated(moving: RunRecord, again: RunRecord) -> frozenset[str]:
    """The names that have equal values in two runs of one script: no times, and no numbers without a seed."""
    steps = list(zip(moving.updates, again.updates, strict=False))
    known = _known(moving) & _known(again)
    return frozenset(name for name in known if all(one.kept.get(name) == other.kept.get(name) for one, other in steps))


def kept_by_both(reference: RunRecord, after: RunRecord) -> frozenset[str]:
    """The names whose values change in two runs that compute alike."""
    return frozenset(name for name in _known(reference) & _known(after) if _moves(name, reference))


def moved_as_kept(still: RunRecord, live: RunRecord) -> bool:
    """Whether the original keeps what depends on nothing but its parameters, such as an average of them."""
    names = frozenset[str]().union(*(step.carried | step.arrays for step in still.updates))
    return any(_moves(name, live) and not _moves(name, still) for name in names)


def _values_of(name: str, record: RunRecord) -> list[Values]:
    return [step.kept[name] for step in record.updates if name in step.kept]


def _moves(name: str, record: RunRecord) -> bool:
    """Whether the values of *name* change from step to step, by more than rounding."""
    first, *others = _values_of(name, record) or [()]
    return any(_is_other(first, value) for value in others)


def _is_other(one: Values, other: Values) -> bool:
    """Whether two values differ by more than rounding."""
    return _apart(one, other) > 10 * SAME * math.hypot(*one)


def of_weights(still: RunRecord, moving: RunRecord, *, alone: bool) -> frozenset[str]:
    """The names that depend on the parameters: where these are left as they are, they take on other values.

    With *alone*, they depend on nothing else: they stay as they are as well.
    """
    names = frozenset(name for name in _known(moving) & _known(still) if _moves(name, moving))
    if alone:
        return frozenset(name for name in names if not _moves(name, still))
    return frozenset(
        name
        for name in names
        if any(
            _is_other(one, other) for one, other in zip(_values_of(name, still), _values_of(name, moving), strict=False)
        )
    )


def _known(record: RunRecord) -> frozenset[str]:
    return frozenset(name for step in record.updates for name in step.kept)


def calls_again(reference: RunRecord, after: RunRecord) -> bool:
    """Whether the patched script calls modules more often: then they may adapt their buffers once more."""
    return any(a.calls < b.calls for a, b in zip(reference.updates, after.updates, strict=False))


def is_in_turn(reference: RunRecord, after: RunRecord) -> bool:
    """Whether the two runs, in which each step moves its parameters alike, make passes and steps in one order."""
    if says_nothing(reference, after) or parts_by_draws(reference, after):
        return False
    return all(a == b for a, b in zip(order(reference), order(after), strict=False))


def normalised_otherwise(reference: RunRecord, after: RunRecord) -> str:
    """Message on a module that keeps statistics and is given other inputs than in the original; or empty.

    The losses of the runs are alike, so that a computation that is repeated repeats its inputs.
    """
    ours, theirs = compared(reference, after)
    if parts_by_draws(reference, after) or not alike(ours, theirs):
        return ""
    last = min(_last_known(ours), _last_known(theirs))
    for one, other, says in ((theirs, ours, "is given inputs that"), (ours, theirs, "is no longer given inputs that")):
        known = [value for _, value in _inputs(other, last + 1)]
        for number, value in _inputs(one, last):
            if not any(_apart(value, two) <= INPUT * math.hypot(*value) + SAME for two in known):
                end = "the original does not give it" if one is theirs else "it is given in the original"
                return f"a module that keeps statistics {says} {end}, before backward pass {number}"
    return ""


def _last_known(passes: Sequence[Pass]) -> int:
    """The step before the first of *passes* of which the inputs are not known."""
    return min((one.step for one in passes if one.inputs is None), default=max((p.step for p in passes), default=0)) - 1


def _inputs(passes: Sequence[Pass], last: int) -> Iterator[tuple[int, Values]]:
    for one in passes:
        if one.step <= last:
            yield from ((one.number, value) for value in one.inputs or ())
