"""Places at which values lose their graphs, and the passes that find none because of it.

A tensor without a graph is no mistake.  It becomes one when a backward is asked of it.  So every value that certainly
has no graph remembers the places where graphs were dropped on its way, and only a pass that starts from it makes a
finding of them.  A value that may have come with a graph from code that was not read is *vague* and makes none.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from autofix.codemods.autograd import catalogue, groups
from autofix.codemods.autograd.graph import BackwardCall, Detachment, DetachSite, Leaf, Node, Operand, Saved
from autofix.codemods.autograd.walks import leaves_under, nodes_under
from autofix.codemods.facts.parts import ARRAY_OF_SEVERAL, TENSORS_AND_NUMBERS
from autofix.codemods.interpreter import written
from autofix.codemods.interpreter.state.incidents import BackwardWithoutGraph, UnusedInput
from autofix.codemods.interpreter.values import (
    Instance,
    Method,
    Symbol,
    TensorImpl,
    TensorRef,
    Value,
    opened,
)
from autofix.codemods.source.sources import Site, last_name

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

CUTS = 24
"""Number of drops on one value's way that are remembered."""

_COPIES = frozenset(("tensor", "tensors", TENSORS_AND_NUMBERS, ARRAY_OF_SEVERAL, "numpy", "number", "item", "tolist"))
"""Drops that are no way to say that a value is meant as a constant."""
_DETACHES = ("detach", "data", "variable")
_CONSTANTS = (*_DETACHES, "grad")
_NUMBERS = groups.SIZES | frozenset(
    """number item tolist stride len round index count get_device is_floating_point is_complex equal allclose torch.cuda
    torch.device time compare""".split()
)
_SUMS = groups.REDUCES | groups.JOINS | {"add", "sum_of", "div"}
"""Sums of losses: where several of the terms lost their graphs, all of them want theirs back."""


_SINGLE = (TensorRef, Symbol, Method, Instance)


def _parts(values: Iterable[Value]) -> list[TensorRef | Symbol | Method | Instance]:
    """The tensors and the unknown values among *values*, containers opened; an object (a tuple's class) is unknown."""
    return opened(values, _SINGLE, lambda slot, _: slot.value)


def lost_by(value: Value) -> Detachment | None:
    """The graph that a value certainly lost; None where it has one, or never could have."""
    if isinstance(value, TensorRef):
        return value.cell.detachment if value.cell.node is None else None
    return value.detachment if isinstance(value, Symbol) else None


def _graph_of(value: Value) -> Node | None:
    if not isinstance(value, TensorRef):
        return None
    cell = value.cell.base if _is_view_without_graph(value.cell) else value.cell
    if cell is None or cell.frozen or cell.node is None or (cell.node.leaf is not None and cell.node.leaf.frozen):
        return None
    return cell.node


def _is_view_without_graph(cell: TensorImpl) -> bool:
    """Whether it was made outside grad mode, as a view of a tensor with a graph: it counts as requiring a gradient.

    Source: ``DifferentiableViewMeta::requires_grad`` of torch/csrc/autograd/variable.h.
    """
    return cell.node is None and cell.base is not None and cell.base.node is not None


def dropped(interp: Interpreter, values: Iterable[Value], node: ast.expr, how: str) -> Detachment | None:
    """Lost graph of the result of an expression that drops those of *values*; None where they never had one."""
    parts = _parts(values)
    nodes = tuple(found for part in parts if (found := _graph_of(part)) is not None)
    earlier = [detachment for part in parts if (detachment := lost_by(part)) is not None]
    if not nodes and not earlier:
        return None
    mine = Detachment((DetachSite(interp.site(node), how, nodes),))
    return _joined(earlier, mine, sums=not nodes or how.startswith("tensor"))


def joined(interp: Interpreter, values: Iterable[Value], node: ast.expr | ast.stmt) -> Detachment | None:
    """The lost graph of a tensor into which *values* were written, itself among them; None where it may have one."""
    cell = TensorImpl()
    without_graph(interp, cell, "copy", values, (), node)  # type: ignore[arg-type]
    return None if cell.vague else cell.detachment


