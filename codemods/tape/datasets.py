"""What a ``DataLoader`` hands out of a dataset in which tensors have a graph.

Nearly all datasets hold data, and their batches are values of which nothing is known.  Features that a network has
computed before are no data: a batch of them leads back into the graph that they were computed with.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from codemods.tape import attributes, cuts, elements, escapes, extents
from codemods.tape.forms import form_of
from codemods.tape.graph import Escape
from codemods.tape.source import Site
from codemods.tape.values import (
    NOTHING,
    Extent,
    Instance,
    Mapping,
    Sequence,
    Several,
    Slot,
    Tensor,
    TorchModule,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from codemods.tape.machine import Machine

_PARTS = ("Subset", "random_split")
"""What takes parts of a dataset."""
_WORKERS = 5
"""The position of ``num_workers`` among a loader's arguments."""


class Kind(StrEnum):
    """What hands out the items of a dataset."""

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
    """Where the dataset was made, or what hands out the object's items."""
    written: tuple[Site, ...] = ()
    """What is written for the tensors of a ``TensorDataset``."""
    kind: Kind = Kind.DATASET
    loader: Site | None = None
    """Where the loader was made."""


def make(machine: Machine, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """``TensorDataset(...)``, ``DataLoader(...)`` and what else there is in ``torch.utils.data``."""
    made = machine.fresh(f"torch.utils.data.{name}")
    written = tuple(map(machine.site, node.args)) if isinstance(node, ast.Call) else ()
    if name == "TensorDataset":
        if any(_has_graph(value) for value in args):
            machine.served[made.key] = Served(Sequence("tuple", [Slot(value) for value in args]), node, written)
    elif name in _PARTS and args:
        if (known := _known(machine, args[0], node)) is not None:
            machine.served[made.key] = replace(known, kind=Kind.PARTS) if name == "random_split" else known
    elif name == "DataLoader":
        batches = extents.makes_batches(args, keywords)
        made = machine.fresh("torch.utils.data.DataLoader", batches)
        _serve(machine, made, args, keywords, node, batches)
    return made


def _serve(
    machine: Machine, made: Unknown, args: list[Value], keywords: dict[str, Value], node: ast.expr, batches: bool
) -> None:
    known = _known(machine, args[0] if args else keywords.get("dataset"), node)
    if known is None or keywords.get("collate_fn") is not None:
        return
    workers = keywords.get("num_workers", args[_WORKERS] if len(args) > _WORKERS else 0)
    workers = machine.usual(workers) if isinstance(workers, Unknown) else workers
    if isinstance(workers, int):
        kind = Kind.SENT if workers else Kind.BATCHES if batches else Kind.ROWS
        machine.served[made.key] = replace(known, kind=kind, loader=machine.site(node))


def _known(machine: Machine, dataset: Value, node: ast.expr) -> Served | None:
    """What is known of a dataset that a loader or a part is made of, if it has to do with graphs at all."""
    if isinstance(dataset, Instance):
        return Served(dataset, node) if _computes(machine, dataset) else None
    if isinstance(dataset, Sequence):  # pairs in a list
        first = dataset.items[0].value if dataset.items else None
        slots = first.items if isinstance(first, Sequence) else []
        return Served(first, node) if any(_has_graph(slot.value) for slot in slots) else None
    return served(machine, dataset)


def served(machine: Machine, value: Value) -> Served | None:
    """What is known of a dataset or a loader, or of a part of it."""
    key = value.key if isinstance(value, Unknown) else None
    while isinstance(key, tuple):
        if key in machine.served:
            return machine.served[key]
        key = key[1] if key[:1] == ("item",) and len(key) > 1 else None
    return None


def item(machine: Machine, dataset: Unknown, index: Value) -> Value | None:
    """``dataset[i]``, where it is known to have a graph."""
    known = machine.served.get(dataset.key)
    if known is None or known.kind is not Kind.DATASET:
        return None
    if isinstance(known.source, Sequence) and known.written:
        parts = [elements.item(machine, slot.value, index, known.node) for slot in known.source.items]
        return Sequence("tuple", [Slot(part) for part in parts])
    return _item(machine, known)


def batch(machine: Machine, loader: Served, base: Value) -> Value:
    """One batch, of which *base* stands for all that has no graph.

    Workers begin as their loader is gone through: where nothing is recorded then, they record nothing either.
    """
    if loader.kind is Kind.SENT:
        if machine.grad:
            _sent_by_workers(machine, loader)
        return base
    one = _item(machine, loader)
    if not any(_has_graph(slot.value) for slot in _slots(one)):
        return base

    def part(value: Value, at: Value) -> Slot:
        if isinstance(value, Tensor) and _has_graph(value):
            return Slot(_batched(machine, loader, value))
        return Slot(elements.item(machine, base, at, loader.node))

    if isinstance(one, Mapping):
        keys = {key: elements.key_value(machine, key) for key in one.items}
        return Mapping({key: part(slot.value, keys[key]) for key, slot in one.items.items()})
    if isinstance(one, Sequence):
        return Sequence("list", [part(slot.value, at) for at, slot in enumerate(one.items)])
    return part(one, 0).value


def _slots(item: Value) -> list[Slot]:
    """The parts of an item; an item that has none is its own."""
    if isinstance(item, Mapping):
        return list(item.items.values())
    return item.items if isinstance(item, Sequence) else [Slot(item)]


def _item(machine: Machine, loader: Served) -> Value:
    """What the dataset gives for some index: of tensors, all of them."""
    if isinstance(loader.source, Instance):
        index = machine.fresh("index")
        return elements.item(machine, loader.source, index, loader.node)
    return loader.source


def _batched(machine: Machine, loader: Served, value: Tensor) -> Tensor:
    """Some rows of a tensor, or several items side by side."""
    made = machine.operation("index", [value, machine.data()], loader.node)
    made.cell.extent = Extent(Several.CERTAIN, 1) if loader.kind is Kind.BATCHES else NOTHING
    return made


def _has_graph(value: Value) -> bool:
    return isinstance(value, Tensor) and escapes.certainly_has_graph(value)


def _computes(machine: Machine, dataset: Instance) -> bool:
    """Whether an object of the program's holds tensors with a graph, or a network to compute them with."""
    if attributes.find(dataset, "__getitem__") is None:
        return False
    values = [slot.value for slot in dataset.names.values()]
    models = [value for value in values if isinstance(value, (Instance, TorchModule))]
    tensors = [tensor for tensor in machine.tensors(*values) if _has_graph(tensor)]
    return bool(tensors) or any(machine.leaves_of(model) for model in models)


def _sent_by_workers(machine: Machine, dataset: Served) -> None:
    """The items of a dataset come from other processes, which hand no graphs on."""
    for at, slot in enumerate(_slots(_item(machine, dataset))):
        value = slot.value
        if not isinstance(value, Tensor) or not _has_graph(value):
            continue
        made = [one.expression for one in (*value.via, slot.kept) if one is not None and one.expression is not None]
        site = dataset.written[at] if at < len(dataset.written) else next(iter(made), None)
        if site is None and value.cell.node is not None:
            site = value.cell.node.site
        behind = tuple(cuts.leaves_under([value.cell.node])) if value.cell.node is not None else ()
        if dataset.loader is not None:
            machine.tape.escapes[dataset.loader] = Escape("workers", site, form_of(value), behind=behind)
        return
