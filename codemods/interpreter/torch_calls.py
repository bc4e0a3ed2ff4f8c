"""Calls of what is imported: torch's functions, the making of tensors, passes, and optimizers."""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from codemods.autograd.saves import is_operation
from codemods.facts import TENSORS_AND_NUMBERS
from codemods.interpreter import (
    attributes,
    class_lookup,
    constants,
    cuts,
    datasets,
    elements,
    errors,
    escapes,
    extents,
    module_calls,
    optimizers,
    python_calls,
    tensor_calls,
    unknown_calls,
)
from codemods.interpreter.generators import Exhausted, Generator
from codemods.interpreter.loops import LazyStream, Stream, accumulated, counter, stream
from codemods.interpreter.protocol import Frame
from codemods.interpreter.values import (
    Binding,
    Bound,
    Class,
    Exits,
    Function,
    Instance,
    Mapping,
    Method,
    Name,
    Partial,
    Sequence,
    Symbol,
    TensorImpl,
    TensorRef,
    TorchModule,
    Value,
)

if TYPE_CHECKING:
    from codemods.interpreter.protocol import Interpreter

_CREATED = frozenset(
    """zeros ones rand randn randint empty full arange linspace logspace eye tensor as_tensor from_numpy randperm normal
    Tensor FloatTensor DoubleTensor LongTensor IntTensor ByteTensor BoolTensor HalfTensor zeros_like ones_like rand_like
    randn_like empty_like full_like randint_like load""".split()
)
_COPIES = frozenset("tensor as_tensor from_numpy Tensor FloatTensor DoubleTensor HalfTensor".split())
# Libraries whose functions of tensors are made of torch's own operations.
_DIFFERENTIABLE = frozenset("torchvision einops kornia torch_geometric torch_scatter torchaudio pytorch3d timm".split())
# Classes of libraries that are layers with parameters, or neurons that compute on the graph of their input and state.
_LAYER = re.compile(r"(torch_geometric|torch_geometric_temporal|dgl|snntorch|norse)\.([a-z_]+\.)*[A-Z]\w*$")
# Those of the same libraries that are none.
_IS_DATA = re.compile(r"\b(data|datasets|loader|sampler|transforms|utils|explain|profile)\.|Loader$|Data$|Dataset$")


