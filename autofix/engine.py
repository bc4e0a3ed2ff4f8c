"""A program's texts in, findings and patched texts out.  Pure: reads no file and runs nothing."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from autofix import budget
from autofix.codemods.facts.base import Certainty, Fact, Span
from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.facts.cut import CutGraph, LossEscapes, NotScalar
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.kinds import OF_CODES, name_of
from autofix.codemods.facts.legacy import OldKeyword
from autofix.codemods.interpreter.analysis import AnalysisResult, analyze
from autofix.codemods.promises import Keeps
from autofix.codemods.proof import key_of
from autofix.codemods.rewriting.patch import Line, Patch, lines_of
from autofix.codemods.source import old_keywords, sources
from autofix.codemods.source.program import Program
from autofix.findings import Analysis, Finding, Place, Silence, SourceError

if TYPE_CHECKING:
    from autofix.codemods.repair import Mended, Repair
    from autofix.codemods.rules.base import Codemod

__all__ = ["Analysis", "Finding", "Silence", "SourceError", "analyse", "check_syntax", "parse"]

DEPTH = 6_000
"""Python's limit of calls within calls, for sums of many terms: each is an expression within another."""

TOO_DEEP = "an expression is nested too deeply"

# Codes and names of facts for which no codemod has a patch.
_UNREPAIRED = {kind.code: name_of(kind) for kind in OF_CODES}


def analyse(
    source: str,
    path: str,
    *,
    others: Mapping[str, str] | None = None,
    roots: Sequence[str] = (),
    select: Collection[str] | None = None,
    rejected: Collection[Program] = (),
    unsafe: bool = True,
    silence: Silence | None = None,
) -> Analysis:
    """Find the mistakes in the script *source* and patch those that a symbolically proved rewrite repairs.

    ``others`` are the files that belong to the script (path to text; see :mod:`autofix.project.gather`): what it
    imports from them is read, and repaired, as if it stood in the script.  ``select`` keeps only the codes that it
    names (a code or a prefix of one: ``AF1``); ``rejected`` are programs that no repair may lead to; ``unsafe`` also
    repairs what is only likely; ``silence`` says which findings to leave out.  Raises :class:`SourceError` where a
    text does not parse.
    """
    if sys.getrecursionlimit() < DEPTH:
        sys.setrecursionlimit(DEPTH)
    old = check_syntax(source, path)
    if old is not None:
        known = analyse(
            old.text, path, others=others, roots=roots, select=select, rejected=rejected, unsafe=unsafe, silence=silence
        )
        return _with_new_keywords(source, old, known, select)
    program = Program.of(source, path, others, roots)
    seen = analyze(program)
    if not seen.complete and others and not seen.facts:  # too large as a whole: the script alone may tell something
        alone = Program.of(source, path)
        seen_alone = analyze(alone)
        if seen_alone.facts or not seen.passes:
            program, seen = alone, seen_alone
    if not seen.facts:
        return _with_reach(Analysis(Patch(program), (), seen.complete), seen)
    search = partial(_mended, program, _selected(select), rejected, seen)
    mended, findings = _repaired(program, search, select, unsafe=unsafe)
    silenced: list[Finding] = []
    while silence is not None:
        silent = set(silence(program, (*silenced, *findings))).difference(silenced)
        if not silent:
            break
        # One repair may fix several mistakes: the search is repeated without the silenced ones.
        silenced += [one for one in findings if one in silent]
        spared = {key_of(program.in_program(fact)) for one in silenced for fact in one.facts}
        search = partial(search, spared=spared, memory=mended.memory)
        mended, findings = _repaired(program, search, select, unsafe=unsafe, spared=spared)
    steps = tuple(step.patched for step in mended.steps)
    return _with_reach(
        Analysis(mended.patch, findings, mended.observation.complete, silenced=tuple(silenced), steps=steps),
        seen,
    )


def _repaired(
    program: Program,
    search: Callable[..., Mended],
    select: Collection[str] | None,
    *,
    unsafe: bool,
    spared: Collection[Hashable] = (),
) -> tuple[Mended, tuple[Finding, ...]]:
    """Outcome of the *search* for repairs, and the findings, without the facts whose keys are *spared*."""
    mended = search()
    findings = tuple(_findings(program, mended, select, spared=spared))
    doubtful = {fact: finding for finding in findings if finding.fixed and not finding.safe for fact in finding.facts}
    if doubtful and not unsafe:
        repairable = {key_of(fact) for fact in mended.observation.facts} - _left(mended)
        mended = search(certain=True, memory=mended.memory)
        findings = tuple(_with_doubtful_repairs(_findings(program, mended, select, repairable, spared), doubtful))
    if mended.repairs and not any(finding.fixed for finding in findings):
        # The repaired facts came up only behind a mistake that stays: a patch that no finding explains is dropped.
        seen = mended.observation
        mended = replace(mended, patch=Patch(program), repairs=(), left=seen.facts, steps=())
    return mended, findings


