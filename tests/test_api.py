"""The Python API: typed results of the cores that the commands call."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

import autofix
from autofix.cli import main

ROOT = Path(__file__).parents[1]
BROKEN = """\
import torch
from torch import nn

net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
store = []
for step in range(100):
    h = net(torch.randn(2, 4))
    store.append(h)
    loss = sum(item.sum() for item in store)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FIXED = BROKEN.replace("store.append(h)", "store.append(h.detach())")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(BROKEN)
    return tmp_path


def test_check_returns_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    found = autofix.check("train.py")
    assert main(["check", "--output-format", "json", "train.py"]) == 1
    printed = json.loads(capsys.readouterr().out)
    (finding,), (shown,) = found.findings, printed["findings"]
    assert (finding.code, finding.name, finding.message) == (shown["code"], shown["name"], shown["message"])
    assert (finding.fix, finding.certainty) == (shown["fix"], shown["certainty"])
    assert finding.fixable and finding.safe and not finding.fixed
    assert str(finding.place) == "train.py:9:5"
    assert [one.role for one in finding.story] == [role["name"] for role in shown["roles"]]
    assert [one.place.line for one in finding.story] == [role["start"]["line"] for role in shown["roles"]]
    assert [one.content for one in finding.edits] == [edit["content"] for edit in shown["edits"]]
    assert found.patch == printed["patch"]
    assert found.patched == {"train.py": found.patched["train.py"]} and ".detach()" in found.patched["train.py"]
    assert not found.clean and not found.written
    assert Path("train.py").read_text() == BROKEN


def test_check_reads_source_text_and_what_it_imports(folder: Path) -> None:
    (folder / "model.py").write_text("def features(net, x):\n    return net(x)\n")
    text = BROKEN.replace("import torch\n", "import torch\nfrom model import features\n").replace(
        "net(torch", "features(net, torch"
    )
    (finding,) = autofix.check(source=text, filename="new.py").findings
    assert finding.place.path == "new.py"
    assert "model.py" in {one.place.path for one in finding.story}


def test_check_writes_only_what_is_asked_for() -> None:
    found = autofix.check("train.py", fix=True)
    assert found.written == ("train.py",)
    assert found.findings[0].fixed
    assert Path("train.py").read_text() == found.patched["train.py"]
    assert autofix.check().clean


def test_settings_and_comments_apply(folder: Path) -> None:
    assert autofix.check(ignore=["AF1"]).clean
    (folder / "autofix.toml").write_text('ignore = ["stored-tensor"]\n')
    assert autofix.check().clean
    assert not autofix.check(isolated=True).clean


def test_a_file_that_cannot_be_read_is_a_problem(folder: Path) -> None:
    (folder / "bad.py").write_text("x = (\n")
    found = autofix.check("bad.py", "missing.py")
    assert [str(problem).partition(": ")[0] for problem in found.problems] == ["bad.py:1:5", "missing.py:1:1"]
    assert not found.clean and not found.findings


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: autofix.check("train.py", source="x = 1"),
        lambda: autofix.check(select=["AF9"]),
        lambda: autofix.check(select="AF1"),
        lambda: autofix.run("missing.py"),
        lambda: autofix.run([]),
        lambda: autofix.run("train.py", steps=0),
        lambda: autofix.prove("train.py"),
        lambda: autofix.prove("train.py", "fixed.py", against="HEAD"),
        lambda: autofix.prove("train.py", patch="no diff"),
    ],
)
def test_a_wrong_call_is_one_kind_of_error(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(autofix.AutofixError, match=r"\w"):
        wrong()


def test_results_are_frozen() -> None:
    found = autofix.check("train.py")
    with pytest.raises(FrozenInstanceError):
        found.patch = ""  # type: ignore[misc]


def test_run_and_prove_agree(folder: Path) -> None:
    done = autofix.run("train.py")
    assert done.proved and done.proof is not None and not done.fails
    assert [point.number for point in done.proof.points] == [1, 2, 3, 4, 5, 6]
    assert "second time" in done.proof.before.error and done.proof.before.error_line == 12
    assert done.proof.after.error == "" and done.proof.after.steps > done.proof.before.steps
    assert Path("train.py").read_text() == BROKEN
    judged = autofix.prove("train.py", patch=done.patch)
    assert judged.proved
    assert [(one.number, one.verdict) for one in judged.points] == [(p.number, p.verdict) for p in done.proof.points]


def test_importing_is_cheap_and_needs_no_torch() -> None:
    code = (
        "import sys, autofix; early = set(sys.modules)\n"
        "assert not {'click', 'libcst', 'torch', 'msgspec'} & early, early\n"
        "found = autofix.check(source='x = 1'); assert found.clean and found.files == 1\n"
        "assert not {'torch', 'numpy'} & set(sys.modules)\n"
        "assert {'check', 'run', 'prove'} <= set(dir(autofix))\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_packages_say_that_they_are_typed() -> None:
    assert (ROOT / "autofix" / "py.typed").is_file() and (ROOT / "codemods" / "py.typed").is_file()


def test_an_edit_belongs_to_the_findings_of_programs_that_read_its_file() -> None:
    """No story of the one happens in the file that its patch changes; the other is another program."""
    names = ("out_of_place_replica_buffers_project", "detach_stored")
    report = autofix.check(*(Path(__file__).parent.parent / "fixtures" / name for name in names))
    changed = {one.code: {Path(edit.place.path).parts[-3:] for edit in one.edits} for one in report.findings}
    assert changed["AF201"] == {(names[0], "broken", "encoder.py")}
    assert changed["AF101"] == {("fixtures", names[1], "broken.py")}


def test_a_finding_that_one_program_makes_certain_is_told_as_certain() -> None:
    """The file with the mistake, read alone, leaves a question open that its caller settles."""
    folder = Path(__file__).parent.parent / "fixtures" / "guard_features_fake_in_a_batch_project" / "broken"
    (finding,) = autofix.check(folder).findings
    assert finding.fixable
    assert finding.certainty == "certain"
