"""Things that a run must not touch: files outside its scratch copy, the network, the machine's memory."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from autofix.execution.patience import tasks, used
from autofix.execution.record import Outcome, RunRecord
from autofix.execution.runner import Limits, Script, run
from autofix.proof.prove import Certificate

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can close off a process")


def execute(folder: Path, text: str, **limits: object) -> RunRecord:
    (folder / "project").mkdir(exist_ok=True)
    path = folder / "project" / "train.py"
    path.write_text(textwrap.dedent(text))
    return run(Script(path), Limits(timeout=60, **limits))  # type: ignore[arg-type]


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "weights.pt").write_bytes(b"weights")
    (folder / "more").mkdir()
    return folder


HARM = [
    "open(P + '/weights.pt', 'w')",
    "open(P + '/weights.pt', 'a').write('x')",
    "open(P + '/new.txt', 'w')",
    "os.remove(P + '/weights.pt')",
    "os.truncate(P + '/weights.pt', 0)",
    "os.rename(P + '/weights.pt', P + '/moved.pt')",
    "os.rename(P + '/weights.pt', 'moved.pt')",
    "os.link(P + '/weights.pt', P + '/linked.pt')",
    "os.symlink('x', P + '/link')",
    "os.mkdir(P + '/folder')",
    "os.rmdir(P + '/more')",
    "os.mkfifo(P + '/pipe')",
    "shutil.rmtree(P)",
    "import torch; torch.save({}, P + '/weights.pt')",
    "subprocess.run(['rm', '-r', P], check=True)",
    "os.symlink(P, 'way'); open('way/weights.pt', 'w')",
    "os.link(P + '/weights.pt', 'mine.pt'); open('mine.pt', 'w')",
    "open('/proc/self/root' + P + '/weights.pt', 'w')",
    "open(f'/proc/self/task/{os.getpid()}/root' + P + '/weights.pt', 'w')",
    "open(os.open(P + '/weights.pt', os.O_RDWR), 'w').write('x')",
    "os.chdir(P); open('weights.pt', 'w')",
    "subprocess.run(['sh', '-c', 'echo x > ' + P + '/weights.pt'], check=True)",
    "__import__('multiprocessing').get_context('fork').Pool(1).apply(os.remove, [P + '/weights.pt'])",
]


@pytest.mark.parametrize("harm", HARM)
def test_nothing_outside_is_changed(harm: str, precious: Path, tmp_path: Path) -> None:
    before = tree(precious)
    text = f"import os, shutil, subprocess\nP = {str(precious)!r}\n{harm}\n"
    record = execute(tmp_path, text)
    assert record.open_ends == ()
    assert tree(precious) == before
    assert (precious / "more").is_dir()
    assert record.outcome is Outcome.RAISED
    # The script does harm where it is allowed to, so that the test shows something.
    allowed = execute(tmp_path, text, writable=(str(tmp_path),))
    assert allowed.outcome is Outcome.FINISHED, allowed.output


def test_mode_owner_and_times_outside_stay_as_they_are(precious: Path, tmp_path: Path) -> None:
    weights = precious / "weights.pt"
    before = weights.stat()
    text = f"import os\nP = {str(weights)!r}\nos.chmod(P, 0)\nos.chown(P, 1, 1)\nos.utime(P, (0, 0))\n"
    assert execute(tmp_path, text).outcome is Outcome.FINISHED
    after = weights.stat()
    assert (after.st_mode, after.st_uid, after.st_mtime) == (before.st_mode, before.st_uid, before.st_mtime)


NAMES = """\
import threading, time
def wait():
    time.sleep(1)
for number in range(2):
    thread = threading.Thread(target=wait)
    thread.start()
    name = f"/proc/self/task/{thread.native_id}/comm"
    with open(name, "w") as file:
        file.write(f"worker{number}")
    print(open(name).read().strip())
try:
    open("/proc/1/comm", "w")
except OSError as error:
    print(type(error).__name__)
"""


def test_a_process_names_its_threads(tmp_path: Path) -> None:
    """CUDA's driver does, and fails where it cannot."""
    assert execute(tmp_path, NAMES).output == "worker0\nworker1\nPermissionError\n"


def test_home_is_not_written_to(tmp_path: Path) -> None:
    name = f".autofix-test-{os.getpid()}"
    record = execute(tmp_path, f"import os\nopen(os.path.expanduser('~/{name}'), 'w')\n")
    assert record.outcome is Outcome.RAISED
    assert not (Path.home() / name).exists()


