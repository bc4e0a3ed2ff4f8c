"""Optimizers: torch's own, and the program's classes that are derived from them."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable
from typing import TYPE_CHECKING

from autofix.codemods.autograd.graph import Group
from autofix.codemods.facts.parts import Form
from autofix.codemods.interpreter import class_lookup, cuts, escapes, unread_networks
from autofix.codemods.interpreter.state.incidents import Computed
from autofix.codemods.interpreter.values import (
    Binding,
    Bound,
    Function,
    Instance,
    Mapping,
    Method,
    Name,
    Optimizer,
    Partial,
    Sequence,
    Symbol,
    TensorImpl,
    TensorRef,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def param_groups(optimizer: Optimizer) -> Sequence:
    """The ``param_groups`` of an optimizer, taken to be one group of all its parameters."""
    parts = [
        Binding(TensorRef(TensorImpl(node=leaf.node, storage=leaf.storage, leaf=leaf))) for leaf in optimizer.leaves
    ]
    numbers: dict[Hashable, Binding] = {
        name: Binding(Symbol(("new", "number", name))) for name in ("lr", "momentum", "weight_decay")
    }
    return Sequence("list", [Binding(Mapping({"params": Binding(Sequence("list", parts)), **numbers}, more=True))])


def make(interp: Interpreter, kind: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Optimizer:
    params = args[0] if args else keywords.get("params")
    leaves = dict.fromkeys(interp.leaves_of(params)) or dict.fromkeys(unread_networks.trained(interp, params, node))
    if not keywords.get("differentiable"):
        _note_computed(interp, params, node)
    if not leaves:
        interp.tape.unknown_owner = True
    interp.tape.owned |= leaves.keys()
    interp.tape.owners.update(dict.fromkeys(leaves, interp.site(node)))
    if isinstance(params, Sequence) and len(params.items) > 1:
        for slot in params.items:
            _note_group(interp, slot.value)
    return Optimizer(leaves, kind, cuts.given_without_flag(interp, params, node))


METHODS = frozenset("register_step_pre_hook register_step_post_hook step zero_grad add_param_group".split())
"""Methods of optimizers that :func:`call_method` follows."""
_RATES = frozenset(("lr", "learning_rate"))


def guessed(interp: Interpreter, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Optimizer | None:
    """The optimizer that a call which was not read makes: ``config["optimizer"](net.parameters(), lr=0.1)``.

    Such a call is given parameters, and a learning rate, or has a name that says what it makes; and its result takes
    steps in the same file.  None for any other call.
    """
    params = args[0] if args else keywords.get("params")
    if not isinstance(node, ast.Call) or not _are_parameters(params) or not _is_stepped(interp, node):
        return None
    if not _RATES & keywords.keys() and "optim" not in ast.unparse(node.func).lower():
        return None
    leaves = dict.fromkeys(interp.leaves_of(params)) or dict.fromkeys(unread_networks.trained(interp, params, node))
    interp.tape.unknown_owner = True
    interp.tape.owned |= leaves.keys()
    interp.tape.owners.update(dict.fromkeys(leaves, interp.site(node)))
    return Optimizer(leaves, guessed=True)


def _are_parameters(value: Value) -> bool:
    """Whether a value is what ``net.parameters()`` gives, a part of it, or groups of such."""
    match value:
        case Sequence(items=items):
            return bool(items) and all(_is_parameter(slot.value) for slot in items)
        case Method(receiver=Symbol(), name="parameters"):
            return True
    return False


def _is_parameter(value: Value) -> bool:
    if isinstance(value, Mapping):
        return "params" in value.items and _are_parameters(value.items["params"].value)
    return isinstance(value, TensorRef) and value.cell.leaf is not None


def _is_stepped(interp: Interpreter, node: ast.Call) -> bool:
    """Whether a call's result gets one name that takes steps, or is given back; an optimizer and its scheduler are two.

    An item of a container has no name of its own: there it is enough that anything takes steps.
    """
    statement = interp.statement.node
    match statement:
        case ast.Return():
            return True
        case ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)], value=value) if value is node:
            used = rf"\b{re.escape(name)}\.(?:step|zero_grad)\(|\.step\([^)\n]*\b{re.escape(name)}\b"
            return re.search(used, interp.source.text) is not None
        case ast.Assign(targets=[ast.Subscript() | ast.Name() | ast.Attribute()], value=whole) | ast.Expr(value=whole):
            return ".step(" in interp.source.text and (whole is not node or isinstance(statement, ast.Assign))
    return False


def _is_read(closure: Value) -> bool:
    """Whether a closure is code of the program: a function, some of whose arguments may be given, or an object."""
    while isinstance(closure, Partial):
        closure = closure.function
    called = isinstance(closure, Instance) and isinstance(class_lookup.find(closure, "__call__"), Function)
    return called or isinstance(closure, (Function, Bound))


def _note_group(interp: Interpreter, group: Value) -> None:
    """``{"params": encoder.parameters(), "lr": 1e-4}``: somebody means to train just these."""
    if isinstance(group, Mapping):
        interp.tape.groups.append(Group(interp.tape.tick(), frozenset(interp.leaves_of(group))))


def _note_computed(interp: Interpreter, params: Value, node: ast.expr) -> None:
    """Record as errors the non-leaves that are given to an optimizer and do not retain their gradients."""
    pending = [params]
    while pending:
        value = pending.pop()
        if isinstance(value, Sequence):
            pending.extend(slot.value for slot in reversed(value.items))
        elif isinstance(value, Mapping) and "params" in value.items:
            pending.append(value.items["params"].value)
        elif isinstance(value, TensorRef) and value is not params and not value.guessed:
            made = value.cell.node
            if value.moved is not None and made is not None and made.leaf is not None and not made.leaf.frozen:
                if "retain_grad(" not in interp.source.text:
                    names = (kept.name for kept in reversed(value.provenance) if kept.form is Form.TENSOR)
                    named = next(filter(None, names), "")
                    place = interp.site(node), value.moved
                    interp.incidents.computed.setdefault(place, Computed(value.moved, named, on_gpu=True))
                continue
            if made is None or not escapes.certainly_has_graph(value, leaves=False):
                continue
            if "retain_grad(" not in interp.source.text:
                set_as = (
                    kept for kept in reversed(value.provenance) if kept.form is Form.TENSOR
                )  # and not a dictionary of it
                written = ((kept.expression, kept.name) for kept in set_as if kept.expression is not None)
                found = Computed(*next(written, (made.site, "")))
                interp.incidents.computed.setdefault((interp.site(node), found.made), found)


OWN = "~optimizer"
"""Name under which an object of a class derived from ``torch.optim.Optimizer`` has its optimizer part."""


def become(
    interp: Interpreter, instance: Instance, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> bool:
    """Run ``super().__init__(params, defaults)`` of an optimizer's subclass; return whether the class is one."""
    names = [base.path for base in class_lookup.lineage(instance.cls) if isinstance(base, Name)]
    base = next((name for name in names if name.startswith("torch.optim.") or name.endswith(".Optimizer")), None)
    if base is None:
        return False
    optimizer = make(interp, base.rpartition(".")[2], args, keywords, node)
    groups = param_groups(optimizer)
    defaults = args[1] if len(args) > 1 else keywords.get("defaults")
    group = groups.items[0].value
    if isinstance(group, Mapping) and isinstance(defaults, Mapping):
        group.items.update({name: slot for name, slot in defaults.items.items() if name not in group.items})
    instance.names[OWN] = Binding(optimizer)
    instance.names["param_groups"] = Binding(groups)
    instance.names["defaults"] = Binding(defaults if isinstance(defaults, Mapping) else Mapping(more=True))
    instance.names["state"] = Binding(Mapping(more=True, default=Name("builtins.dict")))
    return True


