"""Evidence of the run witness, in the spans of the source: the facts of a run as frozen data, and as lines to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from autofix.child.job import Bounds
from autofix.codemods.facts.base import Span
from autofix.execution.record import RunRecord
from autofix.execution.runner import Limits, Script, run

MOST_FOLLOWED = 4
"""Values of one run that are followed."""
LOOKED_AT = 16
"""The optimizer step at which graphs that are held are looked for last (see ``child/trace.py``)."""
NEVER = 2**62
"""The number of no call."""

PHRASES = {
    "made": "the graph was made here",
    "saved": "saved for the backward pass here",
    "used": "used here",
    "cut": "the graph is dropped here",
    "changed": "modified in place here",
    "constructed": "by a module that was constructed here",
    "freed": "this backward freed the graph",
    "failed": "this fails",
}
"""Phrase for the event at each role, in the order of the story."""


@dataclass(frozen=True)
class Site:
    """A place that the run came through: the user's frames, the outermost first, as spans and function names."""

    spans: tuple[Span, ...]
    functions: tuple[str, ...]

    @property
    def span(self) -> Span:
        """The innermost place."""
        return self.spans[-1]


@dataclass(frozen=True)
class Holder:
    """A variable, attribute or container that held the value: its name in the source, and its kind."""

    name: str
    kind: str
    path: str
    function: str
    form: str = ""
    """Form of the variable: ``tensor``, ``tuple``, ``list``, ``dict``, ``record``, ``nested`` or ``other``."""
    item: str = ""
    """Form of the element of a container that is, or contains, the value."""
    at: int = 0
    """Index of the step on the evidence's way that made the value."""


@dataclass(frozen=True)
class Step:
    """A call on the way of a failing pass."""

    site: Site
    number: int
    """Its place in the order of all calls."""
    passes: int
    """Passes that had been started before it."""
    operation: str
    """The node that it made."""
    enters: bool
    """Whether it read a parameter: a layer, rather than a loss."""
    mixes: bool
    """Whether it combines several graphs element by element."""


@dataclass(frozen=True)
class Drop:
    """A call that took a tensor with a graph and returned a result without one."""

    by: str
    recorded: bool
    """Whether autograd was recording then."""
    site: Site


@dataclass(frozen=True)
class Put:
    """A line of the source after which a variable, attribute or container held a followed value for the first time."""

    name: str
    kind: str
    form: str
    """Form of the variable, attribute or container of this name (see :class:`Holder`)."""
    item: str
    """Form of the element of a container that is, or contains, the value."""
    function: str
    line: int
    number: int
    passes: int
    """Calls of torch, and passes, that had been made before."""
    site: Site
    """Place of the run by then; the innermost frame is past the line."""


