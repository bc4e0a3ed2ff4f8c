"""From facts to a patch: ask the codemods for candidates and take the first that stands the symbolic proof."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from libcst.codemod import CodemodContext

from codemods.branches import computes_one_of_several
from codemods.facts import (
    Certainty,
    ComputedParameter,
    CutGraph,
    Fact,
    GraphHeld,
    LegacyApi,
    LegacyFunction,
    Overwritten,
    Span,
    StaleGraph,
)
from codemods.interpreter.analysis import AnalysisResult, analyze
from codemods.interpreter.policy import Path
from codemods.proof import Keeps, LineMap, judge, key_of
from codemods.rewriting.tree import Tree
from codemods.source.program import Program

if TYPE_CHECKING:
    from codemods.rules.base import Candidate, Codemod

_ROUNDS = 24
"""Facts repaired in one text, one after the other."""
_STEPS = 600_000
"""Expressions and statements evaluated for all candidates of one text."""
_OF_ONE = 4 / 5
"""How much of that the candidates of one fact may take: another may have the repair that takes this one along."""
_DEPTH = 3
"""Mistakes that may come to light behind one another before a candidate is given up."""


@dataclass(frozen=True)
class Repair:
    """A fact that was repaired, in the coordinates of the original text where it has any there."""

    fact: Fact
    codemod: type[Codemod]
    remedy: str
    keeps: Keeps = Keeps.EDGES
    blames: int = 0
    """The line that the codemod holds to be the mistake; 0 where the fact's story says it."""


@dataclass(frozen=True)
class Mended:
    """The outcome for one program: all facts seen in it, those repaired, the patched program, and why not more."""

    observation: AnalysisResult
    patched: Program
    repairs: tuple[Repair, ...]
    left: tuple[Fact, ...]
    refused: tuple[str, ...]
    """Candidates that did not stand, each with the reason."""
    steps: tuple[Program, ...] = ()
    """The program after each repair."""


_Repaired = tuple[Program, AnalysisResult, list[Repair]]
"""A program after some repairs, what is seen of it, and the repairs."""


