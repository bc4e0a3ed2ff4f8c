"""IPython's syntax in a cell, which Python does not understand, put out of the way with lines and columns kept.

The rules are jupytext's: line magics, shell commands and questions become ``pass``; a statement behind ``%time`` stays
in its place; a cell whose magic hands it to another program, or to another language, is no part of the Python program.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

OF_PYTHON = frozenset("capture debug memit mprun prun pypy time timeit wandb".split())
"""Magics whose cell is Python that runs in the notebook's own namespace."""
COMMANDS = "cat cd conda cp ls ll mamba man mkdir more mv pip pwd rm rmdir uv"
"""Magics that are written without the percent sign."""

_CELL_MAGIC = re.compile(r"\s*%%(?P<name>\w+)")
_COMMAND = re.compile(rf"\s*(?:{COMMANDS.replace(' ', '|')})(?:\s+[^\s=(.,].*)?$")
_QUESTION = re.compile(r"\s*(?:\?\??\s*%{0,2}[\w.*\[\]]+|%{0,2}[A-Za-z_*][\w.*\[\]]*\?\??)\s*;?\s*$")
_ASSIGNED = re.compile(r"(?P<target>\s*[^=#'\"]+=\s*)(?P<magic>[%!].*)$")
_TIMED = re.compile(r"%time\s+(?=\S)")
_TOKEN = re.compile(
    r"#[^\n]*"
    r'|"""(?:\\.|[^\\])*?(?:"""|\Z)'
    r"|'''(?:\\.|[^\\])*?(?:'''|\Z)"
    r'|"(?:\\.|[^\\\n"])*(?:"|(?=\n)|\Z)'
    r"|'(?:\\.|[^\\\n'])*(?:'|(?=\n)|\Z)"
    r"|\\\n|.",
    re.DOTALL,
)


@dataclass(frozen=True)
class Neutral:
    """A line of a cell as Python may read it; its beginning, ``lead``, ``stands_for`` a part of the cell's own line."""

    text: str
    lead: str = ""
    stands_for: str = ""


def is_of_another_language(source: str) -> bool:
    """Whether the first line of a cell hands it to another program or language."""
    found = _CELL_MAGIC.match(source)
    return found is not None and found["name"] not in OF_PYTHON


def neutral(source: str) -> list[Neutral]:
    """The lines of a cell with its magics put out of the way."""
    lines = source.split("\n")
    if parses(source):
        return [Neutral(line) for line in lines]
    found: list[Neutral] = []
    continues = dict(_magic_lines(source))
    for number, line in enumerate(lines):
        found.append(_neutral(line, continues=continues[number]) if number in continues else Neutral(line))
    return found


def parses(source: str) -> bool:
    """Whether lines are Python as they stand."""
    return _why_not(source, ast.PyCF_ONLY_AST) is None


