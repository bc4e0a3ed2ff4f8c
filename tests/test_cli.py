"""The commands as a shell sees them: output, exit codes, and changes of files.  The engine is a stand-in."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autofix import __version__, engine, exits, repair  # noqa: F401 - repair is loaded before a test replaces the proof
from autofix.child.job import Watched
from autofix.child.recorded import RunError
from autofix.cli import main
from autofix.codemods.promises import Keeps
from autofix.codemods.rules.base import Codemod
from autofix.codemods.rules.registry import all_codemods
from autofix.engine import Analysis
from autofix.evidence.witness import Evidence
from autofix.project import files
from autofix.project.members import Project
from autofix.proof.promises import Promises
from autofix.proof.prove import Certificate, Limits, Original, Outcome, Point, RunRecord, Script, Verdict
from tests import fake_engine

BROKEN = "store = []\nfor h in x:\n    store.append(h)\nend = 1\n"
FIXED = BROKEN.replace("(h)", "(h.detach())")
HOPELESS = "a = 1\nhopeless.append(a)\nend = 1\n"
CLEAN = "x = 1\n"
LINES = """\
a.py:3:5: AF101 [*] `store`'s graph was already freed by the backward at line 4
a.py:3:18: note: the graph is made here, and used here
a.py:4:1: note: this backward frees the graph, and later reaches the freed graph
"""
PATCH = """\
--- a/a.py
+++ b/a.py
@@ -1,4 +1,4 @@
 store = []
 for h in x:
-    store.append(h)
+    store.append(h.detach())
 end = 1
