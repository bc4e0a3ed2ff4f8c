"""Each output format of ``check``, read by the program that it is made for."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from autofix.cli import main
from autofix.report import formats
from autofix.report.formats.github import escaped
from tests import manual

HERE = Path(__file__).parent
BROKEN = """\
import torch
from torch import nn

net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
inputs, target = torch.randn(8, 4), torch.randn(8, 1)
é = [torch.zeros(8, 1)]
for step in range(100):
    output = net(inputs)
    average = torch.stack(é).mean(0)
    loss = (output - target).pow(2).mean() + 0.1 * (output - average).pow(2).mean()
    é.append(output)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FIXED = BROKEN.replace("(output)", "(output.detach())")


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Any:
    """A function that checks a file with a mistake, one without and one that does not parse, and returns the report."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    (tmp_path / "my code").mkdir()
    (tmp_path / "my code" / "train.py").write_text(BROKEN, encoding="utf-8")
    (tmp_path / "fine.py").write_text("x = 1\n")
    (tmp_path / "bad.py").write_text("x = (\n")

    def run(output_format: str, *options: str) -> str:
        assert main(["check", "--output-format", output_format, *options]) == 1
        return capsysbinary.readouterr().out.decode()

    return run


def test_full_shows_the_excerpt_and_ends_with_the_hint(report: Any) -> None:
    told = report("full")
    assert told.startswith("my code/train.py:12:5: AF101 [*] `é` carries the graph")
    assert "> 12 |     é.append(output)\n     |     ^^^^^^^^^^^^^^^^ kept here\n" in told
    assert re.search(r"\n  freed, failed +my code/train.py:14:5 +loss.backward\(\)\n", told)
    assert "\n  fix: store in `é` without the graph\n  more: autofix rule AF101\n\nFound 1 mistake" in told
    assert report("full", "-q").count("\n") == 1


def test_full_is_for_terminals_and_concise_for_programs(report: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert report("text") == report("concise")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", terminal := Terminal())
        assert main(["check"]) == 1
    assert ": autofix rule AF101\n" in terminal.getvalue()
    assert formats.default_of_check(to_file=True) == "concise"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_json_says_what_the_edits_are(report: Any) -> None:
    document = json.loads(report("json"))
    (finding,) = document["findings"]
    assert (finding["fixable"], finding["fixed"], finding["safe"]) == (True, False, True)
    assert applied(BROKEN, finding["edits"]) == FIXED
    assert {edit["file"] for edit in finding["edits"]} == {"my code/train.py"}
    (finding,) = json.loads(report("json", "--fix"))["findings"]
    assert finding["fixed"] is True


def test_json_is_what_the_published_schema_says(report: Any) -> None:
    assert manual.SCHEMA.read_text(encoding="utf-8") == manual.json_schema(), (
        "docs/schema.json is stale: run `make docs`"
    )
    validator = jsonschema.Draft202012Validator(json.loads(manual.json_schema()))
    document = json.loads(report("json"))
    validator.validate(document)
    document["findings"][0]["edits"][0]["content"] = 1
    assert not validator.is_valid(document)


def applied(text: str, edits: list[dict[str, Any]]) -> str:
    """*text* with the edits of a JSON report, by their lines and columns."""
    lines = text.splitlines(keepends=True)

    def offset(position: dict[str, int]) -> int:
        return sum(map(len, lines[: position["line"] - 1])) + position["column"] - 1

    for edit in sorted(edits, key=lambda edit: -offset(edit["start"])):
        text = text[: offset(edit["start"])] + edit["content"] + text[offset(edit["end"]) :]
    return text


def test_json_lines_are_the_objects_of_json(report: Any) -> None:
    document = json.loads(report("json"))
    finding, problem = (json.loads(line) for line in report("json-lines").splitlines())
    assert finding == {"type": "finding", **document["findings"][0]}
    assert problem == {"type": "problem", **document["problems"][0]}


def test_github_commands_are_of_one_line_each(report: Any) -> None:
    finding, problem = report("github").splitlines()
    start = "::error title=autofix (AF101),file=my code/train.py,line=12,col=5,endLine=12,endColumn=21::"
    assert finding.startswith(f"{start}my code/train.py:12:5: AF101 `é` carries")
    assert "%0Amy code/train.py:14:5: " in finding
    assert problem == "::error title=autofix,file=bad.py,line=1,col=5::bad.py:1:5: '(' was never closed"
    assert escaped("50%, a:b\n", more=":,") == "50%25%2C a%3Ab%0A"


def test_gitlab_has_what_code_quality_asks_for(report: Any) -> None:
    finding, problem = json.loads(report("gitlab"))
    for issue in (finding, problem):
        assert {"description", "check_name", "fingerprint", "severity", "location"} <= issue.keys()
        assert issue["severity"] in {"info", "minor", "major", "critical", "blocker"}
    assert finding["location"]["path"] == "my code/train.py"
    assert finding["location"]["positions"]["begin"] == {"line": 12, "column": 5}
    assert problem["location"] == {"path": "bad.py", "lines": {"begin": 1}}
    assert len({finding["fingerprint"], problem["fingerprint"]}) == 2


def test_fingerprints_survive_a_shift_of_lines(report: Any) -> None:
    before = json.loads(report("gitlab"))[0]
    Path("my code/train.py").write_text("# one line more\n" + BROKEN, encoding="utf-8")
    after = json.loads(report("gitlab"))[0]
    assert after["location"]["positions"]["begin"]["line"] == before["location"]["positions"]["begin"]["line"] + 1
    assert after["fingerprint"] == before["fingerprint"]


def test_sarif_is_valid_and_its_fix_repairs(report: Any) -> None:
    document = json.loads(report("sarif"))
    schema = json.loads((HERE / "schemas" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
    jsonschema.Draft4Validator(schema).validate(document)
    (run,) = document["runs"]
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "AF101"
    (change,) = result["fixes"][0]["artifactChanges"]
    assert change["artifactLocation"]["uri"] == "my%20code/train.py"
    edits = [
        {
            "start": {"line": one["deletedRegion"]["startLine"], "column": one["deletedRegion"]["startColumn"]},
            "end": {"line": one["deletedRegion"]["endLine"], "column": one["deletedRegion"]["endColumn"]},
            "content": one["insertedContent"]["text"],
        }
        for one in change["replacements"]
    ]
    assert applied(BROKEN, edits) == FIXED
    (problem,) = run["invocations"][0]["toolExecutionNotifications"]
    assert problem["message"]["text"] == "'(' was never closed"
    schema_of_nothing = jsonschema.Draft4Validator(schema)
    assert not schema_of_nothing.is_valid({"version": "2.1.0"})


def test_junit_counts_what_it_holds(report: Any) -> None:
    root = ElementTree.fromstring(report("junit"))
    assert {name: root.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "3",
        "failures": "1",
        "errors": "1",
    }
    suites = {suite.get("name"): suite for suite in root}
    assert set(suites) == {"bad.py", "fine.py", "my code/train.py"}
    (failure,) = suites["my code/train.py"].iter("failure")
    assert failure.get("type") == "AF101"
    assert (failure.text or "").startswith("my code/train.py:12:5: ")
    assert [*suites["bad.py"].iter("error")]


def test_rdjson_counts_bytes(report: Any) -> None:
    finding, problem = json.loads(report("rdjson"))["diagnostics"]
    assert finding["location"]["range"] == {"start": {"line": 12, "column": 5}, "end": {"line": 12, "column": 22}}
    (suggestion,) = finding["suggestions"]
    assert suggestion["text"] == ".detach()"
    assert suggestion["range"]["start"] == {"line": 12, "column": 21}
    assert problem["location"] == {"path": "bad.py", "range": {"start": {"line": 1, "column": 5}}}


@pytest.mark.parametrize("output_format", formats.OF_CHECK)
def test_a_report_to_a_file_is_the_report(report: Any, output_format: str) -> None:
    told = report(output_format)
    assert report(output_format, "--output-file", "report.txt") == ""
    assert Path("report.txt").read_text(encoding="utf-8") == told


def test_a_report_that_cannot_be_written_ends_with_2(report: Any, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["check", "--output-file", "no/such/folder.txt"]) == 2
    assert b"no/such/folder.txt cannot be written: no such file or directory." in capsysbinary.readouterr().err


@pytest.mark.parametrize("output_format", formats.OF_CHECK)
def test_nothing_to_report_is_a_whole_document(
    output_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fine.py").write_text("x = 1\n")
    assert main(["check", "--output-format", output_format]) == 0
    told = capsys.readouterr().out
    if output_format == "junit":
        assert [case.get("name") for case in ElementTree.fromstring(told).iter("testcase")] == ["no mistakes found"]
    elif output_format in ("json", "sarif", "gitlab", "rdjson"):
        json.loads(told)
    else:
        assert told in ("", "No mistakes found in 1 file.\n")
