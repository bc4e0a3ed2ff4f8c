"""The syntax tree of an edited text, made of the statements of the tree before the edit that the edit leaves alone.

An editor and the search for a repair change a line or two of a long file, and most of its statements stay where they
are: their nodes, and the facts that are known about these, hold for the new text.  Only what lies between them is
parsed.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence


def tree_of(lines: Sequence[str], before: Sequence[str], tree: ast.Module) -> ast.Module | None:
    """The tree of *lines*, with the statements of *tree*, the tree of the lines *before*, that an edit left in place.

    None where there are none, where the lines between them are no statements by themselves, or where the texts are no
    versions of one file: others share a licence and imports at most.
    """
    if lines[:1] != before[:1]:
        return None
    first, last = common_ends(before, lines)
    if 2 * (first + last) < min(len(lines), len(before)):
        return None
    body = tree.body
    head = sum(1 for one in body if _end(one) <= first)
    while head and (before[_end(body[head - 1]) - 1].endswith("\\") or _shares_line(body, head)):
        head -= 1
    tail = len(body)
    if len(before) == len(lines):  # the statements behind another edit have new line numbers
        while tail > head and _start(body[tail - 1]) > len(before) - last:
            tail -= 1
        while tail < len(body) and _shares_line(body, tail):
            tail += 1
    if not head and tail == len(body):
        return None
    start = _end(body[head - 1]) if head else 0
    stop = _start(body[tail]) - 1 if tail < len(body) else len(lines)
    try:
        between = ast.parse("\n" * start + "\n".join(lines[start:stop]) + "\n" * (stop < len(lines)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # an edit may also open a block or a string that goes on behind it
    return ast.Module([*body[:head], *between.body, *body[tail:]], [])


def common_ends(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """Number of lines that two texts have in common at the beginning, and of the others that they have at the end."""
    most = min(len(before), len(after))
    first = next((at for at in range(most) if before[at] != after[at]), most)
    last = next((at for at in range(most - first) if before[-1 - at] != after[-1 - at]), most - first)
    return first, last


def _shares_line(body: Sequence[ast.stmt], at: int) -> bool:
    """Whether the statement at an index begins on the line on which the one before it ends."""
    return 0 < at < len(body) and _start(body[at]) <= _end(body[at - 1])


def _start(statement: ast.stmt) -> int:
    """The first line of a statement, its decorators included."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(one.lineno for one in decorators)])


def _end(statement: ast.stmt) -> int:
    return statement.end_lineno or statement.lineno
