"""Results that are kept between checks: when they are used, when not, and that no fault of theirs harms a check."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from autofix import checking as checker
from autofix import engine
from autofix.cache import results
from autofix.cache.results import Results
from autofix.cache.store import NAME, Store, default_folder
from autofix.cache.values import document, value
from autofix.checking import Options, Problem, Result
from autofix.cli import cli
from autofix.codemods.facts.base import Span
from autofix.project import reading
from autofix.project.disk import Disk
from autofix.suppression.silencer import Silencer

LOOP = """\
import torch
from torch import nn

net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
store = []
for step in range(10):
    h = net(torch.randn(2, 4))
    store.append(h)
    loss = sum(item.sum() for item in store)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SOUND = LOOP.replace("store.append(h)", "store = [h]  # and no more")
IMPORTS = """\
import torch
from helper import keep

net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
store = []
for step in range(10):
    h = net(torch.randn(2, 4))
    store.append(keep(h))
    loss = h.sum() + sum(item.sum() for item in store)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
DETACHES = "def keep(h):\n    return h.detach()\n"
KEEPS = "def keep(h):\n    return h\n"


@pytest.fixture
def analyses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were analysed."""
    names: list[str] = []
    inside = engine.analyse

    def noted(text: str, path: str, **options: object) -> engine.Analysis:
        names.append(Path(path).name)
        return inside(text, path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(engine, "analyse", noted)
    return names


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Result | Problem]]:
    """Checks files by name, each time as a new command would, with the results that earlier checks have kept."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path / "project")

    def call(*names: str, options: Options | None = None) -> list[Result | Problem]:
        chosen = options or Options()
        kept = Results(Store(tmp_path / "kept"))
        return list(checker.check([Path(name) for name in names], lambda _: chosen, results=kept))

    return call


def found(outcomes: Sequence[Result | Problem]) -> list[str]:
    return [one.code for outcome in outcomes if isinstance(outcome, Result) for one in outcome.analysis.findings]


Check = Callable[..., list[Result | Problem]]


def test_a_second_check_finds_the_same_and_analyses_nothing(check: Check, analyses: list[str]) -> None:
    Path("train.py").write_text(LOOP)
    Path("plain.py").write_text("x = 1\n")
    Path("wrong.py").write_text("x = (\n")
    first = check("plain.py", "train.py", "wrong.py")
    assert analyses == ["plain.py", "train.py"]
    assert found(first) == ["AF101"]
    second = check("plain.py", "train.py", "wrong.py")
    assert analyses == ["plain.py", "train.py"]
    assert second[2] == first[2]
    assert isinstance(first[0], Result) and not first[0].file.text  # it has nothing to tell
    for one, other in zip(first[:2], second[:2], strict=True):
        assert isinstance(one, Result) and isinstance(other, Result)
        assert one.project == other.project
        assert one.analysis.findings == other.analysis.findings
        assert [finding.others for finding in one.analysis.findings] == [
            finding.others for finding in other.analysis.findings
        ]
        assert one.analysis.program == other.analysis.program
        assert one.edits == other.edits
        assert one.analysis.passes == other.analysis.passes


def test_a_changed_file_is_analysed_again(check: Check, analyses: list[str]) -> None:
    Path("train.py").write_text(LOOP)
    check("train.py")
    Path("train.py").write_text(SOUND)
    assert not found(check("train.py"))
    assert len(analyses) == 2


def test_a_change_that_leaves_size_and_time_is_seen(check: Check) -> None:
    Path("train.py").write_text(SOUND)
    before = os.stat("train.py")
    assert not found(check("train.py"))
    Path("train.py").write_text(LOOP.ljust(before.st_size, "\n"))
    os.utime("train.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat("train.py").st_size == before.st_size
    assert found(check("train.py")) == ["AF101"]


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the file system never stands still: a file may be recognized right after its last change."""
    monkeypatch.setattr(results, "SETTLED", -1)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were read."""
    names: list[str] = []
    inside = reading.read

    def noted(path: Path, most: int = reading.LARGEST_SOURCE) -> bytes:
        names.append(path.name)
        return inside(path, most)

    monkeypatch.setattr(reading, "read", noted)
    return names


@pytest.mark.usefixtures("settled")
def test_an_unchanged_file_is_not_read_again(check: Check, reads: list[str]) -> None:
    Path("plain.py").write_text("x = 1\n")
    Path("train.py").write_text(IMPORTS)
    Path("helper.py").write_text(DETACHES)
    check("helper.py", "plain.py", "train.py")
    reads.clear()
    assert not found(check("helper.py", "plain.py", "train.py"))
    assert not [name for name in reads if name.endswith(".py") and name != "setup.py"]


@pytest.mark.usefixtures("settled")
def test_a_file_with_findings_is_read_for_its_report(check: Check, reads: list[str]) -> None:
    Path("train.py").write_text(LOOP)
    check("train.py")
    reads.clear()
    outcome = check("train.py")[0]
    assert isinstance(outcome, Result)
    assert outcome.file.text == LOOP
    assert reads.count("train.py") == 1


@pytest.mark.usefixtures("settled")
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no time of the last change")
def test_a_time_that_was_set_back_hides_no_change(check: Check) -> None:
    Path("train.py").write_text(SOUND)
    before = os.stat("train.py")
    assert not found(check("train.py"))
    Path("train.py").write_text(LOOP + "#" * (len(SOUND) - len(LOOP)))
    os.utime("train.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat("train.py").st_size == before.st_size
    assert found(check("train.py")) == ["AF101"]


def test_a_file_that_has_just_changed_is_read_again(check: Check, reads: list[str]) -> None:
    Path("plain.py").write_text("x = 1\n")
    check("plain.py")
    reads.clear()
    check("plain.py")
    assert "plain.py" in reads


@pytest.mark.usefixtures("settled")
def test_a_file_that_changes_while_it_is_recognized_is_read(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("train.py").write_text(LOOP)
    inside = Disk.digest

    def changing(disk: Disk, path: str) -> str:
        known = inside(disk, path)
        Path("train.py").write_text(SOUND)
        return known

    with monkeypatch.context() as during:
        during.setattr(Disk, "digest", changing)
        check("train.py")
    assert not found(check("train.py"))


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="a system without names for pipes")
def test_the_data_of_a_pipe_is_read_once_and_analysed(check: Check) -> None:
    reader, writer = os.pipe()
    try:
        os.write(writer, LOOP.encode())
        os.close(writer)
        assert found(check(f"/dev/fd/{reader}")) == ["AF101"]
    finally:
        os.close(reader)


def test_a_changed_module_that_is_imported(check: Check, analyses: list[str]) -> None:
    Path("train.py").write_text(IMPORTS)
    Path("helper.py").write_text(DETACHES)
    assert not found(check("train.py"))
    check("train.py")
    assert analyses == ["train.py"]
    Path("helper.py").write_text(KEEPS)
    assert found(check("train.py")) == ["AF101"]
    assert found(check("train.py")) == ["AF101"]
    assert analyses == ["train.py"] * 2


def test_a_module_that_appears_where_it_was_missing(check: Check) -> None:
    Path("train.py").write_text(IMPORTS)
    before = [one for outcome in check("train.py") if isinstance(outcome, Result) for one in outcome.project.companions]
    assert not before
    Path("helper.py").write_text(KEEPS)
    (after,) = check("train.py")
    assert isinstance(after, Result)
    assert [*after.project.companions] == ["helper.py"]


def test_a_package_that_appears_before_a_module(check: Check) -> None:
    Path("train.py").write_text(IMPORTS)
    Path("helper.py").write_text(DETACHES)
    assert not found(check("train.py"))
    Path("helper").mkdir()
    Path("helper", "__init__.py").write_text(KEEPS)
    assert found(check("train.py")) == ["AF101"]


def test_a_module_that_goes(check: Check) -> None:
    Path("train.py").write_text(IMPORTS)
    Path("helper.py").write_text(DETACHES)
    check("train.py")
    Path("helper.py").unlink()
    (after,) = check("train.py")
    assert isinstance(after, Result)
    assert not after.project.companions


def test_the_import_path_of_the_project(check: Check) -> None:
    Path("train.py").write_text(IMPORTS)
    Path("lib").mkdir()
    Path("lib", "helper.py").write_text(KEEPS)
    (before,) = check("train.py")
    assert isinstance(before, Result)
    assert not before.project.companions
    Path("pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["lib"]\n')
    assert found(check("train.py")) == ["AF101"]


def test_other_options_are_another_result(check: Check, analyses: list[str]) -> None:
    Path("train.py").write_text(LOOP)
    assert found(check("train.py")) == ["AF101"]
    assert not found(check("train.py", options=Options(select=("AF2",))))
    silent = Options(silence=Silencer(codes=("AF101",)))
    (outcome,) = check("train.py", options=silent)
    assert isinstance(outcome, Result)
    (again,) = check("train.py", options=silent)
    assert isinstance(again, Result)
    assert [one.code for one in again.analysis.silenced] == ["AF101"]
    assert again.analysis.silenced == outcome.analysis.silenced
    assert again.options is silent
    assert len(analyses) == 3


def test_options_with_a_function_are_kept_by_nobody(check: Check, analyses: list[str]) -> None:
    Path("train.py").write_text(LOOP)
    for _ in range(2):
        check("train.py", options=Options(silence=lambda _program, findings: findings))
    assert len(analyses) == 2


def test_another_version_makes_other_results(
    check: Check, analyses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("train.py").write_text(LOOP)
    check("train.py")
    monkeypatch.setattr("autofix.cache.results.stamp", lambda: "another")
    check("train.py")
    assert len(analyses) == 2


def test_what_time_has_cut_short_is_not_kept(
    check: Check, analyses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("train.py").write_text(LOOP + "print()\n" * 500)  # no machine reads it within a tick of the timer
    monkeypatch.setattr("autofix.budget.SECONDS", 1e-6)
    assert found(check("train.py")) == []
    analyses.clear()  # the time may be over before the analysis begins
    monkeypatch.setattr("autofix.budget.SECONDS", 120.0)
    assert found(check("train.py")) == ["AF101"]
    assert len(analyses) == 1


@pytest.mark.parametrize("damage", ["no database", "cut off", "other table", "other texts", "a folder"])
def test_a_damaged_file_costs_a_check_and_nothing_else(check: Check, tmp_path: Path, damage: str) -> None:
    Path("train.py").write_text(LOOP)
    kept = tmp_path / "kept" / NAME
    check("train.py")
    if damage == "other texts":
        with sqlite3.connect(kept) as connection:
            connection.execute("UPDATE results SET value = ?", ['[null, {"companions": [], "findings": ["Path", 1]}]'])
        connection.close()
    elif damage == "other table":
        with sqlite3.connect(kept) as connection:
            connection.execute("DROP TABLE results")
            connection.execute("CREATE TABLE results (key)")
        connection.close()
    elif damage == "a folder":
        kept.unlink()
        kept.mkdir()
    else:
        data = kept.read_bytes()
        kept.write_bytes(b"x" * 10_000 if damage == "no database" else data[: len(data) // 2])
    for _ in range(3):
        assert found(check("train.py")) == ["AF101"]


def test_a_damaged_file_is_begun_anew(check: Check, tmp_path: Path, analyses: list[str]) -> None:
    Path("train.py").write_text(LOOP)
    check("train.py")
    (tmp_path / "kept" / NAME).write_bytes(b"x" * 10_000)
    for _ in range(4):
        check("train.py")
    assert len(analyses) in (2, 3)  # of the first check, of the one that found the damage, and of the next


def test_a_folder_that_cannot_be_made(check: Check, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a file")
    Path("train.py").write_text(LOOP)
    for _ in range(2):
        assert found(check("train.py")) == ["AF101"]


def test_a_folder_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "train.py").write_text(LOOP)
    monkeypatch.setattr(os, "access", lambda path, *_, **__: Path(path).name != "kept")
    told = CliRunner().invoke(cli, ["check", "-q", "--cache-dir", str(tmp_path / "kept"), str(tmp_path / "train.py")])
    assert "AF101" in told.output


def test_a_locked_file_is_not_waited_for_long(check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("train.py").write_text(LOOP)
    check("train.py")
    monkeypatch.setattr("autofix.cache.store.PATIENCE", 0.1)
    with sqlite3.connect(tmp_path / "kept" / NAME) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert found(check("train.py")) == ["AF101"]
        Path("train.py").write_text(f"{LOOP}\n")
        assert found(check("train.py")) == ["AF101"]
        other.rollback()
    other.close()


def test_without_a_home_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    assert default_folder() is None or sys.platform == "win32"


def test_what_is_written_down_comes_back() -> None:
    told = (1, None, "é", (Span("a.py", 1, 2, 3, 4),), True)
    assert value(json.loads(json.dumps(document(told)))) == told
    for wrong in (["Path", "a"], {"a": 1}, [[1]], [], ["Span", 1]):
        with pytest.raises(ValueError):  # noqa: PT011 - whatever it says, the row is none
            value(wrong)
    with pytest.raises(TypeError):
        document(Path("a.py"))


# From outside --------------------------------------------------------------------------------------------------------


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {"AUTOFIX_CACHE_DIR": str(folder.parent / "kept"), "AUTOFIX_NO_CACHE": ""}
    command = [sys.executable, "-m", "autofix", "check", *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)


def autofix(folder: Path, *arguments: str, code: int | None = None) -> str:
    """Output of the command ``check``, called in this process."""
    environment = {"AUTOFIX_CACHE_DIR": str(folder.parent / "kept"), "AUTOFIX_NO_CACHE": ""}
    with contextlib.chdir(folder):
        done = CliRunner().invoke(cli, ["check", *arguments], env=environment)
    assert code is None or done.exit_code == code, done.output
    return done.output


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    (folder / "train.py").write_text(LOOP)
    (folder / "quiet.py").write_text(LOOP.replace("append(h)", "append(h)  # autofix: ignore"))
    (folder / "main.py").write_text(IMPORTS)
    (folder / "helper.py").write_text(KEEPS)
    return folder


@pytest.mark.parametrize("form", ["full", "concise", "json", "sarif", "gitlab", "diff"])
def test_every_format_is_the_same_from_the_cache(project: Path, form: str) -> None:
    wanted = ["--diff"] if form == "diff" else ["--output-format", form]
    plain = autofix(project, "--no-cache", *wanted)
    assert not (project.parent / "kept").exists()
    assert [autofix(project, *wanted) for _ in range(2)] == [plain, plain]
    assert "train.py" in plain


def test_a_repair_from_the_cache_is_that_of_the_file_as_it_is(project: Path) -> None:
    autofix(project)
    (project / "train.py").write_text(f"# changed\n{LOOP}")
    autofix(project, "--fix", "train.py")
    fixed = (project / "train.py").read_text()
    assert fixed.startswith("# changed\n")
    assert [line for line in fixed.splitlines() if line.strip() not in LOOP] == [
        "# changed",
        "    store[-1] = store[-1].detach()",
    ]
    (project / "train.py").write_text(LOOP)
    autofix(project, "--fix", "train.py")
    assert (project / "train.py").read_text() == fixed.removeprefix("# changed\n")
    assert "No mistakes" in autofix(project, "train.py", code=0)


def test_a_hit_loads_neither_libcst_nor_the_interpreter(project: Path) -> None:
    script = (
        "import sys; from autofix.cli import main\n"
        "try: main(['check', '--quiet'])\n"
        "except SystemExit: pass\n"
        "late = ('libcst', 'autofix.engine', 'autofix.codemods.interpreter.interpreter')\n"
        "print([one for one in late if one in sys.modules])"
    )
    environment = os.environ | {"AUTOFIX_CACHE_DIR": str(project.parent / "kept"), "AUTOFIX_NO_CACHE": ""}

    def loaded() -> str:
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()[-1]

    assert "libcst" in loaded()
    assert loaded() == "[]"


def test_two_processes_at_once(project: Path) -> None:
    for number in range(4):
        (project / f"more{number}.py").write_text(LOOP.replace("range(10)", f"range({number + 5})"))
    told = [done.communicate()[0] for done in [started(project), started(project)]]
    assert told == [autofix(project)] * 2 == [autofix(project, "--no-cache")] * 2
