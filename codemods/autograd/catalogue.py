"""The catalogue of torch's operations: one row each, distilled from PyTorch's own data (see ``distil_catalogue``).

What the interpreter knows of an operation it asks here: the names of its arguments, what its backward saves, what kind
of result it has, whether that can have a graph, and the same of the modules that apply it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pkgutil import get_data
from typing import Any, NamedTuple

POINTWISE, VIEW, VIEWS, REDUCTION = "pointwise", "view", "views", "reduction"
JOIN, CREATION, LOSS, INDEX = "join", "creation", "loss", "index"
CAST, SHAPED, NUMBER = "cast", "shaped", "number"


CONTAINERS = frozenset("Container Module ModuleDict ModuleList ParameterDict ParameterList Sequential".split())
"""Classes of ``torch.nn`` that hold other modules, or parameters, and compute nothing of their own."""
VIEW_ATTRIBUTES = frozenset(("T", "mT", "H", "mH", "real", "imag"))
"""Attributes of a tensor that are another view of it."""


_OF_WHOLE_NUMBERS = frozenset("exponent pivots info perm inverse_indices counts rank singular_values".split())
"""Names of results that have no graph beside others that have one: whole numbers, ``torch.frexp(x).exponent``,
and what ``torch.linalg.lstsq`` tells of its matrix."""


class Operation(NamedTuple):
    """One operation: ``saves`` maps an argument to the names of what is saved where its gradient is wanted."""

    name: str
    arguments: tuple[str, ...] = ()
    saves: dict[str, tuple[str, ...]] = {}
    kind: str = ""
    differentiable: bool = True
    known: bool = False
    """Whether it is known what it saves."""

    tensors: tuple[str, ...] = ()
    """Names of its arguments that are tensors."""
    places: str = ""
    """Whether it gives values and their places: ``always``, or ``along`` a dimension that it is told."""
    usual: dict[str, object] = {}
    """Values of arguments without which it is not known what it saves."""
    in_place: bool = False
    """Whether tensors have a method that does the same in place."""
    fields: tuple[str, ...] = ()
    """Names of its results, where it has several: ``torch.linalg.eigh(a).eigenvalues``; empty for those without."""
    whole: bool = False
    """Whether its result is of truth values or whole numbers, whatever it is given."""
    unary: bool = False
    """Whether it is a method that tensors are called with, or may be, without another tensor and without a number."""
    layout: str = ""
    """Memory layout, where the kind does not tell it.  Contiguous ``always``, or ``kept``: of contiguous arguments.  Of
    views: all elements ``shown`` in their order, all of them ``reordered``, or a ``part`` along a dimension."""

    def at(self, argument: str) -> int | None:
        """The position of an argument; None where the operation has no argument of this name."""
        return self.arguments.index(argument) if argument in self.arguments else None

    def is_usual(self, given: Mapping[str, object]) -> bool:
        """Whether it certainly saves what ``saves`` says, with these arguments."""
        return all(name not in given or given[name] == value for name, value in self.usual.items())

    def saves_result(self, at: int) -> bool:
        """Whether the backward pass needs this one of several results."""
        saved = {one for names in self.saves.values() for one in names}
        return self.fields[at] in saved or (at == 0 and "result" in saved)

    def is_whole(self, at: int) -> bool:
        """Whether one of several results is of whole numbers: it has no graph."""
        return -len(self.fields) <= at < len(self.fields) and self.fields[at] in _OF_WHOLE_NUMBERS

    def saved_field(self, name: str) -> int | None:
        """The number of a result that has this name, where it is one that the backward pass needs."""
        at = self.fields.index(name) if name in self.fields else None
        return at if at is not None and self.saves_result(at) else None

    def argument(self, keyword: str) -> str:
        """The table's name of an argument: PyTorch's functions call ``input`` what the table calls ``self``."""
        if keyword in self.arguments or keyword != "input" or not self.arguments:
            return keyword
        return "self" if "self" in self.arguments else self.arguments[0]


class Module(NamedTuple):
    """A class of ``torch.nn``: ``form`` is the operation that it applies to its input, if that is all it does."""

    name: str
    arguments: tuple[str, ...] = ()
    form: str = ""
    parameters: tuple[str, ...] = ()
    bases: frozenset[str] = frozenset()
    """The classes between it and ``Module``: ``_BatchNorm`` and ``_NormBase`` of ``BatchNorm2d``."""

    def at(self, argument: str) -> int | None:
        """The position of an argument of the constructor; None where there is none of this name."""
        return self.arguments.index(argument) if argument in self.arguments else None


class Family(NamedTuple):
    """A class of ``torch.distributions``."""

    arguments: tuple[str, ...]
    attributes: frozenset[str]
    """The arguments that its objects have under the same names."""
    has_rsample: bool
    """Whether it draws samples that are smooth functions of its parameters."""


_UNKNOWN = Operation("")
_FAMILIES = ("{}", "linalg_{}", "special_{}", "fft_{}")
"""Forms of names in the table, such as those for ``torch.linalg.solve`` and ``torch.special.entr``."""
_OTHER_NAMES = {"rsub": "sub", "logsigmoid": "log_sigmoid"}

LIKENESSES = frozenset("expand_as reshape_as view_as type_as to".split())
"""Methods of which a second tensor gives only its shape, its type or its device."""
BY_INDICES = frozenset("index index_select gather take take_along_dim masked_select".split())
"""Operations of which further tensors are whole numbers or truth values, which have no graph."""
MAYBE_ITSELF = frozenset(
    """flatten conj resolve_conj resolve_neg positive real imag to_dense atleast_1d atleast_2d atleast_3d asarray
    sum_to_size annotate""".split()
)
"""Operations that return the tensor itself where they have nothing to do.  Tried out with PyTorch 2.13."""
_MAYBE_COPIES = frozenset("reshape reshape_as ravel conj_physical".split())
"""Operations that return a view where the layout permits one."""


@cache
def _raw() -> dict[str, Any]:
    # importlib.resources does as much, and takes ten milliseconds to load.
    data = get_data("autofix.codemods.autograd", "catalogue.json")
    assert data is not None, "a loader without data"
    read: dict[str, Any] = json.loads(data)
    return read


def _rows() -> dict[str, dict[str, Any]]:
    rows: dict[str, dict[str, Any]] = _raw()["operations"]
    return rows


@cache
def operations() -> dict[str, Operation]:
    """All rows by their names."""
    return {name: _operation(name) for name in _rows()}


@cache
def _operation(name: str) -> Operation:
    row = _rows()[name]
    saves = {argument: tuple(saved) for argument, saved in row.get("saves", {}).items()}
    differentiable = row.get("differentiable", True)
    return Operation(
        name,
        tuple(row["args"]),
        saves,
        row["kind"],
        differentiable,
        known="saves" in row,
        tensors=tuple(row.get("tensors", ())),
        places=row.get("places", ""),
        usual=row.get("usual", {}),
        in_place=row.get("in_place", False),
        fields=tuple(row.get("fields", ())),
        whole=row.get("whole", False),
        unary=row.get("unary", False),
        layout=row.get("layout", ""),
    )


@cache
def modules() -> dict[str, Module]:
    """The classes of ``torch.nn`` by their names."""
    return {
        name: Module(
            name,
            tuple(row["args"]),
            row.get("form", ""),
            tuple(row.get("parameters", ())),
            frozenset(row.get("bases", ())),
        )
        for name, row in _raw()["modules"].items()
    }


def public_names(library: str) -> list[str]:
    """The names that ``from library import *`` takes from a part of torch; none of those that are not known."""
    names: list[str] = _raw()["names"].get(library, [])
    return names


@cache
def of_tensors() -> frozenset[str]:
    """The names of the attributes and methods that every tensor has, without a leading underscore."""
    return frozenset(public_names("torch.Tensor"))


def distribution(kind: str) -> Family | None:
    """The row of a class of ``torch.distributions``; None where it is no such class."""
    row = _raw()["distributions"].get(kind)
    return Family(tuple(row["args"]), frozenset(row["attributes"]), row["rsample"]) if row is not None else None


@cache
def _entry(name: str) -> str:
    """The table's own name of an operation; empty where it has none."""
    name = _OTHER_NAMES.get(name, name)
    return next((entry for family in _FAMILIES if (entry := family.format(name)) in _rows()), "")


