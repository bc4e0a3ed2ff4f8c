"""The hooks for pre-commit and the workflow of docs/: their commands exist and do as described."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autofix.cli import main
from tests.test_suppression import BROKEN

ROOT = Path(__file__).parents[1]
WORKFLOW = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
MANIFEST = ROOT / ".pre-commit-hooks.yaml"
yaml: Any = pytest.importorskip("yaml")


def hooks() -> dict[str, dict[str, Any]]:
    return {hook["id"]: hook for hook in yaml.safe_load(MANIFEST.read_text(encoding="utf-8"))}


def test_the_manifest_is_valid() -> None:
    pytest.importorskip("pre_commit")
    subprocess.run([sys.executable, "-m", "pre_commit", "validate-manifest", str(MANIFEST)], check=True)


@pytest.mark.parametrize(("name", "code"), [("autofix", 1), ("autofix-fix", 0)])
def test_a_hook_is_given_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(BROKEN)
    (tmp_path / "gen").mkdir()
    (tmp_path / "gen" / "train.py").write_text(BROKEN)
    (tmp_path / "autofix.toml").write_text('extend-exclude = ["gen"]\n')
    program, *arguments = shlex.split(hooks()[name]["entry"])
    assert program == "autofix"
    assert main([*arguments, "train.py", "gen/train.py"]) == code
    assert ((tmp_path / "train.py").read_text() == BROKEN) is (name == "autofix")
    assert (tmp_path / "gen" / "train.py").read_text() == BROKEN


def test_the_workflow_reports_and_then_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(BROKEN)
    block = re.search(r"```yaml\n# \.github/workflows/autofix\.yml\n(.*?)```", WORKFLOW, re.DOTALL)
    assert block is not None
    steps = yaml.safe_load(block[1])["jobs"]["autofix"]["steps"]
    calls = [shlex.split(step["run"])[1:] for step in steps if step.get("run", "").startswith("autofix ")]
    assert [main(call) for call in calls] == [0, 1]
    (upload,) = [step for step in steps if "upload-sarif" in step.get("uses", "")]
    assert (tmp_path / upload["with"]["sarif_file"]).stat().st_size > 1000


def test_the_settings_of_the_page_are_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from autofix.settings.discovery import Finder
    from autofix.settings.table import KEYS

    block = re.search(r"```toml\n(\[tool\.autofix\].*?)```", SETTINGS, re.DOTALL)
    assert block is not None
    (tmp_path / "pyproject.toml").write_text(block[1])
    settings = Finder().of(tmp_path / "train.py")
    assert settings.file == tmp_path / "pyproject.toml"
    assert all(re.search(rf"^{key} = |autofix\.{key}\]$", block[1], re.MULTILINE) for key in KEYS)
