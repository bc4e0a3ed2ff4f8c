"""Scripts that no longer parse because the name of an argument became a keyword."""

from __future__ import annotations

import pytest

from autofix.engine import SourceError, analyse


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x = x.cuda(async=True)\n", "x = x.cuda(non_blocking=True)\n"),
        ("x = 1\rx = x.cuda(async=True)\r", "x = 1\rx = x.cuda(non_blocking=True)\r"),
        ("x = 1\r\nx = x.cuda(async=True)\ry = 2\n", "x = 1\r\nx = x.cuda(non_blocking=True)\ry = 2\n"),
        ("x = x.cuda(0, async = flag)\r\ny = 1\r\n", "x = x.cuda(0, non_blocking = flag)\r\ny = 1\r\n"),
        (
            "x, y = x.cuda(async=True), y.cuda(async=True)\n",
            "x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)\n",
        ),
        (
            "buffer.copy_(\n    batch['x'],  # async=True\n    async=(len(a) > 1))\n",
            "buffer.copy_(\n    batch['x'],  # async=True\n    non_blocking=(len(a) > 1))\n",
        ),
    ],
    ids=[
        "alone",
        "carriage returns alone",
        "mixed line ends",
        "with a device, spaces and carriage returns",
        "twice on a line",
        "over several lines",
    ],
)
def test_the_argument_has_its_new_name(old: str, new: str) -> None:
    found = analyse(old, "train.py")
    assert found.source == old
    assert found.patched == new
    assert {finding.code for finding in found.findings} == {"AF701"}
    assert all(finding.fixed for finding in found.findings)


@pytest.mark.parametrize(
    "text",
    [
        "async = 3\n",
        "queue.publish(message, async=True)\n",
        "x.cuda(async=True)\nqueue.publish(message, async=True)\n",
        "cuda(async=True)\n",
        "x.cuda(f(async=True))\n",
        "x.cuda(async=True)\nprint 'old'\n",
    ],
    ids=["a variable", "another library", "both", "a function", "an argument's own call", "Python 2"],
)
def test_what_else_does_not_parse_stays_an_error(text: str) -> None:
    with pytest.raises(SourceError):
        analyse(text, "train.py")


def test_what_parses_is_not_looked_at() -> None:
    text = "async def load(x):\n    return 'x.cuda(async=True)'\n"
    assert analyse(text, "train.py").findings == ()
