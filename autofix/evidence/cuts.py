"""Facts about a loss without a graph: which of the places that a run dropped graphs at is the one to change.

A run does not see where a number goes that was read from a tensor; so the drops are tried one by one, the latest first,
each alone and together with the calls that make a tensor of numbers again in the same function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from autofix.codemods.autograd import groups
from autofix.codemods.facts.base import Span
from autofix.codemods.facts.cut import CutGraph
from autofix.codemods.facts.parts import TENSORS_AND_NUMBERS
from autofix.codemods.facts.parts import Drop as Dropped
from autofix.evidence.places import Chain
from autofix.evidence.source import Text, Texts
from autofix.evidence.witness import Drop

MOST = 12
"""Facts for one failure."""
NUMPY = frozenset({"np", "numpy"})
VALUES = frozenset({"numpy", "item", "tolist", "detach"})
TENSORS = frozenset({"tensor", "as_tensor", "from_numpy", "FloatTensor", "Tensor"})


def cut_graphs(texts: Texts, failed: Chain, drops: Sequence[tuple[Drop, Chain]]) -> Iterator[CutGraph]:
    """Facts that may explain the cut graph of the loss that is sent backward at *failed*, the likeliest first."""
    found: dict[tuple[object, ...], CutGraph] = {}
    for drop, chain in drops:
        if not drop.recorded and not _is_drawn(texts, chain):
            for guard in _guards(texts, chain):
                dropped = (Dropped(chain[-1], "no_grad"),)
                lasting = _is_switch(texts, guard)
                fact = CutGraph(cut=chain[-1], guard=guard, failed=failed[-1], drops=dropped, lasting=lasting)
                found.setdefault(("no_grad", guard), fact)
            continue
        for one in _ways(texts, drop, chain):
            found.setdefault(one, CutGraph(cut=one[0].span, failed=failed[-1], drops=one))
    together = _all_numbers(texts, drops)
    if together:
        whole = CutGraph(cut=together[0].span, failed=failed[-1], drops=together)
        if all(drop.how == TENSORS_AND_NUMBERS for drop in together):  # each alone would do, for a part of the loss
            found = {together: whole, **found}
        found.setdefault(together, whole)
    for span in _gradients(texts):
        found.setdefault(("grad", span), CutGraph(cut=span, failed=failed[-1], drops=(Dropped(span, "grad"),)))
    yield from list(found.values())[:MOST]


def _ways(texts: Texts, drop: Drop, chain: Chain) -> Iterator[tuple[Dropped, ...]]:
    """The drop alone, and with each place in its function that makes a tensor again."""
    span = chain[-1]
    text = texts.of(span)
    node = text.expression(span)
    how = _how(node, drop)
    if node is None or not how:
        return
    for kind in _kinds(node) if how == "tensor" else (how,):
        alone = Dropped(span, kind)
        yield (alone,)
        around = tuple(Dropped(text.span(one), word) for one, word in _drops_around(text, node))
        if around:
            yield (alone, *around)
        for again in _tensors_in(text, node):
            for word in _kinds(again):
                outer = Dropped(text.span(again), word)
                yield (alone, outer)
                yield (outer,)


def _kinds(call: ast.expr) -> tuple[str, ...]:
    """Whether ``torch.tensor`` may be given a list of tensors, or one tensor: a name may stand for both."""
    first = call.args[0] if isinstance(call, ast.Call) and call.args else None
    several = isinstance(first, (ast.Name, ast.List, ast.ListComp))
    return ("tensors", TENSORS_AND_NUMBERS, "tensor") if several else ("tensor",)


def _drops_around(text: Text, node: ast.expr) -> Iterator[tuple[ast.Call, str]]:
    """The calls around a drop through which its value goes on without a graph: ``.numpy()``, ``np.log``, a tensor."""
    for one in text.around(node):
        if isinstance(one, ast.stmt):
            return
        if isinstance(one, ast.Call):
            name = _name(one)
            if name in TENSORS:
                yield one, _kinds(one)[-1]
            elif isinstance(one.func, ast.Attribute) and getattr(one.func.value, "id", "") in NUMPY:
                yield one, "numpy"
            elif name in VALUES and not one.args:
                yield one, name


def _all_numbers(texts: Texts, drops: Sequence[tuple[Drop, Chain]]) -> tuple[Dropped, ...]:
    """All drops in the function of the latest drop, with its calls of NumPy and the tensors made of numbers."""
    if not drops:
        return ()
    last = drops[0][1][-1]
    text = texts.of(last)
    statement = text.statement(last)
    home = text.function_of(statement) if statement is not None else None
    found: dict[Span, Dropped] = {}
    for drop, chain in reversed(drops):
        node = text.expression(chain[-1]) if chain[-1].path == last.path else None
        how = _how(node, drop)
        if node is not None and how and text.function_of(node) is home:
            first = node.args[0] if isinstance(node, ast.Call) and node.args else None
            display = how == "tensor" and isinstance(first, ast.List)
            found[chain[-1]] = Dropped(chain[-1], TENSORS_AND_NUMBERS if display else how)
    if home is not None:
        for call in (node for node in ast.walk(home) if isinstance(node, ast.Call)):
            name = _name(call)
            if isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") in NUMPY:
                found.setdefault(text.span(call), Dropped(text.span(call), "numpy"))
            elif name in TENSORS and call.args:
                found.setdefault(text.span(call), Dropped(text.span(call), "tensor"))
    return tuple(found.values()) if len(found) > 1 else ()


def _how(node: ast.expr | None, drop: Drop) -> str:
    """Kind of a call that drops the graph, in the words of a fact; empty if it is not known."""
    match node:
        case ast.Attribute(attr="data"):
            return "data"
        case ast.Call(func=ast.Name(id=("float" | "int"))):
            return "number"
        case ast.Call() if _name(node) in TENSORS:
            return "tensor"
        case ast.Call() if _name(node) == "grad":
            return "grad"
        case ast.Call(func=ast.Attribute(attr=name)):
            return name
    return ""


def _tensors_in(text: Text, node: ast.expr) -> Iterator[ast.Call]:
    """The calls in the function of *node* that make tensors of numbers, the nearest around it first."""
    around = [one for one in text.around(node) if isinstance(one, ast.Call) and _name(one) in TENSORS and one.args]
    yield from around
    for one in ast.walk(text.function_of(node)):
        if isinstance(one, ast.Call) and _name(one) in TENSORS and one.args and one not in around and one is not node:
            yield one


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _guards(texts: Texts, chain: Chain) -> Iterator[Span]:
    """Spans that switched recording off for a place: a block or decorator around it, or calls in any file."""
    for span in reversed(chain):
        text = texts.of(span)
        statement = text.statement(span)
        for one in (statement, *text.around(statement)) if statement is not None else ():
            calls = [item.context_expr for item in one.items] if isinstance(one, (ast.With, ast.AsyncWith)) else []
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)):
                calls = one.decorator_list
            names = {_name(call) if isinstance(call, ast.Call) else getattr(call, "attr", "") for call in calls}
            if names.intersection(groups.GRAD_MODES):
                yield text.span(one)
                return
    for text in texts.all:
        for statement in text.statements:
            call = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(call, ast.Call) and _name(call) == "set_grad_enabled":
                if any(isinstance(arg, ast.Constant) and arg.value is False for arg in call.args):
                    yield text.span(call)


def _is_drawn(texts: Texts, chain: Chain) -> bool:
    """Whether a distribution is asked for a sample here, which torch itself draws without recording."""
    node = texts.of(chain[-1]).expression(chain[-1])
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "sample"


def _is_switch(texts: Texts, guard: Span) -> bool:
    return isinstance(texts.of(guard).expression(guard), ast.Call)


def _gradients(texts: Texts) -> Iterator[Span]:
    """Calls of ``autograd.grad`` that do not ask for a graph."""
    for text in texts.all:
        for one in text.parents:
            if isinstance(one, ast.Call) and _name(one) == "grad" and len(one.args) + len(one.keywords) > 1:
                if not any(keyword.arg == "create_graph" for keyword in one.keywords):
                    yield text.span(one)
