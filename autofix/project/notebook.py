"""A notebook as one program: the text of its code cells, one below the other, and the way back into the file.

Before each cell stands a line with its number, so that the text alone says which cell a line is in, also after it was
repaired.  A changed text changes the JSON of those strings only whose lines it changes: outputs, metadata, ids, the
order of keys, indentation and escapes are not written anew but left as they are.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any

from autofix.codemods.rewriting.patch import common_prefix
from autofix.codemods.source import old_keywords
from autofix.project import json_places, magics
from autofix.project.cells import NotebookError, OtherLanguage, name_of_cell
from autofix.project.json_places import Place

_HEAD = re.compile(r"(?:if True:  )?# %% \[autofix\] cell (\d+)\r?")
_MARK = "# [autofix] cell "


# What the file says ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """A code cell: its place among all cells, its source, and the JSON value that holds it."""

    number: int
    source: str
    place: Place
    lines: tuple[magics.Neutral, ...]
    """The lines of the cell as Python may read them."""
    problem: tuple[str, int, int] | None = None
    """Reason why it is no Python, with the line and the column in the cell."""
    indented: bool = False
    """Whether all of it is indented, which IPython undoes."""


@dataclass(frozen=True)
class Notebook:
    """The text of a file ``.ipynb``, and its code cells."""

    raw: str
    cells: tuple[Cell, ...] = field(repr=False)

    @cached_property
    def text(self) -> str:
        """The cells as one program."""
        return "".join(_section(cell) for cell in self.cells)

    @property
    def problems(self) -> Iterator[tuple[int, str, int, int]]:
        """The cells that are no Python: number, reason, line and column."""
        for cell in self.cells:
            if cell.problem is not None:
                yield cell.number, *cell.problem

    def sources(self, text: str) -> dict[int, str]:
        """The sources of the cells, by their numbers, where the program's text is *text* now.

        Raises :class:`NotebookError` where *text* has other cells, or has lost the stand-in for a magic.
        """
        sections = list(_sections(text))
        if [number for number, _ in sections] != [cell.number for cell in self.cells]:
            raise NotebookError("a patch would change more than the insides of cells")
        return {cell.number: _restored(cell, body) for cell, (_, body) in zip(self.cells, sections, strict=True)}

    def with_text(self, text: str) -> str:
        """The file's text where the program's text is *text*.  Raises :class:`NotebookError` as ``sources`` does."""
        sources = self.sources(text)
        raw = self.raw
        for cell in reversed(self.cells):
            if sources[cell.number] != cell.source:
                value = _rewritten(raw, cell, sources[cell.number])
                raw = raw[: cell.place.start] + value + raw[cell.place.end :]
        if {cell.number: cell.source for cell in read(raw).cells} != sources:
            raise NotebookError("the notebook could not be written so that it reads as it should")
        return raw

    def program_lines(self, lines: Collection[int]) -> Iterator[int]:
        """Yield the lines of the program's text that stand in *lines* of the file's own."""
        above = 0
        for cell in self.cells:
            above += 1  # the line with its number
            for number in range(1, len(cell.lines) + 1):
                above += 1
                if self.place_in_file(cell.number, number, 0)[0] in lines:
                    yield above

    def place_in_file(self, cell: int, line: int, column: int) -> tuple[int, int]:
        """Place in the file's own text of a place in a cell: line from 1 and column from 0, as they are given.

        The beginning of the cell where its list of strings is not the list of its lines.
        """
        own = next(one for one in self.cells if one.number == cell)
        at = own.place.start
        strings = self._strings[cell]
        if isinstance(own.place.value, str):
            before = sum(len(part) + 1 for part in own.source.split("\n")[: line - 1]) + column
            at += 1 + _length(self.raw[at : own.place.end], before)
        elif 0 < line <= len(strings) and _is_by_lines(own.place.value):
            _, start, end = strings[line - 1]
            at = start + 1 + _length(self.raw[start:end], column)
        number = bisect_left(self._breaks, at)
        return number + 1, at - (self._breaks[number - 1] + 1 if number else 0)

    @cached_property
    def _breaks(self) -> list[int]:
        return [at for at, character in enumerate(self.raw) if character == "\n"]

    @cached_property
    def _strings(self) -> dict[int, list[Place]]:
        return {cell.number: _tokens(self.raw, cell.place) for cell in self.cells}


def read(raw: str) -> Notebook:
    """The notebook that *raw* says.  Raises :class:`NotebookError`; :class:`OtherLanguage` for one without Python."""
    try:
        top = json_places.value_at(raw)
        if raw[top.end :].strip(" \t\r\n"):
            raise NotebookError("not a notebook: text follows the end of the JSON")
    except ValueError as error:
        line, column = getattr(error, "lineno", 1), getattr(error, "colno", 1)
        reason = f"no valid JSON ({getattr(error, 'msg', error)})" if raw.strip() else "the file is empty"
        raise NotebookError(f"not a notebook: {reason}", line, column) from None
    except RecursionError:
        raise NotebookError("not a notebook: its values are nested too deeply") from None
    document = top.value
    if not isinstance(document, dict) or not isinstance(document.get("nbformat"), int):
        raise NotebookError("not a notebook: it has no `nbformat`")
    if not 2 <= document["nbformat"] <= 4:
        raise NotebookError(f"nbformat {document['nbformat']} is unknown: `jupyter nbconvert --to notebook` renews it")
    if language := _language(document.get("metadata")):
        raise OtherLanguage(f"its kernel runs {language}, not Python")
    found: list[Cell] = []
    for number, cell in enumerate(_cells(raw, top), 1):
        source = _source(raw, cell)
        if source is not None:
            found.append(_cell(number, source))
    return Notebook(raw, tuple(found))


def _language(metadata: Any) -> str:
    """The language that a notebook names, where it is another than Python; empty for Python, and where none is."""
    if not isinstance(metadata, dict):
        return ""
    info, kernel = metadata.get("language_info"), metadata.get("kernelspec")
    named = [info.get("name")] if isinstance(info, dict) else []
    named += [kernel.get("language")] if isinstance(kernel, dict) else []
    languages = [one for one in named if isinstance(one, str) and one]
    return languages[0] if languages and not any("python" in one.lower() for one in languages) else ""


def _cells(raw: str, top: Place) -> Iterator[Place]:
    """The cells of the file, for nbformat 3 the cells of all its worksheets."""
    known = json_places.members(raw, top.start)
    if isinstance(top.value.get("cells"), list):
        yield from json_places.items(raw, known["cells"].start)
    elif isinstance(top.value.get("worksheets"), list):
        for sheet in json_places.items(raw, known["worksheets"].start):
            if isinstance(sheet.value, dict) and isinstance(sheet.value.get("cells"), list):
                yield from json_places.items(raw, json_places.members(raw, sheet.start)["cells"].start)


def _source(raw: str, cell: Place) -> Place | None:
    """The value that holds the source of a cell of Python; None for any other cell."""
    said = cell.value
    if not isinstance(said, dict) or said.get("cell_type") != "code":
        return None
    metadata = said.get("metadata")
    editor = metadata.get("vscode") if isinstance(metadata, dict) else None
    language = editor.get("languageId") if isinstance(editor, dict) else said.get("language")
    if isinstance(language, str) and "python" not in language.lower():
        return None
    key = "source" if "source" in said else "input"
    value = said.get(key)
    is_text = isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value))
    return json_places.members(raw, cell.start)[key] if is_text else None


def _cell(number: int, place: Place) -> Cell:
    source = place.value if isinstance(place.value, str) else "".join(place.value)
    if _MARK in source or any(_HEAD.fullmatch(line) for line in source.split("\n")):
        reason = "it holds a comment that only autofix writes, between cells"
        return Cell(number, source, place, _left_out(source), (reason, 1, 1))
    if magics.is_of_another_language(source):
        return Cell(number, source, place, _left_out(source))
    lines = magics.neutral(source)
    text = "\n".join(line.text for line in lines)
    error = magics.why_not(text)
    if error is not None and (old := old_keywords.renamed(text)) is not None and magics.parses(old.text):
        error = None  # the program as a whole has that keyword, as a script may
    if error is None:
        return Cell(number, source, place, tuple(lines))
    if source[:1] in (" ", "\t") and magics.parses(f"if True:\n{text}"):
        return Cell(number, source, place, tuple(lines), indented=True)
    unread = magics.unread(source)
    if not magics.parses("\n".join(line.text for line in unread)):
        unread = list(_left_out(source))
    return Cell(number, source, place, tuple(unread), (error.msg, error.lineno or 1, error.offset or 1))


def _left_out(source: str) -> tuple[magics.Neutral, ...]:
    """The lines of a cell that is no part of the program."""
    found: list[magics.Neutral] = []
    for line in source.split("\n"):
        code = line.rstrip("\r")
        found.append(magics.Neutral(line[len(code) :], "", code))
    return tuple(found)


# The program's text, and back -----------------------------------------------------------------------------------------


def _section(cell: Cell) -> str:
    """A cell in the program's text: the line with its number, and its lines."""
    marked = (_marked(cell, number, line) for number, line in enumerate(cell.lines, 1))
    # A block of its own keeps the lines and columns of a cell that is indented as a whole.
    block = "if True:  " * cell.indented
    return f"{block}# %% [autofix] cell {cell.number}\n" + "".join(f"{line}\n" for line in marked)


