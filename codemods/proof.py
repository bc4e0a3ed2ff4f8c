"""The symbolic half of the proof: the properties that a patch must keep on the symbolic tape.

A patch stands when the fact is gone, no new fact, error or root without a graph appears, every parameter that a pass
gave a gradient which a step used still gets one from that pass, and, for a patch that only cuts, every edge of useful
gradient flow that was not stale is still walked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.changed import LeafChanged, Overwritten
from autofix.codemods.facts.cut import CutGraph
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.parts import Severed
from autofix.codemods.facts.untrained import ComputedParameter, NoGradient
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.patch import Patch

if TYPE_CHECKING:
    from autofix.codemods.checks.known import Edge, Place
    from autofix.codemods.interpreter.analysis import AnalysisResult


@dataclass(frozen=True)
class Verdict:
    """Whether a patch stands, the facts that it laid open, and why it does not stand."""

    stands: bool
    revealed: tuple[Fact, ...] = ()
    reason: str = ""


def key_of(fact: Fact, lines: Patch | None = None) -> Hashable:
    """Key that is equal for facts with one story: kind, roles and lines, these in the original text."""
    where = lines.original if lines is not None else lambda line: line
    return (type(fact), *((role.name, where(role.span.line)) for role in fact.roles() if role.name != "walked"))


def judge(
    lines: Patch,
    before: AnalysisResult,
    after: AnalysisResult,
    fact: Fact,
    keeps: Keeps,
    merged: Collection[int] = (),
) -> Verdict:
    """Verdict on a patch: whether it repairs *fact* and loses nothing; *lines* maps its lines to the original's.

    With ``ONE_PASS``, the passes at the lines *merged* may have become one with those of the fact.
    """
    if not after.complete:
        return Verdict(False, reason="the patched program is too large to be read in full")
    known = Counter(key_of(one) for one in before.facts)
    mapped = [(key_of(one, lines), one) for one in after.facts]
    left = Counter(key for key, _ in mapped)
    if left[key_of(fact)] >= max(known[key_of(fact)], 1):  # an earlier step of the patch may have laid it open
        return Verdict(False, reason="the mistake is still there")
    crashes = {(lines.original(line), reason) for line, reason in after.crashes} - before.crashes
    if crashes:
        return Verdict(False, reason="; ".join(sorted({reason for _, reason in crashes})))
    if {lines.original(line) for line in after.rootless} - before.rootless:
        return Verdict(False, reason="a backward is left without a graph")
    lost = _lost(before, after, lines, keeps, fact, merged) or _still_cut(fact, before, after, lines)
    lost = lost or _trained_once(before, after, lines) or _still_severed(fact, after, lines)
    if keeps is not Keeps.LATER:
        lost = lost or _before_its_step(before, after, lines, fact)
    if lost:
        return Verdict(False, reason=lost)
    revealed = tuple(one for key, one in mapped if left[key] > known[key])
    return Verdict(not revealed, revealed, "another mistake appears" if revealed else "")


def _lost(
    before: AnalysisResult, after: AnalysisResult, lines: Patch, keeps: Keeps, fact: Fact, merged: Collection[int]
) -> str:
    passes = {lines.original(line) for line in after.passes}
    missed = before.passes - passes
    if keeps is Keeps.ONE_PASS and isinstance(fact, StaleGraph):
        return _without_one_pass(before, after, lines, {fact.freed.line, fact.failed.line, *merged}, missed)
    if keeps is Keeps.ONE_PASS and isinstance(fact, Overwritten) and fact.retained is not None:
        return _without_one_pass(before, after, lines, {fact.retained.line, fact.failed.line, *merged}, missed)
    if missed or passes - before.passes - before.rootless:
        return "a backward pass is gone"
    trained = {(lines.original(line), name) for line, name in after.trained}
    if keeps is Keeps.MEANT:
        return _without_meaning(before, trained, fact)
    by_the_way = _incidental(fact) if keeps is Keeps.OWN else frozenset()
    if isinstance(fact, ComputedParameter) and fact.on_gpu:  # the leaf is another one, that was made elsewhere
        return _lost_kinds(before, _in_original(after.ways, lines))
    missing = {name for _, name in before.trained - trained - by_the_way}
    ways = before.ways - _in_original(after.ways, lines)
    missing |= {name for place, name in ways if (place[0], name) not in by_the_way}
    if missing:
        return f"{_names(missing)} would no longer be trained"
    mended = before.rootless | ({fact.failed.line} if isinstance(fact, CutGraph) else set())
    more = {name for line, name in trained - before.trained if line not in mended}
    severed = _severed(fact)
    if severed is not None and keeps is Keeps.REACHED:
        more -= set(severed.wanted)
    # A new gradient is fine for these facts: a parameter that takes part in the forward pass is to be trained.
    if more and keeps is not Keeps.HELD and not isinstance(fact, (LeafChanged, ComputedParameter, NoGradient)):
        return f"{_names(more)} would get gradients that no step used before"
    if cut_edges := _cut_edges(before, after, lines, keeps, fact):
        return cut_edges
    if keeps is Keeps.IN_PLACE and isinstance(fact, StaleGraph):
        return ""  # what gave the parameter a new value was not meant to be trained through
    if keeps not in (Keeps.ONE_PASS, Keeps.TRAINED, Keeps.TARGET, Keeps.INPUTS):
        cut = {one[1] for one in before.through.missing(after.through, lines.original) if one not in by_the_way}
        if cut:
            return f"{_names(cut)} would no longer be trained through all layers"
    return ""


def _cut_edges(before: AnalysisResult, after: AnalysisResult, lines: Patch, keeps: Keeps, fact: Fact) -> str:
    """Objection that edges are gone which the patch promises to keep; empty for none.

    A ``detach`` in a method stops the gradient of all its callers: of the values from before the loop, for which it
    is meant, and of those that the loop is to learn from, though other terms may train the same parameters.
    """
    if keeps is Keeps.EDGES:
        known = before.edges
    elif keeps in (Keeps.RATIO, Keeps.TARGET):
        known = before.renewed
    else:
        return ""
    gone = known - _seen_through({_mapped(edge, lines) for edge in after.edges}, known)
    if isinstance(fact, CutGraph) and fact.silent:  # the copy that got the gradient is no leaf any more
        gone = frozenset(edge for edge in gone if edge.producer.line != fact.cut.line)
    return f"gradient that reaches line {min(edge.producer.line for edge in gone)} would be cut" if gone else ""


def _lost_kinds(before: AnalysisResult, ways: frozenset[tuple[tuple[int, ...], str]]) -> str:
    """Objection that a pass trains fewer parameters of a kind than before, whatever their numbers; empty for none."""
    kinds = [Counter((place, name.partition(":")[0]) for place, name in some) for some in (before.ways, ways)]
    missing = {kind for _, kind in kinds[0] - kinds[1]}
    return f"{_names(missing)} would no longer be trained" if missing else ""


def passes_by_the_way(fact: Fact) -> set[int]:
    """The lines of passes that train, by the way, parameters of which another pass takes care."""
    return {line for line, _ in _incidental(fact)}


def _incidental(fact: Fact) -> frozenset[tuple[int, str]]:
    """Pairs of the line of a pass and the name of a parameter that it trains by the way."""
    if not isinstance(fact, (StaleGraph, Overwritten)) or fact.outer is None:
        return frozenset()
    found: set[tuple[int, str]] = set()
    for at, span in enumerate((fact.freed if isinstance(fact, StaleGraph) else fact.retained, fact.failed)):
        if span is None:
            continue
        names = (*fact.outer.incidental[at], *(fact.outer.weighed if fact.outer.weights[at] else ()))
        found |= {(span.line, name) for name in names}
    return frozenset(found)


def _trained_once(before: AnalysisResult, after: AnalysisResult, lines: Patch) -> str:
    """Objection that a parameter is trained in the first iteration only, as its state is cut later; empty for none."""
    once = {name for line, name in after.once if (lines.original(line), name) not in before.once}
    once -= {name for line, name in after.trained - after.once}
    return f"{_names(once)} would be trained in the first iteration only" if once else ""


def _before_its_step(before: AnalysisResult, after: AnalysisResult, lines: Patch, fact: Fact) -> str:
    """Objection that a moved step leaves a computation in front of it that came after it; empty for none."""
    if not (isinstance(fact, Overwritten) and fact.by_step):
        return ""
    steps = [Counter(name for name, _ in {update[:2] for update in one.updated}) for one in (before, after)]
    left = {name for name, count in steps[0].items() if steps[1][name] < count}
    if left:  # two optimizers share them, and the gradient was cleared before the second step
        return f"{_names(left)} would no longer be trained by every step"
    if mixed := _mixed(before, after, lines):
        return f"{_names(mixed)} would be updated with the gradient of another pass as well"
    waiting = _in_original(after.waiting, lines) - before.waiting
    early = min((place[0] for place, _ in waiting if min(place) > 0), default=0)  # no line of the patch itself
    return f"line {early} would be computed before the step that it comes after" if early else ""


def _mixed(before: AnalysisResult, after: AnalysisResult, lines: Patch) -> set[str]:
    """Parameters that a step of the patched program updates with a gradient that another step used before.

    All steps in new lines count as one, and stand for those that the patch has dropped.
    """
    updates = {(name, max(lines.original(step), 0), lines.original(sent)) for name, step, sent in after.updated}
    kept = {step for _, step, _ in updates}
    known = {(name, step if step in kept else 0, sent) for name, step, sent in before.updated}
    return {name for name, _, sent in updates - known if (sent, name) in before.trained}


def _without_one_pass(
    before: AnalysisResult, after: AnalysisResult, lines: Patch, twice: set[int], gone: frozenset[int]
) -> str:
    """Objection to a patch that drops one of two passes over one loss, or replaces both by a new one; empty for none.

    The remaining pass, or the new one, must train every parameter that those at the lines *twice* trained.
    """
    new = {line for line in after.passes if lines.original(line) < 0} if gone == twice else set()
    if not gone < twice and len(new) != 1:
        return "a backward pass is gone"
    trained = {name for line, name in after.trained if lines.original(line) in twice - gone or line in new}
    missing = {name for line, name in before.trained if line in twice} - trained
    others = {(line, name) for line, name in before.trained if line not in twice}
    missing |= {name for _, name in others - {(lines.original(line), name) for line, name in after.trained}}
    return f"{_names(missing)} would no longer be trained" if missing else ""


def _without_meaning(before: AnalysisResult, trained: set[tuple[int, str]], fact: Fact) -> str:
    """Objection to a patch that sends another loss backward in the failing pass; empty for none.

    The pass over the other loss must train a parameter, and all other passes what they trained before.
    """
    assert isinstance(fact, (StaleGraph, Overwritten))
    failed = fact.failed.line
    missing = {name for line, name in before.trained - trained if line != failed}
    missing |= {name for line, name in before.trained if line == failed} - {name for _, name in trained}
    if missing:
        return f"{_names(missing)} would no longer be trained"
    return "" if any(line == failed for line, _ in trained) else "no step would use the gradient of the other loss"


def _still_cut(fact: Fact, before: AnalysisResult, after: AnalysisResult, lines: Patch) -> str:
    """Objection that the pass without a graph still misses parameters after the repair; empty for none."""
    if not isinstance(fact, CutGraph):
        return ""
    if fact.failed.line not in {lines.original(line) for line in after.passes}:
        return "the backward still finds no graph"
    missing = set(fact.wanted) - {name for line, name in after.trained if lines.original(line) == fact.failed.line}
    if missing < set(fact.wanted) and all(drop.how == "frozen" for drop in fact.drops):
        return ""  # most of a model that is frozen and given to the optimizer as a whole is meant to stay as it is
    others = {name for line, name in before.trained if line != fact.failed.line}
    others &= {name for line, name in after.trained if lines.original(line) != fact.failed.line}
    if missing < set(fact.wanted) and missing <= others:
        return ""  # the loss of a discriminator goes through the generator, whose gradient another pass computes
    return f"{_names(missing)} would not be trained" if missing else ""


def _severed(fact: Fact) -> Severed | None:
    return fact.severed if isinstance(fact, (StaleGraph, Overwritten)) else None


def _still_severed(fact: Fact, after: AnalysisResult, lines: Patch) -> str:
    """Objection that the pass which ends at a detached value still misses the parameters behind it; empty for none."""
    severed = _severed(fact)
    if severed is None or not isinstance(fact, (StaleGraph, Overwritten)):
        return ""
    first = fact.freed if isinstance(fact, StaleGraph) else fact.retained
    ends = first if severed.first and first is not None else fact.failed
    missing = set(severed.wanted) - {name for line, name in after.trained if lines.original(line) == ends.line}
    return f"{_names(missing)} would still not be trained" if missing else ""


def _seen_through(edges: set[Edge], known: frozenset[Edge]) -> set[Edge]:
    """*edges*, and those that appear when nodes which only the patched program has (a ``clone``) are looked through."""
    nodes = {edge.consumer for edge in known} | {edge.producer for edge in known}
    below: dict[tuple[int, Place], set[Edge]] = {}
    for edge in edges:
        if edge.consumer not in nodes:
            below.setdefault((edge.line, edge.consumer), set()).add(edge)
    farthest = max((lag for edge in known for lag in edge.lag), default=0)
    found, pending = set(edges), [edge for edge in edges if edge.producer not in nodes]
    while pending:
        upper = pending.pop()
        for lower in below.get((upper.line, upper.producer), ()):
            joined = upper._replace(producer=lower.producer, gap=lower.gap, lag=_sum(upper.lag, lower.lag))
            if joined not in found and max(joined.lag, default=0) <= farthest:
                found.add(joined)
                if joined.producer not in nodes:
                    pending.append(joined)
    return found


def _sum(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """Two distances, one after the other."""
    return tuple(a + b for a, b in zip_longest(first, second, fillvalue=0))


def _mapped(edge: Edge, lines: Patch) -> Edge:
    return edge._replace(
        line=lines.original(edge.line),
        consumer=_original(edge.consumer, lines),
        producer=_original(edge.producer, lines),
    )


def _in_original(ways: frozenset[tuple[tuple[int, ...], str]], lines: Patch) -> frozenset[tuple[tuple[int, ...], str]]:
    """Places by their lines and those of the calls that led there, in the lines of the original."""
    return frozenset((tuple(map(lines.original, place)), name) for place, name in ways)


def _original(place: Place, lines: Patch) -> Place:
    calls = tuple((lines.original(line), rank, name) for line, rank, name in place.calls)
    return place._replace(line=lines.original(place.line), calls=calls)


def _names(leaves: set[str]) -> str:
    return ", ".join(sorted(leaf.partition(":")[0] for leaf in leaves))
