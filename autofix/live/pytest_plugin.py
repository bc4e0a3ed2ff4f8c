"""``pytest --autofix``: a test that dies of an error of autograd has a section in the report with its cause.

Loaded into every run of pytest by its entry point: without the option it adds that option, and imports nothing more.
"""

from __future__ import annotations

import shlex
from collections.abc import Generator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("autofix")
    group.addoption("--autofix", action="store_true", help="Explain errors of PyTorch's autograd, with a patch.")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("autofix"):
        import autofix.live.frames  # noqa: F401  # a file changed from now on is not the one that runs

        config.pluginmanager.register(Explainer(), "autofix-explainer")


class Explainer:
    """Adds the section to the reports of tests that have failed."""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, None]:
        outcome = yield
        report = outcome.get_result()
        if call.excinfo is None or not report.failed:
            return
        from autofix.live.death import explained

        told = explained(call.excinfo.value, f"autofix run -- pytest {shlex.quote(item.nodeid)}")
        if told is not None:
            report.sections.append(("autofix", told.text.strip()))