def whole_numbers(interp: Interpreter, values: Collection[Value], node: ast.expr) -> TensorRef:
    """Whole numbers, or truth values, that were computed from *values*: they have no graph."""
    made = interp.data()
    made.cell.whole = True
    made.cell.constant = all(tensor.cell.constant for tensor in interp.tensors(*values))
    made.cell.detachment = dropped(interp, values, node, "integer")
    return made


def _joined(earlier: list[Detachment], last: Detachment | None, *, sums: bool) -> Detachment | None:
    """One record of several; *sums* where all of them want their graph back."""
    if last is None:
        if not earlier:
            return None
        if all(one is earlier[0] for one in earlier):
            return earlier[0]  # as it was joined before
    cuts: dict[tuple[Site, str] | None, DetachSite] = {}  # what is frozen is one cut, wherever it is met
    ways = {tuple(cut.site for cut in detachment.cuts) for detachment in earlier}
    # Nobody makes a constant by a display of tensors.
    chosen = any(not cut.how.startswith("tensors") for detachment in earlier for cut in detachment.cuts)
    several = any(detachment.several for detachment in earlier)
    for detachment in [*earlier, *([last] if last is not None else [])]:
        for cut in detachment.cuts:
            place = None if cut.leaves else (cut.guard or cut.site, "no_grad" if cut.guard else cut.how)
            known = cuts.get(place)
            if known is None:
                cuts[place] = _with_each_once(cut, cut.nodes, cut.leaves)
            else:
                cuts[place] = _with_each_once(known, (*known.nodes, *cut.nodes), (*known.leaves, *cut.leaves))
    if last is not None and any(cut.nodes for cut in last.cuts) and earlier and not sums:
        several = True
    if not cuts:
        return None
    same_guard = all(cut.guard is not None for cut in cuts.values())
    return Detachment(
        tuple(cuts.values())[:CUTS], several or (len(ways) > 1 and chosen and not sums and not same_guard)
    )


def _with_each_once(cut: DetachSite, nodes: tuple[Node, ...], leaves: tuple[Leaf, ...]) -> DetachSite:
    """*cut* with these nodes and leaves, each of them once."""
    nodes = tuple(dict.fromkeys(nodes)) if len(nodes) > 1 else nodes
    leaves = tuple(dict.fromkeys(leaves)) if len(leaves) > 1 else leaves
    return DetachSite(cut.site, cut.how, nodes, cut.guard, leaves)


def without_graph(
    interp: Interpreter, cell: TensorImpl, name: str, args: Iterable[Value], leaves: Iterable[Leaf], node: ast.expr
) -> None:
    """*cell* is the result of an operation that laid no edge: note why it has no graph, or that it may have one."""
    parts = _parts(args)
    earlier = [detachment for part in parts if (detachment := lost_by(part)) is not None]
    last: Detachment | None = None
    if not interp.grad:
        if cell.base is None and "dropout" not in name:
            note_inference(interp, cell)
        found = [_graph_of(part) for part in parts] + [leaf.node for leaf in leaves if not leaf.frozen]
        nodes = tuple(one for one in found if one is not None)
        if _is_view_without_graph(cell) or (name == "einsum" and len(parts) == 1):
            cell.vague = True  # a loss of it alone raises nothing
        elif nodes:
            last = Detachment((DetachSite(interp.site(node), "no_grad", nodes, interp.guard),))
    else:
        frozen = [leaf for leaf in leaves if leaf.frozen]
        frozen += [leaf for part in parts if (leaf := _frozen(part)) is not None]
        if frozen:
            last = Detachment((DetachSite(interp.site(node), "frozen", (), leaves=tuple(frozen)),))
        cell.vague = any(is_vague(part) for part in parts)
        if frozen and any(isinstance(part, TensorRef) and part.cell.handed for part in parts):
            cell.vague = True  # the parameters have no graph; their input may
    if earlier or last is not None:
        cell.detachment = _joined(earlier, last, sums=name in _SUMS or not earlier)


