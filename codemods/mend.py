"""From facts to a patch: ask the codemods for candidates and take the first that stands the symbolic proof."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field, replace

from libcst.codemod import CodemodContext

from codemods.base import Candidate, Codemod
from codemods.facts import Fact, LegacyApi, Overwritten, StaleGraph
from codemods.proof import Keeps, LineMap, judge, key_of
from codemods.rewrite import Tree
from codemods.tape.oracle import Path
from codemods.tape.source import Source
from codemods.tape.witness import Observation, observe

_ROUNDS = 24
"""Facts repaired in one text, one after the other."""
_STEPS = 3_000_000
"""Expressions and statements evaluated for all candidates of one text."""
_DEPTH = 3
"""Mistakes that may come to light behind one another before a candidate is given up."""


@dataclass(frozen=True)
class Repair:
    """A fact that was repaired, in the coordinates of the original text where it has any there."""

    fact: Fact
    codemod: type[Codemod]
    remedy: str


@dataclass(frozen=True)
class Mended:
    """The outcome for one text: all facts seen in the original, those repaired, the patched text, and why not more."""

    observation: Observation
    patched: str
    repairs: tuple[Repair, ...]
    left: tuple[Fact, ...]
    refused: tuple[str, ...]
    """Candidates that did not stand, each with the reason."""
    steps: tuple[str, ...] = ()
    """The text after each repair."""


@dataclass
class _Search:
    path: str
    codemods: list[type[Codemod]]
    rejected: frozenset[str] = frozenset()
    steps: int = 0
    refused: dict[str, None] = field(default_factory=dict)

    def observe(self, source: Source, only: Path | None = None) -> Observation:
        seen = observe(source, only)
        self.steps += seen.steps
        return seen

    def repair(
        self, fact: Fact, text: str, seen: Observation, origin: str, start: Observation, depth: int
    ) -> tuple[str, Observation, list[Repair]] | None:
        """A text in which *fact* is repaired; *origin* and *start* are what nothing may be lost of."""
        tree = Tree(text)
        path = seen.paths[seen.facts.index(fact)]
        shown = _times(fact, self.observe(Source(text, self.path), path).facts)
        for kind in self.codemods:
            if not isinstance(fact, kind.answers):
                continue
            best: tuple[str, Observation, list[Repair]] | None = None
            for candidate in _distinct(kind(_context(self.path)).candidates(fact, tree), {text, *self.rejected}):
                if self.steps >= _STEPS:
                    return None
                try:
                    source = Source(candidate.text, self.path)
                except SyntaxError:
                    self._refuse(kind, candidate, "the patched text does not parse")
                    continue
                # The path that showed the mistake refuses most candidates; all the paths are followed for the others.
                glimpse = self.observe(source, path)
                if _still_there(fact, text, candidate.text, glimpse, shown):
                    self._refuse(kind, candidate, "the mistake is still there")
                    continue
                after = self.observe(source)
                verdict = judge(text, seen, candidate.text, after, fact, candidate.keeps)
                done = Repair(fact, kind, candidate.remedy)
                if verdict.stands:
                    best = best or (candidate.text, after, [done])
                    if not _shares_pass(fact, after, text, candidate.text):
                        return candidate.text, after, [done]
                    continue
                self._refuse(kind, candidate, verdict.reason)
                if verdict.revealed and depth < _DEPTH:
                    deeper = self.repair(verdict.revealed[0], candidate.text, after, origin, start, depth + 1)
                    if deeper is not None and self._holds(fact, origin, start, deeper):
                        best = best or (deeper[0], deeper[1], [done, *deeper[2]])
            if best is not None:
                return best
        return None

    def _holds(
        self,
        fact: Fact,
        origin: str,
        start: Observation,
        deeper: tuple[str, Observation, list[Repair]],
    ) -> bool:
        """Whether a patch of several steps still keeps what the text before the first step had."""
        lines = LineMap(origin, deeper[0])
        if key_of(fact) in {key_of(one, lines) for one in deeper[1].facts}:
            return False
        return not judge(origin, start, deeper[0], deeper[1], fact, Keeps.PARAMETERS).reason

    def _refuse(self, kind: type[Codemod], candidate: Candidate, reason: str) -> None:
        self.refused[f"{kind.code} {candidate.remedy}: {reason}"] = None


def _shares_pass(fact: Fact, after: Observation, text: str, patched: str) -> bool:
    """Whether the pass that failed for *fact* still fails for another reason: a candidate that cures both is better.

    Another value on the very same way (an LSTM's second state) is cured in its turn.
    """
    lines = LineMap(text, patched)
    failed = _failing(fact)
    return any(
        lines.original(line) in failed
        for one in after.facts
        if key_of(one, lines) != key_of(fact)
        for line in _failing(one)
    )


def _times(fact: Fact, facts: Iterable[Fact], lines: LineMap | None = None) -> int:
    """How often a fact's story is told."""
    return sum(key_of(one, lines) == key_of(fact) for one in facts)


def _still_there(fact: Fact, text: str, patched: str, glimpse: Observation, shown: int) -> bool:
    return 0 < shown <= _times(fact, glimpse.facts, LineMap(text, patched))


def _context(path: str) -> CodemodContext:
    return CodemodContext(filename=path)


def _distinct(candidates: Iterable[Candidate], seen: set[str]) -> Iterable[Candidate]:
    for candidate in candidates:
        if candidate.text not in seen:
            seen.add(candidate.text)
            yield candidate


def _order(fact: Fact) -> tuple[bool, bool, int]:
    """What stops the program first comes first; of values that share one iteration, the one that is made last."""
    shared = isinstance(fact, (StaleGraph, Overwritten)) and fact.loop is None and fact.kept is not None
    return not isinstance(fact, LegacyApi), shared, -fact.cause.line if shared else 0


def mend(
    text: str,
    path: str,
    codemods: Iterable[type[Codemod]],
    rejected: Collection[str] = (),
    seen: Observation | None = None,
) -> Mended:
    """Repair what can be repaired in *text*, by no step that leads to a text of *rejected*.

    *seen* is an earlier observation of the same text.  Raises :class:`SyntaxError` where the text does not parse.
    """
    ordered = sorted(codemods, key=lambda kind: (kind.rank, kind.code))
    start = seen if seen is not None else observe(Source(text, path))
    mended = _mend(_Search(path, ordered, frozenset(rejected)), text, start, frozenset())
    hopeless = _still_failing(text, mended)
    if hopeless:
        # Half a repair leaves the pass failing, and the script changed for nothing.
        again = _mend(_Search(path, ordered, frozenset(rejected)), text, start, hopeless)
        return replace(again, refused=mended.refused)
    return mended


def _still_failing(text: str, mended: Mended) -> frozenset[int]:
    """Lines of passes for which something was repaired and which fail all the same."""
    lines = LineMap(text, mended.patched)
    left = {lines.original(line) for fact in mended.left for line in _failing(fact)}
    return frozenset(left & {line for repair in mended.repairs for line in _failing(repair.fact)})


def _failing(fact: Fact) -> set[int]:
    return {role.span.line for role in fact.roles() if role.name == "failed"}


def _mend(search: _Search, text: str, start: Observation, hopeless: frozenset[int]) -> Mended:
    """The repairs, one after the other; facts whose pass stands on one of the *hopeless* lines are left."""
    current, seen = text, start
    repairs: list[Repair] = []
    steps: list[str] = []
    given_up: set[Hashable] = {key_of(fact) for fact in start.facts if _failing(fact) & hopeless}
    for _ in range(_ROUNDS):
        open_facts = [fact for fact in seen.facts if key_of(fact) not in given_up] if seen.complete else []
        if not open_facts:
            break
        fact = min(open_facts, key=_order)
        outcome = search.repair(fact, current, seen, current, seen, 0)
        if outcome is None:
            given_up.add(key_of(fact))
            continue
        before = current
        current, seen, done = outcome
        repairs.extend(done)
        steps.append(current)
        lines = LineMap(before, current)
        given_up = {key_of(one) for one in seen.facts if key_of(one, lines) in given_up}
    return Mended(start, current, tuple(repairs), seen.facts, tuple(search.refused), tuple(steps))
