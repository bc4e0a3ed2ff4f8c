"""The record of a run: one JSON object a line, each written whole, so that a killed run leaves what it had seen."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any


class Events:
    """An append-only file of events.  Writes of forked copies of the process (data loader workers) are dropped."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self.at_end: Callable[[], None] = lambda: None
        """Writes what can be said of the process when it ends."""

    @property
    def ours(self) -> bool:
        """Whether this is the process that opened the record."""
        return os.getpid() == self._process

    def write(self, event: str, **values: Any) -> None:
        """Append one event with the seconds since the record was opened."""
        if not self.ours:
            return
        seconds = round(time.monotonic() - self._began, 4)
        line = json.dumps({"event": event, "at": seconds, **values}) + "\n"
        data = line.encode()
        with self._lock:
            while data:
                data = data[os.write(self._file, data) :]
