"""From facts to a patch: ask the codemods for candidates and take the first that stands the symbolic proof."""

from __future__ import annotations

import ast
import contextlib
import warnings
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from autofix.codemods.branches import computes_one_of_several, detaches_a_number
from autofix.codemods.facts.base import Certainty, Fact, Span
from autofix.codemods.facts.changed import LeafChanged, Overwritten, PartChanged
from autofix.codemods.facts.cut import CutGraph
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.kept import GraphHeld
from autofix.codemods.facts.legacy import LegacyApi, LegacyFunction
from autofix.codemods.facts.untrained import ComputedParameter
from autofix.codemods.interpreter.analysis import AnalysisResult, analyze
from autofix.codemods.interpreter.policy import Path
from autofix.codemods.promises import Keeps
from autofix.codemods.proof import Verdict, judge, key_of
from autofix.codemods.rewriting.parsed import ParsedModule
from autofix.codemods.rewriting.patch import Patch, Replacement
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rewriting.updates import updates_again
from autofix.codemods.source import sources
from autofix.codemods.source.program import Program

if TYPE_CHECKING:
    from autofix.codemods.rules.base import Candidate, Codemod

_ROUNDS = 24
"""Facts repaired in one text, one after the other."""
_STEPS = 600_000
"""Expressions and statements evaluated for all candidates of one text."""
_OF_ONE = 4 / 5
"""Share of ``_STEPS`` for the candidates of one fact: the repair of another fact may repair this one as well."""
_OF_ONE_CODEMOD = 2 / 3
"""Share of these for the candidates of one codemod: where one candidate takes long, another codemod may have the right
one.  Its further candidates are tried behind those of all others."""
_CANDIDATES = 40
"""Candidates of one program that cost only the steps of their analysis."""
_OF_CANDIDATE = 4_000
"""Steps charged for each further candidate: the cost of writing it."""
_DEPTH = 3
"""Mistakes that may come to light behind one another before a candidate is given up."""


@dataclass(frozen=True)
class Repair:
    """A fact that was repaired, in the coordinates of the original text where it has any there."""

    fact: Fact
    codemod: type[Codemod]
    remedy: str
    cause: Span
    """First place to look for the mistake."""
    keeps: Keeps = Keeps.EDGES


@dataclass(frozen=True)
class Mended:
    """The outcome for one program: all facts seen in it, those repaired, the patched program, and why not more."""

    observation: AnalysisResult
    patch: Patch
    repairs: tuple[Repair, ...]
    left: tuple[Fact, ...]
    refused: tuple[str, ...]
    """Candidates that did not stand, each with the reason."""
    steps: tuple[Patch, ...] = ()
    """The patch of each repair, of the program that the one before leads to."""
    memory: Memory | None = field(default=None, compare=False)
    """For further searches in the same program, with other settings."""

    @property
    def patched(self) -> Program:
        """The patched program."""
        return self.patch.patched


@dataclass(frozen=True)
class _Reached:
    """Result of some repairs: their patch, the analysis of the patched program, and the repairs."""

    patch: Patch
    seen: AnalysisResult
    repairs: tuple[Repair, ...]


@dataclass
class _Case:
    """A fact to repair in the program that *way* leads to, and the analysis of this program."""

    fact: Fact
    way: Patch
    seen: AnalysisResult
    start: AnalysisResult
    """Analysis of the program of which nothing may be lost."""
    depth: int
    """Number of mistakes that the fact lies behind."""
    tree: Tree
    only: Path | None
    """The path that showed the fact; None where there is no other."""
    shown: AnalysisResult
    """Analysis of that path alone."""
    partial: _Reached | None = None
    """The first patch that leaves another value on the way of the same pass, for want of one that cures both."""

    @cached_property
    def known(self) -> set[Hashable]:
        """The keys of all mistakes in the program."""
        return {key_of(one) for one in self.seen.facts}