"""


@dataclass
class Shell:
    """Runs the command line in a folder of its own."""

    capture: pytest.CaptureFixture[bytes]
    monkeypatch: pytest.MonkeyPatch
    out: str = ""
    err: str = ""
    raw: bytes = b""
    results: list[int] = field(default_factory=list)

    def run(self, *arguments: str, stdin: bytes = b"") -> int:
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        code = main(arguments)
        self.raw, error = self.capture.readouterr()
        self.out, self.err = self.raw.decode("utf-8", "replace"), error.decode()
        return code


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Shell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(engine, "analyse", fake_engine.analyse)
    return Shell(capsysbinary, monkeypatch)


def put(**texts: str) -> None:
    for name, text in texts.items():
        Path(f"{name}.py").write_text(text)


def contents(name: str = "a") -> str:
    return Path(f"{name}.py").read_text()


# check


def test_check_prints_the_cause_first_then_a_note_for_every_other_place(shell: Shell) -> None:
    put(a=BROKEN)
    assert shell.run("check") == 1
    assert shell.out == LINES + "Found 1 mistake (1 fixable with --fix).\n"
    assert shell.err == ""
    assert contents() == BROKEN


def test_check_finds_nothing(shell: Shell) -> None:
    put(a=CLEAN, b=CLEAN)
    assert shell.run("check") == 0
    assert shell.out == "No mistakes found in 2 files.\n"


def test_check_marks_what_it_cannot_fix(shell: Shell) -> None:
    put(a=HOPELESS)
    assert shell.run("check") == 1
    assert shell.out.startswith("a.py:2:1: AF101 `hopeless`'s graph")
    assert shell.out.endswith("Found 1 mistake (none with a safe fix).\n")


def test_check_without_python_files_says_so_and_is_content(shell: Shell) -> None:
    assert shell.run("check") == 0
    assert shell.err == "autofix: no Python files under .\n"


def test_check_sorts_by_path_however_the_paths_were_given(shell: Shell) -> None:
    put(a=BROKEN, b=BROKEN, c=BROKEN)
    shell.run("check", "c.py", "a.py", "b.py", "-q")
    assert [line.split(":")[0] for line in shell.out.splitlines()] == ["a.py", "b.py", "c.py"]


def test_check_quiet_prints_a_line_for_each_finding_and_nothing_else(shell: Shell) -> None:
    put(a=BROKEN, b=CLEAN)
    shell.run("check", "--quiet")
    assert shell.out == LINES.splitlines(keepends=True)[0]
    put(a=CLEAN)
    shell.run("check", "--quiet")
    assert shell.out == ""


def test_check_verbose_adds_the_remedy(shell: Shell) -> None:
    put(a=BROKEN)
    shell.run("check", "-v")
    assert f"a.py:3:5: help: {fake_engine.REMEDY}\n" in shell.out
    assert shell.err == "a.py: 1 mistake\n"


def test_check_absolute_prints_paths_that_any_program_can_open(shell: Shell, tmp_path: Path) -> None:
    put(a=BROKEN)
    shell.run("check", "--absolute")
    assert all(line.startswith(f"{tmp_path}/a.py:") for line in shell.out.splitlines()[:3])


def test_a_file_that_does_not_parse_is_one_line_and_the_others_go_on(shell: Shell) -> None:
    put(a="x = (\n", b=BROKEN)
    assert shell.run("check") == 1
    assert shell.err == "a.py:1:5: '(' was never closed\n"
    assert shell.out.startswith("b.py:3:5: AF101")
    assert shell.out.endswith("Found 1 mistake (1 fixable with --fix); 1 file could not be checked.\n")
    put(b=CLEAN)
    assert shell.run("check") == 1
    assert shell.out == "No mistakes found in 1 file; 1 file could not be checked.\n"


def test_a_file_that_cannot_be_decoded_is_one_line_too(shell: Shell) -> None:
    Path("a.py").write_bytes(b"x = 1\ny = '\xe4'\n")
    assert shell.run("check") == 1
    assert shell.err == "a.py:2:6: byte 0xe4 is not utf-8\n"


def test_a_file_that_vanishes_is_one_line_too(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    put(b=CLEAN)
    monkeypatch.setattr("autofix.commands.check.discover", lambda *_: [Path("a.py"), Path("b.py")])
    assert shell.run("check") == 1
    assert shell.err == "a.py:1:1: cannot be read: no such file or directory\n"


def test_a_bug_in_the_engine_is_reported_with_its_file_and_the_others_go_on(shell: Shell) -> None:
    put(a="boom()\n", b=BROKEN)
    assert shell.run("check") == 2
    assert shell.err == "a.py:1:1: internal error, please report it: ZeroDivisionError: boom\n"
    assert shell.out.startswith("b.py:3:5: AF101")
    assert shell.run("check", "-v") == 2
    assert "Traceback" in shell.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "missing.py"],
        ["check", "--fix", "--diff"],
        ["check", "-", "a.py"],
        ["check", "--output-format", "xml"],
        ["check", "--baseline", "known.json", "--write-baseline", "known.json"],
        ["check", "--output-format", "json", "--diff"],
        ["check", "--no-such-option"],
        ["run"],
        ["run", "missing.py"],
        ["run", "--steps", "0", "a.py"],
        ["run", "--timeout", "0", "a.py"],
        ["run", "--diff", "--fix", "a.py"],
        ["prove", "a.py"],
        ["nonsense"],
    ],
    ids=" ".join,
)
def test_a_wrong_call_ends_with_2_and_prints_nothing_on_standard_output(shell: Shell, arguments: list[str]) -> None:
    put(a=BROKEN)
    assert shell.run(*arguments) == 2
    assert shell.out == ""
    assert "Error: " in shell.err


def test_a_script_is_no_command(shell: Shell) -> None:
    assert shell.run("train.py") == 2
    assert shell.err.endswith("Error: File 'train.py' does not exist.\n")
    put(train=BROKEN)
    assert shell.run("train.py") == 2
    assert "`autofix check train.py` reads it, `autofix run train.py` executes it." in shell.err


def test_no_command_prints_the_help_and_ends_with_2(shell: Shell) -> None:
    assert shell.run() == 2
    assert "Commands:" in shell.out + shell.err


# check --diff


def test_diff_prints_the_patch_alone_and_writes_nothing(shell: Shell) -> None:
    put(a=BROKEN, b=CLEAN)
    assert shell.run("check", "--diff") == 1
    assert shell.out == PATCH
    assert contents() == BROKEN


def test_diff_of_nothing_is_empty(shell: Shell) -> None:
    put(a=HOPELESS, b=CLEAN)
    assert shell.run("check", "--diff") == 0
    assert shell.out == shell.err == ""


@pytest.mark.parametrize("tool", [["git", "apply"], ["patch", "-p1"]], ids=["git", "patch"])
def test_diff_can_be_applied_to_files_of_every_kind(shell: Shell, tmp_path: Path, tool: list[str]) -> None:
    originals = {
        "dos.py": BROKEN.replace("\n", "\r\n").encode(),
        "bom.py": b"\xef\xbb\xbf" + BROKEN.encode(),
        "latin.py": b"# coding: latin-1\n# \xe4\n" + BROKEN.encode(),
        "my scripts/no newline.py": BROKEN.encode().removesuffix(b"\nend = 1\n"),
        "separators.py": ("s = '\u2028'\n\f\n" + BROKEN).encode(),
        "second.py": (BROKEN + "#\n" * 20 + BROKEN).encode(),
    }
    for name, data in originals.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(data)
    assert shell.run("check", "--diff") == 1
    done = subprocess.run(tool, input=shell.raw, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    for name, data in originals.items():
        assert Path(name).read_bytes() == data.replace(b"append(h)", b"append(h.detach())")
    assert shell.run("check", "--diff") == 0


def test_diff_reports_a_file_that_does_not_parse_beside_it(shell: Shell) -> None:
    put(a="x = (\n", b=CLEAN)
    assert shell.run("check", "--diff") == 1
    assert shell.out == ""
    assert shell.err.startswith("a.py:1:5:")


# check --fix


def test_fix_rewrites_and_ends_with_0(shell: Shell) -> None:
    put(a=BROKEN)
    assert shell.run("check", "--fix") == 0
    assert shell.out == "Fixed 1 mistake.\n"
    assert contents() == FIXED
    assert shell.run("check", "--fix") == 0
    assert shell.out == "No mistakes found in 1 file.\n"


def test_fix_reports_what_is_left_where_it_is_now(shell: Shell) -> None:
    put(a=BROKEN + HOPELESS)
    assert shell.run("check", "--fix") == 1
    assert shell.out.startswith("a.py:6:1: AF101 `hopeless`'s graph")
    assert shell.out.endswith("Fixed 1 mistake, 1 left.\n")


def test_fix_that_cannot_be_written_is_one_line_and_the_others_are_fixed(shell: Shell) -> None:
    put(a=BROKEN, b=BROKEN)
    Path("a.py").chmod(0o444)
    assert shell.run("check", "--fix") == 1
    assert shell.err == "a.py:1:1: not written: the file is read-only\n"
    assert (contents("a"), contents("b")) == (BROKEN, FIXED)
    assert shell.out.startswith("a.py:3:5: AF101")


def test_fix_refuses_what_does_not_parse(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    put(a=BROKEN)

    def analyse(source: str, path: str, **_: Any) -> Analysis:
        found = fake_engine.analyse(source, path)
        return fake_engine.analysis(path, source, source + "(\n", found.findings)

    monkeypatch.setattr(engine, "analyse", analyse)
    for option in ("--fix", "--diff"):
        assert shell.run("check", option) == 1
        assert "not written: the patched text would not parse" in shell.err
        assert contents() == BROKEN


# check -


def test_standard_input_is_checked_under_the_name_that_it_is_given(shell: Shell) -> None:
    assert shell.run("check", "-", "-q", stdin=BROKEN.encode()) == 1
    assert shell.out.startswith("<stdin>:3:5: AF101")
    assert shell.run("check", "-", "--stdin-filename", "src/a.py", "-q", stdin=BROKEN.encode()) == 1
    assert shell.out.startswith("src/a.py:3:5: AF101")
    assert shell.run("check", "--stdin-filename", "src/a.py", "-q", stdin=BROKEN.encode()) == 1
    assert shell.out.startswith("src/a.py:3:5: AF101")
    put(a=BROKEN)
    assert shell.run("check", "--stdin-filename", "src/a.py", "a.py", stdin=b"") == 2
    assert "--stdin-filename names standard input" in shell.err


def test_standard_input_is_fixed_to_standard_output(shell: Shell) -> None:
    source = b"# coding: latin-1\r\n# \xe4\r\n" + BROKEN.replace("\n", "\r\n").encode()
    assert shell.run("check", "--fix", "-", stdin=source) == 0
    assert shell.raw == source.replace(b"append(h)", b"append(h.detach())")
    assert shell.err == "Fixed 1 mistake.\n"
    assert shell.run("check", "--fix", "-", stdin=CLEAN.encode()) == 0
    assert shell.out == CLEAN


def test_standard_input_that_does_not_parse_comes_back_as_it_was(shell: Shell) -> None:
    assert shell.run("check", "--fix", "-", stdin=b"x = (\n") == 1
    assert shell.raw == b"x = (\n"
    assert shell.err.startswith("<stdin>:1:5:")
    assert shell.run("check", "--fix", "-", stdin=b"x = '\xe4'\n") == 1
    assert shell.raw == b"x = '\xe4'\n"


def test_standard_input_as_a_patch(shell: Shell) -> None:
    assert shell.run("check", "--diff", "-", "--stdin-filename", "a.py", stdin=BROKEN.encode()) == 1
    assert shell.out == PATCH


# JSON


def test_json_of_check_is_what_the_readme_documents(shell: Shell) -> None:
    put(a=BROKEN, b="x = (\n")
    assert shell.run("check", "--output-format", "json") == 1
    document = json.loads(shell.out)
    finding = document.pop("findings")[0]
    assert document == {
        "version": 2,
        "autofix": __version__,
        "command": "check",
        "files": 1,
        "passes": {"written": 0, "missed": []},
        "problems": [{"file": "b.py", "line": 1, "column": 5, "reason": "'(' was never closed"}],
        "patch": PATCH,
        "written": [],
    }
    roles = finding.pop("roles")
    assert finding == {
        "code": "AF101",
        "name": "stored-tensor",
        "message": "`store`'s graph was already freed by the backward at line 4",
        "certainty": "certain",
        "fixable": True,
        "fixed": False,
        "safe": True,
        "needs_review": False,
        "fix": fake_engine.REMEDY,
        "edits": [
            {
                "file": "a.py",
                "start": {"line": 3, "column": 19},
                "end": {"line": 3, "column": 19},
                "content": ".detach()",
            }
        ],
    }
    assert [role["name"] for role in roles if role["cause"]] == ["kept"]
    assert roles[1] == {
        "name": "kept",
        "cause": True,
        "phrase": "kept here",
        "file": "a.py",
        "start": {"line": 3, "column": 5},
        "end": {"line": 3, "column": 20},
    }


def test_json_of_fix_names_what_was_written(shell: Shell) -> None:
    put(a=BROKEN)
    assert shell.run("check", "--fix", "--output-format", "json") == 0
    document = json.loads(shell.out)
    assert document["written"] == ["a.py"]
    assert document["patch"] == PATCH
    assert contents() == FIXED


# run and prove


def certificate(*verdicts: Verdict) -> Certificate:
    names = ["fails before", "clean after", "same until the failure", "still trains"]
    figures = {"losses": [0.5, float("nan")], "steps": 20}
    points = [
        Point(number, name, verdict, "20 steps", figures)
        for number, (name, verdict) in enumerate(zip(names, verdicts, strict=False), 1)
    ]
    before = RunRecord(Outcome.RAISED, RunError("RuntimeError", "a second time", line=3), seconds=1.5)
    return Certificate(tuple(points), before, RunRecord(Outcome.STOPPED, seconds=2.0))


PROVED = certificate(Verdict.PASSED, Verdict.PASSED)
FAILED = certificate(Verdict.PASSED, Verdict.FAILED, Verdict.NOT_PROVED)


@dataclass
class FakeRepair:
    project: Project
    analysis: Analysis
    certificate: Certificate | None = None
    refused: tuple[str, ...] = ()
    note: str = ""
    fails: bool = False
    evidence: tuple[Evidence, ...] = ()


def script(name: str, *args: str) -> Script:
    """A script of the working directory, which is its project's root."""
    return Script(Path(name), args=args, root=Path.cwd(), cwd=Path().absolute())


