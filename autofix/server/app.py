"""The server: answers an editor from the session's reports.  Only the command ``autofix.prove`` runs user code."""

from __future__ import annotations

import asyncio
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from lsprotocol import types
from pygls.lsp.server import LanguageServer

from autofix import __version__
from autofix.edits import TextEdit
from autofix.server import messages, proving
from autofix.server.positions import Positions, path_of, uri_of
from autofix.server.reports import Report
from autofix.server.session import Document, Session
from codemods.facts import Span

PROVE = "autofix.prove"
WATCHED = ("**/*.py", "**/pyproject.toml", "**/autofix.toml", "**/.autofix.toml")
LANGUAGE = "python"


class Server(LanguageServer):
    """The language server of one editor.  Whole texts are sent on change: so no line can be counted differently."""

    def __init__(self) -> None:
        super().__init__("autofix", __version__, text_document_sync_kind=types.TextDocumentSyncKind.Full)
        self.session = Session("", self.publish)
        self.python: str | None = None
        """The interpreter that runs scripts, where the editor names one."""
        self.languages: dict[str, str] = {}
        self._told: set[str] = set()
        self._sent: dict[str, tuple[int | None, list[types.Diagnostic]]] = {}

    # What is known -----------------------------------------------------------------------------------------------

    def positions(self, report: Report) -> Positions:
        """Converts the spans of a report; files that it does not hold have their open or saved text."""
        texts = {path: document.text for path, document in self.session.documents.items()}
        return Positions(self.workspace.position_codec, texts | dict(report.texts))

    def versions(self, report: Report) -> dict[str, int | None]:
        """The versions of the open documents whose texts are those of the report."""
        return {
            path: document.version
            for path, document in self.session.documents.items()
            if report.texts.get(path) == document.text
        }

    def of_file(self, path: str) -> list[types.Diagnostic]:
        """What all reports have to say of one file, each finding once."""
        found: dict[tuple[Any, ...], types.Diagnostic] = {}
        for root, report in self.session.reports.items():
            for one in messages.diagnostics(report, path, self.positions(report)):
                start = (one.range.start.line, one.range.start.character)
                if root == path or one.code is not None:
                    found.setdefault((*start, one.code), one)
        return sorted(found.values(), key=lambda one: (one.range.start.line, one.range.start.character))

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
        self.send(path, _files(report) | (_files(before) if before is not None else set()))
        if self.pulls and before is not None and before.version == report.version:
            if (before.findings, before.problems) != (report.findings, report.problems):
                self.refresh()  # the document has not changed, so the editor does not ask by itself

    def send(self, root: str, others: set[str]) -> None:
        """Send the diagnostics of a document and of *others*."""
        for path in {root, *others}:
            document = self.session.documents.get(path)
            if document is not None and self.pulls:
                continue
            uri, version = (document.uri, document.version) if document is not None else (uri_of(path), None)
            told = (version, self.of_file(path))
            if self._sent.get(uri) != told:  # a whole analysis mostly says what was said before it
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


def _files(report: Report) -> set[str]:
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


def is_source(uri: str, language: str | None = None) -> bool:
    """Whether a document is one to be read: a Python file, and no cell of a notebook."""
    return uri.startswith(("file:", "untitled:")) and (language in (None, LANGUAGE) or uri.endswith(".py"))


