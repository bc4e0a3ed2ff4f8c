"""Features of the server for an editor: a function for each message, and the start over standard input and output."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, BinaryIO

from lsprotocol import types

from autofix.project.cells import cell_of
from autofix.server import messages
from autofix.server.app import Server, files_of
from autofix.server.positions import path_of
from autofix.server.session import Document

PROVE = "autofix.prove"
WATCHED = ("**/*.py", "**/pyproject.toml", "**/autofix.toml", "**/.autofix.toml")
LANGUAGE = "python"


def is_source(uri: str, language: str | None = None) -> bool:
    """Whether a document is one to be read: a Python file, and no cell of a notebook."""
    return uri.startswith(("file:", "untitled:")) and (language in (None, LANGUAGE) or uri.endswith(".py"))


def create() -> Server:
    """A server with all its features."""
    server = Server()
    for register in (_lifecycle, _documents, _notebooks, _requests):
        register(server)
    return server


def _lifecycle(server: Server) -> None:
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


def _documents(server: Server) -> None:
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
            server.send(path, files_of(report), params.text_document.uri)

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def changed_on_disk(_params: types.DidChangeWatchedFilesParams) -> None:
        server.session.again()


def _notebooks(server: Server) -> None:
    @server.feature(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def opened_notebook(params: types.DidOpenNotebookDocumentParams) -> None:
        server.take_notebook(params.notebook_document.uri, debounce=0)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def changed_notebook(params: types.DidChangeNotebookDocumentParams) -> None:
        server.take_notebook(params.notebook_document.uri)

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)
    def saved_notebook(params: types.DidSaveNotebookDocumentParams) -> None:
        server.session.again(path_of(params.notebook_document.uri))

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def closed_notebook(params: types.DidCloseNotebookDocumentParams) -> None:
        path = path_of(params.notebook_document.uri)
        report = server.session.drop(path)
        server.send(path, files_of(report) if report is not None else set())
        server.notebooks.pop(path, None)


def _requests(server: Server) -> None:
    @server.feature(
        types.TEXT_DOCUMENT_DIAGNOSTIC,
        types.DiagnosticOptions(inter_file_dependencies=True, workspace_diagnostics=False, identifier="autofix"),
    )
    async def diagnostic(params: types.DocumentDiagnosticParams) -> types.RelatedFullDocumentDiagnosticReport:
        path = server.path(params.text_document.uri)
        await server.session.report_on(cell_of(path)[0])
        return types.RelatedFullDocumentDiagnosticReport(server.of_file(path))

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        path = server.path(params.text_document.uri)
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


async def code_actions(server: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    """The actions of the kinds that are asked for, on the document's latest text."""
    only = params.context.only
    path = server.path(params.text_document.uri)
    document = cell_of(path)[0]
    wants_fixes = only is None or any(_is_kind(types.CodeActionKind.QuickFix, one) for one in only)
    wants_all = only is None or any(_is_kind(messages.FIX_ALL, one) for one in only)
    await server.session.report_on(document, complete=only is not None and wants_all)
    found: dict[tuple[str, str], types.CodeAction] = {}
    for root, report in server.session.reports.items():
        positions, versions = server.positions(report), server.versions(report)
        if wants_fixes:
            known = params.context.diagnostics
            for one in messages.quick_fixes(report, path, params.range, known, positions, versions):
                found.setdefault((one.title, str(one.edit)), one)
        if wants_all and root == document and (every := messages.fix_all(report, positions, versions)) is not None:
            found[every.title, ""] = every
    for one in found.values():
        one.edit = server.edit(one.edit)
    fixes = [one for one in found.values() if one.kind == types.CodeActionKind.QuickFix]
    if fixes and document == path:  # a cell is not run without the others
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
    """Serve one editor over standard input and output; all other output goes to standard error."""
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
