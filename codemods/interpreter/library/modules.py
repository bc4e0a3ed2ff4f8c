"""Methods that every module of torch has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import (
    class_lookup,
    cuts,
    frameworks,
    mapping_keys,
    module_calls,
    module_lists,
    module_tree,
    optimizers,
    tensor_calls,
    text_patterns,
    written,
)
from autofix.codemods.interpreter.library.registry import DECLINED, Call, Models
from autofix.codemods.interpreter.unpacking import copy_of
from autofix.codemods.interpreter.values import (
    Binding,
    Bound,
    Function,
    Hook,
    Instance,
    Mapping,
    Optimizer,
    Partial,
    Sequence,
    Symbol,
    TensorImpl,
    TensorRef,
    TorchModule,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


of_module = Models()
"""Models of the methods of modules: torch's own, and objects of classes that are derived from them."""

_MODULES = 24
"""Modules of one model that ``apply`` is followed for."""


def call_module_method(
    interp: Interpreter,
    module: TorchModule | Instance,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.expr,
) -> Value:
    """``module.name(...)``, where no class of the program has such a method."""
    own = module.names.get(optimizers.OWN) if isinstance(module, Instance) else None
    if own is not None:
        return optimizers.call_method(interp, own.value, name, args, keywords, node)
    if isinstance(module, Instance) and not class_lookup.is_module(module):
        has_unknown_base = any(not isinstance(base, type(module.cls)) for base in class_lookup.lineage(module.cls))
        if not has_unknown_base:
            return interp.fresh_symbol(name)
    result = of_module.call(interp, Call(node, name), module, given=args, keywords=keywords)
    return interp.opaque(name, [*args, *keywords.values()], node) if result is DECLINED else result


# Parts of a module


@of_module("parameters")
def _parameters_of(interp: Interpreter, call: Call, module: TorchModule | Instance, /, *_: Value, **__: Value) -> Value:
    found = Sequence("list", [Binding(one.tensor) for one in _parameters(interp, call, module, by_number=True)])
    if not found.items:
        interp.without_known_parameters[interp.identity(found)] = module
    return found


@of_module("named_parameters")
def _named_parameters(
    interp: Interpreter, call: Call, module: TorchModule | Instance, /, *_: Value, **__: Value
) -> Value:
    return Sequence("list", [module_tree.pair(name, tensor) for name, tensor in _named(interp, call, module)])


def _named(interp: Interpreter, call: Call, module: TorchModule | Instance) -> Iterator[tuple[Value, TensorRef]]:
    """The parameters, each with its name: the same each time that it is asked for, and another one than the next."""
    for name, tensor in _parameters(interp, call, module):
        called: Value = name
        if called is None:
            of = tensor.cell.leaf if tensor.cell.leaf is not None else tensor.cell
            called = interp.symbol(("~", "name", interp.identity(module), interp.identity(of)))
            interp.named[called.key] = module
        yield called, tensor


def _parameters(
    interp: Interpreter, call: Call, module: TorchModule | Instance, *, by_number: bool = False
) -> list[module_tree.Parameter]:
    """The parameters as tensors: one for each leaf, without a name, where the program takes all of them alike."""
    leaves = list(dict.fromkeys(interp.own_parameters(module)))
    if call.node in interp.source.once(module_tree.taken_one_by_one) or _asked_elsewhere(interp, call):
        found = module_tree.parameters(interp, module, call.node)
        if not by_number or all(one.name is not None for one in found):
            return found
        return [module_tree.one_of(leaf) for leaf in leaves]  # nobody knows their numbers
    return [module_tree.Parameter(None, TensorRef(TensorImpl(leaf.node, leaf.storage, leaf=leaf))) for leaf in leaves]


def _asked_elsewhere(interp: Interpreter, call: Call) -> bool:
    """Whether names of parameters are given, by which another file of the program looks something up."""
    return call.name == "named_parameters" and any(
        module_tree.may_ask_by_name(one.text) and one.once(module_tree.asks_by_name) for one in interp.sources.all
    )


@of_module("children")
def _children(interp: Interpreter, call: Call, module: TorchModule | Instance, /) -> Value:
    return Sequence("list", module_tree.children(module))


@of_module("named_children")
def _named_children(interp: Interpreter, call: Call, module: TorchModule | Instance, /) -> Value:
    named = module_tree.named_children(module)
    return Sequence("list", [module_tree.pair(str(key), value) for key, value in named])


@of_module("modules")
def _modules(interp: Interpreter, call: Call, module: TorchModule | Instance, /, *_: Value) -> Value:
    return Sequence("list", module_tree.modules(module))


