"""Calls of what is imported: torch's functions, modules and optimizers, and what is unknown."""

from __future__ import annotations

import ast
import re
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from codemods.tape import attributes, cuts, escapes, extents, python_calls, tensor_calls
from codemods.tape.generators import Generator
from codemods.tape.graph import Leaf, Saved
from codemods.tape.loops import LazyStream, Stream, counter
from codemods.tape.saves import is_operation
from codemods.tape.values import (
    Bound,
    Cell,
    Function,
    Hook,
    Instance,
    Mapping,
    Method,
    Name,
    Optimizer,
    Partial,
    Sequence,
    Slot,
    Super,
    Tensor,
    TorchModule,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from codemods.tape.machine import Machine

_CREATED = frozenset(
    """zeros ones rand randn randint empty full arange linspace logspace eye tensor as_tensor from_numpy randperm normal
    Tensor FloatTensor DoubleTensor LongTensor IntTensor ByteTensor BoolTensor HalfTensor zeros_like ones_like rand_like
    randn_like empty_like full_like randint_like load""".split()
)
_SIZED = frozenset("zeros ones rand randn empty randint".split())
_COPIES = frozenset("tensor as_tensor from_numpy Tensor FloatTensor DoubleTensor HalfTensor".split())
_WITHOUT_PARAMETERS = re.compile(
    r"(ReLU6?|LeakyReLU|ELU|SELU|CELU|GELU|SiLU|Mish|Sigmoid|Tanh|Softplus|Softmax|LogSoftmax|Hardtanh|Hardswish|"
    r"Hardsigmoid|Softsign|Tanhshrink|LogSigmoid|Threshold|GLU|Dropout\w*|AlphaDropout|Flatten|Unflatten|Identity|"
    r"\w*Pool\w*|Upsample\w*|\w*Pad[123]d|PixelShuffle|Fold|Unfold|CosineSimilarity|PairwiseDistance)$"
)
_OPERATION = {
    "ReLU": "relu", "LeakyReLU": "leaky_relu", "ELU": "elu", "GELU": "gelu", "SiLU": "silu", "Sigmoid": "sigmoid",
    "Tanh": "tanh", "Softplus": "softplus", "Softmax": "softmax", "LogSoftmax": "log_softmax", "Hardtanh": "hardtanh",
    "Flatten": "flatten", "MSELoss": "mse_loss", "Dropout": "native_dropout", "LogSigmoid": "log_sigmoid",
}  # fmt: skip
_SAVES_WEIGHT_FOR_INPUT = re.compile(
    r"(Linear|Bilinear|Conv\w*|LSTM|GRU|RNN|\w+Cell|MultiheadAttention|Transformer\w*)$"
)
# Libraries whose functions of tensors are made of torch's own operations.
_DIFFERENTIABLE = frozenset("torchvision einops kornia torch_geometric torch_scatter torchaudio pytorch3d timm".split())
# Methods of models that make a first state: zeros, as a rule, not something computed from parameters.
_MAKES_STATE = re.compile(r"init|zero|reset|hidden|initial")
MODULES = 24
"""Modules of one model that ``apply`` is followed for."""
_RECURRENT = frozenset(("RNN", "GRU", "LSTM"))
_CELLS = frozenset(("RNNCell", "GRUCell", "LSTMCell"))
_PASSED_THROUGH = frozenset(
    ("DataParallel", "DistributedDataParallel", "compile", "prepare", "script", "FullyShardedDataParallel")
)


def call_name(machine: Machine, path: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """A call of something imported, by its dotted name."""
    head, _, rest = path.partition(".")
    last = path.rpartition(".")[2]
    if head == "builtins":
        return python_calls.call_builtin(machine, rest, args, keywords, node)
    if head == "collections":
        found = python_calls.call_collection(machine, last, args, keywords, node)
        if found is not None:
            return found
    if path == "functools.partial" and args:
        return Partial(args[0], args[1:], keywords)
    if path in ("sys.exit", "os._exit", "os.abort"):
        machine.exited = True
        return None
    if path == "dataclasses.replace" and args and isinstance(args[0], Instance):
        changed = Instance(args[0].cls, dict(args[0].names))
        for name, value in keywords.items():
            changed.names[name] = machine.slot(value, name, python_calls.written_keyword(node, name))
        return changed
    if path == "itertools.count":
        start = args[0] if args and isinstance(args[0], int) else 0
        return LazyStream(Stream(None, lambda at, exact: at + start if exact else counter(machine, at + start)))
    if path == "itertools.islice" and args:
        return args[0]
    if path == "copy.deepcopy" and args:
        escapes.copied(machine, args[0], node)
    if path in ("copy.copy", "copy.deepcopy") and args:
        return _deep_copy(machine, args[0], node)
    if head == "random" and args and isinstance(args[0], Sequence):
        if last in ("sample", "choices"):
            return python_calls.copy_of(machine, args[0], "list", node)
        if last == "choice":
            return attributes.item(machine, args[0], machine.fresh("choice"), node)
        if last == "shuffle":
            return None
    if path == "itertools.chain" or path == "itertools.chain.from_iterable":
        if len(args) == 1 and isinstance(args[0], Generator):
            return args[0]
        return Sequence("list", [Slot(arg) for arg in args])
    if last == "tqdm" or last == "trange":
        if last == "trange":
            return python_calls.call_builtin(machine, "range", args, {}, node)
        return args[0] if args else keywords.get("iterable", machine.fresh("tqdm"))
    if head == "torch":
        return _call_torch(machine, path, last, args, keywords, node)
    if last in _PASSED_THROUGH and args:
        return args[0]
    values = [*args, *keywords.values()]
    if head in ("numpy", "matplotlib"):
        escapes.handed(machine, head, last, args, node)
    found = machine.opaque(path, values, node, differentiable=head in _DIFFERENTIABLE)
    for value in values:
        _forget_state(machine, value, set())
    return cuts.carry(machine, found, values, node, "numpy") if head in ("numpy", "math") else found


def _forget_state(machine: Machine, value: Value, seen: set[int]) -> None:
    """What a function that was not read has done to an object it was given: its state may have been reset."""
    if not isinstance(value, (Instance, TorchModule)) or id(value) in seen:
        return
    seen.add(id(value))
    names: dict[Any, Slot] = value.names if isinstance(value, Instance) else value.children
    for name, slot in names.items():
        if isinstance(slot.value, (Instance, TorchModule)):
            _forget_state(machine, slot.value, seen)
        elif any(tensor.cell.node is not None and tensor.cell.leaf is None for tensor in machine.tensors(slot.value)):
            names[name] = Slot(machine.fresh("state", str(name)))


def _call_torch(
    machine: Machine, path: str, last: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    mode = tensor_calls.grad_mode(last, [*args, *keywords.values()])
    if mode is not None:
        if len(args) == 1 and isinstance(args[0], Function) and mode.enabled is not None:
            args[0].grad_mode = mode.enabled
            return args[0]
        if last == "set_grad_enabled":
            machine.set_grad(mode.enabled is not False, machine.site(node))
        return mode
    if last == "is_grad_enabled":
        return machine.grad
    if path in ("torch.autograd.backward", "torch.autograd.grad"):
        return _call_autograd(machine, last, args, keywords, node)
    if last == "Variable":
        if keywords.get("volatile") is True:
            machine.legacy["Variable(..., volatile=True)", machine.site(node).line] = machine.site(node)
        value = args[0] if args else keywords.get("data", machine.fresh("Variable"))
        if keywords.get("requires_grad") is True and isinstance(value, Tensor) and value.cell.node is None:
            leaf = machine.parameter("tensor", node, cell=Cell(storage=value.cell.storage, scalar=value.cell.scalar))
            return _copy(machine, leaf, [value], node)
        return value if isinstance(value, Tensor) else machine.data()
    if last in ("Parameter", "UninitializedParameter"):
        source = args[0] if args else keywords.get("data")
        scalar = source.cell.scalar if isinstance(source, Tensor) else None
        tensor = machine.parameter("Parameter", node, cell=Cell(scalar=scalar))
        if keywords.get("requires_grad", args[1] if len(args) > 1 else True) is False and tensor.cell.leaf is not None:
            tensor.cell.leaf.frozen = True
        return tensor
    if path.startswith("torch.optim.") and "lr_scheduler" not in path and "swa_utils" not in path:
        return _optimizer(machine, last, args, keywords)
    if path.startswith(("torch.nn.utils.rnn.", "torch.nn.functional.", "torch.nn.init")):
        if last == "normalize":
            return tensor_calls.operate(machine, "normalize", args, keywords, node)
        if path.startswith("torch.nn.init"):
            return args[0] if args else None
        return tensor_calls.operate(machine, last, args, keywords, node)
    if path.startswith("torch.nn.utils."):
        return machine.fresh(last) if "clip" in last else (args[0] if args else None)
    if path.startswith("torch.nn.") and last[:1].isupper():
        if last in _PASSED_THROUGH and args:
            return args[0]
        return _module(machine, last, args, keywords, node)
    if last == "checkpoint" and args:
        return machine.call(args[0], args[1:], {}, node)
    if last in _PASSED_THROUGH and args:
        return args[0]
    if path.startswith(
        (
            "torch.utils.data",
            "torch.multiprocessing",
            "torch.cuda",
            "torch.backends",
            "torch.distributed",
            "torch.device",
        )
    ):
        if last == "DataLoader":
            return machine.fresh("torch.utils.data.DataLoader", extents.makes_batches(args, keywords))
        return machine.fresh(path)
    if last == "is_tensor" and args:
        return isinstance(args[0], Tensor) or machine.fresh("is_tensor")
    if last in (
        "manual_seed",
        "save",
        "seed",
        "set_num_threads",
        "use_deterministic_algorithms",
        "set_default_dtype",
        "set_printoptions",
    ):
        return None
    if last in _CREATED:
        return _created(machine, last, args, keywords, node)
    if path.count(".") <= 2 or is_operation(last):
        return tensor_calls.operate(machine, last, args, keywords, node)
    return machine.opaque(path, [*args, *keywords.values()], node, differentiable=True)


def _created(machine: Machine, last: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """A new tensor of data; a leaf where ``requires_grad=True`` asks for it."""
    scalar = None
    if last in ("tensor", "as_tensor") and args and isinstance(args[0], (int, float)):
        scalar = True
    if last in ("zeros", "ones", "rand", "randn") and args and isinstance(args[0], Sequence) and not args[0].items:
        scalar = True
    if last == "as_tensor" and args and isinstance(args[0], Tensor):
        return args[0]
    if keywords.get("requires_grad") is True:
        return _copy(machine, machine.parameter("tensor", node, cell=Cell(scalar=scalar)), args, node)
    made = machine.data(scalar=scalar)
    made.cell.lost = cuts.dropped(machine, args, node, _how_copied(args)) if last in _COPIES else None
    if last in _SIZED:
        made.cell.extent = extents.of_created(args if last != "randint" else args[-1:])
    elif last.endswith("_like") and args:
        made.cell.extent = extents.extent_of(args[0])
    return made


def _how_copied(values: list[Value]) -> str:
    return "tensors" if values and isinstance(values[0], Sequence) else "tensor"


def _copy(machine: Machine, made: Tensor, values: list[Value], node: ast.expr) -> Tensor:
    """A new leaf: where it is a copy of something that had a graph, it knows that."""
    if made.cell.leaf is not None:
        made.cell.leaf.copied = cuts.dropped(machine, values, node, _how_copied(values))
    return made


def _deep_copy(machine: Machine, value: Value, node: ast.expr) -> Value:
    if isinstance(value, TorchModule):
        leaf = machine.leaf(value.kind, node) if value.leaf is not None else None
        children = {
            key: Slot(_deep_copy(machine, slot.value, node))
            for key, slot in value.children.items()
            if not isinstance(slot.value, Tensor)
        }
        return TorchModule(value.kind, leaf, children, dict(value.options))
    if isinstance(value, Instance):
        copied = Instance(value.cls)
        copied.names = {
            name: Slot(_deep_copy(machine, slot.value, node))
            if isinstance(slot.value, (TorchModule, Instance, Sequence, Tensor))
            else slot
            for name, slot in value.names.items()
        }
        return copied
    if isinstance(value, Sequence):
        return Sequence(
            value.kind, [Slot(_deep_copy(machine, machine.read(slot, value), node)) for slot in value.items], value.more
        )
    if isinstance(value, Tensor):
        if value.cell.leaf is not None and value.cell.node is value.cell.leaf.node:
            return machine.parameter("tensor", node)
        return machine.data(scalar=value.cell.scalar)
    return value


def _call_autograd(machine: Machine, last: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    roots = args[0] if args else keywords.get("tensors", keywords.get("outputs"))
    if last == "backward":
        if len(args) > 2:
            keywords = {**keywords, "retain_graph": args[2]}
        given = len(args) > 1 or "grad_tensors" in keywords
        tensor_calls.run_backward(machine, [roots], keywords, node, given=given)
        return None
    inputs = args[1] if len(args) > 1 else keywords.get("inputs")
    rest = {name: value for name, value in keywords.items() if name != "inputs"}
    given = len(args) > 2 or "grad_outputs" in keywords
    tensor_calls.run_backward(machine, [roots], rest, node, accumulate=False, inputs=inputs, given=given)
    count = len(inputs.items) if isinstance(inputs, Sequence) else 1
    if keywords.get("create_graph") not in (None, False):
        made = machine.operation("grad", [roots], node, opaque=True)
        if made.cell.node is not None:
            made.cell.node.opaque = False
        results: list[Value] = [made] * count
    else:
        results = [machine.data() for _ in range(count)]
        for result in results:
            result.cell.lost = cuts.dropped(machine, [roots], node, "grad")
    return Sequence("tuple", [Slot(result) for result in results], more=not isinstance(inputs, (Sequence, Tensor)))


def _optimizer(machine: Machine, kind: str, args: list[Value], keywords: dict[str, Value]) -> Optimizer:
    params = args[0] if args else keywords.get("params")
    leaves = set(machine.leaves_of(params))
    if not leaves:
        machine.tape.unknown_owner = True
    machine.tape.owned |= leaves
    return Optimizer(leaves, kind)


def call_optimizer(
    machine: Machine, optimizer: Optimizer, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """``optimizer.step()`` changes what it holds, ``zero_grad()`` forgets the gradients."""
    match name:
        case "step":
            machine.activity += 1
            closure = args[0] if args else keywords.get("closure")
            clock, passes = machine.tape.clock, len(machine.tape.passes)
            result = machine.call(closure, [], {}, node) if isinstance(closure, (Function, Bound)) else None
            machine.tape.step(optimizer.leaves, machine.site(node))
            nodes = (node for one in machine.tape.passes[passes:] for edge in one.edges for node in edge)
            old = any(n.leaf is None and n.clock <= clock and n.loops == machine.loops for n in nodes)
            if optimizer.kind == "LBFGS" and old:  # it evaluates its closure again, with the parameters moved
                machine.call(closure, [], {}, node)
                machine.tape.step(optimizer.leaves, machine.site(node))
            return result
        case "zero_grad":
            machine.activity += 1
            for leaf in optimizer.leaves:
                leaf.grads.clear()
        case "add_param_group":
            added = set(machine.leaves_of(args[0] if args else keywords.get("param_group")))
            optimizer.leaves |= added
            machine.tape.owned |= added
        case "state_dict" | "load_state_dict":
            return machine.fresh(name)
    return None


# Modules


def become_base(
    machine: Machine, instance: Instance, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> None:
    """Run the constructor that an object of the program inherits from one of torch's modules."""
    kind = attributes.torch_base(instance)
    if kind:
        attributes.set_base_module(instance, _module(machine, kind, args, keywords, node))


def _module(machine: Machine, kind: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """An instance of a class of ``torch.nn``."""
    module = TorchModule(kind, options=dict(keywords), site=machine.site(node))
    if kind in ("Sequential", "ModuleList", "ParameterList"):
        parts: list[Value] = args
        if len(args) == 1 and not isinstance(args[0], (TorchModule, Instance, Unknown, Tensor)):
            if isinstance(args[0], Mapping):
                module.children = {name: Slot(slot.value) for name, slot in args[0].items.items()}
                return module
            parts = [slot.value for slot in python_calls.copy_of(machine, args[0], "list", node).items]
        module.children = {at: Slot(part) for at, part in enumerate(parts)}
    elif kind in ("ModuleDict", "ParameterDict"):
        if args and isinstance(args[0], Mapping):
            module.children = {name: Slot(slot.value) for name, slot in args[0].items.items()}
    elif kind.endswith("Loss") or kind == "Module" or _WITHOUT_PARAMETERS.match(kind):
        if kind == "ReLU" and args and args[0] is True:
            module.options["inplace"] = True
    else:
        module.leaf = machine.leaf(kind, node)
    return module


def call_module(
    machine: Machine, module: TorchModule, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """The output of ``module(...)``."""
    kind = module.kind
    values = [*args, *keywords.values()]
    first = values[0] if values else None
    if kind == "Sequential":
        for slot in module.children.values():
            first = machine.call(slot.value, [first], {}, node)
        return first
    if kind == "Identity":
        return first
    if kind.endswith("Loss"):
        name = _OPERATION.get(kind, kind)
        scalar = tensor_calls.reduces(module.options)
        lost = machine.operation(name, values, node, scalar=scalar)
        lost.cell.extent = extents.of_module(kind, values, scalar)
        return _or_unknown(machine, lost, values)
    if _WITHOUT_PARAMETERS.match(kind):
        if module.options.get("inplace") is True and isinstance(first, Tensor):
            attributes.in_place(machine, first, _OPERATION.get(kind, kind), [], node, module.site)
            return first
        view = first if kind in ("Flatten", "Unflatten") and isinstance(first, Tensor) else None
        made = machine.operation(_OPERATION.get(kind, kind), values, node, view=view)
        made.cell.extent = extents.of_module(kind, values, None)
        return _or_unknown(machine, made, values)
    leaves = [module.leaf] if module.leaf is not None else []
    result = machine.operation(
        kind, values, node, leaves=leaves, extra_saved=_saved_by_module(machine, kind, module.leaf, values)
    )
    result.cell.extent = extents.of_module(kind, values, None)
    if kind in _RECURRENT:
        state: Value = _part(machine, result, node)
        if kind == "LSTM":
            state = Sequence("tuple", [Slot(state), Slot(_part(machine, result, node))])
        return Sequence("tuple", [Slot(result), Slot(state)])
    if kind == "LSTMCell":
        return Sequence("tuple", [Slot(result), Slot(_part(machine, result, node))])
    if kind == "MultiheadAttention":
        return Sequence("tuple", [Slot(result), Slot(_part(machine, result, node))])
    return result


def _or_unknown(machine: Machine, result: Tensor, values: list[Value]) -> Value:
    """A loss of values about which nothing is known is not known to be without a graph."""
    if result.cell.node is None and any(isinstance(value, Unknown) for value in values):
        if not any(isinstance(value, Tensor) for value in values):
            return machine.fresh("loss")
    return result


def _part(machine: Machine, whole: Tensor, node: ast.expr) -> Tensor:
    """Another output of the same operation: a node of its own over the operation's, saving nothing itself."""
    return machine.operation("select", [whole], node)


def _saved_by_module(machine: Machine, kind: str, leaf: Leaf | None, values: list[Value]) -> list[Saved]:
    """The input for the weight's gradient, the weight for the input's (a norm saves both in any case)."""
    if leaf is None or not machine.grad:
        return []
    saved = []
    tensors = list(machine.tensors(*values))
    if kind != "Embedding" and not leaf.frozen:
        saved += [Saved(tensor.cell.storage, tensor.cell.storage.version) for tensor in tensors]
    needs_input = any(tensor.cell.node is not None for tensor in tensors)
    if "Norm" in kind or kind in _RECURRENT or (_SAVES_WEIGHT_FOR_INPUT.match(kind) and needs_input):
        saved.append(Saved(leaf.storage, leaf.storage.version))
    return saved


def call_module_method(
    machine: Machine,
    module: TorchModule | Instance,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
    node: ast.expr,
) -> Value:
    """Methods that every torch module has."""
    if isinstance(module, Instance) and not attributes.is_module(module):
        has_unknown_base = any(not isinstance(base, type(module.cls)) for base in attributes.lineage(module.cls))
        if not has_unknown_base:
            return machine.fresh(name)
    match name:
        case "parameters" | "children" | "modules":
            if name == "children":
                return Sequence("list", _children(module))
            if name == "modules":
                return Sequence("list", _modules(module, []))
            return _parameters(machine, module)
        case "named_parameters":
            pairs = [
                Slot(Sequence("tuple", [Slot(machine.fresh("name")), slot]))
                for slot in _parameters(machine, module).items
            ]
            return Sequence("list", pairs)
        case (
            "to"
            | "cuda"
            | "cpu"
            | "float"
            | "double"
            | "half"
            | "train"
            | "eval"
            | "apply"
            | "requires_grad_"
            | "share_memory"
            | "type"
        ):
            if name == "requires_grad_":
                machine.activity += 1
                wanted = args[0] if args else keywords.get("requires_grad", True)
                for leaf in machine.leaves_of(module):
                    leaf.frozen = wanted is False
            _set_mode(machine, module, name, args)
            if name == "apply" and args and isinstance(args[0], (Function, Bound)):
                for slot in reversed(_modules(module, [])[:MODULES]):
                    machine.call(args[0], [slot.value], {}, node)
            return module
        case "zero_grad":
            for leaf in machine.leaves_of(module):
                leaf.grads.clear()
            return None
        case "register_buffer" if len(args) > 1 and isinstance(args[0], str):
            _set_child(module, args[0], args[1])
            return None
        case "register_parameter" | "add_module" | "register_module" if len(args) > 1 and isinstance(args[0], str):
            _set_child(module, args[0], args[1])
            return None
        case "append" if isinstance(module, TorchModule) and args:
            module.children[len(module.children)] = Slot(args[0])
            return module
        case "items" | "values" | "keys" if isinstance(module, TorchModule):
            if name == "items":
                return Sequence(
                    "list", [Slot(Sequence("tuple", [Slot(key), slot])) for key, slot in module.children.items()]
                )
            return Sequence("list", [slot if name == "values" else Slot(key) for key, slot in module.children.items()])
        case "register_forward_hook" | "register_forward_pre_hook" if args:
            hook = Hook(module, args[0], before=name == "register_forward_pre_hook")
            machine.hooks.append(hook)
            return hook
        case "register_full_backward_hook" | "register_full_backward_pre_hook":
            return Hook(module, None, before=False)
        case "flatten_parameters" | "load_state_dict":
            return None
        case "forward" if isinstance(module, TorchModule):
            return call_module(machine, module, args, keywords, node)
        case "named_children":
            return Sequence("list", [_pair(str(key), value) for key, value in _named_children(module)])
        case "named_modules":
            return Sequence("list", [_pair(machine.fresh("name"), slot.value) for slot in _modules(module, [])])
        case "state_dict" | "named_buffers" | "buffers":
            return machine.fresh(name)
        case "manual_backward" | "backward" if args:
            tensor_calls.run_backward(machine, [args[0]], keywords, node)
            return None
    if name == "optimizers":
        return machine.unknown(("optimizers", id(module)))
    return machine.opaque(name, [*args, *keywords.values()], node)


def _set_mode(machine: Machine, module: Value, name: str, args: list[Value]) -> None:
    """``eval()`` and ``train()``."""
    if name == "eval" or (name == "train" and args[:1] == [False]):
        machine.evaluating.update(machine.leaves_of(module))
    elif name == "train":
        machine.evaluating.difference_update(machine.leaves_of(module))


def _set_child(module: TorchModule | Instance, name: str, value: Value) -> None:
    (module.children if isinstance(module, TorchModule) else module.names)[name] = Slot(value)
    base = attributes.base_module(module) if isinstance(module, Instance) else None
    if base is not None and isinstance(value, (TorchModule, Instance)):
        base.children[name] = Slot(value)


def _named_children(module: TorchModule | Instance) -> list[tuple[Hashable, Value]]:
    slots: dict[Any, Slot] = dict(module.children if isinstance(module, TorchModule) else module.names)
    return [(key, slot.value) for key, slot in slots.items() if isinstance(slot.value, (TorchModule, Instance))]


def _children(module: TorchModule | Instance) -> list[Slot]:
    return [Slot(value) for _, value in _named_children(module)]


def _pair(first: Value, second: Value) -> Slot:
    return Slot(Sequence("tuple", [Slot(first), Slot(second)]))


def _modules(module: TorchModule | Instance, found: list[Slot]) -> list[Slot]:
    """The module and all modules under it."""
    if all(slot.value is not module for slot in found):
        found.append(Slot(module))
        for slot in _children(module):
            _modules(slot.value, found)
    return found


def _parameters(machine: Machine, module: TorchModule | Instance) -> Sequence:
    """The parameters as tensors, one for each leaf."""
    slots = []
    for leaf in dict.fromkeys(machine.leaves_of(module)):
        slots.append(Slot(Tensor(Cell(node=leaf.node, storage=leaf.storage, leaf=leaf))))
    return Sequence("list", slots)


def call_super(
    machine: Machine, receiver: Super, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """A method of a base class that is not in the program."""
    if name == "__init__":
        if isinstance(receiver.instance, Instance):
            become_base(machine, receiver.instance, args, keywords, node)
        return None
    if isinstance(receiver.instance, Instance) and name == "__call__":
        forward = attributes.find(receiver.instance, "forward")
        if forward is not None:
            return machine.call(attributes.bind(machine, forward, receiver.instance), args, keywords, node)
    if isinstance(receiver.instance, Instance) and name in ("forward", "__call__"):
        base = attributes.base_module(receiver.instance)
        if base is not None:
            return call_module(machine, base, args, keywords, node)
    if isinstance(receiver.instance, Instance):
        return call_module_method(machine, receiver.instance, name, args, keywords, node)
    return machine.opaque(name, [*args, *keywords.values()], node)


# What is unknown

_MODEL_METHODS = frozenset(
    """parameters named_parameters train eval zero_grad state_dict load_state_dict flatten_parameters
    requires_grad_""".split()
)


def call_unknown(
    machine: Machine, receiver: Unknown, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """A call on a value about which only its use says what it is."""
    values = [*args, *keywords.values()]
    key = receiver.key
    if isinstance(key, tuple) and key[:1] == ("grad",):
        if name in ("zero_", "detach_", "fill_"):
            _forget_gradient(machine, key[1])
        made = machine.data()
        made.cell.vague = True  # with `create_graph` a gradient has a graph of its own
        return made
    if name in _MODEL_METHODS:
        if name == "zero_grad" and receiver.leaf is None:
            return None
        if receiver.leaf is None and (name in ("parameters", "named_parameters", "train", "eval")):
            receiver.leaf = machine.leaf("model", node)
        if name == "zero_grad" and receiver.leaf is not None:
            receiver.leaf.grads.clear()
        _set_mode(machine, receiver, name, args)
        if name in ("parameters", "named_parameters"):
            return Method(receiver, name, node)
        return receiver if name in ("train", "eval", "requires_grad_") else None
    if name in ("to", "cuda", "cpu", "double", "half", "float", "contiguous", "long"):
        return receiver
    if name == "step":
        _step_unknown(machine, receiver, values, node)
        return None
    if name in ("backward", "manual_backward") and values:
        tensor_calls.run_backward(machine, [values[0]], keywords, node)
        return None
    if name in _PASSED_THROUGH and args:
        return args[0] if len(args) == 1 else Sequence("tuple", [Slot(arg) for arg in args])
    if args and name in escapes.METHODS:
        escapes.called_on(machine, receiver, name, args, node)
    if receiver.lost is not None:
        if name == "backward":
            cuts.sent_back(machine, [receiver], node)
            return None
        return cuts.carry(machine, machine.fresh(name), [receiver, *values], node, "numpy")
    label = ("method", key, name)
    if receiver.leaf is not None and _MAKES_STATE.search(name):
        return machine.fresh(name)
    if name and receiver.leaf is None:
        return machine.opaque(label, [*values], node)
    return machine.opaque(label, [*values], node, receiver.leaf)


def _forget_gradient(machine: Machine, identity: object) -> None:
    for leaf in machine.tape.owned:
        if id(leaf) == identity:
            leaf.grads.clear()


def _step_unknown(machine: Machine, receiver: Unknown, values: list[Value], node: ast.expr) -> None:
    """``scaler.step(optimizer)``, or the step of an optimizer that was handed in."""
    for value in values:
        if isinstance(value, Optimizer):
            machine.tape.step(value.leaves, machine.site(node))
            return
    machine.tape.unknown_owner = True


__all__ = [
    "Name",
    "call_module",
    "call_module_method",
    "call_name",
    "call_optimizer",
    "call_super",
    "call_unknown",
]
