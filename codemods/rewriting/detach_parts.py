"""The operands of a stored value, where only some of them carry an old graph.

A message of a temporal graph network joins rows of the memory with the code of a time: ``torch.cat([mem[a], mem[b],
encode(dt)])``. Stored whole without its graph, it would no longer train the encoder by the step that reads it. The rows
alone are detached.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import detach, operands_of, without_index
from autofix.codemods.rewriting.tree import Tree

_FAR = 4
"""Names, parameters and calls that are followed from where a value is stored."""


def detached_in_part(stored: cst.BaseExpression, tree: Tree) -> Iterator[tuple[str, Edit]]:
    """For each name, edits that take it detached wherever the *stored* value is made of it beside other things."""
    for makers in _makers([stored], tree, _FAR):
        operands = [operand for maker in makers for operand in _parts(maker)]
        by_root: dict[str, list[cst.BaseExpression]] = {}
        for operand in operands:
            if root := _root(operand, tree):
                by_root.setdefault(root, []).append(operand)
        for root, members in by_root.items():
            if len(members) < len(operands):
                edit = Edit(tree)
                for member in members:
                    edit.change(member, detach)
                yield root, edit


def _makers(values: list[cst.BaseExpression], tree: Tree, far: int) -> Iterator[list[cst.BaseExpression]]:
    """The operations that make a value, and before them, where they are calls of functions, what those return."""
    found: list[cst.BaseExpression] = []
    for value in values:
        found += _behind(value, tree, far)
    calls = [function for one in found if isinstance(one, cst.Call) and (function := tree.function_called(one))]
    if far and calls and len(calls) == len(found):
        returned = [value for function in dict.fromkeys(calls) for value in tree.returned_by(function)]
        yield from _makers(returned, tree, far - 1)
    if found:
        yield found


def _behind(value: cst.BaseExpression, tree: Tree, far: int) -> list[cst.BaseExpression]:
    """The operations behind names, indices, methods of tensors and parameters."""
    while True:
        match value:
            case cst.Subscript(value=inner):
                value = inner
            case cst.Call(func=cst.Attribute(value=inner)) if not _is_function(value, tree):
                value = inner
            case _:
                break
    if not isinstance(value, cst.Name):
        return [value] if isinstance(value, (cst.Call, cst.BinaryOperation)) else []
    if not far:
        return []
    function = tree.function_of(value)
    given = [made for one in tree.statements_in(function) if (made := tree.given(one, value.value)) is not None]
    if not given and isinstance(function, cst.FunctionDef):
        given = list(_handed(function, value.value, tree))
    return [maker for one in dict.fromkeys(given) for maker in _behind(one, tree, far - 1)]


def _is_function(call: cst.Call, tree: Tree) -> bool:
    return tree.is_of_torch(call.func) or tree.function_called(call) is not None


def _handed(function: cst.FunctionDef, name: str, tree: Tree) -> Iterator[cst.BaseExpression]:
    """The arguments that the callers of a function hand over for its parameter *name*."""
    names = [one.name.value for one in function.params.params]
    if name not in names:
        return
    for module in tree.modules():
        for call in tree.every(cst.Call, module):
            if tree.function_called(call) is not function:
                continue
            at = names.index(name) - (names[0] == "self" and isinstance(call.func, cst.Attribute))
            plain = [argument for argument in call.args if argument.keyword is None]
            named = [argument for argument in call.args if argument.keyword and argument.keyword.value == name]
            if named or 0 <= at < len(plain):
                yield (named[0] if named else plain[at]).value


def _parts(maker: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The arguments or operands, those in a list or tuple one by one."""
    found: list[cst.BaseExpression] = []
    for operand in operands_of(maker):
        if isinstance(operand, (cst.List, cst.Tuple)):
            found += [element.value for element in operand.elements]
        elif isinstance(operand, cst.BinaryOperation):
            found += _parts(operand)
        else:
            found.append(operand)
    return found


def _root(operand: cst.BaseExpression, tree: Tree) -> str:
    """The name, or attribute of ``self``, that an operand is, or is an item of; empty for all else."""
    operand = without_index(operand)
    return tree.code(operand).strip() if isinstance(operand, (cst.Name, cst.Attribute)) else ""
