"""Notes taken while a program is read: values, the edits that they want, and the reasons why a formula stays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from enum import Enum, auto

import libcst as cst

from autofix.codemods.formula.rewrites import (
    as_array,
    as_number,
    drop_name,
    functions_in,
    imports_of,
    on_one_line,
    receiver,
    same,
    with_receiver,
)
from autofix.codemods.formula.values import OTHER, Change, Kind, Value, joined
from autofix.codemods.rewriting.nodes import method_call, parenthesised, with_keyword
from autofix.codemods.rewriting.tree import Tree

_FILES = 12
_ALONE = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Return, cst.Arg, cst.Element, cst.FormattedStringExpression)


class Taken(Enum):
    """Kinds of arrays that stay arrays, and are taken over by torch where the formula meets them."""

    NEEDED = auto()
    """Constant arrays that code outside the formula reads as well."""
    CONSTANT = auto()
    """All constant arrays."""
    UNKNOWN = auto()
    """Also values of which nothing is known: a scaler's ``self.std``."""


class Marks(ABC):
    """The notes of one reading of a program."""

    def __init__(self, tree: Tree, drops: set[cst.CSTNode], taken: Taken) -> None:
        self.tree = tree
        self._drops = drops
        self._wrapping = taken is not Taken.NEEDED
        self._unknown_too = taken is Taken.UNKNOWN
        self._modules = list(dict.fromkeys(tree.module_of(node) for node in drops))
        if len(tree.program.files) <= _FILES:
            self._modules = tree.modules()
        self._aliases = {module: dict(imports_of(tree, module)) for module in self._modules}
        self._functions = [(module, one) for module in self._modules for one in functions_in(module)]
        self._everything = "\n".join(tree.program.texts.values())
        self._promoted: set[Hashable] = set()
        self._known: dict[Hashable, Value] = {}
        self._now: dict[Hashable, Value] = {}
        self._homes: dict[Hashable, cst.CSTNode] = {}
        self._begin()

    def _begin(self) -> None:
        self._wanted: set[Hashable] = set()
        self._edits: dict[cst.CSTNode, Change] = {}
        self._shows: dict[cst.CSTNode, Change] = {}
        self._calls: dict[cst.CSTNode, set[cst.CSTNode]] = {}
        self._groups: list[frozenset[cst.CSTNode]] = []
        self._chains: dict[cst.CSTNode, set[cst.CSTNode]] = {}
        self._shown = False
        self.covered: set[cst.CSTNode] = set()
        self.refused: list[str] = []

    def _enter_scope(self, module: cst.Module, scope: cst.CSTNode) -> None:
        self._module, self._scope = module, scope
        self._env: dict[str, Value] = {}

    @abstractmethod
    def eval(self, node: cst.BaseExpression) -> Value:
        """The value of an expression."""

    # Values and their edits

    def refuse(self, why: str) -> Value:
        self.refused.append(why)
        return OTHER

    def unknown(self, values: Iterable[Value], *, reads: bool = False) -> Value:
        """The value of an operation on *values* that torch may not have, and that is not part of the formula.

        *reads*: whether the operation is known to do nothing but to read the arrays.
        """
        found = [value for value in values if value.live]
        if found and not (self._shown or reads):
            return self.refuse("something that torch has not")
        for value in found:
            self._show(value)
        return OTHER

    def _show(self, value: Value) -> None:
        """Convert a tensor of the formula that is printed, drawn or stored to the array, or the number, that it was."""
        node = value.node
        if not value.live or node is None:
            return
        if value.kind is not Kind.ARRAY or value.loose:
            self.refuse("a container that is shown")
            return
        self._shows[node] = as_number if value.rank == 0 else as_array

    def array(
        self,
        node: cst.BaseExpression,
        parts: list[Value],
        edits: Sequence[tuple[cst.CSTNode, Change]],
        *,
        rank: int | None = None,
        truth: bool = False,
    ) -> Value:
        """An array computed of *parts*; a tensor, by these *edits*, if one of the parts is one."""
        live = any(part.live for part in parts)
        sources = frozenset().union(*(part.sources for part in parts))
        if live:
            for part in parts:
                self.demand(part)
            self._make([*edits, (node, same)])
            return Value(Kind.ARRAY, True, sources=sources, rank=rank, truth=truth)
        own = (*(edit for part in parts for edit in part.edits), *edits, (node, same))
        usable = all(part.kind in (Kind.ARRAY, Kind.LIST, Kind.NUMBER) and not part.fixed for part in parts)
        needs = frozenset().union(*(part.needs for part in parts))
        return Value(
            Kind.ARRAY, fixed=not usable, needs=needs, sources=sources, rank=rank, truth=truth, edits=own, node=node
        )

    def demand(self, value: Value) -> None:
        """Require that *value*, which meets a tensor of the formula, be a tensor or a number."""
        if value.live or value.kind is Kind.NUMBER:
            if value.live and value.kind is Kind.OTHER:
                self.refuse("a value of several kinds")
            for item in value.items:
                self.demand(item)
            self._wanted |= value.needs if value.live else frozenset()
            return
        if value.kind not in (Kind.ARRAY, Kind.LIST) or value.fixed:
            self.refuse("a value of which too little is known")
            return
        self._make(value.edits)
        self._wanted |= value.needs
        for item in value.items:
            if not item.needs <= self._promoted or item.kind is not Kind.ARRAY:
                self.demand(item)

    def _make(self, edits: Iterable[tuple[cst.CSTNode, Change]]) -> None:
        for node, how in edits:
            self.covered |= {node, *self._chains.get(node, ())}
            if how is not same:
                self._edits[node] = how

    def _store(self, key: Hashable, value: Value) -> Value:
        """The value of the definition *key* (a name, an argument or a result) once it is given *value*."""
        if value.kind is Kind.TUPLE:
            items = tuple(self._store((key, at), item) for at, item in enumerate(value.items))
            return replace(value, items=items, edits=(), node=None, live=any(item.live for item in items))
        if value.kind not in (Kind.ARRAY, Kind.LIST):
            return replace(value, edits=(), node=None)
        self._homes[key] = self._scope
        if value.live:
            self._wanted.add(key)
        elif key in self._promoted:
            self.demand(value)
        needs = frozenset((key,))
        return replace(value, live=value.live or key in self._promoted, needs=needs, edits=(), node=None)

    def _join(self, one: Value | None, other: Value | None) -> Value:
        found = joined(one, other)
        self._want(found)
        return found

    def _want(self, value: Value) -> None:
        """Want the definitions that a live *value* needs to be a tensor; of a tuple, those of its items."""
        if value.kind is Kind.TUPLE:
            for item in value.items:
                self._want(item)
        elif value.live:
            self._wanted |= value.needs

    # Rewrites of expressions

    def placed(self, node: cst.CSTNode, value: cst.BaseExpression) -> cst.BaseExpression:
        """*value* in the place of *node*, in parentheses only where something may bind tighter."""
        if isinstance(self.tree.parent_of(node), _ALONE) and not isinstance(value, (cst.GeneratorExp, cst.Tuple)):
            return value.with_changes(lpar=[], rpar=[]) if on_one_line(self.tree, value) else value
        return parenthesised(value)

    def taken_over(self, node: cst.BaseExpression, *, exact: bool) -> Change:
        """Rewrite that takes an array over by torch where it is read: ``torch.from_numpy(weights).float()``."""
        torch = self.tree.torch_name(node)

        def change(found: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(found, cst.BaseExpression)
            taken = cst.Call(cst.Attribute(cst.Name(torch), cst.Name("from_numpy")), [cst.Arg(found)])
            return taken if exact else method_call(taken, "float")

        return change

    def met(self, values: list[Value]) -> list[Value]:
        """*values* that are computed with each other; beside an array, an unknown one is taken for an array as well."""
        if any(value.kind is Kind.ARRAY and not value.loose for value in values):
            return [self._unknown_taken_over(value) for value in values]
        return values

    def _unknown_taken_over(self, value: Value) -> Value:
        """A value of which nothing is known, met by a formula: ``torch.as_tensor(self.std, dtype=torch.float32)``.

        NumPy computes with arrays, numbers and lists of them, and torch takes all of these.
        """
        node = value.node
        if node is None or not self._unknown_too or value.live or value.needs or value.sources:
            return value
        if value.kind is Kind.OTHER:
            written = _is_place(node) and self.path(node) is None
        else:
            written = value.kind is Kind.SHAPE and isinstance(node, (cst.List, cst.Tuple, cst.Name))
        if not written:
            return value
        torch = self.tree.torch_name(node)

        def change(found: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(found, cst.BaseExpression)
            taken = cst.Call(cst.parse_expression(f"{torch}.as_tensor"), [cst.Arg(found)])
            return with_keyword(taken, "dtype", f"{torch}.float32")

        return Value(Kind.ARRAY, edits=((node, change),), node=node)

    def entry(self, node: cst.BaseExpression, inner: cst.BaseExpression, change: Change) -> Value:
        """The array that *node* makes of the tensor *inner*; *change* undoes the conversion."""
        chain: set[cst.CSTNode] = {node}
        edits: list[tuple[cst.CSTNode, Change]] = []
        part: cst.CSTNode = inner
        stripped = True
        while isinstance(part, (cst.Call, cst.Attribute)):
            name = drop_name(part)
            stripped = stripped and name in ("detach", "data", "cpu")
            if name in ("detach", "data"):
                chain.add(part)
                if not stripped:
                    edits.append((part, receiver))
            follow = part.func if isinstance(part, cst.Call) else part
            if not isinstance(follow, cst.Attribute):
                break
            part = follow.value
        seeded = bool(chain & self._drops)
        self._chains[node] = chain
        sources = frozenset((node,)) if seeded else frozenset()
        return Value(Kind.ARRAY, sources=sources, given=True, edits=(*edits, (node, change)), node=node)

    def _entered(self, node: cst.BaseExpression) -> Change:
        """Rewrite of ``x.detach().cpu().numpy()``: ``x``, or ``x.cpu()`` in a program for several devices."""
        moved = any(word in self._everything for word in ("cuda", "device", "mps"))

        def change(found: cst.CSTNode) -> cst.CSTNode:
            moves: list[cst.BaseExpression] = []
            while drop_name(found) in ("numpy", "detach", "data", "cpu"):
                assert isinstance(found, cst.BaseExpression)
                if moved and drop_name(found) == "cpu":
                    moves.append(found)
                found = receiver(found)
            assert isinstance(found, cst.BaseExpression)
            for move in moves:
                found = with_receiver(move, found)
            return self.placed(node, found)

        return change

    def step_after(self, node: cst.Call) -> tuple[cst.CSTNode, str] | None:
        """The subscript around *node* that takes every n-th row (``x[::n]``), and ``n``; None where there is none."""
        parent = self.tree.parent_of(node)
        if not isinstance(parent, cst.Subscript) or len(parent.slice) != 1:
            return None
        part = parent.slice[0].slice
        if isinstance(part, cst.Slice) and part.lower is None and part.upper is None and part.step is not None:
            if isinstance(part.step, (cst.Integer, cst.Name)):
                return parent, self.tree.code(part.step)
        return None

    def path(self, node: cst.BaseExpression) -> str | None:
        """The dotted name of an imported object, or the name of one of Python's own types; None for anything else."""
        if isinstance(node, cst.Name):
            if node.value in self._env:
                return None
            known = self._aliases[self._module].get(node.value)
            return known or (node.value if node.value in ("float", "int", "bool") else None)
        if isinstance(node, cst.Attribute):
            head = self.path(node.value)
            return f"{head}.{node.attr.value}" if head is not None else None
        return None


def _is_place(node: cst.BaseExpression) -> bool:
    """Whether *node* is a name, or an attribute or item of one: ``std``, ``self.std``, ``stats["std"]``."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
    return isinstance(node, cst.Name)
