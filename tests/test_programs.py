"""Programs in ``tests/programs``: a comment names the mistake at the line that is its cause; PyTorch has the last word.

``# AF301`` stands at the line of a cause, ``# AF601 silent`` where PyTorch raises nothing.  A program without such a
comment has no mistake.  ``# --- name`` begins a program.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from autofix.engine import analyse

FOLDER = Path(__file__).parent / "programs"
_EXPECTED = re.compile(r"#.*\b(AF\d{3})( silent)?$")


class Told(NamedTuple):
    """An expected finding."""

    code: str
    line: int
    silent: bool


def _programs() -> list[tuple[str, str]]:
    found = []
    for path in sorted(FOLDER.glob("*.txt")):
        _, *sections = re.split(r"^# --- ", path.read_text("utf-8"), flags=re.MULTILINE)
        for section in sections:
            name, _, text = section.partition("\n")
            found.append((f"{path.stem}: {name}", text))
    return found


PROGRAMS = _programs()


def _expected(text: str) -> list[Told]:
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _EXPECTED.search(line)
        if match is not None:
            found.append(Told(match[1], number, match[2] is not None))
    return found


def _executed(text: str) -> str:
    """The message of PyTorch's error; empty where there is none."""
    torch.manual_seed(0)
    try:
        exec(compile(text, "train.py", "exec"), {"__name__": "__main__"})
    except (AttributeError, RuntimeError, TypeError) as error:
        return str(error)
    finally:
        torch.set_grad_enabled(True)
    return ""


@pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch says that the gradient of a result is None
@pytest.mark.parametrize("text", [text for _, text in PROGRAMS], ids=[name for name, _ in PROGRAMS])
def test_the_program_has_the_mistakes_that_its_comments_name(text: str) -> None:
    expected = _expected(text)
    result = analyse(text, "train.py")
    told = [(one.code, one.cause.line) for one in result.findings]
    assert told == [(one.code, one.line) for one in expected]
    assert bool(_executed(text)) == any(not one.silent for one in expected)
    if result.findings and all(one.fixed for one in result.findings):
        assert _executed(result.patched) == ""
