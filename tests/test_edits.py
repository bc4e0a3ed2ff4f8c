"""Patches as data: their edits and lines, applied, composed, taken back in part."""

from __future__ import annotations

import libcst as cst
import pytest

from autofix.codemods.facts.base import Span
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import Statement, detach, with_keyword
from autofix.codemods.rewriting.patch import Patch, composed, written
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.source.program import Program

TEXT = """\
import torch

for a in x:
    # the forward pass
    y = model(a)
    loss = criterion(
        y,
        a,
    )

    loss.backward()  # here
    opt.step()
if y: z = 1
"""


def tree_of(text: str) -> Tree:
    return Tree(Program.of(text, "train.py"))


def statement(tree: Tree, code: str) -> Statement:
    found = (one for one in tree.statements_in(tree.modules()[0]) if tree.own_code(one).startswith(code))
    return next(found)


def lines(patch: Patch) -> list[tuple[int, str]]:
    """Every line of the patched program with the original one that it was; negative for a new one."""
    return [(patch.original(number), line) for number, line in enumerate(patch.patched.lines, 1)]


def test_a_line_between_others_is_new_and_those_behind_it_are_themselves() -> None:
    tree = tree_of(TEXT)
    patch = Edit(tree).insert_before(statement(tree, "loss ="), "h = 1").patch()
    assert lines(patch)[4:7] == [(5, "    y = model(a)"), (-6, "    h = 1"), (6, "    loss = criterion(")]
    assert [(edit.start, edit.stop) for edit in patch.edits] == [(6, 6)]
    assert patch.changed == frozenset()


def test_one_row_of_a_call_over_several_lines_is_changed_alone() -> None:
    tree = tree_of(TEXT)
    argument = tree.expression(Span("train.py", 8, 8, 8, 9))
    assert argument is not None
    patch = Edit(tree).change(argument, detach).patch()
    assert patch.changed == {8}
    assert [number for number, _ in lines(patch)] == list(range(1, 15))


def test_a_statement_that_is_moved_stays_itself() -> None:
    tree = tree_of(TEXT)
    step = statement(tree, "opt.step")
    patch = Edit(tree).remove(step).insert_after(statement(tree, "for a"), tree.own_code(step)).patch()
    assert (12, "opt.step()") in lines(patch)
    assert (13, "if y: z = 1") in lines(patch)


def test_the_comments_of_a_statement_that_is_moved_go_with_it() -> None:
    tree = tree_of(TEXT)
    made = statement(tree, "y =")
    patch = Edit(tree).remove(made).insert_after(statement(tree, "loss.backward"), tree.own_code(made)).patch()
    assert [line for _, line in lines(patch)][-5:-1] == [
        "    # the forward pass",
        "    y = model(a)",
        "    opt.step()",
        "if y: z = 1",
    ]
    assert (5, "    y = model(a)") in lines(patch)


def test_a_heading_does_not_go_with_the_statement_under_it() -> None:
    tree = tree_of(TEXT.replace("# the forward pass", "# ----- the forward pass -----"))
    made = statement(tree, "y =")
    patch = Edit(tree).remove(made).insert_after(statement(tree, "loss.backward"), tree.own_code(made)).patch()
    assert "the forward pass" not in patch.patched.files[0].text.partition("loss.backward")[2]


def test_a_copy_of_a_statement_that_stays_is_new() -> None:
    tree = tree_of(TEXT)
    made = statement(tree, "y =")
    patch = Edit(tree).insert_before(statement(tree, "loss ="), tree.own_code(made)).patch()
    assert lines(patch)[3:6] == [(4, "    # the forward pass"), (5, "    y = model(a)"), (-6, "    y = model(a)")]


def test_a_block_on_one_line_becomes_several_of_which_one_is_new() -> None:
    tree = tree_of(TEXT)
    patch = Edit(tree).insert_before(statement(tree, "z ="), "k = 2").patch()
    assert lines(patch)[12:15] == [(13, "if y:"), (-14, "    k = 2"), (13, "    z = 1")]


