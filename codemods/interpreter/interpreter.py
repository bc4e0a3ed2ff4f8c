"""The state of one run over the program, and the few operations that everything else is made of."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from codemods.autograd.graph import Leaf, LoopPoint, Loops, Node, Operand, Saved, Storage, StoreEvent, Tape
from codemods.autograd.saves import gives_places, saves_of, variant
from codemods.facts import Form
from codemods.interpreter import (
    attributes,
    calls,
    comparisons,
    counters,
    cuts,
    errors,
    escapes,
    expressions,
    holding,
    statements,
)
from codemods.interpreter.datasets import Served
from codemods.interpreter.forms import form_of, whole_of
from codemods.interpreter.generators import Generator
from codemods.interpreter.loops import LazyStream
from codemods.interpreter.policy import BranchPolicy, is_short, varies
from codemods.interpreter.values import (
    Binding,
    Class,
    Function,
    Hook,
    Instance,
    Mapping,
    Method,
    Module,
    Partial,
    Scope,
    Sequence,
    Symbol,
    TensorImpl,
    TensorRef,
    TorchModule,
    Value,
    recent_stores,
)
from codemods.source.sources import Site, Source, Sources

STEPS = 150_000
"""Expressions and statements evaluated on one path before the run gives up."""
DEPTH = 24
"""Calls inside calls that are entered."""
_LONG = 1_000
"""Items of a container whose length is compared with a bound that is not known."""
_PACKING = ("PackedSequence", "pack_sequence", "pack_padded_sequence")


class GaveUp(Exception):
    """The program is too large for the budget of one run: nothing may be concluded from what was not reached."""


@dataclass
class Frame:
    """One call: the function it is in, its names, what it returned, and the generator that it runs as."""

    function: Function | None
    scope: Scope
    result: Value = None
    generator: Generator | None = None


def _mentions(key: Hashable, identities: set[int]) -> bool:
    """Whether a value was computed from one of these tensors, or from what they say of themselves."""
    if isinstance(key, tuple):
        return any(_mentions(part, identities) for part in key)
    return isinstance(key, int) and key in identities


def _common(value: Value) -> Value:
    """The one number that all items of a tuple are; other values are themselves."""
    if isinstance(value, Sequence) and value.items and not value.more:
        first = value.items[0].value
        if isinstance(first, int) and all(slot.value == first for slot in value.items):
            return first
    return value


Home = tuple[dict[str, Binding], str]
"""The names among which a number stands, and its own."""


class Interpreter:
    """Executes one program along one path.  See the package's docstring for the rules it follows."""

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
        self.awaited: tuple[errors.Wanted, ...] = ()
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

    def eval(self, node: ast.expr) -> Value:
        self._steps -= 1
        if self._steps < 0:
            raise GaveUp
        return expressions.EVALUATE[type(node)](self, node)

    def run(self, body: Iterable[ast.stmt]) -> str:
        """Execute statements; returns how they ended: nothing, ``break``, ``continue``, ``return`` or ``raise``."""
        for statement in body:
            self._steps -= 1
            if self._steps < 0:
                raise GaveUp
            self.statement = Site(self.source, statement)
            self.executed.add(statement)
            signal = statements.EXECUTE[type(statement)](self, statement)
            if signal:
                return signal
        return ""

    def module(self, source: Source) -> Module:
        """The module of another file of the program; run now, where this is its first import."""
        known = self.modules.get(source.path)
        if known is not None:
            return known
        module = self.modules[source.path] = Module(source, Scope({"__name__": Binding("module")}))
        here = self.scope, self.source, self.statement, self.stack, self.loops
        self.scope, self.source, self.stack, self.loops = module.scope, source, (), ()
        try:
            self.run(source.tree.body)
        finally:
            self.scope, self.source, self.statement, self.stack, self.loops = here
        return module

    def close(self) -> None:
        """End what still waits to be resumed."""
        for generator in self.generators:
            generator.abandon()

    def call(self, function: Value, args: list[Value], keywords: dict[str, Value], node: ast.expr) -> Value:
        return calls.call(self, function, args, keywords, node)

    def cached_attribute(self, function: Function, receiver: Instance, node: ast.expr) -> Value:
        return calls.cached_attribute(self, function, receiver, node)

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

    # Places

    def kept(self, value: Value, name: str, expression: ast.expr | None, owner: Value = None) -> StoreEvent | None:
        """The record that the current statement carries *value* on; None where it carries no graph."""
        if isinstance(value, TensorRef):
            if value.cell.node is None:
                return None
        elif not isinstance(value, (Sequence, Mapping)) and not (isinstance(value, Instance) and value.whole):
            return None
        form = form_of(value)
        whole = whole_of(value) if form is Form.OTHER else ""
        if isinstance(value, Instance) and not whole:
            return None
        site = self.site(expression) if expression is not None else None
        return StoreEvent(self.statement, site, name, form, self.loops, self.tape.tick(), owner, whole=whole)

    def slot(self, value: Value, name: str, expression: ast.expr | None, owner: Value = None) -> Binding:
        self.activity += 1
        kept = self.kept(value, name, expression, owner)
        if isinstance(value, (Sequence, Mapping, Instance)) and kept is not None:
            value.kept = recent_stores((*value.kept, kept))
            return Binding(value)
        return Binding(value, kept)

    def read(self, slot: Binding, container: Sequence | Mapping | Instance | None = None) -> Value:
        value = slot.value
        if isinstance(value, TensorRef) and value.cell.node is not None:
            value = value.through(slot.kept)
            for kept in value.cell.written:
                value = value.through(kept)
            for kept in container.kept if container is not None else ():
                value = value.through(kept)
        elif isinstance(value, (Sequence, Mapping)) and container is not None:
            # What carried a list of tuples on carried each of the tuples on.
            value.kept = recent_stores((*value.kept, *(kept for kept in container.kept if kept not in value.kept)))
        return value

    # Tensors

    def tensors(self, *values: Value) -> Iterator[TensorRef]:
        """The tensors in values, containers opened."""
        stack = list(reversed(values))
        seen: set[int] = set()
        while stack:
            value = stack.pop()
            if isinstance(value, TensorRef):
                yield value
            elif isinstance(value, (Sequence, Mapping)) and id(value) not in seen:
                seen.add(id(value))
                slots = value.items if isinstance(value, Sequence) else value.items.values()
                stack.extend(reversed([self.read(slot, value) for slot in slots]))

    def operands(self, *values: Value) -> list[Operand]:
        """The graph edges that an operation on *values* lays: none outside grad mode."""
        if not self.grad:
            return []
        found = []
        for tensor in self.tensors(*values):
            node = tensor.cell.node
            if node is not None and not tensor.cell.frozen and not (node.leaf is not None and node.leaf.frozen):
                found.append(Operand(node, tensor.provenance))
        return found

    def on_cpu(self, *values: Value) -> bool:
        """Whether there are tensors in *values*, and all of them certainly are on the CPU."""
        found = [tensor.cell.on_cpu for tensor in self.tensors(*values)]
        return bool(found) and all(found)

    def data(self, *, scalar: bool | None = None) -> TensorRef:
        """A tensor without a graph."""
        return TensorRef(TensorImpl(scalar=scalar))

    def parameter(self, kind: str, node: ast.expr, *, cell: TensorImpl | None = None) -> TensorRef:
        """A new leaf that requires grad."""
        leaf = self.leaf(kind, node)
        if cell is None:
            cell = TensorImpl(storage=leaf.storage)
        else:
            leaf.storage = cell.storage
        cell.node = leaf.node
        cell.leaf = leaf
        return TensorRef(cell)

    def leaf(self, kind: str, node: ast.expr) -> Leaf:
        leaf = Leaf(f"{kind}:{next(self._leaves)}", Storage())
        leaf.node = Node("AccumulateGrad", self.site(node), (), self.loops, self.tape.tick(), saves=False, leaf=leaf)
        return leaf

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
        cell = TensorImpl(scalar=scalar)
        if view is not None:
            cell.storage = view.cell.storage
            cell.base = view.cell.base or view.cell
        cell.on_cpu = not (leaves or opaque) and self.on_cpu(*args)
        operands = self.operands(*args)
        self._note_waiting(args, leaves, node)
        if self.grad:
            operands += [Operand(leaf.node, ()) for leaf in leaves if leaf.node is not None and not leaf.frozen]
        if not operands:
            cuts.without_graph(self, cell, name, args, leaves, node)
            return TensorRef(cell)
        self.activity += 1
        saves, saved = self._saved(name, args, names, cell, opaque, inplace)
        saved += list(extra_saved)
        cuts.saves_inference(self, saved, node)
        missing, constants = cuts.missing(args)
        cell.node = Node(
            name,
            self.site(node),
            tuple(operands),
            self.loops,
            self.tape.tick(),
            saves=saves or bool(saved),
            saved=tuple(saved),
            opaque=opaque,
            scalar=scalar is True,
            stack=self.stack,
            missing=missing,
            constants=constants,
        )
        self.misses = self.misses or bool(cell.node.missing)
        return TensorRef(cell)

    def _note_waiting(self, args: list[Value], leaves: Collection[Leaf], node: ast.expr) -> None:
        """An operation reads parameters: note those of which a gradient waits for the step that uses it."""
        held = (value.cell.leaf for value in args if isinstance(value, TensorRef))
        for leaf in {*leaves, *(leaf for leaf in held if leaf is not None)}:
            if any((id(backward), leaf.name) not in self.tape.served for backward in leaf.grads):
                self.tape.waiting.add(
                    ((node.lineno + self.source.start, *(site.line for site in self.stack)), leaf.name)
                )

    def _saved(
        self, name: str, args: list[Value], names: tuple[str, ...], cell: TensorImpl, opaque: bool, inplace: bool
    ) -> tuple[bool, list[Saved]]:
        name = variant(name, [_common(value) for value in args], lambda value: isinstance(value, TensorRef))
        table = saves_of(f"{name}_" if inplace else name)
        if opaque or not table.known or gives_places(name, len(args)):
            return True, []
        by_name: dict[str, Value] = dict(zip(names or table.args, args, strict=False))
        wanted: set[str] = set()
        for argument, value in by_name.items():
            if self.operands(value):
                wanted.update(table.by_argument.get(argument, ()))
        saved: list[Saved] = []
        for argument in sorted(wanted):
            if argument == "result":
                saved.append(Saved(cell.storage, cell.storage.version))
            elif not (inplace and argument == next(iter(by_name))):  # of what it changes it saves a copy
                for tensor in self.tensors(by_name.get(argument)):
                    saved.append(Saved(tensor.cell.storage, tensor.cell.storage.version))
        return bool(wanted), saved

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
        values = list(args)
        holding.hands_over(self, label, values)
        if leaf is None and not differentiable:
            cuts.handed_over(self.tensors(*values))
        leaves = [leaf] if leaf is not None else []
        for value in values:
            leaves.extend(known for known in self.leaves_of(value))
        if self.operands(*values) or (leaf is not None and self.grad):
            made = self.operation("call", values, node, leaves=leaves, opaque=True, extra_saved=saved)
            if made.cell.node is not None:
                made.cell.node.doubtful = leaf is None and not differentiable
            return made
        return self.fresh_symbol("call", label)

    def detached(
        self, tensor: TensorRef, node: ast.expr, *, own_version: bool = False, how: str = "detach"
    ) -> TensorRef:
        """The same data without a graph: ``detach()``, or ``.data``, which counts its changes for itself."""
        cell = TensorImpl(storage=Storage() if own_version else tensor.cell.storage, scalar=tensor.cell.scalar)
        cell.extent = tensor.cell.extent
        cell.leaf = tensor.cell.leaf
        cell.on_cpu = tensor.cell.on_cpu
        cell.detachment = cuts.dropped(self, [tensor], node, "data" if own_version else how)
        made = tensor.cell.node
        if own_version and made is not None and made.doubtful and made.walked is None:
            cell.vague = True  # an object of its own, maybe: what it calls its data has a graph
        if own_version and made is not None and made.leaf is None and self._packs:
            cell.vague = True  # the data of packed sequences have their graph
        return TensorRef(cell)

    @cached_property
    def _packs(self) -> bool:
        """Whether the program packs sequences of several lengths."""
        return any(word in one.text for one in self.sources.all for word in _PACKING)

    def change(
        self,
        tensor: TensorRef,
        node: ast.expr | ast.stmt,
        origin: Site | None = None,
        operands: Iterable[Value] = (),
    ) -> None:
        """An in-place change of a tensor's data with *operands*, by a module that was made at *origin*."""
        self.activity += 1
        self.change_by_hand(tensor)
        if tensor.guessed:
            return
        made = tensor.cell.node
        part = tensor.cell.base is not None and made is not None and made.operation == "select"
        parameter = tensor.cell.leaf is not None
        self.tape.change(tensor.cell.storage, self.site(node), origin, part, self.stack, parameter)
        if self.grad and tensor.cell.sibling and made is not None and escapes.certainly_has_graph(tensor):
            source = made.operands[0].node if made.operands else made
            self.tape.parts_changed.setdefault(self.site(node), source.site)
        for cell in (tensor.cell, tensor.cell.base):
            leaf = cell.leaf if cell is not None and cell.node is not None and not cell.frozen else None
            if leaf is None or cell is None or cell.mixed:
                continue
            if self.grad and cell.node is leaf.node and not leaf.frozen:
                self.tape.leaf_changes[self.site(node)] = any(True for _ in self.tensors(*operands))

    def change_by_hand(self, tensor: TensorRef) -> None:
        """New data for a parameter that has a gradient: somebody trains by hand, and this is the step."""
        self.use_gradient(tensor.cell.leaf)

    def use_gradient(self, leaf: object) -> None:
        """The gradients that a parameter has serve somebody."""
        if isinstance(leaf, Leaf) and leaf.grads:
            self.tape.owned.add(leaf)
            self.tape.trained.update((backward.place, leaf.name) for backward in leaf.grads)
            self.tape.served.update((id(backward), leaf.name) for backward in leaf.grads)
            for backward in leaf.grads:  # what is done by hand between two passes is one step
                backward.steps.add(-self.tape.passes[-1].clock)

    def leaves_of(self, value: Value, seen: set[int] | None = None) -> Iterator[Leaf]:
        """The parameters that a module, a container or a tensor holds."""
        seen = set() if seen is None else seen
        if isinstance(value, (Instance, TorchModule, Sequence, Mapping)):
            if id(value) in seen:
                return
            seen.add(id(value))
        match value:
            case TorchModule():
                if value.leaf is not None:
                    yield value.leaf
                for slot in value.children.values():
                    yield from self.leaves_of(slot.value, seen)
            case Instance():
                for slot in value.names.values():
                    held = isinstance(slot.value, TensorRef) and slot.value.cell.leaf is not None
                    if held or isinstance(slot.value, (Instance, TorchModule, Symbol)):
                        yield from self.leaves_of(slot.value, seen)
            case Sequence():
                for slot in value.items:
                    yield from self.leaves_of(slot.value, seen)
            case Mapping():
                for slot in value.items.values():
                    yield from self.leaves_of(slot.value, seen)
            case TensorRef():
                if value.cell.node is not None and value.cell.node.leaf is not None:
                    yield value.cell.node.leaf
            case Symbol():
                if value.leaf is not None:
                    yield value.leaf
            case Method(name="parameters" | "named_parameters"):
                yield from self.leaves_of(value.receiver, seen)
            case Partial():
                yield from self.leaves_of(value.function, seen)

    # Control

    def truth(self, value: Value, *, likely: bool = True, optional: bool = False) -> bool:
        """Whether *value* is true on this path (see :meth:`BranchPolicy.decide`)."""
        value = self.settled(value)
        if isinstance(value, Instance) and value.items is not None:
            value = value.items
        if isinstance(value, Instance) and (asked := attributes.find(value, "__bool__")) is not None:
            value = self.call(attributes.bind(self, asked, value), [], {}, comparisons.NOWHERE)
        match value:
            case Symbol():
                answer = self._answer(value, likely, optional)
                self.goes_by_shape |= bool(self.measured) and _mentions(value.key, self.measured)
                self.note_length(value.key, answer)
                counters.note(self, value.key, answer)
                return answer
            case TensorRef():
                return self.policy.decide(self.truth_key(value), likely, optional=optional)
            case Sequence() | Mapping():
                return bool(value.items) or (value.more and self.policy.decide(("any", self.identity(value)), likely))
            case None | bool() | int() | float() | str() | bytes() | range():
                return bool(value)
        return True

    def truth_key(self, tensor: TensorRef) -> Hashable:
        """The key of a tensor's one element as a condition: another one once the tensor was changed."""
        return ("~", "truth", self.identity(tensor.cell), tensor.cell.storage.version)

    def consequence(self, condition: Symbol | TensorRef) -> bool | None:
        """Whether a condition holds for which a pass was run, or not run, on this path; None for any other."""
        key, wanted = self.truth_key(condition) if isinstance(condition, TensorRef) else condition.key, True
        while isinstance(key, tuple) and len(key) == 2 and key[0] == "not":
            key, wanted = key[1], not wanted
        answer = self.policy.consequence(key)
        return None if answer is None else answer is wanted

    def note_length(self, key: Hashable, answer: bool) -> None:
        """A container whose items are not all known was asked for its length: note how many it holds at least."""
        while isinstance(key, tuple) and len(key) == 2 and key[0] == "not":
            key, answer = key[1], not answer
        match key, answer:
            case ("Gt", ("len", which, *_), bound), True:
                more = 1
            case ("Lt", bound, ("len", which, *_)), True:
                more = 1
            case ("Lt", ("len", which, *_), bound), False:
                more = 0
            case ("Gt", bound, ("len", which, *_)), False:
                more = 0
            case _:
                return
        container = self.identified(which)
        if isinstance(container, Sequence):
            known = bound[1] if isinstance(bound, tuple) and bound[:1] == ("int",) else _LONG
            container.least = known + more if isinstance(known, int) else _LONG

    def _answer(self, value: Symbol, likely: bool, optional: bool) -> bool:
        """Whether an unknown value is true on this path."""
        if value.low is not None and value.low > 0:
            return True
        key = value.key
        if isinstance(key, tuple) and len(key) == 4 and key[0] == "remainder":
            # `if t % k` holds where `t % k == 0` does not.
            _, base, offset, modulus = key
            nought = ("residue", base, modulus, -offset % modulus)
            return not self.policy.decide(nought, not likely, optional=optional, prefer_false=True)
        while isinstance(key, tuple) and len(key) == 2 and key[0] == "not":
            return not self.policy.decide(key[1], not likely, optional=optional, prefer_false=True)
        return self.policy.decide(key, likely, optional=optional)

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

    @contextmanager
    def grad_mode(self, enabled: bool | None, guard: Site) -> Iterator[None]:
        """In a function or block, *guard*: grad mode as ``no_grad`` and its kin set it; None leaves it as it is."""
        if enabled is None:
            yield
            return
        before = self.grad, self.guard
        self.set_grad(enabled, guard)
        try:
            yield
        finally:
            self.grad, self.guard = before

    @contextmanager
    def perhaps_retaining(self, so: bool) -> Iterator[None]:
        """Run a branch; *so* says that the other one would keep the graph."""
        before, self.retaining = self.retaining, self.retaining or so
        try:
            yield
        finally:
            self.retaining = before

    def is_evaluating(self, node: Node) -> bool:
        """Whether every parameter under *node* belongs to a model that was told to evaluate."""
        leaves = cuts.leaves_under([node])
        return bool(leaves) and leaves <= self.evaluating

    def set_grad(self, enabled: bool, guard: Site) -> None:
        """From here on autograd records, or does not."""
        if self.grad and not enabled:
            self.guard = guard
        self.grad = enabled

    def assign(self, target: ast.expr, value: Value, expression: ast.expr | None) -> None:
        statements.assign(self, target, value, expression)

    def crash(self, reason: str, kind: str = "") -> None:
        """The program certainly fails here, by an error of a built-in *kind* that it may await."""
        if kind:
            errors.happen(self, kind)
        self.crashes.add(reason)
