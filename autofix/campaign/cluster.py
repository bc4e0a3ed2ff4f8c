"""A campaign on a Dask cluster that is there already: its workers find the checkouts, or clone them.

A repository that runs code asks for the resource ``torch`` (``dask worker ADDRESS --resources torch=1``); reading
source asks for nothing.  Dask hands the task of a lost worker to another worker, several times; each start is therefore
noted with the scheduler, and a third one gives up.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

import click
from distributed import Client, Future, KilledWorker, get_client, wait

from autofix.campaign.examine import examine
from autofix.campaign.task import TRIES, Outcome, Task, outcome_of

PATIENCE = 10.0
"""Seconds to wait for the scheduler."""
LOOK = 2.0
"""Seconds after which the cluster is looked at again."""
AHEAD = 4
"""Tasks for each thread of the cluster that are handed over at once: enough to keep it busy, little to lose."""
RESOURCE = "torch"
LOST = f"its worker was lost at each of {TRIES} tries"


class ClusterError(click.ClickException):
    """A cluster that is not there, or not fit for the work."""

    exit_code = 2


def on_cluster(tasks: Sequence[Task], address: str, tell: Callable[[str], None]) -> Iterator[Outcome]:
    """The outcomes as they come.  A task that no worker of the cluster can do is reported and left for another call.

    Raises :class:`ClusterError`.
    """
    try:
        client = Client(address, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise ClusterError(f"no Dask scheduler answers at {address}: {error}") from None
    try:
        yield from _Window(client, tasks, tell).outcomes()
    except CancelledError:
        raise ClusterError(f"the scheduler at {address} is gone; the same call goes on when it is back") from None
    finally:
        client.close(timeout=1.0)


class _Window:
    """The tasks that the scheduler knows of, a bounded number at any time."""

    def __init__(self, client: Client, tasks: Sequence[Task], tell: Callable[[str], None]) -> None:
        self._client = client
        self._tell = tell
        self._topic = f"autofix-{secrets.token_hex(6)}"
        self._waiting = {
            True: [task for task in reversed(tasks) if task.needs_torch],
            False: [task for task in reversed(tasks) if not task.needs_torch],
        }
        self._running: dict[Future[Outcome], Task] = {}
        self._resubmitted: dict[str, int] = {}
        self._known: list[dict[str, Any]] = []
        self._known_until = 0.0

    def outcomes(self) -> Iterator[Outcome]:
        while True:
            self._fill()
            if not self._running:
                return
            try:
                done = wait(list(self._running), timeout=LOOK, return_when="FIRST_COMPLETED").done
            except TimeoutError:
                if self._is_stuck():
                    return
                continue
            for future in done:
                outcome = self._outcome(future, self._running.pop(future))
                if outcome is not None:
                    yield outcome

    def _fill(self) -> None:
        """Hand over as many tasks as keep the cluster busy."""
        room = AHEAD * max(1, sum(one["nthreads"] for one in self._workers()))
        for needs_torch, tasks in self._waiting.items():
            count = sum(task.needs_torch == needs_torch for task in self._running.values())
            while tasks and count < room:
                self._submit(tasks.pop())
                count += 1

    def _submit(self, task: Task) -> None:
        number = self._resubmitted.get(task.name, 0)
        future = self._client.submit(
            begun,
            task,
            f"{self._topic}-{task.name}",
            key=f"{self._topic}-{task.name}-{number}",
            resources={RESOURCE: 1} if task.needs_torch else None,
            pure=False,
        )
        self._running[future] = task

    def _outcome(self, future: Future[Outcome], task: Task) -> Outcome | None:
        """The outcome of a task that is over; None where it is begun once more.  Raises :class:`ClusterError`."""
        if future.status == "cancelled":
            raise CancelledError
        if future.status == "finished":
            return future.result(timeout=PATIENCE)
        error = future.exception(timeout=PATIENCE)
        if not isinstance(error, KilledWorker):
            raise ClusterError(f"a worker is not fit for the work: {type(error).__name__}: {error}")
        number = self._resubmitted.get(task.name, 0) + 1
        if number >= TRIES or len(starts(self._client, f"{self._topic}-{task.name}")) >= TRIES:
            return outcome_of(task, "died", LOST, TRIES)
        self._resubmitted[task.name] = number  # this scheduler gives up after the first loss
        self._submit(task)
        return None

    def _workers(self) -> list[dict[str, Any]]:
        """The scheduler's information on its workers, asked for again :data:`LOOK` seconds later at the earliest."""
        if time.monotonic() > self._known_until:
            self._known = list(self._client.scheduler_info()["workers"].values())
            self._known_until = time.monotonic() + LOOK
        return self._known

    def _is_stuck(self) -> bool:
        """Whether all that is left waits for a worker with torch, and there is none."""
        left = [task for task in self._running.values() if task.needs_torch]
        if len(left) < len(self._running) or any(RESOURCE in one["resources"] for one in self._workers()):
            return False
        count = len(left) + len(self._waiting[True])
        waiting = "1 repository waits" if count == 1 else f"{count} repositories wait"
        start = f"dask worker ADDRESS --resources {RESOURCE}=1"
        self._tell(f"autofix: {waiting} for a worker with torch: start one with `{start}`, and call again")
        return True


def begun(task: Task, topic: str) -> Outcome:
    """Do a task on a worker of the cluster, and log its begin there first; give it up if it was begun too often."""
    client = get_client()
    before = len(starts(client, topic))
    if before >= TRIES:
        return outcome_of(task, "died", LOST, before)
    client.log_event(topic, "begun")
    return examine(task, before + 1)


def starts(client: Client, topic: str) -> Sequence[object]:
    """The starts of a task that the scheduler knows of."""
    return client.get_events(topic) or ()
