"""The tree of an edited text is the one that the parser makes of it, whatever the edit is."""

from __future__ import annotations

import ast
import random
import warnings
from pathlib import Path

import pytest

from autofix.codemods.source import edited
from autofix.codemods.source.nodes import Nodes
from autofix.codemods.source.program import split
from autofix.codemods.source.sources import Parsed, parse, parses

FIXTURES = sorted(
    path
    for path in (Path(__file__).parent.parent / "fixtures").glob("*/broken.py")
    if parses(path.read_text(encoding="utf-8"))  # one is of Python 3.6: `x.cuda(async=True)`
)
TYPED = (
    *(
        "",
        "x = 1",
        "    x = 1",
        "        y = 2",
        "else:",
        "    else:",
        "@wrapped",
        "x = 1 \\",
        "x = (",
        ")",
        '"""',
        "'''",
    ),
    *(
        "    return",
        "if x: y = 1; z = 2",
        "a = 1; b = [",
        "]",
        "# text",
        "# text \\",
        "\\",
        "\tx = 1",
        "\f",
        "é = 'ü'; ö = 1",
    ),
    *(
        "class A:",
        "async def f():",
        "try:",
        "except E:",
        "finally:",
        "match x:",
        "    case 1:",
        "for i in x:",
        "f'''{x",
    ),
)
MANY = 25


def dumped(tree: ast.AST) -> str:
    return ast.dump(tree, include_attributes=True)


def parsed(text: str) -> str | None:
    """The tree of a text by Python's parser; None where it has none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dumped(ast.parse(text))
    except (SyntaxError, ValueError):
        return None


def edits(lines: list[str], chance: random.Random) -> list[str]:
    """Lines after one or two edits: replaced, inserted, removed or moved."""
    lines = list(lines)
    for _ in range(chance.choice((1, 1, 2))):
        at = chance.randrange(len(lines))
        match chance.randrange(5):
            case 0:
                lines[at] = chance.choice(TYPED)
            case 1:
                lines.insert(at, chance.choice(TYPED))
            case 2 if len(lines) > 1:
                del lines[at]
            case 3:
                lines[at] += chance.choice((" ", "  # text", " \\", "; x = 1", "'''", "(", ")"))
            case _:
                lines.insert(chance.randrange(len(lines)), lines.pop(at))
    return lines


@pytest.mark.parametrize("path", FIXTURES[::5], ids=lambda path: path.parent.name)
def test_tree_of_an_edited_text(path: Path) -> None:
    lines = split(path.read_text(encoding="utf-8"))
    tree = ast.parse("\n".join(lines))
    known = Nodes(tree)
    chance = random.Random(path.parent.name)
    reused = 0
    for _ in range(MANY):
        after = edits(lines, chance)
        found = edited.tree_of(after, lines, tree)
        if found is None:
            continue
        reused += 1
        expected = parsed("\n".join(after))
        assert dumped(found) == expected, "\n".join(after)
        nodes, plain = Nodes(found, known), Nodes(found)
        assert nodes.all == plain.all
        assert [nodes.within(one) for one in found.body] == [plain.within(one) for one in found.body]
    assert reused


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1 \\\n\ny = 2", "x = 1 \\\n+ 2\ny = 2"),  # the statement before the edit goes on
        ("a = 1; b = (\n2,\n)\nc = 3", "a = 1; b = (\n4,\n)\nc = 3"),  # two statements on one line
        ("if x:\n    y = 1\n# text\nz = 2", "if x:\n    y = 1\nelse: y = 2\nz = 2"),
        ("x = 1\ny = 2\nz = '''\n'''", "x = 1\ny = '''\nz = '''\n'''"),  # a string that is opened and not closed
        ("x = 1\n@f\ndef g(): pass\ny = 1", "x = 1\n@h\ndef g(): pass\ny = 1"),
        ("x = 1\n\n@f\ndef g(): pass", "x = 1\n@h\n@f\ndef g(): pass"),
        ("x = 1\n# text\n    \ny = 2", "x = 1\n# text\n    y = 1\ny = 2"),
        ("def f():\n    pass\n#\ny = 2", "def f():\n    pass\n    z = 1\ny = 2"),
    ],
)
def test_an_edit_that_reaches_out_of_its_lines(before: str, after: str) -> None:
    found = edited.tree_of(split(after), split(before), ast.parse(before))
    assert found is None or dumped(found) == parsed(after)


def test_statements_that_an_edit_leaves_alone_keep_their_facts() -> None:
    text = "import torch\n\n\ndef f(x):\n    return x\n\n\ndef g(x):\n    return x\n"
    asked: list[ast.stmt] = []

    def noted(node: ast.stmt) -> ast.stmt:
        asked.append(node)
        return node

    def facts(text: str) -> Parsed:
        found = parse(text)
        for statement in found.tree.body:
            found.remembered(statement, noted)
        return found

    before, after = facts(text), facts(text.replace("g(x):\n    return x", "g(x):\n    return -x"))
    assert after.tree.body[:2] == before.tree.body[:2]
    assert after.tree.body[2] is not before.tree.body[2]
    assert after.nodes.all == Nodes(after.tree).all
    assert asked == [*before.tree.body, after.tree.body[2]]