def call_name(interp: Interpreter, path: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """A call of something imported, by its dotted name."""
    head, _, rest = path.partition(".")
    last = path.rpartition(".")[2]
    if path in _READING:
        errors.may_happen(interp, "FileNotFoundError", node)
    if head == "builtins":
        return python_calls.call_builtin(interp, rest, args, keywords, node)
    if path == "importlib.import_module" and len(args) == 1 and isinstance(args[0], str):
        return python_calls.imported(interp, args[0])
    if path in ("functools.cache", "functools.lru_cache"):
        return _cached(interp, path, args, node)
    if path == "weakref.proxy" and args:
        return args[0]
    if path == "weakref.ref" and args:
        return Partial(Name("weakref.proxy"), [args[0]], {})  # what calling it gives
    if head in ("collections", "weakref"):
        found = python_calls.call_collection(interp, last, args, keywords, node)
        if found is not None:
            return found
    if path == "types.MethodType" and len(args) == 2 and isinstance(args[0], Function):
        return Bound(args[0], args[1])
    if path == "dataclasses.is_dataclass" and args and isinstance(args[0], (TensorRef, Sequence, Mapping, TorchModule)):
        return False
    if path == "dataclasses.fields" and len(args) == 1 and isinstance(args[0], (Instance, Class)):
        of = args[0] if isinstance(args[0], Class) else args[0].cls
        names = [one.name for one in class_lookup.fields_of(of)]
        return Sequence("tuple", [Binding(Sequence("tuple", [Binding(name)], fields=("name",))) for name in names])
    if path in ("types.SimpleNamespace", "argparse.Namespace"):
        return _namespace(interp, keywords, node)
    if path in ("contextlib.ExitStack", "contextlib.AsyncExitStack"):
        return Exits()
    if head == "operator":
        found = _of_operators(interp, last, args, node)
        if found is not None:
            return found
    if last in ("tree_map", "map_structure") and len(args) == 2:
        return _mapped(interp, args[0], args[1], node)
    if path == "functools.partial" and args:
        return Partial(args[0], args[1:], keywords)
    if path == "functools.reduce" and len(args) > 1:
        steps = accumulated(interp, args[0], args[1], args[2:3], node)
        return steps.items[-1].value if steps.items else interp.fresh_symbol("reduced")
    if path == "itertools.accumulate" and len(args) > 1:
        initial = [keywords["initial"]] if keywords.get("initial") is not None else []
        return accumulated(interp, args[1], args[0], initial, node)
    if path in ("sys.exit", "os._exit", "os.abort"):
        interp.exited = True
        return None
    if path == "dataclasses.replace" and args and isinstance(args[0], Instance):
        changed = Instance(args[0].cls, dict(args[0].names), whole=args[0].whole)
        for name, value in keywords.items():
            changed.names[name] = interp.slot(value, name, python_calls.written_keyword(node, name))
        return changed
    if path == "json.loads" and args and isinstance(args[0], str):
        with suppress(ValueError):
            return _of_json(json.loads(args[0]))
    if path in constants.FUNCTIONS:
        with suppress(constants.NotWritten):
            return constants.computed(interp, constants.FUNCTIONS[path], args, keywords)
    if head == "itertools" and args:
        with suppress(constants.NotWritten):
            return constants.by_place(last, [class_lookup.opened(arg) for arg in args], keywords)
    if path == "enum.auto":
        return Name("enum.auto()")
    if path in ("dataclasses.asdict", "dataclasses.astuple") and args and isinstance(args[0], Instance):
        return _as_container(args[0], last)
    if path == "itertools.count":
        start = args[0] if args and isinstance(args[0], int) else 0
        return LazyStream(Stream(None, lambda at, exact: at + start if exact else counter(interp, at + start)))
    if path == "itertools.cycle" and args:
        return _cycle(interp, args[0], node)
    if path == "itertools.islice" and args:
        return args[0]
    if path == "copy.deepcopy" and len(args) == 1:  # a memo may say that tensors stay as they are
        escapes.copied(interp, args[0], node)
    if path == "copy.copy" and args and isinstance(args[0], (Sequence, Mapping, Instance)):
        if not isinstance(args[0], Instance) or not class_lookup.is_module(args[0]):
            return _copied(args[0])
    if path in ("copy.copy", "copy.deepcopy") and args:
        return _deep_copy(interp, args[0], node)
    if head == "random" and args and isinstance(args[0], Sequence):
        if last in ("sample", "choices"):
            return python_calls.copy_of(interp, args[0], "list", node)
        if last == "choice":
            return elements.item(interp, args[0], interp.fresh_symbol("choice"), node)
        if last == "shuffle":
            return None
    if path == "itertools.chain":
        return _chained(interp, Sequence("list", [Binding(arg) for arg in args]), node)
    if path == "itertools.chain.from_iterable" and args:
        return _chained(interp, args[0], node)
    if path == "itertools.pairwise" and args and isinstance(args[0], Sequence) and not args[0].more:
        slots = args[0].items
        return Sequence("list", [Binding(Sequence("tuple", [one, two])) for one, two in itertools.pairwise(slots)])
    if last == "tqdm" or last == "trange":
        if last == "trange":
            return python_calls.call_builtin(interp, "range", args, {}, node)
        return args[0] if args else keywords.get("iterable", interp.fresh_symbol("tqdm"))
    if head == "torch":
        return _call_torch(interp, path, last, args, keywords, node)
    if last in unknown_calls.PASSED_THROUGH and args:
        return args[0]
    values = [*args, *keywords.values()]
    if head in ("numpy", "matplotlib"):
        escapes.handed(interp, head, last, args, node)
    if _LAYER.match(path) and not interp.operands(*values) and not _IS_DATA.search(path):
        layer = interp.fresh_symbol("call", path)
        layer.leaf = interp.leaf(last, node)
        return layer
    found = interp.opaque(path, values, node, differentiable=head in _DIFFERENTIABLE)
    for value in values:
        _forget_state(interp, value, set())
    return cuts.carry(interp, found, values, node, "numpy") if head in ("numpy", "math") else found


def _cached(interp: Interpreter, path: str, args: list[Value], node: ast.expr) -> Value:
    """``lru_cache(function)``: the function, which keeps what it returns; ``lru_cache(8)`` is what makes it so."""
    if not args or args[0] is None or isinstance(args[0], int):
        return Name("functools.cache")
    if isinstance(args[0], Function):
        return replace(args[0], cache={}, cached_by=interp.site(node))
    return interp.fresh_symbol("cached")


def _as_container(value: Value, name: str) -> Value:
    """``dataclasses.asdict(value)`` and ``astuple(value)``, what is in it opened as well."""
    if isinstance(value, Sequence):
        return replace(value, items=[Binding(_as_container(slot.value, name), slot.kept) for slot in value.items])
    if isinstance(value, Mapping):
        items = {key: Binding(_as_container(slot.value, name), slot.kept) for key, slot in value.items.items()}
        return replace(value, items=items)
    if not isinstance(value, Instance) or class_lookup.is_module(value) or value.cls.members:
        return value
    parts: dict[Hashable, Binding] = {
        one.name: Binding(_as_container(value.names[one.name].value, name), value.names[one.name].kept)
        for one in class_lookup.fields_of(value.cls)
        if one.name in value.names
    }
    return Mapping(parts) if name == "asdict" else Sequence("tuple", list(parts.values()))


def _of_json(read: Any) -> Value:
    """What JSON that is written out in the program says."""
    if isinstance(read, dict):
        return Mapping({name: Binding(_of_json(value)) for name, value in read.items()})
    if isinstance(read, list):
        return Sequence("list", [Binding(_of_json(value)) for value in read])
    return read


def _cycle(interp: Interpreter, value: Value, node: ast.expr) -> Value:
    """The items of *value* again and again."""
    items = stream(interp, value, node)
    if not items.count or items.cut:
        return value
    count = items.count
    return LazyStream(Stream(None, lambda at, exact: items.at(at % count, True)))


def _chained(interp: Interpreter, parts: Value, node: ast.expr) -> Value:
    """The items of the containers in *parts*, one after the other; what is not known to be a container is an item."""
    if isinstance(parts, Sequence) and not any(isinstance(slot.value, Generator) for slot in parts.items):
        whole = Sequence("list", [], more=parts.more)
        for slot in parts.items:
            inner = slot.value
            whole.items += list(_items_of(interp, inner)) if isinstance(inner, Sequence) else [slot]
            whole.more = whole.more or (isinstance(inner, Sequence) and inner.more)
        return whole
    if not isinstance(parts, (Sequence, Generator)):
        return parts

    def hand_out() -> None:
        for part in _items_of(interp, parts):
            several = isinstance(part.value, (Sequence, Generator))
            for slot in _items_of(interp, part.value) if several else (part,):
                chained.give(slot)

    frame = Frame(interp.frames[-1].function, interp.scope)
    chained = Generator(interp, hand_out, frame, interp.site(node))
    return chained


def _items_of(interp: Interpreter, value: Sequence | Generator) -> Iterator[Binding]:
    """The items of a container, or, one by one, those that a generator hands out."""
    if isinstance(value, Sequence):
        yield from (Binding(interp.read(slot, value)) for slot in value.items)
        return
    with suppress(Exhausted):
        while True:
            yield value.resume()


def _namespace(interp: Interpreter, keywords: dict[str, Value], node: ast.expr) -> Instance:
    """An object with nothing but the attributes that it is given."""
    written = ast.ClassDef("SimpleNamespace", [], [], [], [])
    ast.copy_location(written, node)
    names = {
        name: interp.slot(value, name, python_calls.written_keyword(node, name)) for name, value in keywords.items()
    }
    return Instance(Class("SimpleNamespace", [], {}, written, interp.source), names, whole=True)


_READING = frozenset(
    ("builtins.open", "torch.load", "torch.jit.load", "numpy.load", "numpy.loadtxt", "pandas.read_csv")
)
"""Functions that may find no file."""

_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "pow": "**", "matmul": "@", "iadd": "+", "iconcat": "+"
}  # fmt: skip
_MAKERS = {"methodcaller": "lambda given: given.{}()", "attrgetter": "lambda given: given.{}"}