@dataclass(frozen=True)
class Evidence:
    """One fact of a run.  Paths are relative to the script's folder; columns count code points."""

    kind: str
    """One of ``stale graph``, ``overwritten``, ``cut graph``, ``not a scalar``, ``leaf changed``, ``graph escapes``,
    ``graph copied``, ``graph sent``, ``legacy API``, and ``graph held``."""
    sites: Mapping[str, Site]
    holders: tuple[Holder, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    """Figures of the run: the pass that freed, versions, the operation of a change.  See ``child/explain.py``."""
    way: tuple[Step, ...] = ()
    """The calls through which the failing pass came, from the guilty node up to the root."""
    between: tuple[tuple[int, Site], ...] = ()
    """The passes after the guilty node was made and before the one that failed, with their numbers."""
    drops: tuple[Drop, ...] = ()
    """For a cut graph, the calls that dropped graphs, the latest first."""
    carried: tuple[Put, ...] = ()
    """Places at which the value was stored on its way from the call that made it to the one that read it, in order."""

    def is_past(self, place: tuple[Span, ...], passes: int) -> bool:
        """Whether a moment, after this number of passes, belongs to an earlier iteration than the failing pass."""
        if "failed" not in self.sites:
            return False
        failed = self.sites["failed"].spans
        later = [site.spans for number, site in self.between if number > passes]
        if passes >= self.details.get("freed_by_pass", NEVER):
            # Passes of a loop within, such as those that adapt weights, end no iteration of the loop around.
            later = [spans for spans in later if spans == failed]
        return not passed_by([place, *later, failed])

    def places(self) -> Iterator[Site]:
        """Every site that the evidence names."""
        yield from self.sites.values()
        yield from (step.site for step in self.way)
        yield from (put.site for put in self.carried)
        yield from (drop.site for drop in self.drops)

    def story(self) -> Iterator[tuple[str, Span]]:
        """Events and their places, in order.  The role that fails comes last."""
        for role, phrase in PHRASES.items():
            if role in self.sites:
                by = self.details.get("change") if role == "changed" else None
                yield (f"{phrase} ({by})" if by else phrase), self.sites[role].span


def passed_by(story: Sequence[tuple[Span, ...]]) -> bool:
    """Whether the moments of *story* (chains of places, in the order of time) follow one another in the source as well.

    If they do not, the run went around a loop, or came to the same function again, in between.
    """
    for earlier, later in pairwise(story):
        index = parting(earlier, later)
        if index >= len(earlier) or index >= len(later):
            return False  # the very same place twice
        before, after = earlier[index], later[index]
        if after.contains(before):
            continue  # an argument comes before the call that it is handed to
        if before.contains(after) or before.start >= after.start:
            return False
    return True


def parting(first: tuple[Span, ...], second: tuple[Span, ...]) -> int:
    """The index of the first place at which two chains differ; the length of the shorter where none does."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))


def entry(told: Evidence) -> tuple[Step | None, Step | None]:
    """The calls between which the way of the failing pass enters its own iteration: the last of the past, and the next.

    The first is None where the evidence has no way, the second where the root itself is of the past.
    """
    if not told.way or "failed" not in told.sites:
        return (told.way[0] if told.way else None), None
    changed = told.details.get("changed_number") or 0
    at = 1
    while at < len(told.way) and (
        told.way[at].number < changed or told.is_past(told.way[at].site.spans, told.way[at].passes)
    ):
        at += 1
    return told.way[at - 1], told.way[at] if at < len(told.way) else None


def witness(script: Script, limits: Limits, steps: int | None = None) -> tuple[Evidence, ...]:
    """Run *script* once under the witness and return its evidence, the most likely cause first.

    *steps* is how many optimizer steps to watch of a script that does not fail; all of them where it is not given.
    Empty where the run shows no mistake, or did not happen.
    """
    return evidence_of(run(script, limits, Bounds(failed_steps=steps, trace=True)), script)


def follow(script: Script, limits: Limits, evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """*evidence* with the ways of its first few values, which a second run of *script* follows."""
    values: dict[tuple[int, int, str], None] = {}
    for told in evidence:
        made, read = entry(told)
        if made is not None and len(values) < MOST_FOLLOWED:
            values[made.number, read.number if read else NEVER, made.operation] = None
    if not values:
        return tuple(evidence)
    fails = any("failed" in told.sites for told in evidence)
    record = run(script, limits, Bounds(failed_steps=None if fails else LOOKED_AT, trace=True, follow=tuple(values)))
    lines = Lines(script)
    puts: dict[tuple[int, int, str], list[Put]] = {value: [] for value in values}
    for one in record.carried:
        puts[list(values)[one["value"]]].append(_put(one, lines))
    found = []
    for told in evidence:
        made, read = entry(told)
        its = puts.get((made.number, read.number if read else NEVER, made.operation), []) if made else []
        found.append(replace(told, carried=tuple(its)))
    return tuple(found)


def evidence_of(record: RunRecord, script: Script) -> tuple[Evidence, ...]:
    """The facts of a witnessed run of *script*."""
    lines = Lines(script)
    return tuple(_evidence(fact, lines) for fact in record.facts)


class Lines:
    """The lines of the project's files, for one purpose: from offsets in bytes of UTF-8 to code points."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._known: dict[str, list[str]] = {}

    def column(self, path: str, line: int, offset: int | None) -> int:
        """The column of *offset* in *line* (from 1); 0 where the interpreter gives no offset."""
        if offset is None:
            return 0
        lines = self._of(path)
        if not 1 <= line <= len(lines):
            return offset
        return len(lines[line - 1].encode()[:offset].decode(errors="ignore"))

    def _of(self, path: str) -> list[str]:
        if path not in self._known:
            text = self._script.texts.get(path)
            if text is None:
                try:
                    text = (self._script.folder / path).read_bytes().decode(errors="replace")
                except OSError:
                    text = ""
            self._known[path] = text.split("\n")
        return self._known[path]


def _evidence(fact: Mapping[str, Any], lines: Lines) -> Evidence:
    known = {"event", "at", "kind", "roles", "holders", "way", "between", "cuts"}
    return Evidence(
        kind=fact["kind"],
        sites={role: _site(frames, lines) for role, frames in fact["roles"].items()},
        holders=tuple(_holder(told) for told in fact.get("holders", ())),
        details={name: value for name, value in fact.items() if name not in known},
        way=tuple(_step(told, lines) for told in fact.get("way", ())),
        drops=tuple(Drop(told["by"], told["recorded"], _site(told["frames"], lines)) for told in fact.get("cuts", ())),
        between=tuple((told["pass"], _site(told["frames"], lines)) for told in fact.get("between", ())),
    )


def _holder(told: Mapping[str, Any]) -> Holder:
    return Holder(told["name"], told["kind"], told["file"], told["function"], told["form"], told["item"], told["at"])


def _step(told: Mapping[str, Any], lines: Lines) -> Step:
    return Step(
        _site(told["frames"], lines),
        told["number"],
        told["passes"],
        told["operation"],
        told["enters"],
        told["mixes"],
    )


def _put(told: Mapping[str, Any], lines: Lines) -> Put:
    return Put(
        told["name"],
        told["kind"],
        told["form"],
        told["item"],
        told["function"],
        told["line"],
        told["number"],
        told["passes"],
        _site(told["frames"], lines),
    )


def _site(frames: list[Mapping[str, Any]], lines: Lines) -> Site:
    return Site(tuple(_span(frame, lines) for frame in frames), tuple(frame["function"] for frame in frames))


def _span(frame: Mapping[str, Any], lines: Lines) -> Span:
    path, line, end_line = frame["file"], frame["line"], frame["end_line"]
    start = lines.column(path, line, frame["column"])
    return Span(path, line, start, end_line, lines.column(path, end_line, frame["end_column"]))