@dataclass
class _Search:
    codemods: list[type[Codemod]]
    rejected: frozenset[Program] = frozenset()
    certain: bool = False
    """Whether facts that are only likely are left alone."""
    spared: frozenset[Hashable] = frozenset()
    """The keys of facts that are left alone as well."""
    limit: int = _STEPS
    """Steps for all facts."""
    within_first: bool = False
    """Whether what one iteration shares is repaired before what several do."""
    to_the_last: bool = False
    """Whether candidates that come last are tried."""
    passed_over: bool = False
    """Whether there were such ones that were not."""
    origin: Program | None = None
    """The program as its author wrote it."""
    steps: int = 0
    most: int = _STEPS
    """How many steps may have been made when the fact at hand is given up."""
    trees: dict[Program, Tree] = field(default_factory=dict)
    known: dict[tuple[Program, Path | None], AnalysisResult] = field(default_factory=dict)
    refused: dict[str, None] = field(default_factory=dict)

    def analyze(self, program: Program, only: Path | None = None) -> AnalysisResult:
        seen = self.known.get((program, only))
        if seen is None:  # facts with a common cause have common candidates
            seen = self.known[program, only] = self._apart_from_repairs(analyze(program, only), program)
            self.steps += seen.steps
        return seen

    def _apart_from_repairs(self, seen: AnalysisResult, program: Program) -> AnalysisResult:
        """What a repair detached is no mistake of the author's, who may have detached too much elsewhere."""
        if self.origin is None or not any(
            isinstance(one, StaleGraph | Overwritten) and one.severed for one in seen.facts
        ):
            return seen
        lines = LineMap(self.origin, program)
        before, after = self.origin.lines, program.lines

        def own(fact: Fact) -> Fact:
            if not isinstance(fact, (StaleGraph, Overwritten)) or fact.severed is None:
                return fact
            now, then = fact.severed.cut.line, lines.original(fact.severed.cut.line)
            more = then < 1 or after[now - 1].count("detach") > before[then - 1].count("detach")
            return replace(fact, severed=None) if more else fact

        return replace(seen, facts=tuple(map(own, seen.facts)))

    def repair(
        self, fact: Fact, program: Program, seen: AnalysisResult, origin: Program, start: AnalysisResult, depth: int
    ) -> _Repaired | None:
        """A program in which *fact* is repaired; *origin* and *start* are what nothing may be lost of."""
        tree = self.trees.setdefault(program, Tree(program))
        context = CodemodContext(filename=program.path)
        path = seen.paths[seen.facts.index(fact)]
        shown = self.analyze(program, path)
        partial: _Repaired | None = None
        """The first patch that leaves another value on the way of the same pass, for want of one that cures both."""
        for kind in self.codemods:
            if not isinstance(fact, kind.answers):
                continue
            best: _Repaired | None = None
            for candidate in _distinct(kind(context).offers(fact, tree), {program, *self.rejected}):
                if self.steps >= self.most:
                    return partial or best
                if candidate.last and not self.to_the_last:
                    self.passed_over = True
                    continue
                # The path that showed the mistake refuses most candidates; all the paths are followed for the others.
                try:
                    glimpse = self.analyze(candidate.program, path)
                except SyntaxError:
                    self._refuse(kind, candidate, "the patched text does not parse")
                    continue
                name = "" if kind.unguards else computes_one_of_several(program, candidate.program)
                if name:
                    self._refuse(kind, candidate, f"`{name}` was computed in one of several branches")
                    continue
                verdict = judge(program, shown, candidate.program, glimpse, fact, candidate.keeps)
                if not verdict.stands and not verdict.revealed and fact in shown.facts:
                    self._refuse(kind, candidate, verdict.reason)
                    continue
                after = self.analyze(candidate.program)
                verdict = judge(program, seen, candidate.program, after, fact, candidate.keeps)
                done = Repair(fact, kind, candidate.remedy, candidate.keeps, candidate.blames)
                if verdict.stands and _keeps_old_weights(program, candidate.program, after):
                    self._refuse(kind, candidate, "the graph that it keeps is of parameters that were changed since")
                    continue
                if verdict.stands and self._touches_spared(after, candidate.program):
                    self._refuse(kind, candidate, "it also repairs what is to be left alone")
                    continue
                if verdict.stands and not _compiles(candidate.program):
                    self._refuse(kind, candidate, "the patched text does not compile")
                    continue
                if verdict.stands:
                    # What is right whatever else fails (an advantage is a number) does not give way to what cures both.
                    if candidate.keeps is Keeps.OWN or not _shares_pass(fact, after, program, candidate.program):
                        return candidate.program, after, [done]
                    partial = partial or (candidate.program, after, [done])
                    continue
                self._refuse(kind, candidate, verdict.reason)
                if verdict.revealed and depth < _DEPTH:
                    deeper = self._behind(
                        verdict.revealed[0], (candidate.program, after, []), fact, origin, start, depth
                    )
                    if deeper is not None and kind.recomputes and any(one.codemod is not kind for one in deeper[2]):
                        continue
                    if (
                        deeper is not None
                        and self._holds(fact, origin, start, deeper)
                        and not self._touches_spared(deeper[1], deeper[0])
                    ):
                        both = (deeper[0], deeper[1], [done, *deeper[2]])
                        best = best or self._lighter(candidate.program, deeper, program, seen, fact) or both
            if best is not None and partial is None:
                return best
        return partial

    def _behind(
        self, first: Fact, reached: _Repaired, fact: Fact, origin: Program, start: AnalysisResult, depth: int
    ) -> _Repaired | None:
        """The program with all that came to light behind *fact* repaired, one after the other."""
        revealed: tuple[Fact, ...] = (first,)
        for _ in range(_DEPTH):
            further = self.repair(revealed[0], reached[0], reached[1], origin, start, depth + 1)
            if further is None:
                return None
            reached = (further[0], further[1], [*reached[2], *further[2]])
            if isinstance(fact, (StaleGraph, Overwritten)):
                break  # one repair that needs several others is a guess
            revealed = judge(origin, start, reached[0], reached[1], fact, Keeps.PARAMETERS).revealed
            if not revealed:
                break
        return reached

    def _touches_spared(self, after: AnalysisResult, program: Program) -> bool:
        """Whether one of the facts that are to be left alone is gone in the patched *program*."""
        if not self.spared or self.origin is None:
            return False
        lines = LineMap(self.origin, program)
        return not self.spared <= {key_of(fact, lines) for fact in after.facts}

    def _lighter(
        self, first: Program, deeper: _Repaired, program: Program, seen: AnalysisResult, fact: Fact
    ) -> _Repaired | None:
        """What came after the *first* repair, without that one, if it cures *fact* alone: what lies behind both."""
        alone = _without(program, first, deeper[0])
        if alone is None or alone in (program, deeper[0]):
            return None
        try:
            after = self.analyze(alone)
        except SyntaxError:
            return None
        stands = judge(program, seen, alone, after, fact, deeper[2][-1].keeps).stands
        return (alone, after, deeper[2]) if stands else None

    def _holds(
        self,
        fact: Fact,
        origin: Program,
        start: AnalysisResult,
        deeper: _Repaired,
    ) -> bool:
        """Whether a patch of several steps still keeps what the text before the first step had."""
        lines = LineMap(origin, deeper[0])
        if key_of(fact) in {key_of(one, lines) for one in deeper[1].facts}:
            return False
        one_pass = any(repair.keeps is Keeps.ONE_PASS for repair in deeper[2])
        keeps = Keeps.ONE_PASS if one_pass else Keeps.PARAMETERS
        return not judge(origin, start, deeper[0], deeper[1], fact, keeps).reason

    def _refuse(self, kind: type[Codemod], candidate: Candidate, reason: str) -> None:
        self.refused[f"{kind.code} {candidate.remedy}: {reason}"] = None


