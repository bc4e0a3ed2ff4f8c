"""Incidents of a run that may be mistakes, beside those that a pass meets on the tape.

The interpreter notes them where they happen, and the checks say which of them are mistakes.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from autofix.codemods.autograd.graph import Detachment, Leaf, LoopPoint, Loops, Operand, StoreEvent
from autofix.codemods.facts.parts import Form
from autofix.codemods.source.sources import Site


class LeafChange(NamedTuple):
    """An in-place change of a parameter under grad mode."""

    leaf: Leaf
    mixed: bool
    """Whether a tensor is added or multiplied."""
    computed: bool
    """Whether that tensor has a graph that leads to other parameters, and not to this one, as a moving average has."""
    differentiable: bool = False
    """Whether that tensor is computed from a gradient that has a graph of its own, as in meta-learning."""
    total: bool = False
    """Whether losses are added up in it: it is a single number, and no parameter of a module."""
    unknown: bool = False
    """Whether what is added is not known, and may have been computed from parameters."""
    origin: Site | None = None
    """The place that made the module which changes it: ``nn.ReLU(inplace=True)``."""


class Computed(NamedTuple):
    """A non-leaf given to an optimizer: where it is computed, its name, and whether it is a non-leaf on a GPU only."""

    made: Site
    name: str
    on_gpu: bool = False


class BackwardWithoutGraph(NamedTuple):
    """A backward that was asked of a value which certainly lost its graph."""

    detachment: Detachment
    site: Site
    loops: Loops
    name: str
    """The user's text of the value."""
    copies: tuple[Leaf, ...] = ()
    """The fresh leaves that require grad and end the pass: then PyTorch raises nothing."""
    beside: bool = False
    """Whether it is a part of the value only: the pass has other ways to go, and raises nothing."""
    weighs: bool = False
    """Whether the part without a graph is no more than a factor of the others."""
    adds: bool = False
    """Whether it is a term of the value, which is a sum: a constant there has no effect on any gradient."""

    @property
    def silent(self) -> bool:
        return bool(self.copies) or self.beside


class BaseChange(NamedTuple):
    """The use of one of several views whose base was changed in place before, which ends the script."""

    made: Site
    """The call that made the views."""
    used: int
    """The clock at that use."""


class PartChange(NamedTuple):
    """An in-place change of a view that is one of several, that a backward hook watches, that was made without grad
    mode, or that an autograd Function returned; or any view is detached."""

    made: Site
    """The call that made the view."""
    origin: Site | None
    """Construction of the module that made the change."""
    hooked: bool = False
    detached: bool = False
    guard: Site | None = None
    """For a view that was made without grad mode: the place that turned recording off."""
    parameter: bool = False
    """Whether such a view is one of a leaf."""
    applied: bool = False
    """Whether an autograd Function of the program returned the view, or a reentrant checkpoint."""


class UnusedInput(NamedTuple):
    """A parameter of which a gradient is asked, and that the loss was not computed with."""

    cut: Site | None
    """The place at which it was detached from the loss."""
    chosen: bool
    """Whether the path went through conditions that are not known: another may use it."""
    own: bool
    """Whether it is a tensor by itself, and no parameter of a module."""
    name: str
    """Its name, where it has one of its own."""


class UnflaggedInputs(NamedTuple):
    """Tensors that do not require grad, and of which a gradient is asked."""

    inputs: tuple[Site, ...]
    """The expressions that are written for them."""
    chosen: bool
    """As for :class:`UnusedInput`."""


class Refused(NamedTuple):
    """A flag or a hook that a tensor does not take."""

    chosen: bool
    """Whether the path answered a question before, or begins in a function whose arguments are not known."""
    place: Site | None = None
    """The operation that made the tensor, or the place that had turned grad mode off."""
    data: bool = False
    """Whether the tensor is computed of nothing but data."""
    name: str = ""


class MissingGradient(NamedTuple):
    """The gradient of what is no leaf, which is None."""

    made: Site
    """The operation whose result it is asked of."""
    kept: Site | None
    """The expression whose value was assigned last, where it came through such a statement."""
    name: str
    """The user's text of the tensor."""
    statement: Site
    """The statement that asks for it."""


class GraphLeak(NamedTuple):
    """A tensor with a graph goes where none can."""

    where: str
    """``numpy``, ``copy``, ``process``, or the ``workers`` of a loader."""
    value: Site | None = None
    """The argument that has the graph."""
    form: Form = Form.TENSOR
    kept: tuple[StoreEvent, ...] = ()
    """The statements that put it into the object or the container that is copied."""
    path: str = ""
    """Its path in the object: ``.encoder.features``."""
    behind: tuple[Leaf, ...] = ()
    """For a value that a loader's workers send: the parameters that it was computed with."""


class RetainedGraph(NamedTuple):
    """A statement that keeps a graph in every iteration of a loop."""

    kept: StoreEvent
    point: LoopPoint
    """The loop, as it stood."""
    cells: tuple[Any, ...]
    """The kept tensors: a single one, or those in the kept container or object."""
    evaluates: bool = False
    """Whether all parameters under the graph belong to models in evaluation mode."""
    parts: tuple[StoreEvent | None, ...] = ()
    """For each tensor the statement that put it into the container or object, or handed it over."""
    handed: bool = False
    """Whether the parts are arguments of the call that led to the statement."""
    bounded: bool = False
    """Whether the number of kept values is limited: then only graphs that no pass has freed are too many."""
    mixed: bool = False
    """Whether each value is a dictionary of tensors and other things."""
    updated: Leaf | None = None
    """The frozen parameter into which the statement puts the graph."""
    begun: bool = False
    """Whether a change in place puts it into a tensor that had a graph before the loop."""
    place: tuple[Hashable, ...] | None = None
    """The keys of the part that grows of a state that is made anew in every iteration."""

    @property
    def part(self) -> Hashable:
        """The statement and the part of the state that it makes, as it is known where that part is given up."""
        return self.kept.statement.node, self.place


