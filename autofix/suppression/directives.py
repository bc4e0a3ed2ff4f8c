"""Comments that suppress findings, found among the tokens of a source.

``# autofix: ignore[AF101]`` counts for its statement, or, on a line of its own, for the next one;
``# autofix: ignore-block[AF101]`` on the first line of a block, or on a decorator, for all of the block;
``# autofix: ignore-file[AF101]`` for the file; and ``# noqa: AF101`` for its statement.  Without codes, all are meant.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from autofix.codemods.facts.base import Span
from autofix.codemods.source.tokens import tokens_of
from autofix.findings import Finding
from autofix.settings.selection import UNUSED_IGNORE, matches, normal

_OWN = re.compile(r"#\s*autofix:\s*(?P<word>[\w-]*)\s*(?:\[(?P<codes>[^\]#]*)\])?(?P<open>\[)?")
_NOQA = re.compile(r"#\s*noqa\b(?P<colon>\s*:\s*(?P<codes>[A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*)?)?", re.IGNORECASE)
_PATTERN = re.compile(r"[A-Za-z][\w-]*")
_WORDS = ("ignore", "ignore-block", "ignore-file")


@dataclass(frozen=True)
class Directive:
    """One comment that suppresses findings: its place, its text, and the lines that it counts for."""

    span: Span
    text: str
    codes: tuple[str, ...] | None
    """Codes and names, or how they begin; None for all."""
    first: int
    last: int
    """The lines of the findings that it suppresses; none where the last is before the first."""
    depth: int = 0
    """Number of blocks around it."""
    is_noqa: bool = False
    problem: str = ""
    """Why the comment is not understood."""

    def covers(self, finding: Finding) -> bool:
        """Whether it suppresses *finding*: by its code or name, or by the code of its fact."""
        if not any(place.path == self.span.path and self.first <= place.line <= self.last for place in places(finding)):
            return False
        if self.codes is None and finding.code == UNUSED_IGNORE[0]:
            return False  # a comment does not excuse itself
        own = ((finding.code, finding.name), (finding.fact.code, ""))
        return self.codes is None or any(matches(pattern, *one) for pattern in self.codes for one in own)


def places(finding: Finding) -> tuple[Span, ...]:
    """Places where a comment may suppress *finding*: the cause that is reported, and the cause of its fact."""
    return (finding.cause, finding.fact.cause)


@dataclass(frozen=True)
class Statement:
    """A line as the grammar has it: a simple statement, or the head of a block."""

    first: int
    last: int
    depth: int
    is_decorator: bool


def directives_in(path: str, text: str) -> tuple[Directive, ...]:
    """The comments of a source that suppress something; none for a text that has no tokens."""
    if "autofix:" not in text and not any(map(_is_ours, _NOQA.finditer(text))):
        return ()
    return _read(path, text)


def names_codes(text: str) -> bool:
    """Whether a comment of a source may name codes of ours: a ``noqa`` without any is for every tool."""
    return "autofix:" in text or any(map(_names_ours, _NOQA.finditer(text)))


def _is_ours(noqa: re.Match[str]) -> bool:
    """Whether a comment for several tools names a code of ours, or none at all."""
    return "\n" in noqa[0] or _names_ours(noqa) or not noqa["colon"]


def _names_ours(noqa: re.Match[str]) -> bool:
    return "AF" in (noqa["codes"] or "").upper()


@lru_cache(maxsize=512)
def _read(path: str, text: str) -> tuple[Directive, ...]:
    try:
        comments, statements = _lines(text)
    except (tokenize.TokenError, SyntaxError):
        return ()
    return tuple(one for comment in comments for one in _of_comment(path, comment, statements))


def statements_of(text: str) -> list[Statement]:
    """The statements of a source, from the top down.  Raises :class:`SyntaxError` and :class:`tokenize.TokenError`."""
    return _lines(text)[1]


def _lines(text: str) -> tuple[list[tokenize.TokenInfo], list[Statement]]:
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    comments: list[tokenize.TokenInfo] = []
    statements: list[Statement] = []
    first, depth, is_decorator = 0, 0, False
    for token in tokens_of(text):
        if token.type == tokenize.COMMENT:
            comments.append(token)
        elif token.type == tokenize.INDENT:
            depth += 1
        elif token.type == tokenize.DEDENT:
            depth -= 1
        elif token.type == tokenize.NEWLINE:
            statements.append(Statement(first, token.start[0], depth, is_decorator))
            first = 0
        elif token.type not in (tokenize.NL, tokenize.ENDMARKER) and not first:
            first, is_decorator = token.start[0], token.string == "@"
    return comments, statements


def _of_comment(path: str, comment: tokenize.TokenInfo, statements: Sequence[Statement]) -> Iterator[Directive]:
    line, column = comment.start
    for found in _OWN.finditer(comment.string):
        text = found[0].rstrip()
        span = Span(path, line, column + found.start(), line, column + found.start() + len(text))
        codes = tuple(filter(None, map(str.strip, (found["codes"] or "").split(","))))
        problem = _problem(found, codes)
        here = _statement_at(line, statements) or next((one for one in statements if one.first > line), None)
        first, last = (1, 0) if problem else _reach(found["word"], here, statements)
        depth = here.depth if here is not None and found["word"] != "ignore-file" else 0
        yield Directive(span, text, codes or None, first, last, depth, problem=problem)
    for found in _NOQA.finditer(comment.string):
        codes = tuple(re.split(r"[,\s]+", found["codes"])) if found["codes"] else ()
        if (found["colon"] and not codes) or (codes and not any(code.upper().startswith("AF") for code in codes)):
            continue
        if line_of := _statement_at(line, statements):
            text = found[0].rstrip()
            span = Span(path, line, column + found.start(), line, column + found.start() + len(text))
            yield Directive(span, text, codes or None, line_of.first, line_of.last, line_of.depth, is_noqa=True)


def _problem(found: re.Match[str], codes: Sequence[str]) -> str:
    if found["word"] not in _WORDS:
        return f"it says none of {', '.join(_WORDS)}"
    if found["open"]:
        return "a bracket is not closed"
    if found["codes"] is not None and not codes:
        return "there is no code between the brackets"
    wrong = next((code for code in codes if not _PATTERN.fullmatch(normal(code))), None)
    return f"`{wrong}` is no code" if wrong is not None else ""


def _reach(word: str, here: Statement | None, statements: Sequence[Statement]) -> tuple[int, int]:
    """The first and the last line that a comment at the statement *here* counts for."""
    if word == "ignore-file":
        return 1, max((one.last for one in statements), default=1)
    if here is None:
        return 1, 0
    if word == "ignore":
        return here.first, here.last
    at = statements.index(here)
    while statements[at].is_decorator and at + 1 < len(statements):
        at += 1
    last = statements[at].last
    for one in statements[at + 1 :]:
        if one.depth <= statements[at].depth:
            break
        last = one.last
    return here.first, last


def _statement_at(line: int, statements: Sequence[Statement]) -> Statement | None:
    return next((one for one in statements if one.first <= line <= one.last), None)
