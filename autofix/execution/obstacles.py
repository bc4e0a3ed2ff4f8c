"""Obstacles that kept a run from training and are no mistakes of autograd, with the option that removes each."""

from __future__ import annotations

import os
from pathlib import Path

from autofix.child.recorded import RunError
from autofix.execution.record import Failure, Outcome, RunRecord

BY_TYPE = {
    "ModuleNotFoundError": "a module is missing",
    "ImportError": "a module is missing",
    "FileNotFoundError": "a file is missing",
    "ConnectionError": "the network is not available",
    "URLError": "the network is not available",
    "EOFError": "the script waits for input",
    "StdinNotImplementedError": "the notebook waits for input",
}
"""Errors of the surroundings, by type."""
NO_GPU = (
    "Torch not compiled with CUDA",
    "Found no NVIDIA driver",
    "No CUDA GPUs are available",
    "CUDA unavailable",
    "CUDA driver version is insufficient",
    "Attempting to deserialize object on a CUDA device",
    "has no attribute '_cuda_",
    "no GPUs found",
    "doesn't have NCCL built in",
)
"""Pieces of the messages by which PyTorch says that there is no GPU."""
CLOSED_GPU = "OS call failed or operation not supported on this OS"
"""CUDA's error 304, where its driver cannot name the threads of a process that the script has started."""


def obstacle(record: RunRecord) -> str:
    """Why the run did not come to train, and what to do about it; empty where its failure is autograd's, or none."""
    failure = record.failure
    if failure is None:
        said = record.output.strip().splitlines()
        if record.outcome is Outcome.DIED and not record.passes and said:
            return f"its process ended before it trained: {said[-1].strip()}"
        return ""
    return obstacle_of(failure, record)


def obstacle_of(failure: Failure, record: RunRecord) -> str:
    """Why one *failure* kept the run from training, and what to do about it; empty if it is autograd's or not known."""
    error = failure.error
    if failure.in_pass:
        return ""
    if error.refused == "write":
        return refused_write(error)
    if error.refused == "network":
        opened = "the network is not available" if record.network else "the sandbox refused a connection to the outside"
        return opened if record.network else f"{opened}; --allow-network permits it"
    if CLOSED_GPU in error.message:
        return "the sandbox keeps the processes that the script starts from the GPU; --allow-write /proc permits it"
    if any(piece in error.message for piece in NO_GPU):
        return "there is no GPU" if record.device else "there is no GPU; --device cpu runs the script on the CPU"
    if error.type == "SystemExit" and error.message == "2" and "usage:" in record.output.lower():
        return "the script needs other arguments"
    return BY_TYPE.get(error.type, "")


def refused_write(error: RunError) -> str:
    """The path that was not to be written, with the option that opens it where the user may write there."""
    place = Path(error.path)
    existing = next((one for one in (place, *place.parents) if one.exists()), place)
    if not os.access(existing, os.W_OK):
        return f"{place} cannot be written"
    return f"the sandbox refused to write {place}; --allow-write {existing} permits it"


def usage(record: RunRecord) -> str:
    """The script's own usage text, if it has ended with that."""
    at = record.output.lower().find("usage:")
    return record.output[at:].strip() if at >= 0 else ""
