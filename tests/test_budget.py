"""The time that one file may take."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from autofix import budget, engine
from autofix.checking import Problem, Result, check
from autofix.codemods import repair
from autofix.outcomes import Outcomes

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no such timer")

BROKEN = """\
import torch
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
store = []
for step in range(10):
    store.append(net(torch.randn(2, 4)))
    loss = sum(item.sum() for item in store)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def forever(*_: object, **__: object) -> None:
    """An endless computation that swallows :class:`Spent` once, as a destructor or a broad handler does."""
    try:
        while True:
            pass
    except budget.Spent:
        while True:
            pass


def endless(*_: object, **__: object) -> None:
    while True:
        pass


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "AGAIN", 1.0)


def test_what_takes_too_long_is_ended_once_and_for_all() -> None:
    with pytest.raises(budget.Spent), budget.bounded(0.1):
        forever()
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGPROF) is signal.SIG_DFL


def test_the_time_of_the_outer_block_counts() -> None:
    with pytest.raises(budget.Spent), budget.bounded(0.1), budget.bounded(1000.0):
        forever()


def test_a_thread_goes_without() -> None:
    said: list[str] = []

    def work() -> None:
        with budget.bounded(0.1):
            said.append("done")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert said == ["done"]


def test_a_file_that_takes_too_long_is_given_up_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = engine.analyse
    monkeypatch.setattr(budget, "SECONDS", 2.0)
    monkeypatch.setattr(engine, "analyse", lambda text, *a, **k: forever() if "slow" in text else real(text, *a, **k))
    (tmp_path / "a.py").write_text("slow = 1\n")
    (tmp_path / "b.py").write_text("x = 1\n")
    first, second = check([tmp_path / "a.py", tmp_path / "b.py"])
    assert isinstance(first, Problem)
    assert first.reason == "given up after 2 seconds of computing"
    assert isinstance(second, Result)


def test_mistakes_whose_repair_takes_too_long_are_told_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text(BROKEN)
    (known,) = check([tmp_path / "a.py"])  # LibCST is imported, which takes time of its own
    assert isinstance(known, Result)
    assert [finding.fixed for finding in known.analysis.findings] == [True]
    monkeypatch.setattr(budget, "SECONDS", 1.0)
    monkeypatch.setattr(repair, "mend", endless)
    (told,) = check([tmp_path / "a.py"])
    assert isinstance(told, Result)
    assert [finding.fixed for finding in told.analysis.findings] == [False]
    assert not told.analysis.complete


def test_what_is_looked_at_again_is_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_text(BROKEN)
    (known,) = check([tmp_path / "a.py"])
    assert isinstance(known, Result)
    report = Outcomes(tell=lambda _: None)
    report.add(known)
    report.write()
    monkeypatch.setattr(budget, "SECONDS", 0.5)
    monkeypatch.setattr(engine, "analyse", forever)
    again = known.over({known.file.name: "x = 1\n"})
    assert not again.analysis.complete
    assert not again.analysis.findings


def test_an_expression_too_deep_to_be_followed_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deep(*_: object, **__: object) -> None:
        raise RecursionError

    monkeypatch.setattr(engine, "analyse", deep)
    (tmp_path / "a.py").write_text("x = 1\n")
    (told,) = check([tmp_path / "a.py"])
    assert isinstance(told, Problem)
    assert told.reason == "an expression is nested too deeply to be followed"
    assert not told.trace
