"""Properties that must hold for every file: no failure, no hang, a patch that parses, applies and is the last one."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

from autofix.checking import Options, Problem, Result, check_file
from autofix.patch import Change, patch
from autofix.project import files

NAME = "train.py"
TOOLS = (["git", "apply"], ["patch", "-p1", "-s", "--binary"])


class Violated(AssertionError):
    """A property that does not hold, in a sentence."""


def hold(data: bytes, *, unsafe: bool = False, tools: bool = True) -> bool:
    """Check all properties for a file of these bytes.  Returns whether it has a patch.  Raises :class:`Violated`."""
    result = _checked(data, unsafe=unsafe)
    if result is None:
        return False
    patched = _patched(result)
    if patched is None or patched == data:
        return False
    if not any(finding.fixed for finding in result.analysis.findings):
        raise Violated("the file is patched, and no finding says why")
    again = _checked(patched, unsafe=unsafe)
    if again is None:
        raise Violated("the patched file cannot be read")
    if _patched(again) not in (None, patched):
        raise Violated("a second pass changes the file again")
    if tools:
        _applies(data, patched)
    return True


def _checked(data: bytes, *, unsafe: bool) -> Result | None:
    """Result of checking a file; None where it is refused with a reason."""
    try:
        file = files.decode(data, NAME)
    except files.FileError:
        return None
    if file.encode(file.text) != data:
        raise Violated("the text does not lead back to the bytes that were read")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcome = check_file(Path(NAME), file, Options(unsafe=unsafe), alone=True)
    if isinstance(outcome, Problem):
        if outcome.trace or "given up" in outcome.reason:
            raise Violated(f"{outcome.reason}\n{outcome.trace}")
        return None
    _lie_within(outcome)
    return outcome


def _lie_within(result: Result) -> None:
    """Every reported place lies in the file."""
    lines = result.analysis.program.lines
    for finding in result.analysis.findings:
        for span in [finding.cause, *(role.span for role in finding.roles())]:
            if not (1 <= span.line <= len(lines) and 0 <= span.column <= len(lines[span.line - 1])):
                raise Violated(f"{finding.code} is reported at {span.line}:{span.column}, where nothing is")


def _patched(result: Result) -> bytes | None:
    """The bytes after the patch; None where they cannot be written, which is said."""
    try:
        return files.check_result(result.file, result.analysis.patched)
    except files.FileError as error:
        if "cannot write" in error.reason:  # a character that the encoding lacks
            return None
        raise Violated(f"the patched text does not parse: {error.reason}") from None


def _applies(before: bytes, after: bytes) -> None:
    """The diff leads from one to the other by git, and by patch."""
    diff = patch([Change(NAME, before, after)])
    for tool in TOOLS:
        if shutil.which(tool[0]) is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / NAME
            place.write_bytes(before)
            done = subprocess.run(tool, input=diff, cwd=folder, capture_output=True, check=False)
            if done.returncode or place.read_bytes() != after:
                raise Violated(f"{tool[0]} does not apply the diff: {(done.stderr + done.stdout).decode()}")
