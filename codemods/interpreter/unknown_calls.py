"""Calls of values about which only their use says what they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable
from typing import TYPE_CHECKING

from autofix.codemods.autograd.graph import Leaf
from autofix.codemods.interpreter import (
    attributes,
    class_lookup,
    cuts,
    elements,
    escapes,
    extents,
    flagged_data,
    frameworks,
    opaque_results,
    optimizers,
    overridden,
    tensor_calls,
    unread_losses,
    unread_networks,
    written,
)
from autofix.codemods.interpreter.library import modules
from autofix.codemods.interpreter.library.registry import DECLINED, Call, Models
from autofix.codemods.interpreter.values import (
    Binding,
    Function,
    Instance,
    Mapping,
    Method,
    Optimizer,
    Sequence,
    Symbol,
    TensorRef,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

# Methods that answer a question: ``model.is_recurrent()``, ``model.state_size()``.
_ASKS = re.compile(r"^_*(is|has|num)_|_(size|shape|device|dtype|name)$")
# Methods of models that make a first state: zeros, as a rule, not something computed from parameters.
_MAKES_STATE = re.compile(r"init|zero|reset|hidden|initial")
# Methods of models that prepare data with statistics, which no optimizer trains.
_PREPARES = re.compile(r"^_?(de|un)?norm(ali[sz]e)?_|^_?pre_?proc|^_?augment|^_?standardi[sz]e")
PARALLEL = frozenset(("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel"))
"""Classes that wrap a model, which is their ``module``."""
PASSED_THROUGH = PARALLEL | {"compile", "prepare", "script"}
of_unknown = Models()
"""Models of methods that say what their receiver is, of which nothing else is known."""


def call_unknown(
    interp: Interpreter, receiver: Symbol, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """A call on a value about which only its use says what it is."""
    values = [*args, *keywords.values()]
    key = receiver.key
    if isinstance(key, tuple) and key[:1] == ("grad",):
        return _of_gradient(interp, key, name)
    result = of_unknown.call(interp, Call(node, name), receiver, given=args, keywords=keywords)
    if result is not DECLINED:
        return result
    if name == "backward" and not args:
        unread_losses.note_sent(interp, receiver)
    optimizer = optimizers.guessed(interp, args, keywords, node)
    if optimizer is not None:
        return optimizer
    if args and name in escapes.METHODS:
        escapes.called_on(interp, receiver, name, args, node)
    if receiver.detachment is not None:
        if name == "backward":
            cuts.sent_back(interp, [receiver], node)
            return None
        return cuts.carry(interp, interp.fresh_symbol(name), [receiver, *values], node, "numpy")
    if not name and receiver.leaf is None and is_model(interp, key):
        receiver.leaf = interp.leaf("model", node)
        receiver.leaf.doubtful = True
    label = ("method", key, name)
    if receiver.leaf is not None and _ASKS.search(name):
        return interp.symbol(("asked", key, name)) if not (args or keywords) else interp.fresh_symbol(name)
    if receiver.leaf is not None and _MAKES_STATE.search(name):
        return interp.fresh_symbol(name)
    if name and (receiver.leaf is None or _PREPARES.search(name)):
        return interp.opaque(label, [*values], node, layer=_is_layer(key, name))
    return interp.opaque(
        label,
        [*values],
        node,
        receiver.leaf,
        # Another method may compute without grad mode: `net.act(state)`.
        differentiable=receiver.leaf is not None and name in ("", "forward"),
        layer=receiver.leaf is not None or _is_layer(key, name),
        saved=unread_networks.saved(receiver.leaf),
    )


def is_model(interp: Interpreter, key: Hashable) -> bool:
    """Whether an unknown value is an attribute or an argument that the program treats as a model elsewhere.

    A trainer calls ``self.model(x)`` in one method, and ``self.model.eval()`` in another, which was not executed.
    """
    match key:
        case ("attr" | "parameter", _, str(name)):
            return name in interp.sources.models
    return False


def _is_layer(key: Hashable, name: str) -> bool:
    """Whether a value that is called, or its attribute *name*, is a layer: the result is on the graph of the input."""
    if name:
        return _is_network(key)
    return _is_object_of_class(key) or _is_module_inside(key)


_NETWORKS = re.compile(r"torchvision\.models\.([a-z_]+\.)*[a-z]\w*$|timm\.create_model$")
"""Functions of libraries that make networks."""


def _is_network(key: Hashable) -> bool:
    """Whether a value is a network that a library made, or a part of it: ``resnet50().layer1``."""
    match key:
        case ("new" | "~", "call", str(path), *_):
            return _NETWORKS.match(path) is not None
        case ("attr", of, _) | ("item", of, *_):
            return _is_network(of)
    return False


def _is_object_of_class(key: Hashable) -> bool:
    """Whether a value was made by a class that was not read: ``self.norm = LayerNorm(16)``."""
    match key:
        case ("new" | "~", "call", str(path), *_):
            return path.rpartition(".")[2][:1].isupper()
    return False


_MODULES = frozenset(("children", "named_children", "modules", "named_modules"))
"""Methods of modules that give the modules inside, or these with their names."""


def _is_module_inside(key: Hashable) -> bool:
    """Whether a value is a part of a network, in the order of its layers: ``for layer in vgg.children()``."""
    match key:
        case ("new" | "~", "call", ("method", _, str(name)), *_) if name in _MODULES:
            return True
        case ("item", of, *_) | ("new" | "~", "call", ("method", of, "items" | "values"), *_):
            return _is_module_inside(of)
        case ("attr", _, "_modules"):
            return True
    return _is_network(key)


def _of_gradient(interp: Interpreter, key: tuple[Hashable, ...], name: str) -> Value:
    """A method of ``p.grad``."""
    identity = key[1]
    if name in ("zero_", "detach_", "fill_"):
        forget_gradient(interp, identity)
    else:  # `m.grad = p.grad.double() / scale`: the gradient is wanted, whatever for
        interp.use_gradient(interp.identified(identity))
    made = interp.data()
    made.cell.vague = not cuts.plain_number(key)  # with `create_graph` a gradient has a graph of its own
    return made


# Models


@of_unknown("parameters", "named_parameters", "train", "eval")
def _as_model(interp: Interpreter, call: Call, receiver: Symbol, /, *args: Value, **_: Value) -> Value:
    """Take the receiver, which has parameters or a mode, for a model."""
    has_mode = call.name in ("train", "eval")
    if receiver.leaf is None:
        receiver.leaf = interp.leaf("model", call.node)
        receiver.leaf.doubtful = has_mode  # a layer has a mode, too, that only keeps a running mean
    receiver.leaf.doubtful = receiver.leaf.doubtful and has_mode
    modules.set_mode(interp, receiver, call.name, list(args))
    return receiver if has_mode else Method(receiver, call.name, call.node)


@of_unknown("zero_grad")
def _zero_grad(interp: Interpreter, call: Call, receiver: Symbol, /, *_: Value, **__: Value) -> Value:
    if receiver.leaf is not None:
        receiver.leaf.grads.clear()
    else:
        interp.zeroing.add(receiver.key)


@of_unknown("state_dict", "load_state_dict", "flatten_parameters")
def _unlike_tensors(interp: Interpreter, call: Call, receiver: Symbol, /, *_: Value, **__: Value) -> Value:
    return interp.fresh_symbol(call.name)  # of another key than the receiver's: it is no part of the model


@of_unknown("keys")
def _keys(interp: Interpreter, call: Call, receiver: Symbol, /) -> Value:
    return receiver if receiver.key in interp.states else DECLINED  # of a module's state: iterating gives them, too


@of_unknown("update")
def _update(interp: Interpreter, call: Call, receiver: Symbol, /, *args: Value, **keywords: Value) -> Value:
    """``batch.update(losses)``: a dictionary has the items of another one from then on."""
    name, given = written.receiver(interp, call.node), args[0] if args else None
    if isinstance(given, Mapping):
        elements.put_all_into_opaque(interp, receiver, given, name, written.argument(call.node, 0))
    named = Mapping({key: Binding(value) for key, value in keywords.items()})
    elements.put_all_into_opaque(interp, receiver, named, name, None)
    return DECLINED


@of_unknown("requires_grad_")
def _requires_grad(
    interp: Interpreter, call: Call, receiver: Symbol, /, requires_grad: Value = True, **_: Value
) -> Value:
    unread_networks.set_flag(interp, receiver, requires_grad)
    if (flagged := flagged_data.flag(interp, receiver, requires_grad, call.node)) is not None:
        return flagged
    if requires_grad is not True or not _is_copy(receiver.key):
        return receiver
    copied = interp.data()
    attributes.require_grad(interp, copied, True, call.node)
    return copied


@of_unknown(*opaque_results.MOVES)
def _moved(interp: Interpreter, call: Call, receiver: Symbol, /, *_: Value, **__: Value) -> Value:
    return receiver


# Tensors


@of_unknown("new_zeros", "new_ones", "new_empty", "new_full")
def _created(interp: Interpreter, call: Call, receiver: Symbol, /, *_: Value, **__: Value) -> Value:
    return interp.data()  # on data of which nothing is known but that it is a tensor


@of_unknown("clone")
def _clone(interp: Interpreter, call: Call, receiver: Symbol, /, **_: Value) -> Value:
    extent = extents.extent_of(receiver)
    if not extent.several:
        return DECLINED
    copy = interp.data()  # of a batch: changed in place, it is one
    copy.cell.extent = extent
    return copy


@of_unknown("backward", "manual_backward")
def _backward(interp: Interpreter, call: Call, receiver: Symbol, loss: Value, /, *_: Value, **keywords: Value) -> Value:
    """``scaler.backward(loss)``, ``accelerator.backward(loss)``; not of what may be an object of the program."""
    if not _is_for_its_effect(interp, call.node):
        return DECLINED
    if call.name in interp.sources.own_passes and not _is_made_elsewhere(receiver.key):
        return DECLINED
    tensor_calls.run_backward(interp, [loss], keywords, call.node)
    return None


def _is_made_elsewhere(key: Hashable) -> bool:
    """Whether a value was made by a class or a function of another package."""
    match key:
        case ("new" | "~", "call", str(path), *_):
            return "." in path
    return False


@of_unknown("scale")
def _scale(interp: Interpreter, call: Call, receiver: Symbol, loss: Value, /) -> Value:
    """``scaler.scale(loss)`` of mixed precision: the loss times a number."""
    if not isinstance(loss, TensorRef) or not _is_made_by(receiver.key, "GradScaler"):
        return DECLINED
    scaled = interp.operation("mul", [loss], call.node, scalar=loss.cell.scalar)
    scaled.cell.extent = loss.cell.extent
    return scaled


def _is_made_by(key: Hashable, name: str) -> bool:
    """Whether a value was made by a class with this name that was not read."""
    match key:
        case ("new" | "~", "call", str(path), *_) | ("new" | "~", str(path), *_):
            return path.rpartition(".")[2] == name
    return False


# Optimizers, trainers and what wraps models


@of_unknown("step")
def _step(interp: Interpreter, call: Call, receiver: Symbol, /, *args: Value, **keywords: Value) -> Value:
    """``scaler.step(optimizer)``, or the step of an optimizer that was handed in; not ``seen = env.step(action)``."""
    given = (*args, *keywords.values())
    closure = any(isinstance(value, (Function, Method)) for value in given)
    if given and not closure and not _is_for_its_effect(interp, call.node):
        return DECLINED
    for value in given:
        if isinstance(value, Optimizer):
            interp.tape.step(value.leaves, interp.site(call.node), interp.stack, guessed=value.guessed)
            return None
    if not _is_scheduler(receiver.key):
        interp.tape.unknown_owner = True
        model = _handed_in_with(interp, receiver)
        if model is not None:
            interp.tape.step([model], interp.site(call.node), interp.stack)
    return None


def _handed_in_with(interp: Interpreter, optimizer: Symbol) -> Leaf | None:
    """The parameters of the one model that a function was given beside an optimizer: ``def improve(model, optimizer)``.

    None where it was given several, or none: then nobody knows which of them the optimizer has.
    """
    match optimizer.key:
        case ("parameter", function, str()) if optimizer.key in interp.zeroing:
            leaves = [one.leaf for one in interp.parameters_of(function) if one.leaf is not None]
            return leaves[0] if len(leaves) == 1 else None
    return None


@of_unknown("fit")
def _fit(interp: Interpreter, call: Call, receiver: Symbol, /, *args: Value, **keywords: Value) -> Value:
    values = (*args, *keywords.values())
    models = [value for value in values if isinstance(value, Instance) and frameworks.step_of(value)]
    for model in models:
        frameworks.drive(interp, model, call.node)
    return None if models else DECLINED


@of_unknown(*PASSED_THROUGH)
def _passed_through(
    interp: Interpreter, call: Call, receiver: Symbol, first: Value, /, *others: Value, **_: Value
) -> Value:
    """``accelerator.prepare(model, optimizer)``: as they are."""
    return Sequence("tuple", [Binding(arg) for arg in (first, *others)]) if others else first


@of_unknown("setup")
def _setup(interp: Interpreter, call: Call, receiver: Symbol, first: Value, /, *others: Value, **_: Value) -> Value:
    """``fabric.setup(model, optimizer)``: as they are."""
    if not all(map(_is_trained, (first, *others))):
        return DECLINED
    return Sequence("tuple", [Binding(arg) for arg in (first, *others)]) if others else first


def _is_trained(value: Value) -> bool:
    return class_lookup.is_any_module(value) or isinstance(value, Optimizer)


# Arguments of the command line: unknown values, whose defaults are what they usually are


@of_unknown("parse_args")
def _parse_args(
    interp: Interpreter, call: Call, parser: Symbol, /, args: Value = None, namespace: Value = None
) -> Value:
    parsed = _parsed(interp, parser, args)
    if isinstance(namespace, Instance):
        for name, slot in namespace.names.items():
            interp.attributes_of_opaque[parsed.key, name] = slot
    return parsed


@of_unknown("parse_known_args")
def _parse_known_args(interp: Interpreter, call: Call, parser: Symbol, /, args: Value = None, *_: Value) -> Value:
    return Sequence("tuple", [Binding(_parsed(interp, parser, args)), Binding(interp.fresh_symbol(call.name))])


def _parsed(interp: Interpreter, parser: Symbol, args: Value) -> Symbol:
    """The arguments that *parser* gives; of an empty list every value is the default."""
    parsed = interp.symbol(("arguments", parser.key))
    if isinstance(args, Sequence) and not args.items and not args.more:
        for name in interp.options.get(parsed.key, []):
            if ("attr", parsed.key, name) in interp.defaults:
                interp.attributes_of_opaque[parsed.key, name] = Binding(interp.defaults["attr", parsed.key, name])
    return parsed


@of_unknown("add_argument_group", "add_mutually_exclusive_group")
def _argument_group(interp: Interpreter, call: Call, parser: Symbol, /, *_: Value, **__: Value) -> Value:
    return parser  # a group's arguments are the parser's


_OF_ACTIONS = {"store_true": False, "store_false": True}
"""The defaults of options by what their parser does with them."""


@of_unknown("set_defaults")
def _set_defaults(interp: Interpreter, call: Call, parser: Symbol, /, **values: Value) -> Value:
    parsed = interp.symbol(("arguments", parser.key))
    if call.node in interp.spread:
        overridden.options(interp, parsed)
    for name, usual in values.items():
        if name not in interp.options.setdefault(parsed.key, []):
            interp.options[parsed.key].append(name)
        if isinstance(usual, (str, int, float)):
            interp.defaults["attr", parsed.key, name] = usual


@of_unknown("add_argument")
def _add_argument(interp: Interpreter, call: Call, parser: Symbol, /, *args: Value, **options: Value) -> Value:
    parsed = interp.symbol(("arguments", parser.key))
    flags = [flag for flag in args if isinstance(flag, str)]
    long = [flag for flag in flags if flag.startswith("--")] or flags
    action = options.get("action")
    usual = options.get("default", _OF_ACTIONS.get(action) if isinstance(action, str) else None)
    given = options.get("dest", long[0].lstrip("-").replace("-", "_") if long else "")
    others = interp.options.setdefault(parsed.key, [])
    if isinstance(usual, (str, int, float)) and given not in others:  # of two for one name, the first says
        interp.defaults["attr", parsed.key, given] = usual
    others.append(given)


# What a value is


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


def forget_gradient(interp: Interpreter, identity: object) -> None:
    wanted = interp.identified(identity)
    for leaf in interp.tape.owned:
        if leaf is wanted:
            leaf.grads.clear()


def _is_scheduler(key: Hashable) -> bool:
    """Whether a value was made by a call that says it makes a scheduler of learning rates."""
    if isinstance(key, str):
        return "lr_scheduler." in key or (key.rpartition(".")[2].startswith("get_") and "schedule" in key)
    return isinstance(key, tuple) and any(map(_is_scheduler, key))