def _frozen(value: Value) -> Leaf | None:
    node = value.cell.node if isinstance(value, TensorRef) else None
    return node.leaf if node is not None and node.leaf is not None and node.leaf.frozen else None


def freeze(interp: Interpreter, leaf: Leaf, wanted: Value, node: ast.expr) -> None:
    """``requires_grad`` of a parameter is set."""
    leaf.frozen = wanted is False
    leaf.frozen_at = interp.site(node) if leaf.frozen else None


def replaced(leaves: Iterable[Leaf]) -> None:
    """Parameters may have been replaced by others, or by what has a graph: none of them certainly is frozen still."""
    for leaf in leaves:
        leaf.frozen, leaf.frozen_at = False, None
        leaf.parts = dict.fromkeys(leaf.parts, False)


def given_without_flag(interp: Interpreter, params: Value, node: ast.expr) -> list[TensorImpl]:
    """The tensors among what an optimizer is given that do not require grad: what is computed of them has no graph."""
    listed = node.args[0] if isinstance(node, ast.Call) and node.args else node
    places = listed.elts if isinstance(listed, (ast.List, ast.Tuple)) else []
    found = []
    for at, part in enumerate(_parts([params])):
        if isinstance(part, TensorRef) and part.cell.loaded:
            part.cell.vague = True  # as it was saved, maybe a leaf that requires grad
        if isinstance(part, TensorRef) and part.cell.node is None and not _may_require_grad(part.cell):
            place = places[at] if at < len(places) else listed
            part.cell.detachment = Detachment((DetachSite(interp.site(place), "unflagged", ()),))
            found.append(part.cell)
    return found


def _may_require_grad(cell: TensorImpl) -> bool:
    return cell.vague or cell.unsure or cell.handed


def handed_over(tensors: Iterable[TensorRef]) -> None:
    """Code that was not read is given *tensors*: whatever the optimizer holds of them may require grad from now on."""
    for tensor in tensors:
        tensor.cell.handed = True
        if is_unflagged(tensor.cell):
            tensor.cell.detachment = None


def note_inference(interp: Interpreter, cell: TensorImpl) -> None:
    """A new tensor is made: in inference mode it is an inference tensor."""
    if not interp.grad and is_inference(interp.guard):
        cell.storage.inference = interp.guard


def is_inference(guard: Site | None) -> bool:
    """Whether what turned recording off is ``inference_mode``: a block or a decorator."""
    return any(call is None or not (call.args or call.keywords) for call in _inference_modes(guard))


def leaves_inference(guard: Site | None) -> bool:
    """Whether a block or a decorator is ``inference_mode(False)``, in which operations are recorded again."""
    return any(
        call is not None and any(isinstance(one, ast.Constant) and one.value is False for one in _arguments(call))
        for call in _inference_modes(guard)
    )


def _arguments(call: ast.Call) -> Iterator[ast.expr]:
    yield from call.args
    yield from (keyword.value for keyword in call.keywords)


def _inference_modes(guard: Site | None) -> Iterator[ast.Call | None]:
    """The calls of ``inference_mode`` of a block or a decorated function; None for one that is not called."""
    node = guard.node if guard is not None else None
    modes: list[ast.expr] = []
    if isinstance(node, (ast.With, ast.AsyncWith)):
        modes = [item.context_expr for item in node.items]
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        modes = node.decorator_list
    for mode in modes:
        call = mode if isinstance(mode, ast.Call) else None
        if last_name(call.func if call is not None else mode) == "inference_mode":
            yield call


def saves_inference(interp: Interpreter, saved: Iterable[Saved], node: ast.expr) -> None:
    """An operation that is recorded saves these tensors: what was made in inference mode cannot be."""
    for one in saved:
        if one.storage.inference is not None:
            if not is_inference(interp.guard):  # `enable_grad` in inference mode records nothing
                interp.incidents.inference.setdefault(interp.site(node), one.storage.inference)
            return


