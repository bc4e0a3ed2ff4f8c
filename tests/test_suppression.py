"""Suppressed mistakes are neither reported nor repaired, and count for no exit code."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autofix.cli import main
from autofix.suppression.directives import directives_in

HEAD = """\
import torch
from torch import nn

net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
inputs, target = torch.randn(8, 4), torch.randn(8, 1)
"""
LOOP = """\
history = [torch.zeros(8, 1)]
for step in range(100):
    output = net(inputs)
    average = torch.stack(history).mean(0)
    loss = (output - target).pow(2).mean() + 0.1 * (output - average).pow(2).mean()
    history.append(output)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
BROKEN = HEAD + LOOP
KEPT = "    history.append(output)"
Check = Callable[..., tuple[int, str]]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """Return a function that checks with the options given and returns exit code and output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def run(*options: str) -> tuple[int, str]:
        code = main(["check", *options])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


def put(text: str, name: str = "train.py") -> None:
    Path(name).write_bytes(text.encode())


def codes(report: str) -> list[str]:
    return [line.split()[1] for line in report.splitlines() if " AF" in line]


def with_comment(comment: str, line: str = KEPT) -> str:
    assert BROKEN.count(f"{line}\n") == 1
    return BROKEN.replace(f"{line}\n", f"{line}  {comment}\n")


@pytest.mark.parametrize(
    "text",
    [
        with_comment("# autofix: ignore"),
        with_comment("# autofix: ignore[AF101]"),
        with_comment("#autofix:ignore[ AF201 , af101 ] because it is meant"),
        with_comment("# autofix: ignore[AF1]"),
        with_comment("# autofix: ignore[stored-tensor]"),
        with_comment("# autofix: ignore[AF100]"),
        with_comment("# type: ignore  # autofix: ignore[AF101]"),
        with_comment("# noqa"),
        with_comment("# noqa: AF101"),
        with_comment("# NOQA:E501,AF101"),
        BROKEN.replace(KEPT, "    # autofix: ignore[AF101]\n" + KEPT),
        BROKEN.replace(KEPT, "    history.append(  # autofix: ignore[AF101]\n        output\n    )"),
        BROKEN.replace(KEPT, "    history.append(\n        output\n    )  # autofix: ignore[AF101]"),
        with_comment("# autofix: ignore-block[AF101]", "for step in range(100):"),
        BROKEN + "\n\n# autofix: ignore-file[AF101]\n",
        "# autofix: ignore-file\n" + BROKEN,
        with_comment("# autofix: ignore[AF101]").replace("\n", "\r\n"),
    ],
)
def test_a_comment_suppresses(check: Check, text: str) -> None:
    put(text)
    assert check("-q") == (0, "")
    assert check("--diff") == (0, "")
    assert check("--fix", "-q") == (0, "")
    assert Path("train.py").read_bytes() == text.encode()


@pytest.mark.parametrize(
    "text",
    [
        with_comment("# autofix: ignore[AF2]"),
        with_comment("# noqa: E501"),
        with_comment("# ruff: noqa: F401"),
        with_comment("# autofix: ignore[AF101]", "    loss.backward()"),
        with_comment("# autofix: ignore[AF101]", "for step in range(100):"),
        with_comment("# autofix: ignore-block[AF101]", "    optimizer.zero_grad()"),
        BROKEN.replace("history.append(output)", 'history.append(output); s = "# autofix: ignore"'),
        BROKEN.replace(KEPT, f'    """\n    # autofix: ignore\n    """\n{KEPT}'),
        BROKEN.replace(KEPT, f"    # noqa\n{KEPT}"),
    ],
)
def test_a_comment_elsewhere_suppresses_nothing(check: Check, text: str) -> None:
    put(text)
    code, report = check("-q")
    assert code == 1
    assert "AF101" in codes(report)


@pytest.mark.parametrize("block", ["@decorated  # autofix: ignore-block", "def train():  # autofix: ignore-block"])
def test_a_block_may_be_a_function(check: Check, block: str) -> None:
    body = "".join(f"    {line}\n" for line in LOOP.splitlines())
    head = "def decorated(function):\n    return function\n\n\n@decorated\ndef train():\n"
    line = block.partition("  #")[0]
    put(HEAD + head.replace(f"{line}\n", f"{block}\n") + body + "\n\ntrain()\n")
    assert check("-q") == (0, "")
    put(HEAD + head + body + "\n\ntrain()\n")
    assert check("-q")[0] == 1


