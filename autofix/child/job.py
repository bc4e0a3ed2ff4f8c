"""The job of a run, which the runner writes and the child reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Bounds:
    """Purpose of a run, and the point at which it may stop, from the original's counts at its failure."""

    failed_steps: int | None = None
    """Optimizer steps that the original had made when it failed; None in the run of the original itself."""
    failed_passes: int | None = None
    """Backward passes that the original had started when it failed."""
    compare_from: int | None = None
    """Optimizer steps (passes, where there is no optimizer) after which gradients are recorded for comparison."""
    reference: bool = False
    """Whether the broken script is to run on with the gradients that its formulas mean: with all graphs kept."""
    more_steps: int | None = None
    """Optimizer steps past the failure; None for the job's own number."""
    trace: bool = False
    """Whether the run records the places of the source that made a failure, rather than gradients and steps."""
    between: bool = False
    """Whether live graphs are counted when modules are called between steps, too: an evaluation holds them there."""
    follow: tuple[tuple[int, int, str], ...] = ()
    """Values that are followed through a traced run: the numbers of the calls that make and read them, their node."""
    apart: bool = False
    """Whether modules with ``inplace=True`` leave their inputs as they are."""
    reduction: str = ""
    """Reduction by which, in a reference run, a pass begins at a loss of several elements: ``mean`` or ``sum``."""
    parts: str = ""
    """What, in a reference run, one of several views is after a change in place of their base: see ``parts.py``."""
    attached: bool = False
    """Whether no graph is cut in the statements that a patch by hand rewrites: ``attached.py``."""
    healthy: float | None = None
    """The seconds after which a run that has made its steps without a failure is healthy, and stopped."""
    throughout: bool = False
    """Whether gradients are recorded to the end, and not at the first steps alone that are compared."""
    frozen: bool = False
    """Whether every parameter update is left out.  See ``frozen.py``."""
    driven: bool = False
    """Whether a step that is left out moves its parameters in a prescribed way instead, alike in every run."""
    detour: bool = False
    """Whether the prescribed way leads to other values at the first steps, and then on as without it."""
    same_calls: bool = False
    """Whether every call of a module draws the same random numbers and leaves the module's buffers as they were."""


@dataclass(frozen=True)
class Watched:
    """Parts of one source that a run reports as executed or not: the parts that a patch by hand changes."""

    file: str
    """Relative to the root."""
    spans: tuple[tuple[int, int, int, int], ...] = ()
    """First line, last line, first column, last column, in UTF-8 bytes: statements, and parts that they may skip."""
    loops: tuple[tuple[int, int], ...] = ()
    """First and last line of the loops whose end is to be seen, because the patch changes their iterables."""
    rewritten: tuple[tuple[int, int], ...] = ()
    """First and last line of what the patch rewrites: statements, decorators, contexts that it takes some out of."""
    by_type: tuple[tuple[int, int, int, int], ...] = ()
    """Branches that the type of a value alone decides on: of one that is never entered, nothing need be executed."""
    turns: tuple[tuple[int, int, int, int, str], ...] = ()
    """Expressions within statements that a number decides on, and their text: both values of each are to be seen."""


@dataclass(frozen=True)
class Kernel:
    """The kernel that a run of a notebook is: nbclient, in the runner, hands it the cells."""

    connection: str
    """Jupyter's connection file, in the run's folder."""
    program: str
    """File that holds the cells' program as the finders of mistakes read it: one text, one line for each of a cell."""
    cells: Mapping[int, int]
    """Line of that text above each cell's first, by the number of the cell."""


@dataclass(frozen=True)
class Job:
    """One run of one script.  Paths are absolute and resolved."""

    target: str
    """The script (inside the scratch copy, unless it belongs to the environment), the module, or the command."""
    root: str
    """The scratch copy of the project: files under it are the user's code."""
    record: str
    """The file for the events, one JSON object a line."""
    bounds: Bounds = Bounds()
    way: str = "file"
    """``file`` for ``python TARGET``, ``module`` for ``python -m TARGET``, ``command`` for another program,
    ``notebook`` for a kernel."""
    origin: str = ""
    """The project that ``root`` is a copy of."""
    scratch: str = ""
    """The folder that holds all that belongs to the run, links to the user's own files among it."""
    import_roots: tuple[str, ...] = ()
    """The folders of the copy in which the project's modules lie, as if it were installed."""
    changed: tuple[str, ...] = ()
    """The sources that differ from the original's, relative to the root."""
    watched: tuple[Watched, ...] = ()
    """Parts of the sources of which the run is to tell whether it executed them."""
    seal: str = ""
    """The key of the record's tags, see ``events.py``; empty for a record without."""
    args: tuple[str, ...] = ()
    seed: int = 0
    parent: int = 0
    """The process that must outlive this one; 0 for none."""
    steps: int = 20
    """Optimizer steps past ``failed_steps`` (or past the failure, where it is unknown), unless the bounds say more."""
    streams: bool = False
    """Whether every network draws random numbers of its own.  See ``streams.py``."""
    device: str = ""
    """``cpu`` to map GPU devices to the CPU; empty to leave them."""
    sandbox: bool = False
    writable: tuple[str, ...] = ()
    """Folders that the run may change, the scratch directory among them."""
    network: bool = False
    """Whether the run may use the network."""
    open_ends: tuple[str, ...] = ()
    """Parts that the sandbox could not close off, where it was closed for a launcher before."""
    memory: int = 0
    """The most bytes of data for one process; 0 for no limit."""
    kernel: Kernel | None = None
    """The kernel to be, for a notebook."""

    @property
    def more_steps(self) -> int:
        """Number of optimizer steps to run past the failure."""
        return self.steps if self.bounds.more_steps is None else self.bounds.more_steps


@dataclass(frozen=True)
class Request:
    """A job for the warm server, and the surroundings of its run."""

    job: Job
    folder: str
    """The working directory."""
    scratch: str
    """The folder that the server removes when the caller is killed."""
    environment: Mapping[str, str]
