"""A file of SQLite that keeps texts by keys, for several processes at once; any fault of it is a miss.

It is opened with a write-ahead log, so that readers and one writer do not wait for each other.  A file that is no
database, or a damaged one, is removed, and the next process begins a new one; where it cannot be written (a read-only
disk, a file system without locks) nothing is kept.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlite3 import Connection

NAME = "results-1.sqlite3"
"""The number changes with the table."""
PATIENCE = 5.0
"""Seconds that a process waits for another one's transaction."""
KEPT_DAYS = 30
"""Days after its last use that a row is removed."""
MOST_BYTES = 512 * 2**20
"""Size of the file from which all rows are removed."""
AT_ONCE = 500
"""Keys in one question: SQLite takes 999 on old systems."""
DAY = 86_400


def default_folder() -> Path | None:
    """The user's folder for caches: ``$XDG_CACHE_HOME/autofix``, ``~/.cache/autofix``, or the system's counterpart.

    None where no home is known.
    """
    if sys.platform == "win32":
        above = os.environ.get("LOCALAPPDATA", "")
        return Path(above, "autofix", "cache") if above else None
    above = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(above):
        return Path(above, "autofix")
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home.joinpath(*(("Library", "Caches") if sys.platform == "darwin" else (".cache",)), "autofix")


class Store:
    """Texts by keys, in *folder*.  No method raises: a read that fails finds nothing, a write that fails is dropped."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / NAME
        self._connection: Connection | None = None
        self._works = True
        self._today = int(time.time() // DAY)
        self._used: list[bytes] = []

    def get(self, keys: Sequence[bytes]) -> dict[bytes, str]:
        """The texts that are kept under *keys*, by key."""
        found: dict[bytes, str] = {}
        if not self._works or (self._connection is None and not os.path.exists(self._file)):
            return found
        for start in range(0, len(keys), AT_ONCE):
            some = keys[start : start + AT_ONCE]
            marks = ",".join("?" * len(some))
            rows = self._run(f"SELECT key, value, used FROM results WHERE key IN ({marks})", some)
            for key, value, used in rows:
                if isinstance(value, str):
                    found[key] = value
                    if used != self._today:
                        self._used.append(key)
        return found

    def put(self, rows: Sequence[tuple[bytes, str]]) -> None:
        """Keep a text for each key, in one transaction."""
        self._change(
            "INSERT OR REPLACE INTO results VALUES (?, ?, ?)", [(key, value, self._today) for key, value in rows]
        )

    def close(self) -> None:
        """Note which rows were used, and let go of the file."""
        if self._used:
            self._change("UPDATE results SET used = ? WHERE key = ?", [(self._today, key) for key in self._used])
            self._used = []
        if self._connection is not None:
            with suppress(Exception):  # whatever is wrong with the file
                self._connection.close()
            self._connection = None

    def _run(self, statement: str, values: Sequence[object] = ()) -> list[tuple[bytes, str, int]]:
        """The rows that a question yields; none where something is wrong."""
        connection = self._opened()
        if connection is None:
            return []
        try:
            return list(connection.execute(statement, values))
        except Exception as error:
            self._give_up(error)
            return []

    def _change(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        if not rows:
            return
        connection = self._opened()
        if connection is None:
            return
        try:
            with connection:
                connection.executemany(statement, rows)
        except Exception as error:
            self._give_up(error)

    def _opened(self) -> Connection | None:
        """The connection; None where there can be none."""
        if self._connection is not None or not self._works:
            return self._connection
        try:
            import sqlite3  # not part of every Python

            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.path.exists(self._file) and os.path.getsize(self._file) > MOST_BYTES:
                self._remove()
            self._connection = sqlite3.connect(self._file, timeout=PATIENCE)
            self._prepare(self._connection)
        except Exception as error:
            self._give_up(error)
        return self._connection

    def _prepare(self, connection: Connection) -> None:
        """Make the table where it is missing, and once a day remove what was not used for long."""
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = OFF")  # after a power failure, damaged results are made anew
        (day,) = connection.execute("PRAGMA user_version").fetchone()
        if day == self._today:
            return
        with connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS results (key BLOB PRIMARY KEY, value TEXT NOT NULL, used INTEGER NOT NULL)"
                " WITHOUT ROWID"
            )
            connection.execute("DELETE FROM results WHERE used < ?", (self._today - KEPT_DAYS,))
            connection.execute(f"PRAGMA user_version = {self._today}")

    def _give_up(self, error: Exception) -> None:
        """Do without the file from here on; remove it where it is damaged, and not only locked or out of reach."""
        self._works = False
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
            self._connection = None
        if type(error).__name__ == "DatabaseError" or "malformed" in str(error) or "no such" in str(error):
            self._remove()

    def _remove(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                os.unlink(f"{self._file}{suffix}")
