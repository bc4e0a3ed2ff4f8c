"""Spread work over processes: results in order, and a worker that is killed costs its own item one more try.

The costliest items are begun first, so that no long item is left when all others are done.

A pool of :mod:`concurrent.futures` is broken as a whole when one of its workers dies, of a SIGKILL by the kernel's
out-of-memory killer above all.  Here each worker marks in shared memory which item it has in hand.  When a pool
breaks, each item that was in hand is tried once more, alone; an item whose worker dies again is lost.  Where several
were in hand, most of them did not break the pool, and each gets two tries alone.  A new pool does the rest.

Results come as files: where a worker died as it wrote a long message to the pool's pipe, the pool would wait for the
rest of the message for ever.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from ctypes import c_byte
from itertools import islice
from multiprocessing import active_children, connection, get_context, parent_process
from typing import Any, TypeVar

from autofix.execution.guardian import guarded_folder

T = TypeVar("T")
R = TypeVar("R")

WAITING, IN_HAND, DONE = range(3)
LARGEST_CHUNK = 8
"""Items that a worker takes at once: more would leave the others idle at the end."""
AHEAD = 256
"""Chunks that are handed over before the first of them is done."""
WINDOW = 1024
"""Items of which the costliest are done first: results wait in memory for their turn."""
THOROUGH = 1024
"""Items after which a worker looks through all objects for garbage."""

# A forked worker has all modules loaded; elsewhere than on Linux, the system's libraries may not survive a fork.
CONTEXT = get_context("fork" if sys.platform == "linux" else None)


def spread(
    function: Callable[[T], R],
    items: Sequence[T],
    workers: int,
    lost: Callable[[T], R],
    cost: Callable[[T], float] = lambda _: 1.0,
) -> Iterator[R]:
    """Yield the result of *function* for each of the *items*, in order; of *lost* for an item that kills its worker.

    Items are begun by their *cost*, in any unit.
    """
    with guarded_folder("results") as folder:
        yield from _spread(function, items, workers, lost, [cost(item) for item in items], str(folder))


def _spread(
    function: Callable[[T], R],
    items: Sequence[T],
    workers: int,
    lost: Callable[[T], R],
    costs: Sequence[float],
    folder: str,
) -> Iterator[R]:
    states = CONTEXT.RawArray(c_byte, len(items))
    results: dict[int, R] = {}
    position = 0
    left = list(range(len(items)))
    while left:
        whole = True
        with _pool(min(workers, len(left)), states, folder) as pool:
            chunks = (_submit(pool, function, items, chunk) for chunk in _chunks(left, costs, workers))
            begun = deque(islice(chunks, AHEAD))
            while begun:
                chunk = begun.popleft()
                begun.extend(islice(chunks, AHEAD - len(begun)))
                try:
                    results.update(_received(chunk.result()))
                except BrokenProcessPool:
                    whole = False
                    continue  # a later chunk may have been done before the pool broke
                while position in results:
                    yield results.pop(position)
                    position += 1
        left = [number for number in left if number >= position and number not in results]
        if whole:
            continue
        # A worker that died between two items has none in hand: the first item that is left stands for it.
        suspects = [number for number in left if states[number] == IN_HAND] or left[:1]
        for number in suspects:
            results[number] = _alone(function, items, number, lost, folder, tries=1 if len(suspects) == 1 else 2)
        left = [number for number in left if number not in results]
        for number in left:
            states[number] = WAITING
    while position in results:
        yield results.pop(position)
        position += 1


def _alone(
    function: Callable[[T], R],
    items: Sequence[T],
    number: int,
    lost: Callable[[T], R],
    folder: str,
    tries: int,
) -> R:
    """Result for one item, computed in a process of its own; the result of *lost* where it dies at all *tries*."""
    for _ in range(tries):
        with _pool(1, CONTEXT.RawArray(c_byte, len(items)), folder) as pool:
            try:
                return _received(_submit(pool, function, items, [number]).result())[number]
            except BrokenProcessPool:
                continue
    return lost(items[number])


def _chunks(numbers: Sequence[int], costs: Sequence[float], workers: int) -> Iterator[Sequence[int]]:
    """The numbers in the order in which they are begun: in each window the costly ones first, and alone.

    The others stay in their order: neighbouring files import the same modules, which a worker then knows.
    """
    size = max(1, min(LARGEST_CHUNK, len(numbers) // (4 * workers)))
    for start in range(0, len(numbers), WINDOW):
        window = numbers[start : start + WINDOW]
        share = sum(costs[number] for number in window) * size / len(window)
        window = sorted(window, key=lambda number: -costs[number] if costs[number] >= share else 0.0)
        chunk: list[int] = []
        held = 0.0
        for number in window:
            if chunk and (len(chunk) == size or held + costs[number] > share):
                yield chunk
                chunk, held = [], 0.0
            chunk.append(number)
            held += costs[number]
        yield chunk


def _submit(
    pool: ProcessPoolExecutor, function: Callable[[T], R], items: Sequence[T], numbers: Sequence[int]
) -> Future[str | dict[int, R]]:
    chunk = [(number, items[number]) for number in numbers]
    try:
        return pool.submit(_work, function, chunk)
    except BrokenProcessPool as error:  # by a chunk that was handed over a moment ago
        future: Future[str | dict[int, R]] = Future()
        future.set_exception(error)
        return future


def _work(function: Callable[[T], R], chunk: Sequence[tuple[int, T]]) -> str | dict[int, R]:
    """Compute, in a worker, the results of a chunk by the items' numbers; return them, or a file's name with them."""
    results = {}
    for number, item in chunk:
        _states[number] = IN_HAND
        results[number] = function(item)
        _states[number] = DONE
        _free_cycles()
    try:
        with open(os.path.join(_results, f"{chunk[0][0]}"), "wb") as file:
            pickle.dump(results, file, pickle.HIGHEST_PROTOCOL)
        return file.name
    except OSError:  # the disk is full
        return results


def _free_cycles() -> None:
    """Free, in a worker, the cycles that an item has left, and look through the objects that outlive it no more.

    These are syntax trees above all, of modules that the next items import as well: hundreds of thousands of objects,
    through which the collector would go two times more.
    """
    global _done
    _done += 1
    if _done % THOROUGH:
        gc.collect(0)
    else:  # a few objects that outlived an item are garbage by now
        gc.unfreeze()
        gc.collect()
    gc.freeze()


def _received(answer: str | dict[int, R]) -> dict[int, R]:
    """The results that a worker has handed over."""
    if isinstance(answer, dict):
        return answer
    with open(answer, "rb") as file:
        results: dict[int, R] = pickle.load(file)
    os.unlink(answer)
    return results


@contextmanager
def _pool(workers: int, states: Any, folder: str) -> Iterator[ProcessPoolExecutor]:
    """A pool of processes that ends at once where its user leaves early."""
    others = active_children()
    with (
        _cancelled_in_silence(),
        ProcessPoolExecutor(
            workers, mp_context=CONTEXT, initializer=_prepare_worker, initargs=(states, folder)
        ) as pool,
    ):
        try:
            yield pool
        except BaseException:  # an interrupt above all: leave at once, and not when the queue is empty
            for worker in active_children():
                if worker not in others:
                    worker.terminate()
            raise


@contextmanager
def _cancelled_in_silence() -> Iterator[None]:
    """Let the thread of the pool print no traceback where an interrupt ends the workers as it cancels their tasks.

    The thread then marks a task as failed that was cancelled a moment before, which it must not.  The pool waits for
    it before the block ends: a thread that outlived the block could close files that the ending interpreter uses.
    """
    outside = threading.excepthook

    def told(arguments: threading.ExceptHookArgs) -> None:
        if not issubclass(arguments.exc_type, InvalidStateError):
            outside(arguments)

    threading.excepthook = told
    try:
        yield
    finally:
        threading.excepthook = outside


_states: Any = None
"""In a worker: the state of each item, shared with the process that has started the worker."""
_results = ""
"""In a worker: the folder for results."""
_done = 0
"""In a worker: the number of items done."""


def _prepare_worker(states: Any, folder: str) -> None:
    """Let a worker end at Ctrl-C without a traceback of its own, and whenever its parent ends."""
    global _states, _results
    _states, _results = states, folder
    gc.disable()  # see _free_cycles
    gc.freeze()  # objects from before the fork are never garbage, and looking through them copies their memory
    end_with_parent()


def end_with_parent() -> None:
    """Let this process, a child, end when Ctrl-C or a signal ends its parent."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    """End this process when the one behind *sentinel* is gone: killed, it could not end its workers."""
    connection.wait([sentinel])
    os._exit(1)