def test_a_single_file_can_be_opened_for_writing_and_nothing_beside_it(precious: Path, tmp_path: Path) -> None:
    weights = precious / "weights.pt"
    record = execute(tmp_path, f"open({str(weights)!r}, 'w').write('new')\n", writable=(str(weights),))
    assert record.outcome is Outcome.FINISHED, record.output
    assert weights.read_text() == "new"
    record = execute(tmp_path, f"open({str(precious / 'more.pt')!r}, 'w')\n", writable=(str(weights),))
    assert record.outcome is Outcome.RAISED
    assert not (precious / "more.pt").exists()


def test_processes_outside_get_no_signals(tmp_path: Path) -> None:
    record = execute(tmp_path, "import os\nos.kill(os.getppid(), 9)\n")
    assert record.error is not None
    assert record.error.type == "PermissionError"


def test_limits_priority_and_processors_of_processes_outside_stay_as_they_are(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as other:
        text = f"""
import os, resource
for change in (
    lambda: resource.prlimit({other.pid}, resource.RLIMIT_NOFILE, (8, 8)),
    lambda: os.setpriority(os.PRIO_PROCESS, {other.pid}, 11),
    lambda: os.setpriority(os.PRIO_PGRP, {os.getpgid(other.pid)}, 11),
    lambda: os.setpriority(os.PRIO_USER, os.getuid(), 11),
    lambda: os.sched_setaffinity({other.pid}, [max(os.sched_getaffinity(0))]),
    lambda: os.sched_setscheduler({other.pid}, os.SCHED_IDLE, os.sched_param(0)),
):
    try:
        change()
    except PermissionError as error:
        print("refused")
os.setpriority(os.PRIO_PROCESS, 0, 5)
os.setpriority(os.PRIO_PROCESS, os.getpid(), 6)
os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
resource.prlimit(0, resource.RLIMIT_NOFILE, (64, 64))
print(os.getpriority(os.PRIO_PROCESS, 0), len(os.sched_getaffinity(0)), resource.getrlimit(resource.RLIMIT_NOFILE))
"""

        def state() -> tuple[object, ...]:
            files = resource.prlimit(other.pid, resource.RLIMIT_NOFILE)
            policy, processors = os.sched_getscheduler(other.pid), os.sched_getaffinity(other.pid)
            return files, os.getpriority(os.PRIO_PROCESS, other.pid), policy, processors

        before = state()
        record = execute(tmp_path, text)
        after = state()
        other.kill()
    assert record.output == "refused\n6 1 (64, 64)\n"
    assert after == before


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="who is not root has no capabilities")
def test_root_gives_up_what_it_may_do_to_the_machine(tmp_path: Path) -> None:
    text = """
import re, subprocess
for status in (open("/proc/self/status").read(), subprocess.check_output(["cat", "/proc/self/status"], text=True)):
    print(*(hex(int(found, 16)) for found in re.findall(r"Cap(?:Prm|Eff|Bnd):\\s*(\\w+)", status)))
"""
    record = execute(tmp_path, text)
    held = {int(word, 16) for word in record.output.split()}
    assert len(record.output.splitlines()) == 2
    assert all(one & ~0b100000000011111 == 0 for one in held), record.output


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """A file of a project that a run has as a link, with a folder beside the project."""
    (tmp_path / "project").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.csv").write_text("1\n")
    path = tmp_path / "project" / "model.pt"
    with open(path, "wb") as file:
        file.write(b"old")
        file.truncate(16 * 2**20)
    return path


WRITES = {
    "append": "open('model.pt', 'ab').write(b'x'); print(os.path.getsize('model.pt'))",
    "anew": "open('model.pt', 'wb').write(b'x'); print(os.path.getsize('model.pt'))",
    "path": "pathlib.Path('model.pt').write_bytes(b'x'); print(os.path.getsize('model.pt'))",
    "in place": "f = open('model.pt', 'r+b'); print(f.read(3)); f.write(b'x')",
    "descriptor": "os.write(os.open('model.pt', os.O_WRONLY), b'x'); print(open('model.pt', 'rb').read(3))",
    "checkpoint": "torch.save({'a': 1}, 'model.pt'); print(torch.load('model.pt'))",
    "remove": "os.remove('model.pt'); print(os.path.exists('model.pt'))",
    "rename": "torch.save({}, 'new.pt'); os.replace('new.pt', 'model.pt'); print(torch.load('model.pt'))",
    "truncate": "os.truncate('model.pt', 7); print(os.path.getsize('model.pt'))",
    "beside": "open('../data/rows.csv', 'a').write('2'); print(len(open('../data/rows.csv').read()))",
    "new beside": "os.makedirs('../data/a/b'); open('../data/a/b/c', 'w'); print(os.listdir('../data/a/b'))",
    "away with it": "shutil.rmtree('../data'); print(os.path.exists('../data'))",
}