def is_operation(name: str) -> bool:
    return bool(_entry(name))


def is_method(name: str) -> bool:
    """Whether an operation, or its form in place, has this name: ``mul``, ``mul_``."""
    return is_operation(name) or (name.endswith("_") and operation(name[:-1]).in_place)


def called(path: str) -> str:
    """The operation that a function of torch's is, by its dotted name."""
    return "im2col" if path == "torch.nn.functional.unfold" else path.rpartition(".")[2]


@cache
def operation(name: str) -> Operation:
    """The row of an operation (``mul``, an in-place ``mul_``); one that says nothing where there is none."""
    special = name.startswith("__")
    plain = name if special else name.rstrip("_")
    entry = _entry(plain)
    if name.endswith("_") and not special and f"{entry}_" in _rows():
        entry += "_"
    return _operation(entry) if entry in _rows() else _UNKNOWN


def kind(name: str) -> str:
    """The kind of result that an operation has; empty where it is not known."""
    return operation(name).kind


@cache
def is_certainly_view(name: str) -> bool:
    """Whether an operation's result is a differentiable view of its argument, whatever the layout of that."""
    others = MAYBE_ITSELF | _MAYBE_COPIES
    return kind(name) == VIEW and name not in others and not name.startswith("detach") and not name.endswith("_")