class _Offers:
    """The candidates of one codemod for one fact of one program, each of which is made and rendered once."""

    def __init__(self, candidates: Iterator[Candidate]) -> None:
        self._rest = candidates
        self._made: list[Candidate] = []

    def __iter__(self) -> Iterator[Candidate]:
        at = 0
        while True:
            if at == len(self._made):
                following = next(self._rest, None)
                if following is None:
                    return
                self._made.append(following)
            yield self._made[at]
            at += 1


@dataclass
class Memory:
    """What searches in one program have in common: one with other settings begins with the same candidates."""

    trees: dict[Program, Tree] = field(default_factory=dict)
    parsed: dict[str, ParsedModule] = field(default_factory=dict)
    """The files of all programs, by their texts: most files are the same in all."""
    known: dict[tuple[Program, Path | None], AnalysisResult] = field(default_factory=dict)
    offered: dict[tuple[type[Codemod], Fact, Program], _Offers] = field(default_factory=dict)
    """The candidates so far."""


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
    untrained: frozenset[str] = frozenset()
    """The models of which no pass is known, by their entries."""
    within_first: bool = False
    """Whether values shared within one iteration are repaired before those shared by several."""
    to_the_last: bool = False
    """Whether candidates that come last are tried."""
    passed_over: bool = False
    """Whether candidates that come last were left out."""
    came: Patch | None = None
    """The repairs so far of the program as its author wrote it."""
    steps: int = 0
    tried: int = 0
    """Candidates so far."""
    most: int = _STEPS
    """Number of steps at which the fact at hand is given up."""
    memory: Memory = field(default_factory=Memory)
    refused: dict[str, None] = field(default_factory=dict)

    def analyze(self, program: Program, only: Path | None = None) -> AnalysisResult:
        seen = self.memory.known.get((program, only))
        if seen is None:  # facts with a common cause have common candidates
            seen = self.memory.known[program, only] = analyze(program, only, self.untrained)
            self.steps += seen.steps
        return seen

    def tree(self, program: Program) -> Tree:
        known = self.memory.trees.get(program)
        if known is None:
            known = self.memory.trees[program] = Tree(program, self.memory.parsed)
        return known

    def offers(self, rule: Codemod, fact: Fact, tree: Tree) -> _Offers:
        """The candidates of a rule for a fact of the program of *tree*."""
        key = type(rule), fact, tree.program
        known = self.memory.offered.get(key)
        if known is None:
            known = self.memory.offered[key] = _Offers(rule.offers(fact, tree))
        return known

    def see(self, way: Patch, only: Path | None = None) -> AnalysisResult:
        """Analysis of the program that *way* leads to, without the facts that the repairs so far account for."""
        seen = self.analyze(way.patched, only)
        if not any(isinstance(one, StaleGraph | Overwritten) and one.severed for one in seen.facts):
            return seen
        return _apart_from_repairs(seen, self.came.then(way) if self.came is not None else way)

    def repair(
        self, fact: Fact, way: Patch, seen: AnalysisResult, start: AnalysisResult, depth: int
    ) -> _Reached | None:
        """A patch that repairs *fact* of the program that *way* leads to; of *start* nothing may be lost."""
        path = seen.paths[seen.facts.index(fact)]
        only = None if seen.alone else path
        shown = seen if seen.alone else self.see(way, path)
        case = _Case(fact, way, seen, start, depth, self.tree(way.patched), only, shown)
        rules = [kind() for kind in self.codemods if isinstance(fact, kind.answers)]
        for share in (_OF_ONE_CODEMOD, 1):
            is_short = False
            for rule in rules:
                with self._only_to(self.steps + int((self.most - self.steps) * share)):
                    reached = self._by(rule, case)
                    is_short = is_short or self.steps >= self.most
                if reached is not None:
                    return reached
                if self.steps >= self.most:
                    break
            if not is_short:
                break
        return case.partial

    def _by(self, rule: Codemod, case: _Case) -> _Reached | None:
        """The patch of one codemod: that of a candidate which repairs the fact alone, before one that needs others."""
        # Another codemod may have a candidate that repairs the fact alone: half of the remaining steps are for it.
        chases_to = (self.steps + self.most) // 2
        revealing: list[Candidate] = []
        for candidate in _distinct(self.offers(rule, case.fact, case.tree), {case.way.patched, *self.rejected}):
            if self.steps >= self.most:
                return None
            self.tried += 1
            self.steps += _OF_CANDIDATE if self.tried > _CANDIDATES else 0
            if candidate.last and not self.to_the_last:
                self.passed_over = True
                continue
            glimpse = self._glimpsed(rule, candidate, case)
            if glimpse is None:
                continue
            if glimpse.revealed and not any(key_of(one, candidate.patch) in case.known for one in glimpse.revealed):
                revealing.append(candidate)
                continue
            verdict, reached = self._weighed(rule, candidate, case)
            if verdict.stands:
                # One that is right whatever else fails (an advantage is a number) does not give way to one for both.
                alone = candidate.keeps is Keeps.OWN or _is_of_another_tensor(case.fact, candidate.patch, case.seen)
                if alone or not _shares_pass(case.fact, reached.seen, reached.patch):
                    return reached
                case.partial = case.partial or reached
            elif verdict.revealed:
                revealing.append(candidate)
        if case.partial is not None or case.depth >= _DEPTH:
            return None
        with self._only_to(chases_to):
            return next(filter(None, (self._chased(rule, candidate, case) for candidate in revealing)), None)

    def _glimpsed(self, rule: Codemod, candidate: Candidate, case: _Case) -> Verdict | None:
        """The verdict on the path that showed the mistake, which refuses most candidates; None for these."""
        try:
            glimpse = self.see(case.way.then(candidate.patch), case.only)
        except SyntaxError:
            self._refuse(rule, candidate, "the patched text does not parse")
            return None
        verdict = judge(candidate.patch, case.shown, glimpse, case.fact, candidate.keeps)
        if not verdict.stands and not verdict.revealed and case.fact in case.shown.facts:
            self._refuse(rule, candidate, verdict.reason)
            return None
        if reason := _of_one_branch(type(rule), candidate.patch) or _updating_again(candidate.patch):
            self._refuse(rule, candidate, reason)
            return None
        return verdict

    def _weighed(self, rule: Codemod, candidate: Candidate, case: _Case) -> tuple[Verdict, _Reached]:
        """The verdict on all paths, and the result of the candidate."""
        further = case.way.then(candidate.patch)
        after = self.see(further)
        verdict = judge(candidate.patch, case.seen, after, case.fact, candidate.keeps)
        if verdict.stands and (objection := self._objection(rule, candidate, case.fact, further, after)):
            verdict = Verdict(stands=False, reason=objection)
        if verdict.reason:
            self._refuse(rule, candidate, verdict.reason)
        cause = rule.cause(case.fact, case.tree, candidate)
        done = Repair(case.fact, type(rule), candidate.remedy, cause, candidate.keeps)
        return verdict, _Reached(candidate.patch, after, (done,))

    def _objection(self, rule: Codemod, candidate: Candidate, fact: Fact, further: Patch, after: AnalysisResult) -> str:
        """Why a candidate that stands the symbolic proof is not taken; empty where it is."""
        patch = candidate.patch
        if _keeps_old_weights(patch, after):
            return "the graph that it keeps is of parameters that were changed since"
        if objection := rule.objection(fact, after.facts, patch):
            return objection
        if self._touches_spared(after, further):
            return "it also repairs what is to be left alone"
        if _more_kept(patch) < 0 and _shares_pass(fact, after, patch):
            return "what still fails may need the graph that it no longer keeps"
        return "" if _compiles(candidate.program) else "the patched text does not compile"

    def _chased(self, rule: Codemod, candidate: Candidate, case: _Case) -> _Reached | None:
        """A candidate that lays open other mistakes, together with the repairs of these."""
        if self.steps >= self.most:
            return None
        verdict, reached = self._weighed(rule, candidate, case)
        if not verdict.revealed:
            return reached if verdict.stands else None
        further = case.way.then(candidate.patch)
        deeper = self._behind(verdict.revealed[0], further, reached.seen, case.fact, case.start, case.depth)
        if deeper is None or (rule.recomputes and any(one.codemod is not type(rule) for one in deeper.repairs)):
            return None
        if not self._holds(case.fact, case.way, further, case.start, deeper):
            return None
        if self._touches_spared(deeper.seen, further.then(deeper.patch)):
            return None
        return self._lighter(reached, deeper, case.way, case.seen, case.fact) or _both(reached, deeper)

    def _first_offer(self, fact: Fact, tree: Tree, program: Program) -> tuple[Codemod, Candidate] | None:
        """The first candidate for a fact, of the first codemod that has one; None where none has."""
        for kind in self.codemods:
            if isinstance(fact, kind.answers):
                rule = kind()
                for candidate in _distinct(self.offers(rule, fact, tree), {program, *self.rejected}):
                    return rule, candidate
        return None

    def at_once(self, facts: Sequence[Fact], seen: AnalysisResult, program: Program) -> _Reached | None:
        """One patch with the first candidate for each of several *facts* that have nothing to do with one another.

        The analysis of a large program takes long, so there is one for all of them.
        """
        tree = self.tree(program)
        edits: list[Replacement] = []
        chosen: list[tuple[Fact, Codemod, Candidate]] = []
        for fact in facts:
            offer = self._first_offer(fact, tree, program)
            is_old = isinstance(fact, _OLD)
            if is_old and offer is None:
                continue  # it has nothing to do with the others
            if offer is None or offer[1].last:
                return None
            rule, candidate = offer
            further = [edit for edit in candidate.patch.edits if edit not in edits]
            if any(one.overlaps(edit) for one in edits for edit in further):
                if is_old:
                    continue  # two on one line: the next patch has it
                return None
            edits += further
            chosen.append((fact, rule, candidate))
        if not chosen:
            return None
        order = {file.path: at for at, file in enumerate(program.files)}
        edits.sort(key=lambda edit: (order[edit.path], edit.start, edit.stop))
        patch = Patch(program, tuple(edits))
        if patch.patched in self.rejected or not _compiles(patch.patched):
            return None
        # The release of one total may release those that it is added to: then each is repaired in its turn.
        first = min(chosen, key=lambda one: one[0].cause)[2]
        if not isinstance(chosen[0][0], _OLD):
            left = set(map(_kept, self.see(first.patch).facts))
            if len(left) < len(set(map(_kept, seen.facts))) - 1:
                return None
        after = self.see(patch)
        read = after if seen.complete else replace(after, complete=True)  # of both programs, as much was read
        for fact, rule, candidate in chosen:
            if not judge(patch, seen, read, fact, candidate.keeps).stands or rule.objection(fact, after.facts, patch):
                return None
        if self._touches_spared(after, patch):
            return None
        return _Reached(patch, after, _repairs_of(chosen, tree))

    @contextlib.contextmanager
    def _only_to(self, steps: int) -> Iterator[None]:
        """Limit the search inside the block to *steps* in all."""
        most, self.most = self.most, min(self.most, steps)
        try:
            yield
        finally:
            self.most = most

    def _behind(
        self, first: Fact, way: Patch, seen: AnalysisResult, fact: Fact, start: AnalysisResult, depth: int
    ) -> _Reached | None:
        """A patch that repairs all that came to light behind *fact* where *way* leads, one after the other."""
        revealed: tuple[Fact, ...] = (first,)
        reached = _Reached(Patch(way.patched), seen, ())
        for _ in range(_DEPTH):
            further = self.repair(revealed[0], way.then(reached.patch), reached.seen, start, depth + 1)
            if further is None:
                return None
            reached = _both(reached, further)
            if isinstance(fact, (StaleGraph, Overwritten)):
                break  # one repair that needs several others is a guess
            revealed = judge(way.then(reached.patch), start, reached.seen, fact, Keeps.PARAMETERS).revealed
            if not revealed:
                break
        return reached

    def _touches_spared(self, after: AnalysisResult, way: Patch) -> bool:
        """Whether one of the facts that are to be left alone is gone where *way* leads from the repairs so far."""
        if not self.spared:
            return False
        lines = self.came.then(way) if self.came is not None else way
        return not self.spared <= {key_of(fact, lines) for fact in after.facts}

    def _lighter(
        self, first: _Reached, deeper: _Reached, way: Patch, seen: AnalysisResult, fact: Fact
    ) -> _Reached | None:
        """The *deeper* repairs without the *first* one, if they cure *fact* by themselves; else None.

        None as well where a part of them does nothing any more: it was for the first one, which the patch is to keep.
        """
        if isinstance(fact, PartChanged) and fact.base:
            return None  # a new tensor would cure it, but the views are to see what their base was changed to
        alone = deeper.patch.before(first.patch)
        if alone is None or not alone.edits or alone.patched == deeper.patch.patched:
            return None
        keeps = deeper.repairs[-1].keeps
        after = self._cured(alone, way, seen, fact, keeps)
        if after is None:
            return None
        parts = [alone.without(edit) for edit in alone.edits] if len(alone.edits) > 1 else []
        if any(self._cured(part, way, seen, fact, keeps) is not None for part in parts):
            return None
        return _Reached(alone, after, deeper.repairs)

    def _cured(self, patch: Patch, way: Patch, seen: AnalysisResult, fact: Fact, keeps: Keeps) -> AnalysisResult | None:
        """The analysis of the program after *way* and then *patch*, if *patch* repairs *fact*; else None."""
        try:
            after = self.see(way.then(patch))
        except SyntaxError:
            return None
        return after if judge(patch, seen, after, fact, keeps).stands else None

    def _holds(self, fact: Fact, at: Patch, way: Patch, start: AnalysisResult, deeper: _Reached) -> bool:
        """Whether a patch of several steps, *way* and what is *deeper*, keeps what the text before them had.

        The *fact* is one of the program that the patch *at* leads to.
        """
        lines = way.then(deeper.patch)
        if key_of(fact) in {key_of(one, lines) for one in deeper.seen.facts}:
            return False
        one_pass = any(repair.keeps is Keeps.ONE_PASS for repair in deeper.repairs)
        keeps = Keeps.ONE_PASS if one_pass else Keeps.PARAMETERS
        return not judge(lines, start, deeper.seen, fact, keeps, _passes_beside(fact, at, start)).reason

    def _refuse(self, rule: Codemod, candidate: Candidate, reason: str) -> None:
        self.refused[f"{rule.code} {candidate.remedy}: {reason}"] = None