def maybe_copied(tensor: TensorRef, name: str) -> TensorRef:
    """A tensor moved or converted by *name*: where that copies it, the copy was not made in inference mode."""
    storage = tensor.cell.storage
    if storage.inference is not None and name not in ("contiguous", "requires_grad_"):
        return TensorRef(replace(tensor.cell, storage=replace(storage, inference=None)), tensor.provenance)
    return tensor


def is_unflagged(cell: TensorImpl) -> bool:
    """Whether a tensor was given to an optimizer, and does not require grad."""
    return cell.detachment is not None and cell.detachment.cuts[0].how == "unflagged"


def put_in_place(former: Value, value: Value) -> None:
    """Note that a loaded *value* may require grad, for it takes the place of one that does (``self.a = state["a"]``).

    ``torch.save`` keeps ``requires_grad`` of a leaf, and ``torch.load`` gives it back.
    """
    trained = isinstance(former, TensorRef) and former.cell.node is not None
    if trained and isinstance(value, TensorRef) and value.cell.loaded:
        value.cell.vague = True


def is_vague(value: Value) -> bool:
    """Whether a value without a known graph may have one that was not seen."""
    if isinstance(value, TensorRef):
        return value.cell.vague and value.cell.node is None
    return not (isinstance(value, Symbol) and (value.detachment is not None or plain_number(value.key)))


_ARITHMETIC = frozenset("add sub mul div pow floor_divide plus".split())


def plain_number(key: Hashable, depth: int = 8) -> bool:
    """Whether the unknown value with this key is a number or a piece of data, which has no graph in any case."""
    if not isinstance(key, tuple) or not key or depth == 0:
        return isinstance(key, (int, float, str, bool, type(None)))
    match key[0]:
        case "index" | "count" | "len" | "residue" | "remainder" | "int" | "float" | "str" | "text" | "range":
            return True
        case "~" | "new" if len(key) > 2 and key[1] == "call":
            called = key[2]
            if not (isinstance(called, tuple) and len(called) == 3 and called[0] == "method"):
                return False
            return catalogue.operation(called[2]).unary and plain_number(called[1], depth - 1)
        case "~" | "new" if len(key) > 2:
            label = key[1]
            return isinstance(label, str) and (label in _NUMBERS or _is_data(key))
        case "item" | "attr" if len(key) > 2:
            if isinstance(key[1], int):  # the address of an object
                return key[2] in ("shape", "ndim")
            return plain_number(key[1], depth - 1)
        case "grad":
            return key[2:] == ("data",)
        case "min" | "max":
            return all(plain_number(part, depth - 1) for part in key[1:])
        case str(name) if name in _ARITHMETIC and len(key) > 2:
            return plain_number(key[1], depth - 1) and plain_number(key[2], depth - 1)
    return False


def is_result_of_unread(key: Hashable) -> bool:
    """Whether the unknown value with this key comes from a call that was not read: its result, or computed of it."""
    match key:
        case ("attr" | "item", of, *_):
            return is_result_of_unread(of)
        case ("new" | "~", str(label), *_) if label in ("call", "loss") or catalogue.is_operation(label):
            return not plain_number(key)
        case (str(name), one, other) if name in _ARITHMETIC:
            return is_result_of_unread(one) or is_result_of_unread(other)
    return False


def is_number(key: Hashable) -> bool:
    """Whether the unknown value with this key is a number for certain: what a loader gives may be a tensor."""
    match key:
        case (_, str(name), *_) | (_, _, ("method", _, str(name)), *_) if name in ("tolist", "size", "stride"):
            return False  # a list, or a tuple
    return plain_number(key) and not _is_data(key)


def _is_data(key: Hashable) -> bool:
    """Whether an unknown value is a piece of data, or of a gradient, or computed of such ones."""
    match key:
        case ("~" | "new", str(label), *_) if label.startswith("torch.utils.data"):
            return True
        case ("grad", *_):
            return True
        case ("len" | "int" | "float" | "str" | "count" | "index", *_):
            return False
        case tuple():
            return any(map(_is_data, key))
    return False


