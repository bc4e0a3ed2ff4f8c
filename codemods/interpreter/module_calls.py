"""Modules of ``torch.nn``: what their constructors make, what a call of one computes, and the methods that all have."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Options
from typing import TYPE_CHECKING

from autofix.codemods.autograd import catalogue, groups
from autofix.codemods.autograd.graph import Leaf, Saved
from autofix.codemods.interpreter import (
    class_lookup,
    escapes,
    extents,
    module_lists,
    overwriting,
    parametrized,
    reshaped,
    tensor_calls,
    unpacking,
)
from autofix.codemods.interpreter.values import (
    Binding,
    Instance,
    Mapping,
    Name,
    Sequence,
    Symbol,
    TensorRef,
    TorchModule,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def become_base(
    interp: Interpreter, instance: Instance, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> None:
    """Run the constructor that an object inherits from one of torch's modules, or from a list or a dictionary."""
    if instance.items is not None and (args or keywords):
        filled = interp.call(class_lookup.base_container(instance.cls), args, keywords, node)
        if isinstance(filled, (Sequence, Mapping)):
            instance.items = filled
        else:
            instance.items.more = True
    kind = class_lookup.torch_base(instance)
    if kind:
        class_lookup.set_base_module(instance, make_module(interp, kind, args, keywords, node))


def make_module(interp: Interpreter, kind: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """An instance of a class of ``torch.nn``."""
    module = TorchModule(kind, site=interp.site(node))
    if kind in module_lists.LISTS:
        parts: list[Value] = args or [keywords[name] for name in ("modules", "values") if name in keywords]
        if len(parts) == 1 and _is_spread(kind, parts[0]):
            if isinstance(parts[0], Mapping):
                module.children = {name: Binding(slot.value) for name, slot in parts[0].items.items()}
                return module
            parts = [slot.value for slot in unpacking.copy_of(interp, parts[0], "list", node).items]
        module_lists.extend(interp, module, parts, node)
    elif kind in module_lists.DICTIONARIES:
        for given in [*args[:1], *(keywords[name] for name in ("modules", "parameters") if name in keywords)]:
            update_dictionary(interp, module, given, node)
    else:
        spread = node in interp.spread
        module.options = {**({} if spread else dict(zip(_arguments_of(kind), args, strict=False))), **keywords}
        if kind != "Module" and _has_parameters(kind, module.options):
            module.leaf = interp.leaf(kind, node)
            module.leaf.parts = {} if spread else dict.fromkeys(_parameters_of(kind, module.options), False)
    return module


def _is_spread(kind: str, value: Value) -> bool:
    """Whether the one argument of a list of modules is not its one item, but what has the items."""
    if kind != "Sequential" and module_lists.holder(value) is not None:
        return True
    return not isinstance(value, (TorchModule, Instance, Symbol, TensorRef))


def update_dictionary(interp: Interpreter, module: TorchModule, given: Value, node: ast.expr) -> None:
    """``module.update(given)`` of a ``ModuleDict`` or a ``ParameterDict``: by a dictionary, another such, or pairs."""
    other = module_lists.holder(given, module_lists.DICTIONARIES)
    pairs: Value = Mapping(dict(other.children)) if other is not None else given
    if not isinstance(pairs, (Mapping, Symbol)) and pairs is not None:
        pairs = interp.call(Name("builtins.dict"), [given], {}, node)
    if isinstance(pairs, Mapping):
        for key, slot in pairs.items.items():
            if not isinstance(key, (int, str)):
                continue  # nobody knows whether what is asked for by a name is this one
            module.children[key] = Binding(module_lists.as_item(interp, module, interp.read(slot, pairs), node))


def _arguments_of(kind: str) -> tuple[str, ...]:
    """The names of a constructor's arguments, in their order.

    Source: torch/nn/modules/rnn.py, whose classes hand theirs over to ``RNNBase``, ``RNN`` behind its nonlinearity.
    """
    if kind not in groups.RECURRENT:
        return catalogue.module(kind).arguments
    names = catalogue.module("RNNBase").arguments[1:]
    after = names.index("num_layers") + 1
    return (*names[:after], "nonlinearity", *names[after:]) if kind == "RNN" else names


def _parameters_of(kind: str, options: Options[str, Value]) -> tuple[str, ...]:
    """The names of a layer's parameters; none where they are not known."""
    row = catalogue.module(kind)
    if kind in groups.RECURRENT:
        names = tuple(_of_layers(options))
    elif set(row.parameters) <= {"weight", "bias"} or kind.endswith("Cell"):
        names = row.parameters
    else:
        return ()
    bias = options.get("bias", True)
    without = tuple(name for name in names if not name.startswith("bias"))
    return names if bias is True else without if bias is False else ()


def _of_layers(options: Options[str, Value]) -> Iterator[str]:
    """The names of the parameters of a recurrent module, in their order; none where its layers are not known."""
    layers, both = options.get("num_layers", 1), options.get("bidirectional", False)
    if isinstance(layers, int) and isinstance(both, bool) and "proj_size" not in options:
        for layer in range(layers):
            for direction in ("", "_reverse") if both else ("",):
                yield from (f"{one}_l{layer}{direction}" for one in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))