@pytest.mark.parametrize("writes", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("sandbox", [True, False], ids=["sandbox", "no sandbox"])
def test_what_is_linked_becomes_a_copy_before_it_is_written(
    writes: str, sandbox: bool, large: Path, tmp_path: Path
) -> None:
    script = tmp_path / "project" / "train.py"
    script.write_text(f"import os, pathlib, shutil, torch\n{writes}\n")
    before = tree(tmp_path)
    record = run(Script(script), Limits(timeout=60, sandbox=sandbox))
    assert (record.outcome, record.output.count("\n")) == (Outcome.FINISHED, 1), record.output
    assert tree(tmp_path) == before


def test_other_programs_cannot_write_behind_a_link(large: Path, tmp_path: Path) -> None:
    before = tree(tmp_path)
    text = "import subprocess\nsubprocess.run('echo x >> model.pt', shell=True, check=True)\n"
    assert execute(tmp_path, text).outcome is Outcome.RAISED
    assert large.read_bytes() == before[str(large)]


def test_scratch_temporary_folder_and_shared_memory_can_be_written(tmp_path: Path) -> None:
    record = execute(
        tmp_path,
        """
        import os, tempfile, torch
        os.mkdir("out"); torch.save({}, "out/weights.pt"); os.rename("out/weights.pt", "w.pt"); os.remove("w.pt")
        with tempfile.TemporaryFile() as file: file.write(b"x")
        scratch = os.path.dirname(os.path.dirname(os.getcwd()))
        assert tempfile.gettempdir().startswith(scratch), tempfile.gettempdir()
        torch.ones(3).share_memory_()
        open(os.devnull, "w").write("x")
        """,
    )
    assert record.outcome is Outcome.FINISHED, record.output


CONNECT = """
    import socket
    with socket.socket(socket.AF_INET, socket.{kind}) as s:
        s.connect(("127.0.0.1", {port}))
        s.sendall(b"x")
        print("sent")
"""


@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
def test_the_machines_own_ports_are_closed_and_open_on_request(kind: str, tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, getattr(socket, kind)) as server:
        server.bind(("127.0.0.1", 0))
        server.setblocking(False)
        if kind == "SOCK_STREAM":
            server.listen()
        text = CONNECT.format(kind=kind, port=server.getsockname()[1])
        execute(tmp_path, text)
        with pytest.raises(BlockingIOError):
            server.accept() if kind == "SOCK_STREAM" else server.recv(1)
        assert execute(tmp_path, text, network=True).output == "sent\n"
        assert execute(tmp_path, text, sandbox=False).output == "sent\n"


def test_the_outside_is_unreachable(tmp_path: Path) -> None:
    text = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.connect(('192.0.2.1', 9))\n"
    record = execute(tmp_path, text)
    assert record.error is not None
    assert "Network is unreachable" in record.error.message


LOOPBACK = """
    import os, socket, threading
    import torch, torch.distributed as dist
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=lambda: server.accept()[0].sendall(b"hello"), daemon=True).start()
    print(socket.create_connection(server.getsockname()).recv(5).decode())
    dist.init_process_group("gloo", init_method="{method}", rank=0, world_size=1)
    total = torch.ones(2)
    dist.all_reduce(total)
    print(total.tolist())
"""


@pytest.mark.parametrize("method", ["tcp://127.0.0.1:29541", "tcp://localhost:29542", "file:///tmp/nowhere/store"])
def test_processes_of_one_run_find_each_other(method: str, tmp_path: Path) -> None:
    text = LOOPBACK.format(method=method).replace("file:///tmp/nowhere", 'file://" + os.getcwd() + "')
    record = execute(tmp_path, text)
    if record.open_ends == () and "Network is unreachable" in record.output:
        pytest.skip("this system grants no network namespace")
    assert record.output.startswith("hello\n") and record.output.endswith("[1.0, 1.0]\n"), record.output


def test_network_stays_closed_for_programs_that_the_script_starts(tmp_path: Path) -> None:
    connects = "import socket; socket.create_connection(('192.0.2.1', 9), 2)"
    text = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {connects!r}], check=True)\n"
    record = execute(tmp_path, text)
    assert "Network is unreachable" in record.output


