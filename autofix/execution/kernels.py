"""Kernels for notebooks: what they need to be there, and what the run of one is given in its folder."""

from __future__ import annotations

import importlib.util
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from autofix.child.job import Kernel
from autofix.execution.scratch import Scratch
from autofix.project import files, notebook

if TYPE_CHECKING:
    from autofix.execution.cells import Client

LONGEST = 103 if sys.platform == "darwin" else 107
"""Bytes that the name of a Unix socket may have."""
OWN_OF_IPYTHON = frozenset({"db", "log", "pid", "security", "history.sqlite", "history.sqlite-journal"})
"""Entries of IPython's folder and its profile that kernels write."""


def lacking(python: str) -> str:
    """Name of the package without which no notebook runs in a kernel of *python*; empty where there is none."""
    if importlib.util.find_spec("nbclient") is None:
        return "nbclient"
    return "" if has_ipykernel(python) else "ipykernel"


@cache
def has_ipykernel(python: str) -> bool:
    """Whether the interpreter *python* can import ipykernel."""
    if python == sys.executable:
        return importlib.util.find_spec("ipykernel") is not None
    question = "import importlib.util, sys; sys.exit(importlib.util.find_spec('ipykernel') is None)"
    try:
        return subprocess.run([python, "-c", question], capture_output=True, check=False, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@dataclass(frozen=True)
class Notebook:
    """A notebook to run: its JSON, its program, and the sources of its code cells by their numbers."""

    document: str
    program: str
    sources: Mapping[int, str]


def read(path: Path, program: str) -> Notebook:
    """The notebook at *path* with the *program* of its cells, which may be a patched one.

    Raises :class:`autofix.project.files.FileError`, and :class:`autofix.project.cells.NotebookError` where the
    program cannot be written back into the cells.
    """
    known = files.read(path).notebook
    assert known is not None
    return Notebook(known.with_text(program), program, known.sources(program))


def prepare(run: Notebook, scratch: Scratch) -> Kernel:
    """Write what the kernel of a *run* finds in its folder.  Raises :class:`TooLong`."""
    from jupyter_client.connect import write_connection_file

    sockets = scratch.temporary / "k"
    if len(os.fsencode(f"{sockets}-5")) > LONGEST:
        raise TooLong
    connection = scratch.temporary / "kernel.json"
    ways = ("tcp", "127.0.0.1") if sys.platform == "win32" else ("ipc", str(sockets))
    write_connection_file(str(connection), transport=ways[0], ip=ways[1], key=secrets.token_hex(32).encode())
    program = scratch.temporary / "program.py"
    with open(program, "w", encoding="utf-8", newline="") as file:
        file.write(run.program)
    layout = notebook.Layout.of(run.program)
    return Kernel(str(connection), str(program), dict(zip(layout.numbers, layout.starts, strict=True)))


class TooLong(Exception):
    """The folder for temporary files has a name in which no socket can be made."""

    def __str__(self) -> str:
        return "the name of the folder for temporary files is too long for a kernel's sockets; TMPDIR names another"


def surroundings(environment: Mapping[str, str], scratch: Scratch) -> dict[str, str]:
    """The *environment* of a run as a kernel's: with the user's settings of IPython, and figures in the notebook."""
    theirs = Path(environment.get("IPYTHONDIR") or Path.home() / ".ipython")
    own = scratch.temporary / "ipython"
    profile = own / "profile_default"
    profile.mkdir(parents=True)
    for there, here in ((theirs, own), (theirs / "profile_default", profile)):
        for entry in sorted(there.iterdir()) if there.is_dir() else ():
            if entry.name not in OWN_OF_IPYTHON and not (here / entry.name).exists():
                (here / entry.name).symlink_to(entry)
    return {name: value for name, value in environment.items() if name != "MPLBACKEND"} | {"IPYTHONDIR": str(own)}


def client(run: Notebook, kernel: Kernel, timeout: float) -> Client:
    """Client that hands the cells of *run* to the *kernel*."""
    from autofix.execution.cells import Client

    return Client(run.document, run.sources, kernel.connection, timeout)
