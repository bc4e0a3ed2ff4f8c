"""``github``: workflow commands, which GitHub shows as annotations of a commit or a pull request."""

from __future__ import annotations

from autofix.escaping import escaped_lines
from autofix.outcomes import in_order
from autofix.report import lines
from autofix.report.base import Checked, Reporter
from autofix.report.cells import span_of

Where = dict[str, str | int]


class GitHub(Reporter):
    """One command for each finding, and for each file that could not be checked."""

    def findings(self, told: Checked) -> None:
        for finding in in_order(told.left.findings):
            cause = finding.cause
            in_file = told.left.in_file(cause)
            where: Where = {
                "title": f"autofix ({finding.code})",
                "file": in_file.path,
                "line": in_file.line,
                "col": in_file.column + 1,
                "endLine": in_file.end_line,
                "endColumn": in_file.end_column + 1,
            }
            others = [f"{lines.location(span)}: {phrase}" for span, phrase in lines.other_places(finding)]
            first = f"{lines.location(cause)}: {finding.code} {finding.message}"
            self._command(lines.level(finding), where, "\n".join([first, *others]))
        for problem in told.found.problems:
            place = told.found.in_file(span_of(problem))
            where = {"title": "autofix", "file": place.path, "line": place.line, "col": place.column + 1}
            self._command("error", where, str(problem))

    def _command(self, level: str, where: Where, message: str) -> None:
        properties = ",".join(f"{name}={escaped(str(value), more=':,')}" for name, value in where.items())
        self.stream.write(f"::{level} {properties}::{escaped(message)}\n")


def escaped(text: str, more: str = "") -> str:
    """*text* as a workflow command takes it; the characters in *more* end a property."""
    for char in "%\r\n" + more:
        text = text.replace(char, f"%{ord(char):02X}")
    return escaped_lines(text)  # the log that holds the commands is shown on terminals, too


REPORTER = GitHub
