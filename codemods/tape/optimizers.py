"""Optimizers: torch's own, and the program's classes that are derived from them."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from typing import TYPE_CHECKING

from codemods.facts import Form
from codemods.tape import attributes, cuts, escapes
from codemods.tape.graph import Computed, Group
from codemods.tape.values import (
    Bound,
    Cell,
    Function,
    Instance,
    Mapping,
    Name,
    Optimizer,
    Sequence,
    Slot,
    Tensor,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from codemods.tape.machine import Machine


def param_groups(optimizer: Optimizer) -> Sequence:
    """What an optimizer holds, as its ``param_groups``: taken to be one group."""
    parts = [Slot(Tensor(Cell(node=leaf.node, storage=leaf.storage, leaf=leaf))) for leaf in optimizer.leaves]
    numbers: dict[Hashable, Slot] = {
        name: Slot(Unknown(("new", "number", name))) for name in ("lr", "momentum", "weight_decay")
    }
    return Sequence("list", [Slot(Mapping({"params": Slot(Sequence("list", parts)), **numbers}, more=True))])


def make(machine: Machine, kind: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Optimizer:
    params = args[0] if args else keywords.get("params")
    leaves = dict.fromkeys(machine.leaves_of(params))
    if not keywords.get("differentiable"):
        _note_computed(machine, params, node)
    if not leaves:
        machine.tape.unknown_owner = True
    machine.tape.owned |= leaves.keys()
    machine.tape.owners.update(dict.fromkeys(leaves, machine.site(node)))
    if isinstance(params, Sequence) and len(params.items) > 1:
        for slot in params.items:
            _note_group(machine, slot.value)
    return Optimizer(leaves, kind, cuts.given_without_flag(machine, params, node))


def _note_group(machine: Machine, group: Value) -> None:
    """``{"params": encoder.parameters(), "lr": 1e-4}``: somebody means to train just these."""
    if isinstance(group, Mapping):
        machine.tape.groups.append(Group(machine.tape.tick(), frozenset(machine.leaves_of(group))))


def _note_computed(machine: Machine, params: Value, node: ast.expr) -> None:
    """What is given to an optimizer and is no leaf, and does not retain its gradient, is an error."""
    pending = [params]
    while pending:
        value = pending.pop()
        if isinstance(value, Sequence):
            pending.extend(slot.value for slot in value.items)
        elif isinstance(value, Mapping) and "params" in value.items:
            pending.append(value.items["params"].value)
        elif isinstance(value, Tensor) and value is not params and not value.guessed:
            made = value.cell.node
            if value.moved is not None and made is not None and made.leaf is not None and not made.leaf.frozen:
                if "retain_grad(" not in machine.source.text:
                    named = next((kept.name for kept in reversed(value.via) if kept.form is Form.TENSOR), "")
                    machine.tape.computed.setdefault(machine.site(node), Computed(value.moved, named, on_gpu=True))
                continue
            if made is None or not escapes.certainly_has_graph(value, leaves=False):
                continue
            if "retain_grad(" not in machine.source.text:
                set_as = (
                    kept for kept in reversed(value.via) if kept.form is Form.TENSOR
                )  # and not a dictionary of it
                written = ((kept.expression, kept.name) for kept in set_as if kept.expression is not None)
                machine.tape.computed.setdefault(machine.site(node), Computed(*next(written, (made.site, ""))))


OWN = "~optimizer"
"""Where an object of a class derived from ``torch.optim.Optimizer`` has what it is as such."""


def become(machine: Machine, instance: Instance, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> bool:
    """What ``super().__init__(params, defaults)`` makes of an object whose class is derived from an optimizer."""
    names = [base.path for base in attributes.lineage(instance.cls) if isinstance(base, Name)]
    base = next((name for name in names if name.startswith("torch.optim.") or name.endswith(".Optimizer")), None)
    if base is None:
        return False
    optimizer = make(machine, base.rpartition(".")[2], args, keywords, node)
    groups = param_groups(optimizer)
    defaults = args[1] if len(args) > 1 else keywords.get("defaults")
    group = groups.items[0].value
    if isinstance(group, Mapping) and isinstance(defaults, Mapping):
        group.items.update({name: slot for name, slot in defaults.items.items() if name not in group.items})
    instance.names[OWN] = Slot(optimizer)
    instance.names["param_groups"] = Slot(groups)
    instance.names["defaults"] = Slot(defaults if isinstance(defaults, Mapping) else Mapping(more=True))
    instance.names["state"] = Slot(Mapping(more=True, default=Name("builtins.dict")))
    return True


def call_method(
    machine: Machine, optimizer: Optimizer, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """``optimizer.step()`` changes what it holds, ``zero_grad()`` forgets the gradients."""
    flagged = [cell.leaf for cell in optimizer.cells if cell.leaf is not None and cell.node is cell.leaf.node]
    optimizer.leaves |= dict.fromkeys(flagged)
    machine.tape.owned.update(flagged)
    match name:
        case "register_step_pre_hook" | "register_step_post_hook" if args:
            (optimizer.before if "pre" in name else optimizer.after).append(args[0])
        case "step":
            machine.activity += 1
            for hook in optimizer.before:
                machine.call(hook, [optimizer, Sequence("tuple"), Mapping()], {}, node)
            closure = args[0] if args else keywords.get("closure")
            clock, passes = machine.tape.clock, len(machine.tape.passes)
            result = machine.call(closure, [], {}, node) if isinstance(closure, (Function, Bound)) else None
            machine.tape.step(optimizer.leaves, machine.site(node), machine.stack)
            nodes = (node for one in machine.tape.passes[passes:] for edge in one.edges for node in edge)
            around = len(machine.loops)  # comprehensions, and loops that are over, apart
            old = any(n.leaf is None and n.clock <= clock and n.loops[:around] == machine.loops for n in nodes)
            if optimizer.kind == "LBFGS" and old:  # it evaluates its closure again, with the parameters moved
                first = {leaf: [one.site.line for one in leaf.grads] for leaf in optimizer.leaves}
                machine.call(closure, [], {}, node)
                machine.tape.faded.update(
                    (line, leaf.name) for leaf in optimizer.leaves if not leaf.grads for line in first[leaf]
                )
                machine.tape.step(optimizer.leaves, machine.site(node), machine.stack)
            for hook in optimizer.after:
                machine.call(hook, [optimizer, Sequence("tuple"), Mapping()], {}, node)
            return result
        case "zero_grad":
            machine.activity += 1
            for leaf in optimizer.leaves:
                leaf.grads.clear()
        case "add_param_group":
            added = dict.fromkeys(machine.leaves_of(args[0] if args else keywords.get("param_group")))
            optimizer.leaves |= added
            machine.tape.owned |= added.keys()
            machine.tape.owners.update(dict.fromkeys(added, machine.site(node)))
            _note_group(machine, args[0] if args else keywords.get("param_group"))
        case "state_dict" | "load_state_dict":
            return machine.fresh(name)
    return None