def _with_doubtful_repairs(findings: Iterable[Finding], doubtful: Mapping[Fact, Finding]) -> Iterator[Finding]:
    """*findings*, where an unrepaired one with a known *doubtful* repair is reported with it, to be reviewed."""
    told: dict[tuple[str, Span], Finding] = {}
    for finding in findings:
        known = next((doubtful[fact] for fact in finding.facts if fact in doubtful), None)
        if not finding.fixed and known is not None:
            finding = replace(known, fact=finding.fact, others=finding.others, fixed=False, needs_review=True)
        first = told.setdefault((finding.code, finding.cause), finding)
        if first is not finding:  # one repair answers both
            told[finding.code, finding.cause] = replace(first, others=(*first.others, *finding.facts))
    yield from told.values()


def _mended(
    program: Program,
    codemods: list[type[Codemod]],
    rejected: Collection[Program],
    seen: AnalysisResult,
    **options: Any,
) -> Mended:
    """The repair of a program; none where an expression is nested too deeply to be rewritten, or time is over."""
    # LibCST takes longer to import than most files take to read: only where there is something to rewrite.
    from autofix.codemods.repair import Mended, mend

    try:
        return mend(program, codemods, rejected, seen, **options)
    except (RecursionError, budget.Spent) as error:
        reason = TOO_DEEP if isinstance(error, RecursionError) else "the time for a file is over"
        return Mended(replace(seen, complete=False), Patch(program), (), seen.facts, (reason,))


def _with_reach(analysis: Analysis, seen: AnalysisResult) -> Analysis:
    """*analysis* with the backward passes that were reached, and those that were not."""
    program = analysis.program

    def place(line: int) -> Place:
        at = program.index_at(line)
        return program.files[at].path, line - program.starts[at]

    missed = {place(one.line): one.reason for one in seen.missed}
    return replace(analysis, passes=frozenset(map(place, seen.written)), missed=missed)


def check_syntax(text: str, path: str) -> old_keywords.Renamed | None:
    """Return None for a text that parses; for a text of an older Python, its form with new keywords, if that parses.

    Raises :class:`SourceError` for any other text.
    """
    try:
        parse(text, path)
        return None
    except SourceError:
        old = old_keywords.renamed(text)
        if old is None:
            raise
    parse(old.text, path)
    return old


def _with_new_keywords(
    source: str, old: old_keywords.Renamed, known: Analysis, select: Collection[str] | None
) -> Analysis:
    """*known*, the analysis of a text whose old keywords were renamed, as an analysis of the original *source*."""
    from autofix.codemods.rules.modernize_legacy import ModernizeLegacy as Codemod

    if not _wanted(Codemod.code, select):
        raise SourceError(known.path, *old.places[0], f"`{old_keywords.OLD}` is a keyword of Python")
    findings = list(known.findings)
    for line, column in old.places:
        span = Span(known.path, line, column, line, column + len(old_keywords.OLD))
        fact = OldKeyword(call=span, name=f"{old_keywords.OLD}=")
        remedy = f"rename the argument `{old_keywords.OLD}`, a keyword of Python today, to `{old_keywords.NEW}`"
        findings.append(Finding(Codemod.code, Codemod.name, fact, True, remedy, span))
    findings.sort(key=lambda finding: (finding.cause, finding.code))
    program = known.program.with_texts({known.path: source})
    renamed = [Line(line, number) for number, line in enumerate(lines_of(old.text), 1)]
    patch = Patch.of(program, {known.path: renamed}).then(known.patch)
    return replace(known, patch=patch, findings=tuple(findings), steps=(known.program, *known.steps))


def parse(text: str, path: str) -> ast.Module:
    """The syntax tree of a file.  Raises :class:`SourceError` where it does not parse."""
    try:
        return sources.parse(text).tree
    except SyntaxError as error:
        raise SourceError(path, error.lineno or 1, error.offset or 1, error.msg) from None
    except (RecursionError, MemoryError):
        raise SourceError(path, 1, 1, f"{TOO_DEEP} to be parsed") from None
    except ValueError as error:  # ast.parse on a null byte
        raise SourceError(path, 1, 1, str(error)) from None


