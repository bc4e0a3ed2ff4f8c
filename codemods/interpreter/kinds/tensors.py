"""Tensors."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autofix.codemods.autograd import catalogue, groups, layout
from autofix.codemods.autograd.catalogue import VIEW_ATTRIBUTES, is_operation, of_tensors, operation
from autofix.codemods.autograd.graph import Leaf, Node
from autofix.codemods.interpreter import (
    attributes,
    comparisons,
    cuts,
    elements,
    escapes,
    extents,
    filled,
    gradients,
    opaque_results,
    overwriting,
    parts,
    python_classes,
    reshaped,
    streams,
    tensor_calls,
    unknown_calls,
)
from autofix.codemods.interpreter.kinds.kind import (
    CONTAINERS,
    ONLY_TENSORS,
    TENSORS,
    Assignment,
    Copied,
    Kind,
    kind,
)
from autofix.codemods.interpreter.streams import Stream
from autofix.codemods.interpreter.values import (
    NOTHING,
    Binding,
    Class,
    Mapping,
    Method,
    Name,
    Record,
    Sequence,
    Symbol,
    TensorImpl,
    TensorRef,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter
    from autofix.codemods.interpreter.state.symbols import Symbols


_NOT_TENSORS = frozenset(
    """shape ndim dtype device requires_grad is_leaf grad_fn is_cuda layout names itemsize nbytes _version
    output_nr""".split()
)
_OF_TENSORS = frozenset("item tolist numpy cpu cuda to detach grad grad_fn requires_grad shape device dtype".split())
"""Attributes by which a program tells a tensor from other objects."""
_PROTOCOLS = frozenset("Iterable Sized Container Collection Reversible Hashable object".split())
"""Classes of Python's of which a tensor is an object."""
_OTHER_PACKAGES = frozenset(
    """PIL numpy pandas polars scipy sklearn skimage cv2 h5py matplotlib networkx nibabel SimpleITK datasets
    tensorflow keras jax jaxlib flax mxnet cupy paddle mindspore oneflow tinygrad chainer theano""".split()
)
"""Packages that have no class of torch's tensors: images, arrays, tables, and tensors of other frameworks."""
_MANY = 99


