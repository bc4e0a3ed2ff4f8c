"""Repairs one script: by what its source tells or, failing that, by what its run shows; proved by execution."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from autofix import engine
from autofix.child.recorded import RunError
from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.cut import LossEscapes
from autofix.codemods.promises import Keeps
from autofix.codemods.proof import passes_by_the_way
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.source.program import Program
from autofix.evidence.witness import LOOKED_AT, Evidence, witness
from autofix.execution.obstacles import obstacle, usage
from autofix.execution.record import Failure
from autofix.execution.runner import OVER, warm_up
from autofix.execution.scratch import kept_copies
from autofix.findings import Analysis, SourceError
from autofix.project import files
from autofix.project.gather import gather
from autofix.project.layout import Layout, import_roots
from autofix.project.members import Project
from autofix.proof.merit import is_lean, merit
from autofix.proof.points.base import count
from autofix.proof.points.held import held
from autofix.proof.promises import Promises, promised
from autofix.proof.prove import (
    Certificate,
    Limits,
    Original,
    Outcome,
    RunRecord,
    Script,
    Verdict,
    prove,
)

ATTEMPTS = 4
"""Patches that are executed before the search is given up."""
HEALTHY = 30.0
"""Least seconds for which a script is watched that is not expected to fail."""
OF_A_PROOF = 6
"""Runs that the proof of one patch takes at most: the reference, the patch, and four without updates."""
RUNS, FEW = 60, 12
"""Candidates that are executed where nothing else stands the proof, and where there might be something better."""


@dataclass(frozen=True)
class Repair:
    """The patch that stood the proof, or the last one that did not, and why others were refused."""

    project: Project
    """The script and the files that it brings with it."""
    analysis: Analysis
    certificate: Certificate | None = None
    """None where there was nothing to prove."""
    refused: tuple[str, ...] = ()
    note: str = ""
    fails: bool = False
    """Whether the script fails and no patch for it is known."""
    evidence: tuple[Evidence, ...] = ()
    """Evidence from the run itself, the cause first; empty where the source told enough."""


@kept_copies()
def repair(script: Script, limits: Limits, *, static: bool = True) -> Repair:
    """Find the mistakes in *script* and its project, patch them, and prove the patch by execution.

    The source is read first (only if *static*); where that leads to no patch that stands the proof, the run itself is
    examined.  Raises :class:`autofix.project.files.FileError` and :class:`autofix.engine.SourceError` for a script
    that cannot be read.
    """
    source = files.read(script.path)
    if limits.warm:
        warm_up(script, limits.python)
    engine.check_syntax(source.text, source.name)
    project = project_of(script, source, limits)
    nothing = Program.of(source.text, source.name, project.others, project.roots)
    analysis = Analysis(Patch(nothing), ())
    if static:
        analysis = engine.analyse(source.text, source.name, others=project.others, roots=project.roots)
    if analysis.findings:
        limits.watcher.found(Repair(project, analysis), by_run=False)
    limits.watcher.expect(1 + (OF_A_PROOF if analysis.changes else 0))
    expected = any(finding.fact.raised for finding in analysis.findings)
    attempt = _Attempt(project, Original(script, limits, None if expected else HEALTHY))
    if attempt.before.failure is None and attempt.before.outcome in (Outcome.FINISHED, Outcome.STOPPED):
        return attempt.of_silent(analysis)
    if (reason := obstacle(attempt.before)) and not analysis.changes:
        return attempt.stopped_by(reason, analysis)
    if analysis.changes and attempt.before.failure is not None:
        limits.watcher.found(Repair(project, analysis, fails=True), by_run=True)
    first = attempt.by_source(analysis) if analysis.changes else None
    if first is not None and first.certificate is not None and first.certificate.proved:
        return first if is_lean(first.certificate) else attempt.leaner(first)
    if first is not None and first.certificate is not None:
        if first.certificate.cannot_get_further:
            return in_part(first)
        if first.certificate.verdict is not Verdict.FAILED:
            return first
    return attempt.by_run(analysis, first)


@dataclass
class _Attempt:
    """The repair of one script."""

    project: Project
    original: Original

    @property
    def script(self) -> Script:
        return self.original.script

    @property
    def before(self) -> RunRecord:
        return self.original.before

    def stopped_by(self, reason: str, analysis: Analysis) -> Repair:
        """Outcome for a script that its surroundings keep from training, with *reason* in its note."""
        failure = self.before.failure
        where = f" at {self._place(failure.error)}" if failure and failure.error.line else ""
        note = f"The script stops before it trains{where}: {reason}."
        if failure is not None:
            note += f"\n{usage(self.before) if failure.error.type == 'SystemExit' else failure.error}"
        return Repair(self.project, analysis, note=note, fails=True)

    def of_silent(self, analysis: Analysis) -> Repair:
        """Repair of a script that comes to its end: of the silent mistakes alone, since nothing is raised."""
        silent = {finding.code for finding in analysis.findings if not finding.fact.raised}
        met = analysis
        if len(silent) < len({finding.code for finding in analysis.findings}):
            source = analysis.program.files[0]
            met = replace(analysis, patch=Patch(analysis.program), findings=(), steps=())
            if silent:
                met = engine.analyse(
                    source.text, source.path, others=self.project.others, roots=self.project.roots, select=silent
                )
        found = self.by_source(met) if met.changes else None
        if found is None or found.certificate is None or found.certificate.verdict is Verdict.FAILED:
            found = self.by_run(met, found)
        missed = [finding for finding in analysis.findings if finding.code not in silent]
        if not missed or found.certificate is not None:
            return found
        places = ", ".join(f"{one.code} in line {one.cause.line}" for one in missed)
        note = found.note.replace("; nothing to fix", "", 1)
        return replace(found, note=f"{note} The run does not reach what the source shows: {places}.")

    def by_source(self, analysis: Analysis) -> Repair:
        """The patch of *analysis*, or another that static reading gives, if one stands the proof; else the first."""
        refused: list[str] = []
        rejected: set[Program] = set()
        first: tuple[Analysis, Certificate] | None = None
        best: Repair | None = None
        for _ in range(ATTEMPTS):
            self.original.limits.watcher.expect(OF_A_PROOF)
            certificate = prove(
                self.original,
                patched_script(self.script, self.project, analysis.repaired),
                promises(analysis),
                expected_error=_expected_error(analysis),
            )
            first = first or (analysis, certificate)
            stands = Repair(self.project, analysis, certificate, tuple(refused))
            if certificate.cannot_get_further:
                return best or stands
            if certificate.verdict is Verdict.NOT_PROVED or (certificate.proved and is_lean(certificate)):
                return best or stands
            if certificate.proved:
                best = better(best, stands)
            else:
                refused.append(_reason(analysis, certificate))
            if self.original.limits.left <= 0:
                break
            rejected |= set(analysis.steps)
            source = analysis.program.files[0]
            analysis = engine.analyse(
                source.text, source.path, others=self.project.others, roots=self.project.roots, rejected=rejected
            )
            if not analysis.changes:
                break
        if best is not None:
            return best
        assert first is not None
        return Repair(self.project, *first, tuple(refused[1:]))

    def leaner(self, stands: Repair) -> Repair:
        """*stands*, which keeps graphs or draws random numbers anew, or a better patch that the run leads to."""
        return better(stands, self.by_run(stands.analysis, stands, FEW))

    def by_run(self, analysis: Analysis, failed: Repair | None, runs: int = RUNS) -> Repair:
        """Repair found by the evidence of a run; where no patch stands the proof, *failed* or an outcome with a note.

        At most *runs* candidates are executed.
        """
        holds = self.before.failure is None and held(self.before) > 0
        if self.before.failure is None and not holds:
            return failed or self._sound(analysis)
        self.original.limits.watcher.expect(2 + runs + OF_A_PROOF)  # the witness, the ways of its values, candidates
        evidence = witness(self.script, self.original.limits, LOOKED_AT if holds else None)
        self._bring(evidence)
        if evidence and failed is None:
            self.original.limits.watcher.found(
                Repair(self.project, analysis, fails=True, evidence=evidence), by_run=True
            )
        program = Program.of(analysis.source, analysis.path, self.project.others, self.project.roots)
        from autofix.evidence.search import Search  # LibCST takes long to import: only where there is a need

        search = Search(
            self.original,
            program,
            lambda patched: patched_script(self.script, self.project, patched),
            self._paths(),
            runs,
            frozenset(one.fact.cut for one in analysis.findings if isinstance(one.fact, LossEscapes)),
        )
        found = search.find(evidence)
        done = search.further or (search.perhaps if failed is None else None)
        if found is None and done is not None:
            return in_part(Repair(self.project, done.analysis(), done.certificate, evidence=evidence))
        if found is not None:
            refused = (*(failed.refused if failed else ()), *search.refused)
            return Repair(self.project, found.analysis(), found.certificate, refused, evidence=evidence)
        if failed is not None and failed.certificate is not None and failed.certificate.remains:
            return in_part(replace(failed, evidence=evidence))
        if failed is not None:
            return replace(failed, refused=(*failed.refused, *search.refused), evidence=evidence)
        if self.before.failure is None:
            return replace(self._sound(analysis), evidence=evidence)
        note = _told(self.before.failure, self._place(self.before.failure.error), evidence)
        if self.original.limits.left <= 0:
            note += f"\nThe search has ended: {OVER}."
        return Repair(self.project, analysis, refused=tuple(search.refused), note=note, fails=True, evidence=evidence)

    def _sound(self, analysis: Analysis) -> Repair:
        """Outcome for a script that raises nothing, with a note on how its run ended."""
        if self.before.outcome in (Outcome.FINISHED, Outcome.STOPPED):
            return Repair(self.project, analysis, note=healthy(self.before))
        did = f"{count(self.before.steps, 'optimizer step')} in {self.before.seconds:.0f} s"
        if self.before.outcome is Outcome.TIMED_OUT:
            more = OVER if self.original.limits.left <= 0 else "--timeout SECONDS waits longer"
            note = f"The script was stopped: it made {did} without an error. {more[:1].upper()}{more[1:]}."
            return Repair(self.project, analysis, note=note, fails=self.before.steps < self.original.limits.steps)
        if self.before.outcome is Outcome.NOT_STARTED and self.before.error is not None:
            hint = "" if "TMPDIR" in self.before.error.message else " --python PATH takes another interpreter."
            note = f"The script was not run: {self.before.error.message}.{hint}"
            return Repair(self.project, analysis, note=note, fails=True)
        note = f"The script did not run to a result: {self.before.outcome.value}, after {did}."
        return Repair(self.project, analysis, note=note, fails=True)

    def _paths(self) -> dict[str, str]:
        """The project's names of files by their paths relative to the script's folder, as a run names them."""
        places = {self.project.file.name: self.script.path.resolve()}
        places |= {name: path for name, (path, _) in self.project.companions.items()}
        folder = self.script.folder
        return {os.path.relpath(path.resolve(), folder).replace(os.sep, "/"): name for name, path in places.items()}

    def _place(self, error: RunError) -> str:
        """Place of an *error* in a file of the project: name, line and column."""
        column = f":{error.column}" if error.column else ""
        return f"{self._paths().get(error.file, error.file)}:{error.line}{column}"

    def _bring(self, evidence: Iterable[Evidence]) -> None:
        """Add the files to the project that the run executed and no import names: plug-ins, modules loaded by path."""
        known = self._paths()
        companions = dict(self.project.companions)
        spans = (span for told in evidence for site in told.places() for span in site.spans)
        for path in dict.fromkeys(span.path for span in spans):
            place = self.script.folder / path
            if path in known:
                continue
            try:
                file = files.read(place, files.display_name(place))
                engine.parse(file.text, file.name)
            except (files.FileError, SourceError):
                continue
            companions[file.name] = (place, file)
        self.project = replace(self.project, companions=companions)


def in_part(repaired: Repair) -> Repair:
    """Repair of the first mistake, with a note on the second, for which no repair is known."""
    assert repaired.certificate is not None
    fixed = [f"line {one.cause.line}" for one in repaired.analysis.findings if one.fixed]
    mistakes = f"The mistake in {fixed[0]} is" if len(fixed) == 1 else f"The mistakes in {', '.join(fixed)} are"
    note = f"{mistakes} repaired: the script gets past the failure.  What remains: {repaired.certificate.remains}"
    return replace(repaired, refused=(), note=note)


def healthy(before: RunRecord) -> str:
    """Note on a script that has not failed."""
    if before.outcome is not Outcome.STOPPED:
        return "No error; nothing to fix."
    did = f"{count(before.steps, 'optimizer step')} ({before.seconds:.0f} s)"
    return f"No error in {did}; nothing to fix. --steps N watches longer."


def better(one: Repair | None, other: Repair) -> Repair:
    """The better of two repairs that stand the proof; the first, where they are as good."""
    if one is None or one.certificate is None:
        return other
    if other.certificate is None or not other.certificate.proved:
        return one
    return other if merit(other.certificate) > merit(one.certificate) else one


def patched_script(original: Script, project: Project, program: Program) -> Script:
    """The script as it runs in *program*, which holds the project's files with other texts."""
    own = program.files[0].text
    text = own if own != project.file.text else original.text
    others = []
    for file in program.files[1:]:
        path, before = project.find(file.path)
        if file.text != before.text:
            others.append((path.resolve().relative_to(original.folder).as_posix(), file.text))
    return replace(original, text=text, others=tuple(others))


