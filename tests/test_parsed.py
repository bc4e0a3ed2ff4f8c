"""Facts on a file's tree that are not found by LibCST's own ways: places of its nodes, blocks on one line."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from autofix.codemods.rewriting import one_line
from autofix.codemods.rewriting.nodes import children
from autofix.codemods.rewriting.origins import places_in, render
from autofix.codemods.source.sources import parses

FIXTURES = sorted(
    path
    for path in (Path(__file__).parent.parent / "fixtures").glob("*/broken.py")
    if parses(path.read_text(encoding="utf-8"))  # one is of Python 3.6: `x.cuda(async=True)`
)
ON_ONE_LINE = [
    "if x: y = 1\n",
    "if x: \\\n    y = 1\n",
    "if x:\n    a = 1\nelif z: b = 2\n",
    "if x:\n    a = 1\nelse: b = 2\n",
    "if x:\n    if y: z = 'é'\n",
    "é = 1\nif é: é = 2\n",
    "if (x and\n    y): z = 1\n",
    "for i in s: f(i)\n",
    "for i in s:\n    f(i)\nelse: g()\n",
    "while x: x -= 1; y += 1\n",
    "with a: b()\n",
    "try: a()\nexcept E:\n    b()\n",
    "try:\n    a()\nexcept E: b()\n",
    "try:\n    a()\nexcept* E: b()\n",
    "try:\n    a()\nfinally: c()\n",
    "match x:\n    case 1: y = 1\n",
    "class A: x = 1\n",
    "class A:\n    def f(self): return 1\n",
    "def f(a: int, b=(\n    1)) -> int: return 1\n",
    "async def f(): await g()\n",
    "async def f():\n    async for x in y: pass\n",
    "async def f():\n    async with x: pass\n",
]


@pytest.mark.parametrize("text", ON_ONE_LINE)
def test_a_block_on_one_line_is_a_block(text: str) -> None:
    class Suites(cst.CSTVisitor):
        found = 0

        def visit_SimpleStatementSuite(self, node: cst.SimpleStatementSuite) -> None:  # noqa: N802
            self.found += 1

    whole, suites = cst.parse_module(text), Suites()
    whole.visit(suites)
    assert suites.found == 1
    parsed, left = one_line.parse(text), Suites()
    parsed.visit(left)
    assert left.found == 0
    assert parsed.code == text


@pytest.mark.parametrize(
    "text",
    [
        *ON_ONE_LINE,
        "@a\n@b\ndef f(\n    x,\n):\n\n    # c\n    return (x +\n        1)  # d\n",
        "x = '''\n\n'''\r\ny = 1\r\n",
    ],
)
def test_nodes_stand_where_libcst_says(text: str) -> None:
    assert sorted(places_in(cst.parse_module(text)).values()) == sorted(own_places(text).values())


@pytest.mark.parametrize("fixture", FIXTURES[::12], ids=lambda path: path.parent.name)
def test_nodes_of_scripts_stand_where_libcst_says(fixture: Path) -> None:
    text = fixture.read_text(encoding="utf-8")
    assert sorted(places_in(cst.parse_module(text)).values()) == sorted(own_places(text).values())


def own_places(text: str) -> dict[cst.CSTNode, tuple[int, int, int, int]]:
    wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
    return {
        node: (one.start.line, one.start.column, one.end.line, one.end.column)
        for node, one in wrapper.resolve(PositionProvider).items()
        if isinstance(one, CodeRange)
    }


def test_of_the_statements_that_a_tree_has_in_common_only_the_rows_are_remembered() -> None:
    module = one_line.parse("# one\nif x:\n    # two\n    y = f(x)\nz = y + 1\n")
    _, every = render(module, ())
    code, written = render(module, set(module.body))
    assert code == module.code
    assert len(written) < len(every) / 2
    lines = {(id(one.node), one.line) for one in every}
    assert all((id(one.node), one.line) in lines for one in written)
    rows = [one.node for one in every if isinstance(one.node, cst.EmptyLine)]
    assert [one.node for one in written if isinstance(one.node, cst.EmptyLine)] == rows


GRAMMAR = '''\
@decorated(1)
async def f(a, /, b: int = 1, *c, d=2, **e) -> int:
    """Text."""
    global g
    async with x as y, z:
        await h
    async for i in [j async for j in k if l]:
        yield i
    return (yield from m)
class C(B, metaclass=M):
    n: int = 3; o = p = 4
    del q[1:2, ...], r.s
for t, *u in v:
    continue
else:
    pass
while not w: break
try:
    assert a, b
except (A, B) as c:
    raise d from e
else:
    import a.b as c, d
finally:
    from .. import e as f, g
try:
    pass
except* F:
    raise
with (open(a) as b, c): pass
match a:
    case {"k": 1, **rest} | [b, *c] if d: pass
    case C(e, f=g) as h: pass
    case -1 | "s" | None | x.y: pass
lambda a, *, b=1: (c := a if b else d)
{**a, b: c}; {d, *e}; {f: g for f in h}; {i for i in j}; (k for k in l)
f"{a!r:>{b}}" "c"; a @= b < c <= d is not e; ~a ** -b, a[b][c:d:e]; print(*a, **b)
'''


def test_children_are_those_that_libcst_visits() -> None:
    texts = [path.read_text("utf-8") for path in FIXTURES[::10]]
    for text in (GRAMMAR, *texts, GRAMMAR):
        pending: list[cst.CSTNode] = [cst.parse_module(text)]
        while pending:
            node = pending.pop()
            found = children(node)
            assert list(map(id, found)) == list(map(id, node.children)), type(node)
            pending += found
