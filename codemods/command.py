"""A codemod as a command of LibCST: ``python -m libcst.tool codemod``."""

from __future__ import annotations

import inspect
from typing import Any, cast

import libcst as cst
from libcst.codemod import CodemodCommand, CodemodContext

from autofix.codemods.repair import mend
from autofix.codemods.source.program import Program


class Command(CodemodCommand):
    """The part of a codemod that LibCST calls."""

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        cls.DESCRIPTION = (inspect.getdoc(cls) or "").partition("\n")[0]

    def __init__(self, context: CodemodContext | None = None) -> None:
        super().__init__(context or CodemodContext())

    def transform_module_impl(self, tree: cst.Module) -> cst.Module:
        """Repair every fact that this codemod answers."""
        mended = mend(Program.of(tree.code, self.context.filename or "<unknown>"), [cast(Any, type(self))])
        return cst.parse_module(mended.patched.files[0].text)