@of_module("named_modules")
def _named_modules(interp: Interpreter, call: Call, module: TorchModule | Instance, /, *_: Value, **__: Value) -> Value:
    return Sequence("list", [module_tree.pair(path, one) for path, one in module_tree.paths(module)])


@of_module("get_submodule")
def _submodule(interp: Interpreter, call: Call, module: TorchModule | Instance, target: Value, /) -> Value:
    return next((one for path, one in module_tree.paths(module) if path == target), DECLINED)


@of_module("get_parameter")
def _parameter(interp: Interpreter, call: Call, module: TorchModule | Instance, target: Value, /) -> Value:
    if not isinstance(target, str):
        return DECLINED
    return module_tree.parameter_called(interp, module, target, call.node) or interp.fresh_symbol(call.name)


@of_module("named_buffers", "buffers")
def _buffers(interp: Interpreter, call: Call, module: TorchModule | Instance, /, *_: Value, **__: Value) -> Value:
    known = list(module_tree.buffers(module))
    if not known:
        return interp.fresh_symbol(call.name)
    named = call.name == "named_buffers"
    return Sequence("list", [module_tree.pair(key, slot.value) if named else slot for key, slot in known])


@of_module("state_dict")
def _state_dict(
    interp: Interpreter, call: Call, module: TorchModule | Instance, /, *_: Value, keep_vars: Value = False, **__: Value
) -> Value:
    if keep_vars is True:  # the parameters themselves, and not what is in them
        named = [(mapping_keys.mapping_key(interp, name), tensor) for name, tensor in _named(interp, call, module)]
        if named:
            return Mapping({key: Binding(tensor) for key, tensor in named}, more=True)
    state = interp.fresh_symbol(call.name)
    interp.states[state.key] = module
    return state


@of_module("flatten_parameters")
def _nothing(interp: Interpreter, call: Call, module: TorchModule | Instance, /, *_: Value, **__: Value) -> Value:
    return None


@of_module("load_state_dict")
def _load(
    interp: Interpreter,
    call: Call,
    module: TorchModule | Instance,
    state: Value = None,
    strict: Value = True,
    assign: Value = False,
) -> Value:
    """The parameters are written in place, by ``copy_``, unless they are given other tensors."""
    interp.filled.clear()  # flags in buffers are among what is loaded
    if assign is False:
        _write_parameters(interp, call, module)
    return interp.fresh_symbol(call.name)  # the keys that are missing and the ones that nothing takes


@of_module("reset_parameters")
def _reset(interp: Interpreter, call: Call, module: TorchModule | Instance, /) -> Value:
    """Write the parameters of a torch layer in place, as the functions of ``nn.init`` do."""
    if not isinstance(module, TorchModule):
        return DECLINED
    _write_parameters(interp, call, module)
    return None


def _write_parameters(interp: Interpreter, call: Call, module: TorchModule | Instance) -> None:
    for leaf in interp.own_parameters(module):
        interp.tape.change(leaf.storage, interp.site(call.node), stack=interp.stack, parameter=True)


# Methods that return the module


@of_module("to", "cuda", "cpu", "float", "double", "half", "share_memory", "type")
def _moved(interp: Interpreter, call: Call, module: TorchModule | Instance, /, *_: Value, **__: Value) -> Value:
    return module


@of_module("train", "eval")
def _mode(interp: Interpreter, call: Call, module: TorchModule | Instance, /, *args: Value, **_: Value) -> Value:
    set_mode(interp, module, call.name, list(args))
    return module


def set_mode(interp: Interpreter, module: Value, name: str, args: list[Value]) -> None:
    """``eval()`` and ``train()``."""
    wanted: Value = name == "train" and (args[0] if args else True)
    if name in ("train", "eval") and isinstance(module, (TorchModule, Instance)):
        for slot in module_tree.modules(module):
            base = _holder(slot.value)
            if isinstance(slot.value, Instance):
                slot.value.names["training"] = Binding(wanted)
            if base is not None:
                base.options["training"] = wanted
    if name == "eval" or (name == "train" and args[:1] == [False]):
        interp.evaluating.update(interp.leaves_of(module))
    elif name == "train":
        interp.evaluating.difference_update(interp.leaves_of(module))


@of_module("requires_grad_")
def _requires_grad(
    interp: Interpreter, call: Call, module: TorchModule | Instance, /, requires_grad: Value = True, **_: Value
) -> Value:
    interp.activity += 1
    for leaf in interp.own_parameters(module):
        cuts.freeze(interp, leaf, requires_grad, call.node)
    return module


