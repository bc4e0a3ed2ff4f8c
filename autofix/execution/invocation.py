"""The program that the user runs: a script, a module, or a whole command, as words of the command line.

``SCRIPT ARGS`` and ``-m MODULE ARGS`` are run by the interpreter that was asked for, a command by its own: ``python``
as the shell finds it, or the interpreter in the first line of a program such as pytest or a console script.
Launchers (``torchrun``, ``accelerate launch``, a shell script) are started as they are; the first Python program that
comes up below them is watched.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autofix.child.launchers import LAUNCHERS, LAUNCHING_MODULES, WITH_VALUE
from autofix.codemods.source.nodes import Nodes
from autofix.execution import kernels
from autofix.execution.runner import Script, Way
from autofix.project import files, imports
from autofix.project.cells import SUFFIX, name_of_cell
from autofix.project.disk import Inquiry
from autofix.project.layout import Layout, environment_roots, layout_of

COMMAND, MODULE = "--", "-m"
"""First words of a command line, which tell a command and a module from a script."""
TESTERS = ("pytest", "py.test")
_PYTHON = re.compile(r"(python|pypy)[\d.]*(\.exe)?", re.IGNORECASE)
_LONG = re.compile(r"""'''exec' "?([^"\n]+?)"? """)
"""Line in which pip writes an interpreter whose path is too long for the first line."""
_STARTERS = LAUNCHERS | {"mpirun", "mpiexec"}


class InvocationError(Exception):
    """A call that leads to no source file; the message is for the user."""


@dataclass(frozen=True)
class Invocation:
    """A program to run, and the interpreter that runs it."""

    script: Script
    python: str
    lacking: str = ""
    """Package without which a notebook runs as a script, and in no kernel; empty for any other program."""


def invocation(
    words: Sequence[str], *, root: Path | None = None, cwd: Path | None = None, python: str | None = None
) -> Invocation:
    """The program that *words* start from the folder *cwd*.  Raises :class:`InvocationError`."""
    here = files.absolute(cwd or Path())
    first, *rest = words or [""]
    caller = _Caller(here, root, python or sys.executable, cwd is not None)
    if first == MODULE:
        return caller.module(rest, ())
    if first != COMMAND:
        return caller.file(first, rest, ())
    if not rest:
        raise InvocationError("Missing the command behind --.")
    return caller.command(rest)


@dataclass(frozen=True)
class _Caller:
    """The surroundings of a call."""

    cwd: Path
    root: Path | None
    python: str
    is_there: bool = True
    """Whether ``cwd`` was asked for; a notebook starts in its own folder otherwise, as in Jupyter."""

    def layout(self, path: Path) -> Layout:
        return layout_of(path, root=self.root, cwd=self.cwd)

    def made(
        self, path: Path, way: Way, args: Sequence[str], target: str = "", options: Sequence[str] = ()
    ) -> Invocation:
        """The invocation whose main source is at *path*."""
        if path.suffix == SUFFIX and not self.is_there:
            return replace(self, cwd=files.absolute(path).parent, is_there=True).made(path, way, args, target, options)
        layout = self.layout(path)
        if not path.resolve().is_relative_to(layout.root):
            raise InvocationError(f"{path} lies outside of the root {layout.root}.")
        program = text_of_notebook(path)
        lacking = "" if program is None else kernels.lacking(self.python)
        script = Script(
            path,
            args=tuple(args),
            root=layout.root,
            cwd=self.cwd,
            way=way if program is None or lacking else Way.NOTEBOOK,
            target=target,
            options=tuple(options),
            text=program,
            plain=program,
        )
        return Invocation(script, self.python, lacking)

    def file(self, name: str, args: Sequence[str], options: Sequence[str]) -> Invocation:
        """``python NAME ARGS``."""
        path = self.cwd / name
        if not path.exists() and Path(name).exists():  # from where the caller stands, and not the run
            path = files.absolute(Path(name))
        shown = path if Path(name).is_absolute() or self.cwd != files.absolute(Path()) else Path(name)
        if path.is_dir():
            if not (path / "__main__.py").is_file():
                raise InvocationError(f"'{name}' is a folder; name a script.")
            shown = shown / "__main__.py"
        elif not path.exists():
            raise InvocationError(f"File '{name}' does not exist.")
        return self.made(shown, Way.FILE, args, options=options)

    def module(self, words: Sequence[str], options: Sequence[str]) -> Invocation:
        """``python -m NAME ARGS``."""
        if not words:
            raise InvocationError("Missing the module behind -m.")
        name, *args = words
        path = self.source_of(name) if name not in TESTERS else self.named_test(args)
        return self.made(path, Way.MODULE, args, target=name, options=options)

    def named_test(self, args: Sequence[str]) -> Path:
        """The file of the test that pytest is given."""
        named = filter(None, map(self.source_named, args))
        if (found := next(named, None)) is not None:
            return found
        raise InvocationError("Name the test's file: autofix run -- pytest tests/test_training.py::test_name")

    def source_named(self, word: str) -> Path | None:
        """The Python file that a word names, a test's behind it left out."""
        path = word.partition("::")[0]
        if not path.endswith(".py") or not (self.cwd / path).is_file():
            return None
        return Path(path) if self.cwd == files.absolute(Path()) else self.cwd / path

    def source_of(self, module: str) -> Path:
        """The file of a module that is run by its name."""
        layout = self.layout(self.cwd / "module.py")
        variable = [Path(place) for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
        folders = [self.cwd, *variable, *layout.import_roots, *environment_roots(self.python)]
        search = list(dict.fromkeys(str(self.cwd / folder) for folder in folders))
        for one in (f"{module}.__main__", module):
            found = imports.files_of(imports.Imported(one, 0, ()), self.cwd / "-", search, Inquiry())
            if found and found[0].name != "__init__.py":
                place = files.display_name(found[0])
                return Path(place)
        raise InvocationError(
            f"No module named '{module}' below {', '.join(map(files.display_name, map(Path, search)))}."
        )

    def command(self, words: Sequence[str]) -> Invocation:
        """A whole command, as a shell would be given it."""
        name, *args = words
        program = shutil.which(name, path=os.pathsep.join([str(self.cwd), os.environ.get("PATH", "")])) or ""
        if os.sep in name and not program and (self.cwd / name).is_file() and name.endswith(".py"):
            return self.file(name, args, ())
        if not program:
            raise InvocationError(f"There is no program '{name}'.")
        if _PYTHON.fullmatch(Path(name).name):
            return _Caller(self.cwd, self.root, program).interpreted(args, words)
        interpreter = shebang(Path(program))
        caller = _Caller(self.cwd, self.root, interpreter or self.python)
        if interpreter and Path(program).resolve().is_relative_to(self.cwd) and name.endswith(".py"):
            return caller.file(name, args, ())
        if Path(program).name in TESTERS and not interpreter:  # a shim of pyenv, say
            return caller.made(caller.named_test(args), Way.COMMAND, args, target=program)
        if not interpreter or Path(program).name in _STARTERS:
            return caller.made(caller.named_source(words, program), Way.COMMAND, args, target=program)
        return caller.made(caller.main_source(Path(program), args), Way.FILE, args, target=program)

    def interpreted(self, args: Sequence[str], words: Sequence[str]) -> Invocation:
        """The command of an interpreter: its options, then a script or a module."""
        options: list[str] = []
        left = list(args)
        while left and left[0].startswith("-") and left[0] not in ("-m", "-c", "-"):
            options.append(left.pop(0))
            if options[-1] in WITH_VALUE and left:
                options.append(left.pop(0))
        options = [option for option in options if option not in ("-u", "-B")]  # as all runs are
        if not left or left[0] in ("-c", "-"):
            raise InvocationError(f"`{shlex.join(words)}` runs no file; autofix repairs files.")
        if left[0] != "-m":
            return self.file(left[0], left[1:], options)
        if len(left) > 1 and left[1].startswith(LAUNCHING_MODULES):
            return self.made(self.named_source(left[2:], ""), Way.COMMAND, args, target=self.python)
        return self.module(left[1:], options)

    def named_source(self, words: Sequence[str], program: str) -> Path:
        """The script or module that a launcher is given, or that a shell script names."""
        for at, word in enumerate(words):
            if (found := self.source_named(word)) is not None:
                return found
            if word in ("-m", "--module") and at + 1 < len(words) and not words[at + 1].startswith("-"):
                return self.source_of(words[at + 1])
        for place in (Path(program or os.devnull), *(self.cwd / word for word in words)):
            text = _beginning(place) if place.is_file() else ""
            named = re.findall(r"[\w./-]+\.py\b", text) if text.startswith("#!") else []
            for word in named:
                if (self.cwd / word).is_file():
                    return Path(word)
        raise InvocationError(f"`{shlex.join(words)}` names no Python file of this project.")

    def main_source(self, program: Path, args: Sequence[str]) -> Path:
        """The source to read for a Python program of the environment: the test, or the console script's own module."""
        if program.name in TESTERS:
            return self.named_test(args)
        for module in _imported_by(program):
            try:
                return self.source_of(module)
            except InvocationError:
                continue
        raise InvocationError(f"{program} starts no module of this project.")


def text_of_notebook(path: Path) -> str | None:
    """Text of a notebook's cells as one script; None for any other file.  Raises :class:`InvocationError`."""
    if path.suffix != SUFFIX:
        return None
    try:
        file = files.read(path)
    except files.FileError as error:
        raise InvocationError(str(error)) from None
    broken = next(file.notebook.problems, None) if file.notebook is not None else None
    if broken is not None:
        cell, reason, line, column = broken
        raise InvocationError(f"{name_of_cell(file.name, cell)}:{line}:{column}: {reason}")
    return file.text


def shebang(program: Path) -> str:
    """The interpreter of a Python program, from its first line; empty for any other program."""
    first, _, rest = _beginning(program).partition("\n")
    if first == "#!/bin/sh" and (long := _LONG.match(rest)):
        first = f"#!{long[1]}"
    if not first.startswith("#!"):
        return ""
    words = first[2:].split()
    if words and Path(words[0]).name == "env":
        words = [shutil.which(words[1]) or ""] if len(words) > 1 else []
    return words[0] if words and _PYTHON.fullmatch(Path(words[0]).name) else ""


def _beginning(program: Path) -> str:
    try:
        with open(program, "rb") as file:
            return file.read(65536).decode("utf-8", "replace")
    except OSError:
        return ""


def _imported_by(program: Path) -> list[str]:
    """The modules that a console script imports."""
    try:
        tree = ast.parse(program.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return []
    modules = [one.module for one in imports.with_loaded(Nodes(tree))]
    return [name for name in modules if name not in ("sys", "re", "importlib.metadata")]


def misplaced(script: Script, texts: Sequence[str], options: Sequence[str]) -> list[str]:
    """The *options* of autofix's own that stand behind the script, and that occur in none of its *texts*."""
    given = dict.fromkeys(word.partition("=")[0] for word in script.args if word.startswith("--"))
    names = [option for option in given if option in options]
    return [name for name in names if not any(_spelled(name, text) for text in texts)]


def _spelled(option: str, text: str) -> bool:
    """Whether a text has the name of an option as a word: ``--batch-size`` may be ``batch_size``."""
    name = option.lstrip("-")
    return re.search(rf"\b(?:{re.escape(name)}|{re.escape(name.replace('-', '_'))})\b", text) is not None
