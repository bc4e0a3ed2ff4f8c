"""Programs that start the program that is meant, and the options of Python's own: read by the child and its parent."""

from __future__ import annotations

LAUNCHERS = frozenset({"torchrun", "accelerate", "accelerate-launch", "deepspeed", "horovodrun"})
"""Launchers that are Python programs."""
LAUNCHING_MODULES = ("torch.distributed.run", "torch.distributed.launch", "accelerate.commands", "deepspeed.launcher")
WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
"""Options of the interpreter that take the next word."""
