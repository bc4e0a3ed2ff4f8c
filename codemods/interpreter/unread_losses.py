"""Losses that code which was not read has computed, and that the program sends backward all the same.

``loss = self.criterion(output, target)`` of a trainer whose base was not read is an unknown value.  A pass from it does
not fail, so that it has a graph, whoever made it: the run notes at the pass which call gave it, and the next run takes
the result of that call for a tensor with a graph.  Nothing is concluded about what the call was given.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from autofix.codemods.autograd import catalogue
from autofix.codemods.autograd.graph import Leaf
from autofix.codemods.interpreter import cuts
from autofix.codemods.interpreter.values import Binding, Symbol, TensorRef, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_DEPTH = 12
"""Steps from an unknown value to the call that it comes from."""
_NONE = ("NoneType", None)
"""The key of ``None``, with which nobody computes."""
_OF_NUMBERS = frozenset("math statistics random time numpy".split())
"""Modules whose functions give no tensors."""
WHOLE = None
"""What is sent backward is the result itself, and no part of it."""

Parts = dict[ast.expr, set[Hashable]]
"""Calls, and what of their results was sent backward: ``WHOLE``, or the kind and the key of a part."""


class Result(NamedTuple):
    """The call that gave an unknown value."""

    node: ast.expr
    made_of: tuple[Hashable, ...]
    """The keys of the values that the result is made of, where the call is an operation: ``loss.mean()``."""


def note_sent(interp: Interpreter, loss: Value) -> None:
    """A pass is sent from *loss*: if that is unknown, note the call that gave it, or of whose result it is a part.

    Of several calls nobody knows which of the results has the graph, and which are masks, weights or targets.
    """
    if not isinstance(loss, Symbol) or loss.detachment is not None:
        return
    found = set(_calls_behind(interp, loss.key, WHOLE, _DEPTH))
    if len({node for node, _ in found}) == 1:
        for node, part in found:
            if node is not None:
                interp.losses_of_calls.setdefault(node, set()).add(part)


def _calls_behind(
    interp: Interpreter, key: Hashable, part: Hashable, depth: int
) -> Iterator[tuple[ast.expr | None, Hashable]]:
    """The calls that a value with this *key* comes from, and which part of their results is sent backward.

    None stands for an operation of torch's on unknown values, each of which may have a graph.
    """
    key = interp.lengthened(key)
    made = interp.results.get(key)
    if not depth or not isinstance(key, tuple):
        return
    if made is not None:
        if not made.made_of:
            yield made.node, part
        for one in made.made_of:
            yield from _calls_behind(interp, one, WHOLE, depth - 1)
        return
    match key:
        case ("~", str(name), *_) if catalogue.is_operation(name):
            yield None, part
        case ("item" | "attr" as kind, owner, name) if part is WHOLE:  # the part of a part is in something else
            yield from _calls_behind(interp, owner, (kind, name), depth - 1)
        case ("div", loss, by):
            found = list(_calls_behind(interp, loss, WHOLE, depth - 1))
            yield from found
            if found:  # a loss is divided by a number, and not a number by a loss
                yield from _calls_behind(interp, by, WHOLE, depth - 1)
        case ("add" | "sub" | "mul" | "neg" | "plus", *terms) if _NONE not in terms:
            for term in terms:
                yield from _calls_behind(interp, term, WHOLE, depth - 1)


def _made_of(label: Hashable, values: Sequence[Value]) -> tuple[Hashable, ...]:
    """The keys of what an operation makes its result of: ``loss.mean()``, ``scaler.scale(loss)``."""
    match label:
        case ("method", _, "scale"):
            return tuple(value.key for value in values if isinstance(value, Symbol))
        case ("method", owner, str(name)) if catalogue.is_method(name) or name in catalogue.of_tensors():
            return (owner,)
    return ()


def are_behind(interp: Interpreter, roots: Iterable[Value]) -> bool:
    """Whether results of unread code are behind *roots*, of which the pass itself says that they are scalars."""
    supposed = set(interp.leaves_of_calls.values())
    return bool(supposed) and not supposed.isdisjoint(cuts.leaves_in(roots))


def leaf_of(interp: Interpreter, node: ast.expr) -> Leaf | None:
    """The leaf that stands for the parameters of a call whose result is sent backward; None for other calls."""
    if not interp.grad or WHOLE not in interp.losses_of_calls.get(node, ()):
        return None
    return _leaf(interp, node)


def note_result(interp: Interpreter, found: Symbol, label: Hashable, values: Sequence[Value], node: ast.expr) -> None:
    """Note the call that gave an unknown value, *found*, and give it those parts that are sent backward.

    ``loss, stats = self.loss(batch)``: of what comes beside the loss nothing is known.
    """
    if isinstance(label, str) and label.partition(".")[0] in _OF_NUMBERS:
        return
    interp.results[found.key] = Result(node, _made_of(label, values))
    for part in interp.losses_of_calls.get(node, ()) if interp.grad else ():
        match part:
            case ("attr", str(name)):
                interp.attributes_of_opaque[found.key, name] = Binding(_loss(interp, node, values))
            case ("item", index):
                interp.attributes_of_opaque[found.key, f"[{index!r}]"] = Binding(_loss(interp, node, values))


def _loss(interp: Interpreter, node: ast.expr, values: Sequence[Value]) -> TensorRef:
    return interp.operation("call", list(values), node, leaves=[_leaf(interp, node)], opaque=True)


def _leaf(interp: Interpreter, node: ast.expr) -> Leaf:
    known = interp.leaves_of_calls.get(node)
    if known is None:
        known = interp.leaves_of_calls[node] = interp.leaf("model", node)
        known.doubtful = True
    return known