def test_nobody_who_listens_on_this_machine_is_reached(tmp_path: Path) -> None:
    text = "import socket\nsocket.create_connection(('localhost', {port}), 2).send(b'x')\n"
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        text = text.format(port=server.getsockname()[1])
        record = execute(tmp_path, text)
        assert record.error is not None
        # Nobody listens in the run's own network; without one, there is no socket to be had.
        assert record.error.message.endswith(("Connection refused", "Network is unreachable"))
        with pytest.raises(TimeoutError):
            server.accept()
        assert execute(tmp_path, text, network=True).outcome is Outcome.FINISHED
        assert server.accept()[0].recv(1) == b"x"


def test_sockets_without_a_path_are_closed_towards_the_outside(tmp_path: Path) -> None:
    name = f"\0autofix-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        record = execute(tmp_path, f"import socket\nsocket.socket(socket.AF_UNIX).connect({name!r})\n")
    version = ctypes.CDLL(None).syscall(444, None, 0, 1)
    assert record.outcome is (Outcome.RAISED if version >= 6 else Outcome.FINISHED)


def own_mounts() -> bool:
    """Whether this system grants a process mounts of its own."""
    program = f"import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare({0x20000 if os.geteuid() == 0 else 0x10020000}))"
    return subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder in shared memory that somebody else has."""
    if not own_mounts():
        pytest.skip("this system grants no mounts of one's own")
    folder = Path("/dev/shm") / f"data-of-a-test-{os.getpid()}"
    folder.mkdir()
    (folder / "rows").write_text("rows")
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("network", [False, True], ids=["closed", "network"])
def test_shared_memory_is_the_runs_own_and_bounded(shared: Path, tmp_path: Path, network: bool) -> None:
    """Files of other processes there can be read, and not written."""
    text = f"""
        import os, torch
        from multiprocessing import shared_memory
        before = set(os.listdir("/dev/shm"))
        print(open({str(shared / "rows")!r}).read())
        for path in ({str(shared / "rows")!r}, {str(shared / "new")!r}):
            try:
                open(path, "w")
            except OSError as error:
                print("refused")
        kept = shared_memory.SharedMemory("kept-{os.getpid()}", create=True, size=8)
        torch.ones(3).share_memory_()
        room = os.statvfs("/dev/shm")
        print(sorted(set(os.listdir("/dev/shm")) - before), room.f_blocks * room.f_frsize)
        os._exit(0)
    """
    record = execute(tmp_path, text, memory=2**30, network=network)
    assert record.output == f"rows\nrefused\nrefused\n['kept-{os.getpid()}'] {2**30}\n"
    assert not Path(f"/dev/shm/kept-{os.getpid()}").exists()
    assert [path.name for path in shared.iterdir()] == ["rows"]


@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
def test_sockets_with_a_path_are_closed_towards_the_outside(kind: str, tmp_path: Path) -> None:
    if not own_mounts():
        pytest.skip("this system grants no mounts of one's own")
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, getattr(socket, kind)) as server:
        server.bind(path)
        if kind == "SOCK_STREAM":
            server.listen()
        text = f"import socket\nsocket.socket(socket.AF_UNIX, socket.{kind}).connect({path!r})\n"
        record = execute(tmp_path, text)
        assert record.error is not None
        assert record.error.type == "ConnectionRefusedError"
        assert execute(tmp_path, text, network=True).outcome is Outcome.FINISHED


DAEMON = """
    import os, sys, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.chdir("/")
            os.execve(sys.executable, [sys.executable, "-S", "-c", "import time; time.sleep(600)", {token!r}], {{}})
        os._exit(0)
    time.sleep(0.5)
    {end}
