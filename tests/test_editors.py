"""The editor set-ups of docs/editors.md, tried on the real output of the command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from autofix.cli import cli

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
SCRIPT = """\
import torch
from torch import nn

net = nn.Linear(4, 4)
store = []
for step in range(10):
    h = net(torch.randn(2, 4))
    store.append(h)
    loss = sum(item.sum() for item in store)
    loss.backward()
"""
# What PyCharm makes of the macros in an output filter (com.intellij.execution.filters.RegexpFilter): absolute paths.
PYCHARM = {
    "$FILE_PATH$": r"(^|\W)(?P<file>(?:[A-Za-z]:|/)[0-9 a-z_A-Z\-\\./]+)",
    "$LINE$": r"(?P<line>[0-9]+)",
    "$COLUMN$": r"(?P<column>[0-9]+)",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "my project" / "src"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(SCRIPT)
    return folder.parent


def output(arguments: list[str], folder: Path) -> list[str]:
    """Run the command as an editor does and return the lines that it shows."""
    command = [sys.executable, "-m", "autofix", *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    return (done.stdout + done.stderr).splitlines()


def vs_code_task() -> dict[str, Any]:
    block = re.search(r"```json\n(\{\n  \"version\": \"2\.0\.0\".*?\n\})\n```", PAGE, re.DOTALL)
    assert block is not None
    task = json.loads(block[1])["tasks"][0]
    assert isinstance(task, dict)
    return task


def matches(pattern: dict[str, Any], lines: list[str]) -> list[dict[str, str]]:
    """Return the problems that VS Code reads from *lines* with one problem matcher's pattern."""
    found = [match for line in lines if (match := re.match(pattern["regexp"], line))]
    return [{key: match[group] for key, group in pattern.items() if key != "regexp"} for match in found]


def test_vs_code_reads_every_finding_and_every_note(project: Path) -> None:
    task = vs_code_task()
    arguments = [argument.replace("${workspaceFolder}", str(project)) for argument in task["args"]]
    lines = output(arguments, project)
    findings, notes = (matches(matcher["pattern"], lines) for matcher in task["problemMatcher"])
    assert [(found["file"], found["line"]) for found in findings] == [("src/train.py", "8")]
    assert findings[0]["code"].startswith("AF1")
    assert findings[0]["message"].startswith("`store` ")
    assert len(notes) == len(lines) - 2  # all but the finding and the summary
    for found in findings + notes:
        check_position(project / found["file"], found["line"], found["column"])


def test_vs_code_reads_paths_of_other_systems() -> None:
    pattern = vs_code_task()["problemMatcher"][0]["pattern"]
    (found,) = matches(pattern, [r"C:\my project\a.py:3:5: AF101 [*] what: a thing"])
    assert (found["file"], found["line"], found["column"]) == (r"C:\my project\a.py", "3", "5")
    assert (found["code"], found["message"]) == ("AF101", "what: a thing")


def test_vs_code_reads_what_could_not_be_checked(project: Path) -> None:
    (project / "src" / "bad.py").write_text("x = (\n")
    task = vs_code_task()
    lines = output([argument.replace("${workspaceFolder}", str(project)) for argument in task["args"]], project)
    errors, notes = (matches(matcher["pattern"], lines) for matcher in task["problemMatcher"])
    (problem,) = [found for found in errors if not found["code"]]
    assert (problem["file"], problem["line"], problem["column"]) == ("src/bad.py", "1", "5")
    assert problem["message"] == "'(' was never closed"
    assert len(errors) == 2 and len(errors) + len(notes) == len(lines) - 1  # all but the summary


def field(name: str) -> str:
    row = re.search(rf"^\| {name}[^|]*\| `([^`]+)`", PAGE, re.MULTILINE)
    assert row is not None
    return row[1]


def test_pycharm_links_every_position(project: Path) -> None:
    script = project / "src" / "train.py"
    assert field("Program") == "autofix"
    assert field("Working directory") == "$ContentRoot$"
    arguments = [argument.replace("$FilePath$", str(script)) for argument in field("Arguments").split()]
    expression = field("Output filters")
    for macro, regexp in PYCHARM.items():
        expression = expression.replace(macro, regexp)
    lines = output(arguments, project)
    links = [match for line in lines if (match := re.search(expression, line))]
    assert len(links) == len(lines) - 1  # all but the summary
    for link in links:
        assert Path(link["file"]) == script
        check_position(script, link["line"], link["column"])


def block(language: str, start: str) -> str:
    found = re.search(rf"```{language}\n({re.escape(start)}.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def options(element: ElementTree.Element) -> dict[str, str]:
    return {one.attrib["name"].lower(): one.attrib.get("value", "") for one in element.iter("option")}


def test_the_files_for_pycharm_say_what_the_table_says() -> None:
    tool = options(ElementTree.fromstring(block("xml", "<toolSet")))
    watcher = options(ElementTree.fromstring(block("xml", "<TaskOptions>")))
    assert tool["command"] == watcher["program"] == field("Program")
    assert tool["parameters"] == watcher["arguments"] == field("Arguments")
    assert tool["working_directory"] == watcher["workingdir"] == field("Working directory")
    assert tool["regexp"] == field("Output filters")
    assert watcher["regexp"] == f"{field('Output filters')}: $MESSAGE$"
    assert watcher["outputfromstdout"] == "true" and watcher["fileextension"] == "py"


def test_the_settings_of_other_editors_start_the_server() -> None:
    helix = tomllib.loads(block("toml", "[language-server.autofix]"))
    server = helix["language-server"]["autofix"]
    assert [server["command"], *server["args"]] == ["autofix", "server"]
    assert helix["language"][0]["language-servers"] == ["autofix"]
    assert PAGE.count('cmd = { "autofix", "server" }') == 2  # Neovim's two forms
    assert '("autofix" "server")' in block("elisp", "(with-eval-after-load")
    assert "server" in cli.commands
    assert json.loads(block("json", '{"editor')) == {"editor.codeActionsOnSave": {"source.fixAll.autofix": "explicit"}}


def check_position(path: Path, line: str, column: str) -> None:
    """Look that a position lies inside the text, on something that is not blank."""
    text = path.read_text().splitlines()[int(line) - 1]
    assert text[int(column) - 1 :].strip()
    assert not text[int(column) - 1].isspace()