def _passes_beside(fact: Fact, way: Patch, start: AnalysisResult) -> set[int]:
    """The lines of all passes of one step over the graph that a pass of *fact* frees, which *way* leads to.

    Of ``first.backward()``, ``second.backward()`` and ``third.backward()`` over one graph, all three.
    """
    if not isinstance(fact, StaleGraph):
        return set()
    found = {way.original(fact.freed.line), way.original(fact.failed.line)}
    pairs = [{one.freed.line, one.failed.line} for one in start.facts if isinstance(one, StaleGraph) and one.together]
    for _ in pairs:
        found = found.union(*(pair for pair in pairs if pair & found))
    return found


def _repairs_of(chosen: Iterable[tuple[Fact, Codemod, Candidate]], tree: Tree) -> tuple[Repair, ...]:
    return tuple(
        Repair(fact, type(rule), candidate.remedy, rule.cause(fact, tree, candidate), candidate.keeps)
        for fact, rule, candidate in chosen
    )


_OLD = (LegacyApi, LegacyFunction)
"""Facts about uses of torch that have gone, each of which is repaired where it stands."""


def _of_one_branch(kind: type[Codemod], patch: Patch) -> str:
    """Why a patch is right on one side of a branch only, by its text; empty where it may be right."""
    name = "" if kind.unguards or kind.renames else computes_one_of_several(patch)
    if name:
        return f"`{name}` was computed in one of several branches"
    number = detaches_a_number(patch)
    return f"`{number}` is a number where no branch computed it" if number else ""


