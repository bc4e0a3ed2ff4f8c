"""What a run is asked to do: the job that the runner writes and the child reads, as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Job:
    """One run of one script.  Paths are absolute and resolved."""

    target: str
    """The script (inside the scratch copy, unless it belongs to the environment), the module, or the command."""
    root: str
    """The scratch copy of the project: what lies under it is the user's code."""
    record: str
    """Where the events go, one JSON object a line."""
    way: str = "file"
    """``file`` for ``python TARGET``, ``module`` for ``python -m TARGET``, ``command`` for another program."""
    origin: str = ""
    """The project that ``root`` is a copy of."""
    scratch: str = ""
    """The folder that holds all that belongs to the run, links to the user's own files among it."""
    import_roots: tuple[str, ...] = ()
    """The folders of the copy in which the project's modules lie, as if it were installed."""
    changed: tuple[str, ...] = ()
    """The sources that differ from the original's, relative to the root."""
    seal: str = ""
    """The key of the record's tags, see ``events.py``; empty for a record without."""
    args: tuple[str, ...] = ()
    seed: int = 0
    parent: int = 0
    """The process that must outlive this one; 0 for none."""
    more_steps: int = 20
    """How many optimizer steps to run past ``failed_steps`` (or past the failure, where it is unknown)."""
    failed_steps: int | None = None
    """Optimizer steps that the original had made when it failed; None in the run of the original itself."""
    failed_passes: int | None = None
    """Backward passes that the original had started when it failed."""
    compare_from: int | None = None
    """Optimizer steps (passes, where there is no optimizer) after which gradients are recorded for comparison."""
    reference: bool = False
    """Whether the broken script is to run on with the gradients that its formulas mean."""
    apart: bool = False
    """Whether, in such a run, modules with ``inplace=True`` leave their inputs as they are."""
    healthy: float | None = None
    """The seconds after which a run without a failure that has made ``more_steps`` steps is stopped."""
    throughout: bool = False
    """Whether gradients are recorded to the end of the run."""
    frozen: bool = False
    """Whether every parameter update is left out.  See ``frozen.py``."""
    same_calls: bool = False
    """Whether every call of a module draws the same random numbers and leaves the module's buffers as they were."""
    streams: bool = False
    """Whether every network draws random numbers of its own.  See ``streams.py``."""
    trace: bool = False
    """Whether the run is to say in which places of the source a failure was made, rather than what it trains."""
    follow: tuple[tuple[int, int, str], ...] = ()
    """Values that are followed through a traced run: the numbers of the calls that make and read them, their node."""
    between: bool = False
    """Whether live graphs are counted when modules are called between steps, too: an evaluation holds them there."""
    device: str = ""
    """``cpu`` to map GPU devices to the CPU; empty to leave them."""
    sandbox: bool = False
    writable: tuple[str, ...] = ()
    """Folders that the run may change, the scratch directory among them."""
    network: bool = False
    """Whether the run may use the network."""
    open_ends: tuple[str, ...] = ()
    """What the sandbox could not close off, where it was closed for a launcher before."""
    memory: int = 0
    """The most bytes of data for one process; 0 for no limit."""


def written(job: Job) -> str:
    """The text from which :func:`read_job` makes *job* again."""
    return json.dumps(asdict(job))


def read_job(text: str) -> Job:
    """Parse *text*; unknown keys are an error, because the two sides must agree."""
    values: dict[str, Any] = json.loads(text)
    known = {field.name for field in fields(Job)}
    if unknown := set(values) - known:
        raise ValueError(f"unknown keys in the job: {sorted(unknown)}")
    for name in ("args", "writable", "import_roots", "changed", "open_ends"):
        values[name] = tuple(values.get(name, ()))
    values["follow"] = tuple(tuple(value) for value in values.get("follow", ()))
    return Job(**values)