@of_module("apply")
def _apply(
    interp: Interpreter, call: Call, module: TorchModule | Instance, /, function: Value = None, **_: Value
) -> Value:
    if isinstance(function, (Function, Bound, Partial, Instance)):
        for slot in reversed(module_tree.modules(module)[:_MODULES]):
            interp.call(function, [slot.value], {}, call.node)
    return module


# Parts of a module that are set


@of_module("register_buffer")
def _register_buffer(
    interp: Interpreter,
    call: Call,
    module: TorchModule | Instance,
    name: Value,
    tensor: Value,
    /,
    *_: Value,
    **__: Value,
) -> Value:
    if not isinstance(name, str):
        if isinstance(module, TorchModule) and module.leaf is not None:  # a layer's own names: they were parameters
            cuts.freeze(interp, module.leaf, False, call.node)
        return DECLINED
    node = call.node
    owner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else node
    place = f"{interp.source.text_of(owner)}.{name}"
    _set_child(module, name, tensor, interp.slot(tensor, place, written.argument(node, 1), module))
    if isinstance(module, Instance):
        class_lookup.registered(module).add(name)
    return None


@of_module("register_parameter", "add_module", "register_module")
def _register(interp: Interpreter, call: Call, module: TorchModule | Instance, name: Value, part: Value, /) -> Value:
    register(interp, module, name, part)
    return None


def register(interp: Interpreter, module: TorchModule | Instance, name: Value, part: Value) -> None:
    """Add a part of a module; one more where nobody knows its name (``f"block-{width}"`` of an unknown width)."""
    own = name if isinstance(name, str) else unknown_name(name)
    if own is not name and part_of(module, own) is not None:
        own = f"{own} {next(interp.leaf_numbers)}"
    _set_child(module, own, part)


def part_of(module: TorchModule | Instance, name: str) -> Binding | None:
    return module.children.get(name) if isinstance(module, TorchModule) else module.names.get(name)


def part_named(module: TorchModule | Instance, name: Value) -> Binding | None:
    """The part of a module that was registered under an unknown name, or the last one whose name it may be.

    ``getattr(self, f"block{self.count - 1 - i}")`` is one of the blocks that a loop has registered.
    """
    known = part_of(module, unknown_name(name))
    shape = text_patterns.pattern(name.key) if known is None and isinstance(name, Symbol) else ""
    if not shape:
        return known
    parts = module.children if isinstance(module, TorchModule) else module.names
    fitting = (slot for own, slot in reversed(parts.items()) if re.fullmatch(shape, str(own), re.DOTALL))
    return next((slot for slot in fitting if class_lookup.is_any_module(slot.value)), None)


def unknown_name(name: Value) -> str:
    """Placeholder for a name computed from unknown values: equal for the same value."""
    return f"<{name.key if isinstance(name, Symbol) else id(name)}>"


def _set_child(module: TorchModule | Instance, name: str, value: Value, kept: Binding | None = None) -> None:
    (module.children if isinstance(module, TorchModule) else module.names)[name] = kept or Binding(value)
    base = class_lookup.base_module(module) if isinstance(module, Instance) else None
    if base is None:
        return
    # A list of modules calls what was not read, too.
    if isinstance(value, (TorchModule, Instance)) or (
        isinstance(value, (Symbol, Partial)) and base.kind in module_lists.LISTS
    ):
        base.children[name] = Binding(value)


def _holder(module: TorchModule | Instance) -> TorchModule | None:
    """The module of torch's that has the parts: of an object, what it is by its class."""
    return module if isinstance(module, TorchModule) else class_lookup.base_module(module)


@of_module("append")
def _append(interp: Interpreter, call: Call, module: TorchModule | Instance, part: Value, /) -> Value:
    holder = _holder(module)
    if holder is None:
        return DECLINED
    module_lists.extend(interp, holder, [part], call.node)
    return module


@of_module("extend")
def _extend(interp: Interpreter, call: Call, module: TorchModule | Instance, parts: Value, /) -> Value:
    holder = module_lists.holder(module)
    if holder is None:
        return DECLINED
    given = copy_of(interp, parts, "list", call.node)
    module_lists.extend(interp, holder, [slot.value for slot in given.items], call.node)
    return module


@of_module("insert")
def _insert(interp: Interpreter, call: Call, module: TorchModule | Instance, index: Value, part: Value, /) -> Value:
    holder = module_lists.holder(module)
    if holder is None:
        return DECLINED
    # Where the place is not known, the last one: that it is one of the modules is what matters.
    at = index if isinstance(index, int) else len(holder.children)
    module_lists.insert(interp, holder, at, part, call.node)
    return module if holder.kind == "Sequential" else None


