"""Runs of scripts: as ``python SCRIPT`` would run them, from a copy, to a bounded end, leaving nothing behind."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from autofix.execution import launch
from autofix.execution.record import Outcome, RunRecord
from autofix.execution.runner import Limits, Script, run
from autofix.execution.scratch import LARGE, LOCK, MAGIC, scratch_copy

WARM = Limits(timeout=60)
FRESH = Limits(timeout=60, warm=False)


@pytest.fixture(params=[WARM, FRESH], ids=["warm", "fresh"])
def limits(request: pytest.FixtureRequest) -> Limits:
    result = request.param
    assert isinstance(result, Limits)
    return result


def execute(folder: Path, text: str, limits: Limits = WARM, *args: str) -> RunRecord:
    path = folder / "train.py"
    path.write_text(textwrap.dedent(text))
    record = run(Script(path, args=args), limits)
    assert not record.mistakes
    return record


TRAINING = """
    import torch
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def step(x):
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_script_sees_what_python_would_show_it(tmp_path: Path, limits: Limits) -> None:
    (tmp_path / "sibling.py").write_text("answer = 42\n")
    (tmp_path / "trace.py").write_text("mine = True\n")  # the name of a module of ours
    record = execute(
        tmp_path,
        """
        import os, sys
        from sibling import answer
        import trace
        assert trace.mine
        assert __name__ == "__main__" and sys.modules["__main__"].__dict__ is globals()
        assert os.path.samefile(os.path.dirname(__file__), os.getcwd())
        assert sys.path[0] == os.getcwd(), sys.path
        assert not any("child" in entry for entry in sys.path), sys.path
        assert sys.argv == ["train.py", "--epochs", "3"], sys.argv
        assert sys.stdin.read() == ""
        print("answer", answer, file=sys.stderr)
        """,
        limits,
        "--epochs",
        "3",
    )
    assert (record.outcome, record.output) == (Outcome.FINISHED, "answer 42\n")


def test_error_has_type_message_line_and_the_frames_of_the_user(tmp_path: Path, limits: Limits) -> None:
    (tmp_path / "model.py").write_text("def fail(x):\n    return x / 0\n")
    record = execute(tmp_path, "from model import fail\n\n\ndef main():\n    fail(1)\n\n\nmain()\n", limits)
    assert record.outcome is Outcome.RAISED
    assert record.error is not None
    assert (record.error.type, record.error.message) == ("ZeroDivisionError", "division by zero")
    assert record.error.frames == (("train.py", 8, "<module>"), ("train.py", 5, "main"), ("model.py", 2, "fail"))
    assert "autofix/child" not in record.output
    assert record.output.endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize(
    ("text", "outcome", "kind"),
    [
        ("def f(:\n", Outcome.RAISED, "SyntaxError"),
        ("raise SystemExit(2)", Outcome.RAISED, "SystemExit"),
        ("raise SystemExit", Outcome.FINISHED, ""),
        ("import os; os._exit(0)", Outcome.DIED, ""),
        ("import os; os.kill(os.getpid(), 9)", Outcome.DIED, ""),
        ("while True: pass", Outcome.TIMED_OUT, ""),
    ],
)
def test_every_way_to_end(text: str, outcome: Outcome, kind: str, tmp_path: Path) -> None:
    record = execute(tmp_path, text, Limits(timeout=2))
    assert record.outcome is outcome
    assert (record.error.type if record.error else "") == kind


def test_missing_script_and_missing_interpreter_are_not_started(tmp_path: Path) -> None:
    assert run(Script(tmp_path / "none.py"), WARM).outcome is Outcome.NOT_STARTED
    for warm in (True, False):
        record = run(Script(tmp_path / "x.py", text=""), Limits(python="/no/such/python", warm=warm))
        assert record.outcome is Outcome.NOT_STARTED
        assert record.error is not None
        assert "/no/such/python" in record.error.message