def _has_parameters(kind: str, options: Options[str, Value]) -> bool:
    """Whether a layer or a loss of torch's that is made so has something to train."""
    row = catalogue.module(kind)
    for switch in ("affine", "elementwise_affine"):
        if switch in row.arguments:
            return options.get(switch, bool(row.parameters)) is not False
    return bool(row.parameters)


def is_left_out(module: TorchModule, name: str) -> bool:
    """Whether a layer has None in the place of a parameter that its kind has: ``Linear(bias=False)``."""
    if name not in catalogue.module(module.kind).parameters:
        return False
    return module.leaf is None or (bool(module.leaf.parts) and name not in module.leaf.parts)


def is_flag(module: TorchModule, name: str) -> bool:
    """Whether ``layer.bias`` says that a recurrent layer has biases, and is none itself."""
    return name == "bias" and any(one.startswith("bias_") for one in catalogue.module(module.kind).parameters)


def call_module(
    interp: Interpreter, module: TorchModule, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """The output of ``module(...)``."""
    kind = module.kind
    values = [*args, *keywords.values()]
    first = values[0] if values else None
    if kind == "Sequential":
        for slot in (*module.children.values(), *module.rest):
            first = interp.call(slot.value, [first], {}, node)
        return first
    if kind == "Identity":
        return first
    if isinstance(first, TensorRef):
        first.cell.unsure = False
    leaves = [module.leaf] if module.leaf is not None else []
    if kind.endswith("Loss"):
        name = catalogue.form(kind)
        scalar = tensor_calls.reduces(module.options)
        saved = _saved_by_module(interp, kind, module.leaf, values)
        row = catalogue.operation(name)
        options = {key: value for key, value in module.options.items() if key in row.arguments}
        names = (*row.arguments[: len(args)], *map(row.argument, keywords), *options)
        given = [*values, *options.values()]
        detachment = interp.operation(
            name,
            given,
            node,
            names=names if options or keywords else (),
            scalar=scalar,
            leaves=leaves,
            extra_saved=saved,
        )
        detachment.cell.extent = extents.of_module(kind, values, module.options)
        return _or_unknown(interp, detachment, values)
    if kind in catalogue.modules() and not catalogue.module(kind).parameters and "Norm" not in kind:
        row = catalogue.operation(catalogue.form(kind))
        if "Dropout" in kind and _drops_nothing(interp, module, row):
            return first
        # The modules of alpha dropout take the flag and do not hand it on (torch/nn/modules/dropout.py).
        if module.options.get("inplace") is True and "Alpha" not in kind and isinstance(first, TensorRef):
            overwriting.in_place(interp, first, catalogue.form(kind), [], node, module.site)
            return first
        view = first if catalogue.is_view(catalogue.form(kind)) and isinstance(first, TensorRef) else None
        size = [module.options["output_size"]] if "output_size" in module.options else []
        made = interp.operation(catalogue.form(kind), [*values, *size], node, view=view)
        made.cell.extent = extents.of_module(kind, values, module.options)
        made.cell.length = extents.length_of_module(kind, values)
        return _or_unknown(interp, made, values)
    weights = [*parametrized.called(interp, module, node), *_put_for_parameters(module)]
    swaps = kind in groups.RECURRENT and module.options.get("batch_first", False) is not False
    saved = _saved_by_module(interp, kind, module.leaf, values, weights, swaps=swaps)
    result = interp.operation(kind, [*values, *weights], node, leaves=leaves, extra_saved=saved)
    result.cell.extent = extents.of_module(kind, values, module.options)
    result.cell.length = extents.length_of_module(kind, values)
    recorded = result.cell.node
    if recorded is not None and any(
        "result" in saved for saved in catalogue.operation(catalogue.form(kind)).saves.values()
    ):
        recorded.saved = (*recorded.saved, result.cell.storage.as_saved())
    if kind in groups.RECURRENT:
        state: Value = _part(interp, result, node)
        if kind == "LSTM":
            state = Sequence("tuple", [Binding(state), Binding(_part(interp, result, node))])
        return Sequence("tuple", [Binding(result), Binding(state)])
    if kind == "LSTMCell":
        return Sequence("tuple", [Binding(result), Binding(_part(interp, result, node))])
    if kind == "MultiheadAttention":
        return Sequence("tuple", [Binding(result), Binding(_part(interp, result, node))])
    return result


def _put_for_parameters(module: TorchModule) -> Iterator[TensorRef]:
    """The tensors with a graph that were put in the place of a layer's parameters: ``layer.weight = hyper(z)``."""
    for slot in module.children.values():
        if module.leaf is not None and escapes.is_computed(slot.value) and slot.value.cell.leaf is not module.leaf:
            yield slot.value


def _drops_nothing(interp: Interpreter, module: TorchModule, row: catalogue.Operation) -> bool:
    """Whether a dropout leaves its input as it is: with the probability that an option has by default, say."""
    options = {key: interp.usual(one) if isinstance(one, Symbol) else one for key, one in module.options.items()}
    return catalogue.is_left_out(row, [], {"training": True, **options})


def _or_unknown(interp: Interpreter, result: TensorRef, values: list[Value]) -> Value:
    """A loss of values about which nothing is known is not known to be without a graph."""
    if result.cell.node is None and any(isinstance(value, Symbol) for value in values):
        if not any(isinstance(value, TensorRef) for value in values):
            return interp.fresh_symbol("loss")
    return result


def _part(interp: Interpreter, whole: TensorRef, node: ast.expr) -> TensorRef:
    """Another output of the same operation: a node of its own over the operation's, saving nothing itself."""
    return interp.operation("select", [whole], node)


def _saved_by_module(
    interp: Interpreter,
    kind: str,
    leaf: Leaf | None,
    values: list[Value],
    weights: Iterable[TensorRef] = (),
    *,
    swaps: bool = False,
) -> list[Saved]:
    """The input for the weight's gradient, the weight for the input's (a norm saves both in any case).

    In the place of the weight, the *weights* that are computed of it, if there are any.
    """
    if not interp.grad:
        return []
    saved: list[Saved] = []
    tensors = interp.tensors(*values) if leaf is not None or "Norm" in kind else []
    if leaf is None:
        return [one.cell.storage.as_saved() for one in tensors if not reshaped.copied(kind, {"input": one})]
    needs_input = any(tensor.cell.node is not None for tensor in tensors)
    row = catalogue.operation(catalogue.form(kind))
    keeps_input = bool(row.arguments) and row.arguments[0] in row.saves.get(row.arguments[0], ())
    if not leaf.frozen or (needs_input and keeps_input):  # a convolution keeps its input for a frozen weight, too
        # A layer that is told that the batch comes first transposes its input, and copies that.
        own = [one for one in tensors if not (swaps or reshaped.copied(kind, {"input": one}))]
        saved += [tensor.cell.storage.as_saved() for tensor in own]
    if "Norm" in kind or kind in groups.RECURRENT or needs_input:
        saved += [one.cell.storage.as_saved() for one in weights] or [leaf.storage.as_saved()]
    return saved
