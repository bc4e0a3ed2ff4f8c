"""Helpers for tests of campaigns: a stand-in for autofix that behaves as a repository says, and the call with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

STAND_IN = '''\
"""Called as autofix is, in a repository: notes the start, and does what the file `behaviour` says."""
import json, os, pathlib, signal, subprocess, sys, time

here = pathlib.Path()
does = json.loads((here / "behaviour").read_text())
with open(here / "starts", "a") as file:
    file.write(os.environ.get("WORKER", "") + "\\n")
starts = len((here / "starts").read_text().splitlines())
if does.get("daemon"):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
if "fill" in does:
    held = bytearray(os.urandom(2**20)) * does["fill"]
time.sleep(does.get("sleep", 0))
if starts <= does.get("deadly", 0):
    os.kill(os.getppid() if does["victim"] == "worker" else os.getpid(), signal.SIGKILL)
    time.sleep(60)
header = {"version": 2, "autofix": "0", "command": sys.argv[1], "findings": [], "problems": [], "patch": ""}
print(json.dumps({**header, "files": 1, "proof": None}))
'''

DRIVER = """\
import sys
from msgspec.structs import replace
from autofix.campaign import sources

inside = sources.tasks
sources.tasks = lambda *words: [replace(task, program=(sys.executable, sys.argv[1])) for task in inside(*words)]
from autofix.cli import main
sys.exit(main(sys.argv[2:]))
"""


@dataclass
class Scene:
    """A folder with repositories, and calls of ``autofix campaign`` with the stand-in over all of them."""

    folder: Path

    def __post_init__(self) -> None:
        (self.folder / "stand_in.py").write_text(STAND_IN)
        (self.folder / "driver.py").write_text(DRIVER)
        (self.folder / "tmp").mkdir()
        self.listed.touch()

    @property
    def listed(self) -> Path:
        return self.folder / "list.txt"

    @property
    def environment(self) -> dict[str, str]:
        """The processes that inherit it are known by the folder for temporary files."""
        return {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(self.folder / "tmp")}

    def repository(self, name: str, command: str = "", **behaviour: Any) -> Path:
        path = self.folder / "repositories" / name
        path.mkdir(parents=True)
        (path / "behaviour").write_text(json.dumps(behaviour))
        with self.listed.open("a") as file:
            file.write(f"repositories/{name}" + (f" -- {command}" if command else "") + "\n")
        return path

    def start(self, *options: str) -> subprocess.Popen[str]:
        words = ["campaign", "--output", "out", *options, "list.txt"]
        return subprocess.Popen(
            [sys.executable, "driver.py", str(self.folder / "stand_in.py"), *words],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, *options: str) -> subprocess.CompletedProcess[str]:
        with self.start(*options) as process:
            said, told = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, said, told)

    def starts(self, name: str) -> list[str]:
        """The workers on which a repository was begun, one for each start."""
        path = self.folder / "repositories" / name / "starts"
        return path.read_text().splitlines() if path.exists() else []

    def results(self) -> dict[str, dict[str, Any]]:
        """The kept results, by the repository's name; fails where one was kept twice."""
        found = [json.loads(path.read_bytes()) for path in (self.folder / "out" / "results").glob("*.json")]
        by_name = {Path(one["source"]).name: one for one in found}
        assert len(by_name) == len(found)
        return by_name

    def report(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.folder / "out" / "campaign.json").read_text())
        return loaded

    def left(self) -> list[int]:
        """The processes of this scene that are still there."""
        wanted = f"TMPDIR={self.folder / 'tmp'}".encode()
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                if wanted in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                    found.append(int(entry))
            except OSError:
                continue
        return found


def until(condition: Callable[[], object], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
