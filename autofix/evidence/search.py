"""Searches for a patch by execution: the evidence of a run goes to the codemods, and every candidate is run.

A candidate that still fails for the same reason is refused at once.  One that fails later, or for another reason, is a
step on the way: it is watched in its turn.  One that runs clean is held to the whole proof, against the original.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from autofix.codemods.branches import computes_one_of_several
from autofix.codemods.facts.base import Fact, Span
from autofix.codemods.facts.cut import CutGraph
from autofix.codemods.facts.kept import GraphEscapes
from autofix.codemods.promises import Keeps
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program
from autofix.evidence.facts import facts_of
from autofix.evidence.witness import Evidence, evidence_of, follow
from autofix.execution.runner import run
from autofix.findings import Analysis, Finding
from autofix.proof.merit import is_exact, is_lean, merit
from autofix.proof.points.agreement import same_until_failure
from autofix.proof.points.base import short
from autofix.proof.points.gradient import gradient
from autofix.proof.promises import Promises, promised
from autofix.proof.prove import (
    Certificate,
    Limits,
    Original,
    Outcome,
    RunRecord,
    Script,
    Verdict,
    bounds,
    first_difference,
    prove,
)

if TYPE_CHECKING:
    from autofix.codemods.rules.base import Candidate, Codemod

T = TypeVar("T")

CANDIDATES = 36
"""Candidates of one program that are executed."""
TURN = 3
"""Candidates for one meaning of the evidence before the next one is asked."""
DEPTH = 4
"""Mistakes that are repaired one behind the other."""
SECONDS = 600.0
"""Time after which no further candidate is begun."""


@dataclass(frozen=True)
class Done:
    """One mistake and its repair, in the lines of the original program."""

    fact: Fact
    codemod: type[Codemod]
    remedy: str
    cause: Span
    """Place at which to look first for the mistake."""
    inserted: frozenset[str] = frozenset()
    """The lines that the repair put in."""
    keeps: Keeps = Keeps.EDGES


@dataclass(frozen=True)
class Step:
    """A program that still fails, for another reason or with less behind it, with the evidence of its run."""

    patch: Patch
    """Patch from the original to the program."""
    told: Sequence[Evidence]
    done: tuple[Done, ...]
    reveals: bool
    """Whether something came to light that the program before did not show."""


@dataclass(frozen=True)
class Found:
    """A program that stands the proof (or, where ``certificate`` leaves points open, does not fail it)."""

    patch: Patch
    done: tuple[Done, ...]
    certificate: Certificate

    @property
    def program(self) -> Program:
        """The patched program."""
        return self.patch.patched

    def analysis(self) -> Analysis:
        """The repair in the form in which static findings are reported."""
        original = self.patch.program
        findings = [
            Finding(
                one.codemod.code,
                one.codemod.name,
                original.in_file(one.fact),
                True,
                one.remedy,
                original.in_file(one.cause),
            )
            for one in self.done
        ]
        return Analysis(self.patch, tuple(findings), steps=(self.program,))


@dataclass
class Search:
    """The search for one script.  ``script_of`` gives the script as it runs in a patched program."""

    original: Original
    program: Program
    script_of: Callable[[Program], Script]
    paths: Mapping[str, str]
    """The program's name of each file that a run names, relative to the script's folder."""
    runs: int = 60
    """Runs of candidates."""
    needed: frozenset[Span] = frozenset()
    """Calls of NumPy that take a graph which the loss needs, as the source shows: with a detach it trains less."""
    refused: dict[str, None] = field(default_factory=dict)
    further: Found | None = None
    """The first program that gets past the failure, and comes to an error that is none of autograd's."""
    perhaps: Found | None = None
    """The first such program for which nobody knows whether another program would avoid that error."""
    _runs: int = 0
    _tried: set[Program] = field(default_factory=set)
    _until: float = field(default_factory=lambda: time.monotonic() + SECONDS)

    @property
    def before(self) -> RunRecord:
        return self.original.before

    @property
    def limits(self) -> Limits:
        return self.original.limits

    def find(self, evidence: Sequence[Evidence]) -> Found | None:
        """The best program that can be reached from the *evidence* on the original; None if no candidate stands."""
        self._tried = {self.program}
        found = self._from(Patch(self.program), evidence, (), 1)
        return self._leaner(found) if found is not None and len(found.done) > 1 else found

    def _leaner(self, found: Found) -> Found:
        """*found* without statements of earlier steps that the last one made superfluous, if that is as good."""
        for patch, lines in without_insertions(found.patch):
            done = tuple(one for one in found.done if not one.inserted & lines)
            leaner = self._prove(patch, done) if done and patch.patched not in self._tried else None
            if leaner is not None and merit(leaner.certificate) >= merit(found.certificate):
                return leaner
        return found

    def _from(self, way: Patch, evidence: Sequence[Evidence], done: tuple[Done, ...], depth: int) -> Found | None:
        program = way.patched
        evidence = follow(self.script_of(program), self.limits, evidence)
        best: Found | None = None
        tree = Tree(program)
        known = Counter(self._key(one, program) for one in evidence)
        steps: list[Step] = []
        for told, fact, rule, candidate in self._candidates(tree, evidence):
            over = time.monotonic() > self._until or self.limits.left <= 0
            if self.further is not None or self._runs >= self.runs or over:
                break
            self._runs += 1
            added = frozenset(line for _, part in without_insertions(candidate.patch) for line in part)
            mistake, cause = in_lines(fact, way), way.span(rule.cause(fact, tree, candidate))
            repaired = Done(mistake, type(rule), candidate.remedy, cause or mistake.cause, added, candidate.keeps)
            so_far = (*done, repaired)
            further = way.then(candidate.patch)
            if self.before.failure is None:  # nothing fails: the proof alone can tell whether graphs are let go
                found = self._prove(further, so_far)
                if found is not None:
                    return found
                continue
            after = self._watch(candidate.program)
            if after.outcome is Outcome.RAISED and not after.told and self._gets_further(further, so_far):
                return None
            if after.outcome is Outcome.RAISED or any(one.kind != "graph held" for one in after.told):
                gets_on = self._gets_on(told, known, after.told, candidate.patch)
                if gets_on:
                    keys = {self._key(one, candidate.program, candidate.patch) for one in after.told}
                    steps.append(Step(further, after.told, so_far, not keys <= set(known)))
                self._refuse(so_far, _still_fails(after, gets_on))
                continue
            found = self._prove(further, so_far)
            if found is None:
                continue
            if best is None or merit(found.certificate) > merit(best.certificate):
                best = found
            if is_exact(found.certificate) and is_lean(found.certificate):
                return found
            if crosses_iterations(fact):
                return best  # no gradient from an earlier iteration can be had: the first that stands is preferred
        if depth < DEPTH and (best is None or merit(best.certificate)[1] < 0):
            for step in sorted(steps, key=lambda step: step.reveals):
                if self._runs < self.runs and self._begins_alike(step):
                    found = self._from(step.patch, step.told, step.done, depth + 1)
                    if found is not None and (best is None or merit(found.certificate) > merit(best.certificate)):
                        best = found
                        break
        return best

    def _gets_further(self, patch: Patch, done: tuple[Done, ...]) -> bool:
        """Whether nothing speaks against a program but an error that no patch of these can avoid."""
        if self.perhaps is not None:
            return False
        certificate = prove(self.original, self.script_of(patch.patched), promises(done))
        if certificate.remains:
            self.perhaps = Found(patch, done, certificate)
        if certificate.cannot_get_further:
            self.further = self.perhaps
        return self.further is not None

    def _begins_alike(self, step: Step) -> bool:
        """Whether a program that still fails computes as the original, and means to train the same parameters."""
        script = self.script_of(step.patch.patched)
        same = same_until_failure(self.before, run(script, self.limits, bounds(self.before)))
        if same.verdict is not Verdict.FAILED:
            meant = run(script, self.limits, bounds(self.before, reference=True))
            if self.original.reference is not None and meant.passes:  # none: the budget is spent
                trained = gradient(self.before, self.original.reference, meant, first_difference(self.before))
                if "lost" in trained.figures.get("counts", {}):  # less may be cut: only part of the way is gone yet
                    self._refuse(step.done, f"{trained.name}: {trained.detail}")
                    return False
        if same.verdict is Verdict.FAILED:
            self._refuse(step.done, f"{same.name}: {same.detail}")
        return same.verdict is not Verdict.FAILED

    def _candidates(
        self, tree: Tree, evidence: Sequence[Evidence]
    ) -> Iterator[tuple[Evidence, Fact, Codemod, Candidate]]:
        """Distinct candidates for all facts that the evidence may mean, candidates for the likeliest meaning first."""
        kinds = sorted(all_codemods(), key=lambda kind: (kind.rank, kind.code))
        program = tree.program

        def answers(fact: Fact) -> Iterator[tuple[Fact, Codemod, Candidate]]:
            for rule in (kind() for kind in kinds if isinstance(fact, kind.answers)):
                yield from ((fact, rule, candidate) for candidate in rule.offers(fact, tree))

        left = CANDIDATES
        for told in evidence:
            meant = [fact for fact in facts_of(told, program, self.paths) if not self._is_needed(fact, program)]
            for fact, rule, candidate in in_turns([answers(fact) for fact in meant]):
                if candidate.program not in self._tried:
                    self._tried.add(candidate.program)
                    name = "" if rule.unguards else computes_one_of_several(candidate.patch)
                    if name:  # the run has come through one branch alone
                        self.refused[f"{candidate.remedy}: another branch computes `{name}` otherwise"] = None
                        continue
                    yield told, fact, rule, candidate
                    left -= 1
                    if left <= 0:
                        return

    def _is_needed(self, fact: Fact, program: Program) -> bool:
        return isinstance(fact, GraphEscapes) and program.in_file(fact).call in self.needed

    def _watch(self, program: Program) -> Watched:
        """Run a candidate under the witness."""
        script = self.script_of(program)
        record = run(script, self.limits, replace(bounds(self.before), trace=True))
        return Watched(record, evidence_of(record, script))

    def _gets_on(
        self,
        before: Evidence,
        known: Mapping[tuple[object, ...], int],
        after: Sequence[Evidence],
        patch: Patch,
    ) -> bool:
        """Whether a program that still fails does so for another reason, or with less behind it.

        *known* counts failures by their key: two modules of one class keep their states by the same line.
        """
        if not after or any(one.kind == "cut graph" and one.kind != before.kind for one in after):
            return False  # a patch that leaves a loss without a graph is no step on the way
        key = self._key(before, patch.program)
        same = [one for one in after if self._key(one, patch.patched, patch) == key]
        return len(same) < known[key] or all(
            one.details.get("failed_pass", 0) > before.details.get("failed_pass", 0)
            or one.details.get("edges", 1) < before.details.get("edges", 1)
            for one in same
        )

    def _key(self, told: Evidence, program: Program, lines: Patch | None = None) -> tuple[object, ...]:
        """Key of a failure, equal for equal failures: its kind, and the lines of its places in the original."""
        found: list[object] = [told.kind]
        for role in ("made", "saved", "used", "changed", "failed", "cut"):
            site = told.sites.get(role)
            if site is None or site.span.path not in self.paths:
                found.append(None)
                continue
            line = program.start_of(self.paths[site.span.path]) + site.span.line
            found.append(lines.original(line) if lines is not None else line)
        return tuple(found)

    def _prove(self, patch: Patch, done: tuple[Done, ...]) -> Found | None:
        certificate = prove(self.original, self.script_of(patch.patched), promises(done))
        if any(isinstance(one.fact, CutGraph) for one in done) and not trains_its_own(certificate):
            self._refuse(done, "the optimizers' own parameters get no gradient")
            return None
        if certificate.verdict is Verdict.FAILED:
            failed = next(point for point in certificate.points if point.verdict is Verdict.FAILED)
            self._refuse(done, f"{failed.name}: {failed.detail}")
            return None
        return Found(patch, done, certificate)

    def _refuse(self, done: Sequence[Done], reason: str) -> None:
        self.refused[f"{'; '.join(one.remedy for one in done)}: {reason}"] = None


