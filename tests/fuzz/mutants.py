"""Mutants of scripts: odd bytes, odd layout, and statements that are lost, doubled or moved.

A mutation is a name and a number, so that a failing mutant can be written down, shrunk and made again.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from tests.training_programs import FAMILIES, Writer

FIXTURES = Path(__file__).parents[2] / "fixtures"
Mutation = tuple[str, int]
BOM = b"\xef\xbb\xbf"


@cache
def fixtures() -> tuple[str, ...]:
    """The single-file fixtures' sources."""
    paths = sorted([*FIXTURES.glob("*/broken.py"), *FIXTURES.glob("*/clean.py")])
    return tuple(path.read_bytes().decode() for path in paths)


def source(number: int) -> str:
    """A fixture, or a script that is written for the occasion."""
    if number % 3:
        return fixtures()[number // 3 % len(fixtures())]
    return Writer(number, list(FAMILIES)[number // 3 % len(FAMILIES)]).scripts()[0]


def _lines(change: Callable[[list[str], random.Random], None]) -> Callable[[bytes, random.Random], bytes]:
    """A change of the lines, each with its end, of a text in UTF-8."""

    def changed(data: bytes, chance: random.Random) -> bytes:
        lines = re.split("(?<=\n)|(?<=\r)(?!\n)", data.decode("utf-8", "surrogateescape"))
        if len(lines) > 1:
            change(lines, chance)
        return "".join(lines).encode("utf-8", "surrogateescape")

    return changed


def _lose(lines: list[str], chance: random.Random) -> None:
    del lines[chance.randrange(len(lines))]


def _double(lines: list[str], chance: random.Random) -> None:
    at = chance.randrange(len(lines))
    lines.insert(at, lines[at])


def _move(lines: list[str], chance: random.Random) -> None:
    line = lines.pop(chance.randrange(len(lines)))
    lines.insert(chance.randrange(len(lines) + 1), line)


def _swap(lines: list[str], chance: random.Random) -> None:
    at = chance.randrange(len(lines) - 1)
    lines[at], lines[at + 1] = lines[at + 1], lines[at]


def _inserted(*texts: str) -> Callable[[list[str], random.Random], None]:
    """Put one of *texts*, indented as the line that it comes before, between the lines."""

    def insert(lines: list[str], chance: random.Random) -> None:
        at = chance.randrange(len(lines))
        indent = re.match(r"[ \t\f]*", lines[at])
        lines.insert(at, (indent[0] if indent else "") + chance.choice(texts) + "\n")

    return insert


def _behind(*texts: str) -> Callable[[list[str], random.Random], None]:
    """Put one of *texts* behind a line."""

    def append(lines: list[str], chance: random.Random) -> None:
        at = chance.randrange(len(lines))
        body = lines[at].rstrip("\r\n")
        lines[at] = body + chance.choice(texts) + lines[at][len(body) :]

    return append


def _form_feed(lines: list[str], chance: random.Random) -> None:
    at = chance.randrange(len(lines))
    lines[at] = "\f" + lines[at]


def _other_ends(lines: list[str], chance: random.Random) -> None:
    end = chance.choice(["\n", "\r\n", "\r"])
    for at in range(len(lines)):
        if chance.random() < 0.5:
            lines[at] = re.sub(r"\r?\n$|\r$", end, lines[at])


def _replaced(old: str, *new: str) -> Callable[[bytes, random.Random], bytes]:
    """Put another text in the place of one occurrence of a pattern."""

    def replace(data: bytes, chance: random.Random) -> bytes:
        found = list(re.finditer(old.encode(), data))
        if not found:
            return data
        one = chance.choice(found)
        return data[: one.start()] + one.expand(chance.choice(new).encode()) + data[one.end() :]

    return replace


def _everywhere(old: bytes, new: bytes) -> Callable[[bytes, random.Random], bytes]:
    return lambda data, _: data.replace(old, new)


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _flip(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]


def _in_encoding(data: bytes, chance: random.Random) -> bytes:
    cookie = chance.choice(["latin-1", "utf-8", "cp1252", "koi8-r", "shift_jis", "rot13", "utf-16", "ascii", "klingon"])
    return f"# -*- coding: {cookie} -*-\n".encode() + data


def _in_block(data: bytes, chance: random.Random) -> bytes:
    head = chance.choice([b"if True:", b"def main():", b"class A:", b"try:", b"for _ in range(3):", b"while True:"])
    body = b"".join(b"    " + line if line.strip() else line for line in data.splitlines(keepends=True))
    tail = b"\nfinally:\n    pass\n" if head == b"try:" else b"\nmain()\n" if head == b"def main():" else b""
    return head + b"\n" + body + tail


MUTATIONS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "lose a line": _lines(_lose),
    "double a line": _lines(_double),
    "move a line": _lines(_move),
    "swap two lines": _lines(_swap),
    "insert a statement": _lines(
        _inserted(
            "pass", "continue", "break", "return", "x = 1; y = 2", "del loss", "loss = None", "output = output",
            "global loss", "assert True, 'é'", "with torch.no_grad(): pass", "loss.backward(retain_graph=True)",
            "raise StopIteration", "history = []", "x = [*history]", "(yield)", "lambda: loss", "import helper",
        )
    ),
    "insert a comment": _lines(_inserted("# ä 中 \u2028 \x85", "#", "# type: ignore", "   ", "\t", "\f", "#\f#")),
    "append to a line": _lines(_behind("  ", "  # ä", ";", " \\", "\t", "; pass", "  # noqa", "\f")),
    "put a form feed before a line": _lines(_form_feed),
    "mix the line ends": _lines(_other_ends),
    "end lines as Windows does": _everywhere(b"\n", b"\r\n"),
    "end lines as the old Macintosh did": _everywhere(b"\n", b"\r"),
    "indent with tabs": _everywhere(b"    ", b"\t"),
    "begin with a mark": lambda data, _: BOM + data,
    "leave out the last line end": lambda data, _: data.rstrip(b"\r\n"),
    "declare an encoding": _in_encoding,
    "cut off the end": _cut,
    "flip a byte": _flip,
    "put all into a block": _in_block,
    "drop a detach": _replaced(r"\.detach\(\)", ""),
    "break an expression over lines": _replaced(r"\(([a-z]+)", r"(\n\1", r"( # é\n  \1", r"(\\\n\1"),
    "parenthesize": _replaced(r"= ([^=\n#]+)", r"= (\1)", r"= ((\1))"),
    "name things in other alphabets": _everywhere(b"loss", "потеря".encode()),
    "change a number": _replaced(r"\b\d+\b", "0", "1", "10000000000", "1_000", "-1"),
    "drop an optimizer's call": _replaced(r"\w+\.(zero_grad|step)\(\)", "pass"),
}  # fmt: skip


def mutant(number: int, mutations: Sequence[Mutation]) -> bytes:
    """The bytes of a source after *mutations*."""
    data = source(number).encode()
    for name, chance in mutations:
        data = MUTATIONS[name](data, random.Random(chance))
    return data