_WITH_VARIANTS = frozenset(
    "max min pow float_power norm matrix_power repeat_interleave take_along_dim lerp pad".split()
)


@cache
def has_variants(name: str) -> bool:
    """Whether a function of torch's has several operations to choose from, by its arguments: see :func:`variant`."""
    return name in _WITH_VARIANTS or name.startswith("adaptive_avg_pool")


def variant(name: str, values: Sequence[object], is_tensor: Callable[[object], bool]) -> str:
    """The operation that a function of torch's carries out on these arguments, where it has several to choose from."""
    second = values[1] if len(values) > 1 else None
    match name:
        case "max" | "min" if is_tensor(second):
            return f"{name}imum"
        case "pow" | "float_power" if is_tensor(second):
            return f"{name}_of_tensor"
        case "norm" if second == "nuc":
            return "nuclear_norm"
        case "matrix_power" if second == 1:
            return "clone"
        case "matrix_power" if not isinstance(second, int) or second < 1:
            return "power of an inverse"  # which it saves, and not the matrix"
        case "repeat_interleave" if isinstance(second, int):
            return "repeat_interleave_by_number"
        case "take_along_dim" if len(values) > 2:
            return "take_along_one_dim"
        case "lerp" if len(values) > 2 and isinstance(values[2], (int, float)):
            return "lerp_by_number"
        case "pad":
            modes = {"replicate": "replication_pad2d", "reflect": "reflection_pad2d"}
            return next((modes[one] for one in values if isinstance(one, str) and one in modes), "constant_pad_nd")
        case _ if name.startswith("adaptive_avg_pool") and second == 1:
            return "mean"
    return name


def by_options(row: Operation, given: Mapping[str, object]) -> Operation:
    """The row of an operation with an option that makes it compute something else; else *row*.

    Source: ``smooth_l1_loss`` of torch/nn/functional.py, ``poisson_nll_loss`` of aten/src/ATen/native/Loss.cpp.
    """
    if row.name == "smooth_l1_loss" and _is_zero(given.get("beta")):
        return operation("l1_loss")
    if row.name == "poisson_nll_loss" and given.get("log_input") is False:  # `target * log(input + eps)`
        return row._replace(saves={"input": ("target",)}, usual={})
    return row


def operand_names(name: str) -> tuple[str, str]:
    """The names of an operator's two operands in the table."""
    first, second, *_ = (*operation(name).arguments, "self", "other")
    return first, second


def gives_places(name: str, arguments: int) -> bool:
    """Whether an operation is told a dimension, gives values and their places, and saves nothing but the places."""
    return operation(name).places == "along" and arguments > 1


def drops_graph(name: str) -> bool:
    """Whether the result of an operation on tensors has no graph, for it is no smooth function of them."""
    row = operation(name)
    return not row.differentiable and row.kind != CREATION


def keeps_shape(name: str) -> bool:
    """Whether the result of an operation has the shape of its arguments, broadcast together, and their graph."""
    row = operation(name)
    return row.differentiable and row.kind in (POINTWISE, SHAPED)


