"""Notebooks that are open in an editor: their cells as one document, and the URI of each cell."""

from __future__ import annotations

import json
from dataclasses import dataclass

from lsprotocol import types
from pygls.workspace import Workspace

from autofix.project.cells import name_of_cell

SYNC = types.NotebookDocumentSyncOptions(
    [
        types.NotebookDocumentFilterWithCells(
            cells=[types.NotebookCellLanguage("python")],
            notebook=types.NotebookDocumentFilterNotebookType("jupyter-notebook"),
        )
    ]
)
"""Filter of the documents that an editor is to send: cells of Python in notebooks of Jupyter."""


@dataclass(frozen=True)
class Cell:
    """A cell as the editor has it."""

    uri: str
    version: int | None
    text: str
    is_code: bool


@dataclass(frozen=True)
class OpenNotebook:
    """A notebook, by the path of its file."""

    path: str
    version: int
    cells: tuple[Cell, ...]

    @classmethod
    def of(cls, path: str, document: types.NotebookDocument, workspace: Workspace) -> OpenNotebook:
        """The notebook as the workspace has its cells now."""
        found = []
        for cell in document.cells:
            own = workspace.get_text_document(cell.document)
            is_code = cell.kind == types.NotebookCellKind.Code and own.language_id in (None, "python")
            found.append(Cell(cell.document, own.version, own.source, is_code))
        return cls(path, document.version, tuple(found))

    @property
    def text(self) -> str:
        """The notebook as the text of a file, without outputs."""
        kinds = {True: "code", False: "markdown"}
        cells = [{"cell_type": kinds[one.is_code], "source": one.text} for one in self.cells]
        return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})

    @property
    def names(self) -> dict[str, Cell]:
        """The cells by the names that reports give them."""
        return {name_of_cell(self.path, number): cell for number, cell in enumerate(self.cells, 1)}
