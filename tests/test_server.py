"""``autofix server`` as an editor drives it: a real process, spoken to over its standard input and output."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import pytest_lsp
from lsprotocol import types
from pygls.workspace import PositionCodec
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

import autofix
from autofix.codemods.facts.base import Span
from autofix.server.positions import Positions, path_of

ROOT = Path(__file__).parents[1]
WAIT = 30.0
BROKEN = """\
import torch
from torch import nn

net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
store = []
for step in range(100):
    h = net(torch.randn(2, 4))
    store.append(h)
    loss = sum(item.sum() for item in store)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FIXED = BROKEN.replace("    optimizer.step()\n", "    store[-1] = store[-1].detach()\n    optimizer.step()\n")


class Editor:
    """One editor with its documents: the actions of a person in it, and its display."""

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.versions: dict[str, int] = {}
        self.commands: list[types.Command] = []
        """The actions with a command among the last ones, which lsprotocol reads as if they were commands."""

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str) -> None:
        self.versions[name] = 1
        item = types.TextDocumentItem(self.uri(name), "python", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def type(self, name: str, text: str) -> None:
        self.versions[name] += 1
        document = types.VersionedTextDocumentIdentifier(uri=self.uri(name), version=self.versions[name])
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))

    def save(self, name: str) -> None:
        self.client.text_document_did_save(
            types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(self.uri(name)))
        )

    def close(self, name: str) -> None:
        document = types.TextDocumentIdentifier(self.uri(name))
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(document))

    async def shown(self, name: str, *codes: str) -> list[types.Diagnostic]:
        """Wait until the editor shows just these codes (and, as an empty one, a syntax error) for a file."""
        for _ in range(int(WAIT / 0.02)):
            known = self.client.diagnostics.get(self.uri(name))
            if known is not None and [str(one.code or "") for one in known] == list(codes):
                return list(known)
            await asyncio.sleep(0.02)
        raise AssertionError(f"{name} shows {self.client.diagnostics.get(self.uri(name))}, and not {codes}")

    async def actions(self, name: str, line: int, only: list[Any] | None = None) -> list[types.CodeAction]:
        at = types.Range(types.Position(line, 0), types.Position(line, 0))
        context = types.CodeActionContext(list(self.client.diagnostics.get(self.uri(name), ())), only)
        document = types.TextDocumentIdentifier(self.uri(name))
        found = await self.client.text_document_code_action_async(types.CodeActionParams(document, at, context))
        self.commands = [one for one in found or () if isinstance(one, types.Command)]
        return [one for one in found or () if isinstance(one, types.CodeAction)]


def capabilities(*, pull: bool = False) -> types.ClientCapabilities:
    """Capabilities of an editor that takes diagnostics from the server, or, with *pull*, asks for them itself."""
    known = client_capabilities("visual-studio-code")
    assert known.text_document is not None
    known.text_document.diagnostic = types.DiagnosticClientCapabilities() if pull else None
    known.workspace = types.WorkspaceClientCapabilities(
        workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True), apply_edit=True
    )
    known.general = types.GeneralClientCapabilities(position_encodings=[types.PositionEncodingKind.Utf16])
    return known


CONFIG = ClientServerConfig(
    server_command=[sys.executable, "-m", "autofix", "server"],
    server_env={**os.environ, "PYTHONPATH": str(ROOT)},
)


async def started(client: LanguageClient, folder: Path, *, pull: bool = False) -> Editor:
    root = types.WorkspaceFolder(folder.as_uri(), "project")
    params = types.InitializeParams(capabilities(pull=pull), workspace_folders=[root], root_uri=folder.as_uri())
    await client.initialize_session(params)
    return Editor(client, folder)


@pytest_lsp.fixture(config=CONFIG)  # type: ignore[untyped-decorator]
async def client(lsp_client: LanguageClient) -> AsyncIterator[None]:
    yield
    await lsp_client.shutdown_session()


@pytest_asyncio.fixture
async def editor(client: LanguageClient, tmp_path: Path) -> Editor:
    return await started(client, tmp_path)


@pytest_asyncio.fixture
async def pulling(client: LanguageClient, tmp_path: Path) -> Editor:
    return await started(client, tmp_path, pull=True)


