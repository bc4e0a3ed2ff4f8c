"""Calls: of the program's own functions, of torch's, which end a formula, and of NumPy's and Python's."""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from autofix.codemods.formula import numpy_calls
from autofix.codemods.formula.expressions import Expressions
from autofix.codemods.formula.rewrites import as_item, drop_name, nodes_in, receiver
from autofix.codemods.formula.values import NUMBER, OTHER, TENSOR, Change, Kind, Value
from autofix.codemods.rewriting.nodes import is_docstring, only_part, parenthesised

_BUILTINS = frozenset("len float int bool abs sum max min range zip enumerate round str list tuple sorted".split())
_MADE = frozenset(("from_numpy", "tensor", "as_tensor", "asarray", "Tensor", "FloatTensor", "DoubleTensor"))
_ONLY_TENSORS = frozenset("detach cpu cuda to backward requires_grad_ unsqueeze clone contiguous softmax".split())
_READERS = frozenset(("sklearn", "matplotlib", "seaborn", "pandas"))
"""Libraries that take arrays for measures and pictures."""


class Calls(Expressions):
    """Reader of calls."""

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
            return self.unknown(args, reads=head in _READERS)
        if isinstance(node.func, cst.Attribute):
            return self._method(node, node.func, args)
        self.eval(node.func)
        return self.unknown(args)

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
            for module in self._modules if function.value.value not in self._env else ():
                for part in module.body:
                    if isinstance(part, cst.ClassDef) and part.name.value == function.value.value:
                        found = self._method_of(part, function.attr.value)
                        return found if found is not None and not found[1] else None
        if isinstance(function, cst.Attribute) and self.path(function.value) is None:
            only = self._only_method(function.attr.value)
            if only is not None and self.eval(function.value).kind is Kind.OTHER:
                return only
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

    def _only_method(self, name: str) -> tuple[cst.FunctionDef, bool] | None:
        """The method of an object, where one class alone of the program has one of this name."""
        found = [one for _, one in self._functions if one.name.value == name]
        if len(found) != 1 or not self._is_method(found[0]) or found[0].decorators or name in _ONLY_TENSORS:
            return None
        return found[0], True

    def _hands_over(self, function: cst.FunctionDef) -> cst.CSTNode | None:
        """The expression by which a function does nothing but hand over its argument as an array."""
        body = [part for part in function.body.body if not is_docstring(part)]
        last = only_part(body[0]) if len(body) == 1 else None
        if not isinstance(last, cst.Return) or len(function.params.params) != 1 or drop_name(last.value) != "numpy":
            return None
        part: cst.CSTNode | None = last.value
        while drop_name(part) in ("numpy", "detach", "data", "cpu"):
            assert part is not None
            part = receiver(part)
        named = isinstance(part, cst.Name) and part.value == function.params.params[0].name.value
        return last.value if named else None

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
            inside = {part for part in nodes_in(handed) if part in self._drops}
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
            alike = known is not None and known.kind is value.kind is Kind.LIST
            if key in self._promoted and value.kind is not Kind.ARRAY and not alike:
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
                if first.live:  # torch warns of a tensor that is made a number without `item`
                    self._shows[node] = as_item
                return self._number(node, first, self._argument(node))
            if first.live:
                self._show(first)
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
            self._shows.pop(node, None)
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
                of_another = isinstance(argument.value, cst.Attribute) and argument.value.attr.value == "dtype"
                if not converts and not of_another:
                    return self.refuse("a type without a gradient")
                moves.append(f"{converts}()" if converts else f"to({self.tree.code(argument.value)})")
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

    def _taken_out(self, node: cst.Call, inner: cst.BaseExpression) -> Value:
        """A tensor's number, of which the loss is computed."""

        def change(found: cst.CSTNode) -> cst.CSTNode:
            return self.placed(node, receiver(found))

        return replace(self.entry(node, inner, change), rank=0)

    def _method(self, node: cst.Call, function: cst.Attribute, args: list[Value]) -> Value:
        owner, name = self.eval(function.value), function.attr.value
        if owner.kind is Kind.ARRAY:
            if name == "item" and not args:
                return self._number(node, owner, receiver) if owner.live or owner.sources else NUMBER
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
            return self._taken_out(node, function.value) if node in self._drops else NUMBER
        if owner.kind is Kind.TENSOR or name in _ONLY_TENSORS:
            return OTHER if name in ("tolist", "size", "dim", "backward") else TENSOR
        return OTHER
