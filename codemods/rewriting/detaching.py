"""Values put where they are stored without their graphs, each in the way that its form asks for."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from autofix.codemods.facts.parts import Carrier, Form
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import detach, parenthesised
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.tree import Tree


def detached_code(code: str, form: Form, item: str, torch: str = "torch") -> str:
    """Source text that detaches the value of *code*, which has this form; *item* is a name that is free to use.

    Where the form is not known it serves both a tensor and a tuple of tensors; *torch* is the module's name for torch.
    """
    match form:
        case Form.UNKNOWN:
            several = f"tuple({item}.detach() for {item} in {code})"
            return f"{code}.detach() if isinstance({code}, {torch}.Tensor) else {several}"
        case Form.TUPLE:
            return f"tuple({item}.detach() for {item} in {code})"
        case Form.RECORD:
            return f"type({code})(*({item}.detach() for {item} in {code}))"
        case Form.LIST:
            return f"[{item}.detach() for {item} in {code}]"
        case Form.DICT:
            return f"{{key: {item}.detach() for key, {item} in {code}.items()}}"
        case Form.NESTED:
            outer = "layer" if item != "layer" else "part"
            return f"[tuple({item}.detach() for {item} in {outer}) for {outer} in {code}]"
    return f"{code}.detach()"


_OF_ITEMS = {
    "$1": ("state", "layer", "tensor"),
    "$2": ("part", "item", "one"),
    "$3": ("value", "piece", "entry"),
    "$key1": ("key", "name", "index"),
    "$key2": ("which", "label", "place"),
    "$key3": ("inner", "tag", "number"),
}


def whole_code(whole: str, name: str, tree: Tree) -> str:
    """Statements of a carrier's ``whole`` for the value called *name*; the items in them get names that are free."""
    code = whole.replace("$x", name)
    for mark, names in _OF_ITEMS.items():
        code = code.replace(mark, tree.fresh_name(*names)) if mark in code else code
    return code


def detach_by_form(edit: Edit, tree: Tree, node: cst.BaseExpression, form: Form, item: str) -> None:
    """Change the expression *node*, whose value has this form, into one whose value has no graph."""
    literal = isinstance(node, (cst.Tuple, cst.List)) and all(isinstance(one, cst.Element) for one in node.elements)
    if form in (Form.TUPLE, Form.LIST) and literal:
        assert isinstance(node, (cst.Tuple, cst.List))
        for element in node.elements:
            edit.change(element.value, detach)
    elif form is Form.TENSOR:
        edit.change(node, detach)
    elif form in (Form.TUPLE, Form.LIST, Form.DICT) and (each := generated(node, tree)) is not None:
        edit.change(each, detach)
    else:
        code = detached_code(tree.code(parenthesised(node)), form, item, tree.torch_name(node))
        edit.change(node, lambda _: cst.parse_expression(code))


def detached(tree: Tree, node: cst.BaseExpression, form: Form) -> Patch:
    """The program with *node*, a value of this form, detached where it stands; displays are detached item by item."""
    edit = Edit(tree)
    made = generated(node, tree)
    if made is not None and not isinstance(made, (cst.List, cst.Tuple, cst.Dict)):
        return edit.change(made, detach).patch()
    if isinstance(node, cst.Dict) and form is not Form.NESTED:
        for item in node.elements:
            if isinstance(item, cst.DictElement) and isinstance(item.value, (cst.Name, cst.Attribute, cst.Call)):
                edit.change(item.value, detach)
        return edit.patch()
    detach_by_form(edit, tree, node, form, tree.fresh_name("item", "tensor", "value"))
    return edit.patch()


def generated(node: cst.BaseExpression, tree: Tree) -> cst.BaseExpression | None:
    """The expression that a comprehension computes for each item, also of ``tuple(f(x) for x in xs)``; else None."""
    if isinstance(node, cst.Call) and tree.code(node.func) in ("tuple", "list") and len(node.args) == 1:
        node = node.args[0].value
    if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
        return node.elt
    return node.value if isinstance(node, cst.DictComp) else None


def detached_where_stored(tree: Tree, carriers: Iterable[Carrier]) -> Patch | None:
    """The program with the values that *carriers* store detached where they do; None where one of them is not found."""
    stored = [tree.expression(one.expression) for one in carriers if one.expression is not None]
    edit = Edit(tree)
    for expression in stored:
        if expression is None:
            return None
        edit.change(expression, detach)
    return edit.patch() if stored else None
