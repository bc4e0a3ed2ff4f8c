"""Parts of facts that checks and rules look into: forms of values, the statements that carry them, dropped graphs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autofix.codemods.facts.base import Span

CACHES = frozenset(("cached_property", "lru_cache", "cache"))
"""Decorators of ``functools`` that keep what a function returns."""


class Form(StrEnum):
    """The shape of a value that a statement carries on, as far as a rewrite must know it."""

    TENSOR = "tensor"
    TUPLE = "tuple"  # of tensors: an LSTM's state
    LIST = "list"  # of tensors: a state per layer
    DICT = "dict"  # of tensors
    NESTED = "nested"  # a list of such tuples: a state per layer
    RECORD = "record"  # a named tuple of tensors
    UNKNOWN = "unknown"  # a tensor or a tuple of tensors
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Carrier:
    """A statement through which a value went on its way from where it was made to where it was used."""

    statement: Span
    expression: Span | None
    """The value's own expression, where it has one: the argument of an ``append``."""
    name: str
    """Source text of the place: ``temp``, ``self.hidden``, ``cache[key]``."""
    form: Form
    items: bool = False
    """Whether the name is that of a container, of which only an item was set."""
    whole: str = ""
    """Statements that make a value whose form has no name one without graphs, with ``$x`` for its name."""


@dataclass(frozen=True, slots=True)
class Outer:
    """Roles of a fact as seen by the function in which the failing backward stands: there ``D(fake)`` is one place."""

    made: Span
    used: Span
    walked: Span | None
    walked_by: Span | None = None
    """The place that the freeing pass came through, as seen by the function in which this pass stands."""
    enters: tuple[bool, bool] = (False, False)
    """Whether the value enters a network there: by its use, and by the operation that the freeing pass came through."""
    mixed: bool = False
    """Whether the value is combined, element by element, with another that has a graph of its own."""
    passes: tuple[Span, Span] | None = None
    """Places at which the ways to two passes part, if one function makes both: the innermost calls that differ.

    For an overwritten tensor, the ways to the change and to the pass, if other functions make them.
    """
    wanted: tuple[bool, bool] = (False, False)
    """Whether a step uses the gradients that the freeing and the failing pass send through the value, beside those that
    they send to the same parameters on other ways.
    """
    wanted_behind: tuple[bool, bool] = (False, False)
    """``wanted``, of the parameters behind the call that made the value."""
    incidental: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Names of parameters that the freeing and the failing pass reach through the value, but are not made for."""
    weights: tuple[tuple[Span, ...], tuple[Span, ...]] = ((), ())
    """The factors by which the freeing and the failing pass weigh log-likelihoods with the value, its only use."""
    weighed: tuple[str, ...] = ()
    """The parameters that such a pass reaches through the value, by their names."""
    crossed: bool = False
    """Whether the failing pass also goes on through the network that made the value, to others that a step trains."""
    wanted_itself: bool = False
    """``wanted``, by the failing pass, of the parameters of the call that made the value: of a critic, by its loss."""


@dataclass(frozen=True, slots=True)
class Severed:
    """Parameters that one of two passes over a shared value misses, because the value was made of a detached one."""

    cut: Span
    """The detached value: ``fake.detach()``."""
    first: bool
    """Whether the first pass misses them, which frees the graph or keeps it for the other; else the pass that fails."""
    wanted: tuple[str, ...]
    """The stepped parameters from which the detached value was computed."""


TENSORS_AND_NUMBERS = "tensors and numbers"
"""Kind of drop: a copy of a display of both."""


ARRAY_OF_SEVERAL = "array of several"
"""Kind of drop: a call of a function of NumPy with tensors in a list."""


@dataclass(frozen=True, slots=True)
class Drop:
    """One place where a value lost its graph, and how: ``item``, ``tensor``, ``no_grad`` and so on."""

    span: Span
    how: str
