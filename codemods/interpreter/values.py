"""Symbolic values.  A known number, string, boolean or None stands for itself; everything else is one of these."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

from autofix.codemods.autograd.graph import Detachment, Leaf, Node, Storage, StoreEvent
from autofix.codemods.source.sources import Site, Source

Value = Any
"""A Python constant or one of the classes below."""

V = TypeVar("V")

NAMES_PER_VALUE = 9
"""Number of the last statements that carried a value on that are remembered."""


def recent_stores(carried: tuple[StoreEvent, ...]) -> tuple[StoreEvent, ...]:
    """The latest statements that carried a value on, at most ``NAMES_PER_VALUE``.

    Loops and comprehensions over a container under one name do not push out the statements that stored it.
    """
    while len(carried) > NAMES_PER_VALUE:
        names = [kept.name for kept in carried]
        again = (
            index for index, kept in enumerate(carried) if kept.expression is None and kept.name in names[index + 1 :]
        )
        index = next(again, 0)
        carried = (*carried[:index], *carried[index + 1 :])
    return carried


class BatchSize(IntEnum):
    """Certainty that a tensor has several elements."""

    UNKNOWN = 0
    UNREDUCED = 1
    """A loss that was told not to reduce: one element where there is one example."""
    LIKELY = 2
    """Padded sequences: nobody pads a single one, but who knows."""
    CERTAIN = 3
    """Also a loss that was told not to reduce, with weights that are tensors: nobody weights a single example."""


class Shape(NamedTuple):
    """The known part of a tensor's shape.

    With two dimensions or more it is the first of them that has several elements: a layer maps it row by row.
    """

    several: BatchSize = BatchSize.UNKNOWN
    dims: int = 0
    """Least number of dimensions."""
    each: bool = False
    """Whether it is a tuple of pieces, and this the extent of each of them."""
    inner: bool = False
    """Whether the dimension that has several elements may be another than the first."""


NOTHING = Shape()


class PartWritten(NamedTuple):
    """A change in place of a part of a tensor: where, and the tensor's node before and after it."""

    place: tuple[object, ...]
    before: Node
    after: Node


class UnrecordedView(NamedTuple):
    """The making of a view without grad mode."""

    made: Site
    guard: Site | None
    """The place that turned recording off."""


