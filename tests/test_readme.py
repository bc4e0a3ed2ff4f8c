"""README.md and the pages of docs/: the example behaves as shown, and all that they name exists."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}


def block(language: str, start: str) -> str:
    found = re.search(rf"```{language}\n({re.escape(start)}.*?)```", README, re.DOTALL)
    assert found is not None
    return found[1]


def told(output: str) -> list[str]:
    """Return the lines of *output* that must not differ: cause, patch, and the proof's names and verdicts.

    The other places of the story may be told better one day, and the figures are the machine's.
    """
    lines = [line for line in output.splitlines() if not re.match(r" +\d* \| ", line)]
    return [re.sub(r"^(  \d .*?  (passed|failed|not proved)).*", r"\1", line) for line in lines]


def test_the_example_does_what_the_readme_shows(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(block("python", "import torch"))
    shown = block("console", "$ autofix run train.py\n").splitlines(keepends=True)
    command = [sys.executable, "-m", "autofix", "run", "train.py"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "120"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert told(done.stdout) == told("".join(shown[1:]))
    assert len(done.stdout.splitlines()) < 40


def test_the_annotation_is_the_one_of_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from autofix.cli import main

    (tmp_path / "train.py").write_text(block("python", "import torch"))
    with contextlib.chdir(tmp_path):
        assert main(["check", "--output-format", "github", "train.py"]) == 1
    assert f"```text\n{capsys.readouterr().out}```" in PAGES["integrations.md"]


def test_every_command_is_described() -> None:
    from autofix.cli import cli

    named = set(re.findall(r"^## ([a-z]+):", PAGES["use.md"], re.MULTILINE))
    assert named == {name for name, command in cli.commands.items() if f"{name}.md" not in PAGES and not command.hidden}


def test_every_command_that_a_page_names_exists() -> None:
    from autofix.cli import cli

    for name, page in {"README.md": README, **PAGES}.items():
        for command in re.findall(r"(?:^|`)autofix ([a-z]+)", page, re.MULTILINE):
            assert command in cli.commands, name


def test_every_option_that_a_page_names_exists() -> None:
    from autofix.cli import cli

    known = {option for command in cli.commands.values() for one in command.params for option in one.opts}
    known |= {option for command in cli.commands.values() for one in command.params for option in one.secondary_opts}
    pages = README + "".join(PAGES[name] for name in ("use.md", "proof.md", "settings.md", "formats.md"))
    named = set(re.findall(r"(?<![-\w])--[a-z][a-z-]*", pages))
    assert {"--allow-network", "--allow-write", "--memory", "--timeout", "--patch", "--no-static"} <= named
    assert named - known <= {"--epochs", "--help", "--nproc"}  # of scripts and of torchrun


@pytest.mark.parametrize("name", ["README.md", *sorted(PAGES)])
def test_every_link_leads_somewhere(name: str) -> None:
    folder = ROOT if name == "README.md" else ROOT / "docs"
    text = re.sub(r"```.*?```|`[^`\n]*`", "", README if name == "README.md" else PAGES[name], flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", text):
        assert (folder / target).exists(), target


def test_every_page_is_listed() -> None:
    for listing in (README, PAGES["index.md"]):
        listed = {Path(target).name for target in re.findall(r"^\| \[[^]]+\]\(([^)]+)\)", listing, re.MULTILINE)}
        assert set(PAGES) - listed - {"index.md"} == set()


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("material")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--config-file", ".mkdocs.yml"]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run([*command, "--site-dir", str(tmp_path)], cwd=ROOT, env=environment, check=False)
    assert done.returncode == 0
    assert (tmp_path / "rules" / "index.html").exists()
