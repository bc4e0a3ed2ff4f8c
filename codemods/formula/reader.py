"""The reading of a program for one fact, and the edits that it ends with."""

from __future__ import annotations

import libcst as cst

from autofix.codemods.facts.cut import CutGraph
from autofix.codemods.formula.marks import Taken
from autofix.codemods.formula.rewrites import without_needless
from autofix.codemods.formula.statements import Statements
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.tree import Tree

_PASSES = 16
"""Number of times that a program is read at most."""


def in_torch(fact: CutGraph, tree: Tree) -> tuple[Edit, set[cst.CSTNode]] | None:
    """The edits that bring the formula on the way of *fact* to torch, and the drops that they undo.

    None where no formula of NumPy is on its way, or one that cannot be translated.
    """
    drops: set[cst.CSTNode] = {node for drop in fact.drops if (node := tree.expression(drop.span)) is not None}
    if not drops or not all(tree.imports_torch(node) for node in drops):
        return None
    for taken in Taken:
        reader = Reader(tree, drops, taken)
        if reader.read() and (not fact.several or reader.is_one_formula()):
            return reader.edit(), reader.covered & drops
    return None


class Reader(Statements):
    """One reading of a program."""

    def read(self) -> bool:
        """Whether there is a formula, and all of it can be translated."""
        for _ in range(_PASSES):
            self._begin()
            self._known, self._now = self._now, {}
            for module in self._modules:
                self._enter_scope(module, module)
                self._block(module.body)
            for module, function in self._functions:
                self._enter_scope(module, function)
                if self._hands_over(function) is None:
                    self._function(function)
            settled = self._wanted <= self._promoted and self._now == self._known
            if settled:
                return bool(self._groups) and not self.refused and self._all_known()
            self._promoted |= self._wanted
        return False

    def _all_known(self) -> bool:
        """Whether all who call a function whose arguments or results become tensors were read."""
        changed = {key[1] for key in self._promoted if isinstance(key, tuple) and key[0] in ("argument", "result")}
        return all(isinstance(function, cst.FunctionDef) and self._is_closed(function) for function in changed)

    def _is_closed(self, function: cst.FunctionDef) -> bool:
        name = function.name.value
        if name == "forward" or name.startswith("__"):
            return False
        if any(self.tree.code(one.decorator) != "staticmethod" for one in function.decorators):
            return False
        if len(self._modules) < len(self.tree.program.files):
            return False
        mentioned = sum(
            node.value == name and not self._only_names(node)
            for module in self._modules
            for node in self.tree.every(cst.Name, module)
        )
        return mentioned == len(self._calls.get(function, ()))

    def _only_names(self, node: cst.Name) -> bool:
        parent = self.tree.parent_of(node)
        named = isinstance(parent, (cst.FunctionDef, cst.ImportAlias)) and parent.name is node
        return named or (isinstance(parent, cst.Arg) and parent.keyword is node)

    def is_one_formula(self) -> bool:
        """Whether all tensors that go in meet in NumPy: there none of them could have kept its graph."""
        groups = list(self._groups)
        found = groups.pop(0)
        while True:
            near = [group for group in groups if group & found]
            if not near:
                return not groups
            found = found.union(*near)
            groups = [group for group in groups if group not in near]

    def edit(self) -> Edit:
        edit = Edit(self.tree)
        for node, how in (*self._edits.items(), *self._shows.items()):
            edit.change(node, how)
        for statement in dict.fromkeys(self.tree.statement_of(node) for node in self._edits):
            if isinstance(statement, cst.SimpleStatementLine) and self._may_go(statement):
                edit.change(statement, without_needless)
        return edit

    def _may_go(self, statement: cst.SimpleStatementLine) -> bool:
        commented = statement.trailing_whitespace.comment or any(line.comment for line in statement.leading_lines)
        return not commented and len(self.tree.block_of(statement)) > 1
