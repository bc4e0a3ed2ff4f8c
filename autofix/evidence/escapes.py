"""Facts about tensors that are taken, with their graphs, where none can go: to NumPy, into a deep copy."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from autofix.codemods.facts.base import Span
from autofix.codemods.facts.kept import GraphCopied, GraphEscapes, GraphSent
from autofix.codemods.facts.parts import Form
from autofix.evidence.carriers import Carry
from autofix.evidence.source import Texts, passed_on


def escapes(texts: Texts, call: Span, name: str, forms: Mapping[str, Form]) -> Iterator[GraphEscapes]:
    """Facts on the value that a call may have handed to NumPy: the owner of its method, or one of its arguments."""
    text = texts.of(call)
    node = text.expression(call)
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Attribute) and not node.args:
        yield GraphEscapes(call=call, name=name)
    for value in node.args:
        for form in dict.fromkeys((forms.get(text.code(value), Form.TENSOR), Form.LIST)):
            yield GraphEscapes(call=call, value=text.span(value), form=form, name=name)


def sent(texts: Texts, call: Span, name: str, forms: Mapping[str, Form]) -> Iterator[GraphSent]:
    """Facts on the value that a call may have sent: its arguments, or the elements of a display in their place."""
    text = texts.of(call)
    node = text.expression(call)
    for argument in node.args if isinstance(node, ast.Call) else ():
        for value in (part for part in passed_on(argument) if not isinstance(part, (ast.Tuple, ast.List, ast.Dict))):
            form = forms.get(text.code(value), Form.TENSOR)
            yield GraphSent(call=call, value=text.span(value), form=form, name=name)


def copied(
    texts: Texts, call: Span, name: str, carries: Sequence[Carry], forms: Mapping[str, Form], owned: Sequence[str]
) -> GraphCopied:
    """Fact on the value that a call copied: a value with a graph, or an object that the run put one into (*owned*)."""
    text = texts.of(call)
    node = text.expression(call)
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    code = text.code(given) if given is not None else ""
    form = forms.get(code, Form.OTHER if isinstance(given, (ast.Name, ast.Attribute)) else Form.TENSOR)
    stores = [carry for carry in carries if is_store(carry) or carry.carriers[1:]]
    path = next((one.removeprefix(code) for one in owned if one.startswith(f"{code}.")), "")
    return GraphCopied(
        kept=stores[-1].store.span if stores else None,
        call=call,
        carriers=tuple(one for carry in stores for one in carry.carriers[1:] or carry.carriers[:1]),
        value=text.span(given) if given is not None and form is not Form.OTHER else None,
        form=form,
        path=path,
        name=stores[-1].store.name if stores else code or name,
    )


def is_store(carry: Carry) -> bool:
    """Whether a statement puts the value into an object or a container, not merely under a name."""
    return carry.store.appends or "." in carry.store.name or "[" in carry.store.name