@dataclass(frozen=True)
class Watched:
    """A run under the witness."""

    record: RunRecord
    told: tuple[Evidence, ...]

    @property
    def outcome(self) -> Outcome:
        return self.record.outcome


def _still_fails(after: Watched, gets_on: bool) -> str:
    if not gets_on and after.told:
        return "the mistake is still there"
    error = after.record.error
    if error is None:
        return "another mistake appears"
    return f"the script then fails with another error: {short(str(error))}"


def promises(done: Sequence[Done]) -> Promises:
    """Promises of the repairs that were made, beyond those of every patch."""
    return promised({one.keeps for one in done}, [one.fact for one in done])


def without_insertions(patch: Patch) -> Iterator[tuple[Patch, frozenset[str]]]:
    """*patch* without one run of lines that it inserts, for each run in turn; and these lines."""
    for edit in patch.edits:
        if edit.inserts:
            yield patch.without(edit), frozenset(line.text.strip() for line in edit.lines)


def in_turns(sources: Sequence[Iterator[T]]) -> Iterator[T]:
    """The items of all *sources*, ``TURN`` of each at a time."""
    waiting = list(sources)
    while waiting:
        for source in list(waiting):
            items = list(islice(source, TURN))
            yield from items
            if len(items) < TURN:
                waiting.remove(source)


def trains_its_own(certificate: Certificate) -> bool:
    """Whether most parameters of every optimizer that steps get a gradient: a graph may lead to the wrong network."""
    after = certificate.after
    got = {index for step in after.updates for index, norm in step.gradients.items() if norm}
    for optimizer in {step.optimizer for step in after.updates}:
        own = {index for index, one in after.parameters.items() if one.optimizer == optimizer}
        if 2 * len(own & got) < len(own):
            return False
    return True


def crosses_iterations(fact: Fact) -> bool:
    """Whether the fact's value was carried from one iteration of a loop into another."""
    return getattr(fact, "loop", None) is not None and getattr(fact, "inside", False)


def in_lines(fact: Fact, lines: Patch) -> Fact:
    """The fact in the original's lines, for the places that the original has."""

    changed: dict[str, Any] = {role.name: lines.span(role.span) or role.span for role in fact.roles()}
    return replace(fact, **changed)
