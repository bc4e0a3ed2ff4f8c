"""Comments that suppress nothing, as findings of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from autofix.checking import Result
from autofix.codemods.facts.base import Fact, Span
from autofix.findings import Finding
from autofix.settings.selection import UNUSED_IGNORE, UnknownCode, codes_of, matches, normal
from autofix.suppression.directives import Directive, directives_in, names_codes


@dataclass(frozen=True, kw_only=True)
class UnusedIgnore(Fact):
    """A comment that suppresses findings suppresses none.

    The mistake was repaired, has another code, or stands on another line: the comment can go.  A comment that is not
    understood is reported as well.  One is only called unused where every backward pass of its file was followed, and
    `# noqa` without codes never is, for other tools read it too.
    """

    code: ClassVar[str] = UNUSED_IGNORE[0]
    kind: ClassVar[str] = UNUSED_IGNORE[1].replace("-", " ")
    error: ClassVar[str] = ""
    phrases: ClassVar[dict[str, str]] = {"comment": "this comment"}
    comment: Span
    text: str
    problem: str
    unknown: str = ""
    """Says which of the codes is one of no mistake."""

    @property
    def cause(self) -> Span:
        return self.comment

    @property
    def message(self) -> str:
        if self.problem:
            return f"`{self.text}` is not understood: {self.problem}"
        return f"`{self.text}` suppresses nothing{f': {self.unknown}' if self.unknown else ''}"


def unused(results: Sequence[Result]) -> Iterator[Finding]:
    """Yield a finding for each comment in the files of *results* that suppressed nothing in any of them."""
    texts = {file.path: file.text for result in results for file in result.analysis.program.files if file.text}
    named = {result.file.name for result in results}
    silenced = [finding for result in results for finding in result.analysis.silenced]
    for path in sorted(named):
        here = [
            finding for finding in silenced if any(span.path == path for span in (finding.cause, finding.fact.cause))
        ]
        text = texts.get(path, "")
        for directive in directives_in(path, text) if names_codes(text) else ():
            if _is_unused(directive, here, results):
                fact = UnusedIgnore(
                    comment=directive.span, text=directive.text, problem=directive.problem, unknown=_unknown(directive)
                )
                yield Finding(*UNUSED_IGNORE, fact, fixed=False, remedy="", cause=directive.span)


def _is_unused(directive: Directive, silenced: Iterable[Finding], results: Sequence[Result]) -> bool:
    if directive.problem:
        return True
    if directive.is_noqa and directive.codes is None:
        return False
    if any(matches(pattern, *UNUSED_IGNORE) for pattern in directive.codes or ()):
        return False
    if any(directive.covers(finding) for finding in silenced):
        return False
    return _was_followed(directive, results) and all(
        _is_selected(pattern, results)
        for pattern in directive.codes or ()
        if not directive.is_noqa or normal(pattern).startswith("af")
    )


def _unknown(directive: Directive) -> str:
    """What is wrong with the first code of a comment that stands for no mistake; nothing where all do."""
    for pattern in directive.codes or ():
        if directive.is_noqa and not normal(pattern).startswith("af"):
            continue  # a code of another tool
        try:
            codes_of(pattern)
        except UnknownCode as error:
            return str(error)
    return ""


def _was_followed(directive: Directive, results: Sequence[Result]) -> bool:
    """Whether the check followed every backward pass of the programs that contain the comment's file.

    Where there is no pass at all, code in a function may still go wrong in another program that calls it.
    """
    around = [one.analysis for one in results if directive.span.path in one.names]
    reached = {place for one in around for place in one.passes - one.missed.keys()}
    missed = {place for one in around for place in one.missed}
    return all(one.complete for one in around) and missed <= reached and (bool(reached) or directive.depth == 0)


def _is_selected(pattern: str, results: Sequence[Result]) -> bool:
    """Whether a mistake that *pattern* names would have been found: all *results* looked for its code."""
    return all(
        result.options.select is None or any(matches(pattern, code, "") for code in result.options.select)
        for result in results
    )
