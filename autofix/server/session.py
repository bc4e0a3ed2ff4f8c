"""The open documents and the reports on them: the document to be analysed next, and reports that still hold.

The latest text wins: a change interrupts the analysis of the text before.  A document is analysed anew, too, when
another open document changes that it imports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from autofix.checking import Problem
from autofix.server.reports import Done, Report, Request
from autofix.server.worker import Worker

DEBOUNCE = 0.01
"""Seconds without a further change before an analysis begins: less than between two keystrokes, for it is given up
where another one comes."""


@dataclass(frozen=True)
class Document:
    """An open document as the editor has it."""

    uri: str
    version: int | None
    text: str


@dataclass
class Session:
    """Lives in the event loop; *told* is called with the path of a document whenever there is a new report on it."""

    folder: str
    told: Callable[[str, Report | None, Report], None]
    """Called with the path, the report before, and the new one."""
    documents: dict[str, Document] = field(default_factory=dict)
    """Open documents by absolute path."""
    reports: dict[str, Report] = field(default_factory=dict)
    complete: set[str] = field(default_factory=set)
    """The documents on which no further report follows."""
    _worker: Worker | None = None
    _pending: dict[str, None] = field(default_factory=dict)
    """Documents to be analysed, the one that was changed last at the end."""
    _running: Request | None = None
    _timer: asyncio.TimerHandle | None = None
    _serial: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self) -> None:
        """Start the analysing process."""
        loop = asyncio.get_running_loop()

        def told(answer: Report | Done) -> None:
            loop.call_soon_threadsafe(self._hear, answer)

        def died(code: int) -> None:
            loop.call_soon_threadsafe(self._bury, code)

        self._worker = Worker(self.folder, told, died)
        self._worker.start()

    def close(self) -> None:
        """End the analysing process."""
        if self._timer is not None:
            self._timer.cancel()
        if self._worker is not None:
            self._worker.close()

    def put(self, path: str, document: Document, *, debounce: float = DEBOUNCE) -> None:
        """Take a document's new text, and have it and the documents that import it analysed."""
        is_new = path not in self.documents
        self.documents[path] = document
        # A document that imports one that was just opened may not have found it before.
        for other in [one for one in self.documents if one != path] if is_new else self.importers(path):
            self._want(other)
        self._want(path)
        self._interrupt()
        self._soon(debounce)

    def drop(self, path: str) -> Report | None:
        """Forget a document that was closed, and return the last report on it."""
        self.documents.pop(path, None)
        self._pending.pop(path, None)
        self.complete.discard(path)
        report = self.reports.pop(path, None)
        for other in self.importers(path):  # the file on the disk counts again
            self._want(other)
        self._interrupt()
        self._soon(0)
        self._spread()
        return report

    def again(self, path: str | None = None) -> None:
        """Have a document analysed once more, or all of them: files or settings have changed on the disk."""
        for one in list(self.documents) if path is None else [*self.importers(path), path]:
            if one in self.documents:
                self._want(one)
        self._interrupt()
        self._soon(0)

    def importers(self, path: str) -> list[str]:
        """The open documents that were read with the file *path*."""
        return [own for own, report in self.reports.items() if path in report.companions and own in self.documents]

    async def report_on(self, path: str, *, complete: bool = False) -> Report | None:
        """The report on a document's latest text; None where it is not open.  *complete*: with all repairs."""
        while path in self.documents:
            report = self.reports.get(path)
            is_current = report is not None and path not in self._pending and self._is_current(path, report)
            if is_current and (not complete or path in self.complete):
                return report
            await self._news.wait()
        return None

    def _is_current(self, path: str, report: Report) -> bool:
        running = self._running
        is_waiting = running is not None and running.path == path and running.serial != report.serial
        return report.version == self.documents[path].version and not is_waiting

    def _want(self, path: str) -> None:
        self._pending.pop(path, None)
        self._pending[path] = None
        self.complete.discard(path)

    def _interrupt(self) -> None:
        """Give up the running analysis where another document waits; it is begun anew after that one."""
        if self._running is None or not self._pending or self._worker is None:
            return
        path = self._running.path
        if path in self.documents and path not in self._pending:
            self._pending = {path: None, **self._pending}
        self._worker.interrupt()

    def _soon(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._next)

    def _next(self) -> None:
        """Begin the next analysis, unless one is at work."""
        self._timer = None
        if self._running is not None or not self._pending or self._worker is None:
            return
        path, _ = self._pending.popitem()
        self._serial += 1
        texts = {one: document.text for one, document in self.documents.items()}
        self._running = Request(self._serial, path, self.documents[path].version, texts)
        self._worker.send(self._running)

    def _hear(self, answer: Report | Done) -> None:
        running = self._running
        if running is None or answer.serial != running.serial:
            return
        if isinstance(answer, Report):
            self._take(answer)
            return
        self._running = None
        if running.path not in self._pending:
            self.complete.add(running.path)
        self._spread()
        if self._pending and self._timer is None:
            self._next()

    def _take(self, report: Report) -> None:
        """Keep a report, unless its document has changed meanwhile or is to be analysed anew."""
        document = self.documents.get(report.path)
        if document is None or document.version != report.version or report.path in self._pending:
            return
        before = self.reports.get(report.path)
        self.reports[report.path] = report
        self._spread()
        self.told(report.path, before, report)

    def _bury(self, code: int) -> None:
        """Say of the document over which the process died that it could not be analysed; the next one starts anew."""
        running = self._running
        if running is not None:
            reason = f"the analysis of this file ended with code {code}; it is tried again after the next change"
            problem = Problem(running.path, reason)
            texts = {running.path: running.texts[running.path]}
            self._hear(Report(running.serial, running.path, running.version, problems=(problem,), texts=texts))
            self._hear(Done(running.serial))

    def _spread(self) -> None:
        """Wake all tasks that wait for a report."""
        self._news.set()
        self._news = asyncio.Event()
