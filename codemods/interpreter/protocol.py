"""The interpreter as its parts know it: the state of one run over the program, and the operations they ask of it."""

from __future__ import annotations

import ast
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.autograd.graph import Leaf, LoopPoint, Loops, Node, Operand, Saved, StoreEvent, Tape
from codemods.interpreter.policy import BranchPolicy, is_short, varies
from codemods.interpreter.values import (
    Binding,
    Class,
    Function,
    Hook,
    Instance,
    Mapping,
    Module,
    Scope,
    Sequence,
    Symbol,
    TensorImpl,
    TensorRef,
    Value,
)
from codemods.source.sources import Site, Source, Sources

if TYPE_CHECKING:
    from codemods.interpreter.datasets import Served
    from codemods.interpreter.generators import Generator
    from codemods.interpreter.loops import LazyStream


@dataclass
class Frame:
    """One call: the function it is in, its names, what it returned, and the generator that it runs as."""

    function: Function | None
    scope: Scope
    result: Value = None
    generator: Generator | None = None


STEPS = 150_000
"""Expressions and statements evaluated on one path before the run gives up."""

Home = tuple[dict[str, Binding], str]
"""The names among which a number stands, and its own."""


class Interpreter(ABC):
    """One run over the program along one path; ``interpreter`` composes it of its parts."""

    def __init__(self, sources: Sources, policy: BranchPolicy) -> None:
        self.sources = sources
        self.source = source = sources.main
        """The file whose code is being run."""
        self.policy = policy
        self.tape = Tape()
        self.grad = True
        self.misses = False
        """Whether a node was made of something that had lost its graph."""
        self.guard: Site | None = None
        self.ending: set[ast.If] = set()
        """Conditions that end a loop in its last iteration, which is being run."""
        self.defaults: dict[Hashable, Value] = {}
        """What arguments of the command line are where none is given, by the keys of their values."""
        self._settled: set[Hashable] = set()
        """The keys of those that have been taken to be so on this path."""
        self.executed: set[ast.stmt] = set()
        self.evaluating: set[Leaf] = set()
        """Parameters of models in evaluation mode."""
        """What turned grad mode off, where it is off."""
        self.loops: Loops = ()
        self.cut_short: dict[int, int] = {}
        """Instances of running loops that are past the first iteration and of which not all iterations will be run.

        Each with the time at which its present iteration began, as ``begun`` counts it.
        """
        self._begun: dict[tuple[int, str], int] = {}
        self.globals = Scope({})
        """The names of the script itself."""
        self.modules: dict[str, Module] = {}
        """The program's other files that were imported, by path."""
        self.scope = self.globals
        self.stack: tuple[Site, ...] = ()
        """The call expressions that led into the function being run."""
        self.frames: list[Frame] = [Frame(None, self.globals)]
        self.statement: Site = Site(source, ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0))
        self.crashes: set[str] = set()
        """Errors that the program certainly meets: a method of None, an undefined name."""
        self.legacy: dict[tuple[str, int], Site] = {}
        self.old_functions: dict[Site, Site] = {}
        """Calls of objects of autograd's ``Function``, and the ``forward`` that is a method there."""
        self.generators: list[Generator] = []
        self.streams: list[LazyStream] = []
        """Those of which ``next`` took an item, as often as it did."""
        self.hooks: list[Hook] = []
        """In the order in which they were registered."""
        self.backward_hooks: list[Hook] = []
        self.called: set[ast.AST] = set()
        self.star_imports = False
        self.activity = 0
        """Rises with everything that a later pass could notice: values stored, nodes made, tensors changed."""
        self.growing: list[Callable[[], None]] = []
        """What becomes uncertain where a loop's second iteration stands for any later one: counters, growing lists."""
        self.spans: list[int] = []
        """So many iterations of a loop show what happens every k-th time, or at numbers that are written down."""
        self.periods: list[int] = []
        """The k of these."""
        self.thresholds: list[tuple[str, int]] = []
        """Numbers with which counters that are known were compared, by the counters' names."""
        self.raised = False
        """Whether the function that was called last ended by an exception."""
        self.error: Value = None
        """The error, or its type, that was raised last; None where it is not known."""
        self.awaited: tuple[tuple[Value, ...], ...] = ()
        """The types of errors that the blocks handle in which the program is."""
        self.exited = False
        """Whether the program ended itself."""
        self.measured: set[int] = set()
        """Tensors of several elements that were asked for their shape, by identity."""
        self.goes_by_shape = False
        """Whether a condition depends on such a shape."""
        self.lengths: dict[int, int] = {}
        """How many iterations the runs of loops have that are run in full."""
        self.handed_out: dict[Hashable, int] = {}
        """Keys of the unknown values that loops hand out, each iteration another one, and the loops' runs."""
        self.taken: dict[tuple[int, int], dict[Hashable, Hashable]] = {}
        """What of a container one run of a loop took under such a value: container and run; value and item."""
        self.places: dict[int, dict[Hashable, tuple[Hashable, Hashable, int]]] = {}
        """Where containers of states hold what unknown keys stand for, in which iteration and after how many passes."""
        self.several_places = 0
        """Rises with each iteration that has several such keys."""
        self.making: list[Class | None] = []
        """Classes whose metaclasses are at work, the last innermost; None once ``type`` was asked for the class."""
        self.bounds: dict[Hashable, tuple[float, float]] = {}
        """Keys of counters, and between what they are by the conditions that held of them."""
        self.ways: dict[ast.AST, bool] = {}
        """Which way known conditions went last."""
        self.turns = 0
        """How often one of them went another way than the time before: what begins differently than it goes on."""
        self.retaining = False
        """Whether a branch is run that frees a graph which its other branch keeps: which comes when is not known."""
        self._unknowns: dict[Hashable, Symbol] = {}
        self._numbers: dict[Hashable, int] = {}
        self.spread: set[ast.expr] = set()
        """Calls that are given ``**`` of something unknown: any parameter may be among it."""
        self._identified: dict[int, object] = {}
        self.served: dict[Hashable, Served] = {}
        self.named: dict[Hashable, Value] = {}
        """Modules, by the keys of the unknown values that are names of their parameters."""
        """Datasets and loaders whose items have a graph, by the keys of their values."""
        self.attributes_of_opaque: dict[tuple[Hashable, str], Binding] = {}
        """Attributes set on values that have no names of their own."""
        self._fresh = itertools.count()
        self._leaves = itertools.count()
        self._steps = STEPS

    @property
    def steps_taken(self) -> int:
        return STEPS - self._steps

    def passed(self) -> None:
        """A backward pass was run: the answers given so far may matter."""
        self.activity += 1
        self.policy.matters = len(self.policy.asked)

    # Evaluation

    @abstractmethod
    def eval(self, node: ast.expr) -> Value:
        """The value of an expression."""

    @abstractmethod
    def run(self, body: Iterable[ast.stmt]) -> str:
        """Execute statements; returns how they ended: nothing, ``break``, ``continue``, ``return`` or ``raise``."""

    @abstractmethod
    def module(self, source: Source) -> Module:
        """The module of another file of the program; run now, where this is its first import."""

    @abstractmethod
    def close(self) -> None:
        """End what still waits to be resumed."""

    @abstractmethod
    def call(self, function: Value, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
        """The result of ``function(*args, **keywords)`` written at *node*."""

    @abstractmethod
    def attribute(self, value: Value, name: str, node: ast.expr) -> Value:
        """``value.name``."""

    @abstractmethod
    def item(self, value: Value, index: Value, node: ast.expr) -> Value:
        """``value[index]``."""

    @abstractmethod
    def cached_attribute(self, function: Function, receiver: Instance, node: ast.expr) -> Value:
        """The value of a ``cached_property``: an attribute of the object from the first time on."""

    @abstractmethod
    def assign(self, target: ast.expr, value: Value, expression: ast.expr | None) -> None:
        """Give *target* a value, for which *expression* is written."""

    @abstractmethod
    def crash(self, reason: str, kind: str = "") -> None:
        """The program certainly fails here, by an error of a built-in *kind* that it may await."""

    def site(self, node: ast.expr | ast.stmt) -> Site:
        return Site(self.source, node)

    # Names of unknown things

    def fresh_symbol(self, *label: Hashable) -> Symbol:
        """A value that is like no other.  Inside a loop it is another one in each iteration (see ``oracle.varies``)."""
        return Symbol(("~" if self.loops else "new", *label, next(self._fresh)))

    def symbol(self, key: Hashable) -> Symbol:
        """The value with this key: asked twice, the same object."""
        found = self._unknowns.get(key)
        if found is None:
            found = self._unknowns[key] = Symbol(key)
        return found

    def usual(self, value: Value) -> Value:
        """What *value* usually is, from now on also where it is compared; None where nothing or another is known."""
        if not isinstance(value, Symbol) or value.usual is None:
            return None
        if value.key not in self._settled:
            if self.policy.denied(("Eq", value.key, self.key(value.usual))):
                return None
            self._settled.add(value.key)
        return value.usual

    def settled(self, value: Value) -> Value:
        """*value*, or what it has been taken to be."""
        return value.usual if isinstance(value, Symbol) and value.key in self._settled else value

    def key(self, value: Value) -> Hashable:
        """What identifies a value in the keys of values computed from it."""
        if isinstance(value, Symbol):
            if value.short is None:
                value.short = value.key if is_short(value.key) else self._number(value.key)
            return value.short
        if isinstance(value, TensorRef):
            return ("tensor", self.identity(value.cell.itself), value.cell.storage.version)
        if isinstance(value, (Sequence, Mapping)):
            return ("container", self.identity(value), len(value.items))
        if value is None or isinstance(value, (str, bytes, int, float, complex, range)):
            return (type(value).__name__, value)
        return ("object", self.identity(value))

    def _number(self, key: Hashable) -> Hashable:
        """A number for a long key: one that is built of itself twice, again and again, would double each time."""
        return ("~" if varies(key) else "long", "key", self._numbers.setdefault(key, len(self._numbers)))

    def identity(self, thing: object) -> int:
        """The address of a value, which no other takes over as long as this interpreter runs: the value is kept."""
        self._identified[id(thing)] = thing
        return id(thing)

    def identified(self, identity: object) -> object:
        """What :meth:`identity` was asked for."""
        return self._identified.get(identity) if isinstance(identity, int) else None

    # Tensors and graphs

    @abstractmethod
    def kept(self, value: Value, name: str, expression: ast.expr | None, owner: Value = None) -> StoreEvent | None:
        """The record that the current statement carries *value* on; None where it carries no graph."""

    @abstractmethod
    def slot(self, value: Value, name: str, expression: ast.expr | None, owner: Value = None) -> Binding:
        """A binding of *value* by the current statement, which carries it on."""

    @abstractmethod
    def read(self, slot: Binding, container: Sequence | Mapping | Instance | None = None) -> Value:
        """The value in a slot, with the statements that carried it and its *container* on."""

    @abstractmethod
    def tensors(self, *values: Value) -> Iterator[TensorRef]:
        """The tensors in values, containers opened."""

    @abstractmethod
    def operands(self, *values: Value) -> list[Operand]:
        """The graph edges that an operation on *values* lays: none outside grad mode."""

    @abstractmethod
    def on_cpu(self, *values: Value) -> bool:
        """Whether there are tensors in *values*, and all of them certainly are on the CPU."""

    @abstractmethod
    def data(self, *, scalar: bool | None = None) -> TensorRef:
        """A tensor without a graph."""

    @abstractmethod
    def parameter(self, kind: str, node: ast.expr, *, cell: TensorImpl | None = None) -> TensorRef:
        """A new leaf that requires grad."""

    @abstractmethod
    def leaf(self, kind: str, node: ast.expr) -> Leaf:
        """The node and storage of a new parameter."""

    @abstractmethod
    def operation(
        self,
        name: str,
        args: list[Value],
        node: ast.expr,
        *,
        names: tuple[str, ...] = (),
        scalar: bool | None = None,
        view: TensorRef | None = None,
        leaves: Collection[Leaf] = (),
        opaque: bool = False,
        inplace: bool = False,
        extra_saved: Iterable[Saved] = (),
    ) -> TensorRef:
        """The result of a differentiable operation: a node if an argument has a graph, saving what the table says.

        ``names`` are the arguments' names where they are not given in the table's order.
        """

    @abstractmethod
    def opaque(
        self,
        label: Hashable,
        args: Iterable[Value],
        node: ast.expr,
        leaf: Leaf | None = None,
        *,
        differentiable: bool = False,
        saved: Iterable[Saved] = (),
    ) -> Value:
        """What a call returns whose source was not read: a tensor on the arguments' graphs, or something unknown.

        ``leaf`` stands for the parameters of a model that is called.  Without one the graph is doubtful, unless the
        call is known to be ``differentiable``.
        """

    @abstractmethod
    def detached(
        self, tensor: TensorRef, node: ast.expr, *, own_version: bool = False, how: str = "detach"
    ) -> TensorRef:
        """The same data without a graph: ``detach()``, or ``.data``, which counts its changes for itself."""

    @abstractmethod
    def change(
        self,
        tensor: TensorRef,
        node: ast.expr | ast.stmt,
        origin: Site | None = None,
        operands: Iterable[Value] = (),
    ) -> None:
        """An in-place change of a tensor's data with *operands*, by a module that was made at *origin*."""

    @abstractmethod
    def change_by_hand(self, tensor: TensorRef) -> None:
        """New data for a parameter that has a gradient: somebody trains by hand, and this is the step."""

    @abstractmethod
    def use_gradient(self, leaf: object) -> None:
        """The gradients that a parameter has serve somebody."""

    @abstractmethod
    def leaves_of(self, value: Value, seen: set[int] | None = None) -> Iterator[Leaf]:
        """The parameters that a module, a container or a tensor holds."""

    @abstractmethod
    @contextmanager
    def grad_mode(self, enabled: bool | None, guard: Site) -> Iterator[None]:
        """In a function or block, *guard*: grad mode as ``no_grad`` and its kin set it; None leaves it as it is."""

    @abstractmethod
    @contextmanager
    def perhaps_retaining(self, so: bool) -> Iterator[None]:
        """Run a branch; *so* says that the other one would keep the graph."""

    @abstractmethod
    def is_evaluating(self, node: Node) -> bool:
        """Whether every parameter under *node* belongs to a model that was told to evaluate."""

    @abstractmethod
    def set_grad(self, enabled: bool, guard: Site) -> None:
        """From here on autograd records, or does not."""

    # Control

    @abstractmethod
    def truth(self, value: Value, *, likely: bool = True, optional: bool = False) -> bool:
        """Whether *value* is true on this path (see :meth:`BranchPolicy.decide`)."""

    @abstractmethod
    def truth_key(self, tensor: TensorRef) -> Hashable:
        """The key of a tensor's one element as a condition: another one once the tensor was changed."""

    @abstractmethod
    def consequence(self, condition: Symbol | TensorRef) -> bool | None:
        """Whether a condition holds for which a pass was run, or not run, on this path; None for any other."""

    @abstractmethod
    def note_length(self, key: Hashable, answer: bool) -> None:
        """A container whose items are not all known was asked for its length: note how many it holds at least."""

    @contextmanager
    def iteration(self, statement: ast.stmt | ast.expr, instance: int, number: int, cut: bool) -> Iterator[None]:
        """One iteration of a loop."""
        self.loops = (*self.loops, LoopPoint(self.site(statement), instance, number))
        if cut and number > 0:
            self.cut_short[instance] = next(self._fresh)
        try:
            yield
        finally:
            # Not what it was before: a generator is resumed from elsewhere than it was called from.
            self.loops = self.loops[:-1]
            self.cut_short.pop(instance, None)

    def new_instance(self) -> int:
        return next(self._fresh)

    def begins(self, home: Home | None) -> None:
        """A number is set anew under a name."""
        if home is not None:
            self._begun[id(home[0]), home[1]] = next(self._fresh)

    def begun(self, home: Home | None) -> int:
        """When the number under a name was last set, and not only raised; 0 where that is not known."""
        return self._begun.get((id(home[0]), home[1]), 0) if home is not None else 0

    def widened(self, value: Value, node: ast.AST, since: int) -> Value:
        """A counter that is raised in a loop of which only some iterations run: from here on only a lower bound.

        One that was set *since* the present iteration began counts what this iteration does.
        """
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if any(since < began for began in self.cut_short.values()):
                return Symbol(("count", id(node), next(self._fresh)), low=value)
        return value

    def counts(self, home: Home | None, since: int, node: ast.AST) -> None:
        """The number under a name was just raised: in later iterations only its lower bound will be known."""
        if home is None:
            return
        names, name = home
        self._begun[id(names), name] = since

        def blur() -> None:
            slot = names.get(name)
            if slot is not None and isinstance(slot.value, (int, float)) and not isinstance(slot.value, bool):
                names[name] = Binding(Symbol(("count", id(node), next(self._fresh)), low=slot.value))

        if self.loops:
            self.growing.append(blur)

    def grows(self, container: Sequence) -> None:
        """An item was just added: in later iterations the container may hold more."""

        def blur() -> None:
            container.more = container.more or bool(container.items)

        if self.loops:
            self.growing.append(blur)

    def stand_for_later(self, since: int) -> None:
        """From here on the state stands for that of any later iteration of a loop in which ``growing[since:]`` grew."""
        for blur in self.growing[since:]:
            blur()
