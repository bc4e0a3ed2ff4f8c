"""The arrows of the architecture: permitted imports, and that reading source needs no torch."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from autofix.codemods.checks.checks import CHECKS
from autofix.codemods.facts.kinds import ALL
from autofix.codemods.facts.legacy import OldKeyword

ROOT = Path(__file__).parents[1]
SOURCES = sorted({path for folder in ("autofix", "autofix/codemods") for path in (ROOT / folder).rglob("*.py")})
OF_CHILD = ROOT / "autofix" / "child"
SHARED = (
    "autofix.child.job",
    "autofix.child.keeper",
    "autofix.child.launchers",
    "autofix.child.recorded",
    "autofix.child.wire",
)
"""Modules on which the child and its parent have to agree."""
DISTILS = ROOT / "autofix" / "codemods" / "autograd" / "distil_catalogue.py"
FLOORS = [
    ["autofix.codemods.facts", "autofix.codemods.promises"],
    ["autofix.codemods.source"],
    ["autofix.codemods.autograd"],
    ["autofix.codemods.rewriting"],
    ["autofix.codemods.formula"],
    ["autofix.codemods.interpreter"],
    ["autofix.codemods.checks"],
    ["autofix.codemods.interpreter.analysis"],
    ["autofix.codemods.proof"],
    ["autofix.codemods.branches"],
    ["autofix.codemods.repair"],
    ["autofix.codemods.command"],
    ["autofix.codemods.rules"],
    ["autofix.child", "autofix.exits", "autofix.progress", "autofix.execution.guard"],
    ["autofix.execution.guardian"],
    ["autofix.project"],
    ["autofix.execution", "autofix.patch"],
    ["autofix.proof"],
    ["autofix.findings", "autofix.results"],
    ["autofix.engine"],
    ["autofix.cache"],
    ["autofix.settings"],
    ["autofix.checking", "autofix.evidence", "autofix.foreign"],
    ["autofix.suppression"],
    ["autofix.choices"],
    ["autofix.outcomes", "autofix.repair"],
    ["autofix.report"],
    ["autofix.live"],
    ["autofix.lightning"],
    ["autofix.pages", "autofix.review", "autofix.revision", "autofix.campaign"],
    ["autofix.report.formats"],
    ["autofix.options"],
    ["autofix.server"],
    ["autofix.commands"],
    ["autofix.api"],
    ["autofix.cli"],
    ["autofix.__main__"],
]
"""Folders and modules, the lowest first: each knows only its own floor's own folder, and the floors below it."""


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Every module that *path* imports, anywhere in it, by its full name."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                parts = module_name(path).split(".")
                base = ".".join(parts[: len(parts) - node.level + (path.name == "__init__.py")])
                yield f"{base}.{node.module}" if node.module else base
            else:
                yield str(node.module)
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def names(path: Path, module: str) -> bool:
    return any(used == module or used.startswith(module + ".") for used in imports(path))


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_only_the_child_imports_torch(path: Path) -> None:
    """The module that distils PyTorch's data imports it, too, and no other module imports that one."""
    assert path.is_relative_to(OF_CHILD) or path == DISTILS or not names(path, "torch")
    assert not names(path, module_name(DISTILS))


@pytest.mark.parametrize("path", [path for path in SOURCES if path.is_relative_to(OF_CHILD)], ids=module_name)
def test_the_child_imports_torch_and_the_standard_library_alone(path: Path) -> None:
    """The child runs inside the user's interpreter, started as a program from its own folder.

    One module of it is a notebook's kernel.
    """
    others = {module.split(".")[0] for module in imports(path) if not f"{module}.".startswith("autofix.child.")}
    assert others <= sys.stdlib_module_names | {"torch", *(["ipykernel"] if path.name == "kernel.py" else [])}


@pytest.mark.parametrize("path", [path for path in SOURCES if not path.is_relative_to(OF_CHILD)], ids=module_name)
def test_nobody_imports_the_child(path: Path) -> None:
    """But for the modules that both sides have to agree on, which import nothing of the child itself."""
    known = {used for used in imports(path) if used.startswith("autofix.child.")}
    assert all(used.startswith(SHARED) for used in known)


@pytest.mark.parametrize("module", SHARED)
def test_what_the_child_and_its_parent_share_needs_no_torch(module: str) -> None:
    path = ROOT / f"{module.replace('.', '/')}.py"
    others = {used for used in imports(path) if not used.startswith(SHARED)}
    assert {used.split(".")[0] for used in others} <= sys.stdlib_module_names


@pytest.mark.parametrize("path", sorted((ROOT / "autofix" / "codemods").rglob("*.py")), ids=module_name)
def test_codemods_know_nothing_of_the_tool_and_touch_nothing(path: Path) -> None:
    others = {used for used in imports(path) if used.split(".")[0] == "autofix" and used != "autofix"}
    assert all(f"{used}.".startswith("autofix.codemods.") for used in others)


