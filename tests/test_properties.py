"""Properties of generated and mutated scripts, on a sample: ``make fuzz`` tries as many as there is time for."""

from __future__ import annotations

import sys

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autofix.engine import DEPTH
from autofix.escaping import escaped, escaped_lines
from autofix.patch import Change, apply, hunks_of, patch
from autofix.project.files import FileError, decode
from tests.fuzz.mutants import MUTATIONS, Mutation, mutant
from tests.fuzz.properties import hold

sys.setrecursionlimit(DEPTH)  # as the engine has it, which hypothesis would take for a change by a test
REPEATABLE = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
MUTANTS = st.lists(st.tuples(st.sampled_from(sorted(MUTATIONS)), st.integers(0, 10**6)), max_size=4)


@settings(REPEATABLE, max_examples=10)
@given(st.integers(0, 10**6), MUTANTS)
def test_every_file_is_read_repaired_and_left_whole(number: int, mutations: list[Mutation]) -> None:
    hold(mutant(number, mutations), unsafe=number % 2 == 0)


@settings(REPEATABLE, max_examples=300)
@given(st.binary(max_size=60), st.sampled_from([b"", b"\xef\xbb\xbf", b"# coding: latin-1\n", b"# coding: koi8-r\n"]))
def test_what_is_decoded_leads_back_to_its_bytes(data: bytes, head: bytes) -> None:
    try:
        file = decode(head + data, "a.py")
    except FileError:
        return
    assert file.encode(file.text) == head + data


@settings(REPEATABLE, max_examples=200)
@given(st.text("ab \n\r\f\u2028é", max_size=40), st.text("ab \n\r\f\u2028é", max_size=40))
def test_a_patch_leads_from_any_text_to_any_other(before: str, after: str) -> None:
    change = Change("a b.py", before.encode(), after.encode())
    assert bool(patch([change])) == (before != after)
    assert apply(hunks_of(change), change.before) == change.after


@settings(REPEATABLE, max_examples=200)
@given(st.text())
def test_what_is_escaped_holds_no_control_character(text: str) -> None:
    assert all(letter.isprintable() or letter == " " or not letter.isascii() for letter in escaped(text))
    assert escaped(escaped(text)) == escaped(text)
    assert escaped_lines(text).count("\n") == text.count("\n")
