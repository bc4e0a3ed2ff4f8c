"""Runs a script and proves its repair, at the user's command: ``autofix run`` in a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BEAT = 1.0
"""Seconds between two reports of progress."""
PATIENCE = 10.0
"""Seconds that a cancelled run has to clean up behind itself."""


@dataclass(frozen=True)
class Proof:
    """Result of a run: the JSON document of ``autofix run``, or a message why there is none."""

    document: dict[str, Any] | None
    message: str
    """For the user, in a sentence."""

    @property
    def proved(self) -> bool:
        """Whether there is a repair that stood the proof."""
        proof = (self.document or {}).get("proof")
        return proof is not None and bool(proof["proved"])


async def prove(
    script: Path, arguments: list[str], folder: Path, python: str | None, beat: Callable[[str], None]
) -> Proof:
    """Repair and run *script* from *folder*, with *arguments* of its own; *beat* hears how long it has taken.

    Where the task is cancelled, so is the run.
    """
    interpreter = ["--python", python] if python else []
    command = [sys.executable, "-m", "autofix", "run", "--output-format", "json", *interpreter, str(script), *arguments]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
    )
    began = time.monotonic()
    answer = asyncio.ensure_future(process.communicate())
    try:
        while not answer.done():
            beat(f"{script.name}, {time.monotonic() - began:.0f} s")
            await asyncio.wait([answer], timeout=BEAT)
        output, errors = answer.result()
    finally:
        if process.returncode is None:
            await _end(process, answer)
    return _read(script, output.decode(errors="replace"), errors.decode(errors="replace"))


async def _end(process: asyncio.subprocess.Process, answer: asyncio.Future[tuple[bytes, bytes]]) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    await asyncio.wait([answer], timeout=PATIENCE)
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await asyncio.wait([answer])


def _read(script: Path, output: str, errors: str) -> Proof:
    try:
        document = json.loads(output)
    except ValueError:
        last = errors.strip().splitlines()[-1:] or ["no report was printed"]
        return Proof(None, f"{script.name} was not judged: {last[0]}")
    proof, note = document["proof"], document["note"].split("\n")[0]
    if proof is None:
        return Proof(document, f"{script.name}: {note or 'no error; nothing to fix.'}")
    if proof["proved"]:
        return Proof(document, f"Proved: the repaired {script.name} trains.")
    failed = next((point for point in proof["points"] if point["verdict"] in ("failed", "not proved")), None)
    reason = f"{failed['name']}: {failed['detail']}" if failed is not None else note
    return Proof(document, f"Not proved: {script.name}: {reason}")