@dataclass(eq=False)
class Incidents:
    """What a run has met of each kind."""

    # Changes in place that PyTorch refuses

    leaf_changes: dict[Site, LeafChange] = field(default_factory=dict)
    """In-place changes of parameters under grad mode."""
    supposed_changes: set[Site] = field(default_factory=set)
    """The changes among them of tensors that are only supposed to be parameters."""
    thawed: set[Site] = field(default_factory=set)
    """Changes in place that gave frozen parameters a graph."""
    updates: dict[tuple[Any, Leaf], StoreEvent] = field(default_factory=dict)
    """Statements that write something with a graph into a frozen parameter of a layer, the first time that they did."""
    parts_changed: dict[Site, PartChange] = field(default_factory=dict)
    """In-place changes, under grad mode, of views that may not be changed."""
    bases_changed: dict[Site, BaseChange] = field(default_factory=dict)
    """In-place changes of a tensor one of whose several views is used afterwards, and the first such use."""
    unrecorded_read: dict[Site, tuple[Site, Site]] = field(default_factory=dict)
    """Operations that read a view made without grad mode after its base was changed: the view, and the change."""
    outs: set[Site] = field(default_factory=set)
    """Calls with ``out=`` on tensors that require grad."""
    inference: dict[Site, Site] = field(default_factory=dict)
    """Operations that saved a tensor made in inference mode, and the place that switched it on."""
    inference_changed: dict[Site, Site] = field(default_factory=dict)
    """In-place changes of tensors outside of the inference mode in which they were made, and where that was."""

    # Passes without a graph, or from no scalar

    cut: list[BackwardWithoutGraph] = field(default_factory=list)
    """Passes without a graph of which it is known where the graph was lost."""
    partial: list[BackwardWithoutGraph] = field(default_factory=list)
    """Passes that have a graph, though not that of one part of their loss."""
    unreduced: list[tuple[Any, Site, str, bool]] = field(default_factory=list)
    """Roots (tensors) that have several elements and were given no gradient, the passes, their names, and whether the
    gradient of data is asked for."""
    reduced: set[Site] = field(default_factory=set)
    """Passes that were sent from a scalar."""

    # Gradients that are missing or refused

    asked: dict[Site, Leaf] = field(default_factory=dict)
    """Statements that ask for the gradient of a leaf."""
    ungraded: dict[ast.expr, MissingGradient] = field(default_factory=dict)
    """Expressions whose last value was the gradient of what is no leaf."""
    missing: dict[Site, MissingGradient] = field(default_factory=dict)
    """Those among them of which a number was needed."""
    flags_refused: dict[Site, Site] = field(default_factory=dict)
    """Places that set ``requires_grad`` of what is no leaf to False, and the operations that made it."""
    leaves_refused: dict[Site, Refused] = field(default_factory=dict)
    """Places that set ``requires_grad`` of what is no leaf to True."""
    hooks: set[Site] = field(default_factory=set)
    """Calls that gave a hook to a tensor that may require grad."""
    hooks_refused: dict[Site, Refused] = field(default_factory=dict)
    """Calls that gave a hook to one that does not."""
    whole_flagged: dict[Site, Refused] = field(default_factory=dict)
    """Places that let whole numbers require grad."""
    refused: dict[Site, MissingGradient] = field(default_factory=dict)
    """Updates whose results are assigned to a parameter of a module, which takes parameters only."""
    beside: dict[Site, Site] = field(default_factory=dict)
    """Calls of ``autograd.grad`` for a part of a tensor that was not used, and where the part was taken."""
    unused: dict[tuple[Site, Site], UnusedInput] = field(default_factory=dict)
    """Calls of ``autograd.grad`` for parameters that the loss is not computed with, and where these were made."""
    unflagged: dict[Site, UnflaggedInputs] = field(default_factory=dict)
    """Calls of ``autograd.grad`` for the gradients of tensors that do not require grad."""
    computed: dict[tuple[Site, Site], Computed] = field(default_factory=dict)
    """Optimizers that are given a non-leaf, and the place at which this was made, with its name."""

    # Graphs that are kept or handed on

    holdings: list[RetainedGraph] = field(default_factory=list)
    handed: list[tuple[Operand, Loops]] = field(default_factory=list)
    """Values that were handed to code that is not read, and the loops that ran then."""
    emptied: set[Any] = field(default_factory=set)
    """Statements that keep values in a container that the very same loop empties, or stops from growing."""
    escapes: dict[Site, GraphLeak] = field(default_factory=dict)
    """By call, the tensors with a graph that were handed to code that can take none."""

    # Gradients that wait, fade, or come in another iteration

    waiting: set[tuple[tuple[int, ...], str]] = field(default_factory=set)
    """Places (line, and lines of the calls) that read a parameter whose gradient waited for a step, with its name."""
    faded: set[tuple[int, str]] = field(default_factory=set)
    """Lines of passes and names of leaves that only a closure's first evaluation gives a gradient."""
    reserves: set[str] = field(default_factory=set)
    """Names of leaves behind the substitute of a missing item, as in ``stored.get(key, self.blank)``: any iteration may
    ask for another missing item."""