def project_of(script: Script, source: files.SourceFile, limits: Limits) -> Project:
    """Project of *script*: the script, and the files that it imports from within the copy that is run."""
    layout = Layout(script.folder, import_roots(script.folder))
    return gather(script.path, source, within=script.folder, layout=layout, cwd=script.start, python=limits.python)


def _told(failure: Failure, place: str, evidence: Sequence[Evidence]) -> str:
    """Note on the failure, with the story behind it: the run shows more than the line of the traceback."""
    where = f" at {place}" if failure.error.line else ""
    note = [f"The script fails{where} and no repair is known: {failure.error.message}"]
    for told in evidence[:1]:
        note += [f"{span.path}:{span.line}:{span.column + 1}: note: {phrase}" for phrase, span in told.story()]
    return "\n".join(note)


def _expected_error(analysis: Analysis) -> str:
    """A piece of PyTorch's message, where all the mistakes have the same one."""
    errors = {finding.fact.raised for finding in analysis.findings if finding.fixed}
    return errors.pop() if len(errors) == 1 else ""


def promises(analysis: Analysis) -> Promises:
    """Promises of the patch of *analysis* beyond those of every patch, for :func:`prove`."""
    fixed = [finding for finding in analysis.findings if finding.fixed]
    own = [passes_by_the_way(finding.fact) for finding in fixed if finding.keeps is Keeps.OWN]
    return promised({finding.keeps for finding in fixed}, [finding.fact for finding in fixed], set().union(*own))


def granted(script: Script, file: files.SourceFile, limits: Limits) -> Promises:
    """Promises of a repair by somebody else, derived from the source of the script and its project."""
    from libcst import ParserSyntaxError

    from autofix.codemods.interpreter.analysis import analyze
    from autofix.codemods.rewriting.ratios import has_ratio
    from autofix.codemods.rewriting.tree import Tree

    ratio, own, facts = False, set[int](), tuple[Fact, ...]()
    with suppress(SyntaxError, ParserSyntaxError):
        project = project_of(script, file, limits)
        program = Program.of(file.text, file.name, project.others, project.roots)
        ratio = has_ratio(Tree(program))
        facts = tuple(analyze(program).facts)
        own = set().union(*(passes_by_the_way(program.in_file(fact)) for fact in facts))
    return replace(promised({Keeps.INPUTS, *((Keeps.RATIO,) if ratio else ())}, facts, own), by_hand=True)


def _reason(analysis: Analysis, certificate: Certificate) -> str:
    remedies = "; ".join(dict.fromkeys(finding.remedy for finding in analysis.findings if finding.fixed))
    failed = next(point for point in certificate.points if point.verdict is Verdict.FAILED)
    return f"{remedies}: {failed.name}: {failed.detail}"