def _marked(cell: Cell, number: int, line: magics.Neutral) -> str:
    if not line.stands_for:
        return line.text
    text = line.text.removesuffix("\r")
    return f"{text}{'  ' * bool(text)}{_mark(cell, number)}{line.text[len(text) :]}"


def _mark(cell: Cell, number: int) -> str:
    return f"{_MARK}{cell.number}, line {number}"


def _sections(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number of each cell of a program's text, and its lines."""
    number, body = 0, list[str]()
    for line in text.split("\n"):
        if found := _HEAD.fullmatch(line):
            if number:
                yield number, "\n".join(body)
            number, body = int(found[1]), []
        else:
            body.append(line)
    if number:
        yield number, "\n".join(body).removesuffix("\n")


def _restored(cell: Cell, body: str) -> str:
    """The source of a cell whose lines are *body* now.  Raises :class:`NotebookError` where a magic has gone."""
    wanted = {_mark(cell, number): line for number, line in enumerate(cell.lines, 1) if line.stands_for}
    found = list[str]()
    for line in body.split("\n"):
        at = line.find(_MARK)
        mark = line[at:].rstrip("\r") if at >= 0 else ""
        whole = next((one for one in wanted if mark == one or mark.startswith(f"{one} ")), None)
        if whole is None:
            if mark:
                raise NotebookError(f"a patch would move a magic of cell {cell.number}")
            found.append(line)
            continue
        neutral = wanted.pop(whole)
        code, rest = line[:at].removesuffix("  "), line[at + len(whole) :]
        if not code.startswith(neutral.lead):
            raise NotebookError(f"a patch would change a magic of cell {cell.number}")
        found.append(neutral.stands_for + code[len(neutral.lead) :] + rest)
    if wanted:
        raise NotebookError(f"a patch would drop a magic of cell {cell.number}")
    return "\n".join(found)


@dataclass(frozen=True)
class Layout:
    """Map from the lines of a program's text to its cells."""

    numbers: tuple[int, ...]
    starts: tuple[int, ...]
    """For each cell, the line of the text (from 1) that holds its number."""

    @classmethod
    def of(cls, text: str) -> Layout:
        heads = [(int(found[1]), at) for at, line in enumerate(text.split("\n"), 1) if (found := _HEAD.fullmatch(line))]
        return cls(tuple(number for number, _ in heads), tuple(at for _, at in heads))

    def place(self, line: int) -> tuple[int, int]:
        """The cell of a line of the text, and the line in the cell."""
        number, start = next(
            (
                (number, start)
                for number, start in zip(reversed(self.numbers), reversed(self.starts), strict=True)
                if start <= line
            ),
            (1, 0),
        )
        return number, max(line - start, 1)


# Into the JSON --------------------------------------------------------------------------------------------------------


def _rewritten(raw: str, cell: Cell, source: str) -> str:
    """The JSON value of a cell whose source becomes *source*, with the text of unchanged lines as it was."""
    place = cell.place
    ascii_only = raw.isascii() and "\\u" in raw
    if isinstance(place.value, str):
        own = json_places.pieces(raw[place.start : place.end])
        lines = _lines(cell.source)
        tokens = ["".join(own[start:end]) for start, end in _extents(lines)]
        return f'"{"".join(_merged(lines, tokens, _lines(source), ascii_only=ascii_only))}"'
    places = _tokens(raw, place)
    tokens = [raw[one.start + 1 : one.end - 1] for one in places]
    old = [one.value for one in places]
    new = _lines(source)
    merged = _merged(old, tokens, new, ascii_only=ascii_only) if _is_by_lines(old) else None
    texts = [f'"{one}"' for one in merged or [json_places.written(line, ascii_only=ascii_only) for line in new]]
    lead = raw[place.start : places[0].start] if places else "["
    tail = raw[places[-1].end : place.end] if places else "]"
    between = raw[places[0].end : places[1].start] if len(places) > 1 else f",{lead[1:] or ' '}"
    return lead + between.join(texts) + tail if texts else "[]"


def _merged(old: Sequence[str], tokens: Sequence[str], new: Sequence[str], *, ascii_only: bool) -> list[str]:
    """The JSON of the lines *new*, with the *tokens* of the parts of *old* lines that stay."""
    found: list[str] = []
    for tag, start, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            found += tokens[start:end]
            continue
        for at in range(first, last):
            before = start + at - first
            known = (old[before], tokens[before]) if before < end else ("", "")
            found.append(_line(*known, new[at], ascii_only=ascii_only))
    return found


def _line(old: str, token: str, new: str, *, ascii_only: bool) -> str:
    """The JSON of a line; the parts at both ends that it shares with the *old* one are written as in *token*."""
    own = json_places.pieces(f'"{token}"')
    if len(own) != len(old):
        return json_places.written(new, ascii_only=ascii_only)
    lead = common_prefix(old, new)
    tail = common_prefix(old[lead:][::-1], new[lead:][::-1])
    middle = json_places.written(new[lead : len(new) - tail], ascii_only=ascii_only)
    return "".join(own[:lead]) + middle + "".join(own[len(own) - tail :])


def _tokens(raw: str, place: Place) -> list[Place]:
    """The strings of a source that is written as a list."""
    return list(json_places.items(raw, place.start)) if isinstance(place.value, list) else []


def _length(token: str, characters: int) -> int:
    """Length of the JSON of the first *characters* of a string."""
    return sum(map(len, json_places.pieces(token)[:characters]))


def _is_by_lines(parts: Sequence[str]) -> bool:
    return list(parts) == _lines("".join(parts))


def _lines(text: str) -> list[str]:
    """The lines of a source with their ends, as notebooks list them."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _extents(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    end = 0
    for line in lines:
        start, end = end, end + len(line)
        yield start, end


def in_cells(texts: Mapping[str, str], notebooks: Mapping[str, Notebook]) -> dict[str, str]:
    """The sources of all cells of *notebooks*, by the cells' names, where the programs' *texts* are given."""
    found: dict[str, str] = {}
    for name, notebook in notebooks.items():
        for number, source in notebook.sources(texts[name]).items():
            found[name_of_cell(name, number)] = source
    return found
