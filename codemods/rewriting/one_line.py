"""Blocks on one line, ``if step == 0: state = None``: read as any other, written on one line while they can be.

To LibCST such a block is no block: its statement is part of the compound one's line, so that nothing can be put before
or behind it, and whoever asks in which statement an expression stands would have to know two kinds of them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

import libcst as cst
from libcst._nodes.internal import CodegenState

from autofix.codemods.source import sources
from autofix.codemods.source.nodes import Nodes
from autofix.codemods.source.program import split

_GAP = cst.SimpleWhitespace(" ")


@dataclass(frozen=True)
class OneLine(cst.IndentedBlock):
    """A block whose one line stands behind the colon; with more than that it is written as an indented block."""

    gap: cst.SimpleWhitespace = _GAP
    """Whitespace between the colon and the line."""

    def _visit_and_replace_children(self, visitor: cst.CSTVisitorT) -> OneLine:
        block = super()._visit_and_replace_children(visitor)
        return OneLine(block.body, block.header, block.indent, block.footer, self.gap)

    def _codegen_impl(self, state: CodegenState) -> None:
        line = self.body[0] if len(self.body) == 1 else None
        if not isinstance(line, cst.SimpleStatementLine) or line.leading_lines:
            super()._codegen_impl(state)
            return
        self.gap._codegen(state)
        around, state.indent_tokens = state.indent_tokens, []
        with state.record_syntactic_position(self, start_node=line, end_node=line):
            line._codegen(state)
        state.indent_tokens = around


class _AsBlocks(cst.CSTTransformer):
    def leave_SimpleStatementSuite(  # noqa: N802
        self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite
    ) -> cst.BaseSuite:
        line = cst.SimpleStatementLine(updated_node.body, trailing_whitespace=updated_node.trailing_whitespace)
        return OneLine([line], gap=updated_node.leading_whitespace)


def parse(text: str) -> cst.Module:
    """A module whose blocks on one line are :class:`OneLine`.

    LibCST takes a form feed in the first indent for a part of the indent, and then parses no statement with it.
    """
    module = cst.parse_module(text)
    if "\f" in module.default_indent:
        module = module.with_changes(default_indent=module.default_indent.replace("\f", ""))
    return module.visit(_AsBlocks()) if _has_block_on_one_line(text) else module


def _has_block_on_one_line(text: str) -> bool:
    """Whether a block may stand behind its colon: its first statement is not the first text on its line.

    A visit by LibCST takes as long as its parser does, and few files need it.
    """
    try:
        nodes = sources.parse(text).nodes
    except (SyntaxError, ValueError, RecursionError):
        return True
    lines = ["", *split(text)]
    return any(
        lines[first.lineno][: first.col_offset].strip() or lines[first.lineno - 1].endswith("\\")
        for first in map(itemgetter(0), _blocks(nodes))
    )


def _blocks(nodes: Nodes) -> Iterator[list[ast.stmt]]:
    """The blocks of all compound statements."""
    for kind in _WITH_BLOCKS:
        for node in nodes.of(kind):
            for name in ("body", "orelse", "finalbody"):
                if block := getattr(node, name, None):
                    yield block


_WITH_BLOCKS: tuple[type[ast.AST], ...] = (
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar),
    *(ast.ExceptHandler, ast.match_case, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef),
)