def test_the_rest_is_still_repaired(check: Check) -> None:
    put(with_comment("# autofix: ignore[AF101]") + BROKEN.replace(HEAD, ""))
    assert check("--fix") == (0, "Fixed 1 mistake; all 2 backward passes were followed.\n")
    text = Path("train.py").read_text(encoding="utf-8")
    assert text.count("append(output)") == text.count("append(output.detach())") == 1


def test_a_comment_that_suppresses_nothing_is_reported(check: Check) -> None:
    put(BROKEN.replace("append(output)", "append(output.detach())  # autofix: ignore[AF101]"))
    code, report = check()
    assert code == 1
    assert report.startswith("train.py:12:38: AF001 `# autofix: ignore[AF101]` suppresses nothing\n")
    assert report.splitlines()[1].startswith("Found 1 mistake (none with a safe fix)")
    assert check("--ignore", "AF001", "-q") == check("--select", "AF1", "-q") == (0, "")
    assert check("--select", "AF2", "-q") == (0, "")
    put(BROKEN.replace("append(output)", "append(output.detach())  # noqa: AF101, E501"))
    assert check("--select", "AF001", "-q") == (0, "")


@pytest.mark.parametrize(
    ("comment", "reason"),
    [
        ("# autofix: ignore[AF999]", "no code or name of a mistake begins with `AF999`; `autofix rule` lists them all"),
        ("# autofix: ignore[stord-tensor]", "no code or name of a mistake begins with `stord-tensor`; did you mean"),
        ("# noqa: AF999, E501", "no code or name of a mistake begins with `AF999`; `autofix rule` lists them all"),
    ],
)
def test_a_comment_with_an_unknown_code_is_told_so(check: Check, comment: str, reason: str) -> None:
    put(with_comment(comment))
    code, report = check("-q")
    assert (code, codes(report)) == (1, ["AF101", "AF001"])
    assert f"AF001 `{comment}` suppresses nothing: {reason}" in report


@pytest.mark.parametrize(
    ("comment", "reason"),
    [
        ("# autofix: ignroe[AF101]", "it says none of ignore, ignore-block, ignore-file"),
        ("# autofix: ignore[AF101", "a bracket is not closed"),
        ("# autofix: ignore[]", "there is no code between the brackets"),
        ("# autofix: ignore[1]", "`1` is no code"),
    ],
)
def test_a_comment_that_is_not_understood_suppresses_nothing(check: Check, comment: str, reason: str) -> None:
    put(with_comment(comment))
    code, report = check("-q")
    assert (code, codes(report)) == (1, ["AF101", "AF001"])
    assert f"is not understood: {reason}\n" in report


@pytest.mark.parametrize("comment", ["# noqa", "# noqa: E501", "# noqa: AF001, AF101"])
def test_comments_for_other_tools_are_not_called_unused(check: Check, comment: str) -> None:
    put(f"x = 1  {comment}\n")
    assert check("-q") == (0, "")
    put("x = 1  # noqa: AF101\n")
    assert codes(check("-q")[1]) == ["AF001"]


def test_what_a_caller_may_do_wrong_is_not_called_unused(check: Check) -> None:
    """The mistake is in a function whose program is another file."""
    put("def keep(history, output):\n    history.append(output)  # autofix: ignore[AF101]\n", "keeping.py")
    assert check("-q", "keeping.py") == (0, "")
    put("import keeping\n" + BROKEN.replace("history.append(output)", "keeping.keep(history, output)"))
    assert check("-q") == (0, "")


@pytest.mark.parametrize(
    "text",
    [
        BROKEN,
        BROKEN.replace("\n", "\r\n"),
        BROKEN.replace(KEPT, "    history.append(\n        output\n    )"),
        BROKEN.replace(KEPT, f"{KEPT}  # kept"),
        BROKEN.replace(KEPT, f"{KEPT}  # autofix: ignore[AF201]"),
    ],
)
def test_add_ignores_writes_comments_that_suppress(check: Check, text: str) -> None:
    data = b"# -*- coding: latin-1 -*-\n# \xe4\n" + text.encode()
    Path("train.py").write_bytes(data)
    assert check("--add-ignores") == (0, "Added comments for 1 mistake.\n")
    after = Path("train.py").read_bytes()
    assert after.replace(b"  # autofix: ignore[AF101]", b"").replace(b", AF101]", b"]") == data
    assert "AF101" not in codes(check("-q")[1])
    assert check("--add-ignores", "--ignore", "AF001")[1] == "Added comments for 0 mistakes.\n"
    assert Path("train.py").read_bytes() == after


