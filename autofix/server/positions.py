"""Spans of a text as ranges of the protocol, in the units that the editor counts in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lsprotocol import types
from pygls import uris
from pygls.workspace import PositionCodec

from autofix.codemods.facts.base import Span
from autofix.codemods.source.program import split
from autofix.edits import TextEdit
from autofix.project.reading import read


@dataclass
class Positions:
    """Turns spans (lines from 1, columns in code points) into ranges."""

    codec: PositionCodec
    texts: Mapping[str, str]
    """Texts of files by absolute path, and of the cells of notebooks by their names."""
    uris: Mapping[str, str] = field(default_factory=dict)
    """The URIs of documents, which their paths do not always tell, as for cells and unsaved documents."""
    _lines: dict[str, list[str]] = field(default_factory=dict)

    def lines(self, path: str) -> list[str]:
        """The lines of a file as the protocol counts them; read from the disk where the file's text was not given."""
        if path not in self._lines:
            text = self.texts.get(path)
            if text is None:
                try:
                    text = read(Path(path)).decode("utf-8", "replace")
                except OSError:
                    text = ""
            self._lines[path] = split(text)
        return self._lines[path]

    def range(self, span: Span) -> types.Range:
        """The range of a span."""
        return types.Range(
            self.position(span.path, span.line, span.column), self.position(span.path, span.end_line, span.end_column)
        )

    def position(self, path: str, line: int, column: int) -> types.Position:
        """The position of a line, from 1, and a column; behind the last line, the end of the text."""
        lines = self.lines(path)
        if line > len(lines):
            line, column = len(lines), len(lines[-1])
        return types.Position(line - 1, self.codec.client_num_units(lines[line - 1][:column]))

    def location(self, span: Span) -> types.Location:
        """The range of a span, in its file."""
        return types.Location(self.uri(span.path), self.range(span))

    def uri(self, path: str) -> str:
        """The URI of a file or a cell."""
        return self.uris.get(path) or uri_of(path)

    def edit(self, edit: TextEdit) -> types.TextEdit:
        """An edit of a file or a cell; a cell, unlike its section of the program, has no end of line at its end."""
        most, text = len(self.lines(edit.span.path)), edit.text
        if edit.span.end_line > most:
            text = text.removesuffix("\n")
        if edit.span.line > most and text:
            text = f"\n{text}"
        return types.TextEdit(self.range(edit.span), text)


def uri_of(path: str) -> str:
    """The URI of an absolute path."""
    uri: str | None = uris.from_fs_path(path)
    assert uri is not None
    return uri


def path_of(uri: str) -> str:
    """The absolute path of a document; for one that is in no file yet, a path in the working directory."""
    path: str | None = uris.to_fs_path(uri)
    return os.path.abspath(path or uri.partition(":")[2].lstrip("/") or uri)