@kind(TensorRef)
class TensorKind(Kind[TensorRef]):
    """A tensor, or what a call that was not read returned, which is taken for one."""

    def call(
        self, interp: Interpreter, value: TensorRef, args: list[Value], keywords: dict[str, Value], node: ast.expr
    ) -> Value:
        if opaque_results.is_object(value, ""):
            return unknown_calls.call_unknown(interp, opaque_results.as_object(interp, value), "", args, keywords, node)
        return interp.opaque("call", [value, *args, *keywords.values()], node)

    def call_method(
        self,
        interp: Interpreter,
        value: TensorRef,
        name: str,
        args: list[Value],
        keywords: dict[str, Value],
        node: ast.expr,
    ) -> Value:
        if opaque_results.is_object(value, name):
            owner = opaque_results.as_object(interp, value)
            return unknown_calls.call_unknown(interp, owner, name, args, keywords, node)
        if name == "update" and value.cell.named:
            return _update_record(interp, value, args, keywords)
        return tensor_calls.call_tensor_method(interp, value, name, args, keywords, node)

    def attribute(self, interp: Interpreter, value: TensorRef, name: str, node: ast.expr) -> Value:
        unread = value.cell.unsure or (value.cell.node is not None and value.cell.node.opaque)
        if unread and not (name[0] == "_" or name in of_tensors() or name in interp.sources.set_attributes):
            _note_part(interp, value.cell, name)
        elif name not in attributes.OF_LISTS:
            value.cell.unsure = False
        if name == "detach":
            value.cell.detachable = True
            _require_one_kind(interp, value.cell)
        if name == "data":
            return interp.detached(value, node, own_version=True)
        made = value.cell.node
        field = operation(made.operation).saved_field(name) if made is not None else None
        if field is not None:
            return interp.item(value, field, node)
        if name in ONLY_TENSORS and made is not None and len(operation(made.operation).fields) > 1:
            interp.crash(f"a tuple has no attribute {name!r}", "AttributeError")
        if name in ("grad", "_grad"):
            if value.cell.leaf is not None:
                value.cell.leaf.asked = True
                interp.incidents.asked[interp.statement] = value.cell.leaf
            elif _has_no_gradient(interp, value):
                gradients.note_missing(interp, value, node)
                return None
            identity = interp.identity(value.cell.leaf or value.cell)
            return interp.symbol(("grad", identity) if interp.sources.keeps_derivatives else ("grad", identity, "data"))
        if name in groups.SHAPES:
            # Code that decides by the shape would not send back a tensor of several elements.
            if value.cell.node is None:
                value.cell.extent = NOTHING
            elif value.cell.extent.several:
                interp.measured.add(interp.identity(value.cell))
        if name in ("requires_grad", "grad_fn"):
            return _recorded(interp, value, name)
        if name == "is_leaf":
            made = _recorded(interp, value, "grad_fn")
            return made if isinstance(made, Symbol) else made is None
        if name == "_version":
            return value.cell.storage.version
        if name in _NOT_TENSORS:
            if name in groups.SHAPES:
                return attributes.size_of(interp, value, ("attr", None, name))
            return interp.symbol(("attr", interp.identity(value.cell), name))
        if name in VIEW_ATTRIBUTES:
            return interp.operation("transpose", [value], node, view=value)
        owners = _owners(interp, value.cell)
        slot = next(filter(None, (interp.attributes_of_opaque.get((owner, name)) for owner in owners)), None)
        return interp.read(slot) if slot is not None else Method(value, name, node)

    def set_attribute(self, interp: Interpreter, value: TensorRef, name: str, slot: Binding, by: Assignment) -> None:
        cell = value.cell
        if name == "requires_grad":
            attributes.set_flag(interp, value, slot.value, by.target)
        elif name == "grad":
            if cell.leaf is not None:
                cell.leaf.given = slot.value is not None
                if slot.value is None:
                    cell.leaf.grads.clear()
        elif name == "data":
            cell.single = False
            interp.change_by_hand(value, [slot.value])
            filled.note(interp, value, filled.number_in(interp, slot.value))
        elif cell.leaf is not None and cell.node is cell.leaf.node:
            _set_on_parameter(interp, cell, name, slot)
        else:
            interp.attributes_of_opaque[("tensor", interp.identity(cell)), name] = slot

    def item(self, interp: Interpreter, value: TensorRef, index: Value, node: Any) -> Value:
        made = value.cell.node
        one = made is None or len(operation(made.operation).fields) < 2
        if value.cell.scalar is True and one and index == 0 and _is_old_item(interp, node):
            interp.log.legacy[ast.unparse(node), interp.site(node).line] = interp.site(node)
            return interp.fresh_symbol("number")
        _note_part(interp, value.cell, index)
        if isinstance(index, str):
            put = interp.attributes_of_opaque.get(_item_of_record(interp, value, index))
            if put is not None:
                return interp.read(put)
        picked = _of_tensor_item(interp, value, index, node)
        picked.cell.loaded = value.cell.loaded
        if isinstance(index, (str, int, Symbol)):
            opaque_results.note_reading(interp, value, interp.key(index), picked)
        picked.cell.extent = extents.of_item(extents.extent_of(value), index)
        picked.cell.sibling = _is_one_of_several_views(value, picked, index)
        if value.cell.counted > 0:
            picked.cell.counted = value.cell.counted - _dimensions_taken(index)
        if picked.cell.sibling:
            picked.cell.viewed = value.cell.viewed
        return picked

    def set_item(self, interp: Interpreter, value: TensorRef, index: Value, given: Value, by: Assignment) -> None:
        if _may_be_list(value.cell) and isinstance(index, (int, Symbol)):
            return  # another tensor takes a place in a list
        _note_part(interp, value.cell, index)
        if isinstance(index, str):  # of the record that a call returned
            slot = interp.slot(given, interp.source.text_of(by.target), by.expression)
            interp.attributes_of_opaque[_item_of_record(interp, value, index)] = slot
            return
        if value.cell.named or _is_key(value, index) or _is_number_of_an_item(value, given):
            _replace_some_item(interp, value, given)
            return
        number = filled.number_in(interp, given)
        overwriting.write_into(interp, value, [given], by.target, expression=by.expression)
        if index is Ellipsis or (value.cell.length == 1 and index in (0, -1)):
            filled.note(interp, value, given if number is None else number)

    def iterate(self, interp: Interpreter, value: TensorRef, node: ast.expr) -> Stream:
        if opaque_results.is_collection(value):
            return streams.unknown(interp, opaque_results.as_object(interp, value), node)
        begun = value.cell.storage.version
        count = 1 if value.cell.in_one_piece or value.cell.length == 1 or _is_of_one(node) else None
        return Stream(count, lambda at, exact: _row_of(interp, value, at, node, begun, exact=exact))

    def truth(self, interp: Interpreter, value: TensorRef, *, likely: bool, optional: bool) -> bool:
        known = filled.number_in(interp, value)
        return interp.decide(value, likely=likely, optional=optional) if known is None else bool(known)

    def length(self, interp: Interpreter, value: TensorRef, node: ast.expr) -> Value:
        return Symbol(("len", interp.key(value)), low=1)

    def leaves(self, interp: Interpreter, value: TensorRef, seen: set[int]) -> Iterator[Leaf]:
        if value.cell.node is not None and value.cell.node.leaf is not None:
            yield value.cell.node.leaf

    def deep_copy(self, interp: Interpreter, value: TensorRef, copied: Copied, node: ast.expr) -> TensorRef:
        """A parameter of its own, or data."""
        if value.cell.leaf is None or value.cell.node is not value.cell.leaf.node:
            return interp.data(scalar=value.cell.scalar)
        made = interp.parameter("tensor", node)
        if made.cell.leaf is not None:
            made.cell.leaf.frozen, made.cell.leaf.plain = value.cell.leaf.frozen, value.cell.leaf.plain
        return made

    def key(self, symbols: Symbols, value: TensorRef) -> Hashable:
        return ("tensor", symbols.identity(value.cell.itself), value.cell.storage.version)

    def type_of(self, value: TensorRef) -> Value:
        if value.guessed:
            return None
        return Name("torch.Tensor" if value.cell.leaf is None else comparisons.TENSOR_OR_PARAMETER)

    def is_instance(self, value: TensorRef, cls: Name | Class | Record) -> bool | None:
        if not isinstance(cls, Name) or cls.last in CONTAINERS:
            return False
        if cls.path.partition(".")[0] in _OTHER_PACKAGES:
            return None if value.guessed else False
        if cls.last in TENSORS:
            return cls.last != "Parameter" or value.cell.leaf is not None
        wanted = python_classes.found(cls.path) if not value.guessed else None
        return wanted.__name__ in _PROTOCOLS if wanted is not None else super().is_instance(value, cls)

    def is_callable(self, value: TensorRef) -> bool | None:
        return None if value.guessed else False

    def has(self, interp: Interpreter, value: TensorRef, name: str) -> bool | None:
        opaque = value.guessed or (value.cell.node is not None and value.cell.node.opaque)
        return True if not opaque and (name in _OF_TENSORS or is_operation(name)) else None

    def is_part(self, value: TensorRef) -> bool:
        return value.cell.leaf is not None