def call_method(
    interp: Interpreter, optimizer: Optimizer, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """``optimizer.step()`` changes what it holds, ``zero_grad()`` forgets the gradients."""
    flagged = [cell.leaf for cell in optimizer.cells if cell.leaf is not None and cell.node is cell.leaf.node]
    optimizer.leaves |= dict.fromkeys(flagged)
    interp.tape.owned.update(flagged)
    match name:
        case "register_step_pre_hook" | "register_step_post_hook" if args:
            (optimizer.before if "pre" in name else optimizer.after).append(args[0])
        case "step":
            interp.activity += 1
            for hook in optimizer.before:
                interp.call(hook, [optimizer, Sequence("tuple"), Mapping()], {}, node)
            closure = args[0] if args else keywords.get("closure")
            clock, passes = interp.tape.clock, len(interp.tape.passes)
            result = interp.call(closure, [], {}, node) if _is_read(closure) else None
            interp.tape.step(optimizer.leaves, interp.site(node), interp.stack, guessed=optimizer.guessed)
            nodes = (node for one in interp.tape.passes[passes:] for edge in one.edges for node in edge)
            around = len(interp.loops)  # comprehensions, and loops that are over, apart
            old = any(n.leaf is None and n.clock <= clock and n.loops[:around] == interp.loops for n in nodes)
            if optimizer.kind == "LBFGS" and old:  # it evaluates its closure again, with the parameters moved
                first = {leaf: [one.site.line for one in leaf.grads] for leaf in optimizer.leaves}
                interp.call(closure, [], {}, node)
                interp.incidents.faded.update(
                    (line, leaf.name) for leaf in optimizer.leaves if not leaf.grads for line in first[leaf]
                )
                interp.tape.step(optimizer.leaves, interp.site(node), interp.stack)
            for hook in optimizer.after:
                interp.call(hook, [optimizer, Sequence("tuple"), Mapping()], {}, node)
            return result
        case "zero_grad":
            interp.activity += 1
            for leaf in optimizer.leaves:
                leaf.grads.clear()
        case "add_param_group":
            added = dict.fromkeys(interp.leaves_of(args[0] if args else keywords.get("param_group")))
            optimizer.leaves |= added
            interp.tape.owned |= added.keys()
            interp.tape.owners.update(dict.fromkeys(added, interp.site(node)))
            _note_group(interp, args[0] if args else keywords.get("param_group"))
        case "state_dict" | "load_state_dict":
            return interp.fresh_symbol(name)
    return None