def test_interpreter_without_torch_says_so(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    record = run(Script(tmp_path / "x.py", text="print()"), Limits(python=str(bare / "bin" / "python")))
    assert record.outcome is Outcome.NOT_STARTED
    assert record.error is not None
    assert "torch" in record.error.message


def test_progress_of_a_run_that_times_out_is_kept(tmp_path: Path) -> None:
    text = TRAINING + "    step(torch.ones(3, 2)); print('one', flush=True)\n    import time; time.sleep(60)\n"
    record = execute(tmp_path, text, Limits(timeout=4))
    assert record.outcome is Outcome.TIMED_OUT
    assert (record.steps, record.output) == (1, "one\n")


def test_endless_output_is_cut(tmp_path: Path, limits: Limits) -> None:
    record = execute(tmp_path, "print('first')\nfor i in range(300000): print('noise', i)\nprint('last')\n", limits)
    assert record.output.startswith("first\n")
    assert record.output.endswith("last\n")
    assert "bytes left out" in record.output
    assert len(record.output) < 200_000


def test_warm_and_fresh_runs_are_the_same(tmp_path: Path) -> None:
    text = TRAINING + "    for i in range(5): step(torch.randn(4, 2))\n    print(torch.get_num_threads(), hash('a'))\n"
    warm, fresh = execute(tmp_path, text, WARM), execute(tmp_path, text, FRESH)
    assert warm.losses == fresh.losses
    assert len(warm.losses) == 5
    assert [step.state for step in warm.updates] == [step.state for step in fresh.updates]
    assert warm.output == fresh.output


PARENTS = """\
import os; print(os.getppid())
    if os.path.isdir("/proc/self"): print(open(f"/proc/{os.getppid()}/stat").read().rpartition(")")[2].split()[1])
"""


def test_without_fork_every_run_has_a_process_of_its_own_and_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TRAINING + f"    for i in range(5): step(torch.randn(4, 2))\n    {PARENTS}"
    with_fork = execute(tmp_path, text)
    monkeypatch.delattr(os, "fork")
    monkeypatch.setattr("autofix.execution.launch.server_for", None)
    without = execute(tmp_path, text)
    parents, of_fork = (record.output.split() for record in (without, with_fork))
    assert int(parents[-1]) == os.getpid()  # on Linux there is the keeper in between
    assert parents[0] != of_fork[0]
    assert without.losses == with_fork.losses
    assert [step.state for step in without.updates] == [step.state for step in with_fork.updates]


def test_a_folder_that_nobody_has_removed_goes_with_the_next_run(tmp_path: Path) -> None:
    left = Path(tempfile.gettempdir()) / f"autofix-{os.getpid()}-0123abcd"
    left.mkdir()
    (left / LOCK).write_text(MAGIC)  # its owner has ended: nobody holds the lock
    with scratch_copy(tmp_path, {}) as scratch:
        assert scratch.copy.is_dir()
        assert not left.exists()


def test_no_run_sees_the_state_of_another(tmp_path: Path) -> None:
    first = execute(
        tmp_path,
        """
        import builtins, os, sys, torch
        print(torch.initial_seed(), torch.get_default_dtype(), torch.get_num_threads(), "LEAK" in os.environ)
        print(hasattr(builtins, "leak"), hasattr(torch, "leak"), os.getcwd() in sys.path)
        builtins.leak = torch.leak = os.environ["LEAK"] = "1"
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(2)
        torch.manual_seed(123)
        """,
    )
    second = run(Script(tmp_path / "train.py"), WARM)
    assert first.output == second.output
    assert "torch.float32 1 False" in first.output


def test_data_loader_workers_threads_forks_and_spawns(tmp_path: Path, limits: Limits) -> None:
    record = execute(
        tmp_path,
        TRAINING
        + """
    import multiprocessing, os, threading
    from torch.utils.data import DataLoader, TensorDataset

    def square(x):
        return x * x

    def work(queue):
        queue.put(torch.ones(2).sum().item())

    if __name__ == "__main__":
        data = TensorDataset(torch.arange(16.0).view(8, 2))
        for (x,) in DataLoader(data, batch_size=2, num_workers=2, shuffle=True):
            step(x)
        torch.set_num_threads(2)
        def train():  # on a model of its own: gradients are not made to be shared
            own = torch.nn.Linear(2, 1)
            own(torch.ones(1, 2)).sum().backward()
        threads = [threading.Thread(target=train) for _ in range(2)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        if os.fork() == 0:
            step(torch.ones(1, 2))
            os._exit(0)
        os.wait()
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map(square, [1, 2, 3]))
        """,
        limits,
    )
    assert record.outcome is Outcome.FINISHED, record.output
    assert "[1, 4, 9]" in record.output
    assert len(record.losses) == 4 + 2


def test_training_in_a_thread_is_waited_for(tmp_path: Path) -> None:
    text = TRAINING + "    import threading, time\n    def later():\n        time.sleep(0.5); step(torch.ones(1, 2))\n"
    record = execute(tmp_path, text + "    threading.Thread(target=later).start()\n")
    assert (record.outcome, record.steps) == (Outcome.FINISHED, 1)


def processes_with(marker: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker in (entry / "cmdline").read_bytes().decode(errors="replace"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def wait_until_gone(marker: str, seconds: float = 5.0) -> list[int]:
    deadline = time.monotonic() + seconds
    while (left := processes_with(marker)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def test_processes_that_a_script_leaves_are_ended(tmp_path: Path, limits: Limits) -> None:
    marker = f"left-behind-{os.getpid()}-{limits.warm}"
    execute(
        tmp_path,
        f"""
        import os, subprocess, sys
        program = "import time; time.sleep(60)  # {marker}"
        subprocess.Popen([sys.executable, "-c", program])
        subprocess.Popen([sys.executable, "-c", program], start_new_session=True)
        if os.fork() == 0:  # a daemon: twice forked, in a session and a folder of its own
            os.setsid()
            if os.fork() == 0:
                os.chdir("/")
                os.execv(sys.executable, [sys.executable, "-c", program])
            os._exit(0)
        os.wait()
        """,
        limits,
    )
    assert wait_until_gone(marker) == []


CALLER = """
import sys
from pathlib import Path
from autofix.execution.runner import Limits, Script, run
run(Script(Path(sys.argv[1])), Limits(warm=sys.argv[2] == "True"))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=["kill", "terminate", "interrupt"])
def test_end_of_the_caller_ends_everything(how: signal.Signals, tmp_path: Path, limits: Limits) -> None:
    marker = f"orphan-{os.getpid()}-{limits.warm}-{how.value}"
    script = tmp_path / "train.py"
    script.write_text(
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)  # {marker}'])\n"
        "time.sleep(60)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    caller = subprocess.Popen([sys.executable, "-c", CALLER, str(script), str(limits.warm)], env=environment)
    try:
        deadline = time.monotonic() + 60
        while not (started := list(processes_with(marker))) and time.monotonic() < deadline:
            time.sleep(0.05)
        scratch = Path(f"/proc/{started[0]}/cwd").resolve().parent
        assert scratch.is_dir()
        caller.send_signal(how)
        caller.wait(20)
        assert wait_until_gone(marker) == []
        deadline = time.monotonic() + 5
        while scratch.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not scratch.exists()
    finally:
        caller.kill()
        for process in processes_with(marker):
            os.kill(process, signal.SIGKILL)


def test_killed_server_is_replaced(tmp_path: Path) -> None:
    text = """
    import os, time
    assert "--serve" in open(f"/proc/{os.getppid()}/cmdline").read()
    os.kill(os.getppid(), 9)
    time.sleep(5)
    """
    assert execute(tmp_path, text, Limits(timeout=60, sandbox=False)).outcome is Outcome.DIED
    assert execute(tmp_path, "print('again')").output == "again\n"


def test_original_files_stay_as_they_are(tmp_path: Path, limits: Limits) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(b"precious")
    record = execute(tmp_path, "open('checkpoint.pt', 'w').write('new'); open('log.txt', 'w'); print(1)", limits)
    assert record.output == "1\n"
    assert (tmp_path / "checkpoint.pt").read_bytes() == b"precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.pt", "train.py"]


@pytest.mark.parametrize("name", ["tmp", "copy", "record.jsonl"])
def test_a_folder_may_have_any_name(name: str, tmp_path: Path, limits: Limits) -> None:
    (tmp_path / name).mkdir()
    assert execute(tmp_path / name, "print(1)", limits).output == "1\n"


def test_scratch_copy_links_what_is_large_and_skips_what_is_not_the_users(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    for name in ("package", ".git", "__pycache__", "env"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file.py").write_text("x = 1\n")
    (folder / "env" / "pyvenv.cfg").touch()
    with open(folder / "data.bin", "wb") as file:
        file.truncate(LARGE)
    (folder / "gone").symlink_to(folder / "nothing")
    with scratch_copy(folder, {"train.py": "# coding: latin-1\r\né = 1\r\n", "package/new.py": ""}) as scratch:
        copy = scratch.copy
        assert sorted(path.name for path in copy.iterdir()) == ["data.bin", "package", "train.py"]
        assert (copy / "data.bin").is_symlink()
        assert (copy / "train.py").read_bytes() == b"# coding: latin-1\r\n\xe9 = 1\r\n"
        assert sorted(path.name for path in (copy / "package").iterdir()) == ["file.py", "new.py"]
    assert not scratch.top.exists()
    assert not (folder / "train.py").exists()


def test_no_semaphore_is_left(tmp_path: Path) -> None:
    before = set(Path("/dev/shm").glob("sem.mp-*"))
    text = "import multiprocessing\nlock = multiprocessing.get_context('spawn').Lock()\nprint(lock._semlock.name)\n"
    record = execute(tmp_path, text)
    name = record.output.strip().removeprefix("/")
    assert name.startswith("mp-")
    assert not (Path("/dev/shm") / f"sem.{name}").exists(), set(Path("/dev/shm").glob("sem.mp-*")) - before


def test_a_child_that_is_gone_at_once_is_heard_of_line_by_line() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"started 3276\nended 0\n")
        assert launch.line_of(ours) == "started 3276\n"
        assert launch.line_of(ours) == "ended 0\n"


def test_a_full_temporary_folder_is_said_before_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfile", full)
    record = execute(tmp_path, "x = 1")
    assert record.outcome is Outcome.NOT_STARTED
    assert record.error is not None
    assert record.error.message == f"the temporary folder {tempfile.gettempdir()} is full; TMPDIR names another one"


def test_a_temporary_folder_that_is_full_after_the_run_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((4096, 4096, 100, 15, 15, 9, 9, 9, 0, 255)))
    record = execute(tmp_path, "raise OSError(28, 'No space left on device')")
    assert record.outcome is Outcome.NOT_STARTED
    assert record.error is not None
    assert "is full" in record.error.message