@dataclass
class Repairs:
    """A stand-in for the repair: returns the outcome that a test wants, and remembers its calls."""

    certificate: Certificate | None = PROVED
    refused: tuple[str, ...] = ()
    note: str = ""
    fails: bool = False
    calls: list[tuple[Script, Limits]] = field(default_factory=list)
    static: bool | None = None

    def repair(self, script: Script, limits: Limits, *, static: bool) -> FakeRepair:
        project = Project(script.path, files.read(script.path))
        self.static = static
        self.calls.append((script, limits))
        analysis = fake_engine.analyse(project.file.text, project.file.name)
        return FakeRepair(project, analysis, self.certificate, self.refused, self.note, self.fails)


@pytest.fixture
def repairs(monkeypatch: pytest.MonkeyPatch) -> Repairs:
    fake = Repairs()
    monkeypatch.setitem(sys.modules, "autofix.repair", SimpleNamespace(repair=fake.repair))
    return fake


def test_run_shows_cause_patch_and_proof_and_writes_nothing(shell: Shell, repairs: Repairs) -> None:
    put(a=BROKEN)
    assert shell.run("run", "a.py") == 0
    assert shell.out == (
        """\
a.py:3:5: AF101 `store`'s graph was already freed by the backward at line 4
  1 | store = []
  2 | for h in x:
> 3 |     store.append(h)
    |     ^^^^^^^^^^^^^^^ kept here
  4 | end = 1

  made, used     a.py:3:18  h
  freed, failed  a.py:4:1   end

fix: Detach what is stored.
"""
        + PATCH
        + """
  1 fails before  passed  20 steps
  2 clean after   passed  20 steps
Proved: the patched script trains.
Nothing was written; --fix writes the patch.
"""
    )
    assert contents() == BROKEN