def applied(text: str, edit: types.WorkspaceEdit | None, uri: str) -> str:
    """*text* as the editor has it after an edit; its columns are UTF-16 units."""
    assert edit is not None and edit.document_changes is not None
    lines = text.split("\n")
    starts = [sum(len(line) + 1 for line in lines[:at]) for at in range(len(lines) + 1)]

    def offset(at: types.Position) -> int:
        if at.line >= len(lines):
            return len(text)
        units = lines[at.line].encode("utf-16-le")[: 2 * at.character]
        return starts[at.line] + len(units.decode("utf-16-le"))

    for change in edit.document_changes:
        assert isinstance(change, types.TextDocumentEdit) and change.text_document.uri == uri
        for one in sorted(change.edits, key=lambda one: offset(one.range.start), reverse=True):
            assert isinstance(one, types.TextEdit)
            text = text[: offset(one.range.start)] + one.new_text + text[offset(one.range.end) :]
    return text


@pytest.mark.asyncio
async def test_a_finding_from_the_first_letter_to_its_fix(editor: Editor) -> None:
    """One session, as starting one takes longest: open, type, half-typed text, hover, fixes, suppression, close."""
    name = "train.py"
    editor.open(name, BROKEN)
    (finding,) = await editor.shown(name, "AF101")
    assert finding.range == types.Range(types.Position(8, 4), types.Position(8, 19))
    assert (finding.source, finding.severity) == ("autofix", types.DiagnosticSeverity.Error)
    assert finding.code_description is None
    related = finding.related_information or []
    assert {one.location.range.start.line for one in related} >= {6, 7, 8, 11}
    assert all(one.location.uri == editor.uri(name) and one.message for one in related)

    # Astral characters are two units of UTF-16, and lines move.
    kept = 'store.append({"\U0001f600": h}["\U0001f600"])'
    text = "# \U0001f600\n" + BROKEN.replace("store.append(h)", kept)
    repaired = next(iter(autofix.check(source=text, filename=editor.folder / name).patched.values()))
    editor.type(name, text)
    for _ in range(int(WAIT / 0.02)):
        (finding,) = await editor.shown(name, "AF101")
        if finding.range.start.line == 9:
            break
        await asyncio.sleep(0.02)
    assert finding.range == types.Range(types.Position(9, 4), types.Position(9, 4 + len(kept) + 2))
    fixes = await editor.actions(name, 9)
    first = fixes[0]
    assert first.is_preferred and first.kind == "quickfix" and list(first.diagnostics or ()) == [finding]
    assert first.title[0].isupper() and "store" in first.title
    assert applied(text, first.edit, editor.uri(name)) == repaired
    assert [one.is_preferred for one in fixes].count(True) == 1
    ignore = next(one for one in fixes if one.title == "Ignore AF101 on this line")
    ignored = applied(text, ignore.edit, editor.uri(name))
    assert ignored == text.replace(kept, f"{kept}  # autofix: ignore[AF101]")
    assert await editor.actions(name, 0) == [] or all(
        one.kind == "source.fixAll.autofix" for one in await editor.actions(name, 0)
    )
    (every,) = await editor.actions(name, 0, [types.CodeActionKind.SourceFixAll])
    assert every.kind == "source.fixAll.autofix"
    assert applied(text, every.edit, editor.uri(name)) == repaired
    shown = await editor.client.text_document_hover_async(
        types.HoverParams(types.TextDocumentIdentifier(editor.uri(name)), types.Position(9, 12))
    )
    assert shown is not None and isinstance(shown.contents, types.MarkupContent)
    assert "AF101 stored-tensor" in shown.contents.value and finding.message in shown.contents.value

    editor.type(name, text.replace("range(100):", "range(100"))
    (problem,) = await editor.shown(name, "")
    assert problem.message == "'(' was never closed" and problem.range.start.line == 7
    for half in ("def f(\n", "\x00", "x = '", "\t if", "é" * 5 + "(", "", "class"):
        editor.type(name, half)
    editor.type(name, ignored)
    await editor.shown(name)
    editor.type(name, FIXED)
    editor.type(name, BROKEN)
    await editor.shown(name, "AF101")
    editor.close(name)
    await editor.shown(name)