@cache
def reduces(name: str) -> bool:
    """Whether an operation makes one value of many, along dimensions that it may be told, and keeps the graph."""
    row = operation(name)
    return row.differentiable and row.kind == REDUCTION


_MAKERS = frozenset("tensor as_tensor from_numpy linspace logspace".split())
"""Functions that make tensors of data, and that PyTorch's table of derivatives has no row for."""


@cache
def makers() -> frozenset[str]:
    """The functions of torch that make a tensor of numbers, or of random ones, and of no other tensor's graph."""
    return _MAKERS | {name for name, row in _rows().items() if row["kind"] == CREATION}


def picks(name: str) -> bool:
    """Whether the elements of an operation's result are elements of its first argument: ``view``, ``x[i]``."""
    return operation(name).kind in (VIEW, VIEWS, CAST) or name in ("index", "index_select", "gather", "take", "clone")


_PIECES = frozenset("tensor_split hsplit vsplit dsplit".split())
"""Operations made of several single views, unlike ``split``."""


def gives_pieces(name: str) -> bool:
    """Whether the result of an operation is a tuple of pieces of its first argument."""
    return kind(name) == VIEWS or name in _PIECES


_OF_ONE = frozenset((POINTWISE, VIEW, REDUCTION, JOIN, LOSS, INDEX, CAST, SHAPED, NUMBER))
_OF_SEVERAL = frozenset(
    """frexp atleast_1d atleast_2d atleast_3d max min median nanmedian native_batch_norm native_dropout
    native_layer_norm embedding_bag broadcast_tensors meshgrid histogramdd lstm_cell""".split()
)
_OF_ONE_BY_NAME = frozenset(
    """matmul mm bmm mv linear addmm baddbmm addbmm addmv addr conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d pad
    constant_pad_nd interpolate tril triu cdist einsum scaled_dot_product_attention copy_slices""".split()
)
"""Operations of no kind; the last is what an assignment to a part of a tensor records."""


@cache
def gives_one_tensor(name: str) -> bool:
    """Whether the result of an operation certainly is one tensor, whatever it is given: no tuple of several."""
    row = operation(name)
    return (row.name or name) in _OF_ONE_BY_NAME or (
        row.kind in _OF_ONE and row.name not in _OF_SEVERAL | _PIECES and not row.fields
    )


def is_view(name: str) -> bool:
    """Whether the result of an operation shares the memory of its first argument."""
    return operation(name).kind in (VIEW, VIEWS)


def given(
    row: Operation | Module, name: str, args: Sequence[Any], keywords: Mapping[str, Any], usual: object = None
) -> Any:
    """The argument called *name* of a call, by its keyword or at its position; *usual* where there is none."""
    at = row.at(name)
    return keywords.get(name, args[at] if at is not None and len(args) > at else usual)


def is_left_out(row: Operation, args: Sequence[object], keywords: Mapping[str, object]) -> bool:
    """Whether a dropout has nothing to do, and returns its very input: its probability is 0, or there is no training.

    Those of ``torch.nn.functional`` that do not say so train, but for two.
    Source: ``_dropout_impl`` in aten/src/ATen/native/Dropout.cpp.
    """
    if "dropout" not in row.name:
        return False
    trains = given(row, "train", args, keywords, "alpha" not in row.name)
    return _is_zero(given(row, "p", args, keywords)) or given(row, "training", args, keywords, trains) is False


def _is_zero(value: object) -> bool:
    return isinstance(value, (int, float)) and value == 0


@cache
def module(kind: str) -> Module:
    """The row of a class of ``torch.nn``; one with parameters that are not known where there is none."""
    return modules().get(kind, Module(kind, parameters=("?",)))


def is_derived(kind: str, base: str) -> bool | None:
    """Whether a class of ``torch.nn`` is another one, or derived from it; None for a class that is not known."""
    if base in (kind, "Module"):
        return True
    known = kind in modules() or kind in CONTAINERS
    return base in module(kind).bases if known else None


def form(kind: str) -> str:
    """The operation that a module of torch's applies to its input; the module's own name where that is not one."""
    return module(kind).form or kind
