"""Patches that somebody has written by hand, of which nothing is promised: judged by the proof."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from autofix.proof.changed import watched
from autofix.proof.promises import Promises
from autofix.proof.prove import Certificate, Limits, Original, Script, prove

LIMITS = Limits(timeout=60)
PATH = Path(__file__).parent / "no_such_folder" / "train.py"


@cache
def original(text: str) -> Original:
    return Original(Script(PATH, text=text), LIMITS)


def edited(text: str, edits: tuple[tuple[str, str], ...]) -> str:
    """*text* with the first occurrence of each old piece replaced by the new one."""
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def judged(text: str, fixed: str, expected_error: str = "") -> Certificate:
    """The certificate of the script *fixed*, held against the script *text*."""
    _, patched = watched(original(text).script, Script(PATH, text=fixed))
    return prove(original(text), patched, Promises(by_hand=True), expected_error=expected_error)
