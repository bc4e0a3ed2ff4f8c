"""docs/rules.md agrees with the codemods' docstrings, and every docstring answers a reader's questions."""

from __future__ import annotations

import re

import pytest

from autofix.codemods.facts.kinds import name_of
from autofix.codemods.rules.base import Codemod
from autofix.codemods.rules.registry import all_codemods
from autofix.report.catalogue import SECTIONS, documentation, facts, page
from tests import manual


def told(asked: str) -> str:
    lines = page(asked, all_codemods())
    return "\n".join("".join(piece if isinstance(piece, str) else piece[0] for piece in line) for line in lines)


def test_the_page_is_not_stale() -> None:
    assert manual.PAGE.read_text(encoding="utf-8") == manual.text(), "docs/rules.md is stale: run `make docs`"


@pytest.mark.parametrize("codemod", all_codemods(), ids=lambda codemod: codemod.code)
def test_a_docstring_has_every_section_in_order(codemod: type[Codemod]) -> None:
    assert tuple(documentation(codemod).sections) == SECTIONS


@pytest.mark.parametrize("codemod", all_codemods(), ids=lambda codemod: codemod.code)
def test_the_page_shows_what_each_codemod_does(codemod: type[Codemod]) -> None:
    example = manual.example(codemod)
    assert re.search(r"^[-+]", example, re.MULTILINE)
    assert example in manual.text()


def test_every_link_of_the_page_leads_to_a_heading() -> None:
    written = manual.text()
    headings = {found.lower().replace(" ", "-") for found in re.findall(r"^#+ (AF.*)$", written, re.MULTILINE)}
    assert headings == set(re.findall(r"\(#([^)]*)\)", written))


def test_a_name_of_a_kind_finds_it() -> None:
    assert told("stale graph") == told("Stale-Graph") == told("AF100")
    assert told("AF100").startswith("AF100 stale-graph\n")


def test_the_beginning_of_a_name_is_enough_where_only_one_has_it() -> None:
    assert told("stored") == told("AF101")


def test_the_beginning_of_a_code_lists_all_that_have_it() -> None:
    codes = [line.split()[0] for line in told("AF1").splitlines()]
    assert codes[:2] == ["AF100", "AF101"]
    assert all(code.startswith("AF1") for code in codes)
    known = {codemod.code for codemod in all_codemods()} | {fact.code for fact in facts()}
    assert set(codes) == {code for code in known if code.startswith("AF1")}


@pytest.mark.parametrize("asked", ["", "AF999", "x"])
def test_what_nothing_is_called_has_no_page(asked: str) -> None:
    assert told(asked) == ""


def test_what_a_codemod_is_called_means_the_codemod() -> None:
    for codemod in all_codemods():
        assert told(codemod.name).startswith(f"{codemod.code} {codemod.name}\n")
    assert {name_of(fact) for fact in facts()}
