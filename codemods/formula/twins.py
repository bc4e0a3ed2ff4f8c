"""Torch's equivalents of NumPy's functions, methods and keywords, where both mean the very same.

An unlisted function stops a translation.  Left out on purpose: ``median`` (torch takes the lower of two middles),
``triu`` and ``tril`` (which make a matrix of one row in NumPy only), ``argsort`` and ``sort`` (torch returns a pair),
``round``, ``floor`` and the like (their gradient is zero), and whatever writes into an array.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Takes(Enum):
    """Kinds of arguments that a function of NumPy takes at one position."""

    ARRAY = "an array"
    OPERAND = "an array or a number"
    ARRAYS = "a list or tuple of arrays"
    PLAIN = "a number, or a shape"
    INTEGERS = "a tuple of integers, written out"


_A, _O, _S, _P, _I = Takes.ARRAY, Takes.OPERAND, Takes.ARRAYS, Takes.PLAIN, Takes.INTEGERS


@dataclass(frozen=True)
class Twin:
    """A function of torch that is equivalent to one of NumPy."""

    name: str
    takes: tuple[Takes, ...] = (_A,)
    """Kinds of the positional arguments, whose order is the same in torch and NumPy."""
    words: Mapping[str, str] = field(default_factory=dict)
    """NumPy's keywords, and torch's names for them."""
    wanted: frozenset[str] = frozenset()
    """Keywords without which torch would do something else, or nothing."""
    rank: int | None = None
    """The number of dimensions of the result, where it is the same for all."""
    truth: bool = False
    """Whether the result consists of truth values."""


AXIS = {"axis": "dim"}
_UNARY = """exp log log1p expm1 log2 log10 exp2 sqrt square abs absolute sign negative reciprocal sin cos tan
arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh deg2rad rad2deg sinc nan_to_num""".split()
_FOURIER = {"n": "n", "axis": "dim", "norm": "norm"}

ALONG = {
    "add.accumulate": "cumsum",
    "multiply.accumulate": "cumprod",
    "logaddexp.accumulate": "logcumsumexp",
    "add.reduce": "sum",
    "multiply.reduce": "prod",
    "maximum.reduce": "amax",
    "minimum.reduce": "amin",
    "logaddexp.reduce": "logsumexp",
}
"""Methods of NumPy's functions of two arrays, along one axis, the first if none is named."""

FUNCTIONS: dict[str, Twin] = {
    **{name: Twin(name) for name in _UNARY},
    **{name: Twin(name, truth=True) for name in ("isnan", "isfinite", "isinf", "logical_not")},
    **{name: Twin(name, (_A, _A), truth=True) for name in ("logical_and", "logical_or", "logical_xor")},
    "fabs": Twin("abs"),
    "radians": Twin("deg2rad"),
    "degrees": Twin("rad2deg"),
    "add": Twin("add", (_A, _O)),
    "subtract": Twin("sub", (_A, _O)),
    "multiply": Twin("mul", (_A, _O)),
    "divide": Twin("div", (_A, _O)),
    "true_divide": Twin("div", (_A, _O)),
    "power": Twin("pow", (_A, _O)),
    "arctan2": Twin("arctan2", (_A, _A)),
    "hypot": Twin("hypot", (_A, _A)),
    "logaddexp": Twin("logaddexp", (_A, _A)),
    "matmul": Twin("matmul", (_A, _A)),
    "inner": Twin("inner", (_A, _A)),
    "clip": Twin("clamp", (_A, _P, _P), {"a_min": "min", "a_max": "max", "min": "min", "max": "max"}),
    "stack": Twin("stack", (_S, _P), AXIS),
    "concatenate": Twin("cat", (_S, _P), AXIS),
    "vstack": Twin("vstack", (_S,)),
    "hstack": Twin("hstack", (_S,)),
    "dstack": Twin("dstack", (_S,)),
    "column_stack": Twin("column_stack", (_S,)),
    "reshape": Twin("reshape", (_A, _P)),
    "ravel": Twin("ravel", rank=1),
    "squeeze": Twin("squeeze", (_A, _P), AXIS),
    "expand_dims": Twin("unsqueeze", (_A, _P), AXIS),
    "swapaxes": Twin("swapaxes", (_A, _P, _P)),
    "moveaxis": Twin("moveaxis", (_A, _P, _P)),
    "roll": Twin("roll", (_A, _P, _P), {"shift": "shifts", "axis": "dims"}),
    "diff": Twin("diff", (_A, _P, _P), {"n": "n", "axis": "dim"}),
    "cumsum": Twin("cumsum", (_A, _P), AXIS, frozenset(("axis",))),
    "cumprod": Twin("cumprod", (_A, _P), AXIS, frozenset(("axis",))),
    "repeat": Twin("repeat_interleave", (_A, _P, _P), AXIS),
    "tile": Twin("tile", (_A, _I)),
    "broadcast_to": Twin("broadcast_to", (_A, _P)),
    "flipud": Twin("flipud"),
    "fliplr": Twin("fliplr"),
    "copy": Twin("clone"),
    "corrcoef": Twin("corrcoef"),
    "cov": Twin("cov"),
    "real": Twin("real"),
    "imag": Twin("imag"),
    "linalg.norm": Twin("linalg.norm", (_A, _P, _P), {"ord": "ord", "axis": "dim", "keepdims": "keepdim"}),
    "linalg.inv": Twin("linalg.inv"),
    "linalg.det": Twin("linalg.det"),
    **{f"fft.{name}": Twin(f"fft.{name}", (_A, _P, _P), _FOURIER) for name in ("fft", "ifft", "rfft", "irfft")},
    "fft.rfft2": Twin("fft.rfft2", (_A,), {"axes": "dim", "norm": "norm"}),
    "fft.fft2": Twin("fft.fft2", (_A,), {"axes": "dim", "norm": "norm"}),
    "fft.fftshift": Twin("fft.fftshift", (_A, _P), {"axes": "dim"}),
    "fft.ifftshift": Twin("fft.ifftshift", (_A, _P), {"axes": "dim"}),
    "zeros_like": Twin("zeros_like"),
    "ones_like": Twin("ones_like"),
    "full_like": Twin("full_like", (_A, _P), {"fill_value": "fill_value"}),
}
"""Functions, without ``numpy.`` and ``torch.``; the tables below have the reductions and other kinds."""

