"""Updates by hand that change nothing: ``for p in params: p = p - lr * p.grad`` gives the name to a new tensor."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from autofix.codemods.checks.check import Check
from autofix.codemods.checks.known import Known
from autofix.codemods.facts.untrained import UpdateLost
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.source.nodes import COMPREHENSIONS, Nodes
from autofix.codemods.source.sources import Site

_CLEARED = re.compile(r"\.grad(\.data)?\.(zero_|detach_|requires_grad_)\(|\.grad is (not )?None")


class LostUpdateCheck(Check):
    """Whether an update by hand gives its name to a new tensor."""

    kinds = (UpdateLost,)

    def facts(self, interp: Interpreter, known: Known) -> Iterator[UpdateLost]:
        """The updates of what nobody trains otherwise, whose results nobody reads."""
        questions = interp.incidents.asked
        for site, leaf in questions.items():
            is_trained = leaf in interp.tape.owned or leaf.given
            if is_trained or leaf.frozen or leaf.supposed or not isinstance(site.node, ast.Assign):
                continue
            update = _update(site)
            if update is not None and not any(
                other != site and one is leaf and not _only_clears(other) for other, one in questions.items()
            ):
                name, asked = update
                span = site.source.span
                yield UpdateLost(made=span(site.node.value), used=span(asked), name=name)


def _only_clears(site: Site) -> bool:
    """Whether a statement asks for a gradient just to set it to zero."""
    node = site.node.test if isinstance(site.node, (ast.If, ast.While)) else site.node
    return _CLEARED.search(site.source.text_of(node)) is not None


def _update(site: Site) -> tuple[str, ast.expr] | None:
    """The name and the gradient in ``name = name - lr * name.grad``, if the loop gives the name anew; else None."""
    update = site.node
    if not isinstance(update, ast.Assign) or not isinstance(update.value, ast.BinOp) or len(update.targets) != 1:
        return None
    target = update.targets[0]
    if not isinstance(target, ast.Name):
        return None
    name, parts = target.id, list(ast.walk(update.value))
    asked = [
        part for part in parts if isinstance(part, ast.Attribute) and part.attr == "grad" and _is(part.value, name)
    ]
    if len(asked) != 1 or sum(_is(part, name) for part in parts) < 2 or not _is_lost(update, name, site.source.nodes):
        return None
    return name, asked[0]


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_lost(update: ast.Assign, name: str, nodes: Nodes) -> bool:
    """Whether a loop around an assignment hands the name out, and nothing reads it between the two."""
    loops = [loop for loop in nodes.of(ast.For) if any(_is(part, name) for part in ast.walk(loop.target))]
    around = [loop for loop in loops if update in nodes.within(loop)]
    if not around or any(isinstance(one, _DECLARING) and name in one.names for one in nodes.all):
        return False
    functions = [one for one in nodes.all if isinstance(one, _FUNCTIONS)]
    outer = [one for one in functions if update in nodes.within(one)]
    home = nodes.within(outer[-1]) if outer else nodes.all
    hidden = {
        part
        for one in (*functions, *loops, *(one for one in nodes.all if isinstance(one, COMPREHENSIONS)))
        if update not in nodes.within(one) and (not isinstance(one, COMPREHENSIONS) or _hands_out(one, name))
        for part in nodes.within(one)
    }
    later = home[home.index(update) + len(nodes.within(update)) :]
    return not any(_is(part, name) and part not in hidden for part in later)


def _hands_out(comprehension: ast.AST, name: str) -> bool:
    generators: list[ast.comprehension] = getattr(comprehension, "generators", [])
    return any(_is(part, name) for one in generators for part in ast.walk(one.target))


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DECLARING = (ast.Global, ast.Nonlocal)