def _is_old_item(interp: Interpreter, node: ast.expr) -> bool:
    """Whether ``loss.data[0]`` is written here, and not where only a tuple gets to: ``if isinstance(out, tuple)``."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Constant):
        return False
    source, statement = interp.statement
    return not any("isinstance(" in ast.unparse(one.test) for one in source.ifs_around(statement))


def _is_key(value: TensorRef, index: Value) -> bool:
    """Whether an index is one of the keys of *value*, which was not read: ``for key in losses: losses[key]``.

    It was taken out of it, and has a graph, as no numbers and no truth values have.
    """
    if value.cell.node is None or not isinstance(index, TensorRef) or index.cell.node is None:
        return False
    whole = _taken_from(value.cell.node, ("copy_slices",))[-1]
    if not _taken_from(whole, ("select",))[-1].opaque or index.cell.node.operation != "select":
        return False
    return any(node is whole for node in _taken_from(index.cell.node, ("select", "copy_slices")))


def _taken_from(node: Node, operations: tuple[str, ...]) -> list[Node]:
    """A node, and those from which it was taken by *operations*, one of the other."""
    found = [node]
    while found[-1].operation in operations and found[-1].operands:
        found.append(found[-1].operands[0].node)
    return found


def _is_number_of_an_item(value: TensorRef, given: Value) -> bool:
    """Whether *given* is a number, or an array, of an item of *value*, which was not read: it is a list of them.

    ``parts[at] = parts[at].item()``
    """
    made = value.cell.node
    if made is None or not made.opaque or not isinstance(given, Symbol) or given.detachment is None:
        return False
    lost = [node for cut in given.detachment.cuts for node in cut.nodes]
    return bool(lost) and all(node.operands and node.operands[0].node is made for node in lost)


def _replace_some_item(interp: Interpreter, record: TensorRef, given: Value) -> None:
    """An item of a record that a call returned was replaced, whichever: ``for key in losses: losses[key] = ...``."""
    if any(one.cell.node is not None for one in interp.tensors(given)):
        return
    owner = _item_of_record(interp, record, "")[0]
    for known in [one for one in interp.attributes_of_opaque if one[0] == owner and one[1].startswith("[")]:
        del interp.attributes_of_opaque[known]
    opaque_results.as_object(interp, record)


def _update_record(interp: Interpreter, record: TensorRef, args: list[Value], keywords: dict[str, Value]) -> None:
    """``losses.update(total=total.item())``, on what a call returned that was not read."""
    given: list[tuple[Hashable, Value]] = list(keywords.items())
    for one in args:
        known = isinstance(one, Mapping) and not one.more
        given += [(key, slot.value) for key, slot in one.items.items()] if known else [(None, one)]
    for key, value in given:
        if isinstance(key, str):
            interp.attributes_of_opaque[_item_of_record(interp, record, key)] = Binding(value)
        else:
            _replace_some_item(interp, record, value)


def _item_of_record(interp: Interpreter, record: TensorRef, key: str) -> tuple[Hashable, str]:
    return ("tensor", interp.identity(record.cell)), f"[{key!r}]"


def _is_one_of_several_views(value: TensorRef, picked: TensorRef, index: Value) -> bool:
    """Whether an item of a tensor, or of a tuple of tensors, is a view that one call made beside others, or one of it.

    What an index of whole numbers or truth values picks is a copy.
    """
    if value.cell.sibling:
        return picked.cell.base is not None
    made = value.cell.node
    return made is not None and catalogue.kind(made.operation) == catalogue.VIEWS and not isinstance(index, slice)


def _dimensions_taken(index: Value) -> int:
    """Number of dimensions that an index takes from a tensor, with all that it has for an index that is not known."""
    if isinstance(index, slice):
        return 0
    number = isinstance(index, int) or (isinstance(index, Symbol) and cuts.is_number(index.key))
    return 1 if number else _MANY


def _of_tensor_item(interp: Interpreter, value: TensorRef, index: Value, node: ast.expr) -> TensorRef:
    made = value.cell.node
    if made is not None and isinstance(index, int) and catalogue.operation(made.operation).is_whole(index):
        return cuts.whole_numbers(interp, [value], node)
    if isinstance(index, (int, slice)) or index is None or index is Ellipsis or _basic(index, node):
        place = tuple(slot.value for slot in index.items) if isinstance(index, Sequence) else (index,)
        of_several = isinstance(index, int) and _has_own_storage(value.cell.node, index)
        picked = interp.operation("select", [_untouched(value, place)], node, view=None if of_several else value)
        picked.cell.dense = value.cell.dense and layout.is_dense_index(place)
        if made is not None and catalogue.kind(made.operation) == catalogue.VIEWS and isinstance(index, int):
            picked.cell.dense_from = value.cell.dense_from
        elif value.cell.dense:
            picked.cell.dense_from = layout.dense_index_from(place)
        picked.cell.has_ones = picked.cell.has_ones or any(map(reshaped.is_single, place))
        if value.cell.base is None:
            picked.cell.place = place
        return picked
    if _is_key(value, index):
        return interp.operation("select", [value], node)
    if (isinstance(index, TensorRef) and index.cell.counted != 0) or (
        isinstance(index, Sequence) and any(True for _ in interp.tensors(index))
    ):
        return interp.operation("index", [value, index], node, names=("self", "indices"))
    if isinstance(index, TensorRef):  # of a single whole number, which is as good as an ``int``
        return interp.operation("select", [value], node, view=value)
    # What a tensor, or an array, picks is a copy: an unknown index may be one.
    shares = isinstance(index, Symbol) and (cuts.is_number(index.key) or extents.is_slice(index))
    return interp.operation("select", [value], node, view=value if shares else None)


def _has_own_storage(made: Node | None, index: int) -> bool:
    """Whether an item of a result is a tensor of its own, which no backward pass needs: ``torch.std_mean(x)[1]``."""
    if made is None:
        return False
    row = catalogue.operation(made.operation)
    several = -len(row.fields) <= index < len(row.fields) and row.known
    return made.opaque or (several and not row.saves_result(index))


def _untouched(value: TensorRef, place: tuple[object, ...]) -> TensorRef:
    """A tensor as it was before other parts of it than this were changed."""
    node = parts.untouched(value.cell, place)
    return value if node is value.cell.node else TensorRef(replace(value.cell, node=node), value.provenance)


def _basic(index: Value, node: ast.expr) -> bool:
    """Whether an index is made of numbers and slices only, known or not, so that the result is a view."""
    if not isinstance(index, Sequence) or index.kind != "tuple":
        return False
    written = node.slice.elts if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) else []
    slices = {at for at, part in enumerate(written) if isinstance(part, ast.Slice)}
    return all(
        at in slices
        or isinstance(slot.value, (int, slice, type(None), type(Ellipsis)))
        or (isinstance(slot.value, Symbol) and cuts.is_number(slot.value.key))
        for at, slot in enumerate(index.items)
    )


def _may_be_list(cell: TensorImpl) -> bool:
    """Whether what is taken for a tensor, or for a part of one, may be a list of several."""
    return cell.unsure or (cell.base is not None and cell.base.unsure)


def _note_part(interp: Interpreter, cell: TensorImpl, part: Value) -> None:
    """What was taken for a tensor is asked for a *part*; if by a name, it is the record that a model returns."""
    if isinstance(part, str):
        cell.named = True
        _require_one_kind(interp, cell)


def _require_one_kind(interp: Interpreter, cell: TensorImpl) -> None:
    """A record has no ``detach``, before or behind the place where its parts are asked for."""
    if cell.named and cell.detachable:
        interp.crash("a record of tensors has no detach")


def _owners(interp: Interpreter, cell: TensorImpl) -> tuple[Hashable, ...]:
    """Keys under which the attributes of a tensor are kept, the first of which has them.

    A parameter is a new reference for whoever goes through ``parameters()``, where it stands for all those of a layer.
    """
    if cell.leaf is None or cell.node is not cell.leaf.node:
        return (("tensor", interp.identity(cell)),)
    leaf = interp.identity(cell.leaf)
    return (("leaf", leaf, cell.place if cell.part else "last part"), ("leaf", leaf, "all"))


def _set_on_parameter(interp: Interpreter, cell: TensorImpl, name: str, slot: Binding) -> None:
    """Set an attribute of a parameter, or of all those that a leaf stands for."""
    kept = interp.attributes_of_opaque
    own, of_all = _owners(interp, cell)
    if cell.part:
        kept[own, name] = kept[("leaf", interp.identity(cell.leaf), "last part"), name] = slot
        return
    for owner, other in [key for key in kept if key[1] == name]:
        if isinstance(owner, tuple) and owner[:2] == ("leaf", interp.identity(cell.leaf)):
            del kept[owner, other]
    kept[of_all, name] = slot


def _has_no_gradient(interp: Interpreter, value: TensorRef) -> bool:
    """Whether no pass leaves a gradient in a tensor: in data, and in a result unless it is told to retain it."""
    if value.guessed or interp.sources.retains_gradients:
        return False
    made = value.cell.node
    if made is not None and any(made.site == refused.place for refused in interp.incidents.leaves_refused.values()):
        return False  # the program meant it to collect gradients
    return escapes.certainly_has_no_graph(value) or escapes.certainly_has_graph(value, leaves=False)


def _recorded(interp: Interpreter, value: TensorRef, name: str) -> Value:
    """``requires_grad``, and ``grad_fn``, of which only the None of a leaf or of data says something."""
    cell = value.cell
    if cell.node is None and not (cell.vague or cell.unsure):
        return False if name == "requires_grad" else None
    if escapes.certainly_has_graph(value):
        if name == "requires_grad":
            return True
        return Name("torch.autograd.Node") if cell.node is not None and cell.node.leaf is None else None
    return interp.symbol(("attr", interp.identity(cell), name))


def _row_of(interp: Interpreter, tensor: TensorRef, at: Value, node: ast.expr, begun: int, *, exact: bool) -> Value:
    """A row of a tensor that a loop goes through: one of several views, as ``unbind`` makes them when it has *begun*.

    *begun* is the tensor's version at that time.
    """
    row = elements.item(interp, tensor, at if exact else interp.fresh_symbol("index"), node)
    if isinstance(row, TensorRef):
        row.cell.extent = max(row.cell.extent, tensor.cell.rows)
        row.cell.sibling = row.cell.sibling or elements.is_one_tensor(tensor)
        row.cell.viewed = min(row.cell.viewed, begun)
    return row


def _is_of_one(written: ast.expr) -> bool:
    """Whether what is written is a tensor of one row, or all of one in a single piece: ``x.split(len(x))``."""
    match written:
        case ast.Subscript(slice=ast.Slice(None, ast.Constant(1), None) | ast.Constant(None)):
            return True
        case ast.Call(ast.Attribute(attr="unsqueeze"), [ast.Constant(0)]):
            return True
        case ast.Call(ast.Attribute(whole, "split"), [size]):
            text = ast.unparse(whole)
            return ast.unparse(size) in (f"len({text})", f"{text}.shape[0]", f"{text}.size(0)")
    return False