def carry(interp: Interpreter, result: Value, values: Iterable[Value], node: ast.expr, how: str = "") -> Value:
    """*result*, a number or an array computed of *values*, knows what they lost; with *how*, that they lose it here."""
    if not isinstance(result, Symbol):
        return result
    values = list(values)
    if how:
        result.detachment = dropped(interp, values, node, how)
        return result
    parts = _parts(values)
    if all(part for part in parts if lost_by(part) is not None or not is_vague(part)):
        result.detachment = _joined(
            [detachment for part in parts if (detachment := lost_by(part)) is not None], None, sums=True
        )
    return result


def sent_back(interp: Interpreter, roots: Iterable[Value], node: ast.expr) -> None:
    """A pass was asked of *roots*, none of which has a graph."""
    interp.policy.graphless = len(interp.policy.asked)
    if any(isinstance(root, TensorRef) or lost_by(root) is not None for root in roots):
        interp.tape.rootless.add(interp.site(node).line)
    found: list[Detachment] = []
    for root in _parts(roots):
        detachment = lost_by(root)
        if detachment is None or (isinstance(root, TensorRef) and root.cell.vague):
            return
        found.append(detachment)
    detachment = _joined(found, None, sums=True)
    if detachment is not None:
        interp.incidents.cut.append(
            BackwardWithoutGraph(detachment, interp.site(node), interp.loops, name_of(interp, node))
        )


def missing(args: Iterable[Value]) -> tuple[tuple[Detachment, ...], tuple[DetachSite, ...]]:
    """Graphs that the arguments of an operation lost on ways that keep none, whatever is meant: as numbers, as arrays.

    Also those lost in a function that records nothing, which may be meant: see the witness.  The second part is the
    places at which arguments that were only detached lost their graphs.
    """
    found = [detachment for part in _parts(args) if (detachment := lost_by(part)) is not None]
    if not found:
        return (), ()
    graphs = tuple(one for one in found if _is_copied(one) or is_unrecorded(one) or is_underivable(one))
    detached = (one.cuts[0] for one in found if len(one.cuts) == 1 and one.cuts[0].how in _CONSTANTS)
    return graphs, tuple(detached)


def _is_copied(detachment: Detachment) -> bool:
    return all(cut.how in _COPIES or cut.how in _DETACHES for cut in detachment.cuts) and any(
        cut.how in _COPIES for cut in detachment.cuts
    )


def is_underivable(detachment: Detachment) -> bool:
    """Whether a value is made of nothing but places of largest values, or gradients taken without a graph."""
    made = [cut for cut in detachment.cuts if cut.how == "grad" or (cut.how == "integer" and _gives_places(cut.site))]
    return bool(made) and all(cut in made or cut.how in _DETACHES for cut in detachment.cuts)


def _gives_places(site: Site) -> bool:
    """Whether a call gives the places of values: a comparison's result is rather a mask of others."""
    name = last_name(site.node.func) if isinstance(site.node, ast.Call) else ""
    return name in ("argmax", "argmin", "argsort") or bool(catalogue.operation(name).places)


def is_unrecorded(detachment: Detachment) -> bool:
    """Whether nothing but a decorated function, or a block that records nothing, is in the way of a graph."""
    return all(
        cut.how == "no_grad" and cut.guard is not None and isinstance(cut.guard.node, (ast.FunctionDef, ast.With))
        for cut in detachment.cuts
    )


def sent_back_in_part(interp: Interpreter, tops: Iterable[Node], node: ast.expr) -> None:
    """A pass was asked of what has a graph, but misses parts of it."""
    readers: dict[Detachment, list[Node]] = {}
    for reader in nodes_under(tops):
        for detachment in reader.missing:
            readers.setdefault(detachment, []).append(reader)
    sums = _sums(tops)
    for detachment, nodes in readers.items():
        if is_underivable(detachment) and not all(one in sums for one in nodes):
            continue  # a target, or a weight: only a term of the loss is of no use without a graph
        if all(_takes_a_number(one, detachment) or _is_spent(detachment, one) for one in nodes):
            continue
        interp.incidents.partial.append(
            BackwardWithoutGraph(
                detachment,
                interp.site(node),
                interp.loops,
                name_of(interp, node),
                beside=True,
                weighs=all(one.operation in ("mul", "div") for one in nodes),
                adds=all(one in sums for one in nodes),
            )
        )