def _updating_again(patch: Patch) -> str:
    """Why a patch changes what the program goes on from, by its text; empty where it does not."""
    name = updates_again(patch)
    return f"`{name}` would be updated twice" if name else ""


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


def _both(first: _Reached, then: _Reached) -> _Reached:
    """Combined result of two repairs, applied one after the other."""
    return _Reached(first.patch.then(then.patch), then.seen, (*first.repairs, *then.repairs))


def _apart_from_repairs(seen: AnalysisResult, way: Patch) -> AnalysisResult:
    """Analysis in which no fact is severed by a ``detach`` of the patch *way*: only the author's own are mistakes."""
    before, after = way.program.lines, way.patched.lines

    def own(fact: Fact) -> Fact:
        if not isinstance(fact, (StaleGraph, Overwritten)) or fact.severed is None:
            return fact
        now, then = fact.severed.cut.line, way.original(fact.severed.cut.line)
        more = then < 1 or after[now - 1].count("detach") > before[then - 1].count("detach")
        return replace(fact, severed=None) if more else fact

    return replace(seen, facts=tuple(map(own, seen.facts)))


def _keeps_old_weights(patch: Patch, after: AnalysisResult) -> bool:
    """Whether a patch keeps a graph whose parameters the script changes by hand: it wants a new forward pass."""
    return _more_kept(patch) > 0 and any(isinstance(fact, Overwritten) and fact.parameter for fact in after.facts)


