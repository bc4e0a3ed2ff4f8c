"""A NumPy formula between tensors that go in and the tensor that comes out, as the same formula in torch.

The program's functions are read again and again, each statement in its order, until it is clear which arrays must
become tensors: those on the ways from the tensors that lost their graphs to a tensor that is made of the result, and
whatever meets them on the ways.  One operation there which is not certainly the same in torch, and nothing is changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace

import libcst as cst

from codemods import numpy_calls
from codemods.facts import CutGraph
from codemods.numpy_twins import FUNCTIONS, NUMBERS
from codemods.numpy_values import NUMBER, OTHER, SHAPE, TENSOR, Change, Kind, Value, joined
from codemods.rewrite import Edit, Tree, method_call, only_part, parenthesised

_PASSES = 16
"""How often a program is read at most."""
_FILES = 12
"""Of a program of more files only those are read in which graphs are dropped."""
_BUILTINS = frozenset("len float int bool abs sum max min range zip enumerate round str list tuple sorted".split())
_MADE = frozenset(("from_numpy", "tensor", "as_tensor", "asarray", "Tensor", "FloatTensor", "DoubleTensor"))
_ONLY_TENSORS = frozenset("detach cpu cuda to backward requires_grad_ unsqueeze clone contiguous softmax".split())
_ALONE = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Return, cst.Arg, cst.Element, cst.FormattedStringExpression)
_OPERATORS: dict[type[cst.BaseAugOp], cst.BaseBinaryOp] = {
    cst.AddAssign: cst.Add(),
    cst.SubtractAssign: cst.Subtract(),
    cst.MultiplyAssign: cst.Multiply(),
    cst.DivideAssign: cst.Divide(),
}
_NO_ARITHMETIC = (cst.In, cst.NotIn, cst.Is, cst.IsNot)
_NOT_SMOOTH = (cst.FloorDivide, cst.Modulo, cst.LeftShift, cst.RightShift)


def in_torch(fact: CutGraph, tree: Tree) -> tuple[Edit, set[cst.CSTNode]] | None:
    """The edits that bring the formula on the way of *fact* to torch, and the drops that they undo.

    None where no formula of NumPy is on its way, or one that cannot be translated.
    """
    drops: set[cst.CSTNode] = {node for drop in fact.drops if (node := tree.expression(drop.span)) is not None}
    if not drops or not all(tree.imports_torch(node) for node in drops):
        return None
    if len(tree.program.files) <= _FILES:
        tree.modules()
    for wrapping in (False, True):
        reader = Reader(tree, drops, wrapping=wrapping)
        if reader.read() and (not fact.several or reader.is_one_formula()):
            return reader.edit(), reader.covered & drops
    return None


class Reader:
    """One reading of a program."""

    def __init__(self, tree: Tree, drops: set[cst.CSTNode], *, wrapping: bool) -> None:
        self.tree = tree
        self._drops = drops
        self._wrapping = wrapping
        """Whether all constant arrays stay as they are, and are taken over by torch where the formula meets them."""
        self._modules = list(dict.fromkeys(tree.module_of(node) for node in drops))
        if len(tree.program.files) <= _FILES:
            self._modules = tree.modules()
        self._aliases = {module: dict(_imports(tree, module)) for module in self._modules}
        self._functions = [(module, one) for module in self._modules for one in _functions_in(module)]
        self._everything = "\n".join(tree.program.texts.values())
        self._promoted: set[Hashable] = set()
        self._known: dict[Hashable, Value] = {}
        self._now: dict[Hashable, Value] = {}
        self._homes: dict[Hashable, cst.CSTNode] = {}
        self._begin()

    # Reading

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

    def read(self) -> bool:
        """Whether there is a formula, and all of it can be translated."""
        for _ in range(_PASSES):
            self._begin()
            self._known, self._now = self._now, {}
            for module in self._modules:
                self._enter_scope(module, module)
                self._block(module.body)
            for module, function in self._functions:
                self._enter_scope(module, function)
                if self._hands_over(function) is None:
                    self._function(function)
            settled = self._wanted <= self._promoted and self._now == self._known
            if settled:
                return bool(self._groups) and not self.refused and self._all_known()
            self._promoted |= self._wanted
        return False

    def _enter_scope(self, module: cst.Module, scope: cst.CSTNode) -> None:
        self._module, self._scope = module, scope
        self._env: dict[str, Value] = {}

    def _all_known(self) -> bool:
        """Whether all who call a function whose arguments or results become tensors were read."""
        changed = {key[1] for key in self._promoted if isinstance(key, tuple) and key[0] in ("argument", "result")}
        return all(isinstance(function, cst.FunctionDef) and self._is_closed(function) for function in changed)

    def _is_closed(self, function: cst.FunctionDef) -> bool:
        name = function.name.value
        if name == "forward" or name.startswith("__"):
            return False
        if any(self.tree.code(one.decorator) != "staticmethod" for one in function.decorators):
            return False
        if len(self._modules) < len(self.tree.program.files):
            return False
        mentioned = sum(
            isinstance(node, cst.Name) and node.value == name and not self._only_names(node)
            for module in self._modules
            for node in _nodes_in(module)
        )
        return mentioned == len(self._calls.get(function, ()))

    def _only_names(self, node: cst.Name) -> bool:
        parent = self.tree.parent_of(node)
        named = isinstance(parent, (cst.FunctionDef, cst.ImportAlias)) and parent.name is node
        return named or (isinstance(parent, cst.Arg) and parent.keyword is node)

    def is_one_formula(self) -> bool:
        """Whether all tensors that go in meet in NumPy: there none of them could have kept its graph."""
        groups = list(self._groups)
        found = groups.pop(0)
        while True:
            near = [group for group in groups if group & found]
            if not near:
                return not groups
            found = found.union(*near)
            groups = [group for group in groups if group not in near]

    def edit(self) -> Edit:
        edit = Edit(self.tree)
        for node, how in (*self._edits.items(), *self._shows.items()):
            edit.change(node, how)
        for statement in dict.fromkeys(self.tree.statement_of(node) for node in self._edits):
            if isinstance(statement, cst.SimpleStatementLine) and self._may_go(statement):
                edit.change(statement, _without_needless)
        return edit

    def _may_go(self, statement: cst.SimpleStatementLine) -> bool:
        commented = statement.trailing_whitespace.comment or any(line.comment for line in statement.leading_lines)
        return not commented and len(self.tree.block_of(statement)) > 1

    # What values become

    def refuse(self, why: str) -> Value:
        self.refused.append(why)
        return OTHER

    def unknown(self, values: Iterable[Value]) -> Value:
        """The value of what torch may not have: nobody may ask for it as a tensor, except to show it."""
        found = [value for value in values if value.live]
        if found and not self._shown:
            return self.refuse("something that torch has not")
        for value in found:
            self._show(value)
        return OTHER

    def _show(self, value: Value) -> None:
        """A tensor of the formula is printed, drawn or stored: as the array, or the number, that it was."""
        node = value.node
        if not value.live or node is None:
            return
        if value.kind is not Kind.ARRAY or value.loose:
            self.refuse("a container that is shown")
            return
        self._shows[node] = _as_number if value.rank == 0 else _as_array

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
            self._make([*edits, (node, _same)])
            return Value(Kind.ARRAY, True, sources=sources, rank=rank, truth=truth)
        own = (*(edit for part in parts for edit in part.edits), *edits, (node, _same))
        usable = all(part.kind in (Kind.ARRAY, Kind.LIST, Kind.NUMBER) and not part.fixed for part in parts)
        needs = frozenset().union(*(part.needs for part in parts))
        return Value(
            Kind.ARRAY, fixed=not usable, needs=needs, sources=sources, rank=rank, truth=truth, edits=own, node=node
        )

    def demand(self, value: Value) -> None:
        """*value* meets a tensor of the formula: it must be a tensor, or a number."""
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
            if how is not _same:
                self._edits[node] = how

    def placed(self, node: cst.CSTNode, value: cst.BaseExpression) -> cst.BaseExpression:
        """*value* in the place of *node*, in parentheses only where something may bind tighter."""
        if isinstance(self.tree.parent_of(node), _ALONE) and not isinstance(value, (cst.GeneratorExp, cst.Tuple)):
            return value.with_changes(lpar=[], rpar=[]) if _on_one_line(self.tree, value) else value
        return parenthesised(value)

    def taken_over(self, node: cst.BaseExpression, *, exact: bool) -> Change:
        """An array that stays one: ``torch.from_numpy(weights).float()``."""
        torch = self.tree.torch_name(node)

        def change(found: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(found, cst.BaseExpression)
            taken = cst.Call(cst.Attribute(cst.Name(torch), cst.Name("from_numpy")), [cst.Arg(found)])
            return taken if exact else method_call(taken, "float")

        return change

    def entry(self, node: cst.BaseExpression, inner: cst.BaseExpression, change: Change) -> Value:
        """A tensor is made an array."""
        chain: set[cst.CSTNode] = {node}
        edits: list[tuple[cst.CSTNode, Change]] = []
        part: cst.CSTNode = inner
        stripped = True
        while isinstance(part, (cst.Call, cst.Attribute)):
            name = _drop_name(part)
            stripped = stripped and name in ("detach", "data", "cpu")
            if name in ("detach", "data") and part in self._drops:
                chain.add(part)
                if not stripped:
                    edits.append((part, _receiver))
            follow = part.func if isinstance(part, cst.Call) else part
            if not isinstance(follow, cst.Attribute):
                break
            part = follow.value
        seeded = bool(chain & self._drops)
        self._chains[node] = chain
        sources = frozenset((node,)) if seeded else frozenset()
        return Value(Kind.ARRAY, sources=sources, given=True, edits=(*edits, (node, change)), node=node)

    def _entered(self, node: cst.BaseExpression) -> Change:
        """What ``x.detach().cpu().numpy()`` becomes: ``x``; what lost no graph of the loss stays detached."""
        moved = any(word in self._everything for word in ("cuda", "device", "mps"))
        steps: list[bool] = []
        part: cst.CSTNode = node
        while _drop_name(part) in ("numpy", "detach", "data", "cpu"):
            kept = moved if _drop_name(part) == "cpu" else part not in self._drops
            steps.append(kept and part is not node)
            part = _receiver(part)

        def change(found: cst.CSTNode) -> cst.CSTNode:
            kept: list[cst.BaseExpression] = []
            for keep in steps:
                assert isinstance(found, cst.BaseExpression)
                if keep:
                    kept.append(found)
                found = _receiver(found)
            assert isinstance(found, cst.BaseExpression)
            for step in reversed(kept):
                found = _with_receiver(step, found)
            return self.placed(node, found)

        return change

    def _store(self, key: Hashable, value: Value) -> Value:
        """What a name, an argument or a result stands for."""
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

    # Statements

    def _block(self, body: Iterable[cst.CSTNode]) -> None:
        for statement in body:
            self._statement(statement)

    def _function(self, function: cst.FunctionDef) -> None:
        for at, param in enumerate((*function.params.params, *function.params.kwonly_params)):
            name = param.name.value
            value = self._known.get(("argument", function, name), OTHER)
            annotation = self.tree.code(param.annotation.annotation) if param.annotation is not None else ""
            default = self.eval(param.default) if param.default is not None else OTHER
            if annotation in ("int", "float") or (default.kind is Kind.NUMBER and value.kind is Kind.OTHER):
                value = NUMBER
            if at == 0 and name in ("self", "cls"):
                value = OTHER
            self._env[name] = value
        body = function.body.body
        self._block(body)

    def _branches(self, *blocks: Iterable[cst.CSTNode]) -> None:
        """Blocks of which one is run, or none."""
        before = self._env
        found: list[dict[str, Value]] = []
        for block in blocks:
            self._env = dict(before)
            self._block(block)
            found.append(self._env)
        self._env = {}
        for name in dict.fromkeys(name for one in found for name in one):
            value: Value | None = None
            for one in found:
                if name in one:
                    value = self._join(value, one[name])
            assert value is not None
            self._env[name] = value

    def _join(self, one: Value | None, other: Value | None) -> Value:
        found = joined(one, other)
        if found.live:
            self._wanted |= found.needs
        return found

    def _statement(self, node: cst.CSTNode) -> None:
        match node:
            case cst.SimpleStatementLine() | cst.SimpleStatementSuite():
                self._block(node.body)
            case cst.Assign():
                value = self.eval(node.value)
                for at, target in enumerate(node.targets):
                    self._assign(target.target, value, (node, at))
            case cst.AnnAssign(value=cst.BaseExpression() as written):
                self._assign(node.target, self.eval(written), (node, 0))
            case cst.AugAssign():
                self._augmented(node)
            case cst.Expr():
                self._alone(node.value)
            case cst.Return():
                value = self.eval(node.value) if node.value is not None else NUMBER
                key = ("result", self._scope)
                self._now[key] = self._join(self._now.get(key), self._store(key, value))
            case cst.If():
                self._test(node.test)
                orelse = node.orelse
                other = orelse.body.body if isinstance(orelse, cst.Else) else [orelse] if orelse is not None else []
                self._branches(node.body.body, other)
            case cst.For():
                item = self._item_of(self._items(node.iter))
                for _ in range(2):
                    self._assign(node.target, item, (node, "item"))
                    self._branches(node.body.body, [])
                self._block(node.orelse.body.body if node.orelse is not None else [])
            case cst.While():
                for _ in range(2):
                    self._test(node.test)
                    self._branches(node.body.body, [])
            case cst.With():
                for one in node.items:
                    self._test(one.item)
                    if one.asname is not None:
                        self._assign(one.asname.name, OTHER, (node, "with"))
                self._block(node.body.body)
            case cst.Try():
                self._branches(node.body.body, [])
                for handler in node.handlers:
                    self._branches(handler.body.body, [])
                for rest in (node.orelse, node.finalbody):
                    self._block(rest.body.body if rest is not None else [])
            case cst.FunctionDef():
                self._env.pop(node.name.value, None)
            case cst.ClassDef():
                outer, self._env = self._env, {}
                self._block(node.body.body)
                self._env = outer
            case cst.Assert():
                self._test(node.test)
            case cst.Raise() | cst.Del() | cst.Match():
                for part in node.children:
                    self._mention(part)

    def _mention(self, node: cst.CSTNode) -> None:
        """Something is done with names that is not followed."""
        for one in self.tree.names_in(node):
            if self.eval(one).live:
                self.refuse("a statement that is not followed")

    def _test(self, node: cst.BaseExpression) -> None:
        value = self.eval(node)
        if value.live and value.kind is not Kind.ARRAY:
            self.refuse("a condition")

    def _alone(self, node: cst.BaseExpression) -> None:
        """An expression as a statement: a call whose result nobody uses."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "append":
            owner = self.eval(node.func.value)
            if owner.kind is Kind.LIST and len(node.args) == 1 and len(owner.needs) == 1:
                self._appended(node, owner)
                return
        called = isinstance(node, cst.Call) and self._called(node) is None
        before, self._shown = self._shown, called
        value = self.eval(node)
        self._shown = before
        if value.live and not isinstance(node, cst.Call):
            self.refuse("an expression that is not used")

    def _appended(self, node: cst.Call, owner: Value) -> None:
        assert isinstance(node.func, cst.Attribute)
        value = self.eval(node.args[0].value)
        (key,) = owner.needs
        if key in self._promoted:
            self.demand(value)
        elif value.live and self._is_formula(key):
            self._show(value)
            value = replace(value, live=False, kind=Kind.ARRAY)
        item = replace(value, edits=(), node=None)
        found = replace(
            owner,
            items=(joined(owner.items[0] if owner.items else None, item),),
            sources=owner.sources | value.sources,
            edits=(),
            live=key in self._promoted,
        )
        self._set(node.func.value, found)

    def _is_formula(self, key: Hashable) -> bool:
        """Whether a list is none that the formula goes through, as far as is known by now."""
        return key not in self._promoted

    def _set(self, target: cst.BaseExpression, value: Value) -> None:
        name = self.tree.code(target)
        if isinstance(target, cst.Name) or name.startswith("self."):
            self._env[name] = value
            for key in self._table_keys(target):
                self._now[key] = self._join(self._now.get(key), value)

    def _table_keys(self, target: cst.BaseExpression) -> list[Hashable]:
        if isinstance(target, cst.Name):
            return [("name", self._scope, target.value)]
        owner = self.tree.class_of(target)
        return [("attribute", owner, self.tree.code(target))] if owner is not None else []

    def _assign(self, target: cst.BaseExpression, value: Value, key: Hashable) -> None:
        match target:
            case cst.Name():
                self._set(target, self._store(key, value))
            case cst.Attribute(value=cst.Name(value="self")):
                if value.live:
                    self._check_attribute(target.attr.value)
                self._set(target, self._store(key, value))
            case cst.Tuple() | cst.List():
                for at, element in enumerate(target.elements):
                    item = OTHER
                    if value.kind is Kind.TUPLE and len(value.items) == len(target.elements):
                        item = value.items[at]
                    elif value.kind in (Kind.SHAPE, Kind.NUMBER):
                        item = NUMBER
                    elif value.kind in (Kind.ARRAY, Kind.TENSOR, Kind.LIST):
                        item = self._item_of(value)
                    elif value.live:
                        self.refuse("a value that is taken apart")
                    self._assign(element.value, item, (key, at))
            case _:
                for part in target.children:
                    if isinstance(part, cst.BaseExpression) and self.eval(part).live:
                        self.refuse("an array that is written to")
                if value.live:
                    self._show(value)

    def _check_attribute(self, name: str) -> None:
        """An attribute that becomes a tensor is read by its own class only."""
        for module in self._modules:
            for node in _nodes_in(module):
                if isinstance(node, cst.Attribute) and node.attr.value == name:
                    if not (isinstance(node.value, cst.Name) and node.value.value == "self"):
                        self.refuse("an attribute that others may read")
                        return

    def _augmented(self, node: cst.AugAssign) -> None:
        value, former = self.eval(node.value), self.eval(node.target)
        if not isinstance(node.target, cst.Name):
            if former.live or value.live:
                self.refuse("an array that is written to")
            return
        operator = _OPERATORS.get(type(node.operator))
        written = former.kind is Kind.ARRAY and not (former.loose or former.rank == 0)
        edits: list[tuple[cst.CSTNode, Change]] = []
        if written and operator is not None and self._is_own(node):
            edits = [(node, _out_of_place(operator))]
        elif (former.live or value.live or former.sources or value.sources) and (written or operator is None):
            found = replace(joined(former, value), fixed=True, needs=former.needs | value.needs)
            if found.live:
                self.refuse("an array that is written to")
            self._assign(node.target, found, (node, "result"))
            return
        if former.kind is Kind.LIST and value.kind is Kind.LIST and not (former.live or value.live):
            self._set(node.target, OTHER)
            return
        found = self._computed(node.target, [former, value], edits)
        if found.kind is Kind.ARRAY:
            found = replace(found, loose=False)
        elif TENSOR.kind in (former.kind, value.kind):
            found = TENSOR
        self._assign(node.target, found, (node, "result"))

    # Expressions

    def eval(self, node: cst.BaseExpression) -> Value:
        return replace(self._value(node), node=node)

    def _value(self, node: cst.BaseExpression) -> Value:
        match node:
            case cst.Integer() | cst.Float():
                return NUMBER
            case cst.Name():
                return self._name(node)
            case cst.Attribute():
                return self._attribute(node)
            case cst.Call():
                return self._call(node)
            case cst.BinaryOperation():
                return self._binary(node)
            case cst.UnaryOperation():
                value = self.eval(node.expression)
                if value.kind is Kind.ARRAY:
                    if isinstance(node.operator, cst.Not) or (isinstance(node.operator, cst.BitInvert) != value.truth):
                        return self.unknown([value])
                    found = self.array(node, [value], [], rank=value.rank, truth=value.truth)
                    return replace(found, whole=value.whole)
                return value if value.kind in (Kind.NUMBER, Kind.TENSOR) else OTHER
            case cst.Comparison():
                values = [self.eval(node.left), *(self.eval(one.comparator) for one in node.comparisons)]
                if any(value.kind is Kind.ARRAY for value in values):
                    if len(values) > 2 or isinstance(
                        node.comparisons[0].operator, (cst.In, cst.NotIn, cst.Is, cst.IsNot)
                    ):
                        return self.unknown(values)
                    return replace(self._computed(node, values), truth=True)
                return NUMBER if all(value.kind is Kind.NUMBER for value in values) else self.unknown(values)
            case cst.BooleanOperation():
                values = [self.eval(node.left), self.eval(node.right)]
                return self.unknown(values) if any(value.live for value in values) else OTHER
            case cst.IfExp():
                self._test(node.test)
                one, other = self.eval(node.body), self.eval(node.orelse)
                found = joined(one, other)
                if found.live:
                    self.demand(one)
                    self.demand(other)
                return replace(found, edits=(*one.edits, *other.edits))
            case cst.Subscript():
                return self._subscript(node)
            case cst.Tuple() | cst.List():
                return self._display(node)
            case cst.ListComp() | cst.GeneratorExp():
                return self._comprehension(node)
            case cst.Lambda():
                outer, self._env = self._env, dict(self._env)
                self._env.update({param.name.value: OTHER for param in node.params.params})
                value = self.eval(node.body)
                self._env = outer
                return self.unknown([value])
            case cst.FormattedString():
                self._formatted(node)
                return OTHER
            case cst.NamedExpr():
                value = self.eval(node.value)
                self._assign(node.target, value, (node, 0))
                return self.eval(node.target)
            case cst.SimpleString() | cst.ConcatenatedString() | cst.Ellipsis():
                return OTHER
        self._mention(node)
        return OTHER

    def _formatted(self, node: cst.FormattedString) -> None:
        before, self._shown = self._shown, True
        for part in node.parts:
            if isinstance(part, cst.FormattedStringExpression):
                self._show(self.eval(part.expression))
        self._shown = before

    def _is_own(self, node: cst.AugAssign) -> bool:
        """Whether the statement before made the array that *node* changes, so that nobody else has it."""
        statement = self.tree.statement_of(node)
        block = self.tree.block_of(statement) if statement is not None else []
        at = block.index(statement) if statement in block else 0
        if at == 0 or only_part(statement) is None:
            return False
        part = only_part(block[at - 1])
        if isinstance(part, cst.AugAssign):
            return self.tree.code(part.target) == self.tree.code(node.target) and self._is_own(part)
        if not isinstance(part, cst.Assign) or len(part.targets) != 1:
            return False
        if self.tree.code(part.targets[0].target) != self.tree.code(node.target):
            return False
        made = part.value
        path = (self.path(made.func) or "") if isinstance(made, cst.Call) else ""
        twin = FUNCTIONS.get(path.removeprefix("numpy."))
        makes = path.startswith("numpy.") and twin is not None and twin.name in numpy_calls.MAKE_ARRAYS
        return makes or isinstance(made, cst.BinaryOperation)

    def _computed(
        self, node: cst.BaseExpression, values: list[Value], edits: Sequence[tuple[cst.CSTNode, Change]] = ()
    ) -> Value:
        """The result of an operator; of an array and a number an array."""
        kinds = {value.kind for value in values}
        if kinds == {Kind.NUMBER}:
            return NUMBER
        if Kind.ARRAY not in kinds:
            return self.unknown(values)
        ranks = [value.rank for value in values if value.kind is Kind.ARRAY]
        rank = None if None in ranks else max(one for one in ranks if one is not None)
        found = self.array(node, values, edits, rank=rank)
        arrays = [value for value in values if value.kind is Kind.ARRAY]
        return replace(
            found,
            truth=all(value.truth for value in arrays),
            whole=all(value.whole for value in arrays),
            loose=all(value.loose for value in arrays) and len(arrays) == len(values),
        )

    def _binary(self, node: cst.BinaryOperation) -> Value:
        values = [self.eval(node.left), self.eval(node.right)]
        arrays = [value for value in values if value.kind is Kind.ARRAY]
        if not arrays:
            if TENSOR.kind in (values[0].kind, values[1].kind):
                return TENSOR
            return self._computed(node, values)
        logical = isinstance(node.operator, (cst.BitAnd, cst.BitOr, cst.BitXor))
        if isinstance(node.operator, _NOT_SMOOTH) or (logical and not all(value.truth for value in values)):
            return self.unknown(values)
        if isinstance(node.operator, cst.Subtract) and any(value.truth for value in values):
            return self.unknown(values)  # torch does not subtract what is true and false
        found = self._computed(node, values)
        if isinstance(node.operator, cst.MatrixMultiply):
            return replace(found, rank=None, truth=False)
        if isinstance(node.operator, (cst.Divide, cst.Power)):
            return replace(found, truth=False, whole=False)
        return found if logical else replace(found, truth=False, whole=found.whole and len(arrays) == 2)

    def _name(self, node: cst.Name) -> Value:
        if node.value in ("None", "True", "False"):
            return NUMBER
        value = self._env.get(node.value)
        if value is None:
            scopes = [one for one in self.tree.enclosing(node) if isinstance(one, (cst.FunctionDef, cst.Module))]
            tables = (self._known.get(("name", scope, node.value)) for scope in scopes)
            value = next((one for one in tables if one is not None), None)
        if value is None:
            path = str(self.path(node))
            last = path.rpartition(".")[2]
            return NUMBER if path.startswith(("numpy.", "math.")) and last in (*NUMBERS, "tau") else OTHER
        return self._read(node, value)

    def _read(self, node: cst.BaseExpression, value: Value) -> Value:
        """The value of a name where it is read: constant arrays may stay what they are, and be taken over here."""
        if value.kind is Kind.ARRAY and not value.live and not value.sources and value.needs:
            if not value.loose and value.rank != 0 and self._stays(node, value):
                exact = value.truth or value.whole or value.single
                return replace(
                    value, needs=frozenset(), fixed=False, edits=((node, self.taken_over(node, exact=exact)),)
                )
        return value

    def _stays(self, node: cst.BaseExpression, value: Value) -> bool:
        homes = {self._homes.get(key) for key in value.needs}
        if self._wrapping or not isinstance(node, cst.Name) or any(key[0] == "argument" for key in _pairs(value.needs)):
            return self._wrapping or not isinstance(node, cst.Name)
        if homes != {self._scope}:
            return True
        return isinstance(self._scope, cst.Module) and not value.given and self._reads(node.value) > 1

    def _reads(self, name: str) -> int:
        """How often a module reads a name."""
        return sum(
            isinstance(node, cst.Name) and node.value == name and not self._is_target(node)
            for node in _nodes_in(self._module)
        )

    def _is_target(self, node: cst.Name) -> bool:
        parent = self.tree.parent_of(node)
        while isinstance(parent, (cst.Tuple, cst.Element)):
            node, parent = parent, self.tree.parent_of(parent)  # type: ignore[assignment]
        return isinstance(parent, (cst.AssignTarget, cst.ImportAlias, cst.AsName)) or (
            isinstance(parent, (cst.AnnAssign, cst.For)) and parent.target is node
        )

    def _attribute(self, node: cst.Attribute) -> Value:
        path = self.path(node)
        name = node.attr.value
        if path is not None:
            return NUMBER if path.partition(".")[0] in ("numpy", "math") and name in (*NUMBERS, "tau") else OTHER
        if isinstance(node.value, cst.Name) and node.value.value == "self":
            known = self._env.get(self.tree.code(node))
            if known is None:
                known = self._known.get(("attribute", self.tree.class_of(node), self.tree.code(node)))
            if known is not None:
                if known.sources and not known.live:
                    self._check_attribute(name)
                return self._read(node, known)
        value = self.eval(node.value)
        if value.kind in (Kind.ARRAY, Kind.TENSOR) and name in ("shape", "ndim"):
            return SHAPE if name == "shape" else NUMBER
        if value.kind is Kind.ARRAY:
            if name == "size":
                if value.live:
                    self._make([(node, _numel)])
                return NUMBER
            if name in ("T", "real", "imag") and not value.loose:
                return replace(self.array(node, [value], [], rank=value.rank), truth=value.truth, whole=value.whole)
            return self.unknown([value])
        if value.kind is Kind.TENSOR:
            return TENSOR if name in ("data", "T", "mT", "grad", "real", "imag") else OTHER
        if name == "shape":
            return SHAPE
        return self._option(node) if value.kind is Kind.OTHER and not value.live else self.unknown([value])

    def _option(self, node: cst.Attribute) -> Value:
        """``args.margin``, which the program's parser makes a number."""
        flag = f'"--{node.attr.value.replace("_", "-")}"', f'"--{node.attr.value}"'
        for module in self._modules:
            for call in _nodes_in(module):
                if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.args:
                    written = call.args[0].value
                    if call.func.attr.value == "add_argument" and isinstance(written, cst.SimpleString):
                        if written.value.replace("'", '"') in flag and self._takes_number(call):
                            return NUMBER
        return OTHER

    def _takes_number(self, call: cst.Call) -> bool:
        return any(
            arg.keyword is not None and arg.keyword.value == "type" and self.tree.code(arg.value) in ("int", "float")
            for arg in call.args
        )

    def _subscript(self, node: cst.Subscript) -> Value:
        value = self.eval(node.value)
        indices: list[Value] = []
        flipped: list[int] = []
        whole_slices = 0
        for at, element in enumerate(node.slice):
            if isinstance(element.slice, cst.Index):
                indices.append(self.eval(element.slice.value))
                continue
            assert isinstance(element.slice, cst.Slice)
            bounds = (element.slice.lower, element.slice.upper, element.slice.step)
            found = [self.eval(part) for part in bounds if part is not None]
            if any(one.live for one in found):
                self.unknown(found)
            step = bounds[2]
            whole_slices += bounds == (None, None, None)
            if isinstance(step, cst.UnaryOperation):
                flipped.append(at if bounds[:2] == (None, None) and self.tree.code(step) == "-1" else -1)
            elif step is not None and not isinstance(step, (cst.Integer, cst.Name)):
                flipped.append(-1)
        match value.kind:
            case Kind.ARRAY:
                return self._part(node, value, indices, flipped, whole_slices)
            case Kind.SHAPE:
                return NUMBER if indices else SHAPE
            case Kind.LIST:
                return self._item_of(value) if indices else value
            case Kind.TENSOR:
                return TENSOR
            case Kind.TUPLE if len(indices) == 1 and isinstance(node.slice[0].slice, cst.Index):
                position = self.tree.code(node.slice[0].slice.value)
                return value.items[int(position)] if position.isdigit() and int(position) < len(value.items) else OTHER
        return self.unknown([value, *indices])

    def _part(
        self, node: cst.Subscript, value: Value, indices: list[Value], flipped: list[int], whole_slices: int
    ) -> Value:
        if value.loose or any(one.live and not (one.truth or one.whole) for one in indices):
            return self.unknown([value, *indices])
        for one in indices:
            # Torch takes arrays as indices; those that are written here may as well be tensors.
            if value.live and one.kind is Kind.ARRAY and not one.fixed and not isinstance(one.node, cst.Name):
                self.demand(one)
        edits: list[tuple[cst.CSTNode, Change]] = []
        if flipped:
            if len(flipped) > 1 or flipped[0] < 0 or whole_slices != len(node.slice) - 1:
                return self.unknown([value])
            edits = [(node, _flip(flipped[0]))]
        plain = len(node.slice) == 1 and len(indices) == 1 and indices[0].kind is Kind.NUMBER
        rank = value.rank - 1 if value.rank and plain and not self._adds_axis(node) else None
        if not indices and value.rank is not None:
            rank = value.rank
        if rank == 0 and not value.live and not value.sources:
            return NUMBER
        found = self.array(node, [value], edits, rank=rank)
        return replace(found, truth=value.truth, whole=value.whole)

    def _adds_axis(self, node: cst.Subscript) -> bool:
        return self.tree.code(node.slice[0]).strip() in ("None", "...") or "newaxis" in self.tree.code(node.slice[0])

    def step_after(self, node: cst.Call) -> tuple[cst.CSTNode, str] | None:
        """The subscript around *node* that takes every so many of its rows, and how many that are."""
        parent = self.tree.parent_of(node)
        if not isinstance(parent, cst.Subscript) or len(parent.slice) != 1:
            return None
        part = parent.slice[0].slice
        if isinstance(part, cst.Slice) and part.lower is None and part.upper is None and part.step is not None:
            if isinstance(part.step, (cst.Integer, cst.Name)):
                return parent, self.tree.code(part.step)
        return None

    def _display(self, node: cst.Tuple | cst.List) -> Value:
        values = [self.eval(element.value) for element in node.elements]
        if any(isinstance(element, cst.StarredElement) for element in node.elements):
            return self.unknown(values)
        if all(value.kind is Kind.NUMBER for value in values) and values:
            return SHAPE
        live = any(value.live for value in values)
        edits = tuple(edit for value in values for edit in value.edits)
        needs = frozenset().union(*(value.needs for value in values))
        sources = frozenset().union(*(value.sources for value in values))
        arrays = bool(values) and all(value.kind is Kind.ARRAY for value in values)
        parent = self.tree.parent_of(node)
        if isinstance(node, cst.List) or (arrays and isinstance(parent, cst.Arg)):
            fixed = not arrays and bool(values)
            return Value(Kind.LIST, live and arrays, fixed, needs, sources, tuple(values), edits=edits)
        return Value(Kind.TUPLE, live, False, needs, sources, tuple(values))

    def _comprehension(self, node: cst.ListComp | cst.GeneratorExp) -> Value:
        before = dict(self._env)
        part: cst.CompFor | None = node.for_in
        while part is not None:
            self._assign(part.target, self._item_of(self._items(part.iter)), (part, "item"))
            for condition in part.ifs:
                self._test(condition.test)
            part = part.inner_for_in
        item = self.eval(node.elt)
        self._env = before
        if item.kind is not Kind.ARRAY:
            return self.unknown([item]) if item.live else OTHER
        return Value(Kind.LIST, item.live, item.fixed, item.needs, item.sources, (item,), edits=item.edits)

    def _items(self, node: cst.BaseExpression) -> Value:
        """What a loop goes through."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value not in self._env:
            name = node.func.value
            if name == "range":
                self._call(node)
                return SHAPE
            if name in ("zip", "enumerate", "reversed", "list"):
                values = [self._items(arg.value) for arg in node.args]
                items = [self._item_of(value) for value in values]
                if name == "enumerate":
                    items = [NUMBER, *items[:1]]
                if name in ("reversed", "list"):
                    return values[0] if values else OTHER
                return Value(Kind.LIST, items=(Value(Kind.TUPLE, items=tuple(items), live=any(v.live for v in items)),))
        return self.eval(node)

    def _item_of(self, value: Value) -> Value:
        match value.kind:
            case Kind.SHAPE | Kind.NUMBER:
                return NUMBER
            case Kind.TENSOR:
                return TENSOR
            case Kind.LIST:
                found: Value | None = None
                for item in value.items:
                    found = joined(found, item)
                if found is None:
                    return OTHER
                if value.live and found.kind is Kind.ARRAY:
                    return replace(found, live=True)
                needs = found.needs | value.needs if found.kind is Kind.ARRAY else found.needs
                return replace(found, needs=needs, edits=value.edits if found.kind is Kind.ARRAY else ())
            case Kind.ARRAY:
                rank = value.rank - 1 if value.rank else None
                if rank == 0 and not value.live and not value.sources:
                    return NUMBER
                return replace(value, rank=rank, fixed=value.fixed or not (value.live or value.sources))
        return self.unknown([value])

    # Calls

    def path(self, node: cst.BaseExpression) -> str | None:
        """The dotted name of something imported, or the name of one of Python's own types; None for anything else."""
        if isinstance(node, cst.Name):
            if node.value in self._env:
                return None
            known = self._aliases[self._module].get(node.value)
            return known or (node.value if node.value in ("float", "int", "bool") else None)
        if isinstance(node, cst.Attribute):
            head = self.path(node.value)
            return f"{head}.{node.attr.value}" if head is not None else None
        return None

    def _called(self, node: cst.Call) -> tuple[cst.FunctionDef, bool] | None:
        """The program's function that is called, and whether it is called as a method."""
        function = node.func
        if isinstance(function, cst.Name) and function.value not in self._env:
            near = [one for one in self.tree.enclosing(node) if isinstance(one, (cst.FunctionDef, cst.Module))]
            for scope in near:
                for _, one in self._functions:
                    if one.name.value == function.value and self.tree.function_of(one) is scope:
                        if self.tree.class_of(one) is None or self.tree.class_of(one) is self.tree.class_of(scope):
                            return (one, False) if not self._is_method(one) else None
            for module in self._modules:
                for part in module.body:
                    if isinstance(part, cst.ClassDef) and part.name.value == function.value:
                        return self._method_of(part, "__init__")
        if isinstance(function, cst.Attribute) and isinstance(function.value, cst.Name):
            owner = self.tree.class_of(node)
            if function.value.value == "self" and owner is not None:
                return self._method_of(owner, function.attr.value)
        path = self.path(function)
        if path is not None and path.partition(".")[0] not in ("numpy", "torch", "math"):
            home, _, name = path.rpartition(".")
            for module, one in self._functions:
                if one.name.value == name and self.tree.function_of(one) is module and not self._is_method(one):
                    stem = self.tree.path_of(one).replace("\\", "/").rpartition("/")[2].removesuffix(".py")
                    if stem == home.rpartition(".")[2]:
                        return one, False
        return None

    def _is_method(self, function: cst.FunctionDef) -> bool:
        block = self.tree.parent_of(function)
        return block is not None and isinstance(self.tree.parent_of(block), cst.ClassDef)

    def _method_of(self, owner: cst.ClassDef, name: str) -> tuple[cst.FunctionDef, bool] | None:
        for one in owner.body.body:
            if isinstance(one, cst.FunctionDef) and one.name.value == name:
                static = any(self.tree.code(part.decorator) == "staticmethod" for part in one.decorators)
                return one, not static
        return None

    def _hands_over(self, function: cst.FunctionDef) -> cst.CSTNode | None:
        """The expression by which a function does nothing but hand over its argument as an array."""
        body = [part for part in function.body.body if not _is_docstring(part)]
        last = only_part(body[0]) if len(body) == 1 else None
        if not isinstance(last, cst.Return) or len(function.params.params) != 1 or _drop_name(last.value) != "numpy":
            return None
        part: cst.CSTNode | None = last.value
        while _drop_name(part) in ("numpy", "detach", "data", "cpu"):
            assert part is not None
            part = _receiver(part)
        named = isinstance(part, cst.Name) and part.value == function.params.params[0].name.value
        return last.value if named else None

    def _call(self, node: cst.Call) -> Value:
        path = self.path(node.func)
        found = self._called(node)
        if found is not None:
            return self._enter(node, *found)
        if path in ("int", "float", "bool") or (isinstance(node.func, cst.Name) and node.func.value in _BUILTINS):
            if path is not None or node.func.value not in self._env:  # type: ignore[attr-defined]
                return self._builtin(node, node.func.value)  # type: ignore[attr-defined]
        args = [self.eval(arg.value) for arg in node.args]
        if path is not None:
            head, _, rest = path.partition(".")
            if head == "numpy":
                return numpy_calls.call_function(self, node, rest, args)
            if head == "math":
                return NUMBER if not any(value.live for value in args) else self.unknown(args)
            if head == "torch":
                return self._torch(node, rest, args)
            return self.unknown(args)
        if isinstance(node.func, cst.Attribute):
            return self._method(node, node.func, args)
        self.eval(node.func)
        return self.unknown(args)

    def _enter(self, node: cst.Call, function: cst.FunctionDef, bound: bool) -> Value:
        """A call of a function of the program."""
        self._calls.setdefault(function, set()).add(node)
        handed = self._hands_over(function)
        if handed is not None and len(node.args) == 1 and not node.args[0].star:
            self.eval(node.args[0].value)

            def change(found: cst.CSTNode) -> cst.CSTNode:
                assert isinstance(found, cst.Call)
                return self.placed(node, found.args[0].value)

            value = self.entry(node, node.args[0].value, change)
            inside = {part for part in _nodes_in(handed) if part in self._drops}
            self._chains[node] = self._chains[node] | inside
            return replace(value, sources=value.sources | {node}) if inside else value
        params = [*function.params.params][1 if bound else 0 :]
        names = {param.name.value for param in (*params, *function.params.kwonly_params)}
        before, self._shown = self._shown, False
        for at, argument in enumerate(node.args):
            value = self.eval(argument.value)
            name = argument.keyword.value if argument.keyword is not None else ""
            if not name and at < len(params) and not argument.star:
                name = params[at].name.value
            if argument.star or name not in names:
                self.unknown([value])
                continue
            key = ("argument", function, name)
            known = self._known.get(key)
            if key in self._promoted and value.kind is not Kind.ARRAY:
                self.refuse("an argument that is sometimes no array")
            if known is not None and known.live:
                self._wanted.add(key)
            stored = self._store(key, value)
            self._now[key] = self._join(self._now.get(key), replace(stored, fixed=False))
        self._shown = before
        if function.name.value == "__init__":
            return OTHER
        return self._known.get(("result", function), OTHER)

    def _builtin(self, node: cst.Call, name: str) -> Value:
        args = [self.eval(arg.value) for arg in node.args]
        first = args[0] if len(args) == 1 and not node.args[0].keyword else OTHER
        if name == "len":
            return NUMBER
        if name in ("float", "int", "bool"):
            if name == "float" and first.kind is Kind.ARRAY and (first.live or first.sources):
                return self._number(node, first, self._argument(node))
            return NUMBER if first.kind in (Kind.NUMBER, Kind.ARRAY) else self.unknown(args) if first.live else NUMBER
        if name == "abs" and first.kind is Kind.ARRAY and not first.loose:
            return self.array(node, [first], [], rank=first.rank)
        if name == "sum" and first.kind is Kind.LIST and first.items:
            item = self._item_of(first)
            return self.array(node, [first], [], rank=item.rank)
        if name in ("list", "tuple") and first.kind is Kind.LIST:
            return first
        if name in ("max", "min", "round", "str") and any(value.live for value in args):
            if all(value.rank == 0 or not value.live for value in args):
                for value in args:
                    self._show(value)
                return OTHER
        if any(value.live for value in args):
            return self.unknown(args)
        return NUMBER if args and all(value.kind is Kind.NUMBER for value in args) else OTHER

    def _number(self, node: cst.Call, value: Value, change: Change) -> Value:
        """A number is made of what is computed: one that has no graph, unless the formula goes on with it."""
        key = ("number", node)
        if key in self._promoted:
            return self.array(node, [value], [(node, change)], rank=0)
        edits = (*value.edits, (node, change))
        needs = frozenset((key, *value.needs))
        return Value(Kind.ARRAY, fixed=value.fixed, needs=needs, sources=value.sources, rank=0, edits=edits)

    def _argument(self, node: cst.Call) -> Change:
        def change(found: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(found, cst.Call)
            return self.placed(node, found.args[0].value)

        return change

    def _torch(self, node: cst.Call, name: str, args: list[Value]) -> Value:
        if name in _MADE and args and args[0].kind in (Kind.ARRAY, Kind.LIST) and not node.args[0].keyword:
            if args[0].live or args[0].sources:
                return self._exit(node, name, args)
        if any(value.live for value in args):
            return self.unknown(args)
        return TENSOR

    def _exit(self, node: cst.Call, name: str, args: list[Value]) -> Value:
        """``torch.from_numpy(result)``, where the formula ends: the result is a tensor already."""
        value = args[0]
        moves: list[str] = []
        if name in ("FloatTensor", "DoubleTensor", "Tensor"):
            moves.append("double()" if name == "DoubleTensor" else "float()")
        for argument in node.args[1:]:
            keyword = argument.keyword.value if argument.keyword is not None else ""
            if keyword == "dtype":
                converts = numpy_calls.dtype_of(self, argument.value)
                if not converts:
                    return self.refuse("a type without a gradient")
                moves.append(f"{converts}()")
            elif keyword == "device":
                moves.append(f"to({self.tree.code(argument.value)})")
            elif keyword != "requires_grad":
                return self.refuse("an argument that is not known")
        self.demand(value)
        stacked = value.kind is Kind.LIST
        torch = self.tree.torch_name(node)

        def change(found: cst.CSTNode) -> cst.CSTNode:
            assert isinstance(found, cst.Call)
            inner: cst.CSTNode = found.args[0].value
            if stacked:
                bare = found.args[0].with_changes(comma=cst.MaybeSentinel.DEFAULT)
                inner = found.with_changes(func=cst.Attribute(cst.Name(torch), cst.Name("stack")), args=[bare])
            for move in moves:
                call = cst.parse_expression(f"x.{move}")
                assert isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)
                assert isinstance(inner, cst.BaseExpression)
                inner = call.with_changes(func=call.func.with_changes(value=parenthesised(inner)))
            assert isinstance(inner, cst.BaseExpression)
            return self.placed(node, inner)

        self._make([(node, change)])
        self._groups.append(value.sources)
        return TENSOR

    def _method(self, node: cst.Call, function: cst.Attribute, args: list[Value]) -> Value:
        owner, name = self.eval(function.value), function.attr.value
        if owner.kind is Kind.ARRAY:
            if name == "item" and not args:
                return self._number(node, owner, _receiver) if owner.live or owner.sources else NUMBER
            if name == "tolist" and node not in self._drops:
                return OTHER
            if name in ("numpy", "detach", "cpu"):
                return self.unknown([owner])
            return numpy_calls.call_method(self, node, name, owner, args)
        if any(value.live for value in (owner, *args)):
            return self.unknown([owner, *args])
        if name == "numpy" and not args:
            return self.entry(node, function.value, self._entered(node))
        if name == "item" and not args:
            return NUMBER
        if owner.kind is Kind.TENSOR or name in _ONLY_TENSORS:
            return OTHER if name in ("tolist", "size", "dim", "backward") else TENSOR
        return OTHER


