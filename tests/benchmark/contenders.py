"""The contenders: ``check``, ``run`` with and without the static witness, TorchFix, and PyTorch's anomaly mode.

A script is only ever executed by autofix's own runner, in its sandbox.
"""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from autofix import checking as checker
from autofix.checking import Problem, Result
from autofix.execution.runner import run
from autofix.project import files
from autofix.proof.prove import Certificate, Limits, Original, Script, Verdict, prove
from autofix.repair import granted, repair
from tests.benchmark.cases import Case, Program
from tests.benchmark.score import Alarm, Repaired, Score

LIMITS = Limits(timeout=60.0)
ANOMALY = """\
import runpy, sys, torch
sys.argv = [{entry!r}]
torch.autograd.set_detect_anomaly(True)
runpy.run_path({entry!r}, run_name="__main__")
"""
Contender = Callable[[Case], Score]


def check(case: Case) -> Score:
    """``autofix check``, its patch held to the proof where it is not the reference's."""
    score = Score(alarm=_alarm_of_check(case.clean))
    if case.broken is None:
        return score
    outcome = checker.check_path(case.broken.entry, from_root=True)
    if isinstance(outcome, Problem):
        return score.but(detail=str(outcome))
    repaired, detail = Repaired.NOT, ""
    if outcome.edits:
        repaired, detail = _judged(case, case.broken, _patched(case.broken, outcome))
    found, cause = _named(case, case.broken, outcome)
    return score.but(found=found, cause=cause, repaired=repaired, detail=detail)


def _alarm_of_check(clean: Program | None) -> Alarm:
    if clean is None:
        return Alarm.NONE
    outcome = checker.check_path(clean.entry, from_root=True)
    if isinstance(outcome, Result) and outcome.edits:
        return Alarm.CHANGED
    return Alarm.REPORTED if isinstance(outcome, Problem) or outcome.analysis.findings else Alarm.NONE


def run_with_both(case: Case) -> Score:
    """``autofix run``."""
    return _run(case, static=True)


def run_alone(case: Case) -> Score:
    """``autofix run`` without the witness that reads the source: the run's evidence alone."""
    return _run(case, static=False)


def _run(case: Case, *, static: bool) -> Score:
    alarm = Alarm.NONE
    if case.clean is not None:
        clean = repair(Script(case.clean.entry), LIMITS, static=static)
        if clean.certificate is not None and clean.certificate.proved and clean.analysis.changes:
            alarm = Alarm.CHANGED
        elif clean.analysis.findings or clean.fails:
            alarm = Alarm.REPORTED
    if case.broken is None:
        return Score(alarm=alarm)
    outcome = repair(Script(case.broken.entry), LIMITS, static=static)
    result = Result(outcome.project, outcome.analysis)
    found, cause = _named(case, case.broken, result)
    repaired, detail = Repaired.NOT, outcome.note.partition("\n")[0]
    if result.edits and outcome.certificate is not None:
        repaired, detail = _kind_of(outcome.certificate), _why(outcome.certificate)
        if repaired is Repaired.WRONGLY:  # refused by the proof, and so never written
            repaired = Repaired.NOT
        elif repaired is Repaired.DIFFERENTLY and _is_reference(case, _patched(case.broken, result)):
            repaired = Repaired.EXACTLY
    return Score(found, cause, repaired, alarm, detail)


def anomaly(case: Case) -> Score:
    """PyTorch's ``detect_anomaly``: the line of the forward call that it names, which is all that it offers."""
    if case.broken is None:
        return Score()
    script = case.broken.entry
    starter = script.with_name("anomaly_mode.py")
    output = run(Script(starter, ANOMALY.format(entry=script.name)), LIMITS).output
    told = output.partition("Error detected in")[2].partition("(Triggered internally")[0]
    named = None
    for file, line in re.findall(r'File "([^"]+)", line (\d+)', told):
        for key in case.broken.texts:
            own = script.name if key == "." else key
            if file == own or file.endswith(f"/{own}"):
                named = key, int(line)  # the innermost of the script's own frames comes last
    return Score(named is not None, named in case.causes, detail=str(named or ""))


def torchfix(cases: list[Case]) -> dict[str, Score]:
    """TorchFix with all its rules, over all cases at once, since it takes seconds to start; nothing without it."""
    program = shutil.which("torchfix", path=str(Path(sys.executable).parent)) or shutil.which("torchfix")
    if program is None:
        return {}
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch).resolve()
        for case in cases:
            for name, one in _scripts(case).items():
                for key, text in one.texts.items():
                    place = _copy(root, case, name, one, key)
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(text.encode())
        command = [program, "--select=ALL", "-j", str(checker.cpu_count())]
        done = subprocess.run([*command, "."], cwd=root, capture_output=True, text=True, check=False)
        told = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)  # it colours its output for any reader
        found = re.findall(r"^(?:\./)?(\S+\.py):(\d+):\d+: TOR\d+ (\[\*\])?", told, re.MULTILINE)
        reported = {(root / path, int(line)) for path, line, _ in found}
        fixable = sorted({path for path, _, mark in found if mark})
        if fixable:
            subprocess.run([*command, "--fix", *fixable], cwd=root, capture_output=True, text=True, check=False)
        return {case.name: _torchfix_score(case, root, reported) for case in cases}


