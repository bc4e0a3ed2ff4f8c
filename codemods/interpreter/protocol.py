"""The interpreter as its parts know it: the state of one run over the program, and the operations they ask of it."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator
from contextlib import contextmanager

from autofix.codemods.autograd.graph import Leaf, LoopPoint, Node, Operand, Saved, StoreEvent
from autofix.codemods.interpreter.policy import BranchPolicy
from autofix.codemods.interpreter.state.exceptions import Exceptions
from autofix.codemods.interpreter.state.log import Log
from autofix.codemods.interpreter.state.loop_items import LoopItems
from autofix.codemods.interpreter.state.recording import Recording
from autofix.codemods.interpreter.state.symbols import Symbols
from autofix.codemods.interpreter.state.unrolling import Unrolling
from autofix.codemods.interpreter.state.widening import Widening
from autofix.codemods.interpreter.values import (
    Binding,
    Function,
    Instance,
    Mapping,
    Module,
    Sequence,
    Symbol,
    TensorImpl,
    TensorRef,
    Value,
)
from autofix.codemods.source.sources import Site, Source, Sources

STEPS = 150_000
"""Expressions and statements evaluated on one path before the run gives up."""
PASSES = 2_500
"""Backward passes run on one path before the run gives up: loops within loops run exponentially many."""


class Interpreter(Symbols, Recording, ABC):
    """One run over the program along one path: its state, and what its parts ask of each other.

    ``interpreter`` composes it of these parts.
    """

    def __init__(self, sources: Sources, policy: BranchPolicy) -> None:
        Symbols.__init__(self, sources, policy)
        Recording.__init__(self)
        self.exceptions = Exceptions()
        self.unrolling = Unrolling()
        self.loop_items = LoopItems()
        self.widening = Widening(self, self._fresh)
        self.log = Log()
        policy.place = self._place
        self._steps = self._begun = STEPS

    @property
    def steps_taken(self) -> int:
        """Number of expressions and statements evaluated in this run, without those of the run that it is a copy of."""
        return self._begun - self._steps

    @property
    def steps_copied(self) -> int:
        """Number of expressions and statements that the original run evaluated before it was copied."""
        return STEPS - self._begun

    def begin_again(self, policy: BranchPolicy) -> None:
        """Go on from the state of the copied run along the path of another *policy*."""
        policy.adopt(self.policy)
        self.policy = policy
        policy.place = self._place
        self._begun = self._steps
        self.identify_again()

    def _place(self) -> tuple[Hashable, bool]:
        """Place of execution: the statement, the calls that led there, and the loops past their first iteration.

        The iteration matters where a branch may make or use a graph: not for values, nor where none is recorded.
        """
        branches = self.grad and isinstance(self.statement.node, ast.If)
        loops = tuple(point.iteration > 0 for point in self.loops) if branches else ()
        return (self.statement.node, tuple(site.node for site in self.stack), loops), branches

    def passed(self) -> None:
        """A backward pass was run: the answers given so far may matter."""
        self.activity += 1
        self.policy.matters = len(self.policy.asked)
        if len(self.tape.passes) > PASSES:
            self._steps = 0  # the next step gives up

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
    def tensors(self, *values: Value) -> list[TensorRef]:
        """The tensors in values, containers opened."""

    @abstractmethod
    def operands(self, *values: Value) -> list[Operand]:
        """The graph edges that an operation on *values* lays: none outside grad mode."""

    @abstractmethod
    def renew(self, cell: TensorImpl) -> None:
        """Let a view read its base, which was changed in place since, as it is now."""

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
        layer: bool = False,
        saved: Iterable[Saved] = (),
    ) -> Value:
        """Result of a call whose source was not read: a tensor on the arguments' graphs, or an unknown value.

        ``leaf`` stands for the parameters of a model that is called.  The graph is doubtful, unless the call is known
        to be ``differentiable``.
        """

    @abstractmethod
    def detached(
        self, tensor: TensorRef, node: ast.expr, *, own_version: bool = False, how: str = "detach"
    ) -> TensorRef:
        """The data of *tensor* without a graph: ``detach()``, or ``.data``, which counts its changes for itself."""

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
    def change_by_hand(self, tensor: TensorRef, written: Collection[Value], *, scaled: bool = False) -> None:
        """New data for a parameter that has a gradient: somebody trains by hand, and this is the step.

        Not where what is *written* are numbers and other parameters' data, or the parameter is *scaled*.
        """

    @abstractmethod
    def use_gradient(self, leaf: object) -> None:
        """The gradients that a parameter has serve somebody."""

    @abstractmethod
    def leaves_of(self, value: Value, seen: set[int] | None = None) -> Iterator[Leaf]:
        """The parameters, and other tensors that require grad, that a module, a container or a tensor holds."""

    @abstractmethod
    def own_parameters(self, module: Value) -> Iterator[Leaf]:
        """The parameters of a module: no tensor that it only has as an attribute, although it requires grad."""

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
    def decide(self, value: Symbol | TensorRef, *, likely: bool, optional: bool) -> bool:
        """Whether a value is true on this path that only the path can tell."""

    @abstractmethod
    def usual_answer(self, key: Hashable) -> bool | None:
        """The answer to a condition by the defaults of options; None where they do not say."""

    @abstractmethod
    def usual_value(self, key: Hashable) -> Value:
        """The constant that a value is by a default, or is in any case; None for others."""

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
            self.widening.cut_short[instance] = next(self._fresh)
            self.widening.incomplete.add(instance)
        try:
            yield
        finally:
            # Not what it was before: a generator is resumed from elsewhere than it was called from.
            self.loops = self.loops[:-1]
            self.widening.cut_short.pop(instance, None)
