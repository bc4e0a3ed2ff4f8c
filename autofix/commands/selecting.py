"""The codes that ``--select`` names."""

from __future__ import annotations

from collections.abc import Sequence

import click


def selected(select: Sequence[str]) -> tuple[str, ...] | None:
    """Return the codes and prefixes of ``--select``.  Raises :class:`click.UsageError` for one that selects nothing."""
    codes = [code.strip().upper() for option in select for code in option.split(",") if code.strip()]
    if not codes:
        return None
    from codemods.rules.registry import all_codemods

    codemods = all_codemods()
    known = {codemod.code for codemod in codemods} | {fact.code for codemod in codemods for fact in codemod.answers}
    for code in codes:
        if not any(one.startswith(code) for one in known):
            raise click.UsageError(f"--select {code} selects nothing; known codes: {', '.join(sorted(known))}.")
    return tuple(codes)