def _torchfix_score(case: Case, root: Path, reported: set[tuple[Path, int]]) -> Score:
    lines: dict[str, set[tuple[str, int]]] = {}
    after: dict[str, dict[str, str]] = {}
    for name, one in _scripts(case).items():
        copies = {key: _copy(root, case, name, one, key) for key in one.texts}
        lines[name] = {(key, line) for key, copy in copies.items() for path, line in reported if path == copy}
        after[name] = {key: copy.read_bytes().decode() for key, copy in copies.items()}
    alarm = Alarm.NONE
    if case.clean is not None:
        alarm = Alarm.REPORTED if lines["clean"] else Alarm.NONE
        alarm = Alarm.CHANGED if after["clean"] != case.clean.texts else alarm
    if case.broken is None:
        return Score(alarm=alarm)
    repaired, detail = Repaired.NOT, ""
    if after["broken"] != case.broken.texts:
        repaired, detail = _judged(case, case.broken, after["broken"])
    return Score(bool(lines["broken"]), bool(lines["broken"] & case.causes), repaired, alarm, detail)


def _scripts(case: Case) -> dict[str, Program]:
    both = {"broken": case.broken, "clean": case.clean}
    return {name: one for name, one in both.items() if one is not None}


def _copy(root: Path, case: Case, name: str, one: Program, key: str) -> Path:
    return root / case.name / name / key if one.folder else root / case.name / f"{name}.py"


# What they share -----------------------------------------------------------------------------------------------------


def _named(case: Case, program: Program, result: Result) -> tuple[bool, bool]:
    """Whether something was found, and whether one of the causes is a line that the case accepts."""
    findings = result.analysis.findings
    causes = {(program.key(result.project.find(f.cause.path)[0]), f.cause.line) for f in findings}
    return bool(findings), bool(causes & case.causes)


def _patched(program: Program, result: Result) -> dict[str, str]:
    """The program's texts after the patch."""
    return program.texts | {program.key(edit.path): edit.text for edit in result.edits}


def _is_reference(case: Case, texts: Mapping[str, str]) -> bool:
    return case.fixed is not None and _trees_of(texts) == _trees_of(case.fixed.texts)


def _trees_of(texts: Mapping[str, str]) -> dict[str, str]:
    """The programs without their comments and spaces."""
    trees = dict(texts)
    for key, text in texts.items():
        with suppress(SyntaxError):
            trees[key] = ast.dump(ast.parse(text))
    return trees


def _judged(case: Case, program: Program, texts: Mapping[str, str]) -> tuple[Repaired, str]:
    """Compare a patch with the reference's, and hold it to the proof where it is another: how it did, and why."""
    if _is_reference(case, texts):
        return Repaired.EXACTLY, ""
    script = Script(program.entry)
    patched = _in_its_place(program, texts)
    certificate = prove(Original(script, LIMITS), patched, granted(script, files.read(script.path), LIMITS))
    kind = _kind_of(certificate)
    if kind is Repaired.WRONGLY and case.fixed is not None and case.fixed.texts.keys() == texts.keys():
        # The reference may change the training on purpose: then the patch has to agree with the reference.
        theirs, ours = (run(one, LIMITS) for one in (_in_its_place(program, case.fixed.texts), patched))
        if ours.outcome is theirs.outcome and ours.losses and ours.losses == theirs.losses:
            return Repaired.DIFFERENTLY, ""
    return kind, _why(certificate)


def _in_its_place(program: Program, texts: Mapping[str, str]) -> Script:
    """The program with other texts, as a script to run."""
    path, own = program.entry, program.key(program.entry)
    others = {program.root / key: text for key, text in texts.items() if key != own}
    beside = [(one.relative_to(path.parent), text) for one, text in others.items() if one.is_relative_to(path.parent)]
    return Script(path, texts[own], others=tuple((one.as_posix(), text) for one, text in beside))


def _kind_of(certificate: Certificate) -> Repaired:
    kinds = {Verdict.PASSED: Repaired.DIFFERENTLY, Verdict.FAILED: Repaired.WRONGLY}
    return kinds.get(certificate.verdict, Repaired.OPEN)


def _why(certificate: Certificate) -> str:
    """Why a patch is not proved; empty where it is."""
    if certificate.proved:
        return ""
    worst = [point for point in certificate.points if point.verdict is certificate.verdict]
    return "; ".join(f"{point.name}: {point.detail}" for point in worst[:2])
