"""Mistakes on autograd's tape, and the rewrite of each.  No torch, no I/O, nothing of autofix."""

from pathlib import Path

# LibCST's command line names a codemod by module and class, `autofix.codemods.detach_stored.DetachStored`: a documented
# name, also for the modules in the folder of the rules.
__path__ = [*__path__, str(Path(__file__).with_name("rules"))]