def test_add_ignores_reports_what_it_cannot_write(check: Check) -> None:
    put(BROKEN)
    Path("train.py").chmod(0o444)
    assert check("--add-ignores") == (
        1,
        "Added comments for 0 mistakes.\ntrain.py:1:1: not written: the file is read-only\n",
    )


def test_a_baseline_leaves_the_new_mistakes(check: Check) -> None:
    put(BROKEN)
    assert check("--write-baseline", "known.json") == (0, "Wrote 1 mistake to known.json.\n")
    (known,) = json.loads(Path("known.json").read_text())["findings"].values()
    assert known["code"] == "AF101"
    assert check("--baseline", "known.json", "-q") == (0, "")
    put("# a line above\n\n" + BROKEN)
    assert check("--baseline", "known.json", "-q") == (0, "")
    assert check("--baseline", "known.json", "--diff") == (0, "")
    put(BROKEN + LOOP)  # the same once more
    code, report = check("--baseline", "known.json", "-q")
    assert (code, codes(report)) == (1, ["AF101"])
    assert report.startswith("train.py:21:")


def test_a_baseline_counts_from_its_own_folder(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("src").mkdir()
    put(BROKEN, "src/train.py")
    check("--write-baseline", "known.json")
    monkeypatch.chdir("src")
    assert check("--baseline", "../known.json", "-q") == (0, "")


@pytest.mark.parametrize("text", [None, "no json", "{}"])
def test_a_baseline_that_cannot_be_read_ends_with_2(check: Check, text: str | None) -> None:
    put(BROKEN)
    if text is not None:
        put(text, "known.json")
    code, report = check("--baseline", "known.json")
    assert code == 2
    assert report.startswith("Error: known.json ")


def git(*words: str) -> None:
    environment = {**os.environ, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b.c"}
    environment |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b.c"}
    subprocess.run(["git", *words], check=True, capture_output=True, env=environment)


def test_since_reports_changed_lines_alone(check: Check) -> None:
    put(BROKEN)
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "first")
    assert check("--since", "HEAD", "-q") == (0, "")
    put(BROKEN.replace("lr=0.1", "lr=0.2") + "# end\n")
    assert check("--since", "HEAD", "-q") == (0, "")
    put(BROKEN.replace("loss.backward()", "loss.backward()  # now"))
    assert codes(check("--since", "HEAD", "-q")[1]) == ["AF101"]
    put(BROKEN)
    put(BROKEN, "new.py")
    assert check("--since", "HEAD", "-q")[1].startswith("new.py:12:")
    assert check("--since", "HEAD", "--fix", "-q") == (0, "")
    assert "detach" in Path("new.py").read_text() and Path("train.py").read_text() == BROKEN


def test_since_what_git_does_not_know_ends_with_2(check: Check) -> None:
    put(BROKEN)
    assert check("--since", "HEAD")[0] == 2
    git("init", "-q")
    code, report = check("--since", "no-such-revision")
    assert (code, report) == (2, "Error: --since no-such-revision: bad revision 'no-such-revision'\n")
    assert check("--since=--output=written")[0] == 2
    assert not Path("written").exists()


def test_statistics_count_by_code(check: Check) -> None:
    put(BROKEN + LOOP)
    put("x = 1  # autofix: ignore\n", "other.py")
    code, report = check("--statistics", "-q")
    assert (code, report) == (1, "2  AF101  [*] stored-tensor\n1  AF001      unused-ignore\n")
    rows: list[dict[str, Any]] = json.loads(check("--statistics", "--output-format", "json")[1])
    assert rows[0] == {"code": "AF101", "name": "stored-tensor", "count": 2, "fixable": 2}
    assert check("--statistics", "--output-format", "sarif")[0] == 2


def test_fixes_can_be_shown_and_the_exit_code_waived(check: Check) -> None:
    put(BROKEN)
    assert check("--exit-zero", "-q")[0] == 0
    code, report = check("--fix", "--show-fixes")
    assert code == 0
    assert report.startswith("train.py:\n  1 x AF101 stored-tensor\nFixed 1 mistake;")


def test_comments_stand_where_the_tokens_say() -> None:
    text = 'x = """\n# autofix: ignore\n"""  # autofix: ignore[AF1]\ny = [\n    1,  # noqa: AF2\n]\n'
    first, second = directives_in("a.py", text)
    assert (first.first, first.last, first.codes) == (1, 3, ("AF1",))
    assert (second.first, second.last, second.codes, second.is_noqa) == (4, 6, ("AF2",), True)
    assert directives_in("a.py", "x = (  # autofix: ignore\n") == ()