def _compiles(program: Program) -> bool:
    """Whether every file does: that a name is set before it is declared ``nonlocal``, say, is no matter of parsing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for file in program.files:
                compile(file.text.removeprefix("\ufeff"), file.path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
    return True


def _keeps_old_weights(program: Program, candidate: Program, after: AnalysisResult) -> bool:
    """Whether a patch keeps a graph whose parameters the script changes by hand: it wants a new forward pass."""
    keeps = sum(file.text.count("retain_graph=True") for file in candidate.files)
    more = keeps > sum(file.text.count("retain_graph=True") for file in program.files)
    return more and any(isinstance(fact, Overwritten) and fact.parameter for fact in after.facts)


def _without(program: Program, first: Program, both: Program) -> Program | None:
    """*program* with the changes that lead from *first* to *both*, where they lie apart from those that led to *first*.

    None where they do not.
    """
    texts: dict[str, str] = {}
    for own, once, twice in zip(program.files, first.files, both.files, strict=True):
        lines = LineMap(Program((own,)), Program((once,)))
        before, after, text = once.text.split("\n"), twice.text.split("\n"), own.text.split("\n")
        for tag, start, end, new, until in reversed(SequenceMatcher(None, before, after, autojunk=False).get_opcodes()):
            if tag == "equal":
                continue
            at = [lines.original(number) for number in range(start + (tag != "insert"), end + 1)]
            if at[0] < (tag != "insert") or at != list(range(at[0], at[0] + len(at))):
                return None
            first_line = at[0] if tag == "insert" else at[0] - 1
            text[first_line : at[-1]] = after[new:until]
        texts[own.path] = "\n".join(text)
    return program.with_texts(texts)


def _shares_pass(fact: Fact, after: AnalysisResult, program: Program, patched: Program) -> bool:
    """Whether the pass that failed for *fact* still fails for another reason: a candidate that cures both is better.

    Another value on the very same way (an LSTM's second state) is cured in its turn.
    """
    lines = LineMap(program, patched)
    failed = _failing(fact)
    return any(
        lines.original(line) in failed
        for one in after.facts
        if key_of(one, lines) != key_of(fact)
        for line in _failing(one)
    )


def _distinct(candidates: Iterable[Candidate], seen: set[Program]) -> Iterable[Candidate]:
    for candidate in candidates:
        if candidate.program not in seen:
            seen.add(candidate.program)
            yield candidate


def _order(fact: Fact) -> tuple[bool, bool, bool, int]:
    """What stops the program first comes first; of values that share one iteration, the one that is made last.

    Of the ways on which a loss misses a parameter, the one that lost its graph at most places.

    A step that comes too early is a matter of order only where no graph is shared that should not be.
    """
    shared = _is_shared(fact)
    early = isinstance(fact, Overwritten) and fact.by_step and fact.kept is None
    drops = len(fact.drops) if isinstance(fact, CutGraph) and fact.beside else 0
    return (
        not isinstance(fact, (LegacyApi, LegacyFunction, ComputedParameter)),
        early,
        shared,
        -fact.cause.line if shared else -drops,
    )


def _is_shared(fact: Fact) -> bool:
    """Whether a value is shared within one iteration."""
    return isinstance(fact, (StaleGraph, Overwritten)) and fact.loop is None and fact.kept is not None


def _other_ways(fact: Fact, others: Iterable[Fact]) -> Iterator[Fact]:
    """The other ways on which a loss misses the same parameters: one alone would train them by a part of the loss."""
    if isinstance(fact, CutGraph) and fact.beside:
        for one in others:
            if (
                isinstance(one, CutGraph)
                and one.beside
                and one.failed == fact.failed
                and set(one.wanted) & set(fact.wanted)
            ):
                yield one


def mend(
    program: Program,
    codemods: Iterable[type[Codemod]],
    rejected: Collection[Program] = (),
    seen: AnalysisResult | None = None,
    *,
    certain: bool = False,
    spared: Collection[Hashable] = (),
) -> Mended:
    """Repair what can be repaired in *program*, by no step that leads to one of *rejected*; only what is *certain*.

    *seen* is an earlier observation of the same program; facts with one of the keys *spared* are left as they are.
    Raises :class:`SyntaxError` where a file does not parse.
    """
    ordered = sorted(codemods, key=lambda kind: (kind.rank, kind.code))
    start = seen if seen is not None else analyze(program)
    both = len({_is_shared(fact) for fact in start.facts}) == 2
    limit = _STEPS // 2 if both else _STEPS
    search = _Search(ordered, frozenset(rejected), certain, frozenset(spared), limit=limit, origin=program)
    mended = _without_halves(search, program, start)
    if both and not mended.repairs:
        # What several iterations share may have come from what one of them shares.
        again = replace(search, steps=0, within_first=True)
        return _without_halves(again, program, start)
    if search.passed_over and mended.left:
        again = replace(search, steps=0, to_the_last=True)
        further = _without_halves(again, program, start)
        return further if len(further.left) < len(mended.left) else mended
    return mended


def _without_halves(search: _Search, program: Program, start: AnalysisResult) -> Mended:
    """The repairs; none for a pass that fails all the same: half of one changes the script for nothing."""
    mended = _mend(search, program, start, frozenset())
    hopeless = _still_failing(program, mended)
    return _without_idle(search, program, _mend(search, program, start, hopeless) if hopeless else mended)


def _without_idle(search: _Search, program: Program, mended: Mended) -> Mended:
    """The repairs less one that another of the same value makes needless: who empties a list detaches no item of it."""
    steps = (program, *mended.steps)
    if len(mended.steps) != len(mended.repairs):
        return mended
    for at, repair in enumerate(mended.repairs):
        others = [one for one in mended.repairs[at + 1 :] if _kept(one.fact) and _kept(one.fact) == _kept(repair.fact)]
        alone = _without(steps[at], steps[at + 1], mended.patched) if others else None
        if alone is None or alone in (steps[at], mended.patched):
            continue
        try:
            after = search.analyze(alone)
        except SyntaxError:
            continue
        keeps = others[-1].keeps
        stands = all(
            judge(program, mended.observation, alone, after, one.fact, keeps).stands for one in (repair, *others)
        )
        if stands and len(after.facts) <= len(mended.left):
            rest = (*mended.repairs[:at], *mended.repairs[at + 1 :])
            return replace(mended, patched=alone, repairs=rest, left=after.facts, steps=(alone,))
    return mended


def _kept(fact: Fact) -> Span | None:
    return fact.kept if isinstance(fact, (StaleGraph, Overwritten, GraphHeld)) else None


def _still_failing(program: Program, mended: Mended) -> frozenset[int]:
    """Lines of passes for which something was repaired and which fail all the same."""
    lines = LineMap(program, mended.patched)
    left = {lines.original(line) for fact in mended.left for line in _failing(fact)}
    return frozenset(left & {line for repair in mended.repairs for line in _failing(repair.fact)})


def _failing(fact: Fact) -> set[int]:
    return {role.span.line for role in fact.roles() if role.name == "failed"}


def _mend(search: _Search, program: Program, start: AnalysisResult, hopeless: frozenset[int]) -> Mended:
    """The repairs, one after the other; facts whose pass stands on one of the *hopeless* lines are left."""
    current, seen = program, start
    repairs: list[Repair] = []
    steps: list[Program] = []
    given_up: set[Hashable] = {key_of(fact) for fact in start.facts if _failing(fact) & hopeless} | search.spared
    if search.certain:
        given_up |= {key_of(fact) for fact in start.facts if fact.certainty is not Certainty.CERTAIN}
    refused: set[Hashable] = set()
    """What no candidate repaired so far; tried again once others are repaired, as a second run of the tool would."""
    since = 0
    for _ in range(_ROUNDS):
        known = [fact for fact in seen.facts if key_of(fact) not in given_up] if seen.complete else []
        if since < len(repairs) and all(key_of(fact) in refused for fact in known):
            refused, since = set(), len(repairs)
        open_facts = [fact for fact in known if key_of(fact) not in refused]
        if not open_facts:
            break
        first = [fact for fact in open_facts if _is_shared(fact)] if search.within_first else []
        fact = min(first or open_facts, key=_order)
        search.most = min(search.limit, search.steps + int(search.limit * _OF_ONE))
        outcome = search.repair(fact, current, seen, current, seen, 0)
        if outcome is None:
            refused |= {key_of(one) for one in (fact, *_other_ways(fact, open_facts))}
            continue
        before, came = current, LineMap(program, current)
        current, seen, done = outcome
        told = next((one for one in start.facts if key_of(one) == key_of(fact, came)), fact)
        done = [replace(repair, blames=max(0, came.original(repair.blames))) for repair in done]
        repairs.extend(replace(repair, fact=told) if repair.fact is fact else repair for repair in done)
        steps.append(current)
        lines = LineMap(before, current)
        given_up, refused = (
            {key_of(one) for one in seen.facts if key_of(one, lines) in some} for some in (given_up, refused)
        )
    return Mended(start, current, tuple(repairs), seen.facts, tuple(search.refused), tuple(steps))
