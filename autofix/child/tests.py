"""Runs of pytest: it catches what a test raises, and this module what pytest has caught."""

from __future__ import annotations

import importlib.util
import os
import sys
import types
from typing import Any

from .job import Job

PLUGIN = "_autofix_pytest"


class Caught:
    """The first error of a test, while pytest runs; of other programs, none."""

    def __init__(self, job: Job) -> None:
        self.error: BaseException | None = None
        if job.target == "pytest" or os.path.basename(job.target) in ("pytest", "py.test", "pytest.exe"):
            self._enter()

    def _enter(self) -> None:
        """Have pytest load a plugin, and run the tests in this process."""
        module = types.ModuleType(PLUGIN)
        module.pytest_exception_interact = self._note  # type: ignore[attr-defined]
        sys.modules[PLUGIN] = module
        options = [os.environ.get("PYTEST_ADDOPTS", ""), f"-p {PLUGIN}"]
        if importlib.util.find_spec("xdist") is not None:
            options.append("-n 0")
        os.environ["PYTEST_ADDOPTS"] = " ".join(filter(None, options))

    def _note(self, node: Any, call: Any, report: Any) -> None:
        if self.error is None and call.excinfo is not None:
            self.error = call.excinfo.value
