"""Explains the error that a backward call, or another of autograd, has died of: its cause in the user's source.

Nothing is recorded before.  The program is read once the error is there; a mistake in it explains the error if it
raises this error at one of the lines of the traceback.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from autofix.live.frames import STARTED, Frame, frames_of, is_of_user

if TYPE_CHECKING:
    from autofix.checking import Options, Problem, Result
    from autofix.findings import Finding
    from autofix.report.view import View

SECONDS = 30.0
"""Seconds of computing that may be spent on an explanation."""
TOLD = "_autofix_told"
MESSAGE = re.compile(
    "through the graph a second time"
    "|modified by an inplace operation"
    "|does not require grad"
    "|a leaf Variable that requires grad"
    "|is a view and is being modified inplace"
    "|A view was created in no_grad mode"
    "|another view of its base has been modified inplace"
    "|automatic differentiation"
    "|Inference tensors cannot be saved"
    "|Inplace update to inference tensor"
    "|not have been used in the graph"
    "|One of the differentiated Tensors"
    "|can't optimize a non-leaf"
    "|only for scalar outputs"
    "|change requires_grad flags of leaf variables"
    "|Tensors of floating point"
    "|on a tensor that doesn't require gradient"
    "|on Tensor that has requires_grad=False"
    "|on Tensor that requires grad"
    "|Only Tensors created explicitly"
    "|non-leaf tensor which requires_grad"
    "|of a 0-dim tensor"
    "|Legacy autograd function"
)
"""Pattern of PyTorch's messages for the mistakes that can be found."""


@dataclass(frozen=True)
class Explanation:
    """Explanation of an error."""

    view: View | None
    """View of the mistake; None where no mistake of the source explains the error."""
    note: str = ""
    patched: tuple[tuple[str, str], ...] = ()
    """Cells of a kernel that a repair changes, with their patched text."""

    def show(self, stream: IO[str], *, colour: bool | None = None) -> None:
        """Print the explanation."""
        from autofix.report import story
        from autofix.report.terminal import Printer

        printer = Printer(stream, colour=colour)
        view = self.view
        printer.line()
        if view is None:
            printer.line(("autofix", "bold"), f": {self.note}")
            return
        printer.line(("autofix", "bold"), ": the cause of this error")
        for line in story.tell(view):
            printer.line(*line)
        if view.patch or self.patched:
            for fix in view.remedies:
                printer.line(("fix", "green"), f": {fix}")
        if view.patch:
            printer.patch(view.patch)
        for name, source in self.patched:
            printer.line((f"{name}, patched:", "bold"))
            printer.line(source)
        if self.note:
            printer.line(self.note)

    @property
    def text(self) -> str:
        """The explanation as plain text, without colours."""
        stream = io.StringIO()
        self.show(stream, colour=False)
        return stream.getvalue()


def explained(
    error: BaseException | None, command: str | None = None, read: Callable[[str], Explanation] | None = None
) -> Explanation | None:
    """Explanation of *error*; None for an error that is not autograd's, or was explained before.  Never raises.

    *command* is the command line that proves a repair; by default ``autofix run`` with the script.  *read* explains a
    message where the program is in no file.
    """
    if error is None or not MESSAGE.search(str(error)) or getattr(error, TOLD, False):
        return None
    try:
        error.__dict__[TOLD] = True
        with unchanged_limit():
            return _explained(error, command) if read is None else read(str(error))
    except Exception as bug:
        return Explanation(None, note=f"the error could not be explained ({type(bug).__name__}: {bug})")


def _explained(error: BaseException, command: str | None) -> Explanation | None:
    own = [one for one in frames_of(error.__traceback__) if is_of_user(one.path)]
    if not own:
        return None
    changed: list[str] = []
    command = f"autofix run {shlex.quote(display(own[0].path))}" if command is None else command
    for path in dict.fromkeys(one.path for one in own):
        if os.stat(path).st_mtime > STARTED:
            changed.append(path)
            continue
        view = view_of(Path(path), str(error), own)
        if view is not None:
            return Explanation(view, f"To prove the repair by running it: {command}" if command else "")
    if changed:
        return Explanation(None, f"{display(changed[0])} was changed after it was started, and was not read")
    hint = f"; to watch it run: {command}" if command else ""
    return Explanation(None, f"no mistake that explains this error was found by reading the source{hint}")


def view_of(path: Path, message: str, frames: Sequence[Frame]) -> View | None:
    """The mistakes of the program that begins at *path* and explain the error; None where there are none."""
    from autofix import budget
    from autofix.checking import Options, Problem, check_path
    from autofix.outcomes import Outcomes
    from autofix.report.view import View, story_of_finding

    with budget.bounded(SECONDS):
        result = check_path(path, Options(unsafe=True))
    if isinstance(result, Problem):
        return None
    lines = {(os.path.realpath(one.path), one.line) for one in frames}
    found = [one for one in result.analysis.findings if explains(one, message, lines)]
    if not found:
        return None
    outcomes = Outcomes(tell=lambda _: None)
    with budget.bounded(SECONDS):
        outcomes.add(repaired_alone(found[0], result, lambda options: check_path(path, options)))
    patch = outcomes.patch_text() if any(one.fixed for one in found) else ""
    return View(str(path), tuple(map(story_of_finding, found[:1])), result.analysis.program.texts, patch)


def repaired_alone(finding: Finding, result: Result, again: Callable[[Options], Result | Problem]) -> Result:
    """The *result* with the repair of *finding* alone; other mistakes are not what the program has died of.

    *again* analyses the program with other options.
    """
    from autofix.checking import Options, Problem

    if sum(one.fixed for one in result.analysis.findings) < 2:
        return result
    alone = again(Options(unsafe=True, silence=lambda _, found: [one for one in found if one.cause != finding.cause]))
    if isinstance(alone, Problem) or not any(one.fixed for one in alone.analysis.findings):
        return result  # only together can they be repaired
    return alone


def explains(finding: Finding, message: str, lines: Collection[tuple[str, int]]) -> bool:
    """Whether a mistake raises this error at one of the *lines* that were running."""
    for fact in finding.facts:
        if not fact.raised or fact.raised not in message:
            continue
        last = [role.span for role in fact.roles() if role.name == "failed"] or [role.span for role in fact.roles()]
        for span in last:
            path = os.path.realpath(span.path)
            if any((path, line) in lines for line in range(span.line, span.end_line + 1)):
                return True
    return False


def display(path: str) -> str:
    from autofix.project.files import display_name

    return display_name(Path(path))


@contextmanager
def unchanged_limit() -> Iterator[None]:
    """Leave the interpreter's limit of calls within calls as it was: the process may go on."""
    limit = sys.getrecursionlimit()
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