@of_module("update")
def _update(interp: Interpreter, call: Call, module: TorchModule | Instance, given: Value, /) -> Value:
    holder = module_lists.holder(module, module_lists.DICTIONARIES)
    if holder is None:
        return DECLINED
    interp.activity += 1
    module_calls.update_dictionary(interp, holder, given, call.node)
    return None


@of_module("clear")
def _clear(interp: Interpreter, call: Call, module: TorchModule | Instance, /) -> Value:
    holder = module_lists.holder(module, module_lists.DICTIONARIES)
    if holder is None:
        return DECLINED
    interp.activity += 1
    holder.children.clear()
    return None


@of_module("pop")
def _pop(interp: Interpreter, call: Call, module: TorchModule | Instance, key: Value, /) -> Value:
    holder = module_lists.holder(module, module_lists.LISTS | module_lists.DICTIONARIES)
    if holder is None or not isinstance(key, (int, str, slice)):
        return DECLINED
    taken = module_lists.remove(interp, holder, key)
    return DECLINED if taken is None else taken


@of_module("get", "setdefault")
def _get(interp: Interpreter, call: Call, module: TorchModule | Instance, key: Value, default: Value = None) -> Value:
    holder = module_lists.holder(module, frozenset(("ParameterDict",)))
    if holder is None or not isinstance(key, str):
        return DECLINED
    slot = module_lists.item(holder, key)
    if slot is None and call.name == "setdefault":
        module_lists.put(interp, holder, key, default, call.node)
        slot = module_lists.item(holder, key)
    return default if slot is None else slot.value


@of_module("items", "values", "keys")
def _items(interp: Interpreter, call: Call, module: TorchModule | Instance, /) -> Value:
    holder = _holder(module)
    if holder is None:
        return DECLINED
    if call.name == "items":
        pairs = [Sequence("tuple", [Binding(key), slot]) for key, slot in holder.children.items()]
        return Sequence("list", [Binding(pair) for pair in pairs])
    return Sequence("list", [slot if call.name == "values" else Binding(key) for key, slot in holder.children.items()])


# Calls and passes


@of_module("register_forward_hook", "register_forward_pre_hook")
def _forward_hook(
    interp: Interpreter, call: Call, module: TorchModule | Instance, function: Value, /, *_: Value, **__: Value
) -> Value:
    hook = Hook(module, function, before=call.name == "register_forward_pre_hook")
    interp.hooks.append(hook)
    return hook


@of_module("register_full_backward_hook", "register_full_backward_pre_hook")
def _backward_hook(
    interp: Interpreter, call: Call, module: TorchModule | Instance, function: Value = None, /, *_: Value, **__: Value
) -> Value:
    hook = Hook(module, function, before=False)
    interp.backward_hooks.append(hook)
    return hook


@of_module("forward")
def _forward(
    interp: Interpreter, call: Call, module: TorchModule | Instance, /, *args: Value, **keywords: Value
) -> Value:
    if not isinstance(module, TorchModule):
        return DECLINED
    return module_calls.call_module(interp, module, list(args), keywords, call.node)


@of_module("zero_grad")
def _zero_grad(interp: Interpreter, call: Call, module: TorchModule | Instance, /, *_: Value, **__: Value) -> Value:
    for leaf in interp.own_parameters(module):
        leaf.grads.clear()


@of_module("manual_backward", "backward")
def _backward(
    interp: Interpreter, call: Call, module: TorchModule | Instance, loss: Value, /, *_: Value, **keywords: Value
) -> Value:
    tensor_calls.run_backward(interp, [loss], keywords, call.node)


@of_module("step")
def _step(interp: Interpreter, call: Call, module: TorchModule | Instance, /, *_: Value, **__: Value) -> Value:
    """``engine.step()`` of DeepSpeed's engine, for which its model stands."""
    if interp.identity(module) not in interp.parallel:
        return DECLINED
    interp.tape.step(list(interp.own_parameters(module)), interp.site(call.node), interp.stack)
    return None


@of_module("optimizers")
def _optimizers(interp: Interpreter, call: Call, module: TorchModule | Instance, /, *_: Value, **__: Value) -> Value:
    known = frameworks.configured_optimizers(interp, module, call.node) if isinstance(module, Instance) else None
    return interp.symbol(("optimizers", interp.identity(module))) if known is None else known


@of_module("toggle_optimizer", "untoggle_optimizer")
def _toggle(
    interp: Interpreter, call: Call, module: TorchModule | Instance, /, optimizer: Value = None, *_: Value, **__: Value
) -> Value:
    if not isinstance(module, Instance):
        return
    if call.name == "untoggle_optimizer":
        frameworks.untoggle_optimizer(interp, module, call.node)
    elif isinstance(optimizer, Optimizer):
        frameworks.toggle_optimizer(interp, module, optimizer, call.node)