@dataclass(eq=False, slots=True)
class TensorImpl:
    """A tensor object: in-place operations change it for all its holders."""

    node: Node | None = None
    storage: Storage = field(default_factory=Storage)
    scalar: bool | None = None
    """Whether it has no dimensions; None where that is not known."""
    extent: Shape = NOTHING
    """Whether it has several elements."""
    rows: Shape = NOTHING
    """Extent of each of its items along the first dimension, where it was made of sizes that are written as numbers."""
    in_one_piece: bool = False
    """Whether it is a tuple of one view, of all rows: what ``x.split(4)`` gives for four rows."""
    length: int | None = None
    """Number of its items along the first dimension, where it was made of sizes that are written as numbers."""
    base: TensorImpl | None = None
    place: tuple[object, ...] = ()
    """For a view that an index takes of its base: the index; empty for others."""
    writes: list[PartWritten] = field(default_factory=list)
    """Changes of views of it, in their order."""
    leaf: Leaf | None = None
    """The parameter whose data this is, also through ``detach()`` and ``.data``."""
    part: bool = False
    """Whether it is one of the parameters of a module whose leaf stands for all of them."""
    frozen: bool = False
    """Whether ``requires_grad`` was taken from it, and not from the module's other parameters."""
    written: tuple[StoreEvent, ...] = ()
    """The last statement that wrote a value with a graph into it: ``bank[i] = z``."""
    unsure: bool = False
    """Whether it may as well be several tensors: a result of a model that was not read, or an input of one that nobody
    is seen to call."""
    named: bool = False
    """Whether it was asked for a part by a name: it is a record, as some models return, without ``detach``."""
    detachable: bool = False
    """Whether it was asked for ``detach``, as tensors are."""
    sibling: bool = False
    """Whether it is one of several views that one call made: ``chunk``, ``split``, ``unbind``."""
    hooked: bool = False
    """Whether it is a view that a module with a backward hook makes of its input, or of its output."""
    applied: Site | None = None
    """For a view that an autograd Function of the program returns, or a reentrant checkpoint, and for views of it: the
    call."""
    viewed: int = 0
    """For a view: the version of the storage when it was made."""
    unrecorded: UnrecordedView | None = None
    """For a view that was made without grad mode, or is taken of such a one: where that was."""
    covers: bool = False
    """For a view: whether it has all the elements of its base."""
    of: Node | None = None
    """For a view: its base's node when its own was laid."""
    detachment: Detachment | None = None
    """For a tensor without a graph: the lost one that it could have."""
    vague: bool = False
    """For a tensor without a graph: whether an unknown value entered it, so that it may have one."""
    loaded: bool = False
    """Whether it was read from a file, in which a tensor is saved with its ``requires_grad``."""
    mixed: bool = False
    """Whether an unknown value was written into it, so that it may be no leaf."""
    on_cpu: bool = False
    """Whether it certainly is on the CPU: it was made there, or computed of such ones."""
    on_gpu: bool = False
    """Whether it was moved to a GPU: moved there once more, it is the same."""
    dense: bool = True
    """Whether it certainly is contiguous (see ``autograd.layout``)."""
    dense_from: int | None = None
    """The first of its dimensions that, with all behind it, lie one after the other; None where that is not known."""
    order: int = 0
    """Whether its dimensions were reordered since its elements were laid out (see ``interpreter.reshaped``)."""
    rank: int | None = None
    """Number of its dimensions, where that is written."""
    has_ones: bool = False
    """Whether a dimension with a single element is written: ``randn(4, 1)``, ``unsqueeze``, ``keepdim=True``."""
    whole: bool = False
    """Whether its elements certainly are whole numbers or truth values (see ``interpreter.dtypes``)."""
    counted: int = -1
    """Number of dimensions, of a tensor that certainly holds whole numbers, and no truth values; -1 of others."""
    single: bool = False
    """Whether its elements certainly are floats of single precision (see ``interpreter.dtypes``)."""
    judged: bool = False
    """Whether it says something of tensors that have a graph, or had one: ``torch.isnan(loss)``."""
    usual: bool | None = None
    """What it says as a condition, where it is known what it usually says: numbers are finite."""
    constant: bool = False
    """Whether it has no graph and holds numbers that are written out, and what is computed of these alone."""
    handed: bool = False
    """Whether code that was not read was given it, and may have made it require grad."""

    @property
    def itself(self) -> object:
        """Object that identifies the tensor: for a parameter its leaf, be it taken from a model or an optimizer."""
        return self.leaf if self.leaf is not None and self.node is self.leaf.node else self

    @property
    def is_leaf(self) -> bool:
        """Whether it is a parameter to which no change in place has given a graph."""
        return self.leaf is not None and self.node is self.leaf.node and not (self.node and self.node.operands)


@dataclass(eq=False, slots=True)
class TensorRef:
    """A handle on a cell, and the statements through which this handle came."""

    cell: TensorImpl
    provenance: tuple[StoreEvent, ...] = ()
    guessed: bool = False
    """Whether it stands for an item of which only the container is known: it is not known to be changed."""
    moved: Site | None = None
    """The call by which it came to a GPU: it is another tensor there, computed from this one."""

    @property
    def node(self) -> Node | None:
        return self.cell.node

    def through(self, kept: StoreEvent | None) -> TensorRef:
        """A reference to this tensor, carried on by one more statement."""
        if kept is None or self.cell.node is None or (self.provenance and self.provenance[-1] is kept):
            return self
        return TensorRef(self.cell, recent_stores((*self.provenance, kept)), self.guessed, self.moved)


@dataclass(eq=False, slots=True)
class Symbol:
    """A value about which nothing is known but its identity: equal keys are equal values.

    ``low`` and ``high`` (inclusive) bound it where it is a number, for loop counters.  ``leaf`` is set once the program
    has treated the value as a model; ``leaves`` once it has treated it as an optimizer.
    """

    key: Hashable
    low: float | None = None
    high: float | None = None
    leaf: Leaf | None = None
    leaves: set[Leaf] | None = None
    detachment: Detachment | None = None
    """For a number, or an array of NumPy: the graph that it was taken out of."""
    usual: Value = None
    """Its value, a constant, if the script is started without arguments and a default gives one."""
    short: Hashable = None
    """Stand-in for the key in the keys of values computed from it, once it was asked for (see ``Symbols.key``)."""


