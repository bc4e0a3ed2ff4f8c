"""The server's report on an edited text at once: equal to the whole analysis afterwards, or missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from autofix.codemods.facts.base import Span
from autofix.server.analysis import Analyst
from autofix.server.carrying import Shift
from autofix.server.reports import Report, Request

BROKEN = '''\
import torch
from torch import nn


def helper(values):
    """The mean.

    # of all values
    """
    return sum(values) / len(values)


net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
store = []
for step in range(100):
    h = net(torch.randn(2, 4))
    store.append(h)
    loss = sum(item.sum() for item in store)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
'''
FIXED = BROKEN.replace("    optimizer.step()\n", "    store[-1] = store[-1].detach()\n    optimizer.step()\n")
RATE, LOSS, HEAD = "lr=0.1", "loss = sum(item.sum() for item in store)", "import torch\n"


def reports(analyst: Analyst, path: Path, text: str, serial: int) -> list[Report]:
    return list(analyst.reports(Request(serial, str(path), serial, {str(path): text})))


def said(report: Report) -> list[object]:
    """All that a report shows, and all that it offers first."""
    findings = [(one.code, one.cause, one.message, tuple(one.roles())) for one in report.findings]
    return [findings, [report.fixes[one][0] for one in report.findings if one in report.fixes], report.all_safe]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BROKEN, BROKEN.replace(HEAD, "# one\n\n# two\n" + HEAD)),
        (BROKEN, BROKEN.replace(RATE, "lr=0.25")),
        (BROKEN, BROKEN.replace("sum(values) /", "sum(values)\n    values = 2 * values\n    return values /")),
        (BROKEN, BROKEN.replace("    # of all values", "    # of some values\n")),
        (FIXED, FIXED.replace(RATE, "lr=0.25")),
        (FIXED, FIXED + "print(loss)\n"),
    ],
)
def test_what_is_told_at_once_is_what_the_analysis_says(tmp_path: Path, before: str, after: str) -> None:
    analyst = Analyst()
    known = reports(analyst, tmp_path / "train.py", before, 1)[-1]
    first, *_, last = reports(analyst, tmp_path / "train.py", after, 2)
    assert first.version == last.version == 2
    assert said(first) == said(last)
    assert len(first.findings) == len(known.findings)
    assert first.texts == last.texts or not first.findings
    fresh = reports(Analyst(), tmp_path / "train.py", after, 2)[-1]
    assert said(last) == said(fresh)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (FIXED, BROKEN),
        (BROKEN, FIXED),
        (BROKEN, BROKEN.replace("store.append(h)", "store.append(h)  # autofix: ignore[AF101]")),
        (BROKEN, BROKEN.replace("store.append(h)", "store.append(1 * h)")),  # the finding's own line
        (FIXED, FIXED.replace(LOSS, "loss = sum(item.sum() for item in store).item()")),
    ],
)
def test_nothing_is_told_at_once_where_the_edit_matters(tmp_path: Path, before: str, after: str) -> None:
    analyst = Analyst()
    reports(analyst, tmp_path / "train.py", before, 1)
    told = reports(analyst, tmp_path / "train.py", after, 2)
    (fresh, *_) = reports(Analyst(), tmp_path / "train.py", after, 2)
    assert said(told[0]) == said(fresh)


def test_an_edit_that_is_taken_back_is_not_analysed_again(tmp_path: Path) -> None:
    analyst = Analyst()
    known = reports(analyst, tmp_path / "train.py", BROKEN, 1)[-1]
    reports(analyst, tmp_path / "train.py", FIXED, 2)
    (again,) = reports(analyst, tmp_path / "train.py", BROKEN, 3)
    assert (again.serial, again.version) == (3, 3)
    assert said(again) == said(known)


def test_what_is_imported_counts_as_well(tmp_path: Path) -> None:
    analyst, path, other = Analyst(), tmp_path / "train.py", tmp_path / "library.py"
    text = BROKEN.replace("store.append(h)", "keep(store, h)").replace(HEAD, HEAD + "from library import keep\n")
    kept = {name: f"def keep(store, h):\n    {name}\n" for name in ("store.append(h)", "store[:] = [h]")}
    for serial, (name, codes) in enumerate({"store.append(h)": ["AF101"], "store[:] = [h]": []}.items()):
        request = Request(serial, str(path), 1, {str(path): text, str(other): kept[name]})
        assert all([one.code for one in report.findings] == codes for report in analyst.reports(request))


def test_lines_move_behind_an_edit_and_stay_before_it() -> None:
    shift = Shift.between(["a", "b", "c", "d"], ["a", "x", "y", "z", "c", "d"])
    assert shift == Shift(1, 1, 3)
    assert [shift.line(one) for one in (1, 3, 4)] == [1, 5, 6]
    spans = [Span("p", line, 0, line, 1) for line in (1, 2, 3, 4)]
    assert [shift.touches(span) for span in spans] == [False, True, False, False]
    assert Shift.between(["a", "b"], ["a", "b"]) == Shift(2, 0, 0)
