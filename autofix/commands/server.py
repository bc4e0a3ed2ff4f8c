"""``autofix server``: the language server, over standard input and output."""

from __future__ import annotations

import click

from autofix.exits import Exit


def server() -> Exit:
    """Serve one editor until it ends the connection."""
    try:
        from autofix.server.features import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise click.ClickException("server needs pygls: pip install 'torch-autofix[server]'") from None
    serve()
    return Exit.CLEAN
