"""The reading of each kind of statement."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

import libcst as cst

from autofix.codemods.formula import numpy_calls
from autofix.codemods.formula.calls import Calls
from autofix.codemods.formula.rewrites import out_of_place
from autofix.codemods.formula.twins import FUNCTIONS
from autofix.codemods.formula.values import NUMBER, OTHER, TENSOR, Change, Kind, Value, joined
from autofix.codemods.rewriting.nodes import children, only_part

_OPERATORS: dict[type[cst.BaseAugOp], cst.BaseBinaryOp] = {
    cst.AddAssign: cst.Add(),
    cst.SubtractAssign: cst.Subtract(),
    cst.MultiplyAssign: cst.Multiply(),
    cst.DivideAssign: cst.Divide(),
}


class Statements(Calls):
    """Reader of statements."""

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
                self._with(node)
            case cst.Try():
                self._try(node)
            case cst.FunctionDef():
                self._env.pop(node.name.value, None)
            case cst.ClassDef():
                outer, self._env = self._env, {}
                self._block(node.body.body)
                self._env = outer
            case cst.Assert():
                self._test(node.test)
            case cst.Raise() | cst.Del() | cst.Match():
                for part in children(node):
                    self._mention(part)

    def _with(self, node: cst.With) -> None:
        for one in node.items:
            self._test(one.item)
            if one.asname is not None:
                self._assign(one.asname.name, OTHER, (node, "with"))
        self._block(node.body.body)

    def _try(self, node: cst.Try) -> None:
        self._branches(node.body.body, [])
        for handler in node.handlers:
            self._branches(handler.body.body, [])
        for rest in (node.orelse, node.finalbody):
            self._block(rest.body.body if rest is not None else [])

    def _alone(self, node: cst.BaseExpression) -> None:
        """An expression as a statement: a call whose result nobody uses."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "append":
            owner = self.eval(node.func.value)
            if owner.kind is Kind.LIST and len(node.args) == 1 and len(owner.needs) == 1:
                self._appended(node, owner)
                return
        called = isinstance(node, cst.Call) and self._called(node) is None
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            # A method of an array whose result nobody wants changes the array.
            called = called and self.eval(node.func.value).kind is not Kind.ARRAY
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
        elif value.live:
            # A list that the formula does not go through, as far as is known by now.
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
                for part in children(target):
                    if isinstance(part, cst.BaseExpression) and self.eval(part).live:
                        self.refuse("an array that is written to")
                if value.live:
                    self._show(value)

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
            edits = [(node, out_of_place(operator))]
        elif (former.live or value.live or former.sources or value.sources) and (written or operator is None):
            found = replace(joined(former, value), fixed=True, needs=former.needs | value.needs)
            if found.live:
                self.refuse("an array that is written to")
            self._assign(node.target, found, (node, "result"))
            return
        if former.kind is Kind.LIST and value.kind is Kind.LIST and not (former.live or value.live):
            self._set(node.target, OTHER)
            return
        values = self.met([former, value]) if operator is not None else [former, value]
        found = self._computed(node.target, values, edits)
        if found.kind is Kind.ARRAY:
            found = replace(found, loose=False)
        elif TENSOR.kind in (former.kind, value.kind):
            found = TENSOR
        self._assign(node.target, found, (node, "result"))

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
