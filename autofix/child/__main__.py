"""The program that a child process runs: ``python .../autofix/child JOB.json``.

It loads this folder as a package under a private name, so that neither the folder nor its module names (``trace``,
``server``) are visible to the user's script, which has an import path of its own.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

PACKAGE = "_autofix_child"


def load(module: str) -> object:
    """Import *module* of this folder as ``_autofix_child.module``."""
    if PACKAGE not in sys.modules:
        folder = Path(__file__).absolute().parent
        spec = importlib.util.spec_from_file_location(
            PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None
        assert spec.loader is not None
        package = importlib.util.module_from_spec(spec)
        sys.modules[PACKAGE] = package
        spec.loader.exec_module(package)
    return importlib.import_module(f"{PACKAGE}.{module}")


if __name__ == "__main__":
    sys.path.pop(0)  # this folder; the stage puts the script's own there
    start = load("start")
    start.main(sys.argv[1:])  # type: ignore[attr-defined]
