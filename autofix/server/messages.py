"""Findings in the terms of the protocol: diagnostics, quick fixes, and the text that is shown over a finding."""

from __future__ import annotations

import tokenize
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lsprotocol import types

from autofix.checking import Problem
from autofix.codemods.facts.base import Certainty, Span
from autofix.codemods.rewriting.patch import Line, Replacement, lines_of
from autofix.edits import TextEdit, text_edits
from autofix.findings import Finding
from autofix.server.positions import Positions
from autofix.server.reports import Fix, Report
from autofix.settings.selection import UNUSED_IGNORE
from autofix.suppression.adding import with_ignores

SOURCE = "autofix"
FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.autofix"


def diagnostics(report: Report, path: str, positions: Positions) -> list[types.Diagnostic]:
    """Diagnostics of a report for one file."""
    own = [diagnostic(one, positions) for one in report.findings if one.cause.path == path]
    return own + [problem(one, positions) for one in report.problems if one.name == path]


def diagnostic(finding: Finding, positions: Positions) -> types.Diagnostic:
    """Diagnostic of a finding, at the range of its cause; every place of its story is a related location."""
    is_comment = finding.code == UNUSED_IGNORE[0]
    return types.Diagnostic(
        range=positions.range(finding.cause),
        message=finding.message,
        severity=severity(finding),
        code=finding.code,
        source=SOURCE,
        tags=[types.DiagnosticTag.Unnecessary] if is_comment else None,
        related_information=[
            types.DiagnosticRelatedInformation(positions.location(role.span), role.phrase)
            for role in finding.roles()
            if not is_comment
        ],
    )


def severity(finding: Finding) -> types.DiagnosticSeverity:
    """Error where PyTorch raises one for certain; hint for an unused comment; warning for any other mistake."""
    if finding.code == UNUSED_IGNORE[0]:
        return types.DiagnosticSeverity.Hint
    if finding.certainty is Certainty.CERTAIN and finding.fact.raised:
        return types.DiagnosticSeverity.Error
    return types.DiagnosticSeverity.Warning


def problem(one: Problem, positions: Positions) -> types.Diagnostic:
    """Diagnostic of a file that cannot be checked: the place of the syntax error, to the end of its line."""
    lines = positions.lines(one.name)
    line = min(max(one.line, 1), len(lines))
    column = min(max(one.column - 1, 0), len(lines[line - 1]))
    span = Span(one.name, line, column, line, max(len(lines[line - 1]), column))
    return types.Diagnostic(
        range=positions.range(span), message=one.reason, severity=types.DiagnosticSeverity.Error, source=SOURCE
    )


def hover(report: Report, path: str, at: types.Position, positions: Positions) -> types.Hover | None:
    """The explanation of the findings at a position."""
    parts: list[str] = []
    where: types.Range | None = None
    for finding in report.findings:
        here = positions.range(finding.cause)
        if finding.cause.path == path and here.start <= at <= here.end:
            where = where or here
            parts.append("\n\n".join(filter(None, [finding.message, report.rules.get(finding.code, "")])))
    if where is None:
        return None
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, "\n\n---\n\n".join(parts)), where)


def quick_fixes(
    report: Report,
    path: str,
    within: types.Range,
    known: Sequence[types.Diagnostic],
    positions: Positions,
    versions: Mapping[str, int | None],
) -> Iterator[types.CodeAction]:
    """The actions for the findings of a file that touch a range: every repair, and a comment that suppresses it."""
    for finding in report.findings:
        if finding.cause.path != path or not _touch(positions.range(finding.cause), within):
            continue
        own = [one for one in known if one.code == finding.code and one.range == positions.range(finding.cause)]
        for fix in report.fixes.get(finding, ()):
            yield types.CodeAction(
                title=title(fix),
                kind=types.CodeActionKind.QuickFix,
                diagnostics=own or [diagnostic(finding, positions)],
                is_preferred=fix.preferred,
                edit=workspace_edit(fix.edits, positions, versions),
            )
        edits = suppression(finding, positions.texts.get(path, ""))
        if edits:
            yield types.CodeAction(
                title=f"Ignore {finding.code} on this line",
                kind=types.CodeActionKind.QuickFix,
                diagnostics=own or [diagnostic(finding, positions)],
                edit=workspace_edit(edits, positions, versions),
            )


def title(fix: Fix) -> str:
    """The remedy as the title of an action; for a repair that may lose something, with a word on that."""
    text = fix.title[:1].upper() + fix.title[1:]
    return text if fix.safe else f"{text} (unsafe)"


def fix_all(report: Report, positions: Positions, versions: Mapping[str, int | None]) -> types.CodeAction | None:
    """The action that makes all safe repairs; None where there is none."""
    if not report.all_safe:
        return None
    return types.CodeAction(
        title="Apply all safe fixes of autofix", kind=FIX_ALL, edit=workspace_edit(report.all_safe, positions, versions)
    )


def suppression(finding: Finding, text: str) -> list[TextEdit]:
    """The edits that add a comment at a finding; none where a comment cannot stand."""
    if finding.code == UNUSED_IGNORE[0] or not text:
        return []
    try:
        after = with_ignores(text, finding.cause.path, [finding])
    except (SyntaxError, tokenize.TokenError):
        return []
    return list(text_edits(text, _lines_changed(finding.cause.path, text, after)))


def _lines_changed(path: str, before: str, after: str) -> Iterator[Replacement]:
    """The lines that comments were added to: no line comes or goes."""
    for number, (old, new) in enumerate(zip(lines_of(before), lines_of(after), strict=True), 1):
        if old != new:
            yield Replacement(path, number, number + 1, (Line(new, number),))


def workspace_edit(
    edits: Iterable[TextEdit], positions: Positions, versions: Mapping[str, int | None]
) -> types.WorkspaceEdit:
    """Edits of several files; edits of open documents are bound to the *versions* that were analysed."""
    by_path: dict[str, list[types.TextEdit | types.AnnotatedTextEdit | types.SnippetTextEdit]] = {}
    for edit in edits:
        by_path.setdefault(edit.span.path, []).append(positions.edit(edit))
    return types.WorkspaceEdit(
        document_changes=[
            types.TextDocumentEdit(
                types.OptionalVersionedTextDocumentIdentifier(positions.uri(path), versions.get(path)), own
            )
            for path, own in by_path.items()
        ]
    )


def plain_edit(edit: types.WorkspaceEdit) -> types.WorkspaceEdit:
    """*edit* without versions of documents, for clients that know none."""
    changes: dict[str, list[types.TextEdit]] = {}
    for change in edit.document_changes or ():
        if isinstance(change, types.TextDocumentEdit):
            own = [one for one in change.edits if isinstance(one, types.TextEdit)]
            changes.setdefault(change.text_document.uri, []).extend(own)
    return types.WorkspaceEdit(changes=changes)


def _touch(one: types.Range, other: types.Range) -> bool:
    """Whether two ranges have a position in common, or lie on the same line: the caret may stand anywhere in it."""
    return one.start.line <= other.end.line and other.start.line <= one.end.line