def create() -> Server:
    """A server with all its features."""
    server = Server()

    @server.feature(types.INITIALIZED)
    def initialized(_params: types.InitializedParams) -> None:
        server.session.start()
        watching = getattr(server.client_capabilities.workspace, "did_change_watched_files", None)
        if getattr(watching, "dynamic_registration", False):
            options = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher(one) for one in WATCHED])
            method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
            registration = types.Registration("autofix-files", method, options)
            server.client_register_capability(types.RegistrationParams([registration]))

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        roots = [one.uri for one in params.workspace_folders or ()]
        root = path_of(roots[0]) if roots else server.workspace.root_path
        server.session.folder = root or str(Path.cwd())
        given = params.initialization_options
        python = given.get("python") if isinstance(given, dict) else getattr(given, "python", None)
        server.python = python if isinstance(python, str) else None

    @server.feature(types.SHUTDOWN)
    def shutdown(_params: None) -> None:
        server.session.close()

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        if is_source(document.uri, document.language_id):
            own = Document(document.uri, document.version, document.text)
            server.session.put(path_of(document.uri), own, debounce=0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(params: types.DidChangeTextDocumentParams) -> None:
        uri = params.text_document.uri
        if path_of(uri) in server.session.documents:
            text = server.workspace.get_text_document(uri).source
            server.session.put(path_of(uri), Document(uri, params.text_document.version, text))

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        server.session.again(path_of(params.text_document.uri))

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        path = path_of(params.text_document.uri)
        report = server.session.drop(path)
        if report is not None:
            server.send(path, _files(report))

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def changed_on_disk(_params: types.DidChangeWatchedFilesParams) -> None:
        server.session.again()

    @server.feature(
        types.TEXT_DOCUMENT_DIAGNOSTIC,
        types.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=False, identifier="autofix"),
    )
    async def diagnostic(params: types.DocumentDiagnosticParams) -> types.RelatedFullDocumentDiagnosticReport:
        path = path_of(params.text_document.uri)
        await server.session.report_on(path)
        return types.RelatedFullDocumentDiagnosticReport(server.of_file(path))

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        path = path_of(params.text_document.uri)
        for report in server.session.reports.values():
            found = messages.hover(report, path, params.position, server.positions(report))
            if found is not None:
                return found
        return None

    kinds = [types.CodeActionKind.QuickFix, messages.FIX_ALL]

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions(code_action_kinds=kinds))
    async def actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        return await code_actions(server, params)

    @server.command(PROVE)
    async def prove(uri: str, *arguments: str) -> dict[str, Any] | None:
        return await server.prove(uri, list(arguments))

    return server


async def code_actions(server: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    """The actions of the kinds that are asked for, on the document's latest text."""
    only = params.context.only
    path = path_of(params.text_document.uri)
    wants_fixes = only is None or any(_is_kind(types.CodeActionKind.QuickFix, one) for one in only)
    wants_all = only is None or any(_is_kind(messages.FIX_ALL, one) for one in only)
    await server.session.report_on(path, complete=only is not None and wants_all)
    found: dict[tuple[str, str], types.CodeAction] = {}
    for root, report in server.session.reports.items():
        positions, versions = server.positions(report), server.versions(report)
        if wants_fixes:
            known = params.context.diagnostics
            for one in messages.quick_fixes(report, path, params.range, known, positions, versions):
                found.setdefault((one.title, str(one.edit)), one)
        if wants_all and root == path and (every := messages.fix_all(report, positions, versions)) is not None:
            found[every.title, ""] = every
    for one in found.values():
        one.edit = server.edit(one.edit)
    fixes = [one for one in found.values() if one.kind == types.CodeActionKind.QuickFix]
    if fixes:
        name = Path(path).name
        command = types.Command("Run and prove", PROVE, arguments=[params.text_document.uri])
        run = types.CodeAction(
            f"Run {name} and prove its repair", types.CodeActionKind.QuickFix, fixes[0].diagnostics, command=command
        )
        found[run.title, ""] = run
    return list(found.values())


def _is_kind(kind: str, wanted: str) -> bool:
    """Whether a kind of action is one that was asked for, or a kind below it."""
    own, asked = (one.value if isinstance(one, types.CodeActionKind) else str(one) for one in (kind, wanted))
    return not asked or own == asked or own.startswith(f"{asked}.")


def serve() -> None:
    """Serve one editor over standard input and output; whatever else is printed goes to standard error."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr
    run(source, sink)


def run(source: BinaryIO, sink: BinaryIO) -> None:
    """Serve one editor over two streams."""
    server = create()
    try:
        server.start_io(source, sink)
    finally:
        server.session.close()