@dataclass(eq=False, slots=True)
class Binding:
    """A place that holds a value, and the statement that put it there."""

    value: Value
    kept: StoreEvent | None = None


@dataclass(eq=False, slots=True)
class Sequence:
    """A list, tuple, set, frozenset or deque."""

    kind: str
    items: list[Binding] = field(default_factory=list)
    more: bool = False
    """Whether it may hold more than is known: it grew in a loop of which only the first iterations were run."""
    kept: tuple[StoreEvent, ...] = ()
    """The last statements that carried the container itself on."""
    limit: int | None = None
    length: Value = None
    """The ``maxlen`` of a deque, which may not be known."""
    fields: tuple[str, ...] = ()
    """Names of the items of a named tuple."""
    cls: Record | Class | None = None
    """The class of a named tuple, where the program has made it."""
    least: int = 0
    """Least number of items, by the last question about its length: ``if len(window) > 4``."""
    made_of: tuple[int, int] = (0, 0)
    """Of a comprehension that was not run in full: the number of items that are known, and that of all."""
    extended: tuple[Sequence, ...] = ()
    """The containers all of whose items it was made of: ``[*losses, loss]``, ``losses + [loss]``."""

    def loses_an_unknown_one(self) -> bool:
        """Whether the item at its head, which is about to be taken out, is an older one than those that are known."""
        held, self.least = self.least, 0
        return self.more and held > len(self.items)


@dataclass(eq=False, slots=True)
class Distribution(Sequence):
    """A distribution of ``torch.distributions``: its items are its parameters, by the names in ``fields``."""

    name: str = ""
    computed: dict[str, Binding] = field(default_factory=dict)
    """What was computed of them once and is kept, as ``logits`` are of ``probs``."""


@dataclass(eq=False, slots=True)
class Mapping:
    items: dict[Hashable, Binding] = field(default_factory=dict)
    more: bool = False
    kept: tuple[StoreEvent, ...] = ()
    default: Value = None
    """The factory of a ``defaultdict``."""
    cls: str = ""
    """The path of its class, where that is certain: ``builtins.dict``, ``collections.OrderedDict``."""
    of_callers: bool = False
    """Whether it is the ``**options`` of a function that no code calls that was read: a caller may give more."""


@dataclass(eq=False, slots=True)
class Chain:
    """A ``ChainMap``: the dictionaries that are looked through for a key, the first one first."""

    maps: list[Value]


QUEUE, STACK, VARIABLE, DISTRIBUTION = "queue", "stack", "variable", "distribution"
POOL, FUTURE = "pool", "future"
"""Kinds of sequences that are no containers to Python: a queue, in which the first in or the last in is the first out,
a context variable, which is the last item, a distribution with its parameters, a pool of threads, and what a call
returns that such a pool was given."""
ENCLOSED = frozenset((QUEUE, STACK, VARIABLE, DISTRIBUTION, POOL, FUTURE))


_CONTAINERS = (Sequence, Mapping)


def slots_of(container: Sequence | Mapping) -> Iterable[Binding]:
    """The slots of a container, without its keys."""
    return container.items if isinstance(container, Sequence) else container.items.values()


def opened(
    values: Iterable[Value],
    kinds: type[V] | tuple[type[V], ...],
    read: Callable[[Binding, Sequence | Mapping], Value],
) -> list[V]:
    """The values of some *kinds*, those in containers included; *read* gives the value in a container's slot."""
    found: list[V] = []
    seen: set[int] | None = None
    for given in values:
        if isinstance(given, kinds):
            found.append(given)
        elif isinstance(given, _CONTAINERS):
            seen = set() if seen is None else seen
            stack: list[Value] = [given]
            while stack:
                value = stack.pop()
                if isinstance(value, kinds):
                    found.append(value)
                elif isinstance(value, _CONTAINERS) and id(value) not in seen:
                    seen.add(id(value))
                    stack.extend(reversed([read(slot, value) for slot in slots_of(value)]))
    return found


