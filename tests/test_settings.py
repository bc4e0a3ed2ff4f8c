"""Settings: the file that counts for a source, the effect of each key, and that the command line comes first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from autofix.cli import main
from autofix.codemods.rules.registry import all_codemods, names
from autofix.commands.launch import Bounds, with_settings
from autofix.report.formats import OF_CHECK
from autofix.settings.discovery import Finder, SettingsError
from autofix.settings.selection import Selection, UnknownCode, known
from autofix.settings.table import KEYS, Format
from tests.test_suppression import BROKEN, codes

ROOT = Path(__file__).parents[1]
LEGACY = "loss = net(x).data[0]\n"
Check = Callable[..., tuple[int, str]]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run(*options: str) -> tuple[int, str]:
        code = main(["check", "-q", *options])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


def put(**texts: str) -> None:
    for name, text in texts.items():
        path = Path(name.replace("__", "/") + (".py" if "toml" not in name else "").replace("_toml", ".toml"))
        path = Path(str(path).replace("_toml", ".toml"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_the_nearest_file_counts_and_nothing_of_the_others(check: Check) -> None:
    put(a=BROKEN, src__b=BROKEN, src__deep__c=BROKEN)
    put(pyproject_toml='[tool.autofix]\nignore = ["AF101"]\n', src__autofix_toml='select = ["AF101"]\n')
    put(src__deep__pyproject_toml="[tool.other]\n")  # holds no settings of this tool, and is passed over
    assert [line.split(":")[0] for line in check()[1].splitlines()] == ["src/b.py", "src/deep/c.py"]
    assert len(check("--isolated")[1].splitlines()) == 3


def test_of_the_files_in_one_folder_the_own_one_counts(check: Check) -> None:
    put(a=BROKEN, pyproject_toml='[tool.autofix]\nselect = ["AF2"]\n', autofix_toml='select = ["AF3"]\n')
    Path(".autofix.toml").write_text('select = ["AF101"]\n')
    assert codes(check()[1]) == ["AF101"]
    Path(".autofix.toml").unlink()
    assert check() == (0, "")


def test_a_file_that_is_named_counts_for_all(check: Check) -> None:
    put(a=BROKEN, b__c=BROKEN, b__autofix_toml='select = ["AF2"]\n', conf__mine_toml='ignore = ["AF101"]\n')
    assert codes(check()[1]) == ["AF101"]
    assert check("--config", "conf/mine.toml") == (0, "")
    assert check("--config", "no.toml")[0] == 2


def test_the_command_line_comes_first(check: Check) -> None:
    put(a=BROKEN, autofix_toml='select = ["AF2"]\nignore = ["AF101"]\noutput-format = "json"\n')
    assert json.loads(check()[1])["findings"] == []
    assert codes(check("--select", "AF1", "--output-format", "concise")[1]) == ["AF101"]
    assert check("--select", "stored", "--ignore", "AF1", "--output-format", "concise")[1].count("AF101") == 1
    assert check("--select", "AF1", "--ignore", "stored-tensor", "--output-format", "concise") == (0, "")
    put(autofix_toml='select = ["AF2"]\n')
    assert codes(check("--extend-select", "AF1")[1]) == ["AF101"]


def test_ignored_mistakes_are_not_repaired_either(check: Check) -> None:
    put(a=BROKEN, autofix_toml='ignore = ["AF101"]\n')
    assert check("--fix") == (0, "")
    assert Path("a.py").read_text() == BROKEN


def test_some_files_may_be_spared(check: Check) -> None:
    put(a=BROKEN, tests__b=BROKEN, autofix_toml='[per-file-ignores]\n"tests/*" = ["AF1"]\n"c.py" = ["all"]\n')
    assert [line.split(":")[0] for line in check()[1].splitlines()] == ["a.py"]
    assert check("tests/b.py", "--diff") == (0, "")


def test_files_are_left_out(check: Check) -> None:
    put(a=BROKEN, gen__b=BROKEN, build__c=BROKEN)
    assert [line.split(":")[0] for line in check()[1].splitlines()] == ["a.py", "gen/b.py"]
    put(autofix_toml='extend-exclude = ["gen"]\n')
    assert [line.split(":")[0] for line in check()[1].splitlines()] == ["a.py"]
    put(autofix_toml='exclude = ["a.*"]\n')  # in the place of the folders that are left out without settings
    assert [line.split(":")[0] for line in check()[1].splitlines()] == ["build/c.py", "gen/b.py"]
    assert [line.split(":")[0] for line in check("--exclude", "gen")[1].splitlines()] == ["a.py", "build/c.py"]
    assert check("--extend-exclude", "gen,build") == (0, "autofix: no Python files under .\n")
    assert check("a.py")[0] == 1
    assert check("a.py", "--force-exclude")[1] == "autofix: no Python files under a.py\n"


def test_unsafe_fixes_may_be_the_rule(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    from autofix import engine
    from tests import fake_engine

    asked = []

    def analyse(*arguments: Any, unsafe: bool, **others: Any) -> engine.Analysis:
        asked.append(unsafe)
        return fake_engine.analyse(*arguments, **others)

    monkeypatch.setattr(engine, "analyse", analyse)
    put(a=BROKEN, autofix_toml="unsafe-fixes = true\n")
    check()
    check("--no-unsafe-fixes")
    put(autofix_toml="")
    check()
    check("--unsafe-fixes")
    assert asked == [True, False, False, True]


def test_sources_may_lie_elsewhere(check: Check) -> None:
    put(lib__keeping="def keep(history, output):\n    history.append(output)\n")
    put(train="import keeping\n" + BROKEN.replace("history.append(output)", "keeping.keep(history, output)"))
    assert check("train.py") == (0, "")
    put(autofix_toml='src = ["lib"]\n')
    assert check("train.py")[1].startswith("lib/keeping.py:2:")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('selct = ["AF1"]', "unknown key `selct`; did you mean `select`?"),
        ("per_file_ignores = {}", "unknown key `per_file_ignores`; did you mean `per-file-ignores`?"),
        ("zzz = 1", f"unknown key `zzz`; known keys are {', '.join(KEYS)}"),
        ('select = "AF1"', "`select`: expected a list, got a string"),
        ("ignore = [1]", "`ignore[0]`: expected a string, got an integer"),
        ('unsafe-fixes = "yes"', "`unsafe-fixes`: expected true or false, got a string"),
        ("budget = 0", "`budget`: expected a number > 0.0"),
        ('budget = "9"', "`budget`: expected a number, got a string"),
        ('root = "gone"', "`root`: there is no folder `gone`"),
        ('output-format = "xml"', f"`output-format`: unknown format `xml`; known formats are {', '.join(OF_CHECK)}"),
        ('output-format = "ful"', "`output-format`: unknown format `ful`; did you mean `full`?"),
        ('select = ["E501"]', "no code or name of a mistake begins with `E501`; `autofix rule` lists them all"),
        (
            '[per-file-ignores]\n"a.py" = ["store-tensor"]',
            "no code or name of a mistake begins with `store-tensor`; did you mean `stored-tensor`?",
        ),
        ("select = [", "invalid value (at end of document)"),
    ],
)
def test_a_mistake_in_the_settings_is_one_line(check: Check, text: str, reason: str) -> None:
    put(a=BROKEN, autofix_toml=text)
    assert check() == (2, f"Error: autofix.toml: {reason}\n")
    put(autofix_toml="", pyproject_toml=f"[tool.autofix]\n{text}".replace("[per", "[tool.autofix.per"))
    Path("autofix.toml").unlink()
    assert check() == (2, f"Error: pyproject.toml: {reason}\n")


def test_a_file_of_its_own_has_no_table(check: Check) -> None:
    put(a=BROKEN, autofix_toml='[tool.autofix]\nselect = ["AF1"]')
    told = "the keys stand here without a table: leave out `[tool.autofix]`"
    assert check() == (2, f"Error: autofix.toml: {told}\n")


def test_a_byte_order_mark_is_no_setting(check: Check) -> None:
    put(a=BROKEN, pyproject_toml='\ufeff[tool.autofix]\nignore = ["AF1"]')
    assert check() == (0, "")


def test_a_broken_project_file_without_settings_is_not_for_this_tool(check: Check) -> None:
    put(a="x = 1\n", pyproject_toml="[tool.poetry]\nname = \n# autofix\n")
    assert check() == (0, "")


def bounds(**given: Any) -> Bounds:
    plain: Bounds = {
        "root": None,
        "cwd": None,
        "steps": 20,
        "timeout": 300.0,
        "budget": None,
        "python": None,
        "seed": 0,
        "device": None,
        "memory": None,
        "allow_network": False,
        "allow_write": (),
    }
    return {**plain, **given}  # type: ignore[typeddict-item]


def test_a_run_takes_root_budget_and_interpreter_from_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(src__train="x = 1\n")
    program, own = with_settings(["src/train.py"], bounds())
    assert (own["budget"], own["root"], program.python) == (600.0, None, sys.executable)
    os.symlink(sys.executable, "python")
    put(autofix_toml='root = "src"\nbudget = 9\npython = "./python"\n')
    program, own = with_settings(["src/train.py"], bounds())
    assert (own["budget"], program.script.root, program.python) == (9.0, tmp_path / "src", str(tmp_path / "python"))
    program, own = with_settings(["src/train.py"], bounds(budget=5.0, root=tmp_path))
    assert (own["budget"], program.script.root) == (5.0, tmp_path)


def test_every_code_has_its_name_before_the_rules_are_loaded() -> None:
    assert names() == {kind.code: kind.name for kind in all_codemods()}
    assert {"AF001", "AF100", "AF101"} <= known().keys()
    assert set(get_args(Format)) == set(OF_CHECK)


def test_the_closer_name_counts() -> None:
    assert Selection().select is None and not Selection().silent
    assert "AF101" in Selection(ignored=("AF1",)).silent
    assert "AF101" not in Selection(selected=("AF101",), ignored=("AF1",)).silent
    assert "AF101" in Selection(selected=("AF1",), ignored=("stored-tensor",)).silent
    assert Selection(selected=("AF10",), extended=("all",)).select == tuple(sorted(known()))
    with pytest.raises(UnknownCode):
        _ = Selection(selected=("AF999",)).select


def test_each_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "autofix.toml").write_text('select = ["AF1"]\n')
    finder = Finder()
    first = finder.of(tmp_path / "a" / "b" / "c.py")
    (tmp_path / "autofix.toml").write_text("broken")
    assert finder.of(tmp_path / "a" / "d.py") is first
    with pytest.raises(SettingsError):
        Finder().of(tmp_path / "a" / "d.py")


def test_without_settings_nothing_is_loaded_for_them() -> None:
    program = """
import sys
from autofix.commands.check import check
assert not sys.modules.keys() & {"msgspec", "jsonschema", "watchfiles", "autofix.settings.table"}
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
    assert msgspec.__version__


def test_watch_checks_again_after_every_change(tmp_path: Path) -> None:
    pytest.importorskip("watchfiles")
    (tmp_path / "a.py").write_text(BROKEN)
    report = tmp_path / "report.txt"
    command = [sys.executable, "-m", "autofix", "check", "--watch", "-q"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "WATCHFILES_FORCE_POLLING": "true"}
    with (
        report.open("wb") as stream,
        subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=stream, stderr=stream) as process,
    ):
        try:
            assert appears(report, "a.py:12:5: AF101")
            assert appears(report, "watching for changes")
            time.sleep(1)
            (tmp_path / "a.py").write_text("\n\n" + BROKEN)
            assert appears(report, "a.py:14:5: AF101")
        finally:
            process.terminate()


def appears(report: Path, text: str, seconds: float = 30) -> bool:
    """Whether *text* is in the report before the time is up."""
    end = time.monotonic() + seconds
    while text not in report.read_text() and time.monotonic() < end:
        time.sleep(0.1)
    return text in report.read_text()