def _selected(select: Collection[str] | None) -> list[type[Codemod]]:
    from autofix.codemods.rules.registry import all_codemods

    return [kind for kind in all_codemods() if _wanted(kind.code, select)]


def _wanted(code: str, select: Collection[str] | None) -> bool:
    return select is None or any(code.startswith(prefix) for prefix in select)


def _findings(
    program: Program,
    mended: Mended,
    select: Collection[str] | None,
    repairable: Collection[Hashable] = (),
    spared: Collection[Hashable] = (),
) -> Iterator[Finding]:
    """One finding for each mistake: facts that share a cause are one story told several times.

    A guess is reported only where it is repaired or *repairable*, a *spared* fact never; both hold keys of facts.
    """
    repaired = {key_of(repair.fact): repair for repair in mended.repairs}
    left = _left(mended)
    found: dict[tuple[str, Span], Finding] = {}
    for fact in mended.observation.facts:
        if key_of(fact) in spared:
            continue
        repair = repaired.get(key_of(fact)) or _repair_of(fact, mended)
        fixed = key_of(fact) not in left and bool(mended.repairs)
        if repair is not None and fixed:
            code, name, remedy = repair.codemod.code, repair.codemod.name, repair.remedy
        else:
            code, name, remedy = fact.code, _UNREPAIRED[fact.code], ""
        if not _wanted(code, select) or (not fixed and _is_guess(fact) and key_of(fact) not in repairable):
            continue
        keeps = repair.keeps if repair is not None and fixed else Keeps.EDGES
        cause = repair.cause if fixed and repair is not None else fact.cause
        told = Finding(code, name, program.in_file(fact), fixed, remedy, program.in_file(cause), keeps)
        # A fact that was fixed by the repair of another one is reported with that one.
        start = replace(cause, end_line=cause.line, end_column=cause.column)
        first = found.setdefault((code, start), told)
        if first is not told:
            if told.fact.raised and not first.fact.raised:  # the error that the user sees
                first, told = replace(told, others=first.others), first
            found[code, start] = replace(first, others=(*first.others, told.fact))
    yield from _told_once(sorted(found.values(), key=lambda finding: (finding.cause, finding.code)))


def _told_once(findings: list[Finding]) -> Iterator[Finding]:
    """*findings*, where an unrepaired ``Overwritten`` joins an earlier unrepaired finding of its value and line.

    A pass over a freed graph and one over changed parameters are one mistake, seen by one iteration or by the next.
    """
    told: dict[tuple[str, int, str], Finding] = {}
    once: list[Finding] = []
    for finding in findings:
        fact = finding.fact
        if not finding.fixed and isinstance(fact, (StaleGraph, Overwritten)):
            place = (finding.cause.path, finding.cause.line, fact.name)
            first = told.setdefault(place, finding)
            if first is not finding and isinstance(fact, Overwritten):
                more = replace(first, others=(*first.others, fact, *finding.others))
                once[once.index(first)] = told[place] = more
                continue
        once.append(finding)
    yield from once


def _left(mended: Mended) -> set[Hashable]:
    """Keys of the facts that are left in the patched program."""
    return {key_of(fact, mended.patch) for fact in mended.left}


def _is_guess(fact: Fact) -> bool:
    """Whether a mistake rests on a call that was not read, and may be none: told only where there is a repair.

    That an optimizer steps between a forward pass and the backward through it is seen without reading the network, and
    that a call of NumPy fails, without knowing the purpose of its result.
    """
    if isinstance(fact, LossEscapes) or (isinstance(fact, Overwritten) and fact.by_step):
        return False
    drops = fact.drops if isinstance(fact, CutGraph) else ()
    return (
        isinstance(fact, (StaleGraph, Overwritten, CutGraph, NotScalar))
        and fact.certainty is Certainty.LIKELY
        and not any(drop.how == "integer" for drop in drops)
    )


def _repair_of(fact: Fact, mended: Mended) -> Repair | None:
    """The repair of another fact that took this one with it: one of the same kind with a place in common, or the one
    with most places in common, or else one of the same kind.
    """
    related = [repair for repair in mended.repairs if isinstance(repair.fact, type(fact))]
    spans = {role.span for role in fact.roles() if role.name != "loop"}

    def common(repair: Repair) -> int:
        return len(spans & {role.span for role in repair.fact.roles() if role.name != "loop"})

    shared = next(filter(common, related), None) or max(mended.repairs, key=common, default=None)
    return shared if shared is not None and common(shared) else next(iter(related), None)
