"""Edits of a program's trees, which become one patch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import libcst as cst

from autofix.codemods.rewriting.nodes import (
    Statement,
    Unannotated,
    comments_of,
    in_the_tree,
    only_part,
    without_annotation,
)
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.rewriting.tree import Tree


class Edit(cst.CSTTransformer):
    """A set of changes to one tree, applied together.  A change sees the node as inner changes left it."""

    def __init__(self, tree: Tree) -> None:
        super().__init__()
        self._tree = tree
        self._changes: dict[cst.CSTNode, list[Callable[[cst.CSTNode], cst.CSTNode]]] = {}
        self._before: dict[cst.CSTNode, list[Statement]] = {}
        self._after: dict[cst.CSTNode, list[Statement]] = {}
        self._removed: set[cst.CSTNode] = set()
        self._touched: set[cst.CSTNode] = set()
        """The changed nodes and all around them: nothing else is visited."""
        self._partners: dict[cst.CSTNode, cst.CSTNode] = {}
        """New nodes, and the nodes of the tree that they stand for."""
        self._said: dict[cst.CSTNode, cst.CSTNode] = {}
        """New nodes that a rule declared to stand for old ones."""
        self._renewed: dict[cst.CSTNode, cst.CSTNode] = {}
        """Inserted statements with the comments of those before which they stand, and without."""

    def change(self, node: cst.CSTNode, how: Callable[[cst.CSTNode], cst.CSTNode]) -> Edit:
        if isinstance(node, Unannotated):
            bare = how

            def how(updated: cst.CSTNode) -> cst.CSTNode:
                return bare(without_annotation(updated) if isinstance(updated, cst.AnnAssign) else updated)

        self._changes.setdefault(in_the_tree(node), []).append(how)
        return self

    def insert_before(self, statement: Statement, *codes: str) -> Edit:
        """Insert statements; behind a docstring and the declarations with which a function begins."""
        while _comes_first(statement):
            block = self._tree.block_of(statement)
            at = block.index(statement) + 1 if statement in block else len(block)
            if at >= len(block):
                return self.insert_after(statement, *codes)
            statement = block[at]
        self._before.setdefault(statement, []).extend(self._parsed(statement, codes))
        return self

    def insert_after(self, statement: Statement, *codes: str) -> Edit:
        self._after.setdefault(statement, []).extend(self._parsed(statement, codes))
        return self

    def remove(self, statement: Statement) -> Edit:
        self._removed.add(statement)
        return self

    def stands_for(self, new: cst.CSTNode, old: cst.CSTNode) -> Edit:
        """Declare that a *new* node, which a change puts into the tree, stands for *old*: the same pass, say."""
        self._said[new] = in_the_tree(old)
        return self

    def _moved(self) -> dict[cst.CSTNode, cst.CSTNode]:
        """Inserted statements that read like a removed one, with this one: such a statement only goes elsewhere."""
        inserted = [one for many in (*self._before.values(), *self._after.values()) for one in many]
        moved: dict[cst.CSTNode, cst.CSTNode] = {}
        for old in self._removed:
            if isinstance(old, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
                same = (one for one in inserted if one not in moved and self._rows(one) == self._rows(old))
                new = next(same, None)
                if new is not None:
                    moved[new] = old
        return moved

    def _commented(self, moved: dict[cst.CSTNode, cst.CSTNode]) -> dict[cst.CSTNode, cst.CSTNode]:
        """*moved*, with the comments of each statement above it where it goes."""
        renewed: dict[cst.CSTNode, Statement] = {}
        for new, old in moved.items():
            assert isinstance(new, Statement) and isinstance(old, Statement)
            if not new.leading_lines and (comments := comments_of(old)):
                renewed[new] = new.with_changes(leading_lines=comments)
        for inserted in (*self._before.values(), *self._after.values()):
            inserted[:] = [renewed.get(one, one) for one in inserted]
        return {renewed.get(new, new): old for new, old in moved.items()}

    def _rows(self, node: cst.CSTNode) -> list[str]:
        assert isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
        return [line.strip() for line in self._tree.own_code(node).split("\n")]

    def _parsed(self, statement: Statement, codes: Iterable[str]) -> Iterator[Statement]:
        config = self._tree.module_of(statement).config_for_parsing
        for code in codes:
            several = cst.parse_module(code, config).body if "\n" in code else ()
            if len(several) > 1:
                yield from several
                continue
            parsed = cst.parse_statement(code, config=config)
            bare = [line if line.comment else line.with_changes(indent=False) for line in parsed.leading_lines]
            yield parsed.with_changes(leading_lines=bare) if bare else parsed

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node in self._touched

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> object:  # type: ignore[override]
        node = updated_node
        for how in self._changes.get(original_node, ()):
            node = how(node)
        told = original_node in self._said.values()
        if original_node in self._touched and isinstance(node, cst.CSTNode) and node is not original_node and not told:
            self._partners.setdefault(node, original_node)
        if isinstance(node, cst.FlattenSentinel) and not told:  # the first of its kind stands for it
            new = (one for one in node if type(one) is type(original_node) and self._tree.parent_of(one) is None)
            self._partners.update(dict.fromkeys(islice(new, 1), original_node))
        if original_node in self._removed:
            return cst.RemovalSentinel.REMOVE
        before, after = self._before.get(original_node), self._after.get(original_node)
        if before:
            # The comment that introduces the statement introduces the inserted one as well.
            if not before[0].leading_lines:
                first = before[0].with_changes(leading_lines=node.leading_lines)  # type: ignore[attr-defined]
                self._renewed[first] = before[0]
                before = [first, *before[1:]]
                headed, node = node, node.with_changes(leading_lines=[])
                self._partners.setdefault(node, self._partners.get(headed, original_node))
        if before or after:
            return cst.FlattenSentinel([*(before or ()), node, *(after or ())])
        return node

    def patch(self) -> Patch:
        """The patch that makes all the changes."""
        changed = [*self._changes, *self._before, *self._after, *self._removed]
        self._touched = {node for one in changed for node in (one, *self._tree.enclosing(one))}
        moved = self._commented(self._moved())
        for new, old in self._said.items():
            same = isinstance(old, cst.BaseStatement) and self._rows(new) == self._rows(old)
            (moved if same else self._partners)[new] = old

        def make(module: cst.Module) -> cst.Module:
            made = module.visit(self) if module in self._touched else module
            moved.update({new: moved[bare] for new, bare in self._renewed.items() if bare in moved})
            return made

        return self._tree.patch(make, self._partners, moved)


def _comes_first(statement: Statement) -> bool:
    """Whether a statement has to stay where it is: a docstring, ``global`` and ``nonlocal``."""
    part = only_part(statement)
    said = isinstance(part, cst.Expr) and isinstance(part.value, (cst.SimpleString, cst.ConcatenatedString))
    return said or isinstance(part, (cst.Global, cst.Nonlocal))


def small_statement(code: str) -> cst.BaseSmallStatement:
    """The small statement that *code*, a single line, consists of, as :func:`only_part` returns it."""
    return cst.ensure_type(cst.parse_statement(code), cst.SimpleStatementLine).body[0]
