"""Killing any of the processes at any moment leaves no process, no scratch folder, and no half-written file."""

from __future__ import annotations

import itertools
import os
import random
import re
import secrets
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from autofix.execution.guard import marked

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells what is left")

ROOT = Path(__file__).parents[1]
SCRIPT = """\
import os, subprocess, sys, time
import torch

if os.fork() == 0:  # one that leaves the group, and one that leaves the session and the folder
    os.setsid()
    os.chdir("/")
    time.sleep(600)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
net = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
store = []
for step in range(3):
    store.append(net(torch.ones(2)))
    loss = sum(store).sum()
    open("progress", "a").write("x")
    time.sleep(0.3)
    loss.backward()
    optimizer.step()
"""
CALLER = """\
import sys
from pathlib import Path
from autofix.execution.runner import Limits, Script, run
print(run(Script(Path(sys.argv[1])), Limits(warm=sys.argv[2] == "warm")).outcome)
"""


def processes(variable: str) -> Iterator[int]:
    """The processes that have inherited the environment variable *variable* (NAME=value)."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if variable.encode() in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                yield int(entry)
        except OSError:
            continue


def command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def parent(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def until(condition: Callable[[], object], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


@dataclass
class Scene:
    """A folder with a script, a folder for temporary files, and the processes that are started from here."""

    folder: Path
    variable: str = field(default_factory=lambda: f"KILLED={secrets.token_hex(6)}")
    caller: subprocess.Popen[str] | None = None

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        name, _, value = self.variable.partition("=")
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(self.folder / "tmp"), name: value}
        self.caller = subprocess.Popen(
            [sys.executable, *arguments], cwd=self.folder, env=environment, stdout=subprocess.PIPE, text=True
        )
        return self.caller

    def scratch(self) -> list[Path]:
        """The entries of the folder for temporary files.

        Python's tempfile tries the folder out with a file of eight letters, which stays if it is killed in that moment.
        """
        found = (self.folder / "tmp").iterdir()
        return [path for path in found if not re.fullmatch(r"[a-z0-9_]{8}", path.name)]

    def running(self) -> bool:
        """Whether the script's own code is at work."""
        return any((folder / "tree" / "project" / "progress").exists() for folder in self.scratch())

    def server(self) -> list[int]:
        return [one for one in processes(self.variable) if "--serve" in command(one) and not self.is_run(one)]

    def runs(self) -> list[int]:
        """The children in which the script runs."""
        return [one for one in processes(self.variable) if self.is_run(one) and not self.is_run(parent(one))]

    def is_run(self, process: int) -> bool:
        line = command(process)
        return "job.json" in line or ("--serve" in line and "--serve" in command(parent(process)))

    def assert_nothing_is_left(self) -> None:
        assert until(lambda: not list(processes(self.variable)), 15), [command(p) for p in processes(self.variable)]
        # A process that is just being started has no environment yet, and may have been overlooked.
        assert until(lambda: self.scratch() == [], 15), self.scratch()
        assert sorted(path.name for path in (self.folder / "project").iterdir()) == ["train.py"]

    def end(self) -> None:
        for process in processes(self.variable):
            os.kill(process, signal.SIGKILL)
        if self.caller is not None:
            self.caller.communicate()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    for name in ("project", "tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / "project" / "train.py").write_text(SCRIPT)
    scene = Scene(tmp_path)
    yield scene
    scene.end()


MODES = pytest.mark.parametrize("mode", ["warm", "fresh"])


@MODES
@pytest.mark.parametrize("moment", ["before the folder", "the folder is made", "torch is imported", "the script runs"])
def test_killing_the_caller(scene: Scene, mode: str, moment: str) -> None:
    caller = scene.start("-c", CALLER, "project/train.py", mode)
    if moment == "before the folder":
        time.sleep(0.05)
    elif moment == "the folder is made":
        assert until(scene.scratch)
    elif moment == "torch is imported":
        assert until(lambda: any("child" in command(process) for process in processes(scene.variable)))
        time.sleep(0.3)
    else:
        assert until(scene.running)
    caller.kill()
    scene.assert_nothing_is_left()


@pytest.mark.parametrize("delay", [0.1, 0.6, 1.2, 2.0, 3.2])
def test_killing_the_whole_command_at_any_moment(scene: Scene, delay: float) -> None:
    caller = scene.start("-m", "autofix", "run", "--fix", "--steps", "2", "project/train.py")
    time.sleep(delay)
    caller.kill()
    caller.wait()
    scene.assert_nothing_is_left()
    text = (scene.folder / "project" / "train.py").read_text()
    assert text in (SCRIPT, SCRIPT.replace("append(net(torch.ones(2)))", "append(net(torch.ones(2)).detach())"))


@MODES
@pytest.mark.parametrize("later", [0.0, 0.2])
def test_killing_the_run(scene: Scene, mode: str, later: float) -> None:
    caller = scene.start("-c", CALLER, "project/train.py", mode)
    assert until(scene.running)
    time.sleep(later)
    for process in scene.runs():
        os.kill(process, signal.SIGKILL)
    assert caller.communicate(timeout=60)[0] == "died\n"
    scene.assert_nothing_is_left()


def test_killing_the_server_while_it_starts_falls_back_to_a_fresh_process(scene: Scene) -> None:
    caller = scene.start("-c", CALLER, "project/train.py", "warm")
    assert until(scene.server)
    time.sleep(0.2)
    for process in scene.server():
        os.kill(process, signal.SIGKILL)
    assert caller.communicate(timeout=60)[0] == "raised\n"
    scene.assert_nothing_is_left()


@pytest.mark.parametrize("later", [0.0, 0.2])
def test_killing_the_server_while_a_run_is_on(scene: Scene, later: float) -> None:
    caller = scene.start("-c", CALLER, "project/train.py", "warm")
    assert until(scene.running)
    time.sleep(later)
    for process in scene.server():
        os.kill(process, signal.SIGKILL)
    assert caller.communicate(timeout=60)[0] == "died\n"
    scene.assert_nothing_is_left()


def test_killing_the_guard_is_made_good_by_the_next_run(scene: Scene) -> None:
    program = CALLER + CALLER.splitlines()[-1] + "\nimport time; time.sleep(600)\n"
    caller = scene.start("-u", "-c", program, "project/train.py", "warm")
    assert until(scene.running)
    for process in processes(scene.variable):
        if "guard.py" in command(process):
            os.kill(process, signal.SIGKILL)
    assert caller.stdout is not None
    assert [caller.stdout.readline() for _ in range(2)] == ["raised\n"] * 2
    assert [process for process in processes(scene.variable) if "guard.py" in command(process)]
    caller.kill()
    scene.assert_nothing_is_left()


WRITER = """\
import itertools
from pathlib import Path
from autofix.project import files

path = Path("project/train.py")
for text in itertools.cycle(["x = 1\\n" * 50_000, "y = 2\\n" * 50_000]):
    files.write(path, files.read(path), text)
"""


def test_killing_while_a_file_is_written(scene: Scene) -> None:
    chance = random.Random(1)
    for _ in range(8):
        writer = scene.start("-c", WRITER)
        assert until(lambda: (scene.folder / "project" / "train.py").read_text() != SCRIPT)
        time.sleep(chance.uniform(0, 0.2))
        writer.kill()
        writer.wait()
        scene.assert_nothing_is_left()
        assert (scene.folder / "project" / "train.py").read_text() in ("x = 1\n" * 50_000, "y = 2\n" * 50_000)
        (scene.folder / "project" / "train.py").write_text(SCRIPT)


AT_A_CALL = """\
import os, sys
from pathlib import Path
from autofix.project import files
from autofix.execution.guardian import GUARD

kind, wanted = int(sys.argv[1]), int(sys.argv[2])
calls = 0

def deadly(function, after):
    def called(*args, **options):
        global calls
        calls += 1
        number = calls  # the function may call others that are counted
        if after:
            result = function(*args, **options)
        if number == wanted:
            os.kill(os.getpid(), kind)
        return result if after else function(*args, **options)
    return called

path = Path("project/train.py")
file = files.read(path)
for name in ("open", "fsync", "chmod", "replace", "unlink"):
    setattr(os, name, deadly(getattr(os, name), after=sys.argv[3] == "after"))
GUARD.add = deadly(GUARD.add, after=sys.argv[3] == "after")
files.write(path, file, "x = 1\\n")
"""


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM])
def test_killing_at_any_call_of_a_write(scene: Scene, kind: signal.Signals, moment: str) -> None:
    place = scene.folder / "project" / "train.py"
    seen = set()
    for call in itertools.count(1):
        place.write_text(SCRIPT)
        writer = scene.start("-c", AT_A_CALL, str(int(kind)), str(call), moment)
        writer.communicate(timeout=60)
        if writer.returncode == 0:  # it makes fewer calls
            break
        assert writer.returncode == -kind
        scene.assert_nothing_is_left()
        assert os.listdir(place.parent) == ["train.py"]
        seen.add(place.read_text())
    assert call >= 6
    assert seen == {SCRIPT, "x = 1\n"}


def test_a_mark_is_found_in_no_other_process() -> None:
    sleeper = textwrap.dedent("import time; time.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", sleeper], env={**os.environ, "AUTOFIX_RUN": "one-1."}) as process:
        assert until(lambda: list(marked("one-1.")) == [process.pid])
        assert list(marked("one-")) == [process.pid]
        assert list(marked("one-12.")) == list(marked("on-")) == []
        process.kill()
    assert list(marked("one-1.")) == []


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_the_workers_of_a_check_end_with_it(kind: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    slow = Path(__file__).parents[1] / "fixtures" / "out_of_place_rotary_tables" / "broken.py"
    for number in range(40):
        (tmp_path / "project" / f"train{number}.py").write_bytes(slow.read_bytes())
    scene = Scene(tmp_path)
    (tmp_path / "tmp").mkdir()
    try:
        caller = scene.start("-m", "autofix", "check", "-q", "project")
        assert until(lambda: len(list(processes(scene.variable))) > 2), "the workers did not start"
        caller.send_signal(kind)
        caller.wait()
        assert until(lambda: not list(processes(scene.variable)), 15)
    finally:
        scene.end()
