"""Values of a NumPy formula while it is read: their kind, and the edits that make tensors of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from enum import Enum, auto

import libcst as cst

Change = Callable[[cst.CSTNode], cst.CSTNode]


class Kind(Enum):
    ARRAY = auto()
    """An array of NumPy."""
    LIST = auto()
    """A list or tuple of arrays, or an empty one."""
    TUPLE = auto()
    """A tuple that a function returns, or an assignment takes apart."""
    NUMBER = auto()
    """A number, Python's or NumPy's, or None: torch computes with it."""
    SHAPE = auto()
    """A tuple of integers."""
    TENSOR = auto()
    OTHER = auto()


@dataclass(frozen=True)
class Value:
    """An expression's value."""

    kind: Kind = Kind.OTHER
    live: bool = False
    """Whether the patch makes a tensor of it."""
    fixed: bool = False
    """Whether it cannot be made a tensor of by changing what it is computed with."""
    needs: frozenset[Hashable] = frozenset()
    """The definitions (assignments, parameters, results) that must be tensors if this is to be one."""
    sources: frozenset[cst.CSTNode] = frozenset()
    """The places where tensors that had a graph became the arrays it is computed from."""
    items: tuple[Value, ...] = ()
    rank: int | None = None
    given: bool = False
    """Whether it is a tensor's own array."""
    truth: bool = False
    """Whether its elements are truth values."""
    whole: bool = False
    """Whether its elements are integers."""
    single: bool = False
    """Whether its elements are certainly of torch's usual type, float32."""
    loose: bool = False
    """Whether it may still be a plain number: a sum that has just begun."""
    edits: tuple[tuple[cst.CSTNode, Change], ...] = field(default=(), compare=False)
    """The edits of the source that make a tensor of it; applied when one is wanted."""
    node: cst.BaseExpression | None = field(default=None, compare=False)


NUMBER = Value(Kind.NUMBER)
SHAPE = Value(Kind.SHAPE)
TENSOR = Value(Kind.TENSOR)
OTHER = Value()


def joined(one: Value | None, other: Value | None) -> Value:
    """The value of an expression that is one or the other: only the knowledge common to both."""
    if one is None or other is None:
        return one or other or OTHER
    live, needs, sources = one.live or other.live, one.needs | other.needs, one.sources | other.sources
    kinds = {one.kind, other.kind}
    if kinds == {Kind.ARRAY, Kind.NUMBER}:
        array = one if one.kind is Kind.ARRAY else other
        return replace(array, loose=True)
    if len(kinds) > 1:
        return Value(live=live, fixed=True, needs=needs, sources=sources)
    if one.kind in (Kind.TUPLE, Kind.LIST):
        if one.kind is Kind.TUPLE and len(one.items) != len(other.items):
            return Value(live=live, fixed=True, needs=needs, sources=sources)
        longer = one.items if len(one.items) >= len(other.items) else other.items
        shorter = other.items if longer is one.items else one.items
        items = tuple(joined(item, shorter[at] if at < len(shorter) else None) for at, item in enumerate(longer))
        return Value(one.kind, live, one.fixed or other.fixed, needs, sources, items)
    return Value(
        one.kind,
        live,
        one.fixed or other.fixed,
        needs,
        sources,
        rank=one.rank if one.rank == other.rank else None,
        truth=one.truth and other.truth,
        whole=one.whole and other.whole,
        single=one.single and other.single,
        loose=one.loose or other.loose,
    )
