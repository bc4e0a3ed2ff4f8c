"""The reading of each kind of expression."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import replace

import libcst as cst

from autofix.codemods.formula.places import Places
from autofix.codemods.formula.values import NUMBER, OTHER, SHAPE, TENSOR, Change, Kind, Value, joined

_NO_ARITHMETIC = (cst.In, cst.NotIn, cst.Is, cst.IsNot)
_ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
_NOT_SMOOTH = (cst.FloorDivide, cst.Modulo, cst.LeftShift, cst.RightShift)


class Expressions(Places):
    """Reader of expressions."""

    @abstractmethod
    def _call(self, node: cst.Call) -> Value:
        """The result of a call."""

    @abstractmethod
    def _assign(self, target: cst.BaseExpression, value: Value, key: Hashable) -> None:
        """Bind *target* to *value*, under the *key* of its definition."""

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
                return self._unary(node)
            case cst.Comparison():
                return self._comparison(node)
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

    def _unary(self, node: cst.UnaryOperation) -> Value:
        value = self.eval(node.expression)
        if value.kind is Kind.ARRAY:
            if isinstance(node.operator, cst.Not) or (isinstance(node.operator, cst.BitInvert) != value.truth):
                return self.unknown([value])
            found = self.array(node, [value], [], rank=value.rank, truth=value.truth)
            return replace(found, whole=value.whole)
        return value if value.kind in (Kind.NUMBER, Kind.TENSOR) else OTHER

    def _comparison(self, node: cst.Comparison) -> Value:
        values = [self.eval(node.left), *(self.eval(one.comparator) for one in node.comparisons)]
        if any(value.kind is Kind.ARRAY for value in values):
            if len(values) > 2 or isinstance(node.comparisons[0].operator, (cst.In, cst.NotIn, cst.Is, cst.IsNot)):
                return self.unknown(values)
            return replace(self._computed(node, values), truth=True)
        return NUMBER if all(value.kind is Kind.NUMBER for value in values) else self.unknown(values)

    def _test(self, node: cst.BaseExpression) -> None:
        value = self.eval(node)
        if value.live and value.kind is not Kind.ARRAY:
            self.refuse("a condition")

    def _mention(self, node: cst.CSTNode) -> None:
        """Refuse the formula if a node that is not followed mentions a tensor of it."""
        for one in self.tree.names_in(node):
            if self.eval(one).live:
                self.refuse("a statement that is not followed")

    def _formatted(self, node: cst.FormattedString) -> None:
        before, self._shown = self._shown, True
        for part in node.parts:
            if isinstance(part, cst.FormattedStringExpression):
                self._show(self.eval(part.expression))
        self._shown = before

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
        if isinstance(node.operator, _ARITHMETIC):
            values = self.met(values)
        arrays = [value for value in values if value.kind is Kind.ARRAY]
        if not arrays:
            if TENSOR.kind in (values[0].kind, values[1].kind):
                return TENSOR
            return self._computed(node, values)
        logical = isinstance(node.operator, (cst.BitAnd, cst.BitOr, cst.BitXor))
        if isinstance(node.operator, _NOT_SMOOTH) or (logical and not all(value.truth for value in values)):
            return self.unknown(values)
        if isinstance(node.operator, cst.Subtract) and any(value.truth for value in values):
            return self.unknown(values)  # torch does not subtract truth values
        found = self._computed(node, values)
        if isinstance(node.operator, cst.MatrixMultiply):
            return replace(found, rank=None, truth=False)
        if isinstance(node.operator, (cst.Divide, cst.Power)):
            return replace(found, truth=False, whole=False)
        return found if logical else replace(found, truth=False, whole=found.whole and len(arrays) == 2)

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
        """The value whose items a loop goes through."""
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
