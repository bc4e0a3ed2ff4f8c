"""Moves parameters in a prescribed way, alike in every run, in the place of an optimizer's steps.

A parameter's moves are random numbers that depend on the parameter and the number of the step alone.  With a detour,
they lead to other values at the first steps, and then to those of a run without it: only what a script carries on from
the first steps, such as an average of the weights, differs from there on.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from .recorded import DETOUR

MOVE = 0.01
"""Scale of the moves of a parameter, both absolute and relative to the mean size of its elements."""
FURTHER = 10
"""Scale of a detour, in moves."""


class Course:
    """The moves of all parameters of a run."""

    def __init__(self, *, detour: bool) -> None:
        self._detour = detour
        self._meant: dict[str, torch.Tensor] = {}
        """The values of a parameter that a detour has led away from them."""

    def drive(self, member: torch.Tensor, key: str, turn: int) -> None:
        """Move a *member* of an optimizer, of this *key*, at its step number *turn* by some hundredths."""
        with _plainly():
            if key in self._meant:
                member.copy_(self._meant.pop(key))
            member.add_(_noise(member, f"{key} {turn}"))
            if self._detour and turn <= DETOUR:
                self._meant[key] = member.clone()
                member.add_(FURTHER * _noise(member, f"{key} {turn} detour"))


@contextmanager
def _plainly() -> Iterator[None]:
    with torch._C.DisableTorchFunction(), torch.no_grad():
        yield


def _noise(member: torch.Tensor, name: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    real = member.dtype.to_real() if member.is_complex() else member.dtype
    noise = torch.randn(member.shape, generator=generator).to(member.device, real)
    return noise * (MOVE * (1 + member.abs().mean()))