def test_two_patches_one_after_the_other_are_one() -> None:
    tree = tree_of(TEXT)
    first = Edit(tree).insert_before(statement(tree, "loss ="), "h = 1").patch()
    after = Tree(first.patched)
    second = Edit(after).insert_after(statement(after, "loss.backward"), "loss = 0").patch()
    both = first.then(second)
    assert both.program == tree.program
    assert both.patched == second.patched
    assert [number for number, line in lines(both) if line.strip() in ("h = 1", "loss = 0")] == [-6, -13]
    alone = second.before(first)
    assert alone is not None
    assert "h = 1" not in alone.patched.files[0].text and "loss = 0" in alone.patched.files[0].text


def test_what_an_earlier_patch_wrote_cannot_be_changed_without_it() -> None:
    tree = tree_of(TEXT)
    first = Edit(tree).change(statement(tree, "opt.step"), lambda _: cst.parse_statement("opt.step(closure)")).patch()
    after = Tree(first.patched)
    second = Edit(after).change(statement(after, "opt.step"), lambda _: cst.parse_statement("opt.step(x)")).patch()
    assert second.before(first) is None


def test_one_edit_is_taken_back_and_the_others_stay() -> None:
    tree = tree_of(TEXT)
    edit = (
        Edit(tree).insert_before(statement(tree, "loss ="), "h = 1").insert_after(statement(tree, "opt.step"), "k = 2")
    )
    patch = edit.patch()
    rest = patch.without(patch.edits[0]).patched.files[0].text
    assert "h = 1" not in rest and "k = 2" in rest


def test_line_ends_and_the_last_line_stay_as_they_are() -> None:
    tree = tree_of("a = 1\r\nb = 2\r\nc = 3")
    patch = Edit(tree).insert_after(statement(tree, "b"), "h = 1").patch()
    assert patch.patched.files[0].text == "a = 1\r\nb = 2\r\nh = 1\r\nc = 3"
    assert [number for number, _ in lines(patch)] == [1, 2, -3, 3]


def test_an_empty_patch_leaves_the_program_as_it_is() -> None:
    program = Program.of(TEXT, "train.py")
    assert Patch(program).patched is program
    assert Patch(program).original(14) == 14


def test_edits_of_one_file_by_two_patches_are_told_in_its_own_lines() -> None:
    tree = tree_of(TEXT)
    first = Edit(tree).insert_before(statement(tree, "loss ="), "h = 1").patch()
    after = Tree(first.patched)
    second = Edit(after).insert_after(statement(after, "loss.backward"), "loss = 0").patch()
    both = composed(TEXT, first.edits, second.edits)
    assert [(edit.start, edit.stop, [line.text for line in edit.lines]) for edit in both] == [
        (6, 6, ["    h = 1\n"]),
        (12, 12, ["    loss = 0\n"]),
    ]
    assert "".join(line.text for line in written(TEXT, both)) == second.patched.files[0].text


@pytest.mark.parametrize(
    ("call", "changed"),
    [
        ("grad(y, x)", "grad(y, x, create_graph=True)"),
        ("grad()", "grad(create_graph=True)"),
        ("grad(y, x, create_graph=False, only=x)", "grad(y, x, create_graph=True, only=x)"),
        ("grad(\n    y,\n    x,\n)", "grad(\n    y,\n    x,\n    create_graph=True,\n)"),
        ("grad(\n    y,\n    x\n)", "grad(\n    y,\n    x,\n    create_graph=True\n)"),
        ("grad(y,\n     x)", "grad(y,\n     x, create_graph=True)"),
        ("grad(y, **options)", 'grad(y, **{**options, "create_graph": True})'),
    ],
)
def test_a_keyword_argument_stands_where_it_stood_or_where_the_last_one_does(call: str, changed: str) -> None:
    made = with_keyword(cst.parse_expression(call), "create_graph", "True")
    assert cst.Module([]).code_for_node(made) == changed
