"""The tape computes the values that Python computes, or says that it does not know: never other values.

``python_idioms`` holds the pieces of Python, an empty line between two: each ends with ``r`` being something.
"""

from __future__ import annotations

import warnings
from pathlib import Path as File
from typing import Any

import pytest

from autofix.codemods.interpreter.interpreter import ProgramInterpreter
from autofix.codemods.interpreter.policy import BranchPolicy, Path
from autofix.codemods.interpreter.values import Binding, Mapping, Sequence, Value, is_constant
from autofix.codemods.source.program import Program
from autofix.codemods.source.sources import Sources

PIECES = File(__file__).with_name("python_idioms")
_KINDS: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": set, "deque": list}


def pieces(name: str) -> list[str]:
    return (PIECES / name).read_text(encoding="utf-8").strip("\n").split("\n\n")


class Unsure(Exception):
    """A value that is not known."""


def plain(value: Value) -> Any:
    if isinstance(value, Sequence) and not value.more:
        return _KINDS[value.kind](plain(slot.value) for slot in value.items)
    if isinstance(value, Mapping) and not value.more:
        return {key: plain(slot.value) for key, slot in value.items.items()}
    if is_constant(value) or isinstance(value, range):
        return value
    raise Unsure


def on_the_tape(text: str) -> Any:
    """Value of ``r`` on the tape.  Raises :class:`Unsure`."""
    sources = Sources(Program.of(text, "piece.py"))
    machine = ProgramInterpreter(sources, BranchPolicy(Path()))
    machine.globals.names["__name__"] = Binding("__main__")
    try:
        machine.run(sources.main.tree.body)
        slot = machine.globals.names.get("r")
        if slot is None:
            raise Unsure
        return plain(slot.value)
    finally:
        machine.close()


def in_python(text: str) -> Any:
    names: dict[str, Any] = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # Python 3.14 warns of a `return` in `finally`
        exec(compile(text, "piece.py", "exec", dont_inherit=True), names)
    return names["r"]


@pytest.mark.parametrize("text", pieces("known.txt"))
def test_what_is_written_out_is_computed(text: str) -> None:
    assert on_the_tape(text) == in_python(text)


@pytest.mark.parametrize("text", pieces("open.txt"))
def test_what_is_not_known_is_not_guessed(text: str) -> None:
    try:
        found = on_the_tape(text)
    except Unsure:
        return
    assert found == in_python(text)


@pytest.mark.parametrize("doubled", ["f'{r}{r}'", "r + r", "'%s%s' % (r, r)", "'{}{}'.format(r, r)", "''.join([r, r])"])
def test_a_text_that_is_doubled_again_and_again_is_given_up(doubled: str) -> None:
    """Each line doubles the text: forty of them would fill the memory."""
    with pytest.raises(Unsure):
        on_the_tape("r = 'ab'\n" + f"r = {doubled}\n" * 16)