def _more_kept(patch: Patch) -> int:
    """Number of calls with ``retain_graph=True`` that a patch adds; negative if it removes some."""
    before, now = (
        sum(_graphs_kept(program.texts[path]) for path in patch.paths) for program in (patch.program, patch.patched)
    )
    return now - before


def _graphs_kept(text: str) -> int:
    """Number of calls in a file with ``retain_graph=True``."""
    keywords = (one for one in ast.walk(sources.parse(text).tree) if isinstance(one, ast.keyword))
    kept = (one.value for one in keywords if one.arg == "retain_graph")
    return sum(isinstance(value, ast.Constant) and value.value is True for value in kept)


def _shares_pass(fact: Fact, after: AnalysisResult, lines: Patch) -> bool:
    """Whether the pass that failed for *fact* still fails for another reason: a candidate that cures both is better.

    Another value on the very same way (an LSTM's second state) is cured in its turn.
    """
    failed = _failing(fact)
    return any(
        lines.original(line) in failed
        for one in after.facts
        if key_of(one, lines) != key_of(fact)
        for line in _failing(one)
    )


def _is_of_another_tensor(fact: Fact, patch: Patch, seen: AnalysisResult) -> bool:
    """Whether a patch writes one change in place anew, and whatever else was changed has another name.

    Each of these is a mistake of its own: a clone of what an operation gives, wherever it is used, would cure them all.
    """
    if not isinstance(fact, Overwritten) or fact.by_step or not fact.modified:
        return False
    others = [one for one in seen.facts if isinstance(one, Overwritten) and one.changed != fact.changed]
    if any(one.by_step or one.modified in (fact.modified, "") for one in others):
        return False
    return set(patch.changed) == {fact.changed.line} and not any(edit.inserts for edit in patch.edits)