def _is_spent(detachment: Detachment, reader: Node) -> bool:
    """Whether an earlier pass had freed the lost graph when *reader* was computed: with it, this pass would fail.

    It is what the last iteration left: ``shift = loss.item()``.
    """
    return any(
        node.freed_by is not None and node.freed_by.clock < reader.clock and not _takes(node.freed_by, cut, reader)
        for cut in detachment.cuts
        for node in nodes_under(cut.nodes)
    )


def _takes(freed_by: BackwardCall, cut: DetachSite, reader: Node) -> bool:
    """Whether the pass is the very call of ``autograd.grad`` that took the gradient which *reader* computes with.

    Given ``create_graph=True``, it would have freed nothing.
    """
    same_iteration = freed_by.loops[: len(reader.loops)] == reader.loops
    return cut.how == "grad" and freed_by.site == cut.site and same_iteration


def _sums(tops: Iterable[Node]) -> set[Node]:
    """The nodes that add terms of a loss: a sum of it, or of what is only scaled and added to others on the way."""
    return {one for one in nodes_under(tops, _passes_terms_on) if one.operation in groups.ADDS}


def _passes_terms_on(node: Node) -> bool:
    """Whether the terms of a loss keep their gradients, but for a factor, on the way through a node."""
    return node.operation in groups.ADDS or (node.operation in groups.SCALES and len(node.operands) == 1)


def copied(interp: Interpreter, roots: list[Operand], node: ast.expr) -> bool:
    """Whether a pass reaches nothing but fresh leaves that are copies of what had a graph: it trains nothing."""
    leaves: list[Leaf] = []
    for one in nodes_under(root.node for root in roots):
        if one.leaf is not None:
            leaves.append(one.leaf)
        elif one.operation != "sum_of" and (one.opaque or not catalogue.is_operation(one.operation)):
            return False
    if not leaves or any(leaf.copied is None or leaf in interp.tape.owned for leaf in leaves):
        return False
    detachment = _joined([leaf.copied for leaf in leaves if leaf.copied is not None], None, sums=True)
    if detachment is not None:
        interp.incidents.cut.append(
            BackwardWithoutGraph(detachment, interp.site(node), interp.loops, name_of(interp, node), tuple(leaves))
        )
    return True


def part_beside(interp: Interpreter, roots: Iterable[Value], wanted: Value, node: ast.expr) -> None:
    """A gradient for *wanted* is asked of *roots*: a part of what they were computed from is not what they were.

    Nor is a parameter that plays no part in them, or that was detached on all its ways.
    """
    tops = [part.cell.node for part in _parts(roots) if isinstance(part, TensorRef) and part.cell.node is not None]
    known = dict.fromkeys(nodes_under(tops))
    if not tops or any(one.opaque or one.doubtful or one.unread for one in known):
        return
    used = {one.leaf for one in known if one.leaf is not None}
    used |= {one.within[0] for one in used if one.within is not None}  # tied weights
    for part in _parts([wanted]):
        if isinstance(part, TensorRef) and _is_certain_leaf(part) and part.cell.leaf not in used:
            _note_unused(interp, part, known, node)
        made = part.cell.node if isinstance(part, TensorRef) and not part.guessed else None
        if made is None or made.operation != "select" or made in known:
            continue
        if any(operand.node in known for operand in made.operands):
            interp.incidents.beside.setdefault(interp.site(node), made.site)


def _is_certain_leaf(tensor: TensorRef) -> bool:
    """Whether a tensor certainly is a parameter that requires grad."""
    leaf = tensor.cell.leaf
    unsure = leaf is None or leaf.frozen or leaf.doubtful or leaf.supposed or any(leaf.parts.values())
    return tensor.cell.is_leaf and not (unsure or tensor.guessed or tensor.cell.frozen or tensor.cell.mixed)


