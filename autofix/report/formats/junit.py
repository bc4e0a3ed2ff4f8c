"""``junit``: a test report in XML, a suite for each file and a failure for each finding."""

from __future__ import annotations

from itertools import groupby
from xml.etree import ElementTree

from autofix.findings import Finding
from autofix.outcomes import in_order
from autofix.project.cells import cell_of
from autofix.report import lines
from autofix.report.base import Checked, Reporter
from autofix.report.story import shown


class JUnit(Reporter):
    """Report in JUnit's format, which continuous integration shows as a run of tests."""

    def findings(self, told: Checked) -> None:
        left, problems = in_order(told.left.findings), told.found.problems
        root = ElementTree.Element("testsuites", name="autofix", tests="", failures=str(len(left)))
        root.set("errors", str(len(problems)))
        by_file = {path: [*own] for path, own in groupby(left, lambda finding: finding.cause.path)}
        files = {cell_of(path)[0] for path in by_file}
        clean = [result.file.name for result in told.left.results if result.file.name not in files]
        for path in sorted({*by_file, *clean}):
            own = by_file.get(path, [])
            suite = self._suite(root, path, max(len(own), 1), failures=len(own))
            for finding in own:
                self._case(suite, finding)
            if not own:
                ElementTree.SubElement(suite, "testcase", name="no mistakes found", classname=clean_text(path))
        for problem in problems:
            suite = self._suite(root, problem.name, 1, errors=1)
            case = ElementTree.SubElement(suite, "testcase", name="not checked", classname=clean_text(problem.name))
            case.set("line", str(problem.line))
            ElementTree.SubElement(case, "error", message=clean_text(problem.reason)).text = clean_text(str(problem))
        root.set("tests", str(sum(int(suite.get("tests", "0")) for suite in root)))
        ElementTree.indent(root)
        self.stream.write('<?xml version="1.0" encoding="utf-8"?>\n')
        self.stream.write(ElementTree.tostring(root, encoding="unicode") + "\n")

    def _suite(
        self, root: ElementTree.Element, path: str, tests: int, failures: int = 0, errors: int = 0
    ) -> ElementTree.Element:
        counts = {"tests": str(tests), "failures": str(failures), "errors": str(errors)}
        return ElementTree.SubElement(root, "testsuite", {"name": clean_text(path), **counts})

    def _case(self, suite: ElementTree.Element, finding: Finding) -> None:
        cause = finding.cause
        case = ElementTree.SubElement(
            suite, "testcase", name=f"{finding.code} {finding.name}", classname=clean_text(cause.path)
        )
        case.set("line", str(cause.line))
        case.set("column", str(cause.column + 1))
        failure = ElementTree.SubElement(case, "failure", message=clean_text(finding.message), type=finding.code)
        told = [f"{lines.location(cause)}: {finding.message}"]
        told += [f"{lines.location(span)}: {phrase}" for span, phrase in lines.other_places(finding)]
        failure.text = clean_text("\n".join(told))


def clean_text(text: str) -> str:
    """*text* without the control characters that XML cannot hold."""
    return "\n".join(map(shown, text.split("\n")))


REPORTER = JUnit
