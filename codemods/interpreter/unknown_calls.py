"""Calls of values about which only their use says what they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable
from typing import TYPE_CHECKING

from codemods.interpreter import (
    attributes,
    cuts,
    escapes,
    extents,
    frameworks,
    opaque_results,
    tensor_calls,
)
from codemods.interpreter.library import modules
from codemods.interpreter.values import (
    Binding,
    Instance,
    Method,
    Optimizer,
    Sequence,
    Symbol,
    Value,
)

if TYPE_CHECKING:
    from codemods.interpreter.protocol import Interpreter

# Methods of models that make a first state: zeros, as a rule, not something computed from parameters.
_MAKES_STATE = re.compile(r"init|zero|reset|hidden|initial")
# Methods of models that prepare data with statistics, which no optimizer trains.
_PREPARES = re.compile(r"^_?(de|un)?norm(ali[sz]e)?_|^_?pre_?proc|^_?augment|^_?standardi[sz]e")
_CREATES = frozenset(("new_zeros", "new_ones", "new_empty", "new_full"))
_OF_PARSERS = frozenset(
    ("add_argument", "add_argument_group", "add_mutually_exclusive_group", "parse_args", "parse_known_args")
)
PASSED_THROUGH = frozenset(
    ("DataParallel", "DistributedDataParallel", "compile", "prepare", "script", "FullyShardedDataParallel")
)


def call_unknown(
    interp: Interpreter, receiver: Symbol, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """A call on a value about which only its use says what it is."""
    values = [*args, *keywords.values()]
    key = receiver.key
    if isinstance(key, tuple) and key[:1] == ("grad",):
        if name in ("zero_", "detach_", "fill_"):
            forget_gradient(interp, key[1])
        else:  # `m.grad = p.grad.double() / scale`: the gradient is wanted, whatever for
            interp.use_gradient(interp.identified(key[1]))
        made = interp.data()
        made.cell.vague = True  # with `create_graph` a gradient has a graph of its own
        return made
    if name == "requires_grad_" and (not values or values[0] is True) and _is_copy(key):
        copied = interp.data()
        attributes.require_grad(interp, copied, True, node)
        return copied
    if name in opaque_results.MODEL_METHODS:
        if name == "zero_grad" and receiver.leaf is None:
            return None
        if receiver.leaf is None and (name in ("parameters", "named_parameters", "train", "eval")):
            receiver.leaf = interp.leaf("model", node)
        if name == "zero_grad" and receiver.leaf is not None:
            receiver.leaf.grads.clear()
        modules.set_mode(interp, receiver, name, args)
        if name in ("parameters", "named_parameters"):
            return Method(receiver, name, node)
        return receiver if name in ("train", "eval", "requires_grad_") else None
    if name in _CREATES:  # on data of which nothing is known but that it is a tensor
        return interp.data()
    if name == "clone" and (extent := extents.extent_of(receiver)).several:  # of a batch: changed in place, it is one
        copy = interp.data()
        copy.cell.extent = extent
        return copy
    if name in _OF_PARSERS:
        return _parsed(interp, receiver, name, args, keywords)
    if name in opaque_results.MOVES:
        return receiver
    if name == "step":
        _step_unknown(interp, receiver, values, node)
        return None
    if name == "fit":
        models = [value for value in values if isinstance(value, Instance) and frameworks.step_of(value)]
        for model in models:
            frameworks.drive(interp, model, node)
        if models:
            return None
    if name in ("backward", "manual_backward") and values and _is_for_its_effect(interp, node):
        tensor_calls.run_backward(interp, [values[0]], keywords, node)
        return None
    if name in PASSED_THROUGH and args:
        return args[0] if len(args) == 1 else Sequence("tuple", [Binding(arg) for arg in args])
    if args and name in escapes.METHODS:
        escapes.called_on(interp, receiver, name, args, node)
    if receiver.detachment is not None:
        if name == "backward":
            cuts.sent_back(interp, [receiver], node)
            return None
        return cuts.carry(interp, interp.fresh_symbol(name), [receiver, *values], node, "numpy")
    label = ("method", key, name)
    if receiver.leaf is not None and _MAKES_STATE.search(name):
        return interp.fresh_symbol(name)
    if name and (receiver.leaf is None or _PREPARES.search(name)):
        return interp.opaque(label, [*values], node)
    return interp.opaque(label, [*values], node, receiver.leaf)


def _is_copy(key: Hashable) -> bool:
    """Whether a value is what ``clone()`` or ``detach()`` of something gave: a tensor."""
    match key:
        case (_, "call", ("method", _, "clone" | "detach"), *_):
            return True
    return False


def _is_for_its_effect(interp: Interpreter, node: ast.expr) -> bool:
    """Whether a call is a statement, or gives back what it was given; ``g = projector.backward(y)`` computes ``g``."""
    statement = interp.statement.node
    match statement, node:
        case ast.Assign(targets=[ast.Name(id=target)]), ast.Call(args=[ast.Name(id=given), *_]):
            return statement.value is node and target == given
    return isinstance(statement, (ast.Expr, ast.Return)) and statement.value is node


def _parsed(interp: Interpreter, parser: Symbol, name: str, args: list[Value], keywords: dict[str, Value]) -> Value:
    """``argparse``: the values of the arguments are unknown, and their defaults what they usually are."""
    parsed = interp.symbol(("arguments", parser.key))
    if name == "parse_args":
        return parsed
    if name == "parse_known_args":
        return Sequence("tuple", [Binding(parsed), Binding(interp.fresh_symbol(name))])
    if name != "add_argument":
        return parser  # a group's arguments are the parser's
    flags = [flag for flag in args if isinstance(flag, str)]
    long = [flag for flag in flags if flag.startswith("--")] or flags
    usual = keywords.get("default", False if keywords.get("action") == "store_true" else None)
    given = keywords.get("dest", long[0].lstrip("-").replace("-", "_") if long else "")
    if isinstance(usual, (str, int, float)):
        interp.defaults["attr", parsed.key, given] = usual
    return None


def forget_gradient(interp: Interpreter, identity: object) -> None:
    for leaf in interp.tape.owned:
        if id(leaf) == identity:
            leaf.grads.clear()


def _step_unknown(interp: Interpreter, receiver: Symbol, values: list[Value], node: ast.expr) -> None:
    """``scaler.step(optimizer)``, or the step of an optimizer that was handed in."""
    for value in values:
        if isinstance(value, Optimizer):
            interp.tape.step(value.leaves, interp.site(node), interp.stack)
            return
    if not _is_scheduler(receiver.key):
        interp.tape.unknown_owner = True


def _is_scheduler(key: Hashable) -> bool:
    """Whether a value was made by a call that says it makes a scheduler of learning rates."""
    if isinstance(key, str):
        return "lr_scheduler." in key or (key.rpartition(".")[2].startswith("get_") and "schedule" in key)
    return isinstance(key, tuple) and any(map(_is_scheduler, key))
