"""Shrinks a gradient to a few numbers from which distances and angles between two runs' gradients can be told.

The sketch is a count sketch (Charikar, Chen, Farach-Colton 2002): every element is added, with a fixed random sign,
to one of ``WIDTH`` buckets.  It is linear, so the difference of two sketches is the sketch of the difference, and its
squared norm is on average that of the gradient.  Equal gradients have equal sketches; a gradient of at most ``WIDTH``
elements is kept as it is.
"""

from __future__ import annotations

import torch

from .parameters import LARGE, dense

WIDTH = 64

_signs: dict[int, torch.Tensor] = {}


def sketch(gradient: torch.Tensor) -> tuple[float, ...]:
    """At most ``WIDTH`` numbers for *gradient*."""
    if gradient.is_sparse:
        gradient = gradient.to_dense()
    values = dense(gradient)
    if values.is_complex():
        values = torch.view_as_real(values)
    flat = values.reshape(-1)
    if flat.numel() <= LARGE:
        flat = flat.to(torch.float64)
    if flat.numel() <= WIDTH:
        return tuple(flat.tolist())
    signed = flat * _signs_for(flat.numel())
    padded = torch.nn.functional.pad(signed, (0, -flat.numel() % WIDTH))
    return tuple(padded.view(-1, WIDTH).sum(0, dtype=torch.float64).tolist())


def _signs_for(size: int) -> torch.Tensor:
    """Fixed random signs, from a generator of their own, so that the script's random numbers stay as they are."""
    if size not in _signs:
        generator = torch.Generator().manual_seed(size)
        _signs[size] = torch.randint(0, 2, (size,), generator=generator, dtype=torch.int8) * 2 - 1
    return _signs[size]
