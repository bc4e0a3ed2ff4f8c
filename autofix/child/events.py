"""The record of a run: one JSON object a line, each written whole, so that a killed run leaves its events so far.

The script runs in the same process, and is not to write the record itself.  The file has no name any more when the
script starts, and every line begins with a tag of its own and of all lines before it, made with a key that only the
runner knows besides.  So a script that writes to descriptors that it did not open, or to ``/proc/self/fd``, is found
out.  What stays open: a script that looks for the key, or for these objects, in the memory of its own process.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable

from .recorded import Event, written

TAG = 16
"""Bytes of a tag."""


class Events:
    """An append-only file of events.  Writes of forked copies of the process (data loader workers) are dropped."""

    def __init__(self, path: str, seal: str = "") -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if seal:
            with contextlib.suppress(OSError):  # Windows keeps the name of an open file
                os.unlink(path)
        self._tags = hashlib.blake2b(key=seal.encode(), digest_size=TAG) if seal else None
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self.at_end: Callable[[], None] = lambda: None
        """Writes the events that are known only when the process ends."""

    @property
    def ours(self) -> bool:
        """Whether this is the process that opened the record."""
        return os.getpid() == self._process

    def write(self, event: Event) -> None:
        """Append one event with the seconds since the record was opened."""
        if not self.ours:
            return
        data = written(event, time.monotonic() - self._began).encode()
        with self._lock:
            if self._tags is not None:
                self._tags.update(data)
                data = self._tags.hexdigest().encode() + b" " + data
            data += b"\n"
            while data:
                data = data[os.write(self._file, data) :]