"""
"""A process that leaves its parent, its session and its folder, and has no environment that tells its owner."""


@pytest.mark.parametrize("end", ["raise ValueError", "time.sleep(600)", "os._exit(3)"])
@pytest.mark.parametrize("warm", [True, False], ids=["warm", "fresh"])
def test_a_daemon_ends_with_its_run(tmp_path: Path, warm: bool, end: str) -> None:
    token = f"daemon-{tmp_path.name}"
    (tmp_path / "project").mkdir()
    path = tmp_path / "project" / "train.py"
    path.write_text(textwrap.dedent(DAEMON.format(token=token, end=end)))
    run(Script(path), Limits(timeout=4 if "sleep" in end else 60, warm=warm))
    found = [entry for entry in filter(str.isdigit, os.listdir("/proc")) if token in command_of(entry)]
    assert found == []


def command_of(process: str) -> str:
    try:
        return Path("/proc", process, "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def test_sockets_within_the_machine_work(tmp_path: Path) -> None:
    text = "import socket\na, b = socket.socketpair()\na.send(b'x')\nprint(b.recv(1))\n"
    assert execute(tmp_path, text).output == "b'x'\n"


def test_memory_is_limited(tmp_path: Path) -> None:
    record = execute(tmp_path, "import torch\ntorch.ones(2**31)\n", memory=2 * 2**30)
    assert record.outcome is Outcome.RAISED
    assert "allocate" in record.output


def test_file_size_is_limited(tmp_path: Path) -> None:
    text = "with open('big', 'wb') as f:\n    f.truncate(5 * 2**30)\n"
    record = execute(tmp_path, text)
    assert record.error is not None
    assert record.error.type == "OSError"


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "fresh"])
def test_processes_without_end_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: bool) -> None:
    monkeypatch.setattr("autofix.execution.patience.MOST_TASKS", 60)
    text = "import os, time\nfor _ in range(120):\n    if os.fork() == 0: time.sleep(60)\ntime.sleep(60)\n"
    before = tasks()
    record = execute(tmp_path, text, warm=warm)
    assert (record.outcome, record.seconds < 30) == (Outcome.DIED, True)
    assert record.output.endswith("[ended: it has started more than 60 processes]\n")
    deadline = time.monotonic() + 10
    while tasks() > before + 40 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert tasks() <= before + 40


@pytest.mark.parametrize("warm", [True, False], ids=["warm", "fresh"])
def test_files_without_end_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warm: bool) -> None:
    monkeypatch.setattr("autofix.execution.patience.MOST_DISK", 64 * 2**20)
    text = "import os, time\nfor n in range(24):\n    open(str(n), 'wb').write(os.urandom(2**23))\ntime.sleep(60)\n"
    record = execute(tmp_path, text, warm=warm)
    assert (record.outcome, record.seconds < 30) == (Outcome.DIED, True)
    assert record.output.endswith("[ended: its files take more than 0.1 GiB]\n")


def test_the_room_of_files_is_counted_without_links(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "data").write_bytes(bytes(2**20))
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "hole").touch()
    os.truncate(tmp_path / "hole", 2**30)
    assert 2**20 <= used(tmp_path) < 2**20 + 2**18


def test_the_number_of_processes_is_limited(tmp_path: Path) -> None:
    record = execute(tmp_path, "import resource\nprint(resource.getrlimit(resource.RLIMIT_NPROC)[1])\n")
    assert 1024 < int(record.output) < 1024 + 20_000


def test_sandbox_holds_in_fresh_processes_too(precious: Path, tmp_path: Path) -> None:
    record = execute(tmp_path, f"open({str(precious)!r} + '/weights.pt', 'w')", warm=False)
    assert record.error is not None
    assert record.error.type == "PermissionError"


def test_what_cannot_be_closed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from autofix.child import sandbox

    class OldKernel:
        """A libc on a kernel without Landlock, namespaces and seccomp."""

        def prctl(self, option: int, *_: object) -> int:
            return 0 if option == sandbox.PR_SET_NO_NEW_PRIVS else -1

        def syscall(self, *_: object) -> int:
            return -1

        unshare = syscall

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: OldKernel())
    monkeypatch.setattr(sandbox, "limit", lambda _: None)
    first, second = sandbox.close([], network=False, memory=0)
    assert "no Landlock" in first
    assert "network is not closed off" in second


GPU = """
    import torch
    assert torch.cuda.is_available()
    device = torch.device("cuda")
    model = torch.nn.Linear(2, 1).to(device).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.cuda.amp.GradScaler()
    x = torch.ones(4, 2, device="cuda:0") + torch.ones(4, 2).cuda() + torch.ones(4, 2).to("cuda")
    with torch.autocast("cuda"), torch.cuda.amp.autocast():
        loss = model(x).pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    torch.cuda.synchronize()
    torch.save(model.state_dict(), "weights.pt")
    torch.load("weights.pt", map_location="cuda")
    print(x.device, torch.cuda.FloatTensor(2).device)
"""


@pytest.mark.filterwarnings("ignore")
def test_script_for_a_gpu_runs_on_the_cpu_on_request(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert execute(tmp_path, GPU).outcome is Outcome.RAISED
    record = execute(tmp_path, GPU, device="cpu")
    assert record.outcome is Outcome.FINISHED, record.output
    assert record.output.endswith("cpu cpu\n")
    assert (record.device, record.steps) == ("cpu", 1)
    assert Certificate((), record, record).remarks == ("what the script puts on a GPU ran on the CPU",)