@dataclass(eq=False, slots=True)
class Scope:
    """Names of a function call, a class body or a module."""

    names: dict[str, Binding]
    parent: Scope | None = None
    globals: Scope | None = None
    declared: dict[str, Scope] = field(default_factory=dict)
    """Names declared ``global`` or ``nonlocal``, and where they live."""
    comprehension: bool = False
    """Whether it is that of a comprehension, in which ``:=`` binds a name of the scope around it."""

    def lookup(self, name: str) -> Binding | None:
        """The binding of a name in this scope or around it; None where there is none."""
        scope: Scope | None = self
        while scope is not None:
            if scope.declared and name in scope.declared:
                return scope.declared[name].names.get(name)
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None


@dataclass(eq=False, slots=True)
class Function:
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    source: Source
    scope: Scope
    defaults: list[Value]
    keyword_defaults: dict[str, Value]
    name: str
    owner: Class | None = None
    grad_mode: bool | None = None
    """Grad mode that a ``no_grad``/``enable_grad`` decorator sets for the call."""
    managers: tuple[Value, ...] = ()
    """Context managers that decorate it, or functions that make them, the innermost first."""
    generator: bool = False
    flavour: str = ""
    """``staticmethod``, ``classmethod``, ``property`` or nothing."""
    cache: dict[Hashable, Binding] | None = None
    """For a function with a cache: its results so far, by the arguments."""
    cached_by: Site | None = None
    """The decorator that makes the cache."""
    setter: Function | None = None
    """For a property: the function that an assignment calls."""
    deleter: Function | None = None
    """For a property: the function that ``del`` calls."""
    statement: Site | None = None
    """For a lambda: the statement in which it is written."""

    @property
    def defaults_by_name(self) -> dict[str, Value]:
        """The defaults of the parameters that have one, by their names."""
        parameters = [one.arg for one in (*self.node.args.posonlyargs, *self.node.args.args)]
        return dict(zip(reversed(parameters), reversed(self.defaults), strict=False)) | self.keyword_defaults


@dataclass(eq=False, slots=True)
class Class:
    name: str
    bases: list[Value]
    names: dict[str, Binding]
    node: ast.ClassDef
    source: Source
    scope: Scope | None = None
    """The scope around its body."""
    members: dict[str, Instance] = field(default_factory=dict)
    """For an enumeration: its members by their names."""
    metaclass: Class | None = None
    """The program's own class that it is an object of."""
    lineage: list[Value] | None = None
    """The class and its bases in the order of lookup, once that was asked for."""
    registered: list[Value] = field(default_factory=list)
    """The abstract classes that were told that it is one of theirs: ``Base.register(State)``."""


@dataclass(eq=False, slots=True)
class Instance:
    cls: Class
    names: dict[str, Binding] = field(default_factory=dict)
    whole: bool = False
    """Whether its maker gave it all its parts, none of which was set since: a state that is made anew each time."""
    kept: tuple[StoreEvent, ...] = ()
    """The last statements that carried such an object on."""
    items: Sequence | Mapping | None = None
    """The items of an object whose class is derived from a list or a dictionary."""


