"""Programs that a command line starts: scripts, modules, interpreters, launchers, tests, console scripts."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from autofix.execution.invocation import COMMAND, InvocationError, invocation, misplaced
from autofix.execution.runner import Script, Way


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a package in ``src`` and scripts beside it, in which the caller stands; a folder of programs."""
    root = tmp_path / "project"
    for name in ("src/acme/__init__.py", "src/acme/fit.py", "src/acme/cli/__main__.py", "src/acme/cli/__init__.py"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    for name in ("scripts/train.py", "tests/test_fit.py"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("")
    (root / "pyproject.toml").write_text('[tool.setuptools.packages.find]\nwhere = ["src"]\n')
    (root / "train.sh").write_text("#!/bin/sh\nset -e\npython scripts/train.py --epochs 3\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    texts = {
        "pytest": f"#!{sys.executable}\nimport pytest\n",
        "torchrun": f"#!{sys.executable}\nfrom torch.distributed.run import main\n",
        "acme": f"#!{sys.executable}\nimport sys\nfrom acme.fit import main\nsys.exit(main())\n",
        "long": f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\nfrom acme.fit import main\n",
        "other": f"#!{sys.executable}\nimport json\n",
    }
    for name, text in texts.items():
        (programs / name).write_text(text)
    (programs / "python3").symlink_to(sys.executable)
    for path in (*programs.iterdir(), root / "train.sh"):
        if not path.is_symlink():
            path.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(root)
    return root


def start(*words: str) -> Script:
    return invocation(words).script


@pytest.mark.parametrize(
    ("words", "path", "way", "args"),
    [
        ("scripts/train.py --lr 1", "scripts/train.py", Way.FILE, "--lr 1"),
        ("-m acme.fit --lr 1", "src/acme/fit.py", Way.MODULE, "--lr 1"),
        ("-m acme.cli", "src/acme/cli/__main__.py", Way.MODULE, ""),
        ("-- python3 -u scripts/train.py --lr 1", "scripts/train.py", Way.FILE, "--lr 1"),
        ("-- python3 -X dev -m acme.fit a", "src/acme/fit.py", Way.MODULE, "a"),
        ("-- python3 -m pytest -x tests/test_fit.py::test_a", "tests/test_fit.py", Way.MODULE, None),
        ("-- pytest -x tests/test_fit.py::test_a", "tests/test_fit.py", Way.FILE, "-x tests/test_fit.py::test_a"),
        ("-- torchrun --nproc_per_node=1 scripts/train.py --lr 1", "scripts/train.py", Way.COMMAND, None),
        ("-- torchrun --nproc_per_node 1 -m acme.fit", "src/acme/fit.py", Way.COMMAND, None),
        ("-- python3 -m torch.distributed.run scripts/train.py", "scripts/train.py", Way.COMMAND, None),
        ("-- ./train.sh", "scripts/train.py", Way.COMMAND, ""),
        ("-- sh train.sh", "scripts/train.py", Way.COMMAND, "train.sh"),
        ("-- acme --lr 1", "src/acme/fit.py", Way.FILE, "--lr 1"),
        ("-- long --lr 1", "src/acme/fit.py", Way.FILE, "--lr 1"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_words_lead_to_the_source_that_they_run(
    words: str, path: str, way: Way, args: str | None, project: Path
) -> None:
    script = start(*words.split())
    assert (script.path.resolve(), script.way) == (project / path, way)
    assert (script.folder, script.start) == (project, project)
    if args is not None:
        assert " ".join(script.args) == args


def test_the_interpreter_of_a_command_is_the_one_that_is_run(tmp_path: Path) -> None:
    assert invocation([COMMAND, "python3", "scripts/train.py"]).python == str(tmp_path / "bin" / "python3")
    assert invocation([COMMAND, "acme"]).python == sys.executable
    assert invocation(["scripts/train.py"], python="/opt/python").python == "/opt/python"
    assert invocation([COMMAND, "python3", "-O", "-u", "scripts/train.py"]).script.options == ("-O",)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("nowhere.py", "File 'nowhere.py' does not exist."),
        ("scripts", "'scripts' is a folder; name a script."),
        ("book.ipynb", "File 'book.ipynb' does not exist."),
        ("-m", "Missing the module behind -m."),
        ("-m acme.nothing", "No module named 'acme.nothing'"),
        ("--", "Missing the command behind --."),
        ("-- nothing", "There is no program 'nothing'."),
        ("-- python3 -c pass", "`python3 -c pass` runs no file; autofix repairs files."),
        ("-- pytest", "Name the test's file: autofix run -- pytest tests/test_training.py::test_name"),
        ("-- torchrun --help", "`torchrun --help` names no Python file of this project."),
        ("-- other", "other starts no module of this project."),
    ],
    ids=lambda value: value,
)
def test_a_call_that_leads_nowhere_is_one_line(words: str, error: str) -> None:
    with pytest.raises(InvocationError) as raised:
        start(*words.split())
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_root_can_be_named_and_must_hold_the_script(project: Path) -> None:
    assert invocation(["scripts/train.py"], root=project / "scripts").script.folder == project / "scripts"
    with pytest.raises(InvocationError, match="lies outside of the root"):
        invocation(["scripts/train.py"], root=project / "src")


def test_options_behind_the_script_are_known_to_it_or_misplaced() -> None:
    script = Script(Path("train.py"), args=("--fix", "--seed=3", "--batch-size", "4", "--steps", "5"))
    text = 'parser.add_argument("--seed")\nflags.DEFINE_integer("steps", 3)\n'
    assert misplaced(script, [text], ["--fix", "--seed", "--steps"]) == ["--fix"]