def _of_operators(interp: Interpreter, name: str, args: list[Value], node: ast.expr) -> Value:
    """``operator.add(a, b)`` is ``a + b``; what ``operator.itemgetter(0)`` gives is a function of its own."""
    if name in _OPERATORS and len(args) == 2 and not (name.startswith("i") and isinstance(args[0], TensorRef)):
        return interp.call(
            _written_out(interp, f"lambda one, other: one {_OPERATORS[name]} other", node), args, {}, node
        )
    if name in _MAKERS and len(args) == 1 and isinstance(args[0], str):
        return _written_out(interp, _MAKERS[name].format(args[0]), node)
    if name == "itemgetter" and len(args) == 1 and isinstance(args[0], (int, str)):
        return _written_out(interp, f"lambda given: given[{args[0]!r}]", node)
    return None


def _written_out(interp: Interpreter, text: str, node: ast.expr) -> Function:
    """A function of the standard library, as it would be written where it is used."""
    written = ast.parse(text, mode="eval").body
    for part in ast.walk(written):
        ast.copy_location(part, node)
    assert isinstance(written, ast.Lambda)
    return Function(written, interp.source, interp.globals, [], {}, "")


def _mapped(interp: Interpreter, function: Value, tree: Value, node: ast.expr) -> Value:
    """The same containers with *function* applied to all that is in them."""
    match tree:
        case Sequence():
            slots = [Binding(_mapped(interp, function, interp.read(slot, tree), node)) for slot in tree.items]
            return Sequence(tree.kind, slots, tree.more, limit=tree.limit, fields=tree.fields)
        case Mapping():
            items = {
                key: Binding(_mapped(interp, function, interp.read(slot, tree), node))
                for key, slot in tree.items.items()
            }
            return Mapping(items, tree.more, default=tree.default)
    return interp.call(function, [tree], {}, node)


