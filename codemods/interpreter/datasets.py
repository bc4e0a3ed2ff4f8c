"""Items that a ``DataLoader`` hands out of a dataset in which tensors have a graph.

Nearly all datasets hold data, and their batches are values of which nothing is known.  Features that a network has
computed before are no data: a batch of them leads back into the graph that they were computed with.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from autofix.codemods.autograd.walks import leaves_under
from autofix.codemods.interpreter import class_lookup, escapes, extents, mapping_keys
from autofix.codemods.interpreter.forms import form_of
from autofix.codemods.interpreter.state.incidents import GraphLeak
from autofix.codemods.interpreter.values import (
    NOTHING,
    BatchSize,
    Binding,
    Instance,
    Mapping,
    Sequence,
    Shape,
    Symbol,
    TensorRef,
    TorchModule,
    Value,
)
from autofix.codemods.source.sources import Site

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_PARTS = ("Subset", "random_split")
"""Classes and functions that take parts of a dataset."""
_WORKERS = 5
"""The position of ``num_workers`` among a loader's arguments."""


class Kind(StrEnum):
    """Kinds of objects that hand out the items of a dataset."""

    DATASET = "dataset"
    PARTS = "parts"  # a list of datasets: what `random_split` gives
    ROWS = "rows"  # a loader, one item at a time
    BATCHES = "batches"  # a loader
    SENT = "sent"  # a loader with workers


@dataclass(frozen=True)
class Served:
    """A dataset with a graph, or a loader of it."""

    source: Value
    """The object of the program's own, or an item: of a ``TensorDataset`` all its tensors."""
    node: ast.expr
    """The expression that made the dataset, or that hands out the object's items."""
    written: tuple[Site, ...] = ()
    """The argument expressions of a ``TensorDataset``."""
    kind: Kind = Kind.DATASET
    loader: Site | None = None
    """The expression that made the loader."""