def _distinct(candidates: Iterable[Candidate], known: set[Program]) -> Iterable[Candidate]:
    """Those that lead to no *known* program, and each to another; one may be offered again with ``Keeps.INPUTS``."""
    seen = {(program, again) for program in known for again in (False, True)}
    for candidate in candidates:
        one = candidate.program, candidate.keeps is Keeps.INPUTS
        if one not in seen:
            seen.add(one)
            yield candidate


def _order(fact: Fact) -> tuple[bool, bool, bool, int]:
    """Sort key of the order in which facts are repaired: the ones that stop the program first come first.

    Of the values shared within one iteration, the last made one comes first; of the ways on which a loss misses a
    parameter, the one that lost its graph at most places.

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
    memory: Memory | None = None,
) -> Mended:
    """Repair what can be repaired in *program*, by no step that leads to one of *rejected*; only what is *certain*.

    *seen* is an earlier observation of the same program, and *memory* that of an earlier search in it; facts with one
    of the keys *spared* are left as they are.  Raises :class:`SyntaxError` where a file does not parse.
    """
    ordered = sorted(codemods, key=lambda kind: (kind.rank, kind.code))
    start = seen if seen is not None else analyze(program)
    both = len({_is_shared(fact) for fact in start.facts}) == 2
    limit = _STEPS // 2 if both else _STEPS
    search = _Search(ordered, frozenset(rejected), certain, frozenset(spared), limit=limit, untrained=start.supposed)
    search.memory = memory or search.memory
    mended = _without_halves(search, program, start)
    if both and not mended.repairs:
        # A value shared by several iterations may come from one that is shared within an iteration.
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
    hopeless = _still_failing(mended)
    return _without_idle(search, program, _mend(search, program, start, hopeless) if hopeless else mended)


def _without_idle(search: _Search, program: Program, mended: Mended) -> Mended:
    """The repairs less one that another of the same value makes needless: who empties a list detaches no item of it."""
    if len(mended.steps) != len(mended.repairs):
        return mended
    for at, repair in enumerate(mended.repairs):
        others = [one for one in mended.repairs[at + 1 :] if _kept(one.fact) and _kept(one.fact) == _kept(repair.fact)]
        later = _in_turn(mended.steps[at].patched, mended.steps[at + 1 :])
        rest = later.before(mended.steps[at]) if others else None
        if rest is None or not rest.edits:
            continue
        alone = _in_turn(program, (*mended.steps[:at], rest))
        try:
            after = search.analyze(alone.patched)
        except SyntaxError:
            continue
        keeps = others[-1].keeps
        stands = all(judge(alone, mended.observation, after, one.fact, keeps).stands for one in (repair, *others))
        if stands and len(after.facts) <= len(mended.left):
            repairs = (*mended.repairs[:at], *mended.repairs[at + 1 :])
            return replace(mended, patch=alone, repairs=repairs, left=after.facts, steps=(alone,))
    return mended


def _in_turn(program: Program, steps: Iterable[Patch]) -> Patch:
    """Several patches of *program*, each of what the one before leads to, as one."""
    whole = Patch(program)
    for step in steps:
        whole = whole.then(step)
    return whole


def _kept(fact: Fact) -> Span | None:
    return fact.kept if isinstance(fact, (StaleGraph, Overwritten, GraphHeld)) else None


def _still_failing(mended: Mended) -> frozenset[int]:
    """Lines of passes for which something was repaired and which fail all the same, or are never reached.

    A change that autograd refuses where it stands ends the script, whatever the pass behind it would meet.
    """
    left = {mended.patch.original(line) for fact in mended.left for line in _failing(fact)}
    refused = {
        mended.patch.original(fact.changed.line) for fact in mended.left if isinstance(fact, PartChanged | LeafChanged)
    }
    repaired = [repair.fact for repair in mended.repairs]
    behind = (fact for fact in repaired if isinstance(fact, Overwritten) and fact.changed.line in refused)
    return frozenset(left & {line for fact in repaired for line in _failing(fact)}).union(*map(_failing, behind))


def _apart(facts: Sequence[Fact], seen: AnalysisResult) -> Sequence[Fact]:
    """The *facts* that one patch may repair together; none where there are none.

    These are all uses of torch that have gone, be it a single one in a program that is read in part; and else, if all
    facts are of graphs kept for nothing by several statements, the first of each group of like ones: two that differ in
    the loop alone are released together.
    """
    old = tuple(fact for fact in facts if isinstance(fact, _OLD))
    if len(old) > 1 or not seen.complete:
        return old
    held = {(fact.kept, fact.handed): fact for fact in reversed(facts) if isinstance(fact, GraphHeld)}
    is_all = all(isinstance(fact, GraphHeld) for fact in facts)
    return tuple(reversed(held.values())) if is_all and len(held) == len({kept for kept, _ in held}) > 1 else ()


def _failing(fact: Fact) -> set[int]:
    return {role.span.line for role in fact.roles() if role.name == "failed"}


def _mend(search: _Search, program: Program, start: AnalysisResult, hopeless: frozenset[int]) -> Mended:
    """The repairs, one after the other; facts whose pass stands on one of the *hopeless* lines are left."""
    whole, seen = Patch(program), start
    repairs: list[Repair] = []
    steps: list[Patch] = []
    given_up: set[Hashable] = {key_of(fact) for fact in start.facts if _failing(fact) & hopeless} | search.spared
    if search.certain:
        given_up |= {key_of(fact) for fact in start.facts if fact.certainty is not Certainty.CERTAIN}
    refused: set[Hashable] = set()
    """Facts that no candidate repaired so far; tried again once others are repaired, as by a second run of the tool."""
    tried: set[Program] = set()
    """Programs in which the release of all needlessly kept graphs at once was tried."""
    since = refunded = 0
    for _ in range(_ROUNDS):
        known = [fact for fact in seen.facts if key_of(fact) not in given_up]
        known = [fact for fact in known if seen.complete or isinstance(fact, LegacyApi)]
        if since < len(repairs) and all(key_of(fact) in refused for fact in known):
            refused, since = set(), len(repairs)
        open_facts = [fact for fact in known if key_of(fact) not in refused]
        if not open_facts:
            break
        first = [fact for fact in open_facts if _is_shared(fact)] if search.within_first else []
        fact = min(first or open_facts, key=_order)
        before = search.steps
        search.most = min(search.limit, before + int(search.limit * _OF_ONE))
        search.came = whole
        apart = _apart(open_facts, seen) if whole.patched not in tried else ()
        tried.add(whole.patched)
        outcome = search.at_once(apart, seen, whole.patched) if apart else None
        if outcome is None and seen.complete:
            outcome = search.repair(fact, Patch(whole.patched), seen, seen, 0)
        if outcome is None:
            refused |= {key_of(one) for one in (fact, *_other_ways(fact, open_facts))}
            continue
        step, seen = outcome.patch, outcome.seen
        if refunded < search.limit:  # the steps of a successful repair are not charged to the remaining facts
            refunded += search.steps - before
            search.steps = before
        for repair in outcome.repairs:
            own = repair.fact
            if own is fact or own in apart:
                own = next((one for one in start.facts if key_of(one) == key_of(own, whole)), own)
            repairs.append(replace(repair, fact=own, cause=whole.span(repair.cause) or own.cause))
        steps.append(step)
        whole = whole.then(step)
        given_up, refused = (
            {key_of(one) for one in seen.facts if key_of(one, step) in some} for some in (given_up, refused)
        )
    return Mended(start, whole, tuple(repairs), seen.facts, tuple(search.refused), tuple(steps), search.memory)