def _same(found: cst.CSTNode) -> cst.CSTNode:
    return found


def _out_of_place(operator: cst.BaseBinaryOp) -> Change:
    """``a = a / b`` for ``a /= b``."""

    def change(found: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(found, cst.AugAssign)
        assert isinstance(found.target, cst.Name)
        value = cst.BinaryOperation(found.target, operator, parenthesised(found.value))
        return cst.Assign([cst.AssignTarget(found.target)], value, semicolon=found.semicolon)

    return change


def _numel(found: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(found, cst.Attribute)
    return cst.Call(found.with_changes(attr=cst.Name("numel")))


def _flip(axis: int) -> Change:
    def change(found: cst.CSTNode) -> cst.CSTNode:
        assert isinstance(found, cst.Subscript)
        return cst.Call(cst.Attribute(parenthesised(found.value), cst.Name("flip")), [cst.Arg(cst.Integer(str(axis)))])

    return change


def _drop_name(node: cst.CSTNode | None) -> str:
    """``detach`` for ``x.detach()``, ``data`` for ``x.data``; empty for anything else."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        forced = all(arg.keyword is not None and arg.keyword.value == "force" for arg in node.args)
        return node.func.attr.value if forced and node.func.attr.value != "data" else ""
    return "data" if isinstance(node, cst.Attribute) and node.attr.value == "data" else ""


def _receiver(found: cst.CSTNode) -> cst.BaseExpression:
    if isinstance(found, cst.Call):
        found = found.func
    assert isinstance(found, cst.Attribute)
    return found.value


def _with_receiver(step: cst.BaseExpression, value: cst.BaseExpression) -> cst.BaseExpression:
    """The same method or attribute of *value*."""
    if isinstance(step, cst.Call):
        assert isinstance(step.func, cst.Attribute)
        return step.with_changes(func=step.func.with_changes(value=parenthesised(value)))
    return step.with_changes(value=parenthesised(value))


def _without_needless(found: cst.CSTNode) -> cst.CSTNode:
    """A line without its ``left = left``; nothing where that was all of it."""
    assert isinstance(found, cst.SimpleStatementLine)
    body = [part for part in found.body if not _is_needless(part)]
    if len(body) == len(found.body):
        return found
    if not body:
        return cst.RemovalSentinel.REMOVE  # type: ignore[return-value]
    return found.with_changes(body=[*body[:-1], body[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])


def _is_needless(part: cst.CSTNode) -> bool:
    if not isinstance(part, cst.Assign) or len(part.targets) != 1:
        return False
    bare = cst.Module([])
    return bare.code_for_node(part.targets[0].target) == bare.code_for_node(part.value)


def _as_number(found: cst.CSTNode) -> cst.CSTNode:
    return method_call(found, "item")


def _as_array(found: cst.CSTNode) -> cst.CSTNode:
    return method_call(method_call(found, "detach"), "numpy")


def _is_docstring(statement: cst.CSTNode) -> bool:
    part = only_part(statement)
    return isinstance(part, cst.Expr) and isinstance(part.value, (cst.SimpleString, cst.ConcatenatedString))


def _on_one_line(tree: Tree, node: cst.BaseExpression) -> bool:
    return "\n" not in tree.code(node)


def _nodes_in(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    stack: list[cst.CSTNode] = [node]
    while stack:
        part = stack.pop()
        yield part
        stack.extend(part.children)


def _functions_in(module: cst.Module) -> list[cst.FunctionDef]:
    return [node for node in _nodes_in(module) if isinstance(node, cst.FunctionDef)]


def _pairs(keys: Iterable[Hashable]) -> Iterator[tuple[object, ...]]:
    return (key for key in keys if isinstance(key, tuple))


def _imports(tree: Tree, module: cst.Module) -> Iterator[tuple[str, str]]:
    """The names under which a module knows what it imports, and what that is."""
    for node in _nodes_in(module):
        if isinstance(node, cst.Import):
            for alias in node.names:
                path = tree.code(alias.name)
                name = alias.evaluated_alias
                yield (name, path) if name else (path.partition(".")[0], path.partition(".")[0])
        elif (
            isinstance(node, cst.ImportFrom) and node.module is not None and not isinstance(node.names, cst.ImportStar)
        ):
            for alias in node.names:
                name = alias.evaluated_alias or alias.evaluated_name
                yield name, f"{tree.code(node.module)}.{alias.evaluated_name}"
