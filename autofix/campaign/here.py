"""A campaign on this machine: several repositories at once, each in processes of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from autofix.campaign.bounded import STOP
from autofix.campaign.examine import examine
from autofix.campaign.task import Outcome, Task


def here(tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    """The outcomes as they come, of *jobs* tasks at a time.  An interrupt ends the tasks at work without an outcome."""
    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(examine, task) for task in tasks]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            STOP.set()
            pool.shutdown(cancel_futures=True)
            raise