def test_run_hands_options_and_arguments_on(shell: Shell, repairs: Repairs) -> None:
    put(a=BROKEN)
    Path("out").mkdir()
    options = ["--steps", "3", "--timeout", "9.5", "--seed", "7", "--python", "/opt/python"]
    options += ["--device", "cpu", "--memory", "2G", "--allow-network", "--allow-write", "out", "--allow-write", "a.py"]
    shell.run("run", *options, "a.py", "--fix", "--epochs", "3", "-v", "--", "-q", "--help")
    arguments = ("--fix", "--epochs", "3", "-v", "--", "-q", "--help")
    writable = (str(Path("out").resolve()), str(Path("a.py").resolve()))
    bounds = Limits("/opt/python", 3, 9.5, 7, device="cpu", network=True, writable=writable, memory=2 * 2**30)
    assert repairs.calls == [(script("a.py", *arguments), bounds)]
    assert contents() == BROKEN
    shell.run("run", "a.py")
    assert repairs.calls[1] == (script("a.py"), Limits(sys.executable))


@pytest.mark.parametrize(("size", "mebibytes"), [("500M", 500), ("4G", 4096), ("1.5GiB", 1536), ("1 tb", 2**20)])
def test_memory_is_written_as_people_write_it(shell: Shell, repairs: Repairs, size: str, mebibytes: int) -> None:
    put(a=BROKEN)
    shell.run("run", "--memory", size, "a.py")
    assert repairs.calls[0][1].memory == mebibytes * 2**20


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("--memory", "much", "'much' is no amount of memory; write 500M or 4G."),
        ("--memory", "4", "'4' is no amount of memory; write 500M or 4G."),
        ("--memory", "-4G", "'-4G' is no amount of memory; write 500M or 4G."),
        ("--memory", "10M", "10M is too little: torch alone takes 256M."),
        ("--allow-write", "no/such/folder", "Path 'no/such/folder' does not exist."),
        ("--timeout", "0", "0.0 is not in the range x>0."),
    ],
)
def test_a_bound_that_makes_no_sense_is_one_line(
    shell: Shell, repairs: Repairs, option: str, value: str, reason: str
) -> None:
    put(a=BROKEN)
    assert shell.run("run", option, value, "a.py") == 2
    assert (shell.out, shell.err.splitlines()[-1]) == ("", f"Error: Invalid value for '{option}': {reason}")
    assert not repairs.calls