def test_positions_count_the_units_of_the_editor() -> None:
    text = 'a = "\U0001f600é"\r\nb = 1'
    span = Span("/a.py", 1, 5, 1, 7)
    ends = {"utf-8": (5, 11), "utf-16": (5, 8), "utf-32": (5, 7)}
    for encoding, (start, end) in ends.items():
        positions = Positions(PositionCodec(encoding), {"/a.py": text})
        found = positions.range(span)
        assert (found.start.character, found.end.character) == (start, end)
        assert positions.position("/a.py", 3, 0) == types.Position(1, 5)  # behind the last line: the end of the text


@pytest.mark.asyncio
async def test_open_documents_see_each_other_and_settings_count(editor: Editor) -> None:
    folder = editor.folder
    library, right = (f"def keep(store, h):\n    {kept}\n" for kept in ("store.append(h)", "store[:] = [h]"))
    (folder / "library.py").write_text(right)
    text = "from library import keep\n" + BROKEN.replace("store.append(h)", "keep(store, h)")
    editor.open("train.py", text)
    await editor.shown("train.py")
    editor.open("library.py", library)  # not saved: the disk has the right one
    (finding,) = await editor.shown("library.py", "AF101")
    assert {one.location.uri for one in finding.related_information or ()} == {
        editor.uri("train.py"),
        editor.uri("library.py"),
    }
    fix = (await editor.actions("library.py", 1))[0]  # it may be one in another file
    (folder / "library.py").write_text(library)
    repaired = autofix.check(source=applied(text, fix.edit, editor.uri("train.py")), filename=folder / "train.py")
    assert repaired.clean
    editor.type("library.py", right)
    await editor.shown("library.py")
    editor.type("library.py", library)
    await editor.shown("library.py", "AF101")
    (folder / "autofix.toml").write_text('ignore = ["AF1"]\n')
    editor.save("library.py")
    await editor.shown("library.py")
    (folder / "autofix.toml").write_text("ignore = 3\n")
    editor.save("library.py")
    while not any("autofix.toml" in one.message for one in editor.client.messages):
        await asyncio.sleep(0.02)
    (folder / "autofix.toml").write_text('exclude = ["train.py"]\n')
    editor.save("library.py")
    await editor.shown("library.py")


@pytest.mark.asyncio
@pytest.mark.parametrize("uri", ["untitled:Untitled-1", "file:///c%3A/Users/me/train.py"])
async def test_a_document_that_is_closed_shows_nothing(editor: Editor, monkeypatch: Any, uri: str) -> None:
    monkeypatch.setattr(editor, "uri", lambda name: uri)
    editor.open("train.py", BROKEN)
    await editor.shown("train.py", "AF101")
    editor.close("train.py")
    await editor.shown("train.py")


def test_a_document_without_a_file_has_a_path() -> None:
    assert path_of("untitled:Untitled-1") == str(Path("Untitled-1").absolute())
    positions = Positions(PositionCodec(), {"/a": "x"}, {"/a": "untitled:a"})
    assert positions.location(Span("/a", 1, 0, 1, 1)).uri == "untitled:a"


@pytest.mark.asyncio
async def test_an_editor_that_asks_gets_the_latest_text_judged(pulling: Editor) -> None:
    pulling.open("train.py", FIXED)
    pulling.type("train.py", BROKEN)
    asked = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(pulling.uri("train.py")))
    told = await pulling.client.text_document_diagnostic_async(asked)
    assert isinstance(told, types.RelatedFullDocumentDiagnosticReport)
    assert [one.code for one in told.items] == ["AF101"]
    pulling.type("train.py", FIXED)
    told = await pulling.client.text_document_diagnostic_async(asked)
    assert isinstance(told, types.RelatedFullDocumentDiagnosticReport) and not told.items
    assert pulling.uri("train.py") not in pulling.client.diagnostics  # and it is told nothing twice