REDUCTIONS = {"sum": "sum", "mean": "mean", "prod": "prod", "std": "std", "var": "var"} | {
    name: name for name in ("amax", "amin", "max", "min", "argmax", "argmin")
}
"""Functions and methods alike: called with an axis, ``max`` is torch's ``amax``, and ``std`` has ``correction=0``."""

BOUNDS = {"maximum": "min", "minimum": "max"}
"""With a number, these clamp: the name of the bound.  Of two arrays they are torch's functions of the same name."""
REDUCTION_WORDS = {"axis": "dim", "keepdims": "keepdim", "ddof": "correction"}
"""Keywords of reductions, and torch's names for them."""
BIASED = frozenset(("std", "var"))
"""Reductions that divide by the number of elements in NumPy, and by one less in torch unless ``correction=0``."""


def reduction(name: str, *, along: bool) -> str:
    """Torch's name for a reduction of :data:`REDUCTIONS`: of all elements, or *along* an axis."""
    if name in ("max", "min", "amax", "amin"):
        return f"a{name[-3:]}" if along else name[-3:]
    return REDUCTIONS[name]


METHODS: dict[str, Twin] = {
    "reshape": Twin("reshape", (_A, _P, _P, _P, _P, _P)),
    "ravel": Twin("ravel", rank=1),
    "flatten": Twin("flatten", rank=1),
    "squeeze": Twin("squeeze", (_A, _P), AXIS),
    "swapaxes": Twin("swapaxes", (_A, _P, _P)),
    "copy": Twin("clone"),
    "clip": Twin("clamp", (_A, _P, _P), {"min": "min", "max": "max"}),
    "cumsum": Twin("cumsum", (_A, _P), AXIS, frozenset(("axis",))),
    "cumprod": Twin("cumprod", (_A, _P), AXIS, frozenset(("axis",))),
    "repeat": Twin("repeat_interleave", (_A, _P, _P), AXIS),
}
"""Methods; the array itself is their first argument."""

CONSTANTS: dict[str, Twin] = {
    "arange": Twin("arange", (_P, _P, _P), {"dtype": "dtype"}, rank=1),
    "linspace": Twin("linspace", (_P, _P, _P), {"num": "steps", "dtype": "dtype"}, frozenset(("num",)), rank=1),
    "zeros": Twin("zeros", (_P,), {"shape": "size", "dtype": "dtype"}),
    "ones": Twin("ones", (_P,), {"shape": "size", "dtype": "dtype"}),
    "full": Twin("full", (_P, _P), {"shape": "size", "fill_value": "fill_value", "dtype": "dtype"}),
    "eye": Twin("eye", (_P, _P), {"dtype": "dtype"}, rank=2),
    "identity": Twin("eye", (_P,), {"dtype": "dtype"}, rank=2),
    "hanning": Twin("hann_window", (_P,), rank=1),
    "hamming": Twin("hamming_window", (_P,), rank=1),
    "blackman": Twin("blackman_window", (_P,), rank=1),
    "bartlett": Twin("bartlett_window", (_P,), rank=1),
    "fft.fftfreq": Twin("fft.fftfreq", (_P, _P), {"d": "d"}, rank=1),
    "fft.rfftfreq": Twin("fft.rfftfreq", (_P, _P), {"d": "d"}, rank=1),
}
"""Functions that make arrays from numbers."""

WINDOWS = frozenset(("hanning", "hamming", "blackman", "bartlett"))
"""Symmetric in NumPy, periodic in torch unless ``periodic=False``."""

DTYPES = {
    "float16": "half",
    "float32": "float",
    "single": "float",
    "float64": "double",
    "double": "double",
}
"""Types of numbers that have a gradient, by NumPy's names and torch's: the methods that convert to them."""

TYPES = {"half": "float16", "float": "float32", "double": "float64"}
"""The conversion methods of :data:`DTYPES`, and the names of their types in ``dtype=``."""

SCALARS = frozenset("sqrt exp log log2 log10 log1p sin cos tan tanh abs power float32 float64 int64 ceil floor".split())
"""Functions that are left as they are where they are called with numbers: torch takes NumPy's numbers for its own."""

NUMBERS = frozenset(("pi", "e", "inf", "nan", "newaxis"))
"""Constants of NumPy that are plain numbers, or None."""
