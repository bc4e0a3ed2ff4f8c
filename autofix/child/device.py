"""Lets a script that was written for a GPU run on the CPU: every tensor that it puts on ``cuda`` goes to the CPU.

The mapping is a :class:`CallMode`, which sees the device of every call (``.to``, ``.cuda``, ``device=``),
and a few functions of ``torch.cuda`` that would ask for a driver.  To the script's own files
``torch.cuda.is_available()`` says yes, so that it takes the path that it takes on its own machine.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from .calls import CallMode
from .stage import is_user_file

CPU = torch.device("cpu")


class OnCpu(CallMode):
    """Maps every CUDA device among a call's arguments to the CPU."""

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if func is torch.Tensor.cuda or func is torch.Tensor.pin_memory:
            return args[0]
        return func(*map(mapped, args), **{name: mapped(value) for name, value in kwargs.items()})


def mapped(value: Any) -> Any:
    """*value*, or the CPU if it names a CUDA device."""
    if isinstance(value, torch.device):
        return CPU if value.type == "cuda" else value
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    return value


def install(root: str) -> None:
    """Map from now on.  *root* is the folder of the script's own files."""
    OnCpu().enter()
    real = torch.cuda.is_available

    def is_available() -> bool:
        caller = sys._getframe(1).f_code.co_filename
        return is_user_file(caller, root) or real()

    torch.cuda.is_available = is_available
    torch.nn.Module.cuda = lambda module, *_, **__: module  # type: ignore[method-assign]
    silence()
    map_autocast()
    for name in ("Float", "Double", "Half", "Int", "Long", "Byte", "Bool", "Short", "Char"):
        setattr(torch.cuda, f"{name}Tensor", getattr(torch, f"{name}Tensor"))
    load = torch.load

    def load_here(*args: Any, **kwargs: Any) -> Any:
        kwargs["map_location"] = CPU
        return load(*args[:1], **kwargs)

    torch.load = load_here


def silence() -> None:
    """Give the functions of ``torch.cuda`` that need a driver an answer that changes nothing."""
    answers: dict[str, Any] = {
        "synchronize": None,
        "set_device": None,
        "empty_cache": None,
        "reset_peak_memory_stats": None,
        "manual_seed": None,
        "manual_seed_all": None,
        "current_device": 0,
        "device_count": 1,
        "get_device_name": "cpu",
        "memory_allocated": 0,
        "max_memory_allocated": 0,
        "memory_reserved": 0,
        "max_memory_reserved": 0,
        "is_bf16_supported": True,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, lambda *_, _answer=answer, **__: _answer)


def map_autocast() -> None:
    """Turn autocast to the CPU, in bfloat16, the type that the CPU has; the scaler turns itself off without a GPU."""
    autocast = torch.amp.autocast_mode.autocast
    begin = autocast.__init__

    def begin_here(self: Any, device_type: str, dtype: torch.dtype | None = None, **options: Any) -> None:
        on_cpu = mapped(device_type) == "cpu"
        begin(self, "cpu" if on_cpu else device_type, torch.bfloat16 if on_cpu else dtype, **options)

    autocast.__init__ = begin_here  # type: ignore[method-assign, assignment]
