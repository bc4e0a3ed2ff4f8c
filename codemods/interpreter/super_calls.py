"""Methods of base classes that are not in the program: ``super().__init__(...)``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import attributes, class_lookup, elements, errors, module_calls, optimizers
from autofix.codemods.interpreter.library import containers, modules
from autofix.codemods.interpreter.values import Class, Instance, Mapping, Super, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter


def call_super(
    interp: Interpreter, receiver: Super, name: str, args: list[Value], keywords: dict[str, Value], node: ast.expr
) -> Value:
    """A method of a base class that is not in the program."""
    made = interp.making[-1] if interp.making else None
    if name == "__new__" and made is not None:  # of `type`
        if args and isinstance(args[-1], Mapping):
            made.names.update({str(key): slot for key, slot in args[-1].items.items()})
        interp.making[-1] = None
        return made
    if name == "__new__" and args and isinstance(args[0], Class):  # of `object`
        return Instance(args[0])
    if name == "__setattr__" and len(args) == 2 and isinstance(args[0], str):
        target = ast.Attribute(node, args[0], ast.Store())
        attributes.set_plainly(interp, receiver.instance, args[0], args[1], ast.copy_location(target, node), None)
        return None
    if name == "__getattribute__" and len(args) == 1 and isinstance(args[0], str):
        return attributes.get(interp, receiver.instance, args[0], node)
    if name == "__getattr__" and len(args) == 1 and isinstance(args[0], str):
        # Asked for what the object has not: of a module, what is no parameter and no other module.
        errors.happen(interp, "AttributeError")
        return interp.fresh_symbol("attr", args[0])
    if name == "__init__":
        if isinstance(receiver.instance, Instance):
            if not optimizers.become(interp, receiver.instance, args, keywords, node):
                module_calls.become_base(interp, receiver.instance, args, keywords, node)
        return None
    if isinstance(receiver.instance, Class) and name == "__call__":  # of `type`
        return interp.call(receiver.instance, args, keywords, node)
    if isinstance(receiver.instance, Instance) and receiver.instance.items is not None:
        if name == "__getitem__" and len(args) == 1:
            return elements.item(interp, receiver.instance.items, args[0], node)
        if name == "__setitem__" and len(args) == 2:
            place = ast.copy_location(ast.Subscript(node, node, ast.Store()), node)
            elements.set_item(interp, receiver.instance.items, args[0], args[1], place, None)
            return None
        return containers.call_container_method(interp, receiver.instance.items, name, args, keywords, node)
    if isinstance(receiver.instance, Instance) and name == "__call__":
        forward = class_lookup.find(receiver.instance, "forward")
        if forward is not None:
            return interp.call(class_lookup.bind(forward, receiver.instance), args, keywords, node)
    if isinstance(receiver.instance, Instance) and name in ("forward", "__call__"):
        base = class_lookup.base_module(receiver.instance)
        if base is not None:
            return module_calls.call_module(interp, base, args, keywords, node)
    if isinstance(receiver.instance, Instance):
        return modules.call_module_method(interp, receiver.instance, name, args, keywords, node)
    return interp.opaque(name, [*args, *keywords.values()], node)
