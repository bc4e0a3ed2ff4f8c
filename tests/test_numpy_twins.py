"""Every function, method and keyword of NumPy that a formula may have gives an equal result in torch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from autofix.codemods.facts.base import Span
from autofix.codemods.facts.cut import CutGraph
from autofix.codemods.facts.parts import Drop
from autofix.codemods.formula.reader import in_torch
from autofix.codemods.formula.twins import ALONG, BOUNDS, CONSTANTS, DTYPES, FUNCTIONS, METHODS, REDUCTIONS, Takes, Twin
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.source.program import Program

PROGRAM = """\
import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
def formula(p, q):
    a, b = p.detach().numpy(), q.detach().numpy()
    return torch.as_tensor({formula})
"""
SHAPES = {1: (4,), 2: (4, 4), 3: (2, 4, 4)}

CALLS = {
    "clip": [
        "np.clip(a, 0.2, 0.6)",
        "np.clip(a, a_min=0.2, a_max=0.6)",
        "np.clip(a, min=0.2)",
        "np.clip(a, 0.2, max=1)",
    ],
    "reshape": ["np.reshape(a, (2, -1))"],
    "squeeze": ["np.squeeze(a[None])", "np.squeeze(a[None], 0)", "np.squeeze(a[:, None], axis=1)"],
    "expand_dims": ["np.expand_dims(a, 0)", "np.expand_dims(a, axis=-1)"],
    "swapaxes": ["np.swapaxes(a, 0, -1)"],
    "moveaxis": ["np.moveaxis(a, 0, -1)"],
    "roll": ["np.roll(a, 1)", "np.roll(a, 1, 0)", "np.roll(a, shift=1, axis=-1)"],
    "diff": ["np.diff(a)", "np.diff(a, 2, 0)", "np.diff(a, n=2, axis=0)"],
    "cumsum": ["np.cumsum(a, 0)", "np.cumsum(a, axis=-1)"],
    "cumprod": ["np.cumprod(a, 0)", "np.cumprod(a, axis=-1)"],
    "repeat": ["np.repeat(a, 2)", "np.repeat(a, 2, 0)", "np.repeat(a, 2, axis=-1)"],
    "tile": ["np.tile(a, (2, 3))"],
    "broadcast_to": ["np.broadcast_to(a, (3, 2, 4, 4))"],
    "corrcoef": ["np.corrcoef(a)", "np.corrcoef(a, b)", "np.corrcoef(a, b)[0, 1]"],
    "cov": ["np.cov(a)", "np.cov(a, b)"],
    "linalg.norm": [
        "np.linalg.norm(a)",
        "np.linalg.norm(a, 1, -1)",
        "np.linalg.norm(a, ord=2, axis=-1, keepdims=True)",
        "np.linalg.norm(a, axis=0)",
    ],
    "imag": ["np.imag(np.fft.rfft(a))"],
    "fft.rfft2": ["np.fft.rfft2(a)", "np.fft.rfft2(a, axes=(0, 1))", "np.fft.rfft2(a, norm='ortho')"],
    "fft.fft2": ["np.fft.fft2(a)", "np.fft.fft2(a, axes=(0, 1))", "np.fft.fft2(a, norm='ortho')"],
    "full_like": ["np.full_like(a, 0.5)", "np.full_like(a, fill_value=0.5)"],
    **{
        f"fft.{name}": [
            f"np.fft.{name}(a)",
            f"np.fft.{name}(a, 6, 0)",
            f"np.fft.{name}(a, n=3, axis=0)",
            f"np.fft.{name}(a, norm='ortho')",
        ]
        for name in ("fft", "ifft", "rfft", "irfft")
    },
    **{
        f"fft.{name}": [f"np.fft.{name}(a)", f"np.fft.{name}(a, 0)", f"np.fft.{name}(a, axes=0)"]
        for name in ("fftshift", "ifftshift")
    },
}
OF_METHODS = {
    "reshape": ["a.reshape(-1)", "a.reshape((2, -1))", "a.reshape(1, 1, 1, 2, -1)"],
    "squeeze": ["a[None].squeeze()", "a[None].squeeze(0)", "a[:, None].squeeze(axis=1)"],
    "swapaxes": ["a.swapaxes(0, -1)"],
    "clip": ["a.clip(0.2, 0.6)", "a.clip(min=0.2, max=0.6)"],
    "cumsum": ["a.cumsum(0)", "a.cumsum(axis=-1)"],
    "cumprod": ["a.cumprod(0)", "a.cumprod(axis=-1)"],
    "repeat": ["a.repeat(2)", "a.repeat(2, 0)", "a.repeat(2, axis=-1)"],
}
OF_CONSTANTS = {
    "arange": ["np.arange(4)", "np.arange(1, 5)", "np.arange(0, 8, 2)", "np.arange(4, dtype=np.float32)"],
    "linspace": ["np.linspace(0, 1, 4)", "np.linspace(0, 1, num=4)", "np.linspace(0, 1, 4, dtype=np.float32)"],
    "zeros": ["np.zeros(4)", "np.zeros(a.shape)", "np.zeros(shape=(4,))", "np.zeros((4,), dtype=np.float32)"],
    "ones": ["np.ones(4)", "np.ones(a.shape)", "np.ones(shape=(4,))", "np.ones((4,), dtype=np.float64)"],
    "full": [
        "np.full((4,), 0.5)",
        "np.full(a.shape, 2.0)",
        "np.full(shape=(4,), fill_value=0.5)",
        "np.full((4,), 0.5, dtype=float)",
    ],
    "eye": ["np.eye(4)", "np.eye(3, 4)[:1]", "np.eye(4, dtype=np.float32)"],
    "identity": ["np.identity(4)", "np.identity(4, dtype=np.float32)"],
    **{name: [f"np.{name}(4)"] for name in ("hanning", "hamming", "blackman", "bartlett")},
    **{
        f"fft.{name}": [f"np.fft.{name}({n})", f"np.fft.{name}({n}, 0.5)", f"np.fft.{name}({n}, d=0.5)"]
        for name, n in (("fftfreq", 4), ("rfftfreq", 6))
    },
}
OTHERS = """
np.where(a > 0.5, a, b)
np.where(a > 0.5, a, 0.0)
np.where((a > 0.5) & ~(b > 0.2), 1.0, a)
np.dot(a[0, None], b.T) if a.ndim == 2 else a
a.dot(a) if a.ndim == 1 else b
np.dot(a.ravel(), b.ravel())
a @ b
np.outer(a.ravel(), b.ravel())
np.einsum('...i,...i->...', a, b)
np.transpose(a)
a.transpose()
a.T
np.flip(a, 0)
np.flip(a, axis=-1)
a[::-1]
a[..., None] * np.array([1.0, 2.0])
a[:, np.newaxis] - np.array([[0.5], [1.5]], dtype=np.float32)
a[np.arange(2), np.array([0, 1])] if a.ndim > 1 else a[np.array([0, 1])]
a[a > 0.5]
a.astype(np.float32)
a.astype('float64')
(a > 0.5).astype(np.float32)
(a > 0.5).mean()
np.mean(a > 0.5)
np.average(a)
np.array([a.mean(), b.std()])
np.mean([a, b], axis=0)
np.sum([a.mean(), b.mean()])
np.stack([a * k for k in range(3)])
sum([a, b])
abs(-a)
a * np.pi + np.sqrt(2) * b - np.e
a.size * a + len(a) + a.shape[0]
sliding_window_view(a.ravel(), 2)[::2]
sliding_window_view(a.ravel(), 2)
sliding_window_view(a, 2, axis=-1)
np.lib.stride_tricks.sliding_window_view(a, 2, -1)
np.asarray(a) ** 2
""".strip().splitlines()
_AXES = ("axis=0", "-1", "axis=-1, keepdims=True", "axis=(0, 1)", "axis=-1, ddof=1")


def of_reduction(name: str) -> list[str]:
    calls = [f"np.{name}(a)"]
    if name not in ("amax", "amin"):
        calls.append(f"a.{name}()")
    for axis in _AXES:
        if "ddof" in axis and name not in ("std", "var"):
            continue
        if "(0, 1)" in axis and name in ("prod", "argmax", "argmin"):
            continue
        calls += [
            call[:-1] + (", " if call.endswith("(a)") else "") + axis + ")" for call in calls[:2] if "=" not in call
        ]
    return calls


def of_function(name: str, twin: Twin) -> list[str]:
    if name in CALLS:
        return CALLS[name]
    if twin.takes[0] is Takes.ARRAYS:
        called = [f"np.{name}([a, b])"]
        if "axis" in twin.words:
            called += [f"np.{name}((a, b), 0)", f"np.{name}([a, b], axis=-1)"]
        return called
    operands = [("b", "2.0") if takes is Takes.OPERAND else ("b",) for takes in twin.takes[1:]]
    return [f"np.{name}({', '.join(('a', *rest))})" for rest in itertools.product(*operands)]


def all_calls() -> Iterator[tuple[str, Twin | None, list[str]]]:
    for name, twin in FUNCTIONS.items():
        yield f"np.{name}", twin, of_function(name, twin)
    for name, twin in METHODS.items():
        yield f"a.{name}", twin, OF_METHODS.get(name, [f"a.{name}()"])
    for name, twin in CONSTANTS.items():
        yield f"constant {name}", twin, [f"a * {call}" for call in OF_CONSTANTS[name]]
    for name in REDUCTIONS:
        yield f"reduction {name}", None, of_reduction(name)
    for name in ALONG:
        yield f"along {name}", None, [f"np.{name}(a)", f"np.{name}(a, -1)", f"np.{name}(a, axis=0)"]
    for name in BOUNDS:
        yield f"bound {name}", None, [f"np.{name}(a, b)", f"np.{name}(0.4, a)", f"np.{name}(a, 0.4)"]
    for name in DTYPES:
        yield f"type {name}", None, [f"a.astype(np.{name})", f"a.astype('{name}')"]
    for call in OTHERS:
        yield call, None, [call]


KNOWN = list(all_calls())
CASES = [(call, rank) for _, _, calls in KNOWN for call in calls for rank in SHAPES]


def translated(formula: str) -> str | None:
    text = PROGRAM.format(formula=formula)
    line = text.splitlines()[4]
    drops = []
    for name in ("p", "q"):
        start = line.index(f"{name}.detach()")
        drops.append(Drop(Span("f.py", 5, start, 5, start + len("p.detach()")), "detach"))
    fact = CutGraph(cut=drops[0].span, failed=drops[0].span, drops=tuple(drops))
    found = in_torch(fact, Tree(Program.of(text, "f.py")))
    return found[0].patch().patched.files[0].text if found is not None else None


def value_of(text: str, *tensors: torch.Tensor) -> Any:
    names: dict[str, Any] = {}
    exec(compile(text, "f.py", "exec"), names)
    return names["formula"](*tensors)


@pytest.mark.parametrize(
    ("name", "twin", "calls"), [one for one in KNOWN if one[1]], ids=[one[0] for one in KNOWN if one[1]]
)
def test_every_place_and_every_keyword_is_tried_out(name: str, twin: Twin, calls: list[str]) -> None:
    for word in twin.words:
        assert any(f"{word}=" in call for call in calls)
    if twin.takes[-1] is Takes.PLAIN and len(twin.takes) > 1 and "full_like" not in name:
        positional = max(call.partition("(")[2].count(",") - call.count("=") for call in calls)
        assert positional + 1 >= len(twin.takes) - ("a." in name) or "reshape" in name or "broadcast" in name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("call", "rank"), CASES, ids=[f"{call} {rank}d" for call, rank in CASES])
def test_the_formula_computes_the_same(call: str, rank: int) -> None:
    generator = torch.Generator().manual_seed(rank)
    p = torch.rand(SHAPES[rank], generator=generator) * 0.8 + 0.1
    q = torch.rand(SHAPES[rank], generator=generator) * 0.8 + 0.1
    text = PROGRAM.format(formula=call)
    try:
        expected = value_of(text, p, q)
    except (ValueError, IndexError, TypeError, np.linalg.LinAlgError):
        pytest.skip("NumPy has no such function of so many dimensions")
    patched = translated(call)
    assert patched is not None, "not translated"
    assert (
        "np." not in patched.partition("def ")[2] or "np.pi" in patched or "np.e" in patched or "np.newaxis" in patched
    )
    found = value_of(patched, p.requires_grad_(), q.requires_grad_())
    assert found.shape == expected.shape
    assert torch.allclose(found.detach().to(expected.dtype), expected, rtol=1e-4, atol=1e-5, equal_nan=True)
