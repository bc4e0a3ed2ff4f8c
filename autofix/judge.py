"""Judges a patch point by point from the records of two runs.  Pure: runs nothing, reads nothing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from autofix.record import Failure, Outcome, Pass, RunRecord, Step

ROUNDING = 1e-5
"""Relative difference up to which two losses or norms count as equal although their bits differ."""

NOT_OURS = {
    "ModuleNotFoundError": "a module is missing",
    "ImportError": "a module is missing",
    "FileNotFoundError": "a file is missing",
    "ConnectionError": "the network is not there",
    "URLError": "the network is not there",
    "EOFError": "it waits for input",
}
"""Errors of the surroundings, by type: they say nothing of the tape."""
NOT_OURS_MESSAGES = {
    "Torch not compiled with CUDA": "there is no GPU",
    "Found no NVIDIA driver": "there is no GPU",
    "No CUDA GPUs are available": "there is no GPU",
    "Attempting to deserialize object on a CUDA device": "there is no GPU",
}


class Verdict(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_PROVED = "not proved"


@dataclass(frozen=True)
class Point:
    """One thing that a patch must show: number and name as in the documentation, and the figures behind the verdict."""

    number: int
    name: str
    verdict: Verdict
    detail: str
    figures: dict[str, Any] = field(default_factory=dict)
    """Plain numbers, strings and lists, ready for JSON."""


NAMES = {
    1: "fails before",
    2: "clean after",
    3: "same until the failure",
    4: "still trains",
    5: "gradient",
    6: "memory flat",
}


def point(number: int, verdict: Verdict, detail: str, **figures: Any) -> Point:
    return Point(number, NAMES[number], verdict, detail, figures)


def unproved(reason: str) -> tuple[Point, ...]:
    """Points 2 to 6 of a patch that could not be compared with its original."""
    return tuple(point(number, Verdict.NOT_PROVED, reason) for number in (2, 3, 4, 6))


# -- 1


def fails_before(before: RunRecord, expected_error: str) -> Point:
    """The original raised the error that is to be repaired."""
    failure = before.failure
    seconds = round(before.seconds, 2)
    if failure is None:
        reason = {
            Outcome.FINISHED: f"the original raised no error in {count(before.steps, 'step')}",
            Outcome.STOPPED: f"the original raised no error in {count(before.steps, 'step')}",
            Outcome.TIMED_OUT: f"the original raised no error within {before.seconds:.0f} s",
            Outcome.DIED: "the original's process died without a word",
            Outcome.NOT_STARTED: f"the original could not be run: {before.error.message if before.error else ''}",
        }.get(before.outcome, before.outcome.value)
        return point(1, Verdict.NOT_PROVED, reason, seconds=seconds)
    error = failure.error
    where = f"line {error.line}: " if error.line else ""
    figures = {
        "type": error.type,
        "message": error.message,
        "line": error.line,
        "steps": failure.steps,
        "passes": failure.passes,
        "in_backward": failure.in_pass,
        "seconds": seconds,
    }
    if reason := surroundings(failure):
        return point(1, Verdict.NOT_PROVED, f"{reason}: {where}{error}", **figures)
    if expected_error and expected_error not in error.message:
        return point(1, Verdict.FAILED, f"another error than the one to be repaired: {where}{error}", **figures)
    return point(1, Verdict.PASSED, f"{where}{short(str(error))}", **figures)


def surroundings(failure: Failure) -> str:
    """What is missing around the script, if that is why it failed; else empty."""
    if failure.in_pass:
        return ""
    for piece, reason in NOT_OURS_MESSAGES.items():
        if piece in failure.error.message:
            return reason
    return NOT_OURS.get(failure.error.type, "")


# -- 2


def clean_after(before: RunRecord, after: RunRecord) -> Point:
    """The patched script raises nothing, not even what it catches itself; its losses are finite; it gets further."""
    failure = before.failure
    assert failure is not None
    losses = after.losses
    figures = {
        "outcome": after.outcome.value,
        "steps": after.steps,
        "passes": len(losses),
        "first_loss": losses[0] if losses else None,
        "last_loss": losses[-1] if losses else None,
        "seconds": round(after.seconds, 2),
    }
    if again := after.failure:
        where = f"line {again.error.line}: " if again.error.line else ""
        if reason := surroundings(again):
            return point(2, Verdict.NOT_PROVED, f"{reason}: {where}{short(str(again.error))}", **figures)
        caught = "" if after.error else " (caught by the script)"
        when = f" after {count(again.steps, 'step')}"
        return point(2, Verdict.FAILED, f"{where}{short(str(again.error))}{caught}{when}", **figures)
    for number, loss in enumerate(losses, 1):
        if not math.isfinite(loss):
            return point(2, Verdict.FAILED, f"the loss of backward pass {number} is {loss}", **figures)
    if not after.complete:
        reason = {
            Outcome.TIMED_OUT: f"timed out after {after.seconds:.0f} s and {count(after.steps, 'step')}",
            Outcome.DIED: f"the process died after {count(after.steps, 'step')}",
            Outcome.NOT_STARTED: f"could not be run: {after.error.message if after.error else ''}",
        }[after.outcome]
        return point(2, Verdict.NOT_PROVED, reason, **figures)
    further = len(after.passes) - failure.passes
    if failure.in_pass and further <= 0 and after.steps <= failure.steps:
        return point(2, Verdict.FAILED, "it ends without the backward pass that failed in the original", **figures)
    if after.steps < failure.steps or (not failure.in_pass and further < 0):
        return point(2, Verdict.FAILED, "it ends before the place where the original failed", **figures)
    ended = "ran to its end" if after.outcome is Outcome.FINISHED else "ran on until it was stopped"
    return point(
        2, Verdict.PASSED, f"{ended}: {count(after.steps, 'step')}, {count(len(losses), 'backward pass')}", **figures
    )


# -- 3


def same_until_failure(before: RunRecord, after: RunRecord) -> Point:
    """Up to the failing backward, losses and parameters are those of the original, bit for bit.

    A patch may run one pass over the sum of several losses, or arrange the passes within the step that failed in
    another order.  Then what is compared is what every completed optimizer step left behind.  Where the original kept
    its graphs and so reached back into an earlier pass's graph *before* the pass that failed, a right patch differs
    from there on: then the runs are compared up to the first pass that reached back.
    """
    failure = before.failure
    assert failure is not None
    if not after.passes and after.outcome is Outcome.NOT_STARTED:
        return point(3, Verdict.NOT_PROVED, "the patched script did not run")
    whole = compare_until(before, after, failure.passes, failure.steps)
    if whole.verdict is Verdict.PASSED:
        return whole
    onset = next((p for p in before.passes[: failure.passes] if p.again), None)
    if onset is None:
        return whole
    part = compare_until(before, after, onset.number - 1, onset.step)
    if part.verdict is not Verdict.PASSED:
        return whole
    until = f"until backward pass {onset.number}, the first to reach into a graph that was already walked"
    return replace(part, detail=f"{part.detail}, {until}", figures={**part.figures, "until_pass": onset.number})


def compare_until(before: RunRecord, after: RunRecord, passes: int, steps: int) -> Point:
    """Compare the two runs over the first *passes* and *steps* of the original."""
    wanted = [p for p in before.passes[:passes] if p.error is None and p.kind == "backward"]
    seen = [p for p in after.passes if p.error is None and p.kind == "backward"]
    figures: dict[str, Any] = {"steps": steps, "passes": len(wanted)}
    completed = [p for p in wanted if p.step < steps]
    how = ""
    worst = first_difference(wanted, seen)
    if worst is not None and worst >= len(completed):
        worst, how = None, "; the passes of the step that failed are arranged differently"
    if worst is not None and merged(completed, seen, steps):
        worst, how = None, "; one pass over the sum of the losses takes the place of several"
    if worst is not None:
        here, there = wanted[worst], seen[worst] if worst < len(seen) else None
        if there is None:
            return point(3, Verdict.FAILED, f"backward pass {worst + 1} of the original is not there", **figures)
        figures |= {"pass": worst + 1, "original": sum(here.losses), "patched": sum(there.losses)}
        if here.random != there.random:
            detail = f"the patched script draws random numbers in another order before backward pass {worst + 1}"
            return point(3, Verdict.NOT_PROVED, f"{detail}, so that the runs cannot be compared", **figures)
        detail = f"the loss of backward pass {worst + 1} is {sum(there.losses):.6g} instead of {sum(here.losses):.6g}"
        return point(3, Verdict.FAILED, detail, **figures)
    exact, where = compare_parameters(before, after, passes, steps)
    if where:
        return point(3, Verdict.FAILED, where, **figures)
    bits = exact and [p.losses for p in completed] == [p.losses for p in seen[: len(completed)]]
    figures["bit_equal"] = bits
    what = f"{count(len(wanted), 'loss')} and {count(len(before.parameters), 'parameter')}"
    until = f"over {count(steps, 'step')}" if steps else "before the first step"
    equal = "bit-equal" if bits else "equal up to rounding"
    return point(3, Verdict.PASSED, f"{what} {equal} {until}{how}", **figures)


def not_deterministic(same: Point) -> Point:
    detail = "the original does not repeat itself with the same seed, so that the runs cannot be compared"
    return replace(same, verdict=Verdict.NOT_PROVED, detail=detail)


def close(a: float, b: float, tolerance: float = ROUNDING) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=tolerance, abs_tol=1e-12)


def first_difference(wanted: Sequence[Pass], seen: Sequence[Pass]) -> int | None:
    """The index of the first pass whose losses differ by more than rounding, or that is missing."""
    for index, one in enumerate(wanted):
        if index >= len(seen) or len(one.losses) != len(seen[index].losses):
            return index
        if not all(close(a, b) for a, b in zip(one.losses, seen[index].losses, strict=True)):
            return index
    return None


def merged(completed: Sequence[Pass], seen: Sequence[Pass], steps: int) -> bool:
    """Whether in every completed step the patched run has fewer passes, over the same sum of losses."""
    for step in range(steps):
        ours = [sum(p.losses) for p in completed if p.step == step]
        theirs = [sum(p.losses) for p in seen if p.step == step]
        if not theirs or len(theirs) > len(ours) or not close(sum(ours), sum(theirs), 1e-4):
            return False
    return True


def compare_parameters(before: RunRecord, after: RunRecord, passes: int, steps: int) -> tuple[bool, str]:
    """Whether all parameters are bit-equal at the start and after each of the first *steps*, and where they are not."""
    indices = matching(before, after)
    if missing := [p.name for i, p in before.parameters.items() if i not in indices and p.optimizer is not None]:
        return False, f"no longer among the parameters: {listed(missing)}"
    moments = [("at the start", p.state, q.state) for p, q in zip(before.passes[:1], after.passes[:1], strict=False)]
    moments += [
        (f"after step {s.number}", s.state, t.state)
        for s, t in zip(before.updates[:steps], after.updates, strict=False)
    ]
    if not before.optimizers:  # weights updated by hand: compare from pass to pass
        pairs = zip(before.passes[: passes + 1], after.passes, strict=False)
        moments += [(f"before backward pass {p.number}", p.state, q.state) for p, q in pairs]
    exact = True
    for number, (when, ours, theirs) in enumerate(moments):
        names = [
            before.parameters[i].name
            for i, bits in ours.items()
            if i in indices and theirs.get(indices[i], bits) != bits
        ]
        if names and not _moved_alike(before, after, indices, number):
            return False, f"{when}, {listed(names)} differ{'s' if len(names) == 1 else ''} from the original"
        exact = exact and not names
    return exact, ""


def _moved_alike(before: RunRecord, after: RunRecord, indices: dict[int, int], step: int) -> bool:
    """Whether step number *step* (from 1) moved every parameter by the same distance, up to rounding."""
    if not 1 <= step <= min(before.steps, after.steps):
        return False
    ours, theirs = before.updates[step - 1].moved, after.updates[step - 1].moved
    return all(close(distance, theirs.get(indices[i], -1.0), 1e-3) for i, distance in ours.items() if i in indices)


def matching(before: RunRecord, after: RunRecord) -> dict[int, int]:
    """Index in the original's record to index in the patched one's, for every parameter that both have."""
    keys = {p.key: i for i, p in after.parameters.items()}
    return {i: keys[p.key] for i, p in before.parameters.items() if p.key in keys}


# -- 4


def still_trains(before: RunRecord, after: RunRecord) -> Point:
    """Every parameter that trained before the failure still gets gradients and moves after it."""
    failure = before.failure
    assert failure is not None
    if not after.passes:
        return point(4, Verdict.NOT_PROVED, "the patched script ran no backward pass")
    trained = trained_before(before, failure)
    if not trained:
        return point(4, Verdict.NOT_PROVED, "no parameter got a gradient in the original: nothing to compare with")
    indices = matching(before, after)
    problems: dict[str, list[str]] = {}
    for index in sorted(trained):
        parameter = before.parameters[index]
        if index not in indices:
            problem = "is no longer there"
        elif parameter.optimizer is not None:
            problem = why_not_training(before, after, indices[index], parameter.optimizer)
        else:
            problem = why_leaf_not_training(before, after, index, indices[index])
        if problem:
            problems.setdefault(problem, []).append(parameter.name)
    figures = {"trained": len(trained), "stopped": sorted(name for names in problems.values() for name in names)}
    if problems:
        detail = "; ".join(f"{listed(names)}: {problem}" for problem, names in problems.items())
        return point(4, Verdict.FAILED, detail, **figures)
    return point(4, Verdict.PASSED, f"{count(len(trained), 'parameter')}: gradients and movement as before", **figures)


def trained_before(before: RunRecord, failure: Failure) -> set[int]:
    """What the original trains, as far as it came.

    Members of optimizers that got a non-zero gradient, or that the failing pass reaches; leaves that were updated by
    hand; and if there is neither, the leaves that got a gradient.  (A leaf beside these, such as a network that no
    optimizer holds, gets gradients that nobody uses.)
    """
    touched = {i for step in before.updates for i, norm in step.gradients.items() if norm}
    for one in before.passes[: failure.passes]:
        touched |= {i for i, norm in one.gradients.items() if norm}
    if failure.in_pass:
        touched |= {i for i in before.passes[failure.passes].reached if before.parameters[i].optimizer is not None}
    trained = {i for i in touched if before.parameters[i].optimizer is not None or moved_by_hand(before, i)}
    return trained or touched


def moved_by_hand(record: RunRecord, index: int) -> bool:
    """Whether a leaf outside of all optimizers changed from one pass to another."""
    return len({p.state[index] for p in record.passes if index in p.state}) > 1


def why_not_training(before: RunRecord, after: RunRecord, index: int, optimizer: int) -> str:
    """Why the parameter of an optimizer does not train in the patched run; empty if it does."""
    failure = before.failure
    assert failure is not None
    own = [s for s in after.updates if s.optimizer == optimizer]
    if not own:
        return "never moves, because its optimizer makes no step"
    later = [s for s in own if s.number > failure.steps]
    steps_before = sum(1 for s in before.updates if s.optimizer == optimizer)
    passes_later = len(after.passes) - failure.passes
    if steps_before and 4 * (len(later) + 1) * max(1, failure.passes // steps_before) < passes_later:
        return f"its optimizer makes {count(len(later), 'step')} in {count(passes_later, 'backward pass')}"
    own = later or own
    if not any(s.gradients.get(index) for s in own):
        return "gets no gradient any more" if index not in own[-1].gradients else "gets only zero gradients"
    if not any(s.moved.get(index) for s in own):
        return "does not move"
    half = own[len(own) // 2 :]
    others = any(norm for s in half for norm in s.gradients.values())
    if len(own) >= 6 and others and not any(s.gradients.get(index) for s in half):
        return f"gets no gradient after step {max(s.number for s in own if s.gradients.get(index))}"
    return ""


def why_leaf_not_training(before: RunRecord, after: RunRecord, index: int, there: int) -> str:
    """The same for a leaf outside of every optimizer: it must move only if the original moved it."""
    failure = before.failure
    assert failure is not None
    later = after.passes[failure.passes :]
    if later and not any(p.gradients.get(there) for p in later):
        return "gets no gradient any more"
    if moved_by_hand(before, index) and not moved_by_hand(after, there):
        return "does not move"
    return ""


# -- 6


def memory_flat(before: RunRecord, after: RunRecord) -> Point:
    """Neither the graphs that are alive nor the part of the past that a pass walks grow from step to step.

    Tensor bytes are reported and not judged: a list of results that the script itself keeps grows in a right patch,
    too.  Graphs that are already used and that the script holds by values of its own (``losses.append(loss)``) are
    named; they fail only where the original did not hold them.
    """
    failure = before.failure
    assert failure is not None
    if not after.passes:
        return point(6, Verdict.NOT_PROVED, "the patched script ran no backward pass")
    later = [s for s in after.updates if s.number > failure.steps]
    lives = [[s.live for s in part] for part in series_of(later)]
    lives = lives or [[p.live for p in after.passes[failure.passes :] if p.live is not None]]
    longest = max((len(part) for part in lives), default=0)
    figures: dict[str, Any] = {
        "nodes": [live.nodes for part in lives for live in part],
        "armed": [live.armed for part in lives for live in part],
        "bytes": [live.bytes for part in lives for live in part],
        "walked": [p.walked for p in after.passes[failure.passes :]],
    }
    for part in lives:
        if rate := growth([live.armed for live in part]):
            detail = f"{rate:.3g} graph nodes more at every step keep what they saved for a backward pass"
            return point(6, Verdict.FAILED, detail, **figures)
    for line in {p.line for p in after.passes}:
        if rate := growth([p.walked for p in after.passes[failure.passes :] if p.line == line]):
            detail = (
                f"the backward pass in line {line} walks {rate:.3g} nodes more every time: the past is never let go"
            )
            return point(6, Verdict.FAILED, detail, **figures)
    rates = [rate for part in lives if (rate := growth([live.nodes for live in part]))]
    if rates and steady_in(before):
        return point(6, Verdict.FAILED, f"{max(rates):.3g} graph nodes more at every step", **figures)
    if rates:
        detail = (
            f"the script itself keeps {max(rates):.3g} used graph nodes more at every step, by values that it stores"
        )
        return point(6, Verdict.PASSED, detail, **figures)
    if longest < 4:
        return point(6, Verdict.PASSED, "the script ends before anything can add up", **figures)
    return point(6, Verdict.PASSED, f"live graphs do not grow over {count(longest, 'step')}", **figures)


def series_of(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """The steps of each optimizer apart, because an iteration's graph is alive at one and gone at another.

    The first step of each is left out: state is created there.
    """
    for optimizer in sorted({s.optimizer for s in steps}):
        yield [s for s in steps if s.optimizer == optimizer][1:]


def growth(values: Sequence[int]) -> float:
    """Mean increase of values that grow steadily (they never fall, and rise at half of the places), else 0."""
    if len(values) < 4:
        return 0.0
    differences = [b - a for a, b in itertools.pairwise(values)]
    if min(differences) < 0 or 2 * sum(1 for d in differences if d > 0) < len(differences):
        return 0.0
    return sum(differences) / len(differences)


def steady_in(before: RunRecord) -> bool:
    """Whether the original is known to have held no graphs: it made enough steps, and the nodes did not grow."""
    parts = [[s.live.nodes for s in part] for part in series_of(before.updates)]
    return any(len(part) >= 4 for part in parts) and not any(growth(part) for part in parts)


# -- words


def count(number: int, word: str) -> str:
    plural = {"loss": "losses", "backward pass": "backward passes"}.get(word, word + "s")
    return f"{number} {word if number == 1 else plural}"


def listed(names: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def short(text: str, most: int = 160) -> str:
    first = text.strip().splitlines()[0] if text.strip() else ""
    return first if len(first) <= most else first[: most - 3] + "..."