def why_not(source: str) -> SyntaxError | None:
    """Why a cell is no Python, if it is not: compiled by itself, as IPython does, it has no ``return`` of its own."""
    return _why_not(source, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def _why_not(source: str, flags: int) -> SyntaxError | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(source, "<cell>", "exec", flags, dont_inherit=True)
        except SyntaxError as error:
            return error
        except (ValueError, RecursionError, MemoryError) as error:
            return SyntaxError(str(error) or "an expression is nested too deeply to be parsed")
    return None


_COMMENT = re.compile(r"""(?P<text>"[^"]*"|'[^']*')|#.*""")
_ASSIGNS = re.compile(r"(?<![=!<>:])(?:[-+*/%&|^@]|//|\*\*|<<|>>)?=(?!=)")
_NAMES = re.compile(r"(?<![\w.])[^\W\d]\w*")
_BOUND = re.compile(r"\bfor\b(?P<loop>.+?)\bin\b|\bas\s+(?P<alias>\w+)|(?P<walrus>\w+)\s*:=")
PAIRS = (("(", ")"), ("[", "]"), ("{", "}"))
_DEFINED = re.compile(r"(?P<blank>\s*)(?:async\s+)?(?:def|class)\s+(?P<name>\w+)")


def unread(source: str) -> list[Neutral]:
    """The lines of a cell that is no Python: all that it may assign becomes unknown.

    A name that stands left of ``=``, or that a loop, a ``with``, a definition or ``:=`` binds, is given the result of a
    call that nobody knows; what a function assigns is its own.  All else is left out.

    >>> [line.text for line in unread("loss = <YOUR CODE>\\nprint(loss)")]
    ['loss = get_ipython()', '']
    """
    found: list[Neutral] = []
    inside: int | None = None  # the indentation of the definition that is read
    for line in source.split("\n"):
        code = line.rstrip("\r")
        end, indent = line[len(code) :], len(code) - len(code.lstrip())
        if inside is not None and code.strip() and indent <= inside:
            inside = None
        names = dict.fromkeys(bound(code)) if inside is None else {}
        if inside is None and _DEFINED.match(code):
            inside = indent
        lead = f"{', '.join(names)} = get_ipython()" if names else ""
        found.append(Neutral(lead + end, lead, code))
    return found


def bound(line: str) -> Iterator[str]:
    """Yield the names that a line may bind, whether or not it is Python; more of them, rather than too few."""
    if defined := _DEFINED.match(line):
        yield defined["name"]
        return
    if line.lstrip().startswith(("import ", "from ")):
        return
    code = _COMMENT.sub(lambda found: '""' if found["text"] else "", line)
    for piece in code.split(";"):
        places = [found.start() for found in _ASSIGNS.finditer(piece)]
        targets = [piece[:at] for at in places if all(piece[:at].count(a) == piece[:at].count(b) for a, b in PAIRS)]
        for found in _BOUND.finditer(piece):
            targets.append(next(filter(None, found.groups())))
        for name in _NAMES.findall(" ".join(targets)):
            if not keyword.iskeyword(name) and not hasattr(builtins, name):
                yield name


def _neutral(line: str, *, continues: bool) -> Neutral:
    code = line.rstrip("\r")
    end = line[len(code) :]
    if continues:
        return Neutral(end, "", code)
    blank = code[: len(code) - len(code.lstrip())]
    magic = code[len(blank) :]
    timed = _TIMED.match(magic)
    if timed is not None and parses(rest := magic[timed.end() :]):
        lead = f"{blank}pass;".ljust(len(blank) + timed.end())
        return Neutral(lead + rest + end, lead, blank + timed[0])
    assigned = _ASSIGNED.match(code)
    if assigned is not None and not magic.startswith(("%", "!")):
        target = assigned["target"]
        timed = _TIMED.match(assigned["magic"])
        if timed is not None and parses(target.strip() + (rest := assigned["magic"][timed.end() :])):
            lead = target + " " * timed.end()
            return Neutral(lead + rest + end, lead, target + timed[0])
        return Neutral(f"{target}None{end}", f"{target}None", code)
    return Neutral(f"{blank}pass{end}", f"{blank}pass", code)


def _magic_lines(source: str) -> Iterator[tuple[int, bool]]:
    """Yield the indices of the lines that hold a magic, and whether they carry one on behind a backslash."""
    lines = source.split("\n")
    at = start = 0
    while at < len(lines):
        first = at
        if _is_magic(lines[at].rstrip("\r")):
            yield at, False
            while lines[at].rstrip("\r").endswith("\\") and at + 1 < len(lines):
                at += 1
                yield at, True
            at += 1
        else:
            at += _lines_of_statement(source, start)
        start += sum(len(line) + 1 for line in lines[first:at])


def _is_magic(line: str) -> bool:
    """Whether a line at which a statement begins is IPython's rather than Python's."""
    if line.lstrip()[:1] in ("%", "!"):
        return True
    if _QUESTION.match(line) or _ASSIGNED.match(line):
        return True
    return _COMMAND.match(line) is not None and not parses(line.strip())


def _lines_of_statement(source: str, start: int) -> int:
    """Number of lines of the logical line that begins at *start*."""
    depth = lines = 0
    for token in _TOKEN.finditer(source, start):
        text = token[0]
        if text == "\n":
            lines += 1
            if depth <= 0:
                return lines
        elif text in ("(", "[", "{"):
            depth += 1
        elif text in (")", "]", "}"):
            depth -= 1
        else:
            lines += text.count("\n")
    return lines + 1