@cache
def loaded(path: Path) -> tuple[str, ...]:
    """The modules of the two packages that *path* loads, in functions as well; not for type hints alone."""
    return tuple(_loaded(path))


def _loaded(path: Path) -> Iterator[str]:
    base = module_name(path).split(".")
    base = base if path.name == "__init__.py" else base[:-1]
    pending: list[ast.AST] = [ast.parse(path.read_bytes())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            pending.extend(node.orelse)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            around = base[: len(base) - node.level + 1] if node.level else []
            module = ".".join([*around, *([node.module] if node.module else [])])
            parts = [f"{module}.{alias.name}" for alias in node.names]
            yield from (part if part in MODULES else module for part in parts if part in MODULES or module in MODULES)
        elif not isinstance(node, (ast.expr, ast.expr_context)):  # no expression imports anything
            pending.extend(ast.iter_child_nodes(node))


MODULES = {module_name(path): path for path in SOURCES}


def floor_of(module: str) -> tuple[int, str] | None:
    """The number of a module's floor, and its folder there; None where it has none."""
    found = [
        (number, part) for number, floor in enumerate(FLOORS) for part in floor if f"{module}.".startswith(f"{part}.")
    ]
    return max(found, key=lambda one: len(one[1]), default=None)


@pytest.mark.parametrize("module", MODULES)
def test_arrows_point_down(module: str) -> None:
    """A module loads only its own folder, the floors below, and modules beside the floors."""
    own = floor_of(module)
    below = {other: floor_of(other) for other in loaded(MODULES[module])} if own is not None else {}
    wrong = [other for other, floor in below.items() if floor and own and floor[1] != own[1] and floor[0] >= own[0]]
    assert not wrong, f"{module} is on floor {own} and loads {wrong}"


def test_every_folder_has_its_floor() -> None:
    folders = {
        ".".join(module.split(".")[: 3 if module.startswith("autofix.codemods") else 2])
        for module, path in MODULES.items()
        if len(path.parts) > len(ROOT.parts) + 2
    }
    assert not [folder for folder in folders - {"autofix.codemods"} if floor_of(folder) is None]


def test_the_kinds_of_values_are_known_by_their_values_alone() -> None:
    """Nobody but the module that composes the interpreter loads the behaviour of a kind: it is asked of a value."""
    kinds = "autofix.codemods.interpreter.kinds"
    composer = "autofix.codemods.interpreter.interpreter"
    users = {module for module, path in MODULES.items() for used in loaded(path) if used.startswith(f"{kinds}.")}
    others = users - {composer}
    assert composer in users
    assert all(
        used in (f"{kinds}.kind", kinds) or not used.startswith(kinds)
        for one in others
        for used in loaded(MODULES[one])
    )


def test_no_import_goes_in_a_circle() -> None:
    """Modules load each other in one order, imports inside functions included."""
    arrows = {module: set(loaded(path)) - {module} for module, path in MODULES.items()}
    while first := {module for module, others in arrows.items() if not others}:
        arrows = {module: others - first for module, others in arrows.items() if module not in first}
    assert not arrows, f"in a circle, or above one: {sorted(arrows)}"


def test_installing_the_tool_does_not_install_torch() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[^a-z0-9-]", dependency.lower())[0] for dependency in project["dependencies"]}
    assert names == {"click", "libcst", "msgspec", "pathspec", "rich", "unidiff"}


def test_the_wheel_holds_both_packages_and_their_data(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("torch_autofix-*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    expected = {path.relative_to(ROOT).as_posix() for path in SOURCES}
    others = [*(ROOT / "autofix" / "codemods").rglob("*.json"), *(ROOT / "autofix" / "report" / "templates").iterdir()]
    data = {path.relative_to(ROOT).as_posix() for path in others}
    assert data
    assert expected | data <= held
    assert not any(name.startswith(("tests/", "fixtures/")) for name in held)


NO_TORCH = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "torchgen", "numpy"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from autofix.cli import main
sys.exit(main(sys.argv[1:]))
"""
SCRIPT = """
import torch
from torch import nn

net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
store = []
for step in range(10):
    h = net(torch.randn(2, 4))
    store.append(h)
    loss = sum(item.sum() for item in store)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def without_torch(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", NO_TORCH, *arguments]
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_check_needs_no_torch(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = without_torch("check", "train.py", folder=tmp_path)
    assert done.stderr == ""
    assert done.returncode == 1
    assert done.stdout.startswith("train.py:10:")


def test_rule_needs_no_torch(tmp_path: Path) -> None:
    done = without_torch("rule", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_fact_of_the_tape_has_one_check() -> None:
    told = [kind for check in CHECKS for kind in check.kinds]
    assert len(set(told)) == len(told)
    assert set(ALL) - set(told) == {OldKeyword}  # which is read in the text alone
