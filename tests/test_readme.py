"""README.md promises an example; here it is run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


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
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert told(done.stdout) == told("".join(shown[1:]))
    assert len(done.stdout.splitlines()) < 40


def test_every_command_that_the_readme_names_exists() -> None:
    from autofix.cli import cli

    named = set(re.findall(r"(?:^|`)autofix ([a-z]+)", README[README.index("## Use") :], re.MULTILINE))
    assert named == set(cli.commands)


def test_every_option_that_the_readme_names_exists() -> None:
    from autofix.cli import cli

    known = {option for command in cli.commands.values() for one in command.params for option in one.opts}
    known |= {option for command in cli.commands.values() for one in command.params for option in one.secondary_opts}
    use = README[README.index("## Use") : README.index("## Editors")]
    named = set(re.findall(r"(?<![-\w])--[a-z][a-z-]*", use))
    assert {"--allow-network", "--allow-write", "--memory", "--timeout", "--patch", "--no-static"} <= named
    assert named - known <= {"--epochs", "--help", "--nproc"}  # of scripts and of torchrun