def _note_unused(interp: Interpreter, tensor: TensorRef, known: Iterable[Node], node: ast.expr) -> None:
    leaf = tensor.cell.leaf
    if leaf is None or leaf.node is None or interp.exceptions.may_be_handled:
        return
    if any(point.instance in interp.widening.incomplete for point in leaf.node.loops):
        return  # one of as many as an option says, of which the loss takes as many
    detached = [cut for one in known for cut in one.constants if leaf in leaves_under(cut.nodes)]
    cut = detached[0].site if detached else None
    named = next((kept.name for kept in reversed(tensor.provenance) if kept.name), "")
    own = leaf.name.startswith("tensor:")
    found = UnusedInput(cut, bool(interp.policy.asked), own, named if not tensor.cell.part else "")
    interp.incidents.unused.setdefault((interp.site(node), leaf.node.site), found)


def name_of(interp: Interpreter, node: ast.expr) -> str:
    """The user's text of what is sent backward."""
    if isinstance(node, ast.Call):
        named = written.keyword(node, "outputs") or written.keyword(node, "tensors")  # of `autograd`'s functions
        if named is not None:
            return interp.source.text_of(named)
        if isinstance(node.func, ast.Attribute) and not node.args:
            return interp.source.text_of(node.func.value)
        if node.args:
            return interp.source.text_of(node.args[0])
    return ""


def is_probability(node: Node) -> bool:
    """Whether a node's result lies between 0 and 1: a sigmoid's or a softmax's, or a part of one."""
    while catalogue.picks(node.operation) and len(node.operands) == 1:
        node = node.operands[0].node
    return node.operation in groups.PROBABILITIES


def is_likelihood(node: Node, deep: int = 12) -> bool:
    """Whether a value is computed of log-likelihoods alone, as a ratio of new to old is.

    A log-likelihood is what a distribution gives, or the logarithm of the probabilities that were picked.
    """
    if node.operation == "log_prob":
        return True
    if node.leaf is not None or not deep or not node.operands:
        return False
    first = node.operands[0].node
    if catalogue.picks(node.operation):
        return _is_log_of_probability(first) or is_likelihood(first, deep - 1)
    if node.operation == "log" and catalogue.picks(first.operation):
        return is_probability(first)
    return all(is_likelihood(operand.node, deep - 1) for operand in node.operands)


def _is_log_of_probability(node: Node) -> bool:
    return node.operation == "log_softmax" or (node.operation == "log" and is_probability(node.operands[0].node))


def _takes_a_number(node: Node, detachment: Detachment) -> bool:
    """Whether a node takes a value without a graph for a number: an advantage, or the old of two log-likelihoods."""
    if not node.operands or not is_likelihood(node.operands[0].node):
        return False
    if node.operation == "sub":
        return all(is_likelihood(one) for cut in detachment.cuts for one in cut.nodes)
    return node.operation in ("mul", "div")


def leaves_in(values: Iterable[Value]) -> set[Leaf]:
    """The leaves that the graphs of *values* lead to."""
    return leaves_under(_tops(values))


def _tops(values: Iterable[Value]) -> Iterator[Node]:
    """The nodes that *values* and their parts are the results of."""
    return (node for part in _parts(values) if (node := _graph_of(part)) is not None)


def comes_from_another(value: TensorRef, leaf: Leaf) -> bool:
    """Whether *value* is a parameter other than *leaf*, or computed of the data of parameters, one of them another."""
    if value.cell.leaf is not None:
        return value.cell.leaf is not leaf
    if value.cell.node is not None:  # under grad mode, where the change is refused
        return bool(leaves_in([value]) - {leaf})
    detachment = lost_by(value)
    nodes = [node for cut in detachment.cuts for node in cut.nodes] if detachment is not None else []
    leaves = {node.leaf for node in nodes}
    return None not in leaves and bool(leaves - {leaf})


def has_differentiable_gradient(values: Iterable[Value]) -> bool:
    """Whether *values* are computed from a gradient that ``create_graph=True`` gave a graph."""
    return any(node.operation == "grad" for node in nodes_under(_tops(values)))
