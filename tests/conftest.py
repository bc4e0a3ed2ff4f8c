"""Settings of the whole test session."""

from __future__ import annotations

import os
import signal


def pytest_configure() -> None:
    """Interrupts reach the programs that tests start, also where a shell has started pytest in the background.

    No results are kept from one check for another.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # inherited, and handed on to every child
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["AUTOFIX_NO_CACHE"] = "1"