class Registered(dict[str, Binding]):
    """The buffers of a module by their names: the object's own attributes of these names, to read and to write."""

    def __init__(self, owner: dict[str, Binding]) -> None:
        super().__init__()
        self._owner = owner

    def add(self, name: str) -> None:
        super().__setitem__(name, self._owner[name])

    def __getitem__(self, name: str) -> Binding:
        return self._owner[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self._owner.get(name, default) if name in self else default

    def __setitem__(self, name: str, slot: Binding) -> None:
        super().__setitem__(name, slot)
        if "_owner" in vars(self):  # not yet, while a copy is made
            self._owner[name] = slot

    def items(self) -> Any:
        return [(name, self._owner[name]) for name in self if name in self._owner]

    def values(self) -> Any:
        return [slot for _, slot in self.items()]


class Attributes(dict[Hashable, Binding]):
    """The attributes of an unknown *owner* by their names, as ``vars`` gives them: what is set here is set there."""

    def __init__(
        self, known: dict[Hashable, Binding], owner: Symbol, home: dict[tuple[Hashable, str], Binding]
    ) -> None:
        super().__init__(known)
        self.owner = owner
        self._home = home

    def __setitem__(self, name: Hashable, slot: Binding) -> None:
        super().__setitem__(name, slot)
        if "_home" in vars(self) and isinstance(name, str):  # not yet, while a copy is made
            self._home[self.owner.key, name] = slot


@dataclass(eq=False, slots=True)
class Bound:
    """A function and the object it was looked up on."""

    function: Function
    receiver: Value


@dataclass(eq=False, slots=True)
class Method:
    """A method of a value whose class is not in the program: a tensor's, a list's, a torch module's."""

    receiver: Value
    name: str
    node: ast.expr


@dataclass(eq=False, slots=True)
class Module:
    """A module of the program: its names, once its code has run."""

    source: Source
    scope: Scope


@dataclass(eq=False, slots=True)
class Name:
    """Something imported: ``torch.nn.functional.relu``, ``numpy``."""

    path: str

    @property
    def last(self) -> str:
        """Its own name: ``relu``."""
        return self.path.rpartition(".")[2]


@dataclass(eq=False, slots=True)
class Record:
    """The class that ``namedtuple("Name", fields)`` returns."""

    fields: tuple[str, ...]
    name: Value = None


@dataclass(eq=False, slots=True)
class Applied:
    """The ``apply`` of a ``torch.autograd.Function`` of the program."""

    function: Class


@dataclass(eq=False, slots=True)
class Super:
    instance: Value
    after: Class


@dataclass(eq=False, slots=True)
class Guarded:
    """A function that runs in a grad mode of its own: ``torch.no_grad()(model.encode)``."""

    function: Value
    enabled: bool


@dataclass(eq=False, slots=True)
class Partial:
    function: Value
    args: list[Value]
    keywords: dict[str, Value]
    method: bool = False
    """Whether it is a ``partialmethod``, which an object binds."""


@dataclass(eq=False, slots=True)
class TorchModule:
    """An instance of a class of ``torch.nn``."""

    kind: str
    leaf: Leaf | None = None
    children: dict[Hashable, Binding] = field(default_factory=dict)
    options: dict[str, Value] = field(default_factory=dict)
    site: Site | None = None
    """The place that made it, or made it work in place."""
    rest: tuple[Binding, ...] = ()
    """For a slice of unknown bounds: the modules that it may hold besides its children, and calls."""

    @property
    def cls(self) -> Name:
        """Its class."""
        return Name(f"torch.nn.{self.kind}")


@dataclass(eq=False, slots=True)
class Hook:
    """A function that a module calls around its ``forward``, and at the same time the handle that removes it."""

    module: Value
    function: Value
    before: bool
    """Whether it is called before the ``forward``, with its arguments."""


@dataclass(eq=False, slots=True)
class Exits:
    """A ``contextlib.ExitStack``."""

    pending: list[Value] = field(default_factory=list)
    """The callbacks to call and the context managers to leave, the last first."""


@dataclass(eq=False, slots=True)
class Optimizer:
    leaves: dict[Leaf, None]
    """The leaves in the order in which it was given them, so that a loop over them is always in one order."""
    kind: str = ""
    """The name of its class."""
    cells: list[TensorImpl] = field(default_factory=list)
    """Tensors that it was given and that did not require grad then."""
    before: list[Value] = field(default_factory=list)
    after: list[Value] = field(default_factory=list)
    """Functions that each step calls."""
    guessed: bool = False
    """Whether a call that was not read has made it, by what it was given: parameters and a learning rate."""


@dataclass(eq=False, slots=True)
class GradMode:
    """``torch.no_grad()`` and its kin, as context managers or decorators.  ``enabled`` None: no effect on grad mode."""

    enabled: bool | None
    before: list[bool] = field(default_factory=list)
    """Grad modes before each call of its ``__enter__`` that no ``__exit__`` has followed."""


class SavedTensorHooks:
    """A context manager whose block packs what operations save: ``save_on_cpu()``, ``saved_tensors_hooks(...)``."""


class CachedParametrizations:
    """``parametrize.cached()``, in whose block each parametrized tensor is computed once."""

    outer: dict[tuple[int, str], Binding] | None = None
    """What a block around it has computed."""


_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


def is_constant(value: Value) -> bool:
    return isinstance(value, _CONSTANTS)