def test_run_can_leave_out_what_the_source_tells(shell: Shell, repairs: Repairs) -> None:
    put(a=BROKEN)
    shell.run("run", "a.py")
    assert repairs.static is True
    shell.run("run", "--no-static", "a.py")
    assert repairs.static is False


def test_run_fix_writes_a_proved_patch(shell: Shell, repairs: Repairs) -> None:
    put(a=BROKEN)
    assert shell.run("run", "--fix", "a.py") == 0
    assert contents() == FIXED
    assert shell.out.endswith("Wrote a.py.\n")


@pytest.mark.parametrize("proof", [FAILED, None], ids=["failed", "not executed"])
def test_run_writes_and_hands_out_nothing_without_a_proof(
    shell: Shell, repairs: Repairs, proof: Certificate | None
) -> None:
    put(a=BROKEN)
    repairs.certificate, repairs.refused, repairs.note = proof, ("detach of h: w stops training",), "No GPU."
    assert shell.run("run", "--fix", "a.py") == 1
    assert "refused: detach of h: w stops training\nNo GPU.\n" in shell.out
    assert "Not proved" in shell.out
    assert shell.run("run", "--diff", "a.py") == 1
    assert shell.out == ""
    assert shell.err.startswith("Not proved")
    assert "No GPU." in shell.err
    assert contents() == BROKEN


