"""Exit codes, documented once: ``--help`` and README.md repeat this table, and a test compares them."""

from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of the commands."""

    CLEAN = 0
    LEFT = 1
    FAILED = 2
    INTERRUPTED = 130  # 128 + SIGINT, as shells have it


TABLE = """\
0  check: nothing found, or all of it fixed.  run, prove: proved, or nothing to repair.  review: nothing refused.
   campaign: every repository is done, and nothing was found.
1  check: mistakes are left, or a file could not be read.  check --diff: there is a diff.  run, prove: not proved.
   review: a hunk was refused.  campaign: something was found, or a repository is not done.
2  the call was wrong, or autofix itself failed."""
