"""Models of which no pass is known: what each computes is sent backward, as whoever trains it will do.

Which model a program trains may be the choice of a configuration.  A model that overwrites what its own layers have
saved fails whoever trains it, whatever it is given: its inputs are taken to be data without a graph, so that only the
model's own parameters ask for a gradient.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from autofix.codemods.autograd.graph import Operand
from autofix.codemods.interpreter import class_lookup
from autofix.codemods.interpreter.values import Bound, Function, Instance, TensorRef, Value
from autofix.codemods.source.sources import Site, Sources, last_name

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_FLAGS = ("mask", "mode", "flag", "return", "is_", "use_", "num_", "idx", "index", "lengths", "train")
"""Parts of the names of parameters that are no data of the kind that layers take."""


def forwards(sources: Sources, trained: Collection[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    """The ``forward`` methods of the main file that may overwrite something and are not among the *trained* ones.

    The last class comes first: as a rule it is made of those above it.
    """
    for cls in reversed(sources.main.tree.body):
        if isinstance(cls, ast.ClassDef) and any(ast.unparse(base).endswith("Module") for base in cls.bases):
            for part in cls.body:
                if isinstance(part, ast.FunctionDef) and part.name == "forward" and part not in trained:
                    yield f"{cls.name}.forward", part


def train(interp: Interpreter, function: Function, receiver: Value, anchor: ast.expr) -> None:
    """Call a model's ``forward`` with data, and send what it returns backward."""
    if not isinstance(receiver, Instance) or not class_lookup.is_module(receiver):
        return
    parameters = function.node.args.args[1:]
    required = parameters[: len(parameters) - len(function.defaults)] if function.defaults else parameters
    args: list[Value] = [
        interp.fresh_symbol("argument") if any(part in one.arg for part in _FLAGS) else _input(interp, one)
        for one in required
    ]
    result = interp.call(Bound(function, receiver), args, {}, anchor)
    roots = [Operand(one.cell.node, one.provenance) for one in interp.tensors(result) if one.cell.node is not None]
    if roots:
        interp.passed()
        site = Site(function.source, _end_of(function.node))
        interp.tape.backward(roots, site, interp.loops, retain=False)


def _input(interp: Interpreter, parameter: ast.arg) -> TensorRef:
    """Data for a model: a tensor as a rule, or a list of several, until it is used as only a tensor can be."""
    given = interp.data()
    given.cell.unsure = parameter.annotation is None or last_name(parameter.annotation) != "Tensor"
    return given


def _end_of(node: ast.AST) -> ast.expr | ast.stmt:
    """The last ``return`` of a function."""
    found = [part for part in ast.walk(node) if isinstance(part, ast.Return)]
    assert isinstance(node, ast.stmt)
    return max(found, key=lambda part: part.lineno, default=node)
