"""Names, attributes and items: where the values of a formula are read."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from autofix.codemods.formula.marks import Marks
from autofix.codemods.formula.rewrites import flip, numel, pairs
from autofix.codemods.formula.twins import NUMBERS
from autofix.codemods.formula.values import NUMBER, OTHER, SHAPE, TENSOR, Change, Kind, Value, joined


class Places(Marks):
    """Reader of names, attributes and items."""

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
        if self._wrapping or not isinstance(node, cst.Name) or any(key[0] == "argument" for key in pairs(value.needs)):
            return self._wrapping or not isinstance(node, cst.Name)
        if homes != {self._scope}:
            return True
        return isinstance(self._scope, cst.Module) and not value.given and self._reads(node.value) > 1

    def _reads(self, name: str) -> int:
        """Number of times that the module reads a name."""
        return sum(node.value == name and not self._is_target(node) for node in self.tree.every(cst.Name, self._module))

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
                    self._make([(node, numel)])
                return NUMBER
            if name in ("T", "real", "imag") and not value.loose:
                return replace(self.array(node, [value], [], rank=value.rank), truth=value.truth, whole=value.whole)
            return self.unknown([value])
        if value.kind is Kind.TENSOR:
            return TENSOR if name in ("data", "T", "mT", "grad", "real", "imag") else OTHER
        if name == "shape":
            return SHAPE
        return self._option(node) if value.kind is Kind.OTHER and not value.live else self.unknown([value])

    def _check_attribute(self, name: str) -> None:
        """An attribute that becomes a tensor is read by its own class only."""
        for module in self._modules:
            for node in self.tree.every(cst.Attribute, module):
                if node.attr.value == name:
                    if not (isinstance(node.value, cst.Name) and node.value.value == "self"):
                        self.refuse("an attribute that others may read")
                        return

    def _option(self, node: cst.Attribute) -> Value:
        """``args.margin``, which the program's parser makes a number."""
        flag = f'"--{node.attr.value.replace("_", "-")}"', f'"--{node.attr.value}"'
        for module in self._modules:
            for call in self.tree.every(cst.Call, module):
                if isinstance(call.func, cst.Attribute) and call.args:
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
        key = node.slice[0].slice
        if isinstance(key, cst.Index) and value.kind is Kind.OTHER and self._is_setting(key.value):
            return NUMBER
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
            edits = [(node, flip(flipped[0]))]
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

    def _is_setting(self, key: cst.BaseExpression) -> bool:
        """Whether every dictionary that is written down with this key has a number there."""
        if not isinstance(key, cst.SimpleString):
            return False
        found = [
            element.value
            for module in self._modules
            for node in self.tree.every(cst.Dict, module)
            for element in node.elements
            if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString)
            if element.key.evaluated_value == key.evaluated_value
        ]
        return bool(found) and all(isinstance(value, (cst.Float, cst.Integer)) for value in found)

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
