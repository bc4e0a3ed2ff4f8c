"""The server: answers an editor from the session's reports.  Only the command ``autofix.prove`` runs user code."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from autofix import __version__
from autofix.codemods.facts.base import Span
from autofix.edits import TextEdit
from autofix.project.cells import cell_of
from autofix.server import messages, notebooks, proving
from autofix.server.notebooks import Cell, OpenNotebook
from autofix.server.positions import Positions, path_of, uri_of
from autofix.server.reports import Report
from autofix.server.session import DEBOUNCE, Document, Session


class Server(LanguageServer):
    """The language server of one editor.  Whole texts are sent on change: so no line can be counted differently."""

    def __init__(self) -> None:
        super().__init__("autofix", __version__, types.TextDocumentSyncKind.Full, notebooks.SYNC)
        self.notebooks: dict[str, OpenNotebook] = {}
        """Open notebooks by absolute path."""
        self.session = Session("", self.publish)
        self.python: str | None = None
        """The interpreter that runs scripts, where the editor names one."""
        self._told: set[str] = set()
        self._sent: dict[str, tuple[int | None, list[types.Diagnostic]]] = {}

    # What is known -----------------------------------------------------------------------------------------------

    def positions(self, report: Report) -> Positions:
        """Converter for the spans of a report; files that it does not hold have their open or saved text."""
        texts = {path: one.text for path, one in self.opened().items()}
        uris = {path: one.uri for path, one in self.opened().items()}
        return Positions(self.workspace.position_codec, texts | dict(report.texts), uris)

    def cells(self) -> dict[str, Cell]:
        """The cells of all open notebooks, by the names that reports give them."""
        return {name: cell for one in self.notebooks.values() for name, cell in one.names.items()}

    def opened(self) -> dict[str, Document | Cell]:
        """Everything that has a URI: documents and cells."""
        return {**self.session.documents, **self.cells()}

    def path(self, uri: str) -> str:
        """Name of a document in reports: its absolute path, or the name of a cell."""
        return next((name for name, cell in self.cells().items() if cell.uri == uri), path_of(uri))

    def versions(self, report: Report) -> dict[str, int | None]:
        """The versions of the open documents whose texts equal the report's."""
        return {path: one.version for path, one in self.opened().items() if report.texts.get(path) == one.text}

    def of_file(self, path: str) -> list[types.Diagnostic]:
        """Diagnostics of all reports for one file, each finding once."""
        found: dict[tuple[Any, ...], types.Diagnostic] = {}
        for root, report in self.session.reports.items():
            for one in messages.diagnostics(report, path, self.positions(report)):
                start = (one.range.start.line, one.range.start.character)
                if root == cell_of(path)[0] or one.code is not None:
                    found.setdefault((*start, one.code), one)
        return sorted(found.values(), key=lambda one: (one.range.start.line, one.range.start.character))

    def take_notebook(self, uri: str, debounce: float = DEBOUNCE) -> None:
        """Take the cells of a notebook as the editor has them now."""
        document = self.workspace.get_notebook_document(notebook_uri=uri)
        if document is not None:
            path = path_of(uri)
            known = self.notebooks[path] = OpenNotebook.of(path, document, self.workspace)
            self.session.put(path, Document(uri, known.version, known.text), debounce=debounce)

    # What is told ------------------------------------------------------------------------------------------------

    @property
    def pulls(self) -> bool:
        """Whether the editor asks for diagnostics, so that none must be sent for documents that are open."""
        return getattr(self.client_capabilities.text_document, "diagnostic", None) is not None

    def publish(self, path: str, before: Report | None, report: Report) -> None:
        """Send the diagnostics of a document, and of the files that a finding in it points to."""
        if report.error and report.error not in self._told:
            self._told.add(report.error)
            self.window_show_message(types.ShowMessageParams(types.MessageType.Error, f"autofix: {report.error}"))
        self.send(path, files_of(report) | (files_of(before) if before is not None else set()))
        if self.pulls and before is not None and before.version == report.version:
            if (before.findings, before.problems) != (report.findings, report.problems):
                self.refresh()  # the document has not changed, so the editor does not ask by itself

    def send(self, root: str, others: set[str], closed: str | None = None) -> None:
        """Send the diagnostics of a document and of *others*; *closed* is the URI of a document that was just closed.

        An editor may write a URI in another way than this machine does (`file:///c%3A/`), or have no file for it.
        """
        cells = self.cells()
        own = self.notebooks[root].names.keys() if root in self.notebooks else {root}
        for path in {*own, *others} - self.notebooks.keys():
            document = self.session.documents.get(path) or cells.get(path)
            if document is not None and self.pulls:
                continue
            uri = closed if closed is not None and path == root else uri_of(path)
            uri, version = (document.uri, document.version) if document is not None else (uri, None)
            told = (version, self.of_file(path))
            if self._sent.get(uri) != told:  # a whole analysis mostly repeats the report before it
                self._sent[uri] = told
                self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, told[1], version))

    def refresh(self) -> None:
        """Have the editor ask for diagnostics once more."""
        diagnostics = getattr(self.client_capabilities.workspace, "diagnostics", None)
        if getattr(diagnostics, "refresh_support", False):
            self.workspace_diagnostic_refresh(None)

    def edit(self, edit: types.WorkspaceEdit | None) -> types.WorkspaceEdit | None:
        """An edit in the form that the editor knows."""
        workspace = self.client_capabilities.workspace
        known = workspace.workspace_edit.document_changes if workspace and workspace.workspace_edit else False
        return edit if edit is None or known else messages.plain_edit(edit)

    # The command that runs ---------------------------------------------------------------------------------------

    async def prove(self, uri: str, arguments: list[str]) -> dict[str, Any] | None:
        """Run a script and prove its repair, with progress; offer the patch if it is proved."""
        path = path_of(uri)
        document = self.session.documents.get(path)
        if document is not None and not _is_saved(path, document.text):
            self.say(types.MessageType.Warning, f"{Path(path).name} has unsaved changes: save it, then run again.")
            return None
        folder = Path(self.session.folder)
        folder = folder if Path(path).is_relative_to(folder) else Path(path).parent
        token = str(uuid.uuid4())
        task = asyncio.ensure_future(
            proving.prove(Path(path), arguments, folder, self.python, lambda text: self.beat(token, text))
        )
        await self.begin(token, f"autofix: running {Path(path).name}", task)
        try:
            proof = await task
        except asyncio.CancelledError:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            self.finish(token, "cancelled")
            return None
        self.finish(token, proof.message)
        self.say(types.MessageType.Info if proof.document is not None else types.MessageType.Error, proof.message)
        if proof.proved and proof.document is not None:
            self._offer(proof.document, folder)
        return proof.document

    async def begin(self, token: str, title: str, task: asyncio.Future[Any]) -> None:
        """Show that *task* is at work, where the editor can show it, and let the user cancel it."""
        window = self.client_capabilities.window
        if window is None or not window.work_done_progress:
            return
        await self.work_done_progress.create_async(token)
        self.work_done_progress.begin(token, types.WorkDoneProgressBegin(title, cancellable=True))
        loop = asyncio.get_running_loop()
        cancelled = self.work_done_progress.tokens[token]
        cancelled.add_done_callback(lambda one: loop.call_soon_threadsafe(task.cancel) if one.cancelled() else None)

    def beat(self, token: str, text: str) -> None:
        """Tell how long a run has taken."""
        if token in self.work_done_progress.tokens:
            self.work_done_progress.report(token, types.WorkDoneProgressReport(message=text))

    def finish(self, token: str, text: str) -> None:
        """End the display of a run."""
        if token in self.work_done_progress.tokens:
            self.work_done_progress.end(token, types.WorkDoneProgressEnd(message=text))
            self.work_done_progress.tokens.pop(token)

    def say(self, kind: types.MessageType, text: str) -> None:
        """Show a message."""
        self.window_show_message(types.ShowMessageParams(kind, f"autofix: {text}"))

    def _offer(self, document: dict[str, Any], folder: Path) -> None:
        """Ask whether a proved patch is to be applied, and apply it."""
        edits = list(dict.fromkeys(_edit(one, folder) for found in document["findings"] for one in found["edits"]))
        question = types.ShowMessageRequestParams(
            types.MessageType.Info, "autofix: the repair is proved.", [types.MessageActionItem("Apply the patch")]
        )

        def answered(choice: types.MessageActionItem | None) -> None:
            if choice is not None:
                texts = {path: one.text for path, one in self.session.documents.items()}
                positions = Positions(self.workspace.position_codec, texts)
                change = self.edit(messages.workspace_edit(edits, positions, {}))
                if change is not None:
                    self.workspace_apply_edit(types.ApplyWorkspaceEditParams(change, "autofix: proved repair"))

        self.window_show_message_request(question, answered)


def files_of(report: Report) -> set[str]:
    return {report.path, *(one.cause.path for one in report.findings)}


def _is_saved(path: str, text: str) -> bool:
    try:
        return Path(path).read_bytes().decode("utf-8", "replace").replace("\r\n", "\n") == text.replace("\r\n", "\n")
    except OSError:
        return False


def _edit(one: dict[str, Any], folder: Path) -> TextEdit:
    """An edit of a JSON report, whose paths are relative to *folder*."""
    start, end = one["start"], one["end"]
    path = str(folder / one["file"])
    span = Span(path, start["line"], start["column"] - 1, end["line"], end["column"] - 1)
    return TextEdit(span, one["content"], ())
