"""``--html``: a page for the browser, beside the report on the terminal."""

from __future__ import annotations

from typing import ClassVar

from autofix import pages
from autofix.report.base import Proved, Repaired, Reporter


class Browser(Reporter):
    """Story, patch, proof, losses, and a picture of the graph."""

    pictured: ClassVar[bool] = True

    def repair(self, told: Repaired) -> None:
        if told.page is not None:
            pages.write(told.page, told.view)

    def proof(self, told: Proved) -> None:
        if told.page is not None and told.view is not None:
            pages.write(told.page, told.view)


REPORTER = Browser