def make(interp: Interpreter, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """``TensorDataset(...)``, ``DataLoader(...)`` and what else there is in ``torch.utils.data``."""
    made = interp.fresh_symbol(f"torch.utils.data.{name}")
    written = tuple(map(interp.site, node.args)) if isinstance(node, ast.Call) else ()
    if name == "TensorDataset":
        if args and isinstance(args[0], TensorRef):
            interp.rows[made.key] = interp.identity(args[0].cell.itself)
        if any(_has_graph(value) for value in args):
            interp.served[made.key] = Served(Sequence("tuple", [Binding(value) for value in args]), node, written)
    elif name in _PARTS and args:
        if (known := _known(interp, args[0], node)) is not None:
            interp.served[made.key] = replace(known, kind=Kind.PARTS) if name == "random_split" else known
    elif name == "DataLoader":
        batches = extents.makes_batches(args, keywords)
        made = interp.fresh_symbol("torch.utils.data.DataLoader", batches)
        if args and _is_whole(interp, args[0], keywords.get("batch_size", args[1] if len(args) > 1 else 1)):
            interp.whole.add(made.key)
        _serve(interp, made, args, keywords, node, batches)
    return made


def _is_whole(interp: Interpreter, dataset: Value, size: Value) -> bool:
    """Whether batches of a *size* hold all of a dataset: ``DataLoader(data, batch_size=len(data))``."""
    of = interp.key(dataset)
    match size:
        case Symbol(key=("len", ("tensor", counted, _))) | Symbol(key=("item", ("attr", counted, "shape"), ("int", 0))):
            return counted == interp.rows.get(of)
        case Symbol(key=("len", counted)):
            return counted == of
    return False


def _serve(
    interp: Interpreter, made: Symbol, args: list[Value], keywords: dict[str, Value], node: ast.expr, batches: bool
) -> None:
    known = _known(interp, args[0] if args else keywords.get("dataset"), node)
    if known is None or keywords.get("collate_fn") is not None:
        return
    workers = keywords.get("num_workers", args[_WORKERS] if len(args) > _WORKERS else 0)
    workers = interp.usual(workers) if isinstance(workers, Symbol) else workers
    if isinstance(workers, int):
        kind = Kind.SENT if workers else Kind.BATCHES if batches else Kind.ROWS
        interp.served[made.key] = replace(known, kind=kind, loader=interp.site(node))


def _known(interp: Interpreter, dataset: Value, node: ast.expr) -> Served | None:
    """The record of a dataset that a loader or a part is made of; None if no graph is involved."""
    if isinstance(dataset, Instance):
        return Served(dataset, node) if _computes(interp, dataset) else None
    if isinstance(dataset, Sequence):  # pairs in a list
        first = dataset.items[0].value if dataset.items else None
        slots = first.items if isinstance(first, Sequence) else []
        return Served(first, node) if any(_has_graph(slot.value) for slot in slots) else None
    return served(interp, dataset)


def served(interp: Interpreter, value: Value) -> Served | None:
    """The record of a dataset or a loader, or of a part of it; None where there is none."""
    key = value.key if isinstance(value, Symbol) else None
    while isinstance(key, tuple):
        if key in interp.served:
            return interp.served[key]
        key = key[1] if key[:1] == ("item",) and len(key) > 1 else None
    return None


def item(interp: Interpreter, dataset: Symbol, index: Value) -> Value | None:
    """``dataset[i]``, where it is known to have a graph."""
    known = interp.served.get(dataset.key)
    if known is None or known.kind is not Kind.DATASET:
        return None
    if isinstance(known.source, Sequence) and known.written:
        parts = [interp.item(slot.value, index, known.node) for slot in known.source.items]
        return Sequence("tuple", [Binding(part) for part in parts])
    return _item(interp, known)


def batch(interp: Interpreter, loader: Served, base: Value) -> Value:
    """One batch, of which *base* stands for all that has no graph.

    Workers begin as their loader is gone through: where nothing is recorded then, they record nothing either.
    """
    if loader.kind is Kind.SENT:
        if interp.grad:
            _sent_by_workers(interp, loader)
        return base
    one = _item(interp, loader)
    if not any(_has_graph(slot.value) for slot in _slots(one)):
        return base

    def part(value: Value, at: Value) -> Binding:
        if isinstance(value, TensorRef) and _has_graph(value):
            return Binding(_batched(interp, loader, value))
        return Binding(interp.item(base, at, loader.node))

    if isinstance(one, Mapping):
        keys = {key: mapping_keys.key_value(interp, key) for key in one.items}
        return Mapping({key: part(slot.value, keys[key]) for key, slot in one.items.items()})
    if isinstance(one, Sequence):
        return Sequence("list", [part(slot.value, at) for at, slot in enumerate(one.items)])
    return part(one, 0).value


def _slots(item: Value) -> list[Binding]:
    """The parts of an item; an item that has none is its own."""
    if isinstance(item, Mapping):
        return list(item.items.values())
    return item.items if isinstance(item, Sequence) else [Binding(item)]


def _item(interp: Interpreter, loader: Served) -> Value:
    """An item of the dataset at an unknown index; of a dataset of tensors, all of them."""
    if isinstance(loader.source, Instance):
        index = interp.fresh_symbol("index")
        return interp.item(loader.source, index, loader.node)
    return loader.source


def _batched(interp: Interpreter, loader: Served, value: TensorRef) -> TensorRef:
    """Some rows of a tensor, or several items side by side."""
    made = interp.operation("index", [value, interp.data()], loader.node)
    made.cell.extent = Shape(BatchSize.CERTAIN, 1) if loader.kind is Kind.BATCHES else NOTHING
    return made


def _has_graph(value: Value) -> bool:
    return isinstance(value, TensorRef) and escapes.certainly_has_graph(value)


def _computes(interp: Interpreter, dataset: Instance) -> bool:
    """Whether an object of the program's holds tensors with a graph, or a network to compute them with."""
    if class_lookup.find(dataset, "__getitem__") is None:
        return False
    values = [slot.value for slot in dataset.names.values()]
    models = [value for value in values if isinstance(value, (Instance, TorchModule))]
    tensors = [tensor for tensor in interp.tensors(*values) if _has_graph(tensor)]
    return bool(tensors) or any(interp.leaves_of(model) for model in models)


def _sent_by_workers(interp: Interpreter, dataset: Served) -> None:
    """The items of a dataset come from other processes, which hand no graphs on."""
    for at, slot in enumerate(_slots(_item(interp, dataset))):
        value = slot.value
        if not isinstance(value, TensorRef) or not _has_graph(value):
            continue
        made = [
            one.expression for one in (*value.provenance, slot.kept) if one is not None and one.expression is not None
        ]
        site = dataset.written[at] if at < len(dataset.written) else next(iter(made), None)
        if site is None and value.cell.node is not None:
            site = value.cell.node.site
        behind = tuple(leaves_under([value.cell.node])) if value.cell.node is not None else ()
        if dataset.loader is not None:
            interp.incidents.escapes[dataset.loader] = GraphLeak("workers", site, form_of(value), behind=behind)
        return