def test_of_many_refused_candidates_the_first_are_told(
    shell: Shell, repairs: Repairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(a=BROKEN)
    repairs.certificate = FAILED
    repairs.refused = tuple(f"candidate {number}: {'word ' * 40}" for number in range(10))
    monkeypatch.setenv("COLUMNS", "60")
    shell.run("run", "a.py")
    told = [line for line in shell.out.splitlines() if line.startswith("refused: ")]
    assert len(told) == 8
    assert max(map(len, told)) <= 60
    assert "and 2 more; -v tells them all" in shell.out
    shell.run("run", "-v", "a.py")
    assert shell.out.count("refused: ") == 10


@pytest.fixture
def unwitnessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spares the run that a page's picture takes."""
    pytest.importorskip("graphlay", reason="the libraries for pages are not installed")
    monkeypatch.setattr("autofix.pages.witness", lambda script, limits: ())


@pytest.mark.usefixtures("unwitnessed")
def test_html_writes_a_page_beside_the_report(shell: Shell, repairs: Repairs) -> None:
    put(a=BROKEN)
    assert shell.run("run", "--html", "page.html", "a.py") == 0
    assert shell.out.endswith("Proved: the patched script trains.\nNothing was written; --fix writes the patch.\n"
                              "The page is page.html.\n")  # fmt: skip
    page = Path("page.html").read_text(encoding="utf-8")
    assert "store.append(h.detach())" in page and "Fix: Detach what is stored." in page
    assert sorted(path.name for path in Path().iterdir()) == ["a.py", "page.html"]
    assert shell.run("run", "--html", "page.html", "--output-format", "json", "a.py") == 0
    assert json.loads(shell.out)["command"] == "run"


@pytest.mark.usefixtures("unwitnessed")
def test_html_of_prove_shows_what_the_repair_changes(shell: Shell, prover: Prover) -> None:
    put(a=BROKEN, b=FIXED)
    assert shell.run("prove", "--html", "page.html", "a.py", "b.py") == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert "store.append(h.detach())" in page and "clean after" in page


def test_a_page_that_cannot_be_written_is_said_before_anything_runs(
    shell: Shell, repairs: Repairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(a=BROKEN)
    assert shell.run("run", "--html", "no/such/page.html", "a.py") == 2
    assert shell.err == "Error: no/such/page.html cannot be written: there is no such folder.\n"
    for module in ("autofix.report.page", "autofix.report.frame"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert shell.run("run", "--html", "page.html", "a.py") == 2
    assert shell.err == "Error: --html needs jinja2, which comes with: pip install 'torch-autofix[html]'\n"
    assert not repairs.calls


def test_run_diff_prints_the_patch_alone(shell: Shell, repairs: Repairs) -> None:
    put(a=BROKEN)
    assert shell.run("run", "--diff", "a.py") == 0
    assert shell.out == PATCH


def test_run_of_a_script_that_needs_no_repair(shell: Shell, repairs: Repairs) -> None:
    put(a=CLEAN)
    repairs.certificate, repairs.note = None, "The script runs; nothing to repair."
    assert shell.run("run", "a.py") == 0
    assert shell.out == "The script runs; nothing to repair.\n"


def test_run_of_a_script_for_which_no_repair_is_known(shell: Shell, repairs: Repairs) -> None:
    put(a=CLEAN)
    repairs.certificate, repairs.note, repairs.fails = None, "The script fails at line 1.", True
    assert shell.run("run", "a.py") == 1
    assert shell.out == "The script fails at line 1.\n"
    assert shell.run("run", "--diff", "a.py") == 1
    assert shell.out == ""


def test_run_wraps_long_details_at_the_width_of_the_screen(
    shell: Shell, repairs: Repairs, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(a=BROKEN)
    point = Point(1, "fails before", Verdict.PASSED, "word " * 40)
    repairs.certificate = Certificate((point,), PROVED.before, PROVED.after)
    monkeypatch.setenv("COLUMNS", "60")
    shell.run("run", "a.py")
    lines = [line for line in shell.out.splitlines() if "word" in line]
    assert lines[0].startswith("  1 fails before  passed  word ")
    assert {line.index("word") for line in lines} == {lines[0].index("word")}
    assert max(map(len, lines)) <= 60
    assert sum(line.count("word") for line in lines) == 40


def test_what_the_script_itself_cannot_show_is_said(shell: Shell, repairs: Repairs) -> None:
    put(a=BROKEN)
    short = Point(6, "memory flat", Verdict.NOT_PROVED, "too few steps to tell", optional=True)
    repairs.certificate = Certificate((*PROVED.points, short), PROVED.before, PROVED.after)
    assert shell.run("run", "a.py") == 0
    assert "Proved: the patched script trains; point 6 could not be shown.\n" in shell.out


def test_what_the_sandbox_left_open_is_said(shell: Shell, repairs: Repairs) -> None:
    put(a=BROKEN)
    open_ended = RunRecord(Outcome.STOPPED, open_ends=("the network is not closed off: no seccomp",))
    repairs.certificate = Certificate(PROVED.points, open_ended, open_ended)
    assert shell.run("run", "a.py") == 0
    assert "\n  note: the network is not closed off: no seccomp\nProved" in shell.out
    shell.run("run", "--output-format", "json", "a.py")
    assert json.loads(shell.out)["proof"]["remarks"] == ["the network is not closed off: no seccomp"]


def test_run_without_torch_says_how_to_name_another_interpreter(shell: Shell, repairs: Repairs) -> None:
    put(a=BROKEN)
    point = Point(1, "fails before", Verdict.NOT_PROVED, "the original could not be run: No module named 'torch'")
    repairs.certificate = Certificate((point,), RunRecord(Outcome.NOT_STARTED), RunRecord(Outcome.NOT_STARTED))
    assert shell.run("run", "--fix", "a.py") == 1
    reason = "the original could not be run: No module named 'torch'.  --python PATH takes another interpreter."
    assert shell.out.endswith(f"Not proved: {reason}\n")
    assert contents() == BROKEN


def test_run_of_a_script_that_cannot_be_read(shell: Shell, repairs: Repairs) -> None:
    Path("a.py").write_bytes(b"\xe4")
    assert shell.run("run", "a.py") == 1
    assert shell.err.startswith("a.py:1:1: byte 0xe4 is not utf-8")
    assert not repairs.calls


def test_json_of_run_holds_findings_patch_and_proof(shell: Shell, repairs: Repairs) -> None:
    put(a=BROKEN)
    repairs.certificate, repairs.refused = FAILED, ("one",)
    assert shell.run("run", "--output-format", "json", "a.py") == 1
    document = json.loads(shell.out)
    assert {key: document[key] for key in ("version", "command", "patch", "refused", "note", "written")} == {
        "version": 2,
        "command": "run",
        "patch": PATCH,
        "refused": ["one"],
        "note": "",
        "written": [],
    }
    assert document["evidence"] == []
    proof = document["proof"]
    assert (proof["proved"], proof["verdict"]) == (False, "failed")
    assert proof["points"][1] == {
        "number": 2,
        "name": "clean after",
        "verdict": "failed",
        "detail": "20 steps",
        "figures": {"losses": [0.5, "nan"], "steps": 20},
    }
    assert proof["before"]["error"] == {"type": "RuntimeError", "message": "a second time", "line": 3}
    assert proof["after"] == {"outcome": "stopped", "error": None, "steps": 0, "losses": [], "seconds": 2.0}


@pytest.mark.parametrize(("proof", "code"), [(PROVED, 0), (FAILED, 1)])
def test_prove_judges_two_scripts(shell: Shell, monkeypatch: pytest.MonkeyPatch, proof: Certificate, code: int) -> None:
    put(a=BROKEN, b=FIXED)
    calls = []

    def prove(original: Original, patched: Script, promises: Promises, **expected: object) -> Certificate:
        calls.append((unwatched(original.script), unwatched(patched), original.limits.steps))
        assert promises.made == {Keeps.INPUTS}
        return proof

    monkeypatch.setattr("autofix.proof.prove.prove", prove)
    assert shell.run("prove", "--steps", "5", "a.py", "b.py", "--epochs", "3") == code
    assert calls == [(script("a.py", "--epochs", "3"), script("b.py", "--epochs", "3"), 5)]
    assert "  2 clean after" in shell.out
    assert shell.run("prove", "--output-format", "json", "a.py", "b.py") == code
    assert json.loads(shell.out)["proof"]["proved"] is (code == 0)


def unwatched(script: Script) -> Script:
    return replace(script, watched=())


@dataclass
class Prover:
    """Stands in for :func:`autofix.proof.prove.prove` and remembers the scripts."""

    calls: list[tuple[Script, Script]] = field(default_factory=list)
    watched: list[tuple[tuple[Watched, ...], tuple[Watched, ...]]] = field(default_factory=list)

    def __call__(self, original: Original, patched: Script, *granted: object, **expected: object) -> Certificate:
        self.calls.append((unwatched(original.script), unwatched(patched)))
        self.watched.append((original.script.watched, patched.watched))
        return PROVED


@pytest.fixture
def prover(monkeypatch: pytest.MonkeyPatch) -> Prover:
    fake = Prover()
    monkeypatch.setattr("autofix.proof.prove.prove", fake)
    return fake


@pytest.mark.parametrize(
    "arguments",
    [
        ["--patch", "fix.diff", "a.py", "--epochs", "3"],
        ["a.py", "--patch", "fix.diff", "--epochs", "3"],
        ["--patch", "-", "a.py", "--epochs", "3"],
        ["a.py", "--patch", "-", "--epochs", "3"],
    ],
    ids=" ".join,
)
def test_prove_takes_a_diff_and_leaves_the_file_alone(shell: Shell, prover: Prover, arguments: list[str]) -> None:
    put(a=BROKEN)
    Path("fix.diff").write_text(PATCH)
    assert shell.run("prove", *arguments, stdin=PATCH.encode()) == 0
    before = script("a.py", "--epochs", "3")
    assert prover.calls == [(before, replace(before, text=FIXED))]
    (changed,) = ((before.spans, after.spans) for ((before,), (after,)) in prover.watched)
    assert changed == (((3, 3, 4, 19),), ((3, 3, 4, 28),))
    assert contents() == BROKEN
    assert shell.run("prove", "--output-format", "json", *arguments, stdin=PATCH.encode()) == 0
    assert json.loads(shell.out)["proof"]["proved"] is True


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["--root", "deep", "--patch", "fix.diff", "deep/b.py"],
            "fix.diff:2:1: a.py lies outside of deep, the project ",
        ),
        (["--patch", "fix.diff", "a.py"], "a.py:3:1: fix.diff does not fit: it expects `store.append(h)` here, and "),
        (["a.py", "--patch"], "Error: --patch requires an argument."),
        (["a.py", "--patch", "no.diff"], "Error: Invalid value: File 'no.diff' does not exist."),
        (["a.py"], "Error: Missing FIXED or --patch DIFF."),
        (["a.py", "no.py"], "Error: Invalid value: File 'no.py' does not exist."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_prove_without_a_repair_to_judge_ends_with_2(
    shell: Shell, prover: Prover, arguments: list[str], error: str
) -> None:
    put(a=FIXED.replace("append", "push"))
    Path("deep").mkdir()
    Path("deep/b.py").write_text(CLEAN)
    Path("fix.diff").write_text(PATCH)
    assert shell.run("prove", *arguments) == 2
    assert shell.out == ""
    assert error in shell.err.splitlines()[-1]
    assert not prover.calls


# rule and --select, with the real codemods


def test_rule_lists_every_codemod(shell: Shell) -> None:
    assert shell.run("rule") == 0
    assert [line.split()[0] for line in shell.out.splitlines()] == [codemod.code for codemod in all_codemods()]


@pytest.mark.parametrize("codemod", all_codemods(), ids=lambda codemod: codemod.code)
def test_rule_prints_the_documentation(shell: Shell, codemod: type[Codemod]) -> None:
    assert shell.run("rule", codemod.code.lower()) == 0
    assert shell.out.startswith(f"{codemod.code} {codemod.name}\n\n{codemod.title()}\n")
    by_code = shell.out
    assert shell.run("rule", codemod.name) == 0
    assert shell.out == by_code


@pytest.mark.parametrize("code", sorted({fact.code for codemod in all_codemods() for fact in codemod.answers}))
def test_rule_knows_the_codes_of_mistakes_that_are_left(shell: Shell, code: str) -> None:
    assert shell.run("rule", code) == 0
    assert shell.out.startswith(code)
    assert "Reported under this code where" in shell.out


def test_rule_of_an_unknown_code_is_one_line(shell: Shell) -> None:
    assert shell.run("rule", "AF999") == 2
    assert shell.out == ""
    assert shell.err == "Error: no code or name of a mistake begins with `AF999`; `autofix rule` lists them all\n"
    shell.run("rule", "stord-tensor")
    assert shell.err.endswith("begins with `stord-tensor`; did you mean `stored-tensor`?\n")


def test_select_takes_codes_and_prefixes(shell: Shell) -> None:
    put(a=BROKEN)
    assert shell.run("check", "--select", "AF7") == 0
    assert shell.run("check", "--select", "af7, AF10") == 1
    assert shell.run("check", "--select", "AF701", "--select", "AF101") == 1
    assert shell.run("check", "--select", "AF101,E501") == 2
    assert "--select: no code or name of a mistake begins with `E501`; `autofix rule` lists them all" in shell.err
    assert shell.run("check", "--ignore", "carried_stat3") == 2
    assert "begins with `carried_stat3`; did you mean `carried-state`?" in shell.err


# The rest


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["rule", "stored"], ["stored-tensor"]),
        (["check", "--select", "af40"], ["AF400", "AF401"]),
        (["check", "--output-format", "sa"], ["sarif"]),
    ],
    ids=" ".join,
)
def test_a_shell_completes_codes_and_names(words: list[str], found: list[str]) -> None:
    environment = os.environ | {
        "_AUTOFIX_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["autofix", *words]),
        "COMP_CWORD": str(len(words)),
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    program = "from autofix.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert [line.removeprefix("plain,") for line in done.stdout.splitlines()][: len(found)] == found


def test_version_and_help(shell: Shell) -> None:
    assert shell.run("--version") == 0
    assert shell.out == f"autofix {__version__}\n"
    assert shell.run("--help") == 0
    for line in exits.TABLE.splitlines():
        assert line in shell.out


@pytest.mark.parametrize("command", ["check", "run", "prove", "review", "rule"])
def test_every_command_has_examples(shell: Shell, command: str) -> None:
    assert shell.run(command, "--help") == 0
    assert "Examples:\n" in shell.out


def test_readme_repeats_the_exit_codes() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    for line in exits.TABLE.splitlines():
        assert line in readme


def test_colour_only_where_it_is_wanted(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    put(a=BROKEN)
    shell.run("check")
    assert "\x1b" not in shell.out
    monkeypatch.setenv("FORCE_COLOR", "1")
    shell.run("check")
    assert "\x1b[" in shell.out
    monkeypatch.setenv("NO_COLOR", "1")
    shell.run("check")
    assert "\x1b" not in shell.out


SLEEPY = """
import pathlib, time
from autofix import cli, engine

def analyse(*arguments, **options):
    pathlib.Path("started").touch()
    time.sleep(600)

engine.analyse = analyse
raise SystemExit(cli.main(["check", "."]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no process groups")
def test_an_interrupt_ends_many_workers_at_once(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.py").write_text(CLEAN)
    command = [sys.executable, "-c", SLEEPY]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    options: dict[str, Any] = {"cwd": tmp_path, "env": environment, "start_new_session": True}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        while process.poll() is None and not (tmp_path / "started").exists():
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err.strip()) == (130, b"", b"")


def spawn(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-m", "autofix", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, **options)


def test_runs_as_a_module(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = (\n")
    done = spawn("check", "a.py", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == "No mistakes found in 0 files; 1 file could not be checked.\n"
    assert done.stderr.startswith("a.py:1:")


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["check", "--help"]], ids=" ".join)
def test_says_who_it_is_without_loading_anything_heavy(arguments: list[str]) -> None:
    program = f"""
import sys
from autofix.cli import main
assert main({arguments!r}) == 0
heavy = sys.modules.keys() & {{"libcst", "torch", "rich", "unidiff", "autofix.engine", "autofix.proof.prove"}}
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