@pytest.mark.asyncio
async def test_the_cells_of_a_notebook_are_one_program(editor: Editor) -> None:
    head, _, loop = BROKEN.partition("store = []\n")
    texts = [head.rstrip("\n"), "Some words.", "%matplotlib inline\nstore = []", loop.rstrip("\n")]
    uris = [f"vscode-notebook-cell:{editor.folder.as_posix()}/nb.ipynb#{number}" for number in range(4)]
    kinds = [types.NotebookCellKind.Code if at != 1 else types.NotebookCellKind.Markup for at in range(4)]
    cells = [types.NotebookCell(kind, uri) for kind, uri in zip(kinds, uris, strict=True)]
    items = [types.TextDocumentItem(uri, "python", 1, text) for uri, text in zip(uris, texts, strict=True)]
    document = types.NotebookDocument(editor.uri("nb.ipynb"), "jupyter-notebook", 1, cells)
    editor.client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(document, items))
    editor.uri = lambda name: name  # type: ignore[method-assign]
    (finding,) = await editor.shown(uris[3], "AF101")
    assert finding.range == types.Range(types.Position(2, 4), types.Position(2, 19))
    assert {one.location.uri for one in finding.related_information or ()} == {uris[3]}
    fix, *others = await editor.actions(uris[3], 2)
    assert fix.is_preferred and "Ignore AF101 on this line" in {one.title for one in others}
    assert applied(texts[3], fix.edit, uris[3]) == FIXED.partition("store = []\n")[2].rstrip("\n")
    assert not editor.commands
    await editor.shown(uris[0])

    change = types.NotebookDocumentCellContentChanges(
        types.VersionedTextDocumentIdentifier(version=2, uri=uris[2]),
        [types.TextDocumentContentChangeWholeDocument("store = [")],
    )
    event = types.NotebookDocumentChangeEvent(cells=types.NotebookDocumentCellChanges(text_content=[change]))
    identifier = types.VersionedNotebookDocumentIdentifier(2, document.uri)
    editor.client.notebook_document_did_change(types.DidChangeNotebookDocumentParams(identifier, event))
    (problem,) = await editor.shown(uris[2], "")
    assert problem.message == "'[' was never closed" and problem.range.start == types.Position(0, 8)
    closed = types.NotebookDocumentIdentifier(document.uri)
    ids = [types.TextDocumentIdentifier(uri) for uri in uris]
    editor.client.notebook_document_did_close(types.DidCloseNotebookDocumentParams(closed, ids))
    await editor.shown(uris[2])
    await editor.shown(uris[3])


@pytest.mark.asyncio
async def test_the_command_runs_and_proves(editor: Editor) -> None:
    (editor.folder / "train.py").write_text(BROKEN)
    patched: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    @editor.client.feature(types.WINDOW_SHOW_MESSAGE_REQUEST)  # type: ignore[untyped-decorator]
    def asked(params: types.ShowMessageRequestParams) -> types.MessageActionItem:
        assert params.actions is not None
        return params.actions[0]

    @editor.client.feature(types.WORKSPACE_APPLY_EDIT)  # type: ignore[untyped-decorator]
    def applies(params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        patched.set_result(applied(BROKEN, params.edit, editor.uri("train.py")))
        return types.ApplyWorkspaceEditResult(applied=True)

    editor.open("train.py", BROKEN + "\n")
    run = types.ExecuteCommandParams("autofix.prove", [editor.uri("train.py")])
    assert await editor.client.workspace_execute_command_async(run) is None
    assert "unsaved changes" in editor.client.messages[-1].message
    editor.type("train.py", BROKEN)
    await editor.shown("train.py", "AF101")
    await editor.actions("train.py", 8)
    (command,) = editor.commands
    assert command.title == "Run train.py and prove its repair" and "autofix.prove" in command.command
    document = await editor.client.workspace_execute_command_async(run)
    assert document is not None and document["proof"]["proved"] is True
    assert "Proved" in editor.client.messages[-1].message
    assert await asyncio.wait_for(patched, WAIT) == FIXED
    assert (editor.folder / "train.py").read_text() == BROKEN
    (token,) = editor.client.progress_reports
    kinds = [getattr(one, "kind", "") for one in editor.client.progress_reports[token]]
    assert kinds[0] == "begin" and kinds[-1] == "end" and set(kinds[1:-1]) <= {"report"}
