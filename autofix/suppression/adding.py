"""``--add-ignores``: writes a comment at every finding that suppresses it from now on."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterable, Mapping

from autofix.checking import Edit, Problem
from autofix.findings import Finding
from autofix.suppression.directives import directives_in, statements_of

_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_IGNORE = re.compile(r"(#\s*autofix:\s*ignore\s*)\[([^\]#]*)\]")


def with_ignores(text: str, path: str, findings: Iterable[Finding]) -> str:
    """*text* with a comment behind the statement of each of *findings*, which are of this file."""
    lines = [[content, end] for content, end in _LINE.findall(text)]
    statements = statements_of(text)
    wanted: dict[int, set[str]] = {}
    for finding in findings:
        statement = next((one for one in statements if one.first <= finding.cause.line <= one.last), None)
        wanted.setdefault(statement.last if statement else finding.cause.line, set()).add(finding.code)
    for number, codes in wanted.items():
        lines[number - 1][0] = _with_codes(lines[number - 1][0], codes)
    return "".join(content + end for content, end in lines)


def _with_codes(line: str, codes: set[str]) -> str:
    known = _IGNORE.search(line)
    if known is None:
        return f"{line.rstrip()}  # autofix: ignore[{', '.join(sorted(codes))}]"
    before = [code.strip() for code in known[2].split(",") if code.strip()]
    both = ", ".join([*before, *sorted(codes.difference(before))])
    return f"{line[: known.start()]}{known[1]}[{both}]{line[known.end() :]}"


def ignores(findings: Iterable[Finding], sources: Mapping[str, Edit]) -> Iterable[Edit | Problem]:
    """Yield each file with comments for its *findings*; *sources* are the files as they are, by name.

    A file in which a comment would not do is a problem, and stays as it is.
    """
    by_file: dict[str, list[Finding]] = {}
    for finding in findings:
        by_file.setdefault(finding.cause.path, []).append(finding)
    for path, own in sorted(by_file.items()):
        edit = sources[path]
        try:
            text = with_ignores(edit.file.text, path, own)
        except (SyntaxError, tokenize.TokenError) as error:
            yield Problem(path, f"no comment can be added: {error}")
            continue
        written = directives_in(path, text)
        open_ones = [one for one in own if not any(directive.covers(one) for directive in written)]
        if open_ones:
            yield Problem(path, f"no comment can be added for {open_ones[0].code}", open_ones[0].cause.line)
        else:
            yield edit._replace(text=text)