def _forget_state(interp: Interpreter, value: Value, seen: set[int]) -> None:
    """What a function that was not read has done to an object it was given: its state may have been reset."""
    if not isinstance(value, (Instance, TorchModule)) or id(value) in seen:
        return
    seen.add(id(value))
    names: dict[Any, Binding] = value.names if isinstance(value, Instance) else value.children
    for name, slot in names.items():
        if isinstance(slot.value, (Instance, TorchModule)):
            _forget_state(interp, slot.value, seen)
        elif any(tensor.cell.node is not None and tensor.cell.leaf is None for tensor in interp.tensors(slot.value)):
            names[name] = Binding(interp.fresh_symbol("state", str(name)))


def _call_torch(
    interp: Interpreter, path: str, last: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    args = [class_lookup.opened(arg) for arg in args]
    mode = tensor_calls.grad_mode(last, [*args, *keywords.values()])
    if mode is not None:
        if len(args) == 1 and isinstance(args[0], Function) and mode.enabled is not None:
            args[0].grad_mode = mode.enabled
            return args[0]
        if last == "set_grad_enabled":
            interp.set_grad(mode.enabled is not False, interp.site(node))
        return mode
    if last == "is_grad_enabled":
        return interp.grad
    if path in ("torch.autograd.backward", "torch.autograd.grad"):
        return _call_autograd(interp, last, args, keywords, node)
    if last == "functional_call" and len(args) > 2 and _are_its_own(interp, args[0], args[1]):
        given = (
            args[2]
            if isinstance(args[2], Sequence) and args[2].kind == "tuple"
            else Sequence("tuple", [Binding(args[2])])
        )
        return interp.call(args[0], [interp.read(slot, given) for slot in given.items], {}, node)
    if last == "Variable":
        return _variable(interp, args, keywords, node)
    if last in ("Parameter", "UninitializedParameter"):
        source = args[0] if args else keywords.get("data")
        scalar = source.cell.scalar if isinstance(source, TensorRef) else None
        tensor = interp.parameter("Parameter", node, cell=TensorImpl(scalar=scalar, on_cpu=interp.on_cpu(source)))
        if keywords.get("requires_grad", args[1] if len(args) > 1 else True) is False and tensor.cell.leaf is not None:
            tensor.cell.leaf.frozen = True
        return tensor
    if path.startswith("torch.optim.") and "lr_scheduler" not in path and "swa_utils" not in path:
        return optimizers.make(interp, last, args, keywords, node)
    if path.startswith(("torch.nn.utils.rnn.", "torch.nn.functional.", "torch.nn.init")):
        if last == "normalize":
            return tensor_calls.operate(interp, "normalize", args, keywords, node)
        if path.startswith("torch.nn.init"):
            return _initialised(interp, args, node)
        if not _is_in_place(last, args):
            return tensor_calls.operate(interp, last, args, keywords, node)
    if path.startswith("torch.nn.utils."):
        return interp.fresh_symbol(last) if "clip" in last else (args[0] if args else None)
    if path.startswith("torch.nn.") and last[:1].isupper():
        if last in unknown_calls.PASSED_THROUGH and args:
            return args[0]
        return module_calls.make_module(interp, last, args, keywords, node)
    if last == "checkpoint" and args:
        return _checkpointed(interp, args, keywords, node)
    if last in unknown_calls.PASSED_THROUGH and args:
        return args[0]
    if path.startswith("torch.utils.data"):
        return datasets.make(interp, last, args, keywords, node)
    if path == "torch.device" and args and isinstance(args[0], str):
        return interp.fresh_symbol(path, args[0])
    if path.startswith(
        (
            "torch.multiprocessing",
            "torch.cuda",
            "torch.backends",
            "torch.distributed",
            "torch.device",
        )
    ):
        return interp.fresh_symbol(path)
    if last == "is_tensor" and args:
        known = not isinstance(args[0], (Symbol, Method))
        known |= isinstance(args[0], Symbol) and attributes.is_number(args[0].key)
        return isinstance(args[0], TensorRef) if known else interp.fresh_symbol("is_tensor")
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
    of_tensor = path.startswith("torch.Tensor.") or last in ("detach", "detach_") or _is_in_place(last, args)
    if args and isinstance(args[0], TensorRef) and of_tensor:
        return tensor_calls.call_tensor_method(interp, args[0], last, args[1:], keywords, node)
    if last in _CREATED:
        filled = keywords.get("out")
        if isinstance(filled, TensorRef):  # `torch.randn(8, out=noise)`
            interp.change(filled, node)
            return filled
        return _created(interp, last, args, keywords, node)
    if last in ("stack", "cat", "concat") and args and isinstance(args[0], Sequence):
        if not args[0].items and not args[0].more:
            interp.crash(f"{last} expects a list that is not empty")
    if path.count(".") <= 2 or is_operation(last):
        return tensor_calls.operate(interp, last, args, keywords, node)
    return interp.opaque(path, [*args, *keywords.values()], node, differentiable=True)


def _variable(interp: Interpreter, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """``Variable(x)``: the data of *x* without its graph; a new leaf where it is told to require grad.

    Source: ``torch.autograd.Variable`` in PyTorch 2.13, which shares storage and version with *x*.
    """
    if keywords.get("volatile") is True:
        interp.legacy["Variable(..., volatile=True)", interp.site(node).line] = interp.site(node)
    value = args[0] if args else keywords.get("data", interp.fresh_symbol("Variable"))
    wanted = keywords.get("requires_grad", args[1] if len(args) > 1 else False)
    if wanted is True:
        cell = (
            TensorImpl(storage=value.cell.storage, scalar=value.cell.scalar)
            if isinstance(value, TensorRef)
            else TensorImpl()
        )
        leaf = interp.parameter("tensor", node, cell=cell)
        if leaf.cell.leaf is not None:
            leaf.cell.leaf.copied = cuts.dropped(interp, [value], node, "variable")
        return leaf
    made = interp.detached(value, node, how="variable") if isinstance(value, TensorRef) else interp.data()
    made.cell.vague = made.cell.vague or wanted is not False
    return made


def _are_its_own(interp: Interpreter, module: Value, parameters: Value) -> bool:
    """Whether a module is called with the parameters that it has."""
    given = {id(tensor.cell.leaf) for tensor in interp.tensors(parameters)}
    return bool(given) and given <= {id(leaf) for leaf in interp.leaves_of(module)}


def _is_in_place(name: str, args: list[Value]) -> bool:
    """Whether a function of torch's changes its first argument: ``torch.relu_(x)``, ``F.elu_(x)``."""
    return name.endswith("_") and not name.startswith("_") and bool(args) and isinstance(args[0], TensorRef)


def _initialised(interp: Interpreter, args: list[Value], node: ast.expr) -> Value:
    """``torch.nn.init`` fills a tensor, whatever the grad mode."""
    if not args:
        return None
    if isinstance(args[0], TensorRef):
        with interp.grad_mode(False, interp.site(node)):
            interp.change(args[0], node)
    return args[0]


def _checkpointed(interp: Interpreter, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """``checkpoint(function, *inputs)``; a reentrant one records nothing where no input requires grad."""
    reentrant = keywords.get("use_reentrant") is True
    own = {key: value for key, value in keywords.items() if key not in _OF_CHECKPOINTS}
    made = interp.call(args[0], args[1:], own, node)
    sure = all(isinstance(value, TensorRef) and not value.cell.vague for value in args[1:])
    if not reentrant or not sure or not isinstance(made, TensorRef) or made.cell.node is None:
        return made
    if any(interp.operands(value) for value in args[1:]):
        return made
    return TensorRef(TensorImpl(detachment=cuts.dropped(interp, [made], node, "reentrant")))


_OF_CHECKPOINTS = frozenset("use_reentrant preserve_rng_state context_fn determinism_check debug early_stop".split())


def _created(interp: Interpreter, last: str, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
    """A new tensor of data; a leaf where ``requires_grad=True`` asks for it."""
    scalar = None
    if last in ("tensor", "as_tensor") and args and isinstance(args[0], (int, float)):
        scalar = True
    if last in ("zeros", "ones", "rand", "randn") and args and isinstance(args[0], Sequence) and not args[0].items:
        scalar = True
    if last == "as_tensor" and args and isinstance(args[0], TensorRef):
        return args[0]
    extent = extents.of_created(last, args, keywords)
    like = last.endswith("_like")
    on_cpu = interp.on_cpu(args[0]) if like and args else last != "load" and not interp.sources.sets_device
    on_cpu = on_cpu and keywords.get("device", "cpu") == "cpu"
    if keywords.get("requires_grad") is True:
        leaf = interp.parameter("tensor", node, cell=TensorImpl(scalar=scalar, extent=extent, on_cpu=on_cpu))
        return _copy(interp, leaf, args, node)
    made = interp.data(scalar=scalar)
    made.cell.detachment = cuts.dropped(interp, args, node, _how_copied(args)) if last in _COPIES else None
    made.cell.extent, made.cell.on_cpu = extent, on_cpu
    return made


def _how_copied(values: list[Value]) -> str:
    """``tensors`` for a list of some, ``tensors and numbers`` for one of both."""
    if not values or not isinstance(values[0], Sequence):
        return "tensor"
    pending: list[Value] = [values[0]]
    while pending:
        value = pending.pop()
        if isinstance(value, Sequence):
            pending += [slot.value for slot in value.items]
        elif isinstance(value, (int, float)):
            return TENSORS_AND_NUMBERS
    return "tensors"


def _copy(interp: Interpreter, made: TensorRef, values: list[Value], node: ast.expr) -> TensorRef:
    """A new leaf: where it is a copy of something that had a graph, it knows that."""
    if made.cell.leaf is not None:
        made.cell.leaf.copied = cuts.dropped(interp, values, node, _how_copied(values))
    return made


def _copied(value: Value) -> Value:
    """``copy.copy``: another container, or object, of the very same items."""
    if isinstance(value, (Sequence, Mapping)):
        return replace(value, items=value.items.copy())  # type: ignore[arg-type]
    assert isinstance(value, Instance)
    other = Instance(value.cls)
    other.names = dict(value.names)
    return other


def _deep_copy(interp: Interpreter, value: Value, node: ast.expr, known: dict[int, Value] | None = None) -> Value:
    """``copy.deepcopy``; *known* are the copies that were made, by the identity of what they are of."""
    known = {} if known is None else known
    if id(value) in known:
        return known[id(value)]

    def inner(slot: Binding, owner: Sequence | Mapping | None = None) -> Binding:
        return Binding(_deep_copy(interp, interp.read(slot, owner) if owner is not None else slot.value, node, known))

    match value:
        case TorchModule():
            leaf = interp.leaf(value.kind, node) if value.leaf is not None else None
            module = known[id(value)] = TorchModule(value.kind, leaf, {}, dict(value.options))
            for key, slot in value.children.items():
                if not isinstance(slot.value, TensorRef):
                    module.children[key] = inner(slot)
            return module
        case Instance():
            other = known[id(value)] = Instance(value.cls)
            for name, slot in value.names.items():
                if name != "_buffers":
                    other.names[name] = inner(slot)
            if "_buffers" in value.names:
                for name in class_lookup.registered(value):
                    class_lookup.registered(other).add(name)
            return other
        case Sequence():
            made = known[id(value)] = replace(value, items=[], kept=())
            made.items = [inner(slot, value) for slot in value.items]
            return made
        case Mapping() if type(value.items) is dict:
            mapping = known[id(value)] = replace(value, items={}, kept=())
            mapping.items = {key: inner(slot, value) for key, slot in value.items.items()}
            return mapping
        case TensorRef():
            if value.cell.leaf is not None and value.cell.node is value.cell.leaf.node:
                return interp.parameter("tensor", node)
            return interp.data(scalar=value.cell.scalar)
    return value


def _call_autograd(
    interp: Interpreter, last: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    roots = args[0] if args else keywords.get("tensors", keywords.get("outputs"))
    if last == "backward":
        if len(args) > 2:
            keywords = {**keywords, "retain_graph": args[2]}
        given = len(args) > 1 or "grad_tensors" in keywords
        tensor_calls.run_backward(interp, [roots], keywords, node, given=given)
        return None
    inputs = args[1] if len(args) > 1 else keywords.get("inputs")
    rest = {name: value for name, value in keywords.items() if name != "inputs"}
    given = len(args) > 2 or "grad_outputs" in keywords
    tensor_calls.run_backward(interp, [roots], rest, node, accumulate=False, inputs=inputs, given=given)
    if not keywords.keys() & {"allow_unused", "materialize_grads"} and len(args) < 6:
        cuts.part_beside(interp, [roots], inputs, node)
    count = len(inputs.items) if isinstance(inputs, Sequence) else 1
    create = keywords.get("create_graph")
    if create not in (None, False):
        made = interp.operation("grad", [roots], node, opaque=True)
        if made.cell.node is not None:
            made.cell.node.opaque = False
            made.cell.node.doubtful = create is not True
        results: list[Value] = [made] * count
    else:
        results = [interp.data() for _ in range(count)]
        for result in results:
            result.cell.detachment = cuts.dropped(interp, [roots], node, "grad")
    return Sequence(
        "tuple", [Binding(result) for result in results], more=not isinstance(inputs, (Sequence, TensorRef))
    )
