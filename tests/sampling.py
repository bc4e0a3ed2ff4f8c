"""Choice of the slow tests to run: a fixed part, chosen by name, so that no addition changes the choice; or all.

``make test-all`` runs all of them.
"""

from __future__ import annotations

import os
from zlib import crc32

ALL = "AUTOFIX_ALL_TESTS" in os.environ


def sampled(name: str, every: int) -> bool:
    """Whether the test called *name* is of the part, one in *every*, that is always run."""
    return ALL or crc32(name.encode()) % every == 0
