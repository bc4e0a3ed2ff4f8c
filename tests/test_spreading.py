"""A worker that is killed costs its own file one more try, or two beside others; all else is checked as before."""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autofix import checking as checker
from autofix import spreading
from autofix.checking import Problem, Result
from autofix.spreading import spread

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="a worker must be forked to find what a test has put in"
)

OWN_WORKER = os.getpid()


def note(folder: Path, number: int) -> int:
    """Count a try to work on *number*; returns the tries so far."""
    with (folder / str(number)).open("a") as file:
        file.write("x")
    return len((folder / str(number)).read_text())


def work(folder: Path, deadly: dict[int, int], number: int) -> int:
    """The square of *number*; the first tries at a *deadly* one (number to count of tries) kill the process."""
    if note(folder, number) <= deadly.get(number, 0):
        assert os.getpid() != OWN_WORKER
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def squares(folder: Path, deadly: dict[int, int], count: int = 40) -> list[int]:
    return list(spread(partial(work, folder, deadly), range(count), 2, lambda number: -number))


def tries(folder: Path, number: int) -> int:
    return len((folder / str(number)).read_text())


def test_nobody_dies(tmp_path: Path) -> None:
    assert squares(tmp_path, {}) == [number * number for number in range(40)]
    assert all(tries(tmp_path, number) == 1 for number in range(40))


@pytest.mark.parametrize("victim", [0, 17, 39])
def test_an_item_whose_worker_dies_once_is_done_all_the_same(tmp_path: Path, victim: int) -> None:
    assert squares(tmp_path, {victim: 1}) == [number * number for number in range(40)]
    assert tries(tmp_path, victim) == 2


def test_what_costs_most_is_begun_first_and_the_order_of_the_results_stays(tmp_path: Path) -> None:
    order = tmp_path / "order"
    done = list(spread(partial(begun, order), range(30), 1, lambda number: -number, lambda number: float(number == 21)))
    assert done == list(range(30))
    assert order.read_text().split()[0] == "21"


def begun(order: Path, number: int) -> int:
    with order.open("a") as file:
        file.write(f"{number} ")
    return number


def test_an_item_that_always_kills_its_worker_is_lost(tmp_path: Path) -> None:
    deadly = {0: 9, 3: 9, 20: 9, 39: 9}
    expected = [-number if number in deadly else number * number for number in range(40)]
    assert squares(tmp_path, deadly) == expected
    assert all(tries(tmp_path, number) <= 3 for number in deadly)


def test_an_item_whose_worker_dies_alone_is_lost_after_two_tries(tmp_path: Path) -> None:
    assert list(spread(partial(work, tmp_path, {0: 9}), range(1), 1, lambda number: -1)) == [-1]
    assert tries(tmp_path, 0) == 2


def stopped(folder: Path, number: int) -> int:
    """Of two items at once, the death of the first stops the second before its first try; alone it dies once."""
    begun = note(folder, 10 + number)
    if begun == 1:
        while not all((folder / str(10 + other)).exists() for other in range(2)):
            time.sleep(0.01)
        if number == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
    return work(folder, {1: 1}, number)


def test_an_item_that_was_in_hand_beside_a_killed_worker_has_two_tries_of_its_own(tmp_path: Path) -> None:
    assert list(spread(partial(stopped, tmp_path), range(2), 2, lambda number: -1)) == [0, 1]
    assert tries(tmp_path, 1) == 2


def test_every_item_kills_its_worker(tmp_path: Path) -> None:
    assert squares(tmp_path, dict.fromkeys(range(6), 9), count=6) == [-number for number in range(6)]


def test_an_exception_of_the_function_comes_through() -> None:
    with pytest.raises(ValueError, match="0"):
        list(spread(fails, range(20), 2, lambda number: -number))


def fails(number: int) -> int:
    raise ValueError(number)


def long_result(number: int) -> bytes:
    return bytes([number]) * 2**20


def test_no_long_message_goes_through_the_pools_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool would wait for ever for the rest of a message whose writer was killed; a short one is written at once."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    lengths = []
    inside = spreading._received

    def received(answer: Any) -> Any:
        lengths.append(len(pickle.dumps(answer)))
        return inside(answer)

    monkeypatch.setattr(spreading, "_received", received)
    assert list(spread(long_result, range(20), 2, lambda number: b"")) == [long_result(number) for number in range(20)]
    assert len(lengths) == 10 and max(lengths) < select.PIPE_BUF
    assert list(tmp_path.iterdir()) == []


SCRIPT = "import torch\nloss = torch.ones(3, requires_grad=True) * 2\nloss.backward()\n"


def test_a_check_goes_on_without_a_killed_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file kills its process whenever it is analysed, another only the first time."""
    places = [tmp_path / f"train{number:02}.py" for number in range(20)]
    for place in places:
        place.write_text(SCRIPT)
    notes = tmp_path / "notes"
    notes.mkdir()
    inside = checker.check_path
    inside(places[0])  # every worker inherits the modules that the first analysis loads

    def deadly(path: Path, *others: object, **options: object) -> Result | Problem:
        most = {"train05.py": 9, "train11.py": 1}.get(path.name, 0)
        if note(notes, int(path.stem[-2:])) <= most:
            os.kill(os.getpid(), signal.SIGKILL)
        return inside(path, *others, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(checker, "check_path", deadly)
    monkeypatch.setattr(checker, "cpu_count", lambda: 2)
    outcomes = list(checker.check(places))
    assert [isinstance(outcome, Problem) for outcome in outcomes] == [place.stem == "train05" for place in places]
    (problem,) = [outcome for outcome in outcomes if isinstance(outcome, Problem)]
    assert problem.name.endswith("train05.py")
    assert "killed twice" in problem.reason
    assert all(len(outcome.analysis.findings) == 1 for outcome in outcomes if isinstance(outcome, Result))
    assert tries(notes, 11) == 2
