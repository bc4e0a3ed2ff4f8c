"""``make docs``: writes docs/rules.md, the codemods' docstrings with an example from the fixtures for each.

Also docs/schema.json, the JSON schema of what ``--output-format json`` prints, from the types of the documents.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
from pathlib import Path

from autofix.codemods.rules.base import Codemod
from autofix.codemods.rules.registry import all_codemods
from autofix.report import schema
from autofix.report.manual import rules

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "rules.md"
SCHEMA = ROOT / "docs" / "schema.json"
CONTEXT = 3
"""Unchanged lines around a change."""


def text() -> str:
    """Return the page as it should be."""
    known = all_codemods()
    return rules(known, {codemod.code: example(codemod) for codemod in known})


def json_schema() -> str:
    """Return the JSON schema of the documents of all commands."""
    import msgspec

    documents = (schema.CheckDocument, schema.RunDocument, schema.ProveDocument, schema.CampaignDocument)
    refs, components = msgspec.json.schema_components(documents, ref_template="#/$defs/{name}")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "autofix --output-format json"}
    return json.dumps({**head, "anyOf": list(refs), "$defs": components}, indent=2) + "\n"


def example(codemod: type[Codemod]) -> str:
    """Return the diff of the codemod's main fixture, the one that is called like its module; empty without one."""
    module = codemod.__module__.rpartition(".")[2]
    named = sorted(path for path in (ROOT / "fixtures").glob(f"{module}*") if (path / "fixed.py").exists())
    if not named:
        return ""
    before, after = (lines(named[0] / name) for name in ("broken.py", "fixed.py"))
    diff = list(difflib.unified_diff(before, after, n=CONTEXT, lineterm=""))[2:]
    return "\n".join(re.sub(r"^@@ .*", "@@", line).rstrip() for line in diff).removeprefix("@@\n").strip("\n")


def lines(path: Path) -> list[str]:
    return path.read_bytes().decode("utf-8").splitlines()


def main() -> int:
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text(), encoding="utf-8")
    SCHEMA.write_text(json_schema(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)} and {SCHEMA.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
