"""A campaign on a Dask cluster: a real scheduler and workers, which are killed in the middle."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.campaigns import Scene, until

pytest.importorskip("distributed")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells what is left")


@dataclass
class Cluster:
    """A scheduler and its workers, each a process of its own."""

    scene: Scene
    name: str
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *words: str) -> None:
        file = str(self.scene.folder / f"{self.name}.json")
        command = [sys.executable, "-m", "distributed.cli.dask_" + words[0], "--scheduler-file", file, *words[1:]]
        # The ways to a worker's death that Dask waits for are as short as it takes them.
        timeouts = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s"}
        self.processes[name] = subprocess.Popen(
            command,
            cwd=self.scene.folder,
            env={**self.scene.environment, **timeouts, "WORKER": name},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def scheduler(self) -> None:
        self.start("scheduler", "scheduler", "--port", "0", "--host", "127.0.0.1", "--no-dashboard")

    def worker(self, name: str, *options: str) -> None:
        plain = ["--no-dashboard", "--nthreads", "1", "--local-directory", str(self.scene.folder)]
        self.start(name, "worker", "--no-nanny", *plain, *options)

    @property
    def address(self) -> str:
        path = self.scene.folder / f"{self.name}.json"
        assert until(lambda: path.exists() and path.read_text().endswith("}"))
        return str(json.loads(path.read_text())["address"])

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def end(self) -> None:
        for name in list(self.processes):
            self.kill(name)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


@pytest.fixture
def cluster(scene: Scene) -> Iterator[Cluster]:
    cluster = Cluster(scene, "first")
    yield cluster
    cluster.end()


def kept(scene: Scene) -> int:
    return len(list((scene.folder / "out" / "results").glob("*.json")))


def test_workers_and_the_scheduler_are_killed_in_the_middle(scene: Scene, cluster: Cluster) -> None:
    """First a worker dies with its tasks in hand, then the scheduler; the same call on a new cluster does the rest."""
    cluster.scheduler()
    cluster.worker("plain")
    cluster.worker("with_torch", "--resources", "torch=1")
    names = [f"slow{number}" for number in range(8)]
    for name in names:
        scene.repository(name, sleep=0.4)
    scene.repository("runs", "train.py", sleep=0.1)
    process = scene.start("--scheduler", cluster.address)
    assert until(lambda: kept(scene) >= 2 and "plain" in [one for name in names for one in scene.starts(name)])
    cluster.kill("plain")
    assert until(lambda: kept(scene) >= 4)
    cluster.kill("scheduler")
    said, told = process.communicate(timeout=30)
    assert process.returncode == 2, (said, told)
    assert "is gone; the same call goes on when it is back" in told
    cluster.end()
    assert until(lambda: not scene.left(), 15), "a process is left"

    before = scene.results()
    begun = {name: scene.starts(name) for name in before}
    assert 4 <= len(before) < 9
    assert {one["status"] for one in before.values()} == {"done"}
    second = Cluster(scene, "second")
    try:
        second.scheduler()
        second.worker("with_torch", "--resources", "torch=1")
        done = scene.call("--scheduler", second.address)
    finally:
        second.end()
    assert done.returncode == 0, done.stderr
    after = scene.results()
    assert sorted(after) == sorted([*names, "runs"]), "one is lost"
    assert all(after[name] == before[name] and scene.starts(name) == begun[name] for name in before), (
        "one is done twice"
    )
    assert scene.starts("runs")[-1] == "with_torch"
    assert (scene.report()["done"], scene.report()["left"]) == (9, 0)


def test_what_kills_its_workers_is_given_up_and_what_needs_torch_waits(scene: Scene, cluster: Cluster) -> None:
    cluster.scheduler()
    for number in range(4):
        cluster.worker(f"plain{number}")
    scene.repository("deadly", deadly=9, victim="worker")
    scene.repository("deadly_once", deadly=1, victim="worker")
    for number in range(3):
        scene.repository(f"fine{number}")
    scene.repository("runs", "train.py")
    done = scene.call("--scheduler", cluster.address)
    assert done.returncode == 1
    assert "1 repository waits for a worker with torch" in done.stderr
    found = scene.results()
    assert {name: one["status"] for name, one in found.items()} == {
        "deadly": "died",
        "deadly_once": "done",
        **{f"fine{number}": "done" for number in range(3)},
    }
    assert [found[name]["tries"] for name in ("deadly", "deadly_once")] == [2, 2]
    # A sound one may be begun once more where the worker that was killed had just finished it.
    assert all(found[name]["tries"] <= len(scene.starts(name)) <= 2 for name in ("fine0", "fine1", "fine2"))
    assert [len(scene.starts(name)) for name in ("deadly", "deadly_once", "runs")] == [2, 2, 0]
    assert found["deadly"]["reason"] == "its worker was lost at each of 2 tries"


def test_no_scheduler_is_one_line(scene: Scene) -> None:
    scene.repository("fine")
    done = scene.call("--scheduler", "nonsense://127.0.0.1:1")
    assert done.returncode == 2
    assert done.stderr.startswith("Error: no Dask scheduler answers at nonsense://127.0.0.1:1: ")
    assert len(done.stderr.splitlines()) == 1
